//! Events of the host: calls of the driver API, the work that the program submits, the order between pieces of work, and
//! changes of the program's streams, memory and modules.

use crate::engine::KernelInfo;
use crate::launch::Dim3;

/// An operation of the program. Tools receive the event on the thread of the program that calls the runtime. These events
/// can also occur on threads of the runtime: frees in stream order, beginnings and ends of work, and the work of
/// conditional nodes of graphs.
///
/// A tool that returns true from [`super::Tool::observes_host`] receives these events of all contexts of the runtime.
/// The creation of arrays and mappings of virtual memory cause no events for tools.
///
/// Launches, copies, fills and host functions are *work*. Each piece of work has a number, which is unique in the
/// process. Its events are: the event that describes it and then [`HostEvent::Submit`], on the thread that submits it;
/// [`HostEvent::BeginWork`], except for launches, which begin with [`super::Event::KernelBegin`]; and
/// [`HostEvent::EndWork`]. Work that a failure of the context cancels
/// ends without a beginning. If an error occurs in the call that submits the work, the work can have no end.
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
    /// The program submits a launch of a kernel. The event precedes the beginning of the launch. Launches by device code
    /// cause no event.
    Launch {
        /// The number of the launch: [`super::Launch::id`].
        launch: u64,
        /// The number of the work.
        work: u64,
        /// The kernel's name.
        kernel: &'a str,
        /// The number of CTAs of the grid in each dimension.
        grid: Dim3,
        /// The number of threads of a CTA in each dimension.
        block: Dim3,
        /// Number of bytes of a CTA's dynamic shared memory.
        dynamic_shared: u32,
        /// The kernel's parameters, laid out as in its parameter space.
        arguments: &'a [u8],
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
        /// The ID of the context of the work ([`crate::Context::id`]).
        context: u64,
        /// The ordinal of the device of this context.
        device: i32,
    },
    /// The program submits a copy of at least one byte.
    Copy {
        /// The number of the work.
        work: u64,
        /// The direction.
        direction: CopyDirection,
        /// Number of bytes.
        bytes: u64,
        /// Address of the first byte of the destination.
        to: u64,
        /// Address of the first byte of the source.
        from: u64,
        /// The memory of the destination and that of the source.
        places: [MemoryPlace; 2],
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
        /// The ID of the context of the work ([`crate::Context::id`]).
        context: u64,
        /// The ordinal of the device of this context.
        device: i32,
    },
    /// The program submits a fill of at least one byte.
    Fill {
        /// The number of the work.
        work: u64,
        /// Number of bytes.
        bytes: u64,
        /// The value of each element.
        value: u32,
        /// Address of the first byte that is filled.
        to: u64,
        /// The memory that is filled.
        place: MemoryPlace,
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
        /// The ID of the context of the work ([`crate::Context::id`]).
        context: u64,
        /// The ordinal of the device of this context.
        device: i32,
    },
    /// The program submits a host function.
    HostFunction {
        /// The number of the work.
        work: u64,
        /// The ID of the stream to which the program submitted the work; `None` if the work is a
        /// node of a graph.
        stream: Option<u64>,
        /// The ID of the context of the work ([`crate::Context::id`]).
        context: u64,
        /// The ordinal of the device of this context.
        device: i32,
    },
    /// The program submits a piece of work, which begins after this event.
    Submit {
        /// The number of the work.
        work: u64,
        /// The pieces of work after whose ends this work begins. If a stream only waits for events of other streams, the
        /// list contains the newest 64 pieces of work. Work behind a conditional node of a graph names the work before the
        /// node, not that of the node's body.
        after: &'a [Dependence],
    },
    /// A thread begins to run a piece of work that is not a launch.
    BeginWork {
        /// The number of the work.
        work: u64,
    },
    /// A piece of work is complete, or is cancelled because the context has failed.
    EndWork {
        /// The number of the work.
        work: u64,
    },
    /// The program launches an executable graph. Then, on the same thread, follow the events of the graph's work.
    LaunchGraph {
        /// The ID of the executable graph ([`crate::graph::GraphExec::id`]).
        graph: u64,
        /// The ID of the stream.
        stream: u64,
    },
    /// The program begins to wait for work, or makes a stream wait for a CUDA event.
    BeginWait {
        /// What waits for what.
        kind: WaitKind,
        /// The ID of the context.
        context: u64,
        /// The ID of the stream, unless the host waits for an event or a context.
        stream: Option<u64>,
        /// The ID of the CUDA event ([`crate::Event::id`]) for which the host or the stream waits.
        event: Option<u64>,
    },
    /// The wait that the thread has begun last ends.
    EndWait,
    /// The program has created a stream. Default streams cause no event.
    CreateStream {
        /// The ID of the stream ([`crate::Stream::id`]).
        stream: u64,
        /// The ID of its context.
        context: u64,
        /// The priority: 0, or a negative number for a higher priority.
        priority: i32,
        /// Whether the stream is ordered with the legacy default stream.
        is_blocking: bool,
    },
    /// The program has destroyed a stream.
    DestroyStream {
        /// The ID of the stream.
        stream: u64,
    },
    /// The program records a CUDA event in a stream that is not captured.
    RecordEvent {
        /// The ID of the CUDA event ([`crate::Event::id`]).
        event: u64,
        /// The ID of the stream.
        stream: u64,
        /// The ID of the context of the event.
        context: u64,
        /// The ordinal of the device of this context.
        device: i32,
        /// The number of the newest work that the event waits for; `None` if there is none.
        after: Option<u64>,
    },
    /// The program calls a function of the driver API. Programs that use the Rust interface cause no such event.
    BeginCall {
        /// The number of the call, which is unique in the process.
        call: u64,
        /// The name of the exported function, such as `cuMemAlloc_v2`.
        name: &'static str,
        /// The arguments, in the layout of a C structure with one field for each argument, in words of 8 bytes.
        arguments: &'a [u64],
    },
    /// A function of the driver API returns.
    EndCall {
        /// The number of the call.
        call: u64,
        /// The name of the exported function.
        name: &'static str,
        /// The arguments, as at the beginning of the call.
        arguments: &'a [u64],
        /// The result: a `CUresult`, 0 for success.
        result: u32,
    },
    /// The program annotates what it does (NVTX).
    Annotate(Annotation<'a>),
    /// The program names a thread or a stream (NVTX).
    Name {
        /// What the program names.
        object: Named,
        /// The name.
        name: &'a str,
    },
    /// The program has allocated memory.
    Allocate {
        /// The address of the first byte of the memory.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The kind of the memory.
        kind: AllocationKind,
        /// The ID of the context that owns the memory; 0 if no context does.
        context: u64,
        /// The ordinal of the device to which the memory belongs.
        device: i32,
    },
    /// Memory is freed.
    Free {
        /// The address of the first byte of the memory.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The kind of the memory.
        kind: AllocationKind,
        /// The ID of the context that owns the memory; 0 if no context does.
        context: u64,
        /// The ordinal of the device to which the memory belongs.
        device: i32,
    },
    /// The program has loaded a module.
    LoadModule {
        /// The ID of the module: [`crate::Module::id`].
        module: u64,
        /// The ID of its context.
        context: u64,
        /// The properties of the kernels of the module.
        kernels: &'a [KernelInfo],
    },
    /// The program has unloaded a module.
    UnloadModule {
        /// The ID of the module.
        module: u64,
        /// The ID of its context.
        context: u64,
    },
}

/// A mark or a range in the code of the program, which it states through NVTX.
///
/// ```
/// use margay::observe::{Annotation, AnnotationKind};
///
/// fn describe(annotation: &Annotation<'_>) -> String {
///     match annotation.kind {
///         AnnotationKind::Push => format!("{}: {}", annotation.domain, annotation.text),
///         _ => String::new(),
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Annotation<'a> {
    /// Whether the annotation is a mark, or begins or ends a range.
    pub kind: AnnotationKind,
    /// The number of a range that need not nest ([`AnnotationKind::Start`] and [`AnnotationKind::End`]), unique in the
    /// process; otherwise 0.
    pub range: u64,
    /// The name of the domain; empty for the default domain.
    pub domain: &'a str,
    /// The text; empty for [`AnnotationKind::Pop`].
    pub text: &'a str,
    /// The number of the category; 0 if there is none.
    pub category: u32,
    /// The name of the category.
    pub category_name: Option<&'a str>,
    /// The colour: opacity, red, green and blue, 8 bits each, from the most significant.
    pub colour: Option<u32>,
    /// A number that belongs to the annotation.
    pub payload: Option<AnnotationPayload>,
}

impl<'a> Annotation<'a> {
    /// Returns an annotation in the default domain with a text and nothing else.
    pub fn new(kind: AnnotationKind, text: &'a str) -> Annotation<'a> {
        Annotation {
            kind,
            range: 0,
            domain: "",
            text,
            category: 0,
            category_name: None,
            colour: None,
            payload: None,
        }
    }
}

/// Whether an annotation is a mark, or begins or ends a range.
///
/// ```
/// use margay::observe::AnnotationKind;
///
/// assert_ne!(AnnotationKind::Push, AnnotationKind::Start);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AnnotationKind {
    /// A mark at one time.
    Mark,
    /// A range begins, which nests in the ranges of the same thread.
    Push,
    /// The range ends that the thread has pushed last.
    Pop,
    /// A range begins, which can end in any thread.
    Start,
    /// A range ends that has begun with [`AnnotationKind::Start`].
    End,
}

/// A number that belongs to an annotation.
///
/// ```
/// use margay::observe::AnnotationPayload;
///
/// assert_ne!(AnnotationPayload::Unsigned(1), AnnotationPayload::Signed(1));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnnotationPayload {
    /// An unsigned integer.
    Unsigned(u64),
    /// A signed integer.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
}

/// An object that the program names.
///
/// ```
/// use margay::observe::Named;
///
/// assert_ne!(Named::Thread(1), Named::Stream(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Named {
    /// The thread of the operating system with this number.
    Thread(u64),
    /// The stream with this ID ([`crate::Stream::id`]).
    Stream(u64),
}

/// A piece of work after which another one runs.
///
/// ```
/// use margay::observe::{Dependence, DependenceKind};
///
/// fn is_edge(dependence: &Dependence) -> bool {
///     dependence.kind == DependenceKind::Graph
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dependence {
    /// The number of the work that ends first.
    pub work: u64,
    /// The rule that orders the two.
    pub kind: DependenceKind,
}

/// The rule that orders two pieces of work.
///
/// ```
/// use margay::observe::DependenceKind;
///
/// assert_eq!(DependenceKind::StreamOrder.name(), "stream_order");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DependenceKind {
    /// Both belong to the same stream.
    StreamOrder,
    /// One of them belongs to the legacy default stream, and the other one to a blocking stream.
    NullStream,
    /// A stream waits for an event (`cuStreamWaitEvent`).
    Event,
    /// An edge of a graph.
    Graph,
}

impl DependenceKind {
    /// Returns the name of the rule.
    pub fn name(self) -> &'static str {
        match self {
            DependenceKind::StreamOrder => "stream_order",
            DependenceKind::NullStream => "null_stream",
            DependenceKind::Event => "event",
            DependenceKind::Graph => "graph",
        }
    }
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

/// The memory of the source or the destination of a copy.
///
/// ```
/// use margay::observe::MemoryPlace;
///
/// assert_ne!(MemoryPlace::Pageable, MemoryPlace::Pinned);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum MemoryPlace {
    /// Host memory that the runtime does not know.
    Pageable,
    /// Host memory that the program has allocated through the runtime or registered.
    Pinned,
    /// Memory of the device with this ordinal.
    Device(i32),
    /// Managed memory.
    Managed,
}

/// What waits for what.
///
/// ```
/// use margay::observe::WaitKind;
///
/// assert_ne!(WaitKind::Stream, WaitKind::Context);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// The host waits for a CUDA event.
    Event,
    /// A stream waits for a CUDA event. The call does not block.
    StreamEvent,
    /// The host waits for a stream.
    Stream,
    /// The host waits for all streams of a context.
    Context,
}
