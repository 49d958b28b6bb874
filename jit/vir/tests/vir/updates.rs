//! `update`: its results, its rules in the verifier, and what passes may do around it.

use margay_ops::meaning::Bits;
use margay_vir::interpreter::{Cause, Fault};
use margay_vir::{parse, verify};

use crate::passes::after;
use crate::support::{BASE, Machine, result};

#[test]
fn lanes_update_memory_in_ascending_order() {
    let text = "func @f(b64, b32x4, b32x4, predx4) -> (b32x4, b32x4) {
block0(v0: b64, v1: b32x4, v2: b32x4, v3: predx4):
  v4: b32 = const.b32{0x7}
  v5: b32x4 = update.b32x4{atom.u32{op:add space:global}} v0, v1, v2, v3
  v6: b32x4 = update.b32x4{atom.b32{op:cas space:global}} v0, v1, v4, v2
  update.b32x4{red.b32{op:xor space:shared}} v0, v1, v4, v3
  ret v5, v6
}
";
    // The offset of lane 3 is unsigned, but the lane is not in the mask of the additions.
    let args: [&[Bits]; 4] = [
        &[Bits::from(BASE)],
        &[4, 0, 4, 4],
        &[1, 2, 3, 4],
        &[1, 1, 1, 0],
    ];
    let mut machine = Machine::new(vec![5, 0, 0, 0, 6, 0, 0, 0]);
    let lanes = result(text, &args, &mut machine).unwrap();
    assert_eq!(lanes[0].as_slice(), [6, 5, 7, 0]);
    // The words are 7 and 10; lane 1 replaces the first by its operand.
    assert_eq!(lanes[1].as_slice(), [10, 7, 10, 10]);
    // Lanes 0 and 2 change the second word twice.
    assert_eq!(machine.bytes, [5, 0, 0, 0, 10, 0, 0, 0]);
}

#[test]
fn updates_end_at_the_first_fault() {
    let text = "func @f(b64, b64x4, f32) -> () {
block0(v0: b64, v1: b64x4, v2: f32):
  update.f32x4{atom.f32{op:add space:shared}} v0, v1, v2  ; 5
  ret
}
";
    let args: [&[Bits]; 3] = [
        &[Bits::from(BASE)],
        &[0, 4, 1 << 40, 0],
        &[Bits::from(1f32.to_bits())],
    ];
    let mut machine = Machine::new(vec![0; 8]);
    let cause = Cause::Memory {
        address: BASE + (1 << 40),
        bytes: 4,
    };
    let fault = result(text, &args, &mut machine).unwrap_err();
    let expected = Fault {
        place: 5,
        lane: 2,
        cause,
    };
    assert_eq!(fault, expected);
    assert_eq!(machine.bytes, [0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f]);
}

const VALID: &str = "func @f(b64, b32x4, b32x4, predx4) -> () {
block0(v0: b64, v1: b32x4, v2: b32x4, v3: predx4):
  v4: b32x4 = update.b32x4{atom.u32{op:add space:global}} v0, v1, v2, v3
  ret
}
";

#[test]
fn wrong_updates_have_one_problem() {
    assert!(verify::function(&parse::function(VALID).unwrap()).is_empty());
    let examples = [
        (
            "v1, v2, v3",
            "v1, v2, v2",
            "inst0: has operands of other types",
        ),
        (
            "v1, v2, v3",
            "v1, v2, v3, v3",
            "inst0: has operands of other types",
        ),
        ("v1, v2, v3", "v1", "inst0: has too few operands"),
        ("v0, v1", "v1, v1", "inst0: operand 0 is b32x4"),
        ("op:add", "op:cas", "inst0: has operands of other types"),
        (
            "atom.u32{op:add",
            "atom.u64{op:add",
            "inst0: `atom` is no update of Some(b32x4)",
        ),
        (
            "atom.u32{op:add",
            "atom.f16x2{op:add",
            "inst0: `atom` is no update of Some(b32x4)",
        ),
        (
            "atom.u32{op:add space:global}",
            "add.u32",
            "inst0: `add` is no update of Some(b32x4)",
        ),
    ];
    for (from, to, expected) in examples {
        let function = parse::function(&VALID.replace(from, to)).unwrap();
        let problems = verify::function(&function);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, [expected], "{to}");
    }
}

#[test]
fn a_mask_of_all_lanes_is_dropped_and_without_lanes_nothing_is_updated() {
    let text = |bits: u32| {
        format!(
            "func @f(b64, b32x4, b32x4) -> (b32x4) {{
block0(v0: b64, v1: b32x4, v2: b32x4):
  v3: predx4 = const.predx4{{{bits:#x}}}
  v4: b32x4 = update.b32x4{{atom.u32{{space:global op:add}}}} v0, v1, v2, v3
  ret v4
}}
"
        )
    };
    assert!(after("simplify", &text(1)).contains("} v0, v1, v2\n"));
    assert!(!after("simplify", &text(0)).contains("update"));
}

#[test]
fn what_an_update_may_have_changed_is_loaded_again() {
    let text = |private: &str| {
        format!(
            "func @f(b64, b64, b32x4) -> (b32, b32) {{
{private}block0(v0: b64, v1: b64, v2: b32x4):
  v3: b32 = load.b32{{b32 0}} v0
  update.b32x4{{red.u32{{space:global op:add}}}} v1, v2, v2
  v4: b32 = load.b32{{b32 0}} v0
  ret v3, v4
}}
"
        )
    };
    assert!(after("number", &text("")).ends_with("ret v3, v4\n}\n"));
    // Private memory does not change.
    assert!(after("number", &text("  private 0\n")).ends_with("ret v3, v3\n}\n"));
}
