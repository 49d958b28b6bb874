//! Jacobi's method for Poisson's equation in three dimensions, with a reduction in each block.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Jacobi, three dimensions",
    size: "128 x 128 x 128 points, two sweeps",
    group: Group::Second,
    sources: sources!("benches/cuda/jacobi.ptx", "jacobi"),
    make,
};

fn make(scale: Scale) -> Work {
    let extents = [33, 21, 10].map(|small| scale.pick(128, small));
    let n = extents.iter().product::<usize>();
    let mut random = Random::new(39);
    let start = random.fill(n, |r| r.unit());
    let source = random.fill(n, |r| r.unit() - 0.5);
    let (first, _) = sweep(&start, &source, extents);
    let (second, change) = sweep(&first, &source, extents);
    let mut work = Work::on(2 * n);
    let (start, source) = (work.input(&start), work.input(&source));
    let [first_to, second_to] = [(); 2].map(|()| work.output::<f32>(n));
    let grid = (
        extents[0].div_ceil(32),
        extents[1].div_ceil(4),
        extents[2].div_ceil(2),
    );
    let blocks = grid.0 * grid.1 * grid.2;
    let (changes, largest) = (work.output::<f32>(blocks), work.output::<f32>(1));
    let [nx, ny, nz] = extents.map(|extent| extent as i32);
    for (from, to) in [(start, first_to), (first_to, second_to)] {
        let arguments = args![from, source, to, changes, nx, ny, nz];
        work.launch("jacobi_sweep", grid, (32, 4, 2), arguments);
    }
    let arguments = args![changes, largest, blocks as i32];
    work.launch("jacobi_change", 1, 256, arguments);
    work.numbers(extents);
    work.operations = Some(2.0 * 9.0 * n as f64);
    work.expect(second_to, Values::Close(second, 1e-5));
    work.expect(largest, Values::Close(vec![change], 1e-5));
    work
}

/// Returns the values after a sweep, and the largest change. The values on the border do not change.
fn sweep(u: &[f32], source: &[f32], [nx, ny, nz]: [usize; 3]) -> (Vec<f32>, f32) {
    let (mut to, mut most) = (u.to_vec(), 0.0f32);
    for z in 1..nz - 1 {
        for y in 1..ny - 1 {
            for x in 1..nx - 1 {
                let i = (z * ny + y) * nx + x;
                let distances = [1, nx, nx * ny];
                let around: f64 = distances
                    .iter()
                    .map(|d| f64::from(u[i - d]) + f64::from(u[i + d]))
                    .sum();
                to[i] = ((around - f64::from(source[i])) / 6.0) as f32;
                most = most.max((to[i] - u[i]).abs());
            }
        }
    }
    (to, most)
}
