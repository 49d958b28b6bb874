//! Formats the output of device-side printf. The format language is the subset of C's format
//! language that CUDA supports (CUDA programming guide, "Formatted Output"): flags `# ' ' 0 + -`,
//! width and precision with `*`, sizes `h l ll`, types `% c d i o u x X p e E f F g G a A s`. The
//! sizes `hh j z t L` are accepted as well.
//!
//! Arguments are packed in memory: each argument is at the next multiple of its size. `char` and `short` are promoted
//! to `int`, and `float` is promoted to `double`.

use super::LaunchServices;
use super::cformat::{self, Value};
use crate::fault::{AccessFault, AccessKind, access};

/// Maximum width and precision; larger values are reduced to this value.
const WIDEST: u32 = 4096;
/// Maximum number of arguments that one call of printf can format.
const MOST_ARGUMENTS: i32 = 32;

/// A conversion specification of a format string, such as `%5d`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Conversion {
    flags: Vec<u8>,
    width: Option<u32>,
    precision: Option<u32>,
    /// Whether the integer has eight bytes (`l`, `ll`, `j`, `z`, `t`) instead of four.
    long: bool,
    /// Number of bits of an integer with fewer than 32 bits: 8 for `hh`, 16 for `h`.
    narrow: Option<u32>,
    kind: u8,
}

impl Conversion {
    /// Returns the conversion as a format for `snprintf`, with the size modifier `size`.
    pub(super) fn spec(&self, size: &str) -> Vec<u8> {
        let mut spec = vec![b'%'];
        spec.extend_from_slice(&self.flags);
        if let Some(width) = self.width {
            spec.extend_from_slice(width.to_string().as_bytes());
        }
        if let Some(precision) = self.precision {
            spec.push(b'.');
            spec.extend_from_slice(precision.to_string().as_bytes());
        }
        spec.extend_from_slice(size.as_bytes());
        spec.push(self.kind);
        spec
    }
}

/// A reader of the packed arguments.
struct Arguments<'a> {
    services: &'a LaunchServices,
    address: u64,
    count: i32,
}

impl Arguments<'_> {
    fn four(&mut self) -> Result<u32, AccessFault> {
        self.address = self.address.wrapping_add(3) & !3;
        self.services.may(self.address, 4, AccessKind::Read)?;
        let value = access::load32(self.address)?;
        self.address = self.address.wrapping_add(4);
        self.count += 1;
        Ok(value)
    }

    fn eight(&mut self) -> Result<u64, AccessFault> {
        self.address = self.address.wrapping_add(7) & !7;
        self.services.may(self.address, 8, AccessKind::Read)?;
        let value = access::load64(self.address)?;
        self.address = self.address.wrapping_add(8);
        self.count += 1;
        Ok(value)
    }
}

/// Formats the packed arguments at the address `arguments` according to `format`. Returns the text
/// and the number of arguments. If there are more arguments than [`MOST_ARGUMENTS`], returns -2
/// instead of their number.
pub(super) fn format(
    services: &LaunchServices,
    format: &[u8],
    arguments: u64,
) -> Result<(Vec<u8>, i32), AccessFault> {
    let mut arguments = Arguments {
        services,
        address: arguments,
        count: 0,
    };
    let mut text = Vec::with_capacity(format.len());
    let mut rest = format;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        text.extend_from_slice(&rest[..at]);
        rest = convert(&rest[at..], &mut arguments, &mut text)?;
        if arguments.count > MOST_ARGUMENTS {
            return Ok((text, -2));
        }
    }
    text.extend_from_slice(rest);
    Ok((text, arguments.count))
}

/// Formats the conversion at the beginning of `rest`, and returns the part of the format after the
/// conversion.
fn convert<'a>(
    rest: &'a [u8],
    arguments: &mut Arguments<'_>,
    text: &mut Vec<u8>,
) -> Result<&'a [u8], AccessFault> {
    let mut reader = Reader {
        rest: &rest[1..],
        arguments,
    };
    let conversion = reader.conversion()?;
    let after = reader.rest;
    let signed = matches!(conversion.kind, b'd' | b'i');
    match conversion.kind {
        b'%' => text.push(b'%'),
        b'd' | b'i' | b'u' | b'o' | b'x' | b'X' => {
            let value = integer(&conversion, arguments, signed)?;
            text.extend(cformat::number(&conversion, Value::Integer(value)));
        }
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
            let value = f64::from_bits(arguments.eight()?);
            text.extend(cformat::number(&conversion, Value::Double(value)));
        }
        b'c' => {
            let character = arguments.four()? as u8;
            pad(&conversion, &[character], text);
        }
        b's' => {
            let bytes = match arguments.eight()? {
                0 => b"(null)".to_vec(),
                address => arguments.services.string(address, 1)?,
            };
            let shown = conversion
                .precision
                .map_or(bytes.len(), |most| bytes.len().min(most as usize));
            pad(&conversion, &bytes[..shown], text);
        }
        b'p' => {
            let pointer = match arguments.eight()? {
                0 => "(nil)".to_owned(),
                address => format!("{address:#x}"),
            };
            pad(&conversion, pointer.as_bytes(), text);
        }
        // The characters are not a conversion, so they are printed unchanged.
        _ => text.extend_from_slice(&rest[..rest.len() - after.len()]),
    }
    Ok(after)
}

fn integer(
    conversion: &Conversion,
    arguments: &mut Arguments<'_>,
    signed: bool,
) -> Result<u64, AccessFault> {
    if conversion.long {
        return arguments.eight();
    }
    let value = arguments.four()?;
    let unused = 32 - conversion.narrow.unwrap_or(32);
    Ok(if signed {
        ((value << unused) as i32 >> unused) as i64 as u64
    } else {
        u64::from((value << unused) >> unused)
    })
}

fn pad(conversion: &Conversion, bytes: &[u8], text: &mut Vec<u8>) {
    let width = conversion.width.unwrap_or(0) as usize;
    let blanks = std::iter::repeat_n(b' ', width.saturating_sub(bytes.len()));
    if conversion.flags.contains(&b'-') {
        text.extend_from_slice(bytes);
        text.extend(blanks);
    } else {
        text.extend(blanks);
        text.extend_from_slice(bytes);
    }
}

struct Reader<'a, 'b, 'c> {
    rest: &'a [u8],
    arguments: &'b mut Arguments<'c>,
}

impl Reader<'_, '_, '_> {
    fn accept(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn conversion(&mut self) -> Result<Conversion, AccessFault> {
        let mut conversion = Conversion::default();
        while let Some(&flag @ (b'#' | b' ' | b'0' | b'+' | b'-')) = self.rest.first() {
            if !conversion.flags.contains(&flag) {
                conversion.flags.push(flag);
            }
            self.rest = &self.rest[1..];
        }
        if let Some(width) = self.count()? {
            if width < 0 && !conversion.flags.contains(&b'-') {
                conversion.flags.push(b'-');
            }
            conversion.width = Some(width.unsigned_abs().min(WIDEST));
        }
        if self.accept(b'.') {
            // A negative precision has the same effect as no precision.
            let precision = self.count()?.unwrap_or(0);
            conversion.precision = u32::try_from(precision).ok().map(|p| p.min(WIDEST));
        }
        self.size(&mut conversion);
        if let Some((&kind, rest)) = self.rest.split_first() {
            conversion.kind = kind;
            self.rest = rest;
        }
        Ok(conversion)
    }

    /// Reads a width or precision from the digits in the format, or from the next argument if the
    /// format contains `*` at this position.
    fn count(&mut self) -> Result<Option<i32>, AccessFault> {
        if self.accept(b'*') {
            return Ok(Some(self.arguments.four()? as i32));
        }
        let mut value: Option<i32> = None;
        while let Some(digit @ b'0'..=b'9') = self.rest.first().copied() {
            let before = value.unwrap_or(0);
            value = Some(
                before
                    .saturating_mul(10)
                    .saturating_add(i32::from(digit - b'0')),
            );
            self.rest = &self.rest[1..];
        }
        Ok(value)
    }

    fn size(&mut self, conversion: &mut Conversion) {
        while let Some(&size @ (b'h' | b'l' | b'j' | b'z' | b't' | b'L')) = self.rest.first() {
            self.rest = &self.rest[1..];
            if size == b'h' {
                conversion.narrow = Some(if conversion.narrow.is_some() { 8 } else { 16 });
            } else if size != b'L' {
                conversion.long = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packed arguments, in the layout that a kernel uses, and their size in bytes.
    #[derive(Default)]
    struct Pack(Vec<u64>, usize);

    impl Pack {
        fn bytes(mut self, bytes: &[u8]) -> Pack {
            self.1 = self.1.next_multiple_of(bytes.len());
            for &byte in bytes {
                if self.1.is_multiple_of(8) {
                    self.0.push(0);
                }
                *self.0.last_mut().expect("pushed") |= u64::from(byte) << (8 * (self.1 % 8));
                self.1 += 1;
            }
            self
        }
        fn int(self, value: i32) -> Pack {
            self.bytes(&value.to_le_bytes())
        }
        fn long(self, value: i64) -> Pack {
            self.bytes(&value.to_le_bytes())
        }
        fn double(self, value: f64) -> Pack {
            self.bytes(&value.to_le_bytes())
        }
        fn show(&self, spec: &str) -> (String, i32) {
            let services = crate::syscalls::tests::services(1 << 20);
            let found = format(&services, spec.as_bytes(), self.0.as_ptr() as u64);
            let (text, count) = found.expect("mapped");
            (String::from_utf8(text).expect("ASCII"), count)
        }
    }

    fn check(pack: &Pack, spec: &str, expected: &str, count: i32) {
        assert_eq!(pack.show(spec), (expected.to_owned(), count), "{spec}");
    }

    /// The expected texts follow the description of fprintf in the C standard.
    #[test]
    fn integers() {
        let none = Pack::default();
        check(&none, "100%% plain", "100% plain", 0);
        check(&Pack::default().int(-5), "%d|", "-5|", 1);
        check(&Pack::default().int(42), "[%5d]", "[   42]", 1);
        check(&Pack::default().int(42), "[%-5i]", "[42   ]", 1);
        check(&Pack::default().int(42), "[%05d]", "[00042]", 1);
        check(&Pack::default().int(42), "[%+d]", "[+42]", 1);
        check(&Pack::default().int(42), "[%.4d]", "[0042]", 1);
        check(&Pack::default().int(-1), "%u", "4294967295", 1);
        check(&Pack::default().int(255), "%x %%", "ff %", 1);
        check(&Pack::default().int(255), "%#X", "0XFF", 1);
        check(&Pack::default().int(8), "%o", "10", 1);
        check(&Pack::default().int(0x1_81ff), "%hd", "-32257", 1);
        check(&Pack::default().int(0x1ff), "%hhu", "255", 1);
        check(
            &Pack::default().long(i64::MIN),
            "%lld",
            "-9223372036854775808",
            1,
        );
        check(&Pack::default().long(-1), "%lx", "ffffffffffffffff", 1);
        check(&Pack::default().long(7), "%zu", "7", 1);
    }

    #[test]
    fn arguments_are_aligned_to_their_size() {
        let pack = Pack::default().int(1).double(0.5).int(2).long(3);
        check(&pack, "%d %f %d %ld", "1 0.500000 2 3", 4);
    }

    #[test]
    fn floats() {
        check(&Pack::default().double(3.25), "%.1f", "3.2", 1);
        check(&Pack::default().double(1e10), "%g", "1e+10", 1);
        check(&Pack::default().double(0.1), "%e", "1.000000e-01", 1);
        check(&Pack::default().double(1.0), "%a", "0x1p+0", 1);
        check(&Pack::default().double(f64::INFINITY), "%F", "INF", 1);
        check(&Pack::default().double(2.5), "[%8.2f]", "[    2.50]", 1);
    }

    #[test]
    fn width_and_precision_from_arguments() {
        let pack = Pack::default().int(6).int(2).double(1.239);
        check(&pack, "[%*.*f]", "[  1.24]", 3);
        check(&Pack::default().int(-4).int(7), "[%*d]", "[7   ]", 2);
    }

    #[test]
    fn strings_characters_and_pointers() {
        let text = b"hello\0";
        let address = text.as_ptr() as i64;
        check(&Pack::default().long(address), "<%s>", "<hello>", 1);
        check(&Pack::default().long(address), "<%7.3s>", "<    hel>", 1);
        check(&Pack::default().long(address), "<%-7s>", "<hello  >", 1);
        check(&Pack::default().long(0), "%s", "(null)", 1);
        check(&Pack::default().int(65), "%c%%", "A%", 1);
        check(&Pack::default().long(0x1234), "%p", "0x1234", 1);
    }

    #[test]
    fn what_is_no_conversion_stands_as_it_is() {
        let none = Pack::default();
        check(&none, "50% y", "50% y", 0);
        check(&none, "%", "%", 0);
        check(&none, "a%-5", "a%-5", 0);
        check(&none, "%k", "%k", 0);
    }

    #[test]
    fn hostile_formats_end() {
        let (text, _) = Pack::default().int(1).show("%999999999d");
        assert_eq!(text.len(), WIDEST as usize);
        let many = "%d".repeat(40);
        let pack = (0..40).fold(Pack::default(), Pack::int);
        assert_eq!(pack.show(&many).1, -2);
    }
}
