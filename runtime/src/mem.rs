//! The allocations of one machine: what is where and whose.
//!
//! A thin layer over [`AddressSpace`] that knows contexts and what the program may free.
//! Invariant: an address is looked up here before any copy or fill touches it.

use crate::context::{HostFlags, PointerKind};
use crate::error::Result;
use crate::memory::{self, AddressSpace, MemoryConfig, MemoryError, MemoryKind};

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
    space: AddressSpace,
    total: u64,
}

const PORTABLE: u32 = 1;
const DEVICE_MAP: u32 = 2;
const WRITE_COMBINED: u32 = 4;
const READ_ONLY: u32 = 8;
const INTERNAL: u32 = 1 << 31;

const ALL_KINDS: [MemoryKind; 4] = [
    MemoryKind::Device,
    MemoryKind::Pool,
    MemoryKind::Managed,
    MemoryKind::Pinned,
];

impl Request {
    fn bits(&self) -> u32 {
        let HostFlags {
            portable,
            device_map,
            write_combined,
            read_only,
        } = self.flags;
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        bit(portable, PORTABLE)
            | bit(device_map, DEVICE_MAP)
            | bit(write_combined, WRITE_COMBINED)
            | bit(read_only, READ_ONLY)
            | bit(self.internal, INTERNAL)
    }

    fn kind(&self) -> MemoryKind {
        match self.kind {
            PointerKind::Device if self.pooled => MemoryKind::Pool,
            PointerKind::Device => MemoryKind::Device,
            PointerKind::Pinned => MemoryKind::Pinned,
            PointerKind::Registered => MemoryKind::Registered,
            PointerKind::Managed => MemoryKind::Managed,
        }
    }
}

impl From<memory::Allocation> for Allocation {
    fn from(found: memory::Allocation) -> Allocation {
        let is = |bit: u32| found.flags & bit != 0;
        Allocation {
            base: found.base,
            size: found.size,
            kind: match found.kind {
                MemoryKind::Device | MemoryKind::Pool => PointerKind::Device,
                MemoryKind::Pinned => PointerKind::Pinned,
                MemoryKind::Managed => PointerKind::Managed,
                MemoryKind::Registered => PointerKind::Registered,
            },
            context: found.owner,
            flags: HostFlags {
                portable: is(PORTABLE),
                device_map: is(DEVICE_MAP),
                write_combined: is(WRITE_COMBINED),
                read_only: is(READ_ONLY),
            },
            id: found.id,
            pooled: found.kind == MemoryKind::Pool,
            internal: is(INTERNAL),
        }
    }
}

impl DeviceMemory {
    /// Memory of a device of `limit` bytes; `None`: of what this process may use.
    pub(crate) fn new(limit: Option<u64>) -> Result<DeviceMemory> {
        let config = MemoryConfig {
            device_limit: limit,
            ..MemoryConfig::default()
        };
        let space = AddressSpace::new(&config)?;
        let total = space.info().total;
        Ok(DeviceMemory { space, total })
    }

    /// Memory that holds zeroes or what an earlier allocation left.
    pub(crate) fn allocate(&self, request: Request) -> Result<Allocation> {
        let allocation = self.space.alloc(&memory::Request {
            bytes: request.size,
            kind: request.kind(),
            device: 0,
            owner: request.context,
            flags: request.bits(),
        })?;
        Ok(allocation.into())
    }

    /// Zeroed memory.
    pub(crate) fn allocate_zeroed(&self, request: Request) -> Result<Allocation> {
        let allocation = self.allocate(request)?;
        self.space.fill8(allocation.base, 0, allocation.size)?;
        Ok(allocation)
    }

    /// Notes host memory of the program.
    pub(crate) fn register(&self, base: u64, request: Request) -> Result<Allocation> {
        let Request { size, context, .. } = request;
        let registered = self
            .space
            .register(base, size, 0, context, request.bits())?;
        Ok(registered.into())
    }

    /// Undoes a registration.
    pub(crate) fn unregister(&self, base: u64) -> Result<()> {
        self.space.unregister(base)?;
        Ok(())
    }

    /// The allocation that holds `address`.
    pub(crate) fn lookup(&self, address: u64) -> Option<Allocation> {
        self.space.find(address).map(Allocation::from)
    }

    /// Frees the allocation that starts at `base`; `internal`: whether it must be one that the
    /// program cannot free.
    pub(crate) fn release(&self, base: u64, internal: bool) -> Result<()> {
        let found = self.lookup(base);
        let matches = found.is_some_and(|found| found.base == base && found.internal == internal);
        if !matches {
            return Err(MemoryError::NotAllocated(base).into());
        }
        self.space.free(base, &ALL_KINDS)?;
        Ok(())
    }

    /// Frees everything that belongs to a context.
    pub(crate) fn release_context(&self, context: u64) {
        self.space.free_owned(context);
    }

    /// Writes to an allocation.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.space.write(address, bytes)?;
        Ok(())
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.space.info().free
    }

    pub(crate) fn total_bytes(&self) -> u64 {
        self.total
    }
}
