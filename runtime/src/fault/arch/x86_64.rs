//! Fault recovery on x86-64 Linux: the trampoline with which `enter` calls generated code, the code
//! that ends such a call after a fault, and the state of the CPU that a signal handler receives.
//!
//! The trampoline follows the System V calling convention. It saves the six callee-saved registers on the caller's
//! stack, and the stack pointer and MXCSR in the save area. It does not change the x87 control word because generated
//! code does not use x87.
//!
//! Invariant: the save area is complete while the program counter is between the labels `armed` and
//! `armed_end`, so the stop signal can end the call at any instruction between them. Before `armed`
//! and after `armed_end`, the stop signal only sets the pending flag. The trampoline tests this
//! flag at `armed`, and the trampoline's caller tests the flag after the trampoline has returned.

use std::arch::global_asm;
use std::ffi::c_void;

use margay_jit::Registers;

use super::super::decode;
use super::super::thread::SaveArea;
use super::super::{AccessKind, TrapKind};

/// Whether fault recovery is implemented for this host.
pub(in crate::fault) const SUPPORTED: bool = true;

/// MXCSR for generated code: all exceptions masked, round to nearest, no FTZ, no DAZ.
pub(in crate::fault) const RUN_FP_CONTROL: u64 = 0x1f80;

global_asm!(
    ".pushsection .text.margay_fault_enter,\"ax\",@progbits",
    ".balign 16",
    ".globl margay_fault_enter",
    ".hidden margay_fault_enter",
    ".type margay_fault_enter,@function",
    "margay_fault_enter:", // f rdi, ctx rsi, a rdx, b rcx, save r8, stack top or 0 r9
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    ".cfi_offset rbx, -24",
    ".cfi_offset r12, -32",
    ".cfi_offset r13, -40",
    ".cfi_offset r14, -48",
    ".cfi_offset r15, -56",
    "sub rsp, 8",
    "mov rbx, r8",
    "stmxcsr [rbx + {host_fp}]",
    "mov [rbx + {sp}], rsp",
    ".globl margay_fault_armed",
    ".hidden margay_fault_armed",
    "margay_fault_armed:",
    "mov rax, [rbx + {pending}]",
    "cmp dword ptr [rax], 0",
    "jne 3f",
    "ldmxcsr [rbx + {run_fp}]",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "test r9, r9",
    "cmovnz rsp, r9",
    "call rax",
    ".globl margay_fault_armed_end",
    ".hidden margay_fault_armed_end",
    "margay_fault_armed_end:",
    "mov [rbx + {result}], rax",
    "mov rdi, rbx",
    "xor eax, eax",
    "jmp 4f",
    "3:",
    "mov rdi, rbx",
    ".globl margay_fault_recover",
    ".hidden margay_fault_recover",
    "margay_fault_recover:", // save rdi; all other registers are undefined
    "mov eax, 1",
    "4:",
    "cld",
    "mov rsp, [rdi + {sp}]",
    "ldmxcsr [rdi + {host_fp}]",
    "lea rbp, [rsp + 48]",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
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

const ERROR_WRITE: i64 = 1 << 1;
const ERROR_FETCH: i64 = 1 << 4;
const PAGE_FAULT: i64 = 14;

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

    fn register(&self, index: i32) -> i64 {
        // SAFETY: `raw` is valid by the contract of `new`; `index` is one of libc's REG_*.
        unsafe { (*self.raw).uc_mcontext.gregs[index as usize] }
    }

    fn set_register(&mut self, index: i32, value: u64) {
        // SAFETY: `raw` and `index` are valid as in `register`; the context is this thread's own until the handler
        // returns.
        unsafe { (*self.raw).uc_mcontext.gregs[index as usize] = value as i64 }
    }

    /// Returns the program counter at which the signal interrupted the thread.
    pub(in crate::fault) fn pc(&self) -> u64 {
        self.register(libc::REG_RIP) as u64
    }

    /// Returns the stack pointer of the interrupted code.
    pub(in crate::fault) fn sp(&self) -> u64 {
        self.register(libc::REG_RSP) as u64
    }

    /// Returns the return address of the innermost call. The program counter must be at the first instruction of the
    /// callee.
    pub(in crate::fault) fn return_address(&self) -> Option<u64> {
        super::super::access::load64(self.sp()).ok()
    }

    /// Returns the direction of the access that caused a page fault; `None` for other faults.
    pub(in crate::fault) fn access_kind(&self) -> Option<AccessKind> {
        if self.register(libc::REG_TRAPNO) != PAGE_FAULT {
            return None;
        }
        let error = self.register(libc::REG_ERR);
        Some(match error {
            e if e & ERROR_FETCH != 0 => AccessKind::Execute,
            e if e & ERROR_WRITE != 0 => AccessKind::Write,
            _ => AccessKind::Read,
        })
    }

    /// Determines the kind and the address of a fault that Linux reports without an address (a
    /// general protection fault or a stack fault). For this purpose, decodes the instruction at the
    /// program counter. Does not read code bytes at or after `code_end`.
    pub(in crate::fault) fn explain(&self, code_end: u64) -> (TrapKind, Option<u64>) {
        let mut bytes = [0u8; decode::MAX_LENGTH];
        let pc = self.pc();
        let len = code_end.saturating_sub(pc).min(bytes.len() as u64) as usize;
        for (i, byte) in bytes[..len].iter_mut().enumerate() {
            match super::super::access::load8(pc + i as u64) {
                Ok(value) => *byte = value,
                Err(_) => break,
            }
        }
        let address = decode::memory_operand(&bytes[..len], &self.general_registers());
        (address.map_or(TrapKind::NonCanonical, kind_of), address)
    }

    /// Returns the sixteen general registers in the order of their encoding.
    fn general_registers(&self) -> [u64; 16] {
        const ORDER: [i32; 16] = [
            libc::REG_RAX,
            libc::REG_RCX,
            libc::REG_RDX,
            libc::REG_RBX,
            libc::REG_RSP,
            libc::REG_RBP,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
        ];
        ORDER.map(|index| self.register(index) as u64)
    }

    /// Returns the registers of the interrupted code. Mask registers that the system has not saved are zero.
    pub(in crate::fault) fn registers(&self) -> Registers {
        Registers {
            general: self.general_registers(),
            masks: self.masks().unwrap_or_default(),
        }
    }

    /// Returns the mask registers from the XSAVE area of the signal frame, which has the standard format (Intel SDM,
    /// volume 1, "XSAVE Area"; Linux, `struct _fpx_sw_bytes`); `None` if they are not in the area.
    fn masks(&self) -> Option<[u64; 8]> {
        const SOFTWARE: usize = 464;
        const MAGIC: u32 = 0x4650_5853;
        const HEADER: usize = 512;
        const MASKS: u32 = 5;
        // SAFETY: `raw` is valid by the contract of `new`.
        let area = unsafe { (*self.raw).uc_mcontext.fpregs }.cast::<u8>();
        if area.is_null() {
            return None;
        }
        // SAFETY: the area has at least 512 bytes. If the magic number is present, it has the size that it states.
        let word = |at: usize| unsafe { area.add(at).cast::<u32>().read_unaligned() };
        let (magic, size) = (word(SOFTWARE), word(SOFTWARE + 16) as usize);
        if magic != MAGIC || size < HEADER + 64 {
            return None;
        }
        let is_saved = word(HEADER) >> MASKS & 1 == 1;
        let component = std::arch::x86_64::__cpuid_count(13, MASKS);
        let (bytes, start) = (component.eax as usize, component.ebx as usize);
        if !is_saved || bytes < 64 || start + 64 > size {
            return None;
        }
        // SAFETY: the registers are in the area, whose size was tested.
        Some(unsafe { area.add(start).cast::<[u64; 8]>().read_unaligned() })
    }

    /// Edits the saved context so that the call of `enter_raw` with the save area `save` returns 1
    /// after the signal handler has returned.
    pub(in crate::fault) fn recover(&mut self, save: *mut SaveArea) {
        self.set_register(libc::REG_RDI, save as u64);
        self.set_register(
            libc::REG_RIP,
            resume as unsafe extern "C" fn(*mut c_void) -> ! as usize as u64,
        );
    }

    /// Edits the saved context so that execution continues at `landing` after the signal handler
    /// has returned. The interrupted access routine then returns to its caller with the results
    /// `status` and `value`.
    pub(in crate::fault) fn land(&mut self, landing: u64, status: u64, value: u64) {
        self.set_register(libc::REG_RAX, status);
        self.set_register(libc::REG_RDX, value);
        self.set_register(libc::REG_RIP, landing);
    }
}

/// Returns the kind of a general protection fault that an access at `address` has caused.
fn kind_of(address: u64) -> TrapKind {
    // An access also faults if only its end is not canonical. The widest access has 64 bytes.
    let canonical = |a: u64| (a as i64) << 16 >> 16 == a as i64;
    let all = canonical(address) && canonical(address.wrapping_add(63));
    if all && !address.is_multiple_of(16) {
        TrapKind::Misaligned
    } else {
        TrapKind::NonCanonical
    }
}
