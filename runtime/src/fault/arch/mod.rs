//! The architecture-specific part of fault recovery: assembly and the layout of saved contexts.
//!
//! The module of each architecture has the same items: `SUPPORTED`, `enter_raw`, `resume`, `in_armed_window`,
//! `RUN_FP_CONTROL`, `Context` (a view of the saved machine state) and the module `routines`, which contains the access
//! routines and `access_landing`. A landing is the code to which the signal handler returns after a fault in an access
//! routine; the landing returns to the routine's caller. Invariant: an access routine is a leaf function that does not
//! change the stack pointer. If a routine changes a callee-saved register, its landing restores
//! this register. The signal handler can therefore continue at the landing, whichever instruction
//! of the routine faulted.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[path = "x86_64_access.rs"]
pub(super) mod routines;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod x86_64;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) use x86_64::*;

#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
mod aarch64;
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
#[path = "aarch64_access.rs"]
pub(super) mod routines;
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
pub(super) use aarch64::*;

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux"
)))]
mod unsupported;
#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux"
)))]
pub(super) use unsupported::*;

/// The result of an access routine, in two registers.
///
/// `status` is 0 on success. After a fault, `status` contains the trap kind in its low byte and the direction in bits 8
/// and 9, as [`pack_status`](super::access::pack_status) encodes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutineResult {
    pub(super) status: u64,
    /// The loaded value, or the address of the fault.
    pub(super) value: u64,
}
