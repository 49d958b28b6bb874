//! The floating-point control of device code, for host code that computes in its place.
//!
//! Generated code gets its own control word from [`super::enter`]. The interpreter, and constants folded while a
//! kernel is compiled, compute on a host thread, whose program may flush subnormals (`-ffast-math`) or round as it
//! likes.

use std::marker::PhantomData;

use super::arch::RUN_FP_CONTROL;

/// While it lives, this thread rounds to nearest and keeps subnormals, as device code does.
#[derive(Debug)]
pub(crate) struct FloatMode {
    before: u64,
    not_send: PhantomData<*const ()>,
}

impl FloatMode {
    /// Device code's mode for this thread; dropping it brings the thread's own back.
    pub(crate) fn of_device() -> FloatMode {
        let before = control();
        set_control(RUN_FP_CONTROL);
        FloatMode {
            before,
            not_send: PhantomData,
        }
    }
}

impl Drop for FloatMode {
    fn drop(&mut self) {
        set_control(self.before);
    }
}

#[cfg(target_arch = "x86_64")]
fn control() -> u64 {
    let mut word = 0u32;
    // SAFETY: writes the control word to a place of ours.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
    }
    word.into()
}

#[cfg(target_arch = "x86_64")]
fn set_control(control: u64) {
    let word = control as u32;
    // SAFETY: reads a control word that is valid: ours, or one that this thread had. The exceptions of ours are
    // masked. Callers do this at the ends of whole computations.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "aarch64")]
fn control() -> u64 {
    let word: u64;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags));
    }
    word
}

#[cfg(target_arch = "aarch64")]
fn set_control(control: u64) {
    // SAFETY: a valid control word: ours, without traps, or one that this thread had. Callers do this at the ends
    // of whole computations.
    unsafe {
        std::arch::asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack, preserves_flags));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn control() -> u64 {
    0
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn set_control(_: u64) {}
