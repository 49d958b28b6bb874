//! Reads the files that the command line names, up to a maximum size.
//!
//! The command line can name an endless file (`/dev/zero`), a pipe, or a regular file whose reads
//! block (`/proc/kmsg`). Invariants: only regular files, pipes and sockets are read. The number of
//! bytes that are read from a regular file is at most the length in its metadata. Files that the
//! operating system generates, such as files in `/proc`, have the length 0 and are therefore
//! treated as empty. Reading a file stops with an error after [`MAX_FILE`] bytes, or when there is
//! no memory for the next bytes. [`read_regular`] and [`read_start`] accept only regular files, and
//! therefore do not block.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use margay_frontend::container::{DETECT_LEN, ImageKind, detect};

/// Maximum size in bytes of a file that this module reads: 2 GiB.
pub const MAX_FILE: u64 = 2 << 30;

/// Reads a whole file, which can be a pipe.
///
/// # Errors
///
/// Returns an error if the file cannot be read, has more than [`MAX_FILE`] bytes or does not fit in memory, and
/// [`ErrorKind::InvalidInput`] if it is neither a regular file nor a pipe.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, len) = open(path)?;
    check(len, MAX_FILE)?;
    read_up_to(file, len, MAX_FILE)
}

/// Reads the file of an image, which can be a pipe. Does not read the rest of the file if the first bytes are not the
/// start of an image. If the image is text, it ends at its first NUL byte.
///
/// # Errors
///
/// Returns the same errors as [`read`], and [`ErrorKind::InvalidData`] if the first bytes are not the start of an
/// image.
pub fn read_image(path: &Path) -> io::Result<Vec<u8>> {
    let (file, len) = open(path)?;
    check(len, MAX_FILE)?;
    image_from(file, len)
}

/// Number of bytes of an image that are read at once.
const IMAGE_PART: u64 = 1 << 20;

/// Reads an image from a file. `len` is the length that the system states; the file may be longer or shorter.
fn image_from(mut file: impl Read, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.by_ref()
        .take(DETECT_LEN as u64)
        .read_to_end(&mut bytes)?;
    let kind = detect(&bytes);
    let is_text = kind == Some(ImageKind::Text);
    // A NUL ends a text. A text that ends in these first bytes has no `.version`.
    if kind.is_none() || is_text && bytes.contains(&0) {
        return Err(io::Error::new(ErrorKind::InvalidData, "not an image"));
    }
    if !is_text {
        bytes.try_reserve_exact((len + 1).saturating_sub(bytes.len() as u64) as usize)?;
    }
    loop {
        let known = bytes.len();
        bytes.try_reserve(IMAGE_PART as usize)?;
        file.by_ref().take(IMAGE_PART).read_to_end(&mut bytes)?;
        let read = &bytes[known..];
        if read.is_empty() {
            return Ok(bytes);
        }
        if let Some(end) = read.iter().position(|&byte| is_text && byte == 0) {
            bytes.truncate(known + end);
            return Ok(bytes);
        }
        if bytes.len() as u64 > MAX_FILE {
            return Err(too_large(MAX_FILE));
        }
    }
}

/// Reads a whole text file like [`read`].
///
/// # Errors
///
/// Returns the same errors as [`read`], and an error if the text is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read(path)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "the text is not UTF-8"))
}

/// Reads a regular file of at most `limit` bytes. Refuses other files, such as pipes, because other
/// files may never end.
///
/// # Errors
///
/// Returns the same errors as [`read`], and an error if the file is not a regular file or would block.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, len) = open_regular(path)?;
    check(len, limit)?;
    read_up_to(file.take(len), len, limit)
}

/// Reads a regular file like [`read_regular`], but at most the first `count` bytes.
///
/// # Errors
///
/// Returns the same errors as [`read_regular`], except that the file can have any size.
pub fn read_start(path: &Path, count: u64) -> io::Result<Vec<u8>> {
    let (file, len) = open_regular(path)?;
    let count = len.min(count);
    read_up_to(file.take(count), count, count)
}

/// Opens a regular file or a pipe. Returns a reader and the length of the file, or 0 if the length
/// is not known. The null device is treated as an empty file.
fn open(path: &Path) -> io::Result<(io::Take<File>, u64)> {
    const NULL_DEVICE: u64 = libc::makedev(1, 3);
    let facts = std::fs::metadata(path)?;
    let kind = facts.file_type();
    if kind.is_file() {
        let (file, len) = open_regular(path)?;
        return Ok((file.take(len), len));
    }
    let limit = match facts.rdev() {
        _ if kind.is_fifo() || kind.is_socket() => u64::MAX,
        NULL_DEVICE if kind.is_char_device() => 0,
        _ if kind.is_dir() => return Err(io::Error::from_raw_os_error(libc::EISDIR)),
        _ => {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "neither a regular file nor a pipe",
            ));
        }
    };
    Ok((File::open(path)?.take(limit), 0))
}

/// Opens a regular file and returns its length. Reads of the file do not block.
fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    let regular = |facts: std::fs::Metadata| match facts.is_file() {
        true => Ok(facts.len()),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "not a regular file",
        )),
    };
    // Check the kind of the file before opening it: opening a device can have side effects, and opening a pipe waits
    // for a writer.
    regular(std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let len = regular(file.metadata()?)?;
    Ok((file, len))
}

fn check(len: u64, limit: u64) -> io::Result<()> {
    match len <= limit {
        true => Ok(()),
        false => Err(too_large(limit)),
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
        assert!(check(7, 7).is_ok());
        assert!(check(8, 7).is_err());
    }

    /// A reader that counts the bytes that were read from it.
    struct Counted<R>(R, u64);

    impl<R: Read> Read for Counted<R> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let read = self.0.read(to)?;
            self.1 += read as u64;
            Ok(read)
        }
    }

    // Regression test: two gigabytes of `/dev/zero` were read before the file was rejected.
    #[test]
    fn an_image_is_read_only_as_far_as_it_can_extend() {
        let read = |start: &[u8], rest: u8| {
            let mut file = Counted(start.chain(io::repeat(rest)), 0);
            let result = image_from(&mut file, 0).map_err(|error| error.kind());
            (result, file.1)
        };
        let none = Err(ErrorKind::InvalidData);
        assert_eq!(read(b"", 0), (none.clone(), DETECT_LEN as u64));
        assert_eq!(read(b"", 0xff), (none.clone(), DETECT_LEN as u64));
        assert_eq!(read(b"//\0", b' '), (none, DETECT_LEN as u64));
        let text = b".version 7.0\n.target sm_70\n";
        let (result, count) = read(text, 0);
        assert_eq!(result, Ok(text.to_vec()));
        assert!(count <= 2 * IMAGE_PART, "{count}");
        // Images that are not text may contain NULs, so the whole file is read.
        let whole = [&b"\x7fELF"[..], &vec![0; 3 << 20]].concat();
        assert_eq!(image_from(&whole[..], 7).expect("read"), whole);
        assert_eq!(image_from(&b""[..], 0).expect("read"), b"");
    }

    #[test]
    fn only_regular_files_are_regular() {
        for path in ["/dev/zero", "/"] {
            let error = read_regular(Path::new(path), MAX_FILE).expect_err("not regular");
            assert_eq!(error.to_string(), "not a regular file", "{path}");
        }
    }

    // Regression test: `margay dis /proc/kmsg` waited for ever.
    #[test]
    fn only_regular_files_and_pipes_are_read() {
        for path in ["/proc/kmsg", "/proc/self/status", "/dev/null"] {
            let path = Path::new(path);
            // Only some users can open `/proc/kmsg`.
            if let Ok(bytes) = read(path) {
                assert_eq!(bytes, [0; 0], "{path:?}");
                assert_eq!(read_image(path).expect("empty"), [0; 0], "{path:?}");
            }
        }
        for path in ["/dev/zero", "/dev/tty", "/dev/full"] {
            let error = read(Path::new(path)).expect_err("a device");
            assert_eq!(error.to_string(), "neither a regular file nor a pipe");
            assert!(read_image(Path::new(path)).is_err());
        }
        let folder = read(Path::new("/")).expect_err("a folder");
        assert_eq!(folder.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn pipes_are_read_to_their_end() {
        use std::io::Write;
        use std::os::fd::AsRawFd;

        let (reader, mut writer) = io::pipe().expect("a pipe");
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let text = [b'x'; 100_000];
        let writes = std::thread::spawn(move || writer.write_all(&text));
        assert_eq!(read(Path::new(&path)).expect("read"), text);
        writes.join().expect("no panic").expect("written");
    }

    // Regression test: `/proc/kmsg` is a regular file whose reads block.
    #[test]
    fn files_that_the_system_generates_are_empty() {
        for path in ["/proc/self/status", "/proc/kmsg"] {
            match read_regular(Path::new(path), MAX_FILE) {
                Ok(bytes) => assert_eq!(bytes, [0; 0], "{path}"),
                // Only some users can open the file.
                Err(_) => assert_eq!(path, "/proc/kmsg"),
            }
        }
        assert_eq!(
            read_start(Path::new("/proc/self/status"), 9).ok(),
            Some(Vec::new())
        );
    }

    #[test]
    fn regular_files_have_at_most_their_limit() {
        let path = std::env::temp_dir().join(format!("margay-input-{}", std::process::id()));
        std::fs::write(&path, "12345").expect("written");
        assert_eq!(read_regular(&path, 5).expect("read"), b"12345");
        assert_eq!(read_start(&path, 3).expect("read"), b"123");
        assert_eq!(read_start(&path, 9).expect("read"), b"12345");
        let error = read_regular(&path, 4).expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).expect("removed");
    }
}
