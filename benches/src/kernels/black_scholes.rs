//! Prices of European options, which are computed with exponentials, logarithms, roots and divisions.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Black-Scholes",
    size: "1 Mi options",
    group: Group::Goals,
    sources: sources!("tests/cuda/ptx/black_scholes.ptx", "black_scholes"),
    make: |scale| make(scale, 1e-4),
};

/// The kernel of this module, compiled with fast-math options in every language.
pub(super) const FAST: Case = Case {
    name: "Black-Scholes, fast math",
    size: "1 Mi options",
    group: Group::More,
    sources: sources!(
        "benches/cuda/black_scholes_fast.ptx",
        "black_scholes" / "black_scholes_fast",
        opencl_options: "-cl-std=CL1.2 -cl-fast-relaxed-math",
        c_options: &["-ffast-math", "-fveclib=libmvec"],
    ),
    make: |scale| make(scale, 1e-3),
};

const RATE: f32 = 0.02;
const VOLATILITY: f32 = 0.3;

/// Creates the data, the launch and the expected results of the kernel. Results may differ from the
/// expected results by `tolerance` ([`Values::Close`]), because the contenders' mathematical
/// functions differ in the last bits of their results, and a price is a difference of such results.
fn make(scale: Scale, tolerance: f32) -> Work {
    let n = scale.pick(1 << 20, 3000);
    let mut random = Random::new(7);
    let mut between = |low: f32, high: f32| random.fill(n, |r| low + (high - low) * r.unit());
    let (spot, strike, years) = (between(5.0, 30.0), between(1.0, 100.0), between(0.25, 10.0));
    let terms = spot.iter().zip(&strike).zip(&years);
    let prices =
        terms.map(|((spot, strike), years)| price([*spot, *strike, *years].map(f64::from)));
    let (calls, puts): (Vec<f32>, Vec<f32>) = prices.unzip();
    let mut work = Work::on(n);
    let [spot, strike, years] = [spot, strike, years].map(|values| work.input(&values));
    let (call, put) = (work.output::<f32>(n), work.output::<f32>(n));
    let arguments = args![spot, strike, years, call, put, RATE, VOLATILITY, n as i32];
    work.launch("black_scholes", n.div_ceil(128), 128, arguments);
    work.numbers([n]);
    work.expect(call, Values::Close(calls, tolerance));
    work.expect(put, Values::Close(puts, tolerance));
    work
}

/// Computes the cumulative normal distribution at `d` with the polynomial that the kernels use
/// (Abramowitz and Stegun, 26.2.17).
fn normal(d: f64) -> f64 {
    let k = 1.0 / (1.0 + 0.231_641_9 * d.abs());
    let poly = [-1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_53]
        .into_iter()
        .fold(1.330_274_429, |sum, next| sum * k + next);
    let tail = (-0.5 * d * d).exp() / std::f64::consts::TAU.sqrt() * poly * k;
    if d > 0.0 { 1.0 - tail } else { tail }
}

/// Computes the prices of call and put in double precision.
fn price([spot, strike, years]: [f64; 3]) -> (f32, f32) {
    let (rate, volatility) = (f64::from(RATE), f64::from(VOLATILITY));
    let spread = volatility * years.sqrt();
    let d1 = ((spot / strike).ln() + (rate + 0.5 * volatility * volatility) * years) / spread;
    let d2 = d1 - spread;
    let discounted = strike * (-rate * years).exp();
    let call = spot * normal(d1) - discounted * normal(d2);
    let put = discounted * normal(-d2) - spot * normal(-d1);
    (call as f32, put as f32)
}
