//! Inlining of `.func` bodies.
//!
//! [`Inlining::of`] decides, for a kernel and all that it calls, how large a function may be (with what is inlined into it)
//! to be inlined itself: the largest of [`LIMITS`] with which the kernel and the functions that stay calls have no more
//! than [`MAX_TOTAL`] instructions together. So where each function calls the next one twice, the code grows with the
//! text and not with the number of paths. Always calls: recursion, calls through handles, functions without a body.
//! A call that does nothing and whose results nobody uses is removed.
//!
//! Invariant: behind this pass a function has at most [`MAX_INSTS`] instructions, unless it had more before.

mod graph;

use std::vec::IntoIter;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::graph::{Fate, Graph, Plan};
use super::copy::{Copier, jump, new_block};
use crate::entity::{Block, FuncId, Inst, Value};
use crate::function::{Function, ValueDef, payload_func};
use crate::module::Module;
use margay_ops::ops::Opcode;

/// A caller is not made larger than this many instructions.
const MAX_INSTS: usize = 200_000;
/// Most instructions of a kernel and of the functions that stay calls.
const MAX_TOTAL: usize = 200_000;
/// Sizes up to which functions are inlined, the usual one first.
const LIMITS: [Limit; 5] = [
    Limit(MAX_INSTS),
    Limit(4_000),
    Limit(400),
    Limit(40),
    Limit(0),
];

/// The size up to which functions are inlined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limit(usize);

/// What is inlined into a kernel and into the functions that it calls.
#[derive(Debug)]
pub struct Inlining {
    limit: Limit,
    plan: Plan,
}

impl Inlining {
    /// Decides for a kernel, or for a function that is looked at alone, and for all that it calls.
    pub fn of(module: &Module, root: FuncId) -> Inlining {
        let graph = Graph::new(module, root);
        let mut plan = graph.plan(LIMITS[0].0, MAX_INSTS);
        let mut limit = LIMITS[0];
        // Bodies in which threads wait become part of the kernel, each once; copies of them cost the most.
        let least = if graph.waits(module) { 3 } else { 1 };
        for &smaller in &LIMITS[least..] {
            if plan.total <= MAX_TOTAL {
                break;
            }
            plan = graph.plan(smaller.0, MAX_INSTS);
            limit = smaller;
        }
        Inlining { limit, plan }
    }

    /// Whether functions stay calls that are inlined where there is less code.
    pub fn is_reduced(&self) -> bool {
        self.limit != LIMITS[0]
    }

    /// What becomes of the calls of functions that the kernel reaches through handles alone.
    fn other(&self, module: &Module, id: FuncId) -> Option<Plan> {
        let known = self.plan.knows(id);
        (!known).then(|| Graph::new(module, id).plan(self.limit.0, MAX_INSTS))
    }
}

/// Inlines calls in `function`, which is `id` of `module`.
pub fn run(function: &mut Function, module: &Module, id: FuncId, inlining: &Inlining) {
    let mut fates: FxHashMap<Inst, Fate> = FxHashMap::default();
    let other = inlining.other(module, id);
    let plan = other.as_ref().unwrap_or(&inlining.plan);
    fates.extend(calls_in(function, function.blocks()).zip(plan.fates(id)));
    if fates.values().all(|&fate| fate == Fate::Stay) {
        return;
    }
    let mut order = Vec::with_capacity(function.blocks().len());
    // Blocks to look through, with what is left of those that a call has split.
    let blocks = function.blocks().iter().rev();
    let mut work: Vec<(Block, Option<IntoIter<Inst>>)> = blocks.map(|&b| (b, None)).collect();
    while let Some((block, rest)) = work.pop() {
        order.push(block);
        let all = || std::mem::take(&mut function.layout.insts[block]).into_iter();
        let mut insts = rest.unwrap_or_else(all);
        let mut stay = Vec::new();
        let mut inlined = None;
        for inst in insts.by_ref() {
            match fates.get(&inst).unwrap_or(&Fate::Stay) {
                Fate::Stay => stay.push(inst),
                Fate::Drop => {}
                Fate::Inline => {
                    inlined = Some(inst);
                    break;
                }
            }
        }
        function.layout.insts[block] = stay;
        let Some(call) = inlined else { continue };
        let callee = payload_func(function.dfg.insts[call].payload());
        let (copied, tail) = expand(function, block, call, &module.functions[callee]);
        fates.extend(calls_in(function, &copied).zip(plan.fates(callee)));
        work.push((tail, Some(insts)));
        work.extend(copied.into_iter().rev().map(|block| (block, None)));
    }
    function.layout.order = order;
    function.resolve_aliases();
    crate::analysis::cfg::remove_unreachable(function);
}

/// The direct calls in blocks, in order.
fn calls_in<'a>(function: &'a Function, blocks: &'a [Block]) -> impl Iterator<Item = Inst> + 'a {
    let insts = blocks.iter().flat_map(|&block| function.insts(block));
    let is_call = |inst: &Inst| function.dfg.insts[*inst].opcode == Opcode::Call;
    insts.copied().filter(is_call)
}

/// Lets `block` jump to a copy of `callee`, in the place of a call that follows its last instruction. The copied blocks,
/// and the one for what follows.
fn expand(
    caller: &mut Function,
    block: Block,
    call: Inst,
    callee: &Function,
) -> (Vec<Block>, Block) {
    let results: SmallVec<[Value; 4]> = SmallVec::from_slice(caller.dfg.results(call));
    let args: SmallVec<[Value; 8]> = SmallVec::from_slice(caller.dfg.args(call));
    let tail = new_block(caller);
    for &result in &results {
        let param = caller.dfg.append_param(tail, caller.dfg.ty(result));
        caller.dfg.values[result].def = ValueDef::Alias(param);
    }
    let mut copy = Copier::new(caller, callee, tail);
    copy.copy_blocks();
    let entry = copy.blocks[&callee.entry()];
    let copied: Vec<Block> = callee.blocks().iter().map(|b| copy.blocks[b]).collect();
    jump(caller, block, entry, &args);
    let unsupported = callee.unsupported.iter().cloned();
    caller.unsupported.extend(unsupported);
    (copied, tail)
}
