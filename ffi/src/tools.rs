//! The tools of processes that `margay profile` and `margay trace` run.
//!
//! Environment variables request the tools. The runtime gets them when it is created, and calls of the driver API are
//! passed to those that want them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use margay::observe::{HostEvent, Tool, set_global_tools};
use margay::probe::set_global_prober;

use crate::arguments::{Arguments, Parameters};
use crate::result::CuResult;
use crate::{probes, profiling, records, traces};

/// The address of the function that requests the tools when the library is loaded: before the runtime exists.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    set_global_tools(|| all().to_vec());
    set_global_prober(probes::prober);
    OBSERVES_CALLS.store(traces::observe_calls(), Ordering::Relaxed);
}

/// Whether tools may want to receive calls of the driver API.
static OBSERVES_CALLS: AtomicBool = AtomicBool::new(false);

static TOOLS: OnceLock<Vec<Arc<dyn Tool>>> = OnceLock::new();

/// Whether this process is a child that was forked from a process with tools.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

thread_local! {
    /// Whether the thread creates the tools. This loads foreign libraries, which can call the driver.
    static CREATES: Cell<bool> = const { Cell::new(false) };
}

/// Returns all tools. A forked child process has none, because it shares the files of its parent's tools; nor do calls
/// that a library makes while it is loaded for a tool.
fn all() -> &'static [Arc<dyn Tool>] {
    if IS_CHILD.load(Ordering::Relaxed) || CREATES.get() {
        return &[];
    }
    TOOLS.get_or_init(|| {
        CREATES.set(true);
        // SAFETY: the handler only stores to an atomic, and the library is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        let mut tools = profiling::tools();
        tools.extend(traces::tools());
        tools.extend(probes::tool());
        tools.push(Arc::clone(records::recorder()) as Arc<dyn Tool>);
        CREATES.set(false);
        tools
    })
}

/// Returns whether this process has created its tools.
pub(crate) fn exist() -> bool {
    TOOLS.get().is_some() && !IS_CHILD.load(Ordering::Relaxed)
}

/// Returns whether tools may want to receive calls.
#[inline]
pub(crate) fn observe_calls() -> bool {
    OBSERVES_CALLS.load(Ordering::Relaxed)
}

/// States whether the recorder of activity records wants to receive calls.
pub(crate) fn follow_calls(on: bool) {
    OBSERVES_CALLS.store(on || traces::observe_calls(), Ordering::Relaxed);
}

/// A function that is called before a call, with the name of the called function and its arguments.
pub(crate) type Enter = fn(&'static str, &Parameters) -> Option<Box<dyn Any>>;

/// Functions that are called around each call of the driver API while tools may want to receive calls.
pub(crate) struct CallObserver {
    /// Called before the call. The result is passed to `leave`.
    pub(crate) enter: Enter,
    /// Called after the call, with the function's name and its result.
    pub(crate) leave: fn(Option<Box<dyn Any>>, &str, CuResult),
}

static OBSERVER: OnceLock<CallObserver> = OnceLock::new();

/// Sets the functions that are called around calls of the driver API.
pub(crate) fn observe_calls_with(observer: CallObserver) {
    let _ = OBSERVER.set(observer);
}

/// Returns whether a tool wants to receive annotations.
pub(crate) fn want_annotations() -> bool {
    records::wants_annotations()
        || observe_calls() && all().iter().any(|tool| tool.observes_calls())
}

/// Runs a call of the driver API, and tells the tools that want to receive calls.
#[cold]
pub(crate) fn around(
    name: &'static str,
    arguments: Arguments<'_>,
    body: impl FnOnce() -> CuResult,
) -> CuResult {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let call = NEXT.fetch_add(1, Ordering::Relaxed);
    let parameters = Parameters::of(arguments);
    tell(&HostEvent::BeginCall {
        call,
        name,
        arguments: parameters.words(),
    });
    let observer = OBSERVER.get();
    let site = observer.and_then(|observer| (observer.enter)(name, &parameters));
    let code = body();
    if let Some(observer) = observer {
        (observer.leave)(site, name, code);
    }
    let result = code.0;
    tell(&HostEvent::EndCall {
        call,
        name,
        arguments: parameters.words(),
        result,
    });
    code
}

/// Passes a call or an annotation to the tools that want to receive calls.
pub(crate) fn tell(event: &HostEvent<'_>) {
    let receivers = all().iter().filter(|tool| tool.observes_calls());
    for tool in receivers {
        // A call must not fail because a tool panics.
        let told = catch_unwind(AssertUnwindSafe(|| tool.host(event)));
        if let Err(panic) = told {
            std::mem::forget(panic);
        }
    }
}
