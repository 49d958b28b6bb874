//! Turns variables with several definitions into SSA values, for local promotion and [`super::calls`].
//!
//! [`Variables::place`] adds block parameters at the iterated dominance frontiers of a variable's definitions, in
//! blocks where the variable is live. [`walk`] walks the dominator tree and tracks the current value of every variable.

use rustc_hash::FxHashSet;

use crate::analysis::{Cfg, Dominators, Joins};
use crate::entity::{Block, SecondaryMap, Value};
use crate::function::Function;
use margay_ops::types::Type;

/// A variable with several definitions.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// Type of the variable's values.
    pub(super) ty: Type,
    /// Blocks that define the variable.
    pub(super) writes: Vec<Block>,
    /// Blocks at whose start the variable is live.
    pub(super) live: FxHashSet<Block>,
}

/// The variables of a function, by index, and their values at the current position of a [`walk`].
#[derive(Debug)]
pub(super) struct Variables {
    params: SecondaryMap<Block, Vec<(usize, Value)>>,
    scope: Vec<Option<Value>>,
    /// A log of the changes of current values, to undo them: for each change, the variable's index and the value before
    /// the change.
    undo: Vec<(usize, Option<Value>)>,
}

impl Variables {
    /// Adds the block parameters that the variables need.
    pub(super) fn place(
        function: &mut Function,
        cfg: &Cfg,
        dominators: &Dominators,
        all: impl IntoIterator<Item = Variable>,
    ) -> Variables {
        let mut joins = Joins::new(cfg, dominators);
        let mut params: SecondaryMap<Block, Vec<(usize, Value)>> = SecondaryMap::default();
        let mut scope = Vec::new();
        for (number, one) in all.into_iter().enumerate() {
            scope.push(None);
            for join in joins.of(cfg, &one.writes, |block| one.live.contains(&block)) {
                let value = function.dfg.append_param(join, one.ty);
                params[join].push((number, value));
            }
        }
        Variables {
            params,
            scope,
            undo: Vec::new(),
        }
    }

    /// Returns the current value of a variable; `None` before its first definition.
    pub(super) fn get(&self, number: usize) -> Option<Value> {
        self.scope[number]
    }

    /// Sets the current value of a variable.
    pub(super) fn set(&mut self, number: usize, value: Value) {
        let old = self.scope[number].replace(value);
        self.undo.push((number, old));
    }

    /// Returns the parameters that were added to a block, in order, each with the index of its variable.
    pub(super) fn params(&self, block: Block) -> &[(usize, Value)] {
        &self.params[block]
    }

    fn enter(&mut self, block: Block) {
        for index in 0..self.params[block].len() {
            let (number, value) = self.params[block][index];
            self.set(number, value);
        }
    }

    fn leave(&mut self, mark: usize) {
        for (number, old) in self.undo.drain(mark..).rev() {
            self.scope[number] = old;
        }
    }
}

/// A visitor of blocks, for which [`walk`] keeps track of the current values of the variables.
pub(super) trait Walker {
    /// Returns the variables.
    fn variables(&mut self) -> &mut Variables;
    /// Visits a block. The parameters that [`Variables::place`] has added to the block are already the current values
    /// of their variables.
    fn block(&mut self, block: Block);
}

/// Visits every block after the blocks that dominate it.
pub(super) fn walk(walker: &mut impl Walker, cfg: &Cfg, dominators: &Dominators) {
    enum Step {
        Enter(Block),
        Leave(usize),
    }
    let mut children: SecondaryMap<Block, Vec<Block>> = SecondaryMap::default();
    for &block in cfg.rpo() {
        if let Some(parent) = dominators.idom(cfg, block) {
            children[parent].push(block);
        }
    }
    let mut stack = vec![Step::Enter(cfg.rpo()[0])];
    while let Some(step) = stack.pop() {
        match step {
            Step::Leave(mark) => walker.variables().leave(mark),
            Step::Enter(block) => {
                let variables = walker.variables();
                stack.push(Step::Leave(variables.undo.len()));
                variables.enter(block);
                walker.block(block);
                stack.extend(children[block].iter().map(|&child| Step::Enter(child)));
            }
        }
    }
}
