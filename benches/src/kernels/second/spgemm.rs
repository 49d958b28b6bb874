//! The square of a sparse matrix: a warp for each row, with a hash table in shared memory.

use std::collections::BTreeMap;

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "product of sparse matrices",
    size: "16 Ki rows of 0 to 8 f32, squared",
    group: Group::Second,
    sources: sources!("benches/cuda/spgemm.ptx", "spgemm"),
    make,
};

/// Number of places in a row of the result.
const PLACES: usize = 64;
const WARPS: usize = 4;

/// Creates the data, the launch and the expected results of the kernel. The values are small integers, so sums have the
/// same bits in every order of addition.
fn make(scale: Scale) -> Work {
    let rows = scale.pick(1 << 14, 301);
    let mut random = Random::new(49);
    let (mut starts, mut columns, mut values) = (vec![0i32], vec![], vec![]);
    for row in 0..rows {
        // Columns near the diagonal, so that several products belong to the same entry of the result.
        for _ in 0..random.below(9) {
            let column = (row + random.below(200) as usize) % rows;
            columns.push(column as i32);
            values.push(random.below(19) as f32 - 9.0);
        }
        starts.push(columns.len() as i32);
    }
    let entries = |row: usize| starts[row] as usize..starts[row + 1] as usize;
    let (mut counts, mut want_columns, mut want_values) = (vec![], vec![], vec![]);
    let mut products = 0;
    for row in 0..rows {
        let mut sums = BTreeMap::new();
        for k in entries(row) {
            for j in entries(columns[k] as usize) {
                *sums.entry(columns[j]).or_insert(0.0f32) += values[k] * values[j];
                products += 1;
            }
        }
        counts.push(sums.len() as i32);
        let rest = PLACES - sums.len();
        want_columns.extend(sums.keys().copied().chain(std::iter::repeat_n(-1, rest)));
        want_values.extend(sums.into_values().chain(std::iter::repeat_n(0.0, rest)));
    }
    let mut work = Work::on(products);
    let (starts, columns) = (work.input(&starts), work.input(&columns));
    let (values, found) = (work.input(&values), work.output::<i32>(rows));
    let to_columns = work.output::<i32>(rows * PLACES);
    let to_values = work.output::<f32>(rows * PLACES);
    let arguments = args![
        starts,
        columns,
        values,
        found,
        to_columns,
        to_values,
        rows as i32
    ];
    work.launch("spgemm", rows.div_ceil(WARPS), 32 * WARPS, arguments);
    work.numbers([rows]);
    work.operations = Some(2.0 * products as f64);
    work.expect(found, Values::exact(&counts));
    work.expect(to_columns, Values::exact(&want_columns));
    work.expect(to_values, Values::exact(&want_values));
    work
}
