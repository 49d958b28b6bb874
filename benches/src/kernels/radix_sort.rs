//! A radix sort: eight passes of counting, prefix sums and scattering.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "radix sort",
    size: "1 Mi u32, 4 bits a pass",
    group: Group::More,
    sources: sources!("benches/cuda/radix_sort.ptx", "radix_sort"),
    make,
};

const DIGITS: usize = 16;
const THREADS: usize = 256;
/// Number of keys that a block sorts.
const BLOCK: usize = 8 * THREADS;

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 20, 5000);
    let keys = Random::new(20).fill(n, |r| r.next());
    let mut want = keys.clone();
    want.sort_unstable();
    let blocks = n.div_ceil(BLOCK);
    let mut work = Work::on(n);
    let keys = work.input(&keys);
    let places = [work.output::<u32>(n), work.output::<u32>(n)];
    let counts = work.output::<u32>(DIGITS * blocks);
    let mut from = keys;
    for pass in 0..8 {
        let (to, shift) = (places[pass % 2], 4 * pass as i32);
        work.launch(
            "radix_count",
            blocks,
            THREADS,
            args![from, counts, n as i32, shift],
        );
        let all = (DIGITS * blocks) as i32;
        work.launch("radix_sums", 1, THREADS, args![counts, all]);
        let arguments = args![from, to, counts, n as i32, shift];
        work.launch("radix_scatter", blocks, THREADS, arguments);
        from = to;
    }
    work.numbers([n]);
    work.expect(places[1], Values::exact(&want));
    work
}
