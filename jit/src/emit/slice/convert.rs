//! Emits conversions between integers and floating-point numbers on whole vectors.
//!
//! Each function follows the scalar lowering of the same name in [`crate::emit::fast`], which documents the special
//! cases.

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::mods::Rounding;
use margay_ops::types::{Kind, OpType};

use super::ops::{Tried, bail, float_vector, int_of};
use super::{Lanes, Slice};
use crate::emit::lane::EmitError;

impl Slice<'_, '_> {
    pub(super) fn convert(&mut self, inst: Inst, data: &InstData) -> Tried {
        let mods = data.mods;
        if mods.relu() || mods.satfinite() || mods.sat() && !data.ty.is_float() {
            return Ok(None);
        }
        match (data.ty.is_integer(), data.src.is_integer()) {
            (true, true) => self.int_to_int(inst, data),
            (false, true) => self.int_to_float(inst, data),
            (true, false) => self.float_to_int(inst, data),
            (false, false) => self.float_to_float(inst, data),
        }
    }

    /// Returns the low bits of the source as integers of 32 bits, or of 64 bits if the source has 64 bits.
    pub(super) fn source(
        &mut self,
        inst: Inst,
        data: &InstData,
    ) -> Result<Option<Lanes>, EmitError> {
        if data.src.elements() != 1 {
            return Ok(None);
        }
        let value = bail!(self.operand(inst, 0));
        let kind = self.lane.function.dfg.ty(value).kind();
        let bits = data.src.bits();
        let held = self.lane.function.dfg.ty(value).lane_bytes() * 8;
        if kind == Kind::Pred || held < bits {
            return Ok(None);
        }
        let lanes = self.get(value)?;
        let vector = self.lane.b.func.dfg.value_type(lanes[0]);
        let lanes = self.cast(&lanes, int_of(vector));
        if bits == 64 {
            return Ok(Some(lanes));
        }
        let lanes = self.narrow_mask(lanes);
        Ok(Some(match (bits, data.src.is_signed()) {
            (32, _) => lanes,
            (_, true) => self.sign_extended(&lanes, bits),
            _ => {
                let mask = self.constant(types::I32X4, (1 << bits) - 1);
                self.each1(&lanes, |s, a| s.lane.b.ins().band(a, mask))
            }
        }))
    }

    pub(super) fn int_to_int(&mut self, inst: Inst, data: &InstData) -> Tried {
        if data.ty.elements() != 1 {
            return Ok(None);
        }
        let result = bail!(self.lane.function.dfg.results(inst).first().copied());
        let kind = self.lane.function.dfg.ty(result).kind();
        let held = self.lane.function.dfg.ty(result).lane_bytes() * 8;
        let bits = data.ty.bits();
        if kind == Kind::Pred || bits > held {
            return Ok(None);
        }
        let lanes = bail!(self.source(inst, data)?);
        let wide = self.lane.b.func.dfg.value_type(lanes[0]) == types::I64X2;
        let signed = data.ty.is_signed();
        // Converts the lanes to the destination's type, in elements of 64 bits if this type has 64 bits, otherwise of
        // 32 bits.
        let lanes = match (wide, bits) {
            (true, 64) => lanes,
            (false, 64) => self.extended(&lanes, data.src.is_signed()),
            (_, 32) => self.narrow_mask(lanes),
            _ => {
                let low = self.narrow_mask(lanes);
                if signed {
                    self.sign_extended(&low, bits)
                } else {
                    let mask = self.constant(types::I32X4, (1 << bits) - 1);
                    self.each1(&low, |s, a| s.lane.b.ins().band(a, mask))
                }
            }
        };
        let wide = self.lane.b.func.dfg.value_type(lanes[0]) == types::I64X2;
        let lanes = match held {
            64 if !wide => self.extended(&lanes, signed),
            8 | 16 => lanes
                .iter()
                .map(|&four| self.narrowed(four, kind))
                .collect(),
            _ => lanes,
        };
        self.define(inst, &lanes)
    }

    pub(super) fn int_to_float(&mut self, inst: Inst, data: &InstData) -> Tried {
        let to = bail!(float_vector(data.ty));
        let digits = if to == types::F64X2 { 53 } else { 24 };
        let exact = data.src.bits() <= digits;
        if data.mods.rounding() != Rounding::Rn && !exact || data.mods.sat() {
            return Ok(None);
        }
        // Conversions of unsigned 32-bit integers to f64 are not supported here, because they need more than one
        // instruction.
        let signed = data.src.is_signed() || data.src.bits() < 32;
        if data.src.bits() == 64 || to == types::F64X2 && !signed {
            return Ok(None);
        }
        let lanes = bail!(self.source(inst, data)?);
        let lanes: Lanes = if to == types::F32X4 {
            self.each1(&lanes, |s, a| {
                let ins = s.lane.b.ins();
                if signed {
                    ins.fcvt_from_sint(to, a)
                } else {
                    ins.fcvt_from_uint(to, a)
                }
            })
        } else {
            let wide = self.extended(&lanes, true);
            self.each1(&wide, |s, a| s.lane.b.ins().fcvt_from_sint(to, a))
        };
        self.define(inst, &lanes)
    }

    pub(super) fn integral(&mut self, rounding: Rounding, lanes: &Lanes) -> Option<Lanes> {
        if !matches!(
            rounding,
            Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi
        ) {
            return None;
        }
        Some(self.each1(lanes, |s, a| {
            let ins = s.lane.b.ins();
            match rounding {
                Rounding::Rni => ins.nearest(a),
                Rounding::Rzi => ins.trunc(a),
                Rounding::Rmi => ins.floor(a),
                _ => ins.ceil(a),
            }
        }))
    }

    pub(super) fn float_to_int(&mut self, inst: Inst, data: &InstData) -> Tried {
        if data.src != OpType::F32 || data.ty.elements() != 1 || data.ty.bits() != 32 {
            return Ok(None);
        }
        let result = bail!(self.lane.function.dfg.results(inst).first().copied());
        if self.lane.function.dfg.ty(result).lane_bytes() != 4 {
            return Ok(None);
        }
        let lanes = bail!(self.float_operand(inst, 0, (types::F32X4, data.mods.ftz()))?);
        let lanes = match data.mods.rounding() {
            Rounding::Rzi => lanes,
            rounding => bail!(self.integral(rounding, &lanes)),
        };
        let signed = data.ty.is_signed();
        let lanes = self.each1(&lanes, |s, a| {
            let ins = s.lane.b.ins();
            if signed {
                ins.fcvt_to_sint_sat(types::I32X4, a)
            } else {
                ins.fcvt_to_uint_sat(types::I32X4, a)
            }
        });
        self.define(inst, &lanes)
    }

    pub(super) fn float_to_float(&mut self, inst: Inst, data: &InstData) -> Tried {
        let to = bail!(float_vector(data.ty));
        let from = bail!(float_vector(data.src));
        let ftz = data.mods.ftz();
        let a = bail!(self.float_operand(inst, 0, (from, ftz))?);
        let lanes = match (from == to, from == types::F32X4) {
            (true, _) => match data.mods.rounding() {
                Rounding::None => a,
                rounding => bail!(self.integral(rounding, &a)),
            },
            (_, true) if data.mods.rounding() == Rounding::None => a
                .iter()
                .flat_map(|&four| {
                    let high = self.upper_half(four);
                    let b = &mut *self.lane.b;
                    let low = b.ins().fvpromote_low(four);
                    [low, b.ins().fvpromote_low(high)]
                })
                .collect(),
            (_, false) if data.mods.rounding() == Rounding::Rn => {
                let narrow: Lanes = a
                    .chunks(2)
                    .map(|pair| {
                        let b = &mut *self.lane.b;
                        let (low, high) = (b.ins().fvdemote(pair[0]), b.ins().fvdemote(pair[1]));
                        self.lower_halves(low, high)
                    })
                    .collect();
                if ftz {
                    self.each1(&narrow, |s, a| s.flush(a))
                } else {
                    narrow
                }
            }
            _ => return Ok(None),
        };
        let lanes = if data.mods.sat() {
            self.saturate(to, &lanes)
        } else {
            lanes
        };
        self.define(inst, &lanes)
    }

    pub(super) fn halves(&mut self, a: ir::Value, b: ir::Value, first: [u8; 2]) -> ir::Value {
        let ty = self.lane.b.func.dfg.value_type(a);
        let [low, high] = first;
        self.joined(a, b, [low, low + 4, high, high + 4], ty)
    }

    pub(super) fn upper_half(&mut self, a: ir::Value) -> ir::Value {
        self.halves(a, a, [8, 8])
    }

    pub(super) fn lower_halves(&mut self, a: ir::Value, b: ir::Value) -> ir::Value {
        self.halves(a, b, [0, 16])
    }
}
