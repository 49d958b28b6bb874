//! The opcodes of a file.

use rustc_hash::FxHashMap;

use super::{Opcode, OpcodeMap};
use crate::error::{Fault, excerpt};

/// The opcodes of a file: each different text is stored once.
#[derive(Debug, Default)]
pub struct Opcodes {
    known: FxHashMap<Box<[u8]>, Opcode>,
    map: Option<(u32, OpcodeMap)>,
}

/// The maximum number of different opcodes of a file. The full text varies more than the name.
const MAX_OPCODES: usize = 1 << 16;

impl Opcodes {
    /// Returns an empty set that accepts every name.
    pub fn new() -> Opcodes {
        Opcodes::default()
    }

    /// Returns an empty set that accepts the names of a binary version.
    pub(crate) fn of(binary_version: u32) -> Result<Opcodes, Fault> {
        let map = OpcodeMap::of(binary_version).ok_or(Fault::BinaryVersion(binary_version))?;
        Ok(Opcodes {
            known: FxHashMap::default(),
            map: Some((binary_version, map)),
        })
    }

    /// Returns the opcode with this text.
    ///
    /// # Errors
    ///
    /// [`Fault::Opcode`] if the map does not have the name, [`Fault::OpcodeLimit`] if the text is no opcode or there are too
    /// many, [`Fault::Utf8`].
    pub fn intern(&mut self, text: &[u8]) -> Result<Opcode, Fault> {
        match self.known.get(text) {
            Some(opcode) => Ok(opcode.clone()),
            None => self.add(text),
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<Opcode, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::Utf8)?;
        let limit = || Fault::OpcodeLimit(excerpt(bytes));
        let opcode = Opcode::new(text).ok_or_else(limit)?;
        if let Some((binary_version, map)) = self.map
            && map.class(opcode.name()).is_none()
        {
            return Err(Fault::Opcode {
                opcode: text.to_owned(),
                binary_version,
            });
        }
        if self.known.len() == MAX_OPCODES {
            return Err(limit());
        }
        self.known.insert(bytes.into(), opcode.clone());
        Ok(opcode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opcodes_of_a_file_are_limited() {
        let mut opcodes = Opcodes::new();
        for number in 0..MAX_OPCODES {
            opcodes.intern(format!("MOV.X{number}").as_bytes()).unwrap();
        }
        assert!(opcodes.intern(b"MOV.X7").is_ok());
        assert_eq!(
            opcodes.intern(b"NOP"),
            Err(Fault::OpcodeLimit("NOP".to_owned()))
        );
        assert!(Opcode::new(&"X".repeat(257)).is_none());
        assert!(Opcode::new("A B").is_none());
    }
}
