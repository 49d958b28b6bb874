//! Turns the memory of a map after a launch into a section of a result file.

use std::io::{self, Write};

use crate::layout::{
    CHUNK_HEADER_BYTES, Geometry, HEADER_BYTES, LayoutError, MapLayout, Storage, word,
};
use crate::model::Capacity;

/// The records of a map after a launch.
#[derive(Clone, Debug)]
pub struct Section<'m> {
    /// The name of the map.
    pub map: String,
    /// The bytes of a slot in the result file. For a dynamic map, this is the maximum over all slots.
    pub slot_bytes: u32,
    /// The number of threads that share a slot: 1 or 32.
    pub warp_div: u32,
    /// The number of slots.
    pub slots: u64,
    /// The number of `SAVE`s that were dropped because their slot, or the memory, was full.
    pub dropped: u64,
    content: Content<'m>,
}

#[derive(Clone, Debug)]
enum Content<'m> {
    /// Slot after slot.
    Slots(&'m [u8]),
    /// For each chunk its slot and its records, sorted by slot, and in the order of time within a slot.
    Chunks(Vec<(u64, &'m [u8])>),
}

impl MapLayout {
    /// Reads the memory of a launch. For a dynamic map with counted memory, the first
    /// [`MapLayout::used_bytes`] are enough.
    ///
    /// # Errors
    ///
    /// Fails if the memory has not the size of the launch, or if a chunk is damaged.
    pub fn section<'m>(
        &self,
        memory: &'m [u8],
        launch: &Geometry,
    ) -> Result<Section<'m>, LayoutError> {
        match (self.storage, self.slot_bytes()) {
            (Storage::Counted, None) => self.chunk_section(memory, launch),
            (Storage::Plain, None) => Err(LayoutError::NotCounted(self.name.clone())),
            (storage, Some(bytes)) => {
                let bytes = self.short(bytes)?;
                let header = if storage == Storage::Counted {
                    HEADER_BYTES
                } else {
                    0
                };
                self.slot_section(memory, launch, bytes, header)
            }
        }
    }

    /// Reads plain memory with slots of `slot` bytes, for dynamic maps in the original's manner.
    ///
    /// # Errors
    ///
    /// Fails if the memory has not the size of the launch.
    pub fn plain_section<'m>(
        &self,
        memory: &'m [u8],
        launch: &Geometry,
        slot: u32,
    ) -> Result<Section<'m>, LayoutError> {
        self.slot_section(memory, launch, slot, 0)
    }

    fn slot_bytes(&self) -> Option<u64> {
        match self.capacity {
            Capacity::Records(records) => Some(u64::from(records) * u64::from(self.record)),
            Capacity::Dynamic => None,
        }
    }

    fn short(&self, bytes: u64) -> Result<u32, LayoutError> {
        u32::try_from(bytes).map_err(|_| LayoutError::LongSlot(self.name.clone(), bytes))
    }

    fn slot_section<'m>(
        &self,
        memory: &'m [u8],
        launch: &Geometry,
        slot: u32,
        header: u64,
    ) -> Result<Section<'m>, LayoutError> {
        let slots = self.slots(launch)?;
        let wanted = slots
            .checked_mul(u64::from(slot))
            .and_then(|bytes| bytes.checked_add(header));
        let wanted = wanted.ok_or_else(|| LayoutError::TooLarge(self.name.clone()))?;
        if memory.len() as u64 != wanted {
            return Err(LayoutError::WrongMemory {
                name: self.name.clone(),
                bytes: memory.len() as u64,
                wanted,
            });
        }
        Ok(Section {
            map: self.name.clone(),
            slot_bytes: slot,
            warp_div: self.level.threads(),
            slots,
            dropped: self.dropped(memory),
            content: Content::Slots(&memory[header as usize..]),
        })
    }

    fn chunk_section<'m>(
        &self,
        memory: &'m [u8],
        launch: &Geometry,
    ) -> Result<Section<'m>, LayoutError> {
        let slots = self.slots(launch)?;
        let mut chunks = self.chunks(memory, slots)?;
        // A stable sort keeps the order of time within a slot.
        chunks.sort_by_key(|(slot, _)| *slot);
        let mut longest = 0;
        let mut current = (0, 0);
        for (slot, records) in &chunks {
            if current.0 != *slot {
                current = (*slot, 0);
            }
            current.1 += records.len() as u64;
            longest = longest.max(current.1);
        }
        Ok(Section {
            map: self.name.clone(),
            slot_bytes: self.short(longest)?,
            warp_div: self.level.threads(),
            slots,
            dropped: self.dropped(memory),
            content: Content::Chunks(chunks),
        })
    }

    /// Returns the slot and the records of each chunk, in the order in which the chunks were taken.
    fn chunks<'m>(
        &self,
        memory: &'m [u8],
        slots: u64,
    ) -> Result<Vec<(u64, &'m [u8])>, LayoutError> {
        let (Some(next), Some(limit)) = (word(memory, 0), word(memory, 8)) else {
            return Err(LayoutError::WrongMemory {
                name: self.name.clone(),
                bytes: memory.len() as u64,
                wanted: HEADER_BYTES,
            });
        };
        // Attempts that found no space also moved the end.
        let end = next.min(limit);
        let damaged = |at: u64| LayoutError::Damaged(self.name.clone(), at);
        let mut chunks = Vec::new();
        let mut at = HEADER_BYTES;
        while at.saturating_add(CHUNK_HEADER_BYTES) <= end {
            let slot = word(memory, at).ok_or_else(|| damaged(at))?;
            let sizes = word(memory, at + 8).ok_or_else(|| damaged(at))?;
            let (space, used) = (sizes & 0xFFFF_FFFF, sizes >> 32);
            if space == 0 && end < next {
                // The chunk that did not fit.
                break;
            }
            let start = at + CHUNK_HEADER_BYTES;
            let is_sound = slot < slots
                && space >= u64::from(self.record)
                && used <= space
                && used.is_multiple_of(u64::from(self.record))
                && start + space <= end;
            let records = memory.get(start as usize..(start + used) as usize);
            let Some(records) = records.filter(|_| is_sound) else {
                return Err(damaged(at));
            };
            chunks.push((slot, records));
            at = start + space;
        }
        Ok(chunks)
    }
}

impl Section<'_> {
    /// Returns the bytes of the section in the result file, without its entry in the table.
    pub fn bytes(&self) -> u64 {
        self.slots.saturating_mul(u64::from(self.slot_bytes))
    }

    /// Writes all slots. Slots of a dynamic map are padded with zeros to the longest one.
    ///
    /// # Errors
    ///
    /// Fails if `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.content {
            Content::Slots(bytes) => out.write_all(bytes),
            Content::Chunks(chunks) => self.write_chunks(chunks, out),
        }
    }

    fn write_chunks(&self, chunks: &[(u64, &[u8])], out: &mut dyn Write) -> io::Result<()> {
        let slot_bytes = u64::from(self.slot_bytes);
        let mut written = 0;
        for (slot, records) in chunks {
            // The first chunk of a slot starts at the slot; the next ones continue it.
            zeros(out, (slot * slot_bytes).saturating_sub(written))?;
            written = written.max(slot * slot_bytes);
            out.write_all(records)?;
            written += records.len() as u64;
        }
        zeros(out, self.bytes().saturating_sub(written))
    }
}

fn zeros(out: &mut dyn Write, mut count: u64) -> io::Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    while count > 0 {
        let part = count.min(ZEROS.len() as u64);
        out.write_all(&ZEROS[..part as usize])?;
        count -= part;
    }
    Ok(())
}
