//! Exact profiles of CUDA kernels: instructions, memory transactions, bank conflicts, divergence, barriers.
//!
//! [`Profiler`] is a tool ([`margay::observe::Tool`]) that counts what kernels do. All counts except times are
//! properties of the program: they are the same on every machine, with every number of workers. [`Profile`] is the
//! result, which can be written as JSON, read, merged and compared. [`findings`] names what is worth changing.
//!
//! ```
//! use std::sync::Arc;
//!
//! use margay::{LaunchConfig, Runtime};
//! use margay_profile::{Options, Profiler};
//!
//! let profiler = Arc::new(Profiler::new(Options::default()));
//! let builder = Runtime::builder();
//! let runtime = profiler.tools().into_iter().fold(builder, |builder, tool| builder.tool(tool)).build()?;
//! let module = runtime.load_ptx(
//!     ".version 7.0 .target sm_80 .address_size 64
//!      .visible .entry clear(.param .u64 to) {
//!          .reg .b32 %i; .reg .b64 %a, %o;
//!          ld.param.u64 %a, [to];
//!          mov.u32 %i, %tid.x;
//!          mul.wide.u32 %o, %i, 128;
//!          add.u64 %a, %a, %o;
//!          st.global.u32 [%a], 0;
//!          ret;
//!      }",
//! )?;
//! let mut to = runtime.alloc::<u32>(32 * 64)?;
//! runtime.launch(&module.kernel("clear")?, LaunchConfig::new(1, 64), (&mut to,))?;
//! runtime.synchronize()?;
//! let profile = profiler.profile();
//! let store = &profile.kernels[0].accesses[0].counts;
//! // Each of the 2 warps stores to 32 sectors; 4 would be enough for 32 contiguous words.
//! assert_eq!((store.requests, store.sectors, store.ideal_sectors), (2, 64, 8));
//! # Ok::<(), margay::Error>(())
//! ```

mod collect;
mod counts;
mod cta;
mod document;
pub mod findings;
mod kernel;
mod memo;
mod opcode;
mod options;
mod requests;
mod reuse;
mod save;
mod summary;
mod text;

pub use collect::Profiler;
pub use document::{
    AccessCounts, AccessRow, BarrierCounts, BarrierRow, CopyRow, CtaBalance, FORMAT,
    InstructionCounts, InstructionRow, KernelProfile, LaunchShape, OccupancyRow, Profile,
    ReadError, ReuseRow, Slice, SourceRow, StrideRow,
};
pub use findings::Finding;
pub use opcode::{Class, Precision, lane_operations, warp_operations};
pub use options::Options;
pub use summary::{Flops, LineSummary, Summary, Traffic};
