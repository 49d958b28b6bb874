//! The error of compilation.

use std::fmt;

use crate::asm;

/// Why a function has not been compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The processor has neither AVX2 nor AVX-512.
    Features,
    /// The back end does not support an op of the vector IR.
    Unsupported(&'static str),
    /// Register allocation failed; the text states why.
    Allocation(String),
    /// The encoder rejected an instruction.
    Encoding(asm::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Features => f.write_str("the processor has neither AVX2 nor AVX-512"),
            Error::Unsupported(op) => write!(f, "`{op}` is not supported"),
            Error::Allocation(reason) => write!(f, "register allocation failed: {reason}"),
            Error::Encoding(error) => write!(f, "encoding failed: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<asm::Error> for Error {
    fn from(error: asm::Error) -> Error {
        Error::Encoding(error)
    }
}
