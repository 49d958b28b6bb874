//! Checks that the place of a pragma is one that ptxas accepts, and that the pragma's value is
//! valid.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::source::Span;

/// The place of a pragma in a module.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PragmaPlace {
    /// At module scope.
    Module,
    /// The pragma is between a function's head and its body.
    Head,
    /// In a body.
    Body,
}

/// The pragmas that are allowed in bodies, and the kind of value that must follow the name. As in
/// ptxas, a pragma matches a name in this table if the text of the pragma begins with the name.
const OF_BODIES: [(&str, Value); 3] = [
    ("used_bytes_mask", Value::Any),
    ("enable_smem_spilling", Value::Nothing),
    ("frequency", Value::Positive),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Nothing,
    Any,
    Positive,
}

/// Returns the value of the pragma `used_bytes_mask`. Each bit of the value represents a byte of the next vector load,
/// and is set if the program uses this byte. Returns `None` for other pragmas and if the value is not a number.
pub(crate) fn used_bytes_mask(text: &str) -> Option<u64> {
    let mut value = text.strip_prefix(OF_BODIES[0].0)?.chars();
    value.next();
    number(value.as_str())
}

/// Returns an error or a warning if a pragma is unknown, is not permitted at `place`, or has an
/// invalid value.
pub(super) fn check(text: &str, span: Span, place: PragmaPlace) -> Option<Diagnostic> {
    if text == "nounroll" {
        return None;
    }
    let known = OF_BODIES.iter().find(|(name, _)| text.starts_with(name));
    let Some(&(name, value)) = known else {
        let message = format!("the pragma `{text}` is not known");
        return Some(match place {
            PragmaPlace::Module => Diagnostic::error(Code::DIRECTIVE_VALUE, span, message),
            _ => Diagnostic::warning(Code::UNKNOWN_PRAGMA, span, message),
        });
    };
    if place != PragmaPlace::Body {
        let message = format!("the pragma `{name}` is allowed in a function only");
        return Some(Diagnostic::error(Code::DIRECTIVE_PLACE, span, message));
    }
    // Any character may follow the name.
    let mut behind = text[name.len()..].chars();
    behind.next();
    let number = number(behind.as_str());
    let fine = match value {
        Value::Nothing => true,
        Value::Any => number.is_some(),
        Value::Positive => {
            number.is_some_and(|number| number != 0) && !behind.as_str().contains('-')
        }
    };
    let message = format!("the pragma `{name}` needs a number");
    (!fine).then(|| Diagnostic::error(Code::DIRECTIVE_VALUE, span, message))
}

/// Parses a number in the format that the C function `strtoul` accepts for base 0. White space and
/// a sign may precede the number, and nothing may follow it. A number that is too large becomes the
/// largest number.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = digits.to_ascii_lowercase();
    let (digits, base) = match lower.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if lower.starts_with('0') => (lower.as_str(), 8),
        None => (lower.as_str(), 10),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    Some(u64::from_str_radix(digits, base).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        let cases = [
            ("5", Some(5)),
            (" 0x1F", Some(31)),
            ("017", Some(15)),
            ("0", Some(0)),
            ("-1", Some(1)),
            ("18446744073709551616", Some(u64::MAX)),
            ("", None),
            ("5 ", None),
            ("5x", None),
            ("= 5", None),
            ("019", None),
            ("0x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }
}
