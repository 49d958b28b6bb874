//! Texts that come from a traced program: bytes and wide characters of unknown origin, of any length.
//!
//! Names in a timeline are valid UTF-8 and have at most [`MAX_TEXT`] bytes. Text that is longer is cut, and its end
//! states the number of bytes that the text had.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The number of bytes of a text after which it is cut.
pub const MAX_TEXT: usize = 16 * 1024;

/// Returns `bytes` as text. Bytes that are not valid UTF-8 become `\xNN`.
///
/// ```
/// assert_eq!(margay_timeline::text_of_bytes(b"step \xff1"), "step \\xff1");
/// ```
pub fn text_of_bytes(bytes: &[u8]) -> Cow<'_, str> {
    let length = bytes.len();
    let bytes = &bytes[..length.min(MAX_TEXT)];
    if let Ok(text) = std::str::from_utf8(bytes)
        && bytes.len() == length
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            push_escape(&mut text, "\\x", u32::from(*byte), 2);
        }
    }
    push_omission(&mut text, bytes.len(), length);
    Cow::Owned(text)
}

/// Returns the text of wide characters, which are UTF-32 on Linux. Values that are not characters become `\u{N}`.
///
/// ```
/// assert_eq!(margay_timeline::text_of_wide(&[0x47, 0x50, 0x55, 0xd800]), "GPU\\u{d800}");
/// ```
pub fn text_of_wide(units: &[u32]) -> String {
    let length = units.len();
    let units = &units[..length.min(MAX_TEXT)];
    let mut text = String::with_capacity(units.len());
    for unit in units {
        match char::from_u32(*unit) {
            Some(character) => text.push(character),
            None => {
                push_escape(&mut text, "\\u{", *unit, 1);
                text.push('}');
            }
        }
    }
    push_omission(&mut text, units.len(), length);
    text
}

/// Returns `text`, cut if it is longer than [`MAX_TEXT`].
#[inline]
pub(crate) fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_TEXT {
        return Cow::Borrowed(text);
    }
    let kept = text.floor_char_boundary(MAX_TEXT);
    let mut short = text[..kept].to_owned();
    push_omission(&mut short, kept, text.len());
    Cow::Owned(short)
}

fn push_escape(text: &mut String, prefix: &str, value: u32, digits: usize) {
    // Writing to a string does not fail.
    let _ = write!(text, "{prefix}{value:0digits$x}");
}

fn push_omission(text: &mut String, kept: usize, length: usize) {
    if kept < length {
        let _ = write!(text, "… ({length} in all)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_text_is_borrowed() {
        assert!(matches!(
            text_of_bytes("größe".as_bytes()),
            Cow::Borrowed("größe")
        ));
    }

    #[test]
    fn each_invalid_byte_is_escaped() {
        assert_eq!(text_of_bytes(b"a\xc3(\x80\"\n"), "a\\xc3(\\x80\"\n");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let text = "é".repeat(MAX_TEXT);
        let short = bounded(&text);
        assert!(
            short.starts_with("éé") && short.ends_with("é… (32768 in all)"),
            "{}",
            short.len()
        );
        assert!(short.len() < MAX_TEXT + 32);
    }

    #[test]
    fn long_bytes_and_wide_texts_are_cut() {
        let bytes = text_of_bytes(&[b'x'; MAX_TEXT + 1]).into_owned();
        assert!(bytes.ends_with("x… (16385 in all)"));
        assert!(text_of_wide(&[0x78; MAX_TEXT + 1]).ends_with("x… (16385 in all)"));
    }
}
