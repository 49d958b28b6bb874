//! CUDA's device runtime: what kernels launch, copy and order themselves (dynamic parallelism; CUDA
//! programming guide, "CUDA Dynamic Parallelism").
//!
//! A call notes what is wanted ([`Wish`]) and answers at once; the worker submits the wishes when the units
//! that it runs have stopped ([`crate::scheduler`]), since a kernel may not count on its children to run beside
//! it. A grid is complete when its children are.
//!
//! Invariant: wishes of one stream keep their order.

mod calls;
mod copies;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error_texts::CudaError;
pub(in crate::syscalls) use calls::Call;
pub(crate) use copies::Job;

use super::Coordinates;
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::module::Module;
use crate::params::Params;

/// Bytes of a launch's parameters, at most.
const LONGEST: u64 = 32_764;
/// Bytes that are set aside for those of a pending launch.
const BUFFER: u64 = 4096;

/// Grids nest so deep, at most ("Nesting depth").
const DEEPEST: u32 = 24;

/// Where a wish is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    /// The default stream of a block.
    Block(u64),
    /// A stream that a thread has made.
    Made(u64),
    /// In no order (`cudaStreamFireAndForget`).
    Loose,
    /// When all other work of the grid is complete (`cudaStreamTailLaunch`).
    Tail,
}

/// A grid to launch.
pub(crate) struct Child {
    pub(crate) kernel: Kernel,
    pub(crate) config: LaunchConfig,
    pub(crate) params: Params,
    pub(crate) depth: u32,
}

/// What device code wants done.
pub(crate) enum Wish {
    Launch(Box<Child>),
    Memory(Job),
    /// An event is recorded.
    Record(u64),
    /// Later work waits for an event's last record.
    Wait(u64),
}

/// A launch whose parameters are being written.
struct Configured {
    /// None: the launch will tell.
    launch: Option<(Kernel, LaunchConfig)>,
}

/// The device runtime's state for one launch.
pub(crate) struct DeviceRuntime {
    module: Option<Module>,
    /// How many grids up the first one is that the host launched.
    depth: u32,
    /// Whether there are wishes.
    some: AtomicBool,
    next: AtomicU64,
    state: Mutex<DeviceRuntimeState>,
}

#[derive(Default)]
struct DeviceRuntimeState {
    wishes: Vec<(Line, Wish)>,
    buffers: FxHashMap<u64, Configured>,
    streams: FxHashSet<u64>,
    events: FxHashSet<u64>,
    /// The last error of each thread that has one.
    errors: FxHashMap<(u64, [u32; 3]), u32>,
}

impl DeviceRuntime {
    /// For a launch of a module's kernel; without a module every launch is refused.
    pub(crate) fn new(module: Option<Module>, depth: u32) -> DeviceRuntime {
        DeviceRuntime {
            module,
            depth,
            some: AtomicBool::new(false),
            // Streams and events: no pointer that a program could have is so small, nor a default stream.
            next: AtomicU64::new(0x100),
            state: Mutex::default(),
        }
    }

    /// Takes the wishes so far, in the order in which they were made.
    pub(crate) fn take(&self) -> Vec<(Line, Wish)> {
        if !self.has_wishes() {
            return Vec::new();
        }
        let mut state = self.state.lock();
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut state.wishes)
    }

    /// Whether there are any.
    pub(crate) fn has_wishes(&self) -> bool {
        self.some.load(Ordering::Acquire)
    }

    fn wish(&self, line: Line, wish: Wish) {
        self.state.lock().wishes.push((line, wish));
        self.some.store(true, Ordering::Release);
    }

    /// A number that nothing of the launch has.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, at: &Coordinates, error: CudaError) {
        if error != CudaError::SUCCESS {
            let thread = (at.cta_number, at.thread);
            self.state.lock().errors.insert(thread, error.0);
        }
    }
}
