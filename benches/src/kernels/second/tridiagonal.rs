//! Tridiagonal systems: the CUDA kernel uses parallel cyclic reduction in shared memory, and C eliminates the unknowns
//! one after the other.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "tridiagonal systems",
    size: "2048 systems of 256 equations",
    group: Group::Second,
    sources: sources!("benches/cuda/tridiagonal.ptx", "tridiagonal"),
    make,
};

const SIZE: usize = 256;

fn make(scale: Scale) -> Work {
    let systems = scale.pick(2048, 5);
    let n = systems * SIZE;
    let mut random = Random::new(38);
    let lower = random.fill(n, |r| r.unit() - 0.5);
    let upper = random.fill(n, |r| r.unit() - 0.5);
    let diagonal = random.fill(n, |r| 1.5 + r.unit());
    let solution = random.fill(n, |r| 2.0 * r.unit() - 1.0);
    // The right side is the product of the matrix and the solution. It is rounded to single precision, which changes
    // the solution by less than the tolerance because the diagonal dominates.
    let right: Vec<f32> = (0..n)
        .map(|i| {
            let term = |coefficient: f32, x: f32| f64::from(coefficient) * f64::from(x);
            let mut sum = term(diagonal[i], solution[i]);
            if i % SIZE > 0 {
                sum += term(lower[i], solution[i - 1]);
            }
            if i % SIZE < SIZE - 1 {
                sum += term(upper[i], solution[i + 1]);
            }
            sum as f32
        })
        .collect();
    let mut work = Work::on(n);
    let [lower, diagonal, upper, right] =
        [lower, diagonal, upper, right].map(|values| work.input(&values));
    let x = work.output::<f32>(n);
    let arguments = args![lower, diagonal, upper, right, x];
    work.launch("cyclic_reduction", systems, SIZE, arguments);
    work.numbers([systems]);
    work.operations = Some(9.0 * n as f64);
    work.expect(x, Values::Close(solution, 1e-5));
    work
}
