//! Sobel's edge detection in an image of bytes.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Sobel filter",
    size: "4096 x 2048 bytes",
    group: Group::Second,
    sources: sources!("benches/cuda/sobel.ptx", "sobel"),
    make,
};

fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(4096, 75), scale.pick(2048, 37));
    let mut random = Random::new(42);
    let image = random.fill(width * height, |r| (r.below(64) + r.below(64)) as u8);
    let want: Vec<u8> = (0..width * height)
        .map(|i| magnitude(&image, width, height, i % width, i / width))
        .collect();
    let mut work = Work::on(width * height);
    let (from, to) = (work.input(&image), work.output::<u8>(width * height));
    let grid = (width.div_ceil(32), height.div_ceil(8));
    let arguments = args![from, to, width as i32, height as i32];
    work.launch("sobel", grid, (32, 8), arguments);
    work.numbers([width, height]);
    work.expect(to, Values::exact(&want));
    work
}

/// Returns the largest integer that is not greater than the gradient's magnitude, but at most 255; 0 on the border.
fn magnitude(image: &[u8], width: usize, height: usize, x: usize, y: usize) -> u8 {
    if x == 0 || y == 0 || x == width - 1 || y == height - 1 {
        return 0;
    }
    let (mut gx, mut gy) = (0, 0);
    for dy in 0..3 {
        for dx in 0..3 {
            let value = u32::from(image[(y + dy - 1) * width + x + dx - 1]) as i32;
            let weight = |n: usize| [1, 2, 1][n];
            gx += value * weight(dy) * (dx as i32 - 1);
            gy += value * weight(dx) * (dy as i32 - 1);
        }
    }
    let square = (gx * gx + gy * gy) as u32;
    square.isqrt().min(255) as u8
}
