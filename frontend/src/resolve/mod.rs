//! Resolution: what the names of a module mean and which form each instruction has.
//!
//! [`Symbol`] says what a name in a body stands for; [`Lookup`] finds it. [`InstructionResolver`]
//! matches instructions against the syntax table ([`margay_ir::forms`]) with that knowledge.
//!
//! Invariant: resolution reports and goes on; it never changes the tree.

mod call;
pub mod instruction;
mod shapes;
pub mod special;
mod symbol;

pub use instruction::{InstructionResolver, ResolvedInstruction};
pub use symbol::{Lookup, Symbol, register_type, state_space};

#[cfg(test)]
mod tests;
