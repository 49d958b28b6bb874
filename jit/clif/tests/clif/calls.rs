//! Control flow and calls of helpers.

use margay_ops::meaning::Bits;
use margay_vir::meaning::Lanes;

use crate::native::{Program, mix, sum};
use crate::support::{Machine, Numbers, interpreted, parsed};

/// Compares a function, which calls the helpers `sum` and `mix`, with the interpreter.
fn compare(text: &str, args: &[&[Bits]]) {
    let function = parsed(text);
    let helpers = [sum as *const u8, mix as *const u8];
    let args: Vec<Lanes> = args.iter().map(|&lanes| lanes.into()).collect();
    let mut machine = Machine::new(0, Vec::new());
    let expected = interpreted(&function, &args, &mut machine).unwrap();
    for level in ["none", "speed"] {
        let native = Program::with(&function, &helpers, (true, level));
        assert_eq!(native.run(&args), expected, "{args:x?}\n{function}");
    }
}

const LOOP: &str = "func @f(b32, b32) -> (b32) {
block0(v0: b32, v99: b32):
  v1: b32 = const.b32{0x0}
  v2: b32 = const.b32{0x1}
  jump block1(v0, v1)
block1(v3: b32, v4: b32):
  v5: b32 = map.b32{add.u32} v4, v3
  v6: b32 = map.b32{sub.u32} v3, v2
  v7: pred = map.pred{setp.u32{cmp:ne}} v6, v1
  brif v7, block1(v6, v5), block2(v5)
block2(v8: b32):
  br_table v99, block3(v8), block4, block5(v8), block5(v2), block5(v8), block4
block3(v9: b32):
  ret v9
block4:
  ret v0
block5(v10: b32):
  v11: b32 = map.b32{add.u32} v10, v10
  ret v11
}
";

#[test]
fn loops_and_branch_tables() {
    for index in [0, 1, 2, 3, 4, 5, 0xffff_ffff] {
        compare(LOOP, &[&[10], &[index]]);
    }
}

#[test]
fn vectors_are_block_parameters() {
    let text = "func @f(b64x8, f64x8, predx8, b8x8, pred) -> (b64x8, f64x8, predx8, b8x8) {
block0(v0: b64x8, v1: f64x8, v2: predx8, v3: b8x8, v4: pred):
  jump block1(v0, v1, v2, v3, v4)
block1(v5: b64x8, v6: f64x8, v7: predx8, v8: b8x8, v9: pred):
  v10: pred = map.pred{not.pred} v9
  v11: b64x8 = map.b64x8{add.u64} v5, v5
  v12: predx8 = map.predx8{not.pred} v7
  v13: b8x8 = map.b8x8{not.b8} v8
  brif v9, block1(v11, v6, v12, v13, v10), block2
block2:
  ret v5, v6, v7, v8
}
";
    let mut numbers = Numbers(8);
    for on in [0, 1] {
        let lanes: Vec<Lanes> = parsed(text).signature.params[..4]
            .iter()
            .map(|&ty| numbers.lanes(ty))
            .collect();
        // A NaN keeps its bits, because nothing computes with it.
        compare(text, &[&lanes[0], &lanes[1], &lanes[2], &lanes[3], &[on]]);
    }
}

#[test]
fn unreachable_blocks_are_not_lowered() {
    let text = "func @f(b32) -> (b32) {
block0(v0: b32):
  ret v0
block1(v1: b32):
  v2: b32 = map.b32{add.u32} v1, v0
  jump block1(v2)
}
";
    compare(text, &[&[7]]);
}

#[test]
fn helpers_are_called_once() {
    let text = "func @f(b32, pred, b8, b16, b128, f32, f64) -> (b32, b128, pred) {
  helper0 = @sum (b32, b32) -> (b32)
  helper1 = @mix (pred, b8, b16, b128, f32, f64) -> (b128, pred)
block0(v0: b32, v1: pred, v2: b8, v3: b16, v4: b128, v5: f32, v6: f64):
  v7: b32 = call{0} v0, v0
  v8: b128, v9: pred = call{1} v1, v2, v3, v4, v5, v6
  ret v7, v8, v9
}
";
    let mut numbers = Numbers(9);
    for _ in 0..4 {
        let params = parsed(text).signature.params;
        let mut args: Vec<Lanes> = params.iter().map(|&ty| numbers.lanes(ty)).collect();
        args[0] = [0x8000_0001].as_slice().into();
        let args: Vec<&[Bits]> = args.iter().map(|lanes| lanes.as_slice()).collect();
        compare(text, &args);
    }
}

#[test]
fn helpers_are_called_for_each_lane_of_a_mask() {
    let mut numbers = Numbers(10);
    for lanes in [1, 2, 4, 16, 64] {
        let x = |kind: &str| match lanes {
            1 => kind.to_owned(),
            _ => format!("{kind}x{lanes}"),
        };
        let (p, w, b, h, q, f, d) = (
            x("pred"),
            x("b32"),
            x("b8"),
            x("b16"),
            x("b128"),
            x("f32"),
            x("f64"),
        );
        let text = format!(
            "func @f({p}, {w}, {b}, {h}, {q}, {f}, {d}) -> ({w}, {q}, {p}) {{
  helper0 = @sum (b32, b32) -> (b32)
  helper1 = @mix (pred, b8, b16, b128, f32, f64) -> (b128, pred)
block0(v0: {p}, v1: {w}, v2: {b}, v3: {h}, v4: {q}, v5: {f}, v6: {d}):
  v7: {w} = call.lanes.{p}{{0}} v0, v1, v1
  v10: {p} = map.{p}{{not.pred}} v0
  v8: {q}, v9: {p} = call.lanes.{p}{{1}} v10, v10, v2, v3, v4, v5, v6
  ret v7, v8, v9
}}
"
        );
        for _ in 0..3 {
            let params = parsed(&text).signature.params;
            let args: Vec<Lanes> = params.iter().map(|&ty| numbers.lanes(ty)).collect();
            let args: Vec<&[Bits]> = args.iter().map(|lanes| lanes.as_slice()).collect();
            compare(&text, &args);
        }
    }
}

#[test]
fn operations_without_code_are_reported() {
    let function = parsed(
        "func @f(b32x8, b32x8) -> (b32x8, b32x8, b32x8) {
block0(v0: b32x8, v1: b32x8):
  v2: b32x8 = map.b32x8{vadd2.u32.u32{dsel:3}} v0, v1, v0
  v3: b32x8 = map.b32x8{vadd2.u32.u32{dsel:3}} v1, v1, v0
  v4: b32x8 = map.b32x8{add.u32} v0, v1
  ret v2, v3, v4
}
",
    );
    let native = Program::new(&function, &[]);
    assert_eq!(native.report.fallbacks, [("vadd2", 2)]);
    assert_eq!(native.report.lane_calls.len(), 1);
}

#[test]
fn operands_that_are_not_subnormal_are_not_flushed_again() {
    // Only the first product and the loaded operand may be subnormal.
    let text = "func @f(f32x4, b32x4) -> (f32x4, f32x4) {
block0(v0: f32x4, v1: b32x4):
  v2: f32x4 = map.f32x4{mul.f32{rn ftz}} v0, v0
  v3: f32x4 = map.f32x4{add.f32{rn ftz}} v2, v2
  v4: f32x4 = map.f32x4{cvt.f32.u32{rn}} v1
  v5: f32x4 = map.f32x4{mul.f32{rn}} v0, v0
  v6: f32x4 = map.f32x4{mul.f32{rn ftz}} v5, v4
  ret v3, v6
}
";
    let small = Bits::from(1e-20f32.to_bits());
    let tiny = Bits::from(1e-39f32.to_bits());
    let two = Bits::from(2.0f32.to_bits());
    compare(text, &[&[small, tiny, two, 0], &[1, 2, 0, 0xffff_ffff]]);
}
