//! Inserts a `check.access` in front of each access that a checking run examines. The access then uses the address that
//! `check.access` returns.
//!
//! The pass runs on functions as they were lowered, so that the interpreter and native code examine the same accesses.
//! Accesses to a local variable at a constant offset inside the variable are not examined: they cannot be wrong, and
//! without an operation that uses the variable's address, the variable can become a value. Parameters are not examined
//! either.

use margay_ops::meaning::Desc;
use margay_ops::mods::{Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use crate::entity::{Inst, Value};
use crate::function::{Function, payload_slot};
use crate::observe::{AccessMode, ObservedAccess};

/// Inserts the checks.
pub fn run(function: &mut Function) {
    for block in function.blocks().to_vec() {
        let before = std::mem::take(&mut function.layout.insts[block]);
        let mut insts = Vec::with_capacity(before.len());
        for inst in before {
            if let Some(access) = examined(function, inst) {
                insts.push(check(function, inst, access));
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
}

/// Returns the access of an instruction that must be examined.
fn examined(function: &Function, inst: Inst) -> Option<ObservedAccess> {
    let data = &function.dfg.insts[inst];
    if data.opcode == Opcode::CheckAccess {
        return None;
    }
    let access = ObservedAccess::of(data)?;
    let address = function.dfg.resolve(function.dfg.args(inst)[0]);
    let skipped = match access.space {
        StateSpace::Param | StateSpace::ParamFunc => true,
        _ => is_inside_variable(function, address, access.bytes),
    };
    (!skipped).then_some(access)
}

/// Returns whether an address is a constant offset into a local variable, and `bytes` bytes from it are inside the
/// variable.
fn is_inside_variable(function: &Function, address: Value, bytes: u32) -> bool {
    let dfg = &function.dfg;
    let (base, offset) = match dfg.def_inst(address) {
        Some(inst) if dfg.insts[inst].opcode == Opcode::Add => {
            let [a, b] = [0, 1].map(|i| dfg.resolve(dfg.args(inst)[i]));
            match dfg.constant(b) {
                Some(offset) => (a, offset),
                None => return false,
            }
        }
        _ => (address, 0),
    };
    let Some(inst) = dfg.def_inst(base) else {
        return false;
    };
    let data = &dfg.insts[inst];
    if data.opcode != Opcode::LocalAddr {
        return false;
    }
    let size = function.slots[payload_slot(data.payload())].size;
    let end = offset.checked_add(u64::from(bytes));
    end.is_some_and(|end| end <= u64::from(size))
}

/// Creates the check of an access, and makes the access use its result.
fn check(function: &mut Function, inst: Inst, access: ObservedAccess) -> Inst {
    let data = function.dfg.insts[inst];
    let address = function.dfg.resolve(function.dfg.args(inst)[0]);
    let mode = match access.mode {
        AccessMode::Load => Mode::Load,
        AccessMode::Store => Mode::Store,
        AccessMode::Update => Mode::Update,
    };
    let desc = Desc {
        opcode: Opcode::CheckAccess,
        ty: data.ty,
        src: OpType::None,
        mods: Mods::NONE
            .with_space(access.space)
            .with_vec_log2(data.mods.vec_log2())
            .with_mode(mode),
    };
    let ty = function.dfg.ty(address);
    let check = function.dfg.make_inst(desc, &[address], &[ty]);
    function.dfg.locs[check] = function.dfg.locs[inst];
    let checked = function.dfg.results(check)[0];
    let args = function.dfg.insts[inst].args;
    function.dfg.pool.get_mut(args)[0] = checked;
    check
}
