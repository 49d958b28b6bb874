//! The container of a `.tracez` file: compressed warps, and an index of them at the end.
//!
//! All numbers are little-endian:
//!
//! - the header as text, up to a NUL byte;
//! - u32 size of the dictionary, u32 instructions of a chunk, the zstd dictionary;
//! - for each warp: u32 instructions, u32 chunks, and for each chunk u32 size and a zstd frame;
//! - the index: u32 CTAs; for each CTA eleven u32 (CTA x y z, cluster x y z, CTA in the cluster x y z, rank in the cluster,
//!   warps), and for each of its warps u32 instructions, u32 chunks, u64 offset in the file, and for each chunk u32
//!   instructions;
//! - u64 offset of the index.

mod chunks;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::text::parse_line;
use super::{Context, Item};
use crate::check::CtaCheck;
use crate::dim::Dim3;
use crate::error::{Fault, ReadError};
use crate::form;
use crate::header::Header;
use crate::instruction::Cluster;
use crate::lines::Lines;
use crate::options::ReadOptions;
use chunks::{Chunks, Dictionary};

/// The limit on the size of the dictionary in bytes.
const MAX_DICTIONARY: u32 = 1 << 26;

#[derive(Debug)]
pub(super) struct PackedBody {
    index: BufReader<std::io::Take<File>>,
    lines: Lines<Chunks>,
    /// The number of CTAs that the index still has.
    ctas: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Between CTAs.
    Outside,
    /// Between warps, with the number of warps that are left.
    Between(CtaCheck, u32),
    /// In a warp.
    Warp {
        check: CtaCheck,
        /// The number of warps that follow.
        warps: u32,
        /// The number of chunks that follow.
        chunks: u32,
        /// The number of instructions that the chunk still has.
        instructions: u32,
    },
    /// The end of the file, or a fault.
    Ended,
}

impl PackedBody {
    /// Opens a file, and reads the header and dictionary.
    pub(super) fn open(
        path: &Path,
        options: &ReadOptions,
    ) -> Result<(Header, PackedBody), ReadError> {
        let index = form::open(path)?;
        let data = form::open(path)?;
        open_body(index, data, options).map_err(|fault| ReadError::new(path, 0, fault))
    }

    /// Returns the number of the line of the decompressed text, counted over all warps.
    pub(super) fn line(&self) -> u64 {
        self.lines.number()
    }

    pub(super) fn next_item(&mut self, context: &mut Context) -> Result<Option<Item>, Fault> {
        loop {
            let state = std::mem::replace(&mut self.state, State::Ended);
            let (state, item) = match state {
                State::Outside if self.ctas == 0 => return context.end().map(|()| None),
                State::Outside => self.begin_cta(context)?,
                State::Between(check, 0) => {
                    check.end(&context.header, &context.options)?;
                    context.end_cta()?;
                    (State::Outside, Some(Item::EndCta))
                }
                State::Between(check, warps) => self.begin_warp(check, warps - 1, context)?,
                State::Warp {
                    check,
                    warps,
                    chunks,
                    instructions: 0,
                } => self.begin_chunk(check, warps, chunks, context)?,
                State::Warp {
                    check,
                    warps,
                    chunks,
                    instructions,
                } => self.instruction((check, warps, chunks, instructions - 1), context)?,
                State::Ended => return Ok(None),
            };
            self.state = state;
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    fn begin_cta(&mut self, context: &Context) -> Result<(State, Option<Item>), Fault> {
        self.ctas -= 1;
        let cta = self.dim()?;
        let cluster = Cluster {
            id: self.dim()?,
            cta: self.dim()?,
            rank: read_u32(&mut self.index)?,
        };
        let warps = read_u32(&mut self.index)?;
        let limit = context.header.warps();
        if warps > limit {
            return Err(Fault::WarpRange {
                warp: u64::from(limit),
                warps: limit,
            });
        }
        let check = CtaCheck::new(cta, &context.header)?;
        let cluster = Some(cluster);
        Ok((
            State::Between(check, warps),
            Some(Item::Cta { cta, cluster }),
        ))
    }

    fn dim(&mut self) -> Result<Dim3, Fault> {
        Ok(Dim3::new(
            read_u32(&mut self.index)?,
            read_u32(&mut self.index)?,
            read_u32(&mut self.index)?,
        ))
    }

    /// Begins the next warp. Warps have ascending numbers from 0.
    fn begin_warp(
        &mut self,
        mut check: CtaCheck,
        warps: u32,
        context: &Context,
    ) -> Result<(State, Option<Item>), Fault> {
        let instructions = read_u32(&mut self.index)?;
        let chunks = read_u32(&mut self.index)?;
        let offset = read_u64(&mut self.index)?;
        let warp = check.next_warp();
        let expected = u64::from(instructions);
        check.begin_warp(u64::from(warp), expected, &context.header, &context.options)?;
        let found = self.lines.source_mut().begin_warp(offset)?;
        if found != (instructions, chunks) {
            return Err(Fault::Container(format!(
                "CTA {} warp {warp} has {} instructions in {} chunks, the index says {instructions} in {chunks}",
                check.cta(),
                found.0,
                found.1,
            )));
        }
        let item = Item::Warp {
            warp,
            instructions: expected,
        };
        let state = State::Warp {
            check,
            warps,
            chunks,
            instructions: 0,
        };
        Ok((state, Some(item)))
    }

    /// Ends a chunk, and begins the next one or ends the warp.
    fn begin_chunk(
        &mut self,
        check: CtaCheck,
        warps: u32,
        chunks: u32,
        context: &Context,
    ) -> Result<(State, Option<Item>), Fault> {
        if self.lines.advance()? {
            return Err(check.lines_surplus());
        }
        let Some(chunks) = chunks.checked_sub(1) else {
            if check.remaining() != 0 {
                return Err(check.lines_missing());
            }
            check.end_warp(&context.header)?;
            return Ok((State::Between(check, warps), None));
        };
        let instructions = read_u32(&mut self.index)?;
        if u64::from(instructions) > check.remaining() {
            return Err(check.lines_surplus());
        }
        self.lines.source_mut().begin_chunk()?;
        let state = State::Warp {
            check,
            warps,
            chunks,
            instructions,
        };
        Ok((state, None))
    }

    fn instruction(
        &mut self,
        (mut check, warps, chunks, instructions): (CtaCheck, u32, u32, u32),
        context: &mut Context,
    ) -> Result<(State, Option<Item>), Fault> {
        if !self.lines.advance()? {
            return Err(check.lines_missing());
        }
        let line = self.lines.current();
        if line.trim_ascii().is_empty() {
            return Err(check.lines_missing());
        }
        let Context {
            header,
            options,
            opcodes,
            ..
        } = context;
        let instruction = parse_line(line, &check, header, options, opcodes)?;
        check.instruction(&instruction);
        let state = State::Warp {
            check,
            warps,
            chunks,
            instructions,
        };
        Ok((state, Some(Item::Instruction(instruction))))
    }
}

fn open_body(
    mut index: File,
    data: File,
    options: &ReadOptions,
) -> Result<(Header, PackedBody), Fault> {
    let io = |error: std::io::Error| Fault::io(&error);
    let size = index.seek(SeekFrom::End(0)).map_err(io)?;
    let mut data = BufReader::new(data);
    let header = read_header(&mut data)?;
    let dictionary = read_dictionary(&mut data, size)?;
    let begin = data.stream_position().map_err(io)?;
    let end = size.saturating_sub(8);
    index.seek(SeekFrom::Start(end)).map_err(io)?;
    let offset = read_u64(&mut index)?;
    if offset < begin || offset > end {
        return Err(Fault::Container(format!(
            "the index is at {offset}, outside of the file"
        )));
    }
    index.seek(SeekFrom::Start(offset)).map_err(io)?;
    let mut index = BufReader::new(index.take(end - offset));
    let ctas = read_u32(&mut index)?;
    let chunks = Chunks::new(data, dictionary);
    let body = PackedBody {
        index,
        lines: Lines::new(chunks, options.max_text),
        ctas,
        state: State::Outside,
    };
    Ok((header, body))
}

fn read_header(data: &mut BufReader<File>) -> Result<Header, Fault> {
    let mut text = Vec::new();
    let mut limited = data.take(form::MAX_HEADER);
    limited
        .read_until(0, &mut text)
        .map_err(|error| Fault::io(&error))?;
    if text.pop() != Some(0) {
        return Err(Fault::UnendedHeader);
    }
    let (header, _) = form::read_header(&mut Lines::new(text.as_slice(), u64::MAX))?;
    Ok(header)
}

/// Reads the dictionary and skips the number of instructions of a chunk, which the index repeats.
fn read_dictionary(data: &mut BufReader<File>, file_size: u64) -> Result<Dictionary, Fault> {
    let size = read_u32(data)?;
    let _chunk = read_u32(data)?;
    if size > MAX_DICTIONARY || u64::from(size) > file_size {
        return Err(Fault::Container(format!("a dictionary of {size} bytes")));
    }
    let mut bytes = vec![0; size as usize];
    read_exact(data, &mut bytes)?;
    Dictionary::new(bytes)
}

fn read_exact(source: &mut impl Read, bytes: &mut [u8]) -> Result<(), Fault> {
    source.read_exact(bytes).map_err(|error| Fault::io(&error))
}

fn read_u32(source: &mut impl Read) -> Result<u32, Fault> {
    let mut bytes = [0; 4];
    read_exact(source, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_u64(source: &mut impl Read) -> Result<u64, Fault> {
    let mut bytes = [0; 8];
    read_exact(source, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
