//! Constants: in registers, or as memory operands.
//!
//! A constant is put into a register at its first use in a block, and stays available in this block only. So constants
//! do not occupy registers across the function.

use margay_ops::types::Type;
use regalloc2::{RegClass, VReg};

use super::{Regs, Selector, one};
use crate::asm::{Op, Width};
use crate::mach::{Action, Base, Inst, Mem};

/// Returns 64 bits that consist of copies of the low `bits` bits of `value`.
pub(crate) fn repeated(value: u64, bits: u32) -> u64 {
    match bits {
        8 => (value & 0xff) * 0x0101_0101_0101_0101,
        16 => (value & 0xffff) * 0x0001_0001_0001_0001,
        32 => (value & 0xffff_ffff) * 0x0000_0001_0000_0001,
        _ => value,
    }
}

impl Selector<'_> {
    fn cached(&mut self, class: RegClass, bits: u64, new: impl FnOnce(&mut Self) -> VReg) -> VReg {
        if let Some(&reg) = self.local.get(&(class, bits)) {
            return reg;
        }
        let reg = new(self);
        self.local.insert((class, bits), reg);
        reg
    }

    /// Returns a general register that contains a constant.
    pub(crate) fn imm(&mut self, bits: u64) -> VReg {
        self.cached(RegClass::Int, bits, |s| {
            s.result(
                RegClass::Int,
                Inst {
                    imm: Some(bits as i64),
                    ..Inst::of(Action::LoadConst, Width::W64)
                },
            )
        })
    }

    /// Returns the length of the widest vector registers in use.
    pub(crate) fn widest(&self) -> Width {
        match self.width {
            512 => Width::L512,
            _ => Width::L256,
        }
    }

    /// Returns a vector register all of whose elements of `bits` bits are equal to `value`.
    pub(crate) fn splat_constant(&mut self, value: u64, bits: u32) -> VReg {
        let pattern = repeated(value, bits);
        let len = self.widest();
        self.cached(RegClass::Float, pattern, |s| {
            if pattern == 0 {
                return s.result(RegClass::Float, Inst::of(Action::Zero, Width::L128));
            }
            let (op, mem) = match pattern == repeated(pattern, 32) {
                true => (Op::Vpbroadcastd, s.pool(&(pattern as u32).to_le_bytes())),
                false => (Op::Vpbroadcastq, s.pool(&pattern.to_le_bytes())),
            };
            s.v1(op, len, mem)
        })
    }

    /// Returns a memory operand for a constant of the pool.
    pub(crate) fn pool(&mut self, bytes: &[u8]) -> Mem {
        Mem::at(Base::Pool(self.pool.number(bytes)), 0)
    }

    /// Returns a vector register with these elements of `bits` bits, from the lowest on. They must be as many as fill a
    /// register of a possible length.
    pub(crate) fn vector_constant(
        &mut self,
        bits: u32,
        elements: impl Iterator<Item = u64>,
    ) -> VReg {
        let (mem, len) = self.vector_constant_memory(bits, elements);
        self.v1(Op::Vmovdqu64, len, mem)
    }

    /// As [`Selector::vector_constant`], in memory; also returns the length.
    pub(crate) fn vector_constant_memory(
        &mut self,
        bits: u32,
        elements: impl Iterator<Item = u64>,
    ) -> (Mem, Width) {
        let mut bytes: crate::pool::Bytes = Default::default();
        for element in elements {
            bytes.extend_from_slice(&element.to_le_bytes()[..bits as usize / 8]);
        }
        while bytes.len() < 16 {
            bytes.push(0);
        }
        let len = match bytes.len() {
            16 => Width::L128,
            32 => Width::L256,
            _ => Width::L512,
        };
        (self.pool(&bytes), len)
    }

    /// Returns a mask register that contains a constant.
    pub(crate) fn mask_constant(&mut self, bits: u64) -> VReg {
        if !self.has_masks() {
            return self.imm(bits);
        }
        self.cached(RegClass::Vector, bits, |s| {
            let from = s.imm(bits);
            s.mask_of_gpr(from)
        })
    }

    /// Returns the registers of a `b128` constant, a scalar or a vector.
    pub(crate) fn wide_constant(&mut self, ty: Type, bits: u64) -> Regs {
        if ty.lanes() == 1 {
            let (low, high) = (self.imm(bits), self.imm(0));
            return [low, high].into_iter().collect();
        }
        let count = (ty.lanes() * 128).div_ceil(self.width);
        let lanes = ty.lanes().min(self.width / 128);
        let elements = (0..2 * lanes).map(|n| if n % 2 == 0 { bits } else { 0 });
        let reg = self.vector_constant(64, elements);
        match count {
            1 => one(reg),
            _ => (0..count).map(|_| reg).collect(),
        }
    }
}
