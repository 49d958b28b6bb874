//! Inserts `yield` in loops that may wait for memory, so that the threads for which these loops wait can run.
//!
//! A loop gets a `yield` at its header if it contains an operation with which it may wait ([`Wait`]) and if the
//! analysis does not prove that the loop is counted ([`counted`]). A counted loop also gets a `yield` if it polls, that
//! is, if it has an exit that depends on memory at an address that does not change in the loop:
//! `for (i = 0; i < n; ++i) if (flag) break;`. An exit that compares memory with the counter does not poll:
//! `if (found < i) break;`. At the `yield`, a lane that has run too many iterations yields. The pass treats a loop that
//! it cannot classify as a waiting loop.
//!
//! The modifier `flag` of a `yield` states that weak loads, surface loads and system calls are the only operations with
//! which the loop may wait, and that the loop does not poll. Such a loop is less likely to wait than a loop that polls
//! or that contains atomics, fences or volatile accesses, so an engine may run more iterations of the loop before the
//! lane yields.

mod counted;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::callees::{callees, with_handles};
use crate::analysis::{Cfg, Loops};
use crate::entity::{Block, FuncId, Inst, SigId};
use crate::function::{Function, payload_func, payload_sig};
use crate::module::Module;
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::OpType;

use self::counted::Kind;

/// Inserts `yield` at the headers of waiting loops. `module` is the module of the function.
pub fn run(function: &mut Function, module: &Module) {
    let cfg = Cfg::new(function);
    let loops = Loops::new(function, &cfg);
    if loops.loops.is_empty() {
        return;
    }
    let waits = shared_state(function, module, &loops);
    let kinds = counted::find(function, &cfg, &loops, &waits);
    let mut yields: Vec<(Block, bool)> = Vec::new();
    for number in by_first_latch(function, &cfg, &loops) {
        if let Some(wait) = waits[number].filter(|_| kinds[number] != Kind::Counted) {
            let only_reads = wait == Wait::Reads && kinds[number] != Kind::Polls;
            yields.push((loops.header(number), only_reads));
        }
    }
    for (header, only_reads) in yields {
        insert_yield(function, header, only_reads);
    }
}

/// Returns the indices of all loops, ordered by the first block in reverse postorder that branches back to the loop's
/// header.
fn by_first_latch(function: &Function, cfg: &Cfg, loops: &Loops) -> Vec<usize> {
    let mut order = Vec::with_capacity(loops.loops.len());
    let mut seen = vec![false; loops.loops.len()];
    for &block in cfg.rpo() {
        for call in function.successors(block) {
            if cfg.number(call.block) <= cfg.number(block)
                && let Some(number) = loops.headed_by(call.block)
                && !std::mem::replace(&mut seen[number], true)
            {
                order.push(number);
            }
        }
    }
    order
}

/// The kinds of operations with which a loop may wait for memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Wait {
    /// Weak loads, surface loads and system calls.
    Reads,
    /// Atomics, fences, barriers, strong loads, sleeps, clocks, calls of functions without a body, and other ops that
    /// read memory, such as `cp.async`.
    Strong,
}

/// Returns how each loop may wait for memory: the greatest [`Wait`] of the operations in its blocks,
/// or `None` if no operation can wait for memory.
fn shared_state(function: &Function, module: &Module, loops: &Loops) -> Vec<Option<Wait>> {
    let mut called = Called {
        module,
        known: FxHashMap::default(),
        indirect: FxHashMap::default(),
    };
    let mut waits = vec![None; loops.loops.len()];
    for &block in &loops.order {
        let Some(number) = loops.innermost(block) else {
            continue;
        };
        for &inst in function.insts(block) {
            waits[number] = waits[number].max(called.wait_of(function, inst));
        }
    }
    // Outer loops have lower indices than the loops inside them, so this order visits inner loops first.
    for number in (0..waits.len()).rev() {
        if let Some(outer) = loops.outer(number) {
            waits[outer] = waits[outer].max(waits[number]);
        }
    }
    waits
}

/// For each called function, the strongest kind of operation with which a loop that calls the function may wait.
struct Called<'a> {
    module: &'a Module,
    known: FxHashMap<FuncId, Option<Wait>>,
    /// For each signature of an indirect call, the strongest kind of operation in the functions
    /// that such a call may reach.
    indirect: FxHashMap<SigId, Option<Wait>>,
}

impl Called<'_> {
    /// Returns the strongest kind of an instruction and, if it is a call, of the instructions of all functions that it
    /// reaches.
    fn wait_of(&mut self, function: &Function, inst: Inst) -> Option<Wait> {
        let data = &function.dfg.insts[inst];
        match data.opcode {
            Opcode::Call => self.wait(payload_func(data.payload())),
            Opcode::CallIndirect => {
                let id = payload_sig(data.payload());
                if let Some(&known) = self.indirect.get(&id) {
                    return known;
                }
                let signature = self.module.signatures.get(id);
                let all = signature
                    .into_iter()
                    .flat_map(|s| with_handles(self.module, s));
                let all: Vec<FuncId> = all.collect();
                let wait = all.into_iter().map(|id| self.wait(id)).max().flatten();
                self.indirect.insert(id, wait);
                wait
            }
            _ => wait_of(function, inst),
        }
    }

    /// Returns the strongest kind among the instructions of a function and of all functions that it calls.
    fn wait(&mut self, id: FuncId) -> Option<Wait> {
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let mut seen = FxHashSet::from_iter([id]);
        let mut work = vec![id];
        let mut wait = None;
        while let Some(id) = work.pop() {
            let Some(function) = self.module.functions.get(id).filter(|f| f.has_body()) else {
                wait = Some(Wait::Strong);
                continue;
            };
            for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
                let opcode = function.dfg.insts[inst].opcode;
                if !matches!(opcode, Opcode::Call | Opcode::CallIndirect) {
                    wait = wait.max(wait_of(function, inst));
                }
            }
            let more = callees(self.module, function).into_iter();
            work.extend(more.filter(|&id| seen.insert(id)));
        }
        self.known.insert(id, wait);
        wait
    }
}

fn wait_of(function: &Function, inst: Inst) -> Option<Wait> {
    let data = &function.dfg.insts[inst];
    match data.opcode {
        Opcode::Ld => {
            let private = matches!(
                data.mods.space(),
                StateSpace::Param | StateSpace::ParamFunc | StateSpace::Local | StateSpace::Const
            );
            let weak = data.mods.is_weak();
            match (private || data.mods.nc(), weak) {
                (true, _) => None,
                (false, true) => Some(Wait::Reads),
                (false, false) => Some(Wait::Strong),
            }
        }
        // Stores do not read memory, and textures are read-only during a kernel.
        Opcode::St | Opcode::Sust | Opcode::Tex | Opcode::Txq => None,
        // A system call returns without waiting, but a loop that repeats the call may wait, for example until `malloc`
        // succeeds.
        Opcode::Suld | Opcode::Syscall => Some(Wait::Reads),
        Opcode::Clock | Opcode::Nanosleep => Some(Wait::Strong),
        opcode => opcode
            .effects()
            .intersects(
                Effects::READS
                    .union(Effects::FENCE)
                    .union(Effects::SYNC_CTA),
            )
            .then_some(Wait::Strong),
    }
}

fn insert_yield(function: &mut Function, header: Block, only_reads: bool) {
    let desc = Desc {
        opcode: Opcode::Yield,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE.with_flag(only_reads),
    };
    let inst = function.dfg.make_inst(desc, &[], &[]);
    if let Some(&first) = function.layout.insts[header].first() {
        function.dfg.locs[inst] = function.dfg.locs[first];
    }
    function.layout.insts[header].insert(0, inst);
}
