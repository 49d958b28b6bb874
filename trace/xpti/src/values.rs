//! Metadata: keys and values of events.
//!
//! The framework never forgets a value, so the producer registers each distinct value once, up to a bound
//! ([`limits::VALUES`]).

use std::ffi::{CStr, CString};
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::abi::ObjectType;
use crate::framework::{EventRef, Framework};
use crate::limits;

/// A value of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Unsigned(u64),
    Bool(bool),
    Binary(&'a [u8]),
}

/// A key and its value.
pub(crate) type Entry<'a> = (&'static CStr, Value<'a>);

/// A key and the ID of its registered value.
pub(crate) type Registered = (&'static CStr, i32);

/// The number of parts of the table, each with its own lock.
const PARTS: usize = 16;

type Part = FxHashMap<Box<[u8]>, i32>;

/// The registered values.
#[derive(Default)]
pub(crate) struct Values {
    /// A table for each type. A framework may give equal values of two types the same ID.
    types: [[RwLock<Part>; PARTS]; 4],
    count: AtomicUsize,
    full: AtomicBool,
}

impl Values {
    /// Returns the ID of `value`; `None` if the value is beyond a bound.
    pub(crate) fn register(&self, framework: &Framework, value: Value<'_>) -> Option<i32> {
        match value {
            Value::Text(text) => {
                let text = text.split('\0').next().unwrap_or_default();
                self.object(framework, text.as_bytes(), ObjectType::String)
            }
            Value::Unsigned(number) => {
                self.object(framework, &number.to_ne_bytes(), ObjectType::Unsigned)
            }
            Value::Bool(value) => self.object(framework, &[u8::from(value)], ObjectType::Bool),
            Value::Binary(bytes) => self.object(framework, bytes, ObjectType::Binary),
        }
    }

    /// Registers the values of `entries`. Entries beyond a bound are left out.
    pub(crate) fn register_all(
        &self,
        framework: &Framework,
        entries: &[Entry<'_>],
    ) -> Vec<Registered> {
        let register = |(key, value): &Entry<'_>| Some((*key, self.register(framework, *value)?));
        entries.iter().filter_map(register).collect()
    }

    /// Adds `entries` to an event.
    pub(crate) fn add_all(
        &self,
        framework: &Framework,
        event: EventRef<'_>,
        entries: &[Entry<'_>],
    ) {
        for (key, value) in entries {
            if let Some(object) = self.register(framework, *value) {
                framework.add_metadata(event, key, object);
            }
        }
    }

    /// Tells whether a value was left out because [`limits::VALUES`] was reached.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    fn object(&self, framework: &Framework, bytes: &[u8], kind: ObjectType) -> Option<i32> {
        if bytes.len() > limits::VALUE {
            return None;
        }
        let parts = &self.types[match kind {
            ObjectType::Binary => 0,
            ObjectType::String => 1,
            ObjectType::Unsigned => 2,
            ObjectType::Bool => 3,
        }];
        let part = &parts[(FxBuildHasher.hash_one(bytes) >> 40) as usize % PARTS];
        if let Some(id) = part.read().get(bytes) {
            return Some(*id);
        }
        if self.count.fetch_add(1, Relaxed) >= limits::VALUES {
            self.count.fetch_sub(1, Relaxed);
            self.full.store(true, Relaxed);
            return None;
        }
        let id = framework.register_object(bytes, kind)?;
        part.write().insert(bytes.into(), id);
        Some(id)
    }
}

/// Returns the key of a kernel's argument; `None` from [`limits::ARGUMENTS`] on.
pub(crate) fn argument_key(index: usize) -> Option<&'static CStr> {
    static KEYS: LazyLock<Vec<CString>> = LazyLock::new(|| {
        let key = |index| CString::new(format!("arg{index}")).unwrap_or_default();
        (0..limits::ARGUMENTS).map(key).collect()
    });
    KEYS.get(index).map(CString::as_c_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_keys_are_bounded() {
        assert_eq!(argument_key(0), Some(c"arg0"));
        assert_eq!(argument_key(63), Some(c"arg63"));
        assert_eq!(argument_key(64), None);
    }
}
