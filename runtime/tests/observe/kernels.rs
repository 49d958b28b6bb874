//! The kernels that the tests of this folder observe.

/// Returns the PTX text of a module with the kernel `kernel(.param .u64 buffer)`, which executes
/// `body`. In `body`, `%i` is the thread's index in the grid, `%t` is the thread's index in the
/// CTA, `%buffer` is the address of the buffer, and `%own` is the address of the thread's element.
pub(crate) fn module(body: &str) -> String {
    format!(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 buffer) {{
    .reg .pred %p, %q; .reg .b32 %i, %t, %n, %a, %b, %c, %d; .reg .b64 %buffer, %own, %o, %x;
    .shared .align 16 .b8 s[4096];
    .local .align 16 .b8 l[64];
    ld.param.u64 %buffer, [buffer];
    mov.u32 %t, %tid.x; mov.u32 %a, %tid.y; mov.u32 %n, %ntid.x; mad.lo.u32 %t, %a, %n, %t;
    mov.u32 %a, %ntid.y; mul.lo.u32 %n, %n, %a;
    mov.u32 %a, %ctaid.x;
    mad.lo.u32 %i, %a, %n, %t;
    mul.wide.u32 %o, %i, 4;
    add.u64 %own, %buffer, %o;
{body}
    ret;
}}
"
    )
}

/// The number of the PTX line that contains the first line of `body` in [`module`].
pub(crate) const FIRST: u32 = 15;

/// A kernel whose threads take different branches and execute loops with different numbers of
/// iterations.
pub(crate) const DIVERGENT: &str = "
    ld.global.u32 %b, [%own];
    and.b32 %c, %b, 7;
    setp.gt.u32 %p, %c, 3;
    @%p bra OTHER;
    ld.global.u32 %d, [%buffer];
    add.u32 %b, %b, %d;
    bra JOIN;
OTHER:
    st.global.u32 [%own], %c;
JOIN:
    mul.wide.u32 %o, %c, 64;
    add.u64 %x, %buffer, %o;
    add.u64 %x, %x, 12288;
LOOP:
    ld.global.u32 %d, [%x];
    xor.b32 %b, %b, %d;
    and.b32 %a, %c, 1;
    setp.eq.u32 %q, %a, 1;
    @%q ld.global.u32 %d, [%x+4];
    @%q add.u32 %b, %b, %d;
    add.u64 %x, %x, 8;
    sub.u32 %c, %c, 1;
    setp.gt.s32 %p, %c, 0;
    @%p bra LOOP;
    mov.u32 %a, 0x80000000;
    or.b32 %b, %b, %a;
    add.u64 %own, %own, 8192;
    st.global.u32 [%own], %b;";

/// A kernel with barriers, accesses to shared memory with shared and generic addresses, and a
/// reduction that uses a shuffle.
pub(crate) const BARRIERS: &str = "
    ld.global.u32 %b, [%own];
    shl.b32 %c, %t, 2;
    mov.u32 %d, s;
    add.u32 %c, %c, %d;
    st.shared.u32 [%c], %b;
    bar.sync 0;
    xor.b32 %a, %t, 5;
    shl.b32 %a, %a, 2;
    add.u32 %a, %a, %d;
    ld.shared.u32 %b, [%a];
    mov.u32 %n, 4;
STEP:
    shfl.sync.bfly.b32 %a, %b, %n, 31, -1;
    add.u32 %b, %b, %a;
    shr.u32 %n, %n, 1;
    setp.ne.u32 %p, %n, 0;
    @%p bra STEP;
    bar.sync 0;
    cvta.shared.u64 %x, s;
    mul.wide.u32 %o, %t, 8;
    add.u64 %x, %x, %o;
    st.u32 [%x], %b;
    bar.sync 0;
    ld.v2.u32 {%a, %d}, [%x];
    add.u32 %b, %b, %a;
    add.u64 %own, %own, 8192;
    st.global.u32 [%own], %b;";

/// A kernel that accesses local memory at an index that depends on data, and contains atomic
/// operations, vector accesses and an asynchronous copy.
pub(crate) const MEMORY: &str = "
    ld.global.u32 %b, [%own];
    and.b32 %c, %b, 12;
    mov.u32 %d, l;
    add.u32 %d, %d, %c;
    st.local.u32 [%d], %t;
    ld.local.u32 %a, [%d];
    and.b32 %b, %b, 252;
    cvt.u64.u32 %x, %b;
    add.u64 %x, %x, %buffer;
    red.global.add.u32 [%x], 0;
    mov.u32 %n, s;
    shl.b32 %c, %t, 4;
    add.u32 %n, %n, %c;
    setp.lt.u32 %p, %t, 20;
    selp.u32 %c, 16, 4, %p;
    cvt.u64.u32 %o, %b;
    and.b64 %o, %o, 240;
    add.u64 %o, %o, %buffer;
    cp.async.cg.shared.global [%n], [%o], 16, %c;
    cp.async.wait_all;
    ld.shared.v4.u32 {%b, %c, %d, %n}, [%n];
    add.u32 %a, %a, %d;
    add.u64 %own, %own, 8192;
    st.global.u32 [%own], %a;";
