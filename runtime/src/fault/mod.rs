//! Recovers from faults in device code, and stops device code on request.
//!
//! Device code is native code that may read, write or jump anywhere. This module turns the faults of device code into
//! error values. The module has three parts:
//!
//! - [`enter`] calls generated code through an assembly trampoline. The trampoline saves the registers that are needed
//!   to return to the host at any time. A fault, a stop or a [`raise`]d trap ends the call with `Err(`[`Trap`]`)`.
//! - [`install`] installs one signal handler for SIGSEGV, SIGBUS, SIGFPE and SIGILL. The handler recovers from a fault
//!   only in one of three cases: the program counter is in code that was registered with [`register_code`], registered
//!   code called or jumped to the program counter, or the program counter is in a routine of [`access`]. To recover,
//!   the handler edits the saved context and returns; it never jumps.
//! - [`WorkerGuard`] gives a worker thread its alternate signal stack and its guarded stack for generated code. Other
//!   threads stop the worker through a [`StopHandle`].
//!
//! Invariant: **no Rust frame is ever skipped.** An unwind drops only frames of generated code and of the trampoline,
//! which own no resources. A helper that generated code calls returns, or leaves with [`leave_if_stopped`] or
//! [`leave_with`] while it owns nothing. A trap that a helper [`raise`]s ends the call of [`enter`] when generated code returns. Generated code
//! can leave earlier: it reads [`pending_flag`] after the helper call and calls [`leave_address`]. (Kernels do not.)
//!
//! Invariant: **a signal that does not come from device code reaches the program's handler** (`forward`) in the same
//! way as if the kernel had delivered it. It does not matter whether the program installed that handler before or after
//! ours.
//!
//! A handler that the program installs after ours replaces ours until the next piece of a launch begins. Then [`keep`]
//! installs our handler again, in front of the program's handler. From then on, only faults outside device code reach
//! the program's handler. Until our handler is reinstalled, the program's handler gets all signals: faults of the
//! program, and also faults of device code in pieces of a launch that are already running. If the program queries its
//! action later, `sigaction` can return our handler. If the program calls or reinstalls that handler, our handler
//! forwards the signal to the action that it had replaced at the time of the query.
//!
//! On hosts without an implementation (see `arch`), [`install`] and [`WorkerGuard::new`] return
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
pub use entry::{
    GeneratedFn, enter, leave_address, leave_if_stopped, leave_with, pending, pending_flag, raise,
    set_stop_token,
};
pub use float_mode::FloatMode;
pub use handler::{install, stop_signal};
pub(crate) use handler::{keep, keep_for_copy, keep_frequent, unblock};
pub use stack::GuardedStack;
pub use thread::StopHandle;
pub use worker::{WorkerGuard, WorkerOptions, prepare_service_thread};

/// The kind of a trap. It determines which CUDA error is reported to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrapKind {
    /// No memory is mapped at the address, for example because the pointer is null or invalid.
    Unmapped,
    /// Memory is mapped at the address, but its protection forbids this kind of access. Examples are guard pages and
    /// freed device memory.
    Protected,
    /// The address is not canonical: no memory can be mapped there on this machine.
    NonCanonical,
    /// The address does not have the alignment that the access needs (`BUS_ADRALN` and similar).
    Misaligned,
    /// Any other bus error, for example after a mapped file was truncated or hardware memory failed.
    Bus,
    /// The access hit the guard below the stack of generated code, because the recursion is too deep.
    StackOverflow,
    /// An integer division in generated code trapped (SIGFPE).
    Arithmetic,
    /// Generated code executed a trap instruction (SIGILL). The program counter identifies the instruction.
    IllegalInstruction,
    /// Another thread stopped this thread ([`StopHandle::stop`]).
    Stopped,
    /// A helper ended the call with [`raise`] and this code.
    Raised(u32),
}

/// The kind of access that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store or an atomic.
    Write,
    /// An instruction fetch: generated code jumped to or called the address.
    Execute,
}

/// The reason why a call of [`enter`] did not return normally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Kind of the trap.
    pub kind: TrapKind,
    /// The signal that reported the trap; 0 for [`TrapKind::Raised`].
    pub signal: i32,
    /// `si_code` of that signal.
    pub code: i32,
    /// Address of the access, if the system reports it or the instruction could be decoded.
    pub address: Option<u64>,
    /// Kind of the access, if the system reports it or the instruction could be decoded.
    pub access: Option<AccessKind>,
    /// Program counter of the interrupted instruction. It is in the code range of `owner`, or in the trampoline of
    /// [`enter`] if a stop arrived there. For a failed instruction fetch, this is the return address in generated code.
    /// It is 0 if the trap did not interrupt generated code.
    pub pc: u64,
    /// Owner ID with which the code range at `pc` was registered; 0 if `pc` is in no such range.
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

/// Errors in setting up fault recovery.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// Fault recovery is not implemented for the host, no real-time signal is free, or the thread is already a worker.
    #[error("fault recovery is not supported on this host ({0})")]
    Unsupported(&'static str),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// Name of the system call.
        what: &'static str,
        /// The error that the system returned.
        source: std::io::Error,
    },
}

impl FaultError {
    /// Returns an error for the system call `what`, with the reason in `errno`.
    pub(crate) fn last_os(what: &'static str) -> FaultError {
        FaultError::System {
            what,
            source: std::io::Error::last_os_error(),
        }
    }
}
