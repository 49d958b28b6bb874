//! Writes and reads result files.
//!
//! A result file has a header of 32 bytes, a table with 16 bytes for each map, and the slots of the maps. All numbers
//! are little-endian. Invariant: the reader checks every size and offset before it uses it.

use std::io::{self, Write};

use crate::layout::Geometry;
use crate::section::Section;

const HEADER: usize = 32;
const ENTRY: usize = 16;

/// How the offsets in the table are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Offsets {
    /// The offsets at which the slots are.
    #[default]
    Exact,
    /// The offsets that the original engine writes. They are wrong behind a map of warps if the number of threads of a
    /// CTA is not a multiple of 32.
    Original,
}

/// The content of a result file.
#[derive(Clone, Debug)]
pub struct ResultFile<'m> {
    /// The shape of the launch.
    pub launch: Geometry,
    /// The maps, in the order of the probe file.
    pub sections: Vec<Section<'m>>,
    /// How the offsets in the table are computed.
    pub offsets: Offsets,
}

impl ResultFile<'_> {
    /// Returns the number of bytes of the file.
    pub fn bytes(&self) -> u64 {
        let sections = self.sections.iter().map(Section::bytes);
        sections.fold(self.table_end(), u64::saturating_add)
    }

    fn table_end(&self) -> u64 {
        (HEADER + ENTRY * self.sections.len()) as u64
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// Fails if `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Geometry {
            grid,
            block,
            shared,
        } = self.launch;
        let maps = self.sections.len() as u32;
        for word in grid.into_iter().chain(block).chain([shared, maps]) {
            out.write_all(&word.to_le_bytes())?;
        }
        let mut offset = self.table_end();
        for section in &self.sections {
            out.write_all(&section.slot_bytes.to_le_bytes())?;
            out.write_all(&section.warp_div.to_le_bytes())?;
            out.write_all(&offset.to_le_bytes())?;
            offset = offset.saturating_add(self.advance(section));
        }
        self.sections
            .iter()
            .try_for_each(|section| section.write(out))
    }

    fn advance(&self, section: &Section) -> u64 {
        match self.offsets {
            Offsets::Exact => section.bytes(),
            Offsets::Original => {
                let threads = self
                    .launch
                    .ctas()
                    .unwrap_or(0)
                    .saturating_mul(self.launch.threads().unwrap_or(0));
                let bytes = threads.saturating_mul(u64::from(section.slot_bytes));
                bytes / u64::from(section.warp_div.max(1))
            }
        }
    }
}

/// One map of a result file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceSection {
    /// The bytes of a slot.
    pub slot_bytes: u32,
    /// The number of threads that share a slot: 1 or 32.
    pub warp_div: u32,
    /// The byte offset of the first slot in the file.
    pub offset: u64,
    /// The number of slots.
    pub slots: u64,
}

/// A result file that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace<'f> {
    /// The shape of the launch.
    pub launch: Geometry,
    /// The maps.
    pub sections: Vec<TraceSection>,
    file: &'f [u8],
}

/// What is wrong with a result file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TraceError {
    /// The file ends in its header or table.
    #[error("the file has {0} bytes and ends in its header")]
    Short(u64),
    /// The grid or block has a dimension 0, or too many threads.
    #[error("the shape of the launch is not valid")]
    Launch,
    /// The number of threads of a slot is neither 1 nor 32.
    #[error("section {0}: {1} threads share a slot")]
    WarpDiv(usize, u32),
    /// A section extends beyond the end of the file.
    #[error("section {0} extends beyond the end of the file")]
    Outside(usize),
}

impl<'f> Trace<'f> {
    /// Reads a result file with exact offsets.
    ///
    /// # Errors
    ///
    /// Fails if the file contradicts itself.
    pub fn read(file: &'f [u8]) -> Result<Trace<'f>, TraceError> {
        let short = || TraceError::Short(file.len() as u64);
        let mut words = [0; 8];
        for (index, slot) in words.iter_mut().enumerate() {
            *slot = short_word(file, 4 * index).ok_or_else(short)?;
        }
        let [gx, gy, gz, bx, by, bz, shared, maps] = words;
        let launch = Geometry {
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            shared,
        };
        let table = (maps as usize)
            .checked_mul(ENTRY)
            .and_then(|table| table.checked_add(HEADER));
        if table.is_none_or(|end| end > file.len()) {
            return Err(short());
        }
        let sections = (0..maps as usize).map(|index| section(file, &launch, index));
        let sections = sections.collect::<Result<_, _>>()?;
        Ok(Trace {
            launch,
            sections,
            file,
        })
    }

    /// Returns the bytes of a slot, or `None` if there is no such section or slot.
    pub fn slot(&self, section: usize, slot: u64) -> Option<&'f [u8]> {
        let section = self.sections.get(section)?;
        if slot >= section.slots {
            return None;
        }
        let bytes = u64::from(section.slot_bytes);
        let start = section.offset.checked_add(slot.checked_mul(bytes)?)?;
        self.file.get(start as usize..(start + bytes) as usize)
    }
}

fn short_word(file: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*file.get(offset..)?.first_chunk()?))
}

fn section(file: &[u8], launch: &Geometry, index: usize) -> Result<TraceSection, TraceError> {
    let at = HEADER + ENTRY * index;
    let short = || TraceError::Short(file.len() as u64);
    let slot_bytes = short_word(file, at).ok_or_else(short)?;
    let warp_div = short_word(file, at + 4).ok_or_else(short)?;
    let offset = crate::layout::word(file, at as u64 + 8).ok_or_else(short)?;
    if !matches!(warp_div, 1 | 32) {
        return Err(TraceError::WarpDiv(index, warp_div));
    }
    let (Some(ctas), Some(threads)) = (launch.ctas(), launch.threads()) else {
        return Err(TraceError::Launch);
    };
    let slots = ctas.checked_mul(threads.div_ceil(u64::from(warp_div)));
    let slots = slots.filter(|&slots| slots > 0).ok_or(TraceError::Launch)?;
    let end = slots
        .checked_mul(u64::from(slot_bytes))
        .and_then(|bytes| bytes.checked_add(offset));
    if end.is_none_or(|end| end > file.len() as u64) {
        return Err(TraceError::Outside(index));
    }
    Ok(TraceSection {
        slot_bytes,
        warp_div,
        offset,
        slots,
    })
}
