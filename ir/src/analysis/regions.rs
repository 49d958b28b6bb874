//! Finds the regions of a function that the pass [`crate::pass::sync_points`] has prepared. The
//! result contains the resume points, the values that each region needs, and the layout of the
//! frame of a warp.
//!
//! Resume point 0 is the start of the function. For all other `i`, resume point `i` is the start of
//! the block after sync point `i`. Sync points are numbered in the order of the program
//! ([`Cfg::program_order`]). A [`SyncPoint`] contains this number. A lane that waits at sync point
//! `i` has stored two kinds of values in its warp's frame: the values that are live after the sync
//! point, and the operands of the sync point that are not constants. The results of the sync point
//! are stored in the frame before the lane resumes.
//!
//! The frame of a warp begins with a header: 32 stop words, one for each lane, and the mask of the
//! lanes that have not exited. For each stored value, an array of 32 elements follows, aligned to
//! the size of an element. For each stored integer of 32 or 64 bits, 32 bytes follow these arrays.
//! In these bytes, one for each lane, vector code records whether the integer passed the run-time
//! check for speculatively affine values. A live value is not stored if it is cheap to
//! rematerialise from values that never change during a launch
//! ([`is_rematerialised`](Regions::is_rematerialised)), unless it is an operand of a sync point.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::analysis::{Cfg, liveness};
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{Function, ValueDef, payload_sreg};
use crate::sync_point::{SyncPoint, SyncPointData};
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, Type};

/// The offset in bytes, in a frame, of the mask of the lanes that have not exited.
pub const FRAME_ALIVE: u32 = 32 * 4;
/// The size in bytes of a frame's header: the stop word of each lane, and the mask of the lanes
/// that have not exited.
pub const FRAME_HEADER: u32 = 192;

/// A resume point, at which a region begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResumePoint {
    /// The first block of the region.
    pub block: Block,
    /// The sync point that precedes the region, or `None` for the start of the function.
    pub sync_point: Option<Inst>,
    /// The values that are live at the start of the region and are stored in the frame.
    pub live_in: Vec<Value>,
}

/// The regions of a function, with the layout of its frames.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Regions {
    /// The resume points; the index is the number of the resume point.
    pub resume_points: Vec<ResumePoint>,
    sync_points: FxHashMap<Inst, SyncPoint>,
    offsets: SecondaryMap<Value, u32>,
    notes: SecondaryMap<Value, u32>,
    /// For each sync point, the live values that the frame possibly does not contain yet. The first table assumes that
    /// only barriers store values; the second table assumes that all sync points except `yield` store values.
    stale: [Stale; 2],
    remat: SecondaryMap<Value, bool>,
    /// The size in bytes of the frame of a warp.
    pub frame_bytes: u32,
}

/// The maximum number of operations that compute a rematerialised value. A value that needs more
/// operations is stored.
const MAX_REMAT_COST: u32 = 8;

impl Regions {
    /// Finds the regions of a function that the pass [`crate::pass::sync_points`] has prepared.
    pub fn new(function: &Function, cfg: &Cfg) -> Regions {
        let remat = rematerialised(function, cfg);
        let mut resume_points = vec![ResumePoint {
            block: function.entry(),
            sync_point: None,
            live_in: Vec::new(),
        }];
        let mut sync_points = FxHashMap::default();
        for block in cfg.program_order(function) {
            if let Some((inst, next)) = sync_point_of(function, block) {
                sync_points.insert(inst, SyncPoint(resume_points.len() as u32));
                resume_points.push(ResumePoint {
                    block: next,
                    sync_point: Some(inst),
                    live_in: Vec::new(),
                });
            }
        }
        let mut starts: SecondaryMap<Block, bool> = SecondaryMap::default();
        for resume_point in &resume_points[1..] {
            starts[resume_point.block] = true;
        }
        let mut stale: [Stale; 2] = Default::default();
        let live = liveness::live_in(
            function,
            cfg,
            |block| starts[block],
            |value| remat[value],
            |range| {
                let [barriers, all] = &mut stale;
                let barrier = |opcode| opcode == Opcode::Bar;
                find_stale(function, &sync_points, range, barriers, barrier);
                let stops = |opcode| opcode != Opcode::Yield;
                find_stale(function, &sync_points, range, all, stops);
            },
        );
        for resume_point in &mut resume_points[1..] {
            resume_point.live_in = live[resume_point.block].clone();
        }
        let mut regions = Regions {
            resume_points,
            sync_points,
            offsets: SecondaryMap::default(),
            notes: SecondaryMap::default(),
            stale,
            remat,
            frame_bytes: FRAME_HEADER,
        };
        regions.lay_out(function);
        regions
    }

    fn lay_out(&mut self, function: &Function) {
        let mut stored: Vec<Value> = Vec::new();
        for resume_point in &self.resume_points {
            stored.extend_from_slice(&resume_point.live_in);
            if let Some(inst) = resume_point.sync_point {
                let args = function.dfg.args(inst).iter().copied();
                stored.extend(args.filter(|&v| function.dfg.constant(v).is_none()));
                stored.extend_from_slice(function.dfg.results(inst));
            }
        }
        stored.sort_unstable();
        stored.dedup();
        // The widest values come first, so that arrays are aligned without gaps.
        stored.sort_by_key(|&v| std::cmp::Reverse(function.dfg.ty(v).lane_bytes()));
        let is_integer =
            |&value: &Value| matches!(function.dfg.ty(value).kind(), Kind::B32 | Kind::B64);
        let integers: Vec<Value> = stored.iter().copied().filter(is_integer).collect();
        for value in stored {
            self.offsets[value] = self.frame_bytes;
            self.frame_bytes += 32 * function.dfg.ty(value).lane_bytes();
        }
        for value in integers {
            self.notes[value] = self.frame_bytes;
            self.frame_bytes += 32;
        }
        self.frame_bytes = self.frame_bytes.next_multiple_of(64);
    }

    /// Returns the blocks that a lane may execute from the block `start` until it reaches a sync
    /// point, including the block of the sync point. A `yield` does not end the search, because a
    /// lane may pass a `yield` without stopping.
    pub fn blocks_of(&self, function: &Function, start: Block) -> Vec<Block> {
        let mut seen = FxHashSet::from_iter([start]);
        let mut blocks = vec![start];
        let mut next = 0;
        while let Some(&block) = blocks.get(next) {
            next += 1;
            let stops = |&inst: &Inst| {
                let effects = function.effects(inst);
                effects.is_sync_point() && function.dfg.insts[inst].opcode != Opcode::Yield
            };
            if function.insts(block).iter().any(stops) {
                continue;
            }
            let successors = function.successors(block);
            blocks.extend(
                successors
                    .iter()
                    .map(|call| call.block)
                    .filter(|&block| seen.insert(block)),
            );
        }
        blocks
    }

    /// Returns the number of the sync point `inst`, or `None` if the instruction is not a sync
    /// point.
    pub fn sync_point(&self, inst: Inst) -> Option<SyncPoint> {
        self.sync_points.get(&inst).copied()
    }

    /// Returns the data of a sync point that the CTA scheduler needs, or `None` for
    /// [`SyncPoint::START`] and [`SyncPoint::EXIT`].
    pub fn sync_point_data(
        &self,
        function: &Function,
        sync_point: SyncPoint,
    ) -> Option<SyncPointData> {
        let inst = self.resume_points.get(sync_point.0 as usize)?.sync_point?;
        Some(SyncPointData {
            desc: function.dfg.insts[inst].desc(),
            loc: function.dfg.locs[inst],
        })
    }

    /// Returns the offset in bytes, in the frame, of the array that contains a stored value, or
    /// `None` if the value is never stored.
    pub fn offset(&self, value: Value) -> Option<u32> {
        match self.offsets[value] {
            0 => None,
            offset => Some(offset),
        }
    }

    /// Returns the offset in bytes, in the frame, of the 32 bytes (one for each lane) in which
    /// vector code records whether a stored integer passed the run-time check for speculatively
    /// affine values. Returns `None` for values other than stored integers of 32 or 64 bits.
    pub fn note_offset(&self, value: Value) -> Option<u32> {
        match self.notes[value] {
            0 => None,
            offset => Some(offset),
        }
    }

    /// Returns whether, on every path from the definition of `value` to `sync_point`, a barrier has
    /// stored the value in the frame. Other sync points do not count, because lanes may continue
    /// after such a sync point with the value in registers.
    pub fn is_stored(&self, sync_point: SyncPoint, value: Value) -> bool {
        let stale = self.stale[0].get(&sync_point);
        !stale.is_some_and(|stale| stale.contains(&value))
    }

    /// Returns whether, on every path from the definition of `value` to `sync_point`, a sync point other than a `yield`
    /// has stored the value in the frame. This function is for code in which lanes stop at every sync point except
    /// perhaps at `yield`.
    pub fn is_stored_by_sync_points(&self, sync_point: SyncPoint, value: Value) -> bool {
        let stale = self.stale[1].get(&sync_point);
        !stale.is_some_and(|stale| stale.contains(&value))
    }

    /// Returns the offset in bytes, in the frame, of the element for `lane` in the array that
    /// contains a stored value of type `ty`.
    pub fn lane_offset(&self, value: Value, ty: Type, lane: u32) -> Option<u32> {
        Some(self.offset(value)? + lane * ty.lane_bytes())
    }

    /// Returns whether code computes a value again where it needs the value (rematerialises it).
    /// Such a value is stored only if it is an operand of a sync point.
    pub fn is_rematerialised(&self, value: Value) -> bool {
        self.remat[value]
    }
}

/// For each sync point, the live values that the frame possibly does not contain yet.
type Stale = FxHashMap<SyncPoint, FxHashSet<Value>>;

/// Adds the value of `range` to `stale` for each sync point that a lane can reach from the definition of the value
/// without reaching an earlier sync point that stores the value.
fn find_stale(
    function: &Function,
    sync_points: &FxHashMap<Inst, SyncPoint>,
    range: liveness::Range<'_>,
    stale: &mut Stale,
    stores: impl Fn(Opcode) -> bool,
) {
    let mut seen = FxHashSet::from_iter([range.home]);
    let mut work = vec![range.home];
    while let Some(block) = work.pop() {
        if let Some((inst, _)) = sync_point_of(function, block) {
            if let Some(&sync_point) = sync_points.get(&inst) {
                stale.entry(sync_point).or_default().insert(range.value);
            }
            if stores(function.dfg.insts[inst].opcode) {
                continue;
            }
        }
        let successors = function.successors(block).iter().map(|call| call.block);
        work.extend(successors.filter(|&next| range.enters(next) && seen.insert(next)));
    }
}

/// Returns the sync point at the end of a block, and the target of the jump that follows it, or
/// `None` if the block has no sync point.
pub fn sync_point_of(function: &Function, block: Block) -> Option<(Inst, Block)> {
    let insts = function.insts(block);
    let [.., sync_point, jump] = insts else {
        return None;
    };
    let next = function.dfg.targets(*jump).first()?;
    function
        .effects(*sync_point)
        .is_sync_point()
        .then_some((*sync_point, next.block))
}

/// Returns which values are cheap to rematerialise from values that never change during a launch.
pub(crate) fn rematerialised(function: &Function, cfg: &Cfg) -> SecondaryMap<Value, bool> {
    let mut cost: SecondaryMap<Value, u32> = SecondaryMap::with_default(u32::MAX);
    let mut remat: SecondaryMap<Value, bool> = SecondaryMap::default();
    for &block in cfg.rpo() {
        for &inst in function.insts(block) {
            let [result] = function.dfg.results(inst) else {
                continue;
            };
            if let Some(total) = remat_cost(function, inst, &cost)
                && total <= MAX_REMAT_COST
            {
                cost[*result] = total;
                remat[*result] = true;
            }
        }
    }
    remat
}

fn remat_cost(function: &Function, inst: Inst, cost: &SecondaryMap<Value, u32>) -> Option<u32> {
    let data = &function.dfg.insts[inst];
    let args = || {
        function.dfg.args(inst).iter().try_fold(1u32, |sum, &v| {
            matches!(function.dfg.values[v].def, ValueDef::Result(..)).then_some(())?;
            sum.checked_add(cost[v])
        })
    };
    match data.opcode {
        Opcode::Const
        | Opcode::SymbolAddr
        | Opcode::ParamAddr
        | Opcode::LocalAddr
        | Opcode::FuncAddr => Some(0),
        Opcode::SReg => payload_sreg(data.payload()).map(|_| 1),
        Opcode::Ld if is_param_load(function, inst) => Some(1),
        Opcode::Div | Opcode::Rem | Opcode::Sqrt | Opcode::Sin | Opcode::Cos => None,
        opcode if opcode.effects().is_pure() => args(),
        _ => None,
    }
}

/// Returns whether the load `load` reads a kernel parameter at a constant offset. Such a load
/// always has the same result and never faults.
pub fn is_param_load(function: &Function, load: Inst) -> bool {
    let data = &function.dfg.insts[load];
    data.opcode == Opcode::Ld
        && data.mods.space() == StateSpace::Param
        && data.mods.is_weak()
        && is_param_addr(function, load)
}

fn is_param_addr(function: &Function, load: Inst) -> bool {
    let address = function.dfg.args(load)[0];
    let of_param = |v: Value| {
        function
            .dfg
            .def_inst(v)
            .is_some_and(|inst| function.dfg.insts[inst].opcode == Opcode::ParamAddr)
    };
    of_param(address)
        || function.dfg.def_inst(address).is_some_and(|inst| {
            function.dfg.insts[inst].opcode == Opcode::Add
                && function.dfg.args(inst).iter().any(|&v| of_param(v))
                && function
                    .dfg
                    .args(inst)
                    .iter()
                    .any(|&v| function.dfg.constant(v).is_some())
        })
}
