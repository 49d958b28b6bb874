//! The work that the runtime submits: plain values, and the operations that must finish before.

use crate::input::{CopyKind, Function, Location, Reason};
use crate::operation::Operation;

/// A kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelInfo<'a> {
    /// The name for readers, for example a demangled one (key `kernel_name`).
    pub name: &'a str,
    /// The name in the module (key `sym_function_name`).
    pub symbol: &'a str,
    /// The position of the kernel's first line (`.loc`), if the module has debug information.
    pub location: Option<Location<'a>>,
}

/// The launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The number of CTAs in each dimension.
    pub grid: [u32; 3],
    /// The number of threads of a CTA in each dimension.
    pub block: [u32; 3],
    /// The size of dynamic shared memory in bytes.
    pub shared_bytes: u64,
    /// The stream; `None` if the launch is a node of a graph that no stream executes.
    pub stream: Option<u64>,
    /// The number of the device.
    pub device: u32,
    /// [`crate::Call::id`] of the call that launches the kernel; 0 if there is none.
    pub correlation: u64,
    /// The bytes of each argument.
    pub arguments: &'a [&'a [u8]],
    /// The operations that must finish before the launch starts.
    pub after: &'a [Dependence<'a>],
}

/// A copy.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    /// The function that the program called.
    pub function: Function<'a>,
    /// The direction.
    pub kind: CopyKind,
    /// The address of the destination.
    pub to: u64,
    /// The address of the source.
    pub from: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The stream; `None` if the copy is a node of a graph that no stream executes.
    pub stream: Option<u64>,
    /// The position of the call in the program, if it is known.
    pub location: Option<Location<'a>>,
    /// [`crate::Call::id`] of the call that submits the copy; 0 if there is none.
    pub correlation: u64,
    /// The operations that must finish before the copy starts.
    pub after: &'a [Dependence<'a>],
}

/// A fill of device memory (`cuMemsetD8` and others).
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// The function that the program called.
    pub function: Function<'a>,
    /// The value of each element.
    pub value: u64,
    /// The address of the first byte.
    pub to: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The stream; `None` if the fill is a node of a graph that no stream executes.
    pub stream: Option<u64>,
    /// The position of the call in the program, if it is known.
    pub location: Option<Location<'a>>,
    /// [`crate::Call::id`] of the call that submits the fill; 0 if there is none.
    pub correlation: u64,
    /// The operations that must finish before the fill starts.
    pub after: &'a [Dependence<'a>],
}

/// An operation that must finish before another one starts.
#[derive(Clone, Copy, Debug)]
pub struct Dependence<'a> {
    /// The operation that must finish first.
    pub on: &'a Operation,
    /// The reason.
    pub reason: Reason,
}
