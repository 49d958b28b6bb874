//! Local alignments of sequences: a barrier for each antidiagonal, and integer maxima.

use crate::case::{Case, Group, Scale, sources};
use crate::data::Random;
use crate::work::{Values, Work, args};

pub(super) const CASE: Case = Case {
    name: "Smith-Waterman",
    size: "64 pairs of 128 and 1024 letters",
    group: Group::Second,
    sources: sources!("benches/cuda/smith_waterman.ptx", "smith_waterman"),
    make,
};

const QUERY: usize = 128;
const MATCH: i32 = 3;
const MISMATCH: i32 = -2;
/// Cost of the first letter of a gap.
const OPEN: i32 = 5;
/// Cost of each further letter of a gap.
const EXTEND: i32 = 1;

fn make(scale: Scale) -> Work {
    let (pairs, length) = (scale.pick(64, 3), scale.pick(1024, 200));
    let mut random = Random::new(36);
    let queries = random.fill(pairs * QUERY, |r| r.below(4) as u8);
    let mut targets = random.fill(pairs * length, |r| r.below(4) as u8);
    // A part of each query, with gaps, is in the target, so that good alignments exist.
    for (query, target) in queries.chunks(QUERY).zip(targets.chunks_mut(length)) {
        let letters = query.iter().enumerate().filter(|(i, _)| i % 17 > 2);
        for (to, (_, letter)) in target[50..].iter_mut().zip(letters) {
            *to = *letter;
        }
    }
    let both = queries.chunks(QUERY).zip(targets.chunks(length));
    let want: Vec<i32> = both.map(|(query, target)| score(query, target)).collect();
    let mut work = Work::on(pairs * QUERY * length);
    let (queries, targets) = (work.input(&queries), work.input(&targets));
    let scores = work.output::<i32>(pairs);
    let arguments = args![queries, targets, scores, length as i32];
    work.launch("smith_waterman", pairs, QUERY, arguments);
    work.numbers([pairs, length]);
    work.expect(scores, Values::exact(&want));
    work
}

/// Computes the best score of all local alignments with three matrices: `h` for all alignments, and `e` and `f` for
/// alignments that end with a gap in one of the sequences.
fn score(query: &[u8], target: &[u8]) -> i32 {
    let (rows, columns) = (query.len() + 1, target.len() + 1);
    let mut h = vec![0; rows * columns];
    let (mut e, mut f) = (h.clone(), h.clone());
    for y in 1..rows {
        for x in 1..columns {
            let (at, left, above) = (y * columns + x, y * columns + x - 1, (y - 1) * columns + x);
            e[at] = (e[left] - EXTEND).max(h[left] - OPEN);
            f[at] = (f[above] - EXTEND).max(h[above] - OPEN);
            let same = query[y - 1] == target[x - 1];
            let aligned = h[above - 1] + if same { MATCH } else { MISMATCH };
            h[at] = aligned.max(e[at]).max(f[at]).max(0);
        }
    }
    h.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_by_hand() {
        assert_eq!(score(&[0, 1, 2, 3], &[0, 1, 2, 3]), 4 * MATCH);
        // Eight matches and a gap of two letters, which costs 5 + 1.
        assert_eq!(
            score(&[0, 1, 2, 3, 0, 1, 2, 3], &[0, 1, 2, 3, 2, 2, 0, 1, 2, 3]),
            8 * MATCH - 6
        );
        assert_eq!(score(&[0, 0], &[1, 1]), 0);
    }
}
