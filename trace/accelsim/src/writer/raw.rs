//! Raw traces.

use std::io::{self, Write};

use crate::header::Header;
use crate::text::RawText;

/// Writes a `.trace` file: lines in order of arrival.
#[derive(Debug)]
pub struct RawWriter<W> {
    out: W,
}

impl<W: Write> RawWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// Those of [`Header::write`].
    pub fn new(mut out: W, header: &Header) -> io::Result<RawWriter<W>> {
        header.write(&mut out)?;
        Ok(RawWriter { out })
    }

    /// Writes lines.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn write(&mut self, text: &RawText) -> io::Result<()> {
        self.out.write_all(text.text())
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
