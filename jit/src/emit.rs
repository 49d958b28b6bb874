//! Emission of one native function.
//!
//! [`Lane`] translates IR instructions for one lane, [`slice`](mod@slice) for a chunk of lanes. The modules
//! `warp_form` (with `joint`), `cta_form`, `phases` and `device` emit the function and the loops around the translated instructions,
//! each for one form of native code.

pub(crate) mod aligned;
pub(crate) mod atomic;
pub(crate) mod control;
pub(crate) mod count;
pub(crate) mod cta_form;
pub(crate) mod device;
pub(crate) mod fast;
pub(crate) mod invariant;
pub(crate) mod joint;
pub(crate) mod lane;
pub(crate) mod memory;
pub(crate) mod observe;
pub(crate) mod permitted;
pub(crate) mod phases;
pub(crate) mod reach;
pub(crate) mod slice;
pub(crate) mod slow;
pub(crate) mod special;
pub(crate) mod sweep;
pub(crate) mod warp_form;
pub(crate) mod whole;

pub(crate) use lane::{EmitError, Lane};

use cranelift_codegen::ir::{self, types};
use margay_ops::types::{Kind, Type};

/// Returns the Cranelift type that holds a value of an IR type.
pub(crate) fn clif_type(ty: Type) -> ir::Type {
    match ty.kind() {
        Kind::Pred | Kind::B8 => types::I8,
        Kind::B16 => types::I16,
        Kind::B32 => types::I32,
        Kind::B64 => types::I64,
        Kind::B128 => types::I128,
        Kind::F32 => types::F32,
        Kind::F64 => types::F64,
    }
}
