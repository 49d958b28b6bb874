//! Tests, on functions written as text, in which loops the pass `waiting` inserts a `yield`.

use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::pass::waiting;
use margay_ir::verify::{self, Stage};
use margay_ops::ops::Opcode;

/// Returns the number of `yield`s that the pass inserts in a kernel with the given blocks. `v0` is
/// the thread index, `v1` is an integer parameter, `v2` is an address, and `v3` and `v4` are the
/// constants 1 and 0.
fn yields(blocks: &str) -> usize {
    flags(&with_yields(blocks)).len()
}

/// Returns a kernel with the given blocks, as for [`yields`], after the pass.
fn with_yields(blocks: &str) -> Function {
    let text = format!(
        "kernel @k {{
  parameters 16
block0:
  v0: b32 = sreg.u32 %tid.x
  v40: b64 = param.addr.u64 0
  v1: b32 = ld.u32{{space:param}} v40
  v41: b64 = param.addr.u64 8
  v2: b64 = ld.u64{{space:param}} v41
  v3: b32 = const.b32 0x1
  v4: b32 = const.b32 0x0
{blocks}
block9:
  exit
}}"
    );
    let mut function = parse::function(&text).unwrap();
    let module = Module::default();
    let check = |function: &Function| {
        let problems = verify::function(&module, function, Stage::Lowered);
        assert_eq!(problems, [], "{function}");
    };
    check(&function);
    waiting::run(&mut function, &module);
    check(&function);
    function
}

#[test]
fn a_test_before_or_behind_the_turn_counts() {
    let before = "  jump block1(v4)
block1(v10: b32):
  v11: pred = setp.u32{cmp:lt} v10, v1
  brif v11, block2, block9
block2:
  v12: b32 = ld.u32{space:global} v2
  v13: b32 = add.u32 v10, v3
  jump block1(v13)";
    let behind = "  jump block1(v4)
block1(v10: b32):
  v12: b32 = ld.u32{space:global} v2
  v13: b32 = add.u32 v10, v3
  v11: pred = setp.u32{cmp:lt} v13, v1
  brif v11, block1(v13), block9";
    assert_eq!((yields(before), yields(behind)), (0, 0));
}

/// Returns the number of `yield`s in a loop with two latches: block 3, with the terminator `test`, and block 4, with
/// the terminator `other`.
fn two_latches(test: &str, other: &str) -> usize {
    yields(&format!(
        "  jump block1(v4)
block1(v10: b32):
  v20: b64 = cvt.u64.u32 v10
  v21: b64 = add.u64 v2, v20
  v12: b32 = ld.u32{{space:global}} v21
  v14: pred = setp.u32{{cmp:eq}} v12, v4
  v13: b32 = add.u32 v10, v3
  v16: b32 = sub.u32 v10, v3
  v11: pred = setp.u32{{cmp:lt}} v13, v1
  v15: pred = setp.u32{{cmp:lt}} v12, v1
  brif v14, block3, block4
block3:
  {test}
block4:
  {other}"
    ))
}

#[test]
fn a_test_that_not_every_turn_passes_does_not_count() {
    let test = "brif v11, block1(v13), block9";
    assert_eq!(two_latches(test, "jump block1(v13)"), 1);
    // Every iteration executes one of the two latches, and no latch is certain to be executed.
    assert_eq!(two_latches(test, "brif v15, block1(v13), block9"), 1);
    assert_eq!(two_latches(test, "jump block9"), 0);
}

#[test]
fn a_test_in_the_middle_counts_though_there_are_more_exits() {
    let middle = |step: &str| {
        yields(&format!(
            "  jump block1(v4)
block1(v10: b32):
  v20: b64 = cvt.u64.u32 v10
  v21: b64 = add.u64 v2, v20
  v12: b32 = ld.u32{{space:global}} v21
  v14: pred = setp.u32{{cmp:eq}} v12, v4
  brif v14, block9, block2
block2:
  v11: pred = setp.u32{{cmp:lt}} v10, v1
  v13: b32 = add.u32 v10, v3
  v16: b32 = sub.u32 v10, v3
  brif v11, block3, block9
block3:
  v15: pred = setp.u32{{cmp:lt}} v12, v1
  brif v15, block4, block5
block4:
  jump block1(v13)
block5:
  jump block1({step})"
        ))
    };
    assert_eq!(middle("v13"), 0);
    // The value rises in some iterations and falls in others.
    assert_eq!(middle("v16"), 1);
    assert_eq!(middle("v10"), 1);
}

/// Returns the number of `yield`s in a loop that continues while `condition` holds. The condition may use `v11` (the
/// counter is less than the bound) and `v14` (a condition on memory).
fn while_(condition: &str, targets: &str) -> usize {
    yields(&format!(
        "  jump block1(v4)
block1(v10: b32):
  v20: b64 = cvt.u64.u32 v10
  v21: b64 = add.u64 v2, v20
  v12: b32 = ld.u32{{space:global}} v21
  v14: pred = setp.u32{{cmp:eq}} v12, v4
  v11: pred = setp.u32{{cmp:lt}} v10, v1
  v13: b32 = add.u32 v10, v3
  v15: pred = {condition}
  brif v15, {targets}"
    ))
}

#[test]
fn one_of_the_conditions_for_going_on_is_enough() {
    let onward = "block1(v13), block9";
    assert_eq!(while_("and.pred v11, v14", onward), 0);
    assert_eq!(while_("and.pred v14, v11", onward), 0);
    assert_eq!(while_("or.pred v11, v14", onward), 1);
    let out = "block9, block1(v13)";
    assert_eq!(while_("or.pred v11, v14", out), 0);
    assert_eq!(while_("and.pred v11, v14", out), 1);
    assert_eq!(while_("not.pred v11", out), 0);
    assert_eq!(while_("setp.u32{cmp:eq bool:and} v12, v4, v11", onward), 0);
    assert_eq!(while_("setp.u32{cmp:lt bool:and} v10, v1, v14", onward), 0);
    assert_eq!(while_("setp.u32{cmp:lt bool:or} v10, v1, v14", onward), 1);
    assert_eq!(while_("setp.u32{cmp:lt bool:or} v10, v1, v14", out), 0);
}

#[test]
fn a_count_may_be_widened_but_not_cut() {
    let cut = |ty: &str, to: &str, from: &str| {
        yields(&format!(
            "  v5: {ty} = const.{ty} 0x0
  v6: {ty} = const.{ty} 0x1
  v7: {to} = const.{to} 0x64
  jump block1(v5, v4)
block1(v10: {ty}, v20: b32):
  v12: b32 = ld.u32{{space:global}} v2
  v13: {ty} = add.u{from} v10, v6
  v14: {to} = cvt.u{}.u{from} v13
  v11: pred = setp.{to}{{cmp:lt}} v14, v7
  v21: b32 = xor.b32 v20, v1
  v22: pred = setp.u32{{cmp:ne bool:and}} v12, v20, v11
  brif v22, block1(v13, v21), block9",
            &to[1..]
        ))
    };
    assert_eq!(cut("b32", "b64", "32"), 0);
    assert_eq!(cut("b64", "b32", "64"), 1);
}

#[test]
fn bounds_that_others_write_do_not_count() {
    let text = "  jump block1(v4)
block1(v10: b32):
  v12: b32 = ld.u32{space:global} v2
  v11: pred = setp.u32{cmp:ne} v10, v12
  v13: b32 = add.u32 v10, v3
  brif v11, block1(v13), block9";
    assert_eq!(yields(text), 1);
    assert_eq!(
        yields(&text.replace("{space:global} v2", "{space:param} v41")),
        0
    );
}

/// Returns the number of `yield`s in a loop with the counter `v10`, which `next` changes, and the bound `v12`, which the
/// loop loads.
fn approaching(load: &str, test: &str, next: &str, onward: bool) -> usize {
    let targets = match onward {
        true => "block1(v13), block9",
        false => "block9, block1(v13)",
    };
    yields(&format!(
        "  v5: b32 = const.b32 0x1
  v6: b32 = const.b32 0xffffffff
  v7: b32 = const.b32 0x2
  jump block1(v4)
block1(v10: b32):
  v12: b32 = {load} v2
  v13: b32 = {next}
  v20: b64 = cvt.u64.u32 v10
  v21: b64 = cvt.u64.u32 v12
  v22: b32 = shl.b32 v10, v5
  v11: pred = {test}
  brif v11, {targets}"
    ))
}

#[test]
fn a_counter_that_approaches_a_bound_in_memory_counts() {
    let weak = "ld.u32{space:global}";
    let up = "add.s32 v10, v5";
    let down = "add.s32 v10, v6";
    assert_eq!(approaching(weak, "setp.s32{cmp:lt} v10, v12", up, true), 0);
    assert_eq!(approaching(weak, "setp.u32{cmp:lo} v13, v12", up, true), 0);
    assert_eq!(approaching(weak, "setp.s32{cmp:ge} v13, v12", up, false), 0);
    assert_eq!(approaching(weak, "setp.s32{cmp:gt} v12, v13", up, true), 0);
    assert_eq!(
        approaching(weak, "setp.s32{cmp:gt} v10, v12", down, true),
        0
    );
    let less = "sub.s32 v10, v5";
    assert_eq!(
        approaching(weak, "setp.s32{cmp:le} v10, v12", less, false),
        0
    );
    // The counter moves away from the bound.
    assert_eq!(approaching(weak, "setp.s32{cmp:gt} v10, v12", up, true), 1);
    assert_eq!(
        approaching(weak, "setp.s32{cmp:lt} v10, v12", down, true),
        1
    );
    assert_eq!(approaching(weak, "setp.s32{cmp:lt} v13, v12", up, false), 1);
    // The greatest number is not greater than itself.
    assert_eq!(approaching(weak, "setp.s32{cmp:le} v10, v12", up, true), 1);
    assert_eq!(approaching(weak, "setp.s32{cmp:ne} v10, v12", up, true), 1);
    // The counter can pass the greatest number.
    let two = "add.s32 v10, v7";
    assert_eq!(approaching(weak, "setp.s32{cmp:lt} v10, v12", two, true), 1);
    // The compared value is always less than some numbers of its type.
    assert_eq!(approaching(weak, "setp.u64{cmp:lt} v20, v21", up, true), 1);
    assert_eq!(approaching(weak, "setp.u32{cmp:lt} v22, v12", up, true), 1);
    let volatile = "ld.u32{space:global order:volatile}";
    assert_eq!(
        approaching(volatile, "setp.s32{cmp:lt} v10, v12", up, true),
        1
    );
}

/// Returns the number of `yield`s in a loop that halves a signed number, that contains a barrier and loads, and that
/// continues with the number `next` while `v17` holds. `v13` is half the number, and `v19` is a condition on memory.
fn halving(more: &str, last: &str) -> usize {
    yields(&format!(
        "  v5: b32 = const.b32 0x1f
  jump block1(v1)
block1(v10: b32):
  bar{{mode:sync flag}} v4, v4
  v20: b64 = cvt.u64.u32 v10
  v21: b64 = add.u64 v2, v20
  v12: b32 = ld.u32{{space:global}} v21
  v19: pred = setp.u32{{cmp:eq}} v12, v4
  v15: b32 = shr.u32 v10, v5
  v16: b32 = add.u32 v10, v15
  v13: b32 = shr.s32 v16, v3
  v17: pred = setp.u32{{cmp:ne}} v13, v4
{more}
  {last}"
    ))
}

#[test]
fn loops_whose_exits_do_not_depend_on_memory_do_not_yield() {
    let end = "brif v17, block1(v13), block9";
    assert_eq!(halving("", end), 0);
    // The flag ends the loop, too.
    let flag = "  brif v19, block9, block2\nblock2:";
    assert_eq!(halving(flag, end), 1);
    // The table of a branch contains a target outside the loop.
    let table = "  br_table v12, block2, block2, block9\nblock2:";
    assert_eq!(halving(table, end), 1);
    // The value from memory is the next number, or chooses it.
    assert_eq!(halving("", "brif v17, block1(v12), block9"), 1);
    let chosen = "  v22: b32 = selp.b32 v13, v10, v19";
    assert_eq!(halving(chosen, "brif v17, block1(v22), block9"), 1);
    let joined = "  brif v19, block2(v13), block2(v10)\nblock2(v22: b32):";
    assert_eq!(halving(joined, "brif v17, block1(v22), block9"), 1);
    let latches = "  brif v19, block2, block3\nblock2:\n  brif v17, block1(v10), block9\nblock3:";
    assert_eq!(halving(latches, end), 1);
    // An atomic operation returns it.
    let exchanged = "  v22: b32 = atom.u32{op:exch space:global} v2, v13";
    assert_eq!(halving(exchanged, "brif v17, block1(v22), block9"), 1);
    // The flag decides which iterations execute the exit.
    let skips = "  brif v19, block1(v13), block2\nblock2:";
    assert_eq!(halving(skips, end), 1);
    // The loop never ends.
    assert_eq!(halving("", "jump block1(v13)"), 1);
}

/// Runs the pass on a loop that has no counter and that calls a function with the body `body`. The
/// argument of each call is the address that the previous call returned. Returns the number of
/// `yield`s, and whether the first one has `flag`.
fn calling(body: &str) -> (usize, bool) {
    let text = format!(
        "module version 8.0 target sm_80
fn0 = func @f(b64) -> (b64) {{
block0(v0: b64):
{body}
}}

fn1 = kernel @k {{
  parameters 16
block0:
  v41: b64 = param.addr.u64 8
  v2: b64 = ld.u64{{space:param}} v41
  v4: b64 = const.b64 0x0
  jump block1(v2)
block1(v10: b64):
  v12: b64 = call fn0 v10
  v11: pred = setp.u64{{cmp:ne}} v12, v4
  brif v11, block1(v12), block9
block9:
  exit
}}"
    );
    let module = parse::module(&text).unwrap();
    let mut function = module.functions[module.kernel("k").unwrap()].clone();
    waiting::run(&mut function, &module);
    let flags = flags(&function);
    (flags.len(), flags.first() == Some(&true))
}

/// Returns the modifier `flag` of each `yield` of a function.
fn flags(function: &Function) -> Vec<bool> {
    let all = function.blocks().iter().flat_map(|&b| function.insts(b));
    all.map(|&i| &function.dfg.insts[i])
        .filter(|data| data.opcode == Opcode::Yield)
        .map(|data| data.mods.flag())
        .collect()
}

#[test]
fn what_called_functions_read_decides_about_their_callers() {
    let nothing = "  v1: b64 = const.b64 0x1\n  ret v1";
    let reads = "  v1: b64 = ld.u64{space:global} v0\n  ret v1";
    let strong = "  v1: b64 = ld.u64{space:global order:volatile} v0\n  ret v1";
    assert_eq!(calling(nothing).0, 0);
    assert_eq!(calling(reads), (1, true));
    assert_eq!(calling(strong), (1, false));
}

#[test]
fn counted_loops_yield_if_an_exit_depends_on_polled_memory() {
    let counted = |body: &str, condition: &str| {
        yields(&format!(
            "  jump block1(v4)
block1(v10: b32):
  v11: pred = setp.u32{{cmp:lt}} v10, v1
  brif v11, block2, block9
block2:
{body}
  v13: b32 = add.u32 v10, v3
  brif {condition}, block9, block1(v13)"
        ))
    };
    let volatile = "  v12: b32 = ld.u32{space:global order:volatile} v2
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(volatile, "v14"), 1);
    let fenced = "  v12: b32 = ld.u32{space:global} v2
  fence{order:acq_rel scope:gpu}
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(fenced, "v14"), 1);
    // No other thread writes parameters.
    let parameter = "  v15: b64 = param.addr.u64 0
  v12: b32 = ld.u32{space:param} v15
  fence{order:acq_rel scope:gpu}
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(parameter, "v14"), 0);
    // A search reads other memory in each iteration.
    let search = "  v15: b64 = cvt.u64.u32 v10
  v16: b64 = add.u64 v2, v15
  v12: b32 = ld.u32{space:global order:volatile} v16
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(search, "v14"), 0);
    // The exit does not depend on memory.
    let unused = "  v12: b32 = ld.u32{space:global order:volatile} v2
  v14: pred = setp.u32{cmp:eq} v10, v0";
    assert_eq!(counted(unused, "v14"), 0);
    // Programs also poll with weak loads that bypass the L1 cache of GPUs, such as `__ldcg`.
    let weak = "  v12: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(weak, "v14"), 1);
    // A checking run computes the address again in each iteration.
    let checked = "  v15: b64 = check.access.u32{space:global mode:load order:volatile} v2
  v12: b32 = ld.u32{space:global order:volatile} v15
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(checked, "v14"), 1);
    let checked_search = "  v15: b64 = cvt.u64.u32 v10
  v16: b64 = add.u64 v2, v15
  v17: b64 = check.access.u32{space:global mode:load order:volatile} v16
  v12: b32 = ld.u32{space:global order:volatile} v17
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(checked_search, "v14"), 0);
    // The flag's address is in memory, too.
    let indirect = "  v15: b64 = ld.u64{space:global} v2
  v12: b32 = ld.u32{space:global} v15
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(counted(indirect, "v14"), 1);
    // The condition for the next iteration is that both the count and the flag permit it.
    let both = "  v12: b32 = ld.u32{space:global} v2
  v15: pred = setp.u32{cmp:ne} v12, v4
  v16: pred = setp.u32{cmp:ge} v10, v0
  v14: pred = or.pred v16, v15";
    assert_eq!(counted(both, "v14"), 1);
    let compound = "  v12: b32 = ld.u32{space:global} v2
  v15: pred = setp.u32{cmp:ne} v12, v4
  v14: pred = setp.u32{cmp:ge bool:or} v10, v0, v15";
    assert_eq!(counted(compound, "v14"), 1);
    // A search with a key in memory, whose loads are weak.
    let key = "  v15: b64 = cvt.u64.u32 v10
  v16: b64 = add.u64 v2, v15
  v12: b32 = ld.u32{space:global} v16
  v17: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:eq} v12, v17";
    assert_eq!(counted(key, "v14"), 0);
    let bound = "  v17: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:eq} v10, v17";
    assert_eq!(counted(bound, "v14"), 0);
    // A search that ends when another CTA has found a match at a lower position, such as `cub::DeviceFind`.
    let found = "  v17: b32 = ld.u32{space:global order:relaxed scope:gpu} v2
  v14: pred = setp.u32{cmp:gt} v10, v17";
    assert_eq!(counted(found, "v14"), 0);
    let shared = "  v17: b32 = ld.u32{space:global order:relaxed scope:gpu} v2
  v5: b64 = const.b64 0x0
  st.u32{space:shared} v5, v17
  bar{mode:sync} v4, v4
  v18: b32 = ld.u32{space:shared} v5
  v16: pred = setp.u32{cmp:gt bool:and} v10, v18, v19
  v14: pred = not.pred v16";
    assert_eq!(
        counted(
            &format!("  v19: pred = setp.u32{{cmp:ne}} v0, v4\n{shared}"),
            "v14"
        ),
        0
    );
    // A loop that waits until a counter reaches a fixed value.
    let target = "  v17: b32 = ld.u32{space:global order:relaxed scope:gpu} v2
  v16: pred = setp.u32{cmp:lt} v17, v0
  v14: pred = not.pred v16";
    assert_eq!(counted(target, "v14"), 1);
}

/// If an exit depends on weak loads from a fixed address, the loop is as likely to wait as a loop
/// with volatile loads.
#[test]
fn loops_that_poll_with_weak_loads_are_marked() {
    let body = |body: &str, next: &str| {
        flags(&with_yields(&format!(
            "  v5: b64 = const.b64 0x8
  jump block1(v4, v2)
block1(v10: b32, v20: b64):
  v13: b32 = xor.b32 v10, v1
{body}
  brif v14, block9, block1({next})"
        )))
    };
    let plain = "  v12: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:ne} v12, v4";
    assert_eq!(body(plain, "v13, v20"), [false]);
    // The loop tests the flag that the iteration before has read.
    let delayed = "  v12: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:ne} v10, v4";
    assert_eq!(body(delayed, "v12, v20"), [false]);
    // A list: each element contains the address of the next one.
    let list = "  v21: b64 = ld.u64{space:global} v20
  v14: pred = setp.u64{cmp:eq} v21, v5";
    assert_eq!(body(list, "v13, v21"), [true]);
    // An array that ends with a given value.
    let array = "  v21: b64 = add.u64 v20, v5
  v12: b32 = ld.u32{space:global} v20
  v14: pred = setp.u32{cmp:eq} v12, v4";
    assert_eq!(body(array, "v13, v21"), [true]);
    // An iteration whose condition compares a changing value with memory.
    let numeric = "  v12: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:eq} v12, v10";
    assert_eq!(body(numeric, "v13, v20"), [true]);
    let next = "  v12: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:eq} v12, v13";
    assert_eq!(body(next, "v13, v20"), [true]);
    let within = "  v12: b32 = ld.u32{space:global} v2
  v15: b32 = add.u32 v13, v1
  v14: pred = setp.u32{cmp:eq} v12, v13";
    assert_eq!(body(within, "v15, v20"), [true]);
    // A loop around a loop that computes.
    let work = flags(&with_yields(
        "  jump block1(v4)
block1(v10: b32):
  jump block2(v10, v4)
block2(v15: b32, v16: b32):
  v17: b32 = xor.b32 v15, v1
  v18: b32 = add.u32 v16, v3
  v19: pred = setp.u32{cmp:lt} v18, v1
  brif v19, block2(v17, v18), block3
block3:
  v12: b32 = ld.u32{space:global} v2
  v14: pred = setp.u32{cmp:ne} v12, v4
  brif v14, block9, block1(v17)",
    ));
    assert_eq!(work, [false]);
}
