//! Fast lowerings: operations that Cranelift instructions compute directly.
//!
//! A lowering returns `None` for types and modifiers that it does not support. The generated code then calls the
//! reference function of the operation. The lowering may have emitted instructions before it returned `None`; they are
//! unused and therefore harmless. Property tests over the op table compare each lowering with the reference function.

mod approx;
mod compare;
mod convert;
mod data;
mod directed;
mod fields;
mod float;
pub(crate) mod halves;
mod integer;
mod logic;

pub(crate) use compare::{float_condition, integer_condition};
pub(crate) use float::flush;
pub(crate) use integer::doubled;

use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::ops::Opcode;

use crate::emit::Lane;

/// Emits an operation. Returns `None` if this lowering does not support the operation.
pub(crate) type Lowering = fn(&mut Lane<'_, '_>, Inst, &InstData) -> Option<()>;

/// Returns the fast lowering of an opcode, if there is one.
pub(crate) fn lowering(opcode: Opcode) -> Option<Lowering> {
    const TABLE: &[(Opcode, Lowering)] = &[
        (Opcode::Bitcast, data::bitcast),
        (Opcode::Pack, data::pack),
        (Opcode::Unpack, data::unpack),
        (Opcode::Add, halves::add),
        (Opcode::Sub, halves::sub),
        (Opcode::Mul, halves::mul),
        (Opcode::Mad, fields::mad),
        (Opcode::Div, approx::div),
        (Opcode::Rem, integer::rem),
        (Opcode::Neg, integer::neg),
        (Opcode::Abs, integer::abs),
        (Opcode::Min, integer::min),
        (Opcode::Max, integer::max),
        (Opcode::Popc, integer::popc),
        (Opcode::Clz, integer::clz),
        (Opcode::Brev, integer::brev),
        (Opcode::Addc, fields::addc),
        (Opcode::Subc, fields::subc),
        (Opcode::Madc, fields::madc),
        (Opcode::Mul24, integer::mul24),
        (Opcode::Mad24, integer::mad24),
        (Opcode::Bfe, fields::bfe),
        (Opcode::Bfi, fields::bfi),
        (Opcode::Bfind, fields::bfind),
        (Opcode::Szext, fields::szext),
        (Opcode::Bmsk, fields::bmsk),
        (Opcode::Prmt, fields::prmt),
        (Opcode::Copysign, fields::copysign),
        (Opcode::Fma, halves::fma),
        (Opcode::Sqrt, approx::sqrt),
        (Opcode::Rcp, approx::rcp),
        (Opcode::Rsqrt, approx::rsqrt),
        (Opcode::Sin, approx::sin),
        (Opcode::Cos, approx::cos),
        (Opcode::Lg2, approx::lg2),
        (Opcode::Ex2, approx::ex2),
        (Opcode::Tanh, approx::tanh),
        (Opcode::And, logic::and),
        (Opcode::Or, logic::or),
        (Opcode::Xor, logic::xor),
        (Opcode::Not, logic::not),
        (Opcode::Lop3, logic::lop3),
        (Opcode::Shl, logic::shl),
        (Opcode::Shr, logic::shr),
        (Opcode::Shf, logic::shf),
        (Opcode::Setp, compare::setp),
        (Opcode::Set, compare::set),
        (Opcode::Selp, compare::selp),
        (Opcode::Cvt, halves::cvt),
    ];
    TABLE
        .iter()
        .find(|(known, _)| *known == opcode)
        .map(|&(_, lowering)| lowering)
}
