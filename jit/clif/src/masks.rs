//! Ops on masks.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::{Inst, Value};
use margay_ops::types::Kind;
use margay_vir::ops::Op;

use crate::group::{LANES, Registers, groups};
use crate::lower::Lower;

impl Lower<'_, '_> {
    /// Returns the bits of a mask as an integer of 64 bits.
    pub(crate) fn ballot(&mut self, mask: Value) -> ir::Value {
        let (registers, lanes) = (self.get(mask), self.ty(mask).lanes());
        self.bits_of(&registers, lanes)
    }

    /// Returns the lanes of a mask as the low bits of an integer of 64 bits.
    pub(crate) fn bits_of(&mut self, registers: &[ir::Value], lanes: u32) -> ir::Value {
        let b = &mut *self.code.b;
        if lanes == 1 {
            return b.ins().uextend(types::I64, registers[0]);
        }
        let mut whole: Option<ir::Value> = None;
        for (index, &register) in (0..).zip(registers) {
            let bits = b.ins().vhigh_bits(types::I64, register);
            let bits = match index {
                0 => bits,
                _ => b.ins().ishl_imm_u(bits, index * i64::from(LANES)),
            };
            whole = Some(match whole {
                Some(others) => b.ins().bor(others, bits),
                None => bits,
            });
        }
        let whole = whole.expect("a mask has lanes");
        match lanes < LANES {
            true => b.ins().band_imm_u(whole, (1 << lanes) - 1),
            false => whole,
        }
    }

    pub(crate) fn ballot_op(&mut self, inst: Inst) {
        let bits = self.ballot(self.function.args(inst)[0]);
        self.define(self.result(inst), [bits].as_slice());
    }

    pub(crate) fn mask_op(&mut self, inst: Inst) {
        let (bits, result) = (self.scalar(self.function.args(inst)[0]), self.result(inst));
        let registers = match self.ty(result).lanes() {
            1 => {
                let b = &mut *self.code.b;
                let byte = b.ins().ireduce(types::I8, bits);
                [b.ins().band_imm_u(byte, 1)].as_slice().into()
            }
            lanes => self.mask_of(bits, lanes),
        };
        self.define(result, registers);
    }

    /// Returns the mask whose lanes are the low bits of an integer of 64 bits.
    pub(crate) fn mask_of(&mut self, bits: ir::Value, lanes: u32) -> Registers {
        let each = self.code.vector_constant(types::I32, |lane| 1 << lane);
        (0..groups(lanes) as i64)
            .map(|index| {
                let b = &mut *self.code.b;
                let moved = b.ins().ushr_imm_u(bits, index * i64::from(LANES));
                let word = b.ins().ireduce(types::I32, moved);
                let splat = b.ins().splat(types::I32X4, word);
                let bit = b.ins().band(splat, each);
                b.ins().icmp(IntCC::Equal, bit, each)
            })
            .collect()
    }

    /// Combines the registers of a vector pair by pair.
    fn folded(&mut self, registers: &[ir::Value], is_and: bool) -> ir::Value {
        let mut rest: Registers = registers.into();
        while rest.len() > 1 {
            rest = rest
                .chunks(2)
                .map(|pair| match *pair {
                    [x, y] if is_and => self.code.b.ins().band(x, y),
                    [x, y] => self.code.b.ins().bor(x, y),
                    _ => pair[0],
                })
                .collect();
        }
        rest[0]
    }

    pub(crate) fn any_or_all(&mut self, inst: Inst) {
        let (mask, result) = (self.function.args(inst)[0], self.result(inst));
        let is_all = self.function.insts[inst].op == Op::All;
        let (registers, lanes) = (self.get(mask), self.ty(mask).lanes());
        let truth = match lanes {
            1 => registers[0],
            ..LANES => {
                let bits = self.bits_of(&registers, lanes);
                let (condition, with) = match is_all {
                    true => (IntCC::Equal, (1 << lanes) - 1),
                    false => (IntCC::NotEqual, 0),
                };
                self.code.b.ins().icmp_imm_s(condition, bits, with)
            }
            _ => {
                let folded = self.folded(&registers, is_all);
                match is_all {
                    true => self.code.b.ins().vall_true(folded),
                    false => self.code.b.ins().vany_true(folded),
                }
            }
        };
        self.define(result, [truth].as_slice());
    }

    pub(crate) fn count(&mut self, inst: Inst) {
        let bits = self.ballot(self.function.args(inst)[0]);
        let b = &mut *self.code.b;
        let count = b.ins().popcnt(bits);
        let count = b.ins().ireduce(types::I32, count);
        self.define(self.result(inst), [count].as_slice());
    }

    pub(crate) fn first(&mut self, inst: Inst) {
        let mask = self.function.args(inst)[0];
        let (lanes, mut bits) = (self.ty(mask).lanes(), self.ballot(mask));
        let b = &mut *self.code.b;
        if lanes < 64 {
            // If no lane is true, this bit is the lowest; `ctz` of zero is 64.
            let end = b.ins().iconst(types::I64, 1 << lanes);
            bits = b.ins().bor(bits, end);
        }
        let first = b.ins().ctz(bits);
        let first = b.ins().ireduce(types::I32, first);
        debug_assert_eq!(self.kind(self.result(inst)), Kind::B32);
        self.define(self.result(inst), [first].as_slice());
    }
}
