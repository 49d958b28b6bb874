//! The loops of a function with a preheader each: the only block outside of the loop that leads to it, which leads
//! nowhere else.

use margay_ir::analysis::{Cfg, Loops};
use margay_ir::entity::{Block, SecondaryMap};
use margay_ir::function::BlockCall;

use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;

/// The loops of a function.
pub(super) struct Forest {
    pub(super) cfg: Cfg,
    pub(super) loops: Loops,
    /// The preheader of each loop; `None` if the loop can be entered at several blocks.
    pub(super) preheaders: Vec<Option<Block>>,
    /// The preheaders that were created.
    created: Vec<Block>,
}

impl Forest {
    /// Finds the loops and creates the preheaders that are missing. Returns `None` if there is no loop.
    pub(super) fn new(function: &mut Function) -> Option<Forest> {
        let mut cfg = Cfg::new(function);
        let mut loops = Loops::new(function, &cfg);
        if loops.loops.is_empty() {
            return None;
        }
        let headers: Vec<Block> = (0..loops.loops.len())
            .filter(|&number| is_natural(&cfg, &loops, number))
            .filter(|&number| preheader(function, &cfg, &loops, number).is_none())
            .map(|number| loops.header(number))
            .collect();
        let mut created = Vec::new();
        if !headers.is_empty() {
            let mut before: SecondaryMap<Block, Option<Block>> = SecondaryMap::default();
            for header in headers {
                let block = create(function, &cfg, &loops, header);
                before[header] = Some(block);
                created.push(block);
            }
            let order = std::mem::take(&mut function.order);
            let pairs = order.into_iter().map(|block| (before[block], block));
            function.order = pairs
                .flat_map(|(before, block)| before.into_iter().chain([block]))
                .collect();
            cfg = Cfg::new(function);
            loops = Loops::new(function, &cfg);
        }
        let preheaders = (0..loops.loops.len())
            .map(|number| {
                let is_natural = is_natural(&cfg, &loops, number);
                is_natural.then(|| preheader(function, &cfg, &loops, number))?
            })
            .collect();
        Some(Forest {
            cfg,
            loops,
            preheaders,
            created,
        })
    }

    /// Returns the sources of the edges from the loop `number` back to its header.
    pub(super) fn latches(&self, number: usize) -> impl Iterator<Item = Block> + '_ {
        let preds = self.cfg.preds(self.loops.header(number)).iter().copied();
        preds.filter(move |&pred| self.loops.contains(number, pred))
    }

    /// Returns, for each loop, the blocks that are in no inner loop, in the order of [`Loops::order`].
    pub(super) fn own_blocks(&self) -> Vec<Vec<Block>> {
        let mut own = vec![Vec::new(); self.loops.loops.len()];
        for &block in &self.loops.order {
            if let Some(number) = self.loops.innermost(block) {
                own[number].push(block);
            }
        }
        own
    }

    /// Removes the preheaders that were created and that are still empty.
    pub(super) fn remove_empty(&self, function: &mut Function) {
        let mut is_removed: SecondaryMap<Block, bool> = SecondaryMap::default();
        for &block in &self.created {
            let &[jump] = function.body[block].as_slice() else {
                continue;
            };
            is_removed[block] = true;
            let Some(to) = function
                .targets
                .remove(&jump)
                .and_then(|calls| calls.into_iter().next())
            else {
                continue;
            };
            let params = std::mem::take(&mut function.blocks[block]);
            for &pred in self.cfg.preds(block) {
                redirect(function, pred, block, |call| {
                    let passed = |arg| match params.iter().position(|&param| param == arg) {
                        Some(index) => call.args[index],
                        None => arg,
                    };
                    BlockCall {
                        block: to.block,
                        args: to.args.iter().map(|&arg| passed(arg)).collect(),
                    }
                });
            }
        }
        function.order.retain(|&block| !is_removed[block]);
    }
}

/// Returns whether a loop is entered only at its header.
fn is_natural(cfg: &Cfg, loops: &Loops, number: usize) -> bool {
    let inner = &loops.body(number)[1..];
    let mut preds = inner.iter().flat_map(|&block| cfg.preds(block));
    preds.all(|&pred| loops.contains(number, pred))
}

/// Returns the preheader of a loop, if there is one.
fn preheader(function: &Function, cfg: &Cfg, loops: &Loops, number: usize) -> Option<Block> {
    let preds = cfg.preds(loops.header(number)).iter();
    let mut outside = preds.filter(|&&pred| !loops.contains(number, pred));
    let &only = outside.next()?;
    (outside.next().is_none() && function.successors(only).len() == 1).then_some(only)
}

/// Creates a block between the header of a loop and the branches outside of the loop that lead to it.
fn create(function: &mut Function, cfg: &Cfg, loops: &Loops, header: Block) -> Block {
    let block = function.blocks.push(Vec::new());
    let types: Vec<_> = function.blocks[header]
        .iter()
        .map(|&param| function.ty(param))
        .collect();
    let params = types
        .iter()
        .map(|&ty| function.append_param(block, ty))
        .collect();
    let jump = function.append(block, (Op::Jump, None, Data::Nothing), &[], &[]);
    let call = BlockCall {
        block: header,
        args: params,
    };
    function.targets.insert(jump, [call].into_iter().collect());
    let number = loops.headed_by(header);
    for &pred in cfg.preds(header) {
        if number.is_some_and(|number| !loops.contains(number, pred)) {
            redirect(function, pred, header, |call| BlockCall {
                block,
                args: call.args.clone(),
            });
        }
    }
    block
}

/// Replaces the branches from one block to another.
fn redirect(
    function: &mut Function,
    from: Block,
    to: Block,
    with: impl Fn(&BlockCall) -> BlockCall,
) {
    let calls = function.successors_mut(from).iter_mut();
    for call in calls.filter(|call| call.block == to) {
        *call = with(call);
    }
}

/// Inserts instructions before the terminator of a block.
pub(super) fn insert_at_end(
    function: &mut Function,
    block: Block,
    insts: impl IntoIterator<Item = margay_ir::entity::Inst>,
) {
    let body = &mut function.body[block];
    let at = body.len().saturating_sub(1);
    body.splice(at..at, insts);
}
