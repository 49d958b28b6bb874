//! Finds loads that read fields of the same rows: arrays of structures.
//!
//! A *group* consists of loads of one block whose lanes have the same distance and whose displacements are at most a
//! register apart. [`Selector::load_rows`] executes them together, where the first of them is. No other effects
//! than loads are between them. If a row load faults, the fault handler finds the access that the program would have
//! executed first among those that fault; therefore a group knows all accesses from its first to its last one, also
//! those that are not part of it ([`crate::code::Cause::Rows`]).
//!
//! Only loads without a mask form groups. Code in which all lanes run has no masks.

use std::ops::Range;
use std::rc::Rc;

use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::ValueDef;
use margay_ops::types::Type;
use margay_vir::data::{Access, Data};
use margay_vir::ops::Op as VirOp;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Selector;
use super::transpose::{self, Plan, Rows};
use crate::code::OTHER_BASES;

/// The maximum number of accesses from the first to the last one of a group.
const MOST_ACCESSES: usize = 48;
/// The maximum number of operations that are selected before the first load of a group.
const MOST_EARLY: usize = 6;
/// The limit of displacements and of the distances between the first and the last lane of a group.
const FARTHEST: i64 = 1 << 24;

/// Loads of fields of the same rows.
#[derive(Debug)]
pub(super) struct Group {
    /// The loads, in the order of the program.
    pub(super) members: SmallVec<[Inst; 8]>,
    /// The base of the rows, and the other bases of the accesses.
    pub(super) bases: SmallVec<[Value; 1 + OTHER_BASES]>,
    /// The operations that compute the other bases and are behind the first load, in the order of the program.
    pub(super) early: SmallVec<[Inst; 4]>,
    /// The accesses from the first load to the last one: the instruction, and the number of its base.
    pub(super) accesses: Vec<(Inst, u8)>,
    pub(super) ty: Type,
    pub(super) stride: i64,
    /// The displacement of the first field of a row.
    pub(super) lowest: i32,
    pub(super) plan: Rc<Plan>,
}

/// The groups of a block, and what is known about other blocks.
#[derive(Default)]
pub(super) struct Groups {
    /// The groups, by the first of their loads.
    pub(super) first: FxHashMap<Inst, Group>,
    /// The instructions that are selected together with the first load of a group.
    pub(super) done: rustc_hash::FxHashSet<Inst>,
    /// The bytes from each base on that accesses of rows without a mask access, by base and stride. Rows that have been
    /// prefetched are removed.
    pub(super) extents: FxHashMap<(Value, i64), Range<i64>>,
    plans: FxHashMap<Rows, Option<Rc<Plan>>>,
}

/// A load or store that accesses memory in all its lanes.
#[derive(Clone, Copy)]
struct Strided {
    inst: Inst,
    /// The position in the block.
    position: usize,
    base: Value,
    access: Access,
    ty: Type,
}

impl Strided {
    fn bytes(&self) -> i64 {
        i64::from(self.access.memory.bits() / 8)
    }

    /// Returns whether the lanes access rows that are not contiguous.
    fn is_strided(&self) -> bool {
        let stride = self.access.stride;
        let reach = stride.checked_mul(self.ty.lanes().into());
        self.ty.lanes() > 1
            && stride != 0
            && stride != self.bytes()
            && reach.is_some_and(|reach| reach.abs() < FARTHEST)
            && i64::from(self.access.displacement).abs() < FARTHEST
    }

    /// Returns whether the load can be part of a group.
    fn is_field(&self) -> bool {
        let bytes = self.bytes();
        self.is_strided()
            && matches!(bytes, 4 | 8)
            && bytes * 8 == i64::from(self.ty.lane_bits())
            && self.access.stride % bytes == 0
    }

    /// Returns whether both loads can be parts of a group.
    fn is_like(&self, other: &Strided) -> bool {
        let distance = self.access.displacement - other.access.displacement;
        self.base == other.base
            && self.ty.lanes() == other.ty.lanes()
            && self.access.stride == other.access.stride
            && self.bytes() == other.bytes()
            && i64::from(distance) % self.bytes() == 0
    }
}

impl Selector<'_> {
    /// Finds the groups of a block.
    pub(super) fn find_groups(&mut self, block: Block) {
        let vir = self.vir;
        if !self.has_masks() {
            return;
        }
        self.groups.first.clear();
        self.groups.done.clear();
        self.groups.extents.clear();
        let mut positions: FxHashMap<Inst, usize> = FxHashMap::default();
        let mut run: Vec<Option<Strided>> = Vec::new();
        let mut has_fields = false;
        for (position, &inst) in vir.body[block].iter().enumerate() {
            positions.insert(inst, position);
            let effects = vir.insts[inst].op.row().effects;
            if effects.is_empty() {
                continue;
            }
            if let Some(access) = self
                .plain_access(inst, position)
                .filter(Strided::is_strided)
            {
                self.extend(&access);
            }
            if matches!(vir.insts[inst].op, VirOp::Load | VirOp::Gather) {
                let load = self.plain_access(inst, position);
                has_fields |= load.is_some_and(|load| load.is_field());
                run.push(load);
                continue;
            }
            if has_fields {
                self.find_in_run(&run, &positions);
            }
            run.clear();
            has_fields = false;
        }
    }

    /// Returns a load or store, without offsets, that accesses memory in all its lanes.
    fn plain_access(&self, inst: Inst, position: usize) -> Option<Strided> {
        let data = self.vir.insts[inst];
        let mask = match data.op {
            VirOp::Load => 1,
            VirOp::Store => 2,
            _ => return None,
        };
        let (Data::Access(access), Some(ty)) = (data.data, data.ty) else {
            return None;
        };
        let args = self.vir.args(inst);
        let is_whole = args
            .get(mask)
            .is_none_or(|&mask| self.constants[mask].is_some_and(|bits| bits & 1 == 1));
        is_whole.then_some(Strided {
            inst,
            position,
            base: args[0],
            access,
            ty,
        })
    }

    /// Notes the bytes of an access of rows.
    fn extend(&mut self, access: &Strided) {
        let start = i64::from(access.access.displacement);
        let reach = access.access.stride * i64::from(access.ty.lanes() - 1);
        let low = start + reach.min(0);
        let high = start + reach.max(0) + access.bytes();
        let key = (access.base, access.access.stride);
        let extent = self.groups.extents.entry(key).or_insert(low..high);
        *extent = extent.start.min(low)..extent.end.max(high);
    }

    /// Finds the groups of loads between which nothing else has an effect.
    fn find_in_run(&mut self, run: &[Option<Strided>], positions: &FxHashMap<Inst, usize>) {
        let mut taken = vec![false; run.len()];
        for index in 0..run.len() {
            let Some(first) = run[index].filter(Strided::is_field) else {
                continue;
            };
            if taken[index] {
                continue;
            }
            let Some((group, members)) = self.group(&run[index..], &taken[index..], positions)
            else {
                continue;
            };
            for &member in &members {
                taken[index + member] = true;
            }
            self.groups.done.extend(&group.members[1..]);
            self.groups.done.extend(&group.early);
            self.groups.first.insert(first.inst, group);
        }
    }

    /// Returns the group of the first load of a run, and the numbers of its loads in the run.
    fn group(
        &mut self,
        run: &[Option<Strided>],
        taken: &[bool],
        positions: &FxHashMap<Inst, usize>,
    ) -> Option<(Group, SmallVec<[usize; 8]>)> {
        let first = run[0]?;
        let span = i64::from(self.width / 8);
        let (mut members, mut loads) = (SmallVec::new(), SmallVec::<[Strided; 8]>::new());
        let (mut low, mut high) = (i64::from(first.access.displacement), i64::MIN);
        let mut bases = SmallVec::from_slice(&[first.base]);
        let mut accesses = Vec::new();
        let mut early = SmallVec::new();
        // The bases, operations and accesses up to the last member.
        let mut end = (1, 0, 0);
        for (number, (load, &is_taken)) in run.iter().zip(taken).enumerate() {
            // The loads of earlier groups have been executed.
            if is_taken {
                continue;
            }
            let Some(load) = *load else {
                break;
            };
            let known = bases.iter().position(|&base| base == load.base);
            let is_full =
                accesses.len() == MOST_ACCESSES || known.is_none() && bases.len() > OTHER_BASES;
            if is_full || !self.is_known_early(load.base, first.position, positions, &mut early) {
                break;
            }
            let base = known.unwrap_or(bases.len());
            if known.is_none() {
                bases.push(load.base);
            }
            accesses.push((load.inst, base as u8));
            let displacement = i64::from(load.access.displacement);
            let (new_low, new_high) =
                (low.min(displacement), high.max(displacement + load.bytes()));
            let is_new = |other: &Strided| other.access.displacement != load.access.displacement;
            if load.is_field()
                && load.is_like(&first)
                && new_high - new_low <= span
                && loads.iter().all(is_new)
            {
                (low, high) = (new_low, new_high);
                loads.push(load);
                members.push(number);
                end = (bases.len(), early.len(), accesses.len());
            }
        }
        if loads.len() < 2 {
            return None;
        }
        bases.truncate(end.0);
        early.truncate(end.1);
        accesses.truncate(end.2);
        let plan = self.plan(&loads, low)?;
        let group = Group {
            members: loads.iter().map(|load| load.inst).collect(),
            bases,
            early,
            accesses,
            ty: first.ty,
            stride: first.access.stride,
            lowest: low as i32,
            plan,
        };
        Some((group, members))
    }

    /// Returns whether a value can be known at a position of the block. Appends the operations that must be selected
    /// early for this: a few operations without effects of scalars.
    fn is_known_early(
        &self,
        value: Value,
        position: usize,
        positions: &FxHashMap<Inst, usize>,
        early: &mut SmallVec<[Inst; 4]>,
    ) -> bool {
        let ValueDef::Result(inst, _) = self.vir.values[value].def else {
            return true;
        };
        let is_before = |&found: &usize| found < position;
        let is_selected = self.groups.done.contains(&inst) || early.contains(&inst);
        if is_selected || positions.get(&inst).is_none_or(is_before) {
            return true;
        }
        let data = &self.vir.insts[inst];
        let is_simple = matches!(data.op, VirOp::Map | VirOp::Const)
            && self.vir.ty(value).lanes() == 1
            && early.len() < MOST_EARLY;
        if !is_simple {
            return false;
        }
        let mut args = self.vir.args(inst).iter();
        let is_known = args.all(|&arg| self.is_known_early(arg, position, positions, early));
        if is_known {
            early.push(inst);
        }
        is_known
    }

    /// Returns the plan for some loads, if it is better than gathers.
    fn plan(&mut self, loads: &[Strided], lowest: i64) -> Option<Rc<Plan>> {
        let (bytes, lanes) = (loads[0].bytes(), loads[0].ty.lanes());
        let bits = 8 * bytes as u32;
        let width = self.width / bits;
        let field = |load: &Strided| ((i64::from(load.access.displacement) - lowest) / bytes) as u8;
        let rows = Rows {
            width: width as usize,
            quarter: (128 / bits) as usize,
            lanes: lanes.min(width) as usize,
            stride: loads[0].access.stride / bytes,
            fields: loads.iter().map(field).collect(),
        };
        let plans = &mut self.groups.plans;
        let plan = plans.entry(rows).or_insert_with_key(|rows| {
            let gathers = rows.lanes * rows.fields.len();
            let plan = transpose::plan(rows)?;
            (plan.cost() < gathers).then(|| Rc::new(plan))
        });
        plan.clone()
    }
}
