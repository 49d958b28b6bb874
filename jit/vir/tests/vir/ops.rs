//! Each op, with literal expected values.

use crate::support::{BASE, Machine, result};
use margay_ops::meaning::Bits;
use margay_vir::interpreter::{Cause, Fault};
use margay_vir::ops::Op;

/// A program without memory, its arguments, and the expected lanes of its only result.
type Example = (&'static str, &'static [&'static [Bits]], &'static [Bits]);

const EXAMPLES: &[Example] = &[
    (
        "() -> (b16x4) | const.b16x4{0xfffe}",
        &[],
        &[0xfffe, 0xfffe, 0xfffe, 0xfffe],
    ),
    ("() -> (predx4) | const.predx4{0x1}", &[], &[1, 1, 1, 1]),
    (
        "(b8) -> (b8x4) | affine.b8x4{3} v0",
        &[&[250]],
        &[250, 253, 0, 3],
    ),
    // A stride of -1 has the bits of 2^64 - 1.
    (
        "(b32) -> (b32x4) | affine.b32x4{18446744073709551615} v0",
        &[&[1]],
        &[1, 0, 0xffff_ffff, 0xffff_fffe],
    ),
    ("(f32) -> (f32x4) | splat.f32x4 v0", &[&[7]], &[7, 7, 7, 7]),
    (
        "(b32x4) -> (b32) | extract.b32x4{2} v0",
        &[&[5, 6, 7, 8]],
        &[7],
    ),
    (
        "(b32x4, b32) -> (b32x4) | insert.b32x4{1} v0, v1",
        &[&[5, 6, 7, 8], &[9]],
        &[5, 9, 7, 8],
    ),
    (
        "(b32x4) -> (b32x2) | half.b32x2{0} v0",
        &[&[5, 6, 7, 8]],
        &[5, 6],
    ),
    (
        "(b32x4) -> (b32x2) | half.b32x2{1} v0",
        &[&[5, 6, 7, 8]],
        &[7, 8],
    ),
    (
        "(b32x2, b32x2) -> (b32x4) | join.b32x4 v0, v1",
        &[&[5, 6], &[7, 8]],
        &[5, 6, 7, 8],
    ),
    // A scalar operand is the operand of all lanes.
    (
        "(b32x4, b32) -> (b32x4) | map.b32x4{sub.u32} v0, v1",
        &[&[5, 6, 7, 8], &[6]],
        &[0xffff_ffff, 0, 1, 2],
    ),
    (
        "(b32x4) -> (predx4) | map.predx4{setp.s32{cmp:lt}} v0, v0",
        &[&[1, 2, 3, 4]],
        &[0, 0, 0, 0],
    ),
    // 1/3 rounded down and up.
    (
        "(f32x2, f32x2) -> (f32x2) | map.f32x2{div.f32{rm}} v0, v1",
        &[&[0x3f80_0000; 2], &[0x4040_0000; 2]],
        &[0x3eaa_aaaa; 2],
    ),
    (
        "(f32x2, f32x2) -> (f32x2) | map.f32x2{div.f32{rp}} v0, v1",
        &[&[0x3f80_0000; 2], &[0x4040_0000; 2]],
        &[0x3eaa_aaab; 2],
    ),
    (
        "(b64) -> (b64) | map.b64{not.b64} v0",
        &[&[0]],
        &[0xffff_ffff_ffff_ffff],
    ),
    (
        "(b32x4, b32x4) -> (b32x4) | permute.b32x4 v0, v1",
        &[&[5, 6, 7, 8], &[3, 0, 4, 0xffff_ffff]],
        &[8, 5, 5, 8],
    ),
    (
        "(b32x4, b32x4, b32x4) -> (b32x4) | permute2.b32x4 v0, v1, v2",
        &[&[1, 2, 3, 4], &[5, 6, 7, 8], &[0, 7, 4, 11]],
        &[1, 8, 5, 4],
    ),
    (
        "(b32x4, predx4) -> (b32x4) | compress.b32x4 v0, v1",
        &[&[5, 6, 7, 8], &[0, 1, 0, 1]],
        &[6, 8, 0, 0],
    ),
    (
        "(b32x4, predx4) -> (b32x4) | expand.b32x4 v0, v1",
        &[&[5, 6, 7, 8], &[0, 1, 0, 1]],
        &[0, 5, 0, 6],
    ),
    (
        "(b32x4) -> (b32) | reduce.b32x4{add.u32} v0",
        &[&[1, 2, 3, 0xffff_ffff]],
        &[5],
    ),
    // (2^24 + 1) + (1 + 1): 2^24 + 1 is rounded to 2^24, so the sum is 2^24 + 2. From left to right, it would be 2^24.
    (
        "(f32x4) -> (f32) | reduce.f32x4{add.f32{rn}} v0",
        &[&[0x4b80_0000, 0x3f80_0000, 0x3f80_0000, 0x3f80_0000]],
        &[0x4b80_0001],
    ),
    (
        "(predx8) -> (b64) | ballot.predx8 v0",
        &[&[1, 0, 1, 0, 0, 0, 0, 1]],
        &[0x85],
    ),
    (
        "(b64) -> (predx8) | mask.predx8 v0",
        &[&[0xf85]],
        &[1, 0, 1, 0, 0, 0, 0, 1],
    ),
    ("(predx4) -> (pred) | any.predx4 v0", &[&[0, 0, 1, 0]], &[1]),
    ("(predx4) -> (pred) | any.predx4 v0", &[&[0, 0, 0, 0]], &[0]),
    ("(predx4) -> (pred) | all.predx4 v0", &[&[1, 1, 1, 1]], &[1]),
    ("(predx4) -> (pred) | all.predx4 v0", &[&[1, 1, 0, 1]], &[0]),
    (
        "(predx4) -> (b32) | count.predx4 v0",
        &[&[1, 1, 0, 1]],
        &[3],
    ),
    (
        "(predx4) -> (b32) | first.predx4 v0",
        &[&[0, 0, 1, 1]],
        &[2],
    ),
    (
        "(predx4) -> (b32) | first.predx4 v0",
        &[&[0, 0, 0, 0]],
        &[4],
    ),
];

/// Returns the text of the function of an example.
fn program(example: &str) -> String {
    let (signature, operation) = example.split_once(" | ").unwrap();
    let (params, returns) = signature.split_once(" -> ").unwrap();
    let params = params.trim_matches(['(', ')']);
    let list: Vec<String> = params
        .split(", ")
        .enumerate()
        .map(|(n, ty)| format!("v{n}: {ty}"))
        .collect();
    let list = match params {
        "" => String::new(),
        _ => format!("({})", list.join(", ")),
    };
    let result = returns.trim_matches(['(', ')']);
    format!("func @f{signature} {{\nblock0{list}:\n  v9: {result} = {operation}\n  ret v9\n}}\n")
}

#[test]
fn ops_without_memory_have_their_results() {
    for &(example, args, expected) in EXAMPLES {
        let lanes = result(&program(example), args, &mut Machine::new(Vec::new())).unwrap();
        assert_eq!(lanes[0].as_slice(), expected, "{example}");
    }
}

#[test]
fn every_op_with_a_reference_function_has_an_example() {
    for op in Op::ALL
        .iter()
        .map(|op| op.row())
        .filter(|row| row.meaning.is_some())
    {
        let is_used = |(example, ..): &&Example| example.contains(&format!("| {}.", op.name));
        assert!(
            EXAMPLES.iter().any(|example| is_used(&example)),
            "{}",
            op.name
        );
    }
}

fn fault<T: std::fmt::Debug>(outcome: Result<T, Fault>) -> (u32, Cause, u64) {
    let Fault { lane, cause, place } = outcome.unwrap_err();
    (lane, cause, place)
}

#[test]
fn loads_extend_and_leave_lanes_out() {
    let text = "func @f(b64, predx4) -> (b32x4, b32x4, b64) {
block0(v0: b64, v1: predx4):
  v2: b32x4 = load.b32x4{s8 2} v0, v1
  v3: b32x4 = load.b32x4{u16 -1} v0
  v4: b64 = load.b64{b64 0} v0
  ret v2, v3, v4
}
";
    let mut machine = Machine::new((0x7e..0x8e).collect());
    let args: [&[Bits]; 2] = [&[Bits::from(BASE) + 3], &[1, 1, 0, 1]];
    let lanes = result(text, &args, &mut machine).unwrap();
    assert_eq!(
        lanes[0].as_slice(),
        [0xffff_ff81, 0xffff_ff83, 0, 0xffff_ff87]
    );
    assert_eq!(lanes[1].as_slice(), [0x8281, 0x8180, 0x807f, 0x7f7e]);
    assert_eq!(lanes[2].as_slice(), [0x8887_8685_8483_8281]);
}

#[test]
fn a_masked_lane_beyond_the_memory_does_not_fault() {
    let text = |mask: &str| {
        format!(
            "func @f(b64, predx4) -> (b32x4) {{
block0(v0: b64, v1: predx4):
  v2: b32x4 = load.b32x4{{b32 4}} v0{mask}  ; 21
  ret v2
}}
"
        )
    };
    let args: [&[Bits]; 2] = [&[Bits::from(BASE) + 4], &[1, 1, 0, 0]];
    let mut machine = Machine::new(vec![1; 12]);
    let lanes = result(&text(", v1"), &args, &mut machine).unwrap();
    assert_eq!(lanes[0].as_slice(), [0x0101_0101, 0x0101_0101, 0, 0]);
    let cause = Cause::Memory {
        address: BASE + 12,
        bytes: 4,
    };
    assert_eq!(
        fault(result(&text(""), &args, &mut machine)),
        (2, cause, 21)
    );
}

#[test]
fn stores_truncate_and_end_at_the_first_fault() {
    let text = "func @f(b64, b32x4) -> () {
block0(v0: b64, v1: b32x4):
  store.b32x4{b16 3} v0, v1
  ret
}
";
    let args: [&[Bits]; 2] = [
        &[Bits::from(BASE)],
        &[0x1_0102, 0x2_0304, 0x3_0506, 0x4_0708],
    ];
    let mut machine = Machine::new(vec![0xee; 9]);
    let cause = Cause::Memory {
        address: BASE + 9,
        bytes: 2,
    };
    assert_eq!(fault(result(text, &args, &mut machine)), (3, cause, 0));
    assert_eq!(machine.bytes, [2, 1, 0xee, 4, 3, 0xee, 6, 5, 0xee]);
}

#[test]
fn gathers_and_scatters_use_signed_offsets_in_the_order_of_lanes() {
    let text = "func @f(b64, b32x4, predx4) -> (b8x4) {
block0(v0: b64, v1: b32x4, v2: predx4):
  v3: b8x4 = gather.b8x4{b8 2} v0, v1, v2
  v4: b8x4 = const.b8x4{0x9}
  v5: b8x4 = map.b8x4{and.b8} v3, v4
  scatter.b8x4{b8 2} v0, v1, v3
  scatter.b8x4{b8 2} v0, v1, v5, v2
  ret v3
}
";
    let args: [&[Bits]; 3] = [
        &[Bits::from(BASE) + 4],
        &[0xffff_ffff, 1, 1, 0xffff_fffe],
        &[1, 0, 1, 1],
    ];
    let mut machine = Machine::new((0x10..0x18).collect());
    let lanes = result(text, &args, &mut machine).unwrap();
    assert_eq!(lanes[0].as_slice(), [0x12, 0, 0x16, 0x10]);
    // Lane 2 writes element 6 after lane 1 has written a zero there.
    assert_eq!(
        machine.bytes,
        [0x00, 0x11, 0x00, 0x13, 0x14, 0x15, 0x00, 0x17]
    );
}

#[test]
fn displacements_are_added_to_each_address() {
    let text = "func @f(b64, b8x2) -> (b8x2, b8x2) {
block0(v0: b64, v1: b8x2):
  v2: b32x2 = const.b32x2{0x1}
  v3: b8x2 = load.b8x2{b8 2 -1} v0
  v4: b8x2 = gather.b8x2{b8 2 +3} v0, v2
  store.b8x2{b8 1 +4} v0, v1
  scatter.b8x2{b8 1 -3} v0, v2, v1  ; 9
  ret v3, v4
}
";
    let run = |text: &str, machine: &mut Machine| {
        result(text, &[&[Bits::from(BASE) + 2], &[0xaa, 0xbb]], machine)
    };
    let mut machine = Machine::new((0x10..0x18).collect());
    let lanes = run(text, &mut machine).unwrap();
    assert_eq!(lanes[0].as_slice(), [0x11, 0x13]);
    assert_eq!(lanes[1].as_slice(), [0x17, 0x17]);
    assert_eq!(
        machine.bytes,
        [0xbb, 0x11, 0x12, 0x13, 0x14, 0x15, 0xaa, 0xbb]
    );
    let cause = Cause::Memory {
        address: BASE - 1,
        bytes: 1,
    };
    let outcome = run(&text.replace("b8 1 -3", "b8 1 -4"), &mut machine);
    assert_eq!(fault(outcome), (0, cause, 9));
}

#[test]
fn offsets_of_64_bits_are_not_truncated() {
    let text = "func @f(b64, b64x2) -> (b8x2) {
block0(v0: b64, v1: b64x2):
  v2: b8x2 = gather.b8x2{b8 1} v0, v1
  ret v2
}
";
    let base = Bits::from(BASE.wrapping_sub(1 << 40));
    let mut machine = Machine::new(vec![5, 6]);
    let lanes = result(text, &[&[base], &[1 << 40, (1 << 40) + 1]], &mut machine).unwrap();
    assert_eq!(lanes[0].as_slice(), [5, 6]);
}

#[test]
fn helpers_are_called_once_or_for_each_lane_of_a_mask() {
    let text = "func @f(b32x4, predx4, b32) -> (b32x4, b32, b64) {
  helper0 = @sum (b32, b32) -> (b32)
  slot0 = 8 align 8
  slot1 = 8 align 8
block0(v0: b32x4, v1: predx4, v2: b32):
  v3: b32x4 = call.lanes.predx4{0} v1, v0, v0  ; 5
  v4: b32 = call{0} v2, v2  ; 6
  v5: b64 = slot.addr.b64{1}
  fence
  ret v3, v4, v5
}
";
    let mut machine = Machine::new(Vec::new());
    let lanes = result(
        text,
        &[&[1, 2, 3, 0xffff_ffff], &[1, 0, 1, 1], &[21]],
        &mut machine,
    )
    .unwrap();
    assert_eq!(lanes[0].as_slice(), [2, 0, 6, 0xffff_fffe]);
    assert_eq!(lanes[1].as_slice(), [42]);
    assert_eq!(lanes[2].as_slice(), [Bits::from(BASE) + 64]);
    assert_eq!(machine.calls, 4);
    let text = text
        .replace("v4: b32 = call{0} v2, v2", "v4: b32 = call{0} v6, v2")
        .replace("  fence\n", "");
    let text = text.replace(
        "block0(v0: b32x4, v1: predx4, v2: b32):",
        "block0(v0: b32x4, v1: predx4, v2: b32):\n  v6: b32 = const.b32{0x4e}",
    );
    let outcome = result(&text, &[&[0; 4], &[0; 4], &[21]], &mut machine);
    assert_eq!(fault(outcome), (0, Cause::Helper(0), 6));
}

const LOOP: &str = "func @f(b32) -> (b32) {
block0(v0: b32):
  v1: b32 = const.b32{0x0}
  v2: b32 = const.b32{0x1}
  jump block1(v0, v1)
block1(v3: b32, v4: b32):
  v5: b32 = map.b32{add.u32} v4, v3
  v6: b32 = map.b32{sub.u32} v3, v2
  v7: pred = map.pred{setp.u32{cmp:ne}} v6, v1
  brif v7, block1(v6, v5), block2(v5)
block2(v8: b32):
  v9: b32 = const.b32{0x37}
  v10: pred = map.pred{setp.u32{cmp:gt}} v8, v9
  trap.if{3} v10  ; 8
  br_table v0, block3, block4, block5
block3:
  ret v8
block4:
  trap{4}  ; 9
block5:
  ret v9
}
";

#[test]
fn programs_branch_and_trap() {
    let run = |n: Bits| result(LOOP, &[&[n]], &mut Machine::new(Vec::new()));
    assert_eq!(run(10).unwrap()[0].as_slice(), [55]);
    assert_eq!(fault(run(11)), (0, Cause::Trap(3), 8));
    // The table has the targets block4 for 0 and block5 for 1, and block3 for other numbers.
    assert_eq!(run(1).unwrap()[0].as_slice(), [0x37]);
    assert_eq!(fault(run(0)), (0, Cause::Steps, 0));
    let text = LOOP
        .replace("br_table v0", "br_table v1")
        .replace("jump block1(v0, v1)", "jump block2(v0)");
    let outcome = result(&text, &[&[7]], &mut Machine::new(Vec::new()));
    assert_eq!(fault(outcome), (0, Cause::Trap(4), 9));
}

#[test]
fn block_parameters_are_passed_at_once() {
    let text = "func @f(b32, b32) -> (b32, b32) {
block0(v0: b32, v1: b32):
  v2: pred = const.pred{0x1}
  jump block1(v0, v1, v2)
block1(v3: b32, v4: b32, v5: pred):
  v6: pred = map.pred{not.pred} v5
  brif v5, block1(v4, v3, v6), block2
block2:
  ret v3, v4
}
";
    let lanes = result(text, &[&[1], &[2]], &mut Machine::new(Vec::new())).unwrap();
    assert_eq!((lanes[0][0], lanes[1][0]), (2, 1));
}

#[test]
fn a_product_takes_the_registers_of_all_lanes() {
    let text = "func @f(b32x32, b32x32, b32x32, b32x32) -> (b32x32, b32x32) {
block0(v0: b32x32, v1: b32x32, v2: b32x32, v3: b32x32):
  v4: b32x32, v5: b32x32 = product.b32x32{mma.s32.s8{mode:m8n8k16 bsigned}} v0, v1, v2, v3
  ret v4, v5
}
";
    // Row `r` of the left factor consists of `r + 1`, in lanes `4 r` to `4 r + 3`; the right factor consists of -2. Column
    // `c` of the addend consists of `c`: lane `n` has columns `2 (n % 4)` and `2 (n % 4) + 1`.
    let left: Vec<Bits> = (0..32).map(|n| 0x0101_0101 * (n / 4 + 1)).collect();
    let (even, odd): (Vec<Bits>, Vec<Bits>) =
        (0..32).map(|n| (2 * (n % 4), 2 * (n % 4) + 1)).unzip();
    let args: [&[Bits]; 4] = [&left, &[0xfefe_fefe; 32], &even, &odd];
    let lanes = result(text, &args, &mut Machine::new(Vec::new())).unwrap();
    for (n, (&even, &odd)) in (0..).zip(lanes[0].iter().zip(&lanes[1])) {
        let product = -32 * (n / 4 + 1);
        let expected = [product + 2 * (n % 4), product + 2 * (n % 4) + 1];
        assert_eq!([even as i32, odd as i32], expected, "lane {n}");
    }
}
