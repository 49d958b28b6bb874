//! Tests of code for one shape of blocks, in which all chunks of a CTA run without a loop. Each test runs in a process of its
//! own with `MARGAY_WIDE=exact`, which uses this code from the first launch on, and compares it with the interpreter. On hosts
//! without AVX-512, the processes run other code.

use std::process::Command;

use margay::{EngineChoice, Error, Fault, FaultKind, LaunchConfig, Runtime};

/// Runs a test of this file in another process.
#[track_caller]
fn with_exact_code(test: &str) {
    let own = std::env::current_exe().expect("known");
    let mut command = Command::new(own);
    command.args([test, "--exact"]);
    let output = command.env("MARGAY_WIDE", "exact").output();
    let output = output.expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn is_exact() -> bool {
    std::env::var("MARGAY_WIDE").is_ok_and(|value| value == "exact")
}

/// A kernel whose threads, behind a barrier, read the word in column x of row y of a buffer whose rows are `pitch` bytes
/// apart, and write it to another buffer.
const ROWS: &str = ".version 7.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to, .param .s32 pitch)
{
    .reg .b32 %x, %y, %w, %n, %v, %i; .reg .b64 %p, %q, %o; .reg .pred %c;
    mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %w, %ntid.x;
    ld.param.u64 %p, [from]; ld.param.u64 %q, [to]; ld.param.s32 %n, [pitch];
    mul.wide.s32 %o, %y, %n; add.s64 %p, %p, %o;
    mul.wide.u32 %o, %x, 4; add.s64 %p, %p, %o;
    mad.lo.u32 %i, %y, %w, %x; mul.wide.u32 %o, %i, 4; add.s64 %q, %q, %o;
    bar.sync 0;
    GUARD
    ld.global.u32 %v, [%p];
    bar.sync 0;
    add.u32 %v, %v, 1;
    st.global.u32 [%q], %v;
    ret;
}
";

/// Runs the kernel for blocks of `shape`. Returns the words that it writes, or the fault.
fn rows(
    (guard, pitch): (&str, i32),
    shape: (u32, u32),
    engine: EngineChoice,
) -> Result<Vec<u32>, Box<Fault>> {
    let runtime = Runtime::builder().workers(1).engine(engine);
    let runtime = runtime.build().expect("built");
    let module = runtime.load_ptx(&ROWS.replace("GUARD", guard));
    let module = module.expect("loads");
    let kernel = module.kernel("k").expect("known");
    let words: Vec<u32> = (0..4096).collect();
    let from = runtime.upload(&words).expect("uploaded");
    let to = runtime.upload(&vec![0u32; 1024]).expect("uploaded");
    let config = LaunchConfig::new(3, shape);
    runtime
        .launch(&kernel, config, (&from, &to, pitch))
        .expect("launched");
    match runtime.synchronize() {
        Ok(()) => Ok(to.to_vec().expect("no fault")),
        Err(Error::Fault(fault)) => Err(Box::new((*fault).clone())),
        Err(other) => panic!("{other:?}"),
    }
}

const SHAPES: [(u32, u32); 4] = [(16, 16), (64, 4), (32, 8), (128, 1)];

#[test]
fn rows_are_copied() {
    if !is_exact() {
        return with_exact_code("rows_are_copied");
    }
    for shape in SHAPES {
        for pitch in [0, 4, 60, 512, 1024] {
            let native = rows(("", pitch), shape, EngineChoice::Auto);
            let native = native.expect("no fault");
            let word = |thread: u32| thread % shape.0 + (thread / shape.0) * pitch as u32 / 4 + 1;
            let expected: Vec<u32> = (0..shape.0 * shape.1).map(word).collect();
            assert_eq!(native[..expected.len()], expected, "{shape:?}, {pitch}");
        }
    }
}

#[test]
fn the_first_thread_that_faults_is_named() {
    if !is_exact() {
        return with_exact_code("the_first_thread_that_faults_is_named");
    }
    use FaultKind::{IllegalAddress, MisalignedAddress};
    let cases = [
        // Rows far behind and before the buffer, and rows that are not aligned.
        ("", 1 << 30, IllegalAddress, 1),
        ("", -(1 << 30), IllegalAddress, 1),
        ("", 2, MisalignedAddress, 1),
        // Only some rows read.
        (
            "setp.lt.u32 %c, %y, 3; @%c ret;",
            1 << 30,
            IllegalAddress,
            3,
        ),
        ("setp.lt.u32 %c, %y, 2; @%c ret;", 1, MisalignedAddress, 2),
    ];
    for shape in [(16, 16), (64, 4), (32, 8)] {
        for (guard, pitch, kind, row) in cases {
            for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
                let found = rows((guard, pitch), shape, engine);
                let fault = found.expect_err("the launch faults");
                let what = format!("{shape:?}, {guard}, {pitch}, {engine:?}: {fault}");
                assert_eq!(fault.kind, kind, "{what}");
                assert_eq!(fault.cta, Some([0, 0, 0]), "{what}");
                assert_eq!(fault.thread, Some([0, row, 0]), "{what}");
                assert_eq!(fault.ptx_line, Some(14), "{what}");
            }
        }
    }
}

/// The sum of the words of a block by a tree in shared memory, whose levels are written out.
fn tree() -> String {
    let mut levels = String::new();
    for level in (0..7).rev() {
        let half = 1 << level;
        levels += &format!(
            "    bar.sync 0; setp.ge.u32 %c, %x, {half}; @%c bra L{level};
    ld.shared.u32 %v, [%a]; ld.shared.u32 %w, [%a+{}]; add.u32 %v, %v, %w; st.shared.u32 [%a], %v;
L{level}:
",
            4 * half
        );
    }
    format!(
        ".version 7.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{{
    .reg .b32 %x, %v, %w, %a, %b, %i; .reg .b64 %p, %q, %o; .reg .pred %c; .shared .align 4 .b8 part[512];
    mov.u32 %x, %tid.x; mov.u32 %b, %ctaid.x; ld.param.u64 %p, [from]; ld.param.u64 %q, [to];
    mad.lo.u32 %i, %b, 128, %x; mul.wide.u32 %o, %i, 4; add.s64 %p, %p, %o; ld.global.u32 %v, [%p];
    shl.b32 %i, %x, 2; mov.u32 %a, part; add.u32 %a, %a, %i; st.shared.u32 [%a], %v;
{levels}    bar.sync 0; setp.ne.u32 %c, %x, 0; @%c ret;
    ld.shared.u32 %v, [part]; mul.wide.u32 %o, %b, 4; add.s64 %q, %q, %o; st.global.u32 [%q], %v;
    ret;
}}
"
    )
}

#[test]
fn a_tree_in_shared_memory_adds_all_words() {
    if !is_exact() {
        return with_exact_code("a_tree_in_shared_memory_adds_all_words");
    }
    let runtime = Runtime::builder().workers(2).build().expect("built");
    let module = runtime.load_ptx(&tree()).expect("loads");
    let kernel = module.kernel("k").expect("known");
    let words: Vec<u32> = (0..128 * 40u32)
        .map(|n| n.wrapping_mul(2_654_435_761))
        .collect();
    let from = runtime.upload(&words).expect("uploaded");
    let to = runtime.upload(&[0u32; 40]).expect("uploaded");
    let config = LaunchConfig::new(40, 128);
    runtime
        .launch(&kernel, config, (&from, &to))
        .expect("launched");
    let sum = |part: &[u32]| part.iter().fold(0u32, |sum, n| sum.wrapping_add(*n));
    let expected: Vec<u32> = words.chunks(128).map(sum).collect();
    assert_eq!(to.to_vec().expect("no fault"), expected);
}
