//! The sum of many values. Each thread reads several values. One kernel adds the sums of a block's
//! threads with a tree in shared memory, and the other kernel adds them with shuffles in warps.

use crate::case::{Case, Group, Scale, Sources, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const TREE: Case = Case {
    name: "sum, shared memory",
    size: "16 Mi i32",
    group: Group::More,
    sources: SOURCES,
    make: |scale| make(scale, "reduce_tree"),
};

pub(super) const SHUFFLE: Case = Case {
    name: "sum, shuffles",
    size: "16 Mi i32",
    group: Group::More,
    sources: SOURCES,
    make: |scale| make(scale, "reduce_shuffle"),
};

const SOURCES: Sources = sources!("tests/cuda/ptx/reduction.ptx", "reduction");
const BLOCKS: usize = 256;

fn make(scale: Scale, kernel: &'static str) -> Work {
    let n = scale.pick(1 << 24, 70_001);
    let values = Random::new(2).fill(n, |r| r.next() as i32);
    let want = values.iter().fold(0i32, |sum, v| sum.wrapping_add(*v));
    let mut work = Work::on(n);
    let values = work.input(&values);
    let partial = work.output::<i32>(BLOCKS);
    let sum = work.output::<i32>(1);
    work.launch(kernel, BLOCKS, 256, args![values, partial, n as i32]);
    work.launch(kernel, 1, 256, args![partial, sum, BLOCKS as i32]);
    work.numbers([n]);
    work.expect(sum, Values::exact(&[want]));
    work
}
