//! Expressions of CTA-uniform numbers: sums of products, with wrapping arithmetic.
//!
//! A sum is canonical: the terms are sorted and have different factors, no term is zero, and each constant is in the
//! range of a signed integer with the sum's number of bits. Equal sums therefore have equal values. (Sums that are not
//! equal may have equal values, too.) The number of bits is not part of a sum; operations receive it as an argument.
//!
//! A factor that is narrower than the sum is zero-extended. A factor that is wider is truncated.

use std::fmt;

use smallvec::{SmallVec, smallvec};

use crate::entity::Value;
use margay_ops::sreg::SpecialReg;

/// Maximum number of terms of a sum.
const MAX_TERMS: usize = 6;
/// Maximum number of factors of a term.
const MAX_FACTORS: usize = 3;

/// A number that is equal for all threads of a CTA.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Factor {
    /// A special register.
    Register(SpecialReg),
    /// A value that is equal for all threads of the CTA.
    Value(Value),
    /// The base of an affine value: the number to which the terms with the thread's coordinates are added. Code that
    /// computes the value for the coordinates (0, 0, 0) computes this number.
    Base(Value),
    /// A sum of fewer bits, extended to 64 bits.
    Extended(Box<Extension>),
}

/// A sum that is computed in a narrow type and then extended.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extension {
    /// The sum.
    pub sum: Sum,
    /// Number of bits of the narrow type, at most 64.
    pub bits: u32,
    /// Whether the sum is sign-extended; otherwise it is zero-extended.
    pub signed: bool,
}

/// The product of a constant and of factors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Term {
    /// The factors, sorted. A constant term has no factors.
    pub factors: SmallVec<[Factor; 1]>,
    /// The constant.
    pub times: i64,
}

/// A sum of terms. The sum without terms is zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sum {
    terms: SmallVec<[Term; 1]>,
}

/// The CTA-uniform numbers of one CTA.
pub trait CtaValues {
    /// Returns the bits of a CTA-uniform value, zero-extended.
    fn value(&self, value: Value) -> u64;
    /// Returns the base of an affine value, zero-extended.
    fn base(&self, value: Value) -> u64;
    /// Returns the content of a special register that is equal for all threads of the CTA.
    fn register(&self, register: SpecialReg) -> u64;
}

/// Sign-extends the low `bits` bits of a number to 64 bits.
pub(super) fn sign_extended(number: u64, bits: u32) -> i64 {
    let unused = 64 - bits.clamp(1, 64);
    (number << unused) as i64 >> unused
}

/// Zero-extends the low `bits` bits of a number to 64 bits.
pub(super) fn zero_extended(number: u64, bits: u32) -> u64 {
    number & u64::MAX >> (64 - bits.clamp(1, 64))
}

/// Extends the low `bits` bits of a number to 64 bits.
pub(super) fn extended(number: u64, bits: u32, signed: bool) -> u64 {
    match signed {
        true => sign_extended(number, bits) as u64,
        false => zero_extended(number, bits),
    }
}

impl Sum {
    /// Returns the sum that is always equal to `number`.
    pub fn constant(number: i64) -> Sum {
        match number {
            0 => Sum::default(),
            times => Sum {
                terms: smallvec![Term {
                    factors: SmallVec::new(),
                    times,
                }],
            },
        }
    }

    /// Returns the sum that is equal to `factor`.
    pub fn factor(factor: Factor) -> Sum {
        Sum {
            terms: smallvec![Term {
                factors: smallvec![factor],
                times: 1,
            }],
        }
    }

    /// Returns the terms.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Returns whether the sum has no terms, so that it is always zero.
    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the number to which the sum is always equal; `None` if the sum has a term with factors.
    pub fn as_constant(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [term] if term.factors.is_empty() => Some(term.times),
            _ => None,
        }
    }

    /// Returns whether the sum is at most one factor, multiplied with a constant, plus a constant.
    pub(super) fn is_simple(&self) -> bool {
        let mut symbolic = self.terms.iter().filter(|term| !term.factors.is_empty());
        let is_leaf = |factor: &Factor| !matches!(factor, Factor::Extended(_));
        symbolic
            .next()
            .is_none_or(|term| term.factors.len() == 1 && is_leaf(&term.factors[0]))
            && symbolic.next().is_none()
    }

    /// Calls `each` with every register, value and base that the sum reads.
    pub fn each_leaf<'a>(&'a self, each: &mut impl FnMut(&'a Factor)) {
        for factor in self.terms.iter().flat_map(|term| &term.factors) {
            match factor {
                Factor::Extended(extension) => extension.sum.each_leaf(each),
                leaf => each(leaf),
            }
        }
    }

    /// Returns a number of low bits that are zero in every value of the sum.
    pub(super) fn zeros(&self) -> u32 {
        let zeros = self.terms.iter().map(|term| term.times.trailing_zeros());
        zeros.min().unwrap_or(64)
    }

    /// Returns `self + scale * other` with `bits` bits; `None` if the result has too many terms.
    pub(super) fn plus(&self, other: &Sum, scale: i64, bits: u32) -> Option<Sum> {
        let scaled = other.terms.iter().map(|term| Term {
            factors: term.factors.clone(),
            times: term.times.wrapping_mul(scale),
        });
        Sum::canonical(self.terms.iter().cloned().chain(scaled).collect(), bits)
    }

    /// Returns the product of two sums with `bits` bits; `None` if the result has too many terms or factors.
    pub(super) fn times(&self, other: &Sum, bits: u32) -> Option<Sum> {
        let mut products: SmallVec<[Term; 1]> = SmallVec::new();
        for a in &self.terms {
            for b in &other.terms {
                let mut factors = a.factors.clone();
                factors.extend(b.factors.iter().cloned());
                if factors.len() > MAX_FACTORS {
                    return None;
                }
                factors.sort_unstable();
                products.push(Term {
                    factors,
                    times: a.times.wrapping_mul(b.times),
                });
            }
        }
        Sum::canonical(products, bits)
    }

    /// Returns the low `bits` bits of the sum.
    pub(super) fn truncated(&self, bits: u32) -> Sum {
        // A truncation only removes terms, so the result does not have too many.
        Sum::canonical(self.terms.clone(), bits).unwrap_or_else(|| self.clone())
    }

    fn canonical(mut terms: SmallVec<[Term; 1]>, bits: u32) -> Option<Sum> {
        terms.sort_unstable();
        let mut sum = Sum::default();
        for term in terms {
            match sum.terms.last_mut() {
                Some(last) if last.factors == term.factors => {
                    last.times = last.times.wrapping_add(term.times);
                }
                _ => sum.terms.push(term),
            }
        }
        for term in &mut sum.terms {
            term.times = sign_extended(term.times as u64, bits);
        }
        sum.terms.retain(|term| term.times != 0);
        (sum.terms.len() <= MAX_TERMS).then_some(sum)
    }

    /// Computes the sum with 64 bits. If the sum has fewer bits, the caller truncates the result.
    pub fn evaluate(&self, values: &impl CtaValues) -> u64 {
        let number = |factor: &Factor| match factor {
            Factor::Register(register) => values.register(*register),
            Factor::Value(value) => values.value(*value),
            Factor::Base(value) => values.base(*value),
            Factor::Extended(of) => extended(of.sum.evaluate(values), of.bits, of.signed),
        };
        let product = |term: &Term| {
            let factors = term.factors.iter().map(number);
            factors.fold(term.times as u64, u64::wrapping_mul)
        };
        self.terms.iter().map(product).fold(0, u64::wrapping_add)
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Factor::Register(register) => f.write_str(register.name()),
            Factor::Value(value) => write!(f, "{value}"),
            Factor::Base(value) => write!(f, "base({value})"),
            Factor::Extended(of) => {
                let sign = if of.signed { "s" } else { "u" };
                write!(f, "{sign}{}({})", of.bits, of.sum)
            }
        }
    }
}

impl Term {
    /// Writes the term without its sign.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = self.times.unsigned_abs();
        let mut star = "";
        if times != 1 || self.factors.is_empty() {
            write!(f, "{times}")?;
            star = "*";
        }
        for factor in &self.factors {
            write!(f, "{star}{factor}")?;
            star = "*";
        }
        Ok(())
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        // The constant term, which is the first, is written last.
        let (constant, symbolic): (Vec<&Term>, Vec<&Term>) =
            self.terms.iter().partition(|term| term.factors.is_empty());
        for (index, term) in symbolic.into_iter().chain(constant).enumerate() {
            f.write_str(match (index, term.times < 0) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            term.write(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbers;

    impl CtaValues for Numbers {
        fn value(&self, value: Value) -> u64 {
            u64::from(value.0) * 0x1_0001
        }
        fn base(&self, value: Value) -> u64 {
            u64::MAX - u64::from(value.0)
        }
        fn register(&self, register: SpecialReg) -> u64 {
            register as u64 + 100
        }
    }

    fn value(number: u32) -> Sum {
        Sum::factor(Factor::Value(Value(number)))
    }

    #[test]
    fn sums_are_canonical() {
        let a = value(1).plus(&value(2), 3, 32).unwrap();
        let b = value(2).plus(&value(1), 1, 32).unwrap();
        assert_eq!(a.plus(&value(2), -2, 32), Some(b.clone()));
        assert_eq!(b.plus(&b, -1, 32), Some(Sum::default()));
        assert_eq!(value(1).times(&value(2), 64), value(2).times(&value(1), 64));
        // 2^31 + 2^31 is zero with 32 bits, and 2^32 with 64 bits.
        let half = Sum::constant(1 << 31);
        assert_eq!(half.plus(&half, 1, 32), Some(Sum::default()));
        assert_eq!(half.plus(&half, 1, 64), Some(Sum::constant(1 << 32)));
        assert_eq!(half.truncated(32), Sum::constant(-(1 << 31)));
    }

    #[test]
    fn sums_have_limits() {
        let long = (1..=MAX_TERMS as u32)
            .try_fold(Sum::default(), |sum, number| {
                sum.plus(&value(number), 1, 32)
            })
            .unwrap();
        assert_eq!(long.plus(&value(99), 1, 32), None);
        let three = value(1).times(&value(2), 32).unwrap().times(&value(3), 32);
        assert_eq!(three.unwrap().times(&value(4), 32), None);
    }

    #[test]
    fn arithmetic_agrees_with_evaluation() {
        let a = value(3).plus(&Sum::constant(-7), 1, 64).unwrap();
        let b = Sum::factor(Factor::Base(Value(5)))
            .plus(&value(9), 11, 64)
            .unwrap();
        let number = |sum: &Sum| sum.evaluate(&Numbers);
        let product = a.times(&b, 64).unwrap();
        assert_eq!(number(&product), number(&a).wrapping_mul(number(&b)));
        let sum = a.plus(&b, -5, 64).unwrap();
        let expected = number(&a).wrapping_sub(number(&b).wrapping_mul(5));
        assert_eq!(number(&sum), expected);
        let narrow = |signed| {
            let extension = Extension {
                sum: a.clone(),
                bits: 16,
                signed,
            };
            number(&Sum::factor(Factor::Extended(Box::new(extension))))
        };
        // 3 * 0x1_0001 - 7 has the low 16 bits 0xfffc.
        assert_eq!((narrow(false), narrow(true)), (0xfffc, -4i64 as u64));
    }

    #[test]
    fn texts_are_readable() {
        let register = Sum::factor(Factor::Register(SpecialReg::NtidX));
        let product = register.times(&value(2), 32).unwrap();
        let sum = product.plus(&value(7), -4, 32).unwrap();
        let sum = sum.plus(&Sum::constant(-3), 1, 32).unwrap();
        assert_eq!(sum.to_string(), "%ntid.x*v2 - 4*v7 - 3");
        assert_eq!(Sum::default().to_string(), "0");
        assert_eq!(Sum::constant(-1).to_string(), "-1");
    }
}
