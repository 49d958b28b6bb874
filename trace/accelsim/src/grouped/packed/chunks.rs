//! The compressed chunks of a `.tracez` file as one stream of text that ends after each chunk.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use ruzstd::decoding::{self, BlockDecodingStrategy, FrameDecoder};

use super::read_u32;
use crate::error::Fault;

/// A dictionary that all frames use.
pub(super) struct Dictionary {
    decoder: FrameDecoder,
    /// The identity in the decoder, or none if there is no dictionary.
    id: Option<u32>,
}

/// The largest window of a frame in bytes: that of the highest level of zstd.
const MAX_WINDOW: u64 = 1 << 27;

impl Dictionary {
    /// Returns the dictionary with these bytes. Without any, there is no dictionary; bytes without the magic number of
    /// dictionaries are content without tables.
    pub(super) fn new(bytes: Vec<u8>) -> Result<Dictionary, Fault> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        if bytes.is_empty() {
            return Ok(Dictionary { decoder, id: None });
        }
        let fault = |error: String| Fault::Container(format!("the dictionary: {error}"));
        let is_formatted = bytes.starts_with(&MAGIC);
        let formatted = match is_formatted {
            true => bytes.as_slice(),
            false => &TABLES,
        };
        let dictionary = decoding::Dictionary::decode_dict(formatted);
        let mut dictionary = dictionary.map_err(|error| fault(error.to_string()))?;
        if !is_formatted {
            dictionary.dict_content = bytes;
            dictionary.offset_hist = [1, 4, 8];
        }
        let id = dictionary.id;
        let added = decoder.add_dict(dictionary);
        added.map_err(|error| fault(error.to_string()))?;
        Ok(Dictionary {
            decoder,
            id: Some(id),
        })
    }
}

/// The magic number of a dictionary with tables.
const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// The smallest dictionary with tables, from which one without tables is made: valid frames for content without tables do
/// not use the tables. One Huffman weight (two symbols of one bit), three FSE tables with a single symbol, three offsets.
#[rustfmt::skip]
const TABLES: [u8; 28] = [
    0x37, 0xa4, 0x30, 0xec, 1, 0, 0, 0,
    0x80, 0x10,
    0xf0, 0x03, 0xf0, 0x03, 0xf0, 0x03,
    1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0,
];

/// The chunks of a file. As a stream, it ends after each chunk and goes on when the next one begins.
pub(super) struct Chunks {
    data: BufReader<File>,
    dictionary: Dictionary,
    /// The number of bytes of the chunk that were not read.
    remaining: u64,
    is_active: bool,
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks")
            .field("data", &self.data)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

impl Chunks {
    pub(super) fn new(data: BufReader<File>, dictionary: Dictionary) -> Chunks {
        Chunks {
            data,
            dictionary,
            remaining: 0,
            is_active: false,
        }
    }

    /// Goes to the warp at `offset`. Returns the number of instructions and chunks that stand there.
    pub(super) fn begin_warp(&mut self, offset: u64) -> Result<(u32, u32), Fault> {
        let position = self.data.stream_position();
        let position = position.map_err(|error| Fault::io(&error))?;
        // Warps follow each other. A seek would empty the buffer.
        if position != offset {
            let found = self.data.seek(SeekFrom::Start(offset));
            found.map_err(|error| Fault::io(&error))?;
        }
        Ok((read_u32(&mut self.data)?, read_u32(&mut self.data)?))
    }

    /// Begins the next chunk of the warp.
    pub(super) fn begin_chunk(&mut self) -> Result<(), Fault> {
        self.remaining = u64::from(read_u32(&mut self.data)?);
        let Dictionary { decoder, id } = &mut self.dictionary;
        let mut source = (&mut self.data).take(self.remaining);
        let begun = decoder.reset(&mut source);
        self.remaining = source.limit();
        begun
            .and_then(|()| id.map_or(Ok(()), |id| decoder.force_dict(id)))
            .map_err(|error| Fault::Container(error.to_string()))?;
        self.is_active = true;
        Ok(())
    }

    /// Decodes blocks until some text exists or the frame ends.
    fn decode(&mut self) -> io::Result<()> {
        let decoder = &mut self.dictionary.decoder;
        while decoder.can_collect() == 0 && !decoder.is_finished() {
            let mut source = (&mut self.data).take(self.remaining);
            let decoded = decoder.decode_blocks(&mut source, BlockDecodingStrategy::UptoBlocks(1));
            self.remaining = source.limit();
            decoded.map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Ends the chunk, all of whose text was read.
    fn end(&mut self) -> io::Result<()> {
        self.is_active = false;
        match self.remaining {
            0 => Ok(()),
            surplus => Err(io::Error::other(format!(
                "{surplus} bytes follow the frame of a chunk"
            ))),
        }
    }
}

impl Read for Chunks {
    fn read(&mut self, text: &mut [u8]) -> io::Result<usize> {
        if !self.is_active || text.is_empty() {
            return Ok(0);
        }
        self.decode()?;
        match self.dictionary.decoder.read(text)? {
            0 => self.end().map(|()| 0),
            length => Ok(length),
        }
    }
}
