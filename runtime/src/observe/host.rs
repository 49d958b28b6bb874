//! Events of the host: the work that the program submits, and changes of the program's memory and modules.

use crate::engine::KernelInfo;

/// An operation of the program. Tools receive the event on the thread of the program that calls the runtime. The event
/// of a free in stream order can also occur on a thread of the runtime.
///
/// A tool that returns true from [`super::Tool::observes_host`] receives these events of all contexts of the runtime.
/// Waits, CUDA events, host functions, the creation of arrays and mappings of virtual memory cause no
/// events for tools.
///
/// ```
/// use margay::observe::HostEvent;
///
/// fn copied_bytes(event: &HostEvent<'_>) -> u64 {
///     match event {
///         HostEvent::Copy { bytes, .. } => *bytes,
///         _ => 0,
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum HostEvent<'a> {
    /// The program has submitted a launch of a kernel. Launches by device code cause no event.
    Launch {
        /// The number of the launch: [`super::Launch::id`].
        launch: u64,
        /// The kernel's name.
        kernel: &'a str,
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
    },
    /// The program has submitted a copy. If the call waits for the copy, the copy is complete.
    Copy {
        /// The direction.
        direction: CopyDirection,
        /// Number of bytes.
        bytes: u64,
        /// Address of the first byte of the destination.
        to: u64,
        /// Address of the first byte of the source.
        from: u64,
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
    },
    /// The program has submitted a fill.
    Fill {
        /// Number of bytes.
        bytes: u64,
        /// Address of the first byte that is filled.
        to: u64,
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
    },
    /// The program has allocated memory.
    Allocate {
        /// The address of the first byte of the memory.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The kind of the memory.
        kind: AllocationKind,
    },
    /// Memory has been freed.
    Free {
        /// The address of the first byte of the memory.
        address: u64,
    },
    /// The program has loaded a module.
    LoadModule {
        /// The ID of the module: [`crate::Module::id`].
        module: u64,
        /// The properties of the kernels of the module.
        kernels: &'a [KernelInfo],
    },
    /// The program has unloaded a module.
    UnloadModule {
        /// The ID of the module.
        module: u64,
    },
}

/// The direction of a copy.
///
/// ```
/// use margay::observe::CopyDirection;
///
/// fn crosses_bus(direction: CopyDirection) -> bool {
///     matches!(direction, CopyDirection::HostToDevice | CopyDirection::DeviceToHost)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CopyDirection {
    /// From the host to the device.
    HostToDevice,
    /// From the device to the host.
    DeviceToHost,
    /// From the device to the device.
    DeviceToDevice,
    /// From the host to the host.
    HostToHost,
    /// The program has not stated the direction (`cuMemcpy`); the runtime determines it from the
    /// addresses.
    Unified,
}

/// The kind of memory that the program allocates or frees.
///
/// ```
/// use margay::observe::{AllocationKind, HostEvent};
///
/// fn device_bytes(event: &HostEvent<'_>) -> u64 {
///     match event {
///         HostEvent::Allocate { bytes, kind: AllocationKind::Device, .. } => *bytes,
///         _ => 0,
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocationKind {
    /// Device memory.
    Device,
    /// Managed memory.
    Managed,
    /// Pinned host memory.
    Pinned,
}
