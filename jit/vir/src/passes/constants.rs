//! Values whose lanes are known.
//!
//! A value has a *constant form* if a `const`, an `affine` of a `const`, or a `mask` of a `const` defines it. Back ends
//! create such values from immediate operands or a constant in memory, so they cost less to create again than to keep.

use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::{Bits, mask};
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use crate::data::Data;
use crate::function::Function;
use crate::meaning::Lanes;
use crate::ops::Op;

/// The simplest definition of a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// All lanes have these bits: a `const`.
    Uniform(u64),
    /// The lanes of a mask are these bits: a `mask` of a `const`.
    Bits(u64),
    /// An `affine` of a `const`.
    Affine {
        /// Lane 0.
        base: u64,
        /// The difference of adjacent lanes.
        stride: u64,
    },
}

/// Returns whether a value has a constant form.
pub(super) fn is_constant(function: &Function, value: Value) -> bool {
    let Some(inst) = function.def_inst(value) else {
        return false;
    };
    match function.insts[inst].op {
        Op::Const => true,
        Op::Affine | Op::Mask => function.constant(function.args(inst)[0]).is_some(),
        _ => false,
    }
}

/// Returns the lanes of a value with a constant form.
pub(super) fn lanes(function: &Function, value: Value) -> Option<Lanes> {
    let inst = function.def_inst(value)?;
    let data = &function.insts[inst];
    let args: Lanes = match data.op {
        Op::Const => Lanes::new(),
        Op::Affine | Op::Mask => {
            let of = function.constant(function.args(inst)[0])?;
            Lanes::from_elem(of.into(), 1)
        }
        _ => return None,
    };
    let reference = data.op.row().meaning?;
    Some(reference(data.ty, &data.data, &[args]))
}

/// Returns the simplest form of a constant of type `ty` with these lanes; `None` if it has no form.
pub(super) fn form(ty: Type, lanes: &[Bits]) -> Option<Form> {
    let first = u64::try_from(*lanes.first()?).ok()?;
    if lanes.iter().all(|&lane| lane == lanes[0]) {
        return Some(Form::Uniform(first));
    }
    if ty.kind() == Kind::Pred {
        let bits = (0..).zip(lanes).map(|(n, &on)| (on as u64 & 1) << n);
        return Some(Form::Bits(bits.sum()));
    }
    if ty.is_float() || ty.lane_bits() > 64 {
        return None;
    }
    let ones = mask(ty.lane_bits());
    let difference = |pair: &[Bits]| pair[1].wrapping_sub(pair[0]) & ones;
    let stride = difference(&lanes[..2]);
    let is_affine = lanes.windows(2).all(|pair| difference(pair) == stride);
    is_affine.then_some(Form::Affine {
        base: first,
        stride: stride as u64,
    })
}

/// Returns whether a value is created without an operation on other values: it has a constant form or is the address of a
/// slot.
pub(super) fn is_free(function: &Function, value: Value) -> bool {
    let op = function.def_inst(value).map(|inst| function.insts[inst].op);
    op == Some(Op::SlotAddr) || is_constant(function, value)
}

/// Returns the offset and the factor of an `affine`: its stride as a signed number of the bits of `ty`.
pub(super) fn signed_number(ty: Type, data: &Data) -> i64 {
    let bits = ty.lane_bits().min(64);
    ((data.number() << (64 - bits)) as i64) >> (64 - bits)
}

/// A copy of a value.
pub(super) struct ValueCopy {
    /// The instructions that compute the copy.
    pub(super) insts: SmallVec<[Inst; 2]>,
    /// The copy.
    pub(super) value: Value,
}

/// Copies the instructions that compute a free value (see [`is_free`]).
pub(super) fn copy_free(function: &mut Function, value: Value) -> ValueCopy {
    let mut insts = SmallVec::new();
    let value = copy_into(function, value, &mut insts);
    ValueCopy { insts, value }
}

fn copy_into(function: &mut Function, value: Value, insts: &mut SmallVec<[Inst; 2]>) -> Value {
    let Some(inst) = function.def_inst(value) else {
        return value;
    };
    let data = function.insts[inst];
    let args: SmallVec<[Value; 2]> = function.args(inst).into();
    let args: SmallVec<[Value; 2]> = args
        .iter()
        .map(|&arg| copy_into(function, arg, insts))
        .collect();
    let ty = function.ty(value);
    let copy = function.make_inst((data.op, data.ty, data.data), &args, &[ty]);
    if function.places[inst] != 0 {
        function.places[copy] = function.places[inst];
    }
    insts.push(copy);
    function.results(copy)[0]
}
