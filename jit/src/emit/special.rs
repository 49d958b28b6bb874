//! Special registers and clocks.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::payload_sreg;
use margay_ops::sreg::{SpecialReg, Uniformity};

use super::clif_type;
use super::lane::{EmitError, Lane, fixed};
use crate::abi::{Helpers, NativeContext};

impl Lane<'_, '_> {
    pub(crate) fn special_register(&mut self, inst: Inst, payload: u64) -> Result<(), EmitError> {
        let register = payload_sreg(payload)
            .ok_or_else(|| EmitError::Unsupported(format!("special register {payload}")))?;
        let bits = self.read_register(register, payload);
        let Some(&value) = self.function.dfg.results(inst).first() else {
            return Ok(());
        };
        let to = clif_type(self.function.dfg.ty(value));
        let from = self.b.func.dfg.value_type(bits);
        let bits = if to.bits() < from.bits() {
            self.b.ins().ireduce(to, bits)
        } else if to.bits() > from.bits() {
            self.b.ins().uextend(to, bits)
        } else {
            bits
        };
        self.set(value, bits);
        Ok(())
    }

    fn read_register(&mut self, register: SpecialReg, payload: u64) -> ir::Value {
        use SpecialReg as R;
        let axis = |first: SpecialReg| register as usize - first as usize;
        if let (R::TidX, Some(tid_x)) = (register, self.tid_x) {
            return tid_x;
        }
        match register {
            R::TidX | R::TidY | R::TidZ => {
                let table = self.field(types::I64, offset_of!(NativeContext, tid));
                let thread = self.b.ins().uextend(types::I64, self.here.thread);
                let offset = self.b.ins().ishl_imm_u(thread, 4);
                let at = self.b.ins().iadd(table, offset);
                self.b
                    .ins()
                    .load(types::I32, fixed(), at, 4 * axis(R::TidX) as i32)
            }
            R::NtidX | R::NtidY | R::NtidZ => self.field(
                types::I32,
                offset_of!(NativeContext, ntid) + 4 * axis(R::NtidX),
            ),
            R::NctaidX | R::NctaidY | R::NctaidZ => self.field(
                types::I32,
                offset_of!(NativeContext, nctaid) + 4 * axis(R::NctaidX),
            ),
            R::CtaidX | R::CtaidY | R::CtaidZ => match self.fixed.ctaid {
                Some(ctaid) => ctaid[axis(R::CtaidX)],
                None => self.field(
                    types::I32,
                    offset_of!(NativeContext, ctaid) + 4 * axis(R::CtaidX),
                ),
            },
            R::Laneid => self.b.ins().band_imm_u(self.here.thread, 31),
            R::Warpid => self.b.ins().ushr_imm_u(self.here.thread, 5),
            R::Nwarpid => self.field(types::I32, offset_of!(NativeContext, sm_warps)),
            R::LanemaskEq | R::LanemaskLt | R::LanemaskLe | R::LanemaskGe | R::LanemaskGt => {
                self.lane_mask(register)
            }
            _ => self.host_register(register, payload),
        }
    }

    fn lane_mask(&mut self, register: SpecialReg) -> ir::Value {
        let lane = self.b.ins().band_imm_u(self.here.thread, 31);
        let one = self.b.ins().iconst(types::I32, 1);
        let bit = self.b.ins().ishl(one, lane);
        let below = self.b.ins().iadd_imm_s(bit, -1);
        match register {
            SpecialReg::LanemaskEq => bit,
            SpecialReg::LanemaskLt => below,
            SpecialReg::LanemaskLe => self.b.ins().bor(below, bit),
            SpecialReg::LanemaskGe => self.b.ins().bnot(below),
            _ => {
                let upto = self.b.ins().bor(below, bit);
                self.b.ins().bnot(upto)
            }
        }
    }

    fn host_register(&mut self, register: SpecialReg, payload: u64) -> ir::Value {
        debug_assert!(register.uniformity() >= Uniformity::Varying);
        let which = self.b.ins().iconst(types::I32, payload as i64);
        let args = [self.fixed.ctx, which];
        self.helper(
            "special",
            offset_of!(Helpers, special),
            &args,
            Some(types::I64),
        )
        .unwrap_or(self.fixed.ctx)
    }

    pub(crate) fn clock(&mut self, inst: Inst, payload: u64) {
        let which = self.b.ins().iconst(types::I32, payload as i64);
        let args = [self.fixed.ctx, which];
        if let Some(now) = self.helper("clock", offset_of!(Helpers, clock), &args, Some(types::I64))
        {
            self.result_of_width(inst, now);
        }
    }
}
