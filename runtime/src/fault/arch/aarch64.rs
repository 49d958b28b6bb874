//! Fault recovery on aarch64 Linux: the trampoline with which `enter` calls generated code, the
//! code that ends such a call after a fault, and the state of the CPU that a signal handler
//! receives.
//!
//! The trampoline follows the AAPCS64 calling convention. It saves x19 to x30 and d8 to d15 on the caller's stack, and
//! the stack pointer and FPCR in the save area.
//!
//! Invariant: the save area is complete while the program counter is between the labels `armed` and
//! `armed_end`. The same invariant holds on x86-64.

use std::arch::global_asm;
use std::ffi::c_void;

use margay_jit::Registers;

use super::super::thread::SaveArea;
use super::super::{AccessKind, TrapKind};

/// Whether fault recovery is implemented for this host.
pub(in crate::fault) const SUPPORTED: bool = true;

/// FPCR for generated code: round to nearest, keep subnormals, no exception traps, propagate NaN payloads (no default
/// NaN).
pub(in crate::fault) const RUN_FP_CONTROL: u64 = 0;

global_asm!(
    ".pushsection .text.margay_fault_enter,\"ax\",@progbits",
    ".balign 16",
    ".globl margay_fault_enter",
    ".hidden margay_fault_enter",
    ".type margay_fault_enter,@function",
    "margay_fault_enter:", // f x0, ctx x1, a x2, b x3, save x4, stack top or 0 x5
    ".cfi_startproc",
    "stp x29, x30, [sp, #-160]!",
    ".cfi_def_cfa_offset 160",
    ".cfi_offset x29, -160",
    ".cfi_offset x30, -152",
    "mov x29, sp",
    ".cfi_def_cfa x29, 160",
    "stp x19, x20, [sp, #16]",
    "stp x21, x22, [sp, #32]",
    "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]",
    "stp d10, d11, [sp, #112]",
    "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "mov x19, x4",
    "mrs x9, fpcr",
    "str x9, [x19, #{host_fp}]",
    "mov x9, sp",
    "str x9, [x19, #{sp}]",
    ".globl margay_fault_armed",
    ".hidden margay_fault_armed",
    "margay_fault_armed:",
    "ldr x9, [x19, #{pending}]",
    "ldr w9, [x9]",
    "cbnz w9, 3f",
    "ldr x9, [x19, #{run_fp}]",
    "msr fpcr, x9",
    "mov x9, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "cbz x5, 2f",
    "mov sp, x5",
    "2:",
    "blr x9",
    ".globl margay_fault_armed_end",
    ".hidden margay_fault_armed_end",
    "margay_fault_armed_end:",
    "str x0, [x19, #{result}]",
    "mov x1, x19",
    "mov x0, #0",
    "b 4f",
    "3:",
    "mov x0, x19",
    ".globl margay_fault_recover",
    ".hidden margay_fault_recover",
    "margay_fault_recover:", // save x0; all other registers are undefined
    "mov x1, x0",
    "mov x0, #1",
    "4:",
    "ldr x9, [x1, #{host_fp}]",
    "msr fpcr, x9",
    "ldr x9, [x1, #{sp}]",
    "mov sp, x9",
    "mov x29, sp",
    "ldp x19, x20, [sp, #16]",
    "ldp x21, x22, [sp, #32]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #64]",
    "ldp x27, x28, [sp, #80]",
    "ldp d8, d9, [sp, #96]",
    "ldp d10, d11, [sp, #112]",
    "ldp d12, d13, [sp, #128]",
    "ldp d14, d15, [sp, #144]",
    "ldp x29, x30, [sp], #160",
    ".cfi_def_cfa sp, 0",
    "ret",
    ".cfi_endproc",
    ".size margay_fault_enter, . - margay_fault_enter",
    ".popsection",
    sp = const std::mem::offset_of!(SaveArea, sp),
    result = const std::mem::offset_of!(SaveArea, result),
    host_fp = const std::mem::offset_of!(SaveArea, host_fp_control),
    run_fp = const std::mem::offset_of!(SaveArea, run_fp_control),
    pending = const std::mem::offset_of!(SaveArea, pending),
);

unsafe extern "C" {
    /// Calls `f(ctx, a, b)` on the stack whose top is `stack_top`, or on the current stack if `stack_top` is 0. Returns
    /// 0 and stores the result in `save` if `f` returned; returns 1 if a trap or a stop ended the call.
    #[link_name = "margay_fault_enter"]
    pub(in crate::fault) fn enter_raw(
        f: u64,
        ctx: *mut u8,
        a: u64,
        b: u64,
        save: *mut c_void,
        stack_top: u64,
    ) -> u64;

    /// Makes the call of `enter_raw` with the save area `save` return 1.
    #[link_name = "margay_fault_recover"]
    pub(in crate::fault) fn resume(save: *mut c_void) -> !;

    fn margay_fault_armed();
    fn margay_fault_armed_end();
}

/// Returns whether `pc` is in the part of the trampoline where the save area is valid.
pub(in crate::fault) fn in_armed_window(pc: u64) -> bool {
    let start = margay_fault_armed as *const () as u64;
    let end = margay_fault_armed_end as *const () as u64;
    start <= pc && pc < end
}

/// Tag of the record in the context's extension area that contains the exception syndrome register.
const ESR_MAGIC: u32 = 0x4553_5201;
/// Exception class (bits 26 to 31 of the syndrome) of a failed instruction fetch. The next constant is the exception
/// class of a data abort.
const CLASS_FETCH_LOWER: u64 = 0x20;
const CLASS_DATA_LOWER: u64 = 0x24;
/// Bit in the syndrome of a data abort that is set if a write caused the abort.
const WRITE_NOT_READ: u64 = 1 << 6;

/// The state of the CPU when a signal interrupted the thread. Linux saves this state before it
/// calls the signal handler.
pub(in crate::fault) struct Context {
    raw: *mut libc::ucontext_t,
}

impl Context {
    /// Creates a [`Context`] from the third argument of a signal handler.
    ///
    /// # Safety
    /// `raw` must be the context pointer of the running handler. The value must not be used after the handler returns.
    pub(in crate::fault) unsafe fn new(raw: *mut c_void) -> Context {
        Context { raw: raw.cast() }
    }

    fn machine(&self) -> *mut libc::mcontext_t {
        // SAFETY: `raw` is valid by the contract of `new`; the code only computes an address.
        unsafe { &raw mut (*self.raw).uc_mcontext }
    }

    /// Returns the program counter at which the signal interrupted the thread.
    pub(in crate::fault) fn pc(&self) -> u64 {
        // SAFETY: the context is this thread's own until the handler returns.
        unsafe { (*self.machine()).pc }
    }

    /// Returns the stack pointer of the interrupted code.
    pub(in crate::fault) fn sp(&self) -> u64 {
        // SAFETY: the context is this thread's own until the handler returns.
        unsafe { (*self.machine()).sp }
    }

    fn set(&mut self, pc: u64, x0: u64) {
        // SAFETY: the context is this thread's own until the handler returns.
        unsafe {
            (*self.machine()).pc = pc;
            (*self.machine()).regs[0] = x0;
        }
    }

    /// Returns the return address of the innermost call. The program counter must be at the first instruction of the
    /// callee.
    pub(in crate::fault) fn return_address(&self) -> Option<u64> {
        // SAFETY: the context is this thread's own until the handler returns.
        Some(unsafe { (*self.machine()).regs[30] })
    }

    /// Returns the direction of the access that faulted. Reads the direction from the exception
    /// syndrome. If Linux does not provide the syndrome, decodes the instruction.
    pub(in crate::fault) fn access_kind(&self) -> Option<AccessKind> {
        let Some(syndrome) = self.syndrome() else {
            return direction_of(super::super::access::load32(self.pc()).ok()?);
        };
        match syndrome >> 26 & 0x3f {
            CLASS_FETCH_LOWER => Some(AccessKind::Execute),
            CLASS_DATA_LOWER if syndrome & WRITE_NOT_READ != 0 => Some(AccessKind::Write),
            CLASS_DATA_LOWER => Some(AccessKind::Read),
            _ => None,
        }
    }

    /// Returns the syndrome from the tagged records that follow the registers in the context.
    fn syndrome(&self) -> Option<u64> {
        const AREA: usize = 4096;
        // `__reserved` follows `pstate` at the next multiple of 16.
        // SAFETY: `raw` is valid by the contract of `new`; the code only computes an address.
        let pstate = unsafe { &raw const (*self.machine()).pstate } as usize;
        let area = (pstate + 8).next_multiple_of(16);
        let mut at = 0;
        while at + 16 <= AREA {
            // SAFETY: the address is inside the area, which is AREA bytes long and aligned to 16.
            let (magic, size) = unsafe {
                let head = (area + at) as *const u32;
                (*head, *head.add(1) as usize)
            };
            if magic == ESR_MAGIC {
                // SAFETY: the record has 16 bytes: the head and the syndrome.
                return Some(unsafe { *((area + at + 8) as *const u64) });
            }
            if magic == 0 || size < 8 {
                return None;
            }
            at += size;
        }
        None
    }

    /// The address in the result is always `None`: on aarch64, this function cannot find an address
    /// that the Linux kernel does not report.
    pub(in crate::fault) fn explain(&self, _code_end: u64) -> (TrapKind, Option<u64>) {
        (TrapKind::NonCanonical, None)
    }

    /// Returns no registers: no code that names them exists for this machine.
    pub(in crate::fault) fn registers(&self) -> Registers {
        Registers::default()
    }

    /// Edits the saved context so that the call of `enter_raw` with the save area `save` returns 1
    /// after the signal handler has returned.
    pub(in crate::fault) fn recover(&mut self, save: *mut SaveArea) {
        let stub = resume as unsafe extern "C" fn(*mut c_void) -> ! as usize as u64;
        self.set(stub, save as u64);
    }

    /// Edits the saved context so that execution continues at `landing` after the signal handler
    /// has returned. The interrupted access routine then returns to its caller with the results
    /// `status` and `value`.
    pub(in crate::fault) fn land(&mut self, landing: u64, status: u64, value: u64) {
        self.set(landing, status);
        // SAFETY: the context is this thread's own until the handler returns.
        unsafe { (*self.machine()).regs[1] = value };
    }
}

/// Returns the direction of a load or store instruction, for systems that do not provide the syndrome.
fn direction_of(instruction: u32) -> Option<AccessKind> {
    let bit = |n: u32| instruction >> n & 1 == 1;
    if !bit(27) || bit(25) {
        return None;
    }
    let store = match (bit(29), bit(28)) {
        // Exclusive, ordered and structure accesses, and accesses to pairs.
        (false, false) | (true, false) => !bit(22),
        // PC-relative loads.
        (false, true) => false,
        // Accesses of single registers. This arm matches the atomics; the next arm evaluates `opc`, in which 16-byte
        // stores have a separate encoding.
        (true, true) if !bit(24) && bit(21) && instruction >> 10 & 3 == 0 => true,
        (true, true) => !bit(22) && (!bit(23) || (bit(26) && instruction >> 30 == 0)),
    };
    Some(if store {
        AccessKind::Write
    } else {
        AccessKind::Read
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions() {
        let read = [
            0xf940_0020u32, // ldr x0, [x1]
            0x885f_fc03,    // ldaxr w3, [x0]
            0xa8c1_7bfd,    // ldp x29, x30, [sp], #16
            0x3dc0_0020,    // ldr q0, [x1]
            0x3940_0020,    // ldrb w0, [x1]
            0x5800_0040,    // ldr x0, literal
        ];
        let write = [
            0xf900_0022u32, // str x2, [x1]
            0x8804_fc03,    // stlxr w4, w3, [x0]
            0xa9bf_7bfd,    // stp x29, x30, [sp, #-16]!
            0x3d80_0020,    // str q0, [x1]
            0x3900_0020,    // strb w0, [x1]
            0xb820_0041,    // ldadd w0, w1, [x2]
        ];
        assert!(
            read.iter()
                .all(|&i| direction_of(i) == Some(AccessKind::Read))
        );
        assert!(
            write
                .iter()
                .all(|&i| direction_of(i) == Some(AccessKind::Write))
        );
        assert_eq!(direction_of(0x8b02_0020), None); // add
        assert_eq!(direction_of(0xd65f_03c0), None); // ret
    }
}
