//! Reading of raw traces, whose lines are in order of arrival.

use std::path::{Path, PathBuf};

use crate::check;
use crate::decode;
use crate::dim::Dim3;
use crate::error::{Fault, ReadError};
use crate::form::{self, Form, TextSource};
use crate::grouped;
use crate::header::Header;
use crate::instruction::{Core, Instruction};
use crate::lines::Lines;
use crate::number::Fields;
use crate::opcode::Opcodes;
use crate::options::{RawColumns, ReadOptions};

/// A line of a raw trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawLine {
    /// The CTA.
    pub cta: Dim3,
    /// The number of the warp in the CTA.
    pub warp: u32,
    /// Where the warp ran, if the file has it.
    pub core: Option<Core>,
    /// What it executed.
    pub instruction: Instruction,
}

/// Reads a `.trace` or `.trace.xz` file from start to end, with memory for one line.
///
/// Each line is checked. What needs all lines of a warp (EXIT of all lanes, empty warps, the number of CTAs) is not: group the
/// trace ([`group`](crate::group())) and read the result.
#[derive(Debug)]
pub struct RawReader {
    path: PathBuf,
    lines: Lines<TextSource>,
    header: Header,
    header_text: Vec<u8>,
    options: ReadOptions,
    opcodes: Opcodes,
    /// Where the text after the prefix begins in the current line.
    body: usize,
    has_failed: bool,
}

impl RawReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    ///
    /// All faults of [`Fault`] that concern the file, the header and opcode maps; [`Fault::Suffix`] for grouped traces.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<RawReader, ReadError> {
        let Some((Form::Raw, compression)) = Form::of(path) else {
            return Err(ReadError::new(path, 0, Fault::Suffix));
        };
        let mut lines = form::open_text(path, compression, options)?;
        let header = form::read_header(&mut lines);
        let (header, header_text) =
            header.map_err(|fault| ReadError::new(path, lines.number(), fault))?;
        Ok(RawReader {
            opcodes: grouped::opcodes(path, &header, options)?,
            path: path.to_owned(),
            lines,
            header,
            header_text,
            options: options.clone(),
            body: 0,
            has_failed: false,
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the path that the file was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the line of the decompressed text that was read last.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    /// Returns the next line, or none at the end of the file and after an error.
    ///
    /// # Errors
    ///
    /// All faults of [`Fault`] that concern a line.
    pub fn next_line(&mut self) -> Result<Option<RawLine>, ReadError> {
        if self.has_failed {
            return Ok(None);
        }
        self.advance().map_err(|fault| {
            self.has_failed = true;
            ReadError::new(&self.path, self.lines.number(), fault)
        })
    }

    /// Returns the text of the header up to the line that ends it.
    pub(crate) fn header_text(&self) -> &[u8] {
        &self.header_text
    }

    /// Returns the text of the current line after the CTA, warp and core.
    pub(crate) fn body(&self) -> &[u8] {
        self.lines.current().get(self.body..).unwrap_or(&[])
    }

    fn advance(&mut self) -> Result<Option<RawLine>, Fault> {
        loop {
            if !self.lines.advance()? {
                return Ok(None);
            }
            if !self.lines.current().trim_ascii().is_empty() {
                return self.parse().map(Some);
            }
        }
    }

    fn parse(&mut self) -> Result<RawLine, Fault> {
        let line = self.lines.current();
        let mut fields = Fields::new(line);
        let (cta, warp) = grouped::prefix(&mut fields)?;
        check::check_cta(cta, &self.header)?;
        let warp = check::check_warp(warp, &self.header)?;
        if self.options.columns == RawColumns::Detect {
            self.options.columns = detect(fields.clone(), &self.header);
        }
        let core = match self.options.columns {
            RawColumns::Core => Some(Core {
                core: decode::decimal32(&mut fields, "core")?,
                warp: decode::decimal32(&mut fields, "warp of the core")?,
            }),
            _ => None,
        };
        let rest = fields.rest();
        self.body = line.len() - rest.trim_ascii_start().len();
        let format = self.header.format();
        let instruction =
            decode::instruction(&mut fields, format, &self.options, &mut self.opcodes)?;
        Ok(RawLine {
            cta,
            warp,
            core,
            instruction,
        })
    }
}

/// Returns whether the fields after the warp begin with the columns for the core: the mask, which has 8 digits, is two fields
/// further.
fn detect(fields: Fields<'_>, header: &Header) -> RawColumns {
    let before_mask = 1 + usize::from(header.line_numbers);
    let mut fields = fields.skip(before_mask);
    let is_mask = |field: Option<&[u8]>| field.is_some_and(|field| field.len() == 8);
    if is_mask(fields.next()) || !is_mask(fields.nth(1)) {
        return RawColumns::Plain;
    }
    RawColumns::Core
}
