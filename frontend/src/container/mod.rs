//! Reads device images: the data that a program can pass to `cuModuleLoadData` and related functions.
//!
//! [`Image::parse`] recognises the format of an image by its first bytes. [`select_ptx`] extracts
//! the PTX text to compile. If the image is PTX text, the extracted text is the image up to its
//! first NUL; the output of Margay's linkers is split into the texts that were linked. If the image
//! is a fat binary, the extracted text is the decompressed PTX entry that is best for the device.
//! The code also calls a fat binary a *container*. For a cubin, [`select_ptx`] returns an error that
//! lists the cubin's kernels. A CUDA *wrapper* is the structure through which a host program
//! registers its fat binaries. A wrapper contains raw pointers, which only the driver library can
//! dereference. [`wrapper`], [`container_len`], [`elf_tables_len`] and [`elf_len`] read only the
//! bytes that they receive.
//!
//! ```
//! use margay_frontend::container::select_ptx;
//! let selection = select_ptx(&[b"// no comment\n.version 8.0\n\0"], 80)?;
//! assert_eq!(selection.texts[0].text, "// no comment\n.version 8.0\n");
//! # Ok::<(), margay_frontend::container::ImageError>(())
//! ```
//!
//! Invariant: images are untrusted. No input causes a panic, a read outside its bytes or an endless loop. Memory use is
//! bounded by the size of the decompressed data.

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
    CONTAINER_HEADER_LEN, CONTAINER_MAGIC, Container, ENTRY_HEADER_LEN, Entry, EntryFlags,
    EntryHead, EntryInfo, EntryKind, MAX_CONTAINER, container_len,
};
pub use linked::{calls_device_runtime, join};
pub use select::{Selection, choose, select_ptx};

use bytes::{Bytes, copy, until_nul};

/// The first word of a wrapper.
pub const WRAPPER_MAGIC: u32 = 0x4662_43b1;
/// Size of a wrapper in bytes.
pub const WRAPPER_LEN: usize = 24;
/// The number of bytes of an image that [`detect`] reads.
pub const DETECT_LEN: usize = 8;

/// A PTX text and, if the text is from a fat binary, the description of the fat binary's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxText {
    /// The PTX text, without the closing NUL. Bytes that are not UTF-8, which PTX allows only in
    /// comments and strings, are replaced by U+FFFD.
    pub text: String,
    /// The description of the fat binary's entry that contained the text; `None` if the text was
    /// not in a fat binary.
    pub origin: Option<EntryInfo>,
}

impl PtxText {
    /// Creates a [`PtxText`] for a text that was not in a fat binary.
    fn bare(bytes: &[u8]) -> Result<PtxText, ImageError> {
        Ok(PtxText {
            text: text_of(copy(bytes)?),
            origin: None,
        })
    }
}

/// The kind of an image, which its first bytes determine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// A wrapper, which contains pointers; see [`wrapper`].
    Wrapper,
    /// A fat binary.
    Fatbin,
    /// An ELF file: a cubin, or a host program, library or object file.
    Elf,
    /// A static library (`.a`) of object files for the host.
    Archive,
    /// PTX text.
    Text,
}

/// Returns the kind of the image that begins with `prefix`, from its first [`DETECT_LEN`] bytes.
///
/// Returns `None` for an unknown format. An image is text if it does not begin with the magic number of another format
/// and its first byte is printable ASCII or white space. An empty `prefix`, or a `prefix` that
/// begins with NUL, is an empty text, and the kind is [`ImageKind::Text`].
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
    // Only the first byte must be ASCII, because a comment at the start of the text can be in any encoding.
    text.first()
        .is_none_or(printable)
        .then_some(ImageKind::Text)
}

/// A wrapper's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// The version of the wrapper, which is 1 or 2. In version 1, `container` is a module. In
    /// version 2, `list` contains the addresses of fat binaries that form one module.
    pub version: u32,
    /// The address of a fat binary. In version 2, this fat binary is the output of the device
    /// linker at build time and can be empty.
    pub container: u64,
    /// In version 2: the address of an array that contains the addresses of fat binaries and ends
    /// with a null address.
    pub list: u64,
}

/// Reads a wrapper's fields. This function does not dereference the addresses in the wrapper.
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
    /// A cubin: machine code for a GPU, which Margay cannot run.
    Cubin(Cubin),
    /// A host program, library or object that contains fat binaries.
    Host(Vec<HostContainer<'a>>),
    /// A static library whose members contain fat binaries.
    Archive(Vec<ArchiveMember<'a>>),
}

/// Whether an image contains code for link-time optimisation (LTO-IR): a fat binary, or a file of the host with fat
/// binaries.
pub fn has_link_time_code(bytes: &[u8]) -> bool {
    let in_container = |container: &Container<'_>| {
        container
            .entries
            .iter()
            .any(|entry| entry.info.kind == EntryKind::Lto)
    };
    let in_hosts =
        |hosts: &[HostContainer<'_>]| hosts.iter().any(|host| in_container(&host.container));
    match Image::parse(bytes) {
        Ok(Image::Fatbin(container)) => in_container(&container),
        Ok(Image::Host(hosts)) => in_hosts(&hosts),
        Ok(Image::Archive(members)) => members.iter().any(|member| in_hosts(&member.containers)),
        Ok(Image::Text(_) | Image::Cubin(_)) | Err(_) => false,
    }
}

impl<'a> Image<'a> {
    /// Parses the image in `bytes`.
    ///
    /// A PTX text ends at the first NUL or at the end of `bytes`. A wrapper is rejected, because this function cannot
    /// dereference the addresses in it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let unrecognised = || ImageError::Unrecognised {
            prefix: bytes[..bytes.len().min(DETECT_LEN)].to_vec(),
        };
        match detect(bytes).ok_or_else(unrecognised)? {
            ImageKind::Wrapper => Err(unrecognised()),
            ImageKind::Fatbin => Container::parse(bytes).map(Image::Fatbin),
            ImageKind::Archive => archive_members(bytes).map(Image::Archive),
            ImageKind::Text => PtxText::bare(until_nul(bytes)).map(Image::Text),
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

/// Converts the bytes before the first NUL to a `String`, without a copy if they are valid UTF-8.
fn text_of(mut bytes: Vec<u8>) -> String {
    bytes.truncate(until_nul(&bytes).len());
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
