//! Emits floating-point operations on whole vectors: arithmetic, signs, minimum and maximum, and
//! PTX's approximate functions.
//!
//! Each function follows the scalar lowering of the same name in [`crate::emit::fast`], which documents the special
//! cases.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::meaning::approx::{Arithmetic, functions};
use margay_ops::mods::{Precision, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::ops::{Tried, bail, float_vector, integer_vector};
use super::{Lanes, Slice, cast_flags, directed};
use crate::emit::lane::EmitError;

impl Slice<'_, '_> {
    /// Returns the lanes of an operand. If the operation has `.ftz`, subnormal lanes become zero.
    pub(super) fn float_operand(
        &mut self,
        inst: Inst,
        index: usize,
        (ty, ftz): (ir::Type, bool),
    ) -> Result<Option<Lanes>, EmitError> {
        let lanes = bail!(self.lanes_as(inst, index, ty)?);
        let normal = self
            .operand(inst, index)
            .is_some_and(|value| self.is_normal(value));
        Ok(Some(if ftz && ty == types::F32X4 && !normal {
            self.each1(&lanes, |s, a| s.flush(a))
        } else {
            lanes
        }))
    }

    /// Returns whether it is proved that a 32-bit floating-point value is not subnormal.
    pub(super) fn is_normal(&self, value: Value) -> bool {
        let function = self.lane.function;
        if let Some(bits) = function.dfg.constant(value) {
            return !f32::from_bits(bits as u32).is_subnormal();
        }
        let Some(inst) = function.dfg.def_inst(value) else {
            return false;
        };
        let data = &function.dfg.insts[inst];
        let flushed = data.mods.ftz()
            && matches!(
                data.opcode,
                Opcode::Add
                    | Opcode::Sub
                    | Opcode::Mul
                    | Opcode::Fma
                    | Opcode::Div
                    | Opcode::Rcp
                    | Opcode::Sqrt
                    | Opcode::Rsqrt
                    | Opcode::Sin
                    | Opcode::Cos
                    | Opcode::Lg2
                    | Opcode::Ex2
                    | Opcode::Neg
                    | Opcode::Abs
            );
        let converted = data.opcode == Opcode::Cvt && data.src.is_integer();
        data.ty == OpType::F32 && (flushed || converted)
    }

    /// Emits code that replaces subnormal lanes by zeros of the same sign.
    pub(super) fn flush(&mut self, a: ir::Value) -> ir::Value {
        let smallest = self.constant(types::F32X4, u64::from(f32::MIN_POSITIVE.to_bits()));
        let but_sign = self.constant(types::F32X4, 0x7fff_ffff);
        let b = &mut *self.lane.b;
        let size = b.ins().band(a, but_sign);
        let small = b.ins().fcmp(FloatCC::LessThan, size, smallest);
        let small = self.cast_one(small, types::F32X4);
        let b = &mut *self.lane.b;
        let dropped = b.ins().band(small, but_sign);
        b.ins().band_not(a, dropped)
    }

    pub(super) fn float_constant(&mut self, ty: ir::Type, value: f64) -> ir::Value {
        let bits = if ty == types::F32X4 {
            u64::from((value as f32).to_bits())
        } else {
            value.to_bits()
        };
        self.constant(ty, bits)
    }

    /// Returns `a` in the lanes where the condition holds, and `b` in the other lanes.
    pub(super) fn select(&mut self, condition: ir::Value, a: ir::Value, b: ir::Value) -> ir::Value {
        let ty = self.lane.b.func.dfg.value_type(a);
        let condition = self.cast_one(condition, ty);
        self.lane.b.ins().bitselect(condition, a, b)
    }

    /// Emits the last steps of an operation with the unmodified result `lanes`. If the operation
    /// has `.ftz`, subnormal lanes become zero; if it has `.sat`, the lanes are clamped to the
    /// range from 0 to 1. Then sets the result of `inst`.
    pub(super) fn finish(
        &mut self,
        inst: Inst,
        data: &InstData,
        ty: ir::Type,
        lanes: Lanes,
    ) -> Tried {
        let mut lanes = lanes;
        if data.mods.ftz() && ty == types::F32X4 {
            lanes = self.each1(&lanes, |s, a| s.flush(a));
        }
        if data.mods.sat() {
            lanes = self.saturate(ty, &lanes);
        }
        self.define(inst, &lanes)
    }

    pub(super) fn saturate(&mut self, ty: ir::Type, lanes: &Lanes) -> Lanes {
        let (zero, one) = (self.float_constant(ty, 0.0), self.float_constant(ty, 1.0));
        self.each1(lanes, |s, a| {
            let above = s.lane.b.ins().fcmp(FloatCC::GreaterThan, a, zero);
            let floored = s.select(above, a, zero);
            let below = s.lane.b.ins().fcmp(FloatCC::LessThan, floored, one);
            s.select(below, floored, one)
        })
    }

    pub(super) fn float(&mut self, inst: Inst, data: &InstData) -> Tried {
        if directed::is_directed(data) {
            return self.directed(inst, data);
        }
        let ty = bail!(float_vector(data.ty));
        let mods = data.mods;
        let single = ty == types::F32X4;
        let nearest = matches!(mods.rounding(), Rounding::None | Rounding::Rn);
        let root = matches!(
            data.opcode,
            Opcode::Div | Opcode::Sqrt | Opcode::Rcp | Opcode::Rsqrt
        );
        // The approximate forms for f32 are implemented as the correctly rounded operations.
        let approximate = mods.precision() != Precision::None && root && single;
        let rsqrt = data.opcode == Opcode::Rsqrt && (single || !mods.ftz());
        if !(approximate || rsqrt)
            && (!nearest || mods.precision() != Precision::None || data.opcode == Opcode::Rsqrt)
            || mods.relu()
        {
            return Ok(None);
        }
        let how = (ty, mods.ftz());
        let a = bail!(self.float_operand(inst, 0, how)?);
        let lanes = match data.opcode {
            Opcode::Sqrt => self.each1(&a, |s, a| s.lane.b.ins().sqrt(a)),
            Opcode::Rcp => {
                let one = self.float_constant(ty, 1.0);
                self.each1(&a, |s, a| s.lane.b.ins().fdiv(one, a))
            }
            Opcode::Rsqrt => {
                let one = self.float_constant(ty, 1.0);
                self.each1(&a, |s, a| {
                    let root = s.lane.b.ins().sqrt(a);
                    s.lane.b.ins().fdiv(one, root)
                })
            }
            Opcode::Fma => {
                if !self.lane.has_fma {
                    return Ok(None);
                }
                let b = bail!(self.float_operand(inst, 1, how)?);
                let c = bail!(self.float_operand(inst, 2, how)?);
                // The FMA instruction overwrites its first operand. If one factor is uniform, the other factor is
                // passed first, so that the vector of the uniform factor stays in its register for later instructions.
                let shared = self.operand(inst, 0).is_some_and(|a| self.is_uniform(a));
                let (a, b) = if shared && single { (b, a) } else { (a, b) };
                a.iter()
                    .zip(b.iter().zip(&c))
                    .map(|(&a, (&b, &c))| self.lane.b.ins().fma(a, b, c))
                    .collect()
            }
            opcode => {
                let b = bail!(self.float_operand(inst, 1, how)?);
                match opcode {
                    Opcode::Add => self.each2(&a, &b, |s, a, b| s.lane.b.ins().fadd(a, b)),
                    Opcode::Sub => self.each2(&a, &b, |s, a, b| s.lane.b.ins().fsub(a, b)),
                    Opcode::Mul => self.each2(&a, &b, |s, a, b| s.lane.b.ins().fmul(a, b)),
                    Opcode::Div if mods.precision() == Precision::Approx => {
                        self.each2(&a, &b, |s, a, b| s.approximate_quotient(a, b))
                    }
                    Opcode::Div => self.each2(&a, &b, |s, a, b| s.lane.b.ins().fdiv(a, b)),
                    _ => return Ok(None),
                }
            }
        };
        self.finish(inst, data, ty, lanes)
    }

    /// Emits the quotient of `.approx`, for which divisors above 2^126 count as infinite.
    pub(super) fn approximate_quotient(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        let ty = types::F32X4;
        let limit = self.constant(ty, 0x7e80_0000);
        let infinity = self.float_constant(ty, f64::INFINITY);
        let sign = self.constant(ty, 0x8000_0000);
        let ins = &mut *self.lane.b;
        let size = ins.ins().fabs(b);
        let large = ins.ins().fcmp(FloatCC::GreaterThan, size, limit);
        let signed = ins.ins().bitselect(sign, b, infinity);
        let b = self.select(large, signed, b);
        self.lane.b.ins().fdiv(a, b)
    }

    pub(super) fn approximate(&mut self, inst: Inst, data: &InstData) -> Tried {
        if data.ty != OpType::F32 || !self.lane.has_fma {
            return Ok(None);
        }
        let ftz = data.mods.ftz();
        let a = bail!(self.float_operand(inst, 0, (types::F32X4, ftz))?);
        let lanes = self.each1(&a, |s, x| {
            let mut code = Vector(s);
            match data.opcode {
                Opcode::Sin => functions::sin(&mut code, x, ftz),
                Opcode::Cos => functions::cos(&mut code, x, ftz),
                Opcode::Lg2 => functions::lg2(&mut code, x, ftz),
                Opcode::Ex2 => functions::ex2(&mut code, x, ftz),
                _ => functions::tanh(&mut code, x),
            }
        });
        self.finish(inst, data, types::F32X4, lanes)
    }

    pub(super) fn sign(&mut self, inst: Inst, data: &InstData) -> Tried {
        let neg = data.opcode == Opcode::Neg;
        if data.ty.is_float() {
            let ty = bail!(float_vector(data.ty));
            if data.mods.relu() {
                return Ok(None);
            }
            let a = bail!(self.float_operand(inst, 0, (ty, data.mods.ftz()))?);
            let lanes = self.each1(&a, |s, a| {
                if neg {
                    s.lane.b.ins().fneg(a)
                } else {
                    s.lane.b.ins().fabs(a)
                }
            });
            return self.finish(inst, data, ty, lanes);
        }
        let ty = bail!(integer_vector(data.ty));
        if data.mods.sat() || data.mods.relu() {
            return Ok(None);
        }
        let a = bail!(self.lanes_as(inst, 0, ty)?);
        let lanes = self.each1(&a, |s, a| {
            if neg {
                s.lane.b.ins().ineg(a)
            } else {
                s.lane.b.ins().iabs(a)
            }
        });
        self.define(inst, &lanes)
    }

    pub(super) fn extreme(&mut self, inst: Inst, data: &InstData) -> Tried {
        let is_min = data.opcode == Opcode::Min;
        let mods = data.mods;
        if self.lane.function.dfg.args(inst).len() != 2 || mods.relu() {
            return Ok(None);
        }
        if data.ty.is_float() {
            let ty = bail!(float_vector(data.ty));
            if mods.nan() || mods.xorsign_abs() {
                return Ok(None);
            }
            let how = (ty, mods.ftz());
            let a = bail!(self.float_operand(inst, 0, how)?);
            let b = bail!(self.float_operand(inst, 1, how)?);
            let lanes = self.each2(&a, &b, |s, a, b| s.float_extreme(a, b, is_min));
            return self.finish(inst, data, ty, lanes);
        }
        let ty = bail!(integer_vector(data.ty));
        if mods.sat() {
            return Ok(None);
        }
        let a = bail!(self.lanes_as(inst, 0, ty)?);
        let b = bail!(self.lanes_as(inst, 1, ty)?);
        let signed = data.ty.is_signed();
        let lanes = self.each2(&a, &b, |s, a, b| {
            if ty == types::I64X2 {
                let less = s.less(a, b, signed);
                return if is_min {
                    s.select(less, a, b)
                } else {
                    s.select(less, b, a)
                };
            }
            let ins = s.lane.b.ins();
            match (is_min, signed) {
                (true, true) => ins.smin(a, b),
                (true, false) => ins.umin(a, b),
                (false, true) => ins.smax(a, b),
                (false, false) => ins.umax(a, b),
            }
        });
        self.define(inst, &lanes)
    }

    /// Emits the comparison `a < b` of 64-bit lanes.
    pub(super) fn less(&mut self, a: ir::Value, b: ir::Value, signed: bool) -> ir::Value {
        let (a, b) = if signed { (a, b) } else { self.biased(a, b) };
        self.lane.b.ins().icmp(IntCC::SignedLessThan, a, b)
    }

    /// Emits code that inverts the top bit of 64-bit lanes, so that a signed comparison of the
    /// results gives the unsigned order of the lanes.
    pub(super) fn biased(&mut self, a: ir::Value, b: ir::Value) -> (ir::Value, ir::Value) {
        let top = self.constant(types::I64X2, 1 << 63);
        let a = self.lane.b.ins().bxor(a, top);
        (a, self.lane.b.ins().bxor(b, top))
    }

    pub(super) fn float_extreme(&mut self, a: ir::Value, b: ir::Value, is_min: bool) -> ir::Value {
        let order = if is_min {
            FloatCC::LessThan
        } else {
            FloatCC::GreaterThan
        };
        let ins = &mut *self.lane.b;
        let first = ins.ins().fcmp(order, a, b);
        let nan = ins.ins().fcmp(FloatCC::Unordered, b, b);
        let equal = ins.ins().fcmp(FloatCC::Equal, a, b);
        let merged = if is_min {
            ins.ins().bor(a, b)
        } else {
            ins.ins().band(a, b)
        };
        let chosen = self.select(first, a, b);
        let chosen = self.select(nan, a, chosen);
        self.select(equal, merged, chosen)
    }
}

/// The arithmetic with which the generic reference functions are instantiated: it emits Cranelift instructions for
/// vectors of four lanes.
pub(super) struct Vector<'s, 'a, 'b>(pub(super) &'s mut Slice<'a, 'b>);

macro_rules! operations {
    ($($name:ident($($arg:ident),*) = $op:ident;)*) => {$(
        fn $name(&mut self, $($arg: ir::Value),*) -> ir::Value {
            self.0.lane.b.ins().$op($($arg),*)
        }
    )*};
}

impl Arithmetic for Vector<'_, '_, '_> {
    type Float = ir::Value;
    type Int = ir::Value;
    type Truth = ir::Value;

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
    }

    fn float(&mut self, value: f32) -> ir::Value {
        self.0.constant(types::F32X4, u64::from(value.to_bits()))
    }

    fn int(&mut self, value: i32) -> ir::Value {
        self.0.constant(types::I32X4, u64::from(value as u32))
    }

    fn to_int(&mut self, a: ir::Value) -> ir::Value {
        self.0.lane.b.ins().fcvt_to_sint_sat(types::I32X4, a)
    }

    fn to_float(&mut self, a: ir::Value) -> ir::Value {
        self.0.lane.b.ins().fcvt_from_sint(types::F32X4, a)
    }

    fn bits(&mut self, a: ir::Value) -> ir::Value {
        self.0.lane.b.ins().bitcast(types::I32X4, cast_flags(), a)
    }

    fn of_bits(&mut self, a: ir::Value) -> ir::Value {
        self.0.lane.b.ins().bitcast(types::F32X4, cast_flags(), a)
    }

    fn shift_left(&mut self, a: ir::Value, count: u32) -> ir::Value {
        let count = self.0.lane.int(types::I32, u64::from(count));
        self.0.lane.b.ins().ishl(a, count)
    }

    fn shift_right(&mut self, a: ir::Value, count: u32) -> ir::Value {
        let count = self.0.lane.int(types::I32, u64::from(count));
        self.0.lane.b.ins().sshr(a, count)
    }

    fn less(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.0.lane.b.ins().fcmp(FloatCC::LessThan, a, b)
    }

    fn is_nan(&mut self, a: ir::Value) -> ir::Value {
        self.0.lane.b.ins().fcmp(FloatCC::Unordered, a, a)
    }

    fn is_zero(&mut self, a: ir::Value) -> ir::Value {
        let zero = self.0.constant(types::I32X4, 0);
        self.0.lane.b.ins().icmp(IntCC::Equal, a, zero)
    }

    fn select(&mut self, condition: ir::Value, a: ir::Value, b: ir::Value) -> ir::Value {
        self.0.select(condition, a, b)
    }
}
