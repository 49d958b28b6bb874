//! Translates the text of a modifier in the syntax table to [`Mods`].

use margay_ops::mods::{
    AtomOp, BoolOp, CmpOp, Half, MemOrder, Mode, Mods, Precision, Rounding, Scope, StateSpace,
};

/// Returns the state space that a modifier names. `shared::cta` is the same as `shared`, and `param::entry` the same as
/// `param`.
pub fn state_space(text: &str) -> Option<StateSpace> {
    match text {
        "shared::cta" => Some(StateSpace::Shared),
        "param::entry" => Some(StateSpace::Param),
        _ => StateSpace::from_name(text),
    }
}

/// Returns a [`Mods`] in which `field` has the value that `text` names, or `None` if there is no such field or `text`
/// is not a value of this field. If `field` is `None`, `text` names a flag, and an unknown name gives an empty
/// [`Mods`].
pub(super) fn set(field: Option<&str>, text: &str) -> Option<Mods> {
    let none = Mods::NONE;
    Some(match field {
        None => flag(text),
        Some("rounding") => none.with_rounding(Rounding::from_name(text)?),
        Some("cmp") => none.with_cmp(CmpOp::from_name(text)?),
        Some("bool_op") => none.with_bool_op(BoolOp::from_name(text)?),
        Some("half") => none.with_half(Half::from_name(text)?),
        Some("precision") => none.with_precision(Precision::from_name(text)?),
        Some("space") => none.with_space(state_space(text)?),
        Some("order") => none.with_order(MemOrder::from_name(text)?),
        Some("scope") => none.with_scope(scope(text)?),
        Some("atom_op") => none.with_atom_op(AtomOp::from_name(text)?),
        Some("mode") => none.with_mode(Mode::from_name(text)?),
        Some("none") => none,
        Some("flag") => none.with_flag(true),
        Some("vec") => none.with_vec_log2(vector_log2(text)?),
        Some(_) => return None,
    })
}

fn flag(text: &str) -> Mods {
    let none = Mods::NONE;
    match text {
        "ftz" => none.with_ftz(true),
        "sat" => none.with_sat(true),
        "satfinite" => none.with_satfinite(true),
        "relu" => none.with_relu(true),
        "NaN" => none.with_nan(true),
        "xorsign" => none.with_xorsign_abs(true),
        "cc" => none.with_carry_out(true),
        "nc" => none.with_nc(true),
        "noftz" => none.with_noftz(true),
        "abs" => none.with_abs(true),
        "oob" => none.with_oob(true),
        _ => none,
    }
}

fn scope(text: &str) -> Option<Scope> {
    match text {
        // `membar.gl` has this name for the GPU scope.
        "gl" => Some(Scope::Gpu),
        _ => Scope::from_name(text),
    }
}

fn vector_log2(text: &str) -> Option<u8> {
    match text {
        "v2" => Some(1),
        "v4" => Some(2),
        "v8" => Some(3),
        _ => None,
    }
}
