//! The allocations of one machine: what is where and whose.
//!
//! Stands between contexts and the address range. Invariant: ranges in the table never overlap;
//! an address is looked up here before any copy or fill touches it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::context::{HostFlags, PointerKind};
use crate::error::{Error, Result};

/// One allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    /// As asked for.
    pub(crate) size: u64,
    pub(crate) kind: PointerKind,
    /// The owner's id; 0: no context (a library's managed variable).
    pub(crate) context: u64,
    pub(crate) flags: HostFlags,
    pub(crate) id: u64,
    pub(crate) pooled: bool,
    /// Belongs to a module or to the system; the program cannot free it.
    pub(crate) internal: bool,
    /// Mapped bytes.
    mapped: usize,
}

/// What to allocate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) size: u64,
    pub(crate) kind: PointerKind,
    pub(crate) context: u64,
    pub(crate) flags: HostFlags,
    pub(crate) pooled: bool,
    pub(crate) internal: bool,
}

/// All memory of a machine.
pub(crate) struct DeviceMemory {
    table: RwLock<BTreeMap<u64, Allocation>>,
    used: AtomicU64,
    limit: u64,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

const PAGE: u64 = 4096;

impl DeviceMemory {
    pub(crate) fn new(limit: u64) -> DeviceMemory {
        DeviceMemory {
            table: RwLock::new(BTreeMap::new()),
            used: AtomicU64::new(0),
            limit,
        }
    }

    /// Zeroed memory.
    pub(crate) fn allocate(&self, request: Request) -> Result<Allocation> {
        let size = request.size;
        let full = || Error::OutOfMemory {
            requested: size,
            free: self.free_bytes(),
        };
        let mapped = size
            .max(1)
            .checked_next_multiple_of(PAGE)
            .filter(|&bytes| bytes <= self.free_bytes())
            .ok_or_else(full)?;
        let base = map(mapped as usize).ok_or_else(full)?;
        self.used.fetch_add(mapped, Ordering::Relaxed);
        let allocation = self.entry(base, mapped as usize, request);
        self.table.write().insert(base, allocation);
        Ok(allocation)
    }

    /// Notes host memory of the program.
    pub(crate) fn register(&self, base: u64, request: Request) -> Result<Allocation> {
        let end = base
            .checked_add(request.size)
            .ok_or_else(|| Error::invalid("the range wraps around"))?;
        let mut table = self.table.write();
        let before = table.range(..end).next_back();
        if before.is_some_and(|(_, other)| other.base + other.size.max(1) > base) {
            return Err(Error::HostMemoryAlreadyRegistered);
        }
        let allocation = self.entry(base, 0, request);
        table.insert(base, allocation);
        Ok(allocation)
    }

    fn entry(&self, base: u64, mapped: usize, request: Request) -> Allocation {
        Allocation {
            base,
            size: request.size,
            kind: request.kind,
            context: request.context,
            flags: request.flags,
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            pooled: request.pooled,
            internal: request.internal,
            mapped,
        }
    }

    /// The allocation that holds `address`.
    pub(crate) fn lookup(&self, address: u64) -> Option<Allocation> {
        let table = self.table.read();
        let (_, found) = table.range(..=address).next_back()?;
        (address - found.base < found.size.max(1)).then_some(*found)
    }

    /// Removes the allocation that starts at `base` if `allowed`; its memory is unmapped.
    pub(crate) fn release(
        &self,
        base: u64,
        allowed: impl FnOnce(&Allocation) -> bool,
    ) -> Option<Allocation> {
        let found = {
            let mut table = self.table.write();
            let found = table.get(&base).copied().filter(|found| allowed(found))?;
            table.remove(&base);
            found
        };
        self.drop_mapping(&found);
        Some(found)
    }

    /// Removes everything that belongs to a context.
    pub(crate) fn release_context(&self, context: u64) {
        let gone: Vec<Allocation> = {
            let mut table = self.table.write();
            let gone = table.extract_if(.., |_, found| found.context == context);
            gone.map(|(_, found)| found).collect()
        };
        gone.iter().for_each(|found| self.drop_mapping(found));
    }

    fn drop_mapping(&self, found: &Allocation) {
        if found.mapped > 0 {
            self.used.fetch_sub(found.mapped as u64, Ordering::Relaxed);
            unmap(found.base, found.mapped);
        }
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.limit
    }
}

fn map(bytes: usize) -> Option<u64> {
    // SAFETY: a new private mapping touches nothing that exists.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (address != libc::MAP_FAILED).then_some(address as u64)
}

fn unmap(base: u64, bytes: usize) {
    // SAFETY: the range was mapped by `map` and left the table, so nobody looks it up any more.
    unsafe {
        libc::munmap(base as *mut libc::c_void, bytes);
    }
}
