//! A loaded probe file: registers, probes, maps.
//!
//! All dialects of probe files become this model. Invariants: names are unique and are identifiers; each [`Save`]
//! refers to a map of the file and has one operand for each field that it stores; the bytes of a map's fields are
//! its record size, or 4 less.
//!
//! [`Save`]: crate::snippet::Save

use crate::snippet::Snippet;
use crate::width::Width;

/// Who executes a probe, or has a slot in a map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Level {
    /// Each thread.
    Thread,
    /// Lane 0 of each warp.
    Warp,
}

impl Level {
    /// Returns the word of the probe file for the level.
    pub fn word(self) -> &'static str {
        match self {
            Level::Thread => "thread",
            Level::Warp => "warp",
        }
    }

    /// Returns the level that the word names.
    pub fn from_word(word: &str) -> Option<Level> {
        match word {
            "thread" => Some(Level::Thread),
            "warp" => Some(Level::Warp),
            _ => None,
        }
    }

    /// Returns the number of threads that share one slot: 1 or 32. Result files store this number.
    pub fn threads(self) -> u32 {
        match self {
            Level::Thread => 1,
            Level::Warp => 32,
        }
    }
}

/// A field of a map's records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The name of the field.
    pub name: String,
    /// The width of the field.
    pub width: Width,
}

/// The number of records for which a slot has space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capacity {
    /// A fixed number of records.
    Records(u32),
    /// As many records as the probes save.
    Dynamic,
}

/// The order in which a record stores the operands of a `SAVE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// All fields of 64 bits precede the fields of 32 bits.
    WideFirst,
    /// The fields are in the order of the file.
    AsWritten,
}

/// A map: storage with one slot for each thread or warp of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    /// The name of the map.
    pub name: String,
    /// Who has a slot.
    pub level: Level,
    /// The bytes of a record, a multiple of 8 and at most [`Map::MAX_RECORD`].
    pub record: u32,
    /// The number of records of a slot.
    pub capacity: Capacity,
    /// The fields in the order of the operands of `SAVE`.
    pub fields: Vec<Field>,
    /// How records store the fields.
    pub packing: Packing,
    /// The line of the map in the probe file.
    pub line: u32,
}

impl Map {
    /// The maximum size of a record in bytes.
    pub const MAX_RECORD: u32 = 4096;

    /// Returns the index in [`Map::fields`] and the byte offset of each field, in the order of the offsets.
    pub fn layout(&self) -> Vec<(usize, u32)> {
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        if self.packing == Packing::WideFirst {
            order.sort_by_key(|&index| self.fields[index].width == Width::U32);
        }
        let mut offset = 0;
        let place = |index: usize| {
            let at = offset;
            offset += self.fields[index].width.bytes();
            (index, at)
        };
        order.into_iter().map(place).collect()
    }

    /// Returns the bytes of a slot with a fixed number of records, or `None` for a dynamic map.
    pub fn slot_bytes(&self) -> Option<u64> {
        match self.capacity {
            Capacity::Records(records) => Some(u64::from(records) * u64::from(self.record)),
            Capacity::Dynamic => None,
        }
    }
}

/// A place in a kernel at which a probe runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Point {
    /// The start and the ends of the kernel.
    Kernel,
    /// The instructions that this text selects.
    Instruction(String),
}

/// A probe.
#[derive(Clone, PartialEq, Debug)]
pub struct Probe {
    /// The name of the probe.
    pub name: String,
    /// Who executes the probe.
    pub level: Level,
    /// Where the probe runs, as written.
    pub position: String,
    /// Where the probe runs.
    pub points: Vec<Point>,
    /// The text that runs before the instruction, or at the start of the kernel.
    pub before: Option<Snippet>,
    /// The text that runs after the instruction, or before the kernel's ends.
    pub after: Option<Snippet>,
    /// Whether the probe runs in all lanes, also in those in which the instruction's predicate is false.
    pub ignores_predicate: bool,
    /// The line of the probe in its file.
    pub line: u32,
}

/// A loaded probe file.
#[derive(Clone, PartialEq, Debug)]
pub struct ProbeFile {
    /// The name of the file, for messages.
    pub name: String,
    /// The number of scratch registers `%NR0`, `%NR1` and so on.
    pub registers: u32,
    /// The probes, in the order of the file.
    pub probes: Vec<Probe>,
    /// The maps, in the order of the file.
    pub maps: Vec<Map>,
    /// The script that reads each result file.
    pub callback: Option<String>,
    /// The probe file as TOML text. The folder of results contains this text as `probe.toml`.
    pub text: String,
}

impl ProbeFile {
    /// The maximum number of scratch registers.
    pub const MAX_REGISTERS: u32 = 4096;

    /// Returns the map with this name and its index.
    pub fn map(&self, name: &str) -> Option<(usize, &Map)> {
        let index = self.maps.iter().position(|map| map.name == name)?;
        Some((index, &self.maps[index]))
    }

    /// Whether at least one map is dynamic.
    pub fn is_dynamic(&self) -> bool {
        self.maps
            .iter()
            .any(|map| map.capacity == Capacity::Dynamic)
    }
}
