//! The temperature of a chip: two time steps for each launch, in tiles with a halo in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "hotspot",
    size: "1024 x 1024 f32, four steps",
    group: Group::Second,
    sources: sources!("benches/cuda/hotspot.ptx", "hotspot"),
    make,
};

const STEPS: usize = 4;
/// Number of rows and columns of a block's result.
const INNER: usize = 12;

fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(1024, 53), scale.pick(1024, 39));
    let n = width * height;
    let mut random = Random::new(45);
    let temperatures = random.fill(n, |r| 60.0 + 40.0 * r.unit());
    let power = random.fill(n, |r| r.unit());
    let start: Vec<f64> = temperatures.iter().map(|t| f64::from(*t)).collect();
    let end = (0..STEPS).fold(start, |from, _| step(&from, &power, width, height));
    let mut work = Work::on(STEPS * n);
    let (temperatures, power) = (work.input(&temperatures), work.input(&power));
    let (first, second) = (work.output::<f32>(n), work.output::<f32>(n));
    let grid = (width.div_ceil(INNER), height.div_ceil(INNER));
    for (from, to) in [(temperatures, first), (first, second)] {
        let arguments = args![from, power, to, width as i32, height as i32];
        work.launch("hotspot", grid, (16, 16), arguments);
    }
    work.numbers([width, height]);
    work.operations = Some(14.0 * (STEPS * n) as f64);
    let want = end.into_iter().map(|t| t as f32).collect();
    work.expect(second, Values::Close(want, 1e-5));
    work
}

/// Computes a time step in double precision.
fn step(from: &[f64], power: &[f32], width: usize, height: usize) -> Vec<f64> {
    let at = |x: usize, y: usize| from[y.min(height - 1) * width + x.min(width - 1)];
    let point = |i: usize| {
        let (x, y) = (i % width, i / width);
        let here = from[i];
        let beside = at(x.saturating_sub(1), y) + at(x + 1, y) - 2.0 * here;
        let above = at(x, y.saturating_sub(1)) + at(x, y + 1) - 2.0 * here;
        here + 0.5 * f64::from(power[i]) + 0.1 * beside + 0.125 * above + 0.01 * (80.0 - here)
    };
    (0..from.len()).map(point).collect()
}
