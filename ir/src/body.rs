//! What functions of the IR and of the vector IR have in common: blocks, instructions and values. Analyses and
//! transformations that need nothing else are written for both.

use crate::entity::{Block, Inst, PrimaryMap, Value};
use crate::function::{BlockCall, Function, ValueData};
use margay_ops::ops::Effects;
use smallvec::SmallVec;

/// A function in SSA form with block parameters.
pub trait Body {
    /// Returns the blocks in order; the first is the entry block.
    fn blocks(&self) -> &[Block];
    /// Returns the instructions of a block, in order; the last is the terminator.
    fn insts(&self, block: Block) -> &[Inst];
    /// Returns the parameters of a block.
    fn params(&self, block: Block) -> &[Value];
    /// Returns the operands of an instruction.
    fn args(&self, inst: Inst) -> &[Value];
    /// Returns the results of an instruction.
    fn results(&self, inst: Inst) -> &[Value];
    /// Returns the branch targets of an instruction; empty for instructions that are no branches.
    fn targets(&self, inst: Inst) -> &[BlockCall];
    /// Returns the effects of an instruction.
    fn effects(&self, inst: Inst) -> Effects;
    /// Returns the values.
    fn values(&self) -> &PrimaryMap<Value, ValueData>;

    /// Returns the list of blocks, so that a caller can remove and reorder blocks.
    fn blocks_mut(&mut self) -> &mut Vec<Block>;
    /// Returns the list of a block's instructions.
    fn insts_mut(&mut self, block: Block) -> &mut Vec<Inst>;
    /// Returns the list of a block's parameters.
    fn params_mut(&mut self, block: Block) -> &mut Vec<Value>;
    /// Returns the operands of an instruction, so that a caller can replace them.
    fn args_mut(&mut self, inst: Inst) -> &mut [Value];
    /// Returns the branch targets of an instruction; `None` for instructions that are no branches.
    fn targets_mut(&mut self, inst: Inst) -> Option<&mut SmallVec<[BlockCall; 2]>>;
    /// Removes the branch targets of an instruction and returns them.
    fn take_targets(&mut self, inst: Inst) -> SmallVec<[BlockCall; 2]>;
    /// Returns the values.
    fn values_mut(&mut self) -> &mut PrimaryMap<Value, ValueData>;

    /// Returns the entry block. Panics if the function has no block.
    fn entry(&self) -> Block {
        self.blocks()[0]
    }

    /// Returns the branch targets of a block's terminator.
    fn successors(&self, block: Block) -> &[BlockCall] {
        let last = self.insts(block).last();
        last.map_or(&[], |&inst| self.targets(inst))
    }
}

impl Body for Function {
    fn blocks(&self) -> &[Block] {
        &self.layout.order
    }

    fn insts(&self, block: Block) -> &[Inst] {
        &self.layout.insts[block]
    }

    fn params(&self, block: Block) -> &[Value] {
        &self.dfg.blocks[block].params
    }

    fn args(&self, inst: Inst) -> &[Value] {
        self.dfg.args(inst)
    }

    fn results(&self, inst: Inst) -> &[Value] {
        self.dfg.results(inst)
    }

    fn targets(&self, inst: Inst) -> &[BlockCall] {
        self.dfg.targets(inst)
    }

    fn effects(&self, inst: Inst) -> Effects {
        self.dfg.insts[inst].opcode.effects()
    }

    fn values(&self) -> &PrimaryMap<Value, ValueData> {
        &self.dfg.values
    }

    fn blocks_mut(&mut self) -> &mut Vec<Block> {
        &mut self.layout.order
    }

    fn insts_mut(&mut self, block: Block) -> &mut Vec<Inst> {
        &mut self.layout.insts[block]
    }

    fn params_mut(&mut self, block: Block) -> &mut Vec<Value> {
        &mut self.dfg.blocks[block].params
    }

    fn args_mut(&mut self, inst: Inst) -> &mut [Value] {
        let list = self.dfg.insts[inst].args;
        self.dfg.pool.get_mut(list)
    }

    fn targets_mut(&mut self, inst: Inst) -> Option<&mut SmallVec<[BlockCall; 2]>> {
        self.dfg.targets.get_mut(&inst)
    }

    fn take_targets(&mut self, inst: Inst) -> SmallVec<[BlockCall; 2]> {
        self.dfg.targets.remove(&inst).unwrap_or_default()
    }

    fn values_mut(&mut self) -> &mut PrimaryMap<Value, ValueData> {
        &mut self.dfg.values
    }
}
