//! Yields in waiting loops (execution-model section 5).
//!
//! A yield's `flag` says that the loop only reads memory: it waits less probably than one with
//! atomics, fences or volatile accesses, and an engine may give it more turns.
//!
//! A loop that is not shown to be counted and whose body touches memory that others may write gets a
//! `yield` at its header: there a lane that has taken too many turns gives way. When in doubt, a loop
//! is a waiting loop.

use rustc_hash::FxHashSet;

use crate::analysis::{Cfg, Dominators};
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, ValueDef};
use crate::meaning::Desc;
use crate::mods::{Mods, StateSpace};
use crate::ops::{Effects, Opcode};
use crate::types::OpType;

/// Inserts `yield` at the headers of waiting loops.
pub fn run(function: &mut Function) {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let mut headers: Vec<(Block, FxHashSet<Block>)> = Vec::new();
    for (number, &block) in cfg.rpo().iter().enumerate() {
        for call in function.successors(block) {
            let retreating = cfg
                .number(call.block)
                .is_some_and(|to| to as usize <= number);
            if retreating {
                let body = loop_body(&cfg, &dominators, call.block, block);
                match headers.iter_mut().find(|(header, _)| *header == call.block) {
                    Some((_, all)) => all.extend(body),
                    None => headers.push((call.block, body)),
                }
            }
        }
    }
    for (header, body) in headers {
        if let Some(wait) = shared_state(function, &body)
            && !is_counted(function, header, &body)
        {
            insert_yield(function, header, wait);
        }
    }
}

/// Blocks from which `latch` is reached without passing the header. An irreducible loop yields all
/// blocks that reach the latch.
fn loop_body(cfg: &Cfg, dominators: &Dominators, header: Block, latch: Block) -> FxHashSet<Block> {
    let mut body = FxHashSet::from_iter([header]);
    let natural = dominators.dominates(cfg, header, latch);
    let mut work = vec![latch];
    while let Some(block) = work.pop() {
        if body.insert(block) {
            let preds = cfg.preds(block).iter().copied();
            work.extend(preds.filter(|&pred| natural || cfg.number(pred) >= cfg.number(header)));
        }
    }
    body
}

/// What a loop may wait with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Wait {
    /// Weak loads.
    Reads,
    /// Atomics, fences, barriers, strong loads, sleeps.
    Strong,
}

/// How a loop's body touches memory that others may write, if it does.
fn shared_state(function: &Function, body: &FxHashSet<Block>) -> Option<Wait> {
    let insts = body.iter().flat_map(|&block| function.insts(block));
    insts.filter_map(|&inst| wait_of(function, inst)).max()
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
        // Textures are read-only for the kernel's duration.
        Opcode::St | Opcode::Sust | Opcode::Tex | Opcode::Txq => None,
        Opcode::Suld => Some(Wait::Reads),
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

/// Whether some exit compares a value that changes by a constant or invariant step each turn with
/// one that does not change.
fn is_counted(function: &Function, header: Block, body: &FxHashSet<Block>) -> bool {
    body.iter().any(|&block| {
        let Some(inst) = function.layout.terminator(block) else {
            return false;
        };
        let leaves = function
            .dfg
            .targets(inst)
            .iter()
            .any(|call| !body.contains(&call.block));
        if !leaves || function.dfg.insts[inst].opcode != Opcode::Brif {
            return false;
        }
        let Some(cmp) = function.dfg.def_inst(function.dfg.args(inst)[0]) else {
            return false;
        };
        if function.dfg.insts[cmp].opcode != Opcode::Setp
            || !runs_every_turn(function, header, block)
        {
            return false;
        }
        let args = function.dfg.args(cmp);
        let steps = |v: Value| is_induction(function, header, body, v);
        let fixed = |v: Value| is_invariant(function, body, v);
        args.len() == 2 && (steps(args[0]) && fixed(args[1]) || steps(args[1]) && fixed(args[0]))
    })
}

/// Whether the exit test is passed on every turn: it is in the header or in the only latch.
fn runs_every_turn(function: &Function, header: Block, block: Block) -> bool {
    block == header
        || function
            .successors(block)
            .iter()
            .any(|call| call.block == header)
}

fn is_invariant(function: &Function, body: &FxHashSet<Block>, value: Value) -> bool {
    match function.dfg.values[value].def {
        ValueDef::Param(block, _) => !body.contains(&block),
        ValueDef::Result(inst, _) => {
            function.dfg.insts[inst].opcode == Opcode::Const
                || !body
                    .iter()
                    .any(|&block| function.insts(block).contains(&inst))
        }
        _ => false,
    }
}

/// Whether a value is a header parameter, or that plus a step, whose next value is itself plus a step.
fn is_induction(function: &Function, header: Block, body: &FxHashSet<Block>, value: Value) -> bool {
    let param = match function.dfg.values[value].def {
        ValueDef::Param(block, index) if block == header => Some((value, index)),
        ValueDef::Result(inst, _) => {
            step_of(function, body, inst).and_then(|base| match function.dfg.values[base].def {
                ValueDef::Param(block, index) if block == header => Some((base, index)),
                _ => None,
            })
        }
        _ => None,
    };
    let Some((param, index)) = param else {
        return false;
    };
    body.iter().all(|&block| {
        let calls = function
            .successors(block)
            .iter()
            .filter(|call| call.block == header);
        calls.into_iter().all(|call| {
            let next = call.args[index as usize];
            let inst = function.dfg.def_inst(next);
            inst.and_then(|inst| step_of(function, body, inst)) == Some(param)
        })
    })
}

/// The operand that `inst` moves on by an invariant non-zero step.
fn step_of(function: &Function, body: &FxHashSet<Block>, inst: Inst) -> Option<Value> {
    let data = &function.dfg.insts[inst];
    let args = function.dfg.args(inst);
    let usable = |v: Value| is_invariant(function, body, v) && function.dfg.constant(v) != Some(0);
    match (data.opcode, args) {
        (Opcode::Add, &[a, b]) if data.ty.is_integer() => {
            (usable(b)).then_some(a).or_else(|| usable(a).then_some(b))
        }
        (Opcode::Sub, &[a, b]) if data.ty.is_integer() => usable(b).then_some(a),
        (Opcode::Shr | Opcode::Shl, &[a, b]) => usable(b).then_some(a),
        _ => None,
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
