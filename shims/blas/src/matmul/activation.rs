//! The functions of epilogues.

/// `e^x` with an error of about one unit in the last place, for arguments between -87 and 88; others give the nearest of these results.
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    let add = |sum: f32, a: f32, b: f32| {
        if FUSED {
            a.mul_add(b, sum)
        } else {
            a * b + sum
        }
    };
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    // Adding 1.5 * 2^23 rounds to an integer, whose bits are the last of the sum.
    let shifted = add(12_582_912.0, x, std::f32::consts::LOG2_E);
    let whole = shifted - 12_582_912.0;
    // The natural logarithm of 2 in two parts, so that the difference is exact.
    let rest = add(add(x, whole, -0.693_359_4), whole, 2.121_944_4e-4);
    let mut sum = 1.0 / 5040.0;
    for term in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = add(term, sum, rest);
    }
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    sum * power
}

/// The square root of 2 / pi.
const ROOT: f32 = 0.797_884_6;

/// The factor of the cubic term.
const CUBIC: f32 = 0.044_715;

/// The share of `x` that GELU keeps: `(1 + tanh(u)) / 2`, where `u` is the cubic polynomial of its tanh form.
#[inline(always)]
fn share<const FUSED: bool>(x: f32) -> f32 {
    let u = ROOT * (x + CUBIC * x * x * x);
    1.0 / (1.0 + exp::<FUSED>(-2.0 * u))
}

/// `max(x, 0)`; NaN stays NaN.
#[inline(always)]
pub(super) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// GELU in its tanh form.
#[inline(always)]
pub(super) fn gelu<const FUSED: bool>(x: f32) -> f32 {
    let kept = x * share::<FUSED>(x);
    // Far from zero, the polynomial overflows.
    if x < -10.0 {
        -0.0
    } else if x > 10.0 {
        x
    } else {
        kept
    }
}

/// The derivative of [`gelu`].
#[inline(always)]
pub(super) fn gelu_derivative<const FUSED: bool>(x: f32) -> f32 {
    let share = share::<FUSED>(x);
    let slope = ROOT * (1.0 + 3.0 * CUBIC * x * x);
    let derivative = share + x * share * (1.0 - share) * 2.0 * slope;
    if x < -10.0 {
        -0.0
    } else if x > 10.0 {
        1.0
    } else {
        derivative
    }
}

#[cfg(test)]
mod tests {
    use super::{gelu, gelu_derivative, relu};

    fn exact(x: f64) -> (f64, f64) {
        let root = (2.0 / std::f64::consts::PI).sqrt();
        let tanh = (root * (x + 0.044715 * x.powi(3))).tanh();
        let slope = root * (1.0 + 3.0 * 0.044715 * x * x);
        // 1 + tanh loses digits for negative arguments.
        let share = 1.0 / (1.0 + (-2.0 * root * (x + 0.044715 * x.powi(3))).exp());
        (x * share, share + 0.5 * x * (1.0 - tanh * tanh) * slope)
    }

    #[test]
    fn gelu_and_its_derivative_are_accurate() {
        for step in -6000..6000 {
            let x = step as f32 / 1000.0;
            let (value, derivative) = exact(f64::from(x));
            for (got, want) in [(gelu::<true>(x), value), (gelu::<false>(x), value)] {
                assert!(
                    (f64::from(got) - want).abs() <= 4e-6 * want.abs() + 1e-30,
                    "{x}: {got} {want}"
                );
            }
            let got = gelu_derivative::<true>(x);
            assert!(
                (f64::from(got) - derivative).abs() <= 3e-6,
                "{x}: {got} {derivative}"
            );
        }
        assert_eq!(
            [
                gelu::<true>(1e30),
                gelu::<true>(-1e30),
                gelu::<true>(f32::INFINITY)
            ],
            [1e30, 0.0, f32::INFINITY]
        );
        assert_eq!(
            [
                gelu_derivative::<true>(f32::MAX),
                gelu_derivative::<true>(f32::MIN)
            ],
            [1.0, 0.0]
        );
        assert!(
            gelu::<true>(f32::NAN).is_nan()
                && gelu_derivative::<true>(f32::NAN).is_nan()
                && relu(f32::NAN).is_nan()
        );
        assert_eq!([relu(-1.0), relu(2.0)], [0.0, 2.0]);
    }
}
