//! Parses fat binaries, which the code also calls containers. A fat binary consists of a header and any number of
//! entries.
//!
//! All fields are little-endian. The header has 16 bytes: magic number, version, size of the header, total size of the
//! entries. An entry consists of a 64-byte header, a header extension with the source file's name and compiler options,
//! and the payload, which is padded to a multiple of 8 bytes. [`Container::parse`] checks the bounds of all entries, so
//! an [`Entry`] is always inside the bytes of its fat binary.

use std::fmt;

use super::bytes::{Bytes, copy, until_nul};
use super::decompress::{self, Codec, MAX_UNCOMPRESSED, Problem};
use super::{ImageError, PtxText};

/// The first word of a fat binary.
pub const CONTAINER_MAGIC: u32 = 0xba55_ed50;
/// Size in bytes of a fat binary's header.
pub const CONTAINER_HEADER_LEN: usize = 16;
/// The largest accepted size of a fat binary, in bytes.
pub const MAX_CONTAINER: u64 = 1 << 36;

/// Size in bytes of the fixed part of an entry's header.
pub const ENTRY_HEADER_LEN: usize = 64;

/// The kind of an entry's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// A cubin: an ELF file with machine code for one GPU architecture.
    Cubin,
    /// Code in NVVM's intermediate representation, which is the input of link-time optimisation.
    Lto,
    /// An unknown kind.
    Other(u16),
}

impl EntryKind {
    fn from_code(code: u16) -> Self {
        match code {
            1 => EntryKind::Ptx,
            2 => EntryKind::Cubin,
            8 => EntryKind::Lto,
            other => EntryKind::Other(other),
        }
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryKind::Ptx => f.write_str("PTX"),
            EntryKind::Cubin => f.write_str("cubin"),
            EntryKind::Lto => f.write_str("LTO"),
            EntryKind::Other(code) => write!(f, "kind-{code}"),
        }
    }
}

/// The flags in the header of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryFlags(pub u64);

impl EntryFlags {
    const DEBUG: u64 = 0x2;
    const LZ4: u64 = 0x2000;
    const ZSTD: u64 = 0x8000;
    const ARCH_SPECIFIC: u64 = 0x10_0000;
    const FAMILY: u64 = 0x20_0000;

    /// Whether the entry was compiled for debugging on the device (`-G`).
    pub fn debug(self) -> bool {
        self.0 & Self::DEBUG != 0
    }

    /// Whether the entry was compiled for exactly one architecture (such as `sm_90a`).
    pub fn arch_specific(self) -> bool {
        self.0 & Self::ARCH_SPECIFIC != 0
    }

    /// Whether the entry was compiled for one family of architectures (such as `sm_100f`).
    pub fn family(self) -> bool {
        self.0 & Self::FAMILY != 0
    }

    fn codec(self) -> Codec {
        if self.0 & Self::ZSTD != 0 {
            Codec::Zstd
        } else if self.0 & Self::LZ4 != 0 {
            Codec::Lz4
        } else {
            Codec::Unknown
        }
    }
}

/// The description of an entry, without the payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntryInfo {
    /// The kind of the payload.
    pub kind: EntryKind,
    /// The number of the architecture for which the payload was compiled: 80 for `sm_80`.
    pub sm: u32,
    /// Version of the payload's format, major number first. For PTX, this is the ISA version, such as (9, 5).
    pub version: (u16, u16),
    /// The flags of the entry.
    pub flags: EntryFlags,
    /// The name of the source file. It is present if the entry was compiled with `-lineinfo` or
    /// `-G`.
    pub source_name: Option<String>,
    /// The options with which the assembler (ptxas) must compile the payload, such as
    /// `-maxrregcount=32`, without surrounding white space.
    pub options: Option<String>,
}

impl EntryInfo {
    /// Returns the name of the entry's target, as a `.target` directive writes it.
    pub fn target(&self) -> String {
        let suffix = match (self.flags.arch_specific(), self.flags.family()) {
            (true, _) => "a",
            (_, true) => "f",
            _ => "",
        };
        format!("sm_{}{suffix}", self.sm)
    }

    /// Returns whether a GPU with the compute capability `capability` (86 means 8.6) accepts the payload. PTX runs on its
    /// architecture and on later ones, a cubin on later ones with the same major number. If the payload was compiled for
    /// one architecture (`sm_90a`) or one family (`sm_100f`), it runs only there.
    pub fn runs_on(&self, capability: u32) -> bool {
        let one_architecture = self.flags.arch_specific();
        let one_generation = self.flags.family() || self.kind != EntryKind::Ptx;
        match (one_architecture, one_generation) {
            (true, _) => self.sm == capability,
            (_, true) => self.sm <= capability && self.sm / 10 == capability / 10,
            _ => self.sm <= capability,
        }
    }

    /// Whether the payload was compiled for linking with other device code (`nvcc -rdc=true`).
    pub fn relocatable(&self) -> bool {
        self.options
            .as_deref()
            .is_some_and(|o| o.contains("--compile-only"))
    }
}

/// One entry of a fat binary.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The description of the entry.
    pub info: EntryInfo,
    /// The bytes of the payload in the fat binary. They include the padding if the payload is not
    /// compressed, and do not include it if the payload is compressed.
    stored: &'a [u8],
    codec: Option<Codec>,
    uncompressed: u64,
}

impl<'a> Entry<'a> {
    /// Returns the bytes of the payload in the fat binary, which may be compressed.
    pub fn stored(&self) -> &'a [u8] {
        self.stored
    }

    /// Returns the compression of the payload, or `None` if the payload is not compressed.
    pub fn codec(&self) -> Option<Codec> {
        self.codec
    }

    /// Returns the length in bytes of the decompressed payload, as the header declares it. The actual length can
    /// differ.
    pub fn declared_len(&self) -> u64 {
        match self.codec {
            Some(_) => self.uncompressed,
            None => self.stored.len() as u64,
        }
    }

    /// Returns the decompressed payload.
    pub fn payload(&self) -> Result<Vec<u8>, ImageError> {
        match self.codec {
            None => copy(self.stored),
            Some(codec) => {
                self.check_size()?;
                decompress::exactly(codec, self.stored, self.uncompressed)
                    .map_err(|r| self.damaged(codec, r))
            }
        }
    }

    /// Returns the first `wanted` bytes of the decompressed payload. A Zstandard payload is
    /// decompressed only up to these bytes.
    pub fn prefix(&self, wanted: usize) -> Result<Vec<u8>, ImageError> {
        match self.codec {
            None => copy(&self.stored[..wanted.min(self.stored.len())]),
            Some(codec) => {
                self.check_size()?;
                decompress::prefix(codec, self.stored, self.uncompressed, wanted as u64)
                    .map_err(|r| self.damaged(codec, r))
            }
        }
    }

    /// Whether the entry is a cubin that contains neither functions nor variables.
    pub fn is_empty_cubin(&self) -> bool {
        self.info.kind == EntryKind::Cubin
            && self
                .payload()
                .is_ok_and(|payload| super::elf::is_empty_cubin(&payload))
    }

    /// Returns the payload as PTX text. The entry must be of kind [`EntryKind::Ptx`].
    pub fn text(&self) -> Result<PtxText, ImageError> {
        Ok(PtxText {
            text: super::text_of(self.payload()?),
            origin: Some(self.info.clone()),
        })
    }

    fn check_size(&self) -> Result<(), ImageError> {
        if self.uncompressed <= MAX_UNCOMPRESSED {
            return Ok(());
        }
        Err(ImageError::TooLarge {
            what: "fat binary entry",
            declared: self.uncompressed,
            limit: MAX_UNCOMPRESSED,
        })
    }

    fn damaged(&self, codec: Codec, problem: Problem) -> ImageError {
        match problem {
            Problem::Damaged(reason) => ImageError::Decompress {
                codec,
                kind: self.info.kind,
                reason,
            },
            Problem::Memory(bytes) => ImageError::OutOfMemory { bytes },
        }
    }
}

/// The fixed part of an entry's header. With it, a caller can list the entries of a fat binary without loading their
/// payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// The description of the entry, without `source_name` and `options`.
    pub info: EntryInfo,
    /// Number of bytes from the start of the header to the next entry, at least [`ENTRY_HEADER_LEN`].
    pub len: u64,
}

impl EntryHead {
    /// Reads the header whose first bytes are `bytes`. `len` can point past the end of the fat binary.
    pub fn parse(bytes: &[u8; ENTRY_HEADER_LEN]) -> Result<Self, ImageError> {
        let at = 0;
        let raw = RawEntry::read(Bytes(bytes)).ok_or(ImageError::Truncated {
            what: "entry header",
            at,
            needed: ENTRY_HEADER_LEN as u64,
            have: bytes.len() as u64,
        })?;
        raw.check_header(at)?;
        Ok(EntryHead {
            len: raw.header.saturating_add(raw.payload),
            info: raw.info(),
        })
    }
}

/// A parsed fat binary.
#[derive(Clone, Debug, Default)]
pub struct Container<'a> {
    /// The entries, in the order of the file. The order matters only between PTX entries with equal
    /// architectures and versions ([`super::choose`]).
    pub entries: Vec<Entry<'a>>,
}

/// Returns the length of the whole fat binary whose first 16 bytes are `header`.
///
/// A caller that has only a pointer to a fat binary determines the fat binary's length with this
/// function.
pub fn container_len(header: &[u8; CONTAINER_HEADER_LEN]) -> Result<usize, ImageError> {
    container_len_at(Bytes(header), 0)
}

fn container_len_at(bytes: Bytes<'_>, at: u64) -> Result<usize, ImageError> {
    let cut = || ImageError::Truncated {
        what: "fat binary header",
        at,
        needed: CONTAINER_HEADER_LEN as u64,
        have: bytes.tail(at).map_or(0, |t| t.len() as u64),
    };
    let magic = bytes.u32(at).ok_or_else(cut)?;
    let header = u64::from(bytes.u16(at.saturating_add(6)).ok_or_else(cut)?);
    let size = bytes.u64(at.saturating_add(8)).ok_or_else(cut)?;
    let field = |what, value| Err(ImageError::Field { what, at, value });
    if magic != CONTAINER_MAGIC {
        return field("fat binary magic", u64::from(magic));
    }
    if header < CONTAINER_HEADER_LEN as u64 {
        return field("fat binary header size", header);
    }
    let too_large = ImageError::TooLarge {
        what: "fat binary",
        declared: size,
        limit: MAX_CONTAINER,
    };
    match size.checked_add(header) {
        Some(total) if total <= MAX_CONTAINER => usize::try_from(total).map_err(|_| too_large),
        _ => Err(too_large),
    }
}

impl<'a> Container<'a> {
    /// Parses the fat binary at the start of `bytes`. `bytes` may continue after the end of the fat
    /// binary; these bytes are not read.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let total = container_len_at(Bytes(bytes), 0)?;
        let whole = bytes.get(..total).ok_or(ImageError::Truncated {
            what: "fat binary",
            at: 0,
            needed: total as u64,
            have: bytes.len() as u64,
        })?;
        let mut at = u64::from(Bytes(whole).u16(6).unwrap_or(CONTAINER_HEADER_LEN as u16));
        let mut entries = Vec::new();
        while at < total as u64 {
            let (entry, len) = parse_entry(Bytes(whole), at)?;
            entries.push(entry);
            at += len;
        }
        Ok(Container { entries })
    }

    /// Returns whether the fat binary has no entries, or only cubins that contain neither functions nor variables. The
    /// linker of `nvcc` writes such fat binaries.
    pub fn is_stub(&self) -> bool {
        self.entries.iter().all(Entry::is_empty_cubin)
    }
}

/// The fields in the fixed part of an entry's header.
struct RawEntry {
    kind: u16,
    header: u64,
    payload: u64,
    compressed: u64,
    options: u64,
    version: (u16, u16),
    sm: u32,
    name: u64,
    name_len: u64,
    flags: u64,
    uncompressed: u64,
}

impl RawEntry {
    /// Reads the fields from the first 64 bytes of `b`. Returns `None` if `b` has fewer than 64
    /// bytes.
    fn read(b: Bytes<'_>) -> Option<Self> {
        Some(RawEntry {
            kind: b.u16(0)?,
            header: u64::from(b.u32(4)?),
            payload: b.u64(8)?,
            compressed: u64::from(b.u32(16)?),
            options: u64::from(b.u32(20)?),
            version: (b.u16(26)?, b.u16(24)?),
            sm: b.u32(28)?,
            name: u64::from(b.u32(32)?),
            name_len: u64::from(b.u32(36)?),
            flags: b.u64(40)?,
            uncompressed: b.u64(56)?,
        })
    }

    /// Returns an error if the entry at offset `at` declares a header that is too small.
    fn check_header(&self, at: u64) -> Result<(), ImageError> {
        if self.header >= ENTRY_HEADER_LEN as u64 {
            return Ok(());
        }
        Err(ImageError::Field {
            what: "entry header size",
            at,
            value: self.header,
        })
    }

    /// Returns the description of the entry, without the texts in the header extension.
    fn info(&self) -> EntryInfo {
        EntryInfo {
            kind: EntryKind::from_code(self.kind),
            sm: self.sm,
            version: self.version,
            flags: EntryFlags(self.flags),
            source_name: None,
            options: None,
        }
    }
}

/// Parses the entry at offset `at`. Returns the entry and the number of bytes from `at` to the next
/// entry. This number is at least 64, so a loop over the entries ends.
fn parse_entry(bytes: Bytes<'_>, at: u64) -> Result<(Entry<'_>, u64), ImageError> {
    let rest = bytes.tail(at).unwrap_or_default();
    let cut = |what, needed| ImageError::Truncated {
        what,
        at,
        needed,
        have: rest.len() as u64,
    };
    let needed = ENTRY_HEADER_LEN as u64;
    let raw = RawEntry::read(Bytes(rest)).ok_or_else(|| cut("entry header", needed))?;
    raw.check_header(at)?;
    let total = raw.header.saturating_add(raw.payload);
    let header = Bytes(rest)
        .slice(0, raw.header)
        .ok_or_else(|| cut("entry header", raw.header))?;
    let payload = Bytes(rest)
        .slice(raw.header, raw.payload)
        .ok_or_else(|| cut("entry", total))?;
    let info = raw.info();
    let codec = (raw.compressed != 0).then(|| info.flags.codec());
    let stored = match codec {
        None => payload,
        Some(_) => Bytes(payload)
            .slice(0, raw.compressed)
            .ok_or(ImageError::Field {
                what: "compressed size",
                at,
                value: raw.compressed,
            })?,
    };
    let info = EntryInfo {
        source_name: string_at(header, raw.name, raw.name_len),
        options: options_text(header, raw.options, info.kind),
        ..info
    };
    Ok((
        Entry {
            info,
            stored,
            codec,
            uncompressed: raw.uncompressed,
        },
        total,
    ))
}

/// Returns the text of the compiler options at the offset `at` of an entry's header. Returns `None`
/// for cubins, because cubins for sm_100 and later have binary data there.
fn options_text(header: &[u8], at: u64, kind: EntryKind) -> Option<String> {
    if at == 0 || kind == EntryKind::Cubin {
        return None;
    }
    let block = Bytes(header);
    let text = string_at(
        header,
        u64::from(block.u32(at)?),
        u64::from(block.u32(at.checked_add(4)?)?),
    )?;
    let trimmed = text.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// Returns the text at offset `at` in `header`. If the text is not inside the header, returns
/// `None` and not an error, because the payload can be used without its source name and options.
fn string_at(header: &[u8], at: u64, len: u64) -> Option<String> {
    if at == 0 || len == 0 {
        return None;
    }
    let text = until_nul(Bytes(header).slice(at, len)?);
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}
