//! Places values that are cheap to create near their uses, so that they do not occupy registers elsewhere.
//!
//! A value that is created without an operation ([`super::constants`]) gets a copy in each block that uses it, right
//! before the first use, and another copy for each use that is more than [`FAR`] instructions away from the use before. A
//! `splat` or `affine` of another scalar is moved right before its first use if all its uses are in one block that is
//! not in a loop that does not contain the operation.

use margay_ir::analysis::Loops;
use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::constants::{ValueCopy, copy_free, is_free};
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
        copies: FxHashMap::default(),
        function,
    };
    for &block in cfg.rpo() {
        pass.block(block);
    }
    drop_unused(function);
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
            let passed = function.targets(inst).iter().flat_map(|call| &call.args);
            for &value in function.args(inst).iter().chain(passed) {
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
    /// The copies of free values in the current block, and the positions of their last uses.
    copies: FxHashMap<Value, (Value, usize)>,
}

impl Sinking<'_> {
    fn block(&mut self, block: Block) {
        self.copies.clear();
        let insts = std::mem::take(&mut self.function.body[block]);
        let mut list = Vec::with_capacity(insts.len());
        for inst in insts {
            let is_free = match self.function.results(inst) {
                &[result] => is_free(self.function, result),
                _ => false,
            };
            match is_free || self.waiting[inst] {
                // Copies replace free values; drop_unused removes those that are left.
                true if is_free => list.push(inst),
                true => {}
                false => self.place(inst, &mut list),
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
        if let Some(mut calls) = self.function.targets.remove(&inst) {
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
        if let Some((copy, last)) = self.copies.get_mut(&value)
            && list.len() - *last <= FAR
        {
            *last = list.len();
            return *copy;
        }
        let ValueCopy { insts, value: copy } = copy_free(self.function, value);
        list.extend(insts);
        self.copies.insert(value, (copy, list.len()));
        copy
    }
}

/// Removes the free values that are not used any more.
fn drop_unused(function: &mut Function) {
    let mut used: SecondaryMap<Value, bool> = SecondaryMap::default();
    // The base of an `affine` follows the `affine` in this order, so it is used only if the `affine` is.
    for &block in function.order.iter().rev() {
        for &inst in function.body[block].iter().rev() {
            let is_needed = match function.results(inst) {
                &[result] if is_free(function, result) => used[result],
                _ => true,
            };
            if is_needed {
                let passed = function.targets(inst).iter().flat_map(|call| &call.args);
                let values: SmallVec<[Value; 8]> =
                    function.args(inst).iter().chain(passed).copied().collect();
                for value in values {
                    used[value] = true;
                }
            }
        }
    }
    for block in function.order.clone() {
        let mut body = std::mem::take(&mut function.body[block]);
        body.retain(|&inst| match function.results(inst) {
            &[result] if is_free(function, result) => used[result],
            _ => true,
        });
        function.body[block] = body;
    }
}
