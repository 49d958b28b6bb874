//! What the runtime tells the producer: plain values without handles of the runtime.

use std::ffi::CStr;

/// Options of the producer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The version that the subscribers' initialisation receives: major and minor number.
    pub version: (u32, u32),
    /// The version as text, for example `Margay 1.0`.
    pub version_text: String,
    /// Also send the events of `margay`, `margay.call` and `margay.mem` on `sycl`, `ur.call` and
    /// `sycl.experimental.mem_alloc`. Existing collectors subscribe to these names.
    pub sycl_names: bool,
    /// How much to send.
    pub detail: Detail,
    /// The devices, in the order of their numbers.
    pub devices: Vec<Device>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            version: (1, 0),
            version_text: "Margay 1.0".to_owned(),
            sycl_names: false,
            detail: Detail::Normal,
            devices: Vec::new(),
        }
    }
}

/// How much the producer sends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Detail {
    /// Everything except what [`Detail::High`] adds.
    #[default]
    Normal,
    /// Also the barriers of CTAs, and a transfer pair (trace points 18 and 19) within the task pair of each copy.
    High,
}

/// A device, for the metadata of kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// The name, for the key `sycl_device_name`.
    pub name: String,
    /// The type, for the key `sycl_device_type`: `cpu`, `gpu` or another word.
    pub kind: String,
}

/// A function of the driver API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function<'a> {
    /// The number of the function in the table of entry points.
    pub number: u32,
    /// The name, for example `cuMemAlloc_v2`.
    pub name: &'a CStr,
}

/// A position in a source text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location<'a> {
    /// The path of the source file.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if it is unknown.
    pub column: u32,
}

/// The direction of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CopyKind {
    /// From host memory to device memory.
    HostToDevice,
    /// From device memory to host memory.
    DeviceToHost,
    /// Within device memory.
    DeviceToDevice,
    /// Within host memory.
    HostToHost,
}

/// The reason of a dependence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Both operations are in one stream.
    StreamOrder,
    /// The stream waits for a CUDA event.
    Event,
    /// One of the operations is in the legacy default stream.
    NullStream,
    /// Both operations use the same memory.
    Memory,
    /// An edge of a graph.
    Graph,
}

impl Reason {
    /// Returns the text that subscribers receive.
    pub fn text(self) -> &'static CStr {
        match self {
            Reason::StreamOrder => c"stream_order",
            Reason::Event => c"event",
            Reason::NullStream => c"null_stream",
            Reason::Memory => c"memory",
            Reason::Graph => c"graph",
        }
    }
}

/// The kind of allocated memory (key `allocation_type`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocationKind {
    /// Device memory.
    Device,
    /// Managed memory.
    Managed,
    /// Pinned host memory.
    Pinned,
}

impl AllocationKind {
    pub(crate) fn text(self) -> &'static str {
        match self {
            AllocationKind::Device => "device",
            AllocationKind::Managed => "managed",
            AllocationKind::Pinned => "pinned",
        }
    }
}

/// What a thread of the program waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// The work of a stream.
    Stream,
    /// A CUDA event.
    Event,
    /// All work of a context.
    Context,
}

impl WaitKind {
    pub(crate) fn text(self) -> &'static str {
        match self {
            WaitKind::Stream => "stream.wait",
            WaitKind::Event => "event.wait",
            WaitKind::Context => "context.wait",
        }
    }
}

/// A barrier instruction that a CTA has reached.
#[derive(Clone, Copy, Debug)]
pub struct BarrierSite<'a> {
    /// The name of the kernel.
    pub kernel: &'a str,
    /// The position of the instruction, if the module has debug information.
    pub location: Option<Location<'a>>,
    /// The position of the instruction in the kernel, which tells barriers without a location apart.
    pub instruction: u32,
    /// The number of the CTA in the grid.
    pub cta: u64,
}
