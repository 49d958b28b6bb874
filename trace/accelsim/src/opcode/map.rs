//! The maps of the simulator: which opcode names exist, and the unit that executes each.

use super::table;

/// The names of one generation of machine code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpcodeMap {
    /// Binary version 35.
    Kepler,
    /// Binary versions 60 and 61.
    Pascal,
    /// Binary version 70.
    Volta,
    /// Binary version 75.
    Turing,
    /// Binary versions 80 and 86.
    Ampere,
}

impl OpcodeMap {
    /// Returns the map of a binary version, or none if the simulator supports no such version.
    pub fn of(binary_version: u32) -> Option<OpcodeMap> {
        match binary_version {
            35 => Some(OpcodeMap::Kepler),
            60 | 61 => Some(OpcodeMap::Pascal),
            70 => Some(OpcodeMap::Volta),
            75 => Some(OpcodeMap::Turing),
            80 | 86 => Some(OpcodeMap::Ampere),
            _ => None,
        }
    }

    /// Returns the class of a name (the opcode up to its first dot), or none if the map does not have it.
    pub fn class(self, name: &str) -> Option<Class> {
        let first = table::TABLE.partition_point(|row| row.name < name);
        let rows = &table::TABLE[first..];
        let mut rows = rows.iter().take_while(|row| row.name == name);
        let row = rows.find(|row| row.maps.contains(self.letter()))?;
        Some(row.class)
    }

    /// Returns all names of the map with their classes, in byte order.
    pub fn names(self) -> impl Iterator<Item = (&'static str, Class)> {
        let rows = table::TABLE.iter();
        let rows = rows.filter(move |row| row.maps.contains(self.letter()));
        rows.map(|row| (row.name, row.class))
    }

    fn letter(self) -> char {
        match self {
            OpcodeMap::Kepler => 'K',
            OpcodeMap::Pascal => 'P',
            OpcodeMap::Volta => 'V',
            OpcodeMap::Turing => 'T',
            OpcodeMap::Ampere => 'A',
        }
    }
}

/// The unit of the simulated core that executes an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Single precision; half precision shares it.
    Fp32,
    /// Special functions.
    Special,
    /// Double precision.
    Fp64,
    /// Integer arithmetic.
    Integer,
    /// Conversions, moves, predicates and what else has the latency of integers.
    Alu,
    /// Loads.
    Load,
    /// Stores and atomic operations.
    Store,
    /// Memory barriers.
    MemoryBarrier,
    /// Barriers of a CTA.
    Barrier,
    /// The end of threads.
    Exit,
    /// Branches. From Volta on, they have their own unit.
    Branch,
    /// Calls (Kepler and Pascal).
    Call,
    /// Returns (Kepler and Pascal).
    Return,
    /// Textures. On Kepler and Pascal these are [`Class::Alu`].
    Texture,
    /// Matrix operations.
    Tensor,
    /// Operations that are the same for all lanes.
    Uniform,
}

impl Class {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Class::Fp32 => "fp32",
            Class::Special => "special",
            Class::Fp64 => "fp64",
            Class::Integer => "integer",
            Class::Alu => "alu",
            Class::Load => "load",
            Class::Store => "store",
            Class::MemoryBarrier => "memory barrier",
            Class::Barrier => "barrier",
            Class::Exit => "exit",
            Class::Branch => "branch",
            Class::Call => "call",
            Class::Return => "return",
            Class::Texture => "texture",
            Class::Tensor => "tensor",
            Class::Uniform => "uniform",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_the_names_of_the_simulator() {
        assert!(table::TABLE.is_sorted_by_key(|row| row.name));
        let count = |map: OpcodeMap| map.names().count();
        assert_eq!(count(OpcodeMap::Kepler), 102);
        assert_eq!(count(OpcodeMap::Pascal), 152);
        assert_eq!(count(OpcodeMap::Volta), 127);
        assert_eq!(count(OpcodeMap::Turing), 165);
        assert_eq!(count(OpcodeMap::Ampere), 174);
    }

    #[test]
    fn classes_differ_between_maps() {
        assert_eq!(OpcodeMap::Volta.class("IMMA"), Some(Class::Integer));
        assert_eq!(OpcodeMap::Turing.class("IMMA"), Some(Class::Tensor));
        assert_eq!(OpcodeMap::Volta.class("KILL"), Some(Class::Branch));
        assert_eq!(OpcodeMap::Ampere.class("KILL"), Some(Class::Tensor));
        assert_eq!(OpcodeMap::Kepler.class("TEX"), Some(Class::Alu));
        assert_eq!(OpcodeMap::Volta.class("TEX"), Some(Class::Texture));
        assert_eq!(OpcodeMap::Turing.class("LDSM"), Some(Class::Load));
        assert_eq!(OpcodeMap::Ampere.class("LDGSTS"), Some(Class::Load));
        assert_eq!(OpcodeMap::Ampere.class("REDUX"), Some(Class::Uniform));
        for name in [
            "VIADD",
            "VIADDMNMX",
            "UBLKCP",
            "HGMMA",
            "STSM",
            "SYNCS",
            "DMNMX",
        ] {
            assert_eq!(OpcodeMap::Ampere.class(name), None, "{name}");
        }
        assert_eq!(OpcodeMap::Pascal.class("DMNMX"), Some(Class::Fp64));
        assert_eq!(OpcodeMap::Volta.class("SHL"), None);
        for version in [0, 89, 90, 100] {
            assert_eq!(OpcodeMap::of(version), None);
        }
    }
}
