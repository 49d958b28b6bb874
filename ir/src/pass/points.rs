//! Cuts blocks at synchronisation points and adds the points that PTX leaves implicit.
//!
//! Implicit points (execution-model section 1): `converge` before each volatile access, and before
//! a shared-memory read that may see bytes another lane of the warp wrote since the last point; for
//! targets below sm_70 (lock-step warps) before every shared access. Afterwards each point is
//! followed only by a jump to a block of its own: the region entry.

use crate::analysis::Cfg;
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{BlockCall, Function};
use crate::meaning::Desc;
use crate::mods::{MemOrder, Mods, StateSpace};
use crate::ops::{Effects, Opcode};
use crate::types::OpType;

/// First target whose warps do not run in lock-step.
const INDEPENDENT_THREADS: u32 = 70;

/// Shared-memory writes of this warp since the last point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Written {
    #[default]
    Nothing,
    /// One address per lane.
    Own(Value),
    Unknown,
}

impl Written {
    fn join(self, other: Written) -> Written {
        match (self, other) {
            (Written::Nothing, state) | (state, Written::Nothing) => state,
            (a, b) if a == b => a,
            _ => Written::Unknown,
        }
    }
}

/// Adds implicit points and splits blocks. `sm` is the module's target.
pub fn run(function: &mut Function, sm: u32) {
    add_implicit(function, sm);
    split(function);
}

fn add_implicit(function: &mut Function, sm: u32) {
    let cfg = Cfg::new(function);
    let mut at_end: SecondaryMap<Block, Written> = SecondaryMap::default();
    let mut rounds = 0;
    loop {
        let mut changed = false;
        for &block in cfg.rpo() {
            let state = start_state(&cfg, &at_end, block);
            let end = function
                .insts(block)
                .iter()
                .fold(state, |state, &inst| step(function, sm, state, inst).1);
            changed |= at_end[block] != end;
            at_end[block] = end;
        }
        rounds += 1;
        if !changed || rounds > 8 {
            break;
        }
    }
    for &block in cfg.rpo() {
        let mut state = if rounds > 8 {
            Written::Unknown
        } else {
            start_state(&cfg, &at_end, block)
        };
        let mut insts = Vec::with_capacity(function.insts(block).len());
        for inst in function.insts(block).to_vec() {
            let (cut, next) = step(function, sm, state, inst);
            if cut {
                insts.push(converge(function, inst));
            }
            insts.push(inst);
            state = next;
        }
        function.layout.insts[block] = insts;
    }
}

fn start_state(cfg: &Cfg, at_end: &SecondaryMap<Block, Written>, block: Block) -> Written {
    cfg.preds(block)
        .iter()
        .map(|&pred| at_end[pred])
        .fold(Written::Nothing, Written::join)
}

/// Whether a cut is needed before `inst`, and the state behind it.
fn step(function: &Function, sm: u32, state: Written, inst: Inst) -> (bool, Written) {
    let data = &function.dfg.insts[inst];
    let effects = data.opcode.effects();
    if effects.is_point() {
        return (false, Written::Nothing);
    }
    if !effects.intersects(Effects::READS.union(Effects::WRITES)) || data.opcode == Opcode::Syscall
    {
        return (false, state);
    }
    let space = data.mods.space();
    let shared = matches!(space, StateSpace::Shared | StateSpace::SharedCluster)
        && matches!(
            data.opcode,
            Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red
        );
    let volatile = data.mods.order() == MemOrder::Volatile
        && !matches!(
            space,
            StateSpace::Local | StateSpace::Param | StateSpace::ParamFunc
        )
        && matches!(data.opcode, Opcode::Ld | Opcode::St);
    let address = function.dfg.args(inst).first().copied();
    let reads = effects.contains(Effects::READS);
    let sees_others = shared
        && reads
        && !matches!((state, address), (Written::Nothing, _))
        && !matches!((state, address), (Written::Own(a), Some(b)) if a == b);
    let lock_step = shared && sm < INDEPENDENT_THREADS;
    let cut = volatile || sees_others || lock_step;
    let state = if cut { Written::Nothing } else { state };
    let next = match (shared && effects.contains(Effects::WRITES), address) {
        (true, Some(address)) => state.join(Written::Own(address)),
        _ => state,
    };
    (cut, next)
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

/// Gives every point a block end and its continuation a block of its own.
fn split(function: &mut Function) {
    let mut order = Vec::with_capacity(function.layout.order.len());
    for block in function.blocks().to_vec() {
        let mut here = block;
        order.push(here);
        loop {
            let insts = function.insts(here);
            let Some(index) = insts
                .iter()
                .position(|&inst| function.effects(inst).is_point())
            else {
                break;
            };
            let rest = function.layout.insts[here].split_off(index + 1);
            let next = function.dfg.blocks.push(Default::default());
            function.layout.insts[next] = rest;
            let desc = Desc {
                opcode: Opcode::Jump,
                ty: OpType::None,
                src: OpType::None,
                mods: Mods::NONE,
            };
            let jump = function.dfg.make_inst(desc, &[], &[]);
            function
                .dfg
                .targets
                .insert(jump, smallvec::smallvec![BlockCall::to(next)]);
            function.append_inst(here, jump);
            order.push(next);
            here = next;
        }
    }
    function.layout.order = order;
}
