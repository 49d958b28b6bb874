//! Functions that generated kernels call. The compiler inlines some of these functions. Other
//! functions call themselves or each other, and threads may wait in these functions.

use super::numbers::Random;
use super::program::{Leaf, Level};
use super::templates::{Operands, register, source};

/// All functions that generated kernels can call. Each entry contains a word that occurs in every
/// kernel that calls the function, and the function's text.
pub(super) const ALL: [(&str, &str); 8] = [
    (
        "mix",
        ".func (.reg .b32 o) mix(.reg .b32 a, .reg .b32 b)
{
    mul.lo.u32 o, a, 0x9e3779b1;
    xor.b32 o, o, b;
    shf.l.wrap.b32 o, o, o, 7;
    ret;
}
",
    ),
    (
        "steps",
        ".func (.reg .b32 o) steps(.reg .b32 a)
{
    .reg .pred %p; .reg .b32 n;
    mov.u32 o, 0;
    and.b32 n, a, 127;
again:
    setp.le.u32 %p, n, 1;
    @%p bra end;
    add.u32 o, o, 1;
    setp.gt.u32 %p, o, 30;
    @%p bra end;
    and.b32 a, n, 1;
    setp.ne.u32 %p, a, 0;
    @%p bra odd;
    shr.u32 n, n, 1;
    bra again;
odd:
    mad.lo.u32 n, n, 3, 1;
    bra again;
end:
    ret;
}
",
    ),
    (
        "blend",
        ".func (.reg .f32 o) blend(.reg .f32 a, .reg .f32 b, .reg .b32 c)
{
    .reg .pred %p;
    setp.gt.s32 %p, c, 7;
    mov.f32 o, a;
    @%p ret;
    fma.rn.f32 o, a, 0f3E800000, b;
    ret;
}
",
    ),
    (
        "choose",
        ".func (.reg .b32 o) choose(.reg .b32 a, .reg .b32 b)
{
    .reg .b32 t;
    targets: .branchtargets zero, one, two, three;
    and.b32 t, a, 3;
    brx.idx t, targets;
zero:
    add.u32 o, a, b;
    ret;
one:
    mul.lo.u32 o, a, b;
    ret;
two:
    sub.u32 o, b, a;
three:
    min.u32 o, a, b;
    ret;
}
",
    ),
    // This function calls itself once or twice, after a loop whose number of iterations depends on loads.
    (
        "climb",
        ".func (.reg .b32 o) climb(.reg .b64 in, .reg .b32 a, .reg .b32 n)
{
    .reg .pred %p; .reg .b32 k, x, y; .reg .b64 at;
    mov.u32 o, a;
    setp.eq.u32 %p, n, 0;
    @%p ret;
    mov.u32 k, 0;
again:
    and.b32 x, a, 4095;
    mad.wide.u32 at, x, 4, in;
    ld.global.u32 x, [at];
    mad.lo.u32 a, a, 5, x;
    and.b32 y, x, 3;
    add.u32 k, k, y;
    add.u32 k, k, 1;
    setp.lt.u32 %p, k, 24;
    @%p bra again;
    sub.u32 y, n, 1;
    and.b32 x, k, 1;
    setp.eq.u32 %p, x, 0;
    call (x), climb, (in, a, y);
    add.u32 o, o, x;
    @%p xor.b32 o, o, k;
    @%p ret;
    shr.u32 y, n, 1;
    call (y), climb, (in, x, y);
    mad.lo.u32 o, y, 3, o;
    add.u32 o, o, a;
    ret;
}
",
    ),
    // These functions call each other through pointers in arguments, and each function has values in local memory.
    (
        "left",
        ".func (.reg .b32 o) right(.reg .b64 in, .reg .b64 f, .reg .f32 b, .reg .b32 n);
.func (.reg .b32 o) left(.reg .b64 in, .reg .b64 f, .reg .f32 b, .reg .b32 n)
{
    .local .align 4 .b32 mine[3];
    .reg .pred %p; .reg .b32 k, x; .reg .b64 at, g; .reg .f32 c;
    cvt.rzi.s32.f32 o, b;
    setp.eq.u32 %p, n, 0;
    @%p ret;
    mov.u32 k, n;
again:
    and.b32 x, k, 1023;
    mad.wide.u32 at, x, 4, in;
    ld.global.u32 x, [at];
    and.b32 x, x, 127;
    add.u32 k, k, x;
    add.u32 k, k, 1;
    setp.lt.u32 %p, k, 300;
    @%p bra again;
    st.local.u32 [mine+8], k;
    st.local.u32 [mine], o;
    add.f32 c, b, 0f3F800000;
    sub.u32 n, n, 1;
    mov.u64 g, left;
shape: .callprototype (.reg .b32 _) _ (.reg .b64 _, .reg .b64 _, .reg .f32 _, .reg .b32 _);
    call (x), f, (in, g, c, n), shape;
    ld.local.u32 o, [mine];
    ld.local.u32 k, [mine+8];
    mad.lo.u32 o, x, 7, o;
    xor.b32 o, o, k;
    ret;
}
.func (.reg .b32 o) right(.reg .b64 in, .reg .b64 f, .reg .f32 b, .reg .b32 n)
{
    .reg .pred %p; .reg .b32 k, x; .reg .b64 at, g; .reg .f32 c;
    mov.u32 o, 5;
    setp.eq.u32 %p, n, 0;
    @%p ret;
    mov.u32 k, 1;
again:
    mad.wide.u32 at, k, 4, in;
    ld.global.u32 x, [at];
    shr.u32 x, x, 26;
    add.u32 k, k, x;
    add.u32 k, k, 1;
    setp.lt.u32 %p, k, 200;
    @%p bra again;
    mul.f32 c, b, 0f3F000000;
    sub.u32 n, n, 1;
    mov.u64 g, right;
shape: .callprototype (.reg .b32 _) _ (.reg .b64 _, .reg .b64 _, .reg .f32 _, .reg .b32 _);
    call (x), f, (in, g, c, n), shape;
    cvt.rzi.s32.f32 o, b;
    add.u32 o, o, x;
    add.u32 o, o, k;
    ret;
}
",
    ),
    // Lanes synchronise in each activation, before and after the recursive call.
    (
        "meet",
        ".func (.reg .b32 o) meet(.reg .b32 a, .reg .b32 lanes, .reg .b32 n)
{
    .reg .pred %p; .reg .b32 x;
    mov.u32 o, a;
    setp.eq.u32 %p, n, 0;
    @%p ret;
    redux.sync.add.u32 x, a, lanes;
    add.u32 a, a, x;
    bar.warp.sync lanes;
    sub.u32 n, n, 1;
    call (o), meet, (a, lanes, n);
    match.any.sync.b32 x, o, lanes;
    xor.b32 o, o, x;
    add.u32 o, o, a;
    ret;
}
",
    ),
    // All threads of a CTA synchronise in each activation, before and after the recursive call.
    (
        "rally",
        ".func (.reg .b32 o) rally(.reg .b32 a, .reg .b32 n)
{
    .reg .pred %p, %q; .reg .b32 x;
    mov.u32 o, a;
    setp.eq.u32 %p, n, 0;
    @%p ret;
    and.b32 x, a, 1;
    setp.eq.u32 %q, x, 1;
    bar.red.popc.u32 x, 0, %q;
    add.u32 a, a, x;
    sub.u32 n, n, 1;
    call (o), rally, (a, n);
    bar.sync 0;
    add.u32 o, o, a;
    ret;
}
",
    ),
];

/// Generates a call of a recursive function in whose loops threads may wait. The depth of the
/// recursion depends on a value of the calling thread.
pub(super) fn waiting(random: &mut Random, operands: &Operands<'_>) -> String {
    let (a, n) = (source('r', random, operands), source('r', random, operands));
    let to = register('r', random);
    if random.chance(60) {
        return format!(
            "mov.u32 %t1, {a}; and.b32 %t0, {n}, 7; call (%t0), climb, (%in, %t1, %t0); mov.u32 {to}, %t0;"
        );
    }
    let x = register('f', random);
    let (first, second) = *random.pick(&[("left", "right"), ("right", "left"), ("left", "left")]);
    let p = register('p', random);
    format!(
        "and.b32 %t0, {n}, 7; mov.u64 %u0, {first}; mov.u64 %u1, right; selp.b64 %u0, %u0, %u1, {p}; mov.u64 %u1, {second};
both<L>: .callprototype (.reg .b32 _) _ (.reg .b64 _, .reg .b64 _, .reg .f32 _, .reg .b32 _);
call (%t0), %u0, (%in, %u1, {x}, %t0), both<L>; mov.u32 {to}, %t0;"
    )
}

/// Generates a call of a function in which the active lanes of the warp synchronise.
pub(super) fn meeting(random: &mut Random, operands: &Operands<'_>) -> Leaf {
    let (a, depth) = (source('r', random, operands), 1 + random.below(3));
    let to = register('r', random);
    Leaf {
        text: format!(
            "mov.u32 %t0, {a}; mov.u32 %t1, <M>; call (%t0), meet, (%t0, %t1, {depth}); mov.u32 {to}, %t0;"
        ),
        meets: Some(Level::Warp),
    }
}

/// Generates a call of a function in which all threads of the CTA synchronise.
pub(super) fn rallying(random: &mut Random, operands: &Operands<'_>) -> Leaf {
    let (a, depth) = (source('r', random, operands), 1 + random.below(3));
    let to = register('r', random);
    Leaf {
        text: format!("mov.u32 %t0, {a}; call (%t0), rally, (%t0, {depth}); mov.u32 {to}, %t0;"),
        meets: Some(Level::Cta),
    }
}
