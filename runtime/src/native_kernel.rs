//! Native kernels: functions on the CPU that streams and graphs run like kernels.
//!
//! A native kernel consists of *tasks*, which are independent calls of one function. A launch runs each task once, on the
//! workers, in the order of its stream: after all work that a kernel would wait for, and before all work that would wait
//! for a kernel. Tools see the launch as the launch of a kernel with the native kernel's name, whose grid has one block of
//! one thread for each task. [`Stream::launch_native`](crate::Stream::launch_native) launches a native kernel;
//! [`Graph::add_native`](crate::graph::Graph::add_native) and stream captures add it to a graph.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use margay::native_kernel::NativeKernel;
//!
//! let rt = margay::Runtime::new()?;
//! let stream = rt.context()?.legacy_stream();
//! let sum = Arc::new(AtomicU32::new(0));
//! let shared = Arc::clone(&sum);
//! let kernel = NativeKernel::new("add numbers", 5, move |task| {
//!     shared.fetch_add(task, Ordering::Relaxed);
//!     Ok(())
//! });
//! stream.launch_native(&kernel)?;
//! stream.synchronize()?;
//! assert_eq!(sum.load(Ordering::Relaxed), 10);
//! # Ok::<(), margay::Error>(())
//! ```
//!
//! # Errors of tasks
//!
//! A task that returns an error ends the launch, and the error becomes the sticky error of the context, as a fault of a
//! kernel does. The same holds for a task that panics, and on a worker for a task that causes SIGSEGV, SIGBUS, SIGFPE or
//! SIGILL. After such a signal, the resources that the task owns are not released: memory leaks, and a lock that the task
//! held stays locked. The end of a launch (for example because of its time limit, or because the context is destroyed)
//! takes effect between tasks, and does not interrupt a task that runs.
//!
//! A task must not wait for work of a stream; calls that wait return [`crate::Error::NotPermitted`].
//!
//! # Memory
//!
//! A native kernel names the memory that it accesses ([`NativeKernel::reads`], [`NativeKernel::writes`]). A launch fails if
//! a range is not inside memory that kernels may access. If a range stops to be inside such memory before the tasks run,
//! the launch ends with a fault. Checking runs use the ranges in place of the accesses, which they do not see: initcheck
//! reports a read range of which no byte has been written, and regards written ranges as initialised; racecheck compares
//! the ranges with other work that may run at the same time.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, FaultKind, Result};

/// A range of memory that the tasks of a native kernel access.
///
/// ```
/// use margay::native_kernel::MemoryRange;
///
/// let rt = margay::Runtime::new()?;
/// let buffer = rt.alloc::<f32>(8)?;
/// let range = MemoryRange::of(buffer.ptr().address(), 32);
/// assert_eq!(range.bytes, 32);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRange {
    /// The address of the first byte.
    pub address: u64,
    /// Number of bytes. A range of 0 bytes has no effect.
    pub bytes: u64,
}

impl MemoryRange {
    /// Returns the range of `bytes` bytes at `address`.
    pub const fn of(address: u64, bytes: u64) -> MemoryRange {
        MemoryRange { address, bytes }
    }
}

/// The kind of the memory in a range ([`Runtime::range_kind`](crate::Runtime::range_kind)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeKind {
    /// Memory that the runtime does not know: host memory that is not registered, or no memory.
    Unknown,
    /// Device or managed memory.
    Device,
    /// Registered host memory, or host memory that the runtime allocated.
    Host,
    /// Memory of the runtime and other memory, or memory that was freed.
    Partial,
}

/// A range of memory, and whether the tasks write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NativeAccess {
    pub(crate) range: MemoryRange,
    pub(crate) writes: bool,
}

/// The reason why a task of a native kernel failed. It becomes the sticky error of the context.
///
/// ```
/// use margay::FaultKind;
/// use margay::native_kernel::TaskError;
///
/// let error = TaskError::from("the matrix is singular");
/// assert_eq!(error.kind, FaultKind::LaunchFailed);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    /// The kind of the fault that the context reports.
    pub kind: FaultKind,
    /// A description for people.
    pub detail: String,
}

impl TaskError {
    /// Returns an error of this kind.
    pub fn new(kind: FaultKind, detail: impl Into<String>) -> TaskError {
        TaskError {
            kind,
            detail: detail.into(),
        }
    }
}

impl From<&str> for TaskError {
    fn from(detail: &str) -> TaskError {
        TaskError::new(FaultKind::LaunchFailed, detail)
    }
}

impl From<String> for TaskError {
    fn from(detail: String) -> TaskError {
        TaskError::new(FaultKind::LaunchFailed, detail)
    }
}

/// Runs the task with this number.
type Run = dyn Fn(u32) -> Result<(), TaskError> + Send + Sync;

/// A function on the CPU that streams and graphs run like a kernel. Clones share the function.
///
/// The function is dropped when no native kernel, no launch and no graph refers to it any more. If the last reference
/// belongs to a launch, the function is dropped before the launch is complete.
#[derive(Clone)]
pub struct NativeKernel {
    name: Arc<str>,
    tasks: u32,
    run: Arc<Run>,
    accesses: SmallVec<[NativeAccess; 4]>,
}

impl NativeKernel {
    /// Maximum number of tasks of a native kernel: the maximum number of blocks in the x dimension of a grid.
    pub const MOST_TASKS: u32 = i32::MAX as u32;
    /// Maximum number of bytes of a name.
    pub const LONGEST_NAME: usize = 4096;

    /// Returns a native kernel that calls `run(0)` to `run(tasks - 1)`, in any order and from several threads at once. A
    /// graph runs the tasks again at each launch. A launch without tasks does nothing.
    pub fn new(
        name: impl Into<Arc<str>>,
        tasks: u32,
        run: impl Fn(u32) -> Result<(), TaskError> + Send + Sync + 'static,
    ) -> NativeKernel {
        NativeKernel {
            name: name.into(),
            tasks,
            run: Arc::new(run),
            accesses: SmallVec::new(),
        }
    }

    /// Adds a range that the tasks read.
    #[must_use]
    pub fn reads(self, range: MemoryRange) -> NativeKernel {
        self.accesses(range, false)
    }

    /// Adds a range that the tasks write. If they also read it, the range must also be added with
    /// [`NativeKernel::reads`].
    #[must_use]
    pub fn writes(self, range: MemoryRange) -> NativeKernel {
        self.accesses(range, true)
    }

    fn accesses(mut self, range: MemoryRange, writes: bool) -> NativeKernel {
        if range.bytes != 0 {
            self.accesses.push(NativeAccess { range, writes });
        }
        self
    }

    /// Returns the name under which tools and errors show the kernel.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of tasks.
    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    pub(crate) fn ranges(&self) -> &[NativeAccess] {
        &self.accesses
    }

    pub(crate) fn run(&self, task: u32) -> Result<(), TaskError> {
        (self.run)(task)
    }

    /// Returns an error if the name is too long, if there are too many tasks, or if a range exceeds the address space.
    pub(crate) fn check(&self) -> Result<()> {
        if self.name.len() > NativeKernel::LONGEST_NAME {
            return Err(Error::invalid("the name of a native kernel is too long"));
        }
        if self.tasks > NativeKernel::MOST_TASKS {
            let tasks = self.tasks;
            return Err(Error::invalid(format!("a native kernel of {tasks} tasks")));
        }
        let mut ranges = self.accesses.iter().map(|access| access.range);
        match ranges.find(|range| range.address.checked_add(range.bytes).is_none()) {
            Some(MemoryRange { address, bytes }) => Err(Error::invalid(format!(
                "a range of {bytes} bytes at {address:#x}"
            ))),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for NativeKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NativeKernel({}, {} tasks)", self.name, self.tasks)
    }
}
