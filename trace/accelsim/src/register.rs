//! Registers of an instruction.

use std::fmt;

/// The set that a register belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum RegisterKind {
    /// `R`: a register of each lane.
    General,
    /// `UR`: a register of the warp. Version 6 only.
    Uniform,
    /// `P`: a predicate of each lane. Version 6 only.
    Predicate,
    /// `UP`: a predicate of the warp. Version 6 only.
    UniformPredicate,
}

impl RegisterKind {
    const ALL: [RegisterKind; 4] = [
        RegisterKind::General,
        RegisterKind::Uniform,
        RegisterKind::Predicate,
        RegisterKind::UniformPredicate,
    ];

    /// Returns the letters before the number.
    pub fn prefix(self) -> &'static str {
        match self {
            RegisterKind::General => "R",
            RegisterKind::Uniform => "UR",
            RegisterKind::Predicate => "P",
            RegisterKind::UniformPredicate => "UP",
        }
    }
}

/// A register: a kind and a number below 2^30.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(u32);

/// The kind lies above the number.
const KIND_SHIFT: u32 = 30;

impl Register {
    /// Returns the register, or none if the number is 2^30 or more.
    pub fn new(kind: RegisterKind, number: u32) -> Option<Register> {
        let register = Register((kind as u32) << KIND_SHIFT | number);
        (number >> KIND_SHIFT == 0).then_some(register)
    }

    /// Returns the general register with a number of 16 bits.
    pub const fn general(number: u16) -> Register {
        Register(number as u32)
    }

    /// Returns the kind.
    pub fn kind(self) -> RegisterKind {
        RegisterKind::ALL[(self.0 >> KIND_SHIFT) as usize]
    }

    /// Returns the number.
    pub fn number(self) -> u32 {
        self.0 & ((1 << KIND_SHIFT) - 1)
    }

    /// Parses `R7`, `UR7`, `P7` or `UP7`.
    pub(crate) fn parse(text: &[u8]) -> Option<Register> {
        let letters = text.iter().position(u8::is_ascii_digit)?;
        let (prefix, digits) = text.split_at(letters);
        let mut kinds = RegisterKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.prefix().as_bytes() == prefix)?;
        Register::new(kind, crate::number::decimal32(digits)?)
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.kind().prefix().as_bytes());
        crate::number::push_decimal(out, u64::from(self.number()));
    }
}

impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind().prefix(), self.number())
    }
}

/// The maximum number of sources that a line can have: what the original tracer writes. The simulator reads 4.
pub const MAX_SOURCES: usize = 5;

/// The sources of an instruction, at most [`MAX_SOURCES`]. It is a slice.
#[derive(Clone, Copy)]
pub struct Sources {
    count: u8,
    registers: [Register; MAX_SOURCES],
}

impl Sources {
    /// No sources.
    pub const NONE: Sources = Sources {
        count: 0,
        registers: [Register::general(0); MAX_SOURCES],
    };

    /// Returns these sources, or none if there are more than [`MAX_SOURCES`].
    pub fn new(registers: &[Register]) -> Option<Sources> {
        let mut sources = Sources::NONE;
        let held = sources.registers.get_mut(..registers.len())?;
        held.copy_from_slice(registers);
        sources.count = registers.len() as u8;
        Some(sources)
    }

    /// Returns the first sources, at most [`MAX_SOURCES`].
    pub fn first(registers: &[Register]) -> Sources {
        let count = registers.len().min(MAX_SOURCES);
        Sources::new(&registers[..count]).unwrap_or(Sources::NONE)
    }
}

impl std::ops::Deref for Sources {
    type Target = [Register];

    fn deref(&self) -> &[Register] {
        &self.registers[..usize::from(self.count)]
    }
}

impl PartialEq for Sources {
    fn eq(&self, other: &Sources) -> bool {
        **self == **other
    }
}

impl Eq for Sources {}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_four_kinds() {
        for text in ["R0", "R5000", "UR7", "P0", "UP3", "R1073741823"] {
            let register = Register::parse(text.as_bytes()).unwrap();
            assert_eq!(format!("{register:?}"), text);
        }
        for text in ["", "R", "7", "X1", "R1x", "RU1", "R1073741824", "r1", "R-1"] {
            assert_eq!(Register::parse(text.as_bytes()), None, "{text}");
        }
    }
}
