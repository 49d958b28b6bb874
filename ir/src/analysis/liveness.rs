//! Computes which values are live at the start of each block.
//!
//! The analysis is sparse: for each value, it goes backwards through the blocks, from the uses to
//! the definition. The time is proportional to the total length of the live ranges. The analysis
//! does not store a bit set for each block.

use crate::analysis::Cfg;
use crate::entity::{Block, SecondaryMap, Value};
use crate::function::{Function, ValueDef};

/// The live range of a value: the blocks at whose start the value is live.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The value.
    pub value: Value,
    /// The block that defines the value.
    pub home: Block,
    visited: &'a SecondaryMap<Block, u32>,
    mark: u32,
}

impl Range<'_> {
    /// Returns whether the value is live at the start of `block`.
    pub fn enters(&self, block: Block) -> bool {
        self.visited[block] == self.mark
    }
}

/// For each block for which `wanted` returns true, returns the values that are live at the start of the block, in the
/// order of their indices. The result does not contain values for which `skip` returns true. Calls `each` with the live
/// range of every other value that has a use.
pub fn live_in(
    function: &Function,
    cfg: &Cfg,
    wanted: impl Fn(Block) -> bool,
    skip: impl Fn(Value) -> bool,
    mut each: impl FnMut(Range<'_>),
) -> SecondaryMap<Block, Vec<Value>> {
    let mut live: SecondaryMap<Block, Vec<Value>> = SecondaryMap::default();
    walk(function, cfg, skip, |range, blocks| {
        for &block in blocks.iter().filter(|&&block| wanted(block)) {
            live[block].push(range.value);
        }
        each(range);
        true
    });
    live
}

/// Returns the total length of the live ranges: the number of values live at the start of a block, summed over all
/// blocks. The time that [`live_in`] takes is proportional to this total. Returns `None` if the total exceeds `most`.
pub fn total_length(function: &Function, cfg: &Cfg, most: usize) -> Option<usize> {
    let mut total = 0;
    walk(
        function,
        cfg,
        |_| false,
        |_, blocks| {
            total += blocks.len();
            total <= most
        },
    );
    (total <= most).then_some(total)
}

/// Calls `each` for each value for which `skip` returns false, with the live range of the value and
/// a list of the range's blocks. Ends when `each` returns false.
fn walk(
    function: &Function,
    cfg: &Cfg,
    skip: impl Fn(Value) -> bool,
    mut each: impl FnMut(Range<'_>, &[Block]) -> bool,
) {
    let mut uses: SecondaryMap<Value, Vec<Block>> = SecondaryMap::default();
    for &block in cfg.rpo() {
        for &inst in function.insts(block) {
            for &value in function.dfg.args(inst) {
                note(&mut uses[value], block);
            }
            for call in function.dfg.targets(inst) {
                for &value in &call.args {
                    note(&mut uses[value], block);
                }
            }
        }
    }
    let mut visited: SecondaryMap<Block, u32> = SecondaryMap::default();
    let mut home: SecondaryMap<Value, Option<Block>> = SecondaryMap::default();
    for &block in cfg.rpo() {
        for &param in &function.dfg.blocks[block].params {
            home[param] = Some(block);
        }
        for &inst in function.insts(block) {
            for &result in function.dfg.results(inst) {
                home[result] = Some(block);
            }
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    for (mark, value) in (1u32..).zip(function.dfg.values.keys()) {
        if uses[value].is_empty() || skip(value) {
            continue;
        }
        let Some(home) = home[value] else { continue };
        let is_param = matches!(function.dfg.values[value].def, ValueDef::Param(..));
        blocks.clear();
        let mut work: Vec<Block> = uses[value]
            .iter()
            .copied()
            .filter(|&block| block != home)
            .collect();
        while let Some(block) = work.pop() {
            if visited[block] == mark {
                continue;
            }
            visited[block] = mark;
            blocks.push(block);
            work.extend(
                cfg.preds(block)
                    .iter()
                    .copied()
                    .filter(|&pred| pred != home),
            );
        }
        debug_assert!(is_param || visited[home] != mark);
        let range = Range {
            value,
            home,
            visited: &visited,
            mark,
        };
        if !each(range, &blocks) {
            return;
        }
    }
}

fn note(list: &mut Vec<Block>, block: Block) {
    if list.last() != Some(&block) {
        list.push(block);
    }
}
