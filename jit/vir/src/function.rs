//! Functions of VIR: instructions, values, blocks and their order.
//!
//! Invariants, which [`crate::verify`] checks: each block ends with its only terminator; a definition dominates its uses;
//! no branch leads to the entry block, the first one, whose parameters are those of the function.

use margay_ir::body::Body;
use margay_ir::entity::{Block, Inst, List, ListPool, PrimaryMap, SecondaryMap, Slot, Value};
use margay_ir::function::{BlockCall, Signature, ValueDef};
use margay_ops::ops::Effects;
use margay_ops::types::Type;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::data::Data;
use crate::ops::Op;

/// An instruction without its results and targets.
#[derive(Clone, Copy, Debug)]
pub struct InstData {
    /// The op.
    pub op: Op,
    /// The type; `None` for the ops without a type.
    pub ty: Option<Type>,
    /// The data.
    pub data: Data,
    /// The operands.
    pub args: List,
}

/// The type and the definition of a value. Between passes, the definition is never an alias.
pub use margay_ir::function::ValueData;

/// A slot: memory of the running program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotData {
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// A function that programs call and that is not part of the program. Its parameters and results are scalars.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Helper {
    /// The name.
    pub name: String,
    /// The types of parameters and results.
    pub signature: Signature,
    /// Whether no access of the function depends on what the helper does: it writes no memory that the function reads, and
    /// reads no memory but slots.
    pub no_memory: bool,
}

/// A function of VIR.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// The name.
    pub name: String,
    /// The types of parameters and results.
    pub signature: Signature,
    /// The numbers of the parameters that point to private memory: no access has a byte of this memory unless its address
    /// is the parameter plus a constant.
    pub private: Vec<u32>,
    /// The helpers that the function calls, by number.
    pub helpers: Vec<Helper>,
    /// The slots.
    pub slots: PrimaryMap<Slot, SlotData>,
    /// The instructions.
    pub insts: PrimaryMap<Inst, InstData>,
    /// The values.
    pub values: PrimaryMap<Value, ValueData>,
    /// The parameters of each block.
    pub blocks: PrimaryMap<Block, Vec<Value>>,
    /// The blocks in order; the first is the entry block.
    pub order: Vec<Block>,
    /// The instructions of each block, in order.
    pub body: SecondaryMap<Block, Vec<Inst>>,
    /// The results of each instruction.
    pub results: SecondaryMap<Inst, List>,
    /// The branch targets of the instructions that have targets.
    pub targets: FxHashMap<Inst, SmallVec<[BlockCall; 2]>>,
    /// The place of each instruction, by which the caller finds its origin; 0 if there is none.
    pub places: SecondaryMap<Inst, u64>,
    /// The lists of operands and results.
    pub pool: ListPool,
}

impl Function {
    /// Returns the entry block. Panics if the function has no block.
    pub fn entry(&self) -> Block {
        self.order[0]
    }

    /// Returns the operands of an instruction.
    #[inline]
    pub fn args(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.insts[inst].args)
    }

    /// Returns the results of an instruction.
    #[inline]
    pub fn results(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.results[inst])
    }

    /// Returns the branch targets of an instruction.
    #[inline]
    pub fn targets(&self, inst: Inst) -> &[BlockCall] {
        match self.effects(inst).contains(Effects::TERMINATOR) {
            true => self.targets.get(&inst).map_or(&[], |calls| calls),
            // Only the terminators are in the map, so there is no need to look.
            false => &[],
        }
    }

    /// Returns the values that an instruction uses: its operands, and the arguments of its branch targets.
    pub fn uses(&self, inst: Inst) -> impl Iterator<Item = Value> {
        let passed = self.targets(inst).iter().flat_map(|call| &call.args);
        self.args(inst).iter().chain(passed).copied()
    }

    /// Returns the branch targets of a block's last instruction.
    pub fn successors(&self, block: Block) -> &[BlockCall] {
        self.body[block]
            .last()
            .map_or(&[], |&inst| self.targets(inst))
    }

    /// Returns the branch targets of a block's last instruction, to change them.
    pub fn successors_mut(&mut self, block: Block) -> &mut [BlockCall] {
        let last = self.body[block].last();
        let calls = last.and_then(|last| self.targets.get_mut(last));
        calls.map_or(&mut [], |calls| calls)
    }

    /// Passes a value as the last argument of the branches from one block to another.
    pub fn pass(&mut self, from: Block, to: Block, value: Value) {
        let calls = self.successors_mut(from).iter_mut();
        for call in calls.filter(|call| call.block == to) {
            call.args.push(value);
        }
    }

    /// Returns the effects of an instruction.
    #[inline]
    pub fn effects(&self, inst: Inst) -> Effects {
        self.insts[inst].op.row().effects
    }

    /// Returns the instruction that defines a value; `None` if the value is a block parameter.
    #[inline]
    pub fn def_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            _ => None,
        }
    }

    /// Returns the bits of the `const` that defines a value; `None` if no `const` defines it.
    #[inline]
    pub fn constant(&self, value: Value) -> Option<u64> {
        let data = &self.insts[self.def_inst(value)?];
        (data.op == Op::Const).then(|| data.data.number())
    }

    /// Returns the type of a value.
    #[inline]
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// Adds a block without parameters at the end of the order.
    pub fn append_block(&mut self) -> Block {
        let block = self.blocks.push(Vec::new());
        self.order.push(block);
        block
    }

    /// Adds a parameter to a block.
    pub fn append_param(&mut self, block: Block, ty: Type) -> Value {
        let def = ValueDef::Param(block, self.blocks[block].len() as u16);
        let value = self.values.push(ValueData { ty, def });
        self.blocks[block].push(value);
        value
    }

    /// Creates an instruction with new results. It is in no block yet.
    pub fn make_inst(
        &mut self,
        (op, ty, data): (Op, Option<Type>, Data),
        args: &[Value],
        results: &[Type],
    ) -> Inst {
        let args = self.pool.push(args);
        let inst = self.insts.push(InstData { op, ty, data, args });
        let values: SmallVec<[Value; 4]> = (0..)
            .zip(results)
            .map(|(number, &ty)| {
                let def = ValueDef::Result(inst, number);
                self.values.push(ValueData { ty, def })
            })
            .collect();
        self.results[inst] = self.pool.push(&values);
        inst
    }

    /// Appends an instruction with new results to a block.
    pub fn append(
        &mut self,
        block: Block,
        head: (Op, Option<Type>, Data),
        args: &[Value],
        results: &[Type],
    ) -> Inst {
        let inst = self.make_inst(head, args, results);
        self.body[block].push(inst);
        inst
    }
}

impl Body for Function {
    fn blocks(&self) -> &[Block] {
        &self.order
    }

    fn insts(&self, block: Block) -> &[Inst] {
        &self.body[block]
    }

    fn params(&self, block: Block) -> &[Value] {
        &self.blocks[block]
    }

    fn args(&self, inst: Inst) -> &[Value] {
        self.args(inst)
    }

    fn results(&self, inst: Inst) -> &[Value] {
        self.results(inst)
    }

    fn targets(&self, inst: Inst) -> &[BlockCall] {
        self.targets(inst)
    }

    fn effects(&self, inst: Inst) -> Effects {
        self.effects(inst)
    }

    fn values(&self) -> &PrimaryMap<Value, ValueData> {
        &self.values
    }

    fn blocks_mut(&mut self) -> &mut Vec<Block> {
        &mut self.order
    }

    fn insts_mut(&mut self, block: Block) -> &mut Vec<Inst> {
        &mut self.body[block]
    }

    fn params_mut(&mut self, block: Block) -> &mut Vec<Value> {
        &mut self.blocks[block]
    }

    fn args_mut(&mut self, inst: Inst) -> &mut [Value] {
        self.pool.get_mut(self.insts[inst].args)
    }

    fn targets_mut(&mut self, inst: Inst) -> Option<&mut SmallVec<[BlockCall; 2]>> {
        self.targets.get_mut(&inst)
    }

    fn take_targets(&mut self, inst: Inst) -> SmallVec<[BlockCall; 2]> {
        self.targets.remove(&inst).unwrap_or_default()
    }

    fn values_mut(&mut self) -> &mut PrimaryMap<Value, ValueData> {
        &mut self.values
    }
}
