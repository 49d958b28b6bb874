//! Tests the pass `calls`, which merges functions in which threads may wait into the kernels that call them. The tests
//! check which calls remain, and which values the frames contain.

use std::time::{Duration, Instant};

use margay_ir::analysis::callees::callees;
use margay_ir::function::Function;
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::pass::inline::Inlining;
use margay_ir::pass::{self, PASSES, calls};
use margay_ir::verify;
use margay_ops::ops::Opcode;

/// Returns a module with the given functions and with a kernel that contains the given lines. In
/// the kernel, `v0` is a pointer parameter, and `v1` is the word that is loaded from this address.
fn module(functions: &str, kernel: &str) -> Module {
    let number = functions.matches(" = func ").count();
    let text = format!(
        "module version 8.0 target sm_80
sig0 = signature (b64, b32) -> (b32)
{functions}
fn{number} = kernel @k {{
  parameters 8
block0:
  v40: b64 = param.addr.u64 0
  v0: b64 = ld.u64{{space:param}} v40
  v1: b32 = ld.u32{{space:global}} v0
{kernel}
  st.u32{{space:global}} v0, v2
  exit
}}
"
    );
    let module = parse::module(&text).unwrap();
    assert_eq!(verify::module(&module), []);
    module
}

/// Returns the kernel after all passes. The verifier checks the kernel after each pass.
fn prepared(module: &Module) -> Function {
    let id = module.kernel("k").unwrap();
    pass::prepare_watched(module, id, None, |pass, _, function| {
        let problems = verify::function(module, function, pass.stage);
        assert_eq!(problems, [], "behind {}: {function}", pass.name);
    })
}

fn count(function: &Function, opcode: Opcode) -> usize {
    let all = function.blocks().iter().flat_map(|&b| function.insts(b));
    all.filter(|&&i| function.dfg.insts[i].opcode == opcode)
        .count()
}

/// Returns a function that executes a collective and then calls itself with half its argument. `v9` is live across the
/// call, and the lines `more` follow the call.
fn halves(more: &str) -> String {
    format!(
        "fn0 = func @halves(b64, b32) -> (b32) {{
block0(v0: b64, v1: b32):
  v2: b32 = const.b32 0x0
  v3: pred = setp.u32{{cmp:eq}} v1, v2
  brif v3, block1, block2
block1:
  ret v1
block2:
  v4: b32 = const.b32 0xffffffff
  bar.warp.sync v4
  v5: b32 = const.b32 0x1
  v6: b32 = shr.u32 v1, v5
  v9: b32 = add.u32 v1, v6
  v7: b32 = call fn0 v0, v6
  v8: b32 = add.u32 v7, v9
{more}
  ret v8
}}
"
    )
}

#[test]
fn calls_become_jumps() {
    let module = module(&halves(""), "  v2: b32 = call fn0 v0, v1");
    let f = prepared(&module);
    assert_eq!(count(&f, Opcode::Call), 0);
    // The kernel contains one call, and the function contains one call. The merged code of the function can return to
    // either call.
    assert_eq!(count(&f, Opcode::StackCheck), 2);
    assert_eq!(count(&f, Opcode::BarWarp), 1);
    // The frame contains the index of the continuation (the code after the call) and the sum.
    assert_eq!(f.slots.values().last().unwrap().size, 16);
    let words = |opcode| {
        let all = f.blocks().iter().flat_map(|&b| f.insts(b));
        let of = all.map(|&i| &f.dfg.insts[i]).filter(|d| d.opcode == opcode);
        of.filter(|d| d.mods == margay_ops::mods::Mods::NONE)
            .count()
    };
    // The address in the kernel is a parameter, so it is rematerialised and not stored in the frame.
    assert_eq!((words(Opcode::St), words(Opcode::Ld)), (2, 2), "{f}");
}

#[test]
fn what_is_saved_once_stays_saved() {
    let again = "  v10: b32 = call fn0 v0, v8
  v11: b32 = add.u32 v10, v9
  st.u32{space:global} v0, v11";
    let module = module(&halves(again), "  v2: b32 = call fn0 v0, v1");
    let f = prepared(&module);
    let stores = f.blocks().iter().flat_map(|&b| f.insts(b));
    let stores = stores.map(|&i| &f.dfg.insts[i]);
    let saved = stores
        .filter(|d| d.opcode == Opcode::St && d.mods == margay_ops::mods::Mods::NONE)
        .count();
    // Before its first call, the function saves the index of the continuation, v9 and v0; before the second call, it
    // saves v8.
    assert_eq!(saved, 4, "{f}");
}

#[test]
fn functions_without_sync_points_stay_functions() {
    let text = halves("").replace("  bar.warp.sync v4\n", "");
    let module = module(&text, "  v2: b32 = call fn0 v0, v1");
    let f = prepared(&module);
    assert_eq!(
        (count(&f, Opcode::Call), count(&f, Opcode::StackCheck)),
        (1, 0)
    );
}

#[test]
fn handles_are_compared_with_all_functions_of_the_signature() {
    let other = "fn1 = func @other(b64, b32) -> (b32) {
block0(v0: b64, v1: b32):
  v2: b32 = ld.u32{space:global} v0
  ret v2
}
fn2 = func @third(b32) -> (b32) {
block0(v0: b32):
  ret v0
}
";
    let functions = halves("") + other;
    let module = module(
        &functions,
        "  v3: b64 = ld.u64{space:global} v0\n  v2: b32 = call.indirect sig0 v3, v0, v1",
    );
    let f = prepared(&module);
    assert_eq!(count(&f, Opcode::CallIndirect), 0);
    assert_eq!(
        count(&f, Opcode::FuncAddr),
        3,
        "two of the signature, and one to choose: {f}"
    );
    assert_eq!(count(&f, Opcode::InvalidPc), 2);
}

#[test]
fn what_cannot_be_brought_in_says_why() {
    let id = PASSES.iter().position(|pass| pass.name == "calls").unwrap();
    let before = PASSES[id - 1].name;
    let why = |module: &Module| {
        let id = module.kernel("k").unwrap();
        let kernel = pass::prepare(module, id, Some(before));
        calls::declined(&kernel, module, &Inlining::of(module, id))
    };
    let call = "  v2: b32 = call fn0 v0, v1";
    assert_eq!(why(&module(&halves(""), call)), None);
    let alloca = "  v10: b64 = alloca.u64 v0\n  st.u32 v10, v8";
    let said = why(&module(&halves(alloca), call)).unwrap();
    assert!(said.contains("alloca"), "{said}");
    let long = "  st.u32{space:global} v0, v8\n".repeat(21_000);
    let said = why(&module(&halves(&long), call)).unwrap();
    assert!(said.contains("20000"), "{said}");
}

/// Checks that the pass determines the functions that a call through a handle may reach only once
/// for all calls with the same signature.
#[test]
fn many_calls_through_handles_share_their_candidates() {
    const NUMBER: usize = 20_000;
    let function = |i: usize| {
        format!(
            "fn{i} = func @f{i}(b64, b32) -> (b32) {{\nblock0(v0: b64, v1: b32):\n  ret v1\n}}\n"
        )
    };
    let functions: String = (0..NUMBER).map(function).collect();
    let call = |i: usize| format!("  v{}: b32 = call.indirect sig0 v0, v0, v1\n", 100 + i);
    let calls: String = (0..NUMBER).map(call).collect();
    let calls = format!("  v2: b32 = const.b32 0x0\n{calls}");
    let module = module(&functions, &calls);
    let kernel = &module.functions[module.kernel("k").unwrap()];
    let begin = Instant::now();
    assert_eq!(callees(&module, kernel).len(), NUMBER);
    assert!(begin.elapsed() < Duration::from_secs(1));
}
