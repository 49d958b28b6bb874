//! Writing of sorted lines.

use std::io::{self, Seek, Write};

use tempfile::{SpooledTempFile, spooled_tempfile};

use super::GroupReport;
use super::sort::Record;
use crate::dim::Dim3;
use crate::error::Fault;
use crate::header::Header;
use crate::writer::GroupedWriter;

/// Why lines cannot be written.
#[derive(Debug)]
pub(super) enum Failure {
    /// The output or a temporary file fails.
    Io(io::Error),
    /// The lines are wrong.
    Fault(Fault),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Writes the blocks of CTAs. The number of lines of a warp precedes its lines, so these wait in memory or, if there are
/// many, in a temporary file.
pub(super) struct Emitter<'a, W> {
    writer: GroupedWriter<W>,
    header: &'a Header,
    memory: usize,
    /// The CTA of the lines that wait, if one has begun.
    cta: Option<u64>,
    /// The warp of the lines that wait.
    warp: u32,
    lines: u64,
    waiting: SpooledTempFile,
    /// Whether the first line of an asynchronous copy was left out.
    is_half_copy: bool,
    report: GroupReport,
}

impl<'a, W: Write> Emitter<'a, W> {
    pub(super) fn new(out: W, header: &'a Header, memory: usize) -> Emitter<'a, W> {
        Emitter {
            writer: GroupedWriter::after_header(out, header.tracer_version),
            header,
            memory,
            cta: None,
            warp: 0,
            lines: 0,
            waiting: spooled_tempfile(memory),
            is_half_copy: false,
            report: GroupReport::default(),
        }
    }

    /// Adds a line, which does not precede the last one.
    pub(super) fn push(&mut self, record: Record<'_>) -> Result<(), Failure> {
        if self.cta != Some(record.cta) {
            self.end_cta()?;
            self.cta = Some(record.cta);
            self.writer.begin_cta(self.position(), None)?;
        }
        while self.warp < record.warp {
            self.end_warp()?;
        }
        if record.is_copy {
            self.is_half_copy = !self.is_half_copy;
            if self.is_half_copy {
                return Ok(());
            }
        }
        self.lines += 1;
        if self.header.tracer_version < 3 {
            let Dim3 { x, y, z } = self.position();
            write!(self.waiting, "{x} {y} {z} {} ", record.warp)?;
        }
        self.waiting.write_all(record.text)?;
        self.waiting.write_all(b"\n")?;
        Ok(())
    }

    fn position(&self) -> Dim3 {
        self.header.grid.position(self.cta.unwrap_or(0))
    }

    /// Writes the current warp, which may have no lines, and goes to the next one.
    fn end_warp(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_half_copy) {
            return Err(Failure::Fault(Fault::HalfCopy {
                cta: self.position(),
                warp: self.warp,
            }));
        }
        self.waiting.rewind()?;
        self.writer
            .copy_warp(self.warp, self.lines, &mut self.waiting)?;
        self.report.lines += self.lines;
        self.report.empty_warps += u64::from(self.lines == 0);
        self.lines = 0;
        self.warp += 1;
        match self.waiting.is_rolled() {
            true => self.waiting = spooled_tempfile(self.memory),
            false => {
                self.waiting.rewind()?;
                self.waiting.set_len(0)?;
            }
        }
        Ok(())
    }

    /// Writes the remaining warps of the current CTA, if there is one.
    fn end_cta(&mut self) -> Result<(), Failure> {
        if self.cta.is_none() {
            return Ok(());
        }
        while self.warp < self.header.warps() {
            self.end_warp()?;
        }
        self.writer.end_cta()?;
        self.warp = 0;
        self.cta = None;
        self.report.ctas += 1;
        Ok(())
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<GroupReport, Failure> {
        self.end_cta()?;
        self.report.missing_ctas = self.header.ctas() - self.report.ctas;
        self.writer.finish()?;
        Ok(self.report)
    }
}
