//! The order of blocks for the register allocator.
//!
//! The allocator estimates from the order of the blocks how often each runs: the blocks between the target and the source
//! of an edge that leads back run more often. The blocks of each loop are therefore contiguous, with the header first.
//! Otherwise they have the order of the code, in which blocks that rarely run come last. An edge that leads back from such
//! a block raises the estimate of the blocks to which it leads, not its own.

use margay_ir::analysis::{Cfg, Loops};
use margay_ir::entity::Block;
use margay_vir::function::Function;

/// A block, or the blocks of a loop.
#[derive(Clone, Copy)]
enum Item {
    Block(Block),
    Loop(usize),
}

/// Returns the reachable blocks of a function in the order for the register allocator.
pub(crate) fn nested(vir: &Function, cfg: &Cfg) -> Vec<Block> {
    let loops = Loops::new(vir, cfg);
    let outside = loops.loops.len();
    // What is directly in each loop; at the end, what is in none.
    let mut contents: Vec<Vec<Item>> = vec![Vec::new(); outside + 1];
    for (number, list) in contents[..outside].iter_mut().enumerate() {
        list.push(Item::Block(loops.header(number)));
    }
    for &block in vir.order.iter().filter(|&&block| cfg.is_reachable(block)) {
        let (around, item) = match loops.headed_by(block) {
            Some(number) => (loops.outer(number), Item::Loop(number)),
            None => (loops.innermost(block), Item::Block(block)),
        };
        contents[around.unwrap_or(outside)].push(item);
    }
    let mut order = Vec::with_capacity(cfg.rpo().len());
    let mut rest: Vec<Item> = std::mem::take(&mut contents[outside]);
    rest.reverse();
    while let Some(item) = rest.pop() {
        match item {
            Item::Block(block) => order.push(block),
            Item::Loop(number) => {
                rest.extend(std::mem::take(&mut contents[number]).into_iter().rev())
            }
        }
    }
    order
}
