//! Tests the classes of values in a CTA on functions written as text. A comment `// ...` after an instruction or the
//! label of a block lists the expected classes of the instruction's results or of the block's parameters, separated by
//! semicolons. An affine class is the sum of coordinates and base; after `if`, the conditions follow.

mod notes;

use margay_ir::analysis::coordinates::{
    CoordinateNotes, Coordinates, CtaClass, Factor, Shape, Test,
};
use margay_ir::analysis::uniformity::{Assumptions, Uniformity};
use margay_ir::analysis::{Cfg, Regions};
use margay_ir::entity::{Block, Value};
use margay_ir::function::Function;
use margay_ir::parse;

/// Checks the classes of a kernel's values against the comments in its text.
fn check(shape: Shape, body: &str) -> (Function, Coordinates) {
    let function = notes::kernel(32, body);
    let coordinates = Coordinates::new(&function, &Cfg::new(&function), shape);
    let uniformity = Uniformity::new(&function, Assumptions::of_block([64, 1, 1]));
    let notes = CoordinateNotes {
        function: &function,
        coordinates: &coordinates,
        uniformity: Some(&uniformity),
    };
    notes::compare(&function, &notes, body);
    (function, coordinates)
}

/// The registers that most tests read.
const REGISTERS: &str = "block0:
  v0: b32 = sreg.u32 %tid.x             // tid.x
  v1: b32 = sreg.u32 %tid.y             // tid.y
  v2: b32 = sreg.u32 %ctaid.x           // cta
  v3: b32 = sreg.u32 %ntid.x            // launch
  v4: b64 = param.addr.u64 0            // launch
  v5: b64 = ld.u64{space:param} v4      // launch
  v6: b32 = ld.u32{space:param} v4      // launch
";

fn with_registers(shape: Shape, body: &str) -> (Function, Coordinates) {
    check(shape, &format!("{REGISTERS}{body}"))
}

#[test]
fn registers() {
    let registers = "block0:
  v0: b32 = sreg.u32 %tid.x             // tid.x
  v1: b32 = sreg.u32 %tid.y             // tid.y
  v2: b32 = sreg.u32 %tid.z             // tid.z
  v3: b32 = sreg.u32 %ntid.x            // launch
  v4: b32 = sreg.u32 %ctaid.x           // cta
  v5: b32 = sreg.u32 %laneid            // varying, in a warp affine 1
  v6: b32 = sreg.u32 %warpid            // varying, in a warp warp
  v7: b32 = clock.u32 %clock            // varying
  exit";
    check(Shape::ANY, registers);
    check(
        Shape::exactly([8, 4, 1]),
        "block0:
  v0: b32 = sreg.u32 %tid.x             // tid.x
  v1: b32 = sreg.u32 %tid.z             // launch
  v2: b32 = sreg.u32 %laneid            // tid.x + 8*tid.y
  v3: b32 = sreg.u32 %warpid            // launch
  v4: b32 = sreg.u32 %ntid.x            // launch
  v5: b32 = sreg.u32 %tid.y             // tid.y
  v6: b32 = mad.u32{half:lo} v5, v4, v0 // tid.x + 8*tid.y
  exit",
    );
    // Two warps: `%laneid` is the number of the thread modulo 32.
    check(
        Shape::exactly([8, 8, 1]),
        "block0:
  v0: b32 = sreg.u32 %laneid            // varying, in a warp affine 1
  v1: b32 = sreg.u32 %warpid            // varying, in a warp warp
  exit",
    );
}

#[test]
fn arithmetic_of_affine_values() {
    with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x3             // launch
  v8: b32 = add.u32 v0, v2              // tid.x + %ctaid.x
  v9: b32 = sub.u32 v8, v7              // tid.x + %ctaid.x - 3
  v10: b32 = shl.b32 v9, v7             // 8*tid.x + 8*%ctaid.x - 24
  v11: b32 = mul.u32{half:lo} v9, v7    // 3*tid.x + 3*%ctaid.x - 9
  v12: b32 = neg.s32 v9                 // -tid.x - %ctaid.x + 3
  v13: b32 = not.b32 v9                 // -tid.x - %ctaid.x + 2
  v14: b32 = mul.u32{half:lo} v1, v3    // %ntid.x*tid.y
  v15: b32 = add.u32 v14, v0            // tid.x + %ntid.x*tid.y
  v16: b32 = mad.u32{half:lo} v1, v6, v8 // tid.x + v6*tid.y + %ctaid.x
  v17: b32 = mul.u32{half:lo} v9, v6    // v6*tid.x + %ctaid.x*v6 - 3*v6
  v18: b32 = sub.u32 v15, v14           // tid.x
  v19: b32 = sub.u32 v9, v8             // launch
  v20: b32 = mul.u32{half:lo} v0, v0    // varying
  v21: b32 = mul.u32{half:hi} v0, v7    // varying
  v22: b32 = shl.b32 v7, v0             // varying
  v23: b32 = const.b32 0x20
  v24: b32 = shl.b32 v0, v23            // launch
  v25: b32 = mul24.u32{half:lo} v0, v6  // u24(v6)*tid.x
  v26: b32 = mul24.s32{half:lo} v8, v7  // 3*tid.x + 3*s24(%ctaid.x) if v8 in s24
  v27: b32 = mul24.u32{half:hi} v8, v7  // varying
  v28: b32 = mul.u32{half:lo} v2, v6    // cta
  v29: b32 = sub.u32 v16, v0            // v6*tid.y + %ctaid.x
  v30: b32 = sub.u32 v16, v8            // v6*tid.y
  v31: b32 = sub.u32 v30, v30           // launch
  v32: b32 = add.u32 v28, v0            // tid.x + v28
  exit",
    );
}

#[test]
fn right_shifts_masks_and_divisions_vary() {
    with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x5
  v8: b32 = shr.u32 v0, v7              // varying, in a warp warp
  v9: b32 = and.b32 v0, v7              // varying
  v10: b32 = div.u32 v0, v7             // varying
  v11: b32 = rem.u32 v0, v7             // varying
  v12: b32 = shr.u32 v2, v7             // cta
  v13: b32 = and.b32 v2, v7             // cta
  v14: b32 = add.u32 v13, v0            // tid.x + v13
  exit",
    );
}

#[test]
fn disjoint_bits_are_added() {
    let body = "  v7: b32 = const.b32 0x2
  v8: b32 = shl.b32 v0, v7              // 4*tid.x
  v9: b32 = const.b32 0x1
  v10: b32 = or.b32 v8, v9              // 4*tid.x + 1
  v11: b32 = xor.b32 v9, v8             // 4*tid.x + 1
  v12: b32 = const.b32 0x4
  v13: b32 = or.b32 v8, v12             // varying
  v14: b32 = const.b32 0x8
  v15: b32 = shl.b32 v2, v14            // cta";
    let wide = format!("{body}\n  v16: b32 = or.b32 v15, v0 // varying\n  exit");
    with_registers(Shape::ANY, &wide);
    let narrow = format!("{body}\n  v16: b32 = or.b32 v15, v0 // tid.x + 256*%ctaid.x\n  exit");
    with_registers(Shape::exactly([256, 2, 1]), &narrow);
}

#[test]
fn widening_needs_a_condition_unless_ranges_prove_it() {
    with_registers(
        Shape::ANY,
        "  v7: b64 = cvt.u64.u32 v0            // tid.x
  v8: b32 = mad.u32{half:lo} v2, v3, v0 // tid.x + %ntid.x*%ctaid.x
  exit",
    );
    with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x4
  v8: b32 = add.u32 v0, v6              // tid.x + v6
  v9: b64 = cvt.u64.u32 v8              // tid.x + v6 if v8 in u32
  v10: b64 = cvt.s64.s32 v8             // tid.x + s32(v6) if v8 in s32
  v11: b64 = mul.u32{half:wide} v8, v7  // 4*tid.x + 4*v6 if v8 in u32
  v12: b64 = mad.s32{half:wide} v8, v7, v5 // 4*tid.x + v5 + 4*s32(v6) if v8 in s32
  v13: b64 = add.u64 v12, v9            // 5*tid.x + v5 + v6 + 4*s32(v6) if v8 in u32, v8 in s32
  v14: b32 = mad.u32{half:lo} v1, v3, v0 // tid.x + %ntid.x*tid.y
  v15: b64 = mul.s32{half:wide} v14, v7 // 4*tid.x + 4*%ntid.x*tid.y
  v16: b64 = cvt.u64.u32 v6             // launch
  v17: b32 = mul.u32{half:lo} v1, v6    // v6*tid.y
  v18: b64 = cvt.u64.u32 v17            // s32(v6)*tid.y if v17 in u32
  v19: b16 = cvt.u16.u32 v8             // tid.x + v6
  v20: b32 = cvt.u32.u16 v19            // tid.x + u16(v6) if v19 in u16
  v21: b64 = cvt.s64.s8 v8              // tid.x + s8(v6) if v8 in s8
  v22: b32 = cvt.u32.u64 v13            // 5*tid.x + v5 + v6 + 4*s32(v6) if v8 in u32, v8 in s32
  v23: b32 = cvt.u32.u64{sat} v13       // varying
  v24: b64 = mul.u32{half:wide} v8, v0  // varying
  v25: f32 = cvt.f32.u32{rn} v0 // varying
  v26: b64 = add.u64 v9, v5
  v27: b64 = sub.u64 v26, v9            // v5 if v8 in u32
  v28: b64 = mul.u64{half:lo} v27, v9   // v5*tid.x + v5*v6 if v8 in u32
  exit",
    );
}

#[test]
fn conditions_that_cannot_hold_make_values_vary() {
    let body = "  v7: b32 = const.b32 0xffffffff
  v8: b32 = add.u32 v0, v7              // tid.x - 1
  v9: b64 = cvt.u64.u32 v8              // varying
  v10: b64 = cvt.s64.s32 v8             // tid.x - 1
  v11: b32 = const.b32 0xfffffff0
  v12: b32 = add.u32 v0, v11            // tid.x - 16
  v13: b32 = sub.u32 v7, v0             // -tid.x - 1
  v14: b64 = cvt.u64.u32 v13            // -tid.x + 4294967295
  exit";
    with_registers(Shape::ANY, body);
    // The last of 32 threads has the greatest 8-bit number, and a 33rd thread wraps.
    let body = |number: &str, class: &str| {
        format!(
            "  v7: b32 = const.b32 {number}
  v8: b32 = add.u32 v0, v7
  v9: b32 = cvt.u32.u8 v8               // {class}
  exit"
        )
    };
    with_registers(Shape::ANY, &body("0xe0", "tid.x + 224 if v8 in u8"));
    with_registers(Shape::ANY, &body("0xe1", "varying"));
    with_registers(Shape::exactly([32, 2, 1]), &body("0xe0", "tid.x + 224"));
    with_registers(Shape::exactly([33, 2, 1]), &body("0xe0", "varying"));
}

#[test]
fn addresses() {
    with_registers(
        Shape::ANY,
        "  v7: b64 = cvt.u64.u32 v0
  v8: b64 = add.u64 v5, v7              // tid.x + v5
  v9: b64 = cvta.u64{space:global mode:to} v8 // tid.x + v5
  v10: b64 = cvta.u64{space:shared} v7  // tid.x + base(v10)
  v11: b64 = cvta.u64{space:shared} v8  // tid.x + base(v11) if v8 in u32
  v12: b64 = cvta.u64{space:shared mode:to} v11 // tid.x + base(v12) if v8 in u32
  v13: b64 = cvta.u64{space:local} v7   // varying
  v14: b64 = cvta.u64{space:shared} v5  // cta
  v15: f32 = ld.f32{space:global} v5    // varying, in a warp warp
  v16: f32 = ld.f32{space:global nc} v5 // launch
  v17: f32 = ld.f32{space:global nc} v8 // varying
  exit",
    );
}

#[test]
fn selections() {
    with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x7
  v8: pred = setp.u32{cmp:lt} v2, v7        // cta
  v9: pred = setp.u32{cmp:lt} v0, v7        // tid.x <u 7
  v10: b32 = add.u32 v0, v7             // tid.x + 7
  v11: b32 = add.u32 v10, v0            // 2*tid.x + 7
  v12: b32 = selp.b32 v0, v10, v8       // tid.x + base(v12)
  v13: b32 = selp.b32 v0, v11, v8       // varying
  v14: b32 = selp.b32 v0, v10, v9       // varying
  v15: b32 = selp.b32 v2, v7, v8        // cta
  v16: b32 = slct.s32.s32 v0, v10, v2   // tid.x + base(v16)
  v17: b32 = slct.s32.s32 v0, v10, v0   // varying
  v18: b32 = min.s32 v10, v6            // tid.x + 7 if v10 in s32 <= v6
  v19: b32 = max.u32 v6, v10            // tid.x + 7 if v10 in u32 >= v6
  v20: b32 = max.u32 v0, v10            // varying
  v21: b32 = sub.u32 v12, v10           // cta
  exit",
    );
}

#[test]
fn guards() {
    with_registers(
        Shape::ANY,
        "  v7: b32 = mad.s32{half:lo} v2, v3, v0 // tid.x + %ntid.x*%ctaid.x
  v8: pred = setp.s32{cmp:lt} v7, v6        // tid.x + %ntid.x*%ctaid.x <s v6 if v7 in s32
  v9: pred = setp.s32{cmp:hs} v7, v6        // tid.x + %ntid.x*%ctaid.x >=u v6 if v7 in u32
  v10: pred = setp.u32{cmp:gt} v6, v1       // tid.y <u v6
  v11: pred = not.pred v8               // tid.x + %ntid.x*%ctaid.x >=s v6 if v7 in s32
  v12: pred = and.pred v8, v10          // tid.x + %ntid.x*%ctaid.x <s v6 and tid.y <u v6 if v7 in s32
  v13: pred = or.pred v8, v10           // not (tid.x + %ntid.x*%ctaid.x >=s v6 and tid.y >=u v6) if v7 in s32
  v14: pred = and.pred v12, v13         // varying
  v15: pred = setp.u32{cmp:eq} v0, v1       // tid.x - tid.y ==u 0
  v16: pred = setp.u32{cmp:lt} v0, v1       // varying
  v17: pred = setp.u32{cmp:lt} v2, v6       // cta
  v18: pred = setp.u32{cmp:ne bool:and} v7, v6, v17 // tid.x + %ntid.x*%ctaid.x !=u v6 and v17
  v19: pred, v20: pred = setp.u32{cmp:ge bool:or} v1, v6, v17 // not (tid.y <u v6 and not v17); not (tid.y >=u v6 and not v17)
  v21: b32 = add.u32 v7, v6             // tid.x + %ntid.x*%ctaid.x + v6
  v22: pred = setp.u32{cmp:eq} v21, v7      // cta
  v23: pred = setp.u32{cmp:lt} v21, v7      // varying
  v24: pred = setp.u32{cmp:lt bool:xor} v1, v6, v17 // varying, in a warp warp
  v25: b64 = cvt.u64.u32 v7
  v26: b64 = cvt.u64.u32 v6
  v28: b64 = cvt.u64.u32 v21
  v29: pred = setp.u64{cmp:eq} v25, v28 // u32(%ntid.x*%ctaid.x) - u32(%ntid.x*%ctaid.x + v6) ==u 0 if v7 in u32, v21 in u32
  v27: pred = setp.u64{cmp:le} v25, v26     // tid.x + u32(%ntid.x*%ctaid.x) <=u v6 if v7 in u32
  exit",
    );
}

#[test]
fn signs_of_bitwise_combinations() {
    with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x0
  v8: b32 = const.b32 0xffffffff
  v9: b32 = add.u32 v0, v6
  v10: b32 = sub.u32 v1, v2
  v11: b32 = or.b32 v9, v10             // varying
  v12: b32 = and.b32 v11, v9            // varying
  v13: pred = setp.s32{cmp:lt} v11, v7  // not (tid.x + v6 >=s 0 and tid.y - %ctaid.x >=s 0) if v9 in s32, v10 in s32
  v14: pred = setp.s32{cmp:gt} v11, v8  // tid.x + v6 >=s 0 and tid.y - %ctaid.x >=s 0 if v9 in s32, v10 in s32
  v15: pred = setp.s32{cmp:ge} v11, v7  // tid.x + v6 >=s 0 and tid.y - %ctaid.x >=s 0 if v9 in s32, v10 in s32
  v16: pred = setp.s32{cmp:le} v11, v8  // not (tid.x + v6 >=s 0 and tid.y - %ctaid.x >=s 0) if v9 in s32, v10 in s32
  v17: pred = setp.s32{cmp:lt} v12, v7  // varying
  v18: pred = setp.u32{cmp:lt} v11, v7  // varying
  v19: pred = setp.s32{cmp:lt} v11, v8  // varying
  v20: b32 = and.b32 v9, v10
  v21: pred = setp.s32{cmp:lt} v20, v7  // tid.x + v6 <s 0 and tid.y - %ctaid.x <s 0 if v9 in s32, v10 in s32
  exit",
    );
}

#[test]
fn loops() {
    with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x0
  jump block1(v7, v0, v0, v0)
block1(v10: b32, v11: b32, v12: b32, v13: b32): // launch; tid.x + base(v11); varying, in a warp affine 1; tid.x
  v14: pred = setp.u32{cmp:lt} v10, v6      // launch
  brif v14, block2, block3              // launch
block2:
  v15: b32 = add.u32 v10, v3            // launch
  v16: b32 = add.u32 v11, v3            // tid.x + %ntid.x + base(v11)
  v17: b32 = add.u32 v12, v1            // varying, in a warp affine 1
  jump block1(v15, v16, v17, v13)
block3:
  v20: b32 = add.u32 v11, v10           // tid.x + v10 + base(v11)
  exit",
    );
}

#[test]
fn numbers_that_a_loop_computes_again_are_not_kept() {
    // The coefficient of v11 in the second iteration is the number v12 of the first iteration.
    with_registers(
        Shape::ANY,
        "  v7: b32 = mul.u32{half:lo} v0, v6
  jump block1(v6, v7, v0)
block1(v10: b32, v11: b32, v12: b32):  // launch; varying; tid.x + base(v12)
  v13: b32 = mul.u32{half:lo} v0, v10   // v10*tid.x
  v14: b32 = add.u32 v0, v10            // tid.x + v10
  v15: b32 = add.u32 v10, v3
  v16: pred = setp.u32{cmp:lt} v15, v6      // launch
  brif v16, block1(v15, v13, v14), block2
block2:
  v20: b32 = add.u32 v14, v13           // (v10 + 1)*tid.x + v10
  exit",
    );
}

#[test]
fn a_loop_that_threads_leave_in_different_iterations() {
    with_registers(
        Shape::ANY,
        "  jump block1(v0, v6)
block1(v10: b32, v11: b32):            // tid.x + base(v10); launch
  v12: b32 = add.u32 v10, v3            // tid.x + %ntid.x + base(v10)
  v13: b32 = add.u32 v11, v3            // launch
  v14: pred = setp.u32{cmp:lt} v12, v6  // tid.x + %ntid.x + base(v10) <u v6 if v12 in u32
  brif v14, block1(v12, v13), block2(v12, v13, v0) // varying
block2(v15: b32, v16: b32, v17: b32):  // varying; varying; tid.x
  v20: b32 = add.u32 v12, v3            // varying
  v21: b32 = add.u32 v13, v3            // varying
  v22: b32 = add.u32 v0, v3             // tid.x + %ntid.x
  v23: pred = not.pred v14              // varying
  exit",
    );
    // Here, the difference of two affine values decides, and all threads leave in the same iteration.
    with_registers(
        Shape::ANY,
        "  v7: b32 = mad.u32{half:lo} v3, v6, v0
  jump block1(v0)
block1(v10: b32):                       // tid.x + base(v10)
  v12: b32 = add.u32 v10, v3            // tid.x + %ntid.x + base(v10)
  v14: pred = setp.u32{cmp:ne} v12, v7  // cta
  brif v14, block1(v12), block2         // cta
block2:
  v20: b32 = add.u32 v12, v3            // tid.x + 2*%ntid.x + base(v10)
  exit",
    );
}

#[test]
fn joins() {
    let body = |condition: &str, class: &str| {
        format!(
            "  v7: b32 = const.b32 0x5
  v8: pred = setp.u32{{cmp:lt}} {condition}, v6
  v9: b32 = add.u32 v0, v7
  brif v8, block1, block2
block1:
  v10: b32 = add.u32 v1, v7             // tid.y + 5
  jump block3(v0, v0)
block2:
  jump block3(v9, v1)
block3(v11: b32, v12: b32):             // {class}
  exit"
        )
    };
    with_registers(Shape::ANY, &body("v2", "tid.x + base(v11); varying"));
    with_registers(Shape::ANY, &body("v0", "varying; varying"));
}

#[test]
fn conditions_outlive_joins() {
    let body = |class: &str, sum: &str| {
        format!(
            "  v7: b32 = add.u32 v0, v2
  v8: b64 = cvt.u64.u32 v7              // tid.x + %ctaid.x if v7 in u32
  v9: b64 = cvt.u64.u32 v0              // tid.x
  v10: pred = setp.u32{{cmp:lt}} v2, v6
  v13: b32 = add.u32 v0, v6
  brif v10, block1(v8), block1(v9)
block1(v11: b64):                       // {class}
  v12: pred = setp.u32{{cmp:lt}} v3, v6
  v14: b32 = add.u32 v13, v3
  v15: b64 = cvt.u64.u32 v13            // tid.x + v6 if v13 in u32
  v16: b64 = cvt.u64.u32 v14            // tid.x + u32(%ntid.x + v6) if v14 in u32
  brif v12, block1({sum}), block2
block2:
  exit"
        )
    };
    let base = "tid.x + base(v11)";
    with_registers(Shape::ANY, &body(&format!("{base} if v7 in u32"), "v11"));
    with_registers(
        Shape::ANY,
        &body(&format!("{base} if v7 in u32, v13 in u32"), "v15"),
    );
    // The condition on v14 would be about the number of the next iteration.
    with_registers(Shape::ANY, &body("varying", "v16"));
}

#[test]
fn shapes() {
    let shape = |text: &str| {
        let text = format!("kernel @k {{\n  parameters 0\n{text}block0:\n  exit\n}}");
        let shape = Shape::of(&parse::function(&text).unwrap());
        (shape.known(), shape.most())
    };
    assert_eq!(shape(""), (None, [1024, 1024, 64]));
    assert_eq!(shape("  reqntid 64 2 1\n"), (Some([64, 2, 1]), [64, 2, 1]));
    // The product is the limit, along each axis.
    assert_eq!(shape("  maxntid 16 8 1\n"), (None, [128, 128, 64]));
}

/// A kernel with a barrier in a loop, after the pass that splits blocks.
fn with_barrier(counter: &str) -> (Function, Coordinates, Block) {
    let text = format!(
        "{REGISTERS}  v7: b32 = const.b32 0x0
  v8: b32 = mad.u32{{half:lo}} v2, v3, v0
  v9: b64 = mad.u32{{half:wide}} v8, v3, v5
  jump block1({counter}, v0)
block1(v10: b32, v11: b32):
  v12: b32 = add.u32 v10, v3
  v13: b32 = mad.u32{{half:lo}} v10, v10, v11
  v14: b32 = mul.u32{{half:lo}} v11, v11
  jump block2
block2:
  bar.u32{{mode:sync}} v7, v7
  jump block3
block3:
  st.u32{{space:global}} v9, v14
  v15: pred = setp.u32{{cmp:lt}} v12, v6
  brif v15, block1(v12, v13), block4
block4:
  exit"
    );
    let (function, coordinates) = check(Shape::ANY, &text);
    (function, coordinates, Block(3))
}

#[test]
fn values_are_recomputed_after_a_barrier() {
    let (function, coordinates, block) = with_barrier("v7");
    assert!(coordinates.is_converged(block));
    let regions = Regions::new(&function, &Cfg::new(&function));
    assert_eq!(regions.resume_points[1].block, block);
    let recipe = |value: u32| coordinates.recomputable(&function, Value(value), block);
    let needs =
        |value: u32| recipe(value).map(|recipe| (recipe.steps.len(), recipe.needs.to_vec()));
    // The parameters, `%ctaid` and `%ntid` can be computed anywhere.
    assert_eq!(needs(9), Some((0, vec![])));
    assert_eq!(needs(10), Some((0, vec![Factor::Value(Value(10))])));
    let both = vec![Factor::Value(Value(10)), Factor::Base(Value(11))];
    assert_eq!(needs(13), Some((0, both)));
    assert_eq!(needs(14), Some((1, vec![Factor::Base(Value(11))])));
}

#[test]
fn recipes_have_few_cheap_steps() {
    let (function, coordinates) = with_registers(
        Shape::ANY,
        "  v19: b32 = ld.u32{space:global nc} v5 // launch
  v7: b32 = add.u32 v0, v19             // tid.x + v19
  v8: b32 = and.b32 v7, v19
  v9: b32 = min.s32 v7, v2              // tid.x + v19 if v7 in s32 <= v2
  v10: pred = setp.s32{cmp:lt} v8, v9
  v11: b32 = div.u32 v7, v6
  v12: b32 = ld.u32{space:global} v5
  v13: b32 = xor.b32 v12, v7
  v14: b32 = xor.b32 v8, v7
  v15: b32 = shr.u32 v14, v19
  v16: b32 = or.b32 v15, v8
  v17: b32 = or.b32 v16, v15
  v18: f32 = cvt.f32.u32{rn} v7
  jump block1
block1:
  st.u32{space:global} v5, v17
  exit",
    );
    let regions = Regions::new(&function, &Cfg::new(&function));
    let recipe = |value: u32| {
        assert!(!regions.is_rematerialised(Value(value)));
        let recipe = coordinates.recomputable(&function, Value(value), Block(1))?;
        Some((recipe.steps.len(), recipe.needs.to_vec()))
    };
    let need = vec![Factor::Value(Value(19))];
    assert_eq!(recipe(7), Some((0, need.clone())));
    // A minimum is computed, because its condition may fail.
    assert_eq!(recipe(9), Some((1, need.clone())));
    assert_eq!(recipe(10), Some((3, need.clone())));
    // A division, loads, and conversions to floating-point numbers are not cheap.
    assert_eq!([11, 12, 13, 18].map(recipe), [None, None, None, None]);
    assert_eq!(recipe(16), Some((4, need)));
    assert_eq!(recipe(17), None);
}

#[test]
fn values_of_diverged_loops_are_not_recomputed() {
    let (function, coordinates, block) = with_barrier("v0");
    // Threads wait at the barrier in the same iteration, because each iteration has one; but in an inner loop this is
    // not certain.
    assert!(coordinates.is_converged(block));
    assert!(matches!(coordinates.class(Value(10)), CtaClass::Affine(_)));
    assert!(
        coordinates
            .recomputable(&function, Value(10), block)
            .is_some()
    );
    let (function, coordinates) = with_registers(
        Shape::ANY,
        "  v7: b32 = const.b32 0x0
  jump block1(v7)
block1(v10: b32):
  v11: b32 = add.u32 v10, v3
  jump block2(v7)
block2(v12: b32):
  v13: b32 = add.u32 v12, v3            // launch
  v14: b32 = add.u32 v11, v0
  v15: b32 = add.u32 v3, v0
  jump block3
block3:
  v16: pred = setp.u32{cmp:lt} v13, v0
  brif v16, block2(v13), block4
block4:
  v17: pred = setp.u32{cmp:lt} v11, v6
  brif v17, block1(v11), block5
block5:
  exit",
    );
    // In block 3, threads that have come as often may be in different iterations of the outer loop.
    let inner = |value: u32| coordinates.recomputable(&function, Value(value), Block(3));
    assert!(!coordinates.is_converged(Block(3)));
    assert_eq!(inner(14), None);
    assert_eq!(inner(13), None);
    assert!(inner(15).is_some());
    // Block 4 is outside of the inner loop.
    assert!(coordinates.is_converged(Block(4)));
    let outer = |value: u32| coordinates.recomputable(&function, Value(value), Block(4));
    assert_eq!(outer(13), None);
    assert!(outer(11).is_some());
}

#[test]
fn tests_of_predicates() {
    let (_, coordinates) = with_registers(
        Shape::ANY,
        "  v7: pred = setp.u32{cmp:lt} v2, v6
  v8: pred = not.pred v7                // cta
  v9: pred = setp.u32{cmp:lt bool:and} v0, v6, v8
  exit",
    );
    let predicate = coordinates.predicate(Value(9)).unwrap();
    let [Test::Guard(guard), Test::Uniform { value, expected }] = predicate.all.as_slice() else {
        panic!("{predicate:?}");
    };
    assert_eq!((*value, *expected), (Value(8), true));
    assert_eq!(guard.form.only_axis(), Some(0));
    assert_eq!(coordinates.predicate(Value(8)), None);
}
