//! Delays operations until it is known that their results are used.
//!
//! An operation without effects moves to the start of a later block if that block dominates all uses of its results, but
//! is not on every path from the operation to the first `ret` of the function. Such operations are common where a block has
//! two versions of its code and only one of them needs a value. Paths to other `ret`s and to traps are rare and do not
//! count. An operation does not move into a loop.
//!
//! Other operations stay where they are, because moving them would change only which registers are in use.

use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::analysis::{Cfg, Dominators, Loops};
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};

use crate::constants::is_free;
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of steps in the dominator tree to find the block that dominates two uses. An operation whose uses are
/// farther apart does not move.
const MOST_STEPS: u32 = 64;

/// Delays operations.
pub fn run(function: &mut Function) {
    let cfg = remove_unreachable(function);
    let reversed = reversed(function, &cfg);
    let mut delay = Delay {
        dominators: Dominators::new(&cfg),
        after: Dominators::new(&reversed),
        loops: Loops::new(function, &cfg),
        uses: SecondaryMap::default(),
        moved: SecondaryMap::default(),
        reversed,
        cfg,
        function,
    };
    delay.blocks();
}

/// Returns the graph with the edges reversed, of the blocks from which paths lead to the first `ret`.
fn reversed(function: &Function, cfg: &Cfg) -> Cfg {
    let is_end = |block: &Block| {
        let last = function.body[*block].last();
        last.is_some_and(|&inst| function.insts[inst].op == Op::Ret)
    };
    let end = function.order.iter().copied().find(is_end);
    let end = end.unwrap_or_else(|| function.entry());
    Cfg::of(end, cfg.rpo().len(), |block, index| {
        cfg.preds(block).get(index).copied()
    })
}

/// The blocks that use a value.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Uses {
    #[default]
    None,
    /// This block dominates them.
    Below(Block),
    /// No block was found that dominates them.
    Apart,
}

struct Delay<'a> {
    function: &'a mut Function,
    cfg: Cfg,
    dominators: Dominators,
    /// The graph with the edges reversed, and its dominator tree.
    reversed: Cfg,
    after: Dominators,
    loops: Loops,
    uses: SecondaryMap<Value, Uses>,
    /// The operations that move to the start of each block, in reverse order.
    moved: SecondaryMap<Block, Vec<Inst>>,
}

impl Delay<'_> {
    /// Visits all operations, uses before definitions.
    fn blocks(&mut self) {
        for index in (0..self.cfg.rpo().len()).rev() {
            let block = self.cfg.rpo()[index];
            let mut insts = std::mem::take(&mut self.function.body[block]);
            let mut kept = Vec::with_capacity(insts.len());
            while let Some(inst) = insts.pop() {
                match self.later(inst, block) {
                    Some(target) => {
                        self.note_uses(inst, target);
                        self.moved[target].push(inst);
                    }
                    None => {
                        self.note_uses(inst, block);
                        kept.push(inst);
                    }
                }
            }
            kept.reverse();
            self.function.body[block] = kept;
        }
        for &block in self.cfg.rpo() {
            let mut moved = std::mem::take(&mut self.moved[block]);
            if !moved.is_empty() {
                moved.reverse();
                moved.append(&mut self.function.body[block]);
                self.function.body[block] = moved;
            }
        }
    }

    /// Notes that an operation in a block uses its operands.
    fn note_uses(&mut self, inst: Inst, block: Block) {
        for value in self.function.uses(inst) {
            self.uses[value] = match self.uses[value] {
                Uses::None => Uses::Below(block),
                Uses::Below(other) => match self.dominator_of(other, block) {
                    Some(both) => Uses::Below(both),
                    None => Uses::Apart,
                },
                Uses::Apart => Uses::Apart,
            };
        }
    }

    /// Returns the nearest block that dominates both blocks, if it is not too far.
    fn dominator_of(&self, mut a: Block, b: Block) -> Option<Block> {
        for _ in 0..MOST_STEPS {
            if self.dominators.dominates(&self.cfg, a, b) {
                return Some(a);
            }
            a = self.dominators.idom(&self.cfg, a)?;
        }
        None
    }

    /// Returns the block to which an operation moves.
    fn later(&self, inst: Inst, home: Block) -> Option<Block> {
        let function = &*self.function;
        let results = function.results(inst);
        if results.is_empty()
            || !function.effects(inst).is_empty()
            || results.iter().any(|&value| is_free(function, value))
        {
            return None;
        }
        let mut target: Option<Block> = None;
        for &result in results {
            target = match (self.uses[result], target) {
                (Uses::None, target) => target,
                (Uses::Below(block), None) => Some(block),
                (Uses::Below(block), Some(other)) => Some(self.dominator_of(block, other)?),
                (Uses::Apart, _) => return None,
            };
        }
        let mut target = target?;
        for _ in 0..MOST_STEPS {
            if target == home || self.loops.around_only(target, home).next().is_none() {
                break;
            }
            target = self.dominators.idom(&self.cfg, target)?;
        }
        let is_elsewhere = target != home && self.loops.around_only(target, home).next().is_none();
        (is_elsewhere && !self.after.dominates(&self.reversed, target, home)).then_some(target)
    }
}
