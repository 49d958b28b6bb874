//! Native code from IR regions, through Cranelift.
//!
//! [`Compiler`] turns a kernel prepared by [`margay_ir::pass::prepare`] into native functions: the
//! *warp form*, one function for each region entry that runs the lanes of a mask to their next
//! points; the *CTA form*, one function that loops over the threads of a range of CTAs itself, and
//! over the phases between their barriers.
//! Both keep live values in the same frames ([`margay_ir::analysis::Regions`]), so a CTA can go from
//! the CTA form to the scheduler of [`margay_exec`] in the middle.
//!
//! Cranelift is hidden behind [`emit`]; nothing of it shows in this crate's interface.

pub mod abi;
mod addresses;
mod budget;
mod cache;
pub mod code_memory;
mod compiler;
mod emit;
mod error;
mod fallback;
pub mod files;
mod function;
pub mod points;
mod slices;
mod verifiers;
mod version;

pub use addresses::DescTable;
pub use cache::DiskCache;
pub use compiler::{CompiledKernel, Compiler};
pub use emit::reach::{MARGIN, MAX_BLOCKS};
pub use error::CompileError;
pub use fallback::{Fallback, Fallbacks};
pub use function::CompiledFunction;
pub use slices::Widths;
pub use version::Version;
