//! A matrix transposed through tiles in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "transpose, tiled",
    size: "2048 x 2048 f32",
    group: Group::More,
    sources: sources!("tests/cuda/ptx/transpose.ptx", "transpose"),
    make,
};

const TILE: usize = 32;

fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(2048, 75), scale.pick(2048, 101));
    let from: Vec<f32> = (0..width * height).map(|i| i as f32).collect();
    let column = |x: usize| (0..height).map(move |y| (y * width + x) as f32);
    let want: Vec<f32> = (0..width).flat_map(column).collect();
    let mut work = Work::on(width * height);
    let (from, to) = (work.input(&from), work.output::<f32>(width * height));
    let grid = (width.div_ceil(TILE), height.div_ceil(TILE));
    let arguments = args![from, to, width as i32, height as i32];
    work.launch("transpose_tiled", grid, (TILE, 8), arguments);
    work.numbers([width, height]);
    work.expect(to, Values::exact(&want));
    work
}
