//! Finds undefined behaviour of threads that wait for each other (barriers and collectives), in
//! checking runs.
//!
//! Where PTX leaves the behaviour undefined, Margay defines results (`docs/semantics.md`). A
//! checking run computes the same results as a normal run, and also creates a finding for each
//! instruction with undefined behaviour. [`crate::CtaState`] calls this module at every sync point,
//! so a checking run must stop at every sync point. Source: PTX ISA 9.7.9 (`shfl`), 9.7.13
//! (barriers, `vote`, `match`, `redux`, `elect`), 9.7.14 (matrices).

use crate::barrier::BARRIERS;
use crate::collective::{Group, mask_operand};
use crate::{Runner, SyncPoint, lanes, mask_of};
use margay_ir::function::SourceLoc;
use margay_ops::meaning::Desc;
use margay_ops::meaning::warp::{is_shuffle_of_width, shuffle_source};
use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;

/// The kinds of undefined behaviour that this module finds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Undefined {
    /// The member mask of a thread does not contain the thread.
    NotInMask,
    /// Threads that wait for each other have different member masks.
    MasksDiffer,
    /// A thread that executes a shuffle reads the value of a thread that does not execute the
    /// shuffle with it.
    AbsentSource,
    /// The width of a shuffle is not a power of two from 1 to 32. PTX defines the result, but CUDA
    /// does not.
    ShuffleWidth,
    /// Only some threads of a warp executed an operation that all threads of the warp must execute.
    PartOfWarp,
    /// Threads of a warp reached an `.aligned` barrier at different instructions, or some threads of the warp did not
    /// reach it.
    DivergentBarrier,
    /// Threads of a warp exited without reaching the barrier at which the other threads wait. The barrier is `.aligned`
    /// or waits for all threads of the CTA. PTX requires that all threads of the warp reach the barrier. From compute
    /// capability 7.0 on, CUDA requires this only of threads that have not exited, so this finding is a remark.
    LeftBeforeBarrier,
    /// Threads of the block bypassed the `__syncthreads()` at which the other threads wait, and then exited. CUDA
    /// requires that the condition around such a barrier is equal in all threads of the block.
    SkippedBarrier,
    /// A barrier number is above 15.
    BarrierNumber,
    /// The thread count of a barrier is not a multiple of the warp size, or is greater than the
    /// number of threads of the block after rounding up to whole warps.
    BarrierCount,
    /// Threads that arrived at the same barrier specified different thread counts.
    CountsDiffer,
    /// Threads arrived at the same barrier with `barrier.red` and with another kind of barrier instruction.
    MixedReduction,
    /// A thread arrived twice at the cluster's barrier, and did not wait at this barrier between
    /// the two arrivals.
    ArrivesTwice,
    /// A thread waited at the cluster's barrier, although it had not arrived at this barrier.
    WaitsWithoutArrival,
}

impl Undefined {
    /// Every kind.
    pub const ALL: [Undefined; 14] = [
        Undefined::NotInMask,
        Undefined::MasksDiffer,
        Undefined::AbsentSource,
        Undefined::ShuffleWidth,
        Undefined::PartOfWarp,
        Undefined::DivergentBarrier,
        Undefined::LeftBeforeBarrier,
        Undefined::SkippedBarrier,
        Undefined::BarrierNumber,
        Undefined::BarrierCount,
        Undefined::CountsDiffer,
        Undefined::MixedReduction,
        Undefined::ArrivesTwice,
        Undefined::WaitsWithoutArrival,
    ];

    /// Returns whether the finding is a remark. It is a remark if CUDA defines the behaviour on all
    /// devices that CUDA supports, but PTX does not define it.
    pub fn is_remark(self) -> bool {
        self == Undefined::LeftBeforeBarrier
    }

    /// Returns a description of the undefined behaviour in a few words.
    pub fn text(self) -> &'static str {
        match self {
            Undefined::NotInMask => "the member mask does not contain the executing thread",
            Undefined::MasksDiffer => {
                "threads that wait for each other have different member masks"
            }
            Undefined::AbsentSource => "reads the value of a thread that does not participate",
            Undefined::ShuffleWidth => "the width is not a power of two from 1 to 32",
            Undefined::PartOfWarp => "needs all threads of the warp, but some are missing",
            Undefined::DivergentBarrier => {
                "threads of one warp reach an aligned barrier at different instructions, or not at all"
            }
            Undefined::LeftBeforeBarrier => {
                "these threads exited before the barrier at which the other threads of their warp wait: CUDA permits \
                 it from capability 7.0 on, PTX does not"
            }
            Undefined::SkippedBarrier => {
                "these threads skipped the barrier at which the other threads wait, and exited: the condition around a \
                 barrier must be equal in all threads of the block"
            }
            Undefined::BarrierNumber => "the barrier's number is above 15",
            Undefined::BarrierCount => {
                "the barrier's thread count is not a multiple of 32, or exceeds the block's threads"
            }
            Undefined::CountsDiffer => "threads specify different thread counts for one barrier",
            Undefined::MixedReduction => {
                "barrier.red and another barrier instruction at one barrier"
            }
            Undefined::ArrivesTwice => "arrives twice at the barrier of the cluster without a wait",
            Undefined::WaitsWithoutArrival => {
                "waits at the barrier of the cluster without an arrival"
            }
        }
    }
}

/// A finding about undefined behaviour of lanes of a warp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncFinding {
    /// The kind of undefined behaviour.
    pub what: Undefined,
    /// The op of the instruction with undefined behaviour.
    pub opcode: Opcode,
    /// The index of the warp in the CTA.
    pub warp: u32,
    /// The lanes whose behaviour is undefined.
    pub lanes: u32,
    /// The source position of the instruction with undefined behaviour.
    pub loc: SourceLoc,
}

/// The findings of a CTA since the last call of [`SyncCheck::take`], and the state that the checks need. Only the first
/// finding of each kind at each sync point is recorded.
#[derive(Clone, Default, Debug)]
pub(super) struct SyncCheck {
    findings: Vec<SyncFinding>,
    known: Vec<(Undefined, SyncPoint)>,
    /// For each warp, the lanes that have arrived at the barrier of the cluster and have not yet executed the matching
    /// wait.
    arrived: Vec<u32>,
    passed_by: Vec<PassedBy>,
    /// The arrivals at barriers of the CTA that are not complete. Several arrivals at the same sync
    /// point with the same properties are recorded once.
    arrivals: Vec<Arrival>,
}

/// An arrival of lanes of a warp at a barrier of the CTA.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    at: (usize, SyncPoint),
    lanes: u32,
    /// The thread count in the barrier instruction.
    count: u32,
    reduces: bool,
}

/// Lanes that were in the member mask of waiting lanes, but executed the same instruction with
/// another mask than the waiting lanes.
#[derive(Clone, Debug)]
struct PassedBy {
    warp: usize,
    sync_point: SyncPoint,
    /// The member mask of the lanes that waited.
    members: u32,
    /// The lanes of `members` that executed the collective with another mask.
    lanes: u32,
}

impl SyncCheck {
    pub(super) fn take(&mut self) -> Vec<SyncFinding> {
        std::mem::take(&mut self.findings)
    }

    fn note(&mut self, runner: &impl Runner, what: Undefined, at: (usize, SyncPoint), lanes: u32) {
        let (warp, sync_point) = at;
        if lanes == 0 || self.known.contains(&(what, sync_point)) {
            return;
        }
        self.known.push((what, sync_point));
        let data = runner.sync_point_data(sync_point);
        self.findings.push(SyncFinding {
            what,
            opcode: data.desc.opcode,
            warp: warp as u32,
            lanes,
            loc: data.loc,
        });
    }

    /// Checks the behaviour of the lanes `mask` of a warp, which have reached a sync point.
    pub(super) fn reached(
        &mut self,
        runner: &impl Runner,
        at: (usize, SyncPoint),
        desc: &Desc,
        mask: u32,
    ) {
        let (warp, sync_point) = at;
        if desc.opcode == Opcode::ClusterBar {
            self.reached_cluster_barrier(runner, at, desc, mask);
        }
        let Some(index) = mask_operand(desc) else {
            return;
        };
        let members = |lane| runner.operand(warp as u32, lane, sync_point, index) as u32;
        let outside = mask_of(lanes(mask).filter(|&lane| members(lane) >> lane & 1 == 0));
        self.note(runner, Undefined::NotInMask, at, outside);
    }

    fn reached_cluster_barrier(
        &mut self,
        runner: &impl Runner,
        at: (usize, SyncPoint),
        desc: &Desc,
        mask: u32,
    ) {
        let (warp, _) = at;
        if self.arrived.len() <= warp {
            self.arrived.resize(warp + 1, 0);
        }
        let arrived = self.arrived[warp];
        if desc.mods.mode() == Mode::Arrive {
            self.note(runner, Undefined::ArrivesTwice, at, mask & arrived);
            self.arrived[warp] |= mask;
        } else {
            self.note(runner, Undefined::WaitsWithoutArrival, at, mask & !arrived);
            self.arrived[warp] &= !mask;
        }
    }

    /// Checks the behaviour of the lanes `active` of a warp, which are about to execute a
    /// collective together.
    pub(super) fn performs(
        &mut self,
        runner: &impl Runner,
        (warp, active): (usize, u32),
        desc: &Desc,
        sync_points: &[SyncPoint; 32],
    ) {
        let sync_point = sync_points[active.trailing_zeros() as usize % 32];
        match desc.opcode {
            Opcode::Shfl => {
                let operand = |lane: u32, index| {
                    runner.operand(warp as u32, lane, sync_points[lane as usize], index) as u32
                };
                let absent = |&lane: &u32| {
                    let (b, c) = (operand(lane, 1), operand(lane, 2));
                    let (source, inside) = shuffle_source(desc.mods.mode(), lane, b, c);
                    inside && active >> source & 1 == 0
                };
                let absent = mask_of(lanes(active).filter(absent));
                self.note(runner, Undefined::AbsentSource, (warp, sync_point), absent);
                let unusual = |&lane: &u32| !is_shuffle_of_width(operand(lane, 2));
                let unusual = mask_of(lanes(active).filter(unusual));
                if unusual != 0 && runner.has_width(sync_point) {
                    self.note(runner, Undefined::ShuffleWidth, (warp, sync_point), unusual);
                }
            }
            Opcode::Mma if active != u32::MAX => {
                self.note(runner, Undefined::PartOfWarp, (warp, sync_point), active);
            }
            _ => {}
        }
    }

    /// Records a finding: the lanes of a group have a different mask than the lanes for which they
    /// wait ([`Undefined::MasksDiffer`]).
    pub(super) fn masks_differ(
        &mut self,
        runner: &impl Runner,
        warp: usize,
        group: &Group,
        sync_points: &[SyncPoint; 32],
    ) {
        let sync_point = sync_points[group.arrived.trailing_zeros() as usize % 32];
        self.note(
            runner,
            Undefined::MasksDiffer,
            (warp, sync_point),
            group.arrived,
        );
    }

    /// Checks the behaviour of a group of lanes that is about to execute its collective. `groups`
    /// are all groups of its warp, and `exited` are the lanes that have exited.
    ///
    /// Different masks alone are no error: while lanes wait with one mask, a lane that has executed
    /// the instruction with another mask may execute it again with the mask of the waiting lanes.
    /// A lane that has exited cannot do this. Therefore, if lanes have waited for a lane that has
    /// exited, the masks of the waiting lanes were wrong.
    pub(super) fn executes(
        &mut self,
        runner: &impl Runner,
        (warp, exited): (usize, u32),
        (group, groups): (&Group, &[Group]),
        sync_points: &[SyncPoint; 32],
    ) {
        for other in groups.iter().filter(|other| other.desc == group.desc) {
            let sync_point = sync_points[other.arrived.trailing_zeros() as usize % 32];
            let is_here = |&lane: &u32| sync_points[lane as usize] == sync_point;
            let passed = mask_of(lanes(other.members & group.arrived).filter(is_here));
            if other.members != group.members && passed != 0 {
                self.pass_by(PassedBy {
                    warp,
                    sync_point,
                    members: other.members,
                    lanes: passed,
                });
            }
        }
        let first = sync_points[group.arrived.trailing_zeros() as usize % 32];
        let is_own = |one: &PassedBy| {
            (one.warp, one.sync_point, one.members) == (warp, first, group.members)
        };
        if let Some(at) = self.passed_by.iter().position(is_own)
            && self.passed_by.swap_remove(at).lanes & exited & !group.arrived != 0
        {
            self.masks_differ(runner, warp, group, sync_points);
        }
    }

    fn pass_by(&mut self, new: PassedBy) {
        let key = |one: &PassedBy| (one.warp, one.sync_point, one.members);
        match self.passed_by.iter_mut().find(|one| key(one) == key(&new)) {
            Some(known) => known.lanes |= new.lanes,
            None => self.passed_by.push(new),
        }
    }

    /// Checks the behaviour of the lanes `mask` of a warp, which arrive at a barrier of a CTA with
    /// `threads` threads.
    pub(super) fn arrives(
        &mut self,
        runner: &impl Runner,
        at: (usize, SyncPoint, Mode),
        mask: u32,
        (number, count, threads): (u64, u32, u32),
    ) {
        let (warp, sync_point, mode) = at;
        let mut note = |what, holds: bool| {
            if holds {
                self.note(runner, what, (warp, sync_point), mask);
            }
        };
        let all = threads.next_multiple_of(32);
        note(Undefined::BarrierNumber, number > 15);
        note(Undefined::BarrierCount, count % 32 != 0 || count > all);
        self.compare(
            runner,
            Arrival {
                number: number % BARRIERS as u64,
                at: (warp, sync_point),
                lanes: mask,
                count: if count == 0 { all } else { count },
                reduces: mode == Mode::Red,
            },
        );
    }

    /// Compares an arrival with the earlier arrivals at the same barrier, and then records the new
    /// arrival. If two arrivals contradict each other, the finding names the arrival whose
    /// instruction is later in the PTX text, so that the finding does not depend on the order in
    /// which the warps run.
    fn compare(&mut self, runner: &impl Runner, new: Arrival) {
        let key = |one: &Arrival| (one.number, one.at.1, one.count, one.reduces);
        let line = |one: &Arrival| runner.sync_point_data(one.at.1).loc.ptx_line;
        for old in self.arrivals.clone() {
            let later = if line(&new) >= line(&old) { new } else { old };
            if old.number == new.number && old.count != new.count {
                self.note(runner, Undefined::CountsDiffer, later.at, later.lanes);
            }
            if old.number == new.number && old.reduces != new.reduces {
                self.note(runner, Undefined::MixedReduction, later.at, later.lanes);
            }
        }
        if !self.arrivals.iter().any(|old| key(old) == key(&new)) {
            self.arrivals.push(new);
        }
    }

    /// Removes the recorded arrivals at the barrier with this number, which has completed.
    pub(super) fn completed(&mut self, number: usize) {
        self.arrivals
            .retain(|arrival| arrival.number != number as u64);
    }

    /// Checks the behaviour of the lanes of a warp when a barrier of the CTA releases the lanes
    /// `released`. `is_whole` states whether the barrier waits for all threads of the CTA. `alive`
    /// contains the threads of the warp that have not exited, and `exited` contains the threads
    /// that have exited.
    pub(super) fn completes(
        &mut self,
        runner: &impl Runner,
        (warp, is_whole): (usize, bool),
        (released, alive, exited): (u32, u32, u32),
        sync_points: &[SyncPoint; 32],
    ) {
        let Some(first) = lanes(released)
            .map(|lane| sync_points[lane as usize])
            .next()
        else {
            return;
        };
        let aligned = |lane: u32| {
            runner
                .sync_point_data(sync_points[lane as usize])
                .desc
                .mods
                .flag()
        };
        let is_aligned = lanes(released).any(aligned);
        let together = lanes(released).all(|lane| sync_points[lane as usize] == first);
        if is_aligned && (!together || released != alive) {
            self.note(runner, Undefined::DivergentBarrier, (warp, first), released);
        } else if (is_aligned || is_whole)
            && !self.known.contains(&(Undefined::SkippedBarrier, first))
        {
            self.note(runner, Undefined::LeftBeforeBarrier, (warp, first), exited);
        }
    }

    /// Checks the behaviour of the threads `exited` of a warp, which had exited when a barrier for
    /// all threads of the CTA completed. `sync_point` is one of the sync points at which the
    /// released lanes wait.
    pub(super) fn skips(
        &mut self,
        runner: &impl Runner,
        (warp, sync_point): (usize, SyncPoint),
        exited: u32,
    ) {
        if exited != 0 && runner.is_skipped(sync_point) {
            self.note(
                runner,
                Undefined::SkippedBarrier,
                (warp, sync_point),
                exited,
            );
        }
    }
}
