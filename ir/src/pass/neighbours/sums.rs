//! Addresses as sums: values times constant factors, the lane's number times the stride, and a constant.
//!
//! A sum ignores that 32-bit arithmetic wraps before it is widened to 64 bits.

use smallvec::SmallVec;

use crate::entity::Value;
use crate::function::{Function, payload_sreg};
use crate::pass::places::{is_word, signed_constant};
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

/// Maximum number of operations that [`sum_of`] takes apart.
const MOST_STEPS: u32 = 24;

/// A sum without its constant.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Form {
    /// The values and their factors, ordered by value. No factor is 0.
    pub(super) values: SmallVec<[(Value, i64); 4]>,
    /// The factor of the lane's number.
    pub(super) stride: i64,
}

impl Form {
    fn factor(&self, value: Value) -> i64 {
        let found = self.values.binary_search_by_key(&value, |&(v, _)| v);
        found.map_or(0, |at| self.values[at].1)
    }

    /// Returns this form plus `offset` with `parameter` in place of the only value of `argument`, given that
    /// `parameter` equals `argument`. Returns `None` if the form does not contain that value, or has `parameter` itself.
    pub(super) fn with(&self, offset: i64, parameter: Value, argument: &Sum) -> Option<Sum> {
        let &[(value, 1)] = argument.form.values.as_slice() else {
            return None;
        };
        let factor = self.factor(value);
        if factor == 0 || value == parameter || self.factor(parameter) != 0 {
            return None;
        }
        let mut sum = Sum {
            form: self.clone(),
            offset,
        };
        sum.add(argument, factor.wrapping_neg());
        sum.add_value(parameter, factor);
        Some(sum)
    }
}

/// An address as a sum.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Sum {
    pub(super) form: Form,
    pub(super) offset: i64,
}

impl Sum {
    fn add(&mut self, other: &Sum, factor: i64) {
        for &(value, times) in &other.form.values {
            self.add_value(value, times.wrapping_mul(factor));
        }
        let stride = other.form.stride.wrapping_mul(factor);
        self.form.stride = self.form.stride.wrapping_add(stride);
        self.offset = self.offset.wrapping_add(other.offset.wrapping_mul(factor));
    }

    fn add_value(&mut self, value: Value, factor: i64) {
        let values = &mut self.form.values;
        match values.binary_search_by_key(&value, |&(v, _)| v) {
            Ok(at) => {
                values[at].1 = values[at].1.wrapping_add(factor);
                if values[at].1 == 0 {
                    values.remove(at);
                }
            }
            Err(at) if factor != 0 => values.insert(at, (value, factor)),
            Err(_) => {}
        }
    }

    /// Returns the constant that is added to `value`, if the sum is `value` plus a constant.
    pub(super) fn step_of(&self, value: Value) -> Option<i64> {
        let is_step = self.form.values.as_slice() == [(value, 1)] && self.form.stride == 0;
        is_step.then_some(self.offset)
    }
}

/// Takes an address apart.
pub(super) fn sum_of(function: &Function, address: Value) -> Sum {
    let mut sum = Sum::default();
    let mut steps = MOST_STEPS;
    collect(function, address, 1, &mut sum, &mut steps);
    sum
}

/// Adds `value` times `factor` to a sum.
fn collect(function: &Function, value: Value, factor: i64, sum: &mut Sum, steps: &mut u32) {
    if let Some(constant) = signed_constant(function, value) {
        sum.offset = sum.offset.wrapping_add(constant.wrapping_mul(factor));
        return;
    }
    let Some(inst) = function.dfg.def_inst(value).filter(|_| *steps > 0) else {
        return sum.add_value(value, factor);
    };
    *steps -= 1;
    let data = &function.dfg.insts[inst];
    let constant = |v| signed_constant(function, v);
    let is_integer = data.ty.is_integer();
    match (data.opcode, function.dfg.args(inst)) {
        (Opcode::SReg, _)
            if matches!(
                payload_sreg(data.payload()),
                Some(SpecialReg::TidX | SpecialReg::Laneid)
            ) =>
        {
            sum.form.stride = sum.form.stride.wrapping_add(factor);
        }
        (Opcode::Cvt | Opcode::Bitcast, &[a]) if is_word(function, value, a) => {
            collect(function, a, factor, sum, steps);
        }
        (Opcode::Add, &[a, b]) if is_integer => {
            collect(function, a, factor, sum, steps);
            collect(function, b, factor, sum, steps);
        }
        (Opcode::Sub, &[a, b]) if is_integer => {
            collect(function, a, factor, sum, steps);
            collect(function, b, factor.wrapping_neg(), sum, steps);
        }
        (Opcode::Shl, &[a, b]) if constant(b).is_some_and(|n| (0..32).contains(&n)) => {
            let times = 1i64 << constant(b).unwrap_or_default();
            collect(function, a, factor.wrapping_mul(times), sum, steps);
        }
        (Opcode::Mul | Opcode::Mad, &[a, b, ref rest @ ..])
            if is_integer && data.mods.half() != Half::Hi =>
        {
            let Some((of, times)) = constant(b)
                .map(|n| (a, n))
                .or_else(|| constant(a).map(|n| (b, n)))
            else {
                return sum.add_value(value, factor);
            };
            collect(function, of, factor.wrapping_mul(times), sum, steps);
            if let &[c] = rest {
                collect(function, c, factor, sum, steps);
            }
        }
        _ => sum.add_value(value, factor),
    }
}
