//! Resolution: finds the declarations to which the names in a module refer, and selects the syntax form of each
//! instruction.
//!
//! [`resolve()`] checks a whole module. Its result contains the errors, and the form of every
//! instruction, which lowering needs. A [`Symbol`] represents the declaration to which a name in a
//! body refers. The trait [`Lookup`] finds the symbol of a name, and [`Scopes`] implements this
//! trait with the scope rules of PTX. [`InstructionResolver`] uses the symbols to match
//! instructions against the syntax table ([`margay_ptx`]).
//!
//! Invariants: resolution continues after an error, up to a limit on the number of errors.
//! Resolution never changes the syntax tree.

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

pub(crate) use check::resolve_bodies;
pub use check::{Resolution, check, resolve};
pub use instruction::{InstructionResolver, ResolvedInstruction};
pub(crate) use pragma::used_bytes_mask;
pub use scope::Scopes;
pub use symbol::{Lookup, Symbol, register_type, state_space};

#[cfg(test)]
mod check_tests;
#[cfg(test)]
mod tests;
