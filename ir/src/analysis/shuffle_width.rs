//! Recognises operands of shuffles that a CUDA C++ compiler has computed from a width.
//!
//! CUDA C++ has a width as the last argument of `__shfl_sync` and of similar functions. `nvcc`
//! translates it to the operand `c` of `shfl`: `(32 - width) << 8 | 0x1f`, or without `| 0x1f` for
//! `shfl.up`. Inline PTX can pass any number. CUB, for example, passes the index of the last lane.
//! In warps without valid items, this index is negative, and its bits can be equal to the operand
//! that `nvcc` computes from a width that CUDA does not allow.

use margay_ops::ops::Opcode;

use crate::entity::Value;
use crate::function::Function;

/// Maximum number of operations between the shift and the shuffle.
const DEPTH: u32 = 8;

/// Returns whether the operand `c` of a shuffle can be the result of a computation from a width: it is a constant, or
/// it is computed with a left shift by at least 8, a left shift of a multiple of 256, or a multiplication by a multiple
/// of 256. The shift is greater than 8 if the compiler combines it with the computation of the width.
pub fn can_be_width(function: &Function, c: Value) -> bool {
    function.dfg.constant(function.dfg.resolve(c)).is_some() || is_shifted(function, c, DEPTH)
}

fn is_multiple(factor: u32) -> bool {
    factor != 0 && factor.is_multiple_of(256)
}

fn is_shifted(function: &Function, value: Value, depth: u32) -> bool {
    let dfg = &function.dfg;
    let constant = |value| dfg.constant(dfg.resolve(value)).map(|bits| bits as u32);
    let Some(inst) = dfg.def_inst(dfg.resolve(value)).filter(|_| depth != 0) else {
        return false;
    };
    let args = dfg.args(inst);
    let any_is_shifted = |args: &[Value]| {
        let mut args = args.iter();
        args.any(|&arg| is_shifted(function, arg, depth - 1))
    };
    match (dfg.insts[inst].opcode, args) {
        (Opcode::Shl, &[a, by]) => {
            constant(by).is_some_and(|by| by >= 8) || constant(a).is_some_and(is_multiple)
        }
        (Opcode::Mul | Opcode::Mad, &[a, b, ..]) => {
            [a, b].into_iter().filter_map(constant).any(is_multiple)
        }
        (Opcode::Or | Opcode::Add | Opcode::Sub | Opcode::Selp | Opcode::Cvt, _) => {
            any_is_shifted(args)
        }
        _ => false,
    }
}
