//! A launch: the data that its CTAs share, and the execution of its units.

use std::sync::Arc;

use margay_exec::{
    ClusterLanes, CtaInfo, CtaOutcome, CtaState, LaunchInfo, Order, SyncFinding, SyncPoint,
};

use super::faults;
use super::hang::Waits;
use super::helpers::{HostData, TidTable};
use super::interpreted::InterpretedCta;
use super::kernel::{KernelCode, StackUse, Wanted};
use super::native_cta::{self, NativeCta};
use super::observe::{self, Examiner, Recorder, SPARE};
use super::reach::{self, Reach};
use super::tier::TieredLaunch;
use super::turns::TurnBudget;
use super::unit::{CtaKind, Resident};
use crate::checks::{Finding, Place, Severity, ThreadPlace, Tool, Undefined};
use crate::engine::{Hang, LaunchShape, ParkedUnit, PreparedLaunch, RunOutcome, Worker};
use crate::error::{Error, Fault, FaultKind, Result};
use crate::memory::CtaWindow;
use crate::observe::{Launch, LaunchSink, Shape};

/// Maximum size in bytes of the local memory of all CTAs of a unit together.
const LOCAL_WINDOW: u64 = 1 << 32;

/// Returns the distance in bytes between the local memories of consecutive CTAs of a cluster.
fn local_of_cta(stride: u32, info: &LaunchInfo) -> u64 {
    (u64::from(stride) * u64::from(info.threads())).next_multiple_of(64)
}

/// The factor by which a thread's stack is larger than the stack limit, if it contains all values
/// that live across calls ([`StackUse::Frames`]). On a GPU, most values that live across calls are
/// in registers and do not count against the limit.
const FRAME_FACTOR: u64 = 8;
/// Minimum size in bytes of a stack that contains all values that live across calls, if the window
/// of local memory is large enough. With this size, a program with recursion of usual depth need
/// not raise the stack limit.
const LEAST_FRAMES: u64 = 64 << 10;
/// Number of bytes that are added to the size of a thread's stack if the stack holds all values that live across calls
/// ([`StackUse::Frames`]). Without these bytes, the distance between the stacks of neighbouring threads would often be
/// a power of two, and the stacks would compete for the same cache sets.
const SKEW: u64 = 208;

/// Returns the size of a thread's stack in bytes. The size is 0 if the kernel does not use the stack
/// ([`StackUse::None`]), else at least the stack limit. As in CUDA, calls without recursion may use more stack than the
/// limit; the limit restricts only the depth of recursion.
fn stack_bytes(code: &KernelCode, shape: &LaunchShape, info: &LaunchInfo) -> u32 {
    let limit = shape.stack_bytes;
    let need = u64::from(code.stack_need.bytes);
    let slots = match code.stack_need.recursive {
        true => need.saturating_add(limit),
        false => need.max(limit),
    };
    let bytes = match code.stack {
        StackUse::None => 0,
        StackUse::Slots => slots,
        StackUse::Frames => {
            let threads = u64::from(info.threads().max(1)) * u64::from(info.cluster_size().max(1));
            let room = shape.windows.local_span / 4 / threads;
            let frames = limit.saturating_mul(FRAME_FACTOR).max(LEAST_FRAMES) + SKEW;
            frames.saturating_add(need).min(room).max(slots)
        }
    };
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A launch of a kernel, as the data that workers need to run it.
pub(super) struct PtxLaunch {
    pub(super) code: Arc<KernelCode>,
    pub(super) shape: LaunchShape,
    pub(super) info: LaunchInfo,
    /// Launch data of the CTA with each rank in its cluster; empty if a cluster has only one CTA.
    /// The offsets of shared variables differ between ranks.
    ranks: Box<[LaunchInfo]>,
    pub(super) tids: Arc<TidTable>,
    /// What the launch requires of native code.
    pub(super) wanted: Wanted,
    pub(super) local_stride: u32,
    /// Number of bytes of `local_stride` that variables and stack frames may occupy.
    stack_limit: u32,
    /// Number of bytes of local memory that a thread may access. The rest of `local_stride` is padding, and in checking
    /// runs also spare memory.
    pub(super) local_bytes: u32,
    /// The number of turns after which lanes in waiting loops yield.
    pub(super) turns: TurnBudget,
    /// The polls and writes of the launch's threads, for hang detection.
    pub(super) waits: Waits,
    /// The receiver of the observed events; `None` if no tool observes the launch.
    pub(super) sink: Option<LaunchSink>,
    /// The workspace of grid barriers; `info.workspace` points to it.
    _workspace: Option<Box<[u64; 32]>>,
}

impl PtxLaunch {
    pub(super) fn new(code: Arc<KernelCode>, shape: LaunchShape) -> Result<Arc<PtxLaunch>> {
        let findings = shape.findings.as_ref();
        let examines = findings.is_some_and(|findings| findings.tools().examine_accesses());
        let workspace = shape.cooperative.then(|| Box::new([0u64; 32]));
        let array = |d: crate::launch::Dim3| [d.x, d.y, d.z];
        let info = LaunchInfo {
            grid: array(shape.grid),
            block: array(shape.block),
            cluster: array(shape.cluster),
            // This field is set below, when the parameters are at their final address.
            params: 0,
            reserved_shared: code.shared.reserved,
            static_shared: code.shared.bytes,
            dynamic_shared: shape.dynamic_shared,
            spare_shared: if examines { SPARE } else { 0 },
            window_spans: [shape.windows.shared_span, shape.windows.local_span],
            grid_id: shape.grid_id,
            sm_count: shape.sms,
            sm_warps: shape.sm_warps,
            workspace: workspace.as_ref().map_or(0, |space| space.as_ptr() as u64),
            symbols: code.symbols.clone(),
            constants: Arc::clone(&code.constants),
            function_base: code.function_base,
        };
        let stack = stack_bytes(&code, &shape, &info);
        let spare = if examines { SPARE } else { 0 };
        let local_bytes = match stack {
            0 => code.local_end,
            _ => code.local_bytes.saturating_add(stack),
        };
        let stack_limit = code.local_bytes.saturating_add(stack).saturating_add(15) & !15;
        let local_stride = match spare {
            0 => stack_limit,
            _ => stack_limit.saturating_add(spare + 31) & !31,
        };
        let local = local_of_cta(local_stride, &info) * u64::from(info.cluster_size());
        if local > LOCAL_WINDOW {
            return Err(Error::LaunchOutOfResources(
                "too much local memory for the block's threads".into(),
            ));
        }
        let shared = u64::from(info.cluster_size()) << info.shared_shift();
        if info.cluster_size() > 1 && shared > shape.windows.shared_span {
            return Err(Error::LaunchOutOfResources(
                "too much shared memory for a cluster in a limited address space".into(),
            ));
        }
        let tids = code.tids(&info);
        let native = code.native.as_ref();
        let wanted = Wanted {
            block: info.block,
            trusted: false,
        };
        let sink = sink(&code, &shape);
        let waits = native.is_ok_and(|kernel| kernel.waits);
        let is_measured = waits && shape.findings.is_none() && sink.is_none();
        let mut launch = Arc::new(PtxLaunch {
            code,
            shape,
            info,
            ranks: Box::default(),
            tids,
            wanted,
            local_stride,
            stack_limit,
            local_bytes,
            turns: TurnBudget::new(is_measured),
            waits: Waits::default(),
            sink,
            _workspace: workspace,
        });
        if let Some(findings) = &launch.shape.findings {
            findings.begin_launch(launch.info.grid_id);
        }
        if let Some(launch) = Arc::get_mut(&mut launch) {
            launch.info.params = launch.shape.params.address();
            launch.wanted.trusted = launch.is_trusted();
            if launch.ranks() > 1 {
                launch.ranks = (0..launch.ranks()).map(|rank| launch.rank(rank)).collect();
            }
        }
        Ok(launch)
    }

    pub(super) fn internal(&self, why: &str) -> Fault {
        Fault::new(FaultKind::LaunchFailed, &self.code.name).with_detail(why)
    }

    /// Returns the launch data for the CTA with the rank `rank` in its cluster.
    fn rank(&self, rank: u32) -> LaunchInfo {
        let mut info = self.info.clone();
        let beyond = u64::from(rank) << info.shared_shift();
        let shared = self.code.shared.offsets.iter();
        let shared = shared.map(|&(symbol, _)| symbol);
        info.symbols = info.symbols.changed(shared, |offset| offset + beyond);
        info
    }

    /// Returns the launch data for a CTA, which depends on the CTA's rank in its cluster.
    pub(super) fn info_for(&self, cta: &CtaInfo) -> &LaunchInfo {
        match self.ranks.is_empty() {
            true => &self.info,
            false => &self.ranks[self.info.cluster_rank(cta) as usize],
        }
    }

    /// Takes from `worker` a window in which enough memory for a unit of this launch is accessible.
    fn window(&self, worker: &mut dyn Worker) -> Result<CtaWindow, Fault> {
        let (shared, local) = self.window_bytes();
        worker.take_window(shared, local).map_err(|error| {
            let fault = Fault::new(FaultKind::OutOfResources, &self.code.name);
            fault.with_detail(format!(
                "no memory for the shared and local memory of a block: {error}"
            ))
        })
    }

    /// Returns the index, the memory and the number of the multiprocessor of the CTA with the rank
    /// `rank` in a unit.
    pub(super) fn cta_info(&self, unit: u64, rank: u32, window: &CtaWindow) -> CtaInfo {
        let cluster = self.info.cluster.map(|n| n.max(1));
        let index = if cluster == [1, 1, 1] {
            self.info.cta_index(unit)
        } else {
            let shape: [u64; 3] =
                std::array::from_fn(|i| u64::from((self.info.grid[i] / cluster[i]).max(1)));
            let at = [
                unit % shape[0],
                unit / shape[0] % shape[1],
                unit / shape[0] / shape[1],
            ];
            let within = [
                rank % cluster[0],
                rank / cluster[0] % cluster[1],
                rank / cluster[0] / cluster[1],
            ];
            std::array::from_fn(|i| at[i] as u32 * cluster[i] + within[i])
        };
        let [x, y, _] = self.info.grid.map(u64::from);
        let linear = u64::from(index[0]) + x * (u64::from(index[1]) + y * u64::from(index[2]));
        let local = u64::from(rank) * local_of_cta(self.local_stride, &self.info);
        CtaInfo {
            index,
            linear,
            shared_base: self.shared_base(window),
            local_base: window.local() + local,
            local_stride: self.local_stride,
            stack_limit: self.stack_limit,
            sm: (linear % u64::from(self.info.sm_count.max(1))) as u32,
        }
    }

    /// Returns the start of shared memory in a window. If [`PtxLaunch::ends_exactly`] returns true, the last byte of
    /// shared memory is the last accessible byte of the window.
    fn shared_base(&self, window: &CtaWindow) -> u64 {
        match self.ends_exactly() {
            true => window.shared_end() - reach::shared_bytes(&self.info),
            false => window.shared(),
        }
    }

    /// Returns whether shared memory ends exactly at the end of the accessible pages of the window.
    /// Accesses beyond the end of shared memory then fault.
    fn ends_exactly(&self) -> bool {
        let bytes = reach::shared_bytes(&self.info);
        let align = u64::from(self.code.shared.align.max(16));
        let whole = self.ranks() == 1 && self.info.spare_shared == 0;
        whole && !self.shape.windows.narrow && bytes.is_multiple_of(align)
    }

    /// Returns whether generated code may omit the checks of addresses that it computes from
    /// pointer parameters. The result is true if all these parameters point to device memory and are
    /// aligned, the grid is not too large, and [`PtxLaunch::ends_exactly`] returns true.
    fn is_trusted(&self) -> bool {
        if self.info.spare_shared != 0 {
            return false;
        }
        let (Some(visible), Ok(kernel)) = (&self.shape.visible, &self.code.native) else {
            return false;
        };
        let [base, _, bytes] = visible.range();
        let params = self.shape.params.bytes();
        let is_usual = |(offset, align): (u32, u32)| {
            let pointer = params
                .get(offset as usize..)
                .and_then(|rest| rest.first_chunk());
            let pointer = pointer.map(|&pointer| u64::from_le_bytes(pointer));
            pointer.is_some_and(|pointer| {
                pointer.is_multiple_of(align.into()) && pointer.wrapping_sub(base) < bytes
            })
        };
        let small = self
            .info
            .grid
            .iter()
            .all(|&blocks| blocks <= margay_jit::MAX_BLOCKS);
        small && self.ends_exactly() && bytes != 0 && kernel.compiled.roots().all(is_usual)
    }

    /// Returns a description of the memory that the threads of a CTA may access. Returns `None` if
    /// accesses are not checked.
    pub(super) fn reach(&self, cta: &CtaInfo) -> Option<Reach<'_>> {
        let visible = self.shape.visible.as_deref()?;
        let params = self.shape.params.bytes().len() as u32;
        Some(Reach::new(visible, self.info_for(cta), cta, params))
    }

    /// Returns the examiner for the accesses of a CTA, if this launch is part of a checking run
    /// that examines accesses.
    pub(super) fn examiner(&self, cta: CtaInfo) -> Option<Examiner<'_>> {
        let findings = self.shape.findings.as_deref()?;
        let visible = self.shape.visible.as_deref()?;
        (self.info.spare_shared != 0).then(|| Examiner::new(self, findings, visible, cta))
    }

    /// Returns the recorder of a CTA's events; `None` if no tool observes the launch.
    pub(super) fn recorder(&self, cta: CtaInfo) -> Option<Recorder<'_>> {
        let sink = self.sink.as_ref()?;
        Some(Recorder::new(self, sink, cta))
    }

    /// Reports to the tools that observe the launch that the CTAs `first .. first + count` have
    /// ended.
    pub(super) fn ended(&self, first: u64, count: u64) {
        if let Some(sink) = &self.sink {
            sink.ended(first, count);
        }
    }

    /// Returns how many of `count` CTAs one call of native code may run. If tools observe the launch, this number is
    /// small, because the records of the CTAs stay in memory until the call returns.
    fn most(&self, count: u64) -> u64 {
        match &self.sink {
            Some(sink) if sink.records() => count.min(OBSERVED_CTAS),
            Some(_) => count.min(COUNTED_CTAS),
            None => count,
        }
    }

    /// Tells the race detector that all CTAs of a cluster have passed a barrier of the cluster.
    pub(super) fn order_cluster(&self, ctas: Vec<(CtaInfo, ClusterLanes)>) {
        let ctas = ctas.into_iter();
        let examined = ctas.filter_map(|(cta, lanes)| Some((self.examiner(cta)?, lanes)));
        observe::synchronise_cluster(examined.collect());
    }

    fn ranks(&self) -> u32 {
        self.info.cluster_size()
    }

    /// Returns the CTA scheduler's state of a CTA that has not started.
    pub(super) fn new_state(&self) -> CtaState {
        let order = match self.shape.reverse {
            true => Order::Reverse,
            false => Order::Forward,
        };
        let state = CtaState::new(self.info.threads(), order);
        let Some(findings) = &self.shape.findings else {
            return state;
        };
        let tools = findings.tools();
        let state = match tools.contains(Tool::Race) {
            true => state.observed(),
            false => state,
        };
        match tools.contains(Tool::Synchronisation) {
            true => state.checking(),
            false => state,
        }
    }

    /// Returns whether every CTA of a kernel with sync points must run region by region under the CTA scheduler, and
    /// never in phases.
    pub(super) fn goes_by_sync_points(&self) -> bool {
        self.shape.reverse && !self.splits_no_warps()
    }

    /// Returns whether tools that observe the launch need records of whole warps. In this case,
    /// native code must not run region by region, because a region runs the lanes of a warp one
    /// after the other.
    fn splits_no_warps(&self) -> bool {
        let observers = self.code.observers.as_ref();
        observers.is_some_and(|observers| observers.selection().whole_warps)
    }

    /// If this launch is part of a checking run, adds the undefined synchronisation of the CTA to
    /// the findings of the run. Returns the fault of the first error, if an error ends the launch.
    pub(super) fn hand_on_findings(&self, cta: &CtaInfo, state: &mut CtaState) -> Option<Fault> {
        let findings = self.shape.findings.as_ref()?;
        let mut fault = None;
        for found in state.take_findings() {
            let finding = self.sync_finding(cta, &found);
            let ends = finding.severity == Severity::Error && findings.ends(self.info.grid_id);
            if ends && fault.is_none() {
                let mut report = self.internal(&finding.text).at_cta(cta.index);
                report.thread = finding.thread.map(|at| at.thread);
                report.ptx_line = finding.place.ptx_line;
                report.source.clone_from(&finding.place.source);
                fault = Some(report);
            }
            findings.add(finding, self.shape.call.as_ref());
        }
        fault
    }

    /// Creates a finding about an undefined use of a barrier in a CTA.
    fn sync_finding(&self, cta: &CtaInfo, found: &SyncFinding) -> Finding {
        let name = found.opcode.name();
        let class = match found.what {
            Undefined::NotInMask
            | Undefined::MasksDiffer
            | Undefined::ShuffleWidth
            | Undefined::BarrierNumber
            | Undefined::BarrierCount
            | Undefined::CountsDiffer
            | Undefined::MixedReduction => "Invalid arguments",
            Undefined::AbsentSource | Undefined::PartOfWarp => "Divergent thread(s) in warp.",
            Undefined::DivergentBarrier
            | Undefined::LeftBeforeBarrier
            | Undefined::SkippedBarrier => "Divergent thread(s) in block.",
            Undefined::ArrivesTwice | Undefined::WaitsWithoutArrival => {
                "Missing arrival or wait at a barrier of a cluster"
            }
        };
        let text = format!("Barrier error detected. {class}");
        let mut finding = Finding::new(found.what.into(), text);
        finding.explanation = Some(format!("{name}: {}", found.what.text()));
        finding.kernel = Some(self.code.name.clone());
        finding.place = Place {
            ptx_line: (found.loc.ptx_line != 0).then_some(found.loc.ptx_line),
            source: faults::source_of(&self.code, found.loc),
        };
        let first = found.warp * 32 + found.lanes.trailing_zeros();
        finding.thread = Some(ThreadPlace {
            thread: self.info.thread_index(first),
            block: cta.index,
        });
        finding.lanes = Some((found.warp, found.lanes));
        finding
    }

    pub(super) fn fail(&self, worker: &dyn Worker, fault: Fault) -> RunOutcome {
        if fault.is_stop() || worker.stop_requested() {
            RunOutcome::Stopped {
                place: faults::place(&fault),
            }
        } else {
            RunOutcome::Fault(fault)
        }
    }

    /// Returns a fault if native code is about to run a CTA region by region and tools need records of whole warps.
    fn check_regions(&self) -> Result<(), Fault> {
        match self.code.native.is_ok() && self.splits_no_warps() {
            true => {
                Err(self.internal("observation of whole warps: the threads of a block diverged"))
            }
            false => Ok(()),
        }
    }

    /// Creates the resident unit with the index `unit`, whose threads have not started.
    fn start(&self, unit: u64, window: CtaWindow) -> Resident {
        let cta = |rank| {
            let info = self.cta_info(unit, rank, &window);
            Some(match &self.code.native {
                Ok(_) => CtaKind::Native(Box::new(NativeCta::new(self, info))),
                Err(_) => CtaKind::Interpreted(Box::new(InterpretedCta::new(self, info))),
            })
        };
        Resident {
            unit,
            ctas: (0..self.ranks()).map(cta).collect(),
            window,
        }
    }
}

/// Maximum number of CTAs that one call of native code runs if events are recorded for tools that observe the launch.
const OBSERVED_CTAS: u64 = 16;
/// The same number if tools observe the launch, but no events are recorded.
const COUNTED_CTAS: u64 = 256;

/// Creates the receiver of a launch's events for the tools that observe the launch; `None` if no
/// tool observes it.
fn sink(code: &KernelCode, shape: &LaunchShape) -> Option<LaunchSink> {
    let observers = code.observers.as_ref().filter(|all| all.is_open())?;
    let observed = Shape {
        id: shape.grid_id,
        kernel_id: observers.id,
        grid: shape.grid,
        block: shape.block,
        cluster: shape.cluster,
        static_shared: code.shared.bytes - code.shared.reserved,
        dynamic_shared: shape.dynamic_shared,
    };
    LaunchSink::new(observers, Launch::new(&code.info, &code.module, &observed))
}

impl Drop for PtxLaunch {
    fn drop(&mut self) {
        if let Some(findings) = &self.shape.findings {
            findings.end_launch(self.info.grid_id);
        }
    }
}

/// The result of running a CTA until it stops.
pub(super) enum Turn {
    Done,
    Parked { progressed: bool },
    AtClusterBarrier { progressed: bool },
}

impl Turn {
    /// Converts the outcome of [`CtaState::run`]. Returns `Err` if the CTA has converged and continues in phases.
    pub(super) fn of(outcome: CtaOutcome) -> Result<Turn, SyncPoint> {
        match outcome {
            CtaOutcome::Done => Ok(Turn::Done),
            CtaOutcome::Parked { progressed } => Ok(Turn::Parked { progressed }),
            CtaOutcome::AtClusterBarrier { progressed } => {
                Ok(Turn::AtClusterBarrier { progressed })
            }
            CtaOutcome::Converged(sync_point) => Err(sync_point),
        }
    }
}

impl PreparedLaunch for PtxLaunch {
    fn may_park(&self) -> bool {
        self.code.may_park
    }

    fn contends(&self) -> bool {
        self.code.contends
    }

    fn window_bytes(&self) -> (u64, u64) {
        let ranks = u64::from(self.ranks());
        let shared = reach::shared_bytes(&self.info);
        let local = ranks * local_of_cta(self.local_stride, &self.info);
        (shared.max(1), local.max(1))
    }

    fn run(&self, worker: &mut dyn Worker, first: u64, count: u64) -> RunOutcome {
        let mut window = match self.window(worker) {
            Ok(window) => window,
            Err(fault) => return RunOutcome::Fault(fault),
        };
        if let Some(sink) = &self.sink {
            sink.begin();
        }
        if let Ok(kernel) = &self.code.native
            && !kernel.compiled.has_sync_points()
            && self.ranks() == 1
        {
            let mut tiered = TieredLaunch::new(self.wanted, kernel);
            let mut unit = first;
            while unit < first + count {
                let range = (unit, tiered.part(self.most(first + count - unit)));
                let outcome =
                    native_cta::run_range(self, kernel, tiered.specialisation, range, &window);
                if let Err(fault) = outcome {
                    worker.return_window(window);
                    return self.fail(worker, fault);
                }
                tiered.done();
                self.ended(range.0, range.1);
                unit += range.1;
            }
            worker.return_window(window);
            return RunOutcome::Done;
        }
        let mut in_phases = match &self.code.native {
            Ok(kernel)
                if kernel.has_phases(kernel.compiled_now(self.wanted))
                    && self.ranks() == 1
                    && !self.goes_by_sync_points() =>
            {
                Some((kernel, TieredLaunch::new(self.wanted, kernel)))
            }
            _ => None,
        };
        let mut unit = first;
        while unit < first + count {
            if worker.stop_requested() {
                return RunOutcome::Stopped {
                    place: String::new(),
                };
            }
            // Number of CTAs of a part that ended early, because its last CTA left its phases.
            let mut early = None;
            let resident = match &mut in_phases {
                Some((kernel, tiered)) => {
                    let range = (unit, tiered.part(self.most(first + count - unit)));
                    let ran =
                        native_cta::run_phases(self, kernel, tiered.specialisation, range, &window);
                    match ran {
                        Ok(None) => {
                            tiered.done();
                            self.ended(range.0, range.1);
                            unit += range.1;
                            continue;
                        }
                        Ok(Some(cta)) => {
                            let at = cta.info().linear;
                            if at > range.0 {
                                self.ended(range.0, at - range.0);
                            }
                            early = Some(at - range.0 + 1);
                            Resident {
                                unit: at,
                                ctas: Box::new([Some(CtaKind::Native(Box::new(cta)))]),
                                window,
                            }
                        }
                        Err(fault) => return self.fail(worker, fault),
                    }
                }
                None => self.start(unit, window),
            };
            unit = resident.unit + 1;
            if let Err(fault) = self.check_regions() {
                return self.fail(worker, fault);
            }
            match self.drive(worker, resident) {
                RunOutcome::Done => {}
                other => return other,
            }
            if let Some((ctas, (_, tiered))) = early.zip(in_phases.as_mut()) {
                tiered.done_early(ctas);
            }
            window = match self.window(worker) {
                Ok(window) => window,
                Err(fault) => return RunOutcome::Fault(fault),
            };
        }
        worker.return_window(window);
        RunOutcome::Done
    }

    fn resume(&self, worker: &mut dyn Worker, unit: ParkedUnit) -> RunOutcome {
        match unit.state.downcast::<Resident>() {
            Ok(resident) => self.drive(worker, *resident),
            Err(_) => RunOutcome::Fault(self.internal("a parked unit of another engine")),
        }
    }

    fn describe(&self, unit: &ParkedUnit) -> String {
        let Some(resident) = unit.state.downcast_ref::<Resident>() else {
            return String::new();
        };
        self.places(resident).join("\n  ")
    }

    fn finish(&self, completed: bool) {
        if let Some(sink) = &self.sink {
            let native = self.code.native.as_ref().ok();
            sink.finish(completed, native.map(|kernel| kernel.compiled.counters()));
        }
    }

    fn observe_waits(&self) {
        self.begin_observing_waits();
    }

    fn hang(&self) -> Option<Hang> {
        self.find_hang()
    }
}

impl std::fmt::Debug for PtxLaunch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PtxLaunch({})", self.code.name)
    }
}

/// Returns the data that helpers use for a CTA.
pub(super) fn host_data<'a>(launch: &'a PtxLaunch, cta: CtaInfo) -> HostData<'a> {
    HostData::new(
        launch.info_for(&cta),
        cta,
        &*launch.shape.services,
        &launch.code.module,
        &launch.shape.textures,
        launch.reach(&cta),
        launch.examiner(cta),
        launch.recorder(cta),
    )
}
