//! Global alignments: a launch for each diagonal of tiles, and a barrier for each antidiagonal of a tile.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Needleman-Wunsch",
    size: "2048 and 2048 letters",
    group: Group::Second,
    sources: sources!("benches/cuda/needleman_wunsch.ptx", "needleman_wunsch"),
    make,
};

const EDGE: usize = 16;
const LETTERS: usize = 16;
const PENALTY: i32 = 10;

fn make(scale: Scale) -> Work {
    let n = scale.pick(2048, 4 * EDGE);
    let mut random = Random::new(46);
    let a = random.fill(n, |r| r.below(LETTERS as u32) as u8);
    let b = random.fill(n, |r| r.below(LETTERS as u32) as u8);
    let letters = random.fill(LETTERS * LETTERS, |r| r.below(21) as i32 - 10);
    let want = scores(&a, &b, &letters);
    let mut work = Work::on(n * n);
    let (a, b) = (work.input(&a), work.input(&b));
    let letters = work.input(&letters);
    let result = work.output::<i32>((n + 1) * (n + 1));
    let arguments = args![result, n as i32, PENALTY];
    work.launch("alignment_begin", (n + 1).div_ceil(256), 256, arguments);
    let tiles = n / EDGE;
    for diagonal in 0..2 * tiles - 1 {
        let first = (diagonal + 1).saturating_sub(tiles);
        let count = diagonal.min(tiles - 1) + 1 - first;
        let (all, diagonal, first) = (n as i32, diagonal as i32, first as i32);
        let arguments = args![a, b, letters, result, all, PENALTY, diagonal, first];
        work.launch("alignment_tiles", count, EDGE, arguments);
    }
    work.numbers([n]);
    work.expect(result, Values::exact(&want));
    work
}

fn scores(a: &[u8], b: &[u8], letters: &[i32]) -> Vec<i32> {
    let width = b.len() + 1;
    let mut scores = vec![0; (a.len() + 1) * width];
    for i in 1..scores.len() {
        let (x, y) = (i % width, i / width);
        let gap = |from: usize| scores[from] - PENALTY;
        scores[i] = match (x, y) {
            (_, 0) => gap(i - 1),
            (0, _) => gap(i - width),
            _ => {
                let of_letters = letters[LETTERS * usize::from(a[y - 1]) + usize::from(b[x - 1])];
                let aligned = scores[i - width - 1] + of_letters;
                aligned.max(gap(i - 1)).max(gap(i - width))
            }
        };
    }
    scores
}
