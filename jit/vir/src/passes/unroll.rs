//! Copies the iterations of loops whose number is a small constant.
//!
//! Loops over the levels of a tree in shared memory, such as `for (n = blockDim.x / 2; n > 0; n /= 2)`, have a number of
//! iterations that is known in code for one shape of blocks. In the copies, bounds of threads and distances between
//! elements are constants, so masks are known, chunks without lanes disappear, and [`super::forward`] can replace loads.
//!
//! Other loops stay as they are, because their copies would only take time to compile.
//!
//! The pass copies the loop in front of itself, as often as its header is executed; [`super::simplify`] then finds that the
//! last copy does not continue, and removes the loop. A copy is correct for any number of iterations, so nothing depends
//! on the number that the pass computes.

use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::analysis::{Cfg, Dominators, Loops};
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::BlockCall;
use margay_ops::types::{Kind, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::repair::{Uses, repair};
use super::scalars::Scalars;
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of copies of a loop.
const MOST_COPIES: usize = 17;
/// The maximum number of instructions that the copies of all loops have.
const MOST_INSTRUCTIONS: usize = 8_000;
/// The maximum number of loops that are copied.
const MOST_LOOPS: usize = 8;

/// Copies the iterations of loops. Returns whether there are copies.
pub fn run(function: &mut Function) -> bool {
    let cfg = remove_unreachable(function);
    let loops = Loops::new(function, &cfg);
    if loops.loops.is_empty() {
        return false;
    }
    let dominators = Dominators::new(&cfg);
    let mut left = MOST_INSTRUCTIONS;
    let mut found: Vec<Candidate> = Vec::new();
    // Inner loops follow the loops around them. A loop around a copied one is not copied.
    let mut has_copied = vec![false; loops.loops.len()];
    for number in (0..loops.loops.len()).rev() {
        let found_here = match has_copied[number] || found.len() == MOST_LOOPS {
            true => None,
            false => candidate(function, (&cfg, &dominators), &loops, number, left),
        };
        let is_copied = found_here.is_some() || has_copied[number];
        if let Some(outer) = loops.outer(number) {
            has_copied[outer] |= is_copied;
        }
        left -= found_here.as_ref().map_or(0, |of| of.copies * of.size);
        found.extend(found_here);
    }
    for of in &found {
        copy(function, of);
    }
    !found.is_empty()
}

/// A loop that is copied.
struct Candidate {
    header: Block,
    /// The blocks of the loop, and those behind it that end the function and to which only the loop leads.
    blocks: Vec<Block>,
    copies: usize,
    /// The number of instructions of the blocks.
    size: usize,
}

/// Returns what is copied of a loop, if it executes its header a small number of times.
fn candidate(
    function: &Function,
    (cfg, dominators): (&Cfg, &Dominators),
    loops: &Loops,
    number: usize,
    left: usize,
) -> Option<Candidate> {
    let header = loops.header(number);
    let (inside, outside): (Vec<Block>, Vec<Block>) =
        (cfg.preds(header).iter()).partition(|&&pred| loops.contains(number, pred));
    let body = loops.body(number);
    let mut preds = body[1..].iter().flat_map(|&block| cfg.preds(block));
    if !preds.all(|&pred| loops.contains(number, pred)) {
        return None;
    }
    let calls = |preds: &[Block]| -> Option<Vec<&BlockCall>> {
        let calls = preds.iter().map(|&pred| only_call(function, pred, header));
        calls.collect()
    };
    let (first, next) = (calls(&outside)?, calls(&inside)?);
    // Several blocks decide whether an iteration follows if an iteration has several variants, for example one in which all
    // lanes run.
    let decides = |&&block: &&Block| {
        let mut latches = inside.iter();
        latches.any(|&latch| dominators.dominates(cfg, block, latch))
    };
    let copies = (body.iter().filter(decides))
        .find_map(|&block| executions(function, (loops, number), block, (&first, &next)))?;
    let blocks = with_ends(function, cfg, body);
    let size = blocks.iter().map(|&block| function.body[block].len()).sum();
    (copies * size <= left).then_some(Candidate {
        header,
        blocks,
        copies,
        size,
    })
}

/// Returns the only edge from a block to another one.
fn only_call(function: &Function, from: Block, to: Block) -> Option<&BlockCall> {
    let mut calls = function
        .successors(from)
        .iter()
        .filter(|call| call.block == to);
    let call = calls.next();
    if calls.next().is_some() { None } else { call }
}

/// Returns how often a loop executes its header if a block that leaves the loop decides, with the arguments of the first
/// and of the following iterations.
fn executions(
    function: &Function,
    (loops, number): (&Loops, usize),
    block: Block,
    (first, next): (&[&BlockCall], &[&BlockCall]),
) -> Option<usize> {
    let &last = function.body[block].last()?;
    if function.insts[last].op != Op::Brif {
        return None;
    }
    let condition = function.args(last)[0];
    let stays = |index: usize| loops.contains(number, function.targets(last)[index].block);
    let (if_true, if_false) = (stays(0), stays(1));
    if if_true == if_false {
        return None;
    }
    let params = &function.blocks[loops.header(number)];
    let mut known = Scalars::default();
    let mut calls = first;
    for count in 1..=MOST_COPIES {
        let value = |index: usize| {
            let mut passed = calls
                .iter()
                .map(|call| known.of(function, call.args[index]));
            let bits = passed.next()??;
            passed.all(|other| other == Some(bits)).then_some(bits)
        };
        let values = params.iter().enumerate();
        let values = values.filter_map(|(index, &param)| Some((param, value(index)?)));
        known = Scalars {
            known: values.collect(),
        };
        if count == 1 && !is_worthwhile(function, (loops, number), &known) {
            return None;
        }
        let condition = known.of(function, condition)?;
        if !(if condition != 0 { if_true } else { if_false }) {
            return Some(count);
        }
        calls = next;
    }
    None
}

/// Returns whether the known parameters of a loop determine masks, or branches that do not leave the loop.
fn is_worthwhile(function: &Function, (loops, number): (&Loops, usize), known: &Scalars) -> bool {
    let is_known = |&arg: &Value| -> bool {
        let Some(inst) = function.def_inst(arg) else {
            return known.of(function, arg).is_some();
        };
        match function.insts[inst].op {
            Op::Const => true,
            Op::Affine | Op::Splat => known.of(function, function.args(inst)[0]).is_some(),
            _ => known.of(function, arg).is_some(),
        }
    };
    let body = loops.body(number).iter();
    let mut insts = body.flat_map(|&block| &function.body[block]);
    insts.any(|&inst| {
        let targets = function.targets(inst).iter();
        match function.insts[inst].op {
            Op::Brif => {
                let mut targets = targets.map(|call| call.block);
                let stays = targets.all(|block| loops.contains(number, block));
                stays && known.of(function, function.args(inst)[0]).is_some()
            }
            Op::Map => {
                let is_mask = (function.results(inst).iter())
                    .all(|&result| function.ty(result).kind() == Kind::Pred);
                let is_vector = function.ty(function.results(inst)[0]).lanes() > 1;
                is_mask && is_vector && function.args(inst).iter().all(is_known)
            }
            _ => false,
        }
    })
}

/// Returns the blocks of a loop and those behind it that end the function and to which only the loop leads.
fn with_ends(function: &Function, cfg: &Cfg, body: &[Block]) -> Vec<Block> {
    let inside: FxHashSet<Block> = body.iter().copied().collect();
    let is_end = |block: Block| {
        let ends = function.successors(block).is_empty();
        ends && cfg.preds(block).iter().all(|pred| inside.contains(pred))
    };
    let mut blocks = body.to_vec();
    for call in body.iter().flat_map(|&block| function.successors(block)) {
        if is_end(call.block) && !blocks.contains(&call.block) {
            blocks.push(call.block);
        }
    }
    blocks
}

/// Copies a loop in front of itself.
fn copy(function: &mut Function, of: &Candidate) {
    let inside: FxHashSet<Block> = of.blocks.iter().copied().collect();
    let mut homes: FxHashMap<Value, Block> = FxHashMap::default();
    for &block in &of.blocks {
        let insts = function.body[block].iter();
        let results = insts.flat_map(|&inst| function.results(inst));
        let values = function.blocks[block].iter().chain(results);
        homes.extend(values.map(|&value| (value, block)));
    }
    let uses = Uses::new(
        function,
        |value| homes.contains_key(&value),
        |block| !inside.contains(&block),
    );
    let headers: Vec<Block> = (0..of.copies)
        .map(|_| function.blocks.push(Vec::new()))
        .collect();
    let next_headers = headers[1..].iter().copied().chain([of.header]);
    let copies: Vec<Copied> = (headers.iter().copied())
        .zip(next_headers)
        .map(|(header, next)| Copied::new(function, of, (header, next)))
        .collect();
    // Copies of an earlier loop may lead to this one, too.
    let outside = |block: &&Block| !inside.contains(block);
    let outside: Vec<Block> = function.order.iter().filter(outside).copied().collect();
    for block in outside {
        let calls = function.successors_mut(block).iter_mut();
        for call in calls.filter(|call| call.block == of.header) {
            call.block = headers[0];
        }
    }
    let ends = |&block: &Block| function.successors(block).is_empty();
    let (ends, body): (Vec<Block>, Vec<Block>) = of.blocks.iter().partition(|&block| ends(block));
    let in_order = |blocks: &[Block]| -> Vec<Block> {
        let copied = copies
            .iter()
            .map(|copy| blocks.iter().map(|block| copy.blocks[block]));
        copied.flatten().collect()
    };
    let mut order = function.order.iter();
    let at = order.position(|block| inside.contains(block)).unwrap_or(0);
    function.order.splice(at..at, in_order(&body));
    function.order.extend(in_order(&ends));
    let values = uses.values();
    if values.is_empty() {
        return;
    }
    let cfg = Cfg::new(function);
    for value in values {
        let home = homes[&value];
        let copied = copies
            .iter()
            .map(|copy| (copy.blocks[&home], copy.values[&value]));
        repair(function, &cfg, &uses, value, copied.chain([(home, value)]));
    }
}

/// A copy of a loop.
struct Copied {
    blocks: FxHashMap<Block, Block>,
    values: FxHashMap<Value, Value>,
}

impl Copied {
    /// Copies the blocks of a loop. The copy has the header `header`, and its latches lead to `next`.
    fn new(function: &mut Function, of: &Candidate, (header, next): (Block, Block)) -> Copied {
        let mut copy = Copied {
            blocks: FxHashMap::default(),
            values: FxHashMap::default(),
        };
        for &block in &of.blocks {
            let new = match block == of.header {
                true => header,
                false => function.blocks.push(Vec::new()),
            };
            copy.blocks.insert(block, new);
            for param in function.blocks[block].clone() {
                let copied = function.append_param(new, function.ty(param));
                copy.values.insert(param, copied);
            }
        }
        // Definitions may follow uses in the order of the blocks, so all results exist before the operands.
        let mut insts: Vec<(Inst, Inst)> = Vec::new();
        for &block in &of.blocks {
            for inst in function.body[block].clone() {
                let data = function.insts[inst];
                let results = function.results(inst).iter();
                let types: SmallVec<[Type; 4]> =
                    results.map(|&result| function.ty(result)).collect();
                let head = (data.op, data.ty, data.data);
                let new = function.append(copy.blocks[&block], head, &[], &types);
                function.places[new] = function.places[inst];
                let results = function.results(inst).iter().copied();
                copy.values
                    .extend(results.zip(function.results(new).iter().copied()));
                insts.push((inst, new));
            }
        }
        let value_of = |value: &Value| copy.values.get(value).copied().unwrap_or(*value);
        for (inst, new) in insts {
            let args: SmallVec<[Value; 8]> = function.args(inst).iter().map(value_of).collect();
            function.insts[new].args = function.pool.push(&args);
            let calls = function.targets(inst).iter().map(|call| BlockCall {
                block: match call.block == of.header {
                    true => next,
                    false => copy.blocks.get(&call.block).copied().unwrap_or(call.block),
                },
                args: call.args.iter().map(value_of).collect(),
            });
            let calls: SmallVec<[BlockCall; 2]> = calls.collect();
            if !calls.is_empty() {
                function.targets.insert(new, calls);
            }
        }
        copy
    }
}
