//! The reference functions of read-modify-write operations, which compute the new memory content
//! from the old content and the operands.
//!
//! Each function computes one element; for a vector operation, engines call it for each element.
//! Floating-point additions round to nearest even. `f32` additions flush subnormals for global
//! memory and for generic addresses, which refer to global memory in nearly all cases. They do not
//! flush subnormals for shared memory or with `.noftz`. If one operand of a floating-point `min` or
//! `max` is NaN, the result is the other operand. `exch` and `cas` copy and compare the bits of
//! floating-point numbers as integers.

use super::soft::{self, Format, Round};
use super::{Bits, Desc, arg, int, map_elements, mask, mbarrier, minmax};
use crate::mods::{AtomOp, StateSpace};
use crate::types::OpType;

/// Returns the new content of the memory that `atom` or `red` updates.
pub fn update(desc: &Desc, old: Bits, args: &[Bits]) -> Bits {
    let op = desc.mods.atom_op();
    match (op, Format::of(desc.ty)) {
        (AtomOp::Add, Some(format)) => add_float(desc, &format, old, arg(args, 0)),
        (AtomOp::Min, Some(_)) => float_pick(desc, minmax::min, old, arg(args, 0)),
        (AtomOp::Max, Some(_)) => float_pick(desc, minmax::max, old, arg(args, 0)),
        _ => integer(desc.ty, op, old, args),
    }
}

fn float_pick(desc: &Desc, pick: super::PureFn, old: Bits, operand: Bits) -> Bits {
    let mut out = [0];
    pick(desc, &[old, operand], &mut out);
    out[0]
}

fn add_float(desc: &Desc, format: &Format, old: Bits, operand: Bits) -> Bits {
    let shared = matches!(
        desc.mods.space(),
        StateSpace::Shared | StateSpace::SharedCluster
    );
    let flushes = *format == Format::F32 && !shared && !desc.mods.noftz();
    let flush = |bits| if flushes { format.flush(bits) } else { bits };
    map_elements(desc.ty, &[old, operand], |x| {
        let [a, b] = [0, 1].map(|i| format.decode(flush(x[i])));
        flush(format.encode(
            soft::add(a, b, Round::NearestEven),
            Round::NearestEven,
            false,
        ))
    })
}

/// Returns the new content of the memory on which an atomic operation on integers or bits is
/// performed.
pub fn integer(ty: OpType, op: AtomOp, old: Bits, args: &[Bits]) -> Bits {
    let all = mask(ty.bits());
    let (old, operand) = (old & all, arg(args, 0) & all);
    let signed =
        |pick: fn(i128, i128) -> i128| pick(int::value(ty, old), int::value(ty, operand)) as Bits;
    let new = match op {
        AtomOp::Add => old.wrapping_add(operand),
        AtomOp::Inc => {
            if old >= operand {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > operand {
                operand
            } else {
                old - 1
            }
        }
        AtomOp::Min => signed(i128::min),
        AtomOp::Max => signed(i128::max),
        AtomOp::And => old & operand,
        AtomOp::Or => old | operand,
        AtomOp::Xor => old ^ operand,
        AtomOp::Cas => {
            if old == operand {
                arg(args, 1)
            } else {
                old
            }
        }
        AtomOp::Exch => operand,
        AtomOp::Signal => mbarrier::signal(old, operand, arg(args, 1)),
        AtomOp::SignalDrop => mbarrier::signal_drop(old, operand, arg(args, 1)),
        AtomOp::Popc | AtomOp::None => old,
    };
    new & all
}
