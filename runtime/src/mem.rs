//! Allocates, looks up and frees the memory of one machine.
//!
//! This module adds two things to [`AddressSpace`]: the contexts that own memory, and the rules
//! that determine which memory the program may free. Invariant: before a copy or fill accesses an
//! address, it looks up the allocation at this address with a function of this module.

use std::sync::Arc;

use crate::call_stack::CallStack;
use crate::checks;
use crate::error::Result;
use crate::memory::{
    self, AddressSpace, CONSTANT, MemoryConfig, MemoryError, MemoryKind, READ_ONLY,
};
use crate::observe::{AllocationKind, HostEvent, Tools};
use crate::pointer::{HostFlags, PointerKind};

/// An allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    /// Requested size of the allocation in bytes.
    pub(crate) size: u64,
    pub(crate) kind: PointerKind,
    /// The ID of the context that owns the memory. For memory of a pool, this is the primary
    /// context whose reset frees the memory. 0 if no context owns the memory, for example for a
    /// managed variable of a library.
    pub(crate) context: u64,
    pub(crate) flags: HostFlags,
    pub(crate) id: u64,
    /// Ordinal of the device, or -1 for host memory of the virtual memory interface.
    pub(crate) device: i32,
    pub(crate) pooled: bool,
    /// Whether the memory is a mapping of the virtual memory interface.
    pub(crate) mapped: bool,
    /// Whether the memory belongs to another process.
    pub(crate) imported: bool,
    /// Whether the memory belongs to a module, an array, a graph, the runtime or another process, so that functions
    /// such as `cuMemFree` do not free it.
    pub(crate) internal: bool,
}

impl Allocation {
    /// Returns whether `cuMemFree` and `cuMemFreeAsync` free the allocation. Other functions free pinned memory and
    /// mappings of the virtual memory interface.
    pub(crate) fn is_freeable(&self) -> bool {
        let device = matches!(self.kind, PointerKind::Device | PointerKind::Managed);
        device && !self.internal && !self.mapped
    }
}

/// The properties of a new allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) size: u64,
    pub(crate) kind: PointerKind,
    pub(crate) context: u64,
    /// Ordinal of the device to which the memory belongs.
    pub(crate) device: i32,
    pub(crate) flags: HostFlags,
    pub(crate) pooled: bool,
    pub(crate) internal: bool,
    /// Whether the memory is a variable in constant memory.
    pub(crate) constant: bool,
}

/// All memory of a machine.
pub(crate) struct DeviceMemory {
    space: Arc<AddressSpace>,
    tools: Arc<Tools>,
}

const PORTABLE: u32 = 1;
const DEVICE_MAP: u32 = 2;
const WRITE_COMBINED: u32 = 4;
const POOLED: u32 = 1 << 30;
const INTERNAL: u32 = 1 << 31;

const ALL_KINDS: [MemoryKind; 5] = [
    MemoryKind::Device,
    MemoryKind::Pool,
    MemoryKind::Managed,
    MemoryKind::Pinned,
    MemoryKind::Imported,
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
            | bit(self.pooled, POOLED)
            | bit(self.internal, INTERNAL)
            | bit(self.constant, CONSTANT)
    }

    pub(crate) fn of_space(&self) -> memory::Request {
        memory::Request {
            bytes: self.size,
            kind: self.kind(),
            device: self.device,
            owner: self.context,
            flags: self.bits(),
        }
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
                MemoryKind::Device
                | MemoryKind::Pool
                | MemoryKind::Mapped
                | MemoryKind::Imported => PointerKind::Device,
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
            device: found.device,
            pooled: is(POOLED),
            mapped: found.kind == MemoryKind::Mapped,
            imported: found.kind == MemoryKind::Imported,
            internal: is(INTERNAL),
        }
    }
}

impl DeviceMemory {
    /// Creates the memory of all devices of a machine.
    pub(crate) fn new(config: &MemoryConfig) -> Result<DeviceMemory> {
        let space = Arc::new(AddressSpace::new(config)?);
        Ok(DeviceMemory {
            space,
            tools: Arc::default(),
        })
    }

    /// Sets the tools that observe allocations and frees, and returns the memory.
    pub(crate) fn observed(self, tools: Arc<Tools>) -> DeviceMemory {
        DeviceMemory { tools, ..self }
    }

    /// Allocates the memory that suppressed accesses of kernels use: one block for loads and one for other accesses.
    /// Each block is large enough for any access.
    pub(crate) fn spare(&self) -> Result<[u64; 2]> {
        let one = || -> Result<u64> {
            let allocation = self.allocate_zeroed(Request {
                size: 256,
                kind: PointerKind::Device,
                device: 0,
                context: 0,
                flags: HostFlags::default(),
                pooled: false,
                internal: true,
                constant: false,
            });
            Ok(allocation?.base)
        };
        Ok([one()?, one()?])
    }

    /// Returns the address space that contains the memory.
    pub(crate) fn space(&self) -> &Arc<AddressSpace> {
        &self.space
    }

    /// Allocates memory. The memory contains zeros or data of an earlier allocation. Passes the
    /// allocation as an event to the tools that observe the runtime ([`crate::observe`]), unless
    /// the program cannot free the allocation (`internal`).
    pub(crate) fn allocate(&self, request: Request) -> Result<Allocation> {
        let allocation: Allocation = self.space.alloc(&request.of_space())?.into();
        if request.kind == PointerKind::Device && !request.internal {
            checks::host::allocated(allocation.base, allocation.size);
        }
        if !request.internal {
            self.tools.tell(|| HostEvent::Allocate {
                address: allocation.base,
                bytes: request.size,
                kind: observed_kind(request.kind),
                context: request.context,
                device: request.device,
            });
        }
        Ok(allocation)
    }

    /// Allocates zeroed memory.
    pub(crate) fn allocate_zeroed(&self, request: Request) -> Result<Allocation> {
        let allocation = self.allocate(request)?;
        self.space.zero(allocation.base, allocation.size)?;
        checks::host::written(allocation.base, allocation.size);
        Ok(allocation)
    }

    /// Registers host memory of the program.
    pub(crate) fn register(&self, base: u64, request: Request) -> Result<Allocation> {
        let memory::Request {
            bytes,
            device,
            owner,
            flags,
            ..
        } = request.of_space();
        let registered = self.space.register(base, bytes, device, owner, flags)?;
        Ok(registered.into())
    }

    /// Ends a registration.
    pub(crate) fn unregister(&self, base: u64) -> Result<()> {
        self.space.unregister(base)?;
        Ok(())
    }

    /// Returns the allocation that contains `address`.
    pub(crate) fn lookup(&self, address: u64) -> Option<Allocation> {
        self.space.find(address).map(Allocation::from)
    }

    /// Returns whether at least one of the `span` bytes at `address` is in the address range of
    /// device memory, whether or not this byte is allocated.
    pub(crate) fn overlaps(&self, address: u64, span: u64) -> bool {
        let range = self.space.range();
        address < range.end && address.saturating_add(span) > range.start
    }

    /// Returns the allocation that contains the `span` bytes at `address`. If the bytes extend over
    /// contiguous mappings of the virtual memory interface, returns the first mapping.
    pub(crate) fn holding(&self, address: u64, span: u64) -> Option<Allocation> {
        let first = self.lookup(address)?;
        let end = address.checked_add(span)?;
        let mut last = first;
        while last.base + last.size < end {
            if !last.mapped {
                return None;
            }
            last = self.lookup(last.base + last.size)?;
        }
        (last.mapped == first.mapped).then_some(first)
    }

    /// Frees the allocation that starts at `base`. If `internal` is true, the allocation must be one that the program
    /// cannot free. If `internal` is false, the allocation must be one that the program can free.
    /// In a checking run, the function examines the allocation before it frees the memory.
    pub(crate) fn release(&self, base: u64, internal: bool) -> Result<()> {
        let found = self.lookup(base);
        let matches = found.is_some_and(|found| found.base == base && found.internal == internal);
        if !matches {
            return Err(MemoryError::NotAllocated(base).into());
        }
        checks::host::unused(base, self.space.allocated_by(base).as_ref());
        checks::host::examine_zones(base);
        if !internal {
            // Before another thread can allocate the same address.
            if let Some(found) = found {
                self.tools.tell(|| HostEvent::Free {
                    address: base,
                    bytes: found.size,
                    kind: observed_kind(found.kind),
                    context: found.context,
                    device: found.device,
                });
            }
        }
        self.space.free(base, &ALL_KINDS)?;
        checks::host::freed(base);
        Ok(())
    }

    /// Records that a node of a graph allocates (`allocated` is true) or frees the memory `found`
    /// of the graph. Checking runs report accesses to the memory at times when it is not allocated,
    /// and reads of bytes that were not written after the allocation.
    pub(crate) fn set_allocated(&self, found: &Allocation, allocated: bool) {
        self.space.set_allocated(found.base, allocated);
        if allocated && found.kind == PointerKind::Device {
            checks::host::allocated(found.base, found.size);
        }
    }

    /// Records that a stream will free the allocation that starts at `base`.
    pub(crate) fn promise(&self, base: u64) {
        self.space.promise(base);
    }

    /// Frees an allocation that the program cannot free; its addresses are not reused for a while.
    pub(crate) fn retire(&self, base: u64) -> Result<()> {
        let found = self.lookup(base);
        if !found.is_some_and(|found| found.base == base && found.internal) {
            return Err(MemoryError::NotAllocated(base).into());
        }
        self.space.retire(base)?;
        Ok(())
    }

    /// Frees all memory that belongs to a context. In a checking run, the function examines this
    /// memory before it frees the memory.
    pub(crate) fn release_context(&self, context: u64) {
        self.report_unused(Some(context));
        checks::host::examine_all_zones(&self.space, Some(context));
        self.space.free_owned(context);
    }

    /// If this run reports unused memory, reports the allocations that contain bytes which were
    /// never written. If `owner` is not `None`, reports only the memory of this context.
    pub(crate) fn report_unused(&self, owner: Option<u64>) {
        if checks::host::reports_unused() {
            for (allocation, call) in self.unfreed(owner) {
                checks::host::unused(allocation.base, call.as_ref());
            }
        }
    }

    /// Returns the memory that the program can free and has not freed, with the stacks of the calls that allocated it.
    /// If `owner` is not `None`, returns only the memory of this context.
    pub(crate) fn unfreed(
        &self,
        owner: Option<u64>,
    ) -> Vec<(memory::Allocation, Option<CallStack>)> {
        let mut found = self.space.unfreed(owner);
        found.retain(|(allocation, _)| allocation.flags & INTERNAL == 0);
        found
    }

    /// Copies `bytes` to device memory at `address`, and records that these bytes are initialised.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.space.write(address, bytes)?;
        checks::host::written(address, bytes.len() as u64);
        Ok(())
    }

    /// Returns the total and the free bytes of a device's memory.
    pub(crate) fn device_info(&self, device: i32) -> (u64, u64) {
        let device = usize::try_from(device).unwrap_or(0);
        self.space.device_info(device)
    }
}

/// Returns the kind of memory that tools receive.
fn observed_kind(kind: PointerKind) -> AllocationKind {
    match kind {
        PointerKind::Device => AllocationKind::Device,
        PointerKind::Managed => AllocationKind::Managed,
        PointerKind::Pinned | PointerKind::Registered => AllocationKind::Pinned,
    }
}
