//! The private table of functions through which `libcupti` receives records from the driver library.
//!
//! `cuGetExportTable` returns the table for the identifier [`TABLE`]. Both libraries come from the same build, but a
//! program can load another one, so the table begins with its size and its version: a library whose expectation differs
//! does not use the table. One client at a time can be attached.
//!
//! Results are those of CUPTI (`CUptiResult`).

use std::ffi::{c_char, c_void};

/// The identifier of the table.
pub const TABLE: [u8; 16] = 0x7d3b_9c1e_52a8_4f06_b1d4_60e7_93f2_0ac5_u128.to_be_bytes();

/// The version of the interface.
pub const VERSION: usize = 1;

/// A result of CUPTI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Outcome(pub u32);

impl Outcome {
    /// Success.
    pub const SUCCESS: Outcome = Outcome(0);
    /// A wrong argument.
    pub const INVALID_PARAMETER: Outcome = Outcome(1);
    /// An unknown device.
    pub const INVALID_DEVICE: Outcome = Outcome(2);
    /// An unknown context.
    pub const INVALID_CONTEXT: Outcome = Outcome(3);
    /// A call that the state forbids.
    pub const INVALID_OPERATION: Outcome = Outcome(7);
    /// Too little memory.
    pub const OUT_OF_MEMORY: Outcome = Outcome(8);
    /// A buffer of the caller is too small.
    pub const PARAMETER_SIZE_NOT_SUFFICIENT: Outcome = Outcome(10);
    /// There is no further record.
    pub const MAX_LIMIT_REACHED: Outcome = Outcome(12);
    /// There is no driver library that provides the table, or it belongs to another build.
    pub const NOT_INITIALIZED: Outcome = Outcome(15);
    /// There is nothing to pop.
    pub const QUEUE_EMPTY: Outcome = Outcome(18);
    /// An unknown stream.
    pub const INVALID_STREAM: Outcome = Outcome(20);
    /// An unknown kind of record.
    pub const INVALID_KIND: Outcome = Outcome(21);
    /// A feature that does not exist.
    pub const NOT_SUPPORTED: Outcome = Outcome(27);
    /// Another client is attached.
    pub const MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: Outcome = Outcome(39);
    /// An internal error.
    pub const UNKNOWN: Outcome = Outcome(999);
}

/// The functions of the client that receive records and callbacks. No function of the client is called while the driver
/// library holds a lock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Receiver {
    /// Receives a record: a structure of the newest toolkit ([`crate::layout::write`]) of
    /// [`crate::layout::MOST_BYTES`] bytes.
    pub record: extern "C" fn(record: *const u8),
    /// Receives a callback: domain, number and data as a `CUpti_CallbackFunc` does.
    pub callback: extern "C" fn(domain: u32, number: u32, data: *const c_void),
}

/// An object whose number [`Interface::object`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Object {
    /// A context (`CUcontext`); null means the current context.
    Context = 1,
    /// The device of a context; null means the current context.
    Device = 2,
    /// A stream (`CUstream`) of the context that follows.
    Stream = 3,
    /// As [`Object::Stream`], but the default stream is that of the thread.
    ThreadStream = 4,
    /// A graph (`CUgraph`).
    Graph = 5,
    /// An executable graph (`CUgraphExec`).
    GraphExec = 6,
    /// A node of a graph (`CUgraphNode`).
    Node = 7,
    /// A CUDA event (`CUevent`).
    Event = 8,
}

/// The number that stands for all numbers of a domain in [`Interface::set_callback`].
pub const ALL_CALLBACKS: u32 = u32::MAX;

/// The domains of callbacks (`CUpti_CallbackDomain`).
pub mod domain {
    /// Calls of the driver API.
    pub const DRIVER_API: u32 = 1;
    /// Calls of the runtime API, which are not observed.
    pub const RUNTIME_API: u32 = 2;
    /// Creation and destruction of contexts, streams and modules.
    pub const RESOURCE: u32 = 3;
    /// The ends of waits.
    pub const SYNCHRONIZE: u32 = 4;
    /// Calls of NVTX, which are not passed on.
    pub const NVTX: u32 = 5;
    /// Errors of the client's library. There are none.
    pub const STATE: u32 = 6;
}

/// The data of a callback of a driver function (`CUpti_CallbackData`).
#[derive(Debug)]
#[repr(C)]
pub struct CallData {
    /// 0 before the call, 1 after it.
    pub site: u32,
    /// The name of the exported function.
    pub function: *const c_char,
    /// The arguments, as a structure with one field for each argument.
    pub parameters: *const c_void,
    /// The result; meaningful after the call only.
    pub result: *mut c_void,
    /// The name of the kernel that is launched, or null.
    pub symbol: *const c_char,
    /// The handle of the current context, or null.
    pub context: *mut c_void,
    /// The ID of this context, or 0.
    pub context_id: u32,
    /// A variable for the client, which keeps its value from the beginning of the call to its end.
    pub correlation_data: *mut u64,
    /// The correlation number of the call.
    pub correlation: u32,
}

/// The data of a callback for a resource (`CUpti_ResourceData`).
#[derive(Debug)]
#[repr(C)]
pub struct ResourceData {
    /// The handle of the context.
    pub context: *mut c_void,
    /// The handle of the stream, or null.
    pub handle: *mut c_void,
    /// A [`ModuleData`], or null.
    pub descriptor: *const c_void,
}

/// The module of a callback (`CUpti_ModuleResourceData`). Margay's modules have no machine code, so it is empty.
#[derive(Debug)]
#[repr(C)]
pub struct ModuleData {
    /// The ID of the module.
    pub module: u32,
    /// Number of bytes of machine code.
    pub bytes: usize,
    /// The machine code, or null.
    pub code: *const c_char,
}

/// The data of a callback after a wait (`CUpti_SynchronizeData`).
#[derive(Debug)]
#[repr(C)]
pub struct WaitData {
    /// The handle of the context.
    pub context: *mut c_void,
    /// The handle of the stream, or null.
    pub stream: *mut c_void,
}

/// The numbers of callbacks for resources (`CUpti_CallbackIdResource`).
pub mod resource {
    /// A context exists.
    pub const CONTEXT_CREATED: u32 = 1;
    /// A context is about to be destroyed.
    pub const CONTEXT_DESTROY_STARTING: u32 = 2;
    /// A stream exists.
    pub const STREAM_CREATED: u32 = 3;
    /// A stream is about to be destroyed.
    pub const STREAM_DESTROY_STARTING: u32 = 4;
    /// `cuInit` has succeeded.
    pub const INIT_FINISHED: u32 = 5;
    /// A module is loaded.
    pub const MODULE_LOADED: u32 = 6;
    /// A module is about to be unloaded.
    pub const MODULE_UNLOAD_STARTING: u32 = 7;
}

/// The table.
#[derive(Debug)]
#[repr(C)]
pub struct Interface {
    /// The size of this structure.
    pub size: usize,
    /// [`VERSION`].
    pub version: usize,
    /// Attaches a client. Returns [`Outcome::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`] if another one is attached.
    pub attach: extern "C" fn(receiver: *const Receiver) -> Outcome,
    /// Stops recording, and detaches the client.
    pub detach: extern "C" fn(),
    /// Starts (1) or stops (0) the recording of a kind.
    pub set_kind: extern "C" fn(kind: u32, on: u32) -> Outcome,
    /// Starts (1) or stops (0) the recording of calls of the function with a number.
    pub set_call: extern "C" fn(number: u32, on: u32) -> Outcome,
    /// Requests (1) or ends (0) callbacks with a number, or with all numbers of a domain ([`ALL_CALLBACKS`]).
    pub set_callback: extern "C" fn(domain: u32, number: u32, on: u32) -> Outcome,
    /// Stores whether callbacks with a number are requested.
    pub get_callback: extern "C" fn(domain: u32, number: u32, on: *mut u32) -> Outcome,
    /// Selects the numbers of threads: those of the operating system (1) or `pthread_self` (0).
    pub set_system_threads: extern "C" fn(on: u32),
    /// Replaces the clock by a function of the client; `None` selects the clock of the system.
    pub set_clock: extern "C" fn(clock: Option<extern "C" fn() -> u64>),
    /// Returns the time.
    pub now: extern "C" fn() -> u64,
    /// Returns the number of the calling thread.
    pub thread: extern "C" fn() -> u32,
    /// Pushes an external number of the calling thread.
    pub push: extern "C" fn(kind: u32, id: u64) -> Outcome,
    /// Pops an external number of the calling thread, and stores it if the pointer is not null.
    pub pop: extern "C" fn(kind: u32, id: *mut u64) -> Outcome,
    /// Stores the number of an object.
    pub object:
        extern "C" fn(object: u32, handle: usize, context: usize, number: *mut u64) -> Outcome,
    /// Tells the library that a client of NVTX asks for its functions, so that annotations are received.
    pub want_annotations: extern "C" fn(),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_data_of_callbacks_have_the_layout_of_the_header() {
        // From cupti_callbacks.h.
        assert_eq!(size_of::<CallData>(), 72);
        assert_eq!(offset_of!(CallData, function), 8);
        assert_eq!(offset_of!(CallData, parameters), 16);
        assert_eq!(offset_of!(CallData, result), 24);
        assert_eq!(offset_of!(CallData, symbol), 32);
        assert_eq!(offset_of!(CallData, context), 40);
        assert_eq!(offset_of!(CallData, context_id), 48);
        assert_eq!(offset_of!(CallData, correlation_data), 56);
        assert_eq!(offset_of!(CallData, correlation), 64);
        assert_eq!((size_of::<ResourceData>(), size_of::<WaitData>()), (24, 16));
        assert_eq!(
            (size_of::<ModuleData>(), offset_of!(ModuleData, code)),
            (24, 16)
        );
    }
}
