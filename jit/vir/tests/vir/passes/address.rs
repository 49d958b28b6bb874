//! `address`: displacements, pointers, and gathers of affine offsets.

use super::after;

/// Returns the instructions of a function with one block after `address` and `dead`.
fn body(params: &str, text: &str) -> Vec<String> {
    let list: Vec<String> = params
        .split(", ")
        .enumerate()
        .map(|(n, ty)| format!("v{n}: {ty}"))
        .collect();
    let lines: Vec<&str> = text.split('|').map(str::trim).collect();
    let text = format!(
        "func @f({params}) -> () {{\nblock0({}):\n  {}\n  ret\n}}\n",
        list.join(", "),
        lines.join("\n  ")
    );
    let text = after("address dead", &text);
    let lines: Vec<&str> = text.lines().collect();
    let body = lines[2..lines.len() - 2].iter();
    body.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn constants_become_displacements() {
    let examples = [
        (
            "b64",
            "v5: b64 = const.b64{0x40} | v6: b64 = map.b64{add.u64} v0, v5 | v7: f32x4 = load.f32x4{f32 4 -4} v6",
            "v7: f32x4 = load.f32x4{f32 4 +60} v0",
        ),
        (
            "b64, b64",
            "v5: b64 = const.b64{0x40} | v6: b64 = map.b64{sub.u64} v0, v5 | v7: b64 = map.b64{add.u64} v6, v1 \
             | v8: b64 = map.b64{sub.s64} v7, v5 | v9: f32x4 = load.f32x4{f32 4} v8",
            "v10: b64 = map.b64{add.u64} v0, v1 | v9: f32x4 = load.f32x4{f32 4 -128} v10",
        ),
        // Constants behind a shift and a product.
        (
            "b64",
            "v4: b64 = const.b64{0x3} | v5: b64 = map.b64{add.u64} v0, v4 | v6: b32 = const.b32{0x2} \
             | v7: b64 = map.b64{shl.b64} v5, v6 | v8: b64 = map.b64{mul.u64{half:lo}} v7, v4 \
             | v9: f32x4 = load.f32x4{f32 4} v8",
            "v10: b64 = const.b64{0xc} | v11: b64 = map.b64{mul.u64} v0, v10 | v9: f32x4 = load.f32x4{f32 4 +36} v11",
        ),
        // The displacement has 32 bits.
        (
            "b64",
            "v5: b64 = const.b64{0x7ffffffc} | v6: b64 = map.b64{add.u64} v0, v5 | v7: f32x4 = load.f32x4{f32 4 +4} v6",
            "v5: b64 = const.b64{0x7ffffffc} | v6: b64 = map.b64{add.u64} v0, v5 | v7: f32x4 = load.f32x4{f32 4 +4} v6",
        ),
        // The sum of 32 bits may wrap before it is extended.
        (
            "b32",
            "v5: b32 = const.b32{0x4} | v6: b32 = map.b32{add.u32} v0, v5 | v7: b64 = map.b64{cvt.u64.u32} v6 \
             | v8: f32x4 = load.f32x4{f32 4} v7",
            "v5: b32 = const.b32{0x4} | v6: b32 = map.b32{add.u32} v0, v5 | v7: b64 = map.b64{cvt.u64.u32} v6 \
             | v8: f32x4 = load.f32x4{f32 4} v7",
        ),
    ];
    for (params, text, expected) in examples {
        assert_eq!(body(params, text).join(" | "), expected, "{text}");
    }
}

#[test]
fn gathers_of_affine_offsets_become_loads() {
    let examples = [
        // base + 4 * (v1 + 2 * lane + 5)
        (
            "b64, b64",
            "v5: b64x4 = affine.b64x4{2} v1 | v6: b64x4 = const.b64x4{0x5} | v7: b64x4 = map.b64x4{add.s64} v5, v6 \
             | v8: f32x4 = gather.f32x4{f32 4 +8} v0, v7",
            "v9: b32 = const.b32{0x2} | v10: b64 = map.b64{shl.b64} v1, v9 | v11: b64 = map.b64{add.u64} v0, v10 \
             | v8: f32x4 = load.f32x4{f32 8 +28} v11",
        ),
        (
            "b64, f32x4, predx4",
            "v5: b32 = const.b32{0xfffffffe} | v6: b32x4 = affine.b32x4{3} v5 | scatter.f32x4{f32 4} v0, v6, v1, v2",
            "store.f32x4{f32 12 -8} v0, v1, v2",
        ),
        // Offsets of 32 bits that wrap are not affine.
        (
            "b64, f32x4",
            "v5: b32 = const.b32{0x7ffffffe} | v6: b32x4 = affine.b32x4{1} v5 | scatter.f32x4{f32 4} v0, v6, v1",
            "v5: b32 = const.b32{0x7ffffffe} | v6: b32x4 = affine.b32x4{1} v5 | scatter.f32x4{f32 4} v0, v6, v1",
        ),
        (
            "b64, b32, f32x4",
            "v6: b32x4 = affine.b32x4{1} v1 | scatter.f32x4{f32 4} v0, v6, v2",
            "v6: b32x4 = affine.b32x4{1} v1 | scatter.f32x4{f32 4} v0, v6, v2",
        ),
        (
            "b64, b64, f32x4",
            "v6: b64x4 = splat.b64x4 v1 | v7: f32x4 = gather.f32x4{f32 1} v0, v6 | store.f32x4{f32 4} v0, v7",
            "v8: b64 = map.b64{add.u64} v0, v1 | v9: f32 = load.f32{f32 0} v8 | v10: f32x4 = splat.f32x4 v9 \
             | store.f32x4{f32 4} v0, v10",
        ),
        // base + 8 * (v2 - v1 + 3)
        (
            "b64, b64, b64x4, f32x4",
            "v5: b64x4 = map.b64x4{sub.s64} v2, v1 | v6: b64 = const.b64{0x3} | v7: b64x4 = map.b64x4{add.s64} v6, v5 \
             | scatter.f32x4{f32 8 -4} v0, v7, v3",
            "v8: b64 = const.b64{0xfffffffffffffff8} | v9: b64 = map.b64{mul.u64} v1, v8 \
             | v10: b64 = map.b64{add.u64} v0, v9 | scatter.f32x4{f32 8 +20} v10, v2, v3",
        ),
        (
            "b64, b32, b32x4, f32x4",
            "v5: b32x4 = map.b32x4{add.u32} v2, v1 | scatter.f32x4{f32 4} v0, v5, v3",
            "v5: b32x4 = map.b32x4{add.u32} v2, v1 | scatter.f32x4{f32 4} v0, v5, v3",
        ),
    ];
    for (params, text, expected) in examples {
        assert_eq!(body(params, text).join(" | "), expected, "{text}");
    }
}

#[test]
fn gathers_of_repeated_addresses_access_the_first_lanes() {
    let examples = [
        // base + v1 + 2 * (lane % 4) + 8
        (
            "b64, b64",
            "v3: b32 = const.b32{0x0} | v4: b32x8 = affine.b32x8{2} v3 | v5: b32x8 = const.b32x8{0x7} \
             | v6: b32x8 = map.b32x8{and.b32} v4, v5 | v7: b64x8 = map.b64x8{cvt.u64.u32} v6 \
             | v8: b64x8 = map.b64x8{add.u64} v7, v1 | v9: b16x8 = gather.b16x8{b16 1 +8} v0, v8  ; 5 \
             | store.b16x8{b16 2} v0, v9",
            "v11: b64 = map.b64{add.u64} v0, v1  ; 5 | v12: b16x4 = load.b16x4{b16 2 +8} v11  ; 5 \
             | v13: b16x8 = join.b16x8 v12, v12  ; 5 | store.b16x8{b16 2} v0, v13",
        ),
        // base + v1 + 4 * v2 * (lane % 4), and an operation on what is loaded
        (
            "b64, b64, b64",
            "v3: b32 = const.b32{0x0} | v4: b32x8 = affine.b32x8{1} v3 | v5: b32x8 = const.b32x8{0x3} \
             | v6: b32x8 = map.b32x8{and.b32} v4, v5 | v7: b64x8 = map.b64x8{cvt.u64.u32} v6 \
             | v8: b64x8 = map.b64x8{mul.u64} v7, v2 | v9: b64x8 = map.b64x8{add.u64} v1, v8 \
             | v10: b32x8 = gather.b32x8{b32 4} v0, v9  ; 5 | v11: b32x8 = map.b32x8{add.u32} v10, v3 \
             | store.b32x8{b32 4} v0, v11",
            "v3: b32 = const.b32{0x0} | v13: b32 = const.b32{0x2}  ; 5 | v14: b64 = map.b64{shl.b64} v1, v13  ; 5 \
             | v15: b64 = map.b64{add.u64} v0, v14  ; 5 | v16: b64 = const.b64{0x0}  ; 5 \
             | v17: b64x4 = affine.b64x4{4} v16  ; 5 | v18: b64x4 = map.b64x4{mul.u64} v17, v2  ; 5 \
             | v19: b32x4 = gather.b32x4{b32 1} v15, v18  ; 5 | v21: b32x4 = map.b32x4{add.u32} v19, v3 \
             | v22: b32x8 = join.b32x8 v21, v21 | store.b32x8{b32 4} v0, v22",
        ),
        // Lanes with a mask may run while those with the same address do not.
        (
            "b64, predx4",
            "v3: b32 = const.b32{0x0} | v4: b32x4 = affine.b32x4{1} v3 | v5: b32x4 = const.b32x4{0x1} \
             | v6: b32x4 = map.b32x4{and.b32} v4, v5 | v7: b64x4 = map.b64x4{cvt.u64.u32} v6 \
             | v9: b32x4 = gather.b32x4{b32 4} v0, v7, v1 | store.b32x4{b32 4} v0, v9",
            "v3: b32 = const.b32{0x0} | v4: b32x4 = affine.b32x4{1} v3 | v5: b32x4 = const.b32x4{0x1} \
             | v6: b32x4 = map.b32x4{and.b32} v4, v5 | v7: b64x4 = map.b64x4{cvt.u64.u32} v6 \
             | v9: b32x4 = gather.b32x4{b32 4} v0, v7, v1 | store.b32x4{b32 4} v0, v9",
        ),
        // base + v1 * (lane / 2 % 2): lane 2 does not repeat lane 0.
        (
            "b64, b64",
            "v3: b32 = const.b32{0x0} | v4: b32x8 = affine.b32x8{1} v3 | v5: b32x8 = const.b32x8{0x2} \
             | v6: b32x8 = map.b32x8{and.b32} v4, v5 | v7: b64x8 = map.b64x8{cvt.u64.u32} v6 \
             | v8: b64x8 = map.b64x8{mul.u64} v7, v1 | v9: b32x8 = gather.b32x8{b32 1} v0, v8 \
             | store.b32x8{b32 4} v0, v9",
            "v3: b32 = const.b32{0x0} | v4: b32x8 = affine.b32x8{1} v3 | v5: b32x8 = const.b32x8{0x2} \
             | v6: b32x8 = map.b32x8{and.b32} v4, v5 | v7: b64x8 = map.b64x8{cvt.u64.u32} v6 \
             | v8: b64x8 = map.b64x8{mul.u64} v7, v1 | v9: b32x8 = gather.b32x8{b32 1} v0, v8 \
             | store.b32x8{b32 4} v0, v9",
        ),
    ];
    for (params, text, expected) in examples {
        assert_eq!(body(params, text).join(" | "), expected, "{text}");
    }
}

#[test]
fn addresses_that_advance_become_pointers() {
    let text = "func @saxpy(b64, b64, f32, b64) -> () {
block0(v0: b64, v1: b64, v2: f32, v3: b64):
  v4: b64 = const.b64{0x0}
  jump block1(v4)
block1(v5: b64):
  v6: b32 = const.b32{0x2}
  v7: b64 = map.b64{shl.b64} v5, v6
  v8: b64 = map.b64{add.u64} v0, v7
  v9: b64 = map.b64{add.u64} v1, v7
  v10: f32x16 = load.f32x16{f32 4} v8  ; 1
  v11: f32x16 = load.f32x16{f32 4} v9  ; 2
  v12: f32x16 = map.f32x16{fma.f32{rn}} v2, v10, v11
  store.f32x16{f32 4} v9, v12  ; 3
  v13: b64 = const.b64{0x10}
  v14: b64 = map.b64{add.u64} v5, v13
  v15: pred = map.pred{setp.u64{cmp:lt}} v14, v3
  brif v15, block1(v14), block2
block2:
  ret
}
";
    let expected = "func @saxpy(b64, b64, f32, b64) -> () {
block0(v0: b64, v1: b64, v2: f32, v3: b64):
  v4: b64 = const.b64{0x0}
  jump block1(v4, v0, v1)
block1(v5: b64, v16: b64, v19: b64):
  v10: f32x16 = load.f32x16{f32 4} v16  ; 1
  v11: f32x16 = load.f32x16{f32 4} v19  ; 2
  v12: f32x16 = map.f32x16{fma.f32{rn}} v2, v10, v11
  store.f32x16{f32 4} v19, v12  ; 3
  v13: b64 = const.b64{0x10}
  v14: b64 = map.b64{add.u64} v5, v13
  v15: pred = map.pred{setp.u64{cmp:lt}} v14, v3
  v17: b64 = const.b64{0x40}
  v18: b64 = map.b64{add.u64} v16, v17
  v20: b64 = const.b64{0x40}
  v21: b64 = map.b64{add.u64} v19, v20
  brif v15, block1(v14, v18, v21), block2
block2:
  ret
}
";
    assert_eq!(after("address dead", text), expected);
}

#[test]
fn accesses_of_a_stencil_share_a_pointer() {
    // v1 * v4 + 4 * v5 + v0, where v5 and v4 advance together; the constants 4 and -4 become displacements.
    let text = "func @f(b64, b64, b64) -> (f32) {
block0(v0: b64, v1: b64, v2: b64):
  v3: f32 = const.f32{0x0}
  v4: b64 = const.b64{0x7}
  jump block1(v4, v3)
block1(v5: b64, v6: f32):
  v7: b64 = const.b64{0x4}
  v8: b64 = map.b64{mul.u64{half:lo}} v5, v7
  v9: b64 = map.b64{add.u64} v8, v7
  v10: b64 = map.b64{add.u64} v0, v9
  v11: b64 = map.b64{sub.u64} v8, v7
  v12: b64 = map.b64{add.u64} v11, v0
  v13: f32 = load.f32{f32 0} v10
  v14: f32 = load.f32{f32 0} v12
  v15: f32 = map.f32{add.f32{rn}} v13, v14
  v16: f32 = map.f32{add.f32{rn}} v15, v6
  v17: b64 = map.b64{sub.u64} v5, v1
  v18: pred = map.pred{setp.u64{cmp:lt}} v17, v2
  brif v18, block1(v17, v16), block2
block2:
  ret v16
}
";
    // The first address is v0 + 28; each iteration adds -4 * v1.
    let expected = "func @f(b64, b64, b64) -> (f32) {
block0(v0: b64, v1: b64, v2: b64):
  v3: f32 = const.f32{0x0}
  v4: b64 = const.b64{0x7}
  v23: b64 = const.b64{0x1c}
  v24: b64 = map.b64{add.u64} v0, v23
  jump block1(v4, v3, v24)
block1(v5: b64, v6: f32, v19: b64):
  v13: f32 = load.f32{f32 0 +4} v19
  v14: f32 = load.f32{f32 0 -4} v19
  v15: f32 = map.f32{add.f32{rn}} v13, v14
  v16: f32 = map.f32{add.f32{rn}} v15, v6
  v17: b64 = map.b64{sub.u64} v5, v1
  v18: pred = map.pred{setp.u64{cmp:lt}} v17, v2
  v20: b64 = const.b64{0xfffffffffffffffc}
  v21: b64 = map.b64{mul.u64} v1, v20
  v22: b64 = map.b64{add.u64} v19, v21
  brif v18, block1(v17, v16, v22), block2
block2:
  ret v16
}
";
    assert_eq!(after("address dead", text), expected);
}
