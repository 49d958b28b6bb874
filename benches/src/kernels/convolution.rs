//! A convolution of an image with 5 x 5 weights; the CUDA kernel uses a tile in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "2D convolution, 5 x 5",
    size: "1024 x 1024 f32",
    group: Group::More,
    sources: sources!("benches/cuda/convolution.ptx", "convolution"),
    make,
};

const WIDTH: usize = 5;
const EDGE: usize = 16;

/// Creates the data, the launch and the expected results of the kernel. The values are small
/// integers, so sums have the same bits in every order of addition.
fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(1024, 45), scale.pick(1024, 37));
    let mut random = Random::new(16);
    let from = random.fill(width * height, |r| r.below(256) as f32);
    let weights = random.fill(WIDTH * WIDTH, |r| r.below(9) as f32 - 4.0);
    let at = |x: usize, y: usize| {
        // The parameters are the coordinates in the image plus 2, so that they are not negative.
        let (x, y) = (x.wrapping_sub(WIDTH / 2), y.wrapping_sub(WIDTH / 2));
        if x < width && y < height {
            from[y * width + x]
        } else {
            0.0
        }
    };
    let point = |i: usize| {
        let (x, y) = (i % width, i / width);
        let weighed = weights.iter().enumerate();
        weighed
            .map(|(w, weight)| weight * at(x + w % WIDTH, y + w / WIDTH))
            .sum::<f32>()
    };
    let want: Vec<f32> = (0..width * height).map(point).collect();
    let mut work = Work::on(width * height);
    let (from, weights) = (work.input(&from), work.input(&weights));
    let to = work.output::<f32>(width * height);
    let grid = (width.div_ceil(EDGE), height.div_ceil(EDGE));
    let arguments = args![from, weights, to, width as i32, height as i32];
    work.launch("convolve", grid, (EDGE, EDGE), arguments);
    work.numbers([width, height]);
    work.operations = Some(2.0 * (WIDTH * WIDTH * width * height) as f64);
    work.expect(to, Values::exact(&want));
    work
}
