//! Device images: everything that a program may hand to `cuModuleLoadData` and its relatives.
//!
//! An image is recognised by its first bytes ([`Image::parse`]), and [`select_ptx`] takes from it the PTX
//! text to compile: bare text, or the best PTX entry of a fat binary container, decompressed. Cubins are
//! recognised and refused by name. A CUDA *wrapper* holds raw pointers, so following it is the driver
//! library's job; [`wrapper`], [`container_len`], [`elf_tables_len`] and [`elf_len`] are the pure parts.
//!
//! ```
//! use margay_frontend::container::select_ptx;
//! let selection = select_ptx(&[b"// no comment\n.version 8.0\n\0"], 80)?;
//! assert_eq!(selection.texts[0].text, "// no comment\n.version 8.0\n");
//! # Ok::<(), margay_frontend::container::ImageError>(())
//! ```
//!
//! Invariant: images are hostile. No input panics, reads outside its bytes, loops without progress, or
//! makes memory grow beyond what its data really decompress to.

mod bytes;
mod decompress;
mod elf;
mod error;
mod fatbin;
mod linked;
mod select;

pub use decompress::{Codec, MAX_UNCOMPRESSED};
pub use elf::{
    ArchiveMember, ELF_HEADER_LEN, EM_CUDA, HostContainer, HostSection, MAX_ELF, archive_members,
    elf_len, elf_tables_len, host_containers,
};
pub use error::{Cubin, Found, ImageError, ImageFault};
pub use fatbin::{
    CONTAINER_HEADER_LEN, CONTAINER_MAGIC, Container, Entry, EntryFlags, EntryInfo, EntryKind,
    MAX_CONTAINER, container_len,
};
pub use linked::{calls_device_runtime, join};
pub use select::{Selection, choose, select_ptx};

use bytes::{Bytes, until_nul};

/// First word of a wrapper.
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Bytes of a wrapper.
pub const WRAPPER_LEN: usize = 24;
/// Bytes of an image that [`detect`] looks at.
pub const DETECT_LEN: usize = 8;

/// PTX text and, where it came from a fat binary, what the entry said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxText {
    /// The text, without the closing NUL. Bytes that are not UTF-8 (they can only stand in comments and
    /// strings) are replaced.
    pub text: String,
    /// The fat binary entry it came from; `None` for bare text.
    pub origin: Option<EntryInfo>,
}

impl PtxText {
    /// Text that came from no fat binary.
    pub(crate) fn bare(bytes: &[u8]) -> PtxText {
        PtxText {
            text: text_of(bytes.to_vec()),
            origin: None,
        }
    }
}

/// Kind of an image, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// A wrapper with pointers; see [`wrapper`].
    Wrapper,
    /// A fat binary container.
    Fatbin,
    /// An ELF file: a cubin, or a program of the host.
    Elf,
    /// A static library of host objects.
    Archive,
    /// PTX text.
    Text,
}

/// The kind of the image that begins with `prefix`, of which at most [`DETECT_LEN`] bytes are looked at.
///
/// `None` when it is nothing known. Text is believed when its first bytes could begin a line of PTX; an
/// empty prefix and one that begins with NUL are empty texts.
pub fn detect(prefix: &[u8]) -> Option<ImageKind> {
    let prefix = &prefix[..prefix.len().min(DETECT_LEN)];
    match Bytes(prefix).u32(0) {
        Some(WRAPPER_MAGIC) => return Some(ImageKind::Wrapper),
        Some(CONTAINER_MAGIC) => return Some(ImageKind::Fatbin),
        _ => {}
    }
    if prefix.starts_with(&object::elf::ELFMAG) {
        return Some(ImageKind::Elf);
    }
    if prefix == object::archive::MAGIC {
        return Some(ImageKind::Archive);
    }
    let printable = |b: &u8| b.is_ascii_graphic() || b.is_ascii_whitespace();
    let text = until_nul(prefix);
    // Only the first byte has to be plain: a comment may go on in any encoding.
    text.first()
        .is_none_or(printable)
        .then_some(ImageKind::Text)
}

/// A wrapper's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// 1: `container` is a module; 2: `list` names containers that are linked together.
    pub version: u32,
    /// Address of a container. In version 2 this is the result of linking when the program was built, and
    /// may be empty.
    pub container: u64,
    /// Version 2: address of an array of container addresses, closed by a null one.
    pub list: u64,
}

/// Reads a wrapper's fields; following its addresses is the caller's business.
pub fn wrapper(bytes: &[u8; WRAPPER_LEN]) -> Result<Wrapper, ImageError> {
    let b = Bytes(bytes);
    let field = |what, value| ImageError::Field { what, at: 0, value };
    let magic = b.u32(0).unwrap_or(0);
    if magic != WRAPPER_MAGIC {
        return Err(field("wrapper magic", u64::from(magic)));
    }
    let version = b.u32(4).unwrap_or(0);
    if !matches!(version, 1 | 2) {
        return Err(field("wrapper version", u64::from(version)));
    }
    Ok(Wrapper {
        version,
        container: b.u64(8).unwrap_or(0),
        list: b.u64(16).unwrap_or(0),
    })
}

/// A parsed image.
#[derive(Clone, Debug)]
pub enum Image<'a> {
    /// PTX text.
    Text(PtxText),
    /// A fat binary.
    Fatbin(Container<'a>),
    /// Machine code, which cannot be used.
    Cubin(Cubin),
    /// A host program, library or object with fat binaries in it.
    Host(Vec<HostContainer<'a>>),
    /// A static library with fat binaries in its members.
    Archive(Vec<ArchiveMember<'a>>),
}

impl<'a> Image<'a> {
    /// Parses the image in `bytes`.
    ///
    /// Text ends at the first NUL or at the end of `bytes`. A wrapper is refused: its addresses mean
    /// nothing without the memory that they point to.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let unrecognised = || ImageError::Unrecognised {
            prefix: bytes[..bytes.len().min(DETECT_LEN)].to_vec(),
        };
        match detect(bytes).ok_or_else(unrecognised)? {
            ImageKind::Wrapper => Err(unrecognised()),
            ImageKind::Fatbin => Container::parse(bytes).map(Image::Fatbin),
            ImageKind::Archive => archive_members(bytes).map(Image::Archive),
            ImageKind::Text => Ok(Image::Text(PtxText {
                text: text_of(until_nul(bytes).to_vec()),
                origin: None,
            })),
            ImageKind::Elf => match elf::machine(bytes)? {
                EM_CUDA => Ok(Image::Cubin(elf::cubin(bytes))),
                machine => match host_containers(bytes)? {
                    found if found.is_empty() => Err(ImageError::NoDeviceCode { machine }),
                    found => Ok(Image::Host(found)),
                },
            },
        }
    }
}

/// Text up to the first NUL, without copying where it is UTF-8.
fn text_of(mut bytes: Vec<u8>) -> String {
    bytes.truncate(until_nul(&bytes).len());
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
