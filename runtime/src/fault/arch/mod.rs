//! The architecture-specific part of fault recovery: assembly and the layout of saved contexts.
//!
//! Every implementation has the same items: `SUPPORTED`, `enter_raw`, `resume`, `in_armed_window`, `RUN_FP_CONTROL`,
//! `Context` (a view of the saved machine state) and the `access` routines with `access_landing`. Invariant: an access
//! routine is a leaf function that changes neither the stack pointer nor a callee-saved register, or its landing
//! restores the register. So control can go to the landing from any instruction of the routine.

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
/// `status` is 0 on success. After a fault it holds the trap kind in its low byte and the direction in bits 8 and 9, as
/// [`pack_status`](super::access::pack_status) encodes them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutineResult {
    pub(super) status: u64,
    /// The loaded value, or the address of the fault.
    pub(super) value: u64,
}
