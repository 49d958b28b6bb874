//! Publishes what a CUDA runtime does as a stream of XPTI events, which performance tools subscribe to.
//!
//! XPTI is the tracing framework of oneAPI. Three parties take part: a *producer* (this crate), the *framework*, a
//! library that the producer loads at run time, and *subscribers*, libraries that the framework loads. The environment
//! variables `XPTI_FRAMEWORK_DISPATCHER` and `XPTI_SUBSCRIBERS` name the libraries ([`Gate`]).
//!
//! The crate does not know Margay's runtime. The runtime calls [`start`] once, and then, for everything that it does,
//! the methods of the [`Producer`] that [`active`] returns. If no tool listens, [`active`] costs one relaxed load and
//! one branch.
//!
//! The producer sends on four streams: `margay` (the graph of kernels, copies and fills, their execution, waits,
//! barriers, CUDA streams), `margay.call` (driver calls), `margay.mem` (allocations) and `margay.diag` (diagnostics).
//! With [`Options::sycl_names`], the first three also appear under the names that existing collectors subscribe to.
//!
//! ```
//! use margay_xpti::{Arguments, Function};
//!
//! fn synchronize() -> u32 {
//!     let function = Function { number: 17, name: c"cuCtxSynchronize" };
//!     let Some(producer) = margay_xpti::active() else { return 0 };
//!     let call = producer.call_enter(function, Arguments::NONE);
//!     producer.call_exit(call, function, Arguments::NONE, 0);
//!     0
//! }
//! assert_eq!(synchronize(), 0);
//! ```
//!
//! Invariants:
//! - Only the module `framework` contains `unsafe` code.
//! - The subscribers get no notification after [`Producer::finish`].
//! - A call that a subscriber makes from a callback causes no notification.
//! - Memory is bounded: [`limits`] lists what is kept for the process, and what happens beyond the bounds.

mod abi;
mod channels;
mod flights;
mod framework;
mod gate;
mod input;
pub mod limits;
mod operation;
mod producer;
mod sites;
mod submission;
mod text;
mod values;

use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use flights::ACTIVE;
pub use framework::Arguments;
pub use gate::{Gate, Off};
pub use input::{
    AllocationKind, BarrierSite, CopyKind, Detail, Device, Function, Location, Options, Reason,
    WaitKind,
};
pub use operation::Operation;
pub use producer::{Allocation, Attached, Barrier, Call, Finished, Producer, Release, Wait};
pub use submission::{Copy, Dependence, Fill, KernelInfo, Launch};

/// The producer of this process: `None` if tracing is off.
static PRODUCER: OnceLock<Option<Producer>> = OnceLock::new();

/// Starts the producer if the environment asks for it ([`Gate`]).
///
/// Returns `None` if the environment does not ask for it. An error is a text for one warning: tracing stays off,
/// because a library or one of its functions is missing. The first call decides: later calls return the same producer,
/// or `None`.
///
/// Subscribers are loaded and initialised by this call, on the calling thread.
pub fn start(options: Options) -> Result<Option<&'static Producer>, String> {
    let mut warning = None;
    let producer = PRODUCER.get_or_init(|| match Gate::from_environment() {
        Gate::Off(_) => None,
        Gate::On { dispatcher } => Producer::open(&dispatcher, options)
            .map_err(|text| warning = Some(format!("XPTI tracing is off: {text}")))
            .ok(),
    });
    if let Some(text) = warning {
        return Err(text);
    }
    let sending = producer.as_ref().filter(|producer| producer.is_open());
    if sending.is_some() {
        ACTIVE.store(true, Relaxed);
    }
    Ok(sending)
}

/// Returns the producer if tracing is on: after a successful [`start`] and before [`Producer::finish`].
#[inline]
pub fn active() -> Option<&'static Producer> {
    // A stale value is harmless: `PRODUCER` orders the access to the producer, and a finished producer sends nothing.
    if ACTIVE.load(Relaxed) {
        return PRODUCER.get()?.as_ref();
    }
    None
}
