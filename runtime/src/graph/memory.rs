//! Memory of graphs: allocations whose addresses are fixed when their nodes are created.
//!
//! The memory exists as long as a graph or an executable graph contains the allocation node, or the allocation is
//! *live*. A launch that allocates the memory and does not free it makes the allocation live, and the program may then
//! use the memory. `cuMemFree`, `cuMemFreeAsync` or a free node ends the allocation. The state
//! changes when the program calls the function that launches or frees, and not when the submitted
//! work runs. The program must ensure that the work runs in a correct order. Source: CUDA driver
//! API, `cuGraphAddMemAllocNode`.
//!
//! If the allocation is not live, a copy or fill that is not a node of a graph returns an error.
//! Kernels can access the memory even if it is not live, but checking runs report accesses outside
//! of the time between the allocation and the free. For this check, the allocation takes place when
//! the allocation node runs, and the free takes place when the free node or the work that
//! `cuMemFreeAsync` submits runs.
//!
//! On a GPU, the addresses of graph memory are not used for other allocations. If a program frees
//! such an address after the graph was destroyed, the call returns an error. Margay does not reuse
//! the addresses of a destroyed graph immediately, so that it can also return this error.
//!
//! [`GraphMemory`] counts the memory that a GPU would have mapped for graphs (CUDA programming guide, "Graph memory
//! nodes"). The first launch or upload of a graph adds its memory to this amount. Only a call of
//! [`GraphMemory::trim`] while the allocation is not live subtracts the memory. Until that call,
//! the amount includes the memory even if the allocation was freed and the graph was destroyed.
//! Other graphs can take over the memory of destroyed graphs; this does not change the amount.

use std::ptr;
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
    /// ID of the memory. Later allocations at the same address have different IDs.
    memory: u64,
    state: Mutex<GraphMemoryState>,
}

#[derive(Default)]
struct GraphMemoryState {
    /// Whether the allocation is live: a launch has allocated the memory, and it was not freed
    /// since.
    live: bool,
    /// Whether [`GraphMemory`] counts the memory.
    backed: bool,
    /// `true` if a node of the graph that contains the allocation node frees the allocation,
    /// `false` if a node of another graph frees it, and `None` if no node frees it.
    freed_inside: Option<bool>,
}

impl std::fmt::Debug for GraphAllocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphAllocation({:?}, {} bytes)", self.ptr, self.bytes)
    }
}

/// Amounts of memory that graphs use (`CUgraphMem_attribute`).
///
/// ```
/// use margay::graph::GraphMemory;
///
/// let memory = GraphMemory::now(0);
/// assert!(memory.used <= memory.used_high);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GraphMemory {
    /// Number of bytes that graphs have mapped.
    pub used: u64,
    /// Maximum of `used` since the maximum was reset.
    pub used_high: u64,
    /// Number of bytes that are reserved for graphs.
    pub reserved: u64,
    /// Maximum of `reserved` since the maximum was reset.
    pub reserved_high: u64,
}

/// All allocations by address, and the amounts of memory of each device.
#[derive(Default)]
struct Book {
    known: FxHashMap<u64, Weak<GraphAllocation>>,
    /// Live allocations by address. These references keep the allocations alive even if no graph
    /// contains their nodes.
    live: FxHashMap<u64, Arc<GraphAllocation>>,
    /// Amounts of memory, by the ordinal of the device.
    memory: FxHashMap<i32, GraphMemory>,
    /// For each device (by ordinal), the number of bytes of destroyed graphs that `memory` still
    /// includes.
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
            // After a reset of the context, a later allocation can have the same address.
            let own = |known: &Weak<GraphAllocation>| ptr::eq(known.as_ptr(), &raw const *self);
            if book.known.get(&address).is_some_and(own) {
                book.known.remove(&address);
            }
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
    /// Allocates device memory of a context for a node.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for 0 bytes; [`Error::OutOfMemory`].
    pub fn new(context: &Context, bytes: u64) -> Result<Arc<GraphAllocation>> {
        GraphAllocation::of(context, bytes, PointerKind::Device, 0)
    }

    /// Allocates memory of any kind for a node. `label` is stored with the allocation for the caller.
    ///
    /// # Errors
    /// Returns the same errors as [`GraphAllocation::new`].
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
        allocation.set_allocated(false);
        let weak = Arc::downgrade(&allocation);
        BOOK.lock().known.insert(ptr.address(), weak);
        Ok(allocation)
    }

    /// Returns the address.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// Returns the size of the allocation in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the label that was passed when the allocation was created.
    pub fn label(&self) -> u64 {
        self.label
    }

    /// Returns the number of bytes that the allocation adds to [`GraphMemory`]. For memory other
    /// than device memory, the number is 0.
    fn counted(&self) -> u64 {
        match self.kind {
            PointerKind::Device => self.bytes,
            _ => 0,
        }
    }

    /// Returns the context that owns the memory.
    pub fn context(&self) -> &Context {
        &self.context
    }

    fn device(&self) -> i32 {
        self.context.device().ordinal()
    }

    /// Returns whether the memory still exists. A reset of the context frees the memory.
    fn has_memory(&self) -> bool {
        let memory = &self.context.machine().memory;
        let found = memory.lookup(self.ptr.address());
        found.is_some_and(|found| found.id == self.memory)
    }

    /// Records that a node which frees this allocation was added to a graph. `inside` is true if
    /// the free node is in the graph that contains the allocation node.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if a node of the graph that contains the allocation node already
    /// frees the allocation, or if `inside` is true and a node of another graph already frees the
    /// allocation.
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

    /// Returns whether the graph that allocates the memory also frees it.
    pub(super) fn is_freed_inside(&self) -> bool {
        self.state.lock().freed_inside == Some(true)
    }

    /// Returns whether the allocation is live: a launch has allocated the memory, and it was not
    /// freed since.
    pub(super) fn is_live(&self) -> bool {
        self.state.lock().live
    }

    /// Adds the allocation's memory to the amounts of memory in [`GraphMemory`]. Uploads and
    /// launches of a graph call this function.
    pub(super) fn back(&self) {
        let mut book = BOOK.lock();
        let backed = std::mem::replace(&mut self.state.lock().backed, true);
        if !backed {
            book.add(self.device(), self.counted());
        }
    }

    /// Records in checking runs that a node allocates the memory or frees it.
    pub(crate) fn set_allocated(&self, allocated: bool) {
        let machine = self.context.machine();
        if machine.findings.is_none() {
            return;
        }
        let found = machine.memory.lookup(self.ptr.address());
        if let Some(found) = found.filter(|found| found.id == self.memory) {
            machine.memory.set_allocated(&found, allocated);
        }
    }

    /// Makes the allocation live. A launch of a graph that contains the allocation node calls this
    /// function.
    pub(super) fn begin(self: &Arc<GraphAllocation>) {
        self.back();
        let mut book = BOOK.lock();
        let mut state = self.state.lock();
        if state.live {
            return;
        }
        state.live = true;
        let replaced = book.live.insert(self.ptr.address(), Arc::clone(self));
        drop(state);
        // `GraphAllocation::drop` locks the book.
        drop(book);
        drop(replaced);
    }

    /// Marks the allocation as not live; returns false if the allocation was not live before. The caller must keep its
    /// reference to the allocation until the work that uses the memory is complete.
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

/// Marks all allocations of a context as not live. The caller is about to reset or destroy the
/// context, and thereby frees their memory.
pub(crate) fn forget_context(context: &Context) {
    let mut book = BOOK.lock();
    let gone = book
        .live
        .extract_if(|_, allocation| allocation.context == *context);
    let gone: Vec<Arc<GraphAllocation>> = gone.map(|(_, allocation)| allocation).collect();
    for allocation in &gone {
        allocation.state.lock().live = false;
    }
    // `GraphAllocation::drop` locks the book.
    drop(book);
    drop(gone);
}

/// Returns the allocation of a graph that begins at an address.
///
/// # Errors
/// [`Error::InvalidValue`] if no allocation of a graph begins at the address.
pub(super) fn find(address: u64) -> Result<Arc<GraphAllocation>> {
    graph_allocation(address)
        .ok_or_else(|| Error::invalid(format!("{address:#x} is not an allocation of a graph")))
}

/// Returns the allocation of a graph that begins at an address, or `None` if no such allocation
/// exists.
pub(crate) fn graph_allocation(address: u64) -> Option<Arc<GraphAllocation>> {
    let book = BOOK.lock();
    if book.known.is_empty() {
        return None;
    }
    let found = book.known.get(&address).and_then(Weak::upgrade);
    drop(book);
    found.filter(|found| found.has_memory())
}

/// Returns an error if `address` is in an allocation of a graph that is not live, because only
/// nodes of graphs may use this memory.
///
/// # Errors
/// [`Error::InvalidValue`] if the address is in an allocation that is not live.
pub(crate) fn check_live(context: &Context, address: u64) -> Result<()> {
    let found = context.machine().memory.lookup(address);
    let Some(found) = found.filter(|found| found.internal) else {
        return Ok(());
    };
    match graph_allocation(found.base) {
        Some(allocation) if !allocation.is_live() => Err(Error::invalid(format!(
            "{address:#x} is in an allocation of a graph that is not live"
        ))),
        _ => Ok(()),
    }
}

/// Returns whether an allocation of a graph begins at `ptr`.
pub fn is_graph_memory(ptr: DevicePtr) -> bool {
    graph_allocation(ptr.address()).is_some()
}

/// Frees an allocation of a graph because the program has called a function such as `cuMemFree`. Returns `None` if no
/// allocation of a graph begins at the address. The caller must keep the returned reference until
/// all work that uses the memory is complete.
///
/// # Errors
/// [`Error::InvalidValue`] if the allocation is not live, or if a node of the graph that contains
/// the allocation node frees it.
pub(crate) fn free_from_outside(address: u64) -> Option<Result<Arc<GraphAllocation>>> {
    let found = graph_allocation(address)?;
    if found.is_freed_inside() || !found.end() {
        return Some(Err(Error::invalid("the graph's allocation is not live")));
    }
    Some(Ok(found))
}

impl GraphMemory {
    /// Returns the current amounts of memory of a device.
    pub fn now(device: i32) -> GraphMemory {
        *BOOK.lock().of(device)
    }

    /// Sets `used_high` of a device to the current value of `used`.
    pub fn reset_used_high(device: i32) {
        let mut book = BOOK.lock();
        let memory = book.of(device);
        memory.used_high = memory.used;
    }

    /// Sets `reserved_high` of a device to the current value of `reserved`.
    pub fn reset_reserved_high(device: i32) {
        let mut book = BOOK.lock();
        let memory = book.of(device);
        memory.reserved_high = memory.reserved;
    }

    /// Subtracts the memory of all allocations that are not live from the amounts of memory of a
    /// device (`cuDeviceGraphMemTrim`).
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
        // This list can contain the last reference to an allocation, so it is dropped after the lock is released.
        drop(known);
    }
}
