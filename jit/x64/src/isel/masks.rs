//! Masks.

use margay_ops::ops::Opcode;
use margay_vir::ops::Op as VirOp;
use regalloc2::{RegClass, VReg};
use smallvec::smallvec;

use super::map::{Out, Task};
use super::pieces::Piece;
use super::scalar::general;
use super::{Selector, Val, one};
use crate::asm::{Cond, Op, Width};

/// Returns the width of mask instructions on exactly `lanes` lanes, if there is one.
fn exact(lanes: u32) -> Option<Width> {
    match lanes {
        8 => Some(Width::W8),
        16 => Some(Width::W16),
        32 => Some(Width::W32),
        64 => Some(Width::W64),
        _ => None,
    }
}

impl Selector<'_> {
    /// Combines masks in mask registers, in vector registers, or in general registers.
    fn of_class(&mut self, [mask, vector, general]: [Op; 3], a: VReg, b: VReg) -> VReg {
        match a.class() {
            RegClass::Int => self.g2(general, Width::W64, a, b),
            RegClass::Vector => self.kk(mask, a, b),
            RegClass::Float => {
                let combined = self.v2(vector, Width::L256, a, b);
                if let Some(&bits) = self.mask_widths.get(&a) {
                    self.mask_widths.insert(combined, bits);
                }
                combined
            }
        }
    }

    pub(crate) fn mask_and(&mut self, a: VReg, b: VReg) -> VReg {
        self.of_class([Op::Kand, Op::Vpandd, Op::And], a, b)
    }

    pub(crate) fn mask_or(&mut self, a: VReg, b: VReg) -> VReg {
        self.of_class([Op::Kor, Op::Vpord, Op::Or], a, b)
    }

    pub(crate) fn mask_xor(&mut self, a: VReg, b: VReg) -> VReg {
        self.of_class([Op::Kxor, Op::Vpxord, Op::Xor], a, b)
    }

    /// Returns the lanes of `b` that `a` does not contain.
    pub(crate) fn mask_without(&mut self, a: VReg, b: VReg) -> VReg {
        match a.class() {
            RegClass::Int => self.g3(Op::Andn, Width::W64, a, b),
            RegClass::Float => self.v2(Op::Vpandnd, Width::L256, a, b),
            RegClass::Vector => self.kk(Op::Kandn, a, b),
        }
    }

    /// Returns the other lanes of `lanes` lanes.
    pub(crate) fn mask_not(&mut self, a: VReg, lanes: u32) -> VReg {
        match exact(lanes) {
            _ if a.class() == RegClass::Float => {
                let ones = self.splat_constant(u64::MAX, 64);
                self.mask_xor(a, ones)
            }
            _ if a.class() == RegClass::Int => {
                let all = self.imm(u64::MAX >> (64 - lanes));
                self.g2(Op::Xor, Width::W64, a, all)
            }
            Some(width) => self.k1(Op::Knot, width, a, None),
            None => {
                let all = self.mask_constant((1 << lanes) - 1);
                self.kk(Op::Kandn, a, all)
            }
        }
    }

    /// Returns `a` in the lanes of the mask and `b` in others.
    pub(crate) fn mask_select(&mut self, mask: VReg, a: VReg, b: VReg) -> VReg {
        let first = self.mask_and(mask, a);
        let second = self.mask_without(mask, b);
        self.mask_or(first, second)
    }

    /// Sets the flags for a mask and returns the condition that holds if a lane, or all lanes, are true.
    pub(crate) fn mask_flags(&mut self, op: VirOp, mask: VReg, lanes: u32) -> Cond {
        if mask.class() == RegClass::Int {
            if op != VirOp::All {
                self.flags(Op::Test, Width::W64, mask, mask);
                return Cond::Ne;
            }
            let all = self.imm(u64::MAX >> (64 - lanes));
            self.flags(Op::Cmp, Width::W64, mask, all);
            return Cond::E;
        }
        match (op, exact(lanes)) {
            (VirOp::All, Some(width)) => {
                self.flags(Op::Kortest, width, mask, mask);
                Cond::B
            }
            (VirOp::All, None) => {
                let bits = self.gpr_of_mask(mask);
                self.flags_imm(Op::Cmp, Width::W32, bits, (1 << lanes) - 1);
                Cond::E
            }
            _ => {
                self.flags(Op::Kortest, Width::W64, mask, mask);
                Cond::Ne
            }
        }
    }

    /// Returns the mask register of a value; of a `pred` if there is one lane.
    pub(crate) fn mask_reg(&mut self, val: &Val) -> VReg {
        let lanes = val.ty.lanes();
        debug_assert_eq!(self.mask_bits, 0);
        let piece = self.piece(val, lanes, 0);
        self.reg(&piece)
    }

    pub(crate) fn mask_to_scalar(&mut self, op: VirOp) {
        let val = self.vals()[0].clone();
        let lanes = val.ty.lanes();
        if lanes == 1 {
            // The predicate is the bits, any, all and the count of itself.
            let pred = self.gpr(&val);
            let result = match op {
                VirOp::First => self.g2i(Op::Xor, Width::W32, pred, 1),
                _ => pred,
            };
            return self.define(0, one(result));
        }
        let mask = self.mask_reg(&val);
        let result = match op {
            VirOp::Ballot => self.gpr_of_mask(mask),
            VirOp::Any | VirOp::All => {
                let cond = self.mask_flags(op, mask, lanes);
                self.set(cond)
            }
            VirOp::Count => {
                let bits = self.gpr_of_mask(mask);
                self.g_of(Op::Popcnt, general(lanes), bits)
            }
            _ => {
                let bits = self.gpr_of_mask(mask);
                // A bit behind the lanes ends the search; for 64 lanes, `tzcnt` returns 64 for zero.
                let bits = match lanes {
                    64 => bits,
                    _ => self.g2i(Op::Bts, Width::W64, bits, lanes.into()),
                };
                self.g_of(Op::Tzcnt, Width::W64, bits)
            }
        };
        self.define(0, one(result));
    }

    pub(crate) fn mask_of_bits(&mut self) {
        let val = self.vals()[0].clone();
        let lanes = self.result_types()[0].lanes();
        let bits = self.gpr(&val);
        let result = match exact(lanes) {
            _ if !self.has_masks() && lanes > 1 => {
                let all = self.imm(u64::MAX >> (64 - lanes));
                self.g2(Op::And, Width::W64, bits, all)
            }
            Some(width) => self.k1(Op::KmovFromGpr, width, bits, None),
            None => {
                let kept = self.g2i(Op::And, Width::W32, bits, (1 << lanes) - 1);
                match lanes {
                    1 => kept,
                    _ => self.mask_of_gpr(kept),
                }
            }
        };
        self.define(0, one(result));
    }
}

/// `and`, `or`, `xor` and `not` of masks.
fn of_masks(s: &mut Selector<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let a = s.reg(&p[0]);
    let result = match t.desc.opcode {
        Opcode::Not => s.mask_not(a, t.lanes),
        opcode => {
            let b = s.reg(p.get(1)?);
            match opcode {
                Opcode::And => s.mask_and(a, b),
                Opcode::Or => s.mask_or(a, b),
                Opcode::Xor => s.mask_xor(a, b),
                _ => return None,
            }
        }
    };
    Some(smallvec![result])
}

/// `and`, `or`, `xor`, `not` and `cnot`.
pub(super) fn logic(s: &mut Selector<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if p[0].bits == 1 {
        return of_masks(s, t, p);
    }
    let (bits, len) = (p[0].bits, p[0].len());
    let a = s.reg(&p[0]);
    let op = match (t.desc.opcode, bits) {
        (Opcode::Not, _) => return Some(smallvec![super::int::inverted(s, len, a)]),
        (Opcode::Cnot, _) => {
            let (zero, one) = (s.splat_constant(0, bits), s.splat_constant(1, bits));
            let set = s.test(bits, t.lanes, a, a);
            return Some(smallvec![s.select_lanes(set, bits, t.lanes, zero, one)]);
        }
        (Opcode::And, 64) => Op::Vpandq,
        (Opcode::And, _) => Op::Vpandd,
        (Opcode::Or, 64) => Op::Vporq,
        (Opcode::Or, _) => Op::Vpord,
        (_, 64) => Op::Vpxorq,
        _ => Op::Vpxord,
    };
    let b = s.rm(&p[1]);
    Some(smallvec![s.v2(op, len, a, b)])
}
