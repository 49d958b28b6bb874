//! Sets the floating-point mode of device code on host threads. Calls of the driver API, and host
//! code that performs computations of device code, need this mode.
//!
//! [`super::enter`] sets the control word for generated code. The interpreter, and the constant folder during
//! compilation, compute on a host thread. The program may have changed the mode of this thread, for example to flush
//! subnormals (`-ffast-math`) or to change the rounding direction.

use std::marker::PhantomData;

use super::arch::RUN_FP_CONTROL;

/// While a `FloatMode` exists, its thread rounds to nearest and keeps subnormals, as device code does, and
/// floating-point exceptions cause no signal.
#[derive(Debug)]
pub struct FloatMode {
    before: u64,
    not_send: PhantomData<*const ()>,
}

impl FloatMode {
    /// If the program has set a different mode on this thread, for example with `feenableexcept`, sets the mode of
    /// device code; otherwise returns `None`. Dropping the returned value restores the previous mode and, on x86-64,
    /// the exception flags.
    pub fn replacing_other() -> Option<FloatMode> {
        let other = control() & !STATUS_FLAGS != RUN_FP_CONTROL;
        other.then(FloatMode::of_device)
    }

    /// Sets the mode of device code on this thread. Dropping the returned value restores the
    /// previous mode.
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

/// The bits of the control word that record exceptions.
const STATUS_FLAGS: u64 = if cfg!(target_arch = "x86_64") {
    0x3f
} else {
    0
};

#[cfg(target_arch = "x86_64")]
fn control() -> u64 {
    let mut word = 0u32;
    // SAFETY: the instruction stores the control word to a local.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags));
    }
    word.into()
}

#[cfg(target_arch = "x86_64")]
fn set_control(control: u64) {
    let word = control as u32;
    // SAFETY: the instruction loads a valid control word: either ours, which masks the exceptions, or the previous
    // control word of this thread. Callers change the mode only before and after whole computations.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack, preserves_flags));
    }
}

#[cfg(target_arch = "aarch64")]
fn control() -> u64 {
    let word: u64;
    // SAFETY: the instruction only reads a register.
    unsafe {
        std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack, preserves_flags));
    }
    word
}

#[cfg(target_arch = "aarch64")]
fn set_control(control: u64) {
    // SAFETY: the instruction sets a valid control word: either ours, which enables no traps, or the previous control
    // word of this thread. Callers change the mode only before and after whole computations.
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
