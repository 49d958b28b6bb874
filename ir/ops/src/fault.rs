//! The kinds of faults: the reasons why an engine cannot execute an operation of a thread.

/// The kind of a fault: the reason why a thread cannot continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// The thread accessed memory that does not exist, or that it may not access.
    IllegalAddress {
        /// The address of the access, or `None` if it is not known.
        address: Option<u64>,
        /// Whether the access was a write, or `None` if this is not known.
        write: Option<bool>,
    },
    /// The thread accessed an address that is not a multiple of the size of the access.
    Misaligned {
        /// The address of the access, or `None` if it is not known.
        address: Option<u64>,
    },
    /// The thread reached an instruction that the engine cannot execute.
    IllegalInstruction,
    /// The thread called a function through a handle that is not the handle of a function with the
    /// signature of the call.
    InvalidPc {
        /// The handle, or `None` if it is not known.
        handle: Option<u64>,
    },
    /// The instruction `trap`.
    Trap,
    /// The thread executed the instruction `brkpt`, and no debugger is attached.
    Breakpoint,
    /// An assertion failed: the thread called `__assertfail`.
    Assert {
        /// The whole message.
        message: String,
    },
    /// The stack of a thread is full, for instance because of deep recursion.
    StackOverflow,
    /// Threads wait, and no other thread can release any of them.
    Deadlock {
        /// A description of the waiting threads: one line for the threads of a warp that wait at
        /// the same sync point.
        waiting: Vec<String>,
    },
    /// The thread executed a texture or surface instruction with an invalid handle: the handle does
    /// not refer to an object of the kind that the instruction requires.
    InvalidReference {
        /// A description of the handle and of the problem with it.
        what: String,
    },
    /// The thread executed a surface access with `.trap` whose coordinates are outside the surface.
    SurfaceBounds {
        /// The coordinates of the access: x (in bytes for unformatted accesses), y, and z or the layer.
        at: [i64; 3],
        /// The surface's size, in the same units as the coordinates.
        size: [u64; 3],
    },
    /// The host stopped the thread because of a time limit, a reset or a fault of another thread.
    Stopped,
    /// The thread reached an operation that Margay does not support.
    Unsupported {
        /// The operation's name.
        what: String,
    },
}
