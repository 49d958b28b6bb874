//! Functions of VIR: instructions, values, blocks and their order.
//!
//! Invariants, which [`crate::verify`] checks: each block ends with its only terminator; a definition dominates its uses;
//! no branch leads to the entry block, the first one, whose parameters are those of the function.

use margay_ir::entity::{Block, Inst, List, ListPool, PrimaryMap, SecondaryMap, Slot, Value};
use margay_ir::function::{BlockCall, Signature, ValueDef};
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

/// The type and the definition of a value.
#[derive(Clone, Copy, Debug)]
pub struct ValueData {
    /// The type.
    pub ty: Type,
    /// The definition. It is never an alias.
    pub def: ValueDef,
}

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
}

/// A function of VIR.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// The name.
    pub name: String,
    /// The types of parameters and results.
    pub signature: Signature,
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
    pub fn args(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.insts[inst].args)
    }

    /// Returns the results of an instruction.
    pub fn results(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.results[inst])
    }

    /// Returns the branch targets of an instruction.
    pub fn targets(&self, inst: Inst) -> &[BlockCall] {
        self.targets
            .get(&inst)
            .map_or(&[], |calls| calls.as_slice())
    }

    /// Returns the branch targets of a block's last instruction.
    pub fn successors(&self, block: Block) -> &[BlockCall] {
        self.body[block]
            .last()
            .map_or(&[], |&inst| self.targets(inst))
    }

    /// Returns the type of a value.
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

    /// Appends an instruction with new results to a block.
    pub fn append(
        &mut self,
        block: Block,
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
        self.body[block].push(inst);
        inst
    }
}
