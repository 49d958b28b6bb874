//! The records. Times are nanoseconds of the clock that the recorder uses; 0 means an unknown time.

use crate::{Kind, Name};

/// A record of an activity.
///
/// ```
/// use margay_activity::{ExternalCorrelation, Kind, Record};
///
/// let record = Record::ExternalCorrelation(ExternalCorrelation { kind: 3, id: 7, correlation: 1 });
/// assert_eq!((record.kind(), record.correlation()), (Kind::ExternalCorrelation, 1));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Record {
    /// A kernel has run.
    Kernel(Box<Kernel>),
    /// A copy has run.
    Copy(Copy),
    /// A fill has run.
    Fill(Fill),
    /// A function of the driver API has returned.
    Call(Call),
    /// A device of the process.
    Device(Box<Device>),
    /// A context of the process.
    Context(Context),
    /// The program has created a stream.
    Stream(Stream),
    /// A wait has ended.
    Synchronisation(Synchronisation),
    /// The program has recorded a CUDA event.
    CudaEvent(CudaEvent),
    /// The program has loaded a module.
    Module(Module),
    /// A kernel of a module that the program has loaded.
    Function(Function),
    /// An annotation of the program.
    Marker(Marker),
    /// More about an annotation.
    MarkerData(MarkerData),
    /// The program has allocated or released memory.
    Memory(Memory),
    /// A number that the client has pushed before a call.
    ExternalCorrelation(ExternalCorrelation),
    /// Time that the recording took.
    Overhead(Overhead),
}

impl Record {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Record::Kernel(kernel) => match kernel.is_concurrent {
                true => Kind::ConcurrentKernel,
                false => Kind::Kernel,
            },
            Record::Copy(copy) => match copy.devices {
                Some(_) => Kind::PeerCopy,
                None => Kind::Copy,
            },
            Record::Fill(_) => Kind::Fill,
            Record::Call(_) => Kind::Driver,
            Record::Device(_) => Kind::Device,
            Record::Context(_) => Kind::Context,
            Record::Stream(_) => Kind::Stream,
            Record::Synchronisation(_) => Kind::Synchronisation,
            Record::CudaEvent(_) => Kind::CudaEvent,
            Record::Module(_) => Kind::Module,
            Record::Function(_) => Kind::Function,
            Record::Marker(_) => Kind::Marker,
            Record::MarkerData(_) => Kind::MarkerData,
            Record::Memory(_) => Kind::Memory,
            Record::ExternalCorrelation(_) => Kind::ExternalCorrelation,
            Record::Overhead(_) => Kind::Overhead,
        }
    }

    /// Returns the correlation number; 0 for records that belong to no call.
    pub fn correlation(&self) -> u32 {
        match self {
            Record::Kernel(kernel) => kernel.place.correlation,
            Record::Copy(copy) => copy.place.correlation,
            Record::Fill(fill) => fill.place.correlation,
            Record::Call(call) => call.correlation,
            Record::Stream(stream) => stream.correlation,
            Record::Synchronisation(wait) => wait.correlation,
            Record::CudaEvent(event) => event.correlation,
            Record::Memory(memory) => memory.correlation,
            Record::ExternalCorrelation(external) => external.correlation,
            Record::Overhead(overhead) => overhead.correlation,
            Record::Device(_)
            | Record::Context(_)
            | Record::Module(_)
            | Record::Function(_)
            | Record::Marker(_)
            | Record::MarkerData(_) => 0,
        }
    }
}

/// Where and when work of a stream has run, and which call has submitted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The time at which the work began.
    pub start: u64,
    /// The time at which the work ended.
    pub end: u64,
    /// The ordinal of the device.
    pub device: u32,
    /// The ID of the context.
    pub context: u32,
    /// The ID of the stream. For a node of a graph, the stream into which the graph was launched.
    pub stream: u32,
    /// The correlation number of the call.
    pub correlation: u32,
    /// The ID of the executable graph; 0 if the work is no node of a graph.
    pub graph: u32,
}

/// A kernel that has run.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Where and when the kernel has run.
    pub place: Place,
    /// Whether the record has the kind [`Kind::ConcurrentKernel`].
    pub is_concurrent: bool,
    /// The kernel's (mangled) name.
    pub name: Name,
    /// The number of CTAs of the grid in each dimension.
    pub grid: [i32; 3],
    /// The number of threads of a CTA in each dimension.
    pub block: [i32; 3],
    /// The number of CTAs of a cluster in each dimension; 0 without clusters.
    pub cluster: [u32; 3],
    /// Reported number of registers per thread.
    pub registers: u16,
    /// Number of bytes of a CTA's static shared memory.
    pub static_shared: i32,
    /// Number of bytes of a CTA's dynamic shared memory.
    pub dynamic_shared: i32,
    /// The number of the launch (`%gridid`).
    pub launch: i64,
    /// The time at which the call began.
    pub queued: u64,
    /// The time at which the call submitted the launch.
    pub submitted: u64,
}

/// The direction of a copy (`CUpti_ActivityMemcpyKind`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum CopyKind {
    /// From the host to the device.
    HostToDevice = 1,
    /// From the device to the host.
    DeviceToHost = 2,
    /// From the device to the device.
    DeviceToDevice = 8,
    /// From the host to the host.
    HostToHost = 9,
    /// From one device to another.
    PeerToPeer = 10,
}

/// A kind of memory (`CUpti_ActivityMemoryKind`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum MemoryKind {
    /// Pageable host memory.
    Pageable = 1,
    /// Pinned host memory.
    Pinned = 2,
    /// Device memory.
    Device = 3,
    /// Managed memory.
    Managed = 5,
}

/// A copy that has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    /// Where and when the copy has run.
    pub place: Place,
    /// The direction.
    pub kind: CopyKind,
    /// The memory of the source.
    pub from: MemoryKind,
    /// The memory of the destination.
    pub to: MemoryKind,
    /// Whether the program has called a function whose name contains `Async`.
    pub is_asynchronous: bool,
    /// Number of bytes.
    pub bytes: u64,
    /// The devices of the source and of the destination, if they differ and the record has the kind [`Kind::PeerCopy`].
    pub devices: Option<[u32; 2]>,
}

/// A fill that has run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// Where and when the fill has run.
    pub place: Place,
    /// The value of each element.
    pub value: u32,
    /// Number of bytes.
    pub bytes: u64,
    /// The memory.
    pub memory: MemoryKind,
    /// Whether the program has called a function whose name contains `Async`.
    pub is_asynchronous: bool,
}

/// A call of a function of the driver API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The number of the function ([`crate::callbacks`]).
    pub function: u32,
    /// The time at which the call began.
    pub start: u64,
    /// The time at which the call ended.
    pub end: u64,
    /// The number of the process.
    pub process: u32,
    /// The number of the thread.
    pub thread: u32,
    /// The correlation number, which is never 0.
    pub correlation: u32,
    /// The result: a `CUresult`.
    pub result: u32,
}

/// The device attributes (`CUdevice_attribute`) in [`Device::attributes`], each with the offset of its value.
pub const DEVICE_ATTRIBUTES: [(i32, usize); 26] = [
    // TOTAL_CONSTANT_MEMORY, L2_CACHE_SIZE, WARP_SIZE, CLOCK_RATE
    (9, 24),
    (38, 28),
    (10, 32),
    (13, 36),
    // ASYNC_ENGINE_COUNT, MULTIPROCESSOR_COUNT
    (40, 40),
    (16, 44),
    // MAX_BLOCKS_PER_MULTIPROCESSOR, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, MAX_REGISTERS_PER_MULTIPROCESSOR
    (106, 56),
    (81, 60),
    (82, 64),
    // MAX_REGISTERS_PER_BLOCK, MAX_SHARED_MEMORY_PER_BLOCK, MAX_THREADS_PER_BLOCK
    (12, 68),
    (8, 72),
    (1, 76),
    // MAX_BLOCK_DIM, MAX_GRID_DIM
    (2, 80),
    (3, 84),
    (4, 88),
    (5, 92),
    (6, 96),
    (7, 100),
    // COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, ECC_ENABLED
    (75, 104),
    (76, 108),
    (32, 116),
    // MAX_THREADS_PER_MULTIPROCESSOR, which becomes a number of warps
    (39, 52),
    // CONCURRENT_KERNELS, which becomes a flag
    (31, 4),
    // MEMORY_CLOCK_RATE and GLOBAL_MEMORY_BUS_WIDTH, which become a bandwidth
    (36, 8),
    (37, 8),
    // NUMA_ID of the device's memory
    (134, 180),
];

/// A device.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// The ordinal.
    pub id: u32,
    /// The name.
    pub name: Name,
    /// The UUID.
    pub uuid: [u8; 16],
    /// Number of bytes of memory.
    pub memory: u64,
    /// Values of device attributes (`CUdevice_attribute`), in the order of [`DEVICE_ATTRIBUTES`].
    pub attributes: [u32; DEVICE_ATTRIBUTES.len()],
}

/// A context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// The ID.
    pub id: u32,
    /// The ordinal of the device.
    pub device: u32,
    /// The ID of the legacy default stream.
    pub null_stream: u32,
    /// The number of the process.
    pub process: u32,
}

/// The kind of a stream (`CUpti_ActivityStreamFlag`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum StreamFlag {
    /// The stream is ordered with the legacy default stream.
    Default = 1,
    /// The stream is not ordered with the legacy default stream.
    NonBlocking = 2,
}

/// A created stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The ID of the context.
    pub context: u32,
    /// The ID of the stream.
    pub id: u32,
    /// The priority: 0, or a negative number for a higher priority. CUPTI stores it as an unsigned number.
    pub priority: i32,
    /// The kind.
    pub flag: StreamFlag,
    /// The correlation number of the call that has created the stream.
    pub correlation: u32,
}

/// What has waited for what (`CUpti_ActivitySynchronizationType`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum SynchronisationKind {
    /// The host has waited for a CUDA event.
    Event = 1,
    /// A stream waits for a CUDA event.
    StreamEvent = 2,
    /// The host has waited for a stream.
    Stream = 3,
    /// The host has waited for a context.
    Context = 4,
}

/// A wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synchronisation {
    /// What has waited for what.
    pub kind: SynchronisationKind,
    /// The time at which the wait began.
    pub start: u64,
    /// The time at which the wait ended.
    pub end: u64,
    /// The correlation number of the call.
    pub correlation: u32,
    /// The ID of the context.
    pub context: u32,
    /// The ID of the stream, if there is one.
    pub stream: Option<u32>,
    /// The ID of the CUDA event, if there is one.
    pub event: Option<u32>,
    /// The number of the last record of the event that was observed, as in [`CudaEvent::record`]; 0 if there is none.
    pub record: u64,
}

/// A record of a CUDA event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaEvent {
    /// The ID of the CUDA event.
    pub id: u32,
    /// The ID of the context.
    pub context: u32,
    /// The ordinal of the device.
    pub device: u32,
    /// The ID of the stream.
    pub stream: u32,
    /// The correlation number of the call.
    pub correlation: u32,
    /// The number of this record of the event, which is unique in the process and never 0.
    pub record: u64,
}

/// A loaded module. Margay's modules have no machine code that a client could read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Module {
    /// The ID.
    pub id: u32,
    /// The ID of the context.
    pub context: u32,
}

/// A kernel of a loaded module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// A number that is unique in the process.
    pub id: u32,
    /// The ID of the context.
    pub context: u32,
    /// The ID of the module.
    pub module: u32,
    /// The index of the kernel in the module.
    pub index: u32,
    /// The kernel's (mangled) name.
    pub name: Name,
}

/// Whether an annotation is a mark, or begins or ends a range. The values are those of CUPTI's flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum MarkerKind {
    /// A mark at one time.
    Mark = 1,
    /// A range begins.
    Start = 2,
    /// A range ends.
    End = 4,
}

/// An annotation of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marker {
    /// Whether the annotation is a mark, or begins or ends a range.
    pub kind: MarkerKind,
    /// The time.
    pub time: u64,
    /// The number of the annotation. The end of a range has the number of its begin.
    pub id: u32,
    /// The number of the process.
    pub process: u32,
    /// The number of the thread.
    pub thread: u32,
    /// The text; `None` for the end of a range.
    pub name: Option<Name>,
    /// The domain; `None` for the default domain.
    pub domain: Option<Name>,
}

/// A number that belongs to an annotation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Payload {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
}

/// More about an annotation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MarkerData {
    /// The number of the annotation.
    pub id: u32,
    /// The colour: opacity, red, green and blue, 8 bits each, from the most significant.
    pub colour: Option<u32>,
    /// The number of the category; 0 if there is none.
    pub category: u32,
    /// A number that belongs to the annotation.
    pub payload: Option<Payload>,
}

/// An allocation or a release of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Whether the memory was released.
    pub is_release: bool,
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// The correlation number of the call; 0 if a thread of the runtime has released the memory.
    pub correlation: u32,
    /// The address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// The time.
    pub time: u64,
    /// The number of the process.
    pub process: u32,
    /// The ordinal of the device.
    pub device: u32,
    /// The ID of the context.
    pub context: u32,
    /// Whether the program has called a function whose name contains `Async`.
    pub is_asynchronous: bool,
}

/// A number that the client has pushed before a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExternalCorrelation {
    /// The kind of the number (`CUpti_ExternalCorrelationKind`).
    pub kind: u32,
    /// The number.
    pub id: u64,
    /// The correlation number of the call.
    pub correlation: u32,
}

/// What has taken time (`CUpti_ActivityOverheadKind`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum OverheadKind {
    /// The client has received a buffer with records.
    BufferFlush = 1 << 16,
    /// The client has been asked for a buffer.
    BufferRequest = 7 << 16,
}

/// Time that the recording took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overhead {
    /// What has taken time.
    pub kind: OverheadKind,
    /// The number of the process.
    pub process: u32,
    /// The number of the thread.
    pub thread: u32,
    /// The time at which it began.
    pub start: u64,
    /// The time at which it ended.
    pub end: u64,
    /// The correlation number of the call; 0 if there is none.
    pub correlation: u32,
}
