//! What is recorded: events with typed arguments.

use crate::flow::FlowEnd;

/// The description of a slice, an instant or a range. It borrows everything, so that recording allocates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// What the viewer writes on the slice: a function of the driver, a demangled kernel, an NVTX message.
    pub name: &'a str,
    /// One of [`category`], or the name of an NVTX domain.
    pub category: &'a str,
    /// The number that joins a driver call with the operations that it enqueued.
    pub correlation: Option<u64>,
    /// Arguments, in the order in which they are shown. Names are unique; `correlation` is reserved.
    pub args: &'a [Arg<'a>],
    /// Ends of flows that are known when the event is recorded. [`Track::flow`](crate::Track::flow) records the others.
    pub flows: &'a [FlowEnd],
}

impl<'a> Event<'a> {
    /// Returns an event without arguments.
    pub fn new(category: &'a str, name: &'a str) -> Event<'a> {
        Event {
            name,
            category,
            ..Event::default()
        }
    }

    /// Sets the correlation id.
    pub fn correlation(self, id: u64) -> Event<'a> {
        Event {
            correlation: Some(id),
            ..self
        }
    }

    /// Sets the arguments.
    pub fn args(self, args: &'a [Arg<'a>]) -> Event<'a> {
        Event { args, ..self }
    }

    /// Sets the ends of flows.
    pub fn flows(self, flows: &'a [FlowEnd]) -> Event<'a> {
        Event { flows, ..self }
    }
}

/// The categories of events. Viewers for CUDA programs know these names.
pub mod category {
    /// A call of the driver API.
    pub const DRIVER: &str = "cuda_driver";
    /// A call of the runtime API.
    pub const RUNTIME: &str = "cuda_runtime";
    /// A wait for a stream, an event or a context.
    pub const SYNC: &str = "cuda_sync";
    /// A kernel.
    pub const KERNEL: &str = "kernel";
    /// A copy.
    pub const MEMCPY: &str = "gpu_memcpy";
    /// A fill.
    pub const MEMSET: &str = "gpu_memset";
    /// A function of the program that a stream runs.
    pub const HOST_FUNCTION: &str = "host_function";
    /// A recorded CUDA event.
    pub const EVENT_RECORD: &str = "cuda_event";
    /// CTAs of a kernel on a worker thread.
    pub const WORKER: &str = "worker";
    /// A message of the driver.
    pub const DIAGNOSTIC: &str = "diagnostic";
    /// NVTX events of the default domain.
    pub const NVTX: &str = "NVTX";
}

/// A named argument.
#[derive(Clone, Copy, Debug)]
pub struct Arg<'a> {
    /// The name.
    pub name: &'a str,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Arg<'a> {
    /// Returns an argument.
    pub fn new(name: &'a str, value: impl Into<Value<'a>>) -> Arg<'a> {
        Arg {
            name,
            value: value.into(),
        }
    }
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number. JSON has no notation for values that are not finite, they become strings there.
    Float(f64),
    /// An address, written in hexadecimal.
    Address(u64),
    /// A text. [`text_of_bytes`](crate::text_of_bytes) converts text of unknown encoding.
    Text(&'a str),
    /// Named values.
    Group(&'a [Arg<'a>]),
    /// Values in order, such as the three sizes of a grid.
    List(&'a [Value<'a>]),
}

/// The number of groups and lists that can contain each other. The contents of deeper ones are omitted and replaced by
/// the text [`TOO_DEEP`].
pub const MAX_DEPTH: usize = 16;
/// The text that replaces groups and lists beyond [`MAX_DEPTH`].
pub const TOO_DEEP: &str = "(omitted: nested too deeply)";

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i32> for Value<'_> {
    fn from(value: i32) -> Self {
        Value::Int(value.into())
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<u32> for Value<'_> {
    fn from(value: u32) -> Self {
        Value::Uint(value.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Uint(value)
    }
}

impl From<usize> for Value<'_> {
    fn from(value: usize) -> Self {
        Value::Uint(value as u64)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Text(value)
    }
}

impl<'a> From<&'a [Arg<'a>]> for Value<'a> {
    fn from(value: &'a [Arg<'a>]) -> Self {
        Value::Group(value)
    }
}

impl<'a> From<&'a [Value<'a>]> for Value<'a> {
    fn from(value: &'a [Value<'a>]) -> Self {
        Value::List(value)
    }
}
