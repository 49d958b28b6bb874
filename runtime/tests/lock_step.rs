//! Tests of kernels in which the lanes of a warp exchange values through shared memory without a
//! barrier.
//!
//! CUDA does not guarantee that such programs work. They work on GPUs, and published programs rely
//! on this (`docs/semantics.md`). Each kernel runs with native code and with the interpreter.

use std::time::Duration;

use margay::{EngineChoice, LaunchConfig, Runtime};

const HEADER: &str = ".version 7.0\n.target sm_80\n.address_size 64\n";

/// Runs the kernel `exchange(out)` with one warp, with native code and with the interpreter, and
/// compares each lane's result with `expected`. In `body`, `%lane` is the index of the lane, and
/// `%own` is the address of the lane's element of `s`. `body` stores its result in `%v`.
fn check(body: &str, expected: impl Fn(u32) -> u32) {
    let text = format!(
        "{HEADER}.visible .entry exchange(.param .u64 out) {{
    .reg .pred %p; .reg .b32 %lane, %own, %at, %t, %v, %w; .reg .b64 %out, %o;
    .shared .align 16 .b8 s[256]; .shared .align 16 .b8 wide[1024];
    ld.param.u64 %out, [out];
    mov.u32 %lane, %tid.x;
    mov.u32 %own, s;
    mad.lo.u32 %own, %lane, 4, %own;
    {body}
    mul.wide.u32 %o, %lane, 4;
    add.u64 %out, %out, %o;
    st.global.u32 [%out], %v;
    ret;
}}"
    );
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        let runtime = Runtime::builder().workers(1).engine(engine);
        let runtime = runtime.time_limit(Duration::from_secs(120));
        let runtime = runtime.build().expect("built");
        let module = runtime.load_ptx(&text).expect("loads");
        let kernel = module.kernel("exchange").expect("known");
        let mut out = runtime.upload(&[u32::MAX; 32]).expect("room");
        let config = LaunchConfig::new(1, 32);
        runtime
            .launch(&kernel, config, (&mut out,))
            .expect("launched");
        let got = out.to_vec().expect("no fault");
        let expected: Vec<u32> = (0..32).map(&expected).collect();
        assert_eq!(got, expected, "{engine:?}");
    }
}

/// Tests the permutation `s[perm[i]] = s[i]` in shared memory. The texture compressor in the
/// HeCBench suite sorts in this way. If lanes ran one after another, a lane would read what an
/// earlier lane had written.
#[test]
fn a_permutation_in_place() {
    check(
        "mul.lo.u32 %v, %lane, 3;
    st.shared.u32 [%own], %v;
    bar.sync 0;
    add.u32 %t, %lane, 5; and.b32 %t, %t, 31; shl.b32 %t, %t, 2;
    mov.u32 %at, s; add.u32 %at, %at, %t;
    ld.shared.u32 %w, [%own];
    st.shared.u32 [%at], %w;
    bar.sync 0;
    ld.shared.u32 %v, [%own];",
        |lane| (lane + 27) % 32 * 3,
    );
}

/// Tests a loop that rotates elements. Each iteration reads an element that the previous iteration
/// wrote.
#[test]
fn rotations_in_a_loop() {
    check(
        "st.shared.u32 [%own], %lane;
    add.u32 %t, %lane, 1; and.b32 %t, %t, 31; shl.b32 %t, %t, 2;
    mov.u32 %at, s; add.u32 %at, %at, %t;
    mov.u32 %w, 0;
again:
    ld.shared.u32 %v, [%own];
    st.shared.u32 [%at], %v;
    add.u32 %w, %w, 1;
    setp.lt.u32 %p, %w, 7;
    @%p bra again;
    ld.shared.u32 %v, [%own];",
        |lane| (lane + 25) % 32,
    );
}

/// Tests that each lane passes a value to the next lane. The load and the store compute the address
/// differently.
#[test]
fn a_value_handed_on() {
    check(
        "mul.lo.u32 %v, %lane, %lane;
    st.shared.u32 [%own+4], %v;
    ld.shared.u32 %v, [%own];
    setp.eq.u32 %p, %lane, 0;
    @%p mov.u32 %v, 77;",
        |lane| lane.checked_sub(1).map_or(77, |n| n * n),
    );
}

/// Tests atomics whose results are unused. The results of the kernel do not depend on the order in
/// which the lanes perform these atomics. If the results of the atomics were used, they would
/// depend on it.
#[test]
fn atomics_one_after_the_other() {
    check(
        "st.shared.u32 [%own], 0;
    bar.sync 0;
    and.b32 %t, %lane, 3; shl.b32 %t, %t, 2;
    mov.u32 %w, s; add.u32 %t, %t, %w;
    atom.shared.add.u32 %w, [%t], 1;
    xor.b32 %t, %t, 4;
    atom.shared.add.u32 %w, [%t], 100;
    bar.sync 0;
    ld.shared.u32 %v, [%own];",
        |lane| if lane < 4 { 808 } else { 0 },
    );
}

/// Tests a thread that reads an element of another thread. The compiler may omit the sync points
/// only if each thread uses only its own elements.
#[test]
fn an_element_that_a_neighbour_reads() {
    check(
        "mov.u32 %own, wide; mad.lo.u32 %own, %lane, 32, %own;
    and.b32 %t, %lane, 7; shl.b32 %t, %t, 2;
    add.u32 %at, %own, %t;
    st.shared.u32 [%at], %lane;
    add.u32 %w, %lane, 1; and.b32 %w, %w, 31;
    and.b32 %t, %w, 7; shl.b32 %t, %t, 2;
    mov.u32 %at, wide; mad.lo.u32 %at, %w, 32, %at; add.u32 %at, %at, %t;
    ld.shared.u32 %v, [%at];",
        |lane| (lane + 1) % 32,
    );
}

/// Tests threads that use only their own elements, so that no sync points are needed.
#[test]
fn elements_of_ones_own() {
    check(
        "mov.u32 %own, wide; mad.lo.u32 %own, %lane, 32, %own;
    mov.u32 %w, 0; mov.u32 %v, 0;
again:
    and.b32 %t, %w, 7; shl.b32 %t, %t, 2;
    add.u32 %at, %own, %t;
    st.shared.u32 [%at], %lane;
    ld.shared.u32 %t, [%own];
    add.u32 %v, %v, %t;
    add.u32 %w, %w, 1;
    setp.lt.u32 %p, %w, 10;
    @%p bra again;",
        |lane| lane * 10,
    );
}

/// Tests that a warp waits for lanes that have yielded after a number of iterations of a loop. Otherwise a diverged
/// warp would read elements that its late lanes have not yet written.
#[test]
fn a_warp_that_yielded_stays_together() {
    let text = format!(
        "{HEADER}.visible .entry late(.param .u64 out, .param .u32 turns) {{
    .reg .pred %p; .reg .b32 %lane, %own, %at, %t, %v, %w; .reg .b64 %out, %o;
    .shared .align 16 .b8 s[640];
    ld.param.u64 %out, [out];
    ld.param.u32 %w, [turns];
    mov.u32 %t, %tid.x;
    mov.u32 %own, s;
    mad.lo.u32 %own, %t, 4, %own;
    mov.u32 %v, 1000;
    st.shared.u32 [%own], %v;
again:
    setp.eq.u32 %p, %w, 0;
    @%p bra done;
    bar.sync 0;
    div.u32 %w, %w, 2;
    bra again;
done:
    st.volatile.shared.u32 [%own], %t;
    xor.b32 %at, %own, 64;
    ld.volatile.shared.u32 %v, [%at];
    mul.wide.u32 %o, %t, 4;
    add.u64 %out, %out, %o;
    st.global.u32 [%out], %v;
    ret;
}}"
    );
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        for reverse in [false, true] {
            let builder = Runtime::builder().workers(1).engine(engine);
            let builder = if reverse { builder.reverse() } else { builder };
            let runtime = builder.build().expect("built");
            let module = runtime.load_ptx(&text).expect("loads");
            let kernel = module.kernel("late").expect("known");
            for halvings in 0..24 {
                let mut out = runtime.upload(&[u32::MAX; 160]).expect("room");
                let turns = (1u32 << halvings) - 1;
                let config = LaunchConfig::new(1, 160);
                let launch = runtime.launch(&kernel, config, (&mut out, turns));
                launch.expect("launched");
                let got = out.to_vec().expect("no fault");
                let expected: Vec<u32> = (0..160).map(|t| t ^ 16).collect();
                assert_eq!(got, expected, "{engine:?}, {halvings} turns, {reverse}");
            }
        }
    }
}

/// Tests a lane that polls for a value that a later lane stores. The polling load is an access at
/// which the lanes of a warp wait for each other. The warp must not wait for the polling lane
/// longer than one iteration.
#[test]
fn a_lane_that_polls_does_not_hold_up_its_warp() {
    check(
        "mov.u32 %at, s;
    st.shared.u32 [%own], 0;
    bar.warp.sync 0xffffffff;
    setp.ne.u32 %p, %lane, 3;
    @%p bra store;
again:
    ld.volatile.shared.u32 %v, [%at];
    setp.eq.u32 %p, %v, 0;
    @%p bra again;
    bra done;
store:
    st.volatile.shared.u32 [%own+4], 1;
    setp.ne.u32 %p, %lane, 9;
    mov.u32 %v, 5;
    @%p bra done;
    st.volatile.shared.u32 [%at], 41;
    mov.u32 %v, 7;
done:",
        |lane| match lane {
            3 => 41,
            9 => 7,
            _ => 5,
        },
    );
}
