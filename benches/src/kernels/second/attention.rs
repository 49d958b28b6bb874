//! Attention without a matrix of scores: tiles of keys and values in shared memory, and long arrays for each thread.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "attention",
    size: "4 heads, 512 rows of 64 f32",
    group: Group::Second,
    sources: sources!(
        "benches/cuda/attention.ptx",
        "attention",
        c_options: &["-fno-math-errno", "-fveclib=libmvec"],
    ),
    make,
};

const DEPTH: usize = 64;
const THREADS: usize = 64;

type Row = [f32; DEPTH];

fn make(scale: Scale) -> Work {
    let (heads, length) = (scale.pick(4, 2), scale.pick(512, 128));
    let mut random = Random::new(50);
    let mut rows = || {
        random.fill(heads * length, |r| {
            [(); DEPTH].map(|()| 4.0 * r.unit() - 2.0)
        })
    };
    let (queries, keys, values): (Vec<Row>, Vec<Row>, Vec<Row>) = (rows(), rows(), rows());
    let of_head = |(i, query): (usize, &Row)| {
        let head = i / length * length..(i / length + 1) * length;
        attend(query, &keys[head.clone()], &values[head])
    };
    let want = queries.iter().enumerate().flat_map(of_head).collect();
    let mut work = Work::on(heads * length * DEPTH);
    let [q, k, v] = [queries, keys, values].map(|rows| work.input(&rows));
    let out = work.output::<Row>(heads * length);
    let arguments = args![q, k, v, out, length as i32];
    work.launch("attention", (length / THREADS, heads), THREADS, arguments);
    work.numbers([heads, length]);
    work.operations = Some(4.0 * (heads * length * length * DEPTH) as f64);
    work.expect(out, Values::Close(want, 1e-4));
    work
}

/// Computes a row of the result in double precision.
fn attend(query: &Row, keys: &[Row], values: &[Row]) -> [f32; DEPTH] {
    let score = |key: &Row| -> f64 {
        let products = query
            .iter()
            .zip(key)
            .map(|(q, k)| f64::from(*q) * f64::from(*k));
        products.sum::<f64>() / 8.0
    };
    let weights: Vec<f64> = keys.iter().map(|key| score(key).exp()).collect();
    let (mut sums, total) = ([0.0; DEPTH], weights.iter().sum::<f64>());
    for (weight, row) in weights.iter().zip(values) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += weight * f64::from(*value);
        }
    }
    sums.map(|sum| (sum / total) as f32)
}
