//! A sparse matrix in compressed rows (CSR) times a vector. The rows have different lengths, and the accesses to the
//! vector are irregular.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "sparse matrix times vector",
    size: "128 Ki rows of 0 to 31 f64, one in 64 of 256",
    group: Group::More,
    sources: sources!("tests/cuda/ptx/spmv.ptx", "spmv", c_uneven: true),
    make,
};

/// Creates the data, the launch and the expected results of the kernel. The values are small
/// integers, so sums have the same bits in every order of addition.
fn make(scale: Scale) -> Work {
    let rows = scale.pick(1 << 17, 500);
    let mut random = Random::new(14);
    let x = random.fill(rows, |r| f64::from(r.below(19)) - 9.0);
    let (mut starts, mut columns, mut values, mut want) = (vec![0i32], vec![], vec![], vec![]);
    for row in 0..rows {
        let filled = if row % 64 == 0 { 256 } else { random.below(32) };
        let mut sum = 0.0;
        for _ in 0..filled {
            let column = random.below(rows as u32);
            let value = f64::from(random.below(19)) - 9.0;
            sum += value * x[column as usize];
            columns.push(column as i32);
            values.push(value);
        }
        starts.push(columns.len() as i32);
        want.push(sum);
    }
    let mut work = Work::on(columns.len());
    let (starts, columns) = (work.input(&starts), work.input(&columns));
    let (values, x) = (work.input(&values), work.input(&x));
    let y = work.output::<f64>(rows);
    let arguments = args![rows as i32, starts, columns, values, x, y];
    work.launch("spmv_scalar", rows.div_ceil(128), 128, arguments);
    work.numbers([rows]);
    work.expect(y, Values::exact(&want));
    work
}
