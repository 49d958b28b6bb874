//! Inlines `.func` bodies.
//!
//! [`Inlining::of`] chooses a limit for a kernel and all functions that it calls: the maximum size of a function that
//! is inlined. The size of a function includes the functions that are inlined into it. The limit is the first of
//! [`LIMITS`] with which the kernel and the functions that are not inlined together have at most [`MAX_TOTAL`]
//! instructions, or the last one if there is no such limit. If a called function contains sync points, only the first
//! limit, 40 and 0 are tried. The size of the code is therefore limited, even if the functions form a long chain in
//! which each function calls the next one twice. Calls of recursive functions, calls through handles and calls of
//! functions without a body are never inlined. The pass removes a call if its results are unused and the called
//! function is known to return always and to have no other effect.
//!
//! Invariant: after this pass a function has at most [`MAX_INSTS`] instructions, unless it had more before.

mod graph;

use std::vec::IntoIter;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::graph::{Fate, Graph, Plan};
use super::copy::{Copier, jump, new_block};
use crate::entity::{Block, FuncId, Inst, Value};
use crate::function::{Function, SourceLoc, ValueDef, payload_func};
use crate::module::Module;
use margay_ops::ops::Opcode;

/// Maximum number of instructions of a caller after inlining.
const MAX_INSTS: usize = 200_000;
/// Maximum total number of instructions of a kernel and of the functions that are not inlined.
const MAX_TOTAL: usize = 200_000;
/// Limits for the size of inlined functions, in the order in which the pass tries them. Most kernels use the first
/// limit.
const LIMITS: [Limit; 5] = [
    Limit(MAX_INSTS),
    Limit(4_000),
    Limit(400),
    Limit(40),
    Limit(0),
];

/// The largest number of instructions of an inlined function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limit(usize);

/// The inlining decisions for a kernel and the functions that it calls.
#[derive(Debug)]
pub struct Inlining {
    limit: Limit,
    plan: Plan,
}

impl Inlining {
    /// Decides which calls are inlined in `root` and in all functions that `root` calls. `root` is a kernel, or a
    /// function that is prepared alone.
    pub fn of(module: &Module, root: FuncId) -> Inlining {
        let graph = Graph::new(module, root);
        let mut plan = graph.plan(LIMITS[0].0, MAX_INSTS);
        let mut limit = LIMITS[0];
        // The pass `calls` merges one copy of each function in which threads wait into the kernel. Inlined copies of
        // such functions are the most expensive copies, so some limits are skipped if there are such functions.
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

    /// Returns whether the limit is lower than the first of [`LIMITS`]. If it is lower, some calls
    /// are not inlined that would be inlined in a smaller program.
    pub fn is_reduced(&self) -> bool {
        self.limit != LIMITS[0]
    }

    /// Returns the plan for a function that the kernel reaches only through handles; `None` if the kernel's plan
    /// contains the function.
    fn other(&self, module: &Module, id: FuncId) -> Option<Plan> {
        let known = self.plan.knows(id);
        (!known).then(|| Graph::new(module, id).plan(self.limit.0, MAX_INSTS))
    }
}

/// Inlines calls in `function`, whose ID in `module` is `id`.
pub fn run(function: &mut Function, module: &Module, id: FuncId, inlining: &Inlining) {
    let mut fates: FxHashMap<Inst, Fate> = FxHashMap::default();
    let other = inlining.other(module, id);
    let plan = other.as_ref().unwrap_or(&inlining.plan);
    fates.extend(calls_in(function, function.blocks()).zip(plan.fates(id)));
    if fates.values().all(|&fate| fate == Fate::Stay) {
        return;
    }
    let mut order = Vec::with_capacity(function.blocks().len());
    // The blocks to process. If a block is the rest of a block that was split at a call, the iterator returns the
    // instructions after the call.
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
    crate::edit::resolve_aliases(function);
    crate::analysis::cfg::remove_unreachable(function);
}

/// Returns the direct calls in the given blocks, in layout order.
fn calls_in<'a>(function: &'a Function, blocks: &'a [Block]) -> impl Iterator<Item = Inst> + 'a {
    let insts = blocks.iter().flat_map(|&block| function.insts(block));
    let is_call = |inst: &Inst| function.dfg.insts[*inst].opcode == Opcode::Call;
    insts.copied().filter(is_call)
}

/// Appends to `block` a jump to a copy of `callee`. The jump replaces a call, which the caller of this function has
/// removed from the end of `block`. Copied instructions without a source position get the position of the call. Returns
/// the copied blocks, and the block for the instructions after the call.
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
    for &inst in copied.iter().flat_map(|&b| &caller.layout.insts[b]) {
        if caller.dfg.locs[inst] == SourceLoc::default() {
            caller.dfg.locs[inst] = caller.dfg.locs[call];
        }
    }
    jump(caller, block, entry, &args);
    let unsupported = callee.unsupported.iter().cloned();
    caller.unsupported.extend(unsupported);
    (copied, tail)
}
