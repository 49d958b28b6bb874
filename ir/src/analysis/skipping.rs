//! Finds barriers that some threads can skip without exiting. Such a barrier is executed only if a
//! condition holds that may differ between threads of a block. The threads for which the condition
//! is false skip the barrier, and later execute code that the other threads execute after the
//! barrier.
//!
//! CUDA requires that the condition around `__syncthreads()` is equal in all threads of a block. Threads that exit
//! early break this rule too, but from compute capability 7.0 on, a barrier waits only for threads that have not
//! exited, so programs may rely on early exits. At run time, skipped barriers and early exits look the same: some
//! threads exit without reaching the barrier. This analysis distinguishes skipped barriers from early exits.
//!
//! A barrier *depends* on a branch if every path from one successor of the branch leads to the barrier, and some path
//! from another successor leads to the thread's exit without the barrier. A barrier also depends on
//! the branches on which such a branch depends. A branch is an *early exit* if the paths from the
//! branch that avoid the barrier share no code with the paths that follow the barrier, except
//! blocks that only exit.
//!
//! Invariant: the result never contains a barrier that depends on an early exit, because the
//! threads may have taken that exit. A branch whose condition is equal for all lanes of a warp does
//! not count as an early exit in this rule, because such a condition is often equal in the whole
//! block, for example if it was loaded from memory.

use margay_ops::ops::Opcode;
use rustc_hash::FxHashSet;

use crate::analysis::uniformity::{Assumptions, Class};
use crate::analysis::{Cfg, Uniformity};
use crate::entity::{Block, Inst, SecondaryMap};
use crate::function::Function;

type Blocks = SecondaryMap<Block, bool>;

/// Returns the barriers of `function` that some threads can skip although these threads later
/// execute code that follows the barrier. The result contains no barrier that depends on an early
/// exit.
pub fn skipped_barriers(function: &Function) -> FxHashSet<Inst> {
    if !function.has_body() {
        return FxHashSet::default();
    }
    let cfg = Cfg::new(function);
    let graph = Graph {
        function,
        uniformity: Uniformity::new(function, Assumptions::of(function)),
        cfg: &cfg,
    };
    let mut found = FxHashSet::default();
    for &block in cfg.rpo() {
        let insts = function.insts(block).iter().copied();
        let mut barriers = insts.filter(|&inst| is_barrier(function, inst)).peekable();
        if barriers.peek().is_some() && graph.is_skipped(block) {
            found.extend(barriers);
        }
    }
    found
}

fn is_barrier(function: &Function, inst: Inst) -> bool {
    function.dfg.insts[inst].opcode == Opcode::Bar
}

struct Graph<'a> {
    function: &'a Function,
    uniformity: Uniformity,
    cfg: &'a Cfg,
}

impl Graph<'_> {
    /// Returns whether threads can skip the barrier in the block `barrier` although they later
    /// execute code that follows the barrier. Returns false if the barrier depends on an early
    /// exit.
    fn is_skipped(&self, barrier: Block) -> bool {
        let mut after = Blocks::default();
        for call in self.function.successors(barrier) {
            self.reach(call.block, None, &mut after);
        }
        let mut seen = Blocks::default();
        let mut targets = vec![barrier];
        let mut skipped = false;
        while let Some(target) = targets.pop() {
            if std::mem::replace(&mut seen[target], true) {
                continue;
            }
            let avoiding = self.avoiding(target);
            for &branch in self.cfg.rpo() {
                let successors = self.function.successors(branch);
                let avoids = |block: Block| block != target && avoiding[block];
                let away = successors.iter().filter(|call| avoids(call.block)).count();
                if away == 0 || away == successors.len() {
                    continue;
                }
                targets.push(branch);
                let class = self.uniformity.branch(self.function, branch);
                if class <= Class::Cta {
                    continue;
                }
                for call in successors.iter().filter(|call| avoids(call.block)) {
                    match self.goes_on(call.block, barrier, &after) {
                        Some(true) => skipped = true,
                        Some(false) if !class.is_uniform() => return false,
                        Some(false) | None => {}
                    }
                }
            }
        }
        skipped
    }

    /// Returns whether the paths from `from` that avoid the barrier share code with `after`, apart from blocks that
    /// only exit; `None` if none of these paths reaches the end of a thread.
    fn goes_on(&self, from: Block, barrier: Block, after: &Blocks) -> Option<bool> {
        let mut paths = Blocks::default();
        self.reach(from, Some(barrier), &mut paths);
        let on_paths = || self.cfg.rpo().iter().filter(|&&block| paths[block]);
        on_paths().any(|&block| self.is_end(block)).then_some(())?;
        Some(on_paths().any(|&block| after[block] && !self.only_exits(block)))
    }

    /// Marks the blocks that a thread can execute from `from` on before it reaches `stop`.
    fn reach(&self, from: Block, stop: Option<Block>, marked: &mut Blocks) {
        let mut stack = vec![from];
        while let Some(block) = stack.pop() {
            if Some(block) == stop || std::mem::replace(&mut marked[block], true) {
                continue;
            }
            stack.extend(
                self.function
                    .successors(block)
                    .iter()
                    .map(|call| call.block),
            );
        }
    }

    /// Returns the blocks from which a thread can end without reaching `target`.
    fn avoiding(&self, target: Block) -> Blocks {
        let mut marked = Blocks::default();
        let ends = self
            .cfg
            .rpo()
            .iter()
            .copied()
            .filter(|&block| self.is_end(block));
        let mut stack: Vec<Block> = ends.collect();
        while let Some(block) = stack.pop() {
            if block == target || std::mem::replace(&mut marked[block], true) {
                continue;
            }
            stack.extend_from_slice(self.cfg.preds(block));
        }
        marked
    }

    fn is_end(&self, block: Block) -> bool {
        self.function.successors(block).is_empty()
    }

    /// Returns whether a thread that starts `block` only exits: the code contains only `jump`, `exit`, `ret`,
    /// `converge` and `observe.event`.
    fn only_exits(&self, mut block: Block) -> bool {
        let is_trivial = |inst: &Inst| {
            let opcode = self.function.dfg.insts[*inst].opcode;
            matches!(
                opcode,
                Opcode::Jump | Opcode::Exit | Opcode::Ret | Opcode::Converge | Opcode::ObserveEvent
            )
        };
        // A chain of jumps has at most as many blocks as the function.
        for _ in 0..=self.cfg.rpo().len() {
            if !self.function.insts(block).iter().all(is_trivial) {
                return false;
            }
            match self.function.successors(block) {
                [] => return true,
                [next] => block = next.block,
                _ => return false,
            }
        }
        false
    }
}
