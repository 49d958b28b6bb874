//! Device pointers, and the kinds and properties of the memory that they point to.

/// An address of memory that device code can access. It is a host address in a range that Margay reserves, or an
/// address in registered host memory. A pointer consists only of an address. The runtime looks up
/// the memory at this address each time the pointer is used.
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
    /// Returns the pointer to the address `address`.
    pub const fn new(address: u64) -> DevicePtr {
        DevicePtr(address)
    }

    /// Returns the address.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Returns whether the pointer is null.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// Returns the pointer to the address `bytes` bytes after this pointer. The addition wraps;
    /// every use of the pointer checks the address.
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
    /// Whether the memory is pinned for all contexts.
    pub portable: bool,
    /// Whether the memory has a device address (always true in Margay).
    pub device_map: bool,
    /// Whether the program has requested write-combined memory. Margay only reports this flag.
    pub write_combined: bool,
    /// Whether the device only reads the memory. A program can set this flag only when it registers
    /// memory.
    pub read_only: bool,
}

/// The kind of memory that an address belongs to.
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
    /// Pinned host memory that Margay allocated.
    Pinned,
    /// Host memory that the program allocated and registered.
    Registered,
    /// Managed memory.
    Managed,
}
