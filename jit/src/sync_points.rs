//! Tells the host's helpers where generated code stores the operands of a kernel's sync points, and where it expects
//! their results.
//!
//! Generated code passes the address of a [`SyncPointPlaces`] to the helper that completes the sync point. Invariant: a
//! table never changes after its construction, so these addresses are valid as long as the table exists.

use margay_exec::SyncPoint;
use margay_exec::collective::mask_operand;
use margay_ir::analysis::Regions;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ops::meaning::Desc;
use margay_ops::meaning::matrix::plan::Plan;
use margay_ops::mods::{Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use smallvec::{SmallVec, smallvec};

/// The location of an operand or result of all lanes of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaneStorage {
    /// The operand does not exist, or the result is never read.
    #[default]
    Absent,
    /// The operand is this constant in every lane.
    Constant(u64),
    /// The operand or result is stored in an array of 32 elements, one for each lane, in the warp's frame.
    Stored {
        /// Offset of the array from the start of the frame, in bytes.
        offset: u32,
        /// Size of an element of the array in bytes: 1, 2, 4, 8 or 16.
        bytes: u32,
    },
}

/// How a sync point is completed if all lanes of a warp that have not exited wait at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The lanes continue, without an action of the host.
    Nothing,
    /// The host computes the results, and the lanes continue.
    Collective,
    /// All warps of the CTA must arrive at the same barrier.
    Barrier,
    /// All warps of the CTA must arrive at the same barrier, and the host then computes the results.
    Reduction,
    /// Only the CTA scheduler can complete the sync point.
    General,
}

impl Completion {
    fn of(function: &Function, inst: Inst) -> Completion {
        let dfg = &function.dfg;
        let desc = dfg.insts[inst].desc();
        let constant = |index: usize| dfg.args(inst).get(index).and_then(|&v| dfg.constant(v));
        match desc.opcode {
            Opcode::Converge => Completion::Nothing,
            Opcode::BarWarp if constant(0).is_some() => Completion::Nothing,
            // The host computes the results and checks the member masks. A mask may differ between the lanes, or
            // include lanes that wait at other sync points.
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

    /// Returns whether the CTA form contains the code after the sync point. If only the CTA scheduler can complete the
    /// sync point, the CTA scheduler also runs the code after it, in the warp form.
    pub fn is_entered(self) -> bool {
        self != Completion::General
    }

    /// Returns whether this is a barrier of all threads of the CTA.
    pub fn is_barrier(self) -> bool {
        matches!(self, Completion::Barrier | Completion::Reduction)
    }
}

/// How a sync point is completed, and where its operands and results are stored.
#[derive(Clone, Debug)]
pub struct SyncPointPlaces {
    /// How the sync point is completed.
    pub completion: Completion,
    /// The operation.
    pub desc: Desc,
    /// The locations of the operands, in the op's order, padded with `Absent` to at least four elements.
    pub args: SmallVec<[LaneStorage; 4]>,
    /// The locations of the results, in the op's order, padded with `Absent` to at least two elements.
    pub results: SmallVec<[LaneStorage; 2]>,
    /// The precomputed plan of a matrix multiply, if the op is a matrix multiply and a plan exists for it.
    pub plan: Option<Box<Plan>>,
}

/// The sync points of a kernel, by index.
#[derive(Debug)]
pub struct SyncPointTable(Box<[SyncPointPlaces]>);

impl SyncPointTable {
    /// Creates the table of a prepared function.
    pub fn new(function: &Function, regions: &Regions) -> SyncPointTable {
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
        let places = regions.resume_points.iter().map(|resume_point| {
            let Some(inst) = resume_point.sync_point else {
                return SyncPointPlaces {
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
            let (args, results) = (function.dfg.args(inst), function.dfg.results(inst));
            let absent = |least: usize, given: &[Value]| {
                std::iter::repeat_n(LaneStorage::Absent, least.saturating_sub(given.len()))
            };
            let desc = function.dfg.insts[inst].desc();
            let is_product = desc.opcode == Opcode::Mma;
            SyncPointPlaces {
                completion: Completion::of(function, inst),
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
        SyncPointTable(places.collect())
    }

    /// Returns the entry of a sync point.
    pub fn get(&self, sync_point: SyncPoint) -> Option<&SyncPointPlaces> {
        self.0.get(sync_point.0 as usize)
    }

    /// Returns the number of entries. Entry 0 stands for the start of the kernel.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns how the sync point with index `index` is completed.
    pub(crate) fn completion(&self, index: usize) -> Completion {
        self.0[index].completion
    }

    /// Returns whether all threads of a CTA that reach the sync point with index `index` together also continue
    /// together. This is true in three cases: the host need not act (`converge`, or `bar.warp.sync` with a constant
    /// mask), all threads of the CTA wait for each other, or the lanes of each warp execute a collective that has no
    /// member mask or a constant mask of all lanes.
    pub(crate) fn continues_together(&self, index: usize) -> bool {
        let places = &self.0[index];
        let mask = mask_operand(&places.desc).and_then(|index| places.args.get(index));
        match places.completion {
            Completion::General => false,
            Completion::Nothing | Completion::Barrier | Completion::Reduction => true,
            Completion::Collective => match mask {
                None => true,
                Some(LaneStorage::Constant(mask)) => *mask as u32 == u32::MAX,
                Some(_) => false,
            },
        }
    }

    /// Returns whether a phase may begin at the resume point after this sync point.
    pub fn begins_at(&self, sync_point: SyncPoint) -> bool {
        let barrier = |places: &SyncPointPlaces| places.completion.is_barrier();
        sync_point == SyncPoint::START || self.get(sync_point).is_some_and(barrier)
    }

    /// Returns the address of an entry, which generated code passes to helpers.
    pub(crate) fn address(&self, index: u32) -> Option<u64> {
        let place: &SyncPointPlaces = self.0.get(index as usize)?;
        Some(std::ptr::from_ref(place) as u64)
    }
}
