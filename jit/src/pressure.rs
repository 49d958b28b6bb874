//! Estimates how long Cranelift's register allocators take for a function.
//!
//! If there is no register for a value, the backtracking register allocator splits the live range
//! of the value, and tries the registers again for each part. The time of this allocator grows with
//! the number of live ranges and, for each live range, with the number of other ranges that overlap
//! it. For vector code of the benchmarks and of kernels with rows of divergent branches, the
//! measured time is 0.6 to 2 ns multiplied by the result of [`of`].

use std::collections::VecDeque;

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function, Opcode, Value};

/// Values that are live at the start of a block, as a bit mask of the indices in [`shared`].
type Set = Vec<u64>;

/// Returns the product of two numbers: the number of values that are live at the start of a block, summed over all
/// blocks, and the largest number of values that are live at the start of any one block.
pub(crate) fn of(function: &Function) -> u64 {
    let live = live_at_starts(function);
    let counts = live.values().map(|set| {
        let ones = set.iter().map(|word| u64::from(word.count_ones()));
        ones.sum::<u64>()
    });
    let (sum, most) = counts.fold((0, 0), |(sum, most): (u64, u64), count| {
        (sum + count, most.max(count))
    });
    sum.saturating_mul(most)
}

/// Returns the number of calls and atomic operations of a function.
pub(crate) fn fixed(function: &Function) -> usize {
    let (dfg, layout) = (&function.dfg, &function.layout);
    let insts = layout.blocks().flat_map(|block| layout.block_insts(block));
    let is_fixed = |opcode: Opcode| {
        opcode.is_call() || matches!(opcode, Opcode::AtomicRmw | Opcode::AtomicCas)
    };
    insts
        .filter(|&inst| is_fixed(dfg.insts[inst].opcode()))
        .count()
}

/// Returns the sum of the squares of the numbers of predecessors of all blocks.
pub(crate) fn joins(function: &Function) -> usize {
    let cfg = ControlFlowGraph::with_function(function);
    let blocks = function.layout.blocks();
    blocks
        .map(|block| cfg.pred_iter(block).count().pow(2))
        .sum()
}

/// Gives an index to each value that an instruction outside of the value's block uses. No other value is live at the
/// start of a block.
fn shared(function: &Function) -> (SecondaryMap<Value, Option<u32>>, u32) {
    let (dfg, layout) = (&function.dfg, &function.layout);
    let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::new();
    for block in layout.blocks() {
        for &param in dfg.block_params(block) {
            home[param] = Some(block);
        }
        for inst in layout.block_insts(block) {
            for &result in dfg.inst_results(inst) {
                home[result] = Some(block);
            }
        }
    }
    let mut index: SecondaryMap<Value, Option<u32>> = SecondaryMap::new();
    let mut count = 0;
    for block in layout.blocks() {
        for inst in layout.block_insts(block) {
            for value in dfg.inst_values(inst) {
                let value = dfg.resolve_aliases(value);
                if home[value] != Some(block) && index[value].is_none() {
                    index[value] = Some(count);
                    count += 1;
                }
            }
        }
    }
    (index, count)
}

/// The shared values that a block uses before it defines them, and the shared values that the block
/// defines.
#[derive(Clone, Default)]
struct Effect {
    used: Vec<u32>,
    defined: Vec<u32>,
}

fn effect(function: &Function, block: Block, index: &SecondaryMap<Value, Option<u32>>) -> Effect {
    let dfg = &function.dfg;
    let mut effect = Effect::default();
    let define = |effect: &mut Effect, values: &[Value]| {
        effect
            .defined
            .extend(values.iter().filter_map(|&value| index[value]));
    };
    define(&mut effect, dfg.block_params(block));
    for inst in function.layout.block_insts(block) {
        for value in dfg.inst_values(inst) {
            // A value that the block defines itself is removed again, because its definition dominates its uses.
            effect.used.extend(index[dfg.resolve_aliases(value)]);
        }
        define(&mut effect, dfg.inst_results(inst));
    }
    effect
}

fn live_at_starts(function: &Function) -> SecondaryMap<Block, Set> {
    let (index, count) = shared(function);
    let cfg = ControlFlowGraph::with_function(function);
    let words = count.div_ceil(64) as usize;
    let mut live: SecondaryMap<Block, Set> = SecondaryMap::with_default(vec![0; words]);
    live.resize(function.dfg.num_blocks());
    let mut effects: SecondaryMap<Block, Effect> = SecondaryMap::new();
    for block in function.layout.blocks() {
        effects[block] = effect(function, block, &index);
    }
    let bit = |value: u32| (value as usize / 64, 1u64 << (value % 64));
    // Most blocks precede their successors in the layout, so most successors are complete before the block.
    let mut work: VecDeque<Block> = function.layout.blocks().collect();
    work.make_contiguous().reverse();
    let mut waits: SecondaryMap<Block, bool> = SecondaryMap::with_default(true);
    let mut set = vec![0; words];
    while let Some(block) = work.pop_front() {
        waits[block] = false;
        set.fill(0);
        for next in cfg.succ_iter(block) {
            for (word, more) in set.iter_mut().zip(&live[next]) {
                *word |= more;
            }
        }
        let effect = &effects[block];
        for (word, mask) in effect.used.iter().map(|&value| bit(value)) {
            set[word] |= mask;
        }
        for (word, mask) in effect.defined.iter().map(|&value| bit(value)) {
            set[word] &= !mask;
        }
        if set == live[block] {
            continue;
        }
        std::mem::swap(&mut live[block], &mut set);
        for before in cfg.pred_iter(block) {
            if !waits[before.block] {
                waits[before.block] = true;
                work.push_back(before.block);
            }
        }
    }
    live
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::{AbiParam, InstBuilder, types};
    use cranelift_codegen::isa::TargetFrontendConfig;
    use cranelift_codegen::settings;
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    use super::*;

    fn frontend() -> TargetFrontendConfig {
        let flags = settings::Flags::new(settings::builder());
        let builder = cranelift_native::builder().expect("a code generator for this machine");
        let isa = builder.finish(flags).expect("a machine");
        isa.frontend_config()
    }

    /// A function whose first block defines `values` values. A row of `blocks` blocks follows, and the last block uses
    /// the values.
    fn row(values: usize, blocks: usize) -> Function {
        let mut function = Function::new();
        function.signature.params.push(AbiParam::new(types::I64));
        function.signature.returns.push(AbiParam::new(types::I64));
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let entry = b.create_block();
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let param = b.block_params(entry)[0];
        let defined: Vec<Value> = (0..values as i64)
            .map(|n| b.ins().iadd_imm_s(param, n))
            .collect();
        for _ in 0..blocks {
            let next = b.create_block();
            b.ins().jump(next, &[]);
            b.switch_to_block(next);
        }
        let sum = defined
            .into_iter()
            .reduce(|a, other| b.ins().iadd(a, other));
        b.ins().return_(&[sum.unwrap_or(param)]);
        b.seal_all_blocks();
        b.finalize(frontend());
        function
    }

    #[test]
    fn values_are_live_from_their_definition_to_their_last_use() {
        // The values are live at the start of each block of the row, and not at the start of the first block.
        assert_eq!(of(&row(5, 3)), 15 * 5);
        assert_eq!(of(&row(5, 0)), 0);
        assert_eq!(of(&row(100, 10)), 1000 * 100);
    }

    #[test]
    fn a_loop_keeps_the_values_that_follow_it_alive() {
        let mut function = Function::new();
        function.signature.params.push(AbiParam::new(types::I64));
        let mut context = FunctionBuilderContext::new();
        let mut b = FunctionBuilder::new(&mut function, &mut context);
        let [entry, head, body, end] = std::array::from_fn(|_| b.create_block());
        b.append_block_params_for_function_params(entry);
        b.switch_to_block(entry);
        let param = b.block_params(entry)[0];
        let after = b.ins().iadd_imm_s(param, 1);
        b.ins().jump(head, &[]);
        b.switch_to_block(head);
        b.ins().brif(param, body, &[], end, &[]);
        b.switch_to_block(body);
        b.ins().jump(head, &[]);
        b.switch_to_block(end);
        b.ins()
            .trapz(after, cranelift_codegen::ir::TrapCode::unwrap_user(1));
        b.ins().return_(&[]);
        b.seal_all_blocks();
        b.finalize(frontend());
        // `param` and `after` in the head and in the body; only `after` in the end.
        assert_eq!(of(&function), 5 * 2);
    }
}
