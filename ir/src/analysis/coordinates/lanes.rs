//! Finds the threads of a block for which a comparison of an affine value with a bound holds.
//!
//! The functions compute with the numbers of one CTA. A code generator emits the same computations:
//!
//! - In one row of the block, an affine value is `start + step * x`. An order comparison therefore holds for the `x`
//!   below or from a limit, which is one division (no division if the step is 1 or -1), and an equality holds for at
//!   most one `x`.
//! - A chunk of neighbouring threads consists of parts of rows. The lanes for which the comparison holds are, in each
//!   part, the intersection of the part with the range of `x`.
//! - The least and the greatest number of an affine value in a block are those of threads at block corners: for each
//!   coordinate, the first or the last thread.

use super::guard::Relation;
use super::sum::sign_extended;

/// The numbers of an affine value in one CTA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The number of the thread with the coordinates (0, 0, 0).
    pub base: i128,
    /// The differences between the numbers of neighbouring threads along x, y and z.
    pub steps: [i128; 3],
}

/// The threads of a row for which a comparison holds: those with `start <= x < end`, or all others if `inverted`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowLanes {
    /// The first x coordinate of the range.
    pub start: u32,
    /// The x coordinate after the range.
    pub end: u32,
    /// Whether the comparison holds outside of the range instead of inside.
    pub inverted: bool,
}

/// The numbers of a [`Guard`](super::Guard) in one CTA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuardLine {
    /// The affine value.
    pub line: Line,
    /// The bound.
    pub bound: i128,
    /// The comparison between the value and the bound.
    pub relation: Relation,
    /// Number of bits of the compared integers.
    pub bits: u32,
}

impl Line {
    /// Returns the number of the thread with these coordinates.
    pub fn at(&self, thread: [u32; 3]) -> i128 {
        let moves = self.steps.iter().zip(thread);
        self.base + moves.map(|(step, at)| step * i128::from(at)).sum::<i128>()
    }

    /// Returns the least and the greatest number of the threads of a block with this shape.
    pub fn extent(&self, shape: [u32; 3]) -> (i128, i128) {
        let (mut low, mut high) = (self.base, self.base);
        for (step, length) in self.steps.iter().zip(shape) {
            let way = step * i128::from(length.saturating_sub(1));
            low += way.min(0);
            high += way.max(0);
        }
        (low, high)
    }

    /// Returns whether all numbers of a block are in the range of an integer type.
    pub fn fits(&self, shape: [u32; 3], bits: u32, signed: bool) -> bool {
        let (low, high) = self.extent(shape);
        let (least, greatest) = range_of(bits, signed);
        least <= low && high <= greatest
    }
}

/// Returns the least and the greatest integer of a type with 1 to 64 bits.
pub(super) fn range_of(bits: u32, signed: bool) -> (i128, i128) {
    match signed {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

impl RowLanes {
    const ALL: RowLanes = RowLanes {
        start: 0,
        end: u32::MAX,
        inverted: false,
    };
    const NONE: RowLanes = RowLanes {
        start: 0,
        end: 0,
        inverted: false,
    };

    /// Returns whether the comparison holds for the thread of the row with this x coordinate.
    pub fn contains(self, x: u32) -> bool {
        (self.start..self.end).contains(&x) != self.inverted
    }

    /// Returns a mask of the threads `first..first + count` of the row; bit 0 is the first thread. `count` must be at
    /// most 64.
    fn mask(self, first: u32, count: u32) -> u64 {
        let start = self.start.clamp(first, first + count) - first;
        let end = self.end.clamp(first, first + count) - first;
        let inside = low_bits(end) & !low_bits(start);
        match self.inverted {
            true => low_bits(count) & !inside,
            false => inside,
        }
    }
}

fn low_bits(count: u32) -> u64 {
    1u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}

impl GuardLine {
    /// Returns the threads of the row with the coordinates `y` and `z` for which the comparison holds. `length` is the
    /// number of threads of the row; the result says nothing about further threads.
    ///
    /// For an order comparison, the affine value must not wrap in the block. An equality compares the low `bits` bits.
    pub fn row(&self, y: u32, z: u32, length: u32) -> RowLanes {
        let start = self.line.at([0, y, z]);
        let step = self.line.steps[0];
        match self.relation {
            Relation::Equal | Relation::NotEqual => self.equal_in_row(start, length),
            relation if step == 0 => match relation.holds(start, self.bound) {
                true => RowLanes::ALL,
                false => RowLanes::NONE,
            },
            // If the step is negative, both sides of the comparison are negated.
            relation if step < 0 => limit(relation.swapped(), start - self.bound, -step, length),
            relation => limit(relation, self.bound - start, step, length),
        }
    }

    fn equal_in_row(&self, start: i128, length: u32) -> RowLanes {
        let step = self.line.steps[0];
        let distance = i128::from(sign_extended((self.bound - start) as u64, self.bits));
        let inverted = self.relation == Relation::NotEqual;
        let lanes = |start, end| RowLanes {
            start,
            end,
            inverted,
        };
        if step == 0 {
            return match distance == 0 {
                true => lanes(0, u32::MAX),
                false => lanes(0, 0),
            };
        }
        // The greatest distance in a row, `step * (length - 1)`, is less than half of the numbers of the type, so at
        // most one lane is at this distance.
        debug_assert!(step.abs() * i128::from(length.saturating_sub(1)) < 1 << (self.bits - 1));
        let x = distance / step;
        match distance % step == 0 && (0..i128::from(length)).contains(&x) {
            true => lanes(x as u32, x as u32 + 1),
            false => lanes(0, 0),
        }
    }

    /// Returns whether the analysis by rows is exact for a block with this shape.
    pub fn is_exact(&self, shape: [u32; 3]) -> bool {
        match self.relation {
            Relation::Equal | Relation::NotEqual => {
                let reach = self.line.steps[0].abs() * i128::from(shape[0].saturating_sub(1));
                reach < 1 << (self.bits - 1)
            }
            _ => true,
        }
    }

    /// Returns a mask of the lanes of a chunk for which the comparison holds. Lane `i` is the thread with the number
    /// `first + i`; x counts fastest in the numbers. Lanes after the last thread of the block are not in the mask.
    /// `width` must be at most 64. See [`GuardLine::row`] for the precondition.
    pub fn chunk(&self, shape: [u32; 3], first: u32, width: u32) -> u64 {
        let [columns, rows, _] = shape;
        let threads = shape.iter().product::<u32>();
        let end = (first + width).min(threads);
        let mut mask = 0;
        let mut at = first;
        while at < end {
            let (x, row) = (at % columns, at / columns);
            let count = (columns - x).min(end - at);
            let lanes = self.row(row % rows, row / rows, columns);
            mask |= lanes.mask(x, count) << (at - first);
            at += count;
        }
        mask
    }

    /// Returns the result of the comparison if it is the same for all threads of a block with this shape and the
    /// extremes at block corners prove this; otherwise `None`. The affine value must not wrap in the block.
    pub fn decided(&self, shape: [u32; 3]) -> Option<bool> {
        let (low, high) = self.line.extent(shape);
        let ends = [low, high].map(|end| self.relation.holds(end, self.bound));
        match self.relation {
            Relation::Equal | Relation::NotEqual => {
                let outside = self.bound < low || self.bound > high;
                (outside || low == high).then_some(ends[0])
            }
            _ => (ends[0] == ends[1]).then_some(ends[0]),
        }
    }
}

/// Returns the threads of a row with `step * x REL distance`, for a positive step.
fn limit(relation: Relation, distance: i128, step: i128, length: u32) -> RowLanes {
    let clamp = |x: i128| x.clamp(0, i128::from(length)) as u32;
    // The first `x` with `step * x >= distance`, and the first `x` with `step * x > distance`.
    let reached = clamp(-((-distance).div_euclid(step)));
    let passed = clamp(distance.div_euclid(step) + 1);
    let (start, end) = match relation {
        Relation::Less => (0, reached),
        Relation::LessOrEqual => (0, passed),
        Relation::Greater => (passed, length),
        _ => (reached, length),
    };
    RowLanes {
        start,
        end,
        inverted: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELATIONS: [Relation; 6] = [
        Relation::Equal,
        Relation::NotEqual,
        Relation::Less,
        Relation::LessOrEqual,
        Relation::Greater,
        Relation::GreaterOrEqual,
    ];

    /// Calls `each` for many lines and bounds of 16-bit integers that do not wrap in the block.
    fn each_guard(shape: [u32; 3], mut each: impl FnMut(GuardLine)) {
        for steps in [
            [1, 5, 17],
            [0, 1, 0],
            [-1, 4, 9],
            [3, -7, 2],
            [-4, 0, -1],
            [0, 0, 0],
        ] {
            for base in [-40, 13] {
                for bound in -45..45 {
                    for relation in RELATIONS {
                        each(GuardLine {
                            line: Line { base, steps },
                            bound,
                            relation,
                            bits: 16,
                        });
                    }
                }
            }
        }
        assert!(shape.iter().product::<u32>() <= 64);
    }

    #[test]
    fn chunks_contain_the_threads_that_pass() {
        for shape in [[7, 3, 2], [16, 1, 1], [1, 5, 3], [5, 4, 1]] {
            let [columns, rows, planes] = shape;
            each_guard(shape, |guard| {
                let passes = |number: u32| {
                    let row = number / columns;
                    let thread = [number % columns, row % rows, row / rows];
                    guard.relation.holds(guard.line.at(thread), guard.bound)
                };
                let threads = columns * rows * planes;
                for width in [16, 64] {
                    for first in (0..threads).step_by(width as usize) {
                        let lanes = (0..width).filter(|lane| first + lane < threads);
                        let expected = lanes.filter(|lane| passes(first + lane));
                        let expected = expected.fold(0, |mask, lane| mask | 1u64 << lane);
                        let found = guard.chunk(shape, first, width);
                        assert_eq!(found, expected, "{guard:?} in {shape:?} from {first}");
                    }
                }
                let all = (0..threads).all(passes);
                let none = !(0..threads).any(passes);
                if let Some(decided) = guard.decided(shape) {
                    assert!(if decided { all } else { none }, "{guard:?} in {shape:?}");
                } else if !matches!(guard.relation, Relation::Equal | Relation::NotEqual) {
                    assert!(!all && !none, "{guard:?} in {shape:?}");
                }
            });
        }
    }

    #[test]
    fn equality_wraps() {
        // 65,534 + x equals 1 modulo 2^16 in the fourth thread.
        let guard = GuardLine {
            line: Line {
                base: 65_534,
                steps: [1, 0, 0],
            },
            bound: 1,
            relation: Relation::Equal,
            bits: 16,
        };
        assert_eq!(guard.chunk([16, 1, 1], 0, 16), 1 << 3);
    }

    #[test]
    fn extremes_are_at_corners() {
        let line = Line {
            base: 10,
            steps: [2, -3, 0],
        };
        assert_eq!(line.extent([5, 4, 9]), (1, 18));
        assert!(line.fits([5, 4, 9], 8, false) && !line.fits([5, 5, 1], 8, false));
        assert!(line.fits([59, 1, 1], 8, true) && !line.fits([60, 1, 1], 8, true));
    }
}
