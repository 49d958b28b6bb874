//! Margay: CUDA kernels on the CPU.
//!
//! This crate is the runtime of the project, and the interface for Rust programs that embed Margay.
//! It contains [`Runtime`], [`Device`], [`Context`], [`Module`], [`Kernel`], [`Stream`], [`Event`],
//! device memory, launches, and the scheduler that runs launches on all cores. The crate in `ffi/`
//! implements the CUDA driver interface on top of this crate.
//!
//! A launch, copy, fill or host function becomes a *task* of its stream. A task waits for earlier tasks according to
//! CUDA's ordering rules. A launch that is ready runs on the workers of the `scheduler`. A copy runs on a copy thread
//! or on the calling thread, and a host function runs on the callback thread. Kernels are executed through the traits
//! of [`engine`].
//!
//! ```
//! use margay::{LaunchConfig, Result, Runtime};
//!
//! # fn main() -> Result<()> {
//! let src = r"
//! .version 7.0
//! .target sm_80
//! .address_size 64
//! .visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
//! {
//!     .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %rd<4>;
//!     ld.param.u32 %r1, [n];
//!     mov.u32 %r2, %ctaid.x;
//!     mov.u32 %r3, %ntid.x;
//!     mov.u32 %r4, %tid.x;
//!     mad.lo.u32 %r2, %r2, %r3, %r4;
//!     setp.ge.u32 %p, %r2, %r1;
//!     @%p bra done;
//!     ld.param.f32 %f1, [a];
//!     ld.param.u64 %rd1, [x];
//!     ld.param.u64 %rd2, [y];
//!     mul.wide.u32 %rd3, %r2, 4;
//!     add.u64 %rd1, %rd1, %rd3;
//!     add.u64 %rd2, %rd2, %rd3;
//!     ld.global.f32 %f2, [%rd1];
//!     ld.global.f32 %f3, [%rd2];
//!     fma.rn.f32 %f3, %f1, %f2, %f3;
//!     st.global.f32 [%rd2], %f3;
//! done:
//!     ret;
//! }";
//! let (n, a) = (1000u32, 2.0f32);
//! let rt = Runtime::new()?;
//! let m = rt.load_ptx(src)?;
//! let x = rt.upload(&vec![3.0f32; n as usize])?;
//! let mut y = rt.upload(&vec![1.0f32; n as usize])?;
//! rt.launch(&m.kernel("saxpy")?, LaunchConfig::linear(n, 256), (n, a, &x, &mut y))?;
//! assert_eq!(y.to_vec()?, vec![7.0; n as usize]);
//! # Ok(())
//! # }
//! ```

mod call_stack;
mod conditional;
mod divided;
mod enqueue;
mod entry;
mod environment;
mod error_texts;
mod free;
mod heap;
pub mod host_threads;
mod lifetime;
mod machine;
#[cfg(test)]
mod many_tests;
mod mem;
mod object_table;
#[cfg(test)]
mod object_tests;
#[cfg(test)]
mod ordering_tests;
mod output;
mod padded;
mod process;
mod queue;
mod service;
mod settings;
mod small_stack;
mod spin;
mod task;
#[cfg(test)]
mod testing;
mod timeline;
mod visible_devices;
mod wait;

pub mod args;
pub mod buffer;
pub mod cancellation;
pub mod capture;
pub mod checks;
pub mod context;
pub mod copy;
pub mod demangle;
pub mod device;
mod device_config;
pub mod engine;
pub mod error;
pub mod event;
pub mod fault;
pub mod graph;
pub mod input;
pub mod inspect;
pub mod kernel;
pub mod launch;
mod launched;
pub mod library;
pub mod memop;
pub mod memory;
pub mod module;
mod names;
mod native;
mod native_engine;
pub mod native_kernel;
#[cfg(test)]
mod native_tests;
pub mod observe;
pub mod occupancy;
mod params;
pub mod pointer;
pub mod probe;
mod probe_run;
mod probed;
pub mod runtime;
pub mod scheduler;
pub mod stream;
pub mod syscalls;
pub mod texture;
mod texture_table;

pub use margay_frontend::container;
pub use margay_jit::files;

pub use args::{Bytes, KernelArg, KernelArgs};
pub use buffer::{DeviceBuffer, Plain};
pub use context::{Context, Limit, PointerInfo};
pub use copy::{Direction, Transfer};
pub use device::Device;
pub use engine::{EngineChoice, Image, KernelInfo, KernelSizes, LoadOptions, ParamInfo};
pub use error::{CaptureError, Error, Fault, FaultKind, Result, SourceLine};
pub use event::{Event, EventFlags};
pub use kernel::{FunctionAttribute, Kernel};
pub use launch::{Dim3, LaunchConfig};
pub use library::Library;
pub use module::{Module, Symbol};
pub use native_kernel::{MemoryRange, NativeKernel, TaskError};
pub use params::Params;
pub use pointer::{DevicePtr, HostFlags, PointerKind};
pub use runtime::{Runtime, RuntimeBuilder};
pub use service::in_host_function;
pub use stream::{Stream, StreamKind};
