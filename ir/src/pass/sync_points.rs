//! Splits blocks at sync points and adds the sync points that PTX leaves implicit.
//!
//! Programs rely on the lanes of a warp executing each access in lock-step, although CUDA does not guarantee this
//! behaviour. Where a program can observe whether the lanes run in lock-step, the pass preserves
//! this behaviour with implicit sync points. It inserts `converge` before
//!
//! - each volatile load or store of memory that lanes share;
//! - a shared-memory read that may see bytes that another lane of the warp wrote since the last sync point;
//! - a shared-memory write that may change bytes that another lane has not read yet;
//! - a read or write of global memory for which the same is certain ([`super::neighbours`]);
//! - every shared-memory access, if the target is below sm_70, where warps run in lock-step.
//!
//! The pass also gives some loops a sync point at the end of each iteration ([`super::iterations`]).
//!
//! After the pass, only a jump follows each sync point in its block. The target of the jump is the resume point, a
//! block to which no other branch leads.

use rustc_hash::FxHashMap;

use super::copy::jump;
use super::iterations::{self, Acting};
use super::neighbours::{Neighbours, Used};
use super::places::{Finder, Places, SharedAddress};
use crate::analysis::Cfg;
use crate::entity::{Block, Inst, SecondaryMap};
use crate::function::Function;
use crate::module::Module;
use margay_ops::meaning::Desc;
use margay_ops::mods::{MemOrder, Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::OpType;

/// First target architecture whose warps do not run in lock-step.
const INDEPENDENT_THREADS: u32 = 70;

/// Maximum number of rounds of the analysis. If the analysis has not reached a fixed point after these rounds, the pass
/// treats the accesses before the start of each block as unknown.
const MOST_ROUNDS: u32 = 16;

/// The accesses of a warp to shared and global memory since the last sync point.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Accesses {
    reads: Places,
    writes: Places,
    global: Used,
}

impl Accesses {
    fn unknown() -> Accesses {
        Accesses {
            reads: Places::unknown(),
            writes: Places::unknown(),
            global: Used::default(),
        }
    }

    /// Adds the accesses at the end of the block `from`, from which control comes to the block `to`.
    fn add_all(&mut self, other: &Accesses, neighbours: &mut Neighbours, from: Block, to: Block) {
        self.reads.add_all(&other.reads);
        self.writes.add_all(&other.writes);
        self.global
            .add_all(&neighbours.across(&other.global, from, to));
    }
}

/// Returns whether the lanes of a warp run in lock-step on the module's target.
pub(super) fn is_lock_step(module: &Module) -> bool {
    module.target.sm < INDEPENDENT_THREADS
}

/// Adds implicit sync points and splits blocks. `module` is the module of the function, and
/// `acting` contains functions with this property: the lanes of a warp must execute each call of
/// such a function in the same iteration of a loop.
pub fn run(function: &mut Function, module: &Module, acting: &Acting) {
    insert(function, module, acting, true);
}

/// Does the same as [`run`] for code that runs all lanes of a warp together until they diverge, and
/// joins them at the immediate post-dominator of the branch. Such code needs no `converge`.
pub fn run_for_whole_warps(function: &mut Function, module: &Module, acting: &Acting) {
    insert(function, module, acting, false);
}

fn insert(function: &mut Function, module: &Module, acting: &Acting, has_implicit: bool) {
    // The pass that merges functions into a kernel has joined the iterations of their loops.
    if !function.layout.in_program_order {
        iterations::run(function, acting);
    }
    if has_implicit {
        add_implicit(function, module);
    }
    split(function);
}

fn add_implicit(function: &mut Function, module: &Module) {
    let cfg = Cfg::new(function);
    let accesses = accesses(function, module);
    let mut neighbours = Neighbours::new(function);
    let lock_step = is_lock_step(module);
    let mut at_end: SecondaryMap<Block, Accesses> = SecondaryMap::default();
    let mut settled = false;
    for _ in 0..MOST_ROUNDS {
        settled = true;
        for &block in cfg.rpo() {
            let mut state = start_state(&cfg, &at_end, &mut neighbours, block);
            for &inst in function.insts(block) {
                step(
                    function,
                    &accesses,
                    &neighbours,
                    lock_step,
                    &mut state,
                    inst,
                );
            }
            if at_end[block] != state {
                at_end[block] = state;
                settled = false;
            }
        }
        if settled {
            break;
        }
    }
    for &block in cfg.rpo() {
        let mut state = if settled {
            start_state(&cfg, &at_end, &mut neighbours, block)
        } else {
            Accesses::unknown()
        };
        let mut insts = Vec::with_capacity(function.insts(block).len());
        for inst in function.insts(block).to_vec() {
            if step(
                function,
                &accesses,
                &neighbours,
                lock_step,
                &mut state,
                inst,
            ) {
                insts.push(converge(function, inst));
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
}

fn start_state(
    cfg: &Cfg,
    at_end: &SecondaryMap<Block, Accesses>,
    neighbours: &mut Neighbours,
    block: Block,
) -> Accesses {
    let mut state = Accesses::default();
    for &pred in cfg.preds(block) {
        state.add_all(&at_end[pred], neighbours, pred, block);
    }
    state
}

/// Returns whether a sync point is needed before `inst`. `state` contains the accesses since the last sync point; this
/// function adds the access of `inst`.
fn step(
    function: &Function,
    accesses: &FxHashMap<Inst, Access>,
    neighbours: &Neighbours,
    lock_step: bool,
    state: &mut Accesses,
    inst: Inst,
) -> bool {
    if function.effects(inst).is_sync_point() {
        *state = Accesses::default();
        return false;
    }
    if neighbours.step(&mut state.global, inst) {
        let global = std::mem::take(&mut state.global);
        *state = Accesses {
            global,
            ..Accesses::default()
        };
        return true;
    }
    let Some(access) = accesses.get(&inst) else {
        return false;
    };
    let Some(place) = access.place else {
        *state = Accesses::default();
        return true;
    };
    let cut = access.is_volatile
        || lock_step
        || access.sees && state.writes.shows_others(&place)
        || access.writes && state.reads.is_awaited(&place);
    if cut {
        *state = Accesses::default();
    }
    if access.sees {
        state.reads.add(place);
    }
    if access.writes {
        state.writes.add(place);
    }
    cut
}

/// The properties of a memory access that matter for sync points.
struct Access {
    is_volatile: bool,
    /// The location in shared memory that the access uses; `None` for a volatile access to other
    /// memory.
    place: Option<SharedAddress>,
    /// Whether the access reads memory and the program uses the value that it reads.
    sees: bool,
    writes: bool,
}

/// Returns the accesses that may need a sync point before them.
fn accesses(function: &Function, module: &Module) -> FxHashMap<Inst, Access> {
    let used = function.used_values();
    let finder = Finder::new(function, module);
    let mut found = FxHashMap::default();
    for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
        let data = &function.dfg.insts[inst];
        let is_atomic = matches!(data.opcode, Opcode::Atom | Opcode::Red);
        if !is_atomic && !matches!(data.opcode, Opcode::Ld | Opcode::St) {
            continue;
        }
        let space = data.mods.space();
        let is_shared = matches!(space, StateSpace::Shared | StateSpace::SharedCluster);
        let is_own = matches!(
            space,
            StateSpace::Local | StateSpace::Param | StateSpace::ParamFunc
        );
        let is_volatile = !is_own && !is_atomic && data.mods.order() == MemOrder::Volatile;
        let address = function.dfg.args(inst).first().filter(|_| is_shared);
        if is_shared || is_volatile {
            let access = Access {
                is_volatile,
                place: address.map(|&address| finder.place(address)),
                sees: function.dfg.results(inst).iter().any(|&v| used[v]),
                writes: data.opcode.effects().contains(Effects::WRITES),
            };
            found.insert(inst, access);
        }
    }
    found
}

fn converge(function: &mut Function, before: Inst) -> Inst {
    let desc = Desc {
        opcode: Opcode::Converge,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let inst = function.dfg.make_inst(desc, &[], &[]);
    function.dfg.locs[inst] = function.dfg.locs[before];
    inst
}

/// Splits blocks so that only a jump follows each sync point in its block. The target of the jump contains the code
/// after the sync point.
fn split(function: &mut Function) {
    let mut order = Vec::with_capacity(function.layout.order.len());
    for block in function.blocks().to_vec() {
        order.push(block);
        let is_sync_point = |&inst: &Inst| function.effects(inst).is_sync_point();
        if !function.insts(block).iter().any(is_sync_point) {
            continue;
        }
        let mut here = block;
        let mut part: Vec<Inst> = Vec::new();
        for inst in std::mem::take(&mut function.layout.insts[block]) {
            part.push(inst);
            if function.effects(inst).is_sync_point() {
                let next = function.dfg.blocks.push(Default::default());
                function.layout.insts[here] = part.as_slice().into();
                jump(function, here, next, &[]);
                part.clear();
                order.push(next);
                here = next;
            }
        }
        function.layout.insts[here] = part;
    }
    function.layout.order = order;
}
