//! Construction of plane rotations.

use crate::{Element, Real};

/// A rotation `[c, s; -conj(s), c]` with `c a + s b = r`.
pub(crate) struct Rotation<T: Element> {
    pub(crate) c: T::Real,
    pub(crate) s: T,
    pub(crate) r: T,
    /// For real types, the number from which `c` and `s` can be computed again.
    pub(crate) z: T,
}

/// A power of two near the largest part, by which the parts can be divided exactly.
fn near<R: Real>(parts: [R; 4]) -> R {
    let largest = parts
        .into_iter()
        .map(|part| part.abs().to_f64())
        .fold(0.0f64, |a, b| if b > a { b } else { a });
    if largest == 0.0 || !largest.is_finite() {
        return R::ONE;
    }
    let exponent = ((largest.to_bits() >> 52) as i32).max(1) - 1023;
    // Its reciprocal must be a normal number too.
    let limit = if R::EPSILON.to_f64() > 1e-10 {
        125
    } else {
        1021
    };
    R::from_f64(f64::from_bits(
        ((1023 + exponent.clamp(-limit, limit)) as u64) << 52,
    ))
}

/// The rotation that makes the second component zero.
pub(crate) fn rotation<T: Element>(a: T, b: T) -> Rotation<T> {
    let scale = near([a.re(), a.im(), b.re(), b.im()]);
    let small = |value: T| T::from_parts(value.re().over(scale), value.im().over(scale));
    let (x, y) = (small(a), small(b));
    if T::KIND.is_complex() {
        complex(a, b, x, y, scale)
    } else {
        real(a, b, x, y, scale)
    }
}

fn real<T: Element>(a: T, b: T, x: T, y: T, scale: T::Real) -> Rotation<T> {
    if a == T::ZERO && b == T::ZERO {
        return Rotation {
            c: T::Real::ONE,
            s: T::ZERO,
            r: T::ZERO,
            z: T::ZERO,
        };
    }
    let larger_a = a.re().abs() > b.re().abs();
    let sign = if larger_a { a.re() } else { b.re() };
    let norm = (x.re() * x.re() + y.re() * y.re()).sqrt().copysign(sign);
    let (c, s) = (x.re().over(norm), y.re().over(norm));
    let z = if larger_a {
        s
    } else if c != T::Real::ZERO {
        T::Real::ONE.over(c)
    } else {
        T::Real::ONE
    };
    Rotation {
        c,
        s: T::from_real(s),
        r: T::from_real(norm * scale),
        z: T::from_real(z),
    }
}

fn complex<T: Element>(a: T, b: T, x: T, y: T, scale: T::Real) -> Rotation<T> {
    if a == T::ZERO {
        return Rotation {
            c: T::Real::ZERO,
            s: T::ONE,
            r: b,
            z: b,
        };
    }
    let squares = |value: T| value.re() * value.re() + value.im() * value.im();
    let norm = (squares(x) + squares(y)).sqrt();
    let length = x.re().hypot(x.im());
    // The direction of a, also if x has underflowed.
    let direction = if length > T::Real::ZERO {
        T::from_parts(x.re().over(length), x.im().over(length))
    } else {
        let length = a.re().hypot(a.im());
        T::from_parts(a.re().over(length), a.im().over(length))
    };
    let s = direction * y.conj();
    Rotation {
        c: length.over(norm),
        s: T::from_parts(s.re().over(norm), s.im().over(norm)),
        r: direction.scale(norm * scale),
        z: b,
    }
}

/// The state of the construction of a modified rotation.
pub(crate) struct Modified<R> {
    pub(crate) d1: R,
    pub(crate) d2: R,
    pub(crate) x1: R,
    pub(crate) param: [R; 5],
}

/// The modified rotation that makes the second component of `(sqrt(d1) x1, sqrt(d2) y1)` zero, as the reference BLAS constructs it.
/// `old` are the parameters before, of which elements that the flag implies stay.
pub(crate) fn modified<R: Real>(d1: R, d2: R, x1: R, y1: R, old: [R; 5]) -> Modified<R> {
    let (zero, one) = (R::ZERO, R::ONE);
    let minus_two = -one - one;
    let nothing = |flag: R| [flag, zero, zero, zero, zero];
    if d1 < zero {
        return Modified {
            d1: zero,
            d2: zero,
            x1: zero,
            param: nothing(-one),
        };
    }
    let p2 = d2 * y1;
    if p2 == zero {
        return Modified {
            d1,
            d2,
            x1,
            param: [minus_two, old[1], old[2], old[3], old[4]],
        };
    }
    let p1 = d1 * x1;
    let (q1, q2) = (p1 * x1, p2 * y1);
    let mut state = if q1.abs() > q2.abs() {
        let h21 = -y1.over(x1);
        let h12 = p2.over(p1);
        let u = one - h12 * h21;
        if u > zero {
            Rescale {
                flag: zero,
                d1: d1.over(u),
                d2: d2.over(u),
                x1: x1 * u,
                h: [one, h21, h12, one],
            }
        } else {
            // Only rounding can lead here.
            return Modified {
                d1: zero,
                d2: zero,
                x1: zero,
                param: nothing(-one),
            };
        }
    } else if q2 < zero {
        return Modified {
            d1: zero,
            d2: zero,
            x1: zero,
            param: nothing(-one),
        };
    } else {
        let h11 = p1.over(p2);
        let h22 = x1.over(y1);
        let u = one + h11 * h22;
        Rescale {
            flag: one,
            d1: d2.over(u),
            d2: d1.over(u),
            x1: y1 * u,
            h: [h11, -one, one, h22],
        }
    };
    state.run();
    let [h11, h21, h12, h22] = state.h;
    let param = if state.flag < zero {
        [state.flag, h11, h21, h12, h22]
    } else if state.flag == zero {
        [state.flag, old[1], h21, h12, old[4]]
    } else {
        [state.flag, h11, old[2], old[3], h22]
    };
    Modified {
        d1: state.d1,
        d2: state.d2,
        x1: state.x1,
        param,
    }
}

/// Keeps the factors between 2^-24 and 2^24 by powers of 2^12.
struct Rescale<R> {
    flag: R,
    d1: R,
    d2: R,
    x1: R,
    /// h11, h21, h12, h22.
    h: [R; 4],
}

impl<R: Real> Rescale<R> {
    fn run(&mut self) {
        let gamma = R::from_f64(4096.0);
        let large = R::from_f64(16_777_216.0);
        let small = R::from_f64(1.0 / 16_777_216.0);
        let out = |value: R| {
            value != R::ZERO
                && (value.abs() <= small || value.abs() >= large)
                && value.abs() < R::INFINITY
        };
        while out(self.d1) {
            self.flag = -R::ONE;
            if self.d1.abs() <= small {
                self.d1 = self.d1 * gamma * gamma;
                self.x1 = self.x1.over(gamma);
                self.h[0] = self.h[0].over(gamma);
                self.h[2] = self.h[2].over(gamma);
            } else {
                self.d1 = self.d1.over(gamma * gamma);
                self.x1 = self.x1 * gamma;
                self.h[0] = self.h[0] * gamma;
                self.h[2] = self.h[2] * gamma;
            }
        }
        while out(self.d2) {
            self.flag = -R::ONE;
            if self.d2.abs() <= small {
                self.d2 = self.d2 * gamma * gamma;
                self.h[1] = self.h[1].over(gamma);
                self.h[3] = self.h[3].over(gamma);
            } else {
                self.d2 = self.d2.over(gamma * gamma);
                self.h[1] = self.h[1] * gamma;
                self.h[3] = self.h[3] * gamma;
            }
        }
    }
}
