//! Tests, on functions written as text, the analysis of whether all threads of a CTA reach barriers together.

use margay_ir::analysis::uniformity::{Assumptions, Uniformity};
use margay_ir::analysis::{Cfg, together};
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::verify::{self, Stage};
use margay_ops::ops::Opcode;

fn meet(body: &str) -> bool {
    let text = format!("kernel @k {{\n  parameters 16\n{body}\n}}");
    let function = parse::function(&text).unwrap();
    let problems = verify::function(&Module::default(), &function, Stage::Lowered);
    assert_eq!(problems, []);
    let uniformity = Uniformity::new(&function, Assumptions::default());
    together::meet_at(&function, &Cfg::new(&function), &uniformity, |block| {
        let mut insts = function.insts(block).iter();
        insts.any(|&inst| function.dfg.insts[inst].opcode == Opcode::BarWarp)
    })
}

/// Returns whether threads reach the barrier together in a kernel with a branch whose condition is computed from the
/// special register `who`. `inside` is the code on one path of the branch, and `behind` is the code after both paths.
/// Either `inside` or `behind` contains the barrier.
fn branch(who: &str, inside: &str, behind: &str) -> bool {
    meet(&format!(
        "block0:
  v0: b32 = sreg.u32 {who}
  v1: pred = setp.u32{{cmp:lt}} v0, v0
  v2: b32 = const.b32 0xffffffff
  brif v1, block1, block2
block1:
  {inside}
  jump block2
block2:
  {behind}
  exit"
    ))
}

const BARRIER: &str = "bar.warp.sync v2";

#[test]
fn barriers_behind_branches_are_reached_together() {
    assert!(branch("%tid.x", "jump block3\nblock3:", BARRIER));
    assert!(!branch("%tid.x", BARRIER, ""));
    assert!(!branch("%warpid", BARRIER, ""));
    assert!(branch("%ctaid.x", BARRIER, ""));
}

#[test]
fn threads_that_end_early_are_missing_at_barriers() {
    let text = |who: &str| {
        format!(
            "block0:
  v0: b32 = sreg.u32 {who}
  v1: pred = setp.u32{{cmp:lt}} v0, v0
  v2: b32 = const.b32 0xffffffff
  brif v1, block1, block2
block1:
  exit
block2:
  bar.warp.sync v2
  exit"
        )
    };
    assert!(!meet(&text("%tid.x")));
    assert!(meet(&text("%ctaid.x")));
}

#[test]
fn loops_must_have_equal_numbers_of_iterations() {
    let text = |who: &str| {
        format!(
            "block0:
  v0: b32 = sreg.u32 {who}
  v2: b32 = const.b32 0xffffffff
  jump block1
block1:
  v1: pred = setp.u32{{cmp:lt}} v0, v0
  bar.warp.sync v2
  brif v1, block1, block2
block2:
  exit"
        )
    };
    assert!(!meet(&text("%tid.x")));
    assert!(meet(&text("%ntid.x")));
}
