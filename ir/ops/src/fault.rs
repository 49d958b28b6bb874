//! Faults: reasons why an operation could not be executed.

/// Why a thread could not continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Access to memory that is unmapped or inaccessible.
    IllegalAddress {
        /// The address, if known.
        address: Option<u64>,
        /// Whether the access was a write, if known.
        write: Option<bool>,
    },
    /// Access to an address that is not a multiple of the access's size.
    Misaligned {
        /// The address, if known.
        address: Option<u64>,
    },
    /// An instruction that cannot be executed.
    IllegalInstruction,
    /// A call through a handle that names no function with the signature of the call.
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
    /// Threads wait, and no thread can release them.
    Deadlock {
        /// One line for each group of waiting threads.
        waiting: Vec<String>,
    },
    /// A handle that does not name a texture or surface of the kind that the instruction needs.
    InvalidReference {
        /// The handle and what is wrong with it.
        what: String,
    },
    /// A surface access with `.trap` whose coordinates are outside the surface.
    SurfaceBounds {
        /// Coordinates: x (in bytes for unformatted accesses), y, and z or the layer.
        at: [i64; 3],
        /// The surface's size, in the same units.
        size: [u64; 3],
    },
    /// Stopped by the host (time limit, reset, fault of another thread).
    Stopped,
    /// Execution reached an unsupported operation.
    Unsupported {
        /// The operation's name.
        what: String,
    },
}
