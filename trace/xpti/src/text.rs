//! Names that stay valid until the process ends.
//!
//! Subscribers may keep the pointers that they get. Names are therefore leaked, once for each distinct text, up to the
//! bounds of [`crate::limits`].

use std::ffi::{CStr, CString};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::limits;

/// The names of a producer.
#[derive(Default)]
pub(crate) struct Names {
    known: RwLock<Known>,
    full: AtomicBool,
}

#[derive(Default)]
struct Known {
    names: FxHashMap<Box<str>, &'static CStr>,
    bytes: usize,
}

impl Names {
    /// Returns `text` as a C string that is never freed. A text ends before its first NUL byte, and after
    /// [`limits::NAME`] bytes.
    pub(crate) fn keep(&self, text: &str) -> &'static CStr {
        let text = cut(text);
        if let Some(name) = self.known.read().names.get(text) {
            return name;
        }
        let mut known = self.known.write();
        if let Some(name) = known.names.get(text) {
            return name;
        }
        if known.bytes + text.len() > limits::NAMES {
            self.full.store(true, Relaxed);
            return c"<name beyond the limit>";
        }
        known.bytes += text.len();
        let name: &'static CStr = Box::leak(c_string(text).into_boxed_c_str());
        known.names.insert(text.into(), name);
        name
    }

    /// Tells whether a name was replaced because [`limits::NAMES`] was reached.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }
}

/// Returns the part of `text` before the first NUL byte.
pub(crate) fn c_string(text: &str) -> CString {
    let text = cut(text);
    // `cut` leaves no NUL byte, so the default is never used.
    CString::new(text).unwrap_or_default()
}

/// A word and a number as a C string, without an allocation.
#[derive(Debug)]
pub(crate) struct Numbered([u8; 32]);

impl Numbered {
    /// Returns the text `word number`. The word has at most 10 bytes.
    pub(crate) fn new(word: &str, number: u64) -> Numbered {
        let mut bytes = [0; 32];
        // A number has at most 20 digits, so a NUL byte remains. A longer word would be cut.
        let _ = write!(&mut bytes[..31], "{word} {number}");
        Numbered(bytes)
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

fn cut(text: &str) -> &str {
    let end = text.find('\0').unwrap_or(text.len());
    &text[..text[..end].floor_char_boundary(limits::NAME)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_has_a_fixed_name() {
        assert_eq!(limits::NAME_BEYOND_LIMIT, "<name beyond the limit>");
    }

    #[test]
    fn equal_texts_have_one_name() {
        let names = Names::default();
        let first = names.keep("vecadd");
        assert_eq!(first, c"vecadd");
        assert!(std::ptr::eq(first, names.keep("vecadd")));
        assert_eq!(names.keep("vec\0add"), c"vec");
        assert_eq!(names.keep(""), c"");
    }

    #[test]
    fn numbered_texts_hold_every_number() {
        let text = Numbered::new("0123456789", u64::MAX);
        assert_eq!(text.as_c_str(), c"0123456789 18446744073709551615");
        assert_eq!(Numbered::new("event", 0).as_c_str(), c"event 0");
    }

    proptest::proptest! {
        #[test]
        fn kept_names_are_the_text_before_a_nul_byte(text in ".{0,40}", rest in ".{0,4}") {
            let before = text.replace('\0', "");
            let names = Names::default();
            let name = names.keep(&format!("{before}\0{rest}"));
            assert_eq!(name.to_str(), Ok(&*before));
            assert!(std::ptr::eq(name, names.keep(&before)));
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let names = Names::default();
        let text = "ä".repeat(limits::NAME);
        assert_eq!(names.keep(&text).count_bytes(), limits::NAME);
        let text = format!("a{text}");
        assert_eq!(names.keep(&text).count_bytes(), limits::NAME - 1);
    }

    #[test]
    fn names_beyond_the_limit_share_one_text() {
        let names = Names::default();
        let long = "x".repeat(limits::NAME);
        names.known.write().bytes = limits::NAMES - 2 * limits::NAME;
        assert_eq!(names.keep(&long).count_bytes(), limits::NAME);
        assert_eq!(
            names.keep(&long.replace('x', "y")).count_bytes(),
            limits::NAME
        );
        assert!(!names.is_full());
        assert_eq!(names.keep("one more"), c"<name beyond the limit>");
        assert!(names.is_full());
        assert_eq!(names.keep(&long).count_bytes(), limits::NAME);
    }
}
