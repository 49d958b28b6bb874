//! Inserts `yield` in loops that may wait for memory, so that the threads for which they wait can run.
//!
//! The `flag` of a `yield` states that the loop contains no stronger accesses than weak loads and system calls.
//! Such a loop is less likely to wait than a loop with atomics, fences or volatile accesses, so an engine may run
//! more of its iterations before the lane yields.
//!
//! A loop gets a `yield` at its header if its body accesses memory that others may write and the loop is not proved
//! to be counted. There, a lane that has run too many iterations yields. A loop that cannot be classified is
//! treated as a waiting loop.

mod counted;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::analysis::callees::{callees, with_handles};
use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, FuncId, Inst, SecondaryMap};
use crate::function::{Function, payload_func, payload_sig};
use crate::module::Module;
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::OpType;

/// Inserts `yield` at the headers of waiting loops. `module` is the module of the function.
pub fn run(function: &mut Function, module: &Module) {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let mut latches: Latches = Latches::default();
    for (number, &block) in cfg.rpo().iter().enumerate() {
        for call in function.successors(block) {
            let to = cfg.number(call.block);
            if to.is_some_and(|to| to as usize <= number) {
                latches.add(call.block, block);
            }
        }
    }
    if latches.order.is_empty() {
        return;
    }
    let mut homes: SecondaryMap<Inst, Option<Block>> = SecondaryMap::default();
    for &block in cfg.rpo() {
        for &inst in function.insts(block) {
            homes[inst] = Some(block);
        }
    }
    let mut called = Called {
        module,
        known: FxHashMap::default(),
    };
    let mut looked_at = 0;
    let mut yields: Vec<(Block, Wait)> = Vec::new();
    for header in latches.order {
        if looked_at > MOST_LOOKED_AT {
            yields.push((header, Wait::Strong));
            continue;
        }
        let one = Loop::new(&cfg, &dominators, header, latches.of.remove(&header));
        looked_at += one.body.len();
        if let Some(wait) = shared_state(function, &one.body, &mut called)
            && !counted::is_counted(function, &cfg, &dominators, &homes, &one)
        {
            yields.push((header, wait));
        }
    }
    for (header, wait) in yields {
        insert_yield(function, header, wait);
    }
}

/// Most blocks of all loops together that are examined; a block counts once for each loop around it. Further loops,
/// which are nested inside thousands of others, are treated as waiting loops.
const MOST_LOOKED_AT: usize = 20_000_000;

/// The latches of each loop, by the loop's header: the blocks with an edge back to the header.
#[derive(Default)]
struct Latches {
    order: Vec<Block>,
    of: FxHashMap<Block, Vec<Block>>,
}

impl Latches {
    fn add(&mut self, header: Block, latch: Block) {
        let latches = self.of.entry(header).or_default();
        if latches.is_empty() {
            self.order.push(header);
        }
        latches.push(latch);
    }
}

/// A loop of a function.
#[derive(Debug)]
struct Loop {
    header: Block,
    body: FxHashSet<Block>,
    /// Blocks with an edge back to the header.
    latches: Vec<Block>,
}

impl Loop {
    /// Finds the loop of a header: the blocks from which a latch is reached without passing the header. For a latch
    /// that the header does not dominate, all blocks after the header, in reverse postorder, that reach the latch
    /// are in the loop.
    fn new(cfg: &Cfg, dominators: &Dominators, header: Block, latches: Option<Vec<Block>>) -> Loop {
        let latches = latches.unwrap_or_default();
        let natural = |latch: &&Block| dominators.dominates(cfg, header, **latch);
        let mut body = FxHashSet::from_iter([header]);
        let mut work: Vec<Block> = latches.iter().filter(natural).copied().collect();
        while let Some(block) = work.pop() {
            if body.insert(block) {
                work.extend_from_slice(cfg.preds(block));
            }
        }
        for latch in latches.iter().filter(|latch| !natural(latch)) {
            let mut around = FxHashSet::from_iter([header]);
            let mut work = vec![*latch];
            while let Some(block) = work.pop() {
                if around.insert(block) {
                    let preds = cfg.preds(block).iter().copied();
                    work.extend(preds.filter(|&pred| cfg.number(pred) >= cfg.number(header)));
                }
            }
            body.extend(around);
        }
        Loop {
            header,
            body,
            latches,
        }
    }
}

/// The accesses with which a loop may wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Wait {
    /// Weak loads, surface loads and system calls.
    Reads,
    /// Atomics, fences, barriers, strong loads, sleeps, clocks, and calls of functions without a body.
    Strong,
}

/// Returns the accesses of a loop's body to memory that others may write, if there are any.
fn shared_state(
    function: &Function,
    body: &FxHashSet<Block>,
    called: &mut Called<'_>,
) -> Option<Wait> {
    let insts = body.iter().flat_map(|&block| function.insts(block));
    let waits = insts.map(|&inst| {
        let data = &function.dfg.insts[inst];
        match data.opcode {
            Opcode::Call => called.wait(payload_func(data.payload())),
            Opcode::CallIndirect => {
                let signature = called.module.signatures.get(payload_sig(data.payload()));
                let all = signature
                    .into_iter()
                    .flat_map(|s| with_handles(called.module, s));
                let all: Vec<FuncId> = all.collect();
                all.into_iter().map(|id| called.wait(id)).max().flatten()
            }
            _ => wait_of(function, inst),
        }
    });
    waits.max().flatten()
}

/// The accesses of called functions to memory that others may write.
struct Called<'a> {
    module: &'a Module,
    known: FxHashMap<FuncId, Option<Wait>>,
}

impl Called<'_> {
    /// Returns the accesses of a function and of all functions that it calls.
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
        // Textures are read-only during a kernel.
        Opcode::St | Opcode::Sust | Opcode::Tex | Opcode::Txq => None,
        // A system call returns, but a loop that repeats the call may wait, for example until `malloc` succeeds.
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

fn insert_yield(function: &mut Function, header: Block, wait: Wait) {
    let desc = Desc {
        opcode: Opcode::Yield,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE.with_flag(wait == Wait::Reads),
    };
    let inst = function.dfg.make_inst(desc, &[], &[]);
    if let Some(&first) = function.layout.insts[header].first() {
        function.dfg.locs[inst] = function.dfg.locs[first];
    }
    function.layout.insts[header].insert(0, inst);
}
