//! Publishes what a program does to XPTI subscribers.
//!
//! [`Publisher`] is a tool that passes the events of the host to a producer of XPTI events (crate `margay_xpti`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::time::Duration;

use margay::observe::{self as events, Event, Events, HostEvent, Launch, Request, Tool};
use margay::{KernelInfo, ParamInfo};
use margay_xpti::{
    self as xpti, AllocationKind, Arguments, Call, CopyKind, Function, Operation, Options,
    Producer, Reason, Wait, WaitKind,
};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::host::{MOST_ENDED, Waited, is_failure, waited_for};

/// A tool that publishes to XPTI subscribers.
pub struct Publisher {
    producer: &'static Producer,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Work that is described but not submitted.
    described: FxHashMap<u64, Work>,
    /// Work that is submitted, and whether it has ended. Of work that has ended, the newest [`MOST_ENDED`] pieces are kept.
    operations: BTreeMap<u64, (Operation, bool)>,
    /// Host functions with the work before them, which is the work before their successors. The newest [`MOST_ENDED`] are
    /// kept.
    functions: BTreeMap<u64, Vec<events::Dependence>>,
    /// The work of launches, by the number of the launch.
    launches: FxHashMap<u64, u64>,
    streams: FxHashSet<u64>,
    /// The sizes of live allocations.
    live: FxHashMap<u64, u64>,
    /// The parameters of kernels, by name.
    parameters: FxHashMap<String, Arc<[ParamInfo]>>,
}

/// A described piece of work.
enum Work {
    Kernel {
        name: String,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u64,
        arguments: Vec<Vec<u8>>,
        stream: Option<u64>,
    },
    Copy {
        kind: CopyKind,
        to: u64,
        from: u64,
        bytes: u64,
        stream: Option<u64>,
    },
    Fill {
        value: u32,
        to: u64,
        bytes: u64,
        stream: Option<u64>,
    },
    /// A host function, which is no operation of XPTI.
    HostFunction,
}

/// The time that the end of the program waits for running work.
const WAIT: Duration = Duration::from_secs(2);

impl Work {
    fn stream(&self) -> Option<u64> {
        match *self {
            Work::Kernel { stream, .. } | Work::Copy { stream, .. } | Work::Fill { stream, .. } => {
                stream
            }
            Work::HostFunction => None,
        }
    }
}

impl State {
    /// Replaces host functions in a list by the work before them.
    fn through_functions(&self, after: &[events::Dependence]) -> Vec<events::Dependence> {
        let expanded = after
            .iter()
            .flat_map(|known| match self.functions.get(&known.work) {
                Some(before) => before.clone(),
                None => vec![*known],
            });
        expanded.collect()
    }
}

impl Publisher {
    /// Starts to publish if the environment requests it ([`margay_xpti::Gate`]). Returns `None` if it does not.
    ///
    /// # Errors
    /// Returns the text of a warning if the framework cannot be loaded.
    pub fn start() -> Result<Option<Publisher>, String> {
        let options = Options {
            version_text: concat!("Margay ", env!("CARGO_PKG_VERSION")).to_owned(),
            devices: vec![xpti::Device {
                name: "Margay".to_owned(),
                kind: "gpu".to_owned(),
            }],
            sycl_names: std::env::var_os("MARGAY_XPTI_SYCL_NAMES")
                .is_some_and(|value| value == "1"),
            ..Options::default()
        };
        let producer = xpti::start(options)?;
        Ok(producer.map(|producer| Publisher {
            producer,
            state: Mutex::default(),
        }))
    }

    /// Ends the publication. Work that still runs is waited for, for at most two seconds.
    pub fn finish(&self) {
        self.producer.finish(WAIT);
    }

    fn submit(&self, work: u64, after: &[events::Dependence]) {
        let (described, before) = {
            let mut state = self.state.lock();
            let described = state.described.remove(&work);
            let after = state.through_functions(after);
            if let Some(Work::HostFunction) = described {
                state.functions.insert(work, after);
                if state.functions.len() > MOST_ENDED {
                    state.functions.pop_first();
                }
                return;
            }
            let before: Vec<(Operation, Reason)> = after
                .iter()
                .filter_map(|known| {
                    let (operation, _) = state.operations.get(&known.work)?;
                    Some((operation.clone(), reason(known.kind)))
                })
                .collect();
            (described, before)
        };
        let Some(described) = described else {
            return;
        };
        self.announce_stream(described.stream());
        let after: Vec<xpti::Dependence<'_>> = before
            .iter()
            .map(|(on, reason)| xpti::Dependence {
                on,
                reason: *reason,
            })
            .collect();
        let Some(operation) = self.send(&described, work, &after) else {
            return;
        };
        let mut state = self.state.lock();
        state.operations.insert(work, (operation, false));
        if state.operations.len() > MOST_ENDED {
            let oldest = state.operations.first_entry();
            if let Some(oldest) = oldest.filter(|oldest| oldest.get().1) {
                oldest.remove();
            }
        }
    }

    fn send(
        &self,
        described: &Work,
        correlation: u64,
        after: &[xpti::Dependence<'_>],
    ) -> Option<Operation> {
        let function = current_function();
        Some(match described {
            Work::Kernel {
                name,
                grid,
                block,
                shared_bytes,
                arguments,
                stream,
            } => {
                let readable = margay::demangle::readable(name);
                let kernel = xpti::KernelInfo {
                    name: &readable,
                    symbol: name,
                    location: None,
                };
                let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
                let launch = xpti::Launch {
                    grid: *grid,
                    block: *block,
                    shared_bytes: *shared_bytes,
                    stream: *stream,
                    device: 0,
                    correlation,
                    arguments: &arguments,
                    after,
                };
                self.producer.submit_kernel(&kernel, &launch)
            }
            Work::Copy {
                kind,
                to,
                from,
                bytes,
                stream,
            } => self.producer.submit_copy(&xpti::Copy {
                function,
                kind: *kind,
                to: *to,
                from: *from,
                bytes: *bytes,
                stream: *stream,
                location: None,
                correlation,
                after,
            }),
            Work::HostFunction => return None,
            Work::Fill {
                value,
                to,
                bytes,
                stream,
            } => self.producer.submit_fill(&xpti::Fill {
                function,
                value: u64::from(*value),
                to: *to,
                bytes: *bytes,
                stream: *stream,
                location: None,
                correlation,
                after,
            }),
        })
    }

    /// Announces a default stream when it is used the first time.
    fn announce_stream(&self, stream: Option<u64>) {
        if let Some(stream) = stream
            && self.state.lock().streams.insert(stream)
        {
            self.producer.stream_created(stream);
        }
    }

    fn operation(&self, work: u64) -> Option<Operation> {
        let state = self.state.lock();
        let known = state.operations.get(&work);
        known.map(|(operation, _)| operation.clone())
    }

    fn begin(&self, work: u64) {
        if let Some(operation) = self.operation(work) {
            drop(self.producer.begin(&operation));
        }
    }

    fn end(&self, work: u64) {
        if let Some(operation) = self.operation(work) {
            self.producer.end(&operation);
            if let Some((_, has_ended)) = self.state.lock().operations.get_mut(&work) {
                *has_ended = true;
            }
        }
    }

    fn allocated(&self, address: u64, bytes: u64, kind: AllocationKind) {
        let allocation = self
            .producer
            .allocate_begin(current_function(), kind, bytes);
        self.producer.allocate_end(allocation, address);
        self.state.lock().live.insert(address, bytes);
    }

    fn freed(&self, address: u64) {
        let bytes = self.state.lock().live.remove(&address).unwrap_or(0);
        let release = self
            .producer
            .release_begin(current_function(), address, bytes);
        self.producer.release_end(release);
    }

    fn arguments(&self, kernel: &str, bytes: &[u8]) -> Vec<Vec<u8>> {
        let parameters = self.state.lock().parameters.get(kernel).cloned();
        let parameters = parameters.as_deref().unwrap_or(&[]);
        let parts = parameters.iter().filter_map(|parameter| {
            let start = parameter.offset as usize;
            bytes.get(start..start + parameter.size as usize)
        });
        parts.map(<[u8]>::to_vec).collect()
    }
}

fn reason(kind: events::DependenceKind) -> Reason {
    match kind {
        events::DependenceKind::NullStream => Reason::NullStream,
        events::DependenceKind::Event => Reason::Event,
        events::DependenceKind::Graph => Reason::Graph,
        _ => Reason::StreamOrder,
    }
}

fn copy_kind(direction: events::CopyDirection) -> CopyKind {
    match direction {
        events::CopyDirection::HostToDevice => CopyKind::HostToDevice,
        events::CopyDirection::DeviceToHost => CopyKind::DeviceToHost,
        events::CopyDirection::HostToHost => CopyKind::HostToHost,
        // The runtime decides the direction of `cuMemcpy` by the addresses when the copy runs.
        events::CopyDirection::DeviceToDevice | events::CopyDirection::Unified => {
            CopyKind::DeviceToDevice
        }
    }
}

/// A call that a thread has begun.
struct Open {
    function: Function<'static>,
    call: Call,
    wait: Option<Wait<'static>>,
}

thread_local! {
    static CALLS: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// Returns the innermost function of the driver API that the calling thread executes.
fn current_function() -> Function<'static> {
    const NONE: Function<'static> = Function {
        number: 0,
        name: c"margay",
    };
    let found = CALLS.try_with(|calls| {
        let calls = calls.try_borrow().ok()?;
        calls.last().map(|open| open.function)
    });
    found.ok().flatten().unwrap_or(NONE)
}

/// Returns the function with a name. Its number is a hash of the name (FNV-1a), so that it is the same in all versions.
fn function(name: &'static str) -> Function<'static> {
    static KNOWN: Mutex<BTreeMap<&'static str, &'static CStr>> = Mutex::new(BTreeMap::new());
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let mut known = KNOWN.lock();
    let kept = known.entry(name).or_insert_with(|| {
        // The number of functions bounds the memory.
        Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str())
    });
    Function {
        number: name.bytes().fold(0x811c_9dc5, hash),
        name: kept,
    }
}

/// Returns the kind of a function that waits.
fn wait_kind(function: &str) -> Option<WaitKind> {
    waited_for(function).map(|waited| match waited {
        Waited::Stream => WaitKind::Stream,
        Waited::Event => WaitKind::Event,
        Waited::Context => WaitKind::Context,
    })
}

impl Publisher {
    fn begin_call(&self, name: &'static str, arguments: &[u64]) {
        let function = function(name);
        let call = self
            .producer
            .call_enter(function, Arguments::of_words(arguments));
        let wait = wait_kind(name).map(|kind| self.producer.wait_begin(function, kind));
        let open = Open {
            function,
            call,
            wait,
        };
        let _ = CALLS.try_with(|calls| calls.borrow_mut().push(open));
    }

    fn end_call(&self, name: &str, arguments: &[u64], result: u32) {
        let open = CALLS.try_with(|calls| calls.borrow_mut().pop());
        let Ok(Some(open)) = open else {
            return;
        };
        if let Some(wait) = open.wait {
            self.producer.wait_end(wait);
        }
        if is_failure(result) {
            self.producer
                .diagnostic(&format!("{name} failed with CUresult {result}"));
        }
        self.producer.call_exit(
            open.call,
            open.function,
            Arguments::of_words(arguments),
            result,
        );
    }

    fn describe(&self, work: u64, described: Work) {
        self.state.lock().described.insert(work, described);
    }
}

impl Tool for Publisher {
    fn name(&self) -> &str {
        "XPTI"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none().launches()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        for event in events {
            if let Event::KernelBegin = event {
                let work = self.state.lock().launches.remove(&launch.id());
                if let Some(work) = work {
                    self.begin(work);
                }
            }
        }
    }

    fn observes_host(&self) -> bool {
        true
    }

    fn observes_calls(&self) -> bool {
        true
    }

    fn host(&self, event: &HostEvent<'_>) {
        match *event {
            HostEvent::BeginCall {
                name, arguments, ..
            } => self.begin_call(name, arguments),
            HostEvent::EndCall {
                name,
                arguments,
                result,
                ..
            } => self.end_call(name, arguments, result),
            HostEvent::Launch {
                launch,
                work,
                kernel,
                grid,
                block,
                dynamic_shared,
                arguments,
                stream,
                ..
            } => {
                self.state.lock().launches.insert(launch, work);
                let described = Work::Kernel {
                    name: kernel.to_owned(),
                    grid: [grid.x, grid.y, grid.z],
                    block: [block.x, block.y, block.z],
                    shared_bytes: dynamic_shared.into(),
                    arguments: self.arguments(kernel, arguments),
                    stream,
                };
                self.describe(work, described);
            }
            HostEvent::Copy {
                work,
                direction,
                bytes,
                to,
                from,
                stream,
                ..
            } => {
                let kind = copy_kind(direction);
                let described = Work::Copy {
                    kind,
                    to,
                    from,
                    bytes,
                    stream,
                };
                self.describe(work, described);
            }
            HostEvent::Fill {
                work,
                bytes,
                value,
                to,
                stream,
                ..
            } => {
                let described = Work::Fill {
                    value,
                    to,
                    bytes,
                    stream,
                };
                self.describe(work, described);
            }
            HostEvent::HostFunction { work, .. } => self.describe(work, Work::HostFunction),
            HostEvent::Submit { work, after } => self.submit(work, after),
            HostEvent::BeginWork { work } => self.begin(work),
            HostEvent::EndWork { work } => self.end(work),
            HostEvent::CreateStream { stream, .. } => self.announce_stream(Some(stream)),
            HostEvent::DestroyStream { stream } => {
                self.state.lock().streams.remove(&stream);
                self.producer.stream_destroyed(stream);
            }
            HostEvent::RecordEvent { event, after, .. } => {
                if let Some(operation) = after.and_then(|work| self.operation(work)) {
                    self.producer.event_recorded(event, &operation);
                }
            }
            HostEvent::Allocate {
                address,
                bytes,
                kind,
                ..
            } => self.allocated(
                address,
                bytes,
                match kind {
                    events::AllocationKind::Device => AllocationKind::Device,
                    events::AllocationKind::Managed => AllocationKind::Managed,
                    events::AllocationKind::Pinned => AllocationKind::Pinned,
                },
            ),
            HostEvent::Free { address, .. } => self.freed(address),
            HostEvent::LoadModule { kernels, .. } => {
                let mut state = self.state.lock();
                for kernel in kernels {
                    state
                        .parameters
                        .insert(kernel.name.clone(), kernel.params.clone().into());
                }
                drop(state);
                self.producer.module_loaded();
            }
            _ => {}
        }
    }
}
