//! Two reductions in which each thread reads one value: the sum of a block's values with a tree in shared memory, and
//! the sum of a warp's values with shuffles.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const BLOCKS: Case = Case {
    name: "block reduction",
    size: "128 Ki i32 in sums of 256, 16 times",
    group: Group::Goals,
    sources: sources!("benches/cuda/block_sums.ptx", "block_sums"),
    make: |scale| make(scale, "block_sums", THREADS),
};

pub(super) const WARPS: Case = Case {
    name: "warp-shuffle reduction",
    size: "128 Ki i32 in sums of 32, 16 times",
    group: Group::Goals,
    sources: sources!("benches/cuda/block_sums.ptx", "block_sums" / "warp_sums"),
    make: |scale| make(scale, "warp_sums", 32),
};

const THREADS: usize = 256;
/// Number of times that a run computes the same sums. Each row of the grid computes all sums once, as in
/// [`super::elementwise`].
const TIMES: usize = 16;

fn make(scale: Scale, kernel: &'static str, each: usize) -> Work {
    let n = scale.pick(1 << 17, 1100);
    let values = Random::new(12).fill(n, |r| r.next() as i32);
    let sum = |values: &[i32]| values.iter().fold(0i32, |sum, v| sum.wrapping_add(*v));
    let want: Vec<i32> = values.chunks(each).map(sum).collect();
    let mut work = Work::on(n * TIMES);
    let (values, sums) = (work.input(&values), work.output::<i32>(want.len()));
    work.launch(
        kernel,
        (n.div_ceil(THREADS), TIMES),
        THREADS,
        args![values, sums, n as i32],
    );
    work.numbers([n, TIMES]);
    work.repeats = TIMES;
    work.expect(sums, Values::exact(&want));
    work
}
