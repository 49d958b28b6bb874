//! Exclusive prefix sums. Each block scans 256 values with Blelloch's tree in shared memory. The totals of the blocks are
//! scanned in the same way, and so are the totals of that scan: 4 Mi values need three levels.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Buffer, Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "scan",
    size: "4 Mi u32",
    group: Group::More,
    sources: sources!("tests/cuda/ptx/scan.ptx", "scan"),
    make,
};

/// Number of values that a block scans. A block has half as many threads.
const BLOCK: usize = 256;

/// A level of the scan. The block totals of a level are the values of the next level.
struct Level {
    len: usize,
    values: Buffer,
    sums: Buffer,
    totals: Buffer,
}

fn make(scale: Scale) -> Work {
    let n = scale.pick(1 << 22, BLOCK * BLOCK + 1000);
    let values = Random::new(9).fill(n, |r| r.below(1000));
    let before = values.iter().scan(0u32, |sum, value| {
        let before = *sum;
        *sum = sum.wrapping_add(*value);
        Some(before)
    });
    let want: Vec<u32> = before.collect();
    let mut work = Work::on(n);
    let levels = levels(&mut work, &values);
    for level in &levels {
        let arguments = args![level.values, level.sums, level.totals, level.len as i32];
        work.launch(
            "scan_blelloch",
            level.len.div_ceil(BLOCK),
            BLOCK / 2,
            arguments,
        );
    }
    for pair in levels.windows(2).rev() {
        let (level, above) = (&pair[0], &pair[1]);
        let arguments = args![level.sums, above.sums, level.len as i32];
        work.launch(
            "add_totals",
            level.len.div_ceil(BLOCK),
            BLOCK / 2,
            arguments,
        );
    }
    work.numbers([n]);
    work.expect(levels[0].sums, Values::exact(&want));
    work
}

/// Creates the levels of the scan of `values`, and their buffers in `work`. The C source uses only
/// the first two of these buffers.
fn levels(work: &mut Work, values: &[u32]) -> Vec<Level> {
    let mut levels = Vec::new();
    let (mut len, mut from) = (values.len(), work.input(values));
    while len > 1 {
        let sums = work.output::<u32>(len);
        let blocks = len.div_ceil(BLOCK);
        let totals = work.output::<u32>(blocks);
        levels.push(Level {
            len,
            values: from,
            sums,
            totals,
        });
        (len, from) = (blocks, totals);
    }
    levels
}
