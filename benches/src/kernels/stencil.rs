//! Heat flow: a five-point stencil that reads global memory and does not use shared memory. The data of the first case
//! fits into the second-level cache, and the data of the second case does not.

use crate::case::{Case, Group, Scale, Sources, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const IN_CACHE: Case = Case {
    name: "5-point stencil, in L2",
    size: "256 x 256 f32, 32 times",
    group: Group::Goals,
    sources: SOURCES,
    make: |scale| make(scale.pick(256, 45), scale.pick(256, 29), 32),
};

pub(super) const IN_MEMORY: Case = Case {
    name: "5-point stencil, in memory",
    size: "4096 x 2048 f32",
    group: Group::Goals,
    sources: SOURCES,
    make: |scale: Scale| make(scale.pick(4096, 67), scale.pick(2048, 50), 1),
};

const SOURCES: Sources = sources!("benches/cuda/stencil.ptx", "stencil");

/// Creates the data, the launches and the expected results of the kernel. The values are small
/// integers and the weights are powers of two, so sums have the same bits in every order of
/// addition.
fn make(width: usize, height: usize, times: usize) -> Work {
    let from = Random::new(13).fill(width * height, |r| r.below(256) as f32);
    let mut want = vec![0f32; width * height];
    for i in (1..height - 1).flat_map(|y| (1..width - 1).map(move |x| y * width + x)) {
        let around = from[i - 1] + from[i + 1] + from[i - width] + from[i + width];
        want[i] = 0.5 * from[i] + 0.125 * around;
    }
    let mut work = Work::on(width * height * times);
    let (from, to) = (work.input(&from), work.preset(&vec![0f32; width * height]));
    let grid = (width.div_ceil(32), height.div_ceil(8), times);
    let arguments = args![from, to, width as i32, height as i32];
    work.launch("stencil", grid, (32, 8), arguments);
    work.numbers([width, height, times]);
    work.repeats = times;
    work.expect(to, Values::exact(&want));
    work
}
