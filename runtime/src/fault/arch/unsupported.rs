//! The implementation for hosts without fault recovery, on which [`SUPPORTED`] is false.
//!
//! `install` and `WorkerGuard` return [`FaultError::Unsupported`](super::super::FaultError::Unsupported), so only the
//! interpreter runs kernels on such hosts. The access routines perform ordinary accesses, and a
//! fault of such an access ends the process.

use std::ffi::c_void;

use margay_jit::Registers;

use super::super::thread::SaveArea;
use super::super::{AccessKind, TrapKind};

pub(in crate::fault) const SUPPORTED: bool = false;
pub(in crate::fault) const RUN_FP_CONTROL: u64 = 0;

/// # Safety
/// The caller must meet the safety requirements of `f`. A fault in `f` ends the process.
pub(in crate::fault) unsafe fn enter_raw(
    f: u64,
    ctx: *mut u8,
    a: u64,
    b: u64,
    save: *mut c_void,
    _stack_top: u64,
) -> u64 {
    // SAFETY: `f` was made from a function of this type by `enter`.
    let f: super::super::GeneratedFn = unsafe { std::mem::transmute(f as usize) };
    // SAFETY: the caller upholds the contract of `f`; `save` points to a local of the caller.
    unsafe { (*save.cast::<SaveArea>()).result.set(f(ctx, a, b)) };
    0
}

/// # Safety
/// This function is never called, because these hosts run no generated code.
pub(in crate::fault) unsafe fn resume(_save: *mut c_void) -> ! {
    std::process::abort()
}

pub(in crate::fault) fn in_armed_window(_pc: u64) -> bool {
    false
}

pub(in crate::fault) struct Context;

impl Context {
    /// # Safety
    /// This function has no safety requirements.
    pub(in crate::fault) unsafe fn new(_raw: *mut c_void) -> Context {
        Context
    }

    pub(in crate::fault) fn pc(&self) -> u64 {
        0
    }

    pub(in crate::fault) fn sp(&self) -> u64 {
        0
    }

    pub(in crate::fault) fn return_address(&self) -> Option<u64> {
        None
    }

    pub(in crate::fault) fn access_kind(&self) -> Option<AccessKind> {
        None
    }

    pub(in crate::fault) fn explain(&self, _code_end: u64) -> (TrapKind, Option<u64>) {
        (TrapKind::NonCanonical, None)
    }

    /// Returns no registers: no code that names them exists for this machine.
    pub(in crate::fault) fn registers(&self) -> Registers {
        Registers::default()
    }

    pub(in crate::fault) fn recover(&mut self, _save: *mut SaveArea) {}

    pub(in crate::fault) fn land(&mut self, _landing: u64, _status: u64, _value: u64) {}
}

/// Plain memory accesses with the signatures of the access routines.
pub(in crate::fault) mod routines {
    use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

    use super::super::RoutineResult;

    const DONE: RoutineResult = RoutineResult {
        status: 0,
        value: 0,
    };

    pub(in crate::fault) unsafe fn copy(dst: u64, src: u64, n: u64) -> RoutineResult {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { std::ptr::copy(src as *const u8, dst as *mut u8, n as usize) };
        DONE
    }

    pub(in crate::fault) unsafe fn fill(dst: u64, bytes: u64, pattern: u64) -> RoutineResult {
        for i in 0..bytes {
            let byte = pattern.to_ne_bytes()[(i % 8) as usize];
            // SAFETY: the caller upholds the contract of this function.
            unsafe { ((dst + i) as *mut u8).write(byte) };
        }
        DONE
    }

    macro_rules! scalars {
        ($($ty:ident, $atomic:ident, $load:ident, $store:ident, $cas:ident;)*) => {$(
            pub(in crate::fault) unsafe fn $load(address: u64) -> RoutineResult {
                // SAFETY: the caller upholds the contract of this function.
                let value = unsafe { (address as *const $ty).read_unaligned() };
                RoutineResult { status: 0, value: u64::from(value) }
            }

            pub(in crate::fault) unsafe fn $store(address: u64, value: u64) -> RoutineResult {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { (address as *mut $ty).write_unaligned(value as $ty) };
                DONE
            }

            pub(in crate::fault) unsafe fn $cas(
                address: u64,
                expected: u64,
                new: u64,
            ) -> RoutineResult {
                // SAFETY: the address is aligned (checked before), and the caller upholds the contract of this
                // function.
                let cell = unsafe { $atomic::from_ptr(address as *mut $ty) };
                let order = Ordering::SeqCst;
                let old = cell.compare_exchange(expected as $ty, new as $ty, order, order);
                RoutineResult { status: 0, value: u64::from(old.unwrap_or_else(|seen| seen)) }
            }
        )*};
    }

    scalars! {
        u8, AtomicU8, load8, store8, cas8;
        u16, AtomicU16, load16, store16, cas16;
        u32, AtomicU32, load32, store32, cas32;
        u64, AtomicU64, load64, store64, cas64;
    }

    pub(in crate::fault) unsafe fn load128(address: u64, out: *mut u128) -> RoutineResult {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { *out = (address as *const u128).read_unaligned() };
        DONE
    }

    pub(in crate::fault) unsafe fn store128(address: u64, value: *const u128) -> RoutineResult {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { (address as *mut u128).write_unaligned(*value) };
        DONE
    }

    /// Compares and swaps 16 bytes. The operation is atomic only with respect to other calls of
    /// this function. This suffices because no generated code runs on these hosts.
    pub(in crate::fault) unsafe fn cas128(
        address: u64,
        expected: *mut u128,
        new: *const u128,
    ) -> RoutineResult {
        static ONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
        let _held = ONE.lock();
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let old = (address as *const u128).read();
            if old == *expected {
                (address as *mut u128).write(*new);
            }
            *expected = old;
        }
        DONE
    }

    pub(in crate::fault) fn access_landing(_pc: u64) -> Option<(u64, u64)> {
        None
    }
}
