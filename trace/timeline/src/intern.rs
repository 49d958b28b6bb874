//! Strings that a sequence of packets defines once and then names by a number.

use rustc_hash::FxHashMap;

use crate::protobuf;
use crate::text::bounded;

/// The kinds of interned strings, each with its own numbers. The values are the fields of the message `InternedData`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Category = 1,
    EventName = 2,
    ArgumentName = 3,
}

/// The strings of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    numbers: [FxHashMap<Box<str>, u64>; 3],
    /// The definitions that the next packet contains: fields of `InternedData`.
    pub(crate) pending: Vec<u8>,
    size: usize,
}

/// The number of bytes, with the costs of an entry, after which a sequence starts again.
const MAX_SIZE: usize = 256 * 1024;
const ENTRY_SIZE: usize = 64;

impl Interner {
    /// Returns the number of `text`, from 1, and defines it if it is new.
    #[inline]
    pub(crate) fn number(&mut self, kind: Kind, text: &str) -> u64 {
        match self.numbers[kind as usize - 1].get(text) {
            Some(number) => *number,
            None => self.define(kind, text),
        }
    }

    #[cold]
    fn define(&mut self, kind: Kind, text: &str) -> u64 {
        let numbers = &mut self.numbers[kind as usize - 1];
        let text = bounded(text);
        if let Some(number) = numbers.get(&*text) {
            return *number;
        }
        let number = numbers.len() as u64 + 1;
        self.size += text.len() + ENTRY_SIZE;
        protobuf::message(&mut self.pending, kind as u32, |out| {
            protobuf::uint(out, 1, number);
            protobuf::bytes(out, 2, text.as_bytes());
        });
        numbers.insert(text.into(), number);
        number
    }

    /// Whether the strings take so much memory that the sequence has to start again.
    pub(crate) fn is_full(&self) -> bool {
        self.size >= MAX_SIZE
    }

    /// Forgets all strings.
    pub(crate) fn clear(&mut self) {
        *self = Interner::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_defined_once() {
        let mut interner = Interner::default();
        assert_eq!(interner.number(Kind::EventName, "a"), 1);
        assert_eq!(interner.pending, [0x12, 5, 0x08, 1, 0x12, 1, b'a']);
        interner.pending.clear();
        assert_eq!(interner.number(Kind::EventName, "a"), 1);
        assert!(interner.pending.is_empty());
        assert_eq!(interner.number(Kind::EventName, "b"), 2);
        assert_eq!(interner.number(Kind::Category, "b"), 1);
    }

    #[test]
    fn a_long_string_is_defined_once() {
        let mut interner = Interner::default();
        let long = "x".repeat(100_000);
        assert_eq!(interner.number(Kind::EventName, &long), 1);
        assert_eq!(interner.number(Kind::EventName, &long), 1);
        assert!(interner.pending.len() < 17_000);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut interner = Interner::default();
        let mut count = 0_usize;
        while !interner.is_full() {
            interner.number(Kind::EventName, &format!("kernel {count}"));
            count += 1;
        }
        assert!((2000..5000).contains(&count), "{count}");
        interner.clear();
        assert_eq!(interner.number(Kind::EventName, "kernel 7"), 1);
    }
}
