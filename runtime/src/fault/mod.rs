//! Faults and stops: how a process survives what device code does.
//!
//! Device code is native code that may read, write or jump anywhere. This module turns its
//! faults into values. Three pieces fit together:
//!
//! - [`enter`] calls generated code through an assembly trampoline that remembers how to get
//!   back. A fault, a stop or a [`raise`]d trap ends the call with `Err(`[`Trap`]`)`.
//! - One signal handler ([`install`]) for SIGSEGV, SIGBUS, SIGFPE and SIGILL acts when, and only
//!   when, the program counter lies in code that was registered with [`register_code`] or in the
//!   routines of [`access`]. It edits the saved context and returns; it never jumps.
//! - [`WorkerGuard`] gives a worker thread its alternate signal stack and its guarded stack for
//!   generated code, and makes it stoppable through [`StopHandle`].
//!
//! Invariant: **no Rust frame is ever skipped.** Frames that an unwind drops are those of
//! generated code and of the trampoline, which own nothing. A helper that generated code calls
//! runs to its end; what it wants to say it leaves with [`raise`], and generated code asks
//! [`pending_flag`] after the call and leaves through [`leave_address`].
//!
//! Invariant: **a signal that is not ours reaches the program's handler**, as the kernel would have delivered it
//! (`forward`), whether the program installed it before or after ours.
//!
//! What holds of handlers that the program installs after ours: from the next piece of a launch on ([`keep`]) ours is in front
//! of it again, so faults of device code never reach it and its own faults do. Between its installation and that
//! moment it is alone: the program's faults go to it directly, and a fault of device code in a piece that was running already
//! goes to it, too. A program that asks for its action meanwhile may be told ours; if it calls that, or puts it back later,
//! it gets what stood behind ours when it asked.
//!
//! Without an implementation for the host (see `arch`) every entry answers with the named error
//! [`FaultError::Unsupported`].

pub mod access;
mod arch;
mod code_ranges;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod decode;
mod entry;
mod float_mode;
mod forward;
mod handler;
pub(crate) mod hold;
mod stack;
mod thread;
mod worker;

#[cfg(all(test, target_arch = "aarch64"))]
mod test_code_aarch64;
#[cfg(all(test, target_arch = "x86_64"))]
mod test_code_x86_64;
#[cfg(test)]
mod tests;

pub use access::AccessFault;
pub use code_ranges::{CodeRange, lookup_code, register_code, unregister_code};
pub use entry::{GeneratedFn, enter, leave_address, pending, pending_flag, raise, set_stop_token};
pub(crate) use float_mode::FloatMode;
pub use handler::{install, stop_signal};
pub(crate) use handler::{keep, keep_frequent};
pub use stack::GuardedStack;
pub use thread::StopHandle;
pub use worker::{WorkerGuard, WorkerOptions, prepare_service_thread};

/// What a trap means, in the terms of the CUDA error that it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrapKind {
    /// Nothing is mapped at the address (guard page, freed allocation, wild pointer).
    Unmapped,
    /// Something is mapped there, but not for this kind of access.
    Protected,
    /// The address is no address at all on this machine (not canonical).
    NonCanonical,
    /// The address is not aligned as the access needs (BUS_ADRALN and its kin).
    Misaligned,
    /// Any other bus error: a truncated file, failed hardware memory.
    Bus,
    /// The guard of the stack that generated code runs on was hit: recursion too deep.
    StackOverflow,
    /// SIGFPE: generated code let an integer division trap.
    Arithmetic,
    /// SIGILL: a trap instruction placed by the compiler; the pc tells which.
    IllegalInstruction,
    /// The thread was stopped from outside ([`StopHandle::stop`]).
    Stopped,
    /// A helper ended the call with [`raise`] and this code.
    Raised(u32),
}

/// Direction of the access that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store or an atomic.
    Write,
    /// An instruction fetch: generated code jumped or called there.
    Execute,
}

/// Why a call of [`enter`] did not return normally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// What happened.
    pub kind: TrapKind,
    /// Signal that brought the news; 0 for [`TrapKind::Raised`].
    pub signal: i32,
    /// `si_code` of that signal.
    pub code: i32,
    /// Address of the access, where it is known.
    pub address: Option<u64>,
    /// Direction of the access, where it is known.
    pub access: Option<AccessKind>,
    /// Program counter at the fault: in the code range of `owner`. For an instruction fetch it
    /// is the return address in generated code. 0 where generated code was not interrupted.
    pub pc: u64,
    /// Owner id that the code range at `pc` was registered with; 0 when `pc` is 0.
    pub owner: u64,
}

impl std::fmt::Display for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.kind {
            TrapKind::Unmapped => "access to unmapped memory",
            TrapKind::Protected => "access to protected memory",
            TrapKind::NonCanonical => "access through a non-canonical address",
            TrapKind::Misaligned => "misaligned access",
            TrapKind::Bus => "bus error",
            TrapKind::StackOverflow => "stack overflow",
            TrapKind::Arithmetic => "arithmetic trap",
            TrapKind::IllegalInstruction => "trap instruction",
            TrapKind::Stopped => "stopped",
            TrapKind::Raised(code) => return write!(f, "trap {code} raised at {:#x}", self.pc),
        };
        write!(f, "{what}")?;
        if let Some(address) = self.address {
            write!(f, " at address {address:#x}")?;
        }
        write!(f, " (pc {:#x})", self.pc)
    }
}

impl std::error::Error for Trap {}

/// Set-up problems of this module.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// The host's architecture or system has no fault recovery here.
    #[error("fault recovery is not supported on this host ({0})")]
    Unsupported(&'static str),
    /// The system refused a call.
    #[error("{what}: {source}")]
    System {
        /// The call that failed.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}

impl FaultError {
    /// The error that `errno` describes.
    pub(crate) fn last_os(what: &'static str) -> FaultError {
        FaultError::System {
            what,
            source: std::io::Error::last_os_error(),
        }
    }
}
