//! Rules for ops that move lanes.

use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::{Bits, mask};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::{Change, Rewriter};
use crate::constants::lanes;
use crate::data::Data;
use crate::ops::Op;
use crate::passes::emitter::plain;

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let data = rewriter.function.insts[inst];
    let ty = data.ty?;
    let args: smallvec::SmallVec<[Value; 4]> = rewriter.function.args(inst).into();
    let number = data.data.number();
    match data.op {
        Op::Splat if ty.lanes() == 1 => Change::value(args[0]),
        Op::Affine => affine(rewriter, inst, ty, args[0], number),
        Op::Extract => extract(rewriter, inst, args[0], number),
        Op::Insert => insert(rewriter, args[0], args[1], number),
        Op::Half => half(rewriter, ty, args[0], number),
        Op::Join => join(rewriter, ty, args[0], args[1]),
        Op::Permute => permute(rewriter, ty, args[0], args[1]),
        Op::Permute2 => permute2(rewriter, inst, ty, &args),
        Op::Compress | Op::Expand => match rewriter.function.constant(args[1])? {
            0 => {
                let zero = rewriter.constant(ty, 0);
                Change::value(zero)
            }
            _ => Change::value(args[0]),
        },
        Op::Reduce => reduce(rewriter, ty, args[0], &data.data),
        _ => None,
    }
}

fn affine(
    rewriter: &mut Rewriter<'_>,
    inst: Inst,
    ty: Type,
    base: Value,
    number: u64,
) -> Option<Change> {
    if ty.lanes() == 1 {
        return Change::value(base);
    }
    if number & mask(ty.lane_bits()) as u64 == 0 {
        return rewriter.set(inst, Op::Splat, Data::Nothing, &[base]);
    }
    None
}

fn extract(rewriter: &mut Rewriter<'_>, inst: Inst, of: Value, lane: u64) -> Option<Change> {
    let ty = rewriter.function.ty(of);
    if ty.lanes() == 1 {
        return Change::value(of);
    }
    let (op, from, args) = rewriter.def(of)?;
    let number = rewriter.function.insts[from].data.number();
    let (vector, lane) = match op {
        Op::Splat => return Change::value(args[0]),
        Op::Affine => {
            let value = lane_of_affine(rewriter, ty, args[0], number, lane)?;
            return Change::value(value);
        }
        Op::Insert if number == lane => return Change::value(args[1]),
        Op::Insert => (args[0], lane),
        Op::Half => (args[0], lane + number * u64::from(ty.lanes())),
        Op::Join => {
            let half = u64::from(ty.lanes() / 2);
            (args[usize::from(lane >= half)], lane % half)
        }
        Op::Permute => {
            let indices = lanes(rewriter.function, args[1])?;
            let index = indices[lane as usize] as u64;
            (args[0], index % u64::from(ty.lanes()))
        }
        _ => return None,
    };
    // The type of `extract` is that of its operand.
    rewriter.function.insts[inst].ty = Some(rewriter.function.ty(vector));
    rewriter.set(inst, Op::Extract, Data::Number(lane), &[vector])
}

/// Returns `base + stride * lane`; `None` if there is no addition of this type.
fn lane_of_affine(
    rewriter: &mut Rewriter<'_>,
    ty: Type,
    base: Value,
    stride: u64,
    lane: u64,
) -> Option<Value> {
    let scalar = Type::scalar(ty.kind());
    let bits = stride.wrapping_mul(lane) & mask(ty.lane_bits()) as u64;
    if bits == 0 {
        return Some(base);
    }
    let add = Data::Lane(plain(Opcode::Add, add_type(ty)?));
    let offset = rewriter.constant(scalar, bits);
    Some(rewriter.emit(Op::Map, scalar, add, &[base, offset]))
}

fn add_type(ty: Type) -> Option<OpType> {
    match ty.lane_bits() {
        16 => Some(OpType::U16),
        32 => Some(OpType::U32),
        64 => Some(OpType::U64),
        _ => None,
    }
}

fn insert(rewriter: &mut Rewriter<'_>, into: Value, lane: Value, number: u64) -> Option<Change> {
    if rewriter.function.ty(into).lanes() == 1 {
        return Change::value(lane);
    }
    if rewriter.def_as(into, Op::Splat) == Some(&[lane]) {
        return Change::value(into);
    }
    let (op, from, args) = rewriter.def(lane)?;
    let is_same = op == Op::Extract
        && args[0] == into
        && rewriter.function.insts[from].data.number() == number;
    is_same.then(|| Change::value(into)).flatten()
}

fn half(rewriter: &mut Rewriter<'_>, ty: Type, of: Value, number: u64) -> Option<Change> {
    let (op, from, args) = rewriter.def(of)?;
    match op {
        Op::Join => Change::value(args[number as usize]),
        Op::Splat => {
            let value = rewriter.emit(Op::Splat, ty, Data::Nothing, &[args[0]]);
            Change::value(value)
        }
        Op::Affine => {
            let stride = rewriter.function.insts[from].data.number();
            let first = number * u64::from(ty.lanes());
            let base = lane_of_affine(rewriter, ty, args[0], stride, first)?;
            let value = rewriter.emit(Op::Affine, ty, Data::Number(stride), &[base]);
            Change::value(value)
        }
        _ => None,
    }
}

fn join(rewriter: &mut Rewriter<'_>, ty: Type, low: Value, high: Value) -> Option<Change> {
    let (op, low_inst, of) = rewriter.def(low)?;
    match op {
        Op::Splat if low == high => {
            let value = rewriter.emit(Op::Splat, ty, Data::Nothing, &of);
            Change::value(value)
        }
        Op::Half => {
            let (other, high_inst, other_of) = rewriter.def(high)?;
            let number = |inst: Inst| rewriter.function.insts[inst].data.number();
            let is_whole = other == Op::Half
                && of == other_of
                && rewriter.function.ty(of[0]) == ty
                && (number(low_inst), number(high_inst)) == (0, 1);
            is_whole.then(|| Change::value(of[0])).flatten()
        }
        _ => None,
    }
}

fn permute(rewriter: &mut Rewriter<'_>, ty: Type, of: Value, indices: Value) -> Option<Change> {
    if ty.lanes() == 1 {
        return Change::value(of);
    }
    if rewriter.def_as(of, Op::Splat).is_some() || rewriter.function.constant(of).is_some() {
        return Change::value(of);
    }
    let indices = lanes(rewriter.function, indices)?;
    let count = Bits::from(ty.lanes());
    let indices: Vec<Bits> = indices.iter().map(|index| index % count).collect();
    if (0..).zip(&indices).all(|(n, &index)| n == index) {
        return Change::value(of);
    }
    if indices.iter().all(|&index| index == indices[0]) {
        let number = Data::Number(indices[0] as u64);
        let lane = rewriter.emit(Op::Extract, ty, number, &[of]);
        let value = rewriter.emit(Op::Splat, ty, Data::Nothing, &[lane]);
        return Change::value(value);
    }
    None
}

/// A permutation of two vectors that uses only one of them.
fn permute2(rewriter: &mut Rewriter<'_>, inst: Inst, ty: Type, args: &[Value]) -> Option<Change> {
    let &[a, b, indices] = args else {
        return None;
    };
    if a == b {
        return rewriter.set(inst, Op::Permute, Data::Nothing, &[a, indices]);
    }
    let count = Bits::from(ty.lanes());
    let indices = lanes(rewriter.function, indices)?;
    let is_first = |index: &Bits| index % (2 * count) < count;
    let of = match indices.iter().filter(|index| is_first(index)).count() {
        0 => b,
        n if n == indices.len() => a,
        _ => return None,
    };
    rewriter.set(inst, Op::Permute, Data::Nothing, &[of, args[2]])
}

/// The combination of equal lanes by an operation that returns one of its operands.
fn reduce(rewriter: &mut Rewriter<'_>, ty: Type, of: Value, data: &Data) -> Option<Change> {
    if ty.lanes() == 1 {
        return Change::value(of);
    }
    let Data::Lane(desc) = data else {
        return None;
    };
    let keeps = matches!(
        desc.opcode,
        Opcode::And | Opcode::Or | Opcode::Min | Opcode::Max
    );
    if !keeps || !super::map::is_whole_integer(desc, ty) {
        return None;
    }
    let lane = rewriter.def_as(of, Op::Splat)?[0];
    Change::value(lane)
}
