//! Allocates, frees and describes the memory of contexts: device, managed, pinned and registered
//! memory.

use std::sync::Arc;

use super::{Context, PointerInfo};
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::mem::{Allocation, Request};
use crate::memory::{self, Arena, MemoryKind, SharedMemory, host_rights};
use crate::pointer::{DevicePtr, HostFlags, PointerKind};
use crate::process::check_fork;

/// Alignment in bytes of the rows of pitched memory.
const PITCH: u64 = 512;

impl Context {
    fn request(&self, size: u64, kind: PointerKind) -> Request {
        Request {
            size,
            kind,
            context: self.id(),
            device: self.ordinal(),
            flags: HostFlags::default(),
            pooled: false,
            internal: false,
            constant: false,
        }
    }

    fn allocate(&self, request: Request) -> Result<DevicePtr> {
        self.allocate_with_id(request).map(|(ptr, _)| ptr)
    }

    fn allocate_with_id(&self, request: Request) -> Result<(DevicePtr, u64)> {
        self.status()?;
        if request.size == 0 {
            return Err(Error::invalid("an allocation of 0 bytes"));
        }
        let allocation = self.machine().memory.allocate(request)?;
        Ok((DevicePtr::new(allocation.base), allocation.id))
    }

    /// Allocates device memory.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for 0 bytes, [`Error::OutOfMemory`].
    pub fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        self.allocate(self.request(bytes, PointerKind::Device))
    }

    /// Allocates device memory. Returns the address and the ID of the allocation, which is never reused.
    pub(crate) fn alloc_with_id(&self, bytes: u64) -> Result<(DevicePtr, u64)> {
        self.allocate_with_id(self.request(bytes, PointerKind::Device))
    }

    /// Allocates memory of a stream-ordered pool. `kind` is the kind of the memory. The allocation
    /// increases the number of used bytes of `device`. If other processes use the pool, the memory
    /// comes from `arena`. Pools do not belong to a context, so the end of this context does not
    /// free their memory. The only exception is device and managed memory that is allocated in a
    /// primary context ([`Device::primary_reset`](crate::Device::primary_reset)).
    ///
    /// # Errors
    /// Returns the same errors as [`Context::alloc`].
    pub fn alloc_from_pool(
        &self,
        bytes: u64,
        device: i32,
        kind: PointerKind,
        arena: Option<&Arc<Arena>>,
    ) -> Result<DevicePtr> {
        let request = self.pooled(bytes, kind, device);
        let Some(arena) = arena else {
            return self.allocate(request);
        };
        self.status()?;
        let space = self.machine().memory.space();
        let allocation = space.alloc_in(arena, &request.of_space())?;
        Ok(DevicePtr::new(allocation.base))
    }

    /// Imports the allocation of `bytes` bytes at `offset` in another process's pool. The program frees the imported
    /// allocation like an allocation of this process.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the range is not inside the pool.
    pub fn import_pooled(&self, arena: &Arena, offset: u64, bytes: u64) -> Result<DevicePtr> {
        self.import(arena.memory(), offset, bytes, false)
    }

    /// Imports `bytes` bytes at `offset` of another process's memory. The program ends this use of
    /// the memory with [`Context::release_import`].
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the range is not inside `memory`.
    pub fn import_memory(
        &self,
        memory: &SharedMemory,
        offset: u64,
        bytes: u64,
    ) -> Result<DevicePtr> {
        self.import(memory, offset, bytes, true)
    }

    fn import(
        &self,
        memory: &SharedMemory,
        offset: u64,
        bytes: u64,
        internal: bool,
    ) -> Result<DevicePtr> {
        self.status()?;
        let device = memory.label().device;
        let known = self.machine().device(device).is_some();
        let request = memory::Request {
            kind: MemoryKind::Imported,
            ..Request {
                internal,
                device: if known { device } else { self.ordinal() },
                ..self.request(bytes, PointerKind::Device)
            }
            .of_space()
        };
        let space = self.machine().memory.space();
        let allocation = space.import(memory, offset, &request)?;
        Ok(DevicePtr::new(allocation.base))
    }

    /// Ends the use of another process's memory, after all submitted work of the context that imported the memory is
    /// complete.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when `ptr` is not the start of imported memory.
    pub fn release_import(&self, ptr: DevicePtr) -> Result<()> {
        check_fork()?;
        let base = ptr.address();
        let owner = self.owner_of(base, |found| found.imported)?;
        owner.wait_for_everything();
        self.machine().memory.release(base, true)
    }

    /// Allocates device memory of a stream-ordered pool.
    pub(crate) fn alloc_pooled(&self, bytes: u64) -> Result<DevicePtr> {
        self.allocate(self.pooled(bytes, PointerKind::Device, self.ordinal()))
    }

    fn pooled(&self, bytes: u64, kind: PointerKind, device: i32) -> Request {
        Request {
            context: self.ends_pooled(kind, device),
            device,
            pooled: true,
            ..self.request(bytes, kind)
        }
    }

    /// Returns the owner of pool memory that this context allocates on `device`: the ID of the
    /// context whose reset frees the memory, or 0 if no reset of a context frees it.
    fn ends_pooled(&self, kind: PointerKind, device: i32) -> u64 {
        if !self.is_primary() || kind == PointerKind::Pinned {
            return 0;
        }
        if device == self.ordinal() {
            return self.id();
        }
        let primary = Context::primary_of(self.machine(), device);
        primary
            .filter(Context::is_alive)
            .map_or(0, |primary| primary.id())
    }

    /// Allocates zeroed memory that the program's own calls cannot free: variables of modules, arrays, and memory of
    /// graphs.
    pub(crate) fn alloc_internal(&self, bytes: u64, kind: PointerKind) -> Result<DevicePtr> {
        self.alloc_variable(bytes, kind, false)
    }

    /// Allocates zeroed memory for a variable of a module. `constant` states whether the variable is in constant
    /// memory.
    pub(crate) fn alloc_variable(
        &self,
        bytes: u64,
        kind: PointerKind,
        constant: bool,
    ) -> Result<DevicePtr> {
        self.status()?;
        let request = Request {
            internal: true,
            constant,
            ..self.request(bytes, kind)
        };
        let allocation = self.machine().memory.allocate_zeroed(request)?;
        Ok(DevicePtr::new(allocation.base))
    }

    pub(crate) fn free_internal(&self, ptr: DevicePtr) {
        // If the context's life has ended, the memory is already freed.
        let _ = self.machine().memory.release(ptr.address(), true);
    }

    /// Allocates device memory for `height` rows of `width` bytes. Returns the address and the pitch (the number of
    /// bytes from one row to the next). `element` is the size of an element in bytes; it does not change the pitch.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an element size other than 4, 8 or 16, or a size of 0 bytes.
    pub fn alloc_pitched(&self, width: u64, height: u64, element: u32) -> Result<(DevicePtr, u64)> {
        if !matches!(element, 4 | 8 | 16) {
            return Err(Error::invalid(format!("element size {element}")));
        }
        let pitch = width
            .checked_next_multiple_of(PITCH)
            .ok_or_else(|| Error::invalid("the pitch overflows"))?;
        let bytes = pitch
            .checked_mul(height)
            .ok_or_else(|| Error::invalid("the size overflows"))?;
        Ok((self.alloc(bytes)?, pitch))
    }

    /// Allocates managed memory, which host and device can access. `attach` contains the `CU_MEM_ATTACH_*` flags.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] unless `attach` is 1 (global) or 2 (host).
    pub fn alloc_managed(&self, bytes: u64, attach: u32) -> Result<DevicePtr> {
        if !matches!(attach, 1 | 2) {
            return Err(Error::invalid(format!("attach flags {attach:#x}")));
        }
        self.allocate(self.request(bytes, PointerKind::Managed))
    }

    /// Frees the allocation that begins at `base` if `accept` returns true for the allocation;
    /// otherwise returns an error. First waits for all submitted work of the allocation's context.
    /// If the memory comes from a pool, waits for the work of all contexts.
    pub(crate) fn wait_and_release(
        &self,
        base: u64,
        accept: impl FnOnce(&Allocation) -> bool,
    ) -> Result<()> {
        let (mut pooled, mut id) = (false, 0);
        let owner = self.owner_of(base, |found| {
            (pooled, id) = (found.pooled, found.id);
            accept(found)
        })?;
        match pooled {
            true => {
                for context in Context::all_of(self.machine()) {
                    context.wait_for_everything();
                }
            }
            false => owner.wait_for_everything(),
        }
        // During the wait, another thread can free the memory, and a later allocation can then have its address.
        let memory = &self.machine().memory;
        match memory.lookup(base) {
            Some(found) if found.id == id => self.release(base),
            _ => Err(Error::invalid(format!(
                "{base:#x} was freed during the call"
            ))),
        }
    }

    /// Returns a guard that frees the allocation at `base` when the guard is dropped. The memory is therefore freed
    /// even if the work that holds the guard never runs.
    pub(crate) fn release_on_drop(&self, base: u64) -> impl Send + use<> {
        struct Release {
            machine: Arc<Machine>,
            base: u64,
            id: Option<u64>,
        }
        impl Drop for Release {
            fn drop(&mut self) {
                // If the context has ended, the memory is already freed, and a later allocation can have its address.
                let memory = &self.machine.memory;
                if memory.lookup(self.base).map(|found| found.id) == self.id {
                    let _ = memory.release(self.base, false);
                }
            }
        }
        Release {
            id: self.machine().memory.lookup(base).map(|found| found.id),
            machine: Arc::clone(self.machine()),
            base,
        }
    }

    /// Frees the allocation at `base` without waiting for work. The caller ensures that no work uses the allocation.
    pub(crate) fn release(&self, base: u64) -> Result<()> {
        self.machine().memory.release(base, false)
    }

    /// Returns the context that owns the allocation at `base` if `accept` returns true for the
    /// allocation; otherwise returns an error.
    pub(crate) fn owner_of(
        &self,
        base: u64,
        accept: impl FnOnce(&Allocation) -> bool,
    ) -> Result<Context> {
        let machine = self.machine();
        let found = machine
            .memory
            .lookup(base)
            .filter(|found| found.base == base && accept(found))
            .ok_or_else(|| {
                Error::invalid(format!(
                    "{base:#x} is not the start of an allocation of this kind"
                ))
            })?;
        Context::of_allocation(machine, &found).ok_or(Error::ContextDestroyed)
    }

    /// Waits for all work that was submitted to the context. Does not return the errors of this
    /// work. Does nothing in a host function.
    pub(crate) fn wait_for_everything(&self) {
        if crate::service::in_host_function() {
            return;
        }
        if !self.inner().is_idle() {
            for task in self.inner().queues.all_tails() {
                task.wait();
            }
        }
        self.inner().queues.host_waited_for_all();
    }

    /// Allocates pinned host memory. Its device address equals its host address.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for 0 bytes, [`Error::OutOfMemory`].
    pub fn alloc_host(&self, bytes: u64, flags: HostFlags) -> Result<*mut u8> {
        let ptr = self.allocate(Request {
            flags,
            ..self.request(bytes, PointerKind::Pinned)
        })?;
        Ok(ptr.address() as *mut u8)
    }

    /// Frees pinned host memory.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when `ptr` is not the start of pinned memory.
    pub fn free_host(&self, ptr: *mut u8) -> Result<()> {
        check_fork()?;
        self.wait_and_release(ptr as u64, |found| found.kind == PointerKind::Pinned)
    }

    /// Registers host memory of the caller. The memory then counts as pinned, and the device can access it.
    ///
    /// # Errors
    /// [`Error::HostMemoryAlreadyRegistered`]; [`Error::InvalidValue`] for null or 0 bytes, for memory that is not
    /// mapped or not readable, and for read-only memory if `flags.read_only` is not set.
    pub fn register_host(&self, ptr: *mut u8, bytes: u64, flags: HostFlags) -> Result<()> {
        self.status()?;
        if ptr.is_null() || bytes == 0 {
            return Err(Error::invalid("nothing to register"));
        }
        let (readable, writable) = host_rights(ptr as u64, bytes);
        if !readable || !(writable || flags.read_only) {
            return Err(Error::invalid(
                "the memory is not mapped, not readable or not writable",
            ));
        }
        let request = Request {
            flags,
            ..self.request(bytes, PointerKind::Registered)
        };
        let memory = &self.machine().memory;
        memory.register(ptr as u64, request).map(|_| ())
    }

    /// Ends the registration of host memory.
    ///
    /// # Errors
    /// [`Error::HostMemoryNotRegistered`]; [`Error::InvalidValue`] for an address that is inside a registered range and
    /// is not the start of this range.
    pub fn unregister_host(&self, ptr: *mut u8) -> Result<()> {
        check_fork()?;
        let base = ptr as u64;
        let registered = |found: &Allocation| found.kind == PointerKind::Registered;
        let found = self.machine().memory.lookup(base).filter(registered);
        if found.is_some_and(|found| found.base != base) {
            return Err(Error::invalid("not the start of registered memory"));
        }
        let owner = self
            .owner_of(base, registered)
            .map_err(|_| Error::HostMemoryNotRegistered)?;
        owner.wait_for_everything();
        self.machine().memory.unregister(base)
    }

    fn host_allocation(&self, ptr: *const u8) -> Result<Allocation> {
        self.status()?;
        let found = self.machine().memory.lookup(ptr as u64);
        found
            .filter(|found| matches!(found.kind, PointerKind::Pinned | PointerKind::Registered))
            .ok_or_else(|| Error::invalid("not pinned or registered memory"))
    }

    /// Returns the device address of pinned or registered memory.
    pub fn host_device_pointer(&self, ptr: *const u8) -> Result<DevicePtr> {
        self.host_allocation(ptr)
            .map(|_| DevicePtr::new(ptr as u64))
    }

    /// Returns the flags of pinned or registered memory.
    pub fn host_flags(&self, ptr: *const u8) -> Result<HostFlags> {
        self.host_allocation(ptr).map(|found| found.flags)
    }

    /// Returns the free and the total bytes of device memory.
    pub fn mem_info(&self) -> Result<(u64, u64)> {
        self.status()?;
        let (total, free) = self.machine().memory.device_info(self.ordinal());
        Ok((free, total))
    }

    /// Returns the start and the size of the allocation that contains the address `ptr`.
    ///
    /// # Errors
    /// [`Error::NotFound`] when no allocation contains the address `ptr`.
    pub fn address_range(&self, ptr: DevicePtr) -> Result<(DevicePtr, u64)> {
        self.status()?;
        let found = self
            .machine()
            .memory
            .lookup(ptr.address())
            .ok_or_else(|| Error::NotFound(format!("memory at {:#x}", ptr.address())))?;
        Ok((DevicePtr::new(found.base), found.size))
    }

    /// Describes the allocation that contains an address. The allocation may belong to any context
    /// of the same runtime.
    pub(crate) fn describe(&self, address: u64) -> Option<PointerInfo> {
        let found = self.machine().memory.lookup(address)?;
        Some(PointerInfo {
            kind: found.kind,
            base: found.base,
            size: found.size,
            context: Context::of_allocation(self.machine(), &found)?,
            device: found.device,
            flags: found.flags,
            id: found.id,
            pooled: found.pooled,
            mapped: found.mapped,
            imported: found.imported,
            internal: found.internal,
        })
    }
}
