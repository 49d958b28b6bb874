//! Splits addresses into sums of values, of the lane's number with a factor, and of a constant.

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::analysis::Cfg;
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, ValueDef, payload_sreg};
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

use super::LANES;

/// Maximum number of operations through which the analysis follows an address backwards.
const MOST_STEPS: usize = 10;
/// Maximum number of values in a sum. The analysis knows nothing about longer sums.
const MOST_TERMS: usize = 4;
/// Maximum absolute value of factors and constants.
const LIMIT: i64 = 1 << 40;

/// A sum of values with factors, of the lane's number with a factor, and of a constant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Sum {
    /// The values with their factors, in ascending order, without zero factors.
    pub(super) terms: SmallVec<[(Value, i64); MOST_TERMS]>,
    pub(super) lane: i64,
    pub(super) constant: i64,
    /// The number of lanes, from the first one on, for which this sum is correct: fewer than all if the number of the lane
    /// in a part of the warp was calculated.
    pub(super) lanes: i64,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum {
            terms: SmallVec::new(),
            lane: 0,
            constant: 0,
            lanes: LANES,
        }
    }
}

impl Sum {
    pub(super) fn constant(constant: i64) -> Option<Sum> {
        Sum {
            constant,
            ..Sum::default()
        }
        .checked()
    }

    pub(super) fn value(value: Value) -> Sum {
        Sum {
            terms: SmallVec::from_slice(&[(value, 1)]),
            ..Sum::default()
        }
    }

    fn checked(self) -> Option<Sum> {
        let small = |n: i64| (-LIMIT..=LIMIT).contains(&n);
        let factors = self.terms.iter().all(|&(_, factor)| small(factor));
        let is_small = small(self.lane) && small(self.constant) && factors;
        (is_small && self.terms.len() <= MOST_TERMS).then_some(self)
    }

    pub(super) fn times(mut self, by: i64) -> Option<Sum> {
        if by == 0 {
            return Some(Sum::default());
        }
        for (_, factor) in &mut self.terms {
            *factor = factor.checked_mul(by)?;
        }
        self.lane = self.lane.checked_mul(by)?;
        self.constant = self.constant.checked_mul(by)?;
        self.checked()
    }

    pub(super) fn plus(mut self, other: &Sum) -> Option<Sum> {
        for &(value, factor) in &other.terms {
            match self.terms.binary_search_by_key(&value, |&(value, _)| value) {
                Ok(at) => self.terms[at].1 += factor,
                Err(at) => self.terms.insert(at, (value, factor)),
            }
        }
        self.terms.retain(|&mut (_, factor)| factor != 0);
        self.lane += other.lane;
        self.constant += other.constant;
        self.lanes = self.lanes.min(other.lanes);
        self.checked()
    }

    /// Returns whether `other` contains values and this sum contains all of them with the same factors, as the addresses
    /// of elements contain the address of their array.
    pub(super) fn extends(&self, other: &Sum) -> bool {
        !other.terms.is_empty() && other.terms.iter().all(|term| self.terms.contains(term))
    }

    /// Returns whether this sum, which does not depend on the lane, may be the address of an element of an array in which
    /// `lanes` is the address of the lane's element: this sum is the array's address plus the unknown number of an element
    /// times the size of elements.
    pub(super) fn may_be_element_of(&self, lanes: &Sum) -> bool {
        let is_multiple = |number: i64| number % lanes.lane == 0;
        let mut unknown = self.terms.iter().filter(|term| !lanes.terms.contains(term));
        self.extends(lanes)
            && unknown.all(|&(_, factor)| is_multiple(factor))
            && is_multiple(self.constant - lanes.constant)
    }

    /// Returns the constant if the sum is only a constant.
    fn only_constant(&self) -> Option<i64> {
        (self.terms.is_empty() && self.lane == 0).then_some(self.constant)
    }
}

/// Finds the sums of a function's values.
pub(super) struct Sums<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    /// For each block parameter that was examined, what [`Sums::starts`] returns. The entry is `None` during the
    /// examination.
    moved: RefCell<FxHashMap<Value, Option<Starts>>>,
}

/// The sums with which a parameter starts.
pub(super) type Starts = Rc<[Sum]>;

impl<'a> Sums<'a> {
    pub(super) fn new(function: &'a Function, cfg: &'a Cfg) -> Sums<'a> {
        Sums {
            function,
            cfg,
            moved: RefCell::default(),
        }
    }

    /// Returns the sums with which a block parameter starts, if they contain the lane's number with equal factors and
    /// all other branches add equal values for all lanes to the parameter: a pointer that each lane moves through memory
    /// in a loop. In the parameter's own sum, the term of the parameter stands for the part that does not depend on the
    /// lane.
    pub(super) fn starts(&self, value: Value) -> Option<Starts> {
        let ValueDef::Param(block, index) = self.function.dfg.values[value].def else {
            return None;
        };
        if let Some(known) = self.moved.borrow().get(&value) {
            return known.clone();
        }
        self.moved.borrow_mut().insert(value, None);
        let starts = self.examine(value, block, index.into());
        self.moved.borrow_mut().insert(value, starts.clone());
        starts
    }

    fn examine(&self, param: Value, block: Block, index: usize) -> Option<Starts> {
        let mut starts: Vec<Sum> = Vec::new();
        for (_, call) in self.cfg.incoming(self.function, block) {
            let sum = self.of(*call.args.get(index)?)?;
            match sum.terms.iter().find(|&&(term, _)| term == param) {
                // The edge of the next iteration.
                Some((_, 1)) if sum.lane == 0 && sum.terms.len() == 1 => {}
                Some(_) => return None,
                None if starts
                    .first()
                    .is_none_or(|first| (first.lane, first.lanes) == (sum.lane, sum.lanes)) =>
                {
                    starts.push(sum)
                }
                None => return None,
            }
        }
        let depends = starts.first().is_some_and(|first| first.lane != 0);
        depends.then(|| starts.into())
    }

    /// Returns a value as a sum; `None` if the sum is too long. A value of which nothing is known is a sum of itself.
    /// Integers do not wrap in the sums.
    pub(super) fn of(&self, value: Value) -> Option<Sum> {
        self.sum(value, MOST_STEPS)
    }

    fn sum(&self, value: Value, steps: usize) -> Option<Sum> {
        let dfg = &self.function.dfg;
        if let Some(starts) = self.starts(value) {
            let first = starts.first()?;
            return Some(Sum {
                lane: first.lane,
                lanes: first.lanes,
                ..Sum::value(value)
            });
        }
        let (Some(def), Some(steps)) = (dfg.def_inst(value), steps.checked_sub(1)) else {
            return Some(Sum::value(value));
        };
        if self.is_thread_number(value) {
            // Here, the term stands for the number of the warp's first thread.
            return Some(Sum {
                lane: 1,
                ..Sum::value(value)
            });
        }
        self.operation(def, steps)
            .unwrap_or_else(|| Some(Sum::value(value)))
    }

    /// Returns the sum of an operation's result, or `None` if the operation is not part of sums.
    fn operation(&self, def: Inst, steps: usize) -> Option<Option<Sum>> {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[def];
        let args = dfg.args(def);
        let of = |value: Value| self.sum(value, steps);
        match data.opcode {
            Opcode::Const => return Some(Sum::constant(data.payload() as i64)),
            Opcode::SReg => {
                let is_lane = |&register: &SpecialReg| {
                    matches!(register, SpecialReg::TidX | SpecialReg::Laneid)
                };
                payload_sreg(data.payload()).filter(is_lane)?;
                return Some(Some(Sum {
                    lane: 1,
                    ..Sum::default()
                }));
            }
            // A check returns the address that it has examined.
            Opcode::Cvta | Opcode::CheckAccess => return Some(of(args[0])),
            _ => {}
        }
        if !data.ty.is_integer()
            || data.ty.elements() != 1
            || data.mods.sat()
            || data.ty.bits() < 32
        {
            return None;
        }
        let constant = |value: Value| of(value)?.only_constant();
        let product = |a: Value, b: Value| match (constant(a), constant(b)) {
            _ if data.mods.half() == Half::Hi => None,
            (_, Some(by)) => of(a)?.times(by),
            (Some(by), None) => of(b)?.times(by),
            (None, None) => None,
        };
        match (data.opcode, args) {
            (Opcode::Cvt, &[from]) if data.src.is_integer() && data.src.bits() >= 32 => {
                Some(of(from))
            }
            (Opcode::Add, &[a, b]) => Some(of(a)?.plus(&of(b)?)),
            (Opcode::Sub, &[a, b]) => Some(of(a)?.plus(&of(b)?.times(-1)?)),
            (Opcode::Mul, &[a, b]) => product(a, b).map(Some),
            (Opcode::Mad, &[a, b, c]) => Some(product(a, b)?.plus(&of(c)?)),
            (Opcode::Shl, &[a, by]) => {
                let by = constant(by).filter(|by| (0..40).contains(by))?;
                Some(of(a)?.times(1 << by))
            }
            // The number of the lane in the warp or in a part of the warp.
            (Opcode::And, &[a, mask]) => {
                let mask = constant(mask)?;
                let is_lane =
                    |sum: &Sum| sum.terms.is_empty() && sum.lane == 1 && sum.constant == 0;
                let keeps = mask > 0 && mask.count_ones() == mask.trailing_ones();
                let sum = of(a).filter(|sum| keeps && is_lane(sum))?;
                Some(Some(Sum {
                    lanes: sum.lanes.min(mask.saturating_add(1)),
                    ..sum
                }))
            }
            _ => None,
        }
    }

    /// Returns whether a value is the number of a thread in its block, `%tid.x + %ntid.x * row`.
    pub(super) fn is_thread_number(&self, value: Value) -> bool {
        match self.operands(value) {
            Some((Opcode::Mad, &[a, b, c])) => {
                self.is_register(c, SpecialReg::TidX) && (self.is_row(a, b) || self.is_row(b, a))
            }
            Some((Opcode::Add, &[a, b])) => [(a, b), (b, a)].into_iter().any(|(x, rows)| {
                let is_rows = match self.operands(rows) {
                    Some((Opcode::Mul, &[c, d])) => self.is_row(c, d) || self.is_row(d, c),
                    _ => false,
                };
                self.is_register(x, SpecialReg::TidX) && is_rows
            }),
            _ => false,
        }
    }

    /// Returns whether `row` is the number of a row of threads, and `length` is the length of rows. In blocks with three
    /// dimensions, the number is `%tid.y + %ntid.y * %tid.z`.
    fn is_row(&self, row: Value, length: Value) -> bool {
        let is_plane = match self.operands(row) {
            Some((Opcode::Mad, &[a, b, c])) => {
                let is = |value, register| self.is_register(value, register);
                let product = |a, b| is(a, SpecialReg::TidZ) && is(b, SpecialReg::NtidY);
                is(c, SpecialReg::TidY) && (product(a, b) || product(b, a))
            }
            _ => false,
        };
        self.is_register(length, SpecialReg::NtidX)
            && (is_plane || self.is_register(row, SpecialReg::TidY))
    }

    fn is_register(&self, value: Value, register: SpecialReg) -> bool {
        let dfg = &self.function.dfg;
        let def = dfg.def_inst(value).map(|def| &dfg.insts[def]);
        def.is_some_and(|data| {
            data.opcode == Opcode::SReg && payload_sreg(data.payload()) == Some(register)
        })
    }

    fn operands(&self, value: Value) -> Option<(Opcode, &[Value])> {
        let dfg = &self.function.dfg;
        let def = dfg.def_inst(value)?;
        let is_low = dfg.insts[def].mods.half() != Half::Hi;
        is_low.then(|| (dfg.insts[def].opcode, dfg.args(def)))
    }
}
