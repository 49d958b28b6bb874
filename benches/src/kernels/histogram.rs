//! A histogram of bytes. Each block counts with atomics on shared memory, and then adds its counts to the result with
//! atomics on global memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "histogram, shared atomics",
    size: "16 Mi bytes",
    group: Group::Goals,
    sources: sources!("tests/cuda/ptx/histogram.ptx", "histogram"),
    make,
};

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 24, 30_001);
    let bytes = Random::new(3).fill(n, |r| (r.below(256) & r.below(256)) as u8);
    let mut want = [0u32; 256];
    bytes.iter().for_each(|byte| want[usize::from(*byte)] += 1);
    let mut work = Work::on(n);
    let (bytes, bins) = (work.input(&bytes), work.output::<u32>(256));
    work.zero(bins);
    work.launch("histogram_shared", 256, 256, args![bytes, bins, n as i32]);
    work.numbers([n]);
    work.expect(bins, Values::exact(&want));
    work
}
