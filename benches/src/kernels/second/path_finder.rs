//! The cheapest paths through a grid, row by row: several rows for each launch, in shared memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "path finder",
    size: "129 rows of 64 Ki i32",
    group: Group::Second,
    sources: sources!("benches/cuda/path_finder.ptx", "path_finder"),
    make,
};

const THREADS: usize = 256;
/// Number of rows that a launch computes.
const STEPS: usize = 16;

fn make(scale: Scale) -> Work {
    let (rows, columns) = (scale.pick(129, 39), scale.pick(1 << 16, 1000));
    let wall = Random::new(44).fill(rows * columns, |r| r.below(10) as i32);
    let mut want = wall[..columns].to_vec();
    for row in wall.chunks(columns).skip(1) {
        want = next(&want, row);
    }
    let launches = (rows - 1).div_ceil(STEPS);
    let mut work = Work::on(rows * columns);
    let wall = work.input(&wall);
    let places = [work.output::<i32>(columns), work.output::<i32>(columns)];
    let mut from = wall;
    for launch in 0..launches {
        let (row, to) = (1 + launch * STEPS, places[launch % 2]);
        let steps = STEPS.min(rows - row);
        let blocks = columns.div_ceil(THREADS - 2 * steps);
        let arguments = args![wall, from, to, columns as i32, row as i32, steps as i32];
        work.launch("path_finder", blocks, THREADS, arguments);
        from = to;
    }
    work.numbers([rows, columns, from.0]);
    work.expect(from, Values::exact(&want));
    work
}

/// Returns the costs of the cheapest paths to the columns of `row`.
fn next(costs: &[i32], row: &[i32]) -> Vec<i32> {
    let least = |x: usize| {
        let near = &costs[x.saturating_sub(1)..(x + 2).min(costs.len())];
        near.iter().min().expect("a column has neighbours")
    };
    (0..).zip(row).map(|(x, cost)| cost + least(x)).collect()
}
