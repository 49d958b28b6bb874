//! A bilateral filter, whose weights depend on the values: an exponential for each neighbour.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "bilateral filter, 7 x 7",
    size: "512 x 256 f32",
    group: Group::Second,
    sources: sources!(
        "benches/cuda/bilateral.ptx",
        "bilateral",
        c_options: &["-fno-math-errno", "-fveclib=libmvec"],
    ),
    make,
};

const RADIUS: usize = 3;
const EDGE: usize = 2 * RADIUS + 1;
const STEEPNESS: f32 = 8.0;

fn make(scale: Scale) -> Work {
    let (width, height) = (scale.pick(512, 75), scale.pick(256, 37));
    let image = Random::new(43).fill(width * height, |r| r.unit());
    let weights: Vec<f32> = (0..EDGE * EDGE)
        .map(|i| {
            let [x, y] = [i % EDGE, i / EDGE].map(|n| n as f32 - RADIUS as f32);
            (-(x * x + y * y) / 8.0).exp()
        })
        .collect();
    let want: Vec<f32> = (0..width * height)
        .map(|i| filtered(&image, &weights, [width, height], [i % width, i / width]))
        .collect();
    let mut work = Work::on(width * height);
    let (from, to) = (work.input(&image), work.output::<f32>(width * height));
    let weights = work.input(&weights);
    let grid = (width.div_ceil(16), height.div_ceil(16));
    let arguments = args![from, to, weights, width as i32, height as i32, STEEPNESS];
    work.launch("bilateral", grid, (16, 16), arguments);
    work.numbers([width, height]);
    work.operations = Some(8.0 * (EDGE * EDGE * width * height) as f64);
    work.expect(to, Values::Close(want, 1e-5));
    work
}

fn filtered(image: &[f32], weights: &[f32], extents: [usize; 2], [x, y]: [usize; 2]) -> f32 {
    let [width, height] = extents;
    let here = f64::from(image[y * width + x]);
    let (mut sum, mut scale) = (0.0, 0.0);
    for (i, weight) in weights.iter().enumerate() {
        let nx = (x + i % EDGE).saturating_sub(RADIUS).min(width - 1);
        let ny = (y + i / EDGE).saturating_sub(RADIUS).min(height - 1);
        let value = f64::from(image[ny * width + nx]);
        let away = value - here;
        let weight = f64::from(*weight) * (-f64::from(STEEPNESS) * away * away).exp();
        sum += weight * value;
        scale += weight;
    }
    (sum / scale) as f32
}
