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
mod error;
mod features;
mod frame;
mod isel;
mod mach;
mod pool;

pub use code::Code;
pub use error::Error;
pub use features::{Features, Target};

use margay_vir::function::Function;

/// Compiles a function, which must pass [`margay_vir::verify`].
///
/// # Errors
///
/// Returns an error if the target has no vector registers of 256 bits, or if the function is too large.
pub fn compile(function: &Function, target: &Target) -> Result<Code, Error> {
    if !target.features.contains(Features::LEVEL_AVX2) {
        return Err(Error::Features);
    }
    let has_masks = target.features.contains(Features::AVX512);
    let (selected, arguments, results) = isel::run(function, target)?;
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
