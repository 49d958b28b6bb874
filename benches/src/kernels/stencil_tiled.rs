//! Heat flow: a five-point stencil; the CUDA kernel uses a tile with a halo in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "5-point stencil, tiled",
    size: "2048 x 2048 f32",
    group: Group::More,
    sources: sources!("tests/cuda/ptx/stencil.ptx", "stencil_tiled"),
    make,
};

const EDGE: usize = 16;

/// Creates the data, the launches and the expected results of the kernel. The values are small
/// integers and the weights are powers of two, so sums have the same bits in every order of
/// addition.
fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(2048, 53), scale.pick(2048, 39));
    let from = Random::new(4).fill(width * height, |r| r.below(256) as f32);
    let want = step(&from, width, height);
    let mut work = Work::on(width * height);
    let (from, to) = (work.input(&from), work.output::<f32>(width * height));
    let grid = (width.div_ceil(EDGE), height.div_ceil(EDGE));
    let arguments = args![from, to, width as i32, height as i32];
    work.launch("stencil_2d", grid, (EDGE, EDGE), arguments);
    work.numbers([width, height]);
    work.expect(to, Values::exact(&want));
    work
}

/// Returns the values of the plane after one time step. If a neighbour is outside the plane, the
/// value at the nearest edge replaces it.
fn step(from: &[f32], width: usize, height: usize) -> Vec<f32> {
    let at = |x: usize, y: usize| from[y.min(height - 1) * width + x.min(width - 1)];
    let mut to = Vec::with_capacity(from.len());
    for y in 0..height {
        for x in 0..width {
            let beside = at(x.saturating_sub(1), y) + at(x + 1, y);
            let around = beside + at(x, y.saturating_sub(1)) + at(x, y + 1);
            to.push(0.5 * at(x, y) + 0.125 * around);
        }
    }
    to
}
