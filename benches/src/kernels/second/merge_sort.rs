//! A merge sort: binary searches, first in shared memory and then in global memory.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "merge sort",
    size: "256 Ki u32",
    group: Group::Second,
    sources: sources!("benches/cuda/merge_sort.ptx", "merge_sort"),
    make,
};

/// Number of keys that a block sorts.
const BLOCK: usize = 512;

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 18, 5000);
    let keys = Random::new(34).fill(n, |r| r.next());
    let mut want = keys.clone();
    want.sort_unstable();
    let mut work = Work::on(n);
    let keys = work.input(&keys);
    let places = [work.output::<u32>(n), work.output::<u32>(n)];
    let arguments = args![keys, places[0], n as i32];
    work.launch("merge_sort_blocks", n.div_ceil(BLOCK), 256, arguments);
    let (mut run, mut passes) = (BLOCK, 0);
    while run < n {
        let (from, to) = (places[passes % 2], places[(passes + 1) % 2]);
        let arguments = args![from, to, run as i32, n as i32];
        work.launch("merge_sort_pass", n.div_ceil(256), 256, arguments);
        run *= 2;
        passes += 1;
    }
    let result = places[passes % 2];
    work.numbers([n, result.0]);
    work.expect(result, Values::exact(&want));
    work
}
