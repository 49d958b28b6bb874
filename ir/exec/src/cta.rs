//! The CTA scheduler: the state of one CTA and the loop that runs it.

use crate::barrier::{BARRIERS, Barrier};
use crate::check::{SyncCheck, SyncFinding};
use crate::collective;
use crate::warp::{FreePasses, WarpState};
use crate::{ClusterLanes, Fault, FaultKind, Runner, SyncEvent, SyncPoint, lanes};
use margay_ir::function::SourceLoc;
use margay_ir::sync_point::acts_on_present_lanes;
use margay_ops::meaning::{Bits, Desc};
use margay_ops::mods::{AtomOp, MemOrder, Mode};
use margay_ops::ops::{Effects, Opcode};

/// The order in which the CTA scheduler runs the warps of a CTA. The results of a correct program
/// do not depend on this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The warp with the lowest index runs first.
    #[default]
    Forward,
    /// The warp with the highest index runs first.
    Reverse,
}

/// The reason why [`CtaState::run`] returned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CtaOutcome {
    /// All threads exited.
    Done,
    /// Some threads have yielded because they possibly wait for memory to change. Either no thread
    /// has made progress in the last round over the warps, or the call of [`CtaState::run`] has
    /// reached its limit of rounds or of time. The caller must run the CTA again later.
    Parked {
        /// Whether any thread has made progress during the call of [`CtaState::run`] that returned this outcome.
        progressed: bool,
    },
    /// No thread can continue before the barrier of the cluster is complete
    /// ([`CtaState::pass_cluster_barrier`]).
    AtClusterBarrier {
        /// Whether any thread has made progress during the call of [`CtaState::run`] that returned this outcome.
        progressed: bool,
    },
    /// The CTA is converged: all threads that have not exited are about to resume after this sync
    /// point. [`CtaState::run`] returns this outcome only if [`Runner::takes_converged`] returns
    /// true for the sync point.
    Converged(SyncPoint),
}

/// The number of rounds over the warps of a CTA after which a CTA with lanes that have yielded is
/// parked. The CTA is parked even if other lanes make progress, because a lane that waits in a loop
/// for another CTA can also appear to make progress.
const ROUNDS: u64 = 64;

/// The state of all threads of a CTA.
#[derive(Clone, Debug)]
pub struct CtaState {
    warps: Vec<WarpState>,
    barriers: Vec<Barrier>,
    order: Order,
    /// The number of threads of the CTA.
    threads: u32,
    /// In a checking run: collects findings about undefined behaviour of the CTA's threads.
    check: Option<Box<SyncCheck>>,
    /// Whether a tool must be told when threads synchronise ([`Runner::synchronised`]).
    observed: bool,
    /// Synchronisation events for which [`Runner::synchronised`] has not been called yet.
    arrivals: Vec<SyncEvent<'static>>,
}

impl CtaState {
    /// Returns the state of a CTA before its threads start to run the kernel.
    pub fn new(threads: u32, order: Order) -> CtaState {
        let warps = threads.div_ceil(32);
        CtaState {
            warps: (0..warps)
                .map(|warp| WarpState {
                    ready: threads_of(warp, threads),
                    waiting: 0,
                    yielded: 0,
                    at_barrier: 0,
                    at_cluster: 0,
                    arrived: 0,
                    hold: None,
                    free_passes: FreePasses::default(),
                    passed: None,
                    exited: !threads_of(warp, threads),
                    sync_points: [SyncPoint::START; 32],
                })
                .collect(),
            barriers: vec![Barrier::default(); BARRIERS],
            order,
            threads,
            check: None,
            observed: false,
            arrivals: Vec::new(),
        }
    }

    /// Returns the state, with the setting that [`CtaState::run`] calls [`Runner::synchronised`]
    /// when threads synchronise.
    pub fn observed(mut self) -> CtaState {
        self.observed = true;
        self
    }

    /// Returns the state, with the setting that findings about threads that wait for each other are
    /// collected.
    pub fn checking(mut self) -> CtaState {
        self.check = Some(Box::default());
        self
    }

    /// Returns the findings since the last call of this function.
    pub fn take_findings(&mut self) -> Vec<SyncFinding> {
        let check = self.check.as_mut();
        check.map(|check| check.take()).unwrap_or_default()
    }

    /// Returns the state of a CTA that native code has run until now and that the CTA scheduler
    /// continues. The current phase (barrier interval) began after the sync point `phase`. In this
    /// phase, native code has run the warps with an index below `moved`. For each warp, `places`
    /// returns the sync points at which the warp's lanes wait, and the lanes that have not exited.
    /// The sync points are used only for the warps that have run. The lanes of all other warps are
    /// about to resume after `phase`.
    pub fn taken_over(
        self,
        runner: &impl Runner,
        (phase, moved): (SyncPoint, u32),
        places: impl Fn(u32) -> ([SyncPoint; 32], u32),
    ) -> CtaState {
        let mut state = self;
        for warp in 0..state.warps.len() {
            let (sync_points, alive) = places(warp as u32);
            let moved = (warp as u32) < moved;
            if !moved && phase == SyncPoint::START {
                continue;
            }
            state.warps[warp].exited = !alive;
            if moved {
                state.warps[warp].sync_points = sync_points;
                state.warps[warp].ready = 0;
                state.settle_all(runner, warp, alive);
            } else {
                state.warps[warp].sync_points = [phase; 32];
                state.warps[warp].ready = alive;
            }
        }
        state
    }

    /// Returns the lanes of a warp that have not exited.
    pub fn alive(&self, warp: u32) -> u32 {
        !self.warps[warp as usize].exited
    }

    /// Returns whether all threads of this CTA that have not exited have arrived at the barrier of the cluster.
    pub fn is_at_cluster_barrier(&self) -> bool {
        let mut warps = self.warps.iter();
        warps.all(|state| !state.exited & !state.arrived == 0)
    }

    /// Returns the lanes that wait at the barrier of the cluster, and the lanes that have not exited.
    pub fn cluster_lanes(&self) -> ClusterLanes {
        ClusterLanes {
            waiting: self.warps.iter().map(|state| state.at_cluster).collect(),
            alive: self.warps.iter().map(|state| !state.exited).collect(),
        }
    }

    /// Completes the barrier of the cluster: the lanes that wait at this barrier become ready.
    /// Returns whether at least one lane of this CTA had arrived at the barrier.
    pub fn pass_cluster_barrier(&mut self) -> bool {
        let mut any = false;
        for state in &mut self.warps {
            any |= state.arrived != 0;
            let released = std::mem::take(&mut state.at_cluster);
            state.arrived = 0;
            state.waiting &= !released;
            state.at_barrier &= !released;
            state.ready |= released;
        }
        any
    }

    /// Returns the sync point after which all threads that have not exited are about to resume. Returns `None` if there
    /// is no such sync point. Also returns `None` if threads have arrived at an incomplete barrier, because native
    /// code, which would continue the threads, has no information about these arrivals.
    fn converged(&self) -> Option<SyncPoint> {
        let expected = self.warps.iter().any(|state| state.arrived != 0);
        if expected || self.barriers.iter().any(Barrier::is_active) {
            return None;
        }
        let mut all = self.warps.iter().filter(|state| state.ready != 0);
        let first = all.next()?;
        let sync_point = first.sync_points[first.ready.trailing_zeros() as usize];
        let goes_on = |state: &WarpState| {
            state.ready == !state.exited
                && state.ready & !lanes_at(sync_point, &state.sync_points) == 0
        };
        self.warps.iter().all(goes_on).then_some(sync_point)
    }

    /// Runs the threads of the CTA until one of the cases of [`CtaOutcome`] occurs.
    pub fn run(&mut self, runner: &mut impl Runner) -> Result<CtaOutcome, Fault> {
        self.release_yielded();
        let mut progressed = false;
        for round in 0u64.. {
            let mut progress = false;
            for i in 0..self.warps.len() {
                let warp = match self.order {
                    Order::Forward => i,
                    Order::Reverse => self.warps.len() - 1 - i,
                };
                progress |= self.run_warp(runner, warp)?;
            }
            progress |= self.resolve_barriers(runner);
            if self.warps.iter().all(|warp| warp.exited == u32::MAX) {
                return Ok(CtaOutcome::Done);
            }
            progressed |= progress;
            if let Some(sync_point) = self.converged()
                && runner.takes_converged(sync_point)
            {
                return Ok(CtaOutcome::Converged(sync_point));
            }
            let yielded = self.any_yielded();
            if yielded && (!progress || round >= ROUNDS || runner.is_overdue()) {
                return Ok(CtaOutcome::Parked { progressed });
            }
            if !progress && !self.complete_undefined(runner) {
                return match self.warps.iter().any(|state| state.at_cluster != 0) {
                    true => Ok(CtaOutcome::AtClusterBarrier { progressed }),
                    false => Err(self.deadlock(runner)),
                };
            }
            // Other lanes have made progress, so lanes that have yielded may run again.
            self.release_yielded();
        }
        Ok(CtaOutcome::Parked { progressed })
    }

    /// Runs the lanes of a warp until each of them has exited, has yielded or waits for another
    /// warp. Returns whether at least one lane has made progress.
    fn run_warp(&mut self, runner: &mut impl Runner, warp: usize) -> Result<bool, Fault> {
        let before = (self.warps[warp].sync_points, self.warps[warp].exited);
        loop {
            while self.warps[warp].ready != 0 {
                self.run_group(runner, warp)?;
            }
            if !self.resolve_warp(runner, warp) {
                // The comparison ignores why lanes wait: a lane that yields again at the same sync point has not made
                // progress.
                let state = &self.warps[warp];
                return Ok(before != (state.sync_points, state.exited));
            }
        }
    }

    /// Runs the lagging lanes of a warp, which are the ready lanes with the lowest sync point
    /// number, until they stop at the next sync point or exit. If these are all lanes of the warp, they may run
    /// further ([`Runner::run_whole`]).
    fn run_group(&mut self, runner: &mut impl Runner, warp: usize) -> Result<(), Fault> {
        // The unreported arrivals include those that `taken_over` has recorded, if native code ran the CTA before.
        self.report_arrivals(runner);
        let state = &mut self.warps[warp];
        let (from, mask) = lagging_lanes(state.ready, &state.sync_points);
        let is_whole = mask == !state.exited;
        let sync_points = &mut state.sync_points;
        if !is_whole || !runner.run_whole(warp as u32, from, mask, sync_points)? {
            runner.run(warp as u32, from, mask, sync_points)?;
        }
        state.ready &= !mask;
        self.settle_all(runner, warp, mask);
        self.report_arrivals(runner);
        Ok(())
    }

    fn report_arrivals(&mut self, runner: &mut impl Runner) {
        for event in self.arrivals.drain(..) {
            runner.synchronised(event);
        }
    }

    /// Updates the state of the lanes `mask` of a warp, which have just stopped at sync points or
    /// exited. Calls `settle` once for each sync point.
    fn settle_all(&mut self, runner: &impl Runner, warp: usize, mask: u32) {
        let mut rest = mask;
        while rest != 0 {
            let sync_point = self.warps[warp].sync_points[rest.trailing_zeros() as usize];
            let same = lanes_at(sync_point, &self.warps[warp].sync_points) & rest;
            rest &= !same;
            self.settle(runner, warp, sync_point, same);
        }
    }

    /// Updates the state of the lanes `lanes` of a warp, which have just stopped at `sync_point`,
    /// or have just exited.
    fn settle(&mut self, runner: &impl Runner, warp: usize, sync_point: SyncPoint, lanes: u32) {
        if sync_point == SyncPoint::EXIT {
            self.warps[warp].exited |= lanes;
            return;
        }
        let desc = runner.sync_point_data(sync_point).desc;
        if let Some(check) = &mut self.check {
            check.reached(runner, (warp, sync_point), &desc, lanes);
        }
        let state = &mut self.warps[warp];
        if desc.opcode == Opcode::ClusterBar {
            let passed = state.reach_cluster_barrier(desc.mods.mode(), lanes);
            let warp = warp as u32;
            if self.observed && desc.mods.mode() == Mode::Arrive {
                let relaxed = desc.mods.order() == MemOrder::Relaxed;
                self.arrivals.push(SyncEvent::ClusterArrive {
                    warp,
                    lanes,
                    relaxed,
                });
            } else if self.observed && passed != 0 {
                let lanes = passed;
                self.arrivals.push(SyncEvent::ClusterWait { warp, lanes });
            }
            return;
        }
        if desc.opcode == Opcode::Bar {
            let mode = desc.mods.mode();
            if mode == Mode::Arrive {
                state.ready |= lanes;
            } else {
                state.waiting |= lanes;
                state.at_barrier |= lanes;
            }
            self.arrive(runner, (warp, sync_point, mode), lanes);
            return;
        }
        state.waiting |= lanes;
        if desc.opcode.effects().contains(Effects::YIELDS) {
            state.yielded |= lanes;
        }
    }

    /// Records that the lanes `mask` of a warp have arrived at a barrier of the CTA.
    fn arrive(&mut self, runner: &impl Runner, at: (usize, SyncPoint, Mode), mask: u32) {
        let (warp, sync_point, _) = at;
        let constant = |index| runner.constant_operand(sync_point, index);
        if let (Some(id), Some(count)) = (constant(0), constant(1)) {
            self.arrive_at(runner, at, mask, (id as u64, count as u32));
            return;
        }
        for lane in lanes(mask) {
            let id = runner.operand(warp as u32, lane, sync_point, 0) as u64;
            let count = runner.operand(warp as u32, lane, sync_point, 1) as u32;
            self.arrive_at(runner, at, 1 << lane, (id, count));
        }
    }

    fn arrive_at(
        &mut self,
        runner: &impl Runner,
        at: (usize, SyncPoint, Mode),
        mask: u32,
        (id, count): (u64, u32),
    ) {
        let (warp, _, mode) = at;
        let warps = self.warps.len();
        let barrier = &mut self.barriers[id as usize % BARRIERS];
        if let Some(check) = &mut self.check {
            check.arrives(runner, at, mask, (id, count, self.threads));
        }
        barrier.arrive(warps, warp, mask, count, mode);
        if self.observed && mode == Mode::Arrive {
            self.arrivals.push(SyncEvent::Arrive {
                barrier: id as u32 % BARRIERS as u32,
                warp: warp as u32,
                lanes: mask,
            });
        }
    }

    /// Performs all collectives of complete groups. If there is none, lets the lanes at one sync point continue whose
    /// operation does not wait for other lanes. The lanes of these operations become ready. Returns whether any lane
    /// became ready.
    fn resolve_warp(&mut self, runner: &mut impl Runner, warp: usize) -> bool {
        let state = &mut self.warps[warp];
        let candidates = state.waiting & !state.yielded & !state.at_barrier;
        if candidates == 0 {
            return false;
        }
        let mut released = 0;
        let groups = collective::groups(runner, warp as u32, candidates, &state.sync_points);
        for group in &groups {
            let standing = collective::standing(&groups, group);
            if collective::has_outsiders(&groups, group) {
                if group.members & !state.exited & !standing == 0 {
                    collective::perform_apart(
                        runner,
                        warp as u32,
                        group,
                        standing,
                        &state.sync_points,
                    );
                    released |= group.arrived;
                }
            } else if group.members & !state.exited & !group.arrived == 0 {
                if let Some(check) = &mut self.check {
                    let who = (warp, group.arrived);
                    check.performs(runner, who, &group.desc, &state.sync_points);
                    let who = (warp, state.exited);
                    check.executes(runner, who, (group, &groups), &state.sync_points);
                }
                collective::perform(
                    runner,
                    warp as u32,
                    &group.desc,
                    group.arrived,
                    &state.sync_points,
                );
                released |= group.arrived;
            }
        }
        if released == 0 {
            released = self.pass_open(runner, warp, candidates);
        }
        let state = &mut self.warps[warp];
        state.waiting &= !released;
        state.ready |= released;
        let alive = !state.exited;
        if self.observed && released != 0 {
            self.report_collectives(runner, warp, (released, alive), &groups);
        }
        released != 0
    }

    /// Lets the lanes at one sync point continue whose operation does not wait for other lanes. `candidates` are all lanes
    /// that wait neither at a barrier nor in a loop. Returns the lanes that continue.
    fn pass_open(&mut self, runner: &mut impl Runner, warp: usize, candidates: u32) -> u32 {
        let state = &mut self.warps[warp];
        let sync_points = &state.sync_points;
        let open = open_lanes(runner, candidates, sync_points);
        let at = |lane: u32| sync_points[lane as usize];
        let in_calls = match open != 0 && state.yielded == 0 {
            true => runner.first_in_calls(warp as u32, open),
            false => None,
        };
        let first = match in_calls {
            Some(lanes) => Some(at(lanes.trailing_zeros() % 32)),
            None => state.next_open(lanes(open).map(at)),
        };
        let Some(sync_point) = first else {
            return 0;
        };
        let desc = runner.sync_point_data(sync_point).desc;
        if !state.may_pass(sync_point, desc.opcode) {
            return 0;
        }
        let passing = in_calls.unwrap_or(lanes_at(sync_point, &state.sync_points) & candidates);
        if let Some(check) = &mut self.check {
            check.performs(runner, (warp, passing), &desc, &state.sync_points);
        }
        pass(runner, warp as u32, sync_point, passing, &state.sync_points);
        passing
    }

    /// Calls [`Runner::synchronised`] for the collectives that the lanes `released` of a warp have
    /// executed. Each element of `groups` is a group of lanes that waited at a collective with
    /// equal masks.
    fn report_collectives(
        &self,
        runner: &mut impl Runner,
        warp: usize,
        (released, alive): (u32, u32),
        groups: &[collective::Group],
    ) {
        let warp = warp as u32;
        let mut rest = released;
        for group in groups {
            let lanes = group.arrived & released;
            if lanes != 0 {
                runner.synchronised(SyncEvent::Warp { warp, lanes, alive });
                rest &= !lanes;
            }
        }
        // The remaining lanes have together executed a collective without a member mask, or have passed a `converge`.
        if rest != 0 {
            let sync_points = &self.warps[warp as usize].sync_points;
            let sync_point = sync_points[rest.trailing_zeros() as usize % 32];
            let opcode = runner.sync_point_data(sync_point).desc.opcode;
            if !matches!(opcode, Opcode::Converge | Opcode::ActiveMask) {
                runner.synchronised(SyncEvent::Warp {
                    warp,
                    lanes: rest,
                    alive,
                });
            }
        }
    }

    /// Completes the collective of a group of lanes if all lanes of the group's member mask wait at
    /// the collective or have exited, even if the waiting lanes have different masks. PTX leaves
    /// this case undefined, but programs that rely on it run on GPUs. [`CtaState::run`] calls this
    /// function only if no thread can continue otherwise. Returns whether it has completed a
    /// collective.
    fn complete_undefined(&mut self, runner: &mut impl Runner) -> bool {
        let mut any = false;
        for (warp, state) in self.warps.iter_mut().enumerate() {
            let candidates = state.waiting & !state.yielded & !state.at_barrier;
            let groups = collective::groups(runner, warp as u32, candidates, &state.sync_points);
            for group in &groups {
                let standing = collective::standing(&groups, group);
                if group.members & !state.exited & !standing == 0 {
                    if let Some(check) = &mut self.check {
                        check.masks_differ(runner, warp, group, &state.sync_points);
                    }
                    collective::perform_apart(
                        runner,
                        warp as u32,
                        group,
                        standing,
                        &state.sync_points,
                    );
                    state.waiting &= !group.arrived;
                    state.ready |= group.arrived;
                    any = true;
                }
            }
        }
        any
    }

    fn resolve_barriers(&mut self, runner: &mut impl Runner) -> bool {
        let mut progress = false;
        for id in 0..BARRIERS {
            let complete = {
                let warps = &self.warps;
                self.barriers[id].is_complete(|warp| !warps[warp].exited)
            };
            if complete {
                let waits_for_all = self.barriers[id].waits_for_all();
                let is_whole = self.barriers[id].expects(self.threads);
                let (released, reduces) = self.barriers[id].complete();
                if let Some(check) = &mut self.check {
                    check.completed(id);
                    let waiting = self
                        .warps
                        .iter()
                        .zip(&released)
                        .find(|(_, lanes)| **lanes != 0);
                    let waiting = waiting.filter(|_| waits_for_all);
                    let waiting = waiting
                        .map(|(state, lanes)| state.sync_points[lanes.trailing_zeros() as usize]);
                    for (warp, (state, &lanes)) in self.warps.iter().zip(&released).enumerate() {
                        let exited = state.exited & threads_of(warp as u32, self.threads);
                        if let Some(sync_point) = waiting {
                            check.skips(runner, (warp, sync_point), exited);
                        }
                        let who = (lanes, !state.exited, exited);
                        check.completes(runner, (warp, is_whole), who, &state.sync_points);
                    }
                }
                if reduces {
                    self.reduce(runner, &released);
                }
                if self.observed {
                    let warps = self.warps.iter().enumerate();
                    let alive: Vec<u32> = warps
                        .map(|(warp, state)| match waits_for_all {
                            true => !state.exited,
                            false => threads_of(warp as u32, self.threads),
                        })
                        .collect();
                    runner.synchronised(SyncEvent::Barrier {
                        barrier: id as u32,
                        released: &released,
                        alive: &alive,
                    });
                }
                for (state, lanes) in self.warps.iter_mut().zip(&released) {
                    state.waiting &= !lanes;
                    state.at_barrier &= !lanes;
                    state.ready |= lanes;
                }
                progress = true;
            }
        }
        progress
    }

    /// Computes the results of `bar.red`, and writes them to the registers of the lanes that a
    /// barrier releases.
    fn reduce(&mut self, runner: &mut impl Runner, released: &[u32]) {
        let mut count = 0u32;
        let mut all = true;
        let mut readers = Vec::new();
        for (warp, &mask) in released.iter().enumerate() {
            for lane in lanes(mask) {
                let sync_point = self.warps[warp].sync_points[lane as usize];
                let desc = runner.sync_point_data(sync_point).desc;
                if desc.mods.mode() == Mode::Red {
                    let on = runner.operand(warp as u32, lane, sync_point, 2) & 1 != 0;
                    count += u32::from(on);
                    all &= on;
                    readers.push((warp as u32, lane, sync_point, desc.mods.atom_op()));
                }
            }
        }
        for (warp, lane, sync_point, op) in readers {
            let value = match op {
                AtomOp::And => Bits::from(all),
                AtomOp::Or => Bits::from(count != 0),
                _ => Bits::from(count),
            };
            runner.set_result(warp, lane, sync_point, 0, value);
        }
    }

    fn release_yielded(&mut self) {
        for state in &mut self.warps {
            state.waiting &= !state.yielded;
            state.ready |= state.yielded;
            state.yielded = 0;
            if let Some(hold) = &mut state.hold {
                hold.is_over = true;
            }
        }
    }

    /// Returns whether a lane waits because it has yielded.
    pub fn any_yielded(&self) -> bool {
        self.warps.iter().any(|state| state.yielded != 0)
    }

    /// Returns a description of the waiting threads for the messages of faults: one line for the
    /// threads of a warp that wait at the same sync point.
    pub fn waiting(&self, runner: &impl Runner) -> Vec<String> {
        self.wait_list(runner).1
    }

    /// Returns the fault for a deadlock: the waiting threads of the CTA can never continue.
    fn deadlock(&self, runner: &impl Runner) -> Fault {
        let (first, waiting) = self.wait_list(runner);
        let (thread, loc) = first.map_or((None, Default::default()), |(t, loc)| (Some(t), loc));
        Fault {
            kind: FaultKind::Deadlock { waiting },
            thread,
            loc,
        }
    }

    /// Returns the first waiting thread with its source position, and one line for each group of waiting
    /// threads.
    fn wait_list(&self, runner: &impl Runner) -> (Option<(u32, SourceLoc)>, Vec<String>) {
        let mut waiting = Vec::new();
        let mut first = None;
        for (warp, state) in self.warps.iter().enumerate() {
            let mut rest = state.waiting;
            while rest != 0 {
                let lane = rest.trailing_zeros();
                let sync_point = state.sync_points[lane as usize];
                let same = lanes_at(sync_point, &state.sync_points) & rest;
                rest &= !same;
                let data = runner.sync_point_data(sync_point);
                first.get_or_insert((warp as u32 * 32 + lane, data.loc));
                waiting.push(describe(runner, warp as u32, lane, sync_point, same));
            }
        }
        (first, waiting)
    }
}

fn describe(
    runner: &impl Runner,
    warp: u32,
    lane: u32,
    sync_point: SyncPoint,
    lanes: u32,
) -> String {
    let data = runner.sync_point_data(sync_point);
    let what = match data.desc.opcode {
        Opcode::Bar => format!(
            "barrier {} (count {})",
            runner.operand(warp, lane, sync_point, 0),
            runner.operand(warp, lane, sync_point, 1)
        ),
        opcode => match collective::mask_operand(&data.desc) {
            Some(index) => {
                format!(
                    "{} with mask {:#010x}",
                    opcode.name(),
                    runner.operand(warp, lane, sync_point, index)
                )
            }
            None => opcode.name().to_owned(),
        },
    };
    let place = match data.loc.ptx_line {
        0 => String::new(),
        line => format!(" at PTX line {line}"),
    };
    format!("warp {warp}, lanes {lanes:#010x}: {what}{place}")
}

/// Returns the lowest sync point at which ready lanes are, and the ready lanes that are about to
/// resume after it.
fn lagging_lanes(ready: u32, sync_points: &[SyncPoint; 32]) -> (SyncPoint, u32) {
    let first = sync_points[ready.trailing_zeros() as usize % 32];
    let same = lanes_at(first, sync_points) & ready;
    if same == ready {
        return (first, ready);
    }
    let from = lanes(ready)
        .map(|lane| sync_points[lane as usize])
        .min()
        .unwrap_or(first);
    (from, lanes_at(from, sync_points) & ready)
}

/// Returns the lanes of a warp that are threads of the CTA. They are not 32 if the warp is the last
/// warp of a CTA whose number of threads is not a multiple of 32.
fn threads_of(warp: u32, threads: u32) -> u32 {
    match (threads - warp * 32).min(32) {
        32 => u32::MAX,
        count => (1 << count) - 1,
    }
}

/// Returns the lanes for which the array `sync_points` contains `sync_point`.
fn lanes_at(sync_point: SyncPoint, sync_points: &[SyncPoint; 32]) -> u32 {
    (0..32).fold(0, |mask, lane| {
        mask | u32::from(sync_points[lane] == sync_point) << lane
    })
}

/// Returns those of the lanes `candidates` that are stopped at operations that do not wait for other lanes.
fn open_lanes(runner: &impl Runner, candidates: u32, sync_points: &[SyncPoint; 32]) -> u32 {
    let (mut rest, mut open) = (candidates, 0);
    while rest != 0 {
        let sync_point = sync_points[rest.trailing_zeros() as usize % 32];
        let same = lanes_at(sync_point, sync_points) & rest;
        rest &= !same;
        if waits_for_nobody(&runner.sync_point_data(sync_point).desc) {
            open |= same;
        }
    }
    open
}

/// Returns whether lanes that are stopped at an operation can continue without waiting for other lanes of the warp.
/// This is true for `converge`, for `activemask`, and for `shfl` and `vote` without `.sync`.
fn waits_for_nobody(desc: &Desc) -> bool {
    desc.opcode == Opcode::Converge || acts_on_present_lanes(desc)
}

/// Performs an operation that does not wait for other lanes, for the lanes `mask`, which then
/// continue together.
fn pass(
    runner: &mut impl Runner,
    warp: u32,
    sync_point: SyncPoint,
    mask: u32,
    sync_points: &[SyncPoint; 32],
) {
    let desc = runner.sync_point_data(sync_point).desc;
    if desc.opcode == Opcode::ActiveMask {
        for lane in lanes(mask) {
            runner.set_result(warp, lane, sync_point, 0, Bits::from(mask));
        }
    } else if desc.opcode != Opcode::Converge {
        collective::perform(runner, warp, &desc, mask, sync_points);
    }
}

#[cfg(test)]
#[path = "cta_tests.rs"]
mod tests;
