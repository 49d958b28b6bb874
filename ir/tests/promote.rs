//! Tests the promotion of local memory to values on functions written as text: which bytes become values, and which
//! stay in memory.

use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::pass::{promote, simplify};
use margay_ir::verify::{self, Stage};
use margay_ops::ops::Opcode;

/// Returns the kernel with the given body after promotion and simplification. The verifier checks
/// the kernel before and after the promotion.
fn promoted(body: &str) -> Function {
    let text = format!("kernel @k {{\n  parameters 8\n{body}\n}}");
    let mut function = parse::function(&text).unwrap();
    let module = Module::default();
    let before = verify::function(&module, &function, Stage::Lowered);
    assert_eq!(before, []);
    promote::run(&mut function);
    let after = verify::function(&module, &function, Stage::Lowered);
    assert_eq!(after, [], "{function}");
    simplify::run(&mut function);
    function
}

fn count(function: &Function, opcode: Opcode) -> usize {
    let all = function.blocks().iter().flat_map(|&b| function.insts(b));
    all.filter(|&&i| function.dfg.insts[i].opcode == opcode)
        .count()
}

/// Returns the number of loads and of stores of local or generic memory that remain, and the total size of the slots in
/// bytes.
fn memory(function: &Function) -> (usize, usize, u32) {
    let bytes = function.slots.values().map(|slot| slot.size).sum();
    let accesses = (count(function, Opcode::Ld), count(function, Opcode::St));
    (accesses.0, accesses.1, bytes)
}

/// Returns a promoted kernel with a slot of 16 bytes. `v0` is the address of the slot, `v1` is `tid`, and `v2` and `v3`
/// are the constants 4 and 8. The end of the kernel uses `v9`.
fn with_slot(lines: &str) -> Function {
    promoted(&format!(
        "  slot0 = local 16 align 8
block0:
  v0: b64 = local.addr.u64 slot0
  v1: b32 = sreg.u32 %tid.x
  v2: b64 = const.b64 0x4
  v3: b64 = const.b64 0x8
{lines}
  nanosleep.u32 v9
  exit"
    ))
}

#[test]
fn a_stored_value_is_read_without_memory() {
    let f = with_slot(
        "  v4: b64 = add.u64 v0, v3
  st.u32{space:local} v4, v1
  v9: b32 = ld.u32{space:local} v4",
    );
    assert_eq!(memory(&f), (0, 0, 0));
    let sleep = f.insts(f.entry())[1];
    assert_eq!(f.dfg.args(sleep)[0].to_string(), "v1");
}

#[test]
fn addresses_are_followed_through_generic_and_back() {
    let f = with_slot(
        "  v4: b64 = cvta.u64{space:local} v0
  v5: b64 = add.u64 v4, v3
  st.u32 v5, v1
  v6: b64 = cvta.u64{space:local mode:to} v5
  v7: b64 = sub.u64 v6, v2
  v8: b64 = add.u64 v7, v2
  v9: b32 = ld.u32{space:local} v8",
    );
    assert_eq!(memory(&f), (0, 0, 0));
}

#[test]
fn what_was_never_written_is_zero() {
    let f = with_slot("  v9: b32 = ld.u32{space:local} v0");
    assert_eq!(memory(&f), (0, 0, 0));
    let sleep = f.insts(f.entry())[1];
    let value = f.dfg.args(sleep)[0];
    assert_eq!(f.dfg.constant(value), Some(0));
}

#[test]
fn overlapping_sizes_stay_in_memory_and_others_do_not() {
    // Bytes 0 to 3 are written as a whole and read in halves; bytes 8 to 11 are only accessed as a whole.
    let f = with_slot(
        "  st.u32{space:local} v0, v1
  v4: b32 = ld.u16{space:local} v0
  v5: b64 = add.u64 v0, v3
  st.u32{space:local} v5, v4
  v9: b32 = ld.u32{space:local} v5",
    );
    assert_eq!(memory(&f), (1, 1, 16));
}

#[test]
fn a_vector_access_is_promoted_whole_or_not_at_all() {
    // A load also reads half of the second element, so the second element stays in memory. Therefore the vector access
    // stays, and because of it the first element stays in memory, too.
    let f = with_slot(
        "  st.u32{space:local vec:1} v0, v1, v1
  v4: b32 = ld.u32{space:local} v0
  v5: b64 = add.u64 v0, v2
  v6: b32 = ld.u16{space:local} v5
  v9: b32 = add.u32 v4, v6",
    );
    assert_eq!(memory(&f), (2, 1, 16));
    let whole = with_slot(
        "  st.u32{space:local vec:1} v0, v1, v1
  v5: b64 = add.u64 v0, v2
  v9: b32 = ld.u32{space:local} v5",
    );
    assert_eq!(memory(&whole), (0, 0, 0));
}

#[test]
fn what_another_may_see_stays() {
    for (left, lines) in [
        // A volatile access.
        (
            (1, 1),
            "  st.u32{space:local order:volatile} v0, v1\n  v9: b32 = ld.u32{space:local} v0",
        ),
        // The address is stored.
        (
            (1, 2),
            "  st.u32{space:local} v0, v1\n  st.u64{space:global} v3, v0\n  v9: b32 = ld.u32{space:local} v0",
        ),
        // An unknown offset.
        (
            (1, 1),
            "  v4: b64 = cvt.u64.u32 v1\n  v5: b64 = add.u64 v0, v4\n  st.u32{space:local} v0, v1\n  v9: b32 = ld.u32{space:local} v5",
        ),
        // An access outside of the slot: an error of the program.
        (
            (1, 1),
            "  v4: b64 = const.b64 0x10\n  v5: b64 = add.u64 v0, v4\n  st.u32{space:local} v0, v1\n  v9: b32 = ld.u32{space:local} v5",
        ),
        // A misaligned access.
        (
            (1, 1),
            "  v4: b64 = const.b64 0x2\n  v5: b64 = add.u64 v0, v4\n  st.u32{space:local} v5, v1\n  v9: b32 = ld.u32{space:local} v5",
        ),
        // An access in a state space that is not the state space of the address.
        (
            (1, 1),
            "  st.u32{space:local} v0, v1\n  v9: b32 = ld.u32 v0",
        ),
        // The address is compared.
        (
            (1, 1),
            "  st.u32{space:local} v0, v1\n  v8: pred = setp.u64{cmp:eq} v0, v3\n  v7: b32 = selp.b32 v1, v1, v8\n  nanosleep.u32 v7\n  v9: b32 = ld.u32{space:local} v0",
        ),
    ] {
        let (loads, stores, bytes) = memory(&with_slot(lines));
        assert_eq!(((loads, stores), bytes), (left, 16), "{lines}");
    }
}

#[test]
fn other_widths_are_cut_and_extended() {
    let f = with_slot(
        "  st.u8{space:local} v0, v1
  v9: b32 = ld.s8{space:local} v0",
    );
    assert_eq!(memory(&f), (0, 0, 0));
    let text = f.to_string();
    assert!(text.contains("cvt.u8.u32 v1"), "{text}");
    assert!(text.contains("cvt.s32.s8"), "{text}");
}

#[test]
fn a_loop_variable_becomes_a_parameter_of_the_loop() {
    let f = promoted(
        "  slot0 = local 4 align 4
block0:
  v0: b64 = local.addr.u64 slot0
  v1: b32 = sreg.u32 %tid.x
  st.u32{space:local} v0, v1
  jump block1
block1:
  v2: b32 = ld.u32{space:local} v0
  v3: b32 = const.b32 0x1
  v4: b32 = sub.u32 v2, v3
  st.u32{space:local} v0, v4
  v5: pred = setp.u32{cmp:gt} v4, v3
  brif v5, block1, block2
block2:
  v6: b32 = ld.u32{space:local} v0
  nanosleep.u32 v6
  exit",
    );
    assert_eq!(memory(&f), (0, 0, 0));
    let [_, turn, end] = f.blocks() else {
        panic!("three blocks")
    };
    let [param] = f.dfg.blocks[*turn].params[..] else {
        panic!("one parameter: {f}")
    };
    assert!(f.dfg.blocks[*end].params.is_empty());
    let sub = f.insts(*turn)[1];
    assert_eq!(f.dfg.args(sub)[0], param);
    let sleep = f.insts(*end)[0];
    assert_eq!(f.dfg.args(sleep)[0], f.dfg.results(sub)[0]);
}

#[test]
fn a_write_on_one_way_meets_the_old_value_at_the_join() {
    let f = promoted(
        "  slot0 = local 4 align 4
block0:
  v0: b64 = local.addr.u64 slot0
  v1: b32 = sreg.u32 %tid.x
  v2: b32 = const.b32 0x7
  v3: pred = setp.u32{cmp:lt} v1, v2
  brif v3, block1, block2
block1:
  st.u32{space:local} v0, v1
  jump block2
block2:
  v4: b32 = ld.u32{space:local} v0
  nanosleep.u32 v4
  exit",
    );
    assert_eq!(memory(&f), (0, 0, 0));
    let [entry, then, join] = f.blocks() else {
        panic!("three blocks")
    };
    assert_eq!(f.dfg.blocks[*join].params.len(), 1);
    let passed = |block| {
        f.successors(block)
            .iter()
            .find(|c| c.block == *join)
            .unwrap()
            .args[0]
    };
    // On the path that does not write these bytes, their value is zero.
    assert_eq!(f.dfg.constant(passed(*entry)), Some(0));
    assert_eq!(passed(*then).to_string(), "v1");
}
