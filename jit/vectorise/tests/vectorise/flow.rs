//! The planned control flow of kernels in the text form of the IR.

use margay_ir::analysis::uniformity::Assumptions;
use margay_ir::analysis::{Cfg, Loops, Uniformity};
use margay_ir::parse;
use margay_vectorise::Refusal;
use margay_vectorise::flow::Flow;

fn planned(text: &str) -> Result<String, Refusal> {
    let function = parse::function(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let uniformity = Uniformity::new(&function, Assumptions::of_slices([32, 1, 1], 16));
    let loops = Loops::new(&function, &Cfg::new(&function));
    Flow::new(&function, &uniformity, &loops).map(|flow| flow.to_string())
}

/// Returns a kernel with the instructions `condition`, which define `v9`, in its first block.
fn with_condition(condition: &str, rest: &str) -> String {
    format!(
        "kernel @\"k\" {{\nblock0:\n  v0: b32 = sreg.u32 %tid.x\n  v1: b32 = sreg.u32 %ctaid.x\n  v2: b32 = const.b32 0x3\n{condition}{rest}}}\n"
    )
}

const DIVERGENT: &str = "  v9: pred = setp.u32{cmp:lt} v0, v2\n";
const UNIFORM: &str = "  v9: pred = setp.u32{cmp:lt} v1, v2\n";

const DIAMOND: &str = "  brif v9, block1, block2
block1:
  jump block3
block2:
  jump block3
block3:
  v10: b32 = const.b32 0x0
  exit
";

#[test]
fn a_uniform_branch_stays_a_branch() {
    assert_eq!(
        planned(&with_condition(UNIFORM, DIAMOND)).unwrap(),
        "block0: block1 or block2
block2: block3
block1: block3
block3: done
"
    );
}

#[test]
fn both_sides_of_a_divergent_branch_are_visited() {
    assert_eq!(
        planned(&with_condition(DIVERGENT, DIAMOND)).unwrap(),
        "block0: diverges, then block2 if any lane executes it
block2 (guarded, else block1 if any lane executes it): block1 if any lane executes it
block1 (guarded, else block3 if any lane executes it): block3
block3 (guarded, else done): done
"
    );
}

#[test]
fn lanes_that_exit_need_no_place() {
    let rest = "  brif v9, block1, block2
block1:
  exit
block2:
  v10: b32 = const.b32 0x0
  exit
";
    let text = planned(&with_condition(DIVERGENT, rest)).unwrap();
    assert!(
        text.starts_with("block0: diverges, then block2 if any lane executes it\n"),
        "{text}"
    );
}

const LOOP: &str = "  jump block1(v2)
block1(v3: b32):
  v4: b32 = const.b32 0x1
  v5: b32 = add.u32 v3, v4
  v6: pred = setp.u32{cmp:lt} v5, v7
  brif v6, block1(v5), block2
block2:
  v8: b32 = const.b32 0x0
  exit
";

#[test]
fn the_exits_of_a_loop_are_deferred_if_lanes_leave_it_in_different_iterations() {
    let uniform = planned(&with_condition("", &LOOP.replace("v7", "v1"))).unwrap();
    assert!(
        uniform.contains("block1: end of loop 0 or block2\nend of loop 0\n"),
        "{uniform}"
    );
    let divergent = planned(&with_condition("", &LOOP.replace("v7", "v0"))).unwrap();
    assert!(
        divergent.contains(
            "end of loop 0 (guarded, else block2 if any lane executes it): exits are deferred"
        ),
        "{divergent}"
    );
}

#[test]
fn a_loop_with_two_entries_is_refused() {
    let rest = "  brif v9, block1, block2
block1:
  jump block2
block2:
  brif v9, block1, block3
block3:
  exit
";
    assert_eq!(
        planned(&with_condition(UNIFORM, rest)),
        Err(Refusal::Irreducible)
    );
}
