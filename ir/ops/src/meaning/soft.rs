//! Binary floating-point arithmetic, computed exactly with integers, for every floating-point
//! format of PTX.
//!
//! An operation has three steps. First, it decodes its operands to [`Number`]s (a sign, an integer
//! significand and a power of two). It then computes the result exactly, or truncated with a sticky
//! lowest bit, which is set if non-zero bits were cut off. Finally, [`Format::encode`] rounds the
//! result once. The operations do not use the host's floating point, so the host's rounding mode
//! and flush-to-zero flags have no effect.
//!
//! Invariant: a [`Real`] that an operation returns is either exact or has at least 60 significant
//! bits, the lowest of which is sticky. Every format has more than two significant bits fewer, so
//! the rounding afterwards is correct in every rounding mode.

use super::{Bits, mask};
use crate::mods::Rounding;
use crate::types::OpType;
use std::cmp::Ordering;

/// The rule that determines which encodings of a format are not finite numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Specials {
    /// The format has the infinities and NaNs that IEEE 754 specifies.
    Ieee,
    /// The only encoding that is not a finite number is a NaN, whose bits except the sign are all
    /// set. It exists with both signs.
    NanOnly,
    /// The format has no infinities and no NaNs.
    Finite,
}

/// A binary floating-point format with a sign bit, biased exponent and fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// The number of bits of the exponent.
    pub exponent_bits: u32,
    /// The number of bits of the fraction, without the implicit leading one.
    pub fraction_bits: u32,
    /// The rule that determines which encodings are not finite numbers.
    pub specials: Specials,
    /// The bits of the canonical NaN, which operations in this format return.
    pub nan: Bits,
}

/// The rounding of an exact value to a value of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// To the nearest value. If two values are equally near, to the value whose significand is
    /// even.
    NearestEven,
    /// To the nearest value. If two values are equally near, to the value farther from zero.
    NearestAway,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// Stochastic rounding: `random` is added to the exact value, scaled so that `1 << bits` is one
    /// unit in the last place, and the sum is truncated.
    Stochastic {
        /// The number of random bits that are used.
        bits: u32,
        /// The random bits.
        random: u32,
    },
}

impl Round {
    /// Returns the rounding that a modifier specifies. If there is no modifier, the rounding is to
    /// nearest even. For `.rs` (stochastic rounding), the result is nearest even too, because this
    /// function does not know the random bits.
    pub const fn of(rounding: Rounding) -> Round {
        match rounding {
            Rounding::Rz | Rounding::Rzi => Round::Zero,
            Rounding::Rm | Rounding::Rmi => Round::Down,
            Rounding::Rp | Rounding::Rpi => Round::Up,
            Rounding::Rna => Round::NearestAway,
            Rounding::None | Rounding::Rn | Rounding::Rs | Rounding::Rni => Round::NearestEven,
        }
    }

    /// Rounds `significand / 2^shift` to an integer.
    fn divide(self, negative: bool, significand: u128, shift: i32) -> u128 {
        if shift <= 0 {
            return significand.unbounded_shl(shift.unsigned_abs());
        }
        let shift = shift as u32;
        let whole = significand.unbounded_shr(shift);
        let rest = significand & mask(shift);
        // `half` is half a unit in the last place. If this value does not fit into a `u128`, `half` is set to the
        // maximum, which is larger than any remainder.
        let half = 1u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
        let up = match self {
            Round::NearestEven => rest > half || rest == half && whole & 1 == 1,
            Round::NearestAway => rest >= half,
            Round::Zero => false,
            Round::Down => negative && rest != 0,
            Round::Up => !negative && rest != 0,
            Round::Stochastic { bits, random } => {
                stochastic_carry(significand, shift, bits, random)
            }
        };
        whole + u128::from(up)
    }
}

/// Returns whether stochastic rounding increments the truncated result: whether the sum of `random`
/// and the highest `bits` of the cut-off bits has more than `bits` bits.
fn stochastic_carry(significand: u128, shift: u32, bits: u32, random: u32) -> bool {
    let discarded = (significand << bits).unbounded_shr(shift);
    let sum = (discarded & mask(bits)) + (u128::from(random) & mask(bits));
    sum >> bits != 0
}

/// A finite value: `significand * 2^exponent`, negated if `negative`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Real {
    /// Whether the value is negative; -0 counts as negative.
    pub negative: bool,
    /// The integer that, multiplied by `2^exponent`, is the absolute value; 0 for zero.
    pub significand: u128,
    /// The exponent of the significand's lowest bit: this bit has the weight `2^exponent`.
    pub exponent: i32,
}

/// A decoded floating-point value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// Not a number.
    Nan,
    /// An infinity; the field is true if the infinity is negative.
    Infinity(bool),
    /// A finite value, such as zero.
    Finite(Real),
}

impl Format {
    const fn ieee(exponent_bits: u32, fraction_bits: u32, nan: Bits) -> Format {
        Format {
            exponent_bits,
            fraction_bits,
            specials: Specials::Ieee,
            nan,
        }
    }

    const fn small(exponent_bits: u32, fraction_bits: u32, specials: Specials) -> Format {
        let nan = match specials {
            Specials::Finite => mask(exponent_bits + fraction_bits),
            _ => 0x7f,
        };
        Format {
            exponent_bits,
            fraction_bits,
            specials,
            nan,
        }
    }

    /// The format binary16 of IEEE 754. PTX specifies its canonical NaN.
    pub const F16: Format = Format::ieee(5, 10, 0x7fff);
    /// bfloat16.
    pub const BF16: Format = Format::ieee(8, 7, 0x7fff);
    /// The format tf32. A value has 19 bits, which are in the upper 19 bits of a register.
    pub const TF32: Format = Format::ieee(8, 10, 0x3ffff);
    /// The format binary32 of IEEE 754. Invalid operations return the NaN that CUDA's headers call
    /// `CUDART_NAN_F`.
    pub const F32: Format = Format::ieee(8, 23, 0x7fff_ffff);
    /// The format binary64 of IEEE 754. Invalid operations return the NaN that CUDA's headers call
    /// `CUDART_NAN`.
    pub const F64: Format = Format::ieee(11, 52, 0xfff8_0000_0000_0000);
    /// An 8-bit format whose largest value is 448. It has no infinity.
    pub const E4M3: Format = Format::small(4, 3, Specials::NanOnly);
    /// An 8-bit format with infinities and NaNs as in IEEE 754.
    pub const E5M2: Format = Format::small(5, 2, Specials::Ieee);
    /// A 6-bit format in which all encodings are finite. Conversion to it changes a NaN to the largest value.
    pub const E3M2: Format = Format::small(3, 2, Specials::Finite);
    /// A 6-bit format in which all encodings are finite.
    pub const E2M3: Format = Format::small(2, 3, Specials::Finite);
    /// A 4-bit format in which all encodings are finite.
    pub const E2M1: Format = Format::small(2, 1, Specials::Finite);

    /// Returns the format of an element of type `ty`, or `None` if the elements are integers,
    /// fixed-point numbers or numbers without a sign.
    pub const fn of(ty: OpType) -> Option<Format> {
        Some(match ty {
            OpType::F16 | OpType::F16x2 => Format::F16,
            OpType::BF16 | OpType::BF16x2 => Format::BF16,
            OpType::TF32 => Format::TF32,
            OpType::F32 | OpType::F32x2 => Format::F32,
            OpType::F64 => Format::F64,
            OpType::E4M3 | OpType::E4M3x2 | OpType::E4M3x4 => Format::E4M3,
            OpType::E5M2 | OpType::E5M2x2 | OpType::E5M2x4 => Format::E5M2,
            OpType::E3M2 | OpType::E3M2x2 | OpType::E3M2x4 => Format::E3M2,
            OpType::E2M3 | OpType::E2M3x2 | OpType::E2M3x4 => Format::E2M3,
            OpType::E2M1 | OpType::E2M1x2 | OpType::E2M1x4 => Format::E2M1,
            _ => return None,
        })
    }

    /// Returns the number of bits of a value: sign, exponent and fraction together.
    pub const fn width(&self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    const fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Returns a mask of the sign bit.
    #[inline(always)]
    pub const fn sign_bit(&self) -> Bits {
        1 << (self.width() - 1)
    }

    /// Returns the encoding whose exponent is all ones and whose fraction is zero, which is
    /// infinity in formats that have infinities.
    #[inline(always)]
    pub const fn infinity(&self) -> Bits {
        mask(self.exponent_bits) << self.fraction_bits
    }

    /// Returns the encoding of 1.0.
    #[inline(always)]
    pub const fn one(&self) -> Bits {
        (self.bias() as Bits) << self.fraction_bits
    }

    /// Returns the encoding of the largest finite value.
    pub const fn max_finite(&self) -> Bits {
        match self.specials {
            Specials::Ieee => self.infinity() - 1,
            Specials::NanOnly => mask(self.width() - 1) - 1,
            Specials::Finite => mask(self.width() - 1),
        }
    }

    /// Returns whether the sign bit of `bits` is set.
    #[inline(always)]
    pub const fn is_negative(&self, bits: Bits) -> bool {
        bits & self.sign_bit() != 0
    }

    /// Returns `bits` with the sign bit cleared.
    #[inline(always)]
    pub const fn magnitude(&self, bits: Bits) -> Bits {
        bits & mask(self.width() - 1)
    }

    /// Returns whether `bits` is the encoding of a NaN.
    #[inline(always)]
    pub const fn is_nan(&self, bits: Bits) -> bool {
        let magnitude = self.magnitude(bits);
        match self.specials {
            Specials::Ieee => magnitude > self.infinity(),
            Specials::NanOnly => magnitude == mask(self.width() - 1),
            Specials::Finite => false,
        }
    }

    /// Returns whether `bits` is the encoding of a subnormal number (zero is not subnormal).
    #[inline(always)]
    pub const fn is_subnormal(&self, bits: Bits) -> bool {
        let magnitude = self.magnitude(bits);
        magnitude != 0 && magnitude >> self.fraction_bits == 0
    }

    /// Returns a zero of the same sign if `bits` is the encoding of a subnormal number, and `bits`
    /// otherwise.
    #[inline(always)]
    pub const fn flush(&self, bits: Bits) -> Bits {
        if self.is_subnormal(bits) {
            bits & self.sign_bit()
        } else {
            bits
        }
    }

    /// Returns the value that the low bits of `bits` represent; bits above the width of the format
    /// have no effect.
    pub fn decode(&self, bits: Bits) -> Number {
        let negative = self.is_negative(bits);
        let magnitude = self.magnitude(bits);
        if self.is_nan(bits) {
            return Number::Nan;
        }
        if self.specials == Specials::Ieee && magnitude == self.infinity() {
            return Number::Infinity(negative);
        }
        let field = (magnitude >> self.fraction_bits) as i32;
        let fraction = magnitude & mask(self.fraction_bits);
        let implicit = if field == 0 {
            0
        } else {
            1 << self.fraction_bits
        };
        let exponent = field.max(1) - self.bias() - self.fraction_bits as i32;
        Number::Finite(Real {
            negative,
            significand: fraction | implicit,
            exponent,
        })
    }

    /// Rounds `number` to this format, and returns the encoding of the result. If `saturate` is
    /// set, a result that would be infinite becomes the largest finite value.
    pub fn encode(&self, number: Number, round: Round, saturate: bool) -> Bits {
        match number {
            Number::Nan => self.nan,
            Number::Infinity(negative) => self.overflow(negative, Round::NearestEven, saturate),
            Number::Finite(real) => self.encode_real(real, round, saturate),
        }
    }

    fn encode_real(&self, real: Real, round: Round, saturate: bool) -> Bits {
        let sign = if real.negative { self.sign_bit() } else { 0 };
        if real.significand == 0 {
            return sign;
        }
        let fraction = self.fraction_bits as i32;
        let top = real.significand.ilog2() as i32 + real.exponent;
        let quantum = (top - fraction).max(1 - self.bias() - fraction);
        let whole = round.divide(real.negative, real.significand, quantum - real.exponent);
        // The implicit leading one adds one to the exponent field; a carry out of the fraction also adds one.
        let field = (quantum + fraction + self.bias() - 1) as Bits;
        let magnitude = (field << self.fraction_bits) + whole;
        if magnitude > self.max_finite() {
            self.overflow(real.negative, round, saturate)
        } else {
            sign | magnitude
        }
    }

    fn overflow(&self, negative: bool, round: Round, saturate: bool) -> Bits {
        let sign = if negative { self.sign_bit() } else { 0 };
        let inward = match round {
            Round::Zero => true,
            Round::Down => !negative,
            Round::Up => negative,
            _ => false,
        };
        sign | match self.specials {
            Specials::Finite => self.max_finite(),
            _ if saturate || inward => self.max_finite(),
            Specials::NanOnly => self.nan,
            Specials::Ieee => self.infinity(),
        }
    }
}

impl Real {
    /// Returns the value +0 or -0.
    pub const fn zero(negative: bool) -> Real {
        Real::integer(negative, 0)
    }

    /// Returns the value of an integer with this sign and this absolute value.
    pub const fn integer(negative: bool, magnitude: u128) -> Real {
        Real {
            negative,
            significand: magnitude,
            exponent: 0,
        }
    }

    fn is_zero(self) -> bool {
        self.significand == 0
    }

    /// Returns the same value, represented with the leading one of its significand in bit `top`.
    /// For zero, returns zero.
    fn with_top(self, top: u32) -> Real {
        if self.is_zero() {
            return self;
        }
        let left = top as i32 - self.significand.ilog2() as i32;
        let significand = match u32::try_from(left) {
            Ok(left) => self.significand << left,
            Err(_) => shift_right_sticky(self.significand, left.unsigned_abs()),
        };
        Real {
            significand,
            exponent: self.exponent - left,
            ..self
        }
    }

    /// Rounds the value to an integer. Returns whether the integer is negative, and its absolute
    /// value, which is `u128::MAX` if it does not fit in a `u128`.
    pub fn to_integer(self, round: Round) -> (bool, u128) {
        if self.is_zero() {
            return (self.negative, 0);
        }
        let top = self.significand.ilog2() as i32 + self.exponent;
        if top > 126 {
            return (self.negative, u128::MAX);
        }
        (
            self.negative,
            round.divide(self.negative, self.significand, -self.exponent),
        )
    }
}

/// Shifts `value` right by `count` bits, and sets the lowest bit of the result if non-zero bits
/// were cut off.
fn shift_right_sticky(value: u128, count: u32) -> u128 {
    let kept = value.unbounded_shr(count);
    kept | u128::from(value & mask(count) != 0)
}

/// Computes `a + b`. If the operands have opposite signs and their exact sum is zero, the result is
/// -0 for the rounding [`Round::Down`], and +0 otherwise.
pub fn add(a: Number, b: Number, round: Round) -> Number {
    match (a, b) {
        (Number::Finite(a), Number::Finite(b)) => Number::Finite(add_real(a, b, round)),
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity(x), Number::Infinity(y)) if x != y => Number::Nan,
        (Number::Infinity(x), _) | (_, Number::Infinity(x)) => Number::Infinity(x),
    }
}

fn add_real(a: Real, b: Real, round: Round) -> Real {
    if a.is_zero() || b.is_zero() {
        return match (a.is_zero(), b.is_zero()) {
            (true, true) if a.negative == b.negative => a,
            (true, true) => Real::zero(round == Round::Down),
            (true, false) => b,
            _ => a,
        };
    }
    // A significand has at most 106 bits, because operands may be products. With their leading ones in bit 125, both
    // significands therefore end in at least 20 zeros. Only a shift by more than 20 loses bits, and in this case the
    // sum or difference has at least 124 significant bits.
    let (a, b) = (a.with_top(125), b.with_top(125));
    let (large, small) = if a.exponent >= b.exponent {
        (a, b)
    } else {
        (b, a)
    };
    let distance = large.exponent.abs_diff(small.exponent);
    let small_digits = shift_right_sticky(small.significand, distance);
    if large.negative == small.negative {
        return Real {
            significand: large.significand + small_digits,
            ..large
        };
    }
    let negative = match large.significand.cmp(&small_digits) {
        Ordering::Equal => return Real::zero(round == Round::Down),
        Ordering::Greater => large.negative,
        Ordering::Less => small.negative,
    };
    Real {
        negative,
        significand: large.significand.abs_diff(small_digits),
        ..large
    }
}

/// Returns `a` with the opposite sign. For NaN, returns NaN.
pub fn negate(a: Number) -> Number {
    match a {
        Number::Nan => Number::Nan,
        Number::Infinity(negative) => Number::Infinity(!negative),
        Number::Finite(real) => Number::Finite(Real {
            negative: !real.negative,
            ..real
        }),
    }
}

/// Computes the exact product `a * b`; the significand of each operand must have at most 64 bits.
pub fn multiply(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Finite(a), Number::Finite(b)) => Number::Finite(Real {
            negative: a.negative != b.negative,
            significand: a.significand.wrapping_mul(b.significand),
            exponent: a.exponent + b.exponent,
        }),
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity(x), Number::Infinity(y)) => Number::Infinity(x != y),
        (Number::Infinity(x), Number::Finite(r)) | (Number::Finite(r), Number::Infinity(x)) => {
            if r.is_zero() {
                Number::Nan
            } else {
                Number::Infinity(x != r.negative)
            }
        }
    }
}

/// Computes the quotient `a / b`.
pub fn divide(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Finite(a), Number::Finite(b)) => divide_real(a, b),
        (Number::Nan, _) | (_, Number::Nan) => Number::Nan,
        (Number::Infinity(_), Number::Infinity(_)) => Number::Nan,
        (Number::Infinity(x), Number::Finite(r)) => Number::Infinity(x != r.negative),
        (Number::Finite(r), Number::Infinity(x)) => Number::Finite(Real::zero(x != r.negative)),
    }
}

fn divide_real(a: Real, b: Real) -> Number {
    let negative = a.negative != b.negative;
    if b.is_zero() {
        return match a.is_zero() {
            true => Number::Nan,
            false => Number::Infinity(negative),
        };
    }
    let a = a.with_top(127);
    let quotient = a.significand / b.significand;
    let sticky = u128::from(!a.significand.is_multiple_of(b.significand));
    Number::Finite(Real {
        negative,
        significand: quotient | sticky,
        exponent: a.exponent - b.exponent,
    })
}

/// Computes the square root of `a`; the root of -0 is -0, and the root of any other negative value
/// is NaN.
pub fn square_root(a: Number) -> Number {
    let real = match a {
        Number::Finite(real) => real,
        Number::Infinity(false) => return a,
        _ => return Number::Nan,
    };
    if real.is_zero() {
        return a;
    }
    if real.negative {
        return Number::Nan;
    }
    let mut scaled = real.with_top(126);
    if scaled.exponent & 1 != 0 {
        scaled = real.with_top(127);
    }
    let root = scaled.significand.isqrt();
    let sticky = u128::from(root * root != scaled.significand);
    Number::Finite(Real {
        negative: false,
        significand: root | sticky,
        exponent: scaled.exponent / 2,
    })
}

/// Rounds `a` to an integral value. If the result is zero, it has the sign of `a`.
pub fn round_to_integral(a: Number, round: Round) -> Number {
    match a {
        Number::Finite(real) if real.exponent < 0 => {
            let (negative, magnitude) = real.to_integer(round);
            Number::Finite(Real::integer(negative, magnitude))
        }
        other => other,
    }
}
