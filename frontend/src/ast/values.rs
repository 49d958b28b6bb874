//! The values in the initialiser lists of a module, in an encoding that needs little memory.
//!
//! An initialiser can contain far more values than the rest of the module contains nodes of the
//! syntax tree: a compressed fat binary of 20 KB can expand to a hundred million values. Therefore,
//! the values in a list are not nodes of the arena. The values of all lists are encoded one after
//! another in one vector of bytes, most of them in three or four bytes, and [`ValueIter`] decodes
//! them.
//!
//! The first byte of an encoded value contains the form of the value and the distance in bytes from the end of the
//! previous value's text to the start of this value's text. If the distance is [`FAR`] or more, the byte contains `FAR`
//! instead, and the distance is encoded after it as a number. The length of the value's text and the value itself come
//! next. Numbers are encoded in groups of seven bits per byte (LEB128), but floating-point values are stored as their
//! four or eight bytes. A list has a header of fixed size instead of the length and the value, and the values of the
//! list follow the header. The encoder fills in the header when the list ends. The header contains the encoded size, so
//! that the decoder can skip the list.
//!
//! Invariants: a [`ValueList`] is only used with the [`Values`] that created it. Decoding never panics. After the
//! values were released, decoding returns no values.

use super::{Constant, Initializer, InitializerKind, List, Name};
use crate::source::Span;

/// An initialiser list. Its values are encoded in the [`Values`] of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ValueList {
    /// The bytes of the [`Values`] with the indices `start..end` encode the list's values.
    start: usize,
    end: usize,
    /// Number of values.
    count: u32,
    /// The byte offset of the list in the source text.
    position: u32,
}

impl ValueList {
    /// Returns the number of values in the list.
    pub fn len(self) -> usize {
        self.count as usize
    }

    /// Whether the list has no values.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// The encoded values of all lists of a module.
#[derive(Debug, Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    /// The byte offset in the source text from which the distance to the next value is measured:
    /// the end of the value or list that was added last, or the start of a list that has no values
    /// yet.
    position: u32,
}

/// An initialiser list that is not complete: values are being added to it.
pub(crate) struct OpenList {
    /// The index, in the encoded bytes, of the first byte of the list's header.
    header: usize,
    start: u32,
    count: u32,
}

/// The error for a failed allocation. The field is the size in bytes of the allocation.
pub(super) struct NoMemory(pub(super) usize);

/// The numbers in the first byte of an encoded value that state how the value is encoded.
mod form {
    pub(super) const SIGNED: u8 = 0;
    pub(super) const UNSIGNED: u8 = 1;
    pub(super) const DOUBLE: u8 = 2;
    pub(super) const SINGLE: u8 = 3;
    pub(super) const ADDRESS: u8 = 4;
    pub(super) const LIST: u8 = 5;
    pub(super) const PROPERTIES: u8 = 6;
    pub(super) const EMPTY_LIST: u8 = 7;
    /// The number of bits in the first byte of a value that contain the form of the value.
    pub(super) const BITS: u32 = 3;
}

/// A special value of the distance field in the first byte. It means that the distance does not fit in the field and is
/// encoded after the first byte.
const FAR: u32 = 31;
/// Size in bytes of the header of a list. The header contains the length of the list's text, the number of its values
/// and the size of their encoding.
const HEADER: usize = 4 + 4 + 8;
/// Maximum number of bytes of an encoded value. For a list, this includes the header but not the values in the list.
const LONGEST: usize = 40;

impl Values {
    /// Begins a list whose text begins at the byte offset `start` of the source text. The list is
    /// either the outermost list of a variable or the next value of the list that was begun last.
    pub(super) fn begin(&mut self, start: u32) -> Result<OpenList, NoMemory> {
        self.head(form::LIST, start)?;
        let header = self.bytes.len();
        self.bytes.extend([0; HEADER]);
        self.position = start;
        Ok(OpenList {
            header,
            start,
            count: 0,
        })
    }

    /// Ends a list whose text ends at the byte offset `end` of the source text.
    pub(super) fn end(&mut self, list: &OpenList, end: u32) -> ValueList {
        let start = list.header + HEADER;
        let content = self.bytes.len() - start;
        let header = &mut self.bytes[list.header..start];
        header[..4].copy_from_slice(&end.saturating_sub(list.start).to_le_bytes());
        header[4..8].copy_from_slice(&list.count.to_le_bytes());
        header[8..].copy_from_slice(&(content as u64).to_le_bytes());
        self.position = end;
        ValueList {
            start,
            end: self.bytes.len(),
            count: list.count,
            position: list.start,
        }
    }

    /// Adds a value that is an empty list or not a list. [`Values::begin`] and [`Values::end`] add
    /// the other lists.
    pub(super) fn push(&mut self, value: &Initializer) -> Result<(), NoMemory> {
        let form = match value.kind {
            InitializerKind::Constant(Constant::Int {
                unsigned: false, ..
            }) => form::SIGNED,
            InitializerKind::Constant(Constant::Int { unsigned: true, .. }) => form::UNSIGNED,
            InitializerKind::Constant(Constant::Double(_)) => form::DOUBLE,
            InitializerKind::Constant(Constant::Single(_)) => form::SINGLE,
            InitializerKind::Address { .. } => form::ADDRESS,
            InitializerKind::Properties(_) => form::PROPERTIES,
            InitializerKind::List(_) => form::EMPTY_LIST,
        };
        self.head(form, value.span.start)?;
        self.number(u64::from(value.span.len()));
        match value.kind {
            InitializerKind::Constant(Constant::Int { bits, .. }) => self.signed(bits as i64),
            InitializerKind::Constant(Constant::Double(bits)) => {
                self.bytes.extend(bits.to_le_bytes());
            }
            InitializerKind::Constant(Constant::Single(bits)) => {
                self.bytes.extend(bits.to_le_bytes());
            }
            InitializerKind::Address {
                name,
                offset,
                generic,
                byte,
            } => {
                self.number(name.index() as u64);
                self.signed(offset);
                let byte = byte.map_or(0, |byte| byte + 1);
                self.bytes.push(byte << 1 | u8::from(generic));
            }
            InitializerKind::Properties(list) => {
                let (start, len) = list.parts();
                self.number(u64::from(start));
                self.number(u64::from(len));
            }
            InitializerKind::List(_) => {}
        }
        self.position = value.span.end;
        Ok(())
    }

    /// Returns an iterator that decodes the values of a list.
    pub(super) fn of(&self, list: ValueList) -> ValueIter<'_> {
        let bytes = self.bytes.get(..list.end).unwrap_or_default();
        ValueIter {
            bytes,
            at: list.start,
            position: list.position,
            remaining: list.count,
        }
    }

    /// Reserves memory for a value, and writes the value's form and the distance from the previous
    /// value's text to the byte offset `start`.
    fn head(&mut self, form: u8, start: u32) -> Result<(), NoMemory> {
        if self.bytes.capacity() - self.bytes.len() < LONGEST {
            let more = (2 * self.bytes.capacity()).max(LONGEST);
            let reserved = self.bytes.try_reserve(LONGEST);
            reserved.map_err(|_| NoMemory(more))?;
        }
        let distance = start.saturating_sub(self.position);
        self.bytes
            .push(form | (distance.min(FAR) as u8) << form::BITS);
        if distance >= FAR {
            self.number(u64::from(distance));
        }
        Ok(())
    }

    /// Writes a number in groups of seven bits, the lowest group first. The high bit of a byte is set if another group
    /// follows.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Writes a signed number with its sign in the lowest bit, so that small negative numbers are short.
    fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }
}

/// Decodes the values of a list in order.
#[derive(Clone, Debug)]
pub struct ValueIter<'a> {
    bytes: &'a [u8],
    at: usize,
    position: u32,
    remaining: u32,
}

impl ValueIter<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Decodes the header of a list whose text begins at the byte offset `start`, and advances the
    /// iterator past the values of the list. Returns the list and the length of its text.
    fn list(&mut self, start: u32) -> Option<(ValueList, u32)> {
        let len = u32::from_le_bytes(self.take()?);
        let count = u32::from_le_bytes(self.take()?);
        let content = u64::from_le_bytes(self.take()?) as usize;
        let list = ValueList {
            start: self.at,
            end: self.at.checked_add(content)?,
            count,
            position: start,
        };
        self.at = list.end;
        Some((list, len))
    }

    fn value(&mut self) -> Option<Initializer> {
        let [head] = self.take()?;
        let distance = match u32::from(head >> form::BITS) {
            FAR => self.number()? as u32,
            near => near,
        };
        let start = self.position.saturating_add(distance);
        let form = head & ((1 << form::BITS) - 1);
        let (kind, len) = if form == form::LIST {
            let (list, len) = self.list(start)?;
            (InitializerKind::List(list), len)
        } else {
            let len = self.number()? as u32;
            (self.kind(form)?, len)
        };
        let span = Span::new(start, start.saturating_add(len));
        self.position = span.end;
        Some(Initializer { kind, span })
    }

    fn kind(&mut self, form: u8) -> Option<InitializerKind> {
        let constant = match form {
            form::SIGNED => Constant::signed(self.signed()?),
            form::UNSIGNED => Constant::unsigned(self.signed()? as u64),
            form::DOUBLE => Constant::Double(u64::from_le_bytes(self.take()?)),
            form::SINGLE => Constant::Single(u32::from_le_bytes(self.take()?)),
            form::ADDRESS => {
                let name = Name::at_index(self.number()?)?;
                let offset = self.signed()?;
                let [flags] = self.take()?;
                return Some(InitializerKind::Address {
                    name,
                    offset,
                    generic: flags & 1 != 0,
                    byte: (flags >> 1).checked_sub(1),
                });
            }
            form::PROPERTIES => {
                let (start, len) = (self.number()?, self.number()?);
                let list = List::from_parts(start as u32, len as u32);
                return Some(InitializerKind::Properties(list));
            }
            _ => return Some(InitializerKind::List(ValueList::default())),
        };
        Some(InitializerKind::Constant(constant))
    }
}

impl Iterator for ValueIter<'_> {
    type Item = Initializer;

    fn next(&mut self) -> Option<Initializer> {
        self.remaining = self.remaining.checked_sub(1)?;
        self.value()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.remaining as usize))
    }
}

impl OpenList {
    /// Increments the number of values in the list.
    pub(crate) fn count(&mut self) {
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arena, Names};
    use super::*;

    fn at(start: u32, end: u32, kind: InitializerKind) -> Initializer {
        Initializer {
            kind,
            span: Span::new(start, end),
        }
    }

    #[test]
    fn values_of_every_form_and_size_are_read_back() {
        let name = Names::default().intern("a");
        let mut all = Vec::new();
        for shift in 0..64 {
            for bits in [
                1_u64 << shift,
                (1 << shift) - 1,
                1_u64.wrapping_neg() << shift,
            ] {
                all.push(InitializerKind::Constant(Constant::signed(bits as i64)));
                all.push(InitializerKind::Constant(Constant::unsigned(bits)));
                all.push(InitializerKind::Constant(Constant::Double(bits)));
                all.push(InitializerKind::Constant(Constant::Single(bits as u32)));
                all.push(InitializerKind::Address {
                    name,
                    offset: bits as i64,
                    generic: shift % 2 == 0,
                    byte: (shift < 8).then_some(shift as u8),
                });
            }
        }
        all.push(InitializerKind::Properties(List::from_parts(3, 70_000)));
        all.push(InitializerKind::List(ValueList::default()));
        let mut start = 7;
        let all: Vec<Initializer> = (0..)
            .zip(all)
            .map(|(index, kind)| {
                // Use distances and lengths below and above the largest that fit in one byte.
                start += index % 40;
                let value = at(start, start + index, kind);
                start = value.span.end;
                value
            })
            .collect();
        let mut arena = Arena::default();
        let outer = arena.begin_values(1).expect("memory");
        let mut inner = arena.begin_values(4).expect("memory");
        for value in &all {
            arena.add_value(&mut inner, value);
        }
        let mut outer = outer;
        let _ = arena.end_values(inner, start + 1);
        outer.count();
        arena.add_value(&mut outer, &at(start + 50, start + 51, all[0].kind));
        let outer = arena.end_values(outer, start + 60);
        assert_eq!(outer.len(), 2);
        let read: Vec<Initializer> = arena.values(outer).collect();
        assert_eq!(read[0].span, Span::new(4, start + 1));
        assert_eq!(read[1], at(start + 50, start + 51, all[0].kind));
        let InitializerKind::List(inner) = read[0].kind else {
            panic!("a list");
        };
        assert_eq!(arena.values(inner).collect::<Vec<_>>(), all);
        arena.release_values();
        assert_eq!(arena.values(inner).count(), 0, "released");
    }

    #[test]
    fn small_values_take_few_bytes() {
        let mut arena = Arena::default();
        let mut list = arena.begin_values(0).expect("memory");
        for index in 0..1000 {
            let kind = InitializerKind::Constant(Constant::signed(i64::from(index % 64)));
            arena.add_value(&mut list, &at(1 + 3 * index, 3 + 3 * index, kind));
        }
        let list = arena.end_values(list, 3001);
        assert_eq!(list.end - list.start, 3000);
    }
}
