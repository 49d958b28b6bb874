//! The memory of a map on the device.
//!
//! Plain memory, as the original engine uses it, is the slots alone: slot after slot of `capacity x record` bytes.
//! Counted memory, the default, has a header in front:
//!
//! | offset | type | field |
//! |---|---|---|
//! | 0 | u64 | dynamic maps: offset of the next free chunk from the start of the memory |
//! | 8 | u64 | dynamic maps: bytes of the memory |
//! | 16 | u64 | number of `SAVE`s that found no space and were dropped |
//! | 24 | u64 | 0 |
//!
//! Behind the header, a map of fixed capacity has its slots, and a dynamic map has chunks. A thread (or warp) takes a
//! chunk when it saves its first record, and again whenever its chunk is full, by an atomic addition to the first word
//! of the header. The first chunk has space for [`FIRST_RECORDS`] records, and each further chunk of a thread twice as
//! many as the one before, up to [`MapLayout::chunk_bytes`]. A chunk starts with 16 bytes: u64 index of the slot, u32
//! bytes for records, u32 bytes of records that are used. The chunks of a slot are in the order of time. So the launch
//! needs no counting run, and the host reads each record once. The memory of a dynamic map should be a large range of
//! addresses whose pages are committed when they are first written.
//!
//! Invariant: the host checks every size and index that it reads from the memory.

use crate::model::{Capacity, Level, Map};

/// The bytes of the header of counted memory.
pub const HEADER_BYTES: u64 = 32;
/// The bytes in front of the records of a chunk.
pub const CHUNK_HEADER_BYTES: u64 = 16;
/// The number of records of the first chunk of a slot.
pub const FIRST_RECORDS: u32 = 4;
/// The number of bytes of records above which chunks do not grow.
const LARGE_CHUNK: u32 = 16 << 10;

/// The shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The number of CTAs in each dimension.
    pub grid: [u32; 3],
    /// The number of threads of a CTA in each dimension.
    pub block: [u32; 3],
    /// The bytes of dynamic shared memory of a CTA.
    pub shared: u32,
}

impl Geometry {
    /// Returns the number of CTAs, or `None` if it does not fit.
    pub fn ctas(&self) -> Option<u64> {
        product(self.grid)
    }

    /// Returns the number of threads of a CTA, or `None` if it does not fit.
    pub fn threads(&self) -> Option<u64> {
        product(self.block)
    }
}

fn product(sizes: [u32; 3]) -> Option<u64> {
    let sizes = sizes.map(u64::from);
    sizes[0].checked_mul(sizes[1])?.checked_mul(sizes[2])
}

/// Whether the memory of a map has a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Storage {
    /// With a header: exact, and dynamic without a counting run.
    #[default]
    Counted,
    /// Without a header, as the original engine lays out memory.
    Plain,
}

/// The memory of one map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapLayout {
    /// The name of the map.
    pub name: String,
    /// Who has a slot.
    pub level: Level,
    /// The bytes of a record.
    pub record: u32,
    /// The number of records of a slot.
    pub capacity: Capacity,
    /// Whether the memory has a header.
    pub storage: Storage,
}

/// A launch or a memory that does not fit a map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// The launch has too many slots.
    #[error("map `{0}`: the launch needs more than 2^63 bytes")]
    TooLarge(String),
    /// A slot of the result file would have 2^32 bytes or more.
    #[error("map `{0}`: {1} bytes of records in one slot do not fit into a result file")]
    LongSlot(String, u64),
    /// The memory has not the size that the launch needs.
    #[error("map `{name}`: the memory has {bytes} bytes instead of {wanted}")]
    WrongMemory {
        /// The name of the map.
        name: String,
        /// The bytes of the memory.
        bytes: u64,
        /// The bytes that the launch needs.
        wanted: u64,
    },
    /// A chunk contradicts itself or the launch.
    #[error("map `{0}`: the chunk at byte {1} is damaged")]
    Damaged(String, u64),
    /// The original engine needs the result of the counting run for a dynamic map.
    #[error("map `{0}`: the bytes that the counting run found are missing")]
    NotCounted(String),
}

impl MapLayout {
    /// Describes the memory of a map.
    pub fn new(map: &Map, storage: Storage) -> MapLayout {
        MapLayout {
            name: map.name.clone(),
            level: map.level,
            record: map.record,
            capacity: map.capacity,
            storage,
        }
    }

    /// Returns the number of slots of a CTA: its threads, or its warps rounded up.
    ///
    /// # Errors
    ///
    /// Fails if the number does not fit.
    pub fn slots_per_cta(&self, launch: &Geometry) -> Result<u64, LayoutError> {
        let threads = launch.threads().ok_or_else(|| self.too_large())?;
        Ok(threads.div_ceil(u64::from(self.level.threads())))
    }

    /// Returns the number of slots of a launch.
    ///
    /// # Errors
    ///
    /// Fails if the number does not fit.
    pub fn slots(&self, launch: &Geometry) -> Result<u64, LayoutError> {
        let ctas = launch.ctas().ok_or_else(|| self.too_large())?;
        let slots = ctas.checked_mul(self.slots_per_cta(launch)?);
        slots.ok_or_else(|| self.too_large())
    }

    /// Returns the bytes of memory that a launch needs. For a dynamic map with counted memory these are the least bytes
    /// with which the kernel runs: one first chunk for each slot. The caller should reserve more.
    ///
    /// # Errors
    ///
    /// Fails if the number does not fit. Fails for dynamic maps with plain memory, whose size
    /// [`MapLayout::plain_bytes`] computes.
    pub fn device_bytes(&self, launch: &Geometry) -> Result<u64, LayoutError> {
        let slot = match (self.capacity, self.storage) {
            (Capacity::Records(records), _) => u64::from(records) * u64::from(self.record),
            (Capacity::Dynamic, Storage::Counted) => {
                CHUNK_HEADER_BYTES + u64::from(self.first_chunk())
            }
            (Capacity::Dynamic, Storage::Plain) => {
                return Err(LayoutError::NotCounted(self.name.clone()));
            }
        };
        let header = match self.storage {
            Storage::Counted => HEADER_BYTES,
            Storage::Plain => 0,
        };
        self.sized(launch, slot, header)
    }

    /// Returns the bytes of plain memory with slots of `slot` bytes, for dynamic maps in the original's manner.
    ///
    /// # Errors
    ///
    /// Fails if the number does not fit.
    pub fn plain_bytes(&self, launch: &Geometry, slot: u32) -> Result<u64, LayoutError> {
        self.sized(launch, u64::from(slot), 0)
    }

    fn sized(&self, launch: &Geometry, slot: u64, header: u64) -> Result<u64, LayoutError> {
        let bytes = self.slots(launch)?.checked_mul(slot);
        let bytes = bytes.and_then(|bytes| bytes.checked_add(header));
        bytes
            .filter(|&bytes| bytes < 1 << 63)
            .ok_or_else(|| self.too_large())
    }

    /// Returns the bytes for records of the first chunk of a slot.
    pub fn first_chunk(&self) -> u32 {
        FIRST_RECORDS * self.record
    }

    /// Returns the greatest number of bytes for records in a chunk. This is the value of the parameter `bytes_NAME` of
    /// a dynamic map with counted memory.
    pub fn chunk_bytes(&self) -> u32 {
        (LARGE_CHUNK / self.record).max(FIRST_RECORDS) * self.record
    }

    /// Returns the first bytes of counted memory of `bytes` bytes before a launch. All other bytes must be 0.
    pub fn header(&self, bytes: u64) -> [u8; HEADER_BYTES as usize] {
        let mut header = [0; HEADER_BYTES as usize];
        if self.capacity == Capacity::Dynamic {
            header[..8].copy_from_slice(&HEADER_BYTES.to_le_bytes());
            header[8..16].copy_from_slice(&bytes.to_le_bytes());
        }
        header
    }

    /// Returns the number of `SAVE`s that were dropped, from the memory after a launch. Plain memory counts none.
    pub fn dropped(&self, memory: &[u8]) -> u64 {
        match self.storage {
            Storage::Counted => word(memory, 16).unwrap_or(0),
            Storage::Plain => 0,
        }
    }

    /// Returns the number of bytes from the start of counted memory that hold the header and records, from the
    /// header's bytes after a launch. The caller need not read what follows.
    pub fn used_bytes(&self, header: &[u8], bytes: u64) -> u64 {
        match self.capacity {
            Capacity::Dynamic => word(header, 0).unwrap_or(0).min(bytes),
            Capacity::Records(_) => bytes,
        }
    }

    fn too_large(&self) -> LayoutError {
        LayoutError::TooLarge(self.name.clone())
    }
}

/// Reads the 8 bytes at `offset`.
pub(crate) fn word(memory: &[u8], offset: u64) -> Option<u64> {
    let rest = memory.get(usize::try_from(offset).ok()?..)?;
    Some(u64::from_le_bytes(*rest.first_chunk()?))
}
