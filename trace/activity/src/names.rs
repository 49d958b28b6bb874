//! Names in records. CUPTI's structures contain pointers to names that stay valid until the process ends, so names are
//! stored once and never freed.

use std::ffi::{CStr, CString, c_char};
use std::fmt;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// A name that is valid until the process ends. Equal names have equal addresses.
///
/// ```
/// use margay_activity::Name;
///
/// assert_eq!(Name::of("add").text(), "add");
/// assert_eq!(Name::of("add").pointer(), Name::of("add").pointer());
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name(&'static CStr);

/// Maximum number of bytes of all names. Further names are replaced by a text that says so.
const MOST_BYTES: usize = 64 << 20;

#[derive(Default)]
struct Known {
    names: FxHashMap<&'static [u8], &'static CStr>,
    bytes: usize,
}

impl Name {
    /// Returns the name with a text. The text ends at its first zero byte, if it contains one.
    pub fn of(text: &str) -> Name {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        let bytes = text.as_bytes();
        let end = bytes.iter().position(|&byte| byte == 0);
        let bytes = &bytes[..end.unwrap_or(bytes.len())];
        let mut known = KNOWN.lock();
        let known = known.get_or_insert_default();
        if let Some(name) = known.names.get(bytes) {
            return Name(name);
        }
        if known.bytes.saturating_add(bytes.len()) > MOST_BYTES {
            return Name(c"(too many names)");
        }
        known.bytes += bytes.len() + 1;
        let name: &'static CStr =
            Box::leak(CString::new(bytes).unwrap_or_default().into_boxed_c_str());
        known.names.insert(name.to_bytes(), name);
        Name(name)
    }

    /// Returns the text.
    pub fn text(self) -> &'static str {
        self.0.to_str().unwrap_or("")
    }

    /// Returns the address of the text, which ends with a zero byte.
    pub fn pointer(self) -> *const c_char {
        self.0.as_ptr()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
