//! SSA construction: variables that code sets and reads at several positions (Braun and others, "Simple and Efficient
//! Construction of Static Single Assignment Form", CC 2013).
//!
//! A block is *sealed* when all branches to it exist. Reading a variable in a block that is not sealed adds a parameter to
//! the block, whose arguments are filled in when the block is sealed. On a path on which a variable has not been set, its
//! value is zero.

use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::ValueDef;
use margay_ops::types::Type;
use margay_vir::data::Data;
use margay_vir::function::Function;
use margay_vir::ops::Op;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A counter of the loops around the code of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Counter {
    /// The linear index of the CTA.
    Cta,
    /// The coordinate of the CTA in a dimension.
    Ctaid(u8),
    /// The thread of the chunk's first lane, or its position in the row of a run.
    Thread,
    /// The number of CTAs of a run.
    Run,
    /// `%tid.y` and `%tid.z` in a row.
    Row(u8),
    /// The first thread of a row of the CTA.
    RowStart,
    /// The resume point behind the barrier that threads have reached in the phase; 0 if there is none.
    Arrived,
    /// The number of iterations of waiting loops that are left until lanes yield.
    Turns,
    /// Whether lanes of the CTA have yielded.
    Yielded,
}

impl Counter {
    /// The coordinates of the CTA.
    pub(crate) const CTAID: [Counter; 3] =
        [Counter::Ctaid(0), Counter::Ctaid(1), Counter::Ctaid(2)];
}

/// Identifies a variable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// A counter.
    Counter(Counter),
    /// A value that is equal for all threads of the CTA, at the start of a phase.
    Cta(Value),
    /// Such a value at the barrier that ends the phase.
    Out(Value),
    /// The value of a kernel's value that all lanes have, or the value in the chunk's first lane.
    Scalar(Value),
    /// The lanes of a value.
    Lanes(Value),
    /// A value that lives across barriers: the value in the chunk's first lane, or the lanes, in code that runs all chunks of
    /// the CTA together.
    Saved(Value),
    /// The lanes of the chunk that have not exited, in such code.
    Alive,
    /// Whether the check of a speculatively affine value holds.
    Holds(Value),
    /// The lanes of a value at the time when each lane left the loop that defines the value.
    Left(Value),
    /// The lanes that wait at a place, by the place's index.
    Mask(u32),
    /// The first lane's value, and the lanes, of a loop parameter in the next iteration.
    NextScalar(Value),
    /// See [`Key::NextScalar`].
    NextLanes(Value),
}

/// A variable: what it contains, and the chunk to which it belongs.
pub(crate) type Variable = (Key, u32);

/// The definitions of variables in the blocks of a function.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// The number of each variable.
    numbers: FxHashMap<Variable, Number>,
    /// The value of a variable at the end of a block, by [`place`].
    defs: FxHashMap<u64, Value>,
    /// The branches to each block: the instruction and the index of the target.
    preds: SecondaryMap<Block, Vec<(Block, Inst, usize)>>,
    sealed: SecondaryMap<Block, bool>,
    incomplete: SecondaryMap<Block, Vec<(Number, Value)>>,
    /// Whether only counters have a value at the end of a block.
    clears: SecondaryMap<Block, bool>,
    /// The variables that are not counters.
    is_cleared: Vec<bool>,
    zeros: FxHashMap<Type, Value>,
}

/// The number of a variable.
type Number = u32;

/// A parameter of a block, which passes on the variable, and whose arguments are missing.
type Missing = (Block, Number, Value);

/// Returns the end of a block as the place of a variable.
fn place(variable: Number, block: Block) -> u64 {
    u64::from(variable) << 32 | u64::from(block.0)
}

impl Variables {
    /// Sets a variable at the end of a block.
    pub(crate) fn set(&mut self, key: Variable, block: Block, value: Value) {
        let variable = self.number(key);
        self.defs.insert(place(variable, block), value);
    }

    fn number(&mut self, key: Variable) -> Number {
        let next = self.numbers.len() as Number;
        *self.numbers.entry(key).or_insert_with(|| {
            self.is_cleared.push(!matches!(key.0, Key::Counter(_)));
            next
        })
    }

    /// Sets all variables but counters to zero at the end of a block, unless the block sets them.
    pub(crate) fn clear(&mut self, block: Block) {
        self.clears[block] = true;
    }

    /// Records a branch from `from` to `to`, which is target `index` of the instruction `inst`.
    pub(crate) fn branch(&mut self, from: Block, to: Block, (inst, index): (Inst, usize)) {
        debug_assert!(!self.sealed[to], "{to} is sealed");
        self.preds[to].push((from, inst, index));
    }

    /// Returns whether any branch to a block has been recorded.
    pub(crate) fn is_reached(&self, block: Block) -> bool {
        !self.preds[block].is_empty()
    }

    /// Reads a variable of type `ty` at the end of a block.
    pub(crate) fn get(
        &mut self,
        function: &mut Function,
        (key, ty): (Variable, Type),
        block: Block,
    ) -> Value {
        let mut work = Vec::new();
        let variable = self.number(key);
        let value = self.find(function, (variable, ty), block, &mut work);
        self.fill(function, work);
        value
    }

    /// Seals a block.
    pub(crate) fn seal(&mut self, function: &mut Function, block: Block) {
        if std::mem::replace(&mut self.sealed[block], true) {
            return;
        }
        let work = std::mem::take(&mut self.incomplete[block]);
        let work = work.into_iter();
        let work = work.map(|(variable, param)| (block, variable, param));
        self.fill(function, work.collect());
    }

    /// Passes the arguments of parameters that variables have added.
    fn fill(&mut self, function: &mut Function, mut work: Vec<Missing>) {
        while let Some((block, variable, param)) = work.pop() {
            let ty = function.ty(param);
            let ValueDef::Param(_, number) = function.values[param].def else {
                continue;
            };
            for pred in 0..self.preds[block].len() {
                let (from, inst, index) = self.preds[block][pred];
                let arg = self.find(function, (variable, ty), from, &mut work);
                let calls = function.targets.get_mut(&inst);
                let args = &mut calls.expect("the branch has targets")[index].args;
                // Parameters get their arguments in another order than that of their creation.
                let count = args.len().max(usize::from(number) + 1);
                args.resize(count, param);
                args[usize::from(number)] = arg;
            }
        }
    }

    /// Finds the value of a variable at the end of a block. Appends to `work` the parameters whose arguments are missing.
    fn find(
        &mut self,
        function: &mut Function,
        (variable, ty): (Number, Type),
        block: Block,
        work: &mut Vec<Missing>,
    ) -> Value {
        let mut path: SmallVec<[Block; 16]> = SmallVec::new();
        let mut at = block;
        let value = loop {
            if let Some(&value) = self.defs.get(&place(variable, at)) {
                break value;
            }
            path.push(at);
            if self.clears[at] && self.is_cleared[variable as usize] {
                break self.zero(function, ty);
            }
            match (self.sealed[at], self.preds[at].as_slice()) {
                (false, _) => {
                    let param = function.append_param(at, ty);
                    self.incomplete[at].push((variable, param));
                    break param;
                }
                (true, []) => break self.zero(function, ty),
                (true, &[(from, ..)]) => at = from,
                (true, _) => {
                    let param = function.append_param(at, ty);
                    work.push((at, variable, param));
                    break param;
                }
            }
        };
        for block in path {
            self.defs.insert(place(variable, block), value);
        }
        value
    }

    /// Returns zero, at the start of the function.
    fn zero(&mut self, function: &mut Function, ty: Type) -> Value {
        if let Some(&zero) = self.zeros.get(&ty) {
            return zero;
        }
        let entry = function.entry();
        let head = (Op::Const, Some(ty), Data::Number(0));
        let inst = function.append(entry, head, &[], &[ty]);
        // The constant must precede the terminator and all uses.
        function.body[entry].rotate_right(1);
        let zero = function.results(inst)[0];
        self.zeros.insert(ty, zero);
        zero
    }
}
