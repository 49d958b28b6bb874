//! The x86-64 back end of the vector IR.
//!
//! It turns functions of the vector IR ([`margay_vir`]) into machine code for AVX-512 and AVX2. [`compile`] selects
//! instructions (`isel`), allocates registers (`alloc`, with regalloc2), and emits code (`emit`) with the encoder
//! ([`asm`]). The result, [`code::Code`], states what a loader writes into the code and which instructions may fault.
//!
//! # Invariants
//!
//! - Code computes what the interpreter of the vector IR computes, except the sign and the payload of NaN results that
//!   `docs/semantics.md` leaves unspecified.
//! - Lanes whose mask is false do not access memory.
//! - Calls preserve no vector and mask registers; vector registers have zero upper halves at calls and returns.
#![deny(unsafe_code)]

mod alloc;
pub mod apply;
pub mod asm;
pub mod code;
mod emit;
mod features;
mod frame;
mod isel;
mod mach;
mod pool;

pub use code::Code;
pub use features::Features;

use std::fmt;

use margay_vir::function::Function;

/// The processor for which code is generated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The features of the processor.
    pub features: Features,
    /// Whether code uses vector registers of 256 bits even if there are wider ones.
    pub prefers_256_bits: bool,
}

impl Target {
    /// Returns the target for this host.
    pub fn host() -> Target {
        Target {
            features: Features::host(),
            prefers_256_bits: false,
        }
    }

    /// Returns whether [`compile`] generates code for the target.
    pub fn is_supported(&self) -> bool {
        self.features.contains(Features::LEVEL_AVX2)
    }
}

/// How a function gets its arguments and returns its results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Convention {
    /// In blocks of memory (see [`code`]), which can contain values of all types.
    Blocks,
    /// In registers, by the System V convention: at most six scalar integers, and at most one result, a scalar integer.
    Registers,
}

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

/// Compiles a function, which must pass [`margay_vir::verify`].
///
/// # Errors
///
/// Returns an error if the target has no vector registers of 256 bits, or if the function is too large.
pub fn compile(function: &Function, target: &Target) -> Result<Code, Error> {
    compile_with(function, target, Convention::Blocks)
}

/// Compiles a function, which must pass [`margay_vir::verify`], for callers of a convention.
///
/// # Errors
///
/// Returns the errors of [`compile`], and [`Error::Unsupported`] if the convention does not permit the types of the
/// arguments and results.
pub fn compile_with(
    function: &Function,
    target: &Target,
    convention: Convention,
) -> Result<Code, Error> {
    if !target.is_supported() {
        return Err(Error::Features);
    }
    let has_masks = target.features.contains(Features::AVX512);
    let (selected, arguments, results) = isel::run(function, target, convention)?;
    let vector = selected.widest;
    let input = alloc::Input::new(&selected.mach, vector.bytes(), has_masks);
    let output = input.allocate(has_masks)?;
    let features = target.features.encoder();
    let emitted = emit::run(function, &input, &output, &selected.pool, vector, features)?;
    Ok(Code {
        bytes: emitted.bytes,
        instructions: emitted.instructions,
        alignment: emitted.alignment,
        symbols: emitted.symbols,
        places: emitted.places,
        frame: emitted.frame,
        operations: selected.operations,
        arguments,
        results,
    })
}
