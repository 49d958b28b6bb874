//! Files that may be compressed with xz.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use lzma_rust2::{XzOptions, XzWriter};

use crate::form::Compression;

/// The level that the tracer uses.
const LEVEL: u32 = 1;

/// A file to write. A suffix of `.xz` selects compression.
pub struct Output(Kind);

enum Kind {
    Plain(BufWriter<File>),
    Xz(Box<XzWriter<BufWriter<File>>>),
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Plain(_) => "Output(plain)",
            Kind::Xz(_) => "Output(xz)",
        })
    }
}

impl Output {
    /// Creates or replaces a file.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn create(path: &Path) -> io::Result<Output> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Output(match Compression::of(path) {
            Compression::Xz => {
                let options = XzOptions::with_preset(LEVEL);
                Kind::Xz(Box::new(XzWriter::new(file, options)?))
            }
            Compression::None => Kind::Plain(file),
        }))
    }

    /// Writes what is buffered, and ends the compressed data. Without this, the file is incomplete.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Kind::Plain(mut file) => file.flush(),
            Kind::Xz(writer) => writer.finish()?.flush(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Plain(file) => file.write(bytes),
            Kind::Xz(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::Plain(file) => file.flush(),
            Kind::Xz(writer) => writer.flush(),
        }
    }
}
