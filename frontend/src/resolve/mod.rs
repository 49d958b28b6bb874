//! Resolution: what the names of a module mean and which form each instruction has.
//!
//! [`resolve()`] walks a whole module, reports what is wrong with it and keeps the form of every
//! instruction for lowering. [`Symbol`] says what a name in a
//! body stands for; [`Lookup`] finds it, and [`Scopes`] is the one that knows PTX's scopes.
//! [`InstructionResolver`] matches instructions against the syntax table ([`margay_ptx`]) with
//! that knowledge.
//!
//! Invariant: resolution reports and goes on; it never changes the tree.

mod call;
mod check;
mod declarations;
mod functions;
mod header;
mod initializers;
pub mod instruction;
mod names;
mod pragma;
pub mod scope;
pub(crate) mod shapes;
pub mod special;
mod symbol;
mod video;

pub use check::{Resolution, check, resolve};
pub use instruction::{InstructionResolver, ResolvedInstruction};
pub use scope::Scopes;
pub use symbol::{Lookup, Symbol, register_type, state_space};

#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod tests;
