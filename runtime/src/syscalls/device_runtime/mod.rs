//! CUDA's device runtime: the launches, copies and stream operations that kernels request (CUDA programming guide,
//! "CUDA Dynamic Parallelism").
//!
//! A call records a request ([`Wish`]) and returns immediately. A worker submits the requests after the units that it
//! was running have completed or parked ([`crate::scheduler`]). The delay is permitted because CUDA
//! does not guarantee that a kernel's child grids run at the same time as the kernel. A grid is
//! complete only after all its child grids are complete.
//!
//! A context limits the number of requests that are not complete ([`Pending`]), because device code
//! could otherwise use an unlimited amount of host memory.
//!
//! Invariant: the requests of a stream are submitted in the order of the calls.

mod calls;
mod copies;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::Pending;
use crate::error_texts::CudaError;
pub(in crate::syscalls) use calls::Call;
pub(crate) use copies::Job;

use super::Coordinates;
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::module::Module;
use crate::params::Params;

/// Maximum number of bytes of a launch's parameters.
const LONGEST: u64 = 32_764;
/// Number of bytes that are reserved for the parameters of each pending launch.
const BUFFER: u64 = 4096;

/// Maximum number of streams, and also of events, that one launch can have at the same time.
const MOST_OBJECTS: usize = 1 << 16;

/// Maximum number of threads of a launch for which the runtime stores the last error. In all other
/// threads, calls still return their errors.
const MOST_ERRORS: usize = 1 << 20;

/// Maximum nesting depth of grids (CUDA programming guide, "Nesting depth").
const DEEPEST: u32 = 24;

/// The stream of the device runtime in which a request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    /// The default stream of the block with this linear index.
    Block(u64),
    /// The stream with this ID, which a thread has created.
    Made(u64),
    /// The request may run in any order relative to other requests (`cudaStreamFireAndForget`).
    Loose,
    /// The request runs after all other work of the grid (`cudaStreamTailLaunch`).
    Tail,
}

/// A grid that device code has requested to launch.
pub(crate) struct Child {
    pub(crate) kernel: Kernel,
    pub(crate) config: LaunchConfig,
    pub(crate) params: Params,
    pub(crate) depth: u32,
    /// Time by which the grid must be complete; `None` if there is no time limit.
    pub(crate) deadline: Option<Instant>,
    pub(crate) pending: Pending,
}

/// A request of device code.
pub(crate) enum Wish {
    Launch(Box<Child>),
    Memory(Job, Pending),
    /// A record of the event with this ID (`cudaEventRecord`).
    Record(u64, Pending),
    /// A wait: later work of the stream waits for the last record of the event with this ID.
    Wait(u64, Pending),
}

/// A parameter buffer (`cudaGetParameterBuffer`), which device code fills before it launches a
/// kernel.
struct Configured {
    /// The kernel and the launch configuration; `None` if the later launch call specifies them.
    launch: Option<(Kernel, LaunchConfig)>,
}

/// The device runtime's state for one launch.
pub(crate) struct DeviceRuntime {
    module: Option<Module>,
    /// Nesting depth of the grid: 0 if the host launched it, otherwise one more than the depth of
    /// its parent.
    depth: u32,
    /// Maximum running time of the launch.
    limit: Option<Duration>,
    /// If device code has requested the launch, the time by which it must be complete.
    deadline: Option<Instant>,
    /// Whether device code has made requests that have not been taken ([`DeviceRuntime::take`]).
    some: AtomicBool,
    next: AtomicU64,
    /// `None` until a thread calls a function of the device runtime. Most launches call none.
    state: Mutex<Option<Box<DeviceRuntimeState>>>,
}

#[derive(Default)]
struct DeviceRuntimeState {
    wishes: Vec<(Line, Wish)>,
    /// Time by which all grids that this launch causes must be complete. If the host has launched this grid, the time
    /// is set when the first of these grids is launched.
    deadline: Option<Instant>,
    buffers: FxHashMap<u64, Configured>,
    streams: FxHashSet<u64>,
    events: FxHashSet<u64>,
    /// For each thread in which a call has failed, the thread's last error.
    errors: FxHashMap<(u64, [u32; 3]), u32>,
}

impl DeviceRuntime {
    /// Creates the state for a launch of a kernel of `module`. Without a module, every launch by this kernel fails.
    /// `limit` is the launch's time limit. `deadline` is the launch's deadline if device code has requested the launch.
    pub(crate) fn new(
        module: Option<Module>,
        depth: u32,
        limit: Option<Duration>,
        deadline: Option<Instant>,
    ) -> DeviceRuntime {
        DeviceRuntime {
            module,
            depth,
            limit,
            deadline,
            some: AtomicBool::new(false),
            // The IDs of streams and events are smaller than any pointer and larger than the handles of default
            // streams.
            next: AtomicU64::new(0x100),
            state: Mutex::new(None),
        }
    }

    fn lock(&self) -> MappedMutexGuard<'_, DeviceRuntimeState> {
        MutexGuard::map(self.state.lock(), |state| {
            &mut **state.get_or_insert_with(|| {
                Box::new(DeviceRuntimeState {
                    deadline: self.deadline,
                    ..Default::default()
                })
            })
        })
    }

    /// Returns the time by which a grid that is launched now must be complete. All grids that a launch by the host
    /// causes share one time limit. This limit is as long as the time limit of that launch, and
    /// starts when the first of these grids is launched.
    fn deadline(&self) -> Option<Instant> {
        let limit = self.limit?;
        let mut state = self.lock();
        if state.deadline.is_none() {
            state.deadline = Instant::now().checked_add(limit);
        }
        state.deadline
    }

    /// Removes the requests that device code has made so far, and returns them in the order of the
    /// calls.
    pub(crate) fn take(&self) -> Vec<(Line, Wish)> {
        if !self.has_wishes() {
            return Vec::new();
        }
        let mut state = self.lock();
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut state.wishes)
    }

    /// Returns whether there are requests that have not been taken.
    pub(crate) fn has_wishes(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    fn wish(&self, line: Line, wish: Wish) {
        self.lock().wishes.push((line, wish));
        self.some.store(true, Ordering::Release);
    }

    /// Returns an ID that no other stream or event of the launch has.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, at: &Coordinates, error: CudaError) {
        if error != CudaError::SUCCESS {
            let thread = (at.cta_number, at.thread);
            let errors = &mut self.lock().errors;
            if errors.len() < MOST_ERRORS || errors.contains_key(&thread) {
                errors.insert(thread, error.0);
            }
        }
    }
}
