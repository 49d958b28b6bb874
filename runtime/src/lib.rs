//! Margay: CUDA kernels on the CPU.
//!
//! The runtime of the project and its embedding interface: [`Runtime`], [`Device`],
//! [`Context`], [`Module`], [`Kernel`], [`Stream`], [`Event`], device memory, launches and the
//! scheduler that runs them over all cores. `ffi` puts the CUDA driver interface on top of this
//! and nothing else.
//!
//! How it hangs together: a launch, copy, fill or host function becomes a *task* in its stream;
//! tasks depend on earlier tasks by CUDA's ordering rules; a ready launch is run by the workers
//! of the `scheduler`, a ready copy by the copy thread, a ready host function by the callback
//! thread. Kernels are executed through the traits of [`engine`].

mod machine;
mod mem;
mod occupancy;
#[cfg(test)]
mod ordering_tests;
mod service;
mod task;
#[cfg(test)]
mod testing;

pub mod args;
pub mod buffer;
pub mod context;
pub mod copy;
pub mod device;
pub mod engine;
pub mod error;
pub mod event;
pub mod fault;
pub mod kernel;
pub mod launch;
pub mod memory;
pub mod module;
mod native;
pub mod runtime;
pub mod scheduler;
pub mod stream;
pub mod syscalls;

pub use margay_frontend::container;

pub use args::{Bytes, KernelArg, KernelArgs};
pub use buffer::{DeviceBuffer, DevicePtr, Plain};
pub use context::{Context, HostFlags, Limit, PointerInfo, PointerKind};
pub use copy::{Direction, Transfer};
pub use device::Device;
pub use engine::{Image, KernelInfo, LoadOptions, ParamInfo};
pub use error::{Error, Fault, FaultKind, Result};
pub use event::{Event, EventFlags};
pub use kernel::{FunctionAttribute, Kernel};
pub use launch::{Dim3, LaunchConfig};
pub use module::{Library, Module, Symbol};
pub use runtime::{Runtime, RuntimeBuilder};
pub use service::in_host_function;
pub use stream::{Stream, StreamKind};
