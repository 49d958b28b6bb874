//! The check of the registers that regalloc2 allocated.

use regalloc2::checker::{Checker, CheckerErrors};
use regalloc2::{
    Block, Function as Blocks, Inst, InstRange, MachineEnv, Operand, Output, PRegSet, RegClass,
    VReg,
};

use super::Input;

/// A machine function whose blocks have numbers in reverse postorder. The checker of regalloc2 takes each block in the
/// order of the numbers, and reports errors that do not exist if all predecessors of a block come behind it.
struct InReversePostorder<'a> {
    input: &'a Input<'a>,
    /// The blocks of the input, in reverse postorder.
    order: Vec<Block>,
    succs: Vec<Vec<Block>>,
    preds: Vec<Vec<Block>>,
}

impl<'a> InReversePostorder<'a> {
    fn new(input: &'a Input<'a>) -> InReversePostorder<'a> {
        let order = reverse_postorder(input);
        let mut numbers = vec![Block::invalid(); input.num_blocks()];
        for (number, block) in order.iter().enumerate() {
            numbers[block.index()] = Block::new(number);
        }
        let renumbered = |blocks: &[Block]| {
            let numbers = blocks.iter().map(|block| numbers[block.index()]);
            numbers.collect()
        };
        let succs = order.iter().map(|&b| renumbered(input.block_succs(b)));
        let preds = order.iter().map(|&b| renumbered(input.block_preds(b)));
        let (succs, preds) = (succs.collect(), preds.collect());
        InReversePostorder {
            input,
            order,
            succs,
            preds,
        }
    }

    fn original(&self, block: Block) -> Block {
        self.order[block.index()]
    }
}

/// Returns the blocks in reverse postorder. All blocks of the input are reachable.
fn reverse_postorder(input: &Input) -> Vec<Block> {
    let entry = input.entry_block();
    let mut is_seen = vec![false; input.num_blocks()];
    is_seen[entry.index()] = true;
    let mut order = Vec::with_capacity(is_seen.len());
    let mut stack = vec![(entry, 0)];
    while let Some((block, next)) = stack.last_mut() {
        let Some(&succ) = input.block_succs(*block).get(*next) else {
            order.push(*block);
            stack.pop();
            continue;
        };
        *next += 1;
        if !std::mem::replace(&mut is_seen[succ.index()], true) {
            stack.push((succ, 0));
        }
    }
    order.reverse();
    order
}

impl Blocks for InReversePostorder<'_> {
    fn num_insts(&self) -> usize {
        self.input.num_insts()
    }

    fn num_blocks(&self) -> usize {
        self.order.len()
    }

    fn entry_block(&self) -> Block {
        Block::new(0)
    }

    fn block_insns(&self, block: Block) -> InstRange {
        self.input.block_insns(self.original(block))
    }

    fn block_succs(&self, block: Block) -> &[Block] {
        &self.succs[block.index()]
    }

    fn block_preds(&self, block: Block) -> &[Block] {
        &self.preds[block.index()]
    }

    fn block_params(&self, block: Block) -> &[VReg] {
        self.input.block_params(self.original(block))
    }

    fn is_ret(&self, inst: Inst) -> bool {
        self.input.is_ret(inst)
    }

    fn is_branch(&self, inst: Inst) -> bool {
        self.input.is_branch(inst)
    }

    fn branch_blockparams(&self, block: Block, inst: Inst, succ: usize) -> &[VReg] {
        let block = self.original(block);
        self.input.branch_blockparams(block, inst, succ)
    }

    fn inst_operands(&self, inst: Inst) -> &[Operand] {
        self.input.inst_operands(inst)
    }

    fn inst_clobbers(&self, inst: Inst) -> PRegSet {
        self.input.inst_clobbers(inst)
    }

    fn num_vregs(&self) -> usize {
        self.input.num_vregs()
    }

    fn spillslot_size(&self, class: RegClass) -> usize {
        self.input.spillslot_size(class)
    }
}

/// Checks that each operand has the place of its value.
///
/// # Errors
///
/// Returns the operands whose places have other values.
pub(super) fn check(input: &Input, env: &MachineEnv, output: &Output) -> Result<(), CheckerErrors> {
    let blocks = InReversePostorder::new(input);
    let mut checker = Checker::new(&blocks, env);
    checker.prepare(output);
    checker.run()
}
