//! Finds addresses that depend on data which the lane has read, as in `histogram[values[i]]`. The locations of such
//! accesses in different lanes may be equal in any combination.

use smallvec::SmallVec;

use crate::entity::{Inst, Value};
use crate::function::Function;
use margay_ops::mods::StateSpace;
use margay_ops::ops::{Effects, Opcode};

/// Maximum number of operations that the analysis examines for an address. An address that is computed by more
/// operations counts as independent of data.
const MOST_OPERATIONS: usize = 48;

/// Returns whether a value is computed from a result of a load from memory that a kernel can write, of an atomic, or of
/// an exchange within the warp. The analysis does not follow parameters of blocks.
pub(super) fn depends_on_data(function: &Function, value: Value) -> bool {
    let mut pending: SmallVec<[Value; 16]> = SmallVec::from_slice(&[value]);
    let mut seen: SmallVec<[Inst; MOST_OPERATIONS]> = SmallVec::new();
    while let Some(value) = pending.pop() {
        let Some(inst) = function.dfg.def_inst(value) else {
            continue;
        };
        if seen.contains(&inst) {
            continue;
        }
        if seen.len() == MOST_OPERATIONS {
            return false;
        }
        seen.push(inst);
        let data = &function.dfg.insts[inst];
        match data.opcode {
            Opcode::Ld if is_constant(data.mods.space()) => {}
            Opcode::Ld | Opcode::Atom | Opcode::Shfl | Opcode::Match | Opcode::Vote => return true,
            opcode if opcode.effects().contains(Effects::WRITES) => {}
            // The result is the first operand. The other operands are those of the examined access.
            Opcode::CheckAccess => pending.extend(function.dfg.args(inst).first().copied()),
            _ => pending.extend_from_slice(function.dfg.args(inst)),
        }
    }
    false
}

/// Returns whether kernels cannot write memory of the state space, so that values from there are not data.
fn is_constant(space: StateSpace) -> bool {
    matches!(
        space,
        StateSpace::Param | StateSpace::ParamFunc | StateSpace::Const
    )
}
