//! Emits operations as vector instructions, which compute several lanes at once. Operations that
//! are not supported here run lane by lane.
//!
//! Each function follows the scalar lowering of the same name in [`crate::emit::fast`], which documents the special
//! cases.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::{BoolOp, Half, Mode};
use margay_ops::ops::Opcode;
use margay_ops::types::{Class, Kind, OpType};
use smallvec::smallvec;

use super::{Lanes, Slice, halves, vector_type};
use crate::emit::fast::{doubled, float_condition, integer_condition};
use crate::emit::lane::EmitError;

/// The result of trying to emit vector code: `None` if vector code does not support the operation.
pub(super) type Tried = Result<Option<()>, EmitError>;

pub(super) fn float_vector(ty: OpType) -> Option<ir::Type> {
    match ty {
        OpType::F32 => Some(types::F32X4),
        OpType::F64 => Some(types::F64X2),
        _ => None,
    }
}

pub(super) fn integer_vector(ty: OpType) -> Option<ir::Type> {
    if ty.class() == Class::Pred || ty.is_float() || ty.elements() != 1 {
        return None;
    }
    match ty.bits() {
        32 => Some(types::I32X4),
        64 => Some(types::I64X2),
        _ => None,
    }
}

/// Returns the integer vector type whose lanes are as wide as the lanes of `ty`.
pub(super) fn int_of(ty: ir::Type) -> ir::Type {
    if ty.lane_bits() == 32 {
        types::I32X4
    } else {
        types::I64X2
    }
}

macro_rules! bail {
    ($option:expr) => {
        match $option {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}
pub(super) use bail;

impl Slice<'_, '_> {
    /// Translates a pure operation with varying results to vector instructions, if it has a vector form.
    pub(super) fn vector(&mut self, inst: Inst, data: &InstData) -> Tried {
        if halves::is_known(data) {
            return self.half_operation(inst, data);
        }
        match data.opcode {
            Opcode::Bitcast => self.bitcast(inst),
            Opcode::Add | Opcode::Sub | Opcode::Mul | Opcode::Mad => self.arithmetic(inst, data),
            Opcode::Div | Opcode::Sqrt | Opcode::Rcp | Opcode::Rsqrt | Opcode::Fma => {
                self.float(inst, data)
            }
            Opcode::Sin | Opcode::Cos | Opcode::Lg2 | Opcode::Ex2 | Opcode::Tanh => {
                self.approximate(inst, data)
            }
            Opcode::Neg | Opcode::Abs => self.sign(inst, data),
            Opcode::Min | Opcode::Max => self.extreme(inst, data),
            Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Not => self.logic(inst, data),
            Opcode::Lop3 => self.lop3(inst, data),
            Opcode::Shl | Opcode::Shr => self.shift(inst, data),
            Opcode::Shf => self.funnel(inst, data),
            Opcode::Setp => self.setp(inst, data),
            Opcode::Set => self.set_op(inst, data),
            Opcode::Selp => self.selp(inst),
            Opcode::Cvt => self.convert(inst, data),
            Opcode::Pack => self.pack(inst, data),
            Opcode::Unpack => self.unpack(inst, data),
            _ => Ok(None),
        }
    }

    pub(super) fn operand(&self, inst: Inst, index: usize) -> Option<Value> {
        self.lane.function.dfg.args(inst).get(index).copied()
    }

    /// Returns an operand's lanes as vectors of type `ty`; `None` if the lanes of the operand do
    /// not have the width of the lanes of `ty`.
    pub(super) fn lanes_as(
        &mut self,
        inst: Inst,
        index: usize,
        ty: ir::Type,
    ) -> Result<Option<Lanes>, EmitError> {
        let value = bail!(self.operand(inst, index));
        let bits = self.lane.function.dfg.ty(value).lane_bytes() * 8;
        if bits != ty.lane_bits() || self.lane.function.dfg.ty(value).kind() == Kind::Pred {
            return Ok(None);
        }
        let lanes = self.get(value)?;
        Ok(Some(self.cast(&lanes, ty)))
    }

    /// Sets the first result to the given lanes. Returns `None` if the lanes of the result have another width.
    pub(super) fn define(&mut self, inst: Inst, lanes: &Lanes) -> Tried {
        let value = bail!(self.lane.function.dfg.results(inst).first().copied());
        let to = vector_type(self.lane.function.dfg.ty(value))?;
        if self.lane.b.func.dfg.value_type(lanes[0]).lane_bits() != to.lane_bits() {
            return Ok(None);
        }
        let lanes = self.cast(lanes, to);
        self.set(value, &lanes)?;
        Ok(Some(()))
    }

    pub(super) fn each1(
        &mut self,
        a: &Lanes,
        mut op: impl FnMut(&mut Self, ir::Value) -> ir::Value,
    ) -> Lanes {
        a.iter().map(|&a| op(self, a)).collect()
    }

    pub(super) fn each2(
        &mut self,
        a: &Lanes,
        b: &Lanes,
        mut op: impl FnMut(&mut Self, ir::Value, ir::Value) -> ir::Value,
    ) -> Lanes {
        a.iter().zip(b).map(|(&a, &b)| op(self, a, b)).collect()
    }

    fn bitcast(&mut self, inst: Inst) -> Tried {
        let value = bail!(self.operand(inst, 0));
        let result = bail!(self.lane.function.dfg.results(inst).first().copied());
        let (from, to) = (
            self.lane.function.dfg.ty(value),
            self.lane.function.dfg.ty(result),
        );
        if from.lane_bytes() != to.lane_bytes()
            || (from.kind() == Kind::Pred) != (to.kind() == Kind::Pred)
        {
            return Ok(None);
        }
        let lanes = self.get(value)?;
        self.define(inst, &lanes)
    }

    fn arithmetic(&mut self, inst: Inst, data: &InstData) -> Tried {
        if data.ty.is_float() {
            return self.float(inst, data);
        }
        let ty = bail!(integer_vector(data.ty));
        let mods = data.mods;
        if mods.sat() || mods.carry_out() || mods.relu() {
            return Ok(None);
        }
        let a = bail!(self.lanes_as(inst, 0, ty)?);
        let b = bail!(self.lanes_as(inst, 1, ty)?);
        let lanes = match data.opcode {
            Opcode::Add => self.each2(&a, &b, |s, a, b| s.lane.b.ins().iadd(a, b)),
            Opcode::Sub => self.each2(&a, &b, |s, a, b| s.lane.b.ins().isub(a, b)),
            _ => {
                let product = bail!(self.product(inst, data, [&a, &b]));
                if data.opcode == Opcode::Mad {
                    let to = self.lane.b.func.dfg.value_type(product[0]);
                    let c = bail!(self.lanes_as(inst, 2, to)?);
                    self.each2(&product, &c, |s, a, b| s.lane.b.ins().iadd(a, b))
                } else {
                    product
                }
            }
        };
        self.define(inst, &lanes)
    }

    fn product(&mut self, inst: Inst, data: &InstData, [a, b]: [&Lanes; 2]) -> Option<Lanes> {
        let wide = data.ty.bits() == 32;
        if let Some((factor, power)) = doubled(self.lane.function, inst, data) {
            let signed = data.ty.is_signed();
            let factor = match data.mods.half() {
                Half::Lo => Some([a, b][factor].clone()),
                Half::Wide if wide => Some(self.extended([a, b][factor], signed)),
                _ => None,
            };
            if let Some(factor) = factor {
                let power = self.lane.b.ins().iconst(types::I32, i64::from(power));
                return Some(self.each1(&factor, |s, a| s.lane.b.ins().ishl(a, power)));
            }
        }
        match data.mods.half() {
            Half::Lo => Some(self.each2(a, b, |s, a, b| s.lane.b.ins().imul(a, b))),
            Half::Wide | Half::Hi if wide => {
                let signed = data.ty.is_signed();
                let (a, b) = (self.extended(a, signed), self.extended(b, signed));
                let wide = self.each2(&a, &b, |s, a, b| s.lane.b.ins().imul(a, b));
                Some(if data.mods.half() == Half::Wide {
                    wide
                } else {
                    wide.chunks(2)
                        .map(|pair| self.high_words(pair[0], pair[1]))
                        .collect()
                })
            }
            _ => None,
        }
    }

    /// Emits code that extends lanes of 32 bits to lanes of 64 bits.
    pub(super) fn extended(&mut self, lanes: &Lanes, signed: bool) -> Lanes {
        lanes
            .iter()
            .flat_map(|&four| {
                let b = &mut *self.lane.b;
                if signed {
                    let low = b.ins().swiden_low(four);
                    [low, b.ins().swiden_high(four)]
                } else {
                    let low = b.ins().uwiden_low(four);
                    [low, b.ins().uwiden_high(four)]
                }
            })
            .collect()
    }

    /// Returns a vector of the low words of the four 64-bit lanes in two vectors.
    pub(super) fn low_words(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.words(a, b, 0)
    }

    pub(super) fn high_words(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.words(a, b, 4)
    }

    pub(super) fn words(&mut self, a: ir::Value, b: ir::Value, first: u8) -> ir::Value {
        self.joined(a, b, [0, 8, 16, 24].map(|lane| lane + first), types::I32X4)
    }

    // Bits.

    /// Returns the vector type of a logic operation, and whether its operands are predicates.
    fn logic_type(ty: OpType) -> Option<(ir::Type, bool)> {
        match (ty.class(), ty.bits()) {
            (Class::Pred, _) => Some((types::I32X4, true)),
            (_, 32) => Some((types::I32X4, false)),
            (_, 64) => Some((types::I64X2, false)),
            _ => None,
        }
    }

    fn logic(&mut self, inst: Inst, data: &InstData) -> Tried {
        let (ty, pred) = bail!(Self::logic_type(data.ty));
        let take = |s: &mut Self, index: usize| -> Result<Option<Lanes>, EmitError> {
            if !pred {
                return s.lanes_as(inst, index, ty);
            }
            let value = bail!(s.operand(inst, index));
            Ok(Some(s.get(value)?))
        };
        let a = bail!(take(self, 0)?);
        let lanes = if data.opcode == Opcode::Not {
            self.each1(&a, |s, a| s.lane.b.ins().bnot(a))
        } else {
            let b = bail!(take(self, 1)?);
            self.each2(&a, &b, |s, a, b| match data.opcode {
                Opcode::And => s.lane.b.ins().band(a, b),
                Opcode::Or => s.lane.b.ins().bor(a, b),
                _ => s.lane.b.ins().bxor(a, b),
            })
        };
        self.define(inst, &lanes)
    }

    fn lop3(&mut self, inst: Inst, data: &InstData) -> Tried {
        let function = self.lane.function;
        if data.mods.bool_op() != BoolOp::None || function.dfg.results(inst).len() != 1 {
            return Ok(None);
        }
        let table = bail!(self.operand(inst, 3));
        let table = bail!(function.dfg.constant(table)) as u8;
        let a = bail!(self.lanes_as(inst, 0, types::I32X4)?);
        let b = bail!(self.lanes_as(inst, 1, types::I32X4)?);
        let c = bail!(self.lanes_as(inst, 2, types::I32X4)?);
        let (set, clear) = (table >> 4, table & 15);
        let lanes: Lanes = (0..a.len())
            .map(|i| {
                let (a, b, c) = (a[i], b[i], c[i]);
                if set == clear {
                    self.two(set, b, c)
                } else if set == clear ^ 15 {
                    let base = self.two(clear, b, c);
                    self.lane.b.ins().bxor(a, base)
                } else {
                    let (set, clear) = (self.two(set, b, c), self.two(clear, b, c));
                    self.lane.b.ins().bitselect(a, set, clear)
                }
            })
            .collect();
        self.define(inst, &lanes)
    }

    /// Emits the computation of the bitwise function of `b` and `c` whose truth table is `table`:
    /// bit `2b+c` of `table` is the result for `b` and `c`.
    fn two(&mut self, table: u8, b: ir::Value, c: ir::Value) -> ir::Value {
        let not = |s: &mut Self, a| s.lane.b.ins().bnot(a);
        if table & 8 != 0 && !matches!(table, 0x8 | 0xa | 0xc | 0xe) {
            let inverse = self.two(!table & 15, b, c);
            return not(self, inverse);
        }
        let ins = &mut *self.lane.b;
        match table {
            0x1 => {
                let any = ins.ins().bor(b, c);
                not(self, any)
            }
            0x2 => ins.ins().band_not(c, b),
            0x3 => not(self, b),
            0x4 => ins.ins().band_not(b, c),
            0x5 => not(self, c),
            0x6 => ins.ins().bxor(b, c),
            0x7 => {
                let both = ins.ins().band(b, c);
                not(self, both)
            }
            0x8 => ins.ins().band(b, c),
            0xa => c,
            0xc => b,
            0xe => ins.ins().bor(b, c),
            _ => self.constant(types::I32X4, 0),
        }
    }

    fn shift(&mut self, inst: Inst, data: &InstData) -> Tried {
        let (ty, pred) = bail!(Self::logic_type(data.ty));
        let amount = bail!(self.operand(inst, 1));
        if pred || !self.is_uniform(amount) || self.lane.function.dfg.ty(amount).lane_bytes() != 4 {
            return Ok(None);
        }
        let bits = ty.lane_bits();
        let a = bail!(self.lanes_as(inst, 0, ty)?);
        let by = self.lane.get(amount);
        let by = self.lane.as_int(by);
        let left = data.opcode == Opcode::Shl;
        let signed = !left && data.ty.is_signed();
        let known = self.lane.function.dfg.constant(amount).map(|n| n as u32);
        let below = known.is_some_and(|n| n < bits);
        let b = &mut *self.lane.b;
        let limit = b.ins().iconst(types::I32, i64::from(bits) - 1);
        let inside = if below { by } else { b.ins().umin(by, limit) };
        let lanes = self.each1(&a, |s, a| {
            let ins = s.lane.b.ins();
            match (left, signed) {
                (true, _) => ins.ishl(a, inside),
                (_, true) => ins.sshr(a, inside),
                _ => ins.ushr(a, inside),
            }
        });
        let lanes = if signed || below {
            lanes
        } else {
            // If the amount is at least the width, all bits are shifted out.
            let keeps = self
                .lane
                .b
                .ins()
                .icmp(IntCC::UnsignedLessThanOrEqual, by, limit);
            let keeps = self.widened(keeps, Kind::Pred);
            let keeps = if bits == 64 {
                self.lane.b.ins().sextend(types::I64, keeps)
            } else {
                keeps
            };
            let keeps = self.lane.b.ins().splat(ty, keeps);
            self.each1(&lanes, |s, a| s.lane.b.ins().band(a, keeps))
        };
        self.define(inst, &lanes)
    }

    fn funnel(&mut self, inst: Inst, data: &InstData) -> Tried {
        let amount = bail!(self.operand(inst, 2));
        let by = bail!(self.lane.function.dfg.constant(amount)) as u32;
        let by = if data.mods.flag() {
            by & 31
        } else {
            by.min(32)
        };
        let low = bail!(self.lanes_as(inst, 0, types::I32X4)?);
        let high = bail!(self.lanes_as(inst, 1, types::I32X4)?);
        // The result consists of the low bits of `high`, shifted left, and the high bits of `low`, shifted right.
        let left = match data.mods.mode() {
            Mode::Left => true,
            Mode::Right => false,
            _ => return Ok(None),
        };
        let lanes = match (left, by) {
            (true, 0) | (false, 32) => high,
            (false, 0) | (true, 32) => low,
            _ => {
                let up = if left { by } else { 32 - by };
                let up = self.lane.int(types::I32, u64::from(up));
                let down = if left { 32 - by } else { by };
                let down = self.lane.int(types::I32, u64::from(down));
                self.each2(&low, &high, |s, low, high| {
                    let above = s.lane.b.ins().ishl(high, up);
                    let below = s.lane.b.ins().ushr(low, down);
                    s.lane.b.ins().bor(above, below)
                })
            }
        };
        self.define(inst, &lanes)
    }

    // Comparison and selection.

    /// Emits the comparison of the first two operands of `inst`, and returns the result as a mask.
    pub(super) fn compare(
        &mut self,
        inst: Inst,
        data: &InstData,
        ty: OpType,
    ) -> Result<Option<Lanes>, EmitError> {
        let cmp = data.mods.cmp();
        if let Some(vector) = float_vector(ty) {
            let how = (vector, data.mods.ftz());
            let condition = bail!(float_condition(cmp));
            let a = bail!(self.float_operand(inst, 0, how)?);
            let b = bail!(self.float_operand(inst, 1, how)?);
            let mask = self.each2(&a, &b, |s, a, b| s.float_compare(condition, a, b));
            return Ok(Some(self.narrow_mask(mask)));
        }
        let signed = ty.class() == Class::Signed;
        let condition = bail!(integer_condition(cmp, signed));
        let narrow = ty.is_integer() && ty.elements() == 1 && ty.bits() == 16;
        let (a, b) = if narrow {
            let mut pair = Vec::new();
            for index in 0..2 {
                let value = bail!(self.operand(inst, index));
                if self.lane.function.dfg.ty(value).kind() != Kind::B16 {
                    return Ok(None);
                }
                let lanes = self.get(value)?;
                pair.push(if signed {
                    self.sign_extended(&lanes, 16)
                } else {
                    lanes
                });
            }
            (pair[0].clone(), pair[1].clone())
        } else {
            let vector = bail!(integer_vector(ty));
            let a = bail!(self.lanes_as(inst, 0, vector)?);
            let b = bail!(self.lanes_as(inst, 1, vector)?);
            (a, b)
        };
        let wide = self.lane.b.func.dfg.value_type(a[0]) == types::I64X2;
        let mask = self.each2(&a, &b, |s, a, b| {
            let orders = !matches!(condition, IntCC::Equal | IntCC::NotEqual);
            if wide && orders && !signed {
                let (a, b) = s.biased(a, b);
                let condition = signed_order(condition);
                return s.lane.b.ins().icmp(condition, a, b);
            }
            s.lane.b.ins().icmp(condition, a, b)
        });
        Ok(Some(self.narrow_mask(mask)))
    }

    /// Emits a floating-point comparison. Cranelift does not support all floating-point comparisons
    /// for vectors, so this function composes the unsupported comparisons of supported ones.
    fn float_compare(&mut self, condition: FloatCC, a: ir::Value, b: ir::Value) -> ir::Value {
        let ins = &mut *self.lane.b;
        match condition {
            FloatCC::OrderedNotEqual => {
                let less = ins.ins().fcmp(FloatCC::LessThan, a, b);
                let more = ins.ins().fcmp(FloatCC::GreaterThan, a, b);
                ins.ins().bor(less, more)
            }
            FloatCC::UnorderedOrEqual => {
                let equal = ins.ins().fcmp(FloatCC::Equal, a, b);
                let nan = ins.ins().fcmp(FloatCC::Unordered, a, b);
                ins.ins().bor(equal, nan)
            }
            condition => ins.ins().fcmp(condition, a, b),
        }
    }

    /// Emits code that sign-extends the low `bits` bits of each lane to 32 bits.
    pub(super) fn sign_extended(&mut self, lanes: &Lanes, bits: u32) -> Lanes {
        let by = self.lane.int(types::I32, u64::from(32 - bits));
        self.each1(lanes, |s, a| {
            let up = s.lane.b.ins().ishl(a, by);
            s.lane.b.ins().sshr(up, by)
        })
    }

    fn combined(
        &mut self,
        inst: Inst,
        op: BoolOp,
        truth: &Lanes,
    ) -> Result<Option<Lanes>, EmitError> {
        if op == BoolOp::None {
            return Ok(Some(truth.clone()));
        }
        let other = bail!(self.operand(inst, 2));
        let other = self.get(other)?;
        Ok(Some(self.each2(truth, &other, |s, a, b| match op {
            BoolOp::And => s.lane.b.ins().band(a, b),
            BoolOp::Or => s.lane.b.ins().bor(a, b),
            _ => s.lane.b.ins().bxor(a, b),
        })))
    }

    fn setp(&mut self, inst: Inst, data: &InstData) -> Tried {
        let ty = if data.src == OpType::None {
            data.ty
        } else {
            data.src
        };
        let truth = bail!(self.compare(inst, data, ty)?);
        let results = self.lane.function.dfg.results(inst).to_vec();
        for (i, value) in results.into_iter().enumerate() {
            let this = if i == 0 {
                truth.clone()
            } else {
                self.each1(&truth, |s, a| s.lane.b.ins().bnot(a))
            };
            let lanes = bail!(self.combined(inst, data.mods.bool_op(), &this)?);
            self.set(value, &lanes)?;
        }
        Ok(Some(()))
    }

    fn set_op(&mut self, inst: Inst, data: &InstData) -> Tried {
        let yes = match data.ty {
            OpType::U32 | OpType::S32 | OpType::B32 => u64::from(u32::MAX),
            OpType::F32 => u64::from(1.0f32.to_bits()),
            _ => return Ok(None),
        };
        let truth = bail!(self.compare(inst, data, data.src)?);
        let truth = bail!(self.combined(inst, data.mods.bool_op(), &truth)?);
        let yes = self.constant(types::I32X4, yes);
        let lanes = self.each1(&truth, |s, a| s.lane.b.ins().band(a, yes));
        self.define(inst, &lanes)
    }

    fn selp(&mut self, inst: Inst) -> Tried {
        let function = self.lane.function;
        let result = bail!(function.dfg.results(inst).first().copied());
        let (a, b, p) = (
            bail!(self.operand(inst, 0)),
            bail!(self.operand(inst, 1)),
            bail!(self.operand(inst, 2)),
        );
        let kind = |value: Value| function.dfg.ty(value).kind();
        if kind(a) != kind(result) || kind(b) != kind(result) {
            return Ok(None);
        }
        let (a, b, p) = (self.get(a)?, self.get(b)?, self.get(p)?);
        let lanes = self.blend(&p, &a, &b);
        self.set(result, &lanes)?;
        Ok(Some(()))
    }

    // Parts of registers.

    fn pack(&mut self, inst: Inst, data: &InstData) -> Tried {
        let function = self.lane.function;
        if function.dfg.args(inst).len() == 2 && data.src.bits() == 16 {
            return self.pack_halves(inst);
        }
        if function.dfg.args(inst).len() != 2 || data.src.bits() != 32 {
            return Ok(None);
        }
        let low = bail!(self.lanes_as(inst, 0, types::I32X4)?);
        let high = bail!(self.lanes_as(inst, 1, types::I32X4)?);
        let lanes: Lanes = low
            .iter()
            .zip(&high)
            .flat_map(|(&low, &high)| {
                let wide = types::I64X2;
                [[0, 16, 4, 20], [8, 24, 12, 28]].map(|first| self.joined(low, high, first, wide))
            })
            .collect();
        self.define(inst, &lanes)
    }

    fn unpack(&mut self, inst: Inst, data: &InstData) -> Tried {
        let results = self.lane.function.dfg.results(inst).to_vec();
        if results.len() == 2 && data.ty.bits() == 16 {
            return self.unpack_halves(inst);
        }
        if results.len() != 2 || data.ty.bits() != 32 {
            return Ok(None);
        }
        let whole = bail!(self.lanes_as(inst, 0, types::I64X2)?);
        for (first, value) in [0, 4].into_iter().zip(results) {
            let ty = vector_type(self.lane.function.dfg.ty(value))?;
            if ty.lane_bits() != 32 {
                return Ok(None);
            }
            let lanes: Lanes = whole
                .chunks(2)
                .map(|pair| self.words(pair[0], pair[1], first))
                .collect();
            let lanes = self.cast(&lanes, ty);
            self.set(value, &lanes)?;
        }
        Ok(Some(()))
    }
}

fn signed_order(condition: IntCC) -> IntCC {
    match condition {
        IntCC::UnsignedLessThan => IntCC::SignedLessThan,
        IntCC::UnsignedLessThanOrEqual => IntCC::SignedLessThanOrEqual,
        IntCC::UnsignedGreaterThan => IntCC::SignedGreaterThan,
        IntCC::UnsignedGreaterThanOrEqual => IntCC::SignedGreaterThanOrEqual,
        other => other,
    }
}

impl Slice<'_, '_> {
    /// Returns the vectors of a chunk in which every lane is `word`.
    pub(super) fn splat_word(&mut self, word: ir::Value) -> Lanes {
        let splat = self.lane.b.ins().splat(types::I32X4, word);
        smallvec![splat; self.count(types::I32X4)]
    }
}
