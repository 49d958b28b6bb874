//! Faults: why an operation could not be executed.

/// Why a thread could not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Access to memory that is not mapped or not allowed.
    IllegalAddress {
        /// Address, if known.
        address: Option<u64>,
        /// Whether it was a write, if known.
        write: Option<bool>,
    },
    /// Access not aligned to its size.
    Misaligned {
        /// Address, if known.
        address: Option<u64>,
    },
    /// `trap` or an instruction that cannot be executed.
    IllegalInstruction,
    /// A call through a handle that names no function.
    InvalidPc {
        /// The handle.
        handle: u64,
    },
    /// `trap`.
    Trap,
    /// `brkpt` with no debugger.
    Breakpoint,
    /// `__assertfail`.
    Assert {
        /// The whole message.
        message: String,
    },
    /// The stack of a thread is full (recursion).
    StackOverflow,
    /// Nobody can arrive any more: who waits where.
    Deadlock {
        /// One line for each group of waiting threads.
        waiting: Vec<String>,
    },
    /// A handle that is no texture or surface of the kind that the instruction needs.
    InvalidReference {
        /// The handle and what is wrong with it.
        what: String,
    },
    /// A surface access with `.trap` beyond the edge.
    SurfaceBounds {
        /// Coordinates: x in bytes for unformatted accesses, then y and the slice.
        at: [i64; 3],
        /// The surface's size, in the same units.
        size: [u64; 3],
    },
    /// Stopped from outside (time limit, reset, fault elsewhere).
    Stopped,
    /// An operation that is left out was reached.
    Unsupported {
        /// Its name.
        what: String,
    },
}
