//! Each rule of `simplify`: the instructions that it leaves of a small function.

use super::{after, simplified};

/// Parameters, instructions, and the instructions that are left.
type Example = (&'static str, &'static str, &'static str);

const CONSTANTS: &[Example] = &[
    (
        "b32",
        "v8: b32x4 = const.b32x4{0x7} | v9: b32x4 = map.b32x4{add.u32} v8, v8 | ret v9",
        "v1: b32x4 = const.b32x4{0xe} | ret v1",
    ),
    (
        "b32",
        "v7: b32 = const.b32{0x7} | v8: b32x4 = affine.b32x4{2} v7 | v9: b32 = extract.b32x4{3} v8 | ret v9",
        "v1: b32 = const.b32{0xd} | ret v1",
    ),
    // Constants of which the lanes differ stay in a constant form.
    (
        "b32",
        "v6: b32 = const.b32{0x7} | v7: b32x4 = affine.b32x4{2} v6 | v8: b32x4 = const.b32x4{0x3} \
         | v9: b32x4 = map.b32x4{mul.u32{half:lo}} v7, v8 | ret v9",
        "v1: b32 = const.b32{0x15} | v2: b32x4 = affine.b32x4{6} v1 | ret v2",
    ),
    (
        "b32",
        "v6: b32 = const.b32{0x7} | v7: b32x4 = affine.b32x4{2} v6 | v8: b32x4 = const.b32x4{0xb} \
         | v9: predx4 = map.predx4{setp.u32{cmp:lt}} v7, v8 | ret v9",
        "v1: b64 = const.b64{0x3} | v2: predx4 = mask.predx4 v1 | ret v2",
    ),
    (
        "b32",
        "v8: b32 = const.b32{0x7} | v9: b32x4 = splat.b32x4 v8 | ret v9",
        "v1: b32x4 = const.b32x4{0x7} | ret v1",
    ),
    (
        "b32",
        "v7: b32x2 = const.b32x2{0x7} | v8: b32x2 = const.b32x2{0x8} | v9: b32x4 = join.b32x4 v7, v8 | ret v9",
        "v1: b32x2 = const.b32x2{0x7} | v2: b32x2 = const.b32x2{0x8} | v3: b32x4 = join.b32x4 v1, v2 | ret v3",
    ),
    (
        "b32",
        "v7: b64 = const.b64{0x6} | v8: predx4 = mask.predx4 v7 | v9: b32 = count.predx4 v8 | ret v9",
        "v1: b32 = const.b32{0x2} | ret v1",
    ),
    (
        "b32",
        "v8: f32x4 = const.f32x4{0x3f800000} | v9: f32 = reduce.f32x4{add.f32{rn}} v8 | ret v9",
        "v1: f32 = const.f32{0x40800000} | ret v1",
    ),
];

const IDENTITIES: &[Example] = &[
    (
        "b32x4",
        "v8: b32x4 = const.b32x4{0x0} | v9: b32x4 = map.b32x4{add.u32} v8, v0 | ret v9",
        "ret v0",
    ),
    (
        "b32x4",
        "v8: b32 = const.b32{0x1} | v9: b32x4 = map.b32x4{mul.s32{half:lo}} v0, v8 | ret v9",
        "ret v0",
    ),
    (
        "b32x4",
        "v8: b32 = const.b32{0x8} | v9: b32x4 = map.b32x4{mul.u32{half:lo}} v0, v8 | ret v9",
        "v1: b32 = const.b32{0x3} | v2: b32x4 = map.b32x4{shl.b32} v0, v1 | ret v2",
    ),
    // The high half of a product with a power of two is not a shift to the left.
    (
        "b32x4",
        "v8: b32 = const.b32{0x8} | v9: b32x4 = map.b32x4{mul.u32{half:hi}} v0, v8 | ret v9",
        "v1: b32 = const.b32{0x8} | v2: b32x4 = map.b32x4{mul.u32{half:hi}} v0, v1 | ret v2",
    ),
    (
        "b32x4",
        "v6: b32x4 = const.b32x4{0x5} | v7: b32x4 = map.b32x4{add.u32} v0, v6 \
         | v8: b32x4 = const.b32x4{0x3} | v9: b32x4 = map.b32x4{sub.s32} v7, v8 | ret v9",
        "v1: b32x4 = const.b32x4{0x2} | v2: b32x4 = map.b32x4{add.s32} v0, v1 | ret v2",
    ),
    (
        "b32x4",
        "v9: b32x4 = map.b32x4{xor.b32} v0, v0 | ret v9",
        "v1: b32x4 = const.b32x4{0x0} | ret v1",
    ),
    (
        "b32x4",
        "v8: b32x4 = const.b32x4{0xffffffff} | v9: b32x4 = map.b32x4{xor.b32} v0, v8 | ret v9",
        "v1: b32x4 = map.b32x4{not.b32} v0 | ret v1",
    ),
    (
        "b32x4",
        "v8: b32x4 = map.b32x4{not.b32} v0 | v9: b32x4 = map.b32x4{not.b32} v8 | ret v9",
        "ret v0",
    ),
    (
        "b32x4",
        "v8: b32 = const.b32{0x20} | v9: b32x4 = map.b32x4{shl.b32} v0, v8 | ret v9",
        "v1: b32x4 = const.b32x4{0x0} | ret v1",
    ),
    (
        "b32x4",
        "v9: predx4 = map.predx4{setp.s32{cmp:le}} v0, v0 | ret v9",
        "v1: predx4 = const.predx4{0x1} | ret v1",
    ),
    (
        "b32x4",
        "v9: b32x4 = map.b32x4{cvt.u32.s32} v0 | ret v9",
        "ret v0",
    ),
    // A number is not equal to itself if it is a NaN.
    (
        "f32x4",
        "v9: predx4 = map.predx4{setp.f32{cmp:eq}} v0, v0 | ret v9",
        "v1: predx4 = map.predx4{setp.f32{cmp:eq}} v0, v0 | ret v1",
    ),
    // A product with 1.0 makes a signalling NaN quiet, and -0.0 + 0.0 is 0.0.
    (
        "f32x4",
        "v8: f32 = const.f32{0x3f800000} | v9: f32x4 = map.f32x4{mul.f32{rn}} v0, v8 | ret v9",
        "v1: f32 = const.f32{0x3f800000} | v2: f32x4 = map.f32x4{mul.f32{rn}} v0, v1 | ret v2",
    ),
    (
        "f32x4",
        "v8: f32 = const.f32{0x0} | v9: f32x4 = map.f32x4{add.f32{rn}} v0, v8 | ret v9",
        "v1: f32 = const.f32{0x0} | v2: f32x4 = map.f32x4{add.f32{rn}} v0, v1 | ret v2",
    ),
    // Equal lanes are computed once.
    (
        "b32, b32",
        "v8: b32x4 = splat.b32x4 v0 | v9: b32x4 = map.b32x4{add.u32} v8, v1 | ret v9",
        "v2: b32 = map.b32{add.u32} v0, v1 | v3: b32x4 = splat.b32x4 v2 | ret v3",
    ),
];

const LANES: &[Example] = &[
    (
        "b32",
        "v8: b32x4 = affine.b32x4{3} v0 | v9: b32 = extract.b32x4{2} v8 | ret v9",
        "v1: b32 = const.b32{0x6} | v2: b32 = map.b32{add.u32} v0, v1 | ret v2",
    ),
    (
        "b32x4, b32",
        "v8: b32x4 = insert.b32x4{1} v0, v1 | v9: b32 = extract.b32x4{2} v8 | ret v9",
        "v2: b32 = extract.b32x4{2} v0 | ret v2",
    ),
    (
        "b32x4",
        "v8: b32x2 = half.b32x2{1} v0 | v9: b32 = extract.b32x2{1} v8 | ret v9",
        "v1: b32 = extract.b32x4{3} v0 | ret v1",
    ),
    (
        "b32x2, b32x2",
        "v8: b32x4 = join.b32x4 v0, v1 | v9: b32x2 = half.b32x2{1} v8 | ret v9",
        "ret v1",
    ),
    (
        "b32x4",
        "v7: b32x2 = half.b32x2{0} v0 | v8: b32x2 = half.b32x2{1} v0 | v9: b32x4 = join.b32x4 v7, v8 | ret v9",
        "ret v0",
    ),
    (
        "b32x4",
        "v7: b32 = const.b32{0x0} | v8: b32x4 = affine.b32x4{1} v7 | v9: b32x4 = permute.b32x4 v0, v8 | ret v9",
        "ret v0",
    ),
    (
        "b32x4",
        "v8: b32x4 = const.b32x4{0x6} | v9: b32x4 = permute.b32x4 v0, v8 | ret v9",
        "v1: b32 = extract.b32x4{2} v0 | v2: b32x4 = splat.b32x4 v1 | ret v2",
    ),
    (
        "b32x4, b32x4",
        "v7: b32 = const.b32{0x7} | v8: b32x4 = affine.b32x4{4294967295} v7 \
         | v9: b32x4 = permute2.b32x4 v0, v1, v8 | ret v9",
        "v2: b32 = const.b32{0x7} | v3: b32x4 = affine.b32x4{4294967295} v2 | v4: b32x4 = permute.b32x4 v1, v3 | ret v4",
    ),
    (
        "b32x4",
        "v8: predx4 = const.predx4{0x1} | v9: b32x4 = compress.b32x4 v0, v8 | ret v9",
        "ret v0",
    ),
    (
        "b32",
        "v8: b32x4 = splat.b32x4 v0 | v9: b32 = reduce.b32x4{max.s32} v8 | ret v9",
        "ret v0",
    ),
    (
        "b32",
        "v9: b32x4 = affine.b32x4{4294967296} v0 | ret v9",
        "v1: b32x4 = splat.b32x4 v0 | ret v1",
    ),
];

const MASKS: &[Example] = &[
    (
        "predx4",
        "v8: predx4 = const.predx4{0x1} | v9: predx4 = map.predx4{and.pred} v0, v8 | ret v9",
        "ret v0",
    ),
    (
        "predx4, predx4",
        "v8: predx4 = map.predx4{and.pred} v0, v1 | v9: predx4 = map.predx4{and.pred} v1, v8 | ret v9",
        "v2: predx4 = map.predx4{and.pred} v0, v1 | ret v2",
    ),
    (
        "predx4",
        "v8: predx4 = map.predx4{not.pred} v0 | v9: predx4 = map.predx4{or.pred} v8, v0 | ret v9",
        "v1: predx4 = const.predx4{0x1} | ret v1",
    ),
    (
        "b64",
        "v8: predx4 = mask.predx4 v0 | v9: b64 = ballot.predx4 v8 | ret v9",
        "v1: b64 = const.b64{0xf} | v2: b64 = map.b64{and.b64} v0, v1 | ret v2",
    ),
    (
        "predx4",
        "v8: b64 = ballot.predx4 v0 | v9: predx4 = mask.predx4 v8 | ret v9",
        "ret v0",
    ),
    (
        "predx4",
        "v8: predx4 = map.predx4{not.pred} v0 | v9: pred = any.predx4 v8 | ret v9",
        "v1: pred = all.predx4 v0 | v2: pred = map.pred{not.pred} v1 | ret v2",
    ),
    (
        "pred",
        "v8: predx4 = splat.predx4 v0 | v9: pred = all.predx4 v8 | ret v9",
        "ret v0",
    ),
    (
        "b32x4, b32x4, predx4",
        "v7: b32x4 = map.b32x4{selp.b32} v0, v1, v2 | v8: predx4 = map.predx4{not.pred} v2 \
         | v9: b32x4 = map.b32x4{selp.b32} v1, v7, v8 | ret v9",
        "v3: b32x4 = map.b32x4{selp.b32} v0, v1, v2 | ret v3",
    ),
    // A masked load is zero where its mask is false.
    (
        "b64, predx4",
        "v7: b32x4 = load.b32x4{b32 4} v0, v1 | v8: b32x4 = const.b32x4{0x0} \
         | v9: b32x4 = map.b32x4{selp.b32} v7, v8, v1 | ret v9",
        "v2: b32x4 = load.b32x4{b32 4} v0, v1 | ret v2",
    ),
    (
        "b64",
        "v8: predx4 = const.predx4{0x1} | v9: b32x4 = load.b32x4{b32 4} v0, v8 | ret v9",
        "v1: b32x4 = load.b32x4{b32 4} v0 | ret v1",
    ),
    (
        "b64, b32x4",
        "v8: predx4 = const.predx4{0x0} | v9: f32x4 = gather.f32x4{f32 4} v0, v1, v8 \
         | scatter.f32x4{f32 4} v0, v1, v9, v8 | ret v9",
        "v2: f32x4 = const.f32x4{0x0} | ret v2",
    ),
    (
        "b64, b32x4, b32x4, predx4",
        "v8: b32x4 = map.b32x4{selp.b32} v1, v2, v3 | store.b32x4{b32 4} v0, v8, v3 | ret v2",
        "store.b32x4{b32 4} v0, v1, v3 | ret v2",
    ),
    (
        "pred",
        "v8: pred = const.pred{0x0} | trap.if{3} v8 | ret v0",
        "ret v0",
    ),
    (
        "b64",
        "v8: pred = const.pred{0x1} | trap.if{3} v8 | v9: b64 = load.b64{b64 8} v0 | ret v9",
        "trap{3}",
    ),
];

#[test]
fn rules_leave_the_expected_instructions() {
    for &(params, text, expected) in [CONSTANTS, IDENTITIES, LANES, MASKS].concat().iter() {
        assert_eq!(simplified(params, text), expected, "{text}");
    }
}

const BRANCHES: &str = "func @f(b32, pred) -> (b32) {
block0(v0: b32, v1: pred):
  v2: pred = map.pred{not.pred} v1
  brif v2, block1(v0), block2(v0)
block1(v3: b32):
  jump block3(v3)
block2(v4: b32):
  v5: pred = const.pred{0x1}
  brif v5, block4, block5
block4:
  v6: b32 = map.b32{add.u32} v4, v0
  jump block3(v6)
block5:
  jump block3(v0)
block3(v7: b32):
  ret v7
}
";

#[test]
fn branches_on_constants_and_chains_of_blocks_are_removed() {
    // The branch on `not v1` is swapped, block1 only jumps, block5 is unreachable, and block4 continues block2.
    let expected = "func @f(b32, pred) -> (b32) {
block0(v0: b32, v1: pred):
  brif v1, block2, block3(v0)
block2:
  v6: b32 = map.b32{add.u32} v0, v0
  jump block3(v6)
block3(v7: b32):
  ret v7
}
";
    assert_eq!(after("simplify dead", BRANCHES), expected);
}

#[test]
fn blocks_whose_parameters_are_used_elsewhere_are_not_skipped() {
    let text = "func @f(b32, b32, pred) -> (b32) {
block0(v0: b32, v1: b32, v2: pred):
  brif v2, block1(v0), block1(v1)
block1(v3: b32):
  jump block2(v3)
block2(v4: b32):
  v5: b32 = map.b32{sub.u32} v3, v4
  v6: pred = map.pred{setp.u32{cmp:ne}} v5, v4
  brif v6, block2(v5), block3
block3:
  ret v4
}
";
    assert_eq!(after("simplify", text), text);
}

#[test]
fn a_parameter_that_a_loop_does_not_change_is_removed() {
    let text = "func @f(b32, b32) -> (b32) {
block0(v0: b32, v1: b32):
  jump block1(v0, v1)
block1(v2: b32, v3: b32):
  v4: b32 = map.b32{sub.u32} v2, v3
  v5: pred = map.pred{setp.u32{cmp:ne}} v4, v3
  brif v5, block1(v4, v3), block2
block2:
  ret v3
}
";
    let expected = "func @f(b32, b32) -> (b32) {
block0(v0: b32, v1: b32):
  jump block1(v0)
block1(v2: b32):
  v4: b32 = map.b32{sub.u32} v2, v1
  v5: pred = map.pred{setp.u32{cmp:ne}} v4, v1
  brif v5, block1(v4), block2
block2:
  ret v1
}
";
    assert_eq!(after("simplify", text), expected);
}

#[test]
fn tables_with_a_constant_and_calls_without_lanes_are_removed() {
    let text = "func @f(b32x4) -> (b32x4) {
  helper0 = @h (b32) -> (b32)
block0(v0: b32x4):
  v1: b32 = const.b32{0x1}
  v2: predx4 = const.predx4{0x0}
  v3: b32x4 = call.lanes.predx4{0} v2, v0
  br_table v1, block1, block1, block2
block1:
  ret v0
block2:
  ret v3
}
";
    let expected = "func @f(b32x4) -> (b32x4) {
  helper0 = @h (b32) -> (b32)
block0(v0: b32x4):
  v4: b32x4 = const.b32x4{0x0}
  ret v4
}
";
    assert_eq!(after("simplify dead", text), expected);
}
