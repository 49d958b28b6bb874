//! Lets branches skip decisions that the constants among their arguments determine.
//!
//! Where different barriers may follow a barrier, blocks pass the number of the next one to a block that compares it with
//! constants. A branch that passes a constant can lead directly to where the comparisons lead, so that the loop from a
//! barrier to itself has no comparison, and [`super::unroll`] recognises it.
//!
//! A decision is a block with parameters, and the blocks behind it to which only blocks of the decision lead, if they have
//! no effects and end with conditional branches. Other blocks may use the parameters. They get parameters of their own for
//! them, because a decision that branches skip does not precede these blocks on all paths.

use margay_ir::analysis::Cfg;
use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::BlockCall;
use margay_ops::types::Type;
use rustc_hash::{FxHashMap, FxHashSet};

use super::repair::{Uses, repair, used};
use super::scalars::Scalars;
use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of decisions that branches skip.
const MOST_DECISIONS: usize = 16;

/// Lets branches skip decisions. Returns whether a branch leads to another block than before.
pub fn run(function: &mut Function) -> bool {
    let mut done = FxHashSet::default();
    while done.len() < MOST_DECISIONS {
        remove_unreachable(function);
        let decisions = Decisions::new(function);
        let mut skips = decisions.skips(function, &done);
        let first = function.order.iter().find(|&root| skips.contains_key(root));
        let Some((&root, skips)) = first.and_then(|root| Some((root, skips.remove(root)?))) else {
            break;
        };
        done.insert(root);
        apply(function, &decisions, root, skips);
    }
    !done.is_empty()
}

/// A branch that skips a decision.
struct Skip {
    from: Block,
    /// The index among the targets of the block's last instruction.
    target: usize,
    to: Block,
    args: Vec<Passed>,
}

/// What a branch that skips a decision passes.
enum Passed {
    /// The argument for this parameter of the decision.
    Param(usize),
    Value(Value),
    /// A constant that the decision computes.
    Constant(Type, u64),
}

/// The decisions of a function.
#[derive(Default)]
struct Decisions {
    /// The first block of the decision to which a block belongs.
    roots: SecondaryMap<Block, Option<Block>>,
    /// The first block of the decision that defines a value.
    homes: SecondaryMap<Value, Option<Block>>,
    /// Whether other blocks use results of the decision that begins with a block.
    is_used: SecondaryMap<Block, bool>,
}

impl Decisions {
    fn new(function: &Function) -> Decisions {
        let mut found = Decisions::default();
        let cfg = Cfg::new(function);
        for &block in cfg.rpo() {
            let Some((&last, before)) = function.body[block].split_last() else {
                continue;
            };
            let is_pure = |&inst: &Inst| function.effects(inst).is_empty();
            let decides = function.insts[last].op == Op::Brif && before.iter().all(is_pure);
            if !decides || block == function.entry() {
                continue;
            }
            let root = match (function.blocks[block].is_empty(), cfg.preds(block)) {
                (false, _) => Some(block),
                (true, &[pred]) => found.roots[pred],
                (true, _) => None,
            };
            found.roots[block] = root;
            let results = before.iter().flat_map(|&inst| function.results(inst));
            for &value in function.blocks[block].iter().chain(results) {
                found.homes[value] = root;
            }
        }
        for &block in cfg.rpo() {
            for value in used(function, block) {
                if let Some(home) = found.homes[value]
                    && found.roots[block] != Some(home)
                    && function.def_inst(value).is_some()
                {
                    found.is_used[home] = true;
                }
            }
        }
        found
    }

    /// Returns the first block of the decision to which a block belongs.
    fn root(&self, block: Block) -> Option<Block> {
        self.roots[block].filter(|&root| !self.is_used[root])
    }

    /// Returns the branches that can skip decisions, by the first block of the decision. Leaves out the decisions in `done`.
    fn skips(&self, function: &Function, done: &FxHashSet<Block>) -> FxHashMap<Block, Vec<Skip>> {
        let mut found: FxHashMap<Block, Vec<Skip>> = FxHashMap::default();
        for &from in &function.order {
            for (target, call) in function.successors(from).iter().enumerate() {
                let root = call.block;
                let is_other = self.root(root) == Some(root) && self.roots[from] != Some(root);
                if is_other
                    && !done.contains(&root)
                    && let Some((to, args)) = self.end(function, call)
                {
                    let skip = Skip {
                        from,
                        target,
                        to,
                        args,
                    };
                    found.entry(root).or_default().push(skip);
                }
            }
        }
        found
    }

    /// If the constants among the arguments of a branch to a decision determine where it ends, returns the block to which it
    /// leads and what it passes.
    fn end(&self, function: &Function, call: &BlockCall) -> Option<(Block, Vec<Passed>)> {
        let root = call.block;
        let params = &function.blocks[root];
        let passed = params.iter().zip(&call.args);
        let constants =
            passed.filter_map(|(&param, &arg)| Some((param, function.constant(arg)?.into())));
        let known = Scalars {
            known: constants.collect(),
        };
        let mut at = root;
        let end = loop {
            let &last = function.body[at].last()?;
            let condition = known.of(function, function.args(last)[0])?;
            let next = function.targets(last).get(usize::from(condition == 0))?;
            if next.block == root {
                return None;
            }
            if self.roots[next.block] != Some(root) {
                break next;
            }
            at = next.block;
        };
        let pass = |&arg: &Value| {
            if let Some(index) = params.iter().position(|&param| param == arg) {
                return Some(Passed::Param(index));
            }
            if self.homes[arg] != Some(root) {
                return Some(Passed::Value(arg));
            }
            let bits = match function.constant(arg) {
                Some(bits) => bits,
                None => known.of(function, arg)?.try_into().ok()?,
            };
            Some(Passed::Constant(function.ty(arg), bits))
        };
        Some((end.block, end.args.iter().map(pass).collect::<Option<_>>()?))
    }
}

/// Lets branches skip the decision that begins with `root`.
fn apply(function: &mut Function, decisions: &Decisions, root: Block, skips: Vec<Skip>) {
    let params = function.blocks[root].clone();
    // Each branch leads to a block of its own with the parameters of the decision.
    let mut between: Vec<Block> = Vec::new();
    for Skip {
        from,
        target,
        to,
        args,
    } in skips
    {
        let new = function.blocks.push(Vec::new());
        for &param in &params {
            let ty = function.ty(param);
            function.append_param(new, ty);
        }
        let pass = |arg: Passed| match arg {
            Passed::Param(index) => function.blocks[new][index],
            Passed::Value(value) => value,
            Passed::Constant(ty, bits) => {
                let head = (Op::Const, Some(ty), Data::Number(bits));
                let inst = function.append(new, head, &[], &[ty]);
                function.results(inst)[0]
            }
        };
        let call = BlockCall {
            block: to,
            args: args.into_iter().map(pass).collect(),
        };
        let jump = function.append(new, (Op::Jump, None, Data::Nothing), &[], &[]);
        function.targets.insert(jump, [call].into_iter().collect());
        function.successors_mut(from)[target].block = new;
        let at = function.order.iter().position(|&block| block == from);
        function.order.insert(at.map_or(0, |at| at + 1), new);
        between.push(new);
    }
    let is_outside = |block: Block| decisions.roots[block] != Some(root);
    let uses = Uses::new(function, |value| params.contains(&value), is_outside);
    let values = uses.values();
    if values.is_empty() {
        return;
    }
    let cfg = Cfg::new(function);
    for value in values {
        let index = params.iter().position(|&param| param == value);
        let index = index.expect("the value is a parameter");
        let copies: Vec<(Block, Value)> = (between.iter())
            .map(|&block| (block, function.blocks[block][index]))
            .collect();
        let definitions = copies.into_iter().chain([(root, value)]);
        repair(function, &cfg, &uses, value, definitions);
    }
}
