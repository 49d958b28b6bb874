//! Folds constants, applies identities that hold for all operands, simplifies masks and branches, and removes redundant
//! block parameters and blocks.
//!
//! Constants are computed with the reference functions. Identities of floating-point operations are applied only if they
//! keep every bit of the result, so `x * 1.0` stays: it makes a signalling NaN quiet.
//!
//! The rules are in one module for each group of ops. A rule looks at an instruction and the definitions of its operands
//! and returns a [`Change`]. Blocks are visited in reverse postorder, so that operands are simplified before their uses.

mod blocks;
mod control;
mod fold;
mod lanes;
mod map;
mod masks;
mod memory;

use margay_ir::analysis::Cfg;
use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::edit;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::{BlockCall, ValueData, ValueDef};
use margay_ops::types::Type;
use smallvec::{SmallVec, smallvec};

use super::emitter::made;
use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;
pub(super) use map::{is_commutative, is_whole_integer};

/// The maximum number of rounds. Each round finds only what the removal of branches and block parameters in the round
/// before made possible.
const ROUNDS: usize = 4;

/// The maximum number of rules that are applied to one instruction.
const RULES: usize = 16;

/// What a rule did with an instruction.
enum Change {
    /// The results of the instruction are these values.
    Values(SmallVec<[Value; 2]>),
    /// The rule has changed the instruction in place.
    Changed,
    /// The rule has changed the instruction into the terminator of the block: the rest of the block is not reachable.
    Ended,
    /// The instruction has no effect.
    Removed,
}

impl Change {
    fn value(value: Value) -> Option<Change> {
        Some(Change::Values(smallvec![value]))
    }
}

/// Simplifies a function.
pub fn run(function: &mut Function) {
    let mut has_new_operands = true;
    for _ in 0..ROUNDS {
        if has_new_operands {
            fold_all(function);
        }
        remove_unreachable(function);
        has_new_operands = edit::drop_redundant_params(function);
        if has_new_operands {
            edit::resolve_aliases(function);
        }
        if !blocks::run(function) && !has_new_operands {
            break;
        }
    }
}

/// Applies the rules to all instructions.
fn fold_all(function: &mut Function) {
    let cfg = Cfg::new(function);
    let mut edges = Edges::default();
    for &block in cfg.rpo() {
        let insts = std::mem::take(&mut function.body[block]);
        let mut rewriter = Rewriter {
            list: Vec::with_capacity(insts.len()),
            place: 0,
            depth: 0,
            has_ended: false,
            function,
        };
        edges.enter(&mut rewriter, &cfg, block);
        for inst in insts {
            if rewriter.has_ended {
                rewriter.function.targets.remove(&inst);
                continue;
            }
            edit::resolve_args(rewriter.function, inst);
            rewriter.place = rewriter.function.places[inst];
            rewriter.add(inst);
        }
        let list = rewriter.list;
        if let Some(&last) = list.last() {
            edit::resolve_targets(function, last);
        }
        function.body[block] = list;
    }
}

/// What is known about the edges between blocks while blocks are visited in reverse postorder.
#[derive(Default)]
struct Edges {
    is_visited: SecondaryMap<Block, bool>,
    /// Whether no edge leads to a visited block any more.
    is_dead: SecondaryMap<Block, bool>,
}

impl Edges {
    /// Replaces the parameters of a block to which all edges pass equal constants.
    fn enter(&mut self, rewriter: &mut Rewriter<'_>, cfg: &Cfg, block: Block) {
        let found = self.constants(rewriter.function, cfg, block);
        self.is_visited[block] = true;
        for (index, bits) in found {
            let param = rewriter.function.blocks[block][index];
            let ty = rewriter.function.ty(param);
            let value = rewriter.constant(ty, bits);
            let def = ValueDef::Param(block, index as u16);
            let unused = rewriter.function.values.push(ValueData { ty, def });
            rewriter.function.blocks[block][index] = unused;
            rewriter.function.values[param].def = ValueDef::Alias(value);
        }
    }

    /// Returns the indices of the parameters of a block to which all edges pass equal constants, and the constants.
    fn constants(
        &mut self,
        function: &Function,
        cfg: &Cfg,
        block: Block,
    ) -> SmallVec<[(usize, u64); 4]> {
        let preds = cfg.preds(block);
        let mut found = SmallVec::new();
        if block == function.entry() || !preds.iter().all(|&pred| self.is_visited[pred]) {
            return found;
        }
        let live = preds.iter().filter(|&&pred| !self.is_dead[pred]);
        let calls = live.flat_map(|&pred| function.successors(pred));
        let calls: SmallVec<[&BlockCall; 4]> = calls.filter(|call| call.block == block).collect();
        let Some((first, others)) = calls.split_first() else {
            self.is_dead[block] = true;
            return found;
        };
        for (index, &arg) in first.args.iter().enumerate() {
            let bits = function.constant(arg);
            let is_same = |call: &&BlockCall| function.constant(call.args[index]) == bits;
            if let Some(bits) = bits
                && others.iter().all(is_same)
            {
                found.push((index, bits));
            }
        }
        found
    }
}

/// Creates the new body of a block.
struct Rewriter<'a> {
    function: &'a mut Function,
    list: Vec<Inst>,
    /// The place of the current instruction, which new instructions get.
    place: u64,
    /// The number of instructions that are being added because of each other.
    depth: usize,
    has_ended: bool,
}

impl Rewriter<'_> {
    /// Applies rules to an instruction and appends it unless it becomes redundant.
    fn add(&mut self, inst: Inst) {
        self.depth += 1;
        let limit = if self.depth > RULES { 0 } else { RULES };
        for _ in 0..limit {
            match self.rule(inst) {
                None => break,
                Some(Change::Changed) => {}
                Some(Change::Ended) => {
                    self.has_ended = true;
                    break;
                }
                Some(Change::Removed) => {
                    self.depth -= 1;
                    return;
                }
                Some(Change::Values(values)) => {
                    self.alias(inst, &values);
                    self.depth -= 1;
                    return;
                }
            }
        }
        self.list.push(inst);
        self.depth -= 1;
    }

    fn rule(&mut self, inst: Inst) -> Option<Change> {
        let op = self.function.insts[inst].op;
        if let Some(change) = fold::rule(self, inst) {
            return Some(change);
        }
        match op {
            Op::Map => map::rule(self, inst),
            Op::Load | Op::Store | Op::Gather | Op::Scatter | Op::Update | Op::CallLanes => {
                memory::rule(self, inst)
            }
            Op::Ballot | Op::Mask | Op::Any | Op::All => masks::rule(self, inst),
            Op::Jump | Op::Brif | Op::BrTable | Op::TrapIf => control::rule(self, inst),
            _ => lanes::rule(self, inst),
        }
    }

    fn alias(&mut self, inst: Inst, values: &[Value]) {
        let results: SmallVec<[Value; 2]> = self.function.results(inst).into();
        for (&result, &value) in results.iter().zip(values) {
            self.function.values[result].def = ValueDef::Alias(value);
        }
    }

    /// Appends a new instruction with one result, simplified, and returns its result.
    fn emit(&mut self, op: Op, ty: Type, data: Data, args: &[Value]) -> Value {
        let inst = made(self.function, op, ty, data, args, self.place);
        let result = self.function.results(inst)[0];
        self.add(inst);
        margay_ir::function::resolve(&self.function.values, result)
    }

    fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.emit(Op::Const, ty, Data::Number(bits), &[])
    }

    /// Changes the operands of an instruction, and its op and data.
    fn set(&mut self, inst: Inst, op: Op, data: Data, args: &[Value]) -> Option<Change> {
        let list = self.function.pool.push(args);
        let this = &mut self.function.insts[inst];
        (this.op, this.data, this.args) = (op, data, list);
        Some(Change::Changed)
    }

    /// Changes the operands of an instruction.
    fn set_args(&mut self, inst: Inst, args: &[Value]) -> Option<Change> {
        let data = self.function.insts[inst];
        self.set(inst, data.op, data.data, args)
    }

    /// Returns the op and the operands of the instruction that defines a value.
    fn def(&self, value: Value) -> Option<(Op, Inst, SmallVec<[Value; 4]>)> {
        let inst = self.function.def_inst(value)?;
        Some((
            self.function.insts[inst].op,
            inst,
            self.function.args(inst).into(),
        ))
    }

    /// Returns the operands of the instruction that defines a value, if it has the op `op`.
    fn def_as(&self, value: Value, op: Op) -> Option<&[Value]> {
        let inst = self.function.def_inst(value)?;
        (self.function.insts[inst].op == op).then(|| self.function.args(inst))
    }

    /// Returns `value` as a value of type `ty`: itself, or a vector with equal lanes if it is a scalar.
    fn as_type(&mut self, value: Value, ty: Type) -> Option<Value> {
        let actual = self.function.ty(value);
        if actual == ty {
            return Some(value);
        }
        (actual == Type::scalar(ty.kind()))
            .then(|| self.emit(Op::Splat, ty, Data::Nothing, &[value]))
    }
}
