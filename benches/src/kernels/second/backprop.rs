//! A layer of a neural network: sums over all inputs, and the weights after a step of training.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "backpropagation, one layer",
    size: "256 Ki inputs, 16 hidden units",
    group: Group::Second,
    sources: sources!("benches/cuda/backprop.ptx", "backprop"),
    make,
};

const HIDDEN: usize = 16;
const ROWS: usize = 16;
const RATE: f32 = 0.3;
const MOMENTUM: f32 = 0.25;

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 18, 1003);
    let mut random = Random::new(47);
    let inputs = random.fill(n, |r| r.unit());
    let size = 2.0 / (n as f32).sqrt();
    let weights = random.fill(n * HIDDEN, |r| size * (r.unit() - 0.5));
    let before = random.fill(n * HIDDEN, |r| r.unit() - 0.5);
    let targets = random.fill(HIDDEN, |r| r.unit());
    let hidden = hidden(&inputs, &weights);
    let moved = |i: usize| {
        let (unit, target) = (hidden[i % HIDDEN], f64::from(targets[i % HIDDEN]));
        let delta = unit * (1.0 - unit) * (target - unit);
        let change = f64::from(RATE) * delta * f64::from(inputs[i / HIDDEN]);
        let moved = f64::from(weights[i]) + change + f64::from(MOMENTUM) * f64::from(before[i]);
        moved as f32
    };
    let want: Vec<f32> = (0..n * HIDDEN).map(moved).collect();
    let mut work = Work::on(n * HIDDEN);
    let [inputs, weights, before, targets] =
        [inputs, weights, before, targets].map(|values| work.input(&values));
    let blocks = n.div_ceil(ROWS);
    let sums = work.output::<f32>(blocks * HIDDEN);
    let (units, to) = (work.output::<f32>(HIDDEN), work.output::<f32>(n * HIDDEN));
    let block = (HIDDEN, ROWS);
    let arguments = args![inputs, weights, sums, n as i32];
    work.launch("layer_forward", blocks, block, arguments);
    let arguments = args![sums, units, blocks as i32];
    work.launch("layer_hidden", 1, block, arguments);
    let arguments = args![
        inputs, weights, before, targets, units, to, n as i32, RATE, MOMENTUM
    ];
    work.launch("layer_adjust", blocks, block, arguments);
    work.numbers([n]);
    work.operations = Some(6.0 * (n * HIDDEN) as f64);
    let hidden = hidden.iter().map(|unit| *unit as f32).collect();
    work.expect(units, Values::Close(hidden, 1e-4));
    work.expect(to, Values::Close(want, 1e-4));
    work
}

/// Computes the hidden units in double precision.
fn hidden(inputs: &[f32], weights: &[f32]) -> [f64; HIDDEN] {
    let mut sums = [0.0f64; HIDDEN];
    for (input, weights) in inputs.iter().zip(weights.chunks(HIDDEN)) {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += f64::from(*input) * f64::from(*weight);
        }
    }
    sums.map(|sum| 1.0 / (1.0 + (-sum).exp()))
}
