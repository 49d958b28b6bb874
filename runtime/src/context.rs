//! Contexts: what owns streams, events, modules and memory, and what a fault sticks to.
//!
//! Invariant: an object belongs to one *life* of one context; when the context is reset or
//! destroyed that life ends, the object goes with it and every later use answers an error. A
//! primary context has many lives, a created one has one.

mod memory;
mod peers;
mod registry;
mod work;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Fault, FaultKind, Result};
use crate::heap::DeviceHeap;
use crate::machine::Machine;
use crate::memory::host_memory;
use crate::output::Output;
use crate::pointer::{HostFlags, PointerKind};
use crate::process::{check_fork, next_id};
use crate::queue::Queues;
use crate::service::in_host_function;
use crate::task::Owner;

/// A context. Clones are the same context; a destroyed one stays as a value whose every use
/// answers [`Error::ContextDestroyed`].
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
    /// Ordinal of the device.
    device: i32,
    primary: bool,
    alive: AtomicBool,
    /// Bumped when a life ends; objects remember the life they belong to.
    life: AtomicU64,
    flags: AtomicU32,
    cache_config: AtomicU32,
    shared_config: AtomicU32,
    failed: AtomicBool,
    fault: Mutex<Option<Arc<Fault>>>,
    limits: Limits,
    /// Contexts whose memory this one was given access to, by id.
    peers: Mutex<std::collections::BTreeSet<u64>>,
    /// In nanoseconds; [`NO_LIMIT`] is none.
    time_limit: AtomicU64,
    /// Tasks that are not complete.
    pending: AtomicUsize,
    idle: Mutex<()>,
    became_idle: Condvar,
    pub(crate) queues: Queues,
    pub(crate) output: Output,
    heap: Arc<DeviceHeap>,
    /// Where kernels write the parameters of what they launch.
    launch_buffers: Arc<DeviceHeap>,
}

impl Inner {
    fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Makes the context's first fault sticky.
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
        let mut slot = self.fault.lock();
        if slot.is_none() {
            *slot = Some(Arc::new(fault));
            self.failed.store(true, Ordering::Release);
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

/// The time limit of launches that have none.
const NO_LIMIT: u64 = u64::MAX;

/// The largest depth of device-side synchronisation that may be asked for.
const DEEPEST_SYNC: u64 = 24;

/// Values of the limits, by number.
struct Limits([AtomicU64; 11]);

impl Default for Limits {
    fn default() -> Limits {
        // What a device of capability 8.6 reports.
        let defaults = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0, 0, 0, 0, 0];
        Limits(defaults.map(AtomicU64::new))
    }
}

/// The limits of a context (`CUlimit`, same numbers).
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
    /// Stack bytes of a device thread.
    StackSize = 0,
    /// Bytes of the printf buffer.
    PrintfFifoSize = 1,
    /// Bytes of the heap of device-side malloc.
    MallocHeapSize = 2,
    /// Depth of device-side synchronisation.
    DevRuntimeSyncDepth = 3,
    /// Pending device-side launches.
    DevRuntimePendingLaunchCount = 4,
    /// A hint, 0 to 128 bytes.
    MaxL2FetchGranularity = 5,
    /// Bytes of L2 set aside.
    PersistingL2CacheSize = 6,
    /// Shared memory that kernels of a context made for graphics (CIG) may have; can only be asked.
    SharedMemorySize = 7,
    /// Whether the context was made for graphics: never here; can only be asked.
    CigEnabled = 8,
    /// Whether kernels of such a context that need more shared memory run all the same.
    CigSharedMemoryFallback = 9,
    /// Bytes of memory of a block.
    PerBlockMemorySize = 10,
}

impl Limit {
    /// The limit with this number.
    ///
    /// # Errors
    /// [`Error::UnsupportedLimit`] when there is none.
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

/// What is known of an address of ours.
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
    /// Kind of memory.
    pub kind: PointerKind,
    /// Start of the allocation.
    pub base: u64,
    /// Size of the allocation as asked for.
    pub size: u64,
    /// The owner.
    pub context: Context,
    /// Flags of pinned and registered memory.
    pub flags: HostFlags,
    /// Unique in the process, never reused (`CU_POINTER_ATTRIBUTE_BUFFER_ID`).
    pub id: u64,
    /// From a stream-ordered pool.
    pub pooled: bool,
    /// Ordinal of the device that it belongs to; -1: host memory of the virtual memory interface.
    pub device: i32,
    /// A mapping of the virtual memory interface.
    pub mapped: bool,
    /// Another process's memory.
    pub imported: bool,
    /// A variable of a module, or the system's; the program cannot free it.
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
            pending: AtomicUsize::new(0),
            idle: Mutex::new(()),
            became_idle: Condvar::new(),
            queues: Queues::default(),
            output: Output::default(),
            heap: DeviceHeap::new(machine, device, id),
            launch_buffers: DeviceHeap::new(machine, device, id),
        });
        registry::add(&inner);
        Context { inner }
    }

    pub(crate) fn downgrade(&self) -> std::sync::Weak<Inner> {
        Arc::downgrade(&self.inner)
    }

    /// The context as the owner of tasks.
    pub(crate) fn owner(&self) -> Arc<dyn Owner> {
        Arc::clone(&self.inner) as _
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.inner.machine
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Unique in the process, never 0, never reused (`cuCtxGetId`).
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Ordinal of the device.
    pub(crate) fn ordinal(&self) -> i32 {
        self.inner.device
    }

    /// Whether this is a device's primary context.
    pub fn is_primary(&self) -> bool {
        self.inner.primary
    }

    /// `Ok` while the context can be used.
    ///
    /// # Errors
    /// [`Error::ContextDestroyed`], the sticky fault, or [`Error::NotInitialized`] after a fork.
    pub fn status(&self) -> Result<()> {
        check_fork()?;
        if !self.is_alive() {
            return Err(Error::ContextDestroyed);
        }
        self.fault_status()
    }

    /// As [`Context::status`], and that the life in which an object was made has not ended.
    pub(crate) fn check(&self, life: u64) -> Result<()> {
        self.status()?;
        if self.life() != life {
            return Err(Error::ContextDestroyed);
        }
        Ok(())
    }

    /// As [`Context::check`], for calls that wait for work.
    pub(crate) fn check_wait(&self, life: u64) -> Result<()> {
        if in_host_function() {
            return Err(Error::NotPermitted(
                "a host function must not wait for work".into(),
            ));
        }
        self.check(life)
    }

    /// The sticky fault, if there is one.
    pub(crate) fn fault_status(&self) -> Result<()> {
        if !self.inner.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.inner.fault.lock() {
            Some(fault) => Err(Error::Fault(Arc::clone(fault))),
            None => Ok(()),
        }
    }

    pub(crate) fn life(&self) -> u64 {
        self.inner.life.load(Ordering::Acquire)
    }

    /// Whether work that has not started is dropped.
    pub(crate) fn work_cancelled(&self) -> bool {
        self.inner.work_cancelled()
    }

    /// Makes the failure of `what`, work without a call that could return the error, sticky.
    pub(crate) fn fail_with(&self, error: Error, what: &str) {
        self.inner.fail_with(error, what);
    }

    /// Whether the context exists (a primary context: whether it is retained).
    pub fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    /// Brings a primary context to life.
    pub(crate) fn activate(&self) {
        self.inner.alive.store(true, Ordering::Release);
    }

    /// The flags (`CU_CTX_*`) it was created with or that were set since.
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

    /// Waits for all work submitted so far; streams of other threads may capture meanwhile. A host function, which must
    /// not wait, does not.
    pub(crate) fn settle(&self) {
        if in_host_function() {
            return;
        }
        for task in self.inner.queues.all_tails() {
            task.wait();
        }
        self.flush_output();
    }

    /// Writes what complete launches have printed to the process's standard output. Every call that
    /// waits does so, and launches, loading and unloading, host functions, and the process's exit
    /// (CUDA programming guide, "Formatted Output", for all but the last).
    pub(crate) fn flush_output(&self) {
        self.inner.output.flush();
    }

    /// Begins the end of the current life: stops launches, drops work that has not started and waits for the rest.
    pub(crate) fn stop_life(&self) {
        let inner = &self.inner;
        inner.alive.store(false, Ordering::SeqCst);
        inner.life.fetch_add(1, Ordering::SeqCst);
        self.stop_launches();
        if !in_host_function() {
            self.wait_idle();
        }
        self.flush_output();
    }

    /// Completes the end of a life: frees what the context owns, clears the fault. `again`: a new life begins.
    pub(crate) fn clear_life(&self, again: bool) {
        let inner = &self.inner;
        inner.queues.clear();
        inner.heap.clear();
        inner.launch_buffers.clear();
        inner.machine.textures.remove_of(inner.id);
        inner.machine.memory.release_context(inner.id);
        inner.peers.lock().clear();
        *inner.fault.lock() = None;
        inner.failed.store(false, Ordering::Release);
        inner.alive.store(again, Ordering::SeqCst);
    }

    /// Ends every launch of this context that is running (reset, Ctrl-C, exit).
    pub fn stop_launches(&self) {
        let scheduler = self.inner.machine.scheduler();
        for run in scheduler.active_runs() {
            if run.is_of(self.id()) {
                scheduler.stop(&run, None);
            }
        }
    }

    fn wait_idle(&self) {
        let inner = &self.inner;
        let mut guard = inner.idle.lock();
        while inner.pending.load(Ordering::SeqCst) > 0 {
            // A task that started while launches were being stopped is stopped here.
            let wait = Duration::from_millis(2);
            if inner.became_idle.wait_for(&mut guard, wait).timed_out() {
                parking_lot::MutexGuard::unlocked(&mut guard, || self.stop_launches());
            }
        }
    }

    pub(crate) fn launch_buffers(&self) -> &DeviceHeap {
        &self.inner.launch_buffers
    }

    pub(crate) fn heap(&self) -> Arc<DeviceHeap> {
        Arc::clone(&self.inner.heap)
    }

    /// The current value of a limit.
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

    /// Changes a limit; values are rounded and clamped as the device allows.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a depth that no kernel may wait at, [`Error::UnsupportedLimit`] for what can only be asked.
    pub fn set_limit(&self, limit: Limit, value: u64) -> Result<()> {
        self.status()?;
        let value = match limit {
            Limit::StackSize => value.clamp(16, 512 << 10).next_multiple_of(16),
            Limit::PrintfFifoSize => value.clamp(4 << 10, 1 << 30),
            Limit::MallocHeapSize => {
                let (total, _) = self.inner.machine.memory.device_info(self.ordinal());
                value.clamp(4 << 10, total)
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

    /// The preferred cache configuration (a hint that is only remembered).
    pub fn cache_config(&self) -> i32 {
        self.inner.cache_config.load(Ordering::Relaxed) as i32
    }

    /// Changes it (0 to 3).
    pub fn set_cache_config(&self, config: i32) -> Result<()> {
        remember(&self.inner.cache_config, config, 3)
    }

    /// Shared memory bank width (0 default, 1 four bytes, 2 eight bytes; only remembered).
    pub fn shared_config(&self) -> i32 {
        self.inner.shared_config.load(Ordering::Relaxed) as i32
    }

    /// Changes it.
    pub fn set_shared_config(&self, config: i32) -> Result<()> {
        remember(&self.inner.shared_config, config, 2)
    }

    /// Least and greatest stream priority: (0, -5).
    pub fn stream_priority_range(&self) -> (i32, i32) {
        (0, -5)
    }

    /// Sets the time limit of later launches; `None`: the runtime's.
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

/// Flags of a context: scheduling (0, 1, 2 or 4), mapped host memory, resizing of local memory,
/// core dumps, synchronous memory operations.
pub(crate) fn check_flags(flags: u32) -> Result<()> {
    const SCHEDULING: u32 = 0x7;
    const OTHERS: u32 = 0x08 | 0x10 | 0x20 | 0x40 | 0x80;
    if flags & !(SCHEDULING | OTHERS) != 0 || (flags & SCHEDULING).count_ones() > 1 {
        return Err(Error::invalid(format!("context flags {flags:#x}")));
    }
    Ok(())
}

/// Tells the user at once: the program may never ask.
fn report(fault: &Fault) {
    tracing::error!(%fault, "kernel failed");
    crate::error::tell(fault);
}
