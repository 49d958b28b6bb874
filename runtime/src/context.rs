//! Contexts: a context owns streams, events, modules and memory, and keeps its first fault as a sticky error.
//!
//! Invariant: an object belongs to one *life* of one context. When the context is reset or destroyed, that life ends:
//! the object becomes invalid, and every later use returns an error. A primary context can have several lives. A
//! context that the program creates has one life.

pub(crate) mod leaks;
mod memory;
mod natives;
mod peers;
mod registry;
mod work;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::environment::number;
use crate::error::{Error, Fault, FaultKind, Result};
use crate::heap::DeviceHeap;
use crate::host_threads;
use crate::machine::Machine;
use crate::memory::host_memory;
use crate::output::Output;
use crate::padded::Padded;
use crate::pointer::{HostFlags, PointerKind};
use crate::process::{check_fork, next_id};
use crate::queue::Queues;
use crate::service::in_host_function;
use crate::task::Owner;
use natives::Natives;

/// A context. Clones refer to the same context. Every use of a destroyed context returns [`Error::ContextDestroyed`].
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let context = rt.context()?;
/// let ptr = context.alloc(1024)?;
/// assert_eq!(context.address_range(ptr)?, (ptr, 1024));
/// context.free(ptr)?;
/// context.synchronize()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    id: u64,
    machine: Arc<Machine>,
    /// Ordinal of the context's device.
    device: i32,
    primary: bool,
    alive: AtomicBool,
    /// How often the context was reset or destroyed. An object of the context stores the value that
    /// this counter had when the object was created. If the counter has a different value, the
    /// object is no longer valid.
    life: AtomicU64,
    flags: AtomicU32,
    cache_config: AtomicU32,
    shared_config: AtomicU32,
    failed: AtomicBool,
    fault: Mutex<Option<Arc<Fault>>>,
    limits: Limits,
    /// IDs of the contexts for which the program has enabled peer access from this context.
    peers: Mutex<std::collections::BTreeSet<u64>>,
    /// Time limit of launches in nanoseconds. [`NO_LIMIT`] means that the time limit of the runtime applies.
    time_limit: AtomicU64,
    /// Number of the context's tasks that are not complete.
    pending: Padded<AtomicUsize>,
    /// Number of bytes of parameters of all launches that are not complete.
    parameters: Arc<AtomicUsize>,
    /// Number of tasks that have completed since the context was created.
    completed: Padded<AtomicUsize>,
    /// Whether a call has stopped waiting for room since the context last had room
    /// ([`Context::make_room`]). If not, `crowded` has its initial value.
    overfull: AtomicBool,
    crowded: Mutex<Crowded>,
    idle: Mutex<()>,
    became_idle: Condvar,
    pub(crate) queues: Queues,
    pub(crate) output: Output,
    heap: Arc<DeviceHeap>,
    /// Buffers in which kernels write the parameters of child launches.
    launch_buffers: Arc<DeviceHeap>,
    /// Number of requests by device code that are not complete ([`Pending`]).
    device_requests: Arc<AtomicUsize>,
    natives: Natives,
}

/// A request by device code, such as a child launch, that is not complete. The context counts these
/// requests and limits their number ([`Limit::DevRuntimePendingLaunchCount`]).
pub(crate) struct Pending(Arc<AtomicUsize>);

/// Counts the bytes of a launch's parameters in [`Inner::parameters`] until this value is dropped.
pub(crate) struct Parameters {
    /// `None` if there are no bytes.
    count: Option<Arc<AtomicUsize>>,
    bytes: usize,
}

impl Drop for Parameters {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Returns whether all work that was submitted to the context is complete.
    fn is_idle(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Ends the current life of the context: objects that were created in this life become invalid,
    /// and work that has not started is dropped instead of being started.
    fn end_life(&self) {
        self.alive.store(false, Ordering::SeqCst);
        self.life.fetch_add(1, Ordering::SeqCst);
    }

    /// Writes a message about a fault to standard error. If the fault is an access to an illegal
    /// address without details, first adds a description of the memory at this address to the
    /// fault. The first fault of the context becomes sticky and stops all other launches of the
    /// context, as on a GPU. If these launches continued, a launch that waits for the failed launch
    /// would never end.
    fn make_sticky(&self, mut fault: Fault) {
        if let (FaultKind::IllegalAddress, Some(address), true) =
            (fault.kind, fault.address, fault.detail.is_empty())
        {
            let machine = &self.machine;
            let space = machine.memory.space();
            fault.detail = space
                .describe(address)
                .or_else(|| machine.scheduler().describe_window(address))
                .unwrap_or_else(|| host_memory(address));
        }
        report(&fault);
        {
            let mut slot = self.fault.lock();
            if slot.is_some() {
                return;
            }
            *slot = Some(Arc::new(fault));
            self.failed.store(true, Ordering::Release);
        }
        self.stop_launches();
    }

    /// Stops every running launch of this context.
    fn stop_launches(&self) {
        let scheduler = self.machine.scheduler();
        for run in scheduler.active_runs() {
            if run.is_of(self.id) {
                scheduler.stop(&run, None);
            }
        }
    }
}

impl From<Arc<Inner>> for Context {
    fn from(inner: Arc<Inner>) -> Context {
        Context { inner }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.inner.id)
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Context {}

impl Drop for Inner {
    fn drop(&mut self) {
        self.machine.memory.release_context(self.id);
    }
}

/// The value of `time_limit` in a context for which the program has not set a time limit.
const NO_LIMIT: u64 = u64::MAX;

/// Calls that submit work wait if the context has at least [`MOST_PENDING`] pending tasks, or if
/// the parameters of pending launches have at least [`MOST_PARAMETERS`] bytes. A call stops waiting
/// if no task completes within [`NO_PROGRESS`]. The queues of GPUs have about as many entries. The records of more
/// launches would not stay in the processor's caches until the launches run.
const MOST_PENDING: usize = 1 << 10;
const MOST_PARAMETERS: usize = 64 << 20;
const NO_PROGRESS: Duration = Duration::from_millis(200);
/// Minimum value of [`Crowded::patience`], which repeated timeouts shorten.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

/// The state of waiting for room in a context ([`Context::make_room`]). All calls that submit work
/// to the context share this state.
struct Crowded {
    /// The number of completed tasks at the time when a call stopped waiting because no task
    /// completed. Later calls do not wait as long as the number of completed tasks is the same.
    stuck_at: Option<usize>,
    /// The time without progress after which a call stops waiting. This time is halved whenever a
    /// call stops waiting because of it. The total wait is therefore short in a program whose
    /// pending tasks wait for an action of the program itself.
    patience: Duration,
}

impl Default for Crowded {
    fn default() -> Crowded {
        Crowded {
            stuck_at: None,
            patience: NO_PROGRESS,
        }
    }
}

/// Maximum value of [`Limit::DevRuntimeSyncDepth`].
const DEEPEST_SYNC: u64 = 24;

/// Values of the limits, indexed by [`Limit`].
struct Limits([AtomicU64; 11]);

impl Limits {
    /// The default values of the limits, which are the values that a device of capability 8.6
    /// reports.
    const DEFAULTS: [u64; 11] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0, 0];

    /// Returns the limits that each new context of this process has at first. The variable
    /// `MARGAY_STACK_SIZE` changes the default stack size.
    fn defaults() -> [u64; 11] {
        let mut values = Limits::DEFAULTS;
        // Startup reports other values as ignored.
        let bytes = number("MARGAY_STACK_SIZE").filter(|bytes| STACK_SIZES.contains(bytes));
        if let Some(bytes) = bytes {
            values[Limit::StackSize as usize] = stack_size(bytes);
        }
        values
    }

    fn reset(&self) {
        for (limit, default) in self.0.iter().zip(Limits::defaults()) {
            limit.store(default, Ordering::Relaxed);
        }
    }
}

/// The sizes in bytes that the stack of a device thread can have.
const STACK_SIZES: RangeInclusive<u64> = 16..=512 << 10;

/// Returns the size of the stack that a device thread gets if the program asks for `bytes` bytes.
fn stack_size(bytes: u64) -> u64 {
    let bytes = bytes.clamp(*STACK_SIZES.start(), *STACK_SIZES.end());
    bytes.next_multiple_of(16)
}

impl Default for Limits {
    fn default() -> Limits {
        Limits(Limits::defaults().map(AtomicU64::new))
    }
}

/// The limits of a context, with the numbers of `CUlimit`.
///
/// ```
/// use margay::Limit;
///
/// let context = margay::Runtime::new()?.context()?;
/// context.set_limit(Limit::MallocHeapSize, 16 << 20)?;
/// assert!(context.limit(Limit::MallocHeapSize)? >= 16 << 20);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Limit {
    /// Bytes of the stack of a device thread.
    StackSize = 0,
    /// Bytes of the printf buffer.
    PrintfFifoSize = 1,
    /// Bytes of the heap for device-side malloc.
    MallocHeapSize = 2,
    /// Maximum nesting depth at which device code synchronises with child launches.
    DevRuntimeSyncDepth = 3,
    /// Maximum number of pending launches by device code.
    DevRuntimePendingLaunchCount = 4,
    /// Granularity of fetches to L2, a hint of 0 to 128 bytes.
    MaxL2FetchGranularity = 5,
    /// Bytes of L2 set aside for persisting accesses; always 0.
    PersistingL2CacheSize = 6,
    /// Maximum number of bytes of shared memory of kernels in a context that was created for
    /// graphics (CIG); read-only.
    SharedMemorySize = 7,
    /// Whether the context was created for graphics (CIG); always 0 and read-only.
    CigEnabled = 8,
    /// Whether kernels in a context created for graphics (CIG) still run if they need more shared memory than such a
    /// context permits.
    CigSharedMemoryFallback = 9,
    /// Bytes of CUDA's per-block memory (`CU_LIMIT_PER_BLOCK_MEMORY_SIZE`). The value is stored and has no effect.
    PerBlockMemorySize = 10,
}

impl Limit {
    /// Returns the limit with this number.
    ///
    /// # Errors
    /// [`Error::UnsupportedLimit`] when no limit has this number.
    pub fn from_number(number: i32) -> Result<Limit> {
        Ok(match number {
            0 => Limit::StackSize,
            1 => Limit::PrintfFifoSize,
            2 => Limit::MallocHeapSize,
            3 => Limit::DevRuntimeSyncDepth,
            4 => Limit::DevRuntimePendingLaunchCount,
            5 => Limit::MaxL2FetchGranularity,
            6 => Limit::PersistingL2CacheSize,
            7 => Limit::SharedMemorySize,
            8 => Limit::CigEnabled,
            9 => Limit::CigSharedMemoryFallback,
            10 => Limit::PerBlockMemorySize,
            _ => return Err(Error::UnsupportedLimit(number)),
        })
    }
}

/// Describes the allocation that contains an address.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let buffer = rt.alloc::<u8>(100)?;
/// let address = buffer.ptr().address();
/// let info = rt.pointer_info(address + 7).expect("the address is in the buffer");
/// assert_eq!((info.base, info.size), (address, 100));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PointerInfo {
    /// The kind of the allocation's memory.
    pub kind: PointerKind,
    /// Start of the allocation.
    pub base: u64,
    /// Requested size of the allocation in bytes.
    pub size: u64,
    /// The context that owns the memory. If no context owns the memory, this is the primary context of its device.
    pub context: Context,
    /// The flags of the memory, if it is pinned or registered host memory.
    pub flags: HostFlags,
    /// The ID of the allocation, which is unique in the address space and never reused
    /// (`CU_POINTER_ATTRIBUTE_BUFFER_ID`). All mappings of a physical allocation have the same ID.
    pub id: u64,
    /// Whether the memory comes from a stream-ordered pool.
    pub pooled: bool,
    /// Ordinal of the device that the memory belongs to, or -1 for host memory of the virtual memory interface.
    pub device: i32,
    /// Whether the memory is a mapping of the virtual memory interface.
    pub mapped: bool,
    /// Whether the memory belongs to another process.
    pub imported: bool,
    /// Whether the memory belongs to a module, an array, a graph, the runtime or another process, so that functions
    /// such as `cuMemFree` do not free it.
    pub internal: bool,
}

impl Context {
    pub(crate) fn new(machine: &Arc<Machine>, device: i32, primary: bool, flags: u32) -> Context {
        let id = next_id();
        let inner = Arc::new(Inner {
            id,
            machine: Arc::clone(machine),
            device,
            primary,
            alive: AtomicBool::new(!primary),
            life: AtomicU64::new(1),
            flags: AtomicU32::new(flags),
            cache_config: AtomicU32::new(0),
            shared_config: AtomicU32::new(0),
            failed: AtomicBool::new(false),
            fault: Mutex::new(None),
            limits: Limits::default(),
            peers: Mutex::default(),
            time_limit: AtomicU64::new(NO_LIMIT),
            pending: Padded::default(),
            parameters: Arc::default(),
            overfull: AtomicBool::new(false),
            crowded: Mutex::default(),
            completed: Padded::default(),
            idle: Mutex::new(()),
            became_idle: Condvar::new(),
            queues: Queues::new(machine.timeline.clone(), machine.tools.observe_host()),
            output: Output::default(),
            heap: DeviceHeap::new(machine, device, id),
            launch_buffers: DeviceHeap::new(machine, device, id),
            device_requests: Arc::default(),
            natives: Natives::default(),
        });
        registry::add(&inner);
        Context { inner }
    }

    pub(crate) fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.inner)
    }

    /// Returns this context as an [`Owner`], which tasks refer to.
    pub(crate) fn owner(&self) -> Arc<dyn Owner> {
        Arc::clone(&self.inner) as _
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.inner.machine
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Returns the context's ID, which is unique in the process, never 0 and never reused (`cuCtxGetId`).
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Returns the ordinal of the context's device.
    pub(crate) fn ordinal(&self) -> i32 {
        self.inner.device
    }

    /// Returns whether this is a device's primary context.
    pub fn is_primary(&self) -> bool {
        self.inner.primary
    }

    /// Returns an error if the context was destroyed, if it has a sticky fault, or if this process
    /// was forked from the process that created the context. Also records that the calling thread
    /// uses the driver.
    ///
    /// # Errors
    /// [`Error::ContextDestroyed`], the sticky fault, or [`Error::NotInitialized`] in the child of a fork.
    pub fn status(&self) -> Result<()> {
        check_fork()?;
        host_threads::note();
        if !self.is_alive() {
            return Err(Error::ContextDestroyed);
        }
        self.fault_status()
    }

    /// Returns the error of [`Context::status`], if any. Also returns an error if the context has
    /// been reset since an object was created. `life` is the number of the context's life in which
    /// the object was created.
    pub(crate) fn check(&self, life: u64) -> Result<()> {
        self.status()?;
        if self.life() != life {
            return Err(Error::ContextDestroyed);
        }
        Ok(())
    }

    /// Performs the checks of [`Context::check`] for a call that waits for work. In a host
    /// function, returns an error, because a host function must not wait for work.
    pub(crate) fn check_wait(&self, life: u64) -> Result<()> {
        if in_host_function() {
            return Err(Error::NotPermitted(
                "a host function or a task of a native kernel must not wait for work".into(),
            ));
        }
        self.check(life)
    }

    /// Returns the sticky fault as an error, if there is one.
    pub(crate) fn fault_status(&self) -> Result<()> {
        if !self.inner.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.inner.fault.lock() {
            Some(fault) => Err(Error::Fault(Arc::clone(fault))),
            None => Ok(()),
        }
    }

    /// In a checking run, reports that a kernel of the context did not run. Does nothing if the
    /// context has no sticky fault.
    pub(crate) fn note_skipped_kernel(&self) {
        let findings = self.machine().findings.as_ref();
        if let Some(findings) = findings.filter(|_| self.fault_status().is_err()) {
            findings.note_skipped_kernels();
        }
    }

    /// Returns the result of a call that has waited for work. If the context was reset or destroyed
    /// after the life with the number `life`, the result is an error, because the work may have
    /// been dropped. If the context has a sticky fault, the result is this fault.
    pub(crate) fn waited(&self, life: u64) -> Result<()> {
        self.machine().scheduler().free_all_finished();
        if !self.is_alive() || self.life() != life {
            return Err(Error::ContextDestroyed);
        }
        self.fault_status()
    }

    pub(crate) fn life(&self) -> u64 {
        self.inner.life.load(Ordering::Acquire)
    }

    /// Returns whether the context drops work that has not started.
    pub(crate) fn work_cancelled(&self) -> bool {
        self.inner.work_cancelled()
    }

    /// Makes `error` the sticky error of the context. `what` names the work that failed. The error
    /// must be sticky, because no call waits for this work and could return its error.
    pub(crate) fn fail_with(&self, error: Error, what: &str) {
        self.inner.fail_with(error, what);
    }

    /// Returns whether the context is active. A created context is active until it is destroyed. A primary context is
    /// active while it is retained.
    pub fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    /// Marks a primary context as active ([`Context::is_alive`]).
    pub(crate) fn activate(&self) {
        self.inner.alive.store(true, Ordering::Release);
    }

    /// Returns the flags (`CU_CTX_*`) that were passed when the context was created, or that were
    /// set later.
    pub fn flags(&self) -> u32 {
        self.inner.flags.load(Ordering::Relaxed)
    }

    /// Changes the flags.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for unknown flags.
    pub fn set_flags(&self, flags: u32) -> Result<()> {
        check_flags(flags)?;
        self.inner.flags.store(flags, Ordering::Relaxed);
        Ok(())
    }

    /// Waits for all work submitted so far, even if streams of other threads are capturing. Then writes the printf
    /// output of completed launches. Does nothing in a host function, which must not wait.
    pub(crate) fn settle(&self) {
        if in_host_function() {
            return;
        }
        for task in self.inner.queues.all_tails() {
            task.wait();
        }
        self.inner.queues.host_waited_for_all();
        self.flush_output();
    }

    /// Writes the printf output of completed launches to the process's standard output. The runtime
    /// calls this function in calls that wait for a context, a stream, an event or a copy, in
    /// launches, when modules are loaded or unloaded, when a context ends, before host functions,
    /// and when the process exits. The CUDA programming guide ("Formatted Output") requires that
    /// the output is written at these times, except at the exit of the process.
    pub(crate) fn flush_output(&self) {
        self.inner.output.flush();
    }

    /// Performs the first part of a reset or a destruction of the context: stops launches, drops
    /// work that has not started and waits for running work. Does not wait in a host function. Then
    /// writes the printf output of completed launches.
    pub(crate) fn stop_life(&self) {
        self.inner.end_life();
        self.stop_launches();
        if !in_host_function() {
            self.wait_idle();
        }
        self.flush_output();
    }

    /// Ends the context's work when the process exits. First waits for the work for at most one
    /// second. Then drops work that has not started, and stops running launches, as a GPU ends the
    /// kernels of a process that exits. All waits are limited in time, because a host function may
    /// be blocked for ever. Finally writes the printf output of completed launches.
    pub(crate) fn end_at_exit(&self) {
        const GRACE: Duration = Duration::from_secs(1);
        let idle_within = |time: Duration, each: &dyn Fn()| {
            let began = Instant::now();
            while !self.inner.is_idle() && began.elapsed() < time {
                each();
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        if !self.is_alive() || in_host_function() {
            return;
        }
        idle_within(GRACE, &|| {});
        if !self.inner.is_idle() {
            self.inner.end_life();
            idle_within(GRACE, &|| self.stop_launches());
        }
        self.flush_output();
    }

    /// Performs the last part of a reset or a destruction of the context: frees everything that the
    /// context owns, resets the limits and clears the fault. If `again` is true, the context is
    /// then active and empty (a new *life* begins).
    pub(crate) fn clear_life(&self, again: bool) {
        let inner = &self.inner;
        inner.queues.clear();
        inner.limits.reset();
        inner.cache_config.store(0, Ordering::Relaxed);
        inner.shared_config.store(0, Ordering::Relaxed);
        inner.heap.clear();
        inner.launch_buffers.clear();
        inner.natives.clear();
        inner.machine.textures.remove_of(inner.id);
        inner.machine.memory.release_context(inner.id);
        inner.peers.lock().clear();
        *inner.fault.lock() = None;
        inner.failed.store(false, Ordering::Release);
        inner.alive.store(again, Ordering::SeqCst);
    }

    /// Stops every running launch of this context. The runtime calls this function when the context
    /// is reset or destroyed, and when the process exits.
    pub fn stop_launches(&self) {
        self.inner.stop_launches();
    }

    /// Blocks the calling thread while at least [`MOST_PENDING`] tasks are pending, or while the
    /// parameters of pending launches have at least [`MOST_PARAMETERS`] bytes. A GPU's driver also
    /// blocks when its queue is full. Because of this limit, a program cannot fill the memory with
    /// launches. The function stops blocking if no task completes within [`NO_PROGRESS`] (less
    /// after earlier timeouts), because the pending tasks may wait for this thread. After such a
    /// timeout, calls do not block until a task completes.
    pub(crate) fn make_room(&self) {
        let pending = || self.inner.pending.load(Ordering::Relaxed);
        let parameters = || self.inner.parameters.load(Ordering::Relaxed);
        let is_full = || pending() >= MOST_PENDING || parameters() >= MOST_PARAMETERS;
        let crowded = &self.inner.crowded;
        if !is_full() {
            let overfull = &self.inner.overfull;
            if overfull.load(Ordering::Relaxed) && overfull.swap(false, Ordering::Relaxed) {
                *crowded.lock() = Crowded::default();
            }
            return;
        }
        if in_host_function() {
            return;
        }
        let completed = || self.inner.completed.load(Ordering::Relaxed);
        let patience = {
            let crowded = crowded.lock();
            if crowded.stuck_at == Some(completed()) {
                return;
            }
            crowded.patience
        };
        let (mut last, mut since) = (completed(), Instant::now());
        while is_full() && since.elapsed() < patience && !self.work_cancelled() {
            std::thread::sleep(Duration::from_micros(200));
            let now = completed();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        if is_full() {
            self.inner.overfull.store(true, Ordering::Relaxed);
            *crowded.lock() = Crowded {
                stuck_at: Some(last),
                patience: (patience / 2).max(LEAST_PATIENCE),
            };
        }
    }

    /// Counts the parameters of a launch as pending until the returned value is dropped.
    pub(crate) fn count_parameters(&self, bytes: usize) -> Parameters {
        let count = (bytes != 0).then(|| Arc::clone(&self.inner.parameters));
        if let Some(count) = &count {
            count.fetch_add(bytes, Ordering::Relaxed);
        }
        Parameters { count, bytes }
    }

    /// Returns the number of bytes of parameters of all launches that are not complete.
    #[cfg(test)]
    pub(crate) fn counted_parameters(&self) -> usize {
        self.inner.parameters.load(Ordering::Relaxed)
    }

    fn wait_idle(&self) {
        let inner = &self.inner;
        let mut guard = inner.idle.lock();
        while inner.pending.load(Ordering::SeqCst) > 0 {
            // Tasks can start while [`Context::stop_launches`] runs, so this loop calls that function until no task is
            // pending.
            let wait = Duration::from_millis(2);
            if inner.became_idle.wait_for(&mut guard, wait).timed_out() {
                parking_lot::MutexGuard::unlocked(&mut guard, || self.stop_launches());
            }
        }
    }

    /// Counts a request by device code. Returns `None` if the number of pending requests has
    /// reached the limit.
    pub(crate) fn new_request(&self) -> Option<Pending> {
        let most = self.limit_value(Limit::DevRuntimePendingLaunchCount) as usize;
        let count = &self.inner.device_requests;
        let more = |pending| (pending < most).then_some(pending + 1);
        let counted = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| Pending(Arc::clone(count)))
    }

    pub(crate) fn launch_buffers(&self) -> &DeviceHeap {
        &self.inner.launch_buffers
    }

    pub(crate) fn heap(&self) -> Arc<DeviceHeap> {
        Arc::clone(&self.inner.heap)
    }

    /// Returns the value of a limit.
    pub fn limit(&self, limit: Limit) -> Result<u64> {
        self.status()?;
        Ok(self.limit_value(limit))
    }

    pub(crate) fn limit_value(&self, limit: Limit) -> u64 {
        if limit == Limit::SharedMemorySize {
            let limits = self.inner.machine.config.capability.limits();
            return u64::from(limits.shared_optin);
        }
        self.inner.limits.0[limit as usize].load(Ordering::Relaxed)
    }

    /// Changes a limit. Rounds the value and limits it to the range that the device permits.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a depth of synchronisation above 24, [`Error::UnsupportedLimit`] for read-only
    /// limits.
    pub fn set_limit(&self, limit: Limit, value: u64) -> Result<()> {
        self.status()?;
        let value = match limit {
            Limit::StackSize => stack_size(value),
            Limit::PrintfFifoSize => value.clamp(4 << 10, 1 << 30),
            Limit::MallocHeapSize => {
                let (total, _) = self.inner.machine.memory.device_info(self.ordinal());
                value.clamp(4 << 10, total.max(4 << 10))
            }
            Limit::MaxL2FetchGranularity => value.min(128),
            Limit::PersistingL2CacheSize => 0,
            Limit::SharedMemorySize | Limit::CigEnabled => {
                return Err(Error::UnsupportedLimit(limit as i32));
            }
            Limit::CigSharedMemoryFallback => u64::from(value != 0),
            Limit::PerBlockMemorySize => value,
            Limit::DevRuntimeSyncDepth if value > DEEPEST_SYNC => {
                return Err(Error::invalid(format!("a depth of {value}")));
            }
            Limit::DevRuntimeSyncDepth => value,
            Limit::DevRuntimePendingLaunchCount => value.clamp(1, 1 << 20),
        };
        self.inner.limits.0[limit as usize].store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the preferred cache configuration. The value is stored and has no effect.
    pub fn cache_config(&self) -> i32 {
        self.inner.cache_config.load(Ordering::Relaxed) as i32
    }

    /// Sets the preferred cache configuration (0 to 3).
    pub fn set_cache_config(&self, config: i32) -> Result<()> {
        remember(&self.inner.cache_config, config, 3)
    }

    /// Returns the shared memory bank width: 0 (default), 1 (four bytes) or 2 (eight bytes). The value is stored and
    /// has no effect.
    pub fn shared_config(&self) -> i32 {
        self.inner.shared_config.load(Ordering::Relaxed) as i32
    }

    /// Sets the shared memory bank width (0 to 2).
    pub fn set_shared_config(&self, config: i32) -> Result<()> {
        remember(&self.inner.shared_config, config, 2)
    }

    /// Returns the lowest and the highest stream priority: 0 and -5.
    pub fn stream_priority_range(&self) -> (i32, i32) {
        (0, -5)
    }

    /// Sets the time limit of later launches. `None` selects the time limit of the runtime.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        let nanos = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(NO_LIMIT));
        let nanos = nanos.unwrap_or(NO_LIMIT);
        self.inner.time_limit.store(nanos, Ordering::Relaxed);
    }

    pub(crate) fn time_limit(&self) -> Option<Duration> {
        let nanos = self.inner.time_limit.load(Ordering::Relaxed);
        (nanos != NO_LIMIT).then(|| Duration::from_nanos(nanos))
    }
}

fn remember(slot: &AtomicU32, value: i32, highest: u32) -> Result<()> {
    match u32::try_from(value) {
        Ok(value) if value <= highest => {
            slot.store(value, Ordering::Relaxed);
            Ok(())
        }
        _ => Err(Error::invalid(format!("no such configuration: {value}"))),
    }
}

/// Returns an error unless the flags of a context are valid. The flags select the scheduling (0, 1,
/// 2 or 4), mapped host memory, resizing of local memory, core dumps, and synchronous memory
/// operations.
pub(crate) fn check_flags(flags: u32) -> Result<()> {
    const SCHEDULING: u32 = 0x7;
    const OTHERS: u32 = 0x08 | 0x10 | 0x20 | 0x40 | 0x80;
    if flags & !(SCHEDULING | OTHERS) != 0 || (flags & SCHEDULING).count_ones() > 1 {
        return Err(Error::invalid(format!("context flags {flags:#x}")));
    }
    Ok(())
}

/// Writes a message about a fault to standard error, because the program might never query the
/// fault.
fn report(fault: &Fault) {
    tracing::error!(%fault, "kernel failed");
    crate::error::tell(fault);
}
