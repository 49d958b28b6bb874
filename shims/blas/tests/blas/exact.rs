//! Complex numbers in about twice the precision of `f64`, which also know the size of the terms that they are sums of.

use std::ops::{Add, Mul, Neg, Sub};

use margay_blas::{Complex, Element, Real};

/// An unevaluated sum of two numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Double(f64, f64);

impl Add for Double {
    type Output = Double;

    fn add(self, other: Double) -> Double {
        let sum = self.0 + other.0;
        let part = sum - self.0;
        let error = (self.0 - (sum - part)) + (other.0 - part) + self.1 + other.1;
        let high = sum + error;
        Double(
            high,
            if high.is_finite() {
                error - (high - sum)
            } else {
                0.0
            },
        )
    }
}

impl Mul for Double {
    type Output = Double;

    fn mul(self, other: Double) -> Double {
        let product = self.0 * other.0;
        if !product.is_finite() {
            return Double(product, 0.0);
        }
        let error = self.0.mul_add(other.0, -product) + self.0 * other.1 + self.1 * other.0;
        let high = product + error;
        Double(high, error - (high - product))
    }
}

impl Neg for Double {
    type Output = Double;

    fn neg(self) -> Double {
        Double(-self.0, -self.1)
    }
}

/// A number with the sum of the magnitudes of its terms.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exact {
    re: Double,
    im: Double,
    /// Sum of the magnitudes of the terms.
    pub(crate) size: f64,
}

impl Exact {
    pub(crate) fn of<T: Element>(value: T) -> Exact {
        let Complex { re, im } = value.wide();
        Exact {
            re: Double(re, 0.0),
            im: Double(im, 0.0),
            size: re.abs() + im.abs(),
        }
    }

    pub(crate) fn conj(self) -> Exact {
        Exact {
            im: -self.im,
            ..self
        }
    }

    pub(crate) fn conj_if(self, conjugate: bool) -> Exact {
        if conjugate { self.conj() } else { self }
    }

    /// The real part alone.
    pub(crate) fn real(self) -> Exact {
        let size = if self.size.is_nan() {
            self.re.0.abs()
        } else {
            self.size
        };
        Exact {
            im: Double::default(),
            size,
            ..self
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.re.0 == 0.0 && self.im.0 == 0.0
    }

    pub(crate) fn wide(self) -> Complex<f64> {
        Complex::new(self.re.0, self.im.0)
    }

    /// Checks a computed value: its error is at most `units` roundings of the terms' size.
    #[track_caller]
    pub(crate) fn check<T: Element>(self, got: T, units: f64, what: impl std::fmt::Display) {
        self.check_with(got.wide(), units * T::Real::EPSILON.to_f64(), what);
    }

    /// Checks a computed value: its error is at most `relative` of the terms' size.
    #[track_caller]
    pub(crate) fn check_with(self, got: Complex<f64>, relative: f64, what: impl std::fmt::Display) {
        for (got, want) in [(got.re, self.re), (got.im, self.im)] {
            if want.0.is_nan() {
                assert!(got.is_nan(), "{what}: {got:e} instead of NaN");
            } else if want.0.is_infinite() {
                assert_eq!(got, want.0, "{what}");
            } else {
                let error = (Double(got, 0.0) + -want).0.abs();
                let limit = relative * self.size + 1e-300;
                assert!(
                    error <= limit,
                    "{what}: {got:e} instead of {:e}, error {error:e}, allowed {limit:e}",
                    want.0
                );
            }
        }
    }
}

impl Add for Exact {
    type Output = Exact;

    fn add(self, other: Exact) -> Exact {
        Exact {
            re: self.re + other.re,
            im: self.im + other.im,
            size: self.size + other.size,
        }
    }
}

impl Neg for Exact {
    type Output = Exact;

    fn neg(self) -> Exact {
        Exact {
            re: -self.re,
            im: -self.im,
            ..self
        }
    }
}

impl Sub for Exact {
    type Output = Exact;

    fn sub(self, other: Exact) -> Exact {
        self + -other
    }
}

impl Mul for Exact {
    type Output = Exact;

    fn mul(self, other: Exact) -> Exact {
        // Real numbers stay real, also beside infinities.
        let real = |a: Exact| a.im.0 == 0.0 && a.im.1 == 0.0;
        let size = self.size * other.size;
        if real(self) {
            return Exact {
                re: self.re * other.re,
                im: if real(other) {
                    Double::default()
                } else {
                    self.re * other.im
                },
                size,
            };
        }
        if real(other) {
            return Exact {
                re: self.re * other.re,
                im: self.im * other.re,
                size,
            };
        }
        Exact {
            re: self.re * other.re + -(self.im * other.im),
            im: self.re * other.im + self.im * other.re,
            size,
        }
    }
}

impl std::iter::Sum for Exact {
    fn sum<I: Iterator<Item = Exact>>(items: I) -> Exact {
        items.fold(Exact::default(), |sum, item| sum + item)
    }
}
