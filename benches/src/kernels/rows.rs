//! Softmax and layer normalisation of the rows of a matrix. Each block computes one row.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Buffer, Values, Work, args};

pub(super) const SOFTMAX: Case = Case {
    name: "softmax",
    size: "1024 rows of 1024 f32",
    group: Group::More,
    sources: sources!("benches/cuda/rows.ptx", "rows" / "softmax"),
    make: softmax,
};

pub(super) const LAYER_NORM: Case = Case {
    name: "layer normalisation",
    size: "1024 rows of 1024 f32",
    group: Group::More,
    sources: sources!("benches/cuda/rows.ptx", "rows" / "layer_norm"),
    make: layer_norm,
};

/// Tolerance for the sum of a thousand floats, which contenders add in different orders.
const TOLERANCE: f32 = 1e-4;

fn matrix(scale: Scale) -> (usize, usize, Vec<f32>) {
    let (rows, columns) = (scale.pick(1024, 7), scale.pick(1024, 300));
    let values = Random::new(17).fill(rows * columns, |r| r.unit() * 8.0 - 4.0);
    (rows, columns, values)
}

fn softmax(scale: Scale) -> Work {
    let (rows, columns, values) = matrix(scale);
    let row = |row: &[f32]| -> Vec<f32> {
        let powers = row.iter().map(|v| f64::from(*v).exp());
        let sum: f64 = powers.clone().sum();
        // For results less than 1, the comparison uses the tolerance as an absolute value. The results of softmax are
        // much less than 1, so the tolerance below is divided by the number of columns.
        powers.map(|power| (power / sum) as f32).collect()
    };
    let want: Vec<f32> = values.chunks(columns).flat_map(row).collect();
    let mut work = Work::on(rows * columns);
    let (from, to) = (work.input(&values), work.output::<f32>(rows * columns));
    work.launch("softmax", rows, 256, args![from, to, columns as i32]);
    finish(work, to, [rows, columns], want, TOLERANCE / columns as f32)
}

fn layer_norm(scale: Scale) -> Work {
    let (rows, columns, values) = matrix(scale);
    let mut random = Random::new(18);
    let gain = random.fill(columns, |r| r.unit() + 0.5);
    let bias = random.fill(columns, |r| r.unit() - 0.5);
    let row = |row: &[f32]| -> Vec<f32> {
        let mean = row.iter().map(|v| f64::from(*v)).sum::<f64>() / columns as f64;
        let squares: f64 = row.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum();
        let scale = 1.0 / (squares / columns as f64 + 1e-5).sqrt();
        let scaled = row.iter().map(|v| (f64::from(*v) - mean) * scale);
        let line = scaled.zip(gain.iter().zip(&bias));
        line.map(|(v, (gain, bias))| (v * f64::from(*gain) + f64::from(*bias)) as f32)
            .collect()
    };
    let want: Vec<f32> = values.chunks(columns).flat_map(row).collect();
    let mut work = Work::on(rows * columns);
    let from = work.input(&values);
    let (gain, bias) = (work.input(&gain), work.input(&bias));
    let to = work.output::<f32>(rows * columns);
    work.launch(
        "layer_norm",
        rows,
        256,
        args![from, gain, bias, to, columns as i32],
    );
    finish(work, to, [rows, columns], want, TOLERANCE)
}

fn finish(mut work: Work, to: Buffer, extents: [usize; 2], want: Vec<f32>, tolerance: f32) -> Work {
    work.numbers(extents);
    work.expect(to, Values::Close(want, tolerance));
    work
}
