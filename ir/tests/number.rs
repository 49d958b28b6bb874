//! Tests value numbering on functions written as text: which repeated computations and loads the pass removes, and
//! which it must keep.

use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::pass::number;
use margay_ir::verify::{self, Stage};
use margay_ops::ops::Opcode;

/// Returns the kernel with the given body after the pass, in a module for the target `sm`. The
/// verifier checks the kernel before and after the pass.
fn numbered_for(sm: u32, body: &str) -> Function {
    let text = format!("kernel @k {{\n  parameters 16\n{body}\n}}");
    let mut function = parse::function(&text).unwrap();
    let mut module = Module::default();
    module.target.sm = sm as _;
    let problems = verify::function(&module, &function, Stage::Lowered);
    assert_eq!(problems, []);
    number::run(&mut function, &module);
    let problems = verify::function(&module, &function, Stage::Lowered);
    assert_eq!(problems, [], "{function}");
    function
}

fn numbered(body: &str) -> Function {
    numbered_for(75, body)
}

fn count(function: &Function, opcode: Opcode) -> usize {
    let all = function.blocks().iter().flat_map(|&b| function.insts(b));
    all.filter(|&&i| function.dfg.insts[i].opcode == opcode)
        .count()
}

/// Returns how many of two loads from the same address remain if `lines` are between them. In `lines`, `v3` is another
/// address, and `v1` is an integer.
fn loads(space: &str, lines: &str) -> usize {
    loads_for(75, space, lines)
}

fn loads_for(sm: u32, space: &str, lines: &str) -> usize {
    let function = numbered_for(
        sm,
        &format!(
            "block0:
  v0: b64 = const.b64 0x100
  v1: b32 = sreg.u32 %tid.x
  v3: b64 = const.b64 0x200
  v4: b32 = ld.u32{{{space}}} v0
{lines}
  v5: b32 = ld.u32{{{space}}} v0
  v6: b32 = add.u32 v4, v5
  nanosleep.u32 v6
  exit"
        ),
    );
    count(&function, Opcode::Ld)
}

#[test]
fn equal_operations_are_done_once_where_the_first_dominates() {
    let f = numbered(
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = mul.u32{half:lo} v0, v1
  v3: pred = setp.u32{cmp:lt} v0, v1
  brif v3, block1, block2
block1:
  v4: b32 = mul.u32{half:lo} v0, v1
  v5: b32 = add.u32 v4, v2
  jump block3(v5)
block2:
  v6: b32 = sub.u32 v0, v1
  jump block3(v6)
block3(v7: b32):
  v8: b32 = sub.u32 v0, v1
  v9: b32 = add.u32 v7, v8
  v10: b64 = const.b64 0x100
  st.u32{space:global} v10, v9
  exit",
    );
    assert_eq!(count(&f, Opcode::Mul), 1, "{f}");
    // Both differences stay, because neither dominates the other.
    assert_eq!(count(&f, Opcode::Sub), 2, "{f}");
}

#[test]
fn modifiers_types_and_operand_order_tell_apart() {
    let f = numbered(
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = sub.u32 v0, v1
  v3: b32 = sub.u32 v1, v0
  v4: b32 = max.u32 v0, v1
  v5: b32 = max.s32 v0, v1
  v6: b32 = shr.u32 v2, v3
  v7: b32 = shr.s32 v4, v5
  v8: b32 = add.u32 v6, v7
  nanosleep.u32 v8
  exit",
    );
    assert_eq!(count(&f, Opcode::Sub), 2);
    assert_eq!(count(&f, Opcode::Max), 2);
}

#[test]
fn what_would_live_across_a_barrier_is_computed_again() {
    let body = |between: &str| {
        format!(
            "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = mul.u32{{half:lo}} v0, v0
  v2: b32 = const.b32 0x0
  bar{{mode:sync flag}} v2, v2
{between}
  v3: b32 = mul.u32{{half:lo}} v0, v0
  v4: b32 = add.u32 v1, v3
  nanosleep.u32 v4
  exit"
        )
    };
    assert_eq!(count(&numbered(&body("")), Opcode::Mul), 2);
    let behind = body("  v5: b32 = mul.u32{half:lo} v0, v0\n  nanosleep.u32 v5");
    assert_eq!(count(&numbered(&behind), Opcode::Mul), 3);
    let twice = body("  v5: b32 = mul.u32{half:lo} v0, v0");
    assert_eq!(count(&numbered(&twice), Opcode::Mul), 2);
}

#[test]
fn clocks_and_masks_are_read_each_time() {
    let f = numbered(
        "block0:
  v0: b32 = clock.u32 %clock
  v1: b32 = clock.u32 %clock
  v2: b32 = sub.u32 v1, v0
  nanosleep.u32 v2
  exit",
    );
    assert_eq!(count(&f, Opcode::Clock), 2);
}

#[test]
fn a_load_is_not_repeated() {
    for space in ["space:global", "space:shared", "space:local", "space:const"] {
        assert_eq!(loads(space, ""), 1, "{space}");
    }
}

#[test]
fn writes_that_may_meet_it_bring_a_load_back() {
    assert_eq!(loads("space:global", "  st.u32{space:global} v3, v1"), 2);
    assert_eq!(loads("space:global", "  st.u32 v3, v1"), 2);
    assert_eq!(loads("space:global", "  st.u32{space:shared} v3, v1"), 1);
    assert_eq!(loads("space:shared", "  st.u32{space:shared} v3, v1"), 2);
    assert_eq!(
        loads("space:shared", "  st.u32{space:shared::cluster} v3, v1"),
        2
    );
    assert_eq!(loads("space:shared", "  st.u32{space:local} v3, v1"), 1);
    assert_eq!(
        loads("space:global", "  red.u32{space:global op:add} v3, v1"),
        2
    );
}

#[test]
fn nothing_is_carried_over_what_orders_memory() {
    let zero = "  v7: b32 = const.b32 0x0\n";
    for order in [
        "  bar{mode:sync flag} v7, v7",
        "  bar.warp.sync v7",
        "  fence{order:acq_rel scope:gpu}",
        "  v8: b32 = ld.u32{space:global order:acquire scope:gpu} v3",
        "  st.u32{space:global order:release scope:gpu} v3, v1",
        "  v8: b32 = clock.u32 %clock",
        "  nanosleep.u32 v7",
    ] {
        let left = loads("space:shared", &format!("{zero}{order}"));
        let extra = usize::from(order.contains("= ld"));
        assert_eq!(left, 2 + extra, "{order}");
    }
}

#[test]
fn volatile_and_strong_loads_stay() {
    for order in ["order:volatile", "order:relaxed scope:gpu"] {
        assert_eq!(loads(&format!("space:global {order}"), ""), 2, "{order}");
    }
}

#[test]
fn a_stored_value_needs_no_load_if_all_of_it_was_stored() {
    let stored = |ty: &str, load: &str| {
        let f = numbered(&format!(
            "block0:
  v0: b64 = const.b64 0x100
  v1: b32 = sreg.u32 %tid.x
  st.{ty}{{space:global}} v0, v1
  v2: b32 = ld.{load}{{space:global}} v0
  nanosleep.u32 v2
  exit"
        ));
        count(&f, Opcode::Ld)
    };
    assert_eq!(stored("u32", "u32"), 0);
    assert_eq!(stored("u32", "s32"), 1);
    assert_eq!(stored("u8", "u8"), 1);
}

#[test]
fn lanes_in_lock_step_see_what_others_wrote_to_shared_memory() {
    assert_eq!(loads_for(60, "space:shared", ""), 2);
    assert_eq!(loads_for(70, "space:shared", ""), 1);
    assert_eq!(loads_for(60, "space:global", ""), 1);
}
