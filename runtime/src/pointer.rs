//! Device pointers, and the kinds and properties of the memory that pointers lead to.

/// An address in device memory (a host address in Margay's own range). Only data: it is looked
/// up before it is used.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let ptr = rt.alloc::<f32>(16)?.ptr();
/// assert_ne!(ptr.address(), 0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct DevicePtr(u64);

impl DevicePtr {
    /// The pointer with this address.
    pub const fn new(address: u64) -> DevicePtr {
        DevicePtr(address)
    }

    /// The address.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Whether it is null.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The pointer `bytes` further (wraps; checked when used).
    pub const fn offset(self, bytes: u64) -> DevicePtr {
        DevicePtr(self.0.wrapping_add(bytes))
    }
}

/// Properties of pinned or registered host memory (`CU_MEMHOSTALLOC_*`).
///
/// ```
/// use margay::HostFlags;
///
/// let context = margay::Runtime::new()?.context()?;
/// let flags = HostFlags { portable: true, ..HostFlags::default() };
/// let ptr = context.alloc_host(64, flags)?;
/// assert!(context.host_flags(ptr)?.portable);
/// context.free_host(ptr)?;
/// # Ok::<(), margay::Error>(())
/// ```
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
///
/// ```
/// use margay::PointerKind;
///
/// let rt = margay::Runtime::new()?;
/// let buffer = rt.alloc::<u8>(100)?;
/// let info = rt.pointer_info(buffer.ptr().address());
/// assert_eq!(info.map(|info| info.kind), Some(PointerKind::Device));
/// # Ok::<(), margay::Error>(())
/// ```
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
