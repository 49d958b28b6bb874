//! Faults: the reasons why an engine cannot execute an operation.

/// The reason why a thread cannot continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// An access to memory that is unmapped, or that the thread may not access.
    IllegalAddress {
        /// The address, if known.
        address: Option<u64>,
        /// Whether the access was a write, if known.
        write: Option<bool>,
    },
    /// An access to an address that is not a multiple of the size of the access.
    Misaligned {
        /// The address, if known.
        address: Option<u64>,
    },
    /// An instruction that the engine cannot execute.
    IllegalInstruction,
    /// A call through a handle that is not the handle of any function with the signature of the call.
    InvalidPc {
        /// The handle, if known.
        handle: Option<u64>,
    },
    /// The instruction `trap`.
    Trap,
    /// The instruction `brkpt`, with no debugger attached.
    Breakpoint,
    /// A failed assertion: a call of `__assertfail`.
    Assert {
        /// The whole message.
        message: String,
    },
    /// The stack of a thread is full, for instance because of deep recursion.
    StackOverflow,
    /// Threads wait, and no other thread can release any of them.
    Deadlock {
        /// One line for each group of waiting threads.
        waiting: Vec<String>,
    },
    /// A texture or surface instruction with an invalid handle: the handle does not refer to an object of the kind that
    /// the instruction requires.
    InvalidReference {
        /// A description of the handle and of the problem with it.
        what: String,
    },
    /// A surface access with `.trap` whose coordinates are outside the surface.
    SurfaceBounds {
        /// The coordinates of the access: x (in bytes for unformatted accesses), y, and z or the layer.
        at: [i64; 3],
        /// The surface's size, in the same units as the coordinates.
        size: [u64; 3],
    },
    /// The host stopped the thread because of a time limit, a reset or a fault of another thread.
    Stopped,
    /// Execution reached an unsupported operation.
    Unsupported {
        /// The operation's name.
        what: String,
    },
}
