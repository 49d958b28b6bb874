//! Turns pieces of memory into SSA values: computes liveness, adds block parameters and walks the dominator tree.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::super::variables::{self, Variable, Variables, Walker};
use super::{Access, Plan};
use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, ValueDef};
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

/// Replaces the loads and stores of a plan by SSA values. The results of replaced loads become
/// aliases, which the caller must resolve.
pub(super) fn replace(function: &mut Function, plan: &Plan) {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let blocks = live_blocks(function, &cfg, plan).into_iter();
    let all = blocks
        .zip(&plan.pieces)
        .map(|((writes, live), piece)| Variable {
            ty: piece.ty,
            writes,
            live,
        });
    let all: Vec<Variable> = all.collect();
    let variables = Variables::place(function, &cfg, &dominators, all);
    let mut renamer = Renamer {
        accesses: plan.accesses.iter().map(|a| (a.inst, a)).collect(),
        plan,
        variables,
        zeros: FxHashMap::default(),
        code: Vec::new(),
        function,
    };
    variables::walk(&mut renamer, &cfg, &dominators);
    renamer.place_zeros();
}

/// Returns, for each piece, the blocks that write the piece and the blocks at whose start the piece is live.
fn live_blocks(function: &Function, cfg: &Cfg, plan: &Plan) -> Vec<(Vec<Block>, FxHashSet<Block>)> {
    let mut all: Vec<(Vec<Block>, FxHashSet<Block>)> = vec![Default::default(); plan.pieces.len()];
    let mut read_in: Vec<Vec<Block>> = vec![Vec::new(); plan.pieces.len()];
    for access in &plan.accesses {
        let loads = function.dfg.insts[access.inst].opcode == Opcode::Ld;
        for &piece in &access.pieces {
            // The accesses of a block are in order, so a read after a write in the same block does not read the value
            // that the piece has at the start of the block.
            let written = all[piece].0.last() == Some(&access.block);
            if !loads && !written {
                all[piece].0.push(access.block);
            } else if loads && !written {
                read_in[piece].push(access.block);
            }
        }
    }
    for ((writes, live), mut work) in all.iter_mut().zip(read_in) {
        let writes: FxHashSet<Block> = writes.iter().copied().collect();
        while let Some(block) = work.pop() {
            if live.insert(block) {
                let preds = cfg.preds(block).iter().copied();
                work.extend(preds.filter(|pred| !writes.contains(pred) && !live.contains(pred)));
            }
        }
    }
    all
}

struct Renamer<'a> {
    function: &'a mut Function,
    plan: &'a Plan,
    accesses: FxHashMap<Inst, &'a Access>,
    variables: Variables,
    zeros: FxHashMap<Type, Inst>,
    /// The new code of the current block.
    code: Vec<Inst>,
}

impl Walker for Renamer<'_> {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn block(&mut self, block: Block) {
        for inst in self.function.insts(block).to_vec() {
            match self.accesses.get(&inst).copied() {
                Some(access) => self.access(access),
                None => self.code.push(inst),
            }
        }
        self.function.layout.insts[block] = std::mem::take(&mut self.code);
        self.pass_arguments(block);
    }
}

impl Renamer<'_> {
    fn get(&mut self, piece: usize) -> Value {
        let ty = self.plan.pieces[piece].ty;
        match self.variables.get(piece) {
            Some(value) => value,
            None => self.zero(ty),
        }
    }

    /// Creates a zero constant of a type and returns it. [`place_zeros`](Renamer::place_zeros) inserts the constant
    /// into the entry block.
    fn zero(&mut self, ty: Type) -> Value {
        let dfg = &mut self.function.dfg;
        let inst = *self.zeros.entry(ty).or_insert_with(|| {
            let desc = plain(Opcode::Const, ty.kind().op_type(), OpType::None);
            dfg.make_inst(desc, &[], &[ty])
        });
        dfg.results(inst)[0]
    }

    fn access(&mut self, access: &Access) {
        let inst = access.inst;
        let ty = self.function.dfg.insts[inst].ty;
        if self.function.dfg.insts[inst].opcode == Opcode::Ld {
            let results: SmallVec<[Value; 8]> =
                SmallVec::from_slice(self.function.dfg.results(inst));
            for (&piece, result) in access.pieces.iter().zip(results) {
                let value = self.get(piece);
                let value = self.converted(value, ty, self.function.dfg.ty(result));
                self.function.dfg.values[result].def = ValueDef::Alias(value);
            }
        } else {
            let stored: SmallVec<[Value; 8]> =
                SmallVec::from_slice(&self.function.dfg.args(inst)[1..]);
            for (&piece, value) in access.pieces.iter().zip(stored) {
                let value = self.function.dfg.resolve(value);
                let value = self.converted(value, ty, self.plan.pieces[piece].ty);
                self.variables.set(piece, value);
            }
        }
    }

    /// Converts a value to type `to`. If the widths are equal, keeps the bits; if `to` is narrower,
    /// truncates the value; if `to` is wider, extends the value with its sign or with zeros,
    /// depending on whether `memory`, the type of the access, is signed.
    fn converted(&mut self, value: Value, memory: OpType, to: Type) -> Value {
        let from = self.function.dfg.ty(value);
        if from == to {
            return value;
        }
        if from.lane_bits() == to.lane_bits() {
            let desc = plain(Opcode::Bitcast, to.kind().op_type(), from.kind().op_type());
            return self.emit(desc, value, to);
        }
        // Only an integer may be wider or narrower than the access.
        let bits = |ty: Type| Type::bits_of(ty.lane_bits()).unwrap_or(ty);
        let plain_value = self.converted(value, memory, bits(from));
        let signed = memory.is_signed() && to.lane_bits() > from.lane_bits();
        let name = |ty: Type| integer(ty.lane_bits(), signed);
        let desc = plain(Opcode::Cvt, name(to), name(from));
        let wide = self.emit(desc, plain_value, bits(to));
        self.converted(wide, memory, to)
    }

    fn emit(&mut self, desc: Desc, value: Value, to: Type) -> Value {
        let inst = self.function.dfg.make_inst(desc, &[value], &[to]);
        self.code.push(inst);
        self.function.dfg.results(inst)[0]
    }

    fn pass_arguments(&mut self, block: Block) {
        let Some(inst) = self.function.layout.terminator(block) else {
            return;
        };
        let Some(mut calls) = self.function.dfg.targets.remove(&inst) else {
            return;
        };
        for call in &mut calls {
            for (piece, _) in self.variables.params(call.block).to_vec() {
                let value = self.get(piece);
                call.args.push(value);
            }
        }
        self.function.dfg.targets.insert(inst, calls);
    }

    fn place_zeros(&mut self) {
        let mut zeros: Vec<Inst> = self.zeros.values().copied().collect();
        zeros.sort_unstable();
        let entry = self.function.entry();
        self.function.layout.insts[entry].splice(0..0, zeros);
    }
}

fn plain(opcode: Opcode, ty: OpType, src: OpType) -> Desc {
    Desc {
        opcode,
        ty,
        src,
        mods: Mods::NONE,
    }
}

fn integer(bits: u32, signed: bool) -> OpType {
    match (bits, signed) {
        (8, false) => OpType::U8,
        (8, true) => OpType::S8,
        (16, false) => OpType::U16,
        (16, true) => OpType::S16,
        (32, false) => OpType::U32,
        (32, true) => OpType::S32,
        (_, false) => OpType::U64,
        (_, true) => OpType::S64,
    }
}
