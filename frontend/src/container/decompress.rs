//! Decompresses the payloads of a fat binary's entries, which are LZ4 blocks or Zstandard frames,
//! up to the size that the entry's header declares.
//!
//! Invariant: the result of [`exactly`] has the size that the entry's header declares, and this size
//! never exceeds [`MAX_UNCOMPRESSED`]. The result of [`prefix`] has at most the requested size. The
//! buffer for a Zstandard frame grows with the actual output. In addition to this buffer, the decoder
//! needs memory for the frame's window (the earlier output to which the compressed data may refer)
//! and for [`PIECE`] bytes of output. The buffer for an LZ4 block has the declared size, so a size
//! that the block cannot produce is rejected before the buffer is allocated.

use std::fmt;
use std::io::{ErrorKind, Read};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::bytes::buffer;

/// The largest accepted size of an entry's payload after decompression, in bytes. The largest known
/// entries of real fat binaries have less than 30 MB.
pub const MAX_UNCOMPRESSED: u64 = 256 << 20;

/// The largest accepted window of a Zstandard frame, in bytes. The decoder needs memory of the
/// window's size in addition to the memory for the output. At the usual compression levels, a
/// window has at most 8 MiB, even if the content is larger. At the highest levels, a frame whose
/// content has less than 128 MiB has a window as large as its content.
const MAX_WINDOW: u64 = 64 << 20;

/// The maximum number of bytes of output that one step of the decompression of a Zstandard frame
/// produces.
const PIECE: u64 = 1 << 20;

/// The largest compression ratio of LZ4: each byte of an LZ4 block produces at most 255 bytes of output.
const LZ4_MAX_RATIO: u64 = 255;

/// The compression of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// An LZ4 block without the header of an LZ4 frame.
    Lz4,
    /// A Zstandard frame.
    Zstd,
    /// An unknown compression: the payload is compressed, but the entry's flags specify neither LZ4 nor Zstandard.
    Unknown,
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Codec::Lz4 => "LZ4",
            Codec::Zstd => "Zstandard",
            Codec::Unknown => "compressed",
        })
    }
}

/// The reason why data cannot be decompressed.
#[derive(Debug)]
pub(super) enum Problem {
    /// The data is damaged. The field contains the decoder's message.
    Damaged(String),
    /// An allocation failed. The field contains the size of the allocation in bytes.
    Memory(u64),
}

impl From<String> for Problem {
    fn from(reason: String) -> Problem {
        Problem::Damaged(reason)
    }
}

/// Decompresses `data`. Returns an error if the result does not have exactly `size` bytes.
///
/// The caller must check that `size` is at most [`MAX_UNCOMPRESSED`].
pub(super) fn exactly(codec: Codec, data: &[u8], size: u64) -> Result<Vec<u8>, Problem> {
    let out = match codec {
        Codec::Lz4 => lz4(data, size)?,
        Codec::Zstd => zstd_up_to(data, size.saturating_add(1))?,
        Codec::Unknown => return Err(unknown().into()),
    };
    let got = out.len() as u64;
    if got == size {
        return Ok(out);
    }
    Err(format!(
        "the header declares {size} bytes, the data contains {}{got}",
        if got > size { "at least " } else { "" }
    )
    .into())
}

/// Returns the first `wanted` bytes of the decompressed `data`, or fewer if the decompressed data is shorter. `size` is
/// the declared size of all decompressed data.
pub(super) fn prefix(
    codec: Codec,
    data: &[u8],
    size: u64,
    wanted: u64,
) -> Result<Vec<u8>, Problem> {
    match codec {
        Codec::Lz4 => lz4(data, size).map(|mut out| {
            out.truncate(wanted as usize);
            out
        }),
        Codec::Zstd => zstd_up_to(data, wanted),
        Codec::Unknown => Err(unknown().into()),
    }
}

fn unknown() -> String {
    "its flags name neither LZ4 nor Zstandard".to_owned()
}

fn lz4(data: &[u8], size: u64) -> Result<Vec<u8>, Problem> {
    if size / LZ4_MAX_RATIO > data.len() as u64 {
        return Err(format!(
            "{} bytes cannot contain the {size} that the header declares",
            data.len()
        )
        .into());
    }
    let size = usize::try_from(size).map_err(|e| e.to_string())?;
    let mut out = buffer(size).map_err(|_| Problem::Memory(size as u64))?;
    out.resize(size, 0);
    let written = lz4_flex::block::decompress_into(data, &mut out).map_err(|e| e.to_string())?;
    out.truncate(written);
    Ok(out)
}

fn zstd_up_to(data: &[u8], wanted: u64) -> Result<Vec<u8>, Problem> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_WINDOW);
    let stream = StreamingDecoder::new_with_decoder(data, decoder).map_err(|e| e.to_string())?;
    let mut stream = stream.take(wanted);
    // The buffer grows with the actual output, not with the declared size.
    let mut out = Vec::new();
    loop {
        // The decoder produces as many bytes at once as a read requests, so each read requests one piece.
        let piece = stream.by_ref().take(PIECE).read_to_end(&mut out);
        let read = piece.map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => Problem::Memory(wanted),
            _ => Problem::Damaged(error.to_string()),
        })?;
        if read == 0 {
            out.shrink_to_fit();
            return Ok(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a Zstandard frame of `size` equal bytes. If `window` is `None`, the window is as large as the content;
    /// otherwise the window has `1 << window` bytes.
    fn frame(size: u32, window: Option<u8>) -> Vec<u8> {
        const BLOCK: u32 = 128 << 10;
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd];
        match window {
            None => frame.push(0xa0),
            Some(log) => frame.extend([0x80, (log - 10) << 3]),
        }
        frame.extend(size.to_le_bytes());
        let mut left = size;
        while left > 0 {
            let len = left.min(BLOCK);
            left -= len;
            // A block that repeats one byte.
            let header = len << 3 | 1 << 1 | u32::from(left == 0);
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(b'x');
        }
        frame
    }

    // Regression test: a frame of a few kilobytes needed more than 500 MB.
    #[test]
    fn the_window_of_a_frame_has_a_limit() {
        let whole = |size: u32, window| exactly(Codec::Zstd, &frame(size, window), size.into());
        for (size, window) in [(1, None), (3 << 20, None), (80 << 20, Some(23))] {
            let out = whole(size, window).unwrap_or_else(|problem| panic!("{problem:?}"));
            assert_eq!(out.len(), size as usize);
            assert!(out.iter().all(|&byte| byte == b'x'));
        }
        for (size, window) in [(80 << 20, None), (10, Some(27)), (80 << 20, Some(27))] {
            let Err(Problem::Damaged(reason)) = whole(size, window) else {
                panic!("{size} bytes are accepted");
            };
            assert!(reason.contains("indow"), "{reason}");
            let start = prefix(Codec::Zstd, &frame(size, window), size.into(), 5);
            assert!(start.is_err());
        }
    }
}
