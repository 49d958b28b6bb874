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

/// Returns whether a path leads from `from` to `to` through blocks other than `avoided`. Every path has at least one
/// edge.
fn reaches(successors: &[Vec<usize>], from: usize, to: usize, avoided: Option<usize>) -> bool {
    let mut seen = vec![false; successors.len()];
    let mut work = vec![from];
    while let Some(block) = work.pop() {
        for &next in &successors[block] {
            if Some(next) != avoided && !std::mem::replace(&mut seen[next], true) {
                work.push(next);
            }
        }
    }
    seen[to]
}

/// Compares the analysis of random graphs with its definition: for each branch that threads take differently, no block
/// with a barrier is reached from the branch before a block to which all paths from the branch to an end lead. The
/// graphs contain irreducible loops, branches to one block, and blocks with a barrier and a branch.
#[test]
fn random_graphs_agree_with_the_definition() {
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut results = [0; 2];
    for _ in 0..3000 {
        let count = 3 + random(8);
        let mut successors = vec![vec![1]];
        for _ in 1..count {
            let degree = [1, 2, 2, 1, 0][random(5)];
            successors.push((0..degree).map(|_| 1 + random(count - 1)).collect());
        }
        let barriers: Vec<bool> = (0..count).map(|_| random(4) == 0).collect();
        let differs: Vec<bool> = (0..count).map(|_| random(3) == 0).collect();
        let mut text = String::from(
            "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: pred = setp.u32{cmp:lt} v0, v0
  v2: b32 = sreg.u32 %ctaid.x
  v3: pred = setp.u32{cmp:lt} v2, v2
  v4: b32 = const.b32 0xffffffff
  jump block1
",
        );
        for block in 1..count {
            text += &format!("block{block}:\n");
            if barriers[block] {
                text += "  bar.warp.sync v4\n";
            }
            text += &match successors[block][..] {
                [] => "  exit\n".to_owned(),
                [to] => format!("  jump block{to}\n"),
                [then, other] => {
                    let condition = if differs[block] { "v1" } else { "v3" };
                    format!("  brif {condition}, block{then}, block{other}\n")
                }
                _ => unreachable!("two at most"),
            };
        }
        let path = |from, to, avoided| reaches(&successors, from, to, avoided);
        let ends: Vec<usize> = (0..count).filter(|&b| successors[b].is_empty()).collect();
        let ends_of = |from, avoided| {
            let mut ends = ends.iter();
            ends.any(|&end| from == end || path(from, end, avoided) && Some(end) != avoided)
        };
        let reachable: Vec<usize> = (0..count).filter(|&b| b == 0 || path(0, b, None)).collect();
        let expected = reachable.iter().all(|&block| ends_of(block, None))
            && reachable.iter().all(|&branch| {
                let is_divergent = successors[branch].len() == 2 && differs[branch];
                let follows = |&other: &usize| other != branch && !ends_of(branch, Some(other));
                let stops: Vec<usize> = (0..count).filter(follows).collect();
                let mut cut = successors.clone();
                stops.iter().for_each(|&stop| cut[stop].clear());
                let between =
                    |block: usize| !stops.contains(&block) && reaches(&cut, branch, block, None);
                !is_divergent || (1..count).all(|block| !(barriers[block] && between(block)))
            });
        results[usize::from(expected)] += 1;
        assert_eq!(meet(&text), expected, "{text}");
    }
    assert!(results.iter().all(|&count| count > 300), "{results:?}");
}
