//! Observation of kernels by tools that third parties write.
//!
//! A [`Tool`] states for each kernel which events it wants ([`Request`]). The kernel is then compiled with operations
//! that record these events. The tool receives the records of each CTA in the order in which the CTA caused the events.
//! [`crate::RuntimeBuilder::tool`] registers a tool. `docs/writing-a-tool.md` explains an example.
//!
//! The requests of all tools are merged: an access that two tools want is recorded once. A kernel
//! that no tool wants to observe has the same code, and is launched in the same way, as in a
//! runtime without tools.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use margay::observe::{AccessKind, Event, Events, Launch, Request, Space, Tool};
//! use margay::{KernelInfo, LaunchConfig, Runtime};
//!
//! /// Counts the bytes that kernels store in global memory.
//! #[derive(Default)]
//! struct StoredBytes(AtomicU64);
//!
//! impl Tool for StoredBytes {
//!     fn name(&self) -> &str {
//!         "stored bytes"
//!     }
//!
//!     fn request(&self, _: &KernelInfo) -> Request {
//!         Request::none().accesses(&[Space::Global], &[AccessKind::Store])
//!     }
//!
//!     fn events(&self, _: &Launch, events: Events<'_>) {
//!         for event in events {
//!             if let Event::Access(access) = event {
//!                 let bytes = access.bytes * access.mask.count_ones();
//!                 self.0.fetch_add(bytes.into(), Ordering::Relaxed);
//!             }
//!         }
//!     }
//! }
//!
//! let tool = Arc::new(StoredBytes::default());
//! let runtime = Runtime::builder().tool(tool.clone()).build()?;
//! let module = runtime.load_ptx(
//!     ".version 7.0 .target sm_80 .address_size 64
//!      .visible .entry fill(.param .u64 to) {
//!          .reg .b32 %i; .reg .b64 %a, %o;
//!          ld.param.u64 %a, [to];
//!          mov.u32 %i, %tid.x;
//!          mul.wide.u32 %o, %i, 4;
//!          add.u64 %a, %a, %o;
//!          st.global.u32 [%a], %i;
//!          ret;
//!      }",
//! )?;
//! let mut to = runtime.alloc::<u32>(48)?;
//! runtime.launch(&module.kernel("fill")?, LaunchConfig::new(1, 48), (&mut to,))?;
//! assert_eq!(to.to_vec()?[47], 47);
//! assert_eq!(tool.0.load(Ordering::Relaxed), 4 * 48);
//! # Ok::<(), margay::Error>(())
//! ```
//!
//! # Delivery
//!
//! [`Tool::events`] runs on the worker threads of the runtime. For each launch, calls occur one after the other: first
//! the beginning of the kernel, then the CTAs in grid order, and finally the end of the kernel. A launch is complete
//! only after the tool has received the launch's last event. The results of a tool are therefore complete when the
//! program has waited for the launch. Calls for different launches can run at the same time.
//!
//! The event records of a CTA wait until all CTAs with lower indices have ended. They wait in memory. If the records of
//! a launch need more than 64 MiB ([`crate::RuntimeBuilder::tool_memory`]), further records wait in a temporary file,
//! which has no name. Records are lost only if this file cannot be read.
//!
//! If a tool panics, the tool receives no further events, a message goes to standard error, and
//! [`crate::Runtime::tool_failures`] returns the reason. The kernel continues.

mod buffer;
mod count;
mod event;
mod events;
mod gate;
mod global;
mod host;
mod launch;
mod pattern;
mod raw;
mod request;
mod sink;
mod spill;
mod tally;
mod tool;
mod tools;
mod worker;

pub use count::{AccessCount, InstructionCount};
pub use event::{
    Access, AccessKind, Addresses, Cta, Event, Events, MemoryOrder, MemoryScope, Space,
};
pub use events::{
    BarrierKind, Branch, CopyGroup, CopyOperation, Fence, Instruction, InstructionRun,
    SyncOperation, Synchronisation,
};
pub use gate::Gate;
pub use global::set_global_tools;
pub use host::{
    AllocationKind, Annotation, AnnotationKind, AnnotationPayload, CopyDirection, Dependence,
    DependenceKind, HostEvent, MemoryPlace, Named, WaitKind,
};
pub use launch::{Launch, Position};
pub use margay_ir::module::{TextOperand, TextOperandKind};
pub use request::{EventKind, Request};
pub use tool::Tool;
pub use tools::ToolFailure;
pub use worker::Worker;

pub(crate) use buffer::CtaBuffer;
pub(crate) use global::tools as global_tools;
pub(crate) use launch::Shape;
pub(crate) use raw::{RawAccess, RawAddresses, RawEvent};
pub(crate) use sink::{Counting, LaunchSink};
pub(crate) use tally::Tally;
pub(crate) use tools::{Observers, Tools};
pub(crate) use worker::Workers;
