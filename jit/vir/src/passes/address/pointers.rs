//! Addresses that advance with a loop.
//!
//! An *induction variable* of a loop is a parameter of its header to which each edge back to the header passes the
//! parameter plus the same invariant amount. An address of which all parts that the loop changes are induction variables
//! advances by an invariant amount, too.

use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::ValueDef;
use margay_ops::ops::Opcode;
use margay_ops::types::Type;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::emit;
use super::linear::{Forms, Linear};
use crate::function::Function;
use crate::passes::emitter::Emitter;
use crate::passes::loops::{Forest, insert_at_end};

/// The pointers of all loops.
pub(super) struct Pointers<'a> {
    forest: &'a Forest,
    /// The block that defines each value.
    homes: SecondaryMap<Value, Block>,
    /// The pointers that exist, by loop and linear form. The value is `None` if there can be none.
    found: FxHashMap<(usize, Linear), Option<Value>>,
    /// How many more pointers each loop may have.
    left: Vec<u32>,
    /// The instructions that are inserted at the end of blocks.
    ends: FxHashMap<Block, Vec<Inst>>,
}

/// How an address advances in a loop.
struct Advance {
    /// The address when the loop is entered.
    first: Linear,
    /// What each iteration adds.
    step: Linear,
}

impl<'a> Pointers<'a> {
    pub(super) fn new(function: &Function, forest: &'a Forest, limit: u32) -> Pointers<'a> {
        let mut homes = SecondaryMap::with_default(function.entry());
        for &block in forest.cfg.rpo() {
            for &param in &function.blocks[block] {
                homes[param] = block;
            }
            for &inst in &function.body[block] {
                for &result in function.results(inst) {
                    homes[result] = block;
                }
            }
        }
        Pointers {
            forest,
            homes,
            found: FxHashMap::default(),
            left: vec![limit; forest.loops.loops.len()],
            ends: FxHashMap::default(),
        }
    }

    /// Returns a pointer with a linear form, which an instruction of `block` uses as its address.
    pub(super) fn find(
        &mut self,
        function: &mut Function,
        forms: &Forms,
        block: Block,
        form: &Linear,
    ) -> Option<Value> {
        let number = self.forest.loops.innermost(block)?;
        let changes = |&(value, _): &(Value, i64)| self.is_inside(number, value);
        // An invariant address, or one that is an induction variable, stays as it is.
        if !form.terms.iter().any(changes) || matches!(form.terms[..], [(_, 1)]) {
            return None;
        }
        let key = (number, form.clone());
        if let Some(&found) = self.found.get(&key) {
            return found;
        }
        let pointer = match self.left[number] {
            0 => None,
            _ => self.advance(function, forms, number, form),
        };
        let pointer = pointer.map(|advance| {
            self.left[number] -= 1;
            self.create(function, number, &advance)
        });
        self.found.insert(key, pointer);
        pointer
    }

    /// Inserts the instructions that compute the pointers.
    pub(super) fn finish(self, function: &mut Function) {
        let mut ends: Vec<(Block, Vec<Inst>)> = self.ends.into_iter().collect();
        ends.sort_unstable_by_key(|&(block, _)| block);
        for (block, insts) in ends {
            insert_at_end(function, block, insts);
        }
    }

    fn is_inside(&self, number: usize, value: Value) -> bool {
        self.forest.loops.contains(number, self.homes[value])
    }

    /// Returns how a linear form advances in a loop; `None` if it does not advance by an invariant amount.
    fn advance(
        &self,
        function: &Function,
        forms: &Forms,
        number: usize,
        form: &Linear,
    ) -> Option<Advance> {
        let (mut first, mut step) = (Linear::constant(form.constant), Linear::default());
        for &(value, factor) in &form.terms {
            if self.is_inside(number, value) {
                let (initial, change) = self.induction(function, forms, number, value)?;
                first = first.plus(&initial, factor)?;
                step = step.plus(&change, factor)?;
            } else {
                first = first.plus(&Linear::of(value), factor)?;
            }
        }
        Some(Advance { first, step })
    }

    /// Returns the first value of an induction variable of a loop, and what each iteration adds to it.
    fn induction(
        &self,
        function: &Function,
        forms: &Forms,
        number: usize,
        value: Value,
    ) -> Option<(Linear, Linear)> {
        let header = self.forest.loops.header(number);
        let ValueDef::Param(home, index) = function.values[value].def else {
            return None;
        };
        let preheader = self.forest.preheaders[number]?;
        if home != header {
            return None;
        }
        let mut change = None;
        for latch in self.forest.latches(number) {
            let calls = function.successors(latch).iter();
            for call in calls.filter(|call| call.block == header) {
                let passed = forms.scalar(*call.args.get(usize::from(index))?);
                let step = passed.plus(&Linear::of(value), -1)?;
                let is_invariant = |&(term, _): &(Value, i64)| !self.is_inside(number, term);
                if !step.terms.iter().all(is_invariant) {
                    return None;
                }
                if *change.get_or_insert_with(|| step.clone()) != step {
                    return None;
                }
            }
        }
        let entered = function.successors(preheader).first()?;
        let initial = forms.scalar(*entered.args.get(usize::from(index))?);
        Some((initial, change?))
    }

    /// Adds a pointer to a loop.
    fn create(&mut self, function: &mut Function, number: usize, advance: &Advance) -> Value {
        let header = self.forest.loops.header(number);
        let pointer = function.append_param(header, Type::B64);
        self.homes[pointer] = header;
        let preheader = self.forest.preheaders[number];
        let mut edges: SmallVec<[Block; 4]> = self.forest.latches(number).collect();
        edges.sort_unstable();
        edges.dedup();
        for latch in edges {
            let next = self.at_end(function, latch, |emitter| {
                let step = emit(emitter, &advance.step);
                emitter.lane64(Opcode::Add, &[pointer, step])
            });
            function.pass(latch, header, next);
        }
        if let Some(preheader) = preheader {
            let first = self.at_end(function, preheader, |emitter| emit(emitter, &advance.first));
            function.pass(preheader, header, first);
        }
        pointer
    }

    /// Creates instructions at the end of a block.
    fn at_end(
        &mut self,
        function: &mut Function,
        block: Block,
        make: impl FnOnce(&mut Emitter<'_>) -> Value,
    ) -> Value {
        let list = self.ends.entry(block).or_default();
        make(&mut Emitter {
            function,
            list,
            place: 0,
        })
    }
}
