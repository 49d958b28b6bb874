//! Tests whether all lanes of the chunks take the same edge of a branch, by comparisons of scalars.
//!
//! A value that advances along a row ([`crate::runs`]) has its least and its greatest number at the ends of the chunks that
//! run together. For a branch whose condition consists of comparisons of such values with numbers that are equal for all
//! these lanes, a few comparisons of scalars show in most chunks that all lanes take the same edge. If they do not show
//! it, the code that follows evaluates the condition in each lane.

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::BlockCall;
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use crate::emitter::Emitter;

/// Conditions that together prove something.
#[derive(Default)]
struct Tests {
    /// A condition that is equal for all chunks of the row, so that it can be moved out of the loop over them.
    row: Option<Value>,
    /// Conditions that differ between chunks.
    chunk: SmallVec<[Value; 4]>,
}

/// An order of two numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Order {
    fn of(cmp: CmpOp) -> Option<Order> {
        Some(match cmp {
            CmpOp::Lt | CmpOp::Lo => Order::Less,
            CmpOp::Le | CmpOp::Ls => Order::AtMost,
            CmpOp::Gt | CmpOp::Hi => Order::Greater,
            CmpOp::Ge | CmpOp::Hs => Order::AtLeast,
            _ => return None,
        })
    }

    fn negated(self) -> Order {
        match self {
            Order::Less => Order::AtLeast,
            Order::AtMost => Order::Greater,
            Order::Greater => Order::AtMost,
            Order::AtLeast => Order::Less,
        }
    }

    fn swapped(self) -> Order {
        match self {
            Order::Less => Order::Greater,
            Order::AtMost => Order::AtLeast,
            Order::Greater => Order::Less,
            Order::AtLeast => Order::AtMost,
        }
    }

    fn cmp(self, signed: bool) -> CmpOp {
        match (self, signed) {
            (Order::Less, true) => CmpOp::Lt,
            (Order::AtMost, true) => CmpOp::Le,
            (Order::Greater, true) => CmpOp::Gt,
            (Order::AtLeast, true) => CmpOp::Ge,
            (Order::Less, false) => CmpOp::Lo,
            (Order::AtMost, false) => CmpOp::Ls,
            (Order::Greater, false) => CmpOp::Hi,
            (Order::AtLeast, false) => CmpOp::Hs,
        }
    }
}

impl Emitter<'_> {
    /// Emits tests for a branch on `condition` that all lanes of the chunks reach. Where they show that all lanes take the
    /// same edge, the code continues at that one of the blocks `ways`. The code that follows runs elsewhere.
    pub(crate) fn test_endpoints(
        &mut self,
        condition: Value,
        calls: &[BlockCall],
        ways: [Block; 2],
    ) {
        if self.row.is_none() {
            return;
        }
        // Chunks in which all lanes exit are rare.
        let exits = [0, 1].map(|way: usize| self.only_exits(calls[way].block));
        for way in 0..2 {
            if exits[way] {
                continue;
            }
            let Some(tests) = self.proof(condition, way == 0, 0) else {
                continue;
            };
            let tests: SmallVec<[Value; 5]> = tests.row.into_iter().chain(tests.chunk).collect();
            let Some((&last, others)) = tests.split_last() else {
                continue;
            };
            let unknown = self.new_block();
            for &test in others {
                let next = self.new_block();
                self.brif(test, next, unknown);
                self.enter(next);
            }
            self.brif(last, ways[way], unknown);
            match exits[1 - way] {
                true => self.enter_cold(unknown),
                false => self.enter(unknown),
            }
        }
    }

    /// Returns conditions that prove together that a predicate is `wanted` in all lanes.
    fn proof(&mut self, predicate: Value, wanted: bool, depth: u32) -> Option<Tests> {
        const MAX_DEPTH: u32 = 8;
        if depth > MAX_DEPTH || !self.is_available(predicate) {
            return None;
        }
        if let Some(number) = self.equal_in_row(predicate) {
            let test = match wanted {
                true => number,
                false => self.logic(Opcode::Not, &[number]),
            };
            return Some(Tests {
                row: Some(test),
                ..Tests::default()
            });
        }
        let dfg = &self.source.dfg;
        let inst = dfg.def_inst(predicate)?;
        let both = matches!(
            (dfg.insts[inst].opcode, wanted),
            (Opcode::Or, false) | (Opcode::And, true)
        );
        match (dfg.insts[inst].opcode, dfg.args(inst)) {
            (Opcode::Not, &[a]) => self.proof(a, !wanted, depth + 1),
            (Opcode::Or | Opcode::And, &[a, b]) if both => {
                let mut tests = self.proof(a, wanted, depth + 1)?;
                let others = self.proof(b, wanted, depth + 1)?;
                tests.row = match (tests.row, others.row) {
                    (Some(a), Some(b)) => Some(self.logic(Opcode::And, &[a, b])),
                    (a, b) => a.or(b),
                };
                tests.chunk.extend(others.chunk);
                Some(tests)
            }
            (Opcode::Setp, &[a, b]) => self.proof_of_order(inst, (a, b), wanted),
            _ => None,
        }
    }

    /// Returns a value that is equal for all threads of the row; `None` if it is not known to be equal.
    fn equal_in_row(&mut self, value: Value) -> Option<Value> {
        let row = self.row.as_ref()?;
        match row.bases.get(&value) {
            Some(&(base, 0)) => Some(base),
            Some(_) => None,
            None if self.source.dfg.constant(value).is_some()
                || self.fixed.contains_key(&value)
                || self.class(value) == Class::Launch =>
            {
                Some(self.scalar(value))
            }
            None => None,
        }
    }

    /// Returns conditions that prove that a comparison has the result `wanted` in all lanes.
    fn proof_of_order(
        &mut self,
        inst: Inst,
        (a, b): (Value, Value),
        wanted: bool,
    ) -> Option<Tests> {
        let data = self.source.dfg.insts[inst];
        let (bits, signed) = (data.ty.bits(), data.ty.is_signed());
        if !data.ty.is_integer() || !matches!(bits, 32 | 64) {
            return None;
        }
        let order = Order::of(data.mods.cmp())?;
        let order = if wanted { order } else { order.negated() };
        let step_of = |e: &Self, value: Value| {
            let row = e.row.as_ref()?;
            row.bases.get(&value).map(|&(_, step)| step)
        };
        let (value, bound, order) = match (step_of(self, a), step_of(self, b)) {
            (Some(step), _) if step != 0 => (a, b, order),
            (_, Some(step)) if step != 0 => (b, a, order.swapped()),
            _ => return None,
        };
        let bound = self.equal_in_row(bound)?;
        let step = step_of(self, value)?;
        let step = if bits == 32 {
            i64::from(step as i32)
        } else {
            step
        };
        let lanes = self.chunk_count * self.kernel.width;
        let apart = step.checked_mul(i64::from(lanes) - 1)?;
        if apart.unsigned_abs() > 1 << 30 {
            return None;
        }
        self.select(0);
        let first = self.along_row(value)?;
        // Which end decides, and whether a wrap between the ends needs a test of its own: the comparison proves that there
        // is none if the end that decides is the one to which the lanes advance.
        let is_upper = matches!(order, Order::Less | Order::AtMost);
        let is_last = is_upper == (step > 0);
        let mut tests = Tests::default();
        let wide = if signed { OpType::S64 } else { OpType::U64 };
        let narrow = if signed { OpType::S32 } else { OpType::U32 };
        let (first, bound) = match bits {
            32 => (
                self.convert(wide, narrow, first),
                self.convert(wide, narrow, bound),
            ),
            _ => (first, bound),
        };
        let last = self.add_constant(first, apart);
        let compare = |e: &mut Self, order: Order, on: OpType, a: Value, b: Value| {
            e.compare((order.cmp(on.is_signed()), on), a, b)
        };
        match bits {
            32 if is_last => {}
            32 => {
                let (limit, order) = match (step > 0, signed) {
                    (true, true) => (i64::from(i32::MAX), Order::AtMost),
                    (true, false) => (i64::from(u32::MAX), Order::AtMost),
                    (false, true) => (i64::from(i32::MIN), Order::AtLeast),
                    (false, false) => (0, Order::AtLeast),
                };
                let limit = self.constant(Type::B64, limit as u64);
                tests
                    .chunk
                    .push(compare(self, order, OpType::S64, last, limit));
            }
            _ => {
                let order = match step > 0 {
                    true => Order::Greater,
                    false => Order::Less,
                };
                tests.chunk.push(compare(self, order, wide, last, first));
            }
        }
        let end = if is_last { last } else { first };
        let on = if bits == 32 { OpType::S64 } else { wide };
        tests.chunk.push(compare(self, order, on, end, bound));
        Some(tests)
    }
}
