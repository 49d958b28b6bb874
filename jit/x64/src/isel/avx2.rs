//! What AVX2 does otherwise than AVX-512.
//!
//! There are no mask registers. A mask of the function is in a general register, bit `n` for lane `n`. Within an
//! operation, a mask is a vector whose elements are all ones or zero; the element's width is recorded for each register
//! ([`Selector::mask_widths`]). Both forms of a mask that a comparison computes are available, and dead code elimination
//! removes the one that is not used.

use regalloc2::{RegClass, VReg};

use super::prim::{ByWidth, Compare, Shift, for_width, length};
use super::{Selector, Val};
use crate::asm::{Op, Width};
use crate::mach::{Action, Inst};

const EQUAL: ByWidth = [
    Op::VpcmpeqbVector,
    Op::VpcmpeqwVector,
    Op::VpcmpeqdVector,
    Op::VpcmpeqqVector,
];
const GREATER: ByWidth = [
    Op::VpcmpgtbVector,
    Op::VpcmpgtwVector,
    Op::VpcmpgtdVector,
    Op::VpcmpgtqVector,
];
const BROADCAST: ByWidth = [
    Op::Vpbroadcastb,
    Op::Vpbroadcastw,
    Op::Vpbroadcastd,
    Op::Vpbroadcastq,
];

impl Selector<'_> {
    /// Records the width of the elements of a mask, and returns the mask.
    fn mask_with_width(&mut self, mask: VReg, bits: u32) -> VReg {
        self.mask_widths.insert(mask, bits);
        mask
    }

    /// Returns a mask with elements of `bits` bits.
    pub(super) fn vector_mask(&mut self, mask: VReg, bits: u32, lanes: u32) -> VReg {
        let from = self.mask_widths.get(&mask).copied().unwrap_or(bits);
        let resized = self.resized(mask, from, bits, true, lanes);
        self.mask_with_width(resized, bits)
    }

    /// Returns elements that are all ones.
    fn all_ones(&mut self) -> VReg {
        self.splat_constant(u64::MAX, 64)
    }

    fn inverted_mask(&mut self, mask: VReg, bits: u32) -> VReg {
        let ones = self.all_ones();
        let inverted = self.v2(Op::Vpxord, Width::L256, mask, ones);
        self.mask_with_width(inverted, bits)
    }

    pub(super) fn avx2_compare_int(
        &mut self,
        how: Compare,
        signed: bool,
        bits: u32,
        lanes: u32,
        a: VReg,
        b: VReg,
    ) -> VReg {
        let len = length(bits, lanes);
        if matches!(how, Compare::Equal | Compare::NotEqual) {
            let equal = self.v2(for_width(&EQUAL, bits), len, a, b);
            return match how {
                Compare::Equal => self.mask_with_width(equal, bits),
                _ => self.inverted_mask(equal, bits),
            };
        }
        let (a, b) = match signed {
            true => (a, b),
            false => {
                // Inverted sign bits make signed comparisons of unsigned integers.
                let sign = self.splat_constant(1 << (bits - 1), bits);
                (
                    self.v2(Op::Vpxord, len, a, sign),
                    self.v2(Op::Vpxord, len, b, sign),
                )
            }
        };
        let (first, second) = match how {
            Compare::Greater | Compare::LessOrEqual => (a, b),
            _ => (b, a),
        };
        let greater = self.v2(for_width(&GREATER, bits), len, first, second);
        match how {
            Compare::Greater | Compare::Less => self.mask_with_width(greater, bits),
            _ => self.inverted_mask(greater, bits),
        }
    }

    pub(super) fn avx2_compare_float(
        &mut self,
        predicate: u8,
        bits: u32,
        lanes: u32,
        a: VReg,
        b: VReg,
    ) -> VReg {
        let op = if bits == 32 {
            Op::VcmppsVector
        } else {
            Op::VcmppdVector
        };
        let mask = self.v2i(op, length(bits, lanes), a, b, predicate.into());
        self.mask_with_width(mask, bits)
    }

    pub(super) fn avx2_test(&mut self, bits: u32, lanes: u32, a: VReg, b: VReg) -> VReg {
        let both = if a == b {
            a
        } else {
            self.v2(Op::Vpandd, length(bits, lanes), a, b)
        };
        let zero = self.splat_constant(0, 64);
        self.avx2_compare_int(Compare::NotEqual, true, bits, lanes, both, zero)
    }

    pub(super) fn avx2_select(
        &mut self,
        mask: VReg,
        bits: u32,
        lanes: u32,
        a: VReg,
        b: VReg,
    ) -> VReg {
        let mask = self.vector_mask(mask, bits, lanes);
        let mut inst = Inst::of(Action::Op(Op::Vpblendvb), length(bits, lanes));
        inst.src = [b, a];
        // The encoder takes the mask as the fourth operand.
        inst.selector = mask;
        self.result(RegClass::Float, inst)
    }

    /// Replaces subnormal `f32` numbers by zeros of the same sign.
    pub(super) fn avx2_flush(&mut self, lanes: u32, x: VReg) -> VReg {
        let len = length(32, lanes);
        let exponent = self.splat_constant(0x7f80_0000, 32);
        let field = self.v2(Op::Vpandd, len, x, exponent);
        let zero = self.splat_constant(0, 64);
        let small = self.v2(Op::VpcmpeqdVector, len, field, zero);
        let magnitude = self.splat_constant(0x7fff_ffff, 32);
        let cleared = self.v2(Op::Vpandd, len, small, magnitude);
        self.v2(Op::Vpandnd, len, cleared, x)
    }

    /// Returns lanes `number * lanes` and following of a mask in a general register as elements of `bits` bits.
    pub(super) fn expanded_mask(&mut self, mask: VReg, lanes: u32, number: u32, bits: u32) -> VReg {
        let key = (mask, lanes | bits << 8, number);
        if let Some(&part) = self.parts.get(&key).or_else(|| self.local_parts.get(&key)) {
            return part;
        }
        let moved = match number {
            0 => mask,
            _ => self.g2i(Op::Shr, Width::W64, mask, i64::from(lanes * number)),
        };
        let elements = 256 / bits;
        let vector = self.vector_of_gpr(moved, 64);
        let all = self.v1(Op::Vpbroadcastq, Width::L256, vector);
        let spread = if bits == 8 {
            // Byte n contains the bits of lane n.
            let order = self.vector_constant(8, (0..32).map(|n| n / 8));
            self.v2(Op::Vpshufb, Width::L256, all, order)
        } else {
            let op = for_width(&BROADCAST, bits);
            self.v1(op, Width::L256, vector)
        };
        let each = self.vector_constant(
            bits,
            (0..u64::from(elements)).map(|n| 1 << (n % u64::from(bits))),
        );
        let own = self.v2(Op::Vpandd, Width::L256, spread, each);
        let part = self.v2(for_width(&EQUAL, bits), Width::L256, own, each);
        let part = self.mask_with_width(part, bits);
        self.local_parts.insert(key, part);
        part
    }

    /// Returns a mask all of whose lanes are equal to a `pred`.
    pub(super) fn expanded_pred(&mut self, pred: VReg, bits: u32) -> VReg {
        let all = self.g1(Op::Neg, Width::W64, pred);
        let vector = self.vector_of_gpr(all, 64);
        let mask = self.v1(Op::Vpbroadcastq, Width::L256, vector);
        self.mask_with_width(mask, bits)
    }

    /// Returns the bits of a mask whose elements are in a vector register.
    pub(super) fn bits_of_mask(&mut self, mask: VReg, lanes: u32) -> VReg {
        let bits = self.mask_widths.get(&mask).copied().unwrap_or(32);
        let len = length(bits, lanes);
        let (op, source, len) = match bits {
            8 => (Op::Vpmovmskb, mask, len),
            16 => {
                let high = match len {
                    Width::L256 => self.v1i(Op::Vextracti32x4, Width::L256, mask, 1),
                    _ => mask,
                };
                (
                    Op::Vpmovmskb,
                    self.v2(Op::Vpacksswb, Width::L128, mask, high),
                    Width::L128,
                )
            }
            32 => (Op::Vmovmskps, mask, len),
            _ => (Op::Vmovmskpd, mask, len),
        };
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src[0] = source;
        let found = self.result(RegClass::Int, inst);
        match lanes {
            32.. => found,
            _ if bits != 16 && bits * lanes >= 128 => found,
            _ => self.g2i(Op::And, Width::W32, found, (1 << lanes) - 1),
        }
    }

    /// Joins masks of `lanes` lanes in vector registers to a mask in a general register.
    pub(super) fn joined_bits(&mut self, lanes: u32, pieces: &[VReg]) -> VReg {
        let mut whole = None;
        for (number, &piece) in (0..).zip(pieces) {
            let bits = self.bits_of_mask(piece, lanes);
            let moved = match number {
                0 => bits,
                _ => self.g2i(Op::Shl, Width::W64, bits, i64::from(lanes) * number),
            };
            whole = Some(match whole {
                None => moved,
                Some(whole) => self.g2(Op::Or, Width::W64, whole, moved),
            });
        }
        let whole = whole.unwrap_or_else(|| self.imm(0));
        for (number, &piece) in (0..).zip(pieces) {
            let bits = self.mask_widths.get(&piece).copied().unwrap_or(32);
            // The elements of a piece that does not fill a register are undefined beyond its lanes.
            if bits * lanes < 128 {
                continue;
            }
            self.parts.insert((whole, lanes | bits << 8, number), piece);
        }
        whole
    }

    /// Truncates integers.
    pub(super) fn avx2_truncated(&mut self, x: VReg, from: u32, to: u32, lanes: u32) -> VReg {
        if to < from / 2 {
            let half = self.avx2_truncated(x, from, from / 2, lanes);
            return self.avx2_truncated(half, from / 2, to, lanes);
        }
        let len = length(from, lanes);
        // The low halves of the elements of each part of 128 bits move to its lower 64 bits.
        let (from_bytes, to_bytes) = (u64::from(from / 8), u64::from(to / 8));
        let order = (0..u64::from(len.bytes())).map(|n| {
            let n = n % 16;
            let element = n / to_bytes * from_bytes + n % to_bytes;
            if element < 16 { element } else { 0x80 }
        });
        let order = self.vector_constant(8, order);
        let packed = self.v2(Op::Vpshufb, len, x, order);
        match len {
            Width::L256 => self.v1i(Op::VpermqImm, Width::L256, packed, 0b1000),
            _ => packed,
        }
    }

    /// Shifts that AVX2 does not have; `None` if it has the shift.
    pub(super) fn avx2_shift(
        &mut self,
        how: Shift,
        bits: u32,
        lanes: u32,
        a: VReg,
        by: VReg,
    ) -> Option<VReg> {
        match (bits, how) {
            (16, _) => {
                // One half of the words at a time, in elements of 32 bits.
                let len = length(32, lanes);
                let signed = how == Shift::Arithmetic;
                if 32 * lanes > self.width {
                    return None;
                }
                let wide = self.resized(a, 16, 32, signed, lanes);
                let by = self.resized(by, 16, 32, false, lanes);
                let op = match how {
                    Shift::Left => Op::Vpsllvd,
                    Shift::Right => Op::Vpsrlvd,
                    Shift::Arithmetic => Op::Vpsravd,
                };
                let shifted = self.v2(op, len, wide, by);
                Some(self.resized(shifted, 32, 16, false, lanes))
            }
            (64, Shift::Arithmetic) => {
                Some(self.shifted_with_sign(lanes, a, |s, x| {
                    s.v2(Op::Vpsrlvq, length(64, lanes), x, by)
                }))
            }
            _ => None,
        }
    }

    /// Shifts 64-bit elements right: the elements that are negative are inverted before and after `shift`.
    pub(super) fn shifted_with_sign(
        &mut self,
        lanes: u32,
        a: VReg,
        shift: impl FnOnce(&mut Self, VReg) -> VReg,
    ) -> VReg {
        let len = length(64, lanes);
        let zero = self.splat_constant(0, 64);
        let sign = self.v2(Op::VpcmpgtqVector, len, zero, a);
        let positive = self.v2(Op::Vpxorq, len, a, sign);
        let shifted = shift(self, positive);
        self.v2(Op::Vpxorq, len, shifted, sign)
    }

    /// Applies operations on 64-bit elements that AVX2 does not have; `None` if it has the operation.
    pub(super) fn avx2_operation(&mut self, op: Op, len: Width, a: VReg, b: VReg) -> Option<VReg> {
        let lanes = len.bytes() / 8;
        let (how, signed) = match op {
            Op::Vpminsq => (Compare::Less, true),
            Op::Vpminuq => (Compare::Less, false),
            Op::Vpmaxsq => (Compare::Greater, true),
            Op::Vpmaxuq => (Compare::Greater, false),
            Op::Vpmullq => return Some(self.product_of_words(len, a, b)),
            _ => return None,
        };
        let first = self.avx2_compare_int(how, signed, 64, lanes, a, b);
        Some(self.avx2_select(first, 64, lanes, a, b))
    }

    fn product_of_words(&mut self, len: Width, a: VReg, b: VReg) -> VReg {
        let high = |s: &mut Self, x: VReg| s.v1i(Op::VpsrlqImm, len, x, 32);
        let (ah, bh) = (high(self, a), high(self, b));
        let low = self.v2(Op::Vpmuludq, len, a, b);
        let (first, second) = (
            self.v2(Op::Vpmuludq, len, ah, b),
            self.v2(Op::Vpmuludq, len, a, bh),
        );
        let cross = self.v2(Op::Vpaddq, len, first, second);
        let cross = self.v1i(Op::VpsllqImm, len, cross, 32);
        self.v2(Op::Vpaddq, len, low, cross)
    }

    /// The bitwise function of `b` and `c` whose truth table is `table`, with `b` as the more significant input.
    fn two(&mut self, table: u8, len: Width, b: VReg, c: VReg) -> VReg {
        let ones = self.all_ones();
        let not = |s: &mut Self, x: VReg| s.v2(Op::Vpxord, len, x, ones);
        // A table with an even number of ones below 8 is the inversion of another one.
        if table & 1 != 0 {
            let other = self.two(table ^ 15, len, b, c);
            return not(self, other);
        }
        match table {
            0x0 => self.splat_constant(0, 64),
            0x2 => self.v2(Op::Vpandnd, len, b, c),
            0x4 => self.v2(Op::Vpandnd, len, c, b),
            0x6 => self.v2(Op::Vpxord, len, b, c),
            0x8 => self.v2(Op::Vpandd, len, b, c),
            0xa => c,
            0xc => b,
            _ => self.v2(Op::Vpord, len, b, c),
        }
    }

    /// The bitwise function of three registers whose truth table is `table`, with `a` as the most significant input.
    pub(super) fn avx2_ternary(
        &mut self,
        table: u8,
        len: Width,
        a: VReg,
        b: VReg,
        c: VReg,
    ) -> VReg {
        let (set, clear) = (table >> 4, table & 15);
        if set == clear {
            return self.two(set, len, b, c);
        }
        let base = self.two(clear, len, b, c);
        if set == clear ^ 15 {
            return self.v2(Op::Vpxord, len, a, base);
        }
        let differ = self.two(set ^ clear, len, b, c);
        let flipped = self.v2(Op::Vpandd, len, a, differ);
        self.v2(Op::Vpxord, len, base, flipped)
    }

    /// Converts unsigned 32-bit integers to `f32` or `f64`.
    pub(super) fn avx2_from_unsigned(&mut self, bits: u32, lanes: u32, x: VReg) -> VReg {
        let words = length(32, lanes);
        if bits == 64 {
            let len = length(64, lanes);
            let sign = self.splat_constant(0x8000_0000, 32);
            let moved = self.v2(Op::Vpxord, words, x, sign);
            let number = self.v1(Op::Vcvtdq2pd, len, moved);
            let bias = self.splat_constant(2_147_483_648f64.to_bits(), 64);
            return self.v2(Op::Vaddpd, len, number, bias);
        }
        let low = self.splat_constant(0xffff, 32);
        let low = self.v2(Op::Vpandd, words, x, low);
        let high = self.v1i(Op::VpsrldImm, words, x, 16);
        let (low, high) = (
            self.v1(Op::Vcvtdq2ps, words, low),
            self.v1(Op::Vcvtdq2ps, words, high),
        );
        let factor = self.splat_constant(65_536f32.to_bits().into(), 32);
        // The product is exact, so the sum rounds once.
        self.v3(Op::Vfmadd213ps, words, high, factor, low, None)
    }

    /// Converts non-negative numbers to unsigned 32-bit integers; numbers above the range become the greatest integer.
    pub(super) fn avx2_to_unsigned(&mut self, bits: u32, lanes: u32, x: VReg) -> VReg {
        let len = length(bits, lanes);
        let (half, convert, subtract, least) = match bits {
            32 => (
                u64::from(2_147_483_648f32.to_bits()),
                Op::Vcvttps2dq,
                Op::Vsubps,
                u64::from(4_294_967_296f32.to_bits()),
            ),
            _ => (
                2_147_483_648f64.to_bits(),
                Op::Vcvttpd2dq,
                Op::Vsubpd,
                4_294_967_296f64.to_bits(),
            ),
        };
        let half = self.splat_constant(half, bits);
        let small = self.v1(convert, len, x);
        let rest = self.v2(subtract, len, x, half);
        let large = self.v1(convert, len, rest);
        let sign = self.splat_constant(0x8000_0000, 32);
        let large = self.v2(Op::Vpxord, length(32, lanes), large, sign);
        let is_large = self.avx2_compare_float(0x1d, bits, lanes, x, half);
        let whole = self.avx2_select(is_large, 32, lanes, large, small);
        let limit = self.splat_constant(least, bits);
        let beyond = self.avx2_compare_float(0x1d, bits, lanes, x, limit);
        let ones = self.all_ones();
        self.avx2_select(beyond, 32, lanes, ones, whole)
    }

    /// Returns the numbers of zero bits above the highest one bit.
    pub(super) fn avx2_leading_zeros(&mut self, bits: u32, lanes: u32, x: VReg) -> VReg {
        let len = length(bits, lanes);
        let mut smeared = x;
        let mut step = 1;
        while step < bits {
            let moved = self.shift(Shift::Right, bits, lanes, smeared, step);
            smeared = self.v2(Op::Vpord, len, smeared, moved);
            step *= 2;
        }
        let ones = self.all_ones();
        let zeros = self.v2(Op::Vpxord, len, smeared, ones);
        self.bit_count(bits, lanes, zeros)
    }

    /// Returns a broadcast of a scalar.
    pub(super) fn avx2_broadcast(&mut self, val: &Val) -> VReg {
        let reg = val.regs[0];
        let bits = val.ty.lane_bits();
        let vector = match reg.class() {
            RegClass::Int => self.vector_of_gpr(reg, bits),
            _ => reg,
        };
        let op = for_width(&BROADCAST, bits);
        self.v1(op, Width::L256, vector)
    }
}
