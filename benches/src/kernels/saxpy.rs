//! y = a x + y, a kernel that memory bandwidth limits.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "saxpy",
    size: "16 Mi f32, two vectors",
    group: Group::More,
    sources: sources!("tests/cuda/ptx/saxpy.ptx", "saxpy"),
    make,
};

const A: f32 = 0.75;

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 24, 10_000);
    let mut random = Random::new(1);
    let x = random.fill(n, |r| r.unit() - 0.5);
    let y = random.fill(n, |r| r.unit() * 100.0);
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| A.mul_add(*x, *y)).collect();
    let mut work = Work::on(n);
    let (x, y) = (work.input(&x), work.input(&y));
    work.launch("saxpy", n.div_ceil(256), 256, args![n as i32, A, x, y]);
    work.numbers([n]);
    work.expect(y, Values::exact(&want));
    work
}
