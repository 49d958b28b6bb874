//! The tools that are registered with a runtime, and the tools that observe a certain kernel.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use margay_ir::observe::Selection;

use super::{Events, Gate, HostEvent, Launch, Request, Tool, Worker, request};
use crate::engine::KernelInfo;
use crate::error::{Error, Result};

/// A tool that has panicked and receives no further events.
///
/// ```
/// let runtime = margay::Runtime::new()?;
/// assert_eq!(runtime.tool_failures(), []);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolFailure {
    /// The name of the tool.
    pub tool: String,
    /// The message of the panic.
    pub reason: String,
}

struct Registered {
    tool: Arc<dyn Tool>,
    name: String,
    failure: OnceLock<String>,
    gate: Option<Arc<Gate>>,
}

impl Registered {
    /// Returns whether the tool has no gate, or an open one.
    #[inline]
    fn is_open(&self) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.is_open())
    }

    /// Calls the tool. If the tool panics, or has panicked before, returns `None`.
    fn call<T>(&self, call: impl FnOnce(&dyn Tool) -> T) -> Option<T> {
        if self.failure.get().is_some() {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(|| call(&*self.tool))) {
            Ok(result) => Some(result),
            Err(panic) => {
                let reason = text_of(&*panic);
                let name = &self.name;
                crate::error::tell(&format!(
                    "the tool `{name}` panicked and receives no further events: {reason}"
                ));
                let _ = self.failure.set(reason);
                None
            }
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without text".to_owned())
}

/// All tools of a runtime.
#[derive(Default)]
pub(crate) struct Tools {
    all: Vec<Registered>,
    /// Maximum size of a launch's records in memory, in 64-bit words. Further records are stored in
    /// a file.
    limit: usize,
    /// The indices in `all` of the tools that observe the host.
    of_host: Box<[usize]>,
    /// Whether a tool without a gate observes the host.
    always: bool,
    /// The gates of the other tools that observe the host.
    gates: Box<[Arc<Gate>]>,
}

/// Default of [`Tools::limit`], in 64-bit words: 64 MiB.
const LIMIT: usize = 8 << 20;

impl Tools {
    /// Registers the tools of a runtime. `bytes` is the maximum size of a launch's records in
    /// memory.
    pub(crate) fn new(tools: Vec<Arc<dyn Tool>>, bytes: Option<usize>) -> Tools {
        let named = |tool: Arc<dyn Tool>| {
            let name = catch_unwind(AssertUnwindSafe(|| tool.name().to_owned()));
            Registered {
                name: name.unwrap_or_else(|_| "a tool without name".to_owned()),
                gate: catch_unwind(AssertUnwindSafe(|| tool.gate())).unwrap_or(None),
                tool,
                failure: OnceLock::new(),
            }
        };
        let all: Vec<Registered> = tools.into_iter().map(named).collect();
        let observes = |registered: &Registered| registered.call(|tool| tool.observes_host());
        let of_host = (0..all.len()).filter(|&index| observes(&all[index]) == Some(true));
        let of_host: Box<[usize]> = of_host.collect();
        let gates = of_host.iter().map(|&index| all[index].gate.as_ref());
        Tools {
            always: gates.clone().any(|gate| gate.is_none()),
            gates: gates.flatten().cloned().collect(),
            of_host,
            all,
            limit: bytes.map_or(LIMIT, |bytes| bytes / 8),
        }
    }

    /// Passes an event of the host to the tools that observe the host.
    #[inline]
    pub(crate) fn tell<'a>(&self, event: impl FnOnce() -> HostEvent<'a>) {
        if self.observe_host() {
            self.tell_all(&event());
        }
    }

    #[cold]
    fn tell_all(&self, event: &HostEvent<'_>) {
        for &index in &self.of_host {
            let registered = &self.all[index];
            if registered.is_open() {
                registered.call(|tool| tool.host(event));
            }
        }
    }

    /// Returns whether a tool observes the host at the moment.
    #[inline]
    pub(crate) fn observe_host(&self) -> bool {
        self.always || self.gates.iter().any(|gate| gate.is_open())
    }

    /// Numbers a new piece of work, and tells the tools that observe the host the event that describes it. Returns the
    /// number, or 0 if no tool observes the host.
    #[inline]
    pub(crate) fn announce<'a>(&self, event: impl FnOnce(u64) -> HostEvent<'a>) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if !self.observe_host() {
            return 0;
        }
        let work = NEXT.fetch_add(1, Ordering::Relaxed);
        self.tell_all(&event(work));
        work
    }

    /// Returns whether tools may observe what kernels do, besides their beginnings and ends.
    pub(crate) fn observe_kernels(&self) -> bool {
        self.all.iter().any(|registered| registered.gate.is_none())
    }

    /// Returns the tools that have panicked.
    pub(crate) fn failures(&self) -> Vec<ToolFailure> {
        let failed = self.all.iter().filter_map(|registered| {
            Some(ToolFailure {
                tool: registered.name.clone(),
                reason: registered.failure.get()?.clone(),
            })
        });
        failed.collect()
    }

    /// Asks each tool which events of a kernel it wants to receive. Returns `None` if no tool wants to observe the
    /// kernel.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if a tool requests an event that is not implemented.
    pub(crate) fn observers(
        self: &Arc<Tools>,
        kernel: &KernelInfo,
    ) -> Result<Option<Arc<Observers>>> {
        let mut requests = Vec::new();
        for (index, registered) in self.all.iter().enumerate() {
            let Some(request) = registered.call(|tool| tool.request(kernel)) else {
                continue;
            };
            if let Some(kind) = request.unsupported() {
                return Err(Error::unsupported(format!(
                    "events that the tool `{}` requests: {}",
                    registered.name,
                    kind.name()
                )));
            }
            if registered.gate.is_some() && request != Request::none().launches() {
                return Err(Error::unsupported(format!(
                    "events of kernels that the tool `{}`, which has a gate, requests",
                    registered.name
                )));
            }
            if !request.is_empty() {
                requests.push((index, request));
            }
        }
        let selections = requests.iter().map(|(_, request)| request.selection());
        let selection = selections.fold(Selection::default(), Selection::union);
        let all: Vec<&Request> = requests.iter().map(|(_, request)| request).collect();
        let selection = request::counted(selection, &all);
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let observers = Observers {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            tools: Arc::clone(self),
            requests,
            selection,
        };
        Ok((!observers.requests.is_empty()).then(|| Arc::new(observers)))
    }
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.all.iter().map(|registered| &registered.name);
        f.debug_list().entries(names).finish()
    }
}

/// The tools that observe a kernel, with their requests.
pub(crate) struct Observers {
    /// A number that is unique in the process.
    pub(crate) id: u64,
    tools: Arc<Tools>,
    requests: Vec<(usize, Request)>,
    selection: Selection,
}

impl Observers {
    /// Returns the selection of operations: the operations that the kernel's code must contain so
    /// that it records the requested events.
    pub(crate) fn selection(&self) -> Selection {
        self.selection
    }

    /// Returns the maximum size of a launch's records in memory, in 64-bit words.
    pub(super) fn limit(&self) -> usize {
        self.tools.limit
    }

    /// Returns whether a tool may want the events of a launch at the moment.
    pub(crate) fn is_open(&self) -> bool {
        let mut indices = self.requests.iter().map(|&(index, _)| index);
        indices.any(|index| self.tools.all[index].is_open())
    }

    /// Returns the tools that receive the events of the launch `launch`.
    pub(super) fn of_launch(&self, launch: &Launch) -> Vec<Arc<Receiver>> {
        let asked = self.requests.iter().filter(|(index, _)| {
            let tool = &self.tools.all[*index];
            tool.is_open() && tool.call(|tool| tool.observes(launch)) == Some(true)
        });
        let receivers = asked.map(|&(index, request)| {
            Arc::new(Receiver {
                tools: Arc::clone(&self.tools),
                index,
                request,
            })
        });
        receivers.collect()
    }
}

/// A tool that receives the events of a launch.
pub(super) struct Receiver {
    tools: Arc<Tools>,
    index: usize,
    pub(super) request: Request,
}

impl Receiver {
    /// Passes events to the tool.
    pub(super) fn receive(&self, launch: &Launch, events: Events<'_>) {
        self.tools.all[self.index].call(|tool| tool.events(launch, events));
    }

    /// Returns a receiver of the events of one thread, if the tool wants events without delay.
    pub(super) fn worker(&self, launch: &Launch) -> Option<Box<dyn Worker>> {
        self.tools.all[self.index].call(|tool| tool.worker(launch))?
    }

    /// Calls a receiver of the tool ([`Worker`]), unless the tool has panicked before.
    pub(super) fn call(&self, call: impl FnOnce()) {
        self.tools.all[self.index].call(|_| call());
    }
}
