//! Lowers the vector IR (VIR, see [`margay_vir`]) to Cranelift IR with vectors of 128 bits: SSE on x86-64, NEON on
//! aarch64. It uses no Cranelift instruction that only one machine has.
//!
//! [`lower()`] appends the code of a VIR function to a Cranelift function with the signature [`abi::entry_signature`]. The
//! caller compiles it, writes the addresses of helpers and descriptions into the code ([`symbols::Site`]), and finds the
//! VIR instruction of a machine instruction by its source location ([`abi::Origin`]).
//!
//! # Values
//!
//! Scalars are Cranelift scalars. A vector is a list of registers of 128 bits, each with four lanes of 32 bits, two of 64
//! bits or one of 128 bits. Integers of 8 and 16 bits are zero-extended to 32 bits, because Cranelift has the most
//! instructions for lanes of this width, and because four lanes of each kind then belong together. A mask has 32 bits for
//! each lane, which are all ones or all zeros; comparisons create and selections use this form without a conversion.
//!
//! # Operations
//!
//! A `map` has one of three forms, in this order of preference: vector instructions; scalar instructions for each lane;
//! a call of the reference function ([`apply`]), which exists for all operations. The [`Report`] counts the last two.
//! Floating-point results have the bits that the interpreter computes, except for the sign and the payload of NaNs.
//!
//! # Memory
//!
//! A lane whose mask is false accesses no memory of the program. Contiguous accesses use whole registers for groups of
//! four lanes that are all active; other lanes access memory one by one in ascending order. Instead of an inactive lane,
//! the code accesses a cell of its stack frame.
//!
//! If an access faults, the memory fault is at the machine instruction, whose [`abi::Origin`] contains the lowest lane that
//! the instruction accesses. A store of a whole register that faults has stored nothing; the handler of the fault replays
//! the stores of the lanes below the one that faults.
#![forbid(unsafe_code)]

pub mod abi;
pub mod apply;
mod calls;
mod code;
mod control;
mod entry;
mod group;
mod lanes;
mod lower;
mod map;
mod masks;
mod memory;
mod permute;
pub mod symbols;
mod values;

use std::fmt;

use cranelift_frontend::FunctionBuilder;
use margay_vir::function::Function;

use crate::apply::LaneCall;

/// What the machine has. An x86-64 machine needs at least the level v2, which includes SSE4.2; for older machines, compiled
/// code contains relocations that are no [`symbols::Site`].
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether the machine has instructions for fused multiply-add. All machines with NEON have them.
    pub has_fma: bool,
}

/// What the lowering of a function found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The operations that the code applies by calls, by number. The code contains their addresses
    /// ([`symbols::Symbol::LaneCall`]), so they must not move while it exists.
    pub lane_calls: Vec<LaneCall>,
    /// The names of the operations that calls apply, with the number of their instructions.
    pub fallbacks: Vec<(&'static str, u32)>,
    /// The names of the operations on vectors that have scalar code for each lane, with the number of their instructions.
    pub unrolled: Vec<(&'static str, u32)>,
}

/// Why a function cannot be lowered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The function has more instructions than [`abi::MAX_INSTS`].
    TooManyInstructions(usize),
    /// The function contains an op that is not lowered.
    Unsupported(&'static str),
    /// The function violates an invariant that [`margay_vir::verify`] checks.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooManyInstructions(count) => write!(
                f,
                "the function has {count} instructions; the most are {}",
                abi::MAX_INSTS
            ),
            Error::Unsupported(op) => write!(f, "`{op}` is not lowered"),
            Error::Invalid(problem) => write!(f, "the function is invalid: {problem}"),
        }
    }
}

impl std::error::Error for Error {}

/// Appends the code of `function`, which must pass [`margay_vir::verify`], to an empty Cranelift function with the
/// signature [`abi::entry_signature`]. The caller finalizes the builder.
///
/// # Errors
///
/// Returns an error if the function is too large. The errors for functions that do not pass the verifier are not complete.
pub fn lower(
    function: &Function,
    builder: &mut FunctionBuilder<'_>,
    machine: Machine,
) -> Result<Report, Error> {
    if function.insts.len() > abi::MAX_INSTS {
        return Err(Error::TooManyInstructions(function.insts.len()));
    }
    lower::Lower::new(function, builder, machine).run()
}
