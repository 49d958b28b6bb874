//! Which accesses may access the same bytes.
//!
//! The address of an access is a *root* plus a constant: sums with constants are traced back to the value that they
//! start from. Two accesses do not alias if they have the same root and their ranges of bytes do not overlap, or if only
//! one of them accesses private memory ([`Function::private`]). Nothing else is assumed about different roots.

use margay_ir::entity::{Inst, Value};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::Type;

use super::simplify::is_whole_integer;
use crate::data::{Access, Data, lanes_of};
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of sums that the search for a root follows.
const MOST_SUMS: usize = 4;

/// Returns the root of an address and the constant that is added to it, modulo 2^64.
pub(super) fn root(function: &Function, mut value: Value) -> (Value, i64) {
    let mut offset = 0i64;
    for _ in 0..MOST_SUMS {
        let Some((inner, constant)) = sum(function, value) else {
            break;
        };
        value = inner;
        offset = offset.wrapping_add(constant);
    }
    (value, offset)
}

/// If a value is a 64-bit sum or difference of a value and a constant, returns the value and the constant.
pub(super) fn sum(function: &Function, value: Value) -> Option<(Value, i64)> {
    if function.ty(value) != Type::B64 {
        return None;
    }
    let inst = function.def_inst(value)?;
    let Data::Lane(desc) = function.insts[inst].data else {
        return None;
    };
    let &[a, b] = function.args(inst) else {
        return None;
    };
    if !is_whole_integer(&desc, Type::B64) {
        return None;
    }
    let constant = |value: Value| Some(function.constant(value)? as i64);
    match desc.opcode {
        Opcode::Add => match (constant(a), constant(b)) {
            (_, Some(constant)) => Some((a, constant)),
            (Some(constant), None) => Some((b, constant)),
            _ => None,
        },
        Opcode::Sub => Some((a, constant(b)?.wrapping_neg())),
        _ => None,
    }
}

/// The bytes that an access may access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bytes {
    /// Bytes from `start` to `end` relative to a root, of private memory or of other memory.
    Range {
        root: Value,
        start: i64,
        end: i64,
        is_private: bool,
    },
    /// Any bytes, except those of private memory.
    All,
}

impl Bytes {
    /// Returns whether two accesses may access the same byte.
    pub(super) fn may_alias(self, other: Bytes) -> bool {
        match (self, other) {
            (
                Bytes::Range {
                    root,
                    start,
                    end,
                    is_private,
                },
                Bytes::Range {
                    root: other,
                    start: first,
                    end: last,
                    is_private: is_other_private,
                },
            ) => match root == other {
                true => start < last && first < end,
                false => !is_private && !is_other_private,
            },
            (Bytes::Range { is_private, .. }, Bytes::All)
            | (Bytes::All, Bytes::Range { is_private, .. }) => !is_private,
            (Bytes::All, Bytes::All) => true,
        }
    }
}

/// Returns the bytes that a memory instruction may access; `All` for other instructions.
pub(super) fn bytes(function: &Function, inst: Inst) -> Bytes {
    let data = &function.insts[inst];
    let (Op::Load | Op::Store, Data::Access(access)) = (data.op, data.data) else {
        return Bytes::All;
    };
    let (root, offset) = root(function, function.args(inst)[0]);
    let mut params = function.private.iter();
    let is_private =
        params.any(|&number| function.blocks[function.entry()].get(number as usize) == Some(&root));
    let found = range(access, offset, lanes_of(data.ty) as i64);
    found.map_or(Bytes::All, |(start, end)| Bytes::Range {
        root,
        start,
        end,
        is_private,
    })
}

/// Returns the first byte and the end of an access; `None` if the numbers are so large that addresses may wrap.
fn range(access: Access, offset: i64, lanes: i64) -> Option<(i64, i64)> {
    const LIMIT: i64 = 1 << 61;
    let first = offset.checked_add(access.displacement.into())?;
    let last = first.checked_add(access.stride.checked_mul(lanes - 1)?)?;
    let end = first
        .max(last)
        .checked_add(i64::from(access.memory.bits() / 8))?;
    let start = first.min(last);
    (start > -LIMIT && end < LIMIT).then_some((start, end))
}

/// How an instruction affects memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Touch {
    /// It does not write and does not order accesses.
    Nothing,
    /// It writes some of these bytes.
    Writes(Bytes),
    /// It may write any byte, or orders accesses.
    Everything,
}

/// Returns how an instruction affects memory.
pub(super) fn touch(function: &Function, inst: Inst) -> Touch {
    let data = &function.insts[inst];
    let effects = data.op.row().effects;
    match data.op {
        Op::Store | Op::Scatter | Op::Update => Touch::Writes(bytes(function, inst)),
        Op::Call | Op::CallLanes if is_without_memory(function, inst) => Touch::Nothing,
        _ if effects.intersects(Effects::WRITES.union(Effects::FENCE)) => Touch::Everything,
        _ => Touch::Nothing,
    }
}

/// Returns whether an instruction calls a helper that does not access the function's memory.
fn is_without_memory(function: &Function, inst: Inst) -> bool {
    let number = function.insts[inst].data.number() as usize;
    let helper = function.helpers.get(number);
    helper.is_some_and(|helper| helper.no_memory)
}
