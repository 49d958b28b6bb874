//! A lattice Boltzmann method in two dimensions: nine densities for each point, which move to the neighbours and relax.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "lattice Boltzmann, D2Q9",
    size: "512 x 512 points, two steps",
    group: Group::Second,
    sources: sources!("benches/cuda/lbm.ptx", "lbm"),
    make,
};

const OMEGA: f32 = 1.2;
/// The directions in which the densities move, with the weights of the densities at rest.
const DIRECTIONS: [(isize, isize, f64); 9] = [
    (0, 0, 4.0 / 9.0),
    (1, 0, 1.0 / 9.0),
    (0, 1, 1.0 / 9.0),
    (-1, 0, 1.0 / 9.0),
    (0, -1, 1.0 / 9.0),
    (1, 1, 1.0 / 36.0),
    (-1, 1, 1.0 / 36.0),
    (-1, -1, 1.0 / 36.0),
    (1, -1, 1.0 / 36.0),
];
/// Number of floating-point operations for a point and a step, as the C version computes it.
const OPERATIONS: f64 = 90.0;

fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(512, 45), scale.pick(512, 37));
    let n = width * height;
    let mut random = Random::new(31);
    let densities: Vec<f32> = DIRECTIONS
        .iter()
        .flat_map(|(_, _, weight)| random.fill(n, |r| *weight as f32 * (0.9 + 0.2 * r.unit())))
        .collect();
    let start: Vec<f64> = densities.iter().map(|f| f64::from(*f)).collect();
    let want = step(&step(&start, width, height), width, height);
    let mut work = Work::on(2 * n);
    let start = work.input(&densities);
    let (first, second) = (work.output::<f32>(9 * n), work.output::<f32>(9 * n));
    let grid = (width.div_ceil(32), height.div_ceil(8));
    for (from, to) in [(start, first), (first, second)] {
        let arguments = args![from, to, width as i32, height as i32, OMEGA];
        work.launch("lbm_step", grid, (32, 8), arguments);
    }
    work.numbers([width, height]);
    work.operations = Some(2.0 * OPERATIONS * n as f64);
    let want = want.into_iter().map(|f| f as f32).collect();
    work.expect(second, Values::Close(want, 1e-5));
    work
}

/// Computes a time step in double precision.
fn step(from: &[f64], width: usize, height: usize) -> Vec<f64> {
    let n = width * height;
    let mut to = vec![0.0; from.len()];
    for i in 0..n {
        let (x, y) = ((i % width) as isize, (i / width) as isize);
        let moved: [f64; 9] = std::array::from_fn(|d| {
            let (dx, dy, _) = DIRECTIONS[d];
            let x = (x - dx).rem_euclid(width as isize) as usize;
            let y = (y - dy).rem_euclid(height as isize) as usize;
            from[d * n + y * width + x]
        });
        let sum = |term: fn((isize, isize)) -> isize| -> f64 {
            let terms = moved.iter().zip(DIRECTIONS);
            terms
                .map(|(f, (dx, dy, _))| f * term((dx, dy)) as f64)
                .sum()
        };
        let density = sum(|_| 1);
        let (ux, uy) = (sum(|(dx, _)| dx) / density, sum(|(_, dy)| dy) / density);
        for (d, (dx, dy, weight)) in DIRECTIONS.into_iter().enumerate() {
            let along = dx as f64 * ux + dy as f64 * uy;
            let square = ux * ux + uy * uy;
            let rest = weight * density * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * square);
            to[d * n + i] = moved[d] + f64::from(OMEGA) * (rest - moved[d]);
        }
    }
    to
}
