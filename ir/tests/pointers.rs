//! Tests which accesses the analysis [`Pointers`] proves to be in the range of device memory or in
//! the inaccessible margins on both sides of this range. All pointer parameters point to device
//! memory.

use margay_ir::analysis::Pointers;
use margay_ir::function::Function;
use margay_ir::parse;
use margay_ops::ops::Opcode;

/// Returns a kernel with two pointers, `v0` at parameter offset 0 and `v1` at offset 8, the 64-bit integer `v2` at
/// offset 16 and the 32-bit integer `v3` at offset 24.
fn kernel(body: &str) -> Function {
    let text = format!(
        "kernel @k {{\n  parameters 28
  parameter @a offset 0 size 8 align 8
  parameter @b offset 8 size 8 align 8
  parameter @n offset 16 size 8 align 8
  parameter @m offset 24 size 4 align 4
block0:
  v900: b64 = param.addr.u64 0
  v0: b64 = ld.b64{{space:param}} v900
  v901: b64 = param.addr.u64 8
  v1: b64 = ld.b64{{space:param}} v901
  v902: b64 = param.addr.u64 16
  v2: b64 = ld.b64{{space:param}} v902
  v903: b64 = param.addr.u64 24
  v3: b32 = ld.b32{{space:param}} v903
{body}\n}}"
    );
    parse::function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns two lists: for each access to global memory, whether the analysis proves it to be in device memory or its
/// margins; and the offsets of the parameters from which the addresses are computed.
fn known(body: &str) -> (Vec<bool>, Vec<u32>) {
    let function = kernel(body);
    let pointers = Pointers::new(&function);
    let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    let accesses = insts.filter(|&&inst| {
        let data = &function.dfg.insts[inst];
        let global = data.mods.space() == margay_ops::mods::StateSpace::Global;
        matches!(data.opcode, Opcode::Ld | Opcode::St) && global
    });
    let held = accesses.map(|&inst| pointers.holds(inst));
    (held.collect(), pointers.params().to_vec())
}

/// Returns the result of [`known`] for a loop whose block parameter `v10` starts with the value
/// `first`. After `access`, the body of the loop moves `v10` by `step`.
fn moving_loop(setup: &str, first: &str, access: &str, step: &str) -> (Vec<bool>, Vec<u32>) {
    known(&format!(
        "{setup}
  jump block1({first}, v3)
block1(v10: b64, v11: b32):
{access}
  jump block2
block2:
  v13: b64 = add.s64 v10, {step}
  v14: b32 = const.b32 0x1
  v15: b32 = sub.u32 v11, v14
  v16: pred = setp.s32{{cmp:ne}} v15, v14
  brif v16, block1(v13, v15), block3
block3:
  ret"
    ))
}

/// Returns the result of [`moving_loop`] for a loop whose block parameter `v10` starts with the
/// pointer `v0`.
fn pointer_loop(setup: &str, access: &str, step: &str) -> (Vec<bool>, Vec<u32>) {
    moving_loop(setup, "v0", access, step)
}

const STEP: &str = "  v5: b64 = const.b64 0x400";
const ACCESS: &str = "  v12: b32 = ld.b32{space:global} v10";

#[test]
fn a_parameter_and_a_bounded_offset() {
    let body = "  v10: b64 = mul.u32{half:wide} v3, v3
  v11: b64 = const.b64 0xffffffff
  v12: b64 = and.b64 v10, v11
  v13: b64 = add.s64 v0, v12
  v14: b32 = ld.b32{space:global} v13
  v15: b64 = add.s64 v1, v2
  st.b32{space:global} v15, v14
  ret";
    // Either parameter could be the root of their sum, so the sum has no root that is a pointer.
    assert_eq!(known(body), (vec![true, false], vec![0]));
}

#[test]
fn a_pointer_that_a_loop_moves() {
    let found = pointer_loop(STEP, ACCESS, "v5");
    assert_eq!(found, (vec![true], vec![0]));
}

#[test]
fn an_access_of_some_turns_stops_no_pointer() {
    let access = "  v20: b32 = const.b32 0x7
  v21: pred = setp.s32{cmp:lt} v11, v20
  brif v21, block4, block5
block4:
  v12: b32 = ld.b32{space:global} v10
  jump block5
block5:";
    assert_eq!(pointer_loop(STEP, access, "v5").0, [false]);
    // If one of the accesses runs in every iteration, both accesses are proved.
    let both = format!("  v22: b32 = ld.b32{{space:global}} v10\n{access}");
    assert_eq!(pointer_loop(STEP, &both, "v5").0, [true, true]);
}

#[test]
fn steps_have_a_bound() {
    // A step that is a 64-bit integer has no bound; a 32-bit integer times four has one.
    assert_eq!(pointer_loop("", ACCESS, "v2").0, [false]);
    let narrow = "  v6: b32 = const.b32 0x4\n  v5: b64 = mul.s32{half:wide} v3, v6";
    assert_eq!(pointer_loop(narrow, ACCESS, "v5").0, [true]);
    // A 32-bit integer times 2^10 can be almost 2^41, which exceeds the margins.
    let wide = "  v6: b32 = const.b32 0x400\n  v5: b64 = mul.s32{half:wide} v3, v6";
    assert_eq!(pointer_loop(wide, ACCESS, "v5").0, [false]);
}

#[test]
fn accesses_far_away_stop_no_pointer() {
    let access = "  v20: b64 = const.b64 0x2000000000
  v21: b64 = add.s64 v10, v20
  v12: b32 = ld.b32{space:global} v21";
    assert_eq!(pointer_loop(STEP, access, "v5").0, [false]);
    let access = access.replace("0x2000000000", "0x20000000");
    assert_eq!(pointer_loop(STEP, &access, "v5").0, [true]);
}

#[test]
fn accesses_of_shared_memory_stop_no_pointer() {
    let access = "  v12: b32 = ld.b32{space:shared} v10";
    let behind = "  v12: b32 = ld.b32{space:shared} v10\n  v22: b32 = ld.b32{space:global} v10";
    assert_eq!(pointer_loop(STEP, access, "v5").0, [false; 0]);
    assert_eq!(pointer_loop(STEP, behind, "v5").0, [true]);
}

/// Checks two nested loops. The outer loop continues with the pointer at which the inner loop ended.
#[test]
fn loops_in_loops() {
    let body = |inner: &str| {
        format!(
            "  v5: b64 = const.b64 0x400
  v6: b32 = const.b32 0x1
  jump block1(v1, v3)
block1(v10: b64, v11: b32):
  jump block2(v10, v11)
block2(v12: b64, v13: b32):
{inner}
  v15: b64 = add.s64 v12, v5
  v16: b32 = sub.u32 v13, v6
  v17: pred = setp.s32{{cmp:ne}} v16, v6
  brif v17, block2(v15, v16), block3
block3:
  v18: b32 = sub.u32 v11, v6
  v19: pred = setp.s32{{cmp:ne}} v18, v6
  brif v19, block1(v15, v18), block4
block4:
  st.b32{{space:global}} v15, v6
  ret"
        )
    };
    let access = "  v14: b32 = ld.b32{space:global} v12";
    assert_eq!(known(&body(access)), (vec![true, true], vec![8]));
    assert_eq!(known(&body("")).0, [false]);
}

/// Checks loops in which the next iteration can also start with another pointer, or with a value that is not a pointer.
#[test]
fn all_that_is_passed_counts() {
    let body = |other: &str| {
        format!(
            "  v6: b32 = const.b32 0x1
  jump block1(v0, v3)
block1(v10: b64, v11: b32):
  v12: b32 = ld.b32{{space:global}} v10
  v15: b64 = ld.b64{{space:global}} v0
  v16: b32 = sub.u32 v11, v6
  v17: pred = setp.s32{{cmp:ne}} v16, v6
  brif v17, block1({other}, v16), block2
block2:
  ret"
        )
    };
    assert_eq!(known(&body("v1")), (vec![true, true], vec![0, 8]));
    assert_eq!(known(&body("v15")).0, [false, true]);
}

/// Returns the result of [`known`] for a loop over a counter whose start value `v4` is computed by
/// `start`. The access in the loop uses the address `v30`, which `address` computes.
fn counter_loop(start: &str, address: &str, step: &str) -> (Vec<bool>, Vec<u32>) {
    let access = format!("{address}\n  v12: b32 = ld.b32{{space:global}} v30");
    moving_loop(start, "v4", &access, step)
}

const START: &str = "  v4: b64 = const.b64 0x0\n  v5: b64 = const.b64 0x400";

#[test]
fn a_pointer_and_a_counter() {
    let plain = "  v30: b64 = add.s64 v1, v10";
    assert_eq!(counter_loop(START, plain, "v5"), (vec![true], vec![8]));
    let turned = "  v30: b64 = add.s64 v10, v1";
    assert_eq!(counter_loop(START, turned, "v5"), (vec![true], vec![8]));
    let scaled =
        "  v29: b32 = const.b32 0x3\n  v31: b64 = shl.b64 v10, v29\n  v30: b64 = add.s64 v1, v31";
    assert_eq!(counter_loop(START, scaled, "v5"), (vec![true], vec![8]));
    // The high half of a product is not a multiple of the counter.
    let product = |half: &str| {
        format!("  v31: b64 = mul.s64{{half:{half}}} v10, v5\n  v30: b64 = add.s64 v1, v31")
    };
    assert_eq!(counter_loop(START, &product("lo"), "v5").0, [true]);
    assert_eq!(counter_loop(START, &product("hi"), "v5").0, [false]);
    // The counter starts from values below 2^32. The counter is multiplied by 8 in the first case and by 2^20 in the
    // second.
    let start = "  v4: b64 = cvt.u64.u32 v3\n  v5: b64 = const.b64 0x400";
    assert_eq!(counter_loop(start, scaled, "v5").0, [true]);
    let far = scaled.replace("0x3", "0x14");
    assert_eq!(counter_loop(start, &far, "v5").0, [false]);
    // A step without a bound, then a start value without a bound.
    assert_eq!(counter_loop(START, plain, "v2").0, [false]);
    let start = "  v4: b64 = add.s64 v2, v2\n  v5: b64 = const.b64 0x400";
    assert_eq!(counter_loop(start, plain, "v5").0, [false]);
    // A base that is not a pointer.
    let base = "  v30: b64 = add.s64 v1, v10";
    let start = "  v4: b64 = const.b64 0x0\n  v5: b64 = const.b64 0x400\n  v1000: b64 = ld.b64{space:global} v0";
    assert_eq!(counter_loop(start, base, "v5").0, [true, true]);
    let base = "  v30: b64 = add.s64 v1000, v10";
    assert_eq!(counter_loop(start, base, "v5").0, [true, false]);
}

/// Checks two properties. An access in every iteration of a loop lets the analysis prove only
/// accesses with the same base. The analysis does not prove accesses whose base changes in the
/// loop.
#[test]
fn a_counter_counts_for_its_base() {
    let two = "  v30: b64 = add.s64 v1, v10
  v31: b64 = add.s64 v0, v10
  v32: pred = setp.s32{cmp:ne} v11, v3
  brif v32, block4, block5
block4:
  v33: b32 = ld.b32{space:global} v31
  jump block5
block5:";
    let (known_ones, params) = counter_loop(START, two, "v5");
    assert_eq!((known_ones, params), (vec![false, true], vec![0, 8]));
    let changing = known(
        "  v4: b64 = const.b64 0x0
  v5: b64 = const.b64 0x400
  v6: b32 = const.b32 0x1
  jump block1(v4, v1, v3)
block1(v10: b64, v20: b64, v11: b32):
  v21: b32 = ld.b32{space:global} v20
  v30: b64 = add.s64 v20, v10
  v12: b32 = ld.b32{space:global} v30
  v13: b64 = add.s64 v10, v5
  v22: b64 = add.s64 v20, v5
  v15: b32 = sub.u32 v11, v6
  v16: pred = setp.s32{cmp:ne} v15, v6
  brif v16, block1(v13, v22, v15), block3
block3:
  ret",
    );
    assert_eq!(changing.0, [true, false]);
}

/// Checks counters that start with the index of a thread in the grid, as a 64-bit integer, and whose step is the size
/// of the grid.
#[test]
fn indices_of_64_bits() {
    let start = "  v200: b32 = sreg.u32 %ctaid.x
  v201: b32 = sreg.u32 %ntid.x
  v202: b32 = sreg.u32 %tid.x
  v203: b32 = sreg.u32 %nctaid.x
  v204: b64 = mul.u32{half:wide} v200, v201
  v205: b64 = cvt.u64.u32 v202
  v4: b64 = add.s64 v204, v205
  v5: b64 = mul.u32{half:wide} v203, v201";
    let scaled = |by: u32| {
        format!(
            "  v29: b32 = const.b32 {by:#x}\n  v31: b64 = shl.b64 v10, v29\n  v30: b64 = add.s64 v1, v31"
        )
    };
    assert_eq!(counter_loop(start, &scaled(2), "v5"), (vec![true], vec![8]));
    assert_eq!(counter_loop(start, &scaled(5), "v5").0, [false]);
}
