//! Splits blocks at sync points and adds the sync points that PTX leaves implicit.
//!
//! Programs rely on the lanes of a warp executing each access in lock-step, although CUDA does not guarantee this
//! behaviour. Where a program can observe whether the lanes run in lock-step, the pass preserves
//! this behaviour with implicit sync points. It inserts `converge` before
//!
//! - each volatile load or store of memory that lanes share;
//! - a shared-memory read that may see bytes that another lane of the warp wrote since the last sync point;
//! - a shared-memory write that may change bytes that another lane has not read yet;
//! - a shared-memory write that may change bytes that another lane wrote since the last sync point, if one of the two
//!   addresses depends on data that the lane has read and the other one does not. If the addresses of both writes depend
//!   on data, the pass adds a sync point only if the warp has also written the array at other addresses since the last
//!   sync point of the program. Without such writes, the pass assumes that the addresses are a permutation, as in a
//!   sort: each element is written once;
//! - every shared-memory access, if the target is below sm_70, where warps run in lock-step;
//! - an access to global memory through which lanes provably exchange values ([`super::exchanges`]);
//! - an access to global memory, unless it and the accesses since the last sync point only read, in kernels with a
//!   sorting network in global memory that has no barriers ([`super::exchanges::networks`]). In these kernels, lanes also
//!   wait for each other at the end of each iteration of a loop with such accesses.
//!
//! The pass also gives some loops a sync point at the end of each iteration ([`super::iterations`]).
//!
//! After the pass, only a jump follows each sync point in its block. The target of the jump is the resume point, a
//! block to which no other branch leads.

use rustc_hash::{FxHashMap, FxHashSet};

use super::copy::jump;
use super::exchanges::networks::{is_barrier, is_global_access};
use super::exchanges::{self, Exchanges};
use super::iterations::{self, Acting};
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
    /// The locations that the warp wrote since the last sync point of the program and that do not depend on data.
    prepared: Places,
    global: Exchanges,
    /// Only in kernels with a sorting network: whether the warp has read, and whether it has written, global memory.
    in_network: Steps,
}

/// The kinds of accesses of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Steps {
    read: bool,
    written: bool,
}

impl Steps {
    fn add(&mut self, other: Steps) {
        self.read |= other.read;
        self.written |= other.written;
    }
}

impl Accesses {
    /// Returns the state in which the warp may have accessed all of shared memory.
    fn unknown() -> Accesses {
        Accesses {
            reads: Places::unknown(),
            writes: Places::unknown(),
            prepared: Places::default(),
            global: Exchanges::default(),
            in_network: Steps {
                read: true,
                written: true,
            },
        }
    }

    fn add_all(&mut self, other: &Accesses) {
        self.reads.add_all(&other.reads);
        self.writes.add_all(&other.writes);
        self.prepared.add_all(&other.prepared);
        self.in_network.add(other.in_network);
    }

    /// Removes the accesses before an implicit sync point.
    fn synchronise(&mut self) {
        *self = Accesses {
            prepared: std::mem::take(&mut self.prepared),
            ..Accesses::default()
        };
    }

    /// Returns whether a write of `place` may change bytes that another lane wrote since the last sync point.
    fn overwrites(&self, place: &SharedAddress) -> bool {
        let may_repeat = self.prepared.may_meet(place);
        self.writes.is_overwritten(place, may_repeat)
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
        let mut cfg = Cfg::new(function);
        let has_network = exchanges::Finder::new(function, &cfg).has_network();
        if has_network {
            iterations::run_for(function, is_global_access);
            cfg = Cfg::new(function);
        }
        add_implicit(function, module, &cfg, has_network);
    }
    split(function);
}

fn add_implicit(function: &mut Function, module: &Module, cfg: &Cfg, has_network: bool) {
    let cuts = cuts(function, module, cfg, has_network);
    for &block in cfg.rpo() {
        if !function.insts(block).iter().any(|inst| cuts.contains(inst)) {
            continue;
        }
        let mut insts = Vec::with_capacity(function.insts(block).len());
        for inst in function.insts(block).to_vec() {
            if cuts.contains(&inst) {
                insts.push(converge(function, inst));
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
}

/// Returns the instructions that need a sync point before them.
fn cuts(function: &Function, module: &Module, cfg: &Cfg, has_network: bool) -> FxHashSet<Inst> {
    let mut analysis = Analysis {
        function,
        cfg,
        finder: exchanges::Finder::new(function, cfg),
        accesses: FxHashMap::default(),
        lock_step: is_lock_step(module),
    };
    analysis.accesses = accesses(function, module, &analysis.finder, has_network);
    let (mut at_end, mut settled) = analysis.states();
    if !settled {
        // Without the accesses to global memory, there are other sync points.
        analysis.accesses.retain(|_, access| {
            access.global = None;
            access.is_volatile || access.place.is_some() || access.is_in_network
        });
        (at_end, settled) = analysis.states();
    }
    let mut cuts = FxHashSet::default();
    for &block in cfg.rpo() {
        let mut state = match settled {
            false => Accesses::unknown(),
            true => analysis.start_state(&at_end, block),
        };
        let insts = function.insts(block).iter();
        cuts.extend(insts.filter(|&&inst| analysis.step(&mut state, inst)));
    }
    cuts
}

/// The analysis of the accesses since the last sync point.
struct Analysis<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    finder: exchanges::Finder<'a>,
    accesses: FxHashMap<Inst, Access>,
    lock_step: bool,
}

impl Analysis<'_> {
    /// Returns the accesses at the end of each block, and whether they have reached a fixed point.
    fn states(&self) -> (SecondaryMap<Block, Accesses>, bool) {
        let mut at_end: SecondaryMap<Block, Accesses> = SecondaryMap::default();
        if self.accesses.is_empty() {
            return (at_end, true);
        }
        // The state at the end of a block depends only on the states at the ends of its predecessors.
        let mut is_due: SecondaryMap<Block, bool> = SecondaryMap::default();
        self.cfg
            .rpo()
            .iter()
            .for_each(|&block| is_due[block] = true);
        for _ in 0..MOST_ROUNDS {
            let mut settled = true;
            for &block in self.cfg.rpo() {
                if !std::mem::take(&mut is_due[block]) {
                    continue;
                }
                let mut state = self.start_state(&at_end, block);
                for &inst in self.function.insts(block) {
                    self.step(&mut state, inst);
                }
                if at_end[block] != state {
                    at_end[block] = state;
                    settled = false;
                    for call in self.function.successors(block) {
                        is_due[call.block] = true;
                    }
                }
            }
            if settled {
                return (at_end, true);
            }
        }
        (at_end, false)
    }

    fn start_state(&self, at_end: &SecondaryMap<Block, Accesses>, block: Block) -> Accesses {
        let mut state = Accesses::default();
        for (pred, call) in self.cfg.incoming(self.function, block) {
            state.add_all(&at_end[pred]);
            let global = self.finder.along(pred, call, &at_end[pred].global);
            state.global.add_all(&global);
        }
        state
    }

    /// Returns whether a sync point is needed before `inst`. `state` contains the accesses since the last sync point; this
    /// function adds the access of `inst`.
    fn step(&self, state: &mut Accesses, inst: Inst) -> bool {
        if self.function.effects(inst).is_sync_point() {
            let before = std::mem::take(state);
            if !is_barrier(self.function, inst) {
                state.in_network = before.in_network;
            }
            return false;
        }
        let Some(access) = self.accesses.get(&inst) else {
            return false;
        };
        if access.is_in_network {
            let before = state.in_network;
            let cut = access.is_volatile || before.written || access.writes && before.read;
            if cut {
                state.synchronise();
            }
            state.in_network.add(Steps {
                read: access.sees,
                written: access.writes,
            });
            return cut;
        }
        if let Some(place) = &access.global {
            let cut = access.is_volatile
                || self
                    .finder
                    .exchanges(&state.global, place, access.sees, access.writes);
            if cut {
                state.synchronise();
            }
            state.global.add(place, access.sees, access.writes);
            return cut;
        }
        let Some(place) = access.place else {
            state.synchronise();
            return true;
        };
        let cut = access.is_volatile
            || self.lock_step
            || access.sees && state.writes.shows_others(&place)
            || access.writes && (state.reads.is_awaited(&place) || state.overwrites(&place));
        if cut {
            state.synchronise();
        }
        if access.sees {
            state.reads.add(place);
        }
        if access.writes {
            state.writes.add(place);
            if !place.is_scattered() {
                state.prepared.add(place);
            }
        }
        cut
    }
}

/// The properties of a memory access that matter for sync points.
struct Access {
    is_volatile: bool,
    /// The location in shared memory that the access uses; `None` for a volatile access to other
    /// memory.
    place: Option<SharedAddress>,
    /// The location in global memory that the access uses, if it is known.
    global: Option<exchanges::Place>,
    /// Whether it is an access to global memory in a kernel with a sorting network.
    is_in_network: bool,
    /// Whether the access reads memory and the program uses the value that it reads.
    sees: bool,
    writes: bool,
}

/// Returns the accesses that may need a sync point before them.
fn accesses(
    function: &Function,
    module: &Module,
    exchanges: &exchanges::Finder<'_>,
    has_network: bool,
) -> FxHashMap<Inst, Access> {
    let used = function.used_values();
    let finder = Finder::new(function, module);
    let mut found = FxHashMap::default();
    let insts_of = |&block: &Block| function.insts(block).iter().map(move |&inst| (block, inst));
    for (block, inst) in function.blocks().iter().flat_map(insts_of) {
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
        let is_in_network = has_network && is_global_access(function, inst);
        let global = exchanges.place(block, inst).filter(|_| !is_in_network);
        if is_shared || is_volatile || is_in_network || global.is_some() {
            let access = Access {
                is_volatile,
                place: address.map(|&address| finder.place(address, is_atomic)),
                global,
                is_in_network,
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
