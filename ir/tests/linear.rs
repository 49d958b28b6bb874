//! The order of masked code: every edge leads forwards, or back to the header of a loop that holds its source.

use margay_ir::analysis::{Cfg, Linear};
use margay_ir::entity::Block;
use margay_ir::function::Function;
use margay_ir::parse;

fn kernel(body: &str) -> Function {
    parse::function(&format!("kernel @k {{\n  parameters 0\n{body}\n}}")).unwrap()
}

fn order(body: &str) -> (Function, Linear) {
    let function = kernel(body);
    let linear = Linear::new(&function, &Cfg::new(&function), false);
    let at = |block: Block| linear.position(block).unwrap();
    assert_eq!(linear.order.len(), function.blocks().len());
    for &block in function.blocks() {
        assert_eq!(linear.order[at(block) as usize], block);
        for call in function.successors(block) {
            let (from, to) = (at(block), at(call.block));
            if to > from {
                continue;
            }
            let span = linear.loops[linear.loop_at(to).unwrap()];
            assert!((span.start..span.end).contains(&from), "{block:?}");
        }
    }
    // Loops lie within each other or apart.
    for a in &linear.loops {
        for b in &linear.loops {
            let apart = a.end <= b.start || b.end <= a.start;
            let within = b.start <= a.start && a.end <= b.end;
            assert!(apart || within || a.start <= b.start && b.end <= a.end);
        }
    }
    (function, linear)
}

/// Numbers of the blocks between a loop's ends, by the loop's number.
fn members(linear: &Linear, number: usize) -> Vec<u32> {
    let span = linear.loops[number];
    let mut blocks: Vec<u32> = linear.order[span.start as usize..span.end as usize]
        .iter()
        .map(|block| block.0)
        .collect();
    blocks.sort_unstable();
    blocks
}

#[test]
fn branches_meet_behind_both_ways() {
    let (_, linear) = order(
        "block0:
  v0: pred = const.pred 0x1
  brif v0, block1, block2
block1:
  jump block3
block2:
  jump block3
block3:
  exit",
    );
    assert!(linear.loops.is_empty());
    assert_eq!(linear.order.last().map(|block| block.0), Some(3));
}

#[test]
fn loops_stand_together_with_their_header_first() {
    let (_, linear) = order(
        "block0:
  v0: pred = const.pred 0x1
  jump block1
block1:
  brif v0, block2, block5
block2:
  brif v0, block2, block3
block3:
  brif v0, block4, block1
block4:
  jump block1
block5:
  exit",
    );
    assert_eq!(linear.loops.len(), 2);
    assert_eq!(members(&linear, 0), [1, 2, 3, 4]);
    assert_eq!(linear.order[linear.loops[0].start as usize].0, 1);
    assert_eq!(members(&linear, 1), [2]);
}

#[test]
fn a_loop_through_a_sync_point_is_one() {
    // Nobody takes the edge behind the barrier, but lanes of different turns must not meet in block 1.
    let (function, linear) = order(
        "block0:
  v0: pred = const.pred 0x1
  v1: b32 = const.b32 0x0
  jump block1
block1:
  bar{mode:sync flag} v1, v1
  jump block2
block2:
  brif v0, block1, block3
block3:
  exit",
    );
    assert_eq!(members(&linear, 0), [1, 2]);
    assert_eq!(linear.onward(&function, Block(1)).count(), 0);
    assert_eq!(linear.onward(&function, Block(2)).count(), 2);
}

#[test]
fn loops_with_two_entries_are_loops() {
    let (_, linear) = order(
        "block0:
  v0: pred = const.pred 0x1
  brif v0, block1, block2
block1:
  brif v0, block2, block3
block2:
  brif v0, block1, block3
block3:
  exit",
    );
    assert_eq!(members(&linear, 0), [1, 2]);
}
