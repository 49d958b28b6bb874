//! The address space of all devices: allocates and frees memory, looks up allocations, and counts the memory in use.
//!
//! The *index* maps addresses to allocations; every lookup takes the lock of the index for reading. The *books* (the
//! structure [`Books`]) contain the free ranges and the slabs; every allocation and every free takes the lock of the
//! books. No thread takes the lock of the index while it holds the lock of the books, so the two locks cannot deadlock.
//! A third lock protects the ranges and mappings of the virtual memory interface. A thread that needs the third lock
//! takes it before the locks of the index and the books. The counters of memory in use are atomic.
//!
//! Invariant: an allocation is in the index if and only if the program may use its memory. (Memory of a graph is also
//! in the index while it has the flag [`UNALLOCATED`].) Only the thread that has removed an allocation from the index
//! frees its memory.

mod contents;
mod ranges;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use super::arena::Arena;
use super::pages::{HUGE_PAGE, Pages};
use super::red_zones::RedZones;
use super::reservation::Reservation;
use super::shared::SharedMemory;
use super::slab::{self, Slab};
use super::usage::Usage;
use super::virtual_memory::Virtual;
use super::whose::{Calls, Freed, FreedBy};
use super::{MemoryError, limits};
use crate::call_stack::CallStack;

/// [`AddressSpace::retire`] frees an allocation whose addresses are reused only after this number
/// of further allocations have been retired.
const RESTING: usize = 256;
/// Maximum number of quarantined allocations ([`MemoryConfig::red_zone`]).
const QUARANTINED: usize = 4096;
/// Minimum size in bytes for which it is faster to zero memory by releasing its pages than by writing zeroes.
const DISCARD_FROM: u64 = 256 << 10;
/// Size in bytes of the largest allocation that can be in a slab.
pub const SMALL_LIMIT: u64 = 64 << 10;
/// Maximum number of small allocations that have their own pages, which become inaccessible after the free. All other
/// small allocations are in slabs, because a separate piece costs microseconds and needs two mappings. By default,
/// Linux allows 65,530 mappings in a process.
const SMALL_PIECES: usize = 1024;

/// Kind of an allocation. The memory of all kinds is host memory. The kinds differ in the
/// properties that calls of CUDA report, and in the limit on the amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryKind {
    /// Device memory (`cuMemAlloc` and related functions).
    Device,
    /// Page-locked host memory.
    Pinned,
    /// Managed memory.
    Managed,
    /// Memory that the program allocated itself and then registered.
    Registered,
    /// Memory of a stream-ordered pool.
    Pool,
    /// A physical allocation, mapped by the virtual memory interface.
    Mapped,
    /// Memory of another process.
    Imported,
}

impl MemoryKind {
    /// Returns whether [`AddressSpace::alloc`] allocates this kind.
    fn is_allocated(self) -> bool {
        !matches!(
            self,
            MemoryKind::Registered | MemoryKind::Mapped | MemoryKind::Imported
        )
    }
}

/// Parameters of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Size in bytes; 0 is an error, as in CUDA.
    pub bytes: u64,
    /// Kind of the memory. [`AddressSpace::alloc`] returns an error for `Registered`, `Mapped` and
    /// `Imported`.
    pub kind: MemoryKind,
    /// Ordinal of the device to which the memory belongs.
    pub device: i32,
    /// ID of the owner (a context), for [`AddressSpace::free_owned`].
    pub owner: u64,
    /// Flags that are stored with the allocation for the caller.
    pub flags: u32,
}

/// The flag of registered memory that kernels can only read (`CU_MEMHOSTREGISTER_READ_ONLY`).
pub(crate) const READ_ONLY: u32 = 8;
/// The flag of variables in constant memory, which kernels can only read.
pub(crate) const CONSTANT: u32 = 1 << 29;

/// The flag of a graph's memory while no allocation node has allocated it ([`AddressSpace::set_allocated`]).
pub(crate) const UNALLOCATED: u32 = 1 << 28;

/// Returns the flags of memory that kernels may not read or, if `writes` is true, not write.
pub(super) const fn refused(writes: bool) -> u32 {
    match writes {
        true => UNALLOCATED | READ_ONLY | CONSTANT,
        false => UNALLOCATED,
    }
}

/// An allocation or a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First address. It is a multiple of [`super::ALIGNMENT`] unless the memory is registered or imported.
    pub base: u64,
    /// Requested size of the allocation in bytes.
    pub size: u64,
    /// Kind of memory.
    pub kind: MemoryKind,
    /// Ordinal of the device to which the memory belongs.
    pub device: i32,
    /// ID of the context that owns the memory, from [`Request::owner`].
    pub owner: u64,
    /// The flags of the [`Request`] or of the registration. [`AddressSpace::set_allocated`] changes the flag
    /// [`UNALLOCATED`].
    pub flags: u32,
    /// ID of the allocation: unique in the address space, never 0 and never reused. All mappings of a physical
    /// allocation have the ID of this physical allocation.
    pub id: u64,
}

impl Allocation {
    pub(super) fn new(base: u64, request: &Request, id: u64) -> Allocation {
        Allocation {
            base,
            size: request.bytes,
            kind: request.kind,
            device: request.device,
            owner: request.owner,
            flags: request.flags,
            id,
        }
    }

    /// Returns the address one past the last byte.
    pub fn end(&self) -> u64 {
        self.base + self.size
    }

    /// Returns whether `bytes` bytes at `address` are inside the allocation.
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.size && bytes <= self.size - offset
    }
}

/// Configuration of an address space.
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Number of bytes of address space to reserve. The number is rounded up to a power of two. If
    /// the system cannot reserve so many bytes, fewer bytes are reserved.
    pub reserve: u64,
    /// Whether the range is below 4 GiB, for modules with 32-bit addresses. `reserve` then has no effect.
    pub low: bool,
    /// Number of devices.
    pub devices: usize,
    /// Size in bytes of the memory of each device. The size is reduced if the reserved range is too small for it. With
    /// `None`, each device gets an equal share of four fifths of the memory that this process may use.
    pub device_limit: Option<u64>,
    /// Limit in bytes of pinned and managed memory together. With `None`, the limit is the memory that this process may
    /// use.
    pub host_limit: Option<u64>,
    /// Maximum number of bytes of freed memory to keep for reuse. With `None`, the maximum is a quarter of the memory
    /// of a device.
    pub cache_limit: Option<u64>,
    /// Value of every byte of a new allocation. Checking runs use this value to find reads of
    /// memory that was never written. With `None`, new memory contains zeroes or the bytes of an
    /// earlier allocation.
    pub fresh: Option<u8>,
    /// Minimum number of bytes between two allocations. If this number is not 0, memory that [`AddressSpace::free`]
    /// frees is quarantined: its addresses are not reused until [`QUARANTINED`] further allocations have been freed, or
    /// until no other addresses are left. Checking runs use the distance to find accesses after the end of an
    /// allocation, and the quarantine to find accesses to freed memory.
    pub red_zone: u64,
    /// Red zones around each allocation; `None` for no red zones. New memory with red zones contains zeroes.
    pub zones: Option<RedZones>,
    /// Whether to store the call stack of each allocation and each free, for reports of checking runs.
    pub keeps_calls: bool,
}

impl Default for MemoryConfig {
    fn default() -> MemoryConfig {
        MemoryConfig {
            reserve: 4 << 40,
            low: false,
            devices: 1,
            device_limit: None,
            host_limit: None,
            cache_limit: None,
            fresh: None,
            red_zone: 0,
            zones: None,
            keeps_calls: false,
        }
    }
}

/// Amounts of memory in bytes, for `cuMemGetInfo` and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MemoryInfo {
    /// Size of the memory of the first device.
    pub total: u64,
    /// Free memory of the first device.
    pub free: u64,
    /// Memory of the first device that is in use, including rounding.
    pub device: u64,
    /// Pinned memory in use.
    pub pinned: u64,
    /// Managed memory in use.
    pub managed: u64,
    /// Freed memory that is kept for reuse.
    pub cached: u64,
    /// Number of live allocations and registrations.
    pub allocations: usize,
    /// Number of reserved bytes of address space.
    pub reserved: u64,
}

/// The location of the bytes of an allocation.
#[derive(Clone, Debug)]
pub(super) enum Backing {
    /// A separate piece (a range of whole pages). The field is the length of the allocation, which is not rounded up to
    /// pages.
    Piece(u64),
    /// A slot of the slab at this address.
    Slab(u64),
    /// Memory that the program registered, or that the virtual memory interface mapped.
    Foreign,
    /// The part of a pool's memory file at this offset, which is mapped at the allocation's base.
    Arena(Arc<Arena>, u64),
    /// Pages of a memory file of another process, which are mapped in this process.
    Imported {
        /// First mapped address.
        start: u64,
        /// Number of mapped bytes.
        len: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) allocation: Allocation,
    pub(super) place: Backing,
    /// Number of bytes that are reserved before the allocation for a red zone; 0 if the allocation has no red zones.
    pub(super) front: u64,
    /// Whether a free of the allocation, which is memory of a pool, has been submitted to a stream and not yet executed
    /// ([`AddressSpace::promise`]).
    pub(super) promised: bool,
    /// The name of the module variable that the allocation contains ([`AddressSpace::name`]). Only runs that store call
    /// stacks set this field.
    pub(super) variable: Option<Arc<str>>,
    pub(super) calls: Calls,
}

impl Record {
    pub(super) fn new(allocation: Allocation, place: Backing) -> Record {
        Record {
            allocation,
            place,
            front: 0,
            promised: false,
            variable: None,
            calls: Calls::default(),
        }
    }

    /// Returns the first address of the memory that the allocation reserves.
    pub(super) fn start(&self) -> u64 {
        self.allocation.base - self.front
    }
}

#[derive(Debug)]
pub(super) struct Books {
    pub(super) pages: Pages,
    slabs: HashMap<u64, Slab>,
    /// Addresses of the slabs that have a free slot, by class.
    partial: Vec<Vec<u64>>,
    /// Memory files of pieces and slabs that were exported to other processes, by address.
    pub(super) shared: HashMap<u64, Arc<SharedMemory>>,
    /// Number of live small allocations that have their own pages.
    small_pieces: usize,
    /// The most recently freed allocations.
    pub(super) freed: Freed,
    /// Freed pieces and slots whose addresses are not reused yet ([`AddressSpace::retire`], and quarantined memory),
    /// oldest first.
    resting: VecDeque<(u64, Backing)>,
}

/// The memory of all devices.
#[derive(Debug)]
pub struct AddressSpace {
    pub(super) index: RwLock<BTreeMap<u64, Record>>,
    pub(super) books: Mutex<Books>,
    pub(super) virtual_memory: Mutex<Virtual>,
    pub(super) usage: Arc<Usage>,
    next_id: AtomicU64,
    /// Start of the reserved address range. The next field is the length of the range in bytes. Neither field changes.
    base: u64,
    len: u64,
    has_margins: bool,
    /// Number of idle pieces: freed pieces that are still accessible.
    idle: Arc<AtomicUsize>,
    fresh: Option<u8>,
    red_zone: u64,
    pub(super) zones: Option<RedZones>,
    keeps_calls: bool,
    /// Whether the program has ever called [`AddressSpace::export`], even if the call failed.
    pub(super) exported: AtomicBool,
}

/// Returns the default memory of each device in bytes.
pub(crate) fn default_device_memory(devices: u32) -> u64 {
    limits::physical_memory() / 5 * 4 / u64::from(devices.max(1))
}

impl AddressSpace {
    /// Creates an address space: reserves its address range.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] or [`MemoryError::System`] if the system does not grant even 32 MiB of addresses
    /// (512 MiB below 4 GiB).
    pub fn new(config: &MemoryConfig) -> Result<AddressSpace, MemoryError> {
        let machine = limits::physical_memory();
        let devices = config.devices.max(1);
        let each = || default_device_memory(devices as u32);
        let device_limit = config.device_limit.unwrap_or_else(each);
        let cache_limit = config.cache_limit.unwrap_or(device_limit / 4);
        let reservation = match config.low {
            true => Reservation::low(),
            false => {
                let sizes = reservation_sizes(config.reserve);
                Reservation::largest(sizes, HUGE_PAGE, margay_jit::MARGIN)
            }
        };
        let pages = Pages::new(reservation?, cache_limit);
        let (base, len) = (pages.reservation().base(), pages.reservation().len());
        let has_margins = pages.reservation().margin() >= margay_jit::MARGIN;
        let idle = pages.idle_count();
        // If `ulimit -v` is set or the range is below 4 GiB, the reported device memory must fit into the address
        // range. A quarter of the range is left for guards and host memory.
        let room = match limits::address_space_left() {
            None if !config.low => u64::MAX,
            _ => len / 4 * 3,
        };
        let device_limit = device_limit.min(room / devices as u64);
        let host_limit = config.host_limit.unwrap_or(machine).min(room);
        tracing::debug!(base, len, device_limit, "device address space reserved");
        Ok(AddressSpace {
            index: RwLock::new(BTreeMap::new()),
            exported: AtomicBool::new(false),
            books: Mutex::new(Books {
                pages,
                slabs: HashMap::new(),
                partial: vec![Vec::new(); slab::CLASSES.len()],
                shared: HashMap::new(),
                small_pieces: 0,
                freed: Freed::default(),
                resting: VecDeque::new(),
            }),
            virtual_memory: Mutex::default(),
            usage: Arc::new(Usage::new(devices, device_limit, host_limit)),
            next_id: AtomicU64::new(1),
            base,
            len,
            has_margins,
            idle,
            fresh: config.fresh,
            red_zone: config.red_zone,
            zones: config.zones.filter(|zones| zones.bytes != 0),
            keeps_calls: config.keeps_calls,
        })
    }

    /// Allocates memory. The memory contains zeroes, the bytes of an earlier allocation, or the byte
    /// [`MemoryConfig::fresh`]; with red zones, it contains zeroes.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] for 0 bytes or a kind that cannot be allocated; [`MemoryError::OutOfMemory`] if the
    /// limit is exceeded or no addresses are left.
    pub fn alloc(&self, request: &Request) -> Result<Allocation, MemoryError> {
        if request.bytes == 0 || !request.kind.is_allocated() {
            return Err(MemoryError::InvalidSize(request.bytes));
        }
        let record = self.books.lock().alloc(request, self)?;
        self.enter(record)
    }

    /// Adds a new allocation to the index.
    pub(super) fn enter(&self, mut record: Record) -> Result<Allocation, MemoryError> {
        let allocation = record.allocation;
        record.calls.allocated = self.call();
        if let Err(error) = self.fill_new(&record) {
            self.books
                .lock()
                .release(&record, &self.usage, FreedBy::Call);
            return Err(error);
        }
        self.index.write().insert(allocation.base, record);
        Ok(allocation)
    }

    /// Writes the initial contents of a new allocation, and its red zones.
    fn fill_new(&self, record: &Record) -> Result<(), MemoryError> {
        let allocation = &record.allocation;
        if allocation.kind != MemoryKind::Imported
            && let Some(byte) = self.fresh
        {
            self.fill8(allocation.base, byte, allocation.size)?;
        }
        self.fill_zones(record)
    }

    /// Frees the allocation that starts at `base` if `kinds` contains the kind of the allocation.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if no such allocation starts at `base`, for example because it was freed before or
    /// because `base` is inside an allocation.
    pub fn free(&self, base: u64, kinds: &[MemoryKind]) -> Result<Allocation, MemoryError> {
        let call = self.call();
        let record = {
            let mut index = self.index.write();
            let found = index
                .get(&base)
                .is_some_and(|r| kinds.contains(&r.allocation.kind));
            found.then(|| index.remove(&base)).flatten()
        };
        let mut record = record.ok_or(MemoryError::NotAllocated(base))?;
        let allocation = record.allocation;
        // If a stream frees the memory, the call that submitted the free is already stored (by `promise`).
        record.calls.freed = record.calls.freed.or(call);
        let mut books = self.books.lock();
        match self.red_zone {
            0 => books.release(&record, &self.usage, FreedBy::Call),
            _ => books.retire(record, &self.usage, QUARANTINED),
        }
        Ok(allocation)
    }

    /// Records that the allocation that starts at `base` contains the module variable with the (mangled) name
    /// `variable`. Has no effect unless the run stores call stacks, because only reports of checking runs use the name.
    pub fn name(&self, base: u64, variable: &str) {
        if self.keeps_calls()
            && let Some(record) = self.index.write().get_mut(&base)
        {
            record.variable = Some(variable.into());
        }
    }

    /// Sets or clears the flag [`UNALLOCATED`] of the memory of a graph that starts at `base`. If `allocated` is false,
    /// checking runs report the accesses of kernels to this memory.
    pub fn set_allocated(&self, base: u64, allocated: bool) {
        if let Some(record) = self.index.write().get_mut(&base) {
            let others = record.allocation.flags & !UNALLOCATED;
            record.allocation.flags = others | if allocated { 0 } else { UNALLOCATED };
        }
    }

    /// Records that a free of the allocation that starts at `base` was submitted to a stream, and the stack of the call
    /// that submitted it. If the allocation is memory of a pool, pools may allocate the same amount
    /// of memory even before the free is executed. A call that submits an allocation to the stream
    /// therefore need not wait for frees that were submitted earlier.
    pub fn promise(&self, base: u64) {
        if let Some(call) = self.call()
            && let Some(record) = self.index.write().get_mut(&base)
        {
            record.calls.freed = Some(call);
        }
        let found = self.index.read().get(&base).cloned();
        let Some(record) = found.filter(|found| found.allocation.kind == MemoryKind::Pool) else {
            return;
        };
        let allocation = record.allocation;
        let cost = self.books.lock().cost_of(&record);
        let mut index = self.index.write();
        if let Some(now) = index.get_mut(&base)
            && now.allocation.id == allocation.id
            && !now.promised
        {
            now.promised = true;
            self.usage.promise(allocation.device, cost);
        }
    }

    /// Returns whether the address space stores the call stack of each allocation and each free.
    pub(super) fn keeps_calls(&self) -> bool {
        self.keeps_calls
    }

    /// Captures and returns the stack of the calling thread if the address space stores call
    /// stacks; otherwise returns `None`.
    pub(super) fn call(&self) -> Option<CallStack> {
        self.keeps_calls.then(CallStack::capture)
    }

    /// Returns the stack of the call that allocated the memory at `base`, if the stacks of calls are stored.
    pub fn allocated_by(&self, base: u64) -> Option<CallStack> {
        let index = self.index.read();
        index.get(&base)?.calls.allocated.clone()
    }

    /// Returns the allocations and registrations that the program has not freed, oldest first, each with the stack of
    /// the call that allocated or registered the memory. If `owner` is not `None`, returns only the
    /// allocations and registrations of this owner.
    pub fn unfreed(&self, owner: Option<u64>) -> Vec<(Allocation, Option<CallStack>)> {
        let index = self.index.read();
        let kept = index.values().filter(|record| {
            let of_owner = owner.is_none_or(|owner| record.allocation.owner == owner);
            of_owner && !record.promised && record.calls.freed.is_none()
        });
        let kept = kept.map(|record| (record.allocation, record.calls.allocated.clone()));
        let mut found: Vec<_> = kept.collect();
        found.sort_by_key(|(allocation, _)| allocation.id);
        found
    }

    /// Frees the allocation that starts at `base`, of any kind. The addresses of the allocation are
    /// reused only after this function has freed [`RESTING`] other allocations, or if all other
    /// addresses are in use. Exceptions are memory files and registrations, whose addresses can be
    /// reused immediately. If freed memory is quarantined ([`MemoryConfig::red_zone`]), this memory
    /// is quarantined too.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] if no allocation starts at `base`.
    pub fn retire(&self, base: u64) -> Result<(), MemoryError> {
        let record = self.index.write().remove(&base);
        let record = record.ok_or(MemoryError::NotAllocated(base))?;
        let most = match self.red_zone {
            0 => RESTING,
            _ => QUARANTINED,
        };
        self.books.lock().retire(record, &self.usage, most);
        Ok(())
    }

    /// Frees all allocations and registrations of one owner; returns their number.
    pub fn free_owned(&self, owner: u64) -> usize {
        let records: Vec<Record> = {
            let mut index = self.index.write();
            let owned = index.extract_if(.., |_, record| record.allocation.owner == owner);
            owned.map(|(_, record)| record).collect()
        };
        let mut books = self.books.lock();
        for record in &records {
            books.release(record, &self.usage, FreedBy::Owner);
        }
        // The next allocations must not reuse these addresses while they are accessible.
        books.pages.close_idle();
        records.len()
    }

    /// Returns whether the program has ever tried to make an allocation accessible to other processes.
    pub(super) fn is_exported(&self) -> bool {
        self.exported.load(Ordering::SeqCst)
    }

    /// Returns the set of the kinds that the allocations and registrations of the program have.
    pub fn kinds(&self) -> Vec<MemoryKind> {
        let mut kinds = Vec::new();
        for record in self.index.read().values() {
            let kind = record.allocation.kind;
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Returns the allocation or registration that contains `address`.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let index = self.index.read();
        let (_, record) = index.range(..=address).next_back()?;
        let allocation = record.allocation;
        allocation.holds(address, 1).then_some(allocation)
    }

    /// Returns whether [`margay_jit::MARGIN`] bytes before and after the range are reserved and inaccessible.
    pub fn has_margins(&self) -> bool {
        self.has_margins
    }

    /// Returns whether `address` is in a recently freed allocation and in no current allocation, or in memory of a
    /// graph that has the flag [`UNALLOCATED`].
    pub fn was_freed(&self, address: u64) -> bool {
        match self.find(address) {
            Some(found) => found.flags & UNALLOCATED != 0,
            None => self.books.lock().freed.holds(address),
        }
    }

    /// Returns all allocations and registrations, ordered by address.
    pub fn allocations(&self) -> Vec<Allocation> {
        self.index.read().values().map(|r| r.allocation).collect()
    }

    /// Registers host memory that the program allocated itself.
    ///
    /// # Errors
    /// [`MemoryError::InvalidSize`] for 0 bytes, a null address or a range that overflows; [`MemoryError::NotMapped`]
    /// if part of the memory is not mapped or is memory of this library other than pinned memory;
    /// [`MemoryError::AlreadyRegistered`] if part of the memory is registered or was allocated as pinned memory.
    pub fn register(
        &self,
        base: u64,
        bytes: u64,
        device: i32,
        owner: u64,
        flags: u32,
    ) -> Result<Allocation, MemoryError> {
        let end = base.checked_add(bytes).filter(|_| bytes != 0 && base != 0);
        let end = end.ok_or(MemoryError::InvalidSize(bytes))?;
        if !limits::is_mapped(base, bytes) {
            return Err(MemoryError::NotMapped(base));
        }
        let (id, call) = (self.new_id(), self.call());
        let mut index = self.index.write();
        let overlap = index
            .range(..end)
            .next_back()
            .filter(|(_, r)| r.allocation.end() > base);
        if let Some((_, record)) = overlap {
            return Err(match record.allocation.kind {
                MemoryKind::Registered | MemoryKind::Pinned => MemoryError::AlreadyRegistered(base),
                _ => MemoryError::NotMapped(base),
            });
        }
        // The reserved range contains only memory of this library. A part of this range that is not in the index is not
        // allocated.
        let reserved = self.range();
        if base < reserved.end && reserved.start < end {
            return Err(MemoryError::NotMapped(base));
        }
        let allocation = Allocation {
            base,
            size: bytes,
            kind: MemoryKind::Registered,
            device,
            owner,
            flags,
            id,
        };
        let mut record = Record::new(allocation, Backing::Foreign);
        record.calls.allocated = call;
        index.insert(base, record);
        Ok(allocation)
    }

    /// Removes the registration that starts at `base`.
    ///
    /// # Errors
    /// [`MemoryError::NotRegistered`] if no registration starts at `base`.
    pub fn unregister(&self, base: u64) -> Result<Allocation, MemoryError> {
        self.free(base, &[MemoryKind::Registered])
            .map_err(|_| MemoryError::NotRegistered(base))
    }

    /// Returns the current amounts of memory.
    pub fn info(&self) -> MemoryInfo {
        let allocations = self.index.read().len();
        let cached = self.books.lock().pages.warm_bytes();
        let (total, free) = self.device_info(0);
        MemoryInfo {
            total,
            free,
            device: total - free,
            pinned: self.usage.pinned(),
            managed: self.usage.managed(),
            cached,
            allocations,
            reserved: self.len,
        }
    }

    /// Returns the size in bytes of a device's memory, and the number of bytes that can still be allocated.
    pub fn device_info(&self, device: usize) -> (u64, u64) {
        self.usage.device(device)
    }

    /// Returns an ID that was not used before.
    pub(super) fn new_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes freed pieces inaccessible, so that accesses of the next launch to these pieces fault. (Freed slots of
    /// slabs stay accessible.)
    pub(crate) fn close_freed(&self) {
        if self.idle.load(Ordering::Relaxed) != 0 {
            self.books.lock().pages.close_idle();
        }
    }

    /// Releases the freed memory that is kept for reuse to the system.
    pub fn trim(&self) {
        self.books.lock().pages.flush();
    }

    /// Returns whether `address` is in the reserved range, whether or not it is allocated.
    pub fn contains(&self, address: u64) -> bool {
        self.holds(address, 1)
    }

    /// Returns the reserved address range.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.base..self.base + self.len
    }

    fn holds(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.len && bytes <= self.len - offset
    }
}

/// Subtracts `cost` bytes from the counters of memory in use. The allocation of the record's memory
/// added the same number of bytes.
fn give(record: &Record, cost: u64, usage: &Usage) {
    let Allocation { kind, device, .. } = record.allocation;
    if record.promised {
        usage.keep(device, cost);
    }
    usage.give(kind, device, cost);
}

impl Books {
    fn alloc(&mut self, request: &Request, space: &AddressSpace) -> Result<Record, MemoryError> {
        let (usage, kind) = (&space.usage, request.kind);
        let out_of_memory = || MemoryError::OutOfMemory {
            requested: request.bytes,
            free: usage.free(kind, request.device),
        };
        let front = space.zones.map_or(Some(0), RedZones::front);
        let front = front.ok_or_else(out_of_memory)?;
        let bytes = match space.zones {
            None => request.bytes,
            Some(zones) => zones.reserved(request.bytes).ok_or_else(out_of_memory)?,
        };
        // Only slots need padding before the next allocation. Separate pieces need no padding, because inaccessible
        // pages follow them.
        let padded = bytes.saturating_add(space.red_zone);
        let class = slab::class_of(padded).filter(|_| !self.has_own_pages());
        let cost = match class {
            Some(class) => Some(slab::CLASSES[class]),
            None => self.pages.rounded(bytes),
        };
        let cost = cost.ok_or_else(out_of_memory)?;
        if !usage.take(kind, request.device, cost) {
            return Err(out_of_memory());
        }
        if self.pages.warm_bytes() > usage.free(kind, request.device) {
            self.pages.flush();
        }
        let mut found = self.take(class, bytes);
        if found.is_none() && !self.resting.is_empty() {
            self.wake(0);
            found = self.take(class, bytes);
        }
        let Some((start, place)) = found else {
            usage.give(kind, request.device, cost);
            return Err(out_of_memory());
        };
        let allocation = Allocation::new(start + front, request, space.new_id());
        Ok(Record {
            front,
            ..Record::new(allocation, place)
        })
    }

    /// Allocates a slot of a slab of the class `class` or, if `class` is `None`, a separate piece.
    fn take(&mut self, class: Option<usize>, bytes: u64) -> Option<(u64, Backing)> {
        match class {
            Some(class) => self.take_slot(class),
            None => {
                let base = self.pages.open(bytes)?;
                self.small_pieces += usize::from(bytes <= SMALL_LIMIT);
                Some((base, Backing::Piece(bytes)))
            }
        }
    }

    /// Returns whether the next small allocation gets its own pages.
    fn has_own_pages(&self) -> bool {
        self.pages.is_roomy() && self.small_pieces < SMALL_PIECES
    }

    fn take_slot(&mut self, class: usize) -> Option<(u64, Backing)> {
        if self.partial[class].is_empty() {
            let base = self.pages.open(self.pages.slab_len())?;
            let slab = Slab::new(base, self.pages.slab_len(), class);
            self.slabs.insert(base, slab);
            self.partial[class].push(base);
        }
        let base = *self.partial[class].last()?;
        let slab = self.slabs.get_mut(&base)?;
        let address = slab.take()?;
        if slab.is_full() {
            self.partial[class].pop();
        }
        Some((address, Backing::Slab(base)))
    }

    /// Returns the number of bytes that an allocation adds to the memory in use.
    fn cost_of(&self, record: &Record) -> u64 {
        let cost = match record.place {
            Backing::Foreign | Backing::Imported { .. } => None,
            Backing::Piece(len) => self.pages.rounded(len),
            Backing::Slab(slab) => {
                let slab = self.slabs.get(&slab);
                slab.map(|slab| slab::CLASSES[slab.class])
            }
            Backing::Arena(..) => self.pages.rounded(record.allocation.size),
        };
        cost.unwrap_or(0)
    }

    /// Frees the memory of a record that was removed from the index. Memory that the program registered, or that the
    /// virtual memory interface mapped, is not freed.
    fn release(&mut self, record: &Record, usage: &Usage, by: FreedBy) {
        let base = record.start();
        let cost = self.cost_of(record);
        self.freed.note(record, by);
        self.forget_small(&record.place);
        match &record.place {
            Backing::Foreign => return,
            &Backing::Imported { start, len } => return self.pages.close_shared(start, len),
            Backing::Piece(len) => self.close(base, *len),
            Backing::Slab(slab) => self.give_slot(*slab, base),
            Backing::Arena(arena, offset) => {
                self.pages.close_shared(base, cost);
                arena.give(*offset, cost);
            }
        }
        give(record, cost, usage);
    }

    /// Frees the memory of a record, but does not yet permit the reuse of its addresses if the
    /// memory is a private piece or a slot. [`Books::wake`] permits the reuse later, at the latest
    /// when `most` further records have been retired.
    fn retire(&mut self, record: Record, usage: &Usage, most: usize) {
        let base = record.start();
        match record.place {
            Backing::Piece(len) if !self.shared.contains_key(&base) => self.pages.rest(base, len),
            Backing::Slab(_) => {}
            _ => return self.release(&record, usage, FreedBy::Call),
        }
        self.freed.note(&record, FreedBy::Call);
        self.forget_small(&record.place);
        give(&record, self.cost_of(&record), usage);
        self.resting.push_back((base, record.place));
        self.wake(most);
    }

    /// Updates the number of small allocations that have their own pages. The caller has freed the
    /// memory `place`.
    fn forget_small(&mut self, place: &Backing) {
        if let Backing::Piece(len) = place
            && *len <= SMALL_LIMIT
        {
            self.small_pieces -= 1;
        }
    }

    /// Removes the oldest entries of `resting` until `left` entries remain, and makes the addresses
    /// of the removed entries available for reuse.
    fn wake(&mut self, left: usize) {
        while self.resting.len() > left {
            match self.resting.pop_front() {
                Some((base, Backing::Piece(len))) => self.pages.wake(base, len),
                Some((base, Backing::Slab(slab))) => self.give_slot(slab, base),
                _ => {}
            }
        }
    }

    /// Frees a piece, which may have been exported to other processes.
    fn close(&mut self, base: u64, len: u64) {
        match self.shared.remove(&base) {
            Some(_) => self.pages.close_shared(base, len),
            None => self.pages.close(base, len),
        }
    }

    fn give_slot(&mut self, slab_base: u64, address: u64) {
        let Some(slab) = self.slabs.get_mut(&slab_base) else {
            return;
        };
        let (was_full, class) = (slab.is_full(), slab.class);
        if !slab.give(address) {
            return;
        }
        let partial = &mut self.partial[class];
        if was_full {
            partial.push(slab_base);
        }
        // If no other slab of the class has a free slot, an empty slab is kept for the next request.
        if slab.is_empty() && partial.len() > 1 {
            partial.retain(|&base| base != slab_base);
            self.slabs.remove(&slab_base);
            self.close(slab_base, self.pages.slab_len());
        }
    }
}

/// Returns the reservation sizes to try, largest first. Under `ulimit -v`, a size is at most half of the addresses that
/// are left, because CTA windows, the program and its threads also need addresses.
fn reservation_sizes(wanted: u64) -> impl Iterator<Item = u64> {
    const SMALLEST: u64 = 32 << 20;
    let left = limits::address_space_left().map_or(u64::MAX, |left| (left / 2).max(SMALLEST));
    // The size is a power of two because generated code tests the addresses of several lanes against the range with one
    // comparison.
    let first = wanted.max(SMALLEST).next_power_of_two();
    std::iter::successors(Some(first), |size| Some(size / 2))
        .take_while(|&size| size >= SMALLEST)
        .filter(move |&size| size <= left)
}

#[cfg(test)]
#[path = "space_tests.rs"]
pub(super) mod tests;
