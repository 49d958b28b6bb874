//! The types of scalars and buffer elements that the command line can specify.
//!
//! Invariant: the bytes of a value are little-endian on every machine.

use std::str::FromStr;

use half::f16;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::Half;

/// The type of a scalar or of a buffer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
}

/// Every type, with its name in PTX, its name in `.npy` files, and its size in bytes. [`Element::named`] also accepts
/// untyped names (`b32`).
const TABLE: [(Element, &str, &str, usize); 11] = [
    (Element::U8, "u8", "u1", 1),
    (Element::I8, "s8", "i1", 1),
    (Element::U16, "u16", "u2", 2),
    (Element::I16, "s16", "i2", 2),
    (Element::U32, "u32", "u4", 4),
    (Element::I32, "s32", "i4", 4),
    (Element::U64, "u64", "u8", 8),
    (Element::I64, "s64", "i8", 8),
    (Element::F16, "f16", "f2", 2),
    (Element::F32, "f32", "f4", 4),
    (Element::F64, "f64", "f8", 8),
];

impl Element {
    fn row(self) -> &'static (Element, &'static str, &'static str, usize) {
        // The table is in the order of the enumeration.
        &TABLE[self as usize]
    }

    /// Returns the type that PTX calls `name`. `name` may also be an untyped name such as `b32`, or
    /// a name such as `i32`.
    pub(crate) fn named(name: &str) -> Option<Element> {
        let name = match name.split_at_checked(1) {
            Some(("b", bits)) => format!("u{bits}"),
            Some(("i", bits)) => format!("s{bits}"),
            _ => name.to_owned(),
        };
        let row = TABLE.iter().find(|row| row.1 == name)?;
        Some(row.0)
    }

    /// Returns the type that `.npy` files call `name`, such as `<f4`.
    pub(crate) fn from_npy(name: &str) -> Option<Element> {
        if name == "|b1" {
            return Some(Element::U8);
        }
        let short = name.strip_prefix(['<', '|', '='])?;
        let row = TABLE.iter().find(|row| row.2 == short)?;
        (name.starts_with('<') || row.3 == 1).then_some(row.0)
    }

    /// Returns the type's name in PTX.
    pub(crate) fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the type's name in an `.npy` file.
    pub(crate) fn npy(self) -> String {
        let order = if self.size() == 1 { '|' } else { '<' };
        format!("{order}{}", self.row().2)
    }

    /// Returns the type's size in bytes.
    pub(crate) fn size(self) -> usize {
        self.row().3
    }

    /// Parses a value and returns its bytes. Integers are decimal or hexadecimal; floating-point values are decimal,
    /// `nan` or `inf`.
    pub(crate) fn parse(self, text: &str) -> Result<Vec<u8>, String> {
        let wrong = || format!("`{text}` is not a value of type {}", self.name());
        match self {
            Element::F16 | Element::F32 | Element::F64 => {
                let value: f64 = text.parse().map_err(|_| wrong())?;
                Ok(match self {
                    Element::F16 => half(text, value).ok_or_else(wrong)?.to_le_bytes().to_vec(),
                    // The text is parsed again as f32, because a conversion from f64 would round twice.
                    Element::F32 => {
                        let value: f32 = text.parse().map_err(|_| wrong())?;
                        value.to_le_bytes().to_vec()
                    }
                    _ => value.to_le_bytes().to_vec(),
                })
            }
            _ => {
                let value = integer(text).ok_or_else(wrong)?;
                let (low, high) = self.range();
                if !(low..=high).contains(&value) {
                    return Err(wrong());
                }
                Ok(value.to_le_bytes()[..self.size()].to_vec())
            }
        }
    }

    /// Converts `value` to this type and returns the bytes of the result, in little-endian order.
    /// If the type is an integer type, the result consists of the low bits of `value`.
    pub(crate) fn counted(self, value: u64) -> Vec<u8> {
        match self {
            Element::F16 => f16::from_f64(value as f64).to_le_bytes().to_vec(),
            Element::F32 => (value as f32).to_le_bytes().to_vec(),
            Element::F64 => (value as f64).to_le_bytes().to_vec(),
            _ => value.to_le_bytes()[..self.size()].to_vec(),
        }
    }

    fn range(self) -> (i128, i128) {
        let bits = 8 * self.size() as u32;
        match self {
            Element::I8 | Element::I16 | Element::I32 | Element::I64 => {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            }
            _ => (0, (1i128 << bits) - 1),
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Element::F16 | Element::F32 | Element::F64)
    }

    fn integer_of(self, bytes: &[u8]) -> i128 {
        let mut all = [0u8; 16];
        all[..self.size()].copy_from_slice(&bytes[..self.size()]);
        let value = i128::from_le_bytes(all);
        let (low, high) = self.range();
        if value > high { value + 2 * low } else { value }
    }

    fn float_of(self, bytes: &[u8]) -> f64 {
        let bits = self.integer_of_bits(bytes);
        match self {
            Element::F16 => f16::from_bits(bits as u16).to_f64(),
            Element::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        }
    }

    fn integer_of_bits(self, bytes: &[u8]) -> u64 {
        let mut all = [0u8; 8];
        all[..self.size()].copy_from_slice(&bytes[..self.size()]);
        u64::from_le_bytes(all)
    }

    /// Formats the value in `bytes` as text that [`Element::parse`] accepts.
    pub(crate) fn show(self, bytes: &[u8]) -> String {
        match self {
            Element::F32 => f32::from_bits(self.integer_of_bits(bytes) as u32).to_string(),
            _ if self.is_float() => self.float_of(bytes).to_string(),
            _ => self.integer_of(bytes).to_string(),
        }
    }

    /// Converts the value in `bytes` to a JSON number, or to JSON text if JSON cannot represent the number.
    pub(crate) fn json(self, bytes: &[u8]) -> serde_json::Value {
        let text = self.show(bytes);
        serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text))
    }

    /// Returns whether two values agree. They agree if they are equal, if both are NaN, or if they differ by at most
    /// the tolerance. The tolerance is `tolerance` for integers, and `tolerance` times the larger of 1 and the absolute
    /// expected value for floating-point values.
    pub(crate) fn agree(self, found: &[u8], expected: &[u8], tolerance: f64) -> bool {
        if found == expected {
            return true;
        }
        if !self.is_float() {
            let apart = self.integer_of(found) - self.integer_of(expected);
            return apart.unsigned_abs() as f64 <= tolerance;
        }
        let (found, expected) = (self.float_of(found), self.float_of(expected));
        (found.is_nan() && expected.is_nan())
            || found == expected
            || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
    }
}

/// Parses a number and rounds it once, to the nearest half-precision value. `value` is the number with double precision.
fn half(text: &str, value: f64) -> Option<f16> {
    if !value.is_finite() {
        return Some(f16::from_f64(value));
    }
    let half = Half::from_str(text).ok()?;
    Some(f16::from_bits(half.to_bits() as u16))
}

/// Parses a decimal or hexadecimal (`0x`) number.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (digits, radix) = match digits.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    // The parser of the standard library would accept a second sign here.
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enumeration() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index);
        }
    }

    #[test]
    fn values_become_little_endian_bytes() {
        assert_eq!(Element::I16.parse("-2").unwrap(), [0xfe, 0xff]);
        assert_eq!(Element::U32.parse("0x01020304").unwrap(), [4, 3, 2, 1]);
        for wrong in [
            "--5",
            "-+5",
            "+5",
            "0x-5",
            "-0x",
            "",
            "-",
            "-170141183460469231731687303715884105728",
        ] {
            assert!(Element::I64.parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Element::F16.parse("1.5").unwrap(), [0x00, 0x3e]);
        assert_eq!(Element::F32.parse("1").unwrap(), [0, 0, 0x80, 0x3f]);
        assert!(Element::U8.parse("256").is_err());
        assert!(Element::I8.parse("-129").is_err());
    }

    #[test]
    fn half_precision_values_are_rounded_once() {
        let bits = |text: &str| {
            let bytes = Element::F16.parse(text).unwrap();
            u16::from_le_bytes([bytes[0], bytes[1]])
        };
        // 1.00048828125 is in the middle between 1 and the next value; the nearest single-precision value and the
        // nearest double-precision value of the other texts are this middle.
        assert_eq!(bits("1.00048828125"), 0x3c00);
        assert_eq!(bits("1.0004882813"), 0x3c01);
        assert_eq!(bits("-1.0004882813"), 0xbc01);
        assert_eq!(bits("1.00048828125000000000000000000001"), 0x3c01);
        assert_eq!(bits("100048828125000000000000000000001e-32"), 0x3c01);
        assert_eq!(bits("1.00048828124999999999999999999999"), 0x3c00);
        // 1.00146484375 is in the middle, too; the value with an even last bit is above it.
        assert_eq!(bits("1.00146484375"), 0x3c02);
        assert_eq!(bits("1.0014648437499999999999999999999"), 0x3c01);
        // The largest value is 65504; 65520 and greater numbers are rounded to infinity.
        assert_eq!(bits("65519.99999999999999999999999"), 0x7bff);
        assert_eq!(bits("65520"), 0x7c00);
        assert_eq!(bits("1e99999999999999999999"), 0x7c00);
        // The smallest value is 2^-24; half of it is rounded to zero.
        assert_eq!(bits("2.98023223876953125e-8"), 0);
        assert_eq!(bits("2.98023223876953125000000000001e-8"), 1);
        assert_eq!(bits("-1e-99999999999999999999"), 0x8000);
        assert_eq!([bits("0"), bits("-0.0"), bits("0.5")], [0, 0x8000, 0x3800]);
        assert_eq!([bits("inf"), bits("-Infinity")], [0x7c00, 0xfc00]);
        assert_eq!(bits("NaN") & 0x7e00, 0x7e00);
    }

    #[test]
    fn values_are_shown_with_their_sign() {
        assert_eq!(Element::I16.show(&[0xfe, 0xff]), "-2");
        assert_eq!(Element::U16.show(&[0xfe, 0xff]), "65534");
        assert_eq!(Element::F32.show(&0.1f32.to_le_bytes()), "0.1");
    }

    #[test]
    fn tolerance_is_relative_above_one() {
        let f = |v: f32| v.to_le_bytes();
        assert!(Element::F32.agree(&f(1000.5), &f(1000.0), 1e-3));
        assert!(!Element::F32.agree(&f(1002.0), &f(1000.0), 1e-3));
        assert!(Element::F32.agree(&f(-0.0), &f(0.0), 0.0));
        assert!(Element::F32.agree(&f(f32::NAN), &f(-f32::NAN), 0.0));
        assert!(!Element::I32.agree(&1i32.to_le_bytes(), &2i32.to_le_bytes(), 0.0));
    }
}
