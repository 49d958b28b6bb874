//! The encoder of x86-64 instructions.
//!
//! [`Asm`] appends [`Inst`]s to a buffer. An instruction consists of an [`Op`], a [`Width`], operands in the order of
//! Intel's manuals, and options. The [tables](mod@table) say how operations are encoded, what they do with their operands
//! and which CPU features they require; the code is the same for all of them. Of the encodings that fit the operands, the
//! encoder uses the shortest one that the features of the target contain: VEX where nothing of EVEX is required, the
//! compressed displacements of EVEX otherwise, REX only where required.
//!
//! Behind the code are constants, jump tables, and slots for addresses that the loader fills. The finished code refers
//! to them relative to its own position; it can be placed at any address with its alignment.
//!
//! An instruction that does not exist is an [`Error`], not a panic.

mod assembler;
mod encode;
mod error;
mod features;
mod inst;
mod operand;
mod pool;
mod register;
pub mod row;
pub mod table;
#[cfg(test)]
mod tests;

pub use assembler::{Asm, Assembled};
pub use error::{Error, Reason};
pub use features::Features;
pub use inst::{Inst, MAX_OPERANDS};
pub use operand::{Base, Constant, Index, Label, Mem, Operand, Scale, Symbol};
pub use register::{Cond, Gpr, Mask, Rounding, Width, Zmm};
pub use row::{Class, Role};
pub use table::Op;
