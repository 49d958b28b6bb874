//! Numbers as text: parsing without surprises, and writing without `format!`, which is too slow for each field of a line.

/// Appends a number in base 10.
pub(crate) fn push_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

/// Appends a signed number in base 10.
pub(crate) fn push_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_decimal(out, value.unsigned_abs());
}

/// Appends a number in base 16 with at least `width` digits, at most 16.
pub(crate) fn push_hex(out: &mut Vec<u8>, value: u64, width: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let needed = (64 - value.leading_zeros() as usize).div_ceil(4);
    let length = needed.max(width).clamp(1, 16);
    let mut digits = [0; 16];
    for (index, digit) in digits[..length].iter_mut().rev().enumerate() {
        *digit = DIGITS[(value >> (4 * index)) as usize & 15];
    }
    out.extend_from_slice(&digits[..length]);
}

/// Parses a number in base 10: digits and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Parses a number in base 10 that may begin with a minus sign.
pub(crate) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(decimal(digits)?),
        None => i64::try_from(decimal(text)?).ok(),
    }
}

/// Parses a number in base 16, with or without `0x`.
pub(crate) fn hex(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in digits {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    Some(value)
}

/// Parses a number in base 16 of at most 32 bits.
pub(crate) fn hex32(text: &[u8]) -> Option<u32> {
    u32::try_from(hex(text)?).ok()
}

/// Parses a number in base 10 of at most 32 bits.
pub(crate) fn decimal32(text: &[u8]) -> Option<u32> {
    u32::try_from(decimal(text)?).ok()
}

/// The fields of a line: runs of bytes without white space.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: line }
    }

    /// Returns what follows the last field, white space included.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let space = |byte: &u8| byte.is_ascii_whitespace();
        let begin = self.rest.iter().position(|byte| !space(byte))?;
        let text = &self.rest[begin..];
        let length = text.iter().position(space).unwrap_or(text.len());
        let (field, rest) = text.split_at(length);
        self.rest = rest;
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_like_printf() {
        assert_eq!(written(|out| push_decimal(out, 0)), "0");
        assert_eq!(
            written(|out| push_decimal(out, u64::MAX)),
            "18446744073709551615"
        );
        assert_eq!(
            written(|out| push_signed(out, i64::MIN)),
            "-9223372036854775808"
        );
        assert_eq!(written(|out| push_hex(out, 0, 0)), "0");
        assert_eq!(written(|out| push_hex(out, 0, 4)), "0000");
        assert_eq!(written(|out| push_hex(out, 0x1_2345, 4)), "12345");
        assert_eq!(
            written(|out| push_hex(out, 0x7f00_0000_1000, 16)),
            "00007f0000001000"
        );
        assert_eq!(
            written(|out| push_hex(out, u64::MAX, 0)),
            "ffffffffffffffff"
        );
    }

    #[test]
    fn malformed_numbers_are_none() {
        for text in ["", "-", "+1", "1x", "18446744073709551616", " 1"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
        for text in ["", "0x", "g", "10000000000000000", "-1", "0x0x1"] {
            assert_eq!(hex(text.as_bytes()), None, "{text}");
        }
        for text in ["--1", "9223372036854775808", "-9223372036854775809", "-"] {
            assert_eq!(signed(text.as_bytes()), None, "{text}");
        }
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(hex(b"0x7F"), Some(127));
    }

    #[test]
    fn fields_are_separated_by_runs_of_white_space() {
        let fields: Vec<_> = Fields::new(b"  a b\tcd \r").collect();
        assert_eq!(fields, [b"a".as_slice(), b"b", b"cd"]);
    }
}
