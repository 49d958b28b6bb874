//! Fourier transforms in shared memory, with complex multiplications and a different order of accesses in each pass.

use std::f64::consts::TAU;

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Fourier transform",
    size: "1024 transforms of 1024 complex f32",
    group: Group::Second,
    sources: sources!("benches/cuda/fft.ptx", "fft"),
    make,
};

const LENGTH: usize = 1024;

type Complex = [f64; 2];

fn make(scale: Scale) -> Work {
    let transforms = scale.pick(1024, 3);
    let mut random = Random::new(33);
    let values: Vec<[f32; 2]> = random.fill(transforms * LENGTH, |r| {
        [2.0 * r.unit() - 1.0, 2.0 * r.unit() - 1.0]
    });
    let of_one = |values: &[[f32; 2]]| {
        let wide: Vec<Complex> = values.iter().map(|v| v.map(f64::from)).collect();
        transform(&wide)
    };
    let want = values.chunks(LENGTH).flat_map(of_one);
    let want = want.flat_map(|v| v.map(|part| part as f32)).collect();
    let roots: Vec<[f32; 2]> = (0..LENGTH)
        .map(|k| root(k, LENGTH).map(|part| part as f32))
        .collect();
    let mut work = Work::on(transforms * LENGTH);
    let (from, to) = (
        work.input(&values),
        work.output::<[f32; 2]>(transforms * LENGTH),
    );
    let roots = work.input(&roots);
    work.launch("fft_1024", transforms, LENGTH / 4, args![from, to, roots]);
    work.numbers([transforms]);
    work.operations = Some(5.0 * 10.0 * (transforms * LENGTH) as f64);
    work.expect(to, Values::Close(want, 1e-4));
    work
}

/// Returns exp(-2 pi i k / n).
fn root(k: usize, n: usize) -> Complex {
    let (sin, cos) = (-TAU * k as f64 / n as f64).sin_cos();
    [cos, sin]
}

/// Computes a Fourier transform by dividing the values into those with even and those with odd indices.
fn transform(values: &[Complex]) -> Vec<Complex> {
    let n = values.len();
    if n == 1 {
        return values.to_vec();
    }
    let half = |first: usize| -> Vec<Complex> {
        transform(
            &values
                .iter()
                .skip(first)
                .step_by(2)
                .copied()
                .collect::<Vec<_>>(),
        )
    };
    let (even, odd) = (half(0), half(1));
    let term = |k: usize| {
        let ([re, im], [a, b]) = (odd[k % (n / 2)], root(k, n));
        let [even_re, even_im] = even[k % (n / 2)];
        [even_re + re * a - im * b, even_im + re * b + im * a]
    };
    (0..n).map(term).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_the_definition() {
        let values: Vec<Complex> = (0..8)
            .map(|i| [f64::from(i * i), f64::from(5 - i)])
            .collect();
        for (k, got) in transform(&values).into_iter().enumerate() {
            let mut want = [0.0; 2];
            for (j, [re, im]) in values.iter().enumerate() {
                let [a, b] = root(j * k % 8, 8);
                want[0] += re * a - im * b;
                want[1] += re * b + im * a;
            }
            assert!((got[0] - want[0]).abs() < 1e-9 && (got[1] - want[1]).abs() < 1e-9);
        }
    }
}
