//! Generates native code from IR regions with Cranelift.
//!
//! [`Compiler`] turns a kernel prepared by [`margay_ir::pass::prepare`] into native functions. The *warp form* has one
//! function for each resume point. This function runs the lanes of a mask from the resume point to their next sync
//! points. The *CTA form* is one function that loops over a range of CTAs, over the phases between their barriers, and
//! over their threads. Both forms use the same frame layout for live values ([`margay_ir::analysis::Regions`]). The CTA
//! scheduler of [`margay_exec`] can therefore continue a CTA that the CTA form has left, at any sync point.
//!
//! No Cranelift type appears in this crate's interface.

pub mod abi;
mod addresses;
mod budget;
mod cache;
pub mod code_memory;
mod compiler;
pub mod counters;
mod emit;
mod error;
mod fallback;
pub mod files;
mod function;
mod prepared;
mod pressure;
pub mod signatures;
mod slices;
mod specialisation;
mod stored;
pub mod sync_points;
mod variables;
mod verifiers;

pub use addresses::DescTable;
pub use cache::{DiskCache, digest_of};
pub use compiler::{CompiledKernel, Compiler, Stage, Wide};
pub use emit::reach::{MARGIN, MAX_BLOCKS};
pub use error::CompileError;
pub use fallback::{Fallback, Fallbacks};
pub use function::{CompiledFunction, FaultAt, RunningLane};
pub use margay_x64::faults::Registers;
pub use margay_x64::products;
pub use prepared::PreparedFunction;
pub use slices::Widths;
pub use specialisation::{PerSpecialisation, Specialisation};
pub use stored::{StoredKernel, TextKey};
