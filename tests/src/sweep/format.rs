//! Floating-point formats, and checks that a number is correctly rounded.
//!
//! A magnitude is an encoding without its sign. Consecutive magnitudes represent consecutive
//! numbers, so the neighbours of a result have the previous and the next magnitude. In a format
//! with an infinity, the encoding after the largest number represents the next power of two, which
//! is also the value of infinity for the purpose of rounding. All values and all midpoints between
//! neighbours are exact in `f64`.

use std::cmp::Ordering;

/// The encodings above the largest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Top {
    /// Infinity, then NaNs.
    Infinity,
    /// The only such encoding is a NaN, whose bits are all ones.
    Nan,
    /// There are no such encodings: every encoding is a number.
    Numbers,
}

/// A format whose encodings consist of a sign, an exponent and a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of exponent bits.
    pub exponent: u32,
    /// Number of fraction bits.
    pub fraction: u32,
    /// The encodings above the largest number.
    pub top: Top,
}

impl Format {
    const fn new(exponent: u32, fraction: u32, top: Top) -> Format {
        Format {
            exponent,
            fraction,
            top,
        }
    }

    /// Single precision.
    pub const F32: Format = Format::new(8, 23, Top::Infinity);
    /// Half precision.
    pub const F16: Format = Format::new(5, 10, Top::Infinity);
    /// Brain float: the upper half of `f32`.
    pub const BF16: Format = Format::new(8, 7, Top::Infinity);
    /// The format `tf32`: a sign, eight exponent bits and ten fraction bits, in the upper bits of
    /// 32 bits.
    pub const TF32: Format = Format::new(8, 10, Top::Infinity);
    /// Eight bits with four exponent bits, no infinity.
    pub const E4M3: Format = Format::new(4, 3, Top::Nan);
    /// Eight bits with five exponent bits.
    pub const E5M2: Format = Format::new(5, 2, Top::Infinity);
    /// Six bits with two exponent bits.
    pub const E2M3: Format = Format::new(2, 3, Top::Numbers);
    /// Six bits with three exponent bits.
    pub const E3M2: Format = Format::new(3, 2, Top::Numbers);
    /// Four bits with two exponent bits.
    pub const E2M1: Format = Format::new(2, 1, Top::Numbers);

    /// Returns the number of bits of an encoding without its sign.
    pub const fn magnitude_bits(self) -> u32 {
        self.exponent + self.fraction
    }

    /// Returns the encoding in which only the sign bit is set.
    pub const fn sign(self) -> u64 {
        1 << self.magnitude_bits()
    }

    /// Returns the first magnitude above the largest number. If the format has an infinity, this is
    /// the magnitude of infinity.
    pub const fn end(self) -> u64 {
        match self.top {
            Top::Infinity => ((1 << self.exponent) - 1) << self.fraction,
            Top::Nan => self.sign() - 1,
            Top::Numbers => self.sign(),
        }
    }

    /// Returns the magnitude of the smallest normal number.
    pub const fn least_normal(self) -> u64 {
        1 << self.fraction
    }

    /// Returns whether `magnitude` is the magnitude of a NaN.
    #[inline]
    pub const fn is_nan(self, magnitude: u64) -> bool {
        match self.top {
            Top::Infinity => magnitude > self.end(),
            Top::Nan => magnitude == self.end(),
            Top::Numbers => false,
        }
    }

    /// Returns the value of a magnitude, which is at most [`Format::end`].
    #[inline(always)]
    pub fn value(self, magnitude: u64) -> f64 {
        if matches!((self.exponent, self.fraction), (8, 23)) && magnitude < self.end() {
            // The conversion is exact and takes one instruction.
            return f32::from_bits(magnitude as u32).into();
        }
        let bias = (1i64 << (self.exponent - 1)) - 1;
        let field = (magnitude >> self.fraction) as i64;
        let fraction = magnitude & ((1 << self.fraction) - 1);
        if field == 0 {
            let unit = (1 - bias - i64::from(self.fraction) + 1023) as u64;
            return fraction as f64 * f64::from_bits(unit << 52);
        }
        let exponent = (field - bias + 1023) as u64;
        f64::from_bits(exponent << 52 | fraction << (52 - self.fraction))
    }

    /// Returns the value of an encoding with its sign. The result can be an infinity or NaN.
    #[inline(always)]
    pub fn signed(self, bits: u64) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        if self.is_nan(magnitude) {
            return f64::NAN;
        }
        let value = self.value(magnitude);
        if bits & self.sign() == 0 {
            value
        } else {
            -value
        }
    }
}

/// A direction of rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// To the nearest number; ties to the even encoding.
    Nearest,
    /// To the nearest number; ties away from zero.
    Away,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

impl Mode {
    /// The four rounding directions that most instructions support, with their modifiers.
    pub const ALL: [(Mode, &'static str); 4] = [
        (Mode::Nearest, "rn"),
        (Mode::Zero, "rz"),
        (Mode::Down, "rm"),
        (Mode::Up, "rp"),
    ];

    /// Returns the rounding direction that must be applied to the magnitude of a number so that the
    /// number is rounded in this direction.
    const fn of_magnitude(self, negative: bool) -> Mode {
        match (self, negative) {
            (Mode::Down, false) | (Mode::Up, true) => Mode::Zero,
            (Mode::Down, true) => Mode::Up,
            (mode, _) => mode,
        }
    }
}

/// The rules by which an exact value is rounded to a number of a format.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    /// The format of the result.
    pub format: Format,
    /// The rounding direction.
    pub mode: Mode,
    /// Whether subnormal results become zero.
    pub flush: bool,
    /// Whether results beyond the largest number become the largest number.
    pub clamp: bool,
}

impl Rounding {
    /// Returns whether `got` is the correctly rounded value of `sign * |x|`. `compare` compares a
    /// number with `|x|`.
    ///
    /// `|x|` must be neither zero nor infinite.
    #[inline(always)]
    pub fn is_right(&self, negative: bool, got: u64, compare: impl Fn(f64) -> Ordering) -> bool {
        let format = self.format;
        let magnitude = got & (format.sign() - 1);
        let beyond = got >> format.magnitude_bits() != u64::from(negative);
        if beyond || magnitude > format.end() || (magnitude == format.end() && self.clamp) {
            return false;
        }
        if format.top == Top::Nan && magnitude == format.end() {
            return false;
        }
        let mode = self.mode.of_magnitude(negative);
        if self.flush && magnitude < format.least_normal() {
            // Zero represents all values that are rounded to less than the least normal number.
            return magnitude == 0 && {
                let least = format.least_normal();
                self.below(mode, least - 1, &compare)
            };
        }
        self.above(mode, magnitude, &compare) && self.below(mode, magnitude, &compare)
    }

    #[inline(always)]
    fn half_way(&self, magnitude: u64) -> f64 {
        (self.format.value(magnitude) + self.format.value(magnitude + 1)) / 2.0
    }

    /// Returns whether the exact value is at least the smallest value that is rounded to
    /// `magnitude`. `compare` compares a number with the exact value.
    #[inline(always)]
    fn above(&self, mode: Mode, magnitude: u64, compare: &impl Fn(f64) -> Ordering) -> bool {
        match mode {
            Mode::Zero | Mode::Down => {
                let infinite = magnitude == self.format.end();
                !infinite && compare(self.format.value(magnitude)) != Ordering::Greater
            }
            _ if magnitude == 0 => true,
            Mode::Up => compare(self.format.value(magnitude - 1)) == Ordering::Less,
            Mode::Nearest => match compare(self.half_way(magnitude - 1)) {
                Ordering::Less => true,
                Ordering::Equal => magnitude.is_multiple_of(2),
                Ordering::Greater => false,
            },
            Mode::Away => compare(self.half_way(magnitude - 1)) != Ordering::Greater,
        }
    }

    /// Returns whether the exact value is at most the largest value that is rounded to `magnitude`.
    /// `compare` compares a number with the exact value.
    #[inline(always)]
    fn below(&self, mode: Mode, magnitude: u64, compare: &impl Fn(f64) -> Ordering) -> bool {
        let last = self.format.end() - 1;
        if magnitude > last {
            return true;
        }
        if magnitude == last && (self.clamp || self.format.top != Top::Infinity) {
            return true;
        }
        match mode {
            Mode::Zero | Mode::Down => {
                magnitude == last || compare(self.format.value(magnitude + 1)) == Ordering::Greater
            }
            Mode::Up => compare(self.format.value(magnitude)) != Ordering::Less,
            Mode::Nearest => match compare(self.half_way(magnitude)) {
                Ordering::Greater => true,
                Ordering::Equal => magnitude.is_multiple_of(2),
                Ordering::Less => false,
            },
            Mode::Away => compare(self.half_way(magnitude)) == Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(mode: Mode, exact: f64, got: f32, flush: bool) -> bool {
        let rounding = Rounding {
            format: Format::F32,
            mode,
            flush,
            clamp: false,
        };
        let compare = |t: f64| t.partial_cmp(&exact.abs()).expect("numbers");
        rounding.is_right(exact < 0.0, got.to_bits().into(), compare)
    }

    #[test]
    fn one_number_is_right_in_each_direction() {
        let step = f64::from(f32::EPSILON);
        let next = 1.0 + f32::EPSILON;
        for (mode, exact, right) in [
            (Mode::Nearest, 1.0 + 0.4 * step, 1.0),
            (Mode::Nearest, 1.0 + 0.5 * step, 1.0),
            (Mode::Nearest, 1.0 + 0.6 * step, next),
            (Mode::Away, 1.0 + 0.5 * step, next),
            (Mode::Zero, 1.0 + 0.9 * step, 1.0),
            (Mode::Down, 1.0 + 0.9 * step, 1.0),
            (Mode::Up, 1.0 + 0.1 * step, next),
            (Mode::Zero, -1.0 - 0.9 * step, -1.0),
            (Mode::Down, -1.0 - 0.1 * step, -next),
            (Mode::Up, -1.0 - 0.9 * step, -1.0),
            (Mode::Nearest, 3.5e38, f32::INFINITY),
            (Mode::Zero, 3.5e38, f32::MAX),
            (Mode::Down, -3.5e38, f32::NEG_INFINITY),
            (Mode::Up, 1e-50, f32::from_bits(1)),
            (Mode::Nearest, -1e-50, -0.0),
        ] {
            for bits in -2..=2 {
                let other = f32::from_bits((right.to_bits() as i32).wrapping_add(bits) as u32);
                assert_eq!(
                    judge(mode, exact, other, false),
                    bits == 0,
                    "{mode:?} {exact:e}: {other:e}"
                );
            }
            assert!(!judge(mode, exact, -right, false), "{mode:?} {exact:e}");
        }
    }

    #[test]
    fn flushed_results_are_those_that_would_be_subnormal() {
        let least = f64::from(f32::MIN_POSITIVE);
        let unit = 2f64.powi(-149);
        let cases = [
            (Mode::Nearest, least - 0.4 * unit, f32::MIN_POSITIVE),
            (Mode::Nearest, least - 0.6 * unit, 0.0),
            (Mode::Zero, least - 0.1 * unit, 0.0),
            (Mode::Up, least - 0.9 * unit, f32::MIN_POSITIVE),
            (Mode::Up, least - 1.0 * unit, 0.0),
        ];
        for (mode, exact, right) in cases {
            assert!(judge(mode, exact, right, true), "{mode:?} {exact:e}");
            let other = f32::MIN_POSITIVE - right;
            assert!(!judge(mode, exact, other, true), "{mode:?} {exact:e}");
        }
    }

    #[test]
    fn values_of_small_formats() {
        assert_eq!(Format::E4M3.value(Format::E4M3.end() - 1), 448.0);
        assert_eq!(Format::E5M2.value(Format::E5M2.end() - 1), 57344.0);
        assert_eq!(Format::E2M1.value(Format::E2M1.end() - 1), 6.0);
        assert_eq!(Format::E2M3.value(Format::E2M3.end() - 1), 7.5);
        assert_eq!(Format::E3M2.value(Format::E3M2.end() - 1), 28.0);
        assert_eq!(Format::F16.value(Format::F16.end()), 65536.0);
        assert_eq!(Format::F32.value(1), 2f64.powi(-149));
        assert!(Format::F32.signed(0x7fc0_0000).is_nan());
    }
}
