//! Opcodes: the text of a line, the width of an access, and the maps of the simulator.
//!
//! An opcode is a name and tokens, separated by dots (`LDG.E.64.SYS`). The simulator looks up the name in a map that the
//! binary version of the header selects. The other tokens only decide the width of accesses.

mod intern;
mod map;
mod memory;
mod table;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub use intern::Opcodes;
pub use map::{Class, OpcodeMap};
pub use memory::{MemoryKind, Space};

use memory::memory;

/// An opcode. Clones share the text.
#[derive(Clone)]
pub struct Opcode(Arc<Parts>);

struct Parts {
    text: Box<str>,
    name: usize,
    width: u32,
    true_width: u32,
    memory: Option<(Space, MemoryKind)>,
    is_exit: bool,
}

/// The maximum length of an opcode in bytes.
const MAX_LENGTH: usize = 256;

impl Opcode {
    /// Returns the opcode with this text, or none if the text is empty, has white space or control characters, or is
    /// longer than 256 bytes.
    pub fn new(text: &str) -> Option<Opcode> {
        let invalid = |c: char| c.is_whitespace() || c.is_control();
        if text.is_empty() || text.len() > MAX_LENGTH || text.contains(invalid) {
            return None;
        }
        let name = text.find('.').unwrap_or(text.len());
        Some(Opcode(Arc::new(Parts {
            text: text.into(),
            name,
            width: width(text, |letter| letter == 'U'),
            true_width: true_width(text),
            memory: memory(&text[..name]),
            is_exit: &text[..name] == "EXIT",
        })))
    }

    /// Returns the full text, for example `LDG.E.64`.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the text up to the first dot, for example `LDG`.
    pub fn name(&self) -> &str {
        &self.0.text[..self.0.name]
    }

    /// Returns the width in bytes of the access of a lane, as the simulator takes it from the opcode: the first token that
    /// is a decimal number, or `U` and one, divided by 8; 4 without such a token. Signed narrow accesses (`S8`) therefore
    /// have 4 bytes.
    pub fn width(&self) -> u32 {
        self.0.width
    }

    /// Returns the width in bytes that hardware accesses for a lane: as [`Opcode::width`], but signed and floating-point
    /// tokens (`S8`, `F64`) count, and each lane of LDSM names a row of 16 bytes.
    pub fn true_width(&self) -> u32 {
        self.0.true_width
    }

    /// Returns what the instruction accesses, or none if it has no address list.
    pub fn memory(&self) -> Option<(Space, MemoryKind)> {
        self.0.memory
    }

    /// Returns whether the instruction ends threads.
    pub fn is_exit(&self) -> bool {
        self.0.is_exit
    }

    /// Returns whether the instruction is an asynchronous copy, which has two lines in a raw trace.
    pub fn is_copy(&self) -> bool {
        matches!(self.0.memory, Some((_, MemoryKind::Copy)))
    }

    /// Returns whether a destination register would stop the simulator: it never releases those of stores and memory
    /// barriers.
    pub fn forbids_destination(&self) -> bool {
        matches!(self.0.memory, Some((_, MemoryKind::Store))) || self.name() == "MEMBAR"
    }

    /// Returns whether the text has `GMMA`. Such lines of version 6 have a commit-group flag.
    pub(crate) fn is_group_matrix(&self) -> bool {
        self.text().contains("GMMA")
    }

    /// Returns whether the instruction moves a tensor. Such lines of version 6 have more columns.
    pub(crate) fn is_tensor_memory(&self) -> bool {
        const NAMES: [&str; 7] = [
            "UTMALDG", "UTMASTG", "UTMAPF", "UTMAREDG", "UBLKCP", "UBLKPF", "UBLKRED",
        ];
        NAMES.contains(&self.name())
    }
}

impl PartialEq for Opcode {
    fn eq(&self, other: &Opcode) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.text() == other.text()
    }
}

impl Eq for Opcode {}

impl Hash for Opcode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.text(), f)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// The width in bytes of an access without a token for it.
const DEFAULT_WIDTH: u32 = 4;

/// Returns the first decimal token, or decimal token behind one of the letters in `prefixes`, in bytes.
fn width(text: &str, prefixes: impl Fn(char) -> bool + Copy) -> u32 {
    let bits = |token: &str| {
        let digits = token.strip_prefix(prefixes).unwrap_or(token);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u32>().ok()).flatten()
    };
    let bits = text.split('.').find_map(bits);
    bits.map_or(DEFAULT_WIDTH, |bits| bits / 8)
}

fn true_width(text: &str) -> u32 {
    if text.starts_with("LDSM") {
        return 16;
    }
    width(text, |letter| matches!(letter, 'U' | 'S' | 'F'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_decides_the_width() {
        let width = |text: &str| Opcode::new(text).unwrap().width();
        let rows = [
            ("LDG.E", 4),
            ("LDG.E.64", 8),
            ("LDG.E.128.SYS", 16),
            ("LDG.E.U8", 1),
            ("LDG.E.U16.SYS", 2),
            ("LDG.E.S8", 4),
            ("LDG.E.S16", 4),
            ("LDS.U.128", 16),
            ("ATOMS.CAS.64", 8),
            ("LDSM.16.M88.4", 2),
            ("ATOMG.E.ADD.F32.FTZ.RN", 4),
            ("ATOM.E.ADD.F16x2.RN", 4),
            ("LDGSTS.E.BYPASS.128", 16),
        ];
        for (text, bytes) in rows {
            assert_eq!(width(text), bytes, "{text}");
        }
    }

    #[test]
    fn the_true_width_counts_signed_tokens() {
        let width = |text: &str| Opcode::new(text).unwrap().true_width();
        assert_eq!(width("LDG.E.S8"), 1);
        assert_eq!(width("LDS.S16"), 2);
        assert_eq!(width("ATOMG.E.ADD.F64.RN"), 8);
        assert_eq!(width("ATOM.E.ADD.F16x2.RN"), 4);
        assert_eq!(width("LDSM.16.M88.4"), 16);
        assert_eq!(width("LDG.E"), 4);
    }
}
