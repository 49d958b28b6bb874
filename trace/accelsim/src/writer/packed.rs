//! The container of compressed warps. `grouped/packed.rs` describes it.

use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::dim::Dim3;
use crate::header::Header;
use crate::instruction::Cluster;
use crate::text::{CtaText, WarpText};

/// Writes a `.tracez` file. Chunks are compressed without a dictionary.
#[derive(Debug)]
pub struct PackedWriter<W> {
    out: W,
    /// The number of bytes written.
    offset: u64,
    /// The index, which follows the warps, in a temporary file.
    index: BufWriter<File>,
    ctas: u32,
}

/// The number of instructions of a chunk.
const CHUNK: usize = 4096;

impl<W: Write> PackedWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// Those of [`Header::write`] and of a temporary file.
    pub fn new(out: W, header: &Header) -> io::Result<PackedWriter<W>> {
        let mut writer = PackedWriter {
            out,
            offset: 0,
            index: BufWriter::new(tempfile::tempfile()?),
            ctas: 0,
        };
        let mut text = Vec::new();
        header.write(&mut text)?;
        text.push(0);
        // There is no dictionary.
        text.extend(0u32.to_le_bytes());
        text.extend((CHUNK as u32).to_le_bytes());
        writer.write(&text)?;
        Ok(writer)
    }

    /// Writes all warps of a CTA.
    ///
    /// # Errors
    ///
    /// Those of the output and the temporary file; [`io::ErrorKind::InvalidInput`] if a number exceeds 32 bits.
    pub fn write_cta(&mut self, text: &CtaText) -> io::Result<()> {
        let zero = Dim3::new(0, 0, 0);
        let cluster = text.cluster.unwrap_or(Cluster {
            id: text.cta,
            cta: zero,
            rank: 0,
        });
        for dim in [text.cta, cluster.id, cluster.cta] {
            for number in [dim.x, dim.y, dim.z] {
                self.index(number)?;
            }
        }
        self.index(cluster.rank)?;
        self.index(number(text.warps().len() as u64)?)?;
        for warp in text.warps() {
            self.write_warp(warp)?;
        }
        let ctas = self.ctas.checked_add(1);
        self.ctas = ctas.ok_or_else(|| invalid("too many CTAs"))?;
        Ok(())
    }

    fn write_warp(&mut self, text: &WarpText) -> io::Result<()> {
        let instructions = number(text.lines())?;
        let chunks = chunks(text.text());
        let count = number(chunks.len() as u64)?;
        self.index(instructions)?;
        self.index(count)?;
        self.index.write_all(&self.offset.to_le_bytes())?;
        let mut bytes = [instructions.to_le_bytes(), count.to_le_bytes()].concat();
        for (text, lines) in chunks {
            self.index(lines)?;
            let frame = compress_to_vec(text, CompressionLevel::Fastest);
            bytes.extend(number(frame.len() as u64)?.to_le_bytes());
            bytes.extend(frame);
        }
        self.write(&bytes)
    }

    fn index(&mut self, number: u32) -> io::Result<()> {
        self.index.write_all(&number.to_le_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes the index, flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// Those of the output and the temporary file.
    pub fn finish(self) -> io::Result<W> {
        let mut out = self.out;
        out.write_all(&self.ctas.to_le_bytes())?;
        let mut index = self.index.into_inner()?;
        index.rewind()?;
        io::copy(&mut index, &mut out)?;
        out.write_all(&self.offset.to_le_bytes())?;
        out.flush()?;
        Ok(out)
    }
}

/// Splits the text of a warp into chunks of [`CHUNK`] lines, each with its number of lines.
fn chunks(text: &[u8]) -> Vec<(&[u8], u32)> {
    let mut chunks = Vec::new();
    let (mut begin, mut lines) = (0, 0);
    let newlines = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    for (position, _) in newlines {
        lines += 1;
        if lines as usize == CHUNK || position + 1 == text.len() {
            chunks.push((&text[begin..=position], lines));
            (begin, lines) = (position + 1, 0);
        }
    }
    chunks
}

fn number(value: u64) -> io::Result<u32> {
    u32::try_from(value).map_err(|_| invalid("a warp is too large for a .tracez file"))
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
