//! Checks the results of operations on two or three `f32` or `f64` operands: compares them with the
//! results of the crate `rustc_apfloat`.

use rustc_apfloat::ieee::{Double, Single};
use rustc_apfloat::{Float, Round};

use super::Check;
use super::format::Mode;
use super::tally::Tally;

/// An operation on two or three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// `a * b + c`, rounded once.
    Fma,
}

fn direction(mode: Mode) -> Round {
    match mode {
        Mode::Nearest => Round::NearestTiesToEven,
        Mode::Away => Round::NearestTiesToAway,
        Mode::Zero => Round::TowardZero,
        Mode::Down => Round::TowardNegative,
        Mode::Up => Round::TowardPositive,
    }
}

/// A number type of `rustc_apfloat`, and its width in bits.
trait Number: Float {
    const WIDTH: u32;
}

impl Number for Single {
    const WIDTH: u32 = 32;
}

impl Number for Double {
    const WIDTH: u32 = 64;
}

fn flushed<F: Number>(x: F, ftz: bool) -> F {
    if ftz && x.is_denormal() {
        F::ZERO.copy_sign(x)
    } else {
        x
    }
}

fn compute<F: Number>(operation: Operation, round: Round, x: [F; 3]) -> F {
    let [a, b, c] = x;
    match operation {
        Operation::Add => a.add_r(b, round).value,
        Operation::Sub => a.sub_r(b, round).value,
        Operation::Mul => a.mul_r(b, round).value,
        Operation::Div => a.div_r(b, round).value,
        Operation::Fma => a.mul_add_r(b, c, round).value,
    }
}

fn check<F: Number>(operation: Operation, mode: Mode, ftz: bool) -> Check {
    let round = direction(mode);
    Box::new(move |inputs: &[u64], got: u64, tally: &mut Tally| {
        let operand = |at: usize| {
            let bits = inputs.get(at).copied().unwrap_or_default();
            flushed(F::from_bits(bits.into()), ftz)
        };
        let wanted = compute(operation, round, [operand(0), operand(1), operand(2)]);
        let wanted = flushed(wanted, ftz);
        let result = F::from_bits(got.into());
        let same = wanted.to_bits() == u128::from(got) || wanted.is_nan() && result.is_nan();
        let inside = F::WIDTH == 64 || got >> 32 == 0;
        tally.expect(same && inside, inputs, got, "not the rounded result");
    })
}

/// Returns a checker of the results of an operation on `f32` numbers.
pub fn single(operation: Operation, mode: Mode, ftz: bool) -> Check {
    check::<Single>(operation, mode, ftz)
}

/// Returns a checker of the results of an operation on `f64` numbers.
pub fn double(operation: Operation, mode: Mode) -> Check {
    check::<Double>(operation, mode, false)
}

#[cfg(test)]
mod tests {
    use super::super::Tally;
    use super::*;

    #[test]
    fn only_the_rounded_result_is_right() {
        let check = single(Operation::Div, Mode::Down, false);
        let bits = |x: f32| u64::from(x.to_bits());
        for (got, right) in [(0.333_333_3, true), (0.333_333_34, false)] {
            let mut tally = Tally::new(&[]);
            check.one(&[bits(1.0), bits(3.0)], bits(got), &mut tally);
            assert_eq!(tally.wrong_count == 0, right, "{got}");
        }
        let check = double(Operation::Fma, Mode::Nearest);
        let inputs = [1.0 + f64::EPSILON, 1.0 - f64::EPSILON, -1.0].map(f64::to_bits);
        let mut tally = Tally::new(&[]);
        let exact = -f64::EPSILON * f64::EPSILON;
        check.one(&inputs, exact.to_bits(), &mut tally);
        assert_eq!(tally.wrong_count, 0);
        check.one(&inputs, 0f64.to_bits(), &mut tally);
        assert_eq!(tally.wrong_count, 1);
    }
}
