//! Integer arithmetic and bit operations in vector registers.

use margay_ops::mods::Half;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use regalloc2::VReg;
use smallvec::smallvec;

use super::Selector;
use super::map::{Out, Task};
use super::pieces::Piece;
use super::prim::{
    ABS, ADD, Compare, MAX_SIGNED, MAX_UNSIGNED, MIN_SIGNED, MIN_UNSIGNED, SUB, Shift, length,
};
use crate::asm::{Op, Width};

type S<'a> = Selector<'a>;

/// The elements in which an operation computes: their width and number, and whether they are signed.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    pub(super) bits: u32,
    pub(super) lanes: u32,
    pub(super) signed: bool,
}

impl Elements {
    /// Returns the elements of an integer operation; those of a packed type count as lanes.
    pub(super) fn of(t: &Task<'_>) -> Option<Elements> {
        let ty = t.desc.ty;
        let bits = ty.element_bits();
        let is_known = ty.is_integer()
            && matches!(bits, 8 | 16 | 32 | 64)
            && ty.bits() == bits * ty.elements();
        is_known.then(|| Elements {
            bits,
            lanes: t.lanes * ty.elements(),
            signed: ty.is_signed(),
        })
    }

    /// As [`Elements::of`], for types that are not packed.
    pub(super) fn scalar(t: &Task<'_>) -> Option<Elements> {
        Elements::of(t).filter(|_| t.desc.ty.elements() == 1)
    }

    pub(super) fn len(&self) -> Width {
        length(self.bits, self.lanes)
    }
}

fn out(reg: VReg) -> Option<Out> {
    Some(smallvec![reg])
}

pub(super) fn sum(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::of(t).filter(|_| t.desc.src == OpType::None)?;
    let is_add = t.desc.opcode == Opcode::Add;
    let a = s.reg(&p[0]);
    if t.desc.mods.carry_out() {
        if t.desc.ty.elements() != 1 {
            return None;
        }
        let b = s.reg(&p[1]);
        return sum_with_carry(s, e, is_add, a, b);
    }
    if t.desc.mods.sat() {
        let b = s.reg(&p[1]);
        return saturated_sum(s, e, is_add, a, b).map(|reg| smallvec![reg]);
    }
    let ops = if is_add { &ADD } else { &SUB };
    let b = if e.bits == p[1].bits {
        s.rm(&p[1])
    } else {
        s.reg(&p[1]).into()
    };
    out(s.by_width(ops, e.bits, e.lanes, a, b))
}

fn sum_with_carry(s: &mut S<'_>, e: Elements, is_add: bool, a: VReg, b: VReg) -> Option<Out> {
    let (sum, carry) = if is_add {
        let sum = s.by_width(&ADD, e.bits, e.lanes, a, b);
        (
            sum,
            s.compare_int(Compare::Less, false, e.bits, e.lanes, sum, a),
        )
    } else {
        let sum = s.by_width(&SUB, e.bits, e.lanes, a, b);
        (
            sum,
            s.compare_int(Compare::GreaterOrEqual, false, e.bits, e.lanes, a, b),
        )
    };
    Some(smallvec![sum, carry])
}

fn saturated_sum(s: &mut S<'_>, e: Elements, is_add: bool, a: VReg, b: VReg) -> Option<VReg> {
    let op = match (e.bits, e.signed, is_add) {
        (8, true, true) => Op::Vpaddsb,
        (8, true, false) => Op::Vpsubsb,
        (8, false, true) => Op::Vpaddusb,
        (8, false, false) => Op::Vpsubusb,
        (16, true, true) => Op::Vpaddsw,
        (16, true, false) => Op::Vpsubsw,
        (16, false, true) => Op::Vpaddusw,
        (16, false, false) => Op::Vpsubusw,
        (32, true, _) => return Some(saturated_word_sum(s, e, is_add, a, b)),
        _ => return None,
    };
    Some(s.v2(op, e.len(), a, b))
}

/// Computes a sum of signed 32-bit integers that is limited to their range.
fn saturated_word_sum(s: &mut S<'_>, e: Elements, is_add: bool, a: VReg, b: VReg) -> VReg {
    let sum = s.by_width(if is_add { &ADD } else { &SUB }, 32, e.lanes, a, b);
    // An addition overflows if both operands differ from the sum in their signs, a subtraction if the operands differ
    // and the first differs from the result. Truth tables with `a` as the most significant input.
    let table = if is_add { 0b0100_0010 } else { 0b0001_1000 };
    let overflow = s.ternary(table, e.len(), a, b, sum);
    let overflow = s.signs(32, e.lanes, overflow);
    let sign = s.shift(Shift::Arithmetic, 32, e.lanes, a, 31);
    let most = s.splat_constant(0x7fff_ffff, 32);
    let limit = s.v2(Op::Vpxord, e.len(), sign, most);
    s.select_lanes(overflow, 32, e.lanes, limit, sum)
}

/// `addc`, `subc` and `madc`: the sum of two numbers and a carry.
pub(super) fn sum_of_carry(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let (a, b, carry) = match t.desc.opcode {
        Opcode::Madc => {
            if t.desc.mods.half() == Half::Wide {
                return None;
            }
            let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
            let product = product(s, t.desc.mods.half(), e, a, b);
            (product, s.reg(&p[2]), s.reg(&p[3]))
        }
        Opcode::Subc => {
            let b = s.reg(&p[1]);
            (s.reg(&p[0]), inverted(s, e.len(), b), s.reg(&p[2]))
        }
        _ => (s.reg(&p[0]), s.reg(&p[1]), s.reg(&p[2])),
    };
    let sum = s.by_width(&ADD, e.bits, e.lanes, a, b);
    let minus_carry = s.ones_in(carry, e.bits, e.lanes);
    let whole = s.by_width(&SUB, e.bits, e.lanes, sum, minus_carry);
    if t.results.len() == 1 {
        return out(whole);
    }
    let first = s.compare_int(Compare::Less, false, e.bits, e.lanes, sum, a);
    let second = s.compare_int(Compare::Less, false, e.bits, e.lanes, whole, sum);
    let carry = s.mask_or(first, second);
    Some(smallvec![whole, carry])
}

pub(super) fn inverted(s: &mut S<'_>, len: Width, a: VReg) -> VReg {
    // The truth table of "not a".
    s.ternary(0x0f, len, a, a, a)
}

/// Returns the low or the high half of a product.
fn product(s: &mut S<'_>, half: Half, e: Elements, a: VReg, b: VReg) -> VReg {
    match half {
        Half::Hi => high_product(s, e, a, b),
        _ => low_product(s, e, a, b),
    }
}

pub(super) fn low_product(s: &mut S<'_>, e: Elements, a: VReg, b: VReg) -> VReg {
    let op = match e.bits {
        16 => Op::Vpmullw,
        32 => Op::Vpmulld,
        _ => Op::Vpmullq,
    };
    s.v2(op, e.len(), a, b)
}

pub(super) fn high_product(s: &mut S<'_>, e: Elements, a: VReg, b: VReg) -> VReg {
    match (e.bits, e.signed) {
        (16, true) => s.v2(Op::Vpmulhw, e.len(), a, b),
        (16, false) => s.v2(Op::Vpmulhuw, e.len(), a, b),
        (32, signed) => {
            let op = if signed { Op::Vpmuldq } else { Op::Vpmuludq };
            let wide = length(32, e.lanes.max(4));
            let even = s.v2(op, wide, a, b);
            let (a, b) = (upper_words(s, e, a), upper_words(s, e, b));
            let odd = s.v2(op, wide, a, b);
            let even = upper_words(s, e, even);
            let upper = s.splat_constant(0xffff_ffff_0000_0000, 64);
            select_bits(s, e.len(), upper, odd, even)
        }
        _ => high_product_64(s, e, a, b),
    }
}

/// Moves the upper words of 64-bit elements to the lower words.
fn upper_words(s: &mut S<'_>, e: Elements, a: VReg) -> VReg {
    s.v1i(Op::VpsrlqImm, e.len(), a, 32)
}

/// Returns the bits of `a` where `mask` is set, and those of `b` elsewhere.
pub(super) fn select_bits(s: &mut S<'_>, len: Width, mask: VReg, a: VReg, b: VReg) -> VReg {
    s.ternary(0xca, len, mask, a, b)
}

fn high_product_64(s: &mut S<'_>, e: Elements, a: VReg, b: VReg) -> VReg {
    let len = e.len();
    let (ah, bh) = (upper_words(s, e, a), upper_words(s, e, b));
    let low = s.v2(Op::Vpmuludq, len, a, b);
    let cross = s.v2(Op::Vpmuludq, len, ah, b);
    let other = s.v2(Op::Vpmuludq, len, a, bh);
    let high = s.v2(Op::Vpmuludq, len, ah, bh);
    // The sums do not overflow: a product of words is at most 2^64 - 2^33 + 1.
    let carry = upper_words(s, e, low);
    let middle = s.v2(Op::Vpaddq, len, cross, carry);
    let words = s.splat_constant(0xffff_ffff, 64);
    let lower = s.v2(Op::Vpandd, len, middle, words);
    let lower = s.v2(Op::Vpaddq, len, lower, other);
    let (carry, middle) = (upper_words(s, e, lower), upper_words(s, e, middle));
    let sum = s.v2(Op::Vpaddq, len, high, middle);
    let sum = s.v2(Op::Vpaddq, len, sum, carry);
    if !e.signed {
        return sum;
    }
    // A negative number is 2^64 less than the unsigned number with its bits.
    let sign = |s: &mut S<'_>, of: VReg, other: VReg| {
        let sign = s.shift(Shift::Arithmetic, 64, e.lanes, of, 63);
        s.v2(Op::Vpandd, len, sign, other)
    };
    let (first, second) = (sign(s, a, b), sign(s, b, a));
    let sum = s.v2(Op::Vpsubq, len, sum, first);
    s.v2(Op::Vpsubq, len, sum, second)
}

pub(super) fn mul(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t).filter(|e| e.bits >= 16)?;
    if t.desc.mods.sat() || t.desc.mods.carry_out() {
        return None;
    }
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let wide = t.desc.mods.half() == Half::Wide && e.bits < 64;
    let (product, bits) = match wide {
        true => (wide_product(s, e, a, b), 2 * e.bits),
        false => (product(s, t.desc.mods.half(), e, a, b), e.bits),
    };
    match t.desc.opcode {
        Opcode::Mad => {
            let c = s.rm(&p[2]);
            out(s.by_width(&ADD, bits, e.lanes, product, c))
        }
        _ => out(product),
    }
}

/// `mad` with `.cc`.
pub(super) fn mad(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    if !t.desc.mods.carry_out() {
        return mul(s, t, p);
    }
    let e = Elements::scalar(t).filter(|_| t.desc.mods.half() != Half::Wide)?;
    let (a, b, c) = (s.reg(&p[0]), s.reg(&p[1]), s.reg(&p[2]));
    let product = product(s, t.desc.mods.half(), e, a, b);
    sum_with_carry(s, e, true, product, c)
}

fn wide_product(s: &mut S<'_>, e: Elements, a: VReg, b: VReg) -> VReg {
    let a = s.resized(a, e.bits, 2 * e.bits, e.signed, e.lanes);
    let b = s.resized(b, e.bits, 2 * e.bits, e.signed, e.lanes);
    let op = match (e.bits, e.signed) {
        (16, _) => Op::Vpmulld,
        (_, true) => Op::Vpmuldq,
        (_, false) => Op::Vpmuludq,
    };
    s.v2(op, length(2 * e.bits, e.lanes), a, b)
}

/// `mul24` and `mad24`.
pub(super) fn mul24(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    if t.desc.mods.sat() {
        return None;
    }
    let how = if e.signed {
        Shift::Arithmetic
    } else {
        Shift::Right
    };
    let read = |s: &mut S<'_>, piece: &Piece| {
        let whole = s.reg(piece);
        let moved = s.shift(Shift::Left, 32, e.lanes, whole, 8);
        s.shift(how, 32, e.lanes, moved, 8)
    };
    let (a, b) = (read(s, &p[0]), read(s, &p[1]));
    let low = low_product(s, e, a, b);
    let kept = if t.desc.mods.half() == Half::Hi {
        let high = high_product(s, e, a, b);
        let high = s.shift(Shift::Left, 32, e.lanes, high, 16);
        let low = s.shift(Shift::Right, 32, e.lanes, low, 16);
        s.v2(Op::Vpord, e.len(), high, low)
    } else {
        low
    };
    if t.desc.opcode == Opcode::Mul24 {
        return out(kept);
    }
    let c = s.rm(&p[2]);
    out(s.by_width(&ADD, 32, e.lanes, kept, c))
}

pub(super) fn sad(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let (a, b, c) = (s.reg(&p[0]), s.reg(&p[1]), s.reg(&p[2]));
    let (min, max) = extremes(e);
    let more = s.by_width(max, e.bits, e.lanes, a, b);
    let less = s.by_width(min, e.bits, e.lanes, a, b);
    let distance = s.by_width(&SUB, e.bits, e.lanes, more, less);
    out(s.by_width(&ADD, e.bits, e.lanes, distance, c))
}

fn extremes(e: Elements) -> (&'static [Op; 4], &'static [Op; 4]) {
    match e.signed {
        true => (&MIN_SIGNED, &MAX_SIGNED),
        false => (&MIN_UNSIGNED, &MAX_UNSIGNED),
    }
}

pub(super) fn extreme(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::of(t)?;
    let (min, max) = extremes(e);
    let ops = if t.desc.opcode == Opcode::Min {
        min
    } else {
        max
    };
    let a = s.reg(&p[0]);
    let b = if e.bits == p[1].bits {
        s.rm(&p[1])
    } else {
        s.reg(&p[1]).into()
    };
    let mut chosen = s.by_width(ops, e.bits, e.lanes, a, b);
    if p.len() > 2 {
        return None;
    }
    if t.desc.mods.relu() && e.signed {
        let zero = s.splat_constant(0, e.bits);
        chosen = s.by_width(&MAX_SIGNED, e.bits, e.lanes, chosen, zero);
    }
    out(chosen)
}

pub(super) fn sign(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::of(t)?;
    let a = s.reg(&p[0]);
    if t.desc.opcode == Opcode::Neg {
        let zero = s.splat_constant(0, e.bits);
        return out(s.by_width(&SUB, e.bits, e.lanes, zero, a));
    }
    if e.signed && e.bits == 64 && !s.has_masks() {
        let zero = s.splat_constant(0, 64);
        let negated = s.by_width(&SUB, 64, e.lanes, zero, a);
        let negative = s.signs(64, e.lanes, a);
        return out(s.select_lanes(negative, 64, e.lanes, negated, a));
    }
    out(match e.signed {
        true => s.v1(super::prim::for_width(&ABS, e.bits), e.len(), a),
        false => a,
    })
}

pub(super) fn popc(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let a = s.reg(&p[0]);
    let count = s.bit_count(e.bits, e.lanes, a);
    out(s.resized(count, e.bits, 32, false, e.lanes))
}

pub(super) fn clz(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let a = s.reg(&p[0]);
    let count = s.leading_zeros(e.bits, e.lanes, a);
    out(s.resized(count, e.bits, 32, false, e.lanes))
}

pub(super) fn bfind(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let mut a = s.reg(&p[0]);
    if e.signed {
        let sign = s.shift(Shift::Arithmetic, e.bits, e.lanes, a, e.bits - 1);
        a = s.v2(Op::Vpxord, e.len(), a, sign);
    }
    let zeros = s.leading_zeros(e.bits, e.lanes, a);
    let found = if t.desc.mods.flag() {
        let none = s.splat_constant(u64::MAX, 64);
        let known = s.test(e.bits, e.lanes, a, a);
        s.select_lanes(known, e.bits, e.lanes, zeros, none)
    } else {
        // Without a one bit, the difference is -1.
        let top = s.splat_constant((e.bits - 1).into(), e.bits);
        s.by_width(&SUB, e.bits, e.lanes, top, zeros)
    };
    out(s.resized(found, e.bits, 32, false, e.lanes))
}

pub(super) fn brev(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let a = s.reg(&p[0]);
    let bytes = u64::from(e.bits / 8);
    let order = (0..u64::from(e.len_bits() / 8))
        .map(|n| (n / bytes * bytes + (bytes - 1 - n % bytes)) % 16);
    let order = s.vector_constant(8, order);
    let a = s.v2(Op::Vpshufb, e.len(), a, order);
    let low_bits = s.splat_constant(0x0f, 8);
    let high = s.v1i(Op::VpsrlwImm, e.len(), a, 4);
    let (low, high) = (
        s.v2(Op::Vpandd, e.len(), a, low_bits),
        s.v2(Op::Vpandd, e.len(), high, low_bits),
    );
    let reversed = |n: u64| u64::from((n as u8).reverse_bits() >> 4);
    let table = |s: &mut S<'_>, shift: u32| {
        let entries = (0..u64::from(e.len_bits() / 8)).map(|n| reversed(n % 16) << shift);
        s.vector_constant(8, entries)
    };
    let (upper, lower) = (table(s, 4), table(s, 0));
    let upper = s.v2(Op::Vpshufb, e.len(), upper, low);
    let lower = s.v2(Op::Vpshufb, e.len(), lower, high);
    out(s.v2(Op::Vpord, e.len(), upper, lower))
}

impl Elements {
    /// Returns the number of bits of the register.
    pub(super) fn len_bits(&self) -> u32 {
        (self.bits * self.lanes).max(128)
    }
}

pub(super) fn dp4a(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let signs = [t.desc.ty, t.desc.src].map(|ty| ty.is_signed());
    let b_signed = match t.desc.src {
        OpType::None => signs[0],
        _ => signs[1],
    };
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let halves = |s: &mut S<'_>, x: VReg, signed: bool| {
        let how = if signed {
            Shift::Arithmetic
        } else {
            Shift::Right
        };
        let odd = s.shift(how, 16, 2 * e.lanes, x, 8);
        let even = s.shift(Shift::Left, 16, 2 * e.lanes, x, 8);
        (s.shift(how, 16, 2 * e.lanes, even, 8), odd)
    };
    let (a_even, a_odd) = halves(s, a, signs[0]);
    let (b_even, b_odd) = halves(s, b, b_signed);
    let even = s.v2(Op::Vpmaddwd, e.len(), a_even, b_even);
    let odd = s.v2(Op::Vpmaddwd, e.len(), a_odd, b_odd);
    let dot = s.v2(Op::Vpaddd, e.len(), even, odd);
    let c = s.rm(&p[2]);
    out(s.v2(Op::Vpaddd, e.len(), dot, c))
}

pub(super) fn dp2a(s: &mut S<'_>, t: &Task<'_>, p: &[Piece]) -> Option<Out> {
    let e = Elements::scalar(t)?;
    let a_signed = t.desc.ty.is_signed();
    let b_signed = match t.desc.src {
        OpType::None => a_signed,
        ty => ty.is_signed(),
    };
    let (a, b) = (s.reg(&p[0]), s.reg(&p[1]));
    let field = |s: &mut S<'_>, x: VReg, signed: bool, width: u32, start: u32| {
        let how = if signed {
            Shift::Arithmetic
        } else {
            Shift::Right
        };
        let moved = s.shift(Shift::Left, 32, e.lanes, x, 32 - width - start);
        s.shift(how, 32, e.lanes, moved, 32 - width)
    };
    let first = if t.desc.mods.half() == Half::Hi {
        16
    } else {
        0
    };
    let mut sum = s.reg(&p[2]);
    for n in 0..2 {
        let a = field(s, a, a_signed, 16, 16 * n);
        let b = field(s, b, b_signed, 8, first + 8 * n);
        let product = s.v2(Op::Vpmulld, e.len(), a, b);
        sum = s.v2(Op::Vpaddd, e.len(), sum, product);
    }
    out(sum)
}
