//! Grouped traces as text.

use std::io::{self, Read, Write};

use crate::dim::Dim3;
use crate::header::Header;
use crate::instruction::Cluster;
use crate::text::{CtaText, WarpText};

/// Writes a `.traceg` file, byte for byte as the original post-processor. The caller gives CTAs in ascending order of
/// [`Dim3::index`], and all warps of each.
#[derive(Debug)]
pub struct GroupedWriter<W> {
    out: W,
    version: u32,
}

impl<W: Write> GroupedWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// Those of [`Header::write`].
    pub fn new(mut out: W, header: &Header) -> io::Result<GroupedWriter<W>> {
        header.write(&mut out)?;
        out.write_all(b"\n")?;
        Ok(GroupedWriter {
            out,
            version: header.tracer_version,
        })
    }

    /// Continues a file whose header is written, for lines of this version.
    pub(crate) fn after_header(out: W, version: u32) -> GroupedWriter<W> {
        GroupedWriter { out, version }
    }

    /// Writes all warps of a CTA.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn write_cta(&mut self, text: &CtaText) -> io::Result<()> {
        self.begin_cta(text.cta, text.cluster)?;
        for (warp, text) in text.warps().iter().enumerate() {
            self.write_warp(warp as u32, text)?;
        }
        self.end_cta()
    }

    /// Begins a CTA, whose warps follow one by one. Only version 6 writes the cluster.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn begin_cta(&mut self, cta: Dim3, cluster: Option<Cluster>) -> io::Result<()> {
        write!(self.out, "\n#BEGIN_TB\n\nthread block = {cta}\n")?;
        match cluster.filter(|_| self.version >= 6) {
            Some(Cluster { id, cta, rank }) => write!(
                self.out,
                "cluster id = {id}\ncluster cta = {cta}\ncluster rank = {rank}\n"
            ),
            None => Ok(()),
        }
    }

    /// Writes the next warp of the CTA.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn write_warp(&mut self, warp: u32, text: &WarpText) -> io::Result<()> {
        self.copy_warp(warp, text.lines(), &mut text.text())
    }

    /// Writes the next warp of the CTA, whose `lines` lines come from a source.
    ///
    /// # Errors
    ///
    /// Those of the source and of the output.
    pub fn copy_warp(&mut self, warp: u32, lines: u64, text: &mut impl Read) -> io::Result<()> {
        write!(self.out, "\nwarp = {warp}\ninsts = {lines}\n")?;
        io::copy(text, &mut self.out)?;
        Ok(())
    }

    /// Ends the CTA.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn end_cta(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n#END_TB\n")
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
