//! Places values that are cheap to create near their uses, so that they do not occupy registers elsewhere.
//!
//! A value that is created without an operation ([`crate::constants`]) gets a copy in each block that uses it, right
//! before the first use, and another copy for each use that is more than [`FAR`] instructions away from the use before. A
//! `splat` or `affine` of another scalar is moved right before its first use if all its uses are in one block that is
//! not in a loop that does not contain the operation.

use margay_ir::analysis::Loops;
use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ops::ops::Effects;

use crate::constants::{ValueCopy, copy_free, is_free};
use crate::function::Function;
use crate::ops::Op;

/// The number of instructions between two uses of a constant from which on the constant is created again.
pub const FAR: usize = 24;

/// Places cheap values near their uses.
pub fn run(function: &mut Function) {
    let cfg = remove_unreachable(function);
    let loops = Loops::new(function, &cfg);
    let mut pass = Sinking {
        waiting: waiting(function, &loops),
        copies: SecondaryMap::default(),
        block: function.entry(),
        function,
    };
    for &block in cfg.rpo() {
        pass.block(block);
    }
}

/// Where a value is used.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Uses {
    #[default]
    None,
    One(Block),
    Several,
}

/// Returns the `splat`s and `affine`s that are moved to their first use.
fn waiting(function: &Function, loops: &Loops) -> SecondaryMap<Inst, bool> {
    let mut uses: SecondaryMap<Value, Uses> = SecondaryMap::default();
    for &block in &function.order {
        for &inst in &function.body[block] {
            for value in function.uses(inst) {
                uses[value] = match uses[value] {
                    Uses::None => Uses::One(block),
                    Uses::One(home) if home == block => Uses::One(block),
                    _ => Uses::Several,
                };
            }
        }
    }
    let mut waiting = SecondaryMap::default();
    for &home in &function.order {
        for &inst in &function.body[home] {
            if !matches!(function.insts[inst].op, Op::Splat | Op::Affine) {
                continue;
            }
            let result = function.results(inst)[0];
            let Uses::One(block) = uses[result] else {
                continue;
            };
            let is_deeper = loops.around_only(block, home).next().is_some();
            waiting[inst] = !is_deeper && !is_free(function, result);
        }
    }
    waiting
}

struct Sinking<'a> {
    function: &'a mut Function,
    /// The instructions that are moved to their first use.
    waiting: SecondaryMap<Inst, bool>,
    /// The last copy of each free value.
    copies: SecondaryMap<Value, Option<NearCopy>>,
    /// The current block.
    block: Block,
}

/// A copy of a free value.
#[derive(Clone)]
struct NearCopy {
    value: Value,
    block: Block,
    /// The position of its last use.
    last: usize,
}

impl Sinking<'_> {
    fn block(&mut self, block: Block) {
        self.block = block;
        let insts = std::mem::take(&mut self.function.body[block]);
        let mut list = Vec::with_capacity(insts.len());
        for inst in insts {
            // Copies replace each use of a free value.
            let is_free = match self.function.results(inst) {
                &[result] => is_free(self.function, result),
                _ => false,
            };
            if !is_free && !self.waiting[inst] {
                self.place(inst, &mut list);
            }
        }
        self.function.body[block] = list;
    }

    /// Appends an instruction and, before it, what it waits for.
    fn place(&mut self, inst: Inst, list: &mut Vec<Inst>) {
        for index in 0..self.function.args(inst).len() {
            let value = self.near(self.function.args(inst)[index], list);
            let args = self.function.insts[inst].args;
            self.function.pool.get_mut(args)[index] = value;
        }
        if self.function.effects(inst).contains(Effects::TERMINATOR)
            && let Some(mut calls) = self.function.targets.remove(&inst)
        {
            for arg in calls.iter_mut().flat_map(|call| &mut call.args) {
                *arg = self.near(*arg, list);
            }
            self.function.targets.insert(inst, calls);
        }
        list.push(inst);
    }

    /// Returns a value that is equal to `value` and defined nearby.
    fn near(&mut self, value: Value, list: &mut Vec<Inst>) -> Value {
        let Some(inst) = self.function.def_inst(value) else {
            return value;
        };
        if self.waiting[inst] {
            self.waiting[inst] = false;
            self.place(inst, list);
            return value;
        }
        if !is_free(self.function, value) {
            return value;
        }
        if let Some(copy) = &mut self.copies[value]
            && copy.block == self.block
            && list.len() - copy.last <= FAR
        {
            copy.last = list.len();
            return copy.value;
        }
        let ValueCopy { insts, value: copy } = copy_free(self.function, value);
        list.extend(insts);
        self.copies[value] = Some(NearCopy {
            value: copy,
            block: self.block,
            last: list.len(),
        });
        copy
    }
}
