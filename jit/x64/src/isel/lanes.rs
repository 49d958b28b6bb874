//! Operations that move lanes.

use margay_ops::types::{Kind, Type};
use regalloc2::{RegClass, VReg};

use super::prim::ADD;
use super::{Regs, Selector, Val, one};
use crate::asm::{Op, Width};
use crate::mach::{Base, Mem};

impl Selector<'_> {
    pub(crate) fn splat(&mut self) {
        let (val, ty) = (self.vals()[0].clone(), self.result_types()[0]);
        let regs = self.splat_of(&val, ty);
        self.define(0, regs);
    }

    /// Returns a vector whose lanes are all equal to a scalar.
    pub(crate) fn splat_of(&mut self, val: &Val, ty: Type) -> Regs {
        if ty.lanes() == 1 {
            return self.regs_of(val);
        }
        if ty.kind() == Kind::B128 {
            return self.wide_splat(val, ty);
        }
        let count = self.register_count(ty);
        let lanes = ty.lanes() / count;
        let piece = self.piece(val, lanes, 0);
        let reg = self.reg(&piece);
        (0..count).map(|_| reg).collect()
    }

    /// Returns the number of vector or mask registers of a vector.
    pub(crate) fn register_count(&self, ty: Type) -> u32 {
        match ty.kind() {
            Kind::Pred => 1,
            _ => (ty.lane_bits() * ty.lanes()).div_ceil(self.width),
        }
    }

    fn wide_splat(&mut self, val: &Val, ty: Type) -> Regs {
        let regs = self.regs_of(val);
        let low = self.vector_of_gpr(regs[0], 64);
        let high = self.vector_of_gpr(regs[1], 64);
        let lane = self.v2(Op::Vpunpcklqdq, Width::L128, low, high);
        let count = self.register_count(ty);
        let whole = match ty.lanes() * 128 / count {
            128 => lane,
            256 => self.v2i(Op::Vinserti32x4, Width::L256, lane, lane, 1),
            _ => {
                let half = self.v2i(Op::Vinserti32x4, Width::L256, lane, lane, 1);
                self.v2i(Op::Vinserti64x4, Width::L512, half, half, 1)
            }
        };
        (0..count).map(|_| whole).collect()
    }

    pub(crate) fn affine(&mut self, stride: u64) {
        let (val, ty) = (self.vals()[0].clone(), self.result_types()[0]);
        let bits = ty.lane_bits();
        if ty.lanes() == 1 {
            let regs = self.regs_of(&val);
            return self.define(0, regs);
        }
        let count = self.register_count(ty);
        let lanes = ty.lanes() / count;
        let base = self.piece(&val, lanes, 0);
        let base = self.reg(&base);
        let filled = lanes.max(128 / bits);
        let regs = (0..count)
            .map(|number| {
                let first = u64::from(number * lanes);
                let steps = (0..u64::from(filled)).map(|n| stride.wrapping_mul(first + n));
                let steps = self.vector_constant_memory(bits, steps).0;
                self.by_width(&ADD, bits, lanes, base, steps)
            })
            .collect();
        self.define(0, regs);
    }

    pub(crate) fn extract(&mut self, lane: u32) {
        let val = self.vals()[0].clone();
        let ty = val.ty;
        if ty.lanes() == 1 || val.bits.is_some() {
            let scalar = Val {
                ty: Type::scalar(ty.kind()),
                ..val
            };
            let regs = self.regs_of(&scalar);
            return self.define(0, regs);
        }
        let regs = self.lane_of(&val, lane);
        self.define(0, regs);
    }

    /// Returns a lane of a vector as a scalar.
    pub(crate) fn lane_of(&mut self, val: &Val, lane: u32) -> Regs {
        let ty = val.ty;
        match ty.kind() {
            Kind::Pred => {
                let bits = self.gpr_of_mask(val.regs[0]);
                let moved = match lane {
                    0 => bits,
                    _ => self.g2i(Op::Shr, Width::W64, bits, lane.into()),
                };
                one(self.g2i(Op::And, Width::W32, moved, 1))
            }
            Kind::B128 => {
                let part = self.part(&val.regs, 128, lane);
                let low = self.gpr_of_vector(part, 64);
                let high = self.v1i(Op::Vpshufd, Width::L128, part, 0b1110);
                let high = self.gpr_of_vector(high, 64);
                [low, high].into_iter().collect()
            }
            Kind::F32 | Kind::F64 => one(self.part(&val.regs, ty.lane_bits(), lane)),
            _ => {
                let part = self.part(&val.regs, ty.lane_bits(), lane);
                one(self.gpr_of_vector(part, ty.lane_bits()))
            }
        }
    }

    pub(crate) fn insert(&mut self, lane: u32) {
        let vals = self.vals();
        let ty = vals[0].ty;
        if ty.lanes() == 1 {
            let regs = self.regs_of(&vals[1]);
            return self.define(0, regs);
        }
        let mut regs = self.regs_of(&vals[0]);
        match ty.kind() {
            Kind::Pred => {
                let bits = self.gpr_of_mask(regs[0]);
                let others = self.g2i(Op::Btr, Width::W64, bits, lane.into());
                let new = self.gpr(&vals[1]);
                let new = match lane {
                    0 => new,
                    _ => self.g2i(Op::Shl, Width::W64, new, lane.into()),
                };
                let whole = self.g2(Op::Or, Width::W64, others, new);
                regs[0] = self.mask_of_gpr(whole);
            }
            Kind::B128 => {
                let parts = self.regs_of(&vals[1]);
                for (half, part) in (0..).zip(parts) {
                    self.insert_lane(&mut regs, 64, 2 * lane + half, part);
                }
            }
            kind => {
                let new = self.regs_of(&vals[1])[0];
                self.insert_lane(&mut regs, kind.bits(), lane, new);
            }
        }
        self.define(0, regs);
    }

    /// Replaces a lane of registers by the scalar in a general or a vector register.
    fn insert_lane(&mut self, regs: &mut Regs, bits: u32, lane: u32, new: VReg) {
        let per = self.width / bits;
        let (number, lane) = ((lane / per) as usize, lane % per);
        if !self.has_masks() {
            let scalar = Type::scalar(match new.class() {
                RegClass::Int => bits_kind(bits),
                _ if bits == 32 => Kind::F32,
                _ => Kind::F64,
            });
            let all = self.avx2_broadcast(&Val::new(scalar, one(new)));
            let own = (0..u64::from(per)).map(|n| if n == u64::from(lane) { u64::MAX } else { 0 });
            let own = self.vector_constant(bits, own);
            self.mask_widths.insert(own, bits);
            regs[number] = self.avx2_select(own, bits, per, all, regs[number]);
            return;
        }
        let op = match (new.class(), bits) {
            (RegClass::Int, 8) => Op::VpbroadcastbFromGpr,
            (RegClass::Int, 16) => Op::VpbroadcastwFromGpr,
            (RegClass::Int, 32) => Op::VpbroadcastdFromGpr,
            (RegClass::Int, _) => Op::VpbroadcastqFromGpr,
            (_, 32) => Op::Vpbroadcastd,
            _ => Op::Vpbroadcastq,
        };
        let mask = self.mask_constant(1 << lane);
        let len = self.widest();
        regs[number] = self.masked1(op, len, mask, Some(regs[number]), new);
    }

    pub(crate) fn half(&mut self, number: u32) {
        let (val, ty) = (self.vals()[0].clone(), self.result_types()[0]);
        let half = self.half_of(&val, ty, number);
        let regs = self.regs_of(&half);
        self.define(0, regs);
    }

    /// Returns the lower or the upper half of a vector; `ty` is the type of the half.
    pub(crate) fn half_of(&mut self, val: &Val, ty: Type, number: u32) -> Val {
        if val.bits.is_some() {
            return Val { ty, ..val.clone() };
        }
        if ty.lanes() == 1 {
            return Val::new(ty, self.lane_of(val, number));
        }
        if ty.kind() == Kind::Pred {
            let lanes = ty.lanes();
            let part = self.mask_part(val.regs[0], 2 * lanes, lanes, number);
            let mask = match number {
                1 => part,
                // The bits beyond the lanes must be zero.
                _ => {
                    let known = self.mask_constant(u64::MAX >> (64 - lanes));
                    self.mask_and(part, known)
                }
            };
            return Val::new(ty, one(mask));
        }
        let bits = ty.lane_bits() * ty.lanes();
        let regs = match bits >= self.width {
            true => {
                let half = val.regs.len() / 2;
                val.regs[half * number as usize..][..half].into()
            }
            false => one(self.part(&val.regs, bits, number)),
        };
        Val::new(ty, regs)
    }

    pub(crate) fn join(&mut self) {
        let (vals, ty) = (self.vals(), self.result_types()[0]);
        let regs = self.join_of(&vals[0], &vals[1], ty);
        self.define(0, regs);
    }

    pub(super) fn join_of(&mut self, low: &Val, high: &Val, ty: Type) -> Regs {
        let lanes = ty.lanes() / 2;
        if low.ty.kind() == Kind::B128 {
            return self.wide_join(low, high, ty);
        }
        let bits = ty.lane_bits();
        if lanes * bits >= self.width && ty.kind() != Kind::Pred {
            let (low, high) = (self.regs_of(low), self.regs_of(high));
            return low.into_iter().chain(high).collect();
        }
        let pieces = [low, high].map(|val| {
            let piece = self.piece(val, lanes, 0);
            self.reg(&piece)
        });
        self.joined(ty, lanes, &pieces)
    }

    fn wide_join(&mut self, low: &Val, high: &Val, ty: Type) -> Regs {
        let lanes = ty.lanes() / 2;
        let mut both = [low, high].map(|val| self.regs_of(val));
        if lanes == 1 {
            for regs in &mut both {
                let ends = [0, 1].map(|n| self.vector_of_gpr(regs[n], 64));
                *regs = one(self.v2(Op::Vpunpcklqdq, Width::L128, ends[0], ends[1]));
            }
        }
        let [low, high] = both;
        if lanes * 128 >= self.width {
            return low.into_iter().chain(high).collect();
        }
        self.joined(ty, lanes, &[low[0], high[0]])
    }

    /// Returns the address of a slot.
    pub(crate) fn slot_address(&mut self, number: u32) {
        let address = self.address_of(Mem::at(Base::Slot(number), 0));
        self.define(0, one(address));
    }
}

/// Returns the integer kind with a number of bits.
pub(crate) fn bits_kind(bits: u32) -> Kind {
    match bits {
        8 => Kind::B8,
        16 => Kind::B16,
        32 => Kind::B32,
        64 => Kind::B64,
        _ => Kind::B128,
    }
}
