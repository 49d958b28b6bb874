//! Keeps the lanes of a warp in the same iteration of a loop, if the program can observe whether
//! they are in the same iteration.
//!
//! `activemask`, and `shfl` and `vote` without `.sync`, act on the lanes that execute them together. On GPUs, lanes
//! that skip such an operation in one iteration wait for the other lanes at the end of the iteration. Programs such as
//! `if (x == bin) atomicAggInc(&count[bin])` in a loop over bins rely on this: otherwise lanes would act together with
//! lanes of earlier or later iterations. The pass gives each loop with such an operation a single back edge with a sync
//! point. Lanes at this sync point continue when no lane waits at a lower sync point of the loop. Calls of functions
//! that may execute such an operation count as such operations ([`Acting`]). In kernels with a sorting network in global
//! memory, each access to this memory counts, too ([`super::sync_points`]).

use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::Cfg;
use crate::analysis::loops::Loops;
use crate::entity::{Block, FuncId, Inst, Value};
use crate::function::{Function, SourceLoc, payload_func};
use crate::sync_point::acts_on_present_lanes;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::copy::{jump, new_block};

/// The functions that may execute, directly or in a callee, an operation that acts on the lanes
/// that execute it together.
#[derive(Debug, Default)]
pub struct Acting {
    functions: FxHashSet<FuncId>,
    /// Whether a call through a handle may reach a function in `functions`.
    through_handles: bool,
}

impl Acting {
    /// Finds, among `functions`, the functions that may execute an operation that acts on the lanes
    /// that execute it together. `functions` must also contain all functions that its members may
    /// call.
    pub fn among<'a>(functions: impl Iterator<Item = (FuncId, &'a Function)>) -> Acting {
        let mut acting = Acting::default();
        let mut callers: FxHashMap<FuncId, Vec<FuncId>> = FxHashMap::default();
        let mut kernels = FxHashSet::default();
        let (mut work, mut with_handles) = (Vec::new(), Vec::new());
        for (id, function) in functions {
            if function.kernel.is_some() {
                kernels.insert(id);
            }
            for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
                let data = &function.dfg.insts[inst];
                match data.opcode {
                    Opcode::Call => {
                        let callee = payload_func(data.payload());
                        callers.entry(callee).or_default().push(id);
                    }
                    Opcode::CallIndirect => with_handles.push(id),
                    _ if acts_on_present_lanes(&data.desc()) => work.push(id),
                    _ => {}
                }
            }
        }
        loop {
            while let Some(id) = work.pop() {
                if acting.functions.insert(id) {
                    work.extend(callers.get(&id).into_iter().flatten());
                }
            }
            let is_reached = acting.functions.iter().any(|id| !kernels.contains(id));
            if !is_reached || acting.through_handles {
                return acting;
            }
            // A call through a handle may reach every function that is not a kernel.
            acting.through_handles = true;
            work.append(&mut with_handles);
        }
    }

    fn contains(&self, function: &Function, inst: Inst) -> bool {
        let data = &function.dfg.insts[inst];
        match data.opcode {
            Opcode::Call => self.functions.contains(&payload_func(data.payload())),
            Opcode::CallIndirect => self.through_handles,
            _ => acts_on_present_lanes(&data.desc()),
        }
    }
}

/// Joins the iterations of loops with operations that act on the lanes that execute them together.
pub(super) fn run(function: &mut Function, acting: &Acting) {
    run_for(function, |function, inst| acting.contains(function, inst));
}

/// Joins the iterations of loops that contain an instruction for which `is_observed` returns true.
pub(super) fn run_for(function: &mut Function, is_observed: impl Fn(&Function, Inst) -> bool) {
    let cfg = Cfg::new(function);
    let observes = |block: &Block| {
        let mut insts = function.insts(*block).iter();
        insts.any(|&inst| is_observed(function, inst))
    };
    let blocks: Vec<Block> = cfg.rpo().iter().copied().filter(observes).collect();
    if blocks.is_empty() {
        return;
    }
    let loops = Loops::new(function, &cfg);
    let mut around: Vec<usize> = blocks
        .iter()
        .flat_map(|&block| loops.and_around(loops.innermost(block)))
        .collect();
    around.sort_unstable();
    around.dedup();
    for number in around {
        let header = loops.header(number);
        let preds = cfg.preds(header).iter().copied();
        let latches: Vec<Block> = preds
            .filter(|&block| loops.contains(number, block))
            .collect();
        let body = loops.body(number).to_vec();
        join(function, header, &latches, &body);
    }
}

/// Inserts a sync point before each call of a function in `acting`. If all calls of a function lead to one copy of its
/// body, lanes that are about to make the next call wait at this sync point for lanes that are
/// still in an earlier call.
pub(super) fn join_before_calls(function: &mut Function, acting: &Acting) {
    for block in function.blocks().to_vec() {
        let mut insts = Vec::with_capacity(function.insts(block).len());
        for inst in function.insts(block).to_vec() {
            let opcode = function.dfg.insts[inst].opcode;
            let calls = matches!(opcode, Opcode::Call | Opcode::CallIndirect);
            if calls && acting.contains(function, inst) {
                insts.push(sync_point(function, function.dfg.locs[inst]));
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
}

/// Creates an `activemask` whose result is unused. A `converge` would not suffice, because a lane
/// does not stop at a `converge` if all lanes of its warp are together.
fn sync_point(function: &mut Function, loc: SourceLoc) -> Inst {
    let desc = Desc {
        opcode: Opcode::ActiveMask,
        ty: OpType::B32,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let inst = function.dfg.make_inst(desc, &[], &[Type::B32]);
    function.dfg.locs[inst] = loc;
    inst
}

/// Replaces the edges from `latches` to `header` by edges to a new block with a sync point, which jumps to `header`.
/// `body` contains the blocks of the loop.
fn join(function: &mut Function, header: Block, latches: &[Block], body: &[Block]) {
    let end = new_block(function);
    let types: Vec<Type> = (function.dfg.blocks[header].params.iter())
        .map(|&param| function.dfg.ty(param))
        .collect();
    let params: Vec<Value> = types
        .into_iter()
        .map(|ty| function.dfg.append_param(end, ty))
        .collect();
    let mut loc = None;
    for &latch in latches {
        let Some(&last) = function.insts(latch).last() else {
            continue;
        };
        loc = Some(function.dfg.locs[last]);
        for call in function.dfg.targets.get_mut(&last).into_iter().flatten() {
            if call.block == header {
                call.block = end;
            }
        }
    }
    let inst = sync_point(function, loc.unwrap_or_default());
    function.append_inst(end, inst);
    jump(function, end, header, &params);
    let order = &mut function.layout.order;
    let after = order.iter().rposition(|block| body.contains(block));
    order.insert(after.map_or(order.len(), |at| at + 1), end);
}
