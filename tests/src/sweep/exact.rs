//! Checks instructions on `f32` for which the ISA defines every bit of the result: roots,
//! reciprocals, quotients and conversions.
//!
//! To check a rounded result, the checker compares the exact value with the neighbours of the
//! result. For a root, the checker compares squares; for a quotient, it compares products. The
//! squares and products have at most 50 bits and are exact in `f64`. For a conversion to an
//! integer, the checker computes the exact result with shifts.

use std::cmp::Ordering;

use super::Check;
use super::format::{Format, Mode, Rounding, Top};
use super::tally::Tally;

/// Modifiers that change the operand or the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Modifiers {
    /// `.ftz`: subnormal operands, and subnormal results in `f32`, become zero.
    pub ftz: bool,
    /// `.sat`: results below 0 become 0, results above 1 become 1, and NaN becomes 0.
    pub sat: bool,
    /// `.relu`: negative results become 0, and NaN becomes the canonical NaN.
    pub relu: bool,
    /// `.satfinite`: results beyond the largest finite number become the largest finite number.
    pub satfinite: bool,
}

const SIGN: u32 = 1 << 31;

/// Replaces a subnormal `f32` by a zero of the same sign.
fn flushed(x: f32, ftz: bool) -> f32 {
    if ftz && x.is_subnormal() {
        0f32.copysign(x)
    } else {
        x
    }
}

fn order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).expect("no NaN is compared")
}

#[inline(always)]
fn single(mode: Mode, ftz: bool) -> Rounding {
    Rounding {
        format: Format::F32,
        mode,
        flush: ftz,
        clamp: false,
    }
}

/// Records the result `got` as wrong unless it is the encoding of `wanted`. All NaNs count as
/// equal.
fn expect(wanted: f32, inputs: &[u64], got: u64, tally: &mut Tally) {
    let value = f32::from_bits(got as u32);
    let same = value.to_bits() == wanted.to_bits() || value.is_nan() && wanted.is_nan();
    tally.expect(same, inputs, got, "a special case");
}

/// Returns a checker of `sqrt.MODE.f32`.
pub fn root(mode: Mode, ftz: bool) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let rounding = single(mode, ftz);
        let x = flushed(f32::from_bits(inputs[0] as u32), ftz);
        if x == 0.0 || x == f32::INFINITY {
            return expect(x, inputs, got, tally);
        }
        if x.is_nan() || x < 0.0 {
            return expect(f32::NAN, inputs, got, tally);
        }
        let x = f64::from(x);
        let right = rounding.is_right(false, got, |t| order(t * t, x));
        tally.expect(right, inputs, got, "not the rounded root");
    })
}

/// Returns a checker of `rcp.MODE.f32`.
pub fn reciprocal(mode: Mode, ftz: bool) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let rounding = single(mode, ftz);
        let x = flushed(f32::from_bits(inputs[0] as u32), ftz);
        if x.is_nan() || x == 0.0 || x.is_infinite() {
            return expect(1.0 / x, inputs, got, tally);
        }
        let size = f64::from(x.abs());
        let right = rounding.is_right(x < 0.0, got, |t| order(t * size, 1.0));
        tally.expect(right, inputs, got, "not the rounded reciprocal");
    })
}

/// Returns a checker of `div.MODE.f32`.
pub fn quotient(mode: Mode, ftz: bool) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let rounding = single(mode, ftz);
        let operand = |at: usize| flushed(f32::from_bits(inputs[at] as u32), ftz);
        let (a, b) = (operand(0), operand(1));
        let special = |x: f32| x.is_nan() || x == 0.0 || x.is_infinite();
        if special(a) || special(b) {
            return expect(a / b, inputs, got, tally);
        }
        let negative = (a < 0.0) != (b < 0.0);
        let (a, b) = (f64::from(a.abs()), f64::from(b.abs()));
        let right = rounding.is_right(negative, got, |t| order(t * b, a));
        tally.expect(right, inputs, got, "not the rounded quotient");
    })
}

/// A conversion of `f32` to a format with fewer bits, with its rounding direction and modifiers.
#[derive(Clone, Copy, Debug)]
pub struct Narrowing {
    /// The destination format.
    pub format: Format,
    /// The rounding direction.
    pub mode: Mode,
    /// The other modifiers.
    pub modifiers: Modifiers,
}

impl Narrowing {
    /// Returns whether `got` is the correct result of the conversion of `x`.
    #[inline]
    fn is_right(&self, x: f32, got: u64) -> bool {
        let Narrowing {
            format, modifiers, ..
        } = *self;
        let x = flushed(x, modifiers.ftz);
        let magnitude = got & (format.sign() - 1);
        if x.is_nan() {
            return match (modifiers.sat, format.top) {
                (true, _) => got == 0,
                (_, Top::Numbers) => got == format.end() - 1,
                _ => format.is_nan(magnitude),
            };
        }
        if modifiers.sat && x <= 0.0 || modifiers.relu && x < 0.0 {
            return got == 0;
        }
        if modifiers.sat && x >= 1.0 {
            return format.signed(got) == 1.0;
        }
        if modifiers.relu && x == 0.0 {
            // The sign of a zero result is not specified for an operand that is not negative.
            return magnitude == 0;
        }
        let negative = x.is_sign_negative();
        let signed = |magnitude: u64| magnitude | if negative { format.sign() } else { 0 };
        if x == 0.0 {
            return got == signed(0);
        }
        let clamp = modifiers.satfinite;
        if x.is_infinite() {
            return got
                == signed(if clamp {
                    format.end() - 1
                } else {
                    format.end()
                });
        }
        let rounding = Rounding {
            format,
            mode: self.mode,
            flush: false,
            clamp,
        };
        let size = f64::from(x.abs());
        rounding.is_right(negative, got, |t| order(t, size))
    }

    /// Returns a checker of `cvt` to a single number, which begins at bit `shift` of the result
    /// register.
    pub fn check(self, shift: u32) -> Check {
        Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
            let x = f32::from_bits(inputs[0] as u32);
            // The canonical NaN has ones in the lower bits, too.
            let clean = got & ((1 << shift) - 1) == 0 || x.is_nan();
            let right = clean && self.is_right(x, got >> shift);
            tally.expect(right, inputs, got, "not the rounded number");
        })
    }

    /// Returns a checker of `cvt` to two numbers of `width` bits. The result for the first operand
    /// is in the upper half of the register.
    pub fn check_pair(self, width: u32) -> Check {
        Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
            let mask = (1 << width) - 1;
            let halves = [got >> width, got & mask];
            for (half, operand) in halves.into_iter().zip(inputs) {
                let right = self.is_right(f32::from_bits(*operand as u32), half);
                tally.expect(right, inputs, got, "not the rounded number");
            }
        })
    }
}

/// Returns a checker of `cvt.f64.f32`.
pub fn widened(modifiers: Modifiers) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = flushed(f32::from_bits(inputs[0] as u32), modifiers.ftz);
        let value = f64::from_bits(got);
        if x.is_nan() && !modifiers.sat {
            return tally.expect(value.is_nan(), inputs, got, "NaN");
        }
        let bits = u64::from(x.to_bits() & !SIGN);
        let size = match bits {
            _ if x.is_infinite() => f64::INFINITY,
            bits => Format::F32.value(bits.min(Format::F32.end())),
        };
        let wanted = match modifiers.sat {
            true if x.is_nan() || x <= 0.0 => 0.0,
            true => size.min(1.0),
            false => size.copysign(x.into()),
        };
        let same = got == wanted.to_bits();
        tally.expect(same, inputs, got, "not the same number");
    })
}

/// Rounds `x` to an integer and returns the magnitude of the integer. The rounding direction `mode`
/// applies to the signed number and not to the magnitude. Returns `None` if `|x|` is at least 2^87.
#[inline]
fn whole(x: f32, mode: Mode) -> Option<u128> {
    let bits = x.to_bits() & !SIGN;
    let field = bits >> 23;
    let fraction = u128::from(bits & 0x7f_ffff);
    let digits = if field == 0 {
        fraction
    } else {
        fraction | 1 << 23
    };
    let shift = field.max(1) as i32 - 150;
    if shift >= 0 {
        return (shift < 64).then(|| digits << shift);
    }
    let down = (-shift) as u32;
    if down > 40 {
        let some = digits != 0;
        let up = matches!((mode, x < 0.0), (Mode::Up, false) | (Mode::Down, true));
        return Some(u128::from(some && up));
    }
    let (floor, rest) = (digits >> down, digits & ((1 << down) - 1));
    let half = 1 << (down - 1);
    let up = match (mode, x < 0.0) {
        (Mode::Up, false) | (Mode::Down, true) => rest != 0,
        (Mode::Nearest, _) => rest > half || rest == half && floor % 2 == 1,
        (Mode::Away, _) => rest >= half,
        _ => false,
    };
    Some(floor + u128::from(up))
}

/// Returns a checker of `cvt.MODEi.INT.f32`: an integer of `width` bits, sign-extended or, if it is unsigned,
/// zero-extended to `register` bits.
pub fn integer(width: u32, signed: bool, register: u32, mode: Mode, ftz: bool) -> Check {
    let (least, most) = match signed {
        true => (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1),
        false => (0, (1i128 << width) - 1),
    };
    let mask = u64::MAX >> (64 - register);
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = flushed(f32::from_bits(inputs[0] as u32), ftz);
        let wanted = if x.is_nan() {
            // The result for NaN is zero; if the integer has 64 bits, only its top bit is set.
            if width == 64 { 1 << 63 } else { 0 }
        } else {
            let size = whole(x, mode).map_or(1i128 << 100, |size| size as i128);
            let value = if x < 0.0 { -size } else { size };
            value.clamp(least, most) as u64 & mask
        };
        tally.expect(got == wanted, inputs, got, "not the integer");
    })
}

/// Returns a checker of `cvt.MODEi.f32.f32`, which rounds to an integral number.
pub fn integral(mode: Mode, modifiers: Modifiers) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = flushed(f32::from_bits(inputs[0] as u32), modifiers.ftz);
        let saturated = modifiers.sat && (x.is_nan() || x <= 0.0);
        let wanted = if saturated {
            0.0
        } else if x.is_nan() {
            f32::NAN
        } else if x.abs() >= 8_388_608.0 {
            x
        } else {
            let size = whole(x, mode).unwrap_or_default() as u32;
            // Below 2^24 every integer is representable.
            (size as f32).copysign(x)
        };
        let wanted = if modifiers.sat {
            wanted.min(1.0)
        } else {
            wanted
        };
        expect(wanted, inputs, got, tally);
    })
}

/// Returns a checker of `cvt.f32.f32`, which only applies `modifiers`: it replaces subnormal
/// numbers by zero, and numbers outside [0, 1] by the nearest limit.
pub fn same(modifiers: Modifiers) -> Check {
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let x = flushed(f32::from_bits(inputs[0] as u32), modifiers.ftz);
        let wanted = match modifiers.sat {
            true if x.is_nan() || x <= 0.0 => 0.0,
            true => x.min(1.0),
            false => x,
        };
        expect(wanted, inputs, got, tally);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(check: &Check, inputs: &[u64], got: u64) -> bool {
        let mut tally = Tally::new(&[]);
        check.one(inputs, got, &mut tally);
        tally.wrong_count == 0
    }

    #[test]
    fn neighbours_of_a_right_result_are_wrong() {
        let bits = |x: f32| u64::from(x.to_bits());
        let (three, tenth) = (bits(3.0), bits(0.1));
        let cases: [(Check, Vec<u64>, f32); 6] = [
            (root(Mode::Nearest, false), vec![three], 1.732_050_8),
            (reciprocal(Mode::Nearest, true), vec![three], 0.333_333_34),
            (reciprocal(Mode::Zero, true), vec![three], 0.333_333_3),
            (quotient(Mode::Up, false), vec![three, tenth], 30.0),
            (quotient(Mode::Down, false), vec![three, tenth], 29.999_998),
            (integral(Mode::Up, Modifiers::default()), vec![tenth], 1.0),
        ];
        for (at, (check, inputs, wanted)) in cases.iter().enumerate() {
            for step in -1i64..=1 {
                let got = (bits(*wanted) as i64 + step) as u64;
                assert_eq!(right(check, inputs, got), step == 0, "{at}: {step}");
            }
        }
    }

    #[test]
    fn integers_saturate_and_round() {
        let bits = |x: f32| [u64::from(x.to_bits())];
        let byte = |mode| integer(8, true, 32, mode, false);
        for (mode, x, wanted) in [
            (Mode::Nearest, 2.5, 2),
            (Mode::Nearest, 3.5, 4),
            (Mode::Down, -0.25, -1),
            (Mode::Up, 0.25, 1),
            (Mode::Up, -0.25, 0),
            (Mode::Zero, -127.9, -127),
            (Mode::Zero, 300.0, 127),
            (Mode::Nearest, f32::NEG_INFINITY, -128),
            (Mode::Nearest, f32::NAN, 0),
            (Mode::Up, f32::from_bits(1), 1),
        ] {
            let wanted: i32 = wanted;
            assert!(
                right(&byte(mode), &bits(x), u64::from(wanted as u32)),
                "{x}"
            );
            let other = u64::from(wanted as u32 ^ 1);
            assert!(!right(&byte(mode), &bits(x), other), "{x}");
        }
        let long = integer(64, true, 64, Mode::Zero, false);
        assert!(right(&long, &bits(f32::NAN), 1 << 63));
        assert!(right(&long, &bits(-1e30), 1 << 63));
        assert!(right(&long, &bits(1e30), (1 << 63) - 1));
        assert!(right(&long, &bits(-1.5), u64::MAX));
        let natural = integer(64, false, 64, Mode::Zero, false);
        assert!(right(&natural, &bits(1.5 * 2f32.powi(63)), 3 << 62));
        assert!(right(&natural, &bits(-5.0), 0));
    }

    #[test]
    fn narrow_numbers_clamp_or_overflow() {
        let narrowing = |format, satfinite| Narrowing {
            format,
            mode: Mode::Nearest,
            modifiers: Modifiers {
                satfinite,
                ..Modifiers::default()
            },
        };
        let half = narrowing(Format::F16, false);
        assert!(half.is_right(1e6, 0x7c00) && !half.is_right(1e6, 0x7bff));
        let clamped = narrowing(Format::F16, true);
        assert!(clamped.is_right(1e6, 0x7bff) && !clamped.is_right(1e6, 0x7c00));
        let small = narrowing(Format::E2M1, true);
        assert!(small.is_right(f32::NAN, 7) && small.is_right(-100.0, 15));
        assert!(small.is_right(0.25, 0) && small.is_right(0.26, 1));
        let pair = narrowing(Format::E4M3, true).check_pair(8);
        let one = u64::from(1f32.to_bits());
        assert!(right(&pair, &[one, 0], 0x3800) && !right(&pair, &[0, one], 0x3800));
    }
}
