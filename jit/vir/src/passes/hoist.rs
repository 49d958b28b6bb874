//! Moves invariant operations and loads out of loops, into preheaders.
//!
//! An operation without effects is moved if its operands are defined outside of the loop. Moving it is safe even if the
//! loop does not execute it. Values that are created without an operation ([`crate::constants`]) are not moved; operations
//! that need them outside of the loop get copies.
//!
//! A load is moved if also nothing in the loop may change the memory that it reads, and if each execution of the loop
//! begins with it: no branch, and no instruction that may fault or has another effect, comes before it in the loop.
//!
//! [`Options`] limits the registers that moved values occupy. A moved value stops to count when all operations that use
//! it are moved, too.

use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ops::types::{Kind, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Options;
use super::aliases::{Bytes, Touch, bytes, touch};
use super::loops::{Forest, insert_at_end};
use crate::constants::{ValueCopy, copy_free, is_free};
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of stores of a loop that are compared with its loads.
const MOST_STORES: usize = 16;

/// Moves invariant operations and loads out of loops.
pub fn run(function: &mut Function, options: &Options) {
    let Some(forest) = Forest::new(function) else {
        return;
    };
    let mut pass = Hoisting {
        homes: homes(function),
        uses: uses(function),
        left: *options,
        counted: SecondaryMap::default(),
        copies: FxHashMap::default(),
        writes: vec![Writes::default(); forest.loops.loops.len()],
        forest: &forest,
        function,
    };
    let own = forest.own_blocks();
    // Outer loops come before inner loops.
    for number in (0..own.len()).rev() {
        pass.collect_writes(number, &own[number]);
        if let Some(preheader) = forest.preheaders[number] {
            pass.empty(number, &own[number], preheader);
        }
    }
    forest.remove_empty(function);
}

/// Returns the block that defines each value.
fn homes(function: &Function) -> SecondaryMap<Value, Block> {
    let mut homes = SecondaryMap::with_default(function.entry());
    for &block in &function.order {
        for &param in &function.blocks[block] {
            homes[param] = block;
        }
        for &inst in &function.body[block] {
            for &result in function.results(inst) {
                homes[result] = block;
            }
        }
    }
    homes
}

fn uses(function: &Function) -> SecondaryMap<Value, u32> {
    let mut uses = SecondaryMap::default();
    for &inst in function.order.iter().flat_map(|&b| &function.body[b]) {
        for value in function.uses(inst) {
            uses[value] += 1;
        }
    }
    uses
}

/// What the instructions of a loop write.
#[derive(Clone, Default)]
struct Writes {
    known: Vec<Bytes>,
    is_unknown: bool,
}

impl Writes {
    fn add(&mut self, touch: Touch) {
        match touch {
            Touch::Nothing => {}
            Touch::Writes(bytes) if self.known.len() < MOST_STORES => self.known.push(bytes),
            Touch::Writes(_) | Touch::Everything => self.is_unknown = true,
        }
    }

    fn may_change(&self, bytes: Bytes) -> bool {
        self.is_unknown || self.known.iter().any(|known| known.may_alias(bytes))
    }
}

struct Hoisting<'a> {
    function: &'a mut Function,
    forest: &'a Forest,
    homes: SecondaryMap<Value, Block>,
    /// The number of uses of each value by operations that have not moved.
    uses: SecondaryMap<Value, u32>,
    /// What moved values may still occupy.
    left: Options,
    /// Whether a value has moved and occupies a register.
    counted: SecondaryMap<Value, bool>,
    /// Copies of free values in preheaders.
    copies: FxHashMap<(Block, Value), Value>,
    writes: Vec<Writes>,
}

impl Hoisting<'_> {
    /// Collects what a loop writes, including its inner loops, which precede it.
    fn collect_writes(&mut self, number: usize, own: &[Block]) {
        let mut writes = std::mem::take(&mut self.writes[number]);
        for &inst in own.iter().flat_map(|&block| &self.function.body[block]) {
            writes.add(touch(self.function, inst));
        }
        if let Some(outer) = self.forest.loops.outer(number) {
            let around = &mut self.writes[outer];
            around.is_unknown |= writes.is_unknown;
            for &bytes in &writes.known {
                around.add(Touch::Writes(bytes));
            }
        }
        self.writes[number] = writes;
    }

    /// Moves what is invariant in a loop to its preheader.
    fn empty(&mut self, number: usize, own: &[Block], preheader: Block) {
        let mut moved = Vec::new();
        // The next block that each execution of the loop executes, as long as nothing has an effect before.
        let mut next = own.first().copied();
        for &block in own {
            let mut is_first = next == Some(block);
            let insts = std::mem::take(&mut self.function.body[block]);
            let mut kept = Vec::with_capacity(insts.len());
            for inst in insts {
                let is_pure = self.function.effects(inst).is_empty();
                let may_move = is_pure || is_first && self.is_steady_load(number, inst);
                if may_move && self.is_invariant(number, inst) && self.take(inst) {
                    self.move_to(inst, preheader, &mut moved);
                    continue;
                }
                let effects = self.function.effects(inst);
                is_first &= is_pure || effects == margay_ops::ops::Effects::TERMINATOR;
                kept.push(inst);
            }
            self.function.body[block] = kept;
            if next == Some(block) {
                next = match self.function.successors(block) {
                    [call] if is_first => Some(call.block),
                    _ => None,
                };
            }
        }
        insert_at_end(self.function, preheader, moved);
    }

    fn is_outside(&self, number: usize, value: Value) -> bool {
        !self.forest.loops.contains(number, self.homes[value])
    }

    fn is_invariant(&self, number: usize, inst: Inst) -> bool {
        let results = self.function.results(inst);
        let is_kept = results.iter().any(|&value| is_free(self.function, value));
        let mut args = self.function.args(inst).iter();
        !results.is_empty()
            && !is_kept
            && args.all(|&arg| self.is_outside(number, arg) || is_free(self.function, arg))
    }

    /// Returns whether an instruction is a load of memory that the loop does not change.
    fn is_steady_load(&self, number: usize, inst: Inst) -> bool {
        matches!(self.function.insts[inst].op, Op::Load | Op::Gather)
            && !self.writes[number].may_change(bytes(self.function, inst))
    }

    /// Counts the results of an instruction as moved. Returns false if too many values have moved.
    fn take(&mut self, inst: Inst) -> bool {
        let results: SmallVec<[Value; 2]> = self.function.results(inst).into();
        if results.iter().all(|&value| self.counted[value]) {
            return true;
        }
        let before = self.left;
        let args: SmallVec<[Value; 4]> = self.function.args(inst).into();
        for &arg in &args {
            self.uses[arg] -= 1;
            if self.counted[arg] && self.uses[arg] == 0 {
                let (rest, need) = of_type(&mut self.left, self.function.ty(arg));
                *rest += need;
            }
        }
        for &value in &results {
            let (rest, need) = of_type(&mut self.left, self.function.ty(value));
            let Some(now) = rest.checked_sub(need) else {
                args.iter().for_each(|&arg| self.uses[arg] += 1);
                self.left = before;
                return false;
            };
            *rest = now;
        }
        for value in results {
            self.counted[value] = true;
        }
        true
    }

    fn move_to(&mut self, inst: Inst, preheader: Block, moved: &mut Vec<Inst>) {
        for index in 0..self.function.args(inst).len() {
            let arg = self.function.args(inst)[index];
            if is_free(self.function, arg) && self.homes[arg] != preheader {
                let copy = self.copy(arg, preheader, moved);
                let list = self.function.insts[inst].args;
                self.function.pool.get_mut(list)[index] = copy;
            }
        }
        for &result in self.function.results(inst) {
            self.homes[result] = preheader;
        }
        moved.push(inst);
    }

    /// Returns a copy of a free value in a preheader.
    fn copy(&mut self, value: Value, preheader: Block, moved: &mut Vec<Inst>) -> Value {
        if let Some(&copy) = self.copies.get(&(preheader, value)) {
            return copy;
        }
        let ValueCopy { insts, value: copy } = copy_free(self.function, value);
        for &inst in &insts {
            for &result in self.function.results(inst) {
                self.homes[result] = preheader;
            }
            for &arg in self.function.args(inst) {
                self.uses[arg] += 1;
            }
        }
        moved.extend(insts);
        self.uses[copy] += 1;
        self.copies.insert((preheader, value), copy);
        copy
    }
}

/// Returns what a value of a type counts against, and how much.
fn of_type(left: &mut Options, ty: Type) -> (&mut u32, u32) {
    match (ty.lanes(), ty.kind()) {
        (1, _) => (&mut left.hoisted_scalars, 1),
        (_, Kind::Pred) => (&mut left.hoisted_masks, 1),
        (lanes, _) => (&mut left.hoisted_bytes, lanes * ty.lane_bytes()),
    }
}
