//! Types, values and expectations of file tests.
//!
//! Invariant: a value is stored as its bits, zero-extended to 128 bits. Parsing rounds numbers of the types `f32` and
//! `f64` only; for all other types, a comparison uses exactly the value in the file. This module depends only on the
//! standard library, because the tests of the front end also compile it.

/// The interpretation of the bits of a [`Type`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    /// Floating-point numbers with these numbers of exponent bits and fraction bits.
    Float(u32, u32),
}

/// An element type with its PTX name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    name: &'static str,
    bytes: usize,
    kind: Kind,
}

const fn row(name: &'static str, bytes: usize, kind: Kind) -> Type {
    Type { name, bytes, kind }
}

const TYPES: [Type; 18] = [
    row("b8", 1, Kind::Unsigned),
    row("b16", 2, Kind::Unsigned),
    row("b32", 4, Kind::Unsigned),
    row("b64", 8, Kind::Unsigned),
    row("b128", 16, Kind::Unsigned),
    row("u8", 1, Kind::Unsigned),
    row("u16", 2, Kind::Unsigned),
    row("u32", 4, Kind::Unsigned),
    row("u64", 8, Kind::Unsigned),
    row("s8", 1, Kind::Signed),
    row("s16", 2, Kind::Signed),
    row("s32", 4, Kind::Signed),
    row("s64", 8, Kind::Signed),
    row("f16", 2, Kind::Float(5, 10)),
    row("bf16", 2, Kind::Float(8, 7)),
    row("f32", 4, Kind::Float(8, 23)),
    row("f64", 8, Kind::Float(11, 52)),
    row("pred", 1, Kind::Unsigned),
];

/// The allowed difference between the actual value and the expected value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// An absolute difference.
    Absolute(f64),
    /// A relative difference: this number times the magnitude of the expected value.
    Relative(f64),
    /// A number of units in the last place of the expected value.
    Ulps(f64),
}

/// The expected value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// Exactly these bits.
    Bits(u128),
    /// Any NaN.
    Nan,
    /// A value that differs from this number by at most the test's tolerance.
    Near(f64),
    /// Any value.
    Any,
}

impl Type {
    /// Returns the type called `name`.
    pub fn named(name: &str) -> Option<Type> {
        TYPES.iter().copied().find(|ty| ty.name == name)
    }

    /// Returns the type's name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the type's size in bytes.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    fn bits(self) -> u32 {
        8 * self.bytes as u32
    }

    /// Parses a value: `0x...` for any type, otherwise a number that the type represents exactly. Numbers of the types
    /// `f32` and `f64` are rounded.
    ///
    /// # Errors
    ///
    /// Returns a description of the mistake in the text.
    pub fn parse(self, text: &str) -> Result<u128, String> {
        let wrong = || format!("`{text}` is not a value of type {}", self.name);
        if let Some(digits) = text.strip_prefix("0x") {
            let bits = u128::from_str_radix(digits, 16).map_err(|_| wrong())?;
            let fits = self.bits() == 128 || bits >> self.bits() == 0;
            return if fits { Ok(bits) } else { Err(wrong()) };
        }
        match self.kind {
            Kind::Unsigned => {
                let value: u128 = text.parse().map_err(|_| wrong())?;
                let fits = self.bits() == 128 || value >> self.bits() == 0;
                if fits { Ok(value) } else { Err(wrong()) }
            }
            Kind::Signed => {
                let value: i128 = text.parse().map_err(|_| wrong())?;
                let half = 1i128 << (self.bits() - 1);
                if (-half..half).contains(&value) {
                    Ok(value as u128 & ((1 << self.bits()) - 1))
                } else {
                    Err(wrong())
                }
            }
            Kind::Float(exponent, fraction) => {
                let value: f64 = text.parse().map_err(|_| wrong())?;
                if value.is_nan() {
                    return Err(format!("`{text}`: write the bits of a NaN"));
                }
                match self.name {
                    "f64" => Ok(value.to_bits().into()),
                    "f32" => text
                        .parse::<f32>()
                        .map(|value| value.to_bits().into())
                        .map_err(|_| wrong()),
                    _ => narrow(value, exponent, fraction)
                        .ok_or_else(|| format!("`{text}` has no exact {}", self.name)),
                }
            }
        }
    }

    /// Parses an expectation: a value, `nan` for any NaN, or `_` for any value. If `near` is set, floating-point
    /// numbers are compared within the tolerance.
    ///
    /// # Errors
    ///
    /// Returns a description of the mistake in the text.
    pub fn expect(self, text: &str, near: bool) -> Result<Expected, String> {
        let float = matches!(self.kind, Kind::Float(..));
        match text {
            "_" => Ok(Expected::Any),
            "nan" if float => Ok(Expected::Nan),
            _ if near && float && !text.starts_with("0x") => {
                let value: f64 = text
                    .parse()
                    .map_err(|_| format!("`{text}` is not a number"))?;
                if value.is_finite() {
                    Ok(Expected::Near(value))
                } else {
                    self.parse(text).map(Expected::Bits)
                }
            }
            _ => self.parse(text).map(Expected::Bits),
        }
    }

    /// Returns whether the value `bits` meets the expectation `expected`.
    pub fn agrees(self, bits: u128, expected: Expected, tolerance: Tolerance) -> bool {
        match expected {
            Expected::Any => true,
            Expected::Bits(wanted) => bits == wanted,
            Expected::Nan => self.number(bits).is_nan(),
            Expected::Near(wanted) => {
                let apart = (self.number(bits) - wanted).abs();
                apart
                    <= match tolerance {
                        Tolerance::Absolute(bound) => bound,
                        Tolerance::Relative(bound) => bound * wanted.abs(),
                        Tolerance::Ulps(count) => count * self.ulp(wanted),
                    }
            }
        }
    }

    /// Returns the size of a unit in the last place (ulp) of this type at `value`.
    fn ulp(self, value: f64) -> f64 {
        let Kind::Float(exponent, fraction) = self.kind else {
            return 1.0;
        };
        let least = 2 - (1 << (exponent - 1));
        let power = if value == 0.0 {
            least
        } else {
            (exponent_of(value)).max(least)
        };
        f64::powi(2.0, power - fraction as i32)
    }

    /// Returns the number that the bits of a floating-point type represent.
    fn number(self, bits: u128) -> f64 {
        match (self.kind, self.name) {
            (_, "f64") => f64::from_bits(bits as u64),
            (Kind::Float(exponent, fraction), _) => widen(bits as u64, exponent, fraction),
            _ => bits as f64,
        }
    }

    /// Formats the value.
    pub fn show(self, bits: u128) -> String {
        let digits = 2 * self.bytes;
        match self.kind {
            Kind::Unsigned => format!("0x{bits:0digits$x}"),
            Kind::Signed => {
                let unused = 128 - self.bits();
                format!("{}", (bits << unused) as i128 >> unused)
            }
            Kind::Float(..) => format!("0x{bits:0digits$x} ({:e})", self.number(bits)),
        }
    }

    /// Returns the bytes of the value `bits`, in little-endian order.
    pub fn to_bytes(self, bits: u128) -> impl Iterator<Item = u8> {
        bits.to_le_bytes().into_iter().take(self.bytes)
    }

    /// Returns the values in `bytes`; ignores an incomplete last value.
    pub fn values(self, bytes: &[u8]) -> impl Iterator<Item = u128> {
        bytes.chunks_exact(self.bytes).map(|chunk| {
            let low = chunk.iter().rev();
            low.fold(0, |bits, &byte| bits << 8 | u128::from(byte))
        })
    }
}

/// Returns the exponent `e` of a normal number, for which `1 <= |value| / 2^e < 2`.
fn exponent_of(value: f64) -> i32 {
    let biased = (value.to_bits() >> 52 & 0x7ff) as i32;
    if biased == 0 {
        // The number is subnormal. The caller replaces the result by the least exponent of its type.
        return -1023;
    }
    biased - 1023
}

/// Returns the number that `bits` represent in a floating-point format with at most 32 bits.
/// `exponent` and `fraction` are the numbers of bits of the format's exponent and fraction.
fn widen(bits: u64, exponent: u32, fraction: u32) -> f64 {
    let sign = if bits >> (exponent + fraction) & 1 == 1 {
        -1.0
    } else {
        1.0
    };
    let power = (bits >> fraction & ((1 << exponent) - 1)) as i32;
    let part = (bits & ((1 << fraction) - 1)) as f64;
    let bias = (1 << (exponent - 1)) - 1;
    let scale = |power: i32| f64::powi(2.0, power - fraction as i32);
    sign * match power {
        0 => part * scale(1 - bias),
        p if p == (1 << exponent) - 1 && part == 0.0 => f64::INFINITY,
        p if p == (1 << exponent) - 1 => f64::NAN,
        p => (part + f64::powi(2.0, fraction as i32)) * scale(p - bias),
    }
}

/// Returns the bits of `value` in a floating-point format with fewer than 32 bits; `None` if the
/// format cannot represent `value` exactly.
fn narrow(value: f64, exponent: u32, fraction: u32) -> Option<u128> {
    let all = 1u64 << (1 + exponent + fraction);
    // Trying all values is fast enough, because the formats for which this function is called have at most 16 bits.
    let found = (0..all).find(|&bits| {
        let same = widen(bits, exponent, fraction);
        same == value && same.is_sign_negative() == value.is_sign_negative()
    });
    found.map(u128::from)
}

/// Splits a list of values. `v*n` means the value `v`, repeated n times, and `lo..hi` means the
/// whole numbers from `lo` to `hi`, inclusive.
///
/// # Errors
///
/// Returns an error for a mistake in the text, and for a list of more than a million values.
pub fn list(text: &str) -> Result<Vec<String>, String> {
    const MOST: usize = 1 << 20;
    let mut all = Vec::new();
    for word in text.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
        let wrong = || format!("`{word}` is not a value");
        if let Some((value, count)) = word.split_once('*') {
            let count: usize = count.parse().map_err(|_| wrong())?;
            if count > MOST {
                return Err(wrong());
            }
            all.extend(std::iter::repeat_n(value.to_owned(), count));
        } else if let Some((low, high)) = word.split_once("..") {
            let low: i64 = low.parse().map_err(|_| wrong())?;
            let high: i64 = high.parse().map_err(|_| wrong())?;
            if high < low || high.abs_diff(low) >= MOST as u64 {
                return Err(wrong());
            }
            all.extend((low..=high).map(|value| value.to_string()));
        } else {
            all.push(word.to_owned());
        }
        if all.len() > MOST {
            return Err("too many values".to_owned());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(name: &str) -> Type {
        Type::named(name).unwrap()
    }

    #[test]
    fn values_have_exact_bits() {
        assert_eq!(ty("s16").parse("-2"), Ok(0xfffe));
        assert_eq!(ty("f32").parse("0.1"), Ok(0x3dcc_cccd));
        assert_eq!(ty("f16").parse("1.5"), Ok(0x3e00));
        assert_eq!(ty("bf16").parse("-0.0"), Ok(0x8000));
        assert_eq!(ty("b128").parse("0x1"), Ok(1));
        assert!(ty("f16").parse("0.1").is_err());
        assert!(ty("u8").parse("256").is_err());
        assert!(ty("u8").parse("0x100").is_err());
        assert!(ty("s8").parse("-129").is_err());
        assert!(ty("f32").parse("nan").is_err());
    }

    #[test]
    fn expectations_are_exact_unless_asked() {
        let one = ty("f32").parse("1").unwrap();
        let next = one + 1;
        let exact = ty("f32").expect("1", false).unwrap();
        let near = ty("f32").expect("1", true).unwrap();
        let ulp = Tolerance::Ulps(1.0);
        assert!(ty("f32").agrees(one, exact, ulp));
        assert!(!ty("f32").agrees(next, exact, ulp));
        assert!(ty("f32").agrees(next, near, ulp));
        assert!(!ty("f32").agrees(next + 1, near, ulp));
        assert!(ty("f16").agrees(0x7e01, Expected::Nan, ulp));
        assert!(!ty("f16").agrees(0x7c00, Expected::Nan, ulp));
        let zeros = ty("f32").expect("0", false).unwrap();
        assert!(!ty("f32").agrees(0x8000_0000, zeros, ulp));
    }

    #[test]
    fn tolerances_are_of_the_expected_value() {
        let f32 = ty("f32");
        let bits = |text: &str| f32.parse(text).unwrap();
        assert!(f32.agrees(bits("10.5"), Expected::Near(10.0), Tolerance::Absolute(0.5)));
        assert!(!f32.agrees(bits("10.6"), Expected::Near(10.0), Tolerance::Absolute(0.5)));
        assert!(f32.agrees(
            bits("10.5"),
            Expected::Near(10.0),
            Tolerance::Relative(0.05)
        ));
        assert!(!f32.agrees(0x7fc0_0000, Expected::Near(1.0), Tolerance::Absolute(9.0)));
        // The values are subnormal, so a unit in the last place is 2^-149.
        assert!(f32.agrees(2, Expected::Near(0.0), Tolerance::Ulps(2.0)));
        assert!(!f32.agrees(3, Expected::Near(0.0), Tolerance::Ulps(2.0)));
    }

    #[test]
    fn lists_have_repetitions_and_ranges() {
        assert_eq!(list("1, 2*3 4..6").unwrap().join(" "), "1 2 2 2 4 5 6");
        assert!(list("6..4").is_err());
        assert!(list("1*99999999").is_err());
    }
}
