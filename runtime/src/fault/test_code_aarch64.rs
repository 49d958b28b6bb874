//! Machine code for the tests. The name of each constant describes its function. The arguments are ctx in x0, a in x1
//! and b in x2; the result is in x0.

/// Offset in bytes of the store in [`STORE`].
pub(super) const STORE_AT: u64 = 4;
/// Offset in bytes to which the call in [`CALL`] returns.
pub(super) const CALL_RETURNS_AT: u64 = 8;

unsafe extern "C" {
    fn __clear_cache(start: *mut u8, end: *mut u8);
}

/// Makes new code visible to instruction fetches.
pub(super) fn synchronise(start: *mut u8, len: usize) {
    // SAFETY: the range is inside one mapping.
    unsafe { __clear_cache(start, start.add(len)) };
}

const fn bytes<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    assert!(BYTES == 4 * WORDS);
    let mut bytes = [0; BYTES];
    let mut i = 0;
    while i < BYTES {
        bytes[i] = words[i / 4].to_le_bytes()[i % 4];
        i += 1;
    }
    bytes
}

/// Machine code of `add x0, x1, x2; ret`.
pub(super) const ADD: &[u8] = &bytes::<2, 8>([0x8b02_0020, 0xd65f_03c0]);
/// Machine code of `ldr x0, [x1]; ret`.
pub(super) const LOAD: &[u8] = &bytes::<2, 8>([0xf940_0020, 0xd65f_03c0]);
/// Machine code of `nop; str x2, [x1]; ret`.
pub(super) const STORE: &[u8] = &bytes::<3, 12>([0xd503_201f, 0xf900_0022, 0xd65f_03c0]);
/// Machine code of `mov x19, #0xffffffffffffffff; mov x20, x19; mov x21, x19; mov x22, x19; mov
/// x23, x19; mov x24, x19; mov x25, x19; mov x26, x19; mov x27, x19; mov x28, x19; fmov d8,
/// x19; fmov d15, x19; mov x29, x19; ldr x0, [x1]; ret`. Every callee-saved register that this
/// code overwrites is lost unless the trampoline restores it.
pub(super) const CLOBBER_LOAD: &[u8] = &bytes::<15, 60>([
    0x9280_0013,
    0xaa13_03f4,
    0xaa13_03f5,
    0xaa13_03f6,
    0xaa13_03f7,
    0xaa13_03f8,
    0xaa13_03f9,
    0xaa13_03fa,
    0xaa13_03fb,
    0xaa13_03fc,
    0x9e67_0268,
    0x9e67_026f,
    0xaa13_03fd,
    0xf940_0020,
    0xd65f_03c0,
]);
/// Machine code of `stp x29, x30, [sp, #-16]!; blr x1; ldp x29, x30, [sp], #16; ret`.
pub(super) const CALL: &[u8] =
    &bytes::<4, 16>([0xa9bf_7bfd, 0xd63f_0020, 0xa8c1_7bfd, 0xd65f_03c0]);
/// Machine code of `udf #49439`.
pub(super) const TRAP: &[u8] = &bytes::<1, 4>([0x0000_c11f]);
/// Machine code of `again: ldaxr w3, [x0]; add w3, w3, #0x1; stlxr w4, w3, [x0]; b again`.
pub(super) const LOOP: &[u8] =
    &bytes::<4, 16>([0x885f_fc03, 0x1100_0463, 0x8804_fc03, 0x17ff_fffd]);
/// Machine code of `again: stp x29, x30, [sp, #-16]!; bl again`.
pub(super) const RECURSE: &[u8] = &bytes::<2, 8>([0xa9bf_7bfd, 0x97ff_ffff]);
/// Machine code of `mov x0, sp; ret`.
pub(super) const STACK_POINTER: &[u8] = &bytes::<2, 8>([0x9100_03e0, 0xd65f_03c0]);
/// Machine code of `stp x19, x30, [sp, #-16]!; mov x19, x0; again: ldr x9, [x19, #8]; blr x9;
/// ldr x9, [x19]; ldr w9, [x9]; cbz w9, again; ldr x9, [x19, #16]; blr x9`. The argument ctx
/// points to the addresses of the pending flag, of the helper and of the function that leaves
/// the call.
pub(super) const HELPER_LOOP: &[u8] = &bytes::<9, 36>([
    0xa9bf_7bf3,
    0xaa00_03f3,
    0xf940_0669,
    0xd63f_0120,
    0xf940_0269,
    0xb940_0129,
    0x34ff_ff89,
    0xf940_0a69,
    0xd63f_0120,
]);
