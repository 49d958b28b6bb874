//! Interned identifiers.
//!
//! The text of each identifier, modifier and string of a module is stored once. The tree contains a 32-bit [`Name`]
//! instead of the text, so that later stages compare integers and use them as indices instead of hashing text.
//! Invariant: equal texts have equal names.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

use super::values::NoMemory;
use crate::source::Span;

/// The number of an interned text. A module's names are numbered from zero without gaps, so that
/// they can be indices of a `Vec`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(NonZeroU32);

impl Name {
    /// Returns the number of the name, which can be an index of a `Vec`; the first name has the
    /// number 0.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// Returns the name with this index, or `None` if the index is too large for a name.
    pub(super) fn at_index(index: u64) -> Option<Name> {
        let number = u32::try_from(index + 1).ok()?;
        Name::in_slot(number)
    }

    /// Returns the name that `slot`, the `number` of a [`Slot`], represents, or `None` if the slot
    /// is free (0).
    fn in_slot(slot: u32) -> Option<Name> {
        NonZeroU32::new(slot).map(Name)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "name{}", self.index())
    }
}

/// A name at a position in the source text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// The position.
    pub span: Span,
}

/// The interned texts of a module, and a hash table that finds the name of a text.
pub struct Names {
    key: u64,
    text: String,
    /// For each name, the offset in `text` at which the name's text ends. The text starts where the previous name's
    /// text ends.
    ends: Vec<u32>,
    /// A hash table with open addressing, which finds the name of a text. Its length is a power of
    /// 2, or 0 if there are no names.
    slots: Vec<Slot>,
    /// The size in bytes of an allocation that failed, or `None` if no allocation has failed since
    /// [`Names::take_failure`] was called.
    failed: Option<usize>,
}

/// A slot of the hash table that finds the name of a text.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The hash of the name's text. Texts are compared only if their hashes are equal.
    hash: u32,
    /// The number of the name plus one, or zero if the slot is free.
    number: u32,
}

impl Default for Names {
    fn default() -> Self {
        Names {
            key: RandomState::new().hash_one(0),
            text: String::new(),
            ends: Vec::new(),
            slots: Vec::new(),
            failed: None,
        }
    }
}

impl Names {
    /// Returns the text that the name `name` represents.
    pub fn text(&self, name: Name) -> &str {
        let index = name.index();
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1] as usize,
        };
        &self.text[start..self.ends[index] as usize]
    }

    /// Returns the number of interned texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no text has been interned.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the name of `text`, or `None` if the module does not contain this text.
    pub fn get(&self, text: &str) -> Option<Name> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = self.find(hash(self.key, text), text);
        Name::in_slot(self.slots[slot].number)
    }

    /// Returns the name of `text`, and adds the text if it is new. If memory for the text cannot be allocated, the
    /// returned name is that of another text, and [`Names::take_failure`] returns the size of the failed allocation.
    pub(crate) fn intern(&mut self, text: &str) -> Name {
        self.try_intern(text).unwrap_or_else(|NoMemory(bytes)| {
            self.failed = Some(bytes);
            Name(NonZeroU32::MIN)
        })
    }

    /// Returns the size in bytes of an allocation that failed since the previous call, or `None` if all allocations
    /// succeeded.
    pub(crate) fn take_failure(&mut self) -> Option<usize> {
        self.failed.take()
    }

    fn try_intern(&mut self, text: &str) -> Result<Name, NoMemory> {
        if (self.ends.len() + 1) * 2 > self.slots.len() {
            self.grow()?;
        }
        let hash = hash(self.key, text);
        let slot = self.find(hash, text);
        if let Some(name) = Name::in_slot(self.slots[slot].number) {
            return Ok(name);
        }
        let bytes = self.text.len() + text.len();
        let reserved = self.text.try_reserve(text.len());
        reserved
            .and_then(|()| self.ends.try_reserve(1))
            .map_err(|_| NoMemory(bytes))?;
        self.text.push_str(text);
        let fits = "a source text under 4 GiB has fewer and shorter names";
        self.ends.push(u32::try_from(self.text.len()).expect(fits));
        let number = u32::try_from(self.ends.len()).expect(fits);
        self.slots[slot] = Slot { hash, number };
        Ok(Name::in_slot(number).expect("it has just been counted"))
    }

    /// Returns the index of the slot for `text`. If the text is not interned, this is the free slot
    /// in which its name must be stored.
    fn find(&self, hash: u32, text: &str) -> usize {
        let mask = self.slots.len() - 1;
        let mut index = hash as usize & mask;
        loop {
            let slot = self.slots[index];
            match Name::in_slot(slot.number) {
                Some(name) if slot.hash == hash && self.text(name) == text => return index,
                Some(_) => index = (index + 1) & mask,
                None => return index,
            }
        }
    }

    fn grow(&mut self) -> Result<(), NoMemory> {
        let size = (self.slots.len() * 2).max(256);
        let mut slots = Vec::new();
        let reserved = slots.try_reserve_exact(size);
        reserved.map_err(|_| NoMemory(size * size_of::<Slot>()))?;
        slots.resize(size, Slot::default());
        let old = std::mem::replace(&mut self.slots, slots);
        for slot in old.into_iter().filter(|slot| slot.number != 0) {
            let mut index = slot.hash as usize & (size - 1);
            while self.slots[index].number != 0 {
                index = (index + 1) & (size - 1);
            }
            self.slots[index] = slot;
        }
        Ok(())
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = (1..=self.len() as u32).filter_map(Name::in_slot);
        f.debug_list()
            .entries(names.map(|name| self.text(name)))
            .finish()
    }
}

/// Computes a fast hash of `text` that depends on the secret `key`. Each module has a different
/// secret key, so that an attacker cannot construct an input in which many names collide.
fn hash(key: u64, text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut state = key ^ bytes.len() as u64;
    let mut rest = bytes;
    while let Some((word, tail)) = rest.split_first_chunk() {
        state = fold(state ^ u64::from_le_bytes(*word), key);
        rest = tail;
    }
    // Hash the last 4 to 7 bytes with two loads that can overlap. Hash fewer than 4 bytes one by one.
    let tail = match (rest.first_chunk(), rest.last_chunk()) {
        (Some(low), Some(high)) => {
            u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << 32
        }
        _ => rest
            .iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    fold(state ^ tail, key) as u32
}

/// Multiplies `a` by `key`, and combines the two halves of the 128-bit product to 64 bits.
fn fold(a: u64, key: u64) -> u64 {
    let product = u128::from(a) * u128::from(key.rotate_left(32) | 1);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_equal_names() {
        let mut names = Names::default();
        assert_eq!(names.get("x"), None);
        let texts: Vec<String> = (0..5000).map(|i| format!("%r{i}")).collect();
        let first: Vec<Name> = texts.iter().map(|text| names.intern(text)).collect();
        for (text, &name) in texts.iter().zip(&first) {
            assert_eq!(names.intern(text), name);
            assert_eq!(names.get(text), Some(name));
            assert_eq!(names.text(name), text);
        }
        assert_eq!(names.len(), 5000);
        assert_eq!(names.get("%r5000"), None);
        let empty = names.intern("");
        assert_eq!(names.text(empty), "");
    }
}
