//! SSA form for values that, after a change of the control flow, have definitions in several blocks.

use margay_ir::analysis::Cfg;
use margay_ir::entity::{Block, SecondaryMap, Value};
use margay_ops::types::Type;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::function::Function;

/// The uses of values in blocks other than those that define them.
#[derive(Default)]
pub(super) struct Uses {
    users: FxHashMap<Value, Vec<Block>>,
}

impl Uses {
    /// Finds the uses of values in blocks for which `is_outside` returns true.
    pub(super) fn new(
        function: &Function,
        is_wanted: impl Fn(Value) -> bool,
        is_outside: impl Fn(Block) -> bool,
    ) -> Uses {
        let mut found = Uses::default();
        for &block in function.order.iter().filter(|&&block| is_outside(block)) {
            for value in used(function, block).filter(|&value| is_wanted(value)) {
                let users = found.users.entry(value).or_default();
                if users.last() != Some(&block) {
                    users.push(block);
                }
            }
        }
        found
    }

    /// Returns the values that have uses.
    pub(super) fn values(&self) -> Vec<Value> {
        let mut values: Vec<Value> = self.users.keys().copied().collect();
        values.sort_unstable();
        values
    }
}

/// Returns the values that the instructions of a block use.
pub(super) fn used(function: &Function, block: Block) -> impl Iterator<Item = Value> {
    let insts = function.body[block].iter();
    insts.flat_map(|&inst| function.uses(inst))
}

/// Replaces the uses of `value` by the definitions that reach them. `definitions` are the values at the end of blocks, and
/// at least one of these blocks is on each path from the entry of the function to a use. Blocks to which different
/// definitions lead get a parameter.
pub(super) fn repair(
    function: &mut Function,
    cfg: &Cfg,
    uses: &Uses,
    value: Value,
    definitions: impl IntoIterator<Item = (Block, Value)>,
) {
    let mut search = Search {
        cfg,
        ty: function.ty(value),
        at_end: SecondaryMap::default(),
        missing: Vec::new(),
    };
    for (block, definition) in definitions {
        search.at_end[block] = Some(definition);
    }
    for &block in uses.users.get(&value).into_iter().flatten() {
        let reaching = search.at_start(function, block);
        replace(function, block, (value, reaching));
    }
    search.fill(function);
}

/// Replaces a value in the instructions of a block.
fn replace(function: &mut Function, block: Block, (old, new): (Value, Value)) {
    let rename = |values: &mut [Value]| {
        for value in values.iter_mut().filter(|value| **value == old) {
            *value = new;
        }
    };
    for &inst in &function.body[block] {
        rename(function.pool.get_mut(function.insts[inst].args));
    }
    for call in function.successors_mut(block) {
        rename(&mut call.args);
    }
}

/// The definitions of one value that reach blocks.
struct Search<'a> {
    cfg: &'a Cfg,
    ty: Type,
    /// The definition that reaches the end of a block.
    at_end: SecondaryMap<Block, Option<Value>>,
    /// The blocks with a new parameter to which branches do not pass an argument yet.
    missing: Vec<Block>,
}

impl Search<'_> {
    /// Returns the definition that reaches a block that has none.
    fn at_start(&mut self, function: &mut Function, block: Block) -> Value {
        let mut path: SmallVec<[Block; 8]> = SmallVec::new();
        let mut at = block;
        let value = loop {
            if let Some(value) = self.at_end[at] {
                break value;
            }
            path.push(at);
            match self.cfg.preds(at) {
                &[pred] => at = pred,
                _ => {
                    self.missing.push(at);
                    break function.append_param(at, self.ty);
                }
            }
        };
        for block in path {
            self.at_end[block] = Some(value);
        }
        value
    }

    /// Passes the arguments of the new parameters.
    fn fill(&mut self, function: &mut Function) {
        while let Some(block) = self.missing.pop() {
            let mut preds: SmallVec<[Block; 8]> = self.cfg.preds(block).into();
            preds.sort_unstable();
            preds.dedup();
            for pred in preds {
                let value = self.at_start(function, pred);
                function.pass(pred, block, value);
            }
        }
    }
}
