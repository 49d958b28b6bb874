//! What the PTX ISA leaves undefined about threads that wait for each other, noted while a CTA runs.
//!
//! A normal run completes all of it in one way (execution-model sections 3 and 4); a checking run does the same and
//! says where a program relied on it. [`crate::CtaState`] calls this at every sync point, so a checking run has to come
//! to each of them there. Source: PTX ISA 9.7.9 (`shfl`), 9.7.13 (barriers, `vote`, `match`, `redux`, `elect`),
//! 9.7.14 (matrices).

use crate::barrier::Barrier;
use crate::collective::{Group, mask_operand};
use crate::{Runner, SyncPoint, lanes, mask_of};
use margay_ir::function::SourceLoc;
use margay_ops::meaning::Desc;
use margay_ops::meaning::warp::shuffle_source;
use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;

/// Kinds of undefined behaviour.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Undefined {
    /// A thread's member mask lacks the thread.
    NotInMask,
    /// Threads that wait for each other named different masks.
    MasksDiffer,
    /// A shuffle reads the value of a thread that does not take part.
    AbsentSource,
    /// An operation of whole warps without some of the warp's threads.
    PartOfWarp,
    /// Threads of a warp came to an `.aligned` barrier by different instructions, or not all of them came.
    DivergentBarrier,
    /// Threads of a warp left the kernel without coming to the `.aligned` barrier of the others. PTX wants all threads of
    /// the warp there; CUDA those that have not left, from capability 7.0 on. So it is a remark.
    LeftBeforeBarrier,
    /// A barrier's number is over 15.
    BarrierNumber,
    /// A barrier's count is no multiple of the warp's size, or over the threads of the block.
    BarrierCount,
    /// Threads gave one barrier different counts.
    CountsDiffer,
    /// `barrier.red` and another kind of arrival at one barrier.
    MixedReduction,
    /// A second arrival at the barrier of the cluster without a wait between.
    ArrivesTwice,
    /// A wait at the barrier of the cluster without an arrival before it.
    WaitsWithoutArrival,
}

impl Undefined {
    /// Every kind.
    pub const ALL: [Undefined; 12] = [
        Undefined::NotInMask,
        Undefined::MasksDiffer,
        Undefined::AbsentSource,
        Undefined::PartOfWarp,
        Undefined::DivergentBarrier,
        Undefined::LeftBeforeBarrier,
        Undefined::BarrierNumber,
        Undefined::BarrierCount,
        Undefined::CountsDiffer,
        Undefined::MixedReduction,
        Undefined::ArrivesTwice,
        Undefined::WaitsWithoutArrival,
    ];

    /// Whether CUDA defines it for the devices that it supports, though PTX does not: worth a word, and no error.
    pub fn is_remark(self) -> bool {
        self == Undefined::LeftBeforeBarrier
    }

    /// What is wrong, in a few words.
    pub fn text(self) -> &'static str {
        match self {
            Undefined::NotInMask => "the member mask lacks the thread that names it",
            Undefined::MasksDiffer => "threads that wait for each other name different masks",
            Undefined::AbsentSource => "reads the value of a thread that does not take part",
            Undefined::PartOfWarp => "needs all threads of the warp, and some have left",
            Undefined::DivergentBarrier => {
                "threads of one warp come to an aligned barrier in different places, or not at all"
            }
            Undefined::LeftBeforeBarrier => {
                "these threads left before the barrier at which the others of their warp wait: CUDA permits it from \
                 capability 7.0 on, PTX does not"
            }
            Undefined::BarrierNumber => "the barrier's number is over 15",
            Undefined::BarrierCount => {
                "the barrier's count is no multiple of 32, or over the threads of the block"
            }
            Undefined::CountsDiffer => "threads give one barrier different counts",
            Undefined::MixedReduction => "a reduction and another arrival at one barrier",
            Undefined::ArrivesTwice => "arrives twice at the barrier of the cluster without a wait",
            Undefined::WaitsWithoutArrival => {
                "waits at the barrier of the cluster without an arrival"
            }
        }
    }
}

/// Something undefined that threads of a warp did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyncFinding {
    /// What.
    pub what: Undefined,
    /// The operation.
    pub opcode: Opcode,
    /// The warp.
    pub warp: u32,
    /// Its lanes that did.
    pub lanes: u32,
    /// Where.
    pub loc: SourceLoc,
}

/// The findings of a CTA, one for each kind and place, until they are taken.
#[derive(Clone, Default, Debug)]
pub(super) struct SyncCheck {
    findings: Vec<SyncFinding>,
    known: Vec<(Undefined, SyncPoint)>,
    /// Of each warp, the lanes that have arrived at the barrier of the cluster and not waited.
    arrived: Vec<u32>,
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

    /// Lanes have come to a sync point that is no barrier of the CTA.
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

    /// Lanes of a warp are about to do a collective together.
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
                let absent = |&lane: &u32| {
                    let sync_point = sync_points[lane as usize];
                    let operand = |index| runner.operand(warp as u32, lane, sync_point, index) as u32;
                    let (source, inside) =
                        shuffle_source(desc.mods.mode(), lane, operand(1), operand(2));
                    inside && active >> source & 1 == 0
                };
                let absent = mask_of(lanes(active).filter(absent));
                self.note(runner, Undefined::AbsentSource, (warp, sync_point), absent);
            }
            Opcode::Mma if active != u32::MAX => {
                self.note(runner, Undefined::PartOfWarp, (warp, sync_point), active);
            }
            _ => {}
        }
    }

    /// A group went on although lanes at the same operation named other masks.
    pub(super) fn masks_differ(
        &mut self,
        runner: &impl Runner,
        warp: usize,
        group: &Group,
        sync_points: &[SyncPoint; 32],
    ) {
        let sync_point = sync_points[group.arrived.trailing_zeros() as usize % 32];
        self.note(runner, Undefined::MasksDiffer, (warp, sync_point), group.arrived);
    }

    /// Lanes arrive at a barrier of the CTA, which has `threads`.
    pub(super) fn arrives(
        &mut self,
        runner: &impl Runner,
        at: (usize, SyncPoint, Mode),
        mask: u32,
        (number, count, threads): (u64, u32, u32),
        barrier: &Barrier,
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
        let (counts_differ, mixed) = barrier.disagrees(count, mode, all);
        note(Undefined::CountsDiffer, counts_differ);
        note(Undefined::MixedReduction, mixed);
    }

    /// A barrier of the CTA lets lanes of a warp go on, of whose threads `alive` have not exited and `exited` have.
    pub(super) fn completes(
        &mut self,
        runner: &impl Runner,
        warp: usize,
        (released, alive, exited): (u32, u32, u32),
        sync_points: &[SyncPoint; 32],
    ) {
        let Some(first) = lanes(released).map(|lane| sync_points[lane as usize]).next() else {
            return;
        };
        let aligned = |lane: u32| runner.sync_point_data(sync_points[lane as usize]).desc.mods.flag();
        if !lanes(released).any(aligned) {
            return;
        }
        let together = lanes(released).all(|lane| sync_points[lane as usize] == first);
        if !together || released != alive {
            self.note(runner, Undefined::DivergentBarrier, (warp, first), released);
        } else {
            self.note(runner, Undefined::LeftBeforeBarrier, (warp, first), exited);
        }
    }
}
