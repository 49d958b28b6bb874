//! Loops for processors other than x86-64: only the memory bandwidth is measured.

use super::{GatherUnit, Peak};

pub(super) const SUMS: usize = 1;
pub(super) const PEAKS: &[Peak] = &[];

pub(super) fn streams() -> bool {
    false
}

pub(super) fn triad(_: &[f32], _: &[f32], _: &mut [f32]) {
    unreachable!("streams are not available")
}

pub(super) fn read(values: &[f32]) -> f32 {
    values.iter().sum()
}

pub(super) const GATHERS: &[GatherUnit] = &[];
