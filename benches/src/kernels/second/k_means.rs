//! A step of k-means: distances to all centres, and sums with atomic additions of floats in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "k-means",
    size: "512 Ki points in four dimensions, 16 centres",
    group: Group::Second,
    sources: sources!("benches/cuda/k_means.ptx", "k_means"),
    make,
};

const CENTRES: usize = 16;
const DIMENSIONS: usize = 4;
const BLOCKS: usize = 64;

/// Creates the data, the launches and the expected results of the kernels. The coordinates are small integers, so sums
/// have the same bits in every order of addition.
fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 19, 3001);
    let mut random = Random::new(35);
    let points = random.fill(DIMENSIONS * n, |r| r.below(128) as f32);
    let centres = random.fill(CENTRES, |r| {
        [0; DIMENSIONS].map(|_: i32| r.below(128) as f32)
    });
    let labels: Vec<i32> = (0..n)
        .map(|i| nearest(&centres, std::array::from_fn(|d| points[d * n + i])))
        .collect();
    let mut sums = [[0u32; DIMENSIONS + 1]; CENTRES];
    for (i, label) in labels.iter().enumerate() {
        let sum = &mut sums[*label as usize];
        (0..DIMENSIONS).for_each(|d| sum[d] += points[d * n + i] as u32);
        sum[DIMENSIONS] += 1;
    }
    let exact = |sum: &u32| *sum > 0 && *sum < 1 << 24;
    assert!(
        sums.as_flattened().iter().all(exact),
        "floats represent the sums exactly"
    );
    let moved = sums.map(|sum| [0, 1, 2, 3].map(|d| sum[d] as f32 / sum[DIMENSIONS] as f32));
    let mut work = Work::on(n);
    let (points, centres) = (work.input(&points), work.input(&centres));
    let found = work.output::<i32>(n);
    let sums = work.output::<f32>(BLOCKS * CENTRES * (DIMENSIONS + 1));
    let to = work.output::<[f32; DIMENSIONS]>(CENTRES);
    let arguments = args![points, centres, found, sums, n as i32];
    work.launch("k_means_assign", BLOCKS, 256, arguments);
    let arguments = args![sums, to, BLOCKS as i32];
    work.launch("k_means_move", 1, CENTRES * DIMENSIONS, arguments);
    work.numbers([n]);
    work.operations = Some((n * CENTRES * DIMENSIONS * 3) as f64);
    work.expect(found, Values::exact(&labels));
    work.expect(to, Values::exact(&moved));
    work
}

/// Returns the index of the first of the nearest centres.
fn nearest(centres: &[[f32; DIMENSIONS]], point: [f32; DIMENSIONS]) -> i32 {
    let mut best = (f32::INFINITY, 0);
    for (label, centre) in (0..).zip(centres) {
        let squares = centre.iter().zip(point).map(|(a, b)| (a - b) * (a - b));
        let distance = squares.sum();
        if distance < best.0 {
            best = (distance, label);
        }
    }
    best.1
}
