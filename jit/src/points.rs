//! Where the operands and results of a kernel's points lie, for the host's helpers.
//!
//! Generated code passes the address of a [`PointPlaces`] to the helper that completes the point.
//! Invariant: a table never changes after it was made, so the addresses stay good as long as it lives.

use margay_exec::Stop;
use margay_ir::analysis::Regions;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ops::meaning::Desc;
use margay_ops::meaning::matrix::plan::Plan;
use margay_ops::mods::{Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use smallvec::{SmallVec, smallvec};

/// Where an operand's or a result's lanes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaneStorage {
    /// There is no such operand, or nobody reads the result.
    #[default]
    Absent,
    /// The same constant in every lane.
    Constant(u64),
    /// An array of 32 elements in the warp's frame.
    Stored {
        /// From the frame's start.
        offset: u32,
        /// Of an element: 1, 2, 4, 8 or 16.
        bytes: u32,
    },
}

/// What completes a point at which all lanes of a warp that have not exited stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// Nothing: the lanes go on.
    Nothing,
    /// The host computes the results.
    Collective,
    /// All warps of the CTA at the same barrier.
    Barrier,
    /// The same, and the host computes the results.
    Reduction,
    /// The scheduler decides.
    General,
}

impl Completion {
    fn of(function: &Function, point: Inst) -> Completion {
        let dfg = &function.dfg;
        let desc = dfg.insts[point].desc();
        let constant = |index: usize| dfg.args(point).get(index).and_then(|&v| dfg.constant(v));
        match desc.opcode {
            Opcode::Converge => Completion::Nothing,
            Opcode::BarWarp if constant(0).is_some() => Completion::Nothing,
            // Lanes that stand together may wait for others than each other, by masks of their own.
            Opcode::BarWarp
            | Opcode::Shfl
            | Opcode::Vote
            | Opcode::Match
            | Opcode::Redux
            | Opcode::Elect
            | Opcode::Mma
            | Opcode::ActiveMask => Completion::Collective,
            Opcode::Bar if constant(0).is_some() && constant(1) == Some(0) => {
                match desc.mods.mode() {
                    Mode::Sync => Completion::Barrier,
                    Mode::Red => Completion::Reduction,
                    _ => Completion::General,
                }
            }
            _ => Completion::General,
        }
    }

    /// Whether it is a barrier of all threads.
    pub fn is_barrier(self) -> bool {
        matches!(self, Completion::Barrier | Completion::Reduction)
    }
}

/// One point.
#[derive(Clone, Debug)]
pub struct PointPlaces {
    /// What completes it.
    pub completion: Completion,
    /// The operation.
    pub desc: Desc,
    /// Operands, in the op's order; four at least.
    pub args: SmallVec<[LaneStorage; 4]>,
    /// Results, in the op's order; two at least.
    pub results: SmallVec<[LaneStorage; 2]>,
    /// How a product of matrices is computed, if it is one that can be worked out beforehand.
    pub plan: Option<Box<Plan>>,
}

/// The points of a kernel, by stop number.
#[derive(Debug)]
pub struct PointTable(Box<[PointPlaces]>);

impl PointTable {
    /// The table of a prepared function.
    pub fn new(function: &Function, regions: &Regions) -> PointTable {
        let place =
            |value: Value| match function.dfg.constant(value) {
                Some(bits) => LaneStorage::Constant(bits),
                None => regions.offset(value).map_or(LaneStorage::Absent, |offset| {
                    LaneStorage::Stored {
                        offset,
                        bytes: function.dfg.ty(value).lane_bytes(),
                    }
                }),
            };
        let points = regions.entries.iter().map(|entry| {
            let Some(point) = entry.point else {
                return PointPlaces {
                    completion: Completion::Nothing,
                    desc: Desc {
                        opcode: Opcode::Converge,
                        ty: OpType::None,
                        src: OpType::None,
                        mods: Mods::NONE,
                    },
                    args: smallvec![LaneStorage::Absent; 4],
                    results: smallvec![LaneStorage::Absent; 2],
                    plan: None,
                };
            };
            let (args, results) = (function.dfg.args(point), function.dfg.results(point));
            let absent = |least: usize, given: &[Value]| {
                std::iter::repeat_n(LaneStorage::Absent, least.saturating_sub(given.len()))
            };
            let desc = function.dfg.insts[point].desc();
            let is_product = desc.opcode == Opcode::Mma;
            PointPlaces {
                completion: Completion::of(function, point),
                desc,
                plan: is_product.then(|| Plan::of(&desc)).flatten().map(Box::new),
                args: args
                    .iter()
                    .map(|&v| place(v))
                    .chain(absent(4, args))
                    .collect(),
                results: results
                    .iter()
                    .map(|&v| place(v))
                    .chain(absent(2, results))
                    .collect(),
            }
        });
        PointTable(points.collect())
    }

    /// The point behind a stop.
    pub fn get(&self, stop: Stop) -> Option<&PointPlaces> {
        self.0.get(stop.0 as usize)
    }

    /// Number of entries, the start among them.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What completes each point, by stop number.
    pub(crate) fn completion(&self, index: usize) -> Completion {
        self.0[index].completion
    }

    /// Whether phases may begin behind a stop.
    pub fn begins_at(&self, stop: Stop) -> bool {
        let barrier = |point: &PointPlaces| point.completion.is_barrier();
        stop == Stop::START || self.get(stop).is_some_and(barrier)
    }

    /// The address that generated code passes on.
    pub(crate) fn address(&self, index: u32) -> Option<u64> {
        let place: &PointPlaces = self.0.get(index as usize)?;
        Some(std::ptr::from_ref(place) as u64)
    }
}
