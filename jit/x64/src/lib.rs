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
//! - Loads of one block between which nothing else has an effect may run in another order. Their faults are those of the
//!   order of the program ([`code::Cause::Rows`]).
//! - Calls preserve no vector and mask registers; vector registers have zero upper halves at calls and returns.
#![deny(unsafe_code)]

mod alloc;
pub mod apply;
pub mod asm;
pub mod code;
mod emit;
mod error;
pub mod faults;
mod features;
mod frame;
mod isel;
mod mach;
mod pool;
pub mod products;

pub use code::Code;
pub use error::Error;
pub use features::{Features, Target};

use std::time::{Duration, Instant};

use margay_vir::function::Function;

/// How a function gets its arguments and returns its results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Convention {
    /// In blocks of memory (see [`code`]), which can contain values of all types.
    Blocks,
    /// In registers, by the System V convention: at most six scalar integers, and at most one result, a scalar integer.
    Registers,
}

/// The order of the blocks from which the register allocator estimates how often each block runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockOrder {
    /// The order of the code, in which blocks that rarely run come last. Such blocks count as parts of all loops to which
    /// they lead back.
    Code,
    /// An order in which the blocks of each loop are contiguous. It is better for short loops with blocks that rarely run.
    Loops,
}

/// Compiles a function, which must pass [`margay_vir::verify`].
///
/// # Errors
///
/// Returns an error if the target has no vector registers of 256 bits, or if the function is too large.
pub fn compile(function: &Function, target: &Target) -> Result<Code, Error> {
    compile_with(function, target, Convention::Blocks, BlockOrder::Code)
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
    order: BlockOrder,
) -> Result<Code, Error> {
    compile_watched(function, target, (convention, order), |_, _, _| {})
}

/// Does what [`compile_with`] does. After each stage, calls `watch` with the name of the stage, the time that it took, and
/// the number of machine instructions or, after the last stage, the number of bytes of code.
///
/// # Errors
///
/// Returns the errors of [`compile_with`].
pub fn compile_watched(
    function: &Function,
    target: &Target,
    (convention, order): (Convention, BlockOrder),
    mut watch: impl FnMut(&'static str, Duration, usize),
) -> Result<Code, Error> {
    if !target.is_supported() {
        return Err(Error::Features);
    }
    let has_masks = target.features.contains(Features::AVX512);
    let mut start = Instant::now();
    let mut stage = |name, size| {
        watch(name, start.elapsed(), size);
        start = Instant::now();
    };
    let (selected, arguments, results) = isel::run(function, target, (convention, order))?;
    let vector = selected.widest;
    let input = alloc::Input::new(&selected.mach, vector.bytes(), has_masks);
    stage("select", input.insts.len());
    let output = input.allocate(has_masks)?;
    stage("allocate", input.insts.len());
    let features = target.features.encoder();
    let emitted = emit::run(function, &input, &output, &selected.pool, vector, features)?;
    let groups = selected.mach.groups.clone();
    stage("emit", emitted.instructions as usize);
    Ok(Code {
        bytes: emitted.bytes,
        instructions: emitted.instructions,
        alignment: emitted.alignment,
        symbols: emitted.symbols,
        places: emitted.places,
        groups,
        frame: emitted.frame,
        quick_registers: input.is_large(),
        operations: selected.operations,
        arguments,
        results,
    })
}
