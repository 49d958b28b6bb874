//! Divides a kernel into phases: the code from one barrier of the CTA to the next.
//!
//! A phase begins at a resume point ([`Regions`]) and ends where all its threads have reached a barrier or have exited.
//! The program runs all chunks of the CTA from the start of the phase to its end, one after the other, and then goes on
//! with the phase behind the barrier.
//!
//! This requires that all threads which have not exited reach the same barrier. [`Phases::new`] accepts a kernel if this
//! is proved: behind each branch whose condition is not equal for the CTA, at most one barrier can be the next one, or all
//! threads that do not exit meet at a block before they reach a barrier.

use std::collections::BTreeSet;

use margay_ir::analysis::regions::{ResumePoint, sync_point_of};
use margay_ir::analysis::uniformity::Class;
use margay_ir::analysis::{Cfg, Dominators, Loops, Regions, Uniformity};
use margay_ir::entity::{Block, Entity, Inst, Value};
use margay_ir::function::{BlockCall, Function};
use margay_ops::meaning::Desc;
use margay_ops::mods::{Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Refusal;
use crate::flow::Flow;
use crate::scan::{WARP, is_collective, only_yields};

/// The phases of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    /// The kernel, in which barriers end their blocks. An additional entry block leads to the start of a phase.
    pub(crate) function: Function,
    /// The resume point behind each barrier.
    pub(crate) behind: FxHashMap<Inst, usize>,
    /// The phases, by resume point. No phase begins behind a sync point that lanes pass together.
    pub(crate) all: Vec<Option<Phase>>,
    /// Whether threads may exit while others go on to a barrier.
    pub(crate) has_early_exits: bool,
}

/// A phase.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// The blocks, in an order in which definitions precede uses.
    pub(crate) blocks: Vec<Block>,
    /// The first block of the kernel in the phase.
    pub(crate) start: Block,
    /// The loops of the phase.
    pub(crate) loops: Loops,
    /// The planned control flow.
    pub(crate) flow: Flow,
    /// The resume points behind the barriers at which the phase may end.
    pub(crate) ends: Vec<usize>,
    /// Whether threads may exit in the phase.
    pub(crate) may_exit: bool,
    /// The values that the phase uses and may not have computed before.
    pub(crate) needed: FxHashSet<Value>,
}

impl Phases {
    /// Divides a kernel into phases.
    ///
    /// # Errors
    ///
    /// Refuses kernels with sync points other than barriers for all threads of the CTA, and kernels whose threads might
    /// wait at different barriers.
    pub(crate) fn new(
        kernel: &Function,
        regions: &Regions,
        (uniformity, width, chunks): (&Uniformity, u32, u32),
    ) -> Result<Phases, Refusal> {
        let mut function = kernel.clone();
        let mut behind = FxHashMap::default();
        let may_yield = only_yields(kernel, regions) && width == WARP;
        for (index, resume_point) in regions.resume_points.iter().enumerate() {
            if let Some(inst) = resume_point.sync_point
                && !may_yield
                && !is_passed(kernel, inst, (width, chunks))
            {
                check_barrier(kernel, inst)?;
                behind.insert(inst, index);
            }
        }
        for &block in kernel.blocks() {
            if let Some((inst, next)) = sync_point_of(kernel, block)
                && behind.contains_key(&inst)
            {
                if !kernel.dfg.blocks[next].params.is_empty() {
                    return Err(Refusal::Operation("a barrier that passes values"));
                }
                function.layout.insts[block].pop();
            }
        }
        let jump = add_entry(&mut function);
        let mut phases = Phases {
            function,
            behind,
            all: Vec::new(),
            has_early_exits: false,
        };
        for (index, resume_point) in regions.resume_points.iter().enumerate() {
            let begins = index == 0 || phases.behind.values().any(|&other| other == index);
            let phase = match begins {
                true => {
                    phases.enter(resume_point.block, jump);
                    Some(phases.phase(resume_point, uniformity)?)
                }
                false => None,
            };
            phases.all.push(phase);
        }
        // The frames contain a byte for the masks of eight lanes.
        if phases.has_early_exits && width < 8 {
            return Err(Refusal::Operation("a chunk of fewer than eight lanes"));
        }
        Ok(phases)
    }

    /// Makes the entry block lead to the start of a phase.
    fn enter(&mut self, start: Block, jump: Inst) {
        let calls = std::iter::once(BlockCall::to(start)).collect();
        self.function.dfg.targets.insert(jump, calls);
    }

    fn phase(&mut self, start: &ResumePoint, uniformity: &Uniformity) -> Result<Phase, Refusal> {
        let function = &self.function;
        let cfg = Cfg::new(function);
        let loops = Loops::new(function, &cfg);
        let flow = Flow::new(function, uniformity, &loops)?;
        // The barriers and exits that may end the phase behind each block; 0 stands for an exit.
        let mut ends: FxHashMap<Block, BTreeSet<usize>> = FxHashMap::default();
        let mut changed = true;
        while changed {
            changed = false;
            for &block in cfg.rpo().iter().rev() {
                let mut all: BTreeSet<usize> = BTreeSet::new();
                for call in function.successors(block) {
                    all.extend(ends.get(&call.block).into_iter().flatten());
                }
                let last = function
                    .layout
                    .terminator(block)
                    .expect("a block has a terminator");
                match self.behind.get(&last) {
                    Some(&index) => all.insert(index),
                    None if function.dfg.insts[last].opcode == Opcode::Exit => all.insert(0),
                    None => false,
                };
                let known = ends.entry(block).or_default();
                if *known != all {
                    *known = all;
                    changed = true;
                }
            }
        }
        let meetings = self.meetings(&cfg);
        for &block in cfg.rpo() {
            let level = uniformity.branch(function, block);
            let barriers = ends[&block].iter().filter(|&&end| end != 0).count();
            if level > Class::Cta && barriers > 1 && !meetings.contains(&block) {
                return Err(Refusal::Operation("a barrier that not all threads reach"));
            }
            // Some threads may exit while others go on to a barrier.
            self.has_early_exits |= level > Class::Cta && barriers > 0 && ends[&block].contains(&0);
        }
        let all = &ends[&function.entry()];
        let barriers: Vec<usize> = all.iter().copied().filter(|&end| end != 0).collect();
        Ok(Phase {
            blocks: cfg.rpo().to_vec(),
            start: start.block,
            loops,
            flow,
            ends: barriers,
            may_exit: all.contains(&0),
            needed: needed_in(function, &cfg),
        })
    }
}

impl Phases {
    /// Returns the blocks of a phase behind which all threads that do not exit meet at a block before the next barrier.
    fn meetings(&self, cfg: &Cfg) -> FxHashSet<Block> {
        let function = &self.function;
        let ends: Vec<Block> = cfg
            .rpo()
            .iter()
            .copied()
            .filter(|&block| {
                let last = function.layout.terminator(block);
                last.is_some_and(|last| self.behind.contains_key(&last))
            })
            .collect();
        // The graph with the edges reversed, from a block behind all barriers.
        let exit = Block::new(function.dfg.blocks.len());
        let reversed = Cfg::of(exit, cfg.rpo().len() + 1, |block, index| {
            let next = if block == exit {
                &ends
            } else {
                cfg.preds(block)
            };
            next.get(index).copied()
        });
        let dominators = Dominators::new(&reversed);
        let meets = |&block: &Block| {
            dominators
                .idom(&reversed, block)
                .is_some_and(|next| next != exit)
        };
        cfg.rpo().iter().copied().filter(meets).collect()
    }
}

/// Returns whether lanes pass a sync point without waiting, in chunks of `width` lanes of which `chunks` run together: if a
/// chunk is a whole warp, its lanes are already together at collectives. Where only the order of accesses matters, the warp
/// may consist of several chunks.
fn is_passed(kernel: &Function, inst: Inst, (width, chunks): (u32, u32)) -> bool {
    let lanes = match kernel.dfg.insts[inst].opcode {
        Opcode::Converge => width * chunks,
        _ => width,
    };
    is_collective(kernel, inst) && lanes.is_multiple_of(WARP)
}

/// Refuses a sync point that is not a barrier for all threads of the CTA.
fn check_barrier(kernel: &Function, inst: Inst) -> Result<(), Refusal> {
    let data = &kernel.dfg.insts[inst];
    let args = kernel.dfg.args(inst);
    let constant = |index: usize| args.get(index).and_then(|&arg| kernel.dfg.constant(arg));
    let is_whole = constant(0).is_some() && constant(1) == Some(0);
    match data.opcode == Opcode::Bar && data.mods.mode() == Mode::Sync && is_whole {
        true => Ok(()),
        false => Err(Refusal::Operation(data.opcode.name())),
    }
}

/// Adds an entry block that contains a jump, and returns the jump.
fn add_entry(function: &mut Function) -> Inst {
    let entry = function.append_block();
    function.layout.order.rotate_right(1);
    let desc = Desc {
        opcode: Opcode::Jump,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let jump = function.dfg.make_inst(desc, &[], &[]);
    function.append_inst(entry, jump);
    jump
}

/// Returns the values that blocks use although their definitions do not dominate these blocks. `cfg` is the control flow of
/// a phase.
fn needed_in(function: &Function, cfg: &Cfg) -> FxHashSet<Value> {
    let mut homes: FxHashMap<Value, Block> = FxHashMap::default();
    for &block in cfg.rpo() {
        let results = function.insts(block).iter();
        let results = results.flat_map(|&inst| function.dfg.results(inst));
        let params = function.dfg.blocks[block].params.iter();
        homes.extend(params.chain(results).map(|&value| (value, block)));
    }
    let dominators = Dominators::new(cfg);
    let mut needed = FxHashSet::default();
    for &block in cfg.rpo() {
        let is_needed = |value: &&Value| {
            let home = homes.get(value);
            home.is_none_or(|&home| !dominators.dominates(cfg, home, block))
        };
        for &inst in function.insts(block) {
            let calls = function.dfg.targets(inst).iter();
            let passed = calls.flat_map(|call| &call.args);
            let used = function.dfg.args(inst).iter().chain(passed);
            needed.extend(used.filter(is_needed));
        }
    }
    needed
}

/// Returns the values that the blocks of a phase define.
pub(crate) fn defined_in(function: &Function, blocks: &[Block]) -> FxHashSet<Value> {
    let mut defined = FxHashSet::default();
    for &block in blocks {
        defined.extend(&function.dfg.blocks[block].params);
        let insts = function.insts(block).iter();
        defined.extend(insts.flat_map(|&inst| function.dfg.results(inst)));
    }
    defined
}
