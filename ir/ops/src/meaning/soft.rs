//! Exact binary floating point in integers, for every format PTX knows.
//!
//! A value is decoded to a [`Number`] (a sign, an integer significand and a power of two), the
//! operation is done exactly or with a sticky lowest bit, and the result is rounded once by
//! [`Format::encode`]. No host floating point is used, so neither the host's rounding mode nor its
//! flush-to-zero flags matter.
//!
//! Invariant: a [`Real`] that an operation returns is either exact or carries at least 60
//! significant bits with "something was cut off" OR-ed into its lowest bit, which is more than any
//! format's precision plus two; so one later rounding is correct in every mode.

use super::{Bits, mask};
use crate::mods::Rounding;
use crate::types::OpType;
use std::cmp::Ordering;

/// Which encodings of a format are not numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Specials {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// One NaN (all ones), no infinity.
    NanOnly,
    /// Every encoding is a finite number.
    Finite,
}

/// A binary floating-point format with a sign bit, biased exponent and fraction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent_bits: u32,
    /// Bits of the fraction, the leading one not counted.
    pub fraction_bits: u32,
    /// Encodings that are not numbers.
    pub specials: Specials,
    /// The NaN that operations yield.
    pub nan: Bits,
}

/// How an exact value becomes one of a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// To the nearest, ties to the even significand.
    NearestEven,
    /// To the nearest, ties away from zero.
    NearestAway,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
    /// Adds `random`, scaled so that `1 << bits` is one unit of the last place, and truncates.
    Stochastic {
        /// Number of random bits.
        bits: u32,
        /// The random bits.
        random: u32,
    },
}

impl Round {
    /// The direction of a modifier; none means nearest even. `.rs` needs its bits and is taken for
    /// nearest even here.
    pub const fn of(rounding: Rounding) -> Round {
        match rounding {
            Rounding::Rz | Rounding::Rzi => Round::Zero,
            Rounding::Rm | Rounding::Rmi => Round::Down,
            Rounding::Rp | Rounding::Rpi => Round::Up,
            Rounding::Rna => Round::NearestAway,
            Rounding::None | Rounding::Rn | Rounding::Rs | Rounding::Rni => Round::NearestEven,
        }
    }

    /// `significand / 2^shift` as an integer.
    fn divide(self, negative: bool, significand: u128, shift: i32) -> u128 {
        if shift <= 0 {
            return significand.unbounded_shl(shift.unsigned_abs());
        }
        let shift = shift as u32;
        let whole = significand.unbounded_shr(shift);
        let rest = significand & mask(shift);
        // Half of the last place, or more than any rest when it does not fit.
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

/// Whether the top `bits` discarded bits plus `random` carry into the last place.
fn stochastic_carry(significand: u128, shift: u32, bits: u32, random: u32) -> bool {
    let discarded = (significand << bits).unbounded_shr(shift);
    let sum = (discarded & mask(bits)) + (u128::from(random) & mask(bits));
    sum >> bits != 0
}

/// A finite value: `significand * 2^exponent`, negated if `negative`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Real {
    /// Sign; meaningful for zero too.
    pub negative: bool,
    /// Magnitude's digits; zero for zero.
    pub significand: u128,
    /// Power of two of the lowest digit.
    pub exponent: i32,
}

/// A decoded floating-point value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// Not a number.
    Nan,
    /// Infinity; true if negative.
    Infinity(bool),
    /// Zero or any finite value.
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

    /// binary16; its canonical NaN is PTX's.
    pub const F16: Format = Format::ieee(5, 10, 0x7fff);
    /// bfloat16.
    pub const BF16: Format = Format::ieee(8, 7, 0x7fff);
    /// tf32 as 19 bits; a register holds it in its upper 19.
    pub const TF32: Format = Format::ieee(8, 10, 0x3ffff);
    /// binary32; invalid operations give the NaN that CUDA's headers call `CUDART_NAN_F`.
    pub const F32: Format = Format::ieee(8, 23, 0x7fff_ffff);
    /// binary64; invalid operations give the NaN that CUDA's headers call `CUDART_NAN`.
    pub const F64: Format = Format::ieee(11, 52, 0xfff8_0000_0000_0000);
    /// 8 bits, largest value 448, no infinity.
    pub const E4M3: Format = Format::small(4, 3, Specials::NanOnly);
    /// 8 bits, IEEE-like.
    pub const E5M2: Format = Format::small(5, 2, Specials::Ieee);
    /// 6 bits, finite only; a NaN becomes the largest value.
    pub const E3M2: Format = Format::small(3, 2, Specials::Finite);
    /// 6 bits, finite only.
    pub const E2M3: Format = Format::small(2, 3, Specials::Finite);
    /// 4 bits, finite only.
    pub const E2M1: Format = Format::small(2, 1, Specials::Finite);

    /// The format of one element of a type; `None` for integers and for formats without fraction.
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

    /// Sign, exponent and fraction together.
    pub const fn width(&self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    const fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// The sign bit.
    #[inline(always)]
    pub const fn sign_bit(&self) -> Bits {
        1 << (self.width() - 1)
    }

    /// Encoding of the exponent field's ones.
    #[inline(always)]
    pub const fn infinity(&self) -> Bits {
        mask(self.exponent_bits) << self.fraction_bits
    }

    /// Encoding of 1.0.
    #[inline(always)]
    pub const fn one(&self) -> Bits {
        (self.bias() as Bits) << self.fraction_bits
    }

    /// Encoding of the largest finite magnitude.
    pub const fn max_finite(&self) -> Bits {
        match self.specials {
            Specials::Ieee => self.infinity() - 1,
            Specials::NanOnly => mask(self.width() - 1) - 1,
            Specials::Finite => mask(self.width() - 1),
        }
    }

    /// Whether the sign bit is set.
    #[inline(always)]
    pub const fn is_negative(&self, bits: Bits) -> bool {
        bits & self.sign_bit() != 0
    }

    /// The encoding without its sign.
    #[inline(always)]
    pub const fn magnitude(&self, bits: Bits) -> Bits {
        bits & mask(self.width() - 1)
    }

    /// Whether the bits are a NaN.
    #[inline(always)]
    pub const fn is_nan(&self, bits: Bits) -> bool {
        let magnitude = self.magnitude(bits);
        match self.specials {
            Specials::Ieee => magnitude > self.infinity(),
            Specials::NanOnly => magnitude == mask(self.width() - 1),
            Specials::Finite => false,
        }
    }

    /// Whether the bits are a subnormal number (zero is none).
    #[inline(always)]
    pub const fn is_subnormal(&self, bits: Bits) -> bool {
        let magnitude = self.magnitude(bits);
        magnitude != 0 && magnitude >> self.fraction_bits == 0
    }

    /// The bits, or a zero of the same sign when they are subnormal.
    #[inline(always)]
    pub const fn flush(&self, bits: Bits) -> Bits {
        if self.is_subnormal(bits) {
            bits & self.sign_bit()
        } else {
            bits
        }
    }

    /// The value of an encoding; bits above the format's width are ignored.
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

    /// Rounds to this format. With `saturate`, what would be infinite is the largest finite value.
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
        // A leading one adds one to the exponent field, and so does a carry out of the fraction.
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
    /// Zero of a sign.
    pub const fn zero(negative: bool) -> Real {
        Real::integer(negative, 0)
    }

    /// An integer.
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

    /// The same value with the leading one in bit `top`; zero stays zero.
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

    /// The nearest integer in a direction, as a sign and magnitude; huge values give `u128::MAX`.
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

/// Shifts right; what falls off is OR-ed into the lowest bit.
fn shift_right_sticky(value: u128, count: u32) -> u128 {
    let kept = value.unbounded_shr(count);
    kept | u128::from(value & mask(count) != 0)
}

/// `a + b`. The sign of an exact zero from opposite signs is negative only when rounding down.
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
    // Products have at most 106 bits, so at bit 125 both operands end in 20 zeros: only distances
    // above 20 lose bits, and then a difference keeps its leading 124 bits.
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

/// The opposite sign, of NaN too.
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

/// `a * b`, exact: operands have at most 64 bits.
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

/// `a / b`.
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

/// The square root; of -0 it is -0, of other negative values NaN.
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

/// Rounded to an integral value; a result of zero keeps the operand's sign.
pub fn round_to_integral(a: Number, round: Round) -> Number {
    match a {
        Number::Finite(real) if real.exponent < 0 => {
            let (negative, magnitude) = real.to_integer(round);
            Number::Finite(Real::integer(negative, magnitude))
        }
        other => other,
    }
}
