//! The lowerings of operations in vector registers, one row for each operation.

use margay_ops::ops::Opcode;

use super::map::{Out, Task};
use super::pieces::Piece;
use super::{Selector, approx, compare, convert, float, int, masks};

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
by_class!(quotient, int::div, float::arithmetic);
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
    (&[Opcode::Addc, Opcode::Subc, Opcode::Madc], int::sum_of_carry),
    (&[Opcode::Mul24, Opcode::Mad24], int::mul24),
    (&[Opcode::Sad], int::sad),
    (&[Opcode::Div], quotient),
    (&[Opcode::Rem], int::div),
    (&[Opcode::Abs, Opcode::Neg], sign),
    (&[Opcode::Min, Opcode::Max], extreme),
    (&[Opcode::Popc], int::popc),
    (&[Opcode::Clz], int::clz),
    (&[Opcode::Bfind], int::bfind),
    (&[Opcode::Brev], int::brev),
    (&[Opcode::Bfe], int::bfe),
    (&[Opcode::Bfi], int::bfi),
    (&[Opcode::Szext], int::szext),
    (&[Opcode::Bmsk], int::bmsk),
    (&[Opcode::Dp4a], int::dp4a),
    (&[Opcode::Dp2a], int::dp2a),
    (&[Opcode::Rcp, Opcode::Sqrt, Opcode::Rsqrt], float::root),
    (
        &[Opcode::Sin, Opcode::Cos, Opcode::Lg2, Opcode::Ex2, Opcode::Tanh],
        approx::function,
    ),
    (&[Opcode::Copysign], float::copysign),
    (&[Opcode::Testp], compare::testp),
    (&[Opcode::Set], compare::set),
    (&[Opcode::Setp], compare::setp),
    (&[Opcode::Selp], compare::selp),
    (&[Opcode::Slct], compare::slct),
    (
        &[Opcode::And, Opcode::Or, Opcode::Xor, Opcode::Not, Opcode::Cnot],
        masks::logic,
    ),
    (&[Opcode::Lop3], int::lop3),
    (&[Opcode::Shl, Opcode::Shr], int::shift),
    (&[Opcode::Shf], int::funnel),
    (&[Opcode::Prmt], int::prmt),
    (&[Opcode::Cvt], convert::cvt),
];

/// Returns the lowering of an operation.
pub(super) fn lowering(opcode: Opcode) -> Option<Lowering> {
    let row = ROWS.iter().find(|(opcodes, _)| opcodes.contains(&opcode));
    row.map(|&(_, lowering)| lowering)
}
