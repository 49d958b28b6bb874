//! Runs CTAs with native code. One native call runs a range of CTAs, if the kernel has no sync points or while the CTAs
//! run in phases. A CTA whose threads have diverged runs alone, region by region.

use std::hash::{Hash, Hasher};
use std::time::Instant;

use margay_exec::{
    CtaInfo, CtaState, Fault as IrFault, FaultKind as IrKind, Runner, SyncEvent, SyncPoint,
    SyncPointData, lanes,
};
use margay_ir::analysis::regions::FRAME_ALIVE;
use margay_ir::analysis::shuffle_width::can_be_width;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::SourceLoc;
use margay_jit::abi::{NativeContext, PermittedRange, UNKNOWN_HANDLE, status};
use margay_jit::{RunningLane, Specialisation};
use margay_ops::meaning::Bits;
use margay_ops::ops::Opcode;
use rustc_hash::FxHasher;

use super::faults;
use super::helpers::{self, HELPERS, HostData};
use super::kernel::{Entry, NativeKernel};
use super::launch::{self, PtxLaunch, Turn};
use super::{reach, sync_points, turns};
use crate::error::Fault;
use crate::fault::{GeneratedFn, enter};
use crate::memory::CtaWindow;

/// An odd factor with bits in all bytes: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Frames of all warps of a CTA, aligned to cache lines.
struct Frames {
    cells: Vec<[u64; 8]>,
    stride: usize,
}

impl Frames {
    fn new(warps: u32, bytes: u32) -> Frames {
        let stride = (bytes as usize).div_ceil(64);
        Frames {
            cells: vec![[0; 8]; stride * warps as usize],
            stride,
        }
    }

    /// Reads, from the header of a warp's frame, the sync points at which the lanes of the warp
    /// wait.
    fn stop_words(&self, warp: u32) -> [SyncPoint; 32] {
        // SAFETY: a frame begins with 32 stop words, which generated code has written.
        let header = unsafe { *self.warp(warp).cast::<[u32; 32]>() };
        header.map(SyncPoint)
    }

    /// Reads, from the header of a warp's frame, the mask of the lanes that have not exited.
    fn alive(&self, warp: u32) -> u32 {
        self.words(warp)[FRAME_ALIVE as usize / 8] as u32
    }

    fn set_alive(&mut self, warp: u32, alive: u32) {
        self.bytes_mut(warp)[FRAME_ALIVE as usize / 8] = alive.into();
    }

    /// Returns a hash of the contents of all frames. Changes of the frames are detected by a
    /// comparison of such hashes. The eight columns of the cells are hashed independently, because the processor
    /// overlaps independent multiplications.
    fn digest(&self) -> u64 {
        let columns = self.cells.iter().fold([0; 8], |columns: [u64; 8], cell| {
            std::array::from_fn(|i| (columns[i].rotate_left(5) ^ cell[i]).wrapping_mul(FACTOR))
        });
        let mut hasher = FxHasher::default();
        columns.hash(&mut hasher);
        hasher.finish()
    }

    fn warp(&self, warp: u32) -> *const u8 {
        self.cells[warp as usize * self.stride..].as_ptr().cast()
    }

    fn warp_mut(&mut self, warp: u32) -> *mut u8 {
        self.cells[warp as usize * self.stride..]
            .as_mut_ptr()
            .cast()
    }

    fn bytes_mut(&mut self, warp: u32) -> &mut [u64] {
        let start = warp as usize * self.stride;
        self.cells[start..start + self.stride].as_flattened_mut()
    }

    fn words(&self, warp: u32) -> &[u64] {
        let start = warp as usize * self.stride;
        self.cells[start..start + self.stride].as_flattened()
    }

    /// Reads `bytes` bytes (1, 2, 4, 8 or 16) from the frame of a warp. `offset` is a multiple of
    /// `bytes`.
    fn read(&self, warp: u32, offset: u32, bytes: u32) -> Bits {
        let words = self.words(warp);
        let word = words[offset as usize / 8];
        if bytes == 16 {
            return Bits::from(word) | Bits::from(words[offset as usize / 8 + 1]) << 64;
        }
        let shifted = word >> (offset % 8 * 8);
        Bits::from(shifted) & margay_ops::meaning::mask(bytes * 8)
    }

    fn write(&mut self, warp: u32, offset: u32, bytes: u32, bits: Bits) {
        let words = self.bytes_mut(warp);
        let index = offset as usize / 8;
        if bytes >= 8 {
            words[index] = bits as u64;
            if bytes == 16 {
                words[index + 1] = (bits >> 64) as u64;
            }
            return;
        }
        let shift = offset % 8 * 8;
        let mask = ((1u64 << (bytes * 8)) - 1) << shift;
        words[index] = words[index] & !mask | (bits as u64) << shift & mask;
    }
}

/// Number of times that the threads of a CTA may converge before the worker runs other CTAs, if threads of the kernel
/// can wait for memory.
const ROUNDS: u64 = 1000;

/// A CTA that the CTA scheduler runs region by region, and in phases while the CTA is converged: the frames of its
/// warps, and the state of its threads for the CTA scheduler.
pub(super) struct NativeCta {
    state: CtaState,
    frames: Frames,
    info: CtaInfo,
    /// Hash of the frames when the threads last yielded.
    seen: u64,
    /// Whether threads of the CTA have run.
    has_begun: bool,
}

impl NativeCta {
    pub(super) fn new(launch: &PtxLaunch, info: CtaInfo) -> NativeCta {
        NativeCta {
            state: launch.new_state(),
            frames: frames(launch),
            info,
            seen: 0,
            has_begun: false,
        }
    }

    pub(super) fn info(&self) -> &CtaInfo {
        &self.info
    }

    pub(super) fn state_mut(&mut self) -> &mut CtaState {
        &mut self.state
    }

    /// Runs the CTA until each of its threads is done or waits, or until other CTAs should run. In
    /// a checking run, this function then adds each undefined use of barriers in the CTA to the
    /// findings.
    pub(super) fn run(&mut self, launch: &PtxLaunch) -> Result<Turn, Fault> {
        let Ok(kernel) = &launch.code.native else {
            let kind = IrKind::Unsupported {
                what: "native code".into(),
            };
            return Err(faults::report(launch, &self.info, kind.into()));
        };
        let mut host = launch::host_data(launch, self.info);
        let context = context(launch, kernel, &self.info, &mut host);
        let mut runner = NativeRunner {
            kernel,
            specialisation: kernel.now(launch.wanted),
            frames: &mut self.frames,
            host: &mut host,
            context,
            launch,
            begun: launch.turns.start(),
            turns_set: None,
        };
        let begins = !std::mem::replace(&mut self.has_begun, true);
        if begins && runner.runs_phases() && runner.runs_only_from_start() {
            match runner.go_on(&self.state, SyncPoint::START) {
                Ok(None) => return Ok(Turn::Done),
                Ok(Some(state)) => self.state = state,
                Err(fault) => return Err(faults::report(launch, &self.info, fault)),
            }
        }
        for round in 0u64.. {
            let outcome = self.state.run(&mut runner).map(Turn::of);
            let ended = launch.hand_on_findings(&self.info, &mut self.state);
            if let (Ok(_), Some(fault)) = (&outcome, ended) {
                return Err(fault);
            }
            match outcome {
                Ok(Ok(Turn::Parked { progressed: false })) => break,
                Ok(Ok(turn)) => return Ok(turn),
                Ok(Err(sync_point)) => match runner.go_on(&self.state, sync_point) {
                    Ok(None) => return Ok(Turn::Done),
                    Ok(Some(state)) => {
                        self.state = state;
                        // If the waiting loop contains a barrier, its threads converge in each iteration.
                        // `CtaState::run` then returns `Converged` and not `Parked`, although threads have yielded.
                        let many = round >= ROUNDS && launch.code.may_park;
                        if many || self.state.any_yielded() {
                            break;
                        }
                    }
                    Err(fault) => return Err(faults::report(launch, &self.info, fault)),
                },
                Err(fault) => return Err(faults::report(launch, &self.info, fault)),
            }
        }
        // While threads only wait in loops, their live values do not change, so the hash does not change.
        let seen = std::mem::replace(&mut self.seen, runner.frames.digest());
        Ok(Turn::Parked {
            progressed: seen != self.seen,
        })
    }

    /// Returns texts that state which threads of the CTA wait, and at which sync points.
    pub(super) fn describe(&self, launch: &PtxLaunch) -> Vec<String> {
        let Ok(kernel) = &launch.code.native else {
            return Vec::new();
        };
        self.state.waiting(&NativeView {
            kernel,
            frames: &self.frames,
        })
    }
}

/// Allocates frames for the warps of one CTA.
fn frames(launch: &PtxLaunch) -> Frames {
    let kernel = launch.code.native.as_ref();
    let bytes = kernel.map_or(64, |kernel| kernel.compiled.regions.frame_bytes);
    Frames::new(launch.info.warps(), bytes)
}

/// Runs CTAs `first .. first + count` in phases. If a CTA cannot continue in phases
/// ([`status::GENERAL`]), for example because its threads have diverged or yielded, the function
/// stops and returns this CTA, and the CTA scheduler must continue the CTA.
pub(super) fn run_phases(
    launch: &PtxLaunch,
    kernel: &NativeKernel,
    specialisation: Specialisation,
    (first, count): (u64, u64),
    window: &CtaWindow,
) -> Result<Option<NativeCta>, Fault> {
    let mut frames = frames(launch);
    let cta = launch.cta_info(first, 0, window);
    let mut host = launch::host_data(launch, cta);
    host.begin_ctas();
    let context = context(launch, kernel, &cta, &mut host);
    let mut runner = NativeRunner {
        kernel,
        specialisation,
        frames: &mut frames,
        host: &mut host,
        context,
        launch,
        begun: None,
        turns_set: None,
    };
    let outcome = runner.phases(SyncPoint::START, count);
    let at = runner.context.cta;
    let info = launch.cta_info(at, 0, window);
    match outcome {
        Ok(None) => {
            host.end_ctas();
            Ok(None)
        }
        Ok(Some(state)) => Ok(Some(NativeCta {
            state,
            frames,
            info,
            seen: 0,
            has_begun: true,
        })),
        Err(fault) => Err(faults::report(launch, &info, fault)),
    }
}

/// Creates the context that generated code uses for a CTA.
fn context(
    launch: &PtxLaunch,
    kernel: &NativeKernel,
    cta: &CtaInfo,
    host: &mut HostData<'_>,
) -> NativeContext {
    let info = launch.info_for(cta);
    let mut context = NativeContext {
        params: info.params,
        shared_base: cta.shared_base,
        local_base: cta.local_base,
        local_stride: cta.local_stride,
        stack_limit: cta.stack_limit,
        turns: launch.turns.turns(),
        turn_budget: launch.turns.turns(),
        ctaid: cta.index,
        sm: cta.sm,
        ntid: info.block,
        threads: info.threads(),
        nctaid: info.grid,
        depth: 0,
        cta: cta.linear,
        thread: 0,
        ended_line: 0,
        ended_loc: 0,
        ended_handle: UNKNOWN_HANDLE,
        warps: info.warps(),
        sm_warps: info.sm_warps,
        phase: 0,
        alone: 0,
        first_warp: 0,
        moved: 0,
        lane: 0,
        row_threads: 0,
        row_start: 0,
        alive: 0,
        group: 0,
        sync_point: 0,
        symbols: info.symbols.origin(),
        tid: launch.tids.as_ptr(),
        functions: kernel.functions.origin(),
        function_count: kernel.functions.count(),
        function_base: info.function_base,
        reach_base: 0,
        reach_bytes: 0,
        margin_bytes: 0,
        shared_bytes: 0,
        shared_mask: u32::MAX,
        local_bytes: 0,
        permitted: [PermittedRange::default(); 3 * margay_jit::abi::PERMITTED],
        checked_local: host.checked_local(),
        access_log: host.access_log(),
        counters: host.counters(kernel.compiled.counters()),
        refused: 0,
        verify: kernel.verifiers[0].0,
        verify_lanes: kernel.verifiers[1].0,
        helpers: &HELPERS,
        host: helpers::erase(host),
    };
    if let Some(visible) = &launch.shape.visible {
        reach::tell(&mut context, visible, info);
    }
    context
}

/// Calls a native function through [`enter`].
fn call(
    entry: Entry,
    context: &mut NativeContext,
    a: u64,
    b: u64,
) -> Result<i32, crate::fault::Trap> {
    // SAFETY: the entry is the address of a compiled function, which has three 64-bit parameters.
    let function = unsafe { std::mem::transmute::<*const u8, GeneratedFn>(entry.0) };
    // SAFETY: the code is registered and owns no resources. It accesses device memory, its own stack, the context, and
    // the frames that are passed to it.
    let code = unsafe { enter(function, std::ptr::from_mut(context).cast(), a, b) }?;
    Ok(code as u32 as i32)
}

/// Runs CTAs `first .. first + count` of a kernel without sync points.
pub(super) fn run_range(
    launch: &PtxLaunch,
    kernel: &NativeKernel,
    specialisation: Specialisation,
    (first, count): (u64, u64),
    window: &CtaWindow,
) -> Result<(), Fault> {
    let cta = launch.cta_info(first, 0, window);
    let mut host = launch::host_data(launch, cta);
    host.begin_ctas();
    let mut context = context(launch, kernel, &cta, &mut host);
    let entry = kernel
        .cta_entry(specialisation)
        .map_err(|error| faults::report(launch, &cta, unsupported(error)))?;
    match call(entry, &mut context, first, count) {
        Ok(status::OK) if host.wrong_access.is_none() => {
            host.end_ctas();
            Ok(())
        }
        ended => {
            let fault = fault_of(kernel, &mut context, &mut host, ended);
            let mut at = cta;
            at.index = launch.info.cta_index(context.cta);
            Err(faults::report(launch, &at, fault))
        }
    }
}

/// Returns the fault that ended a native call. The field `cta` of the context then is the CTA of the faulting thread.
fn fault_of(
    kernel: &NativeKernel,
    context: &mut NativeContext,
    host: &mut HostData<'_>,
    ended: Result<i32, crate::fault::Trap>,
) -> IrFault {
    let ended_at = SourceLoc {
        ptx_line: context.ended_line,
        loc: context.ended_loc,
    };
    // If an access ends the launch in a checking run, `wrong_access` contains its thread and position.
    if let Some((thread, loc)) = host.wrong_access.take()
        && let Some(kind) = host.fault.take()
    {
        return IrFault {
            kind,
            thread: Some(thread),
            loc,
        };
    }
    let mut lane = 0;
    let (kind, loc) = match ended {
        Ok(status::HELPER) => (
            host.fault.take().unwrap_or(IrKind::IllegalInstruction),
            Some(ended_at),
        ),
        Ok(code) => (
            faults::of_status(code, context.ended_handle),
            Some(ended_at),
        ),
        Err(mut trap) => match kernel.fault_at(&trap) {
            Some(at) => {
                trap.address = at.address;
                lane = match at.lane {
                    RunningLane::Number(lane) => lane,
                    RunningLane::Noted => context.lane,
                };
                // If the host refused an access, the code that requested the check executes a trap instruction.
                let refused = host.fault.take();
                (
                    refused.unwrap_or_else(|| faults::of_trap(&trap)),
                    Some(at.loc),
                )
            }
            None => (faults::of_trap(&trap), None),
        },
    };
    // A launch can be stopped in code for lanes of a chunk that the block does not have.
    let last = context.threads.saturating_sub(1);
    let (cta, thread) = context.locate(lane);
    context.cta = cta;
    IrFault {
        kind,
        thread: Some(thread.min(last)),
        loc: loc.unwrap_or_default(),
    }
}

struct NativeRunner<'a, 'b> {
    kernel: &'a NativeKernel,
    specialisation: Specialisation,
    frames: &'a mut Frames,
    host: &'a mut HostData<'b>,
    context: NativeContext,
    launch: &'a PtxLaunch,
    /// The time at which the CTA began to run, if the launch measures times.
    begun: Option<Instant>,
    /// The time at which the field `turns` of the context was set, if the launch measures times.
    turns_set: Option<Instant>,
}

impl NativeRunner<'_, '_> {
    /// Continues a CTA in phases; all its threads are about to resume after `sync_point`. Returns the CTA's state if
    /// the CTA again cannot continue in phases.
    fn go_on(
        &mut self,
        state: &CtaState,
        sync_point: SyncPoint,
    ) -> Result<Option<CtaState>, IrFault> {
        for warp in 0..self.context.warps {
            self.frames.set_alive(warp, state.alive(warp));
        }
        self.phases(sync_point, 1)
    }

    /// Runs `count` CTAs in phases. The first CTA resumes after `sync_point`. If a CTA cannot continue
    /// in phases, returns the state of its threads; the context then contains the index of this CTA.
    fn phases(&mut self, sync_point: SyncPoint, count: u64) -> Result<Option<CtaState>, IrFault> {
        let entry = self
            .kernel
            .phases_entry(self.specialisation)
            .map_err(unsupported)?;
        if sync_point == SyncPoint::START {
            self.set_turns();
        }
        self.context.phase = sync_point.0;
        self.context.depth = 0;
        let frames = self.frames.warp_mut(0) as u64;
        match call(entry, &mut self.context, frames, count) {
            Ok(status::OK) if self.host.wrong_access.is_none() => Ok(None),
            Ok(status::GENERAL) => {
                let warps = 0..self.context.warps;
                let all = warps.map(|warp| (warp, self.frames.alive(warp)));
                self.adapt_turns(all);
                let from = (SyncPoint(self.context.phase), self.context.moved);
                let place = |warp| (self.frames.stop_words(warp), self.frames.alive(warp));
                let state = self.launch.new_state();
                Ok(Some(state.taken_over(self, from, place)))
            }
            ended => Err(fault_of(self.kernel, &mut self.context, self.host, ended)),
        }
    }
}

impl NativeRunner<'_, '_> {
    /// Resets the number of turns after which lanes in waiting loops yield to the number that the
    /// launch specifies.
    fn set_turns(&mut self) {
        let turns = self.launch.turns.turns();
        (self.context.turns, self.context.turn_budget) = (turns, turns);
        self.turns_set = self.launch.turns.start();
    }

    /// Whether the CTA may run in phases while its threads are converged.
    fn runs_phases(&self) -> bool {
        !self.launch.goes_by_sync_points() && self.kernel.has_phases(self.specialisation)
    }

    /// Whether the code for phases runs only whole CTAs, from their start. [`Self::runs_phases`] is true.
    fn runs_only_from_start(&self) -> bool {
        self.kernel.runs_only_from_start(self.specialisation)
    }

    fn is_yield(&self, sync_point: SyncPoint) -> bool {
        data_of(self.kernel, sync_point).desc.opcode == Opcode::Yield
    }

    /// If one of the lanes that have stopped has yielded, changes the launch's number of turns
    /// according to the measured time. `stopped` contains pairs of a warp and the mask of its lanes
    /// that have stopped.
    fn adapt_turns(&self, mut stopped: impl Iterator<Item = (u32, u32)>) {
        let Some(start) = self.turns_set else {
            return;
        };
        // Most lanes of a warp are at the sync point of the lane before, which has not yielded if the search goes on.
        let mut last = None;
        let mut has_yielded =
            |sync_point| last.replace(sync_point) != Some(sync_point) && self.is_yield(sync_point);
        let any_yielded = |(warp, mask)| {
            let sync_points = self.frames.stop_words(warp);
            lanes(mask).any(|lane| has_yielded(sync_points[lane as usize]))
        };
        if stopped.any(any_yielded) {
            let turns = self.context.turn_budget;
            self.launch.turns.adapt(turns, start.elapsed());
        }
    }
}

fn unsupported(error: margay_jit::CompileError) -> IrFault {
    IrFault::from(IrKind::Unsupported {
        what: error.to_string(),
    })
}

/// A read-only view of a CTA that is not running, from which messages about the state of the CTA
/// are created.
struct NativeView<'a> {
    kernel: &'a NativeKernel,
    frames: &'a Frames,
}

fn data_of(kernel: &NativeKernel, sync_point: SyncPoint) -> SyncPointData {
    kernel
        .compiled
        .sync_point_data(sync_point)
        .unwrap_or_else(margay_exec::SyncPointData::exit)
}

/// Returns the instruction of a sync point; `None` for the start of the kernel and for its end.
fn inst_of(kernel: &NativeKernel, sync_point: SyncPoint) -> Option<Inst> {
    let resume_points = &kernel.compiled.regions.resume_points;
    resume_points.get(sync_point.0 as usize)?.sync_point
}

fn read_operand(
    kernel: &NativeKernel,
    frames: &Frames,
    at: (u32, u32, SyncPoint),
    index: usize,
) -> Bits {
    let (warp, lane, sync_point) = at;
    let function = &kernel.compiled.function;
    let inst = inst_of(kernel, sync_point);
    let Some(&value) = inst.and_then(|inst| function.dfg.args(inst).get(index)) else {
        return 0;
    };
    match function.dfg.constant(value) {
        Some(bits) => Bits::from(bits),
        None => {
            slot(kernel, value, lane).map_or(0, |(offset, bytes)| frames.read(warp, offset, bytes))
        }
    }
}

/// In a frame, a value is stored as an array with one element for each lane. Returns the offset in
/// the frame and the size in bytes of the element for `lane`.
fn slot(kernel: &NativeKernel, value: Value, lane: u32) -> Option<(u32, u32)> {
    let ty = kernel.compiled.function.dfg.ty(value);
    let offset = kernel.compiled.regions.lane_offset(value, ty, lane)?;
    Some((offset, ty.lane_bytes()))
}

impl Runner for NativeRunner<'_, '_> {
    fn synchronised(&mut self, event: SyncEvent<'_>) {
        self.host.synchronised(self.context.cta, event);
    }

    fn run(
        &mut self,
        warp: u32,
        from: SyncPoint,
        mask: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<(), IrFault> {
        let entry = self.kernel.region_entry(from).map_err(unsupported)?;
        // The turns are not reset at every sync point. Otherwise a loop that polls with a collective, a volatile
        // access or a barrier would never yield.
        if from == SyncPoint::START || self.is_yield(from) {
            self.set_turns();
        }
        self.context.depth = 0;
        self.context.phase = from.0;
        let frame = self.frames.warp_mut(warp) as u64;
        let packed = u64::from(mask) | u64::from(warp) << 32;
        match call(entry, &mut self.context, frame, packed) {
            Ok(status::OK) if self.host.wrong_access.is_none() => {
                let header = self.frames.stop_words(warp);
                for lane in lanes(mask) {
                    sync_points[lane as usize] = header[lane as usize];
                }
                self.adapt_turns([(warp, mask)].into_iter());
                Ok(())
            }
            ended => Err(fault_of(self.kernel, &mut self.context, self.host, ended)),
        }
    }

    fn run_whole(
        &mut self,
        warp: u32,
        from: SyncPoint,
        alive: u32,
        sync_points: &mut [SyncPoint; 32],
    ) -> Result<bool, IrFault> {
        let completion = self.kernel.compiled.sync_points().get(from);
        let is_entered = completion.is_some_and(|places| places.completion.is_entered());
        if !is_entered || !self.runs_phases() || self.runs_only_from_start() {
            return Ok(false);
        }
        let entry = self
            .kernel
            .phases_entry(self.specialisation)
            .map_err(unsupported)?;
        if from == SyncPoint::START {
            self.set_turns();
        }
        self.frames.set_alive(warp, alive);
        self.context.depth = 0;
        self.context.phase = from.0;
        (self.context.alone, self.context.first_warp) = (1, warp);
        let frames = self.frames.warp_mut(0) as u64;
        let ended = call(entry, &mut self.context, frames, 1);
        (self.context.alone, self.context.first_warp) = (0, 0);
        let Ok(status::GENERAL) = ended else {
            return Err(fault_of(self.kernel, &mut self.context, self.host, ended));
        };
        let left = self.frames.alive(warp);
        let header = self.frames.stop_words(warp);
        for lane in lanes(alive) {
            sync_points[lane as usize] = match left >> lane & 1 {
                0 => SyncPoint::EXIT,
                _ => header[lane as usize],
            };
        }
        self.adapt_turns([(warp, left)].into_iter());
        Ok(true)
    }

    fn sync_point_data(&self, sync_point: SyncPoint) -> SyncPointData {
        data_of(self.kernel, sync_point)
    }

    fn is_skipped(&self, sync_point: SyncPoint) -> bool {
        self.kernel.compiled.is_skipped(sync_point)
    }

    fn is_overdue(&self) -> bool {
        self.begun.is_some_and(turns::is_overdue)
    }

    fn perform(&mut self, warp: u32, sync_point: SyncPoint, active: u32) -> bool {
        let Some(places) = self.kernel.compiled.sync_points().get(sync_point) else {
            return false;
        };
        // SAFETY: the frame belongs to this warp, and the sync point to its kernel.
        let frame = unsafe { sync_points::Frame::new(self.frames.warp_mut(warp)) };
        // `active` contains only the lanes that take part, also for the deprecated forms without `.sync`, which have no
        // member mask.
        sync_points::perform(frame, places, active);
        true
    }

    fn takes_converged(&self, sync_point: SyncPoint) -> bool {
        self.runs_phases()
            && !self.runs_only_from_start()
            && self.kernel.compiled.sync_points().begins_at(sync_point)
    }

    fn constant_operand(&self, sync_point: SyncPoint, index: usize) -> Option<Bits> {
        let function = &self.kernel.compiled.function;
        let inst = inst_of(self.kernel, sync_point)?;
        let &value = function.dfg.args(inst).get(index)?;
        function.dfg.constant(value).map(Bits::from)
    }

    fn has_width(&self, sync_point: SyncPoint) -> bool {
        let function = &self.kernel.compiled.function;
        let c = inst_of(self.kernel, sync_point).and_then(|inst| function.dfg.args(inst).get(2));
        c.is_some_and(|&c| can_be_width(function, c))
    }

    fn operand(&self, warp: u32, lane: u32, sync_point: SyncPoint, index: usize) -> Bits {
        read_operand(self.kernel, self.frames, (warp, lane, sync_point), index)
    }

    fn set_result(
        &mut self,
        warp: u32,
        lane: u32,
        sync_point: SyncPoint,
        index: usize,
        value: Bits,
    ) {
        let function = &self.kernel.compiled.function;
        let inst = inst_of(self.kernel, sync_point);
        let Some(&result) = inst.and_then(|inst| function.dfg.results(inst).get(index)) else {
            return;
        };
        if let Some((offset, bytes)) = slot(self.kernel, result, lane) {
            self.frames.write(warp, offset, bytes, value);
        }
    }
}

impl Runner for NativeView<'_> {
    fn run(
        &mut self,
        _: u32,
        _: SyncPoint,
        _: u32,
        _: &mut [SyncPoint; 32],
    ) -> Result<(), IrFault> {
        Err(IrKind::Stopped.into())
    }

    fn sync_point_data(&self, sync_point: SyncPoint) -> SyncPointData {
        data_of(self.kernel, sync_point)
    }

    fn operand(&self, warp: u32, lane: u32, sync_point: SyncPoint, index: usize) -> Bits {
        read_operand(self.kernel, self.frames, (warp, lane, sync_point), index)
    }

    fn set_result(&mut self, _: u32, _: u32, _: SyncPoint, _: usize, _: Bits) {}
}
