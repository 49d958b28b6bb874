//! `thread` and `unroll`: which branches and loops they change, and that results and memory stay the same.

use margay_vir::passes::{Options, PASSES};
use margay_vir::verify;
use proptest::prelude::*;

use super::after;
use crate::support::{outcome, parsed};

/// The sum of eight words in memory as a tree: `for (n = first; n > 0; n /= 2)`, the first `n` lanes add words at the
/// distance `n`. An iteration in which all lanes run has a variant of its own, and lanes may leave the loop early.
fn tree(first: u32, condition: &str) -> String {
    format!(
        "func @f(b64, b32x8, b32, predx8) -> (b32, b32x8) {{
block0(v0: b64, v1: b32x8, v2: b32, v3: predx8):
  v4: b32 = const.b32{{{first:#x}}}
  v5: b32 = const.b32{{0x0}}
  v6: b32 = const.b32{{0x1}}
  v7: b32x8 = affine.b32x8{{1}} v5
  store.b32x8{{b32 4}} v0, v1
  jump block1(v4, v5)
block1(v10: b32, v11: b32):
  v12: predx8 = {condition}
  v13: b64 = map.b64{{cvt.u64.u32}} v10
  v14: b64 = const.b64{{0x2}}
  v15: b64 = map.b64{{shl.b64}} v13, v6
  v16: b64 = map.b64{{shl.b64}} v15, v6
  v17: b64 = map.b64{{add.u64}} v0, v16
  v18: pred = all.predx8 v12
  v19: b32x8 = load.b32x8{{b32 4}} v0
  brif v18, block2, block3
block2:
  v20: b32x8 = load.b32x8{{b32 4}} v17
  v21: b32x8 = map.b32x8{{add.u32}} v19, v20
  store.b32x8{{b32 4}} v0, v21
  jump block4(v21)
block3:
  v22: b32x8 = load.b32x8{{b32 4}} v17, v12
  v23: b32x8 = map.b32x8{{add.u32}} v19, v22
  store.b32x8{{b32 4}} v0, v23, v12
  v24: pred = any.predx8 v3
  v25: b32 = extract.b32x8{{0}} v23
  v26: b32 = map.b32{{shr.u32}} v10, v6
  v27: b32 = map.b32{{add.u32}} v11, v25
  v28: pred = map.pred{{setp.u32{{cmp:ne}}}} v26, v5
  brif v24, block6(v10), block7
block7:
  brif v28, block1(v26, v27), block5(v11, v23)
block4(v30: b32x8):
  v31: b32 = map.b32{{shr.u32}} v10, v6
  v32: b32 = map.b32{{add.u32}} v11, v2
  v33: pred = map.pred{{setp.u32{{cmp:ne}}}} v31, v5
  brif v33, block1(v31, v32), block5(v32, v30)
block5(v40: b32, v41: b32x8):
  v42: b32 = map.b32{{add.u32}} v40, v11
  ret v42, v41
block6(v50: b32):
  v51: b32 = map.b32{{add.u32}} v50, v11
  ret v51, v19
}}
"
    )
}

/// Returns whether a branch leads to a block that precedes it or contains it.
fn has_loop(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let name = |line: &&str| line.split(['(', ':']).next().unwrap().to_owned();
    lines.iter().enumerate().any(|(at, line)| {
        let words: Vec<&str> = line.trim().split([' ', ',', '(', ')']).collect();
        let is_branch = matches!(words[0], "jump" | "brif");
        let mut blocks = lines[..at].iter().filter(|line| line.starts_with("block"));
        is_branch && blocks.any(|line| words.contains(&name(line).as_str()))
    })
}

/// The mask of a level of the tree.
const LEVEL: &str = "map.predx8{setp.u32{cmp:lt}} v7, v10";

#[test]
fn a_loop_over_the_levels_of_a_tree_has_no_branches_back() {
    let text = tree(8, LEVEL);
    assert!(has_loop(&text));
    let result = after("simplify unused thread unroll", &text);
    assert!(!has_loop(&result), "{result}");
    // The masks of the levels are known, and the first level has all lanes.
    assert!(!result.contains("setp"), "{result}");
    assert_eq!(result.matches("mask.predx8").count(), 3, "{result}");
}

#[test]
fn other_loops_stay() {
    let stays = |text: &str| {
        let before = after("simplify unused thread", text);
        after("unroll", &before) == before
    };
    assert!(!stays(&tree(16, LEVEL)));
    // The number of iterations is not known, or large, or nothing else depends on it.
    assert!(stays(
        &tree(8, LEVEL).replace("jump block1(v4,", "jump block1(v2,")
    ));
    assert!(stays(&tree(1 << 17, LEVEL)));
    assert!(!stays(&tree(1 << 16, LEVEL)));
    assert!(stays(&tree(8, "map.predx8{setp.u32{cmp:lt}} v1, v10")));
    // The loop never ends.
    assert!(stays(
        &tree(8, LEVEL)
            .replace(
                "v31: b32 = map.b32{shr.u32} v10, v6",
                "v31: b32 = map.b32{or.b32} v10, v6"
            )
            .replace(
                "v26: b32 = map.b32{shr.u32} v10, v6",
                "v26: b32 = map.b32{or.b32} v10, v6"
            )
    ));
}

#[test]
fn more_instructions_than_a_limit_are_not_copied() {
    let add = |n: usize| format!("  v{}: b32x8 = map.b32x8{{add.u32}} v{}, v20\n", n + 1, n);
    let adds: String = (100..1000).map(add).collect();
    let long = |first: u32| {
        let text = tree(first, LEVEL);
        let text = text.replace(
            "  v21:",
            &format!("  v100: b32x8 = map.b32x8{{add.u32}} v19, v19\n{adds}  v21:"),
        );
        after("unroll", &text.replace("} v19, v20", "} v1000, v20"))
    };
    assert!(!has_loop(&long(64)));
    assert!(has_loop(&long(256)));
}

/// A loop in which `decision` chooses the next of three phases.
fn phases(first: u32, next: u32) -> String {
    format!(
        "func @f(b64, b32x8, b32, predx8) -> (b32, b32x8) {{
block0(v0: b64, v1: b32x8, v2: b32, v3: predx8):
  v4: b32 = const.b32{{{first:#x}}}
  v5: b32 = const.b32{{0x0}}
  v6: b32 = const.b32{{{next:#x}}}
  v7: pred = any.predx8 v3
  brif v7, block1(v4, v2, v1), block7
block7:
  v8: b32x8 = load.b32x8{{b32 4}} v0
  jump block1(v2, v4, v8)
block1(v10: b32, v11: b32, v12: b32x8):
  v13: b32 = const.b32{{0x1}}
  v14: pred = map.pred{{setp.u32{{cmp:eq}}}} v10, v13
  v15: b32 = const.b32{{0x3}}
  brif v14, block2(v11, v15), block8
block8:
  v16: b32 = const.b32{{0x2}}
  v17: pred = map.pred{{setp.u32{{cmp:eq}}}} v10, v16
  v18: b32 = map.b32{{mul.s32{{half:lo}}}} v10, v15
  brif v17, block3(v11), block4(v18, v12)
block2(v20: b32, v21: b32):
  v22: b32 = map.b32{{add.u32}} v20, v21
  store.b32{{b32 4}} v0, v22
  v23: pred = map.pred{{setp.u32{{cmp:lo}}}} v22, v2
  brif v23, block1(v6, v22, v1), block1(v5, v20, v12)
block3(v30: b32):
  store.b32x8{{b32 4 +32}} v0, v12
  jump block4(v30, v12)
block4(v40: b32, v41: b32x8):
  v42: b32 = map.b32{{add.u32}} v40, v11
  v43: b32x8 = map.b32x8{{add.u32}} v41, v12
  ret v42, v43
}}
"
    )
}

#[test]
fn branches_skip_a_decision_that_constants_determine() {
    let comparisons = |text: &str| after("thread", text).matches("cmp:eq").count();
    let text = phases(1, 2);
    let is_branch = |line: &&str| !line.starts_with("block") && line.contains("block1(");
    let branches = |text: &str| text.lines().filter(is_branch).count();
    assert_eq!(branches(&text), 3);
    // Only the branch from `block7`, which passes a parameter, needs the comparisons, and `block7` continues with them.
    let result = after("thread", &text);
    assert_eq!(branches(&result), 0, "{result}");
    assert!(result.contains("cmp:eq}} v2,"), "{result}");
    assert_eq!(comparisons(&text), 2);
    let text = text.replace("jump block1(v2,", "jump block1(v4,");
    assert_eq!(comparisons(&text), 0);
    // Another block uses a result of the decision.
    let text = text.replace("add.u32} v40, v11", "add.u32} v40, v13");
    assert_eq!(comparisons(&text), 2);
}

/// Compares the outcomes of a function before and after passes.
fn check(text: &str, seed: u32) -> Result<(), TestCaseError> {
    let made = parsed(text);
    let expected = outcome(&made, seed);
    let mut changed = made.clone();
    for name in ["thread", "unroll", "dead", "unroll"] {
        let pass = PASSES.iter().find(|pass| pass.name == name).unwrap();
        (pass.run)(&mut changed, &Options::default());
        let problems = verify::function(&changed);
        prop_assert!(
            problems.is_empty(),
            "{name}: {problems:?}\n{made}\n{changed}"
        );
        let found = outcome(&changed, seed);
        prop_assert!(
            found == expected,
            "{name}: {:?} {:?}\n{made}\n{changed}",
            found.0,
            expected.0
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn loops_and_decisions_keep_results_and_memory(
        first in 0..40u32,
        number in 0..4u32,
        next in 0..4u32,
        seed in any::<u32>(),
        unmasked in any::<bool>(),
    ) {
        let mut text = tree(first, LEVEL);
        if unmasked {
            // No lane is in the mask, so lanes do not leave the loop early.
            text = text.replace("any.predx8 v3", "map.pred{setp.u32{cmp:ne}} v5, v5");
        }
        check(&text, seed)?;
        check(&phases(number, next), seed)?;
        // The first phase ends after one or two iterations.
        check(&phases(number, next).replace("v22, v2", "v22, v15"), seed)?;
    }
}
