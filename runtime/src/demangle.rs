//! Demangles names of functions and variables.
//!
//! A mangled name can refer to its own parts, so the length of the demangled text can be exponential in the length of
//! the name. Invariant: no function of this module builds a demangled text of more than
//! [`MAX_TEXT`] bytes.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// Maximum length in bytes of a demangled name: 4 KiB.
pub const MAX_TEXT: usize = 4 << 10;

/// Maximum length in bytes of a mangled C++ name: 8 KiB.
const MAX_NAME: usize = 8 << 10;

/// The parts of a C++ function's signature that a demangled text contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parts {
    /// The name with the types of the parameters and of the result.
    Signature,
    /// The name alone.
    Name,
}

/// Returns the demangled text of a C++ name. Returns `None` if the name is not a mangled C++ name, or if the name or
/// the text is too long.
pub fn cpp(name: &str, parts: Parts) -> Option<String> {
    if !name.starts_with("_Z") || name.len() > MAX_NAME {
        return None;
    }
    let options = match parts {
        Parts::Signature => DemangleOptions::new(),
        Parts::Name => DemangleOptions::new().no_params().no_return_type(),
    };
    let symbol = Symbol::new(name).ok()?;
    limited(|text| symbol.structured_demangle(text, &options))
}

/// Returns the name of a function or variable as it appears in the Rust or C++ source. Returns `name` if it is not
/// mangled, or if the text would be too long.
pub fn readable(name: &str) -> String {
    let demangled = match rustc_demangle::try_demangle(name) {
        Ok(symbol) => limited(|text| write!(text, "{symbol:#}")),
        Err(_) => cpp(name, Parts::Signature),
    };
    demangled.unwrap_or_else(|| name.to_owned())
}

/// A text buffer in which a write fails if the text would become longer than [`MAX_TEXT`].
#[derive(Default)]
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.len() > MAX_TEXT - self.0.len() {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// Returns the text that `write` writes; `None` if it is longer than [`MAX_TEXT`], or if `write` fails.
fn limited(write: impl FnOnce(&mut Limited) -> fmt::Result) -> Option<String> {
    let mut text = Limited::default();
    write(&mut text).ok()?;
    Some(text.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the name of a function with `levels` parameters. The type of each parameter is a template with the
    /// previous type as both arguments, so the last type contains `int` 2 to the power of `levels` times.
    fn bomb(levels: usize) -> String {
        let mut name = "_Z7kern0001AIiiE".to_owned();
        for level in 1..levels {
            let below = char::from(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[level - 1]);
            name.push_str(&format!("S_IS{below}_S{below}_E"));
        }
        name
    }

    #[test]
    fn names_of_both_languages_are_demangled() {
        assert_eq!(readable("_Z3runPfi"), "run(float*, int)");
        assert_eq!(
            readable("_ZN4core3fmt5Write9write_str17h0123456789abcdefE"),
            "core::fmt::Write::write_str"
        );
        assert_eq!(readable("main"), "main");
        assert_eq!(cpp("_Z3runPfi", Parts::Name).as_deref(), Some("run"));
        assert_eq!(cpp("main", Parts::Name), None);
    }

    // Regression test: the demangled text of a name of 390 bytes was hundreds of megabytes long.
    #[test]
    fn texts_that_are_too_long_are_not_built() {
        let name = bomb(24);
        assert!(name.len() < 400);
        assert_eq!(readable(&name), name);
        assert_eq!(cpp(&name, Parts::Signature), None);
        assert_eq!(
            readable(&bomb(2)),
            "kern000(A<int, int>, A<A<int, int>, A<int, int> >)"
        );
    }

    #[test]
    fn a_text_has_at_most_its_limit() {
        let part = "x".repeat(MAX_TEXT - 1);
        let of = |last: &str| limited(|text| write!(text, "{part}{last}"));
        assert_eq!(of("y").map(|text| text.len()), Some(MAX_TEXT));
        assert_eq!(of("yz"), None);
    }
}
