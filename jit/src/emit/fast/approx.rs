//! Approximate functions of f32, and `rsqrt` of f64, by the algorithms of [`margay_ops::meaning::approx`].
//!
//! The reference functions for sines, logarithms and exponentials are generic over the arithmetic. This module
//! instantiates them with an arithmetic that emits Cranelift instructions. Quotients, reciprocals and roots use the
//! same correctly rounded operations as the reference functions. Native code and the interpreter therefore compute the
//! same bits, except for NaNs.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_frontend::FunctionBuilder;
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::meaning::approx::{Arithmetic, functions};
use margay_ops::mods::Precision;
use margay_ops::types::OpType;

use super::{float, integer};
use crate::emit::{Lane, memory};

/// The arithmetic with which this module instantiates the generic reference functions: it emits Cranelift instructions
/// for one lane.
pub(super) struct Code<'a, 'b>(pub(super) &'a mut FunctionBuilder<'b>);

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $op:ident;)*) => {$(
        fn $name(&mut self, $($arg: Value),*) -> Value {
            self.0.ins().$op($($arg),*)
        }
    )*};
}

impl Arithmetic for Code<'_, '_> {
    type Float = Value;
    type Int = Value;
    type Truth = Value;

    operations! {
        add(a, b) = fadd;
        sub(a, b) = fsub;
        mul(a, b) = fmul;
        div(a, b) = fdiv;
        mul_add(a, b, c) = fma;
        nearest(a) = nearest;
        int_add(a, b) = iadd;
        int_sub(a, b) = isub;
        and(a, b) = band;
        xor(a, b) = bxor;
        select(condition, a, b) = select;
    }

    fn float(&mut self, value: f32) -> Value {
        self.0.ins().f32const(value)
    }

    fn int(&mut self, value: i32) -> Value {
        self.0.ins().iconst(types::I32, i64::from(value))
    }

    fn to_int(&mut self, a: Value) -> Value {
        self.0.ins().fcvt_to_sint_sat(types::I32, a)
    }

    fn to_float(&mut self, a: Value) -> Value {
        self.0.ins().fcvt_from_sint(types::F32, a)
    }

    fn bits(&mut self, a: Value) -> Value {
        self.0.ins().bitcast(types::I32, memory::host_cast(), a)
    }

    fn of_bits(&mut self, a: Value) -> Value {
        self.0.ins().bitcast(types::F32, memory::host_cast(), a)
    }

    fn shift_left(&mut self, a: Value, count: u32) -> Value {
        let count = self.0.ins().iconst(types::I32, i64::from(count));
        self.0.ins().ishl(a, count)
    }

    fn shift_right(&mut self, a: Value, count: u32) -> Value {
        let count = self.0.ins().iconst(types::I32, i64::from(count));
        self.0.ins().sshr(a, count)
    }

    fn less(&mut self, a: Value, b: Value) -> Value {
        self.0.ins().fcmp(FloatCC::LessThan, a, b)
    }

    fn is_nan(&mut self, a: Value) -> Value {
        self.0.ins().fcmp(FloatCC::Unordered, a, a)
    }

    fn is_zero(&mut self, a: Value) -> Value {
        let zero = self.0.ins().iconst(types::I32, 0);
        self.0.ins().icmp(IntCC::Equal, a, zero)
    }
}

type Function = fn(&mut Code<'_, '_>, Value, bool) -> Value;

fn evaluate(
    lane: &mut Lane<'_, '_>,
    inst: Inst,
    data: &InstData,
    function: Function,
) -> Option<()> {
    if data.ty != OpType::F32 || !lane.has_fma {
        return None;
    }
    let ftz = data.mods.ftz();
    let x = float::operand(lane, inst, 0, types::F32, ftz)?;
    let value = function(&mut Code(lane.b), x, ftz);
    float::finish(lane, inst, data, types::F32, value)
}

pub(super) fn sin(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    evaluate(lane, inst, data, |code, x, ftz| {
        functions::sin(code, x, ftz)
    })
}

pub(super) fn cos(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    evaluate(lane, inst, data, |code, x, ftz| {
        functions::cos(code, x, ftz)
    })
}

pub(super) fn lg2(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    evaluate(lane, inst, data, |code, x, ftz| {
        functions::lg2(code, x, ftz)
    })
}

pub(super) fn ex2(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    evaluate(lane, inst, data, |code, x, ftz| {
        functions::ex2(code, x, ftz)
    })
}

pub(super) fn tanh(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    evaluate(lane, inst, data, |code, x, _| functions::tanh(code, x))
}

/// Returns whether `data` is an approximate operation on f32.
fn is_single(data: &InstData) -> bool {
    data.ty == OpType::F32 && data.mods.precision() != Precision::None
}

pub(super) fn div(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_single(data) {
        return integer::div(lane, inst, data);
    }
    let ftz = data.mods.ftz();
    let a = float::operand(lane, inst, 0, types::F32, ftz)?;
    let mut b = float::operand(lane, inst, 1, types::F32, ftz)?;
    if data.mods.precision() == Precision::Approx {
        // Divisors above 2^126 count as infinite.
        let limit = lane.b.ins().f32const(f32::from_bits(0x7e80_0000));
        let infinity = lane.b.ins().f32const(f32::INFINITY);
        let size = lane.b.ins().fabs(b);
        let large = lane.b.ins().fcmp(FloatCC::GreaterThan, size, limit);
        let signed = lane.b.ins().fcopysign(infinity, b);
        b = lane.b.ins().select(large, signed, b);
    }
    let value = lane.b.ins().fdiv(a, b);
    float::finish(lane, inst, data, types::F32, value)
}

pub(super) fn rcp(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_single(data) {
        return float::rcp(lane, inst, data);
    }
    let a = float::operand(lane, inst, 0, types::F32, data.mods.ftz())?;
    let one = lane.b.ins().f32const(1.0);
    let value = lane.b.ins().fdiv(one, a);
    float::finish(lane, inst, data, types::F32, value)
}

pub(super) fn sqrt(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    if !is_single(data) {
        return float::sqrt(lane, inst, data);
    }
    let a = float::operand(lane, inst, 0, types::F32, data.mods.ftz())?;
    let value = lane.b.ins().sqrt(a);
    float::finish(lane, inst, data, types::F32, value)
}

/// Emits the computation of `1 / sqrt(a)`. This lowering does not support f64 with `.ftz`, because
/// PTX gives the results of this form fewer significant bits.
pub(super) fn rsqrt(lane: &mut Lane<'_, '_>, inst: Inst, data: &InstData) -> Option<()> {
    let ty = float::float_type(data.ty)?;
    if ty == types::F64 && data.mods.ftz() {
        return None;
    }
    let a = float::operand(lane, inst, 0, ty, data.mods.ftz())?;
    let root = lane.b.ins().sqrt(a);
    let one = match ty {
        types::F32 => lane.b.ins().f32const(1.0),
        _ => lane.b.ins().f64const(1.0),
    };
    let value = lane.b.ins().fdiv(one, root);
    float::finish(lane, inst, data, ty, value)
}
