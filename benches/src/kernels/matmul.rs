//! A matrix product; the CUDA kernel uses tiles in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "matrix product, tiled",
    size: "512 x 512 x 512 f32",
    group: Group::Goals,
    sources: sources!("tests/cuda/ptx/matmul_tiled.ptx", "matmul"),
    make,
};

/// Creates the data, the launch and the expected results of the kernel. The values are small
/// integers, so sums have the same bits in every order of addition.
fn make(scale: Scale) -> Work {
    let [rows, inner, columns] = [50, 37, 61].map(|small| scale.pick(512, small));
    let mut random = Random::new(5);
    let mut values = |n| random.fill(n, |r| r.below(17) as f32 - 8.0);
    let (a, b) = (values(rows * inner), values(inner * columns));
    let want = product(&a, &b, inner, columns);
    let mut work = Work::on(rows * columns);
    let (a, b) = (work.input(&a), work.input(&b));
    let c = work.output::<f32>(rows * columns);
    let grid = (columns.div_ceil(16), rows.div_ceil(16));
    let arguments = args![a, b, c, rows as i32, inner as i32, columns as i32];
    work.launch("matmul_tiled", grid, (16, 16), arguments);
    work.numbers([rows, inner, columns]);
    work.operations = Some(2.0 * (rows * inner * columns) as f64);
    work.expect(c, Values::exact(&want));
    work
}

/// Returns the matrix product of `a`, whose rows have `inner` elements, and `b`, whose rows have
/// `columns` elements.
pub(super) fn product(a: &[f32], b: &[f32], inner: usize, columns: usize) -> Vec<f32> {
    let mut c = vec![0.0f32; a.len() / inner * columns];
    for (a, c) in a.chunks_exact(inner).zip(c.chunks_exact_mut(columns)) {
        for (a, b) in a.iter().zip(b.chunks_exact(columns)) {
            c.iter_mut().zip(b).for_each(|(c, b)| *c += a * b);
        }
    }
    c
}
