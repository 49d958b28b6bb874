//! The helpers of each class of instructions.

mod support;

use std::sync::Arc;

use margay_frontend::{SourceFile, parse};
use margay_probe::{Options, Outcome, ProbeFile, Selection, rewrite};
use support::{Argument, FIRST, Launch, toml};

/// A probe that saves these values at instructions that start with `point`.
fn saving(point: &str, when: &str, values: &str) -> ProbeFile {
    let count = values.split(',').count();
    let fields: String = (0..count)
        .map(|i| format!("v{i} = [\"u64\", \"None\"]\n"))
        .collect();
    toml(&format!(
        "regs = 1\n[probe.look]\npos = \"{point}\"\nlevel = \"thread\"\n{when} = \"SAVE [ M ] {{ {values} }};\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = {}\ncap = 4\n[map.M.regs]\n{fields}",
        8 * count
    ))
}

const DECLARATIONS: &str = "
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<10>; .reg .b64 %rd<6>; .reg .f32 %f<6>; .reg .f64 %fd<4>;
    .shared .align 16 .b8 buffer[64];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, 5;
    mov.s32 %r2, -3;
    mov.f32 %f1, 0f3FC00000;
    mov.f64 %fd1, 0d4000000000000000;
    mov.b64 %rd2, 0x123456789abcdef0;
    mov.b16 %h1, -2;
    setp.lt.u32 %p1, %r1, 6;
";

fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{{DECLARATIONS}{body}\nret;\n}}\n"
    )
}

/// Runs a body with a probe, and returns the first words that the probe saved.
fn values(body: &str, point: &str, when: &str, values: &str) -> Vec<u64> {
    let text = text(body);
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [1, 1, 1],
        arguments: vec![Argument::Buffer((0..64).collect())],
    };
    let expected = launch.run();
    let ran = launch.probed(&saving(point, when, values));
    assert_eq!(ran.buffers, expected, "{body}");
    assert_eq!(ran.dropped, [0]);
    let count = values.split(',').count();
    ran.words(0, 0)[..count].to_vec()
}

/// The error of a probe that does not fit.
fn refusal(body: &str, point: &str, values: &str) -> String {
    let text = text(body);
    let parsed = parse(Arc::new(SourceFile::new("k.ptx", text)));
    let file = saving(point, "after", values);
    let done = rewrite(&parsed, &file, &Selection::default(), Options::default())
        .expect("the module is valid");
    match &done.kernels[0].outcome {
        Outcome::Failed(error) => {
            assert_eq!(done.text, parsed.source.text(), "the kernel stays as it is");
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn loads() {
    let load = "ld.global.u32 %r3, [%rd1+4];";
    assert_eq!(
        values(load, "ld.global", "after", "OUT, IN1, ADDR, BYTES"),
        [0x0706_0504, FIRST + 4, FIRST + 4, 4]
    );
    let vector = "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%rd1+16];";
    assert_eq!(
        values(vector, "ld.global", "after", "OUT, ADDR, BYTES"),
        [0x1312_1110, FIRST + 16, 16]
    );
    let pair = "ld.global.v2.f64 {%fd2, %fd3}, [%rd1];";
    assert_eq!(
        values(pair, "ld.global", "after", "ADDR, BYTES, OUT")[1..],
        [16, 0x0706_0504_0302_0100]
    );
}

#[test]
fn vector_registers_give_their_first_element() {
    let load = ".reg .v2 .u32 %pair; ld.global.v2.u32 %pair, [%rd1];";
    assert_eq!(
        values(load, "ld.global", "after", "OUT, BYTES"),
        [0x0302_0100, 8]
    );
}

#[test]
fn a_load_that_overwrites_its_address() {
    let load = "ld.global.u64 %rd1, [%rd1+8];";
    assert_eq!(
        values(load, "ld.global", "after", "ADDR, OUT"),
        [FIRST + 8, 0x0f0e_0d0c_0b0a_0908]
    );
    assert_eq!(
        values(load, "ld.global", "before", "ADDR, OUT"),
        [FIRST + 8, FIRST]
    );
}

#[test]
fn narrow_values_are_widened_by_their_type() {
    let signed = "ld.global.s8 %r3, [%rd1]; st.global.s8 [%rd1], %r2; ld.global.s8 %r3, [%rd1];";
    // The probe stands at three instructions; the last one loads -3.
    let text = text(signed);
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [1, 1, 1],
        arguments: vec![Argument::Buffer(vec![1; 64])],
    };
    let ran = launch.probed(&saving("ld.global.s8", "after", "OUT"));
    assert_eq!(ran.words(0, 0)[..2], [1, -3_i64 as u64]);
    let half = "add.s16 %h2, %h1, 0;";
    assert_eq!(
        values(half, "add.s16", "after", "OUT, IN1, IN2"),
        [-2_i64 as u64, -2_i64 as u64, 0]
    );
    let half = "add.u16 %h2, %h1, 0;";
    assert_eq!(values(half, "add.u16", "after", "OUT"), [0xFFFE]);
}

#[test]
fn stores() {
    let store = "st.global.u32 [%rd1+12], %r1;";
    for when in ["before", "after"] {
        assert_eq!(
            values(store, "st", when, "OUT, IN1, ADDR, BYTES"),
            [FIRST + 12, 5, FIRST + 12, 4]
        );
    }
    let shared = "mov.u32 %r3, buffer; st.shared.v2.b32 [%r3+8], {%r2, %r1};";
    let found = values(shared, "st.shared", "after", "ADDR, IN1, BYTES");
    assert_eq!(found[1..], [0xFFFF_FFFD, 8]);
    assert_eq!(found[0] % 16, 8);
    let variable = "st.shared.b32 [buffer+4], %r1;";
    assert_eq!(values(variable, "st.shared", "after", "ADDR")[0] % 16, 4);
}

#[test]
fn atomics_and_reductions() {
    let atom = "atom.global.cas.b32 %r3, [%rd1+4], %r1, %r2;";
    assert_eq!(
        values(atom, "atom", "after", "OUT, IN1, IN2, IN3, ADDR, BYTES"),
        [0x0706_0504, FIRST + 4, 5, 0xFFFF_FFFD, FIRST + 4, 4]
    );
    let red = "red.global.add.u64 [%rd1+8], %rd2;";
    assert_eq!(
        values(red, "red", "after", "OUT, IN1, ADDR, BYTES"),
        [FIRST + 8, 0x1234_5678_9abc_def0, FIRST + 8, 8]
    );
}

#[test]
fn copies() {
    let copy = "mov.u32 %r3, buffer; cp.async.ca.shared.global [%r3], [%rd1+16], 16, 8; cp.async.wait_all;";
    let found = values(
        copy,
        "cp.async.ca",
        "after",
        "OUT, IN1, IN2, IN3, ADDR, BYTES",
    );
    assert_eq!(found[1..], [FIRST + 16, 16, 8, FIRST + 16, 16]);
    assert_eq!(found[0] % 16, 0);
}

#[test]
fn arithmetic() {
    assert_eq!(
        values(
            "fma.rn.f32 %f2, %f1, %f1, 0f3F800000;",
            "fma",
            "after",
            "OUT, IN1, IN2, IN3"
        ),
        [0x4050_0000, 0x3FC0_0000, 0x3FC0_0000, 0x3F80_0000]
    );
    assert_eq!(
        values("add.f64 %fd2, %fd1, 0.5;", "add", "after", "OUT, IN2"),
        [0x4004_0000_0000_0000, 0x3FE0_0000_0000_0000]
    );
    assert_eq!(
        values("mul.f32 %f2, %f1, 2.0;", "mul", "after", "IN2"),
        [0x4000_0000]
    );
    assert_eq!(
        values("add.s32 %r3, %r2, -1;", "add.s32", "after", "OUT, IN1, IN2"),
        [-4_i64 as u64, -3_i64 as u64, -1_i64 as u64]
    );
    assert_eq!(
        values("add.u32 %r3, %r2, -1;", "add.u32", "after", "OUT, IN2"),
        [0xFFFF_FFFC, 0xFFFF_FFFF]
    );
    assert_eq!(
        values("mov.s32 %r3, %ntid.x;", "mov.s32", "before", "IN1"),
        [-3_i64 as u64]
    );
    assert_eq!(
        values("not.pred %p2, %p1;", "not", "after", "OUT, IN1"),
        [0, 1]
    );
    assert_eq!(
        values("mov.b64 {%r3, %r4}, %rd2;", "mov.b64", "after", "IN1").len(),
        1
    );
}

#[test]
fn comparisons() {
    assert_eq!(
        values(
            "setp.gt.s32 %p2|%p3, %r1, %r2;",
            "setp.gt",
            "after",
            "OUT, IN1, IN2"
        ),
        [1, 5, -3_i64 as u64]
    );
    assert_eq!(
        values(
            "setp.eq.and.u32 %p2, %r1, 5, !%p1;",
            "setp.eq",
            "after",
            "OUT, IN3"
        ),
        [0, 0]
    );
}

#[test]
fn matrices() {
    let mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f2,%f3,%f4,%f5}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f2,%f3,%f4};";
    let text = text(&format!("mov.b32 %r3, 0; mov.b32 %r4, 0; mov.b32 %r5, 9; mov.b32 %r6, 0; mov.f32 %f2, 0f0; mov.f32 %f3, %f1; mov.f32 %f4, %f1;\n{mma}").replace("0f0;", "0f00000000;"));
    let launch = Launch {
        text: &text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [32, 1, 1],
        arguments: vec![Argument::Buffer(vec![0; 64])],
    };
    let ran = launch.probed(&saving("mma.sync", "before", "IN1, IN2, IN3"));
    assert_eq!(ran.words(0, 7)[..3], [5, 9, 0x3FC0_0000]);
}

#[test]
fn control() {
    // The label is the 12th instruction: 8 in front, `bra`, and two behind it.
    let jump = "bra FAR; add.u32 %r3, %r3, 1; add.u32 %r3, %r3, 1; FAR: add.u32 %r3, %r1, 1;";
    assert_eq!(values(jump, "bra", "after", "OUT"), [16 * 11]);
    assert_eq!(
        values("bar.sync 1, 32;", "bar.sync", "after", "OUT, IN1"),
        [1, 32]
    );
}

#[test]
fn helpers_without_a_value_are_errors() {
    let add = "add.u32 %r3, %r1, 1;";
    assert_eq!(
        refusal(add, "add", "ADDR"),
        "k.ptx:16: `look`: ADDR has no value here: the instruction accesses no memory"
    );
    assert_eq!(
        refusal(add, "add", "BYTES"),
        "k.ptx:16: `look`: BYTES has no value here: the instruction has no size of a memory access"
    );
    assert_eq!(
        refusal(add, "add", "IN3"),
        "k.ptx:16: `look`: IN3 has no value here: the instruction has only 3 operands"
    );
    assert_eq!(
        refusal(add, "kernel", "OUT"),
        "k.ptx:17: `look`: OUT has no value at the start or end of a kernel"
    );
    assert_eq!(
        refusal(add, "add", "%q1"),
        "k.ptx:16: `look`: `%q1` is not a register"
    );
}
