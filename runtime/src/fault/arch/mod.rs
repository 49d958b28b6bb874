//! The host's part of fault recovery: assembly and the layout of saved contexts.
//!
//! Every implementation offers the same items: `SUPPORTED`, `enter_raw`, `resume`,
//! `in_armed_window`, `RUN_FP_CONTROL`, `Context` (a view of the saved machine state) and the
//! `access` routines with `access_landing`. Invariant: an access routine is a leaf that moves
//! neither the stack pointer nor a callee-saved register (or names a landing that repairs it),
//! so that landing means returning from it.

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

/// What an access routine returns in two registers.
///
/// `status` is 0 on success. After a fault it holds the trap kind in its low byte and the
/// direction in bit 8, as `routine_status` packs them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutineResult {
    pub(super) status: u64,
    /// The value loaded, or the address of the fault.
    pub(super) value: u64,
}
