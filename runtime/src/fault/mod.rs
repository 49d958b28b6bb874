//! Recovers from faults in device code, and stops device code on request.
//!
//! Device code is native code that may read, write or jump anywhere. This module turns the faults of device code into
//! error values. The module has three parts:
//!
//! - [`enter`] calls generated code through an assembly trampoline. The trampoline saves the registers that are needed
//!   to return to the host at any time. A fault, a stop or a [`raise`]d trap ends the call with `Err(`[`Trap`]`)`.
//! - [`install`] installs one signal handler for SIGSEGV, SIGBUS, SIGFPE and SIGILL, and another one for the stop
//!   signal. The handler of faults recovers from a fault only if the program counter is in code that was registered
//!   with [`register_code`], is in a routine of [`access`], or is an invalid address that registered code called, or if a
//!   worker runs code of the host that [`enter_host_code`] has called. (It
//!   also repeats writes to memory whose pages are being replaced, see `hold`.) To recover, the handler edits the saved
//!   context and returns; it never jumps.
//! - [`WorkerGuard`] creates the two stacks of a worker thread: the alternate signal stack, and the stack for generated
//!   code. Each has a guard. Other threads stop the worker through a [`StopHandle`].
//!
//! Invariant: **no Rust frame with resources is ever skipped**, except after a fault of code of the host that
//! [`enter_host_code`] has called. If a fault or a stop ends a call of [`enter`], only frames of generated code and of the
//! trampoline are dropped. These frames own no resources. A helper that generated code has called either returns, or leaves the call with
//! [`leave_if_stopped`] or [`leave_with`]; it must not own resources when it calls these functions.
//! A trap that a helper [`raise`]s ends the call of [`enter`] when generated code returns.
//! Generated code can also end the call earlier: it reads [`pending_flag`] after the helper has
//! returned, and calls [`leave_address`] if the flag is set. (The code of kernels does not do
//! this.)
//!
//! Invariant: **a signal that does not come from device code reaches the program's handler**
//! (`forward`) in the same way as if Linux had delivered it. This holds whether the program
//! installed its handler before or after our handler was installed.
//!
//! If no handler of the program receives a fault of the program, or if the handler restores the default action,
//! `crash_note` writes which file contains the faulting instruction, before the fault ends the process.
//!
//! If the program installs a handler after our handler was installed, the program's handler replaces our handler until
//! a thread calls [`keep`], [`keep_frequent`] or [`keep_for_copy`]. For SIGSEGV and SIGILL, this is usually when the
//! next piece of a launch begins; for SIGBUS and SIGFPE, it is when a thread waits for a task or a service thread
//! begins a job. Our handler then forwards faults outside device code to the program's handler. Until our handler is
//! reinstalled, the program's handler receives all signals, that is, faults of the program and also faults of device
//! code in those pieces of a launch that are already running. If the program queries its signal action, `sigaction` can
//! return our handler. If the program later calls or reinstalls the returned handler, our handler forwards the signal
//! to the action that it had replaced at the time of the query.
//!
//! On hosts without an implementation (see `arch`), [`install`] and [`WorkerGuard::new`] return
//! [`FaultError::Unsupported`].

pub mod access;
mod arch;
mod code_ranges;
mod crash_note;
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
pub(crate) use entry::{enter_host_code, registers};
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
    /// The access was in the guard below the stack of generated code, because the recursion is too
    /// deep.
    StackOverflow,
    /// An integer division in generated code trapped (SIGFPE).
    Arithmetic,
    /// Generated code executed a trap instruction (SIGILL). The program counter identifies the instruction.
    IllegalInstruction,
    /// Another thread stopped this thread ([`StopHandle::stop`]).
    Stopped,
    /// A helper ended the call with [`raise`] or [`leave_with`] and this code.
    Raised(u32),
}

/// The kind of access that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// A load.
    Read,
    /// A store or an atomic.
    Write,
    /// An instruction fetch: generated code called the address.
    Execute,
}

/// The reason why a call of [`enter`] did not return normally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Kind of the trap.
    pub kind: TrapKind,
    /// The number of the signal that ended the call; 0 for [`TrapKind::Raised`]. A trap that was created from an
    /// [`AccessFault`] contains SIGSEGV.
    pub signal: i32,
    /// The value `si_code` that Linux passed to the handler of this signal; 0 unless the signal handler created the
    /// trap because of a fault.
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
        /// Name of the system call, or of the size that overflows.
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
