//! The instructions of a kernel file of any form, one by one.

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::dim::Dim3;
use crate::error::ReadError;
use crate::form::Form;
use crate::grouped::{GroupedReader, Item};
use crate::header::Header;
use crate::instruction::Instruction;
use crate::options::ReadOptions;
use crate::raw::RawReader;

/// A kernel file of any form. An asynchronous copy is one instruction, also in a raw trace.
#[derive(Debug)]
pub(crate) struct Events {
    source: Source,
    copies: CopyFilter,
}

#[derive(Debug)]
enum Source {
    Raw(Box<RawReader>),
    Grouped {
        reader: Box<GroupedReader>,
        cta: Dim3,
        warp: u32,
    },
}

/// An instruction with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) cta: Dim3,
    pub(crate) warp: u32,
    /// The line in the file.
    pub(crate) line: u64,
    pub(crate) instruction: Instruction,
}

impl Events {
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Events, ReadError> {
        let source = match Form::of(path) {
            Some((Form::Raw, _)) => Source::Raw(Box::new(RawReader::open(path, options)?)),
            _ => Source::Grouped {
                reader: Box::new(GroupedReader::open(path, options)?),
                cta: Dim3::new(0, 0, 0),
                warp: 0,
            },
        };
        Ok(Events {
            source,
            copies: CopyFilter::default(),
        })
    }

    pub(crate) fn header(&self) -> &Header {
        match &self.source {
            Source::Raw(reader) => reader.header(),
            Source::Grouped { reader, .. } => reader.header(),
        }
    }

    /// Returns the next instruction.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, ReadError> {
        match &mut self.source {
            Source::Raw(reader) => next_raw(reader, &mut self.copies),
            Source::Grouped { reader, cta, warp } => next_grouped(reader, cta, warp),
        }
    }
}

fn next_raw(reader: &mut RawReader, copies: &mut CopyFilter) -> Result<Option<Event>, ReadError> {
    while let Some(line) = reader.next_line()? {
        let warp = warp_index(reader.header(), line.cta, line.warp);
        if line.instruction.opcode.is_copy() && copies.is_first(warp) {
            continue;
        }
        return Ok(Some(Event {
            cta: line.cta,
            warp: line.warp,
            line: reader.line(),
            instruction: line.instruction,
        }));
    }
    Ok(None)
}

fn next_grouped(
    reader: &mut GroupedReader,
    cta: &mut Dim3,
    warp: &mut u32,
) -> Result<Option<Event>, ReadError> {
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Cta { cta: begun, .. } => *cta = begun,
            Item::Warp { warp: begun, .. } => *warp = begun,
            Item::Instruction(instruction) => {
                return Ok(Some(Event {
                    cta: *cta,
                    warp: *warp,
                    line: reader.line(),
                    instruction,
                }));
            }
            Item::EndCta => {}
        }
    }
    Ok(None)
}

/// Returns the number of a warp in its grid.
pub(crate) fn warp_index(header: &Header, cta: Dim3, warp: u32) -> u64 {
    let warps = u64::from(header.warps());
    // A grid with more warps than 64 bits does not exist in a file.
    let first = header.grid.index(cta).wrapping_mul(warps);
    first.wrapping_add(u64::from(warp))
}

/// Tells the two lines of asynchronous copies in a raw trace apart.
#[derive(Debug, Default)]
struct CopyFilter {
    /// The warps whose copy has had its first line.
    half: FxHashSet<u64>,
}

impl CopyFilter {
    /// Returns whether this line of a copy of a warp is the first of two.
    fn is_first(&mut self, warp: u64) -> bool {
        let is_first = self.half.insert(warp);
        if !is_first {
            self.half.remove(&warp);
        }
        is_first
    }
}

/// A set of numbers whose memory depends on how many there are, not on their size.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    blocks: FxHashMap<u64, u64>,
    count: u64,
}

impl Numbers {
    pub(crate) fn insert(&mut self, number: u64) {
        let block = self.blocks.entry(number / 64).or_default();
        let bit = 1 << (number % 64);
        self.count += u64::from(*block & bit == 0);
        *block |= bit;
    }

    pub(crate) fn len(&self) -> u64 {
        self.count
    }
}
