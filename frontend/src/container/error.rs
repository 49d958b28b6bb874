//! The errors that occur when PTX is read from an image. They contain the facts that a user needs
//! to find the cause.
//!
//! Invariant: only [`ImageError::fault`] assigns the errors to classes. The driver library maps each class, an
//! [`ImageFault`], to a CUDA result code.

use std::fmt;

use super::{Codec, EntryKind};

/// The reason why no PTX can be read from an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The image has none of the formats that a CUDA driver accepts.
    #[error("this is not a device image: it begins with {}, not with PTX text, a fat binary or an ELF file", hex(.prefix))]
    Unrecognised {
        /// The first bytes of the image, at most eight.
        prefix: Vec<u8>,
    },
    /// A size or offset in the file points past the end of the file.
    #[error(
        "the {what} at byte {at} needs {needed} bytes, but only {have} follow: the file is cut short or damaged"
    )]
    Truncated {
        /// A description of the part of the file that extends past the end of the file.
        what: &'static str,
        /// The position of the part, counted in bytes from the start of the image.
        at: u64,
        /// The number of bytes that the part needs.
        needed: u64,
        /// The number of bytes from the start of the part to the end of the file.
        have: u64,
    },
    /// A field of the image has a value that the file format does not allow.
    #[error("the {what} at byte {at} is {value}: the file is damaged or of an unknown kind")]
    Field {
        /// The name of the field with the invalid value.
        what: &'static str,
        /// The position of the structure that contains the field, in bytes from the start of the image.
        at: u64,
        /// The invalid value of the field.
        value: u64,
    },
    /// The file declares a size above a limit that is larger than the sizes in all known images.
    #[error("the {what} declares {declared} bytes; the limit is {limit}")]
    TooLarge {
        /// A description of the part of the file that declares the size.
        what: &'static str,
        /// The size that the file declares.
        declared: u64,
        /// The largest size that Margay accepts.
        limit: u64,
    },
    /// Compressed data does not decompress to the size that its header declares.
    #[error("the {codec} data of the {kind} entry is damaged: {reason}")]
    Decompress {
        /// The compression.
        codec: Codec,
        /// The kind of the compressed entry.
        kind: EntryKind,
        /// The decoder's message.
        reason: String,
    },
    /// There is not enough memory for the PTX text of the image.
    #[error("out of memory: {bytes} bytes for the text of the image")]
    OutOfMemory {
        /// The number of bytes that could not be allocated.
        bytes: u64,
    },
    /// The image is machine code for a GPU and contains no PTX.
    #[error("{0}")]
    Cubin(Cubin),
    /// The fat binary is valid but contains nothing that can be compiled.
    #[error("{0}")]
    NoPtx(Found),
    /// The ELF file is not a cubin and contains no fat binaries.
    #[error("this ELF file (machine {machine}) contains no device code")]
    NoDeviceCode {
        /// The header field `e_machine` of the ELF file, which states for which processor the file
        /// is.
        machine: u16,
    },
    /// The ELF file or archive cannot be read.
    #[error("this {what} cannot be read: {reason}")]
    Object {
        /// The kind of the file, as text for the error message.
        what: &'static str,
        /// The error message of the library that reads ELF files and archives.
        reason: String,
    },
}

/// The class of an [`ImageError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFault {
    /// The bytes are damaged or not an image (`CUDA_ERROR_INVALID_IMAGE`).
    InvalidImage,
    /// The image is valid but has no PTX (`CUDA_ERROR_NO_BINARY_FOR_GPU`).
    NoBinary,
    /// There is not enough memory to read the image (`CUDA_ERROR_OUT_OF_MEMORY`).
    OutOfMemory,
}

impl ImageError {
    /// Returns the class of this error.
    pub fn fault(&self) -> ImageFault {
        match self {
            ImageError::Cubin(_) | ImageError::NoPtx(_) | ImageError::NoDeviceCode { .. } => {
                ImageFault::NoBinary
            }
            ImageError::OutOfMemory { .. } => ImageFault::OutOfMemory,
            ImageError::Unrecognised { .. }
            | ImageError::Truncated { .. }
            | ImageError::Field { .. }
            | ImageError::TooLarge { .. }
            | ImageError::Decompress { .. }
            | ImageError::Object { .. } => ImageFault::InvalidImage,
        }
    }
}

/// The facts about a cubin (machine code for one GPU architecture) that an error message contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// The SM number (80 for `sm_80`), if the file's flags contain it.
    pub sm: Option<u32>,
    /// Names of the cubin's kernels, in the symbol table's order.
    pub kernels: Vec<String>,
}

impl fmt::Display for Cubin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this image is a cubin, machine code ")?;
        match self.sm {
            Some(sm) => write!(f, "for sm_{sm} only")?,
            None => f.write_str("for one GPU only")?,
        }
        write_names(f, &self.kernels)?;
        f.write_str(", and contains no PTX; build it with PTX (nvcc -arch=compute_80, or -gencode arch=compute_80,code=compute_80)")
    }
}

/// Maximum number of kernel names in a message.
const NAMES_SHOWN: usize = 4;

fn write_names(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
    write!(f, " (kernels: {}", shown.join(", "))?;
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => f.write_str(")"),
        more => write!(f, " and {more} more)"),
    }
}

/// The contents of a fat binary without PTX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The architectures (80 for `sm_80`) for which the fat binary contains machine code, in
    /// ascending order.
    pub cubins: Vec<u32>,
    /// The architectures for which the fat binary contains intermediate code for link-time
    /// optimisation, in ascending order.
    pub lto: Vec<u32>,
    /// The kind numbers of the entries whose kind is unknown.
    pub other: Vec<u16>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this fat binary contains no PTX, only ")?;
        let mut parts = Vec::new();
        if !self.cubins.is_empty() {
            parts.push(format!("machine code (SASS) for {}", sm_list(&self.cubins)));
        }
        if !self.lto.is_empty() {
            parts.push(format!("link-time code (LTO) for {}", sm_list(&self.lto)));
        }
        if !self.other.is_empty() {
            parts.push(format!("entries of unknown kind {:?}", self.other));
        }
        if parts.is_empty() {
            parts.push("nothing".to_owned());
        }
        f.write_str(&parts.join(" and "))?;
        f.write_str("; build it with PTX (nvcc -arch=compute_80, or -gencode arch=compute_80,code=compute_80)")
    }
}

fn sm_list(sms: &[u32]) -> String {
    let names: Vec<String> = sms.iter().map(|sm| format!("sm_{sm}")).collect();
    names.join(" ")
}

/// Returns the bytes as text: two hexadecimal digits for each byte.
fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing".to_owned();
    }
    let pairs: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    pairs.join(" ")
}
