//! aarch64 routines with which helpers and host copies access device memory.
//!
//! All routines are between the labels `margay_access_begin` and `margay_access_end`. After a fault
//! in this range, the signal handler continues at `margay_access_land`, which returns to the
//! routine's caller. No routine uses the stack or changes a callee-saved register. Compare-and-swap
//! is a loop of exclusive accesses, which every ARMv8 CPU has. If the comparison fails, the 16-byte
//! routine stores the old value back, because only a successful exclusive store proves that both
//! halves of the value were read atomically.

use std::arch::global_asm;

use super::RoutineResult;

/// The labels and directives at the start of a routine. The label is a global symbol with hidden
/// visibility: other object files of this library can refer to it, but other libraries cannot.
macro_rules! routine {
    ($name:literal) => {
        concat!(
            ".balign 16\n.globl ",
            $name,
            "\n.hidden ",
            $name,
            "\n",
            $name,
            ":"
        )
    };
}

// All routines are in a single assembly block, so that they are contiguous.
global_asm!(
    ".pushsection .text.margay_access,\"ax\",@progbits",
    routine!("margay_access_begin"),
    "nop",
    // dst x0, src x1, n x2
    routine!("margay_access_copy"),
    "cmp x2, #16",
    "b.lo 5f",
    "add x3, x0, x2",
    "add x4, x1, x2",
    "cmp x2, #64",
    "b.ls 3f",
    // For 65 bytes and more, the last 64 bytes are loaded now and stored last.
    "ldp q16, q17, [x4, #-64]",
    "ldp q18, q19, [x4, #-32]",
    "sub x5, x3, #64",
    "2:",
    "ldp q0, q1, [x1]",
    "ldp q2, q3, [x1, #32]",
    "add x1, x1, #64",
    "stp q0, q1, [x0]",
    "stp q2, q3, [x0, #32]",
    "add x0, x0, #64",
    "cmp x0, x5",
    "b.lo 2b",
    "stp q16, q17, [x5]",
    "stp q18, q19, [x5, #32]",
    "b 9f",
    "3:", // 16 to 64
    "cmp x2, #32",
    "b.ls 4f",
    "ldp q0, q1, [x1]",
    "ldp q2, q3, [x4, #-32]",
    "stp q0, q1, [x0]",
    "stp q2, q3, [x3, #-32]",
    "b 9f",
    "4:",
    "ldr q0, [x1]",
    "ldr q1, [x4, #-16]",
    "str q0, [x0]",
    "str q1, [x3, #-16]",
    "b 9f",
    "5:", // 0 to 15
    "cbz x2, 9f",
    "6:",
    "ldrb w3, [x1], #1",
    "strb w3, [x0], #1",
    "subs x2, x2, #1",
    "b.ne 6b",
    "9:",
    "mov x0, #0",
    "ret",
    // dst x0, bytes x1, pattern of 8 bytes x2
    routine!("margay_access_fill"),
    "cmp x1, #16",
    "b.lo 5f",
    "dup v0.2d, x2",
    "add x3, x0, x1",
    "sub x3, x3, #16",
    "cmp x1, #64",
    "b.lo 3f",
    "sub x4, x3, #48",
    "2:",
    "stp q0, q0, [x0]",
    "stp q0, q0, [x0, #32]",
    "add x0, x0, #64",
    "cmp x0, x4",
    "b.ls 2b",
    "3:", // less than 64 bytes left, and at least 16 in total
    "cmp x0, x3",
    "b.hi 4f",
    "str q0, [x0], #16",
    "b 3b",
    "4:",
    "str q0, [x3]",
    "b 9f",
    "5:", // 0 to 15: one byte per iteration; the rotation of the pattern selects the next byte
    "cbz x1, 9f",
    "6:",
    "strb w2, [x0], #1",
    "ror x2, x2, #8",
    "subs x1, x1, #1",
    "b.ne 6b",
    "9:",
    "mov x0, #0",
    "ret",
    routine!("margay_access_load8"),
    "ldrb w1, [x0]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_load16"),
    "ldrh w1, [x0]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_load32"),
    "ldr w1, [x0]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_load64"),
    "ldr x1, [x0]",
    "mov x0, #0",
    "ret",
    // address x0, out x1
    routine!("margay_access_load128"),
    "ldr q0, [x0]",
    "str q0, [x1]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_store8"),
    "strb w1, [x0]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_store16"),
    "strh w1, [x0]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_store32"),
    "str w1, [x0]",
    "mov x0, #0",
    "ret",
    routine!("margay_access_store64"),
    "str x1, [x0]",
    "mov x0, #0",
    "ret",
    // address x0, value x1
    routine!("margay_access_store128"),
    "ldr q0, [x1]",
    "str q0, [x0]",
    "mov x0, #0",
    "ret",
    // address x0, expected x1, new x2; returns the old value.
    routine!("margay_access_cas8"),
    "and w1, w1, #0xff",
    "2:",
    "ldaxrb w3, [x0]",
    "cmp w3, w1",
    "b.ne 3f",
    "stlxrb w4, w2, [x0]",
    "cbnz w4, 2b",
    "dmb ish",
    "3:",
    "clrex",
    "mov x1, x3",
    "mov x0, #0",
    "ret",
    routine!("margay_access_cas16"),
    "and w1, w1, #0xffff",
    "2:",
    "ldaxrh w3, [x0]",
    "cmp w3, w1",
    "b.ne 3f",
    "stlxrh w4, w2, [x0]",
    "cbnz w4, 2b",
    "dmb ish",
    "3:",
    "clrex",
    "mov x1, x3",
    "mov x0, #0",
    "ret",
    routine!("margay_access_cas32"),
    "2:",
    "ldaxr w3, [x0]",
    "cmp w3, w1",
    "b.ne 3f",
    "stlxr w4, w2, [x0]",
    "cbnz w4, 2b",
    "dmb ish",
    "3:",
    "clrex",
    "mov x1, x3",
    "mov x0, #0",
    "ret",
    routine!("margay_access_cas64"),
    "2:",
    "ldaxr x3, [x0]",
    "cmp x3, x1",
    "b.ne 3f",
    "stlxr w4, x2, [x0]",
    "cbnz w4, 2b",
    "dmb ish",
    "3:",
    "clrex",
    "mov x1, x3",
    "mov x0, #0",
    "ret",
    // address x0, expected in and old value out x1, new x2
    routine!("margay_access_cas128"),
    "ldp x5, x6, [x1]",
    "ldp x7, x8, [x2]",
    "2:",
    "ldaxp x3, x4, [x0]",
    "cmp x3, x5",
    "ccmp x4, x6, #0, eq",
    "b.ne 3f",
    "stlxp w9, x7, x8, [x0]",
    "cbnz w9, 2b",
    "b 4f",
    "3:",
    "stlxp w9, x3, x4, [x0]",
    "cbnz w9, 2b",
    "4:",
    "dmb ish",
    "stp x3, x4, [x1]",
    "mov x0, #0",
    "ret",
    ".globl margay_access_land",
    ".hidden margay_access_land",
    "margay_access_land:",
    "clrex",
    "ret",
    ".globl margay_access_end",
    ".hidden margay_access_end",
    "margay_access_end:",
    ".popsection",
);

unsafe extern "C" {
    fn margay_access_begin();
    fn margay_access_end();
    fn margay_access_land();

    #[link_name = "margay_access_copy"]
    pub(in crate::fault) fn copy(dst: u64, src: u64, n: u64) -> RoutineResult;
    #[link_name = "margay_access_fill"]
    pub(in crate::fault) fn fill(dst: u64, bytes: u64, pattern: u64) -> RoutineResult;
    #[link_name = "margay_access_load8"]
    pub(in crate::fault) fn load8(address: u64) -> RoutineResult;
    #[link_name = "margay_access_load16"]
    pub(in crate::fault) fn load16(address: u64) -> RoutineResult;
    #[link_name = "margay_access_load32"]
    pub(in crate::fault) fn load32(address: u64) -> RoutineResult;
    #[link_name = "margay_access_load64"]
    pub(in crate::fault) fn load64(address: u64) -> RoutineResult;
    #[link_name = "margay_access_load128"]
    pub(in crate::fault) fn load128(address: u64, out: *mut u128) -> RoutineResult;
    #[link_name = "margay_access_store8"]
    pub(in crate::fault) fn store8(address: u64, value: u64) -> RoutineResult;
    #[link_name = "margay_access_store16"]
    pub(in crate::fault) fn store16(address: u64, value: u64) -> RoutineResult;
    #[link_name = "margay_access_store32"]
    pub(in crate::fault) fn store32(address: u64, value: u64) -> RoutineResult;
    #[link_name = "margay_access_store64"]
    pub(in crate::fault) fn store64(address: u64, value: u64) -> RoutineResult;
    #[link_name = "margay_access_store128"]
    pub(in crate::fault) fn store128(address: u64, value: *const u128) -> RoutineResult;
    #[link_name = "margay_access_cas8"]
    pub(in crate::fault) fn cas8(address: u64, expected: u64, new: u64) -> RoutineResult;
    #[link_name = "margay_access_cas16"]
    pub(in crate::fault) fn cas16(address: u64, expected: u64, new: u64) -> RoutineResult;
    #[link_name = "margay_access_cas32"]
    pub(in crate::fault) fn cas32(address: u64, expected: u64, new: u64) -> RoutineResult;
    #[link_name = "margay_access_cas64"]
    pub(in crate::fault) fn cas64(address: u64, expected: u64, new: u64) -> RoutineResult;
    #[link_name = "margay_access_cas128"]
    pub(in crate::fault) fn cas128(
        address: u64,
        expected: *mut u128,
        new: *const u128,
    ) -> RoutineResult;
}

/// Returns the code to which the signal handler returns after a fault at `pc` (the landing), and
/// the end of the range of routines. Returns `None` if `pc` is not in an access routine.
pub(in crate::fault) fn access_landing(pc: u64) -> Option<(u64, u64)> {
    let at = |f: unsafe extern "C" fn()| f as usize as u64;
    let (begin, end) = (at(margay_access_begin), at(margay_access_end));
    (begin <= pc && pc < end).then(|| (at(margay_access_land), end))
}
