//! The forms of kernel files, and opening them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lzma_rust2::XzReader;

use crate::error::{Fault, ReadError};
use crate::header::{Header, HeaderParser};
use crate::lines::Lines;
use crate::options::ReadOptions;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// It is not, or the form has its own compression.
    None,
    /// As a whole with xz: the name ends in `.xz`.
    Xz,
}

/// The form of a kernel file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// `.trace`: lines in order of arrival.
    Raw,
    /// `.traceg`: lines sorted by CTA and warp.
    Grouped,
    /// `.tracez`: a container of compressed warps.
    Packed,
}

impl Compression {
    /// Returns the compression of a file by its suffix.
    pub fn of(path: &Path) -> Compression {
        match path.extension() {
            Some(suffix) if suffix == "xz" => Compression::Xz,
            _ => Compression::None,
        }
    }
}

impl Form {
    /// Returns the form of a file by its suffix, and its compression; none for other suffixes. A file whose
    /// name has only the suffix `.xz` is grouped.
    pub fn of(path: &Path) -> Option<(Form, Compression)> {
        let name = path.file_name()?.to_string_lossy();
        let plain = name.strip_suffix(".xz");
        let stem = plain.unwrap_or(&name);
        let form = match stem.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("trace") => Form::Raw,
            Some("tracez") if plain.is_none() => Form::Packed,
            Some("traceg") => Form::Grouped,
            _ if plain.is_some() => Form::Grouped,
            _ => return None,
        };
        Some((form, Compression::of(path)))
    }
}

/// The limit on the memory of the xz decoder in KiB. Level 9 needs 64 MiB.
const XZ_MEMORY: u32 = 80 * 1024;

pub(crate) type TextSource = Box<dyn Read + Send>;

/// Opens a text file, compressed or not.
pub(crate) fn open_text(
    path: &Path,
    compression: Compression,
    options: &ReadOptions,
) -> Result<Lines<TextSource>, ReadError> {
    let file = open(path)?;
    let source: TextSource = match compression {
        Compression::Xz => Box::new(XzReader::new_mem_limit(
            std::io::BufReader::new(file),
            true,
            XZ_MEMORY,
        )),
        Compression::None => Box::new(file),
    };
    Ok(Lines::new(source, options.max_text))
}

pub(crate) fn open(path: &Path) -> Result<File, ReadError> {
    File::open(path).map_err(|error| ReadError::new(path, 0, Fault::io(&error)))
}

/// The limit on the text of a header in bytes.
pub(crate) const MAX_HEADER: u64 = 1 << 20;

/// Reads the header of a text file. Also returns its text up to the line that ends it.
pub(crate) fn read_header<R: Read>(lines: &mut Lines<R>) -> Result<(Header, Vec<u8>), Fault> {
    let mut parser = HeaderParser::new();
    let mut text = Vec::new();
    while lines.advance()? {
        text.extend_from_slice(lines.current());
        text.push(b'\n');
        if text.len() as u64 > MAX_HEADER {
            return Err(Fault::TextTooLarge(MAX_HEADER));
        }
        let line = std::str::from_utf8(lines.current()).map_err(|_| Fault::Utf8)?;
        if parser.line(line)? {
            return Ok((parser.finish()?, text));
        }
    }
    Err(Fault::UnendedHeader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_decides_the_form() {
        let form = |name: &str| Form::of(Path::new(name));
        assert_eq!(
            form("a/kernel-1.trace"),
            Some((Form::Raw, Compression::None))
        );
        assert_eq!(
            form("kernel-1.trace.xz"),
            Some((Form::Raw, Compression::Xz))
        );
        assert_eq!(
            form("kernel-1.traceg"),
            Some((Form::Grouped, Compression::None))
        );
        assert_eq!(
            form("kernel-1.traceg.xz"),
            Some((Form::Grouped, Compression::Xz))
        );
        assert_eq!(form("kernel-1.xz"), Some((Form::Grouped, Compression::Xz)));
        assert_eq!(
            form("kernel-1.tracez"),
            Some((Form::Packed, Compression::None))
        );
        for name in ["kernel-1", "kernel-1.txt", "traceg", "kernel-1.TRACEG", ""] {
            assert_eq!(form(name), None, "{name}");
        }
    }
}
