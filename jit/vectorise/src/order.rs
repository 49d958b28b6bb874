//! The order of the operations in a block.
//!
//! Compilers for GPUs place loads far before the operations that use them, which keeps many values alive. A GPU has
//! enough registers for them, and a CPU does not.

use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::Function;
use margay_ops::ops::Opcode;

/// A value that a block defines.
#[derive(Clone, Copy)]
struct Local {
    block: Block,
    /// The position of the definition.
    position: usize,
    /// The number of uses that are left.
    left: u32,
}

/// Moves operations without effects up to their operands, if they are the last uses of at least as many values as they
/// compute.
pub fn shorten_lives(function: &mut Function) {
    let uses = uses(function);
    // For each value that the block defines, the block, the position of its definition and the number of uses that are left.
    let mut local: SecondaryMap<Value, Option<Local>> = SecondaryMap::default();
    for block in function.blocks().to_vec() {
        let insts = function.insts(block).to_vec();
        let defined = |position, value| {
            let left = uses[value];
            Some(Local {
                block,
                position,
                left,
            })
        };
        for &param in &function.dfg.blocks[block].params {
            local[param] = defined(0, param);
        }
        let mut order: Vec<(usize, Inst)> = Vec::with_capacity(insts.len());
        for (index, &inst) in insts.iter().enumerate() {
            let args = function.dfg.args(inst);
            let mut ended = 0;
            // Constants are not kept in registers.
            let is_constant = function.dfg.insts[inst].opcode == Opcode::Const;
            let mut after = is_constant.then_some(0);
            for &arg in args {
                let Some(local) = local[arg].as_mut().filter(|local| local.block == block) else {
                    continue;
                };
                after = after.max(Some(local.position));
                local.left -= 1;
                ended += usize::from(local.left == 0 && function.dfg.constant(arg).is_none());
            }
            let results = function.dfg.results(inst);
            let may_move =
                is_constant || function.effects(inst).is_pure() && ended >= results.len();
            let position = after.filter(|_| may_move).unwrap_or(index);
            for &result in results {
                local[result] = defined(position, result);
            }
            order.push((position, inst));
        }
        // The sort is stable, so that operations at the same position stay behind their operands.
        order.sort_by_key(|&(position, _)| position);
        let list = order.into_iter().map(|(_, inst)| inst);
        function.layout.insts[block] = list.collect();
    }
}

/// Returns how often each value is used.
fn uses(function: &Function) -> SecondaryMap<Value, u32> {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::default();
    let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    for &inst in insts {
        let calls = function.dfg.targets(inst).iter();
        let passed = calls.flat_map(|call| &call.args);
        for &value in function.dfg.args(inst).iter().chain(passed) {
            uses[value] += 1;
        }
    }
    uses
}
