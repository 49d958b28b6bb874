//! The approximate functions of `f32`, by the algorithms of [`margay_ops::meaning::approx`], which are generic over the
//! arithmetic.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, types};
use margay_ops::meaning::approx::{Arithmetic, functions};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::{Operation, Results, float, one};
use crate::code::Code;
use crate::group::Group;

/// The arithmetic that emits instructions for groups and scalars.
pub(super) struct Emitted<'s, 'a, 'b>(pub(super) &'s mut Code<'a, 'b>);

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $op:ident;)*) => {$(
        fn $name(&mut self, $($arg: Group),*) -> Group {
            self.0.$op($($arg),*)
        }
    )*};
}

impl Arithmetic for Emitted<'_, '_, '_> {
    type Float = Group;
    type Int = Group;
    type Truth = Group;

    operations! {
        add(a, b) = fadd;
        sub(a, b) = fsub;
        mul(a, b) = fmul;
        div(a, b) = fdiv;
        mul_add(a, b, c) = fma;
        nearest(a) = nearest;
        int_add(a, b) = add;
        int_sub(a, b) = sub;
        and(a, b) = and;
        xor(a, b) = xor;
        bits(a) = as_int;
        of_bits(a) = as_float;
        select(condition, a, b) = select;
    }

    fn float(&mut self, value: f32) -> Group {
        self.0.float_of_bits(32, u64::from(value.to_bits()))
    }

    fn int(&mut self, value: i32) -> Group {
        self.0.int(32, u64::from(value as u32))
    }

    fn to_int(&mut self, a: Group) -> Group {
        let ty = match self.0.is_vector() {
            true => types::I32X4,
            false => types::I32,
        };
        a.map(|a| self.0.b.ins().fcvt_to_sint_sat(ty, a))
    }

    fn to_float(&mut self, a: Group) -> Group {
        let ty = match self.0.is_vector() {
            true => types::F32X4,
            false => types::F32,
        };
        a.map(|a| self.0.b.ins().fcvt_from_sint(ty, a))
    }

    fn shift_left(&mut self, a: Group, count: u32) -> Group {
        self.0.shl(a, count)
    }

    fn shift_right(&mut self, a: Group, count: u32) -> Group {
        self.0.sar(a, count)
    }

    fn less(&mut self, a: Group, b: Group) -> Group {
        self.0.fcmp(FloatCC::LessThan, a, b)
    }

    fn is_nan(&mut self, a: Group) -> Group {
        self.0.fcmp(FloatCC::Unordered, a, a)
    }

    fn is_zero(&mut self, a: Group) -> Group {
        self.0.icmp_with(IntCC::Equal, a, 0)
    }
}

/// Emits an approximate function of `f32`.
pub(super) fn evaluated(code: &mut Code<'_, '_>, opcode: Opcode, x: Group, ftz: bool) -> Group {
    let mut emitted = Emitted(code);
    match opcode {
        Opcode::Sin => functions::sin(&mut emitted, x, ftz),
        Opcode::Cos => functions::cos(&mut emitted, x, ftz),
        Opcode::Lg2 => functions::lg2(&mut emitted, x, ftz),
        Opcode::Ex2 => functions::ex2(&mut emitted, x, ftz),
        _ => functions::tanh(&mut emitted, x),
    }
}

pub(super) fn function(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    (op.desc.ty == OpType::F32 && code.has_fma).then_some(())?;
    let ftz = op.desc.mods.ftz();
    let x = op.float(code, 0, OpType::F32, ftz)?;
    let result = evaluated(code, op.desc.opcode, x, ftz);
    one(match ftz {
        true => float::flush(code, result),
        false => result,
    })
}
