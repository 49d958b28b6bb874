//! Reads the files that the command line names, up to a maximum size.
//!
//! A file can be endless (`/dev/zero`) or a pipe. Invariant: reading a file stops with an error after [`MAX_FILE`]
//! bytes, or when there is no memory for the next bytes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Maximum size in bytes of a file that this module reads: 2 GiB.
pub const MAX_FILE: u64 = 2 << 30;

/// Reads a whole file, which can be a pipe.
///
/// # Errors
///
/// Returns an error if the file cannot be read, has more than [`MAX_FILE`] bytes or does not fit in memory.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    check(len)?;
    read_up_to(file, len, MAX_FILE)
}

/// Reads a whole text file like [`read`].
///
/// # Errors
///
/// Returns the errors of [`read`], and an error if the text is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read(path)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "the text is not UTF-8"))
}

/// Reads a regular file like [`read`]. Does not read other files, such as pipes, because they may never end.
///
/// # Errors
///
/// Returns the errors of [`read`], and an error if the file is not a regular file.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for its writer.
    match std::fs::metadata(path)?.is_file() {
        true => read(path),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

fn check(len: u64) -> io::Result<()> {
    match len <= MAX_FILE {
        true => Ok(()),
        false => Err(too_large(MAX_FILE)),
    }
}

fn too_large(limit: u64) -> io::Error {
    let message = format!("the file has more than {limit} bytes, which is the limit");
    io::Error::new(ErrorKind::FileTooLarge, message)
}

/// Reads to the end of `file`. `len` is the expected number of bytes. Returns an error if the file has more than
/// `limit` bytes.
fn read_up_to(file: impl Read, len: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The last call of the reader returns no bytes, but needs one free byte in the buffer.
    bytes.try_reserve_exact(len as usize + 1)?;
    let read = file.take(limit + 1).read_to_end(&mut bytes)?;
    match read as u64 <= limit {
        true => Ok(bytes),
        false => Err(too_large(limit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_at_the_limit() {
        let read = |len| read_up_to(io::repeat(7).take(len), 0, 1000);
        assert_eq!(read(1000).expect("in the limit").len(), 1000);
        for len in [1001, u64::MAX] {
            let error = read(len).expect_err("too large");
            assert_eq!(
                error.to_string(),
                "the file has more than 1000 bytes, which is the limit"
            );
        }
        assert!(check(MAX_FILE).is_ok());
        assert!(check(MAX_FILE + 1).is_err());
    }

    #[test]
    fn only_regular_files_are_regular() {
        for path in ["/dev/zero", "/"] {
            let error = read_regular(Path::new(path)).expect_err("not regular");
            assert_eq!(error.to_string(), "not a regular file", "{path}");
        }
    }
}
