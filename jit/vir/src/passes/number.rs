//! Value numbering: replaces an operation by an equal operation that dominates it, and a load by the value that is known
//! to be in memory.
//!
//! Operations without effects are equal if op, type, data and operands are equal; the operands of commutative operations
//! of integers may be swapped, and sums, differences and products do not depend on whether the type has a sign.
//!
//! A load is replaced if an equal load, or a store of the same bytes, precedes it and nothing in between may have changed
//! the memory: no store that may alias, no call and no fence. Known memory is passed on to a block with only one
//! predecessor. The load that is removed cannot fault, because the access before it would have faulted.

use std::hash::{Hash, Hasher};

use margay_ir::analysis::{Cfg, Dominators};
use margay_ir::edit;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::ValueDef;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use super::aliases::{Bytes, Touch, bytes, touch};
use super::emitter::plain;
use super::simplify::{is_commutative, is_whole_integer};
use crate::data::{Access, Data, lanes_of};
use crate::function::{Function, InstData};
use crate::ops::Op;

/// The maximum number of accesses whose values are known at the same time.
const MOST_KNOWN: usize = 24;

/// The value that an access loads, if it is executed again.
#[derive(Clone, Copy)]
struct Known {
    /// A load, or a store.
    inst: Inst,
    value: Value,
    bytes: Bytes,
}

/// The contents of memory that are known at a point of the program.
type Memory = Vec<Known>;

/// Replaces repeated operations and loads.
pub fn run(function: &mut Function) {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let mut pass = Numbering {
        function,
        cfg: &cfg,
        dominators: &dominators,
        seen: FxHashMap::default(),
        changed: false,
    };
    // The memory at the end of each block that passes it on.
    let mut ends: SecondaryMap<Block, Option<Memory>> = SecondaryMap::default();
    // Only the blocks on the path from the entry to the current block in the dominator tree dominate it. Blocks are
    // visited in preorder, so an operation that does not dominate the current block is never needed again.
    for block in dominators.preorder(&cfg) {
        let memory = match cfg.preds(block) {
            [pred] => ends[*pred].clone(),
            _ => None,
        };
        let memory = pass.block(block, memory.unwrap_or_default());
        let successors = pass.function.successors(block).iter();
        let mut single = successors.filter(|call| cfg.preds(call.block).len() == 1);
        if single.next().is_some() && !memory.is_empty() {
            ends[block] = Some(memory);
        }
    }
    if pass.changed {
        edit::resolve_aliases(function);
    }
}

struct Numbering<'a> {
    function: &'a mut Function,
    cfg: &'a Cfg,
    dominators: &'a Dominators,
    /// For each hash of an operation, the operation that was seen last.
    seen: FxHashMap<u64, (Block, Inst)>,
    changed: bool,
}

impl Numbering<'_> {
    fn block(&mut self, block: Block, mut memory: Memory) -> Memory {
        let mut insts = std::mem::take(&mut self.function.body[block]);
        insts.retain(|&inst| {
            edit::resolve_args(self.function, inst);
            let data = self.function.insts[inst];
            let first = match data.op {
                _ if data.op.row().effects.is_empty() => self.equal(block, inst),
                _ => None,
            };
            let values: SmallVec<[Value; 2]> = match first {
                Some(first) => self.function.results(first).into(),
                None => match self.access(inst, &mut memory) {
                    Some(value) => SmallVec::from_iter([value]),
                    None => return true,
                },
            };
            let results: SmallVec<[Value; 2]> = self.function.results(inst).into();
            for (&result, value) in results.iter().zip(values) {
                self.function.values[result].def = ValueDef::Alias(value);
            }
            self.changed = true;
            false
        });
        self.function.body[block] = insts;
        memory
    }

    /// Returns an operation that dominates `inst` and is equal to it. If there is none, `inst` is found from now on.
    fn equal(&mut self, block: Block, inst: Inst) -> Option<Inst> {
        let function = &*self.function;
        let key = key(function, inst);
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(&(home, first)) = self.seen.get(&hash)
            && self.dominators.dominates(self.cfg, home, block)
        {
            let is_equal = key == self::key(function, first) && same_types(function, inst, first);
            return is_equal.then_some(first);
        }
        self.seen.insert(hash, (block, inst));
        None
    }

    /// If an instruction loads what is known, returns the value. Otherwise updates what is known.
    fn access(&mut self, inst: Inst, memory: &mut Memory) -> Option<Value> {
        let function = &*self.function;
        match touch(function, inst) {
            Touch::Everything => memory.clear(),
            Touch::Writes(bytes) => {
                memory.retain(|known| !known.bytes.may_alias(bytes));
                if let Some(value) = stored(function, inst) {
                    remember(memory, Known { inst, value, bytes });
                }
            }
            Touch::Nothing => {}
        }
        if !matches!(function.insts[inst].op, Op::Load | Op::Gather) {
            return None;
        }
        if let Some(known) = memory
            .iter()
            .find(|known| is_same_access(function, known.inst, inst))
        {
            return Some(known.value);
        }
        let value = function.results(inst)[0];
        let bytes = bytes(function, inst);
        remember(memory, Known { inst, value, bytes });
        None
    }
}

fn remember(memory: &mut Memory, known: Known) {
    if memory.len() == MOST_KNOWN {
        memory.remove(0);
    }
    memory.push(known);
}

/// What is equal for equal operations.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    op: Op,
    ty: Option<Type>,
    data: Data,
    first: Option<(Value, Value)>,
    args: &'a [Value],
}

fn key(function: &Function, inst: Inst) -> Key<'_> {
    let InstData { op, ty, data, .. } = function.insts[inst];
    let data = without_sign(data, ty);
    let args = function.args(inst);
    let (first, args) = match (args, data, ty) {
        (&[a, b], Data::Lane(desc), Some(ty))
            if is_commutative(desc.opcode) && is_whole_integer(&desc, ty) =>
        {
            (Some((a.min(b), a.max(b))), &[][..])
        }
        _ => (None, args),
    };
    Key {
        op,
        ty,
        data,
        first,
        args,
    }
}

/// Returns the data of a sum, difference or product that does not depend on whether its operands have signs, with an
/// operation of unsigned numbers. Other data does not change.
fn without_sign(data: Data, ty: Option<Type>) -> Data {
    let (Data::Lane(desc), Some(ty)) = (data, ty) else {
        return data;
    };
    let unsigned = match desc.ty {
        OpType::S32 => OpType::U32,
        OpType::S64 => OpType::U64,
        ty => ty,
    };
    let has_no_sign = matches!(desc.opcode, Opcode::Add | Opcode::Sub | Opcode::Mul);
    match has_no_sign && is_whole_integer(&desc, ty) {
        true => Data::Lane(plain(desc.opcode, unsigned)),
        false => data,
    }
}

fn same_types(function: &Function, a: Inst, b: Inst) -> bool {
    let types = |inst| {
        function
            .results(inst)
            .iter()
            .map(|&value| function.ty(value))
    };
    types(a).eq(types(b))
}

/// If a load of what `inst` stores loads the stored value, returns that value: the store has no mask, keeps all bits of
/// each lane, and no lane overwrites another one.
fn stored(function: &Function, inst: Inst) -> Option<Value> {
    let data = &function.insts[inst];
    let (Op::Store, Data::Access(access), &[_, value]) = (data.op, data.data, function.args(inst))
    else {
        return None;
    };
    let is_apart = lanes_of(data.ty) == 1
        || access.stride.unsigned_abs() >= u64::from(access.memory.bits() / 8);
    (is_apart && is_whole(function, access, value)).then_some(value)
}

fn is_whole(function: &Function, access: Access, value: Value) -> bool {
    function.ty(value).lane_bits() == access.memory.bits()
}

/// Returns whether a load loads what another load has loaded, or what a store has stored.
fn is_same_access(function: &Function, known: Inst, load: Inst) -> bool {
    let (a, b) = (&function.insts[known], &function.insts[load]);
    let (args, loaded) = (function.args(known), function.args(load));
    if a.ty != b.ty || a.data != b.data {
        return false;
    }
    match a.op {
        Op::Store => b.op == Op::Load && loaded.len() == 1 && args[0] == loaded[0],
        op => op == b.op && args == loaded,
    }
}
