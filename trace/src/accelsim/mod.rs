//! Instruction traces for the simulator Accel-Sim.
//!
//! [`Tracer`] is a tool that writes one file for each launch, and lists of all launches, in the formats of the original
//! tracer (crate `margay_accelsim`). The instructions are those of the PTX text, as the machine instructions that
//! usually stand for them ([`Architecture`]). Masks and addresses are exact.

mod kernel;
mod listing;
mod options;
mod registers;
mod sass;
mod spill;
mod tracer;
mod warps;

pub use options::{Forms, Options};
pub use sass::Architecture;
pub use tracer::Tracer;
