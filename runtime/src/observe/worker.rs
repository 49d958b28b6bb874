//! Receivers that get the events of a CTA on the thread that runs the CTA, without delay.

use std::sync::Arc;

use parking_lot::Mutex;

use super::event::{Cta, Event};
use super::raw::{RawAccess, RawEvent};
use super::tools::Receiver;
use super::{Launch, events, raw};

/// Receives the events of CTAs on the thread that runs the CTAs, at the time when they occur.
///
/// Events are not recorded for such a receiver, so it is the fastest way to count something. The events of a CTA arrive
/// in their order, but a CTA can continue on another thread after it has waited, with another receiver. The runtime
/// keeps a receiver for further CTAs of the launch, and drops it before the tool receives the end of the launch. A tool
/// thus adds the counts of a receiver to its own when the receiver is dropped.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use margay::observe::{AccessKind, Event, Events, Launch, Request, Space, Tool, Worker};
/// use margay::{KernelInfo, LaunchConfig, Runtime};
///
/// /// Counts the accesses of lanes to global memory.
/// #[derive(Default)]
/// struct Accesses(Arc<AtomicU64>);
///
/// struct Counter {
///     count: u64,
///     total: Arc<AtomicU64>,
/// }
///
/// impl Worker for Counter {
///     fn event(&mut self, event: &Event<'_>) {
///         if let Event::Access(access) = event {
///             self.count += u64::from(access.mask.count_ones());
///         }
///     }
/// }
///
/// impl Drop for Counter {
///     fn drop(&mut self) {
///         self.total.fetch_add(self.count, Ordering::Relaxed);
///     }
/// }
///
/// impl Tool for Accesses {
///     fn name(&self) -> &str {
///         "accesses"
///     }
///
///     fn request(&self, _: &KernelInfo) -> Request {
///         Request::none().accesses(&[Space::Global], &AccessKind::ALL)
///     }
///
///     fn events(&self, _: &Launch, _: Events<'_>) {}
///
///     fn worker(&self, _: &Launch) -> Option<Box<dyn Worker>> {
///         let total = Arc::clone(&self.0);
///         Some(Box::new(Counter { count: 0, total }))
///     }
/// }
///
/// let tool = Arc::new(Accesses::default());
/// let runtime = Runtime::builder().tool(tool.clone()).build()?;
/// let module = runtime.load_ptx(
///     ".version 7.0 .target sm_80 .address_size 64
///      .visible .entry clear(.param .u64 to) {
///          .reg .b32 %i; .reg .b64 %a, %o;
///          ld.param.u64 %a, [to];
///          mov.u32 %i, %tid.x;
///          mul.wide.u32 %o, %i, 4;
///          add.u64 %a, %a, %o;
///          st.global.u32 [%a], 0;
///          ret;
///      }",
/// )?;
/// let mut to = runtime.alloc::<u32>(48)?;
/// runtime.launch(&module.kernel("clear")?, LaunchConfig::new(2, 48), (&mut to,))?;
/// runtime.synchronize()?;
/// assert_eq!(tool.0.load(Ordering::Relaxed), 2 * 48);
/// # Ok::<(), margay::Error>(())
/// ```
pub trait Worker: Send {
    /// A thread begins to run CTAs of the launch, perhaps several in succession, and uses this receiver from now on.
    fn resume(&mut self) {}

    /// The thread no longer runs CTAs of the launch. Another thread can use the receiver later.
    fn pause(&mut self) {}

    /// A CTA begins or continues on this thread. The events that follow belong to this CTA.
    fn enter(&mut self, cta: &Cta) {
        let _ = cta;
    }

    /// Receives an event. These are the requested events except the beginning and the end of the kernel and of CTAs.
    fn event(&mut self, event: &Event<'_>);

    /// Receives the number of instructions that a warp of the current CTA has executed since the last call for this warp.
    /// Called before each barrier and collective that the tool requests, and before [`Worker::leave`], if the request has
    /// [`super::Request::counts`] with [`super::EventKind::Ctas`] and [`super::EventKind::InstructionRuns`].
    fn instructions(&mut self, warp: u32, count: u64) {
        let _ = (warp, count);
    }

    /// A CTA has ended, or waits and continues later, perhaps on another thread.
    fn leave(&mut self, cta: &Cta) {
        let _ = cta;
    }
}

/// The receivers of one thread: those of all tools that have one.
pub(crate) struct Workers {
    all: Vec<(Arc<Receiver>, Box<dyn Worker>)>,
    /// Memory for the addresses of an access.
    addresses: [u64; 32],
}

impl Workers {
    fn new(all: Vec<(Arc<Receiver>, Box<dyn Worker>)>) -> Workers {
        Workers {
            all,
            addresses: [0; 32],
        }
    }

    /// Passes to the receivers that the calling thread begins to use them.
    fn resume(&mut self) {
        for (receiver, worker) in &mut self.all {
            receiver.call(|| worker.resume());
        }
    }

    /// Passes to the receivers that the calling thread no longer uses them.
    fn pause(&mut self) {
        for (receiver, worker) in &mut self.all {
            receiver.call(|| worker.pause());
        }
    }

    /// Passes to the receivers that the current CTA begins or continues.
    pub(crate) fn enter(&mut self, cta: &Cta) {
        for (receiver, worker) in &mut self.all {
            receiver.call(|| worker.enter(cta));
        }
    }

    /// Passes to the receivers that the current CTA ends or waits.
    pub(crate) fn leave(&mut self, cta: &Cta) {
        for (receiver, worker) in &mut self.all {
            receiver.call(|| worker.leave(cta));
        }
    }

    /// Passes the number of instructions of a warp of the current CTA to the receivers that want it.
    pub(crate) fn instructions(&mut self, warp: u32, count: u64) {
        for (receiver, worker) in &mut self.all {
            if receiver.request.counts_warps() {
                receiver.call(|| worker.instructions(warp, count));
            }
        }
    }

    /// Passes an access of the current CTA to the receivers that want it.
    pub(crate) fn access(&mut self, what: &RawAccess<'_>) {
        let kind = raw::kind_of(what.access.mode);
        for (receiver, worker) in &mut self.all {
            if receiver.request.has_each(what.space, kind, what.is_counted) {
                let event = Event::Access(raw::access_of(what, &mut self.addresses));
                receiver.call(|| worker.event(&event));
            }
        }
    }

    /// Passes another event of the current CTA to the receivers that want it.
    pub(crate) fn event(&mut self, what: &RawEvent<'_>) {
        let mut operands = [0; 4];
        let count = what.operands.len().min(operands.len());
        for (operand, &given) in operands.iter_mut().zip(what.operands) {
            *operand = given.into();
        }
        let Some(event) = events::of(what.event, raw::place_of(what), &operands[..count]) else {
            return;
        };
        for (receiver, worker) in &mut self.all {
            if receiver.request.contains(&event) {
                receiver.call(|| worker.event(&event));
            }
        }
    }
}

/// The receivers of a launch that no thread uses at the moment.
pub(super) struct Idle(Mutex<Vec<Workers>>);

impl Idle {
    /// Creates the receivers of the first thread.
    pub(super) fn new(all: Vec<(Arc<Receiver>, Box<dyn Worker>)>) -> Idle {
        let first = (!all.is_empty()).then(|| Workers::new(all));
        Idle(Mutex::new(first.into_iter().collect()))
    }

    /// Returns receivers for the calling thread. `None` if no tool has any.
    pub(super) fn take(&self, launch: &Launch, receivers: &[Arc<Receiver>]) -> Option<Workers> {
        if receivers.is_empty() {
            return None;
        }
        let known = self.0.lock().pop();
        let mut workers = known.unwrap_or_else(|| {
            let all = receivers
                .iter()
                .filter_map(|receiver| Some((Arc::clone(receiver), receiver.worker(launch)?)));
            Workers::new(all.collect())
        });
        workers.resume();
        Some(workers)
    }

    /// Stores receivers for the next thread.
    pub(super) fn put(&self, mut workers: Workers) {
        workers.pause();
        self.0.lock().push(workers);
    }

    /// Drops all receivers.
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        for workers in all {
            for (receiver, worker) in workers.all {
                receiver.call(move || drop(worker));
            }
        }
    }
}
