//! Values whose lanes are known.
//!
//! A value has a *constant form* if a `const`, an `affine` of a `const`, or a `mask` of a `const` defines it. Back ends
//! create such values from immediate operands or a constant in memory, so they cost less to create again than to keep.

use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::{Bits, mask};
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use crate::data::{Data, lanes_of};
use crate::function::Function;
use crate::meaning::{self, Lanes};
use crate::ops::Op;

/// The simplest definition of a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
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
pub fn is_constant(function: &Function, value: Value) -> bool {
    let Some(inst) = function.def_inst(value) else {
        return false;
    };
    match function.insts[inst].op {
        Op::Const => true,
        Op::Affine | Op::Mask => function.constant(function.args(inst)[0]).is_some(),
        _ => false,
    }
}

/// Returns the lanes of a mask as bits, if it has a constant form. Bits behind the last lane have no meaning.
pub fn mask_bits(function: &Function, mask: Value) -> Option<u64> {
    let inst = function.def_inst(mask)?;
    match function.insts[inst].op {
        Op::Const => function.constant(mask).map(|bit| (bit & 1).wrapping_neg()),
        Op::Mask => function.constant(function.args(inst)[0]),
        _ => None,
    }
}

/// Returns the lanes of a value with a constant form.
pub(crate) fn lanes(function: &Function, value: Value) -> Option<Lanes> {
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
fn form(ty: Type, lanes: &[Bits]) -> Option<Form> {
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

/// Computes the results, of types `results`, of an operation whose operands have a constant form, with the reference
/// functions. Returns `None` if an operand has no constant form, if a result has none or is already in its simplest form,
/// and for ops without a reference function.
pub fn folded(
    function: &Function,
    (op, ty, data): (Op, Option<Type>, &Data),
    args: &[Value],
    results: &[Type],
) -> Option<SmallVec<[Form; 2]>> {
    let reference = op.row().meaning;
    let is_foldable = op == Op::Map || reference.is_some();
    if !is_foldable || args.is_empty() || !args.iter().all(|&arg| is_constant(function, arg)) {
        return None;
    }
    let args: SmallVec<[Lanes; 4]> = args
        .iter()
        .filter_map(|&arg| lanes(function, arg))
        .collect();
    let computed: SmallVec<[Lanes; 2]> = match (data, reference) {
        (Data::Lane(desc), None) => meaning::map(desc, lanes_of(ty), &args, results.len()),
        (_, Some(reference)) => SmallVec::from_iter([reference(ty, data, &args)]),
        _ => return None,
    };
    let pairs = results.iter().zip(&computed);
    let forms: SmallVec<[Form; 2]> = pairs
        .map(|(&ty, lanes)| form(ty, lanes))
        .collect::<Option<_>>()?;
    let has_form = matches!(op, Op::Affine | Op::Mask);
    (!has_form || matches!(forms[..], [Form::Uniform(_)])).then_some(forms)
}

/// Returns whether a value is created without an operation on other values: it has a constant form or is the address of a
/// slot.
pub(crate) fn is_free(function: &Function, value: Value) -> bool {
    let op = function.def_inst(value).map(|inst| function.insts[inst].op);
    op == Some(Op::SlotAddr) || is_constant(function, value)
}

/// Returns the offset and the factor of an `affine`: its stride as a signed number of the bits of `ty`.
pub(crate) fn signed_number(ty: Type, data: &Data) -> i64 {
    let bits = ty.lane_bits().min(64);
    ((data.number() << (64 - bits)) as i64) >> (64 - bits)
}

/// A copy of a value.
pub(crate) struct ValueCopy {
    /// The instructions that compute the copy.
    pub(crate) insts: SmallVec<[Inst; 2]>,
    /// The copy.
    pub(crate) value: Value,
}

/// Copies the instructions that compute a free value (see [`is_free`]).
pub(crate) fn copy_free(function: &mut Function, value: Value) -> ValueCopy {
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
