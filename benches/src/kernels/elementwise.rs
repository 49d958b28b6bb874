//! Element-wise operations on two vectors. The vectors fit into the second-level cache in some cases, and are larger
//! than this cache in the other cases.
//!
//! For data in the cache, a run computes the same operation [`TIMES`] times, once for each row of the grid, so that the
//! launch does not dominate the time.

use crate::case::{Case, Group, Scale, Sources, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const ADD_IN_CACHE: Case = Case {
    name: "vector addition, in L2",
    size: "32 Ki f32, three vectors, 64 times",
    group: Group::Goals,
    sources: ADD,
    make: |scale| add(scale.pick(1 << 15, 1000), TIMES),
};

pub(super) const ADD_IN_MEMORY: Case = Case {
    name: "vector addition, in memory",
    size: "8 Mi f32, three vectors",
    group: Group::Goals,
    sources: ADD,
    make: |scale| add(scale.pick(1 << 23, 10_000), 1),
};

pub(super) const SAXPY_IN_CACHE: Case = Case {
    name: "saxpy, in L2",
    size: "32 Ki f32, three vectors, 64 times",
    group: Group::Goals,
    sources: sources!("benches/cuda/saxpy_apart.ptx", "saxpy_apart"),
    make: saxpy,
};

const ADD: Sources = sources!("tests/cuda/ptx/vector_add.ptx", "vector_add");
pub(super) const TIMES: usize = 64;
const A: f32 = 0.75;

fn add(n: usize, times: usize) -> Work {
    let mut random = Random::new(10);
    let a = random.fill(n, |r| r.unit());
    let b = random.fill(n, |r| r.unit() * 8.0);
    let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let mut work = Work::on(n * times);
    let (a, b, c) = (work.input(&a), work.input(&b), work.output::<f32>(n));
    work.launch(
        "vector_add",
        (n.div_ceil(256), times),
        256,
        args![a, b, c, n as i32],
    );
    work.numbers([n, times]);
    work.repeats = times;
    work.expect(c, Values::exact(&want));
    work
}

fn saxpy(scale: Scale) -> Work {
    let n = scale.pick(1 << 15, 1000);
    let mut random = Random::new(11);
    let x = random.fill(n, |r| r.unit() - 0.5);
    let y = random.fill(n, |r| r.unit() * 100.0);
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| A.mul_add(*x, *y)).collect();
    let mut work = Work::on(n * TIMES);
    let (x, y, z) = (work.input(&x), work.input(&y), work.output::<f32>(n));
    let arguments = args![n as i32, A, x, y, z];
    work.launch("saxpy_apart", (n.div_ceil(256), TIMES), 256, arguments);
    work.numbers([n, TIMES]);
    work.repeats = TIMES;
    work.expect(z, Values::exact(&want));
    work
}
