//! Products of complex 3 x 3 matrices, as in lattice QCD: neighbouring threads access addresses that are 72 bytes
//! apart.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "SU(3) matrix products",
    size: "128 Ki products of complex f32",
    group: Group::Second,
    sources: sources!("benches/cuda/su3.ptx", "su3"),
    make,
};

type Matrix = [[[f32; 2]; 3]; 3];

/// Creates the data, the launch and the expected results of the kernel. The values are small integers, so sums have the
/// same bits in every order of addition. Therefore the matrices are not elements of the group SU(3).
fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 17, 1000);
    let mut random = Random::new(37);
    let mut matrices = || -> Vec<Matrix> {
        let mut value = |_| random.below(17) as f32 - 8.0;
        (0..n)
            .map(|_| [(); 3].map(|()| [(); 3].map(|()| [(); 2].map(&mut value))))
            .collect()
    };
    let (a, b) = (matrices(), matrices());
    let want: Vec<Matrix> = a.iter().zip(&b).map(|(a, b)| product(a, b)).collect();
    let mut work = Work::on(n);
    let (a, b) = (work.input(&a), work.input(&b));
    let products = work.output::<Matrix>(n);
    let arguments = args![a, b, products, n as i32];
    work.launch("su3_multiply", n.div_ceil(128), 128, arguments);
    work.numbers([n]);
    work.operations = Some(198.0 * n as f64);
    work.expect(
        products,
        Values::exact(want.as_flattened().as_flattened().as_flattened()),
    );
    work
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    let entry = |row: usize, column: usize| {
        let terms = (0..3).map(|k| (a[row][k], b[k][column]));
        terms.fold([0.0; 2], |sum, ([re, im], [x, y])| {
            [sum[0] + re * x - im * y, sum[1] + re * y + im * x]
        })
    };
    std::array::from_fn(|row| std::array::from_fn(|column| entry(row, column)))
}
