//! Contexts: what owns streams, events, modules and memory, and what a fault sticks to.
//!
//! Invariant: an object belongs to one context for its life; when the context is reset or
//! destroyed the object goes with it and every later use answers an error.

use crate::buffer::DevicePtr;
use crate::device::Device;
use crate::engine::{Image, LoadOptions};
use crate::error::{Error, Result};
use crate::event::{Event, EventFlags};
use crate::module::Module;
use crate::stream::{Stream, StreamKind};

/// A context. Clones are the same context; a destroyed one stays as a value whose every use
/// answers [`Error::ContextDestroyed`].
#[derive(Debug, Clone)]
pub struct Context {
    id: u64,
}

impl PartialEq for Context {
    fn eq(&self, other: &Context) -> bool {
        self.id == other.id
    }
}

impl Eq for Context {}

/// The limits of a context (`CUlimit`, same numbers).
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
            _ => return Err(Error::UnsupportedLimit(number)),
        })
    }
}

/// Properties of pinned or registered host memory (`CU_MEMHOSTALLOC_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostFlags {
    /// Pinned for all contexts.
    pub portable: bool,
    /// Has a device address (always the case here).
    pub device_map: bool,
    /// Write-combined (a hint).
    pub write_combined: bool,
    /// The device only reads it (registration).
    pub read_only: bool,
}

/// What kind of memory an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PointerKind {
    /// Device memory.
    Device,
    /// Pinned host memory of ours.
    Pinned,
    /// The caller's host memory, registered.
    Registered,
    /// Managed memory.
    Managed,
}

/// What is known of an address of ours.
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
}

impl Context {
    /// Unique in the process, never 0, never reused (`cuCtxGetId`).
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The device.
    pub fn device(&self) -> Device {
        unreachable_skeleton()
    }

    /// Whether this is a device's primary context.
    pub fn is_primary(&self) -> bool {
        false
    }

    /// `Ok` while the context can be used.
    ///
    /// # Errors
    /// [`Error::ContextDestroyed`] or the sticky fault.
    pub fn status(&self) -> Result<()> {
        Err(Error::unsupported("contexts"))
    }

    /// Whether the context exists (a primary context: whether it is retained).
    pub fn is_alive(&self) -> bool {
        false
    }

    /// The flags (`CU_CTX_*`) it was created with or that were set since.
    pub fn flags(&self) -> u32 {
        0
    }

    /// Changes the flags.
    pub fn set_flags(&self, flags: u32) -> Result<()> {
        let _ = flags;
        Ok(())
    }

    /// Waits for all work of the context; flushes printf.
    pub fn synchronize(&self) -> Result<()> {
        Err(Error::unsupported("contexts"))
    }

    /// Stops running launches, frees everything the context owns and ends it (a created
    /// context).
    pub fn destroy(&self) -> Result<()> {
        Err(Error::unsupported("contexts"))
    }

    /// The current value of a limit.
    pub fn limit(&self, limit: Limit) -> Result<u64> {
        let _ = limit;
        Err(Error::unsupported("limits"))
    }

    /// Changes a limit; values are rounded and clamped as the device allows.
    pub fn set_limit(&self, limit: Limit, value: u64) -> Result<()> {
        let _ = (limit, value);
        Err(Error::unsupported("limits"))
    }

    /// The preferred cache configuration (a hint that is only remembered).
    pub fn cache_config(&self) -> i32 {
        0
    }

    /// Changes it (0 to 3).
    pub fn set_cache_config(&self, config: i32) -> Result<()> {
        let _ = config;
        Ok(())
    }

    /// Shared memory bank width (0 default, 1 four bytes, 2 eight bytes; only remembered).
    pub fn shared_config(&self) -> i32 {
        0
    }

    /// Changes it.
    pub fn set_shared_config(&self, config: i32) -> Result<()> {
        let _ = config;
        Ok(())
    }

    /// Least and greatest stream priority: (0, -5).
    pub fn stream_priority_range(&self) -> (i32, i32) {
        (0, -5)
    }

    /// The legacy null stream.
    pub fn legacy_stream(&self) -> Stream {
        unreachable_skeleton()
    }

    /// The calling thread's default stream, made on first use.
    pub fn per_thread_stream(&self) -> Stream {
        unreachable_skeleton()
    }

    /// A new stream; `kind` is `Blocking` or `NonBlocking`.
    pub fn create_stream(&self, kind: StreamKind, priority: i32) -> Result<Stream> {
        let _ = (kind, priority);
        Err(Error::unsupported("streams"))
    }

    /// A new event.
    pub fn create_event(&self, flags: EventFlags) -> Result<Event> {
        let _ = flags;
        Err(Error::unsupported("events"))
    }

    /// Loads an image into this context.
    pub fn load_module(&self, image: Image<'_>, options: &LoadOptions) -> Result<Module> {
        let _ = (image, options);
        Err(Error::unsupported("loading modules"))
    }

    /// Device memory.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for 0 bytes, [`Error::OutOfMemory`].
    pub fn alloc(&self, bytes: u64) -> Result<DevicePtr> {
        let _ = bytes;
        Err(Error::unsupported("device memory"))
    }

    /// Device memory for `height` rows of `width` bytes: the pointer and the pitch.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an element size other than 4, 8 or 16, or no bytes.
    pub fn alloc_pitched(&self, width: u64, height: u64, element: u32) -> Result<(DevicePtr, u64)> {
        let _ = (width, height, element);
        Err(Error::unsupported("device memory"))
    }

    /// Managed memory, for host and device; `attach` are the `CU_MEM_ATTACH_*` flags.
    pub fn alloc_managed(&self, bytes: u64, attach: u32) -> Result<DevicePtr> {
        let _ = (bytes, attach);
        Err(Error::unsupported("managed memory"))
    }

    /// Frees device or managed memory, after all work of the context; null is accepted.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when `ptr` is not the start of an allocation.
    pub fn free(&self, ptr: DevicePtr) -> Result<()> {
        let _ = ptr;
        Err(Error::unsupported("device memory"))
    }

    /// Pinned host memory. Its device address is the same.
    pub fn alloc_host(&self, bytes: u64, flags: HostFlags) -> Result<*mut u8> {
        let _ = (bytes, flags);
        Err(Error::unsupported("pinned memory"))
    }

    /// Frees pinned host memory.
    pub fn free_host(&self, ptr: *mut u8) -> Result<()> {
        let _ = ptr;
        Err(Error::unsupported("pinned memory"))
    }

    /// Makes the caller's memory pinned and reachable from the device.
    pub fn register_host(&self, ptr: *mut u8, bytes: u64, flags: HostFlags) -> Result<()> {
        let _ = (ptr, bytes, flags);
        Err(Error::unsupported("host registration"))
    }

    /// Undoes a registration.
    pub fn unregister_host(&self, ptr: *mut u8) -> Result<()> {
        let _ = ptr;
        Err(Error::unsupported("host registration"))
    }

    /// The device address of pinned or registered memory.
    pub fn host_device_pointer(&self, ptr: *const u8) -> Result<DevicePtr> {
        let _ = ptr;
        Err(Error::unsupported("pinned memory"))
    }

    /// The flags of pinned or registered memory.
    pub fn host_flags(&self, ptr: *const u8) -> Result<HostFlags> {
        let _ = ptr;
        Err(Error::unsupported("pinned memory"))
    }

    /// Free and total bytes of device memory.
    pub fn mem_info(&self) -> Result<(u64, u64)> {
        Err(Error::unsupported("device memory"))
    }

    /// Start and size of the allocation that holds `ptr`.
    pub fn address_range(&self, ptr: DevicePtr) -> Result<(DevicePtr, u64)> {
        let _ = ptr;
        Err(Error::unsupported("device memory"))
    }

    /// Sets the time limit of later launches; `None`: no limit.
    pub fn set_time_limit(&self, limit: Option<std::time::Duration>) {
        let _ = limit;
    }
}

fn unreachable_skeleton() -> ! {
    unreachable!("no context can exist yet")
}
