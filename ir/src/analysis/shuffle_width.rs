//! Recognises operands of shuffles that a CUDA C++ compiler has computed from a width.
//!
//! CUDA C++ has a width as the last argument of `__shfl_sync` and of similar functions. `nvcc`
//! translates it to the operand `c` of `shfl`: `(32 - width) << 8 | 0x1f`, or without `| 0x1f` for
//! `shfl.up`. Inline PTX can pass any number. CUB, for example, passes the index of the last lane,
//! which is negative in warps without valid items, and may have the same bits as a wrong width.

use margay_ops::ops::Opcode;

use crate::entity::Value;
use crate::function::Function;

/// Maximum number of operations between the shift by 8 and the shuffle.
const DEPTH: u32 = 8;

/// Returns whether the operand `c` of a shuffle can be the result of a computation from a width: it
/// is a constant, or it is computed with a shift by 8 or a multiplication by 256.
pub fn can_be_width(function: &Function, c: Value) -> bool {
    function.dfg.constant(function.dfg.resolve(c)).is_some() || is_shifted(function, c, DEPTH)
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
        (Opcode::Shl, &[a, by]) => constant(by) == Some(8) || constant(a) == Some(0x100),
        (Opcode::Mul | Opcode::Mad, &[a, b, ..]) => {
            let is_256 = |value| matches!(constant(value), Some(0x100 | 0xffff_ff00));
            is_256(a) || is_256(b)
        }
        (Opcode::Or | Opcode::Add | Opcode::Sub | Opcode::Selp | Opcode::Cvt, _) => {
            any_is_shifted(args)
        }
        _ => false,
    }
}
