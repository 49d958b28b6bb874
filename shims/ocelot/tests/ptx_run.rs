//! Calls `ptx_run` of the built library in the same way as tinygrad.

use std::ffi::{c_char, c_int, c_void};
use std::process::Command;

use gpuocelot::ptx_run;

const KERNEL: &std::ffi::CStr = c"
.version 7.5
.target sm_35
.address_size 64
.visible .entry scale(.param .u64 out, .param .u64 in, .param .s32 factor)
{
    .reg .b64 %d<4>; .reg .b32 %r<8>; .shared .align 4 .b8 tile[256];
    ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; ld.param.s32 %r0, [factor];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %d2, %r4, 4;
    add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
    ld.global.s32 %r5, [%d1];
    mul.lo.s32 %r5, %r5, %r0;
    st.global.s32 [%d0], %r5;
    ret;
}
";

fn run(source: &std::ffi::CStr, words: &[*mut c_void], block: c_int, grid: c_int) {
    let source: *const c_char = source.as_ptr();
    // SAFETY: the kernels of these tests access only the arrays of their callers.
    unsafe {
        ptx_run(
            source,
            words.len() as c_int,
            words.as_ptr(),
            block,
            1,
            1,
            grid,
            1,
            1,
            0,
        );
    }
}

#[test]
fn kernels_work_on_memory_of_the_host() {
    let numbers: Vec<i32> = (-500..500).collect();
    for factor in [3isize, -7] {
        let mut out = vec![0i32; numbers.len()];
        let words = [
            out.as_mut_ptr().cast(),
            numbers.as_ptr().cast_mut().cast(),
            factor as *mut c_void,
        ];
        run(KERNEL, &words, 100, 10);
        let expected: Vec<i32> = numbers.iter().map(|n| n * factor as i32).collect();
        assert_eq!(out, expected);
    }
}

/// Checks that errors abort the process instead of giving a wrong result.
#[test]
fn failures_end_the_process() {
    if let Ok(what) = std::env::var("MARGAY_TEST_FAILURE") {
        let source = if what == "text" { c"nonsense" } else { KERNEL };
        run(source, &[], 1, 1);
        return;
    }
    for (what, told) in [
        ("text", "cuModuleLoadData"),
        ("arguments", "3 parameters, 0 were given"),
    ] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "failures_end_the_process", "--nocapture"])
            .env("MARGAY_TEST_FAILURE", what)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(!child.status.success());
        assert!(said.contains(told), "{said}");
    }
}
