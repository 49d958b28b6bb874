//! Reads the frames of Python code on a thread that has released the interpreter's lock, for
//! CPython 3.11.
//!
//! A thread can read its frames without the lock: only the thread itself changes its chain of
//! frames, and code objects and their names never change while a frame uses them. This module does
//! not call functions of the interpreter that need the lock, does not change reference counts, and
//! checks the types of all objects that it reads.
//!
//! Invariant: all memory of the interpreter is read with [`access::read`], so a wrong address ends the search for
//! frames and does not crash the program.

use super::HostFrame;
use crate::fault::{access, unblock};

/// The version of the interpreter whose structures this module reads: major and minor number, as in `Py_Version`.
pub(super) const VERSION: u64 = 0x030b;

/// Maximum number of frames that are read, including the frames of C code.
const MOST: usize = 256;
/// Maximum number of bytes of a name or a table of lines.
const LONGEST: u64 = 1 << 20;

/// Offsets in the structures of CPython 3.11.
mod offset {
    pub(super) const THREAD_CFRAME: u64 = 56;
    pub(super) const CFRAME_FRAME: u64 = 8;
    pub(super) const FRAME_CODE: u64 = 32;
    pub(super) const FRAME_PREVIOUS: u64 = 48;
    pub(super) const FRAME_INSTRUCTION: u64 = 56;
    pub(super) const CODE_FIRST_LINE: u64 = 72;
    pub(super) const CODE_FILE: u64 = 112;
    pub(super) const CODE_QUALNAME: u64 = 128;
    pub(super) const CODE_LINES: u64 = 136;
    pub(super) const CODE_INSTRUCTIONS: u64 = 184;
    pub(super) const OBJECT_TYPE: u64 = 8;
    pub(super) const SIZE: u64 = 16;
    pub(super) const TEXT_STATE: u64 = 32;
    pub(super) const ASCII: u64 = 48;
    pub(super) const COMPACT: u64 = 72;
    pub(super) const BYTES: u64 = 32;
}

/// Addresses of the types of the objects that this module reads.
pub(super) struct Types {
    pub(super) code: u64,
    pub(super) text: u64,
    pub(super) bytes: u64,
}

fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    access::read(&mut bytes, address).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn bytes(address: u64, count: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).ok().filter(|_| count <= LONGEST)?];
    access::read(&mut bytes, address).ok()?;
    Some(bytes)
}

fn is(object: u64, kind: u64) -> bool {
    word(object + offset::OBJECT_TYPE) == Some(kind)
}

/// Returns the frames of a thread, innermost first. `thread` is the address of the thread's state
/// (`PyThreadState`).
pub(super) fn frames(thread: u64, types: &Types) -> Vec<HostFrame> {
    let _unblocked = unblock();
    let first = word(thread + offset::THREAD_CFRAME).and_then(|at| word(at + offset::CFRAME_FRAME));
    let mut frame = first.unwrap_or_default();
    let mut found = Vec::new();
    for _ in 0..MOST {
        if frame == 0 {
            break;
        }
        found.extend(describe(frame, types));
        let Some(previous) = word(frame + offset::FRAME_PREVIOUS) else {
            break;
        };
        frame = previous;
    }
    found
}

fn describe(frame: u64, types: &Types) -> Option<HostFrame> {
    let code = word(frame + offset::FRAME_CODE).filter(|&code| is(code, types.code))?;
    let function = text(word(code + offset::CODE_QUALNAME)?, types)?;
    let file = text(word(code + offset::CODE_FILE)?, types);
    let instruction = word(frame + offset::FRAME_INSTRUCTION)?;
    let start = code + offset::CODE_INSTRUCTIONS;
    let line = instruction.checked_sub(start);
    let line = line.and_then(|bytes| line_of(code, bytes / 2, types));
    Some(HostFrame {
        function,
        file,
        line,
        ..HostFrame::default()
    })
}

/// Reads a compact text object (`str`) with 1, 2 or 4 bytes per character. Returns `None` if `object` is not such a
/// text object.
fn text(object: u64, types: &Types) -> Option<String> {
    if !is(object, types.text) {
        return None;
    }
    let state = word(object + offset::TEXT_STATE)? as u32;
    let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    let length = word(object + offset::SIZE)?;
    if !is_compact {
        return None;
    }
    let start = object
        + if is_ascii {
            offset::ASCII
        } else {
            offset::COMPACT
        };
    let raw = bytes(start, length.checked_mul(u64::from(width))?)?;
    let character = |chunk: &[u8]| {
        let mut code = [0; 4];
        code[..chunk.len()].copy_from_slice(chunk);
        char::from_u32(u32::from_le_bytes(code)).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    match width {
        1 | 2 | 4 => Some(raw.chunks(width as usize).map(character).collect()),
        _ => None,
    }
}

/// Returns the line of an instruction of a code object, from the object's table of locations (`co_linetable`).
/// `instruction` is the index of a code unit of two bytes.
fn line_of(code: u64, instruction: u64, types: &Types) -> Option<u32> {
    let first = word(code + offset::CODE_FIRST_LINE)? as u32;
    let table = word(code + offset::CODE_LINES).filter(|&table| is(table, types.bytes))?;
    let table = bytes(table + offset::BYTES, word(table + offset::SIZE)?)?;
    line_in(&table, first, instruction)
}

/// Finds the line of an instruction in a table of locations. An entry describes 1 to 8 successive instructions: its
/// first byte contains the entry's kind and the number of instructions minus 1. The kind determines
/// the encoding of the entry's line, which is stored as a difference from the line of the previous
/// entry.
fn line_in(table: &[u8], first: u32, instruction: u64) -> Option<u32> {
    let (mut line, mut start, mut at) = (i64::from(first), 0, 0);
    while let Some(&head) = table.get(at) {
        let kind = head >> 3 & 15;
        let mut rest = table[at + 1..].iter().copied();
        line += match kind {
            10..=12 => i64::from(kind) - 10,
            13 | 14 => signed(&mut rest)?,
            _ => 0,
        };
        let end = start + u64::from(head & 7) + 1;
        if instruction < end {
            return u32::try_from(line).ok().filter(|_| kind != 15);
        }
        start = end;
        // Only the first byte of an entry has its highest bit set.
        let next = table[at + 1..].iter().position(|byte| byte & 0x80 != 0)?;
        at += 1 + next;
    }
    None
}

/// Reads a signed number of variable length: six bits in each byte, the least significant first; bit 0 is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let (mut value, mut shift) = (0i64, 0);
    loop {
        let byte = bytes.next()?;
        value |= i64::from(byte & 0x3f).checked_shl(shift)?;
        if byte & 0x40 == 0 {
            break;
        }
        shift += 6;
    }
    Some(if value & 1 != 0 {
        -(value >> 1)
    } else {
        value >> 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_a_table_of_locations() {
        // Two instructions at line 7 (kind 13, +2); one at line 8 (kind 11, +1); three at line 6 (kind 14, -2);
        // one without a line.
        let table = [
            0x80 | 13 << 3 | 1,
            4,
            0x80 | 11 << 3,
            1,
            2,
            0x80 | 14 << 3 | 2,
            5,
            0,
            1,
            1,
            0x80 | 15 << 3,
        ];
        let line = |instruction| line_in(&table, 5, instruction);
        let lines: Vec<_> = (0..8).map(line).collect();
        let (a, b, c) = (Some(7), Some(8), Some(6));
        assert_eq!(lines, [a, a, b, c, c, c, None, None]);
    }
}
