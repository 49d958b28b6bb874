//! Memory of graphs: allocations whose address is fixed when their node is made.
//!
//! The memory is there as long as a graph or an executable graph has the node, or the program has
//! the allocation: a launch that does not free it hands it out (`live`), `cuMemFree`,
//! `cuMemFreeAsync` or a free node take it back. Whether it is handed out is decided in the order
//! of the calls, because the program orders the work itself. Source: CUDA driver API,
//! `cuGraphAddMemAllocNode`.
//!
//! Graphs of a GPU have addresses of their own, and programs free an address late, to be told that it is none any
//! more. So what a graph had is nobody else's for a while.
//!
//! What is counted is what a GPU has mapped for graphs (CUDA programming guide, "Graph memory nodes"): from a launch or an
//! upload on until it is trimmed, also when the allocation was freed and the graph is gone. What is left of graphs that are
//! gone counts for the next ones.

use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::pointer::{DevicePtr, PointerKind};

/// An allocation of a graph.
///
/// ```
/// use margay::graph::GraphAllocation;
///
/// let rt = margay::Runtime::new()?;
/// let memory = GraphAllocation::new(&rt.context()?, 1024)?;
/// assert_eq!(memory.bytes(), 1024);
/// # Ok::<(), margay::Error>(())
/// ```
pub struct GraphAllocation {
    context: Context,
    ptr: DevicePtr,
    bytes: u64,
    kind: PointerKind,
    label: u64,
    /// The memory's number, which tells it from a later one at the same address.
    memory: u64,
    state: Mutex<GraphMemoryState>,
}

#[derive(Default)]
struct GraphMemoryState {
    /// The program has it.
    live: bool,
    /// Counted as mapped and as reserved.
    backed: bool,
    /// A free node is in its own graph (`true`) or in another one.
    freed_inside: Option<bool>,
}

impl std::fmt::Debug for GraphAllocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphAllocation({:?}, {} bytes)", self.ptr, self.bytes)
    }
}

/// How much memory graphs have, by `CUgraphMem_attribute`.
///
/// ```
/// use margay::graph::GraphMemory;
///
/// let memory = GraphMemory::now(0);
/// assert!(memory.used <= memory.used_high);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphMemory {
    /// Bytes that graphs have mapped.
    pub used: u64,
    /// Their largest number since it was reset.
    pub used_high: u64,
    /// Bytes kept for graphs.
    pub reserved: u64,
    /// Their largest number since it was reset.
    pub reserved_high: u64,
}

/// All allocations by address, and their sum for each device.
#[derive(Default)]
struct Book {
    known: FxHashMap<u64, Weak<GraphAllocation>>,
    /// Those that are handed out stay, with or without a graph.
    live: FxHashMap<u64, Arc<GraphAllocation>>,
    /// By the device's ordinal.
    memory: FxHashMap<i32, GraphMemory>,
    /// What of it is left of graphs that are gone.
    left: FxHashMap<i32, u64>,
}

static BOOK: LazyLock<Mutex<Book>> = LazyLock::new(Mutex::default);

impl Book {
    fn of(&mut self, device: i32) -> &mut GraphMemory {
        self.memory.entry(device).or_default()
    }

    fn add(&mut self, device: i32, bytes: u64) {
        let left = self.left.entry(device).or_default();
        let again = bytes.min(*left);
        *left -= again;
        let bytes = bytes - again;
        let memory = self.of(device);
        memory.used += bytes;
        memory.used_high = memory.used_high.max(memory.used);
        memory.reserved += bytes;
        memory.reserved_high = memory.reserved_high.max(memory.reserved);
    }

    fn subtract(&mut self, device: i32, bytes: u64) {
        let memory = self.of(device);
        memory.used -= bytes;
        memory.reserved -= bytes;
    }
}

impl Drop for GraphAllocation {
    fn drop(&mut self) {
        let address = self.ptr.address();
        {
            let mut book = BOOK.lock();
            // The address may be another allocation's by now only after the memory is released.
            book.known.remove(&address);
            if self.state.get_mut().backed {
                *book.left.entry(self.device()).or_default() += self.counted();
            }
        }
        if self.has_memory() {
            let _ = self.context.machine().memory.retire(address);
        }
    }
}

impl GraphAllocation {
    /// Device memory of a context for a node.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for no bytes, [`Error::OutOfMemory`].
    pub fn new(context: &Context, bytes: u64) -> Result<Arc<GraphAllocation>> {
        GraphAllocation::of(context, bytes, PointerKind::Device, 0)
    }

    /// Memory of any kind for a node; the caller keeps `label` with it.
    ///
    /// # Errors
    /// As [`GraphAllocation::new`].
    pub fn of(
        context: &Context,
        bytes: u64,
        kind: PointerKind,
        label: u64,
    ) -> Result<Arc<GraphAllocation>> {
        if bytes == 0 {
            return Err(Error::invalid("an allocation of 0 bytes"));
        }
        let ptr = context.alloc_internal(bytes, kind)?;
        let found = context.machine().memory.lookup(ptr.address());
        let allocation = Arc::new(GraphAllocation {
            context: context.clone(),
            ptr,
            bytes,
            kind,
            label,
            memory: found.map_or(0, |found| found.id),
            state: Mutex::default(),
        });
        let weak = Arc::downgrade(&allocation);
        BOOK.lock().known.insert(ptr.address(), weak);
        Ok(allocation)
    }

    /// Its address.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the caller keeps with it.
    pub fn label(&self) -> u64 {
        self.label
    }

    /// What [`GraphMemory`] counts of it: memory of the device.
    fn counted(&self) -> u64 {
        match self.kind {
            PointerKind::Device => self.bytes,
            _ => 0,
        }
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.context
    }

    fn device(&self) -> i32 {
        self.context.device().ordinal()
    }

    /// Whether its context still has the memory: a reset takes it away.
    fn has_memory(&self) -> bool {
        let memory = &self.context.machine().memory;
        let found = memory.lookup(self.ptr.address());
        found.is_some_and(|found| found.id == self.memory)
    }

    /// Notes where its free node is: `inside` its own graph or in others.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when it is freed on the other side, or twice inside.
    pub(super) fn freed_by(&self, inside: bool) -> Result<()> {
        let mut state = self.state.lock();
        match state.freed_inside {
            Some(true) => Err(Error::invalid("the allocation is freed in its own graph")),
            Some(false) if inside => Err(Error::invalid("another graph frees the allocation")),
            _ => {
                state.freed_inside = Some(inside);
                Ok(())
            }
        }
    }

    /// Whether its own graph frees it.
    pub(super) fn is_freed_inside(&self) -> bool {
        self.state.lock().freed_inside == Some(true)
    }

    pub(super) fn is_live(&self) -> bool {
        self.state.lock().live
    }

    /// Counts the memory as mapped: an upload or a launch.
    pub(super) fn back(&self) {
        let mut book = BOOK.lock();
        let backed = std::mem::replace(&mut self.state.lock().backed, true);
        if !backed {
            book.add(self.device(), self.counted());
        }
    }

    /// A launch begins the allocation.
    pub(super) fn begin(self: &Arc<GraphAllocation>) {
        self.back();
        let mut book = BOOK.lock();
        let mut state = self.state.lock();
        if !state.live {
            state.live = true;
            book.live.insert(self.ptr.address(), Arc::clone(self));
        }
    }

    /// The allocation has ended; false when it had not begun. The caller keeps what is returned
    /// until the work that uses the memory is complete.
    pub(super) fn end(self: &Arc<GraphAllocation>) -> bool {
        let mut book = BOOK.lock();
        let mut state = self.state.lock();
        let was = std::mem::take(&mut state.live);
        if was {
            let held = book.live.remove(&self.ptr.address());
            drop(state);
            drop(book);
            drop(held);
        }
        was
    }
}

/// The allocation of a graph at an address.
///
/// # Errors
/// [`Error::InvalidValue`] when there is none.
pub(super) fn find(address: u64) -> Result<Arc<GraphAllocation>> {
    graph_allocation(address)
        .ok_or_else(|| Error::invalid(format!("{address:#x} is no allocation of a graph")))
}

/// The allocation of a graph at an address, if there is one.
pub(crate) fn graph_allocation(address: u64) -> Option<Arc<GraphAllocation>> {
    let book = BOOK.lock();
    if book.known.is_empty() {
        return None;
    }
    let found = book.known.get(&address).and_then(Weak::upgrade);
    drop(book);
    found.filter(|found| found.has_memory())
}

/// Whether an address is where an allocation of a graph begins.
pub fn is_graph_memory(ptr: DevicePtr) -> bool {
    graph_allocation(ptr.address()).is_some()
}

/// Frees an allocation of a graph by a call. `None`: the address is none of a graph. What is
/// returned is dropped when nothing uses the memory any more.
///
/// # Errors
/// [`Error::InvalidValue`] when it is not handed out or its own graph frees it.
pub(crate) fn free_from_outside(address: u64) -> Option<Result<Arc<GraphAllocation>>> {
    let found = graph_allocation(address)?;
    if found.is_freed_inside() || !found.end() {
        return Some(Err(Error::invalid("the graph's allocation is not live")));
    }
    Some(Ok(found))
}

impl GraphMemory {
    /// A device's numbers now.
    pub fn now(device: i32) -> GraphMemory {
        *BOOK.lock().of(device)
    }

    /// Resets the largest number of used bytes.
    pub fn reset_used_high(device: i32) {
        let mut book = BOOK.lock();
        let memory = book.of(device);
        memory.used_high = memory.used;
    }

    /// Resets the largest number of reserved bytes.
    pub fn reset_reserved_high(device: i32) {
        let mut book = BOOK.lock();
        let memory = book.of(device);
        memory.reserved_high = memory.reserved;
    }

    /// Gives up what is reserved on a device and not handed out (`cuDeviceGraphMemTrim`).
    pub fn trim(device: i32) {
        let mut book = BOOK.lock();
        let left = book.left.remove(&device).unwrap_or(0);
        book.subtract(device, left);
        let known: Vec<_> = book.known.values().filter_map(Weak::upgrade).collect();
        for allocation in known.iter().filter(|known| known.device() == device) {
            let mut state = allocation.state.lock();
            if state.backed && !state.live {
                state.backed = false;
                book.subtract(device, allocation.counted());
            }
        }
        drop(book);
        // The last holder of one may be this list.
        drop(known);
    }
}
