//! Machine code for the tests. The name of each constant describes its function. The arguments are ctx in rdi, a in rsi
//! and b in rdx; the result is in rax.

/// Offset in bytes of the store in [`STORE`].
pub(super) const STORE_AT: u64 = 1;
/// Offset in bytes to which the call in [`CALL`] returns.
pub(super) const CALL_RETURNS_AT: u64 = 6;

/// Does nothing: on x86-64, new code is visible to instruction fetches at once.
pub(super) fn synchronise(_start: *mut u8, _len: usize) {}

/// Machine code of `lea rax, [rsi + rdx]; ret`.
pub(super) const ADD: &[u8] = &[0x48, 0x8d, 0x04, 0x16, 0xc3];
/// Machine code of `mov rax, [rsi]; ret`.
pub(super) const LOAD: &[u8] = &[0x48, 0x8b, 0x06, 0xc3];
/// Machine code of `nop; mov [rsi], rdx; ret`.
pub(super) const STORE: &[u8] = &[0x90, 0x48, 0x89, 0x16, 0xc3];
/// Machine code of `push rbx; mov rbx, -1; mov rbp, rbx; mov r12..r15, rbx; mov rax, [rsi]; pop
/// rbx; ret`. Every callee-saved register is lost unless the trampoline restores it.
pub(super) const CLOBBER_LOAD: &[u8] = &[
    0x53, 0x48, 0xc7, 0xc3, 0xff, 0xff, 0xff, 0xff, 0x48, 0x89, 0xdd, 0x49, 0x89, 0xdc, 0x49, 0x89,
    0xdd, 0x49, 0x89, 0xde, 0x49, 0x89, 0xdf, 0x48, 0x8b, 0x06, 0x5b, 0xc3,
];
/// Machine code of `sub rsp, 8; call rsi; add rsp, 8; ret`.
pub(super) const CALL: &[u8] = &[
    0x48, 0x83, 0xec, 0x08, 0xff, 0xd6, 0x48, 0x83, 0xc4, 8, 0xc3,
];
/// Machine code of `ud2`.
pub(super) const TRAP: &[u8] = &[0x0f, 0x0b];
/// Machine code of `xor eax, eax; cdq; xor ecx, ecx; idiv ecx; ret`.
pub(super) const DIVIDE: &[u8] = &[0x31, 0xc0, 0x99, 0x31, 0xc9, 0xf7, 0xf9, 0xc3];
/// Machine code of `movaps xmm0, [rsi]; ret`.
pub(super) const ALIGNED_LOAD: &[u8] = &[0x0f, 0x28, 0x06, 0xc3];
/// Machine code of `again: lock inc dword [rdi]; jmp again`.
pub(super) const LOOP: &[u8] = &[0xf0, 0xff, 0x07, 0xeb, 0xfb];
/// Machine code of `again: push rax; call again`.
pub(super) const RECURSE: &[u8] = &[0x50, 0xe8, 0xfa, 0xff, 0xff, 0xff];
/// Machine code of `stmxcsr [rdi]; mov dword [rdi+4], 0x9fc0; ldmxcsr [rdi+4]; mov rax, [rsi];
/// ret`.
pub(super) const MXCSR: &[u8] = &[
    0x0f, 0xae, 0x1f, 0xc7, 0x47, 0x04, 0xc0, 0x9f, 0, 0, 0x0f, 0xae, 0x57, 0x04, 0x48, 0x8b, 0x06,
    0xc3,
];
/// Machine code of `lea rax, [rsp]; ret`.
pub(super) const STACK_POINTER: &[u8] = &[0x48, 0x8d, 0x04, 0x24, 0xc3];
/// Machine code of `push rbx; mov rbx, rdi; again: call [rbx+8]; mov rax, [rbx]; cmp dword
/// [rax], 0; je again; call [rbx+16]`. The argument ctx points to the addresses of the pending
/// flag, of the helper and of the function that leaves the call.
pub(super) const HELPER_LOOP: &[u8] = &[
    0x53, 0x48, 0x89, 0xfb, 0xff, 0x53, 0x08, 0x48, 0x8b, 0x03, 0x83, 0x38, 0x00, 0x74, 0xf5, 0xff,
    0x53, 0x10,
];
