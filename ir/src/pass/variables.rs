//! Variables with several definitions to SSA values: what local promotion and [`super::calls`] share.
//!
//! [`Variables::place`] adds block parameters at the iterated dominance frontiers of a variable's definitions
//! where it lives; [`walk`] goes over the dominator tree with the value of every variable at hand.

use rustc_hash::FxHashSet;

use crate::analysis::{Cfg, Dominators, Joins};
use crate::entity::{Block, SecondaryMap, Value};
use crate::function::Function;
use margay_ops::types::Type;

/// A variable.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    /// Type of its values.
    pub(super) ty: Type,
    /// Blocks that define it.
    pub(super) writes: Vec<Block>,
    /// Blocks at whose start it is live.
    pub(super) live: FxHashSet<Block>,
}

/// The variables of a function, by number, and their values where a [`walk`] stands.
#[derive(Debug)]
pub(super) struct Variables {
    params: SecondaryMap<Block, Vec<(usize, Value)>>,
    scope: Vec<Option<Value>>,
    /// What the scope held before each change.
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

    /// The value of a variable, if one of its definitions has been passed.
    pub(super) fn get(&self, number: usize) -> Option<Value> {
        self.scope[number]
    }

    /// Defines a variable.
    pub(super) fn set(&mut self, number: usize, value: Value) {
        let old = self.scope[number].replace(value);
        self.undo.push((number, old));
    }

    /// The variables that a block's added parameters stand for, in order.
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

/// Whoever looks at blocks with the variables' values.
pub(super) trait Walker {
    /// The variables.
    fn variables(&mut self) -> &mut Variables;
    /// A block, whose added parameters are defined already.
    fn block(&mut self, block: Block);
}

/// Visits every block behind those that dominate it.
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
