//! Tests the order of blocks for masked code. In this order, every edge leads forwards, or back to the header of a loop
//! that contains the source of the edge.

use std::collections::BTreeSet;

use margay_ir::analysis::{Cfg, Dominators, Linear, Loops};
use margay_ir::builder::FunctionBuilder;
use margay_ir::entity::{Block, Entity};
use margay_ir::function::Function;
use margay_ir::parse;
use margay_ops::ops::Opcode;
use margay_ops::types::Type;

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
    // Of two loops, either one contains the other, or they have no block in common.
    for a in &linear.loops {
        for b in &linear.loops {
            let apart = a.end <= b.start || b.end <= a.start;
            let within = b.start <= a.start && a.end <= b.end;
            assert!(apart || within || a.start <= b.start && b.end <= a.end);
        }
    }
    (function, linear)
}

/// Returns the numbers of the blocks in the loop with index `number`.
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
    // Every lane stops at the barrier, so no lane takes the edge from block 1 to block 2 directly. The two blocks still
    // form a loop, because lanes in different iterations must not meet in block 1.
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

/// Returns a function whose blocks 1, 2, ... have the given successors. Of three or more successors of a block, only
/// the first two are used. Block 0 jumps to block 1.
fn graph(successors: &[Vec<usize>]) -> Function {
    let mut b = FunctionBuilder::new(Function {
        kernel: Some(Default::default()),
        ..Default::default()
    });
    let blocks: Vec<Block> = successors.iter().map(|_| b.create_block()).collect();
    b.jump(blocks[0]);
    for (&block, targets) in blocks.iter().zip(successors) {
        b.switch_to(block);
        match targets[..] {
            [] => {
                b.end(Opcode::Exit, &[]);
            }
            [to] => b.jump(blocks[to - 1]),
            [then, other, ..] => {
                let condition = b.constant(Type::PRED, 1);
                b.brif(condition, blocks[then - 1], blocks[other - 1]);
            }
        }
    }
    b.function
}

/// Returns a generator of pseudorandom numbers below a bound. The sequence is the same in every run.
fn random() -> impl FnMut(usize) -> usize {
    let mut state = 1u64;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    }
}

/// Returns the successors of 2 to 15 blocks. Each block has up to three successors.
fn random_graph(random: &mut impl FnMut(usize) -> usize) -> Vec<Vec<usize>> {
    let count = 2 + random(14);
    let mut targets = || {
        (0..random(8).div_ceil(3))
            .map(|_| 1 + random(count))
            .collect()
    };
    (0..count).map(|_| targets()).collect()
}

/// Compares the loops of random graphs with their definition: the loop of a header consists of the blocks from which an
/// edge back to the header is reached through blocks that do not come before the header in reverse postorder.
#[test]
fn loops_of_random_graphs_agree_with_the_definition() {
    let mut random = random();
    let mut found = 0;
    for _ in 0..3000 {
        let successors = random_graph(&mut random);
        let function = graph(&successors);
        let cfg = Cfg::new(&function);
        let loops = Loops::new(&function, &cfg);
        let mut expected: Vec<(Block, BTreeSet<Block>)> = Vec::new();
        for &header in cfg.rpo() {
            let is_behind = |pred: &Block| cfg.number(*pred) >= cfg.number(header);
            let preds = |block| cfg.preds(block).iter().copied().filter(is_behind);
            let mut work: Vec<Block> = preds(header).collect();
            if work.is_empty() {
                continue;
            }
            let mut body = BTreeSet::from([header]);
            while let Some(block) = work.pop() {
                if body.insert(block) {
                    work.extend(preds(block));
                }
            }
            expected.push((header, body));
        }
        found += expected.len();
        assert_eq!(loops.loops.len(), expected.len(), "{successors:?}");
        for (header, body) in &expected {
            let number = loops.headed_by(*header).expect("a loop");
            let blocks: BTreeSet<Block> = loops.body(number).iter().copied().collect();
            assert_eq!(blocks, *body, "{successors:?}");
            assert_eq!(loops.header(number), *header);
            let around = expected
                .iter()
                .filter(|(other, blocks)| other != header && blocks.contains(header));
            let outer = around.min_by_key(|(_, blocks)| blocks.len());
            let outer = outer.and_then(|(header, _)| loops.headed_by(*header));
            assert_eq!(loops.outer(number), outer, "{successors:?}");
        }
        let at = |block: Block| loops.position(block).expect("a reachable block");
        for &block in cfg.rpo() {
            let around = expected.iter().filter(|(_, body)| body.contains(&block));
            let innermost = around.min_by_key(|(_, blocks)| blocks.len());
            let innermost = innermost.and_then(|(header, _)| loops.headed_by(*header));
            assert_eq!(loops.innermost(block), innermost, "{successors:?}");
            for call in function.successors(block) {
                let forwards = at(call.block) > at(block);
                let header = loops.headed_by(call.block);
                let back = header.is_some_and(|number| loops.contains(number, block));
                assert!(
                    forwards || back,
                    "{successors:?}: {block} to {}",
                    call.block
                );
            }
        }
    }
    assert!(found > 2000, "{found} loops");
}

/// Compares the dominators of random graphs with their definition: if a block is removed, the blocks that it dominates
/// are unreachable.
#[test]
fn dominators_of_random_graphs_agree_with_the_definition() {
    let mut random = random();
    for _ in 0..3000 {
        let successors = random_graph(&mut random);
        let function = graph(&successors);
        let cfg = Cfg::new(&function);
        let dominators = Dominators::new(&cfg);
        for &without in cfg.rpo() {
            let mut reached = BTreeSet::new();
            let mut work = vec![function.entry()];
            while let Some(block) = work.pop() {
                if block != without && reached.insert(block) {
                    work.extend(function.successors(block).iter().map(|call| call.block));
                }
            }
            for &block in cfg.rpo() {
                let dominates = dominators.dominates(&cfg, without, block);
                assert_eq!(dominates, !reached.contains(&block), "{successors:?}");
            }
        }
    }
}

/// Checks that the loop analysis visits each edge once. An analysis that searched each loop again would visit 10^10
/// edges in this test.
#[test]
fn very_deep_nests_are_searched_once() {
    let count = 100_000;
    let mut random = random();
    let branches = |i: usize, to: usize| if i == count { vec![] } else { vec![i + 1, to] };
    let anywhere: Vec<Vec<usize>> = (1..=count)
        .map(|i| branches(i, 1 + random(count)))
        .collect();
    let nested: Vec<Vec<usize>> = (1..=count)
        .map(|i| branches(i, if 2 * i > count { count - i } else { i }.max(1)))
        .collect();
    for (successors, least) in [(anywhere, count / 10), (nested, count / 2 - 1)] {
        let function = graph(&successors);
        let cfg = Cfg::new(&function);
        let dominators = Dominators::new(&cfg);
        let last = cfg.rpo()[cfg.rpo().len() - 1];
        assert!(dominators.dominates(&cfg, function.entry(), last));
        let loops = Loops::new(&function, &cfg);
        assert_eq!(loops.order.len(), cfg.rpo().len());
        assert!(loops.loops.len() >= least, "{} loops", loops.loops.len());
        assert_eq!(loops.innermost(Block::new(0)), None);
    }
}
