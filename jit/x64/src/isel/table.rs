//! The lowerings of operations in vector registers, one row for each operation.

use std::sync::LazyLock;

use margay_ops::ops::Opcode;

use super::map::{Out, Task};
use super::pieces::Piece;
use super::{Selector, approx, compare, convert, divide, fields, float, int, masks, shifts};

/// Computes a piece of each result from pieces of the operands; `None` if the operation is not supported.
pub(super) type Lowering = fn(&mut Selector<'_>, &Task<'_>, &[Piece]) -> Option<Out>;

/// Chooses between a lowering for integers and one for floating-point numbers.
macro_rules! by_class {
    ($name:ident, $integer:path, $float:path) => {
        fn $name(s: &mut Selector<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
            match t.desc.ty.is_float() {
                true => $float(s, t, p),
                false => $integer(s, t, p),
            }
        }
    };
}

by_class!(sum, int::sum, float::arithmetic);
by_class!(product, int::mul, float::arithmetic);
by_class!(quotient, divide::div, float::arithmetic);
by_class!(extreme, int::extreme, float::extreme);
by_class!(sign, int::sign, float::sign);

const ROWS: &[(&[Opcode], Lowering)] = &[
    (&[Opcode::Bitcast], convert::bitcast),
    (&[Opcode::Pack], convert::pack),
    (&[Opcode::Unpack], convert::unpack),
    (&[Opcode::Add, Opcode::Sub], sum),
    (&[Opcode::Mul], product),
    (&[Opcode::Mad], int::mad),
    (&[Opcode::Fma], float::fma),
    (
        &[Opcode::Addc, Opcode::Subc, Opcode::Madc],
        int::sum_of_carry,
    ),
    (&[Opcode::Mul24, Opcode::Mad24], int::mul24),
    (&[Opcode::Sad], int::sad),
    (&[Opcode::Div], quotient),
    (&[Opcode::Rem], divide::div),
    (&[Opcode::Abs, Opcode::Neg], sign),
    (&[Opcode::Min, Opcode::Max], extreme),
    (&[Opcode::Popc], int::popc),
    (&[Opcode::Clz], int::clz),
    (&[Opcode::Bfind], int::bfind),
    (&[Opcode::Brev], int::brev),
    (&[Opcode::Bfe], fields::bfe),
    (&[Opcode::Bfi], fields::bfi),
    (&[Opcode::Szext], fields::szext),
    (&[Opcode::Bmsk], fields::bmsk),
    (&[Opcode::Dp4a], int::dp4a),
    (&[Opcode::Dp2a], int::dp2a),
    (&[Opcode::Rcp, Opcode::Sqrt, Opcode::Rsqrt], float::root),
    (
        &[
            Opcode::Sin,
            Opcode::Cos,
            Opcode::Lg2,
            Opcode::Ex2,
            Opcode::Tanh,
        ],
        approx::function,
    ),
    (&[Opcode::Copysign], float::copysign),
    (&[Opcode::Testp], compare::testp),
    (&[Opcode::Set], compare::set),
    (&[Opcode::Setp], compare::setp),
    (&[Opcode::Selp], compare::selp),
    (&[Opcode::Slct], compare::slct),
    (
        &[
            Opcode::And,
            Opcode::Or,
            Opcode::Xor,
            Opcode::Not,
            Opcode::Cnot,
        ],
        masks::logic,
    ),
    (&[Opcode::Lop3], fields::lop3),
    (&[Opcode::Shl, Opcode::Shr], shifts::shift),
    (&[Opcode::Shf], shifts::funnel),
    (&[Opcode::Prmt], fields::prmt),
    (&[Opcode::Cvt], convert::cvt),
];

/// The lowering of each operation, by the number of its opcode.
static BY_OPCODE: LazyLock<Vec<Option<Lowering>>> = LazyLock::new(|| {
    let mut all = vec![None; Opcode::ALL.len()];
    for &(opcodes, lowering) in ROWS {
        for &opcode in opcodes {
            all[opcode as usize] = Some(lowering);
        }
    }
    all
});

/// Returns the lowering of an operation.
pub(super) fn lowering(opcode: Opcode) -> Option<Lowering> {
    BY_OPCODE[opcode as usize]
}
