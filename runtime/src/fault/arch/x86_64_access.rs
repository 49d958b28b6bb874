//! x86-64 routines with which helpers and host copies access device memory.
//!
//! All routines are between the labels `margay_access_begin` and `margay_access_end`. After a fault in this range, the
//! signal handler continues at the routine's *landing*: code that returns to the routine's caller. Large copies use
//! `rep movsb`, which is faster than vector loops on every CPU with ERMS and causes no read-for-ownership traffic. All
//! other copies of more than 64 bytes move 64 bytes per iteration, and run backward if a forward copy would be slow
//! because of the addresses (label 25).

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

/// A routine that loads one element for each of `n` addresses.
macro_rules! gather {
    ($name:literal, $load:literal) => {
        concat!(
            routine!($name),
            "\nxor eax, eax\ntest rdx, rdx\nje 3f\n",
            "lea rdi, [rdi + 8 * rdx]\nlea rsi, [rsi + 4 * rdx]\nneg rdx\n",
            "2:\nmov r8, [rdi + 8 * rdx]\n",
            $load,
            "\nmov [rsi + 4 * rdx], r8d\ninc rdx\njnz 2b\n3:\nret"
        )
    };
}

// All routines are in a single assembly block, so that they are contiguous.
global_asm!(
    ".pushsection .text.margay_access,\"ax\",@progbits",
    routine!("margay_access_begin"),
    "nop",
    // dst rdi, src rsi, n rdx, smallest n for `rep movsb` rcx.
    routine!("margay_access_copy"),
    "cmp rdx, 16",
    "jb 5f",
    "cmp rdx, 32",
    "jbe 4f",
    "cmp rdx, 64",
    "jbe 3f",
    "lea eax, [rdi - 1]",
    "sub eax, esi",
    "and eax, 4095",
    "cmp eax, 2047",
    "jb 25f",
    "cmp rdx, rcx",
    "jae 6f",
    // For 65 bytes and more, the last 64 bytes are loaded now and stored last.
    "lea r8, [rdi + rdx - 64]",
    "movups xmm4, [rsi + rdx - 64]",
    "movups xmm5, [rsi + rdx - 48]",
    "movups xmm6, [rsi + rdx - 32]",
    "movups xmm7, [rsi + rdx - 16]",
    "2:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "cmp rdi, r8",
    "jb 2b",
    "movups [r8], xmm4",
    "movups [r8 + 16], xmm5",
    "movups [r8 + 32], xmm6",
    "movups [r8 + 48], xmm7",
    "xor eax, eax",
    "ret",
    "3:", // 33 to 64
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "xor eax, eax",
    "ret",
    "4:", // 16 to 32
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "5:", // 0 to 15
    "cmp edx, 8",
    "jb 7f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "7:",
    "cmp edx, 4",
    "jb 8f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "8:",
    "test edx, edx",
    "je 9f",
    "movzx eax, byte ptr [rsi + rdx - 1]",
    "cmp edx, 1",
    "je 24f",
    "movzx ecx, word ptr [rsi]",
    "mov [rdi], cx",
    "24:",
    "mov [rdi + rdx - 1], al",
    "9:",
    "xor eax, eax",
    "ret",
    "6:", // large copies: first the 64 bytes at the start, then a string copy to an aligned address
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "mov ecx, edi",
    "neg ecx",
    "and ecx, 63",
    "add rdi, rcx",
    "add rsi, rcx",
    "sub rdx, rcx",
    "mov rcx, rdx",
    "rep movsb",
    "xor eax, eax",
    "ret",
    // The page offset of the destination is 1 to 2,047 bytes above that of the source. In a forward copy, the address
    // of each load equals the address of an earlier store in the low 12 bits. The CPU then assumes a store-to-load
    // dependency and waits, which makes the copy ten times slower. The copy therefore runs backward.
    "25:",
    "movups xmm4, [rsi]",
    "movups xmm5, [rsi + 16]",
    "movups xmm6, [rsi + 32]",
    "movups xmm7, [rsi + 48]",
    "lea r8, [rdi + rdx]",
    "movups xmm0, [rsi + rdx - 64]",
    "movups xmm1, [rsi + rdx - 48]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [r8 - 64], xmm0",
    "movups [r8 - 48], xmm1",
    "movups [r8 - 32], xmm2",
    "movups [r8 - 16], xmm3",
    "mov ecx, r8d",
    "and ecx, 63",
    "sub rdx, rcx", // the remaining bytes end at a multiple of 64
    "lea r9, [rsi + rdx]",
    "lea r8, [rdi + rdx]",
    "lea r10, [rdi + 64]",
    "26:",
    "cmp r8, r10",
    "jb 27f",
    "movups xmm0, [r9 - 64]",
    "movups xmm1, [r9 - 48]",
    "movups xmm2, [r9 - 32]",
    "movups xmm3, [r9 - 16]",
    "movaps [r8 - 64], xmm0",
    "movaps [r8 - 48], xmm1",
    "movaps [r8 - 32], xmm2",
    "movaps [r8 - 16], xmm3",
    "sub r9, 64",
    "sub r8, 64",
    "jmp 26b",
    "27:",
    "movups [rdi], xmm4",
    "movups [rdi + 16], xmm5",
    "movups [rdi + 32], xmm6",
    "movups [rdi + 48], xmm7",
    "xor eax, eax",
    "ret",
    // dst rdi, bytes rsi, pattern of 8 bytes rdx, smallest n for `rep stosq` rcx. The element's size divides 8 and
    // `bytes`, so a store at the end that overlaps an earlier store writes the same bytes.
    routine!("margay_access_fill"),
    "cmp rsi, 16",
    "jb 5f",
    "movq xmm0, rdx",
    "punpcklqdq xmm0, xmm0",
    "lea r8, [rdi + rsi - 16]",
    // String stores are slow unless the start is aligned.
    "test dil, 7",
    "jne 22f",
    "cmp rsi, rcx",
    "jae 6f",
    "22:",
    "cmp rsi, 64",
    "jb 3f",
    "lea r9, [rdi + rsi - 64]",
    "2:",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm0",
    "movups [rdi + 32], xmm0",
    "movups [rdi + 48], xmm0",
    "add rdi, 64",
    "cmp rdi, r9",
    "jbe 2b",
    "3:", // fewer than 64 bytes remain, of at least 16 in total
    "cmp rdi, r8",
    "ja 4f",
    "movups [rdi], xmm0",
    "add rdi, 16",
    "jmp 3b",
    "4:",
    "movups [r8], xmm0",
    "xor eax, eax",
    "ret",
    "5:", // 0 to 15
    "cmp esi, 8",
    "jb 7f",
    "mov [rdi], rdx",
    "mov [rdi + rsi - 8], rdx",
    "xor eax, eax",
    "ret",
    "7:",
    "cmp esi, 4",
    "jb 8f",
    "mov [rdi], edx",
    "mov [rdi + rsi - 4], edx",
    "xor eax, eax",
    "ret",
    "8:",
    "cmp esi, 2",
    "jb 9f",
    "mov [rdi], dx",
    "mov [rdi + rsi - 2], dx",
    "xor eax, eax",
    "ret",
    "9:",
    "test esi, esi",
    "je 24f",
    "mov [rdi], dl",
    "24:",
    "xor eax, eax",
    "ret",
    "6:",
    "mov rax, rdx",
    "mov rcx, rsi",
    "shr rcx, 3",
    "rep stosq",
    "movups [r8], xmm0",
    "xor eax, eax",
    "ret",
    routine!("margay_access_load8"),
    "movzx edx, byte ptr [rdi]",
    "xor eax, eax",
    "ret",
    routine!("margay_access_load16"),
    "movzx edx, word ptr [rdi]",
    "xor eax, eax",
    "ret",
    routine!("margay_access_load32"),
    "mov edx, [rdi]",
    "xor eax, eax",
    "ret",
    routine!("margay_access_load64"),
    "mov rdx, [rdi]",
    "xor eax, eax",
    "ret",
    // address rdi, out rsi
    routine!("margay_access_load128"),
    "movups xmm0, [rdi]",
    "movups [rsi], xmm0",
    "xor eax, eax",
    "ret",
    // addresses rdi, out rsi, n rdx, displacement rcx
    gather!("margay_access_gather8", "movzx r8d, byte ptr [r8 + rcx]"),
    gather!("margay_access_gather16", "movzx r8d, word ptr [r8 + rcx]"),
    gather!("margay_access_gather32", "mov r8d, [r8 + rcx]"),
    routine!("margay_access_store8"),
    "mov [rdi], sil",
    "xor eax, eax",
    "ret",
    routine!("margay_access_store16"),
    "mov [rdi], si",
    "xor eax, eax",
    "ret",
    routine!("margay_access_store32"),
    "mov [rdi], esi",
    "xor eax, eax",
    "ret",
    routine!("margay_access_store64"),
    "mov [rdi], rsi",
    "xor eax, eax",
    "ret",
    // address rdi, value rsi
    routine!("margay_access_store128"),
    "movups xmm0, [rsi]",
    "movups [rdi], xmm0",
    "xor eax, eax",
    "ret",
    // address rdi, expected rsi, new rdx; returns the old value.
    routine!("margay_access_cas8"),
    "mov eax, esi",
    "lock cmpxchg [rdi], dl",
    "movzx edx, al",
    "mov eax, 0",
    "ret",
    routine!("margay_access_cas16"),
    "mov eax, esi",
    "lock cmpxchg [rdi], dx",
    "movzx edx, ax",
    "mov eax, 0",
    "ret",
    routine!("margay_access_cas32"),
    "mov eax, esi",
    "lock cmpxchg [rdi], edx",
    "mov edx, eax",
    "mov eax, 0",
    "ret",
    routine!("margay_access_cas64"),
    "mov rax, rsi",
    "lock cmpxchg [rdi], rdx",
    "mov rdx, rax",
    "mov eax, 0",
    "ret",
    // address rdi, expected in and old value out rsi, new rdx. This is the only routine that changes a callee-saved
    // register (rbx); its landing restores the register.
    routine!("margay_access_cas128"),
    "mov r8, rbx",
    "mov rax, [rsi]",
    "mov rbx, [rdx]",
    "mov rcx, [rdx + 8]",
    "mov rdx, [rsi + 8]",
    "lock cmpxchg16b [rdi]",
    "mov [rsi], rax",
    "mov [rsi + 8], rdx",
    "mov rbx, r8",
    "xor eax, eax",
    "ret",
    ".globl margay_access_land_rbx",
    ".hidden margay_access_land_rbx",
    "margay_access_land_rbx:",
    "mov rbx, r8",
    ".globl margay_access_land",
    ".hidden margay_access_land",
    "margay_access_land:",
    "cld",
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
    fn margay_access_land_rbx();

    #[link_name = "margay_access_copy"]
    fn copy_raw(dst: u64, src: u64, n: u64, rep_from: u64) -> RoutineResult;
    #[link_name = "margay_access_fill"]
    fn fill_raw(dst: u64, bytes: u64, pattern: u64, rep_from: u64) -> RoutineResult;
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
    #[link_name = "margay_access_gather8"]
    pub(in crate::fault) fn gather8(
        addresses: *const u64,
        out: *mut u32,
        n: u64,
        displacement: u64,
    ) -> RoutineResult;
    #[link_name = "margay_access_gather16"]
    pub(in crate::fault) fn gather16(
        addresses: *const u64,
        out: *mut u32,
        n: u64,
        displacement: u64,
    ) -> RoutineResult;
    #[link_name = "margay_access_gather32"]
    pub(in crate::fault) fn gather32(
        addresses: *const u64,
        out: *mut u32,
        n: u64,
        displacement: u64,
    ) -> RoutineResult;
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

/// Returns the smallest size in bytes of a copy or fill for which the routines use `rep movsb` or `rep stosq`. Returns
/// `u64::MAX` if these instructions are slow on this CPU.
fn rep_from() -> u64 {
    // CPUID leaf 7, EBX bit 9: enhanced rep movsb/stosb.
    static FROM: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *FROM.get_or_init(|| {
        let leaf = std::arch::x86_64::__cpuid_count(7, 0);
        if leaf.ebx & (1 << 9) != 0 {
            2048
        } else {
            u64::MAX
        }
    })
}

/// Copies `n` bytes. If the ranges overlap, the copied bytes are unspecified.
///
/// # Safety
/// Safe Rust code must not rely on the contents of the destination.
pub(in crate::fault) unsafe fn copy(dst: u64, src: u64, n: u64) -> RoutineResult {
    // SAFETY: the caller upholds the contract of this function; faults are recovered.
    unsafe { copy_raw(dst, src, n, rep_from()) }
}

/// Fills `bytes` bytes at `dst` with repetitions of `pattern`.
///
/// # Safety
/// The requirements of [`copy`] apply.
pub(in crate::fault) unsafe fn fill(dst: u64, bytes: u64, pattern: u64) -> RoutineResult {
    // SAFETY: the caller upholds the contract of this function; faults are recovered.
    unsafe { fill_raw(dst, bytes, pattern, rep_from()) }
}

/// Returns the code to which the signal handler returns after a fault at `pc` (the landing), and
/// the end of the range of routines. Returns `None` if `pc` is not in an access routine.
pub(in crate::fault) fn access_landing(pc: u64) -> Option<(u64, u64)> {
    let at = |f: unsafe extern "C" fn()| f as usize as u64;
    let (begin, end) = (at(margay_access_begin), at(margay_access_end));
    if pc < begin || pc >= end {
        return None;
    }
    let cas128 = cas128 as *const () as u64;
    let landing = if pc >= cas128 {
        at(margay_access_land_rbx)
    } else {
        at(margay_access_land)
    };
    Some((landing, end))
}
