//! Sums of values that are equal for a CTA and of multiples of the thread's coordinates.

use margay_ir::entity::Value;
use smallvec::{SmallVec, smallvec};

/// Maximum number of terms of a sum.
const MAX_TERMS: usize = 6;

/// The product of a constant and of values that are equal for the CTA.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub(super) times: i64,
    pub(super) factors: SmallVec<[Value; 2]>,
}

/// A sum of terms, modulo 2^32.
pub(super) type Terms = SmallVec<[Term; 2]>;

/// A sum: a base that is equal for the CTA, plus each coordinate of the thread times a factor that is equal for the
/// CTA.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    pub(super) base: Terms,
    pub(super) along: [Terms; 3],
}

impl Sum {
    pub(super) fn constant(value: i64) -> Sum {
        Sum {
            base: smallvec![Term {
                times: value,
                factors: SmallVec::new(),
            }],
            ..Sum::default()
        }
    }

    pub(super) fn is_uniform(&self) -> bool {
        self.along.iter().all(|terms| terms.is_empty())
    }

    fn parts(&self) -> impl Iterator<Item = &Terms> {
        std::iter::once(&self.base).chain(&self.along)
    }

    fn zip(&self, other: &Sum, join: impl Fn(&Terms, &Terms) -> Terms) -> Option<Sum> {
        let sum = Sum {
            base: join(&self.base, &other.base),
            along: std::array::from_fn(|axis| join(&self.along[axis], &other.along[axis])),
        };
        let few = sum.parts().map(|terms| terms.len()).sum::<usize>() <= MAX_TERMS;
        few.then_some(sum)
    }

    pub(super) fn plus(&self, other: &Sum, sign: i64) -> Option<Sum> {
        self.zip(other, |a, b| {
            let scaled = b.iter().map(|term| Term {
                times: term.times.wrapping_mul(sign),
                factors: term.factors.clone(),
            });
            a.iter().cloned().chain(scaled).collect()
        })
    }

    /// Returns the product of two sums, as a sum. Returns `None` unless at least one of them is
    /// equal for the CTA.
    pub(super) fn times(&self, other: &Sum) -> Option<Sum> {
        let (sum, factor) = match (self.is_uniform(), other.is_uniform()) {
            (_, true) => (self, &other.base),
            (true, _) => (other, &self.base),
            _ => return None,
        };
        sum.zip(&Sum::default(), |terms, _| {
            let products = terms.iter().flat_map(|a| {
                factor.iter().map(|b| Term {
                    times: a.times.wrapping_mul(b.times),
                    factors: a.factors.iter().chain(&b.factors).copied().collect(),
                })
            });
            products.collect()
        })
    }
}
