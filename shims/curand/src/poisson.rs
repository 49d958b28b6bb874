//! Poisson distributions.
//!
//! Up to a mean of 2000 there are tables. A square histogram (G. Marsaglia, W. W. Tsang and J. Wang, "Fast generation of
//! discrete random variables", 2004) divides the interval from 0 to 1 into columns, each of which stands for at most two
//! results. A cumulative table contains the distribution function. Above, results are rounded normal numbers.

use std::sync::Arc;

use crate::convert;

/// The smallest mean for which results are rounded normal numbers.
const LARGE: f64 = 2000.0;
/// The largest mean.
pub(crate) const MAX: f64 = 400_000.0;

/// How a uniform number becomes a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// With a square histogram.
    Histogram,
    /// With the inverse of the distribution function.
    Inverse,
    /// With a rounded normal number.
    Normal,
}

/// A distribution, and the method.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    mean: f64,
    deviation: f64,
    histogram: Option<Arc<Histogram>>,
    cumulative: Option<Arc<Cumulative>>,
}

/// A square histogram.
#[derive(Debug)]
pub(crate) struct Histogram {
    /// The smallest result.
    pub(crate) shift: u32,
    /// Where the second result of a column begins.
    pub(crate) limits: Vec<f64>,
    /// The second results, relative to the smallest one.
    pub(crate) others: Vec<u32>,
}

/// A distribution function.
#[derive(Debug)]
struct Cumulative {
    shift: u32,
    sums: Vec<f64>,
}

/// Returns the smallest result whose probability is a number of the type `f64` other than 0, and the probabilities from
/// there on.
fn probabilities(mean: f64) -> (u32, Vec<f64>) {
    /// The logarithm of half of the smallest positive number.
    const SMALLEST: f64 = -745.133_219_101_941_1;
    // Relative to the most frequent result.
    let mode = mean.floor();
    let walk = |step: f64| {
        let (mut log, mut k) = (0.0, mode);
        let mut logs = Vec::new();
        while log > SMALLEST - 10.0 && k >= 0.0 {
            logs.push(log);
            log += if step > 0.0 {
                (mean / (k + 1.0)).ln()
            } else {
                (k / mean).ln()
            };
            k += step;
        }
        logs
    };
    let (up, down) = (walk(1.0), walk(-1.0));
    let logs: Vec<f64> = down[1..].iter().rev().chain(&up).copied().collect();
    let first = mode - (down.len() - 1) as f64;
    let sum: f64 = logs.iter().map(|log| log.exp()).sum();
    let scaled = logs.iter().map(|log| log - sum.ln());
    let kept: Vec<(usize, f64)> = scaled
        .enumerate()
        .filter(|(_, log)| *log > SMALLEST)
        .collect();
    let shift = first as u32 + kept.first().map_or(0, |(index, _)| *index as u32);
    (shift, kept.into_iter().map(|(_, log)| log.exp()).collect())
}

impl Histogram {
    /// Returns the square histogram of a distribution.
    pub(crate) fn new(mean: f64) -> Histogram {
        let (shift, probabilities) = probabilities(mean);
        let count = probabilities.len();
        let columns = count as f64;
        // Heights in units of a column's height. Columns are filled in ascending order, from the last one that is too high,
        // again and again until none is too high.
        let mut heights: Vec<f64> = probabilities.iter().map(|p| p * columns).collect();
        let mut others: Vec<u32> = (0..count as u32).collect();
        let mut limits: Vec<f64> = vec![1.0; count];
        let mut open = vec![true; count];
        let mut high = count;
        loop {
            let mut changed = false;
            for index in 0..count {
                if !open[index] || heights[index] >= 1.0 {
                    continue;
                }
                while high > 0 && !(open[high - 1] && heights[high - 1] >= 1.0) {
                    high -= 1;
                }
                if high == 0 {
                    break;
                }
                let donor = high - 1;
                others[index] = donor as u32;
                limits[index] = heights[index];
                open[index] = false;
                heights[donor] -= 1.0 - heights[index];
                changed = true;
            }
            if !changed {
                break;
            }
        }
        let limits = limits.iter().enumerate();
        let limits = limits.map(|(index, limit)| (index as f64 + limit) / columns);
        Histogram {
            shift,
            limits: limits.collect(),
            others,
        }
    }

    /// Returns the result for a uniform number in (0, 1].
    pub(crate) fn find(&self, uniform: f64) -> u32 {
        let last = self.limits.len() - 1;
        let column = ((uniform * self.limits.len() as f64) as usize).min(last);
        self.shift
            + if uniform < self.limits[column] {
                column as u32
            } else {
                self.others[column]
            }
    }
}

impl Cumulative {
    fn new(mean: f64) -> Cumulative {
        let (shift, probabilities) = probabilities(mean);
        let mut sum = 0.0;
        let sums = probabilities.iter().map(|p| {
            sum += p;
            sum
        });
        Cumulative {
            shift,
            sums: sums.collect(),
        }
    }

    fn find(&self, uniform: f64) -> u32 {
        let index = self.sums.partition_point(|sum| *sum < uniform);
        self.shift + index.min(self.sums.len() - 1) as u32
    }
}

impl Poisson {
    /// Whether a mean is one that is accepted.
    pub(crate) fn accepts(mean: f64) -> bool {
        mean > 0.0 && mean <= MAX
    }

    /// Whether results are rounded normal numbers unless another method is requested.
    pub(crate) fn is_large(mean: f64) -> bool {
        mean >= LARGE
    }

    /// Returns a distribution.
    pub(crate) fn new(mean: f64, method: Method) -> Poisson {
        Poisson {
            mean,
            deviation: mean.sqrt(),
            histogram: (method == Method::Histogram).then(|| Arc::new(Histogram::new(mean))),
            cumulative: (method == Method::Inverse).then(|| Arc::new(Cumulative::new(mean))),
        }
    }

    /// Returns the square histogram, if there is one.
    pub(crate) fn table(&self) -> Option<&Histogram> {
        self.histogram.as_deref()
    }

    /// Returns the result for a normal number.
    pub(crate) fn round(&self, normal: f64) -> u32 {
        (self.deviation * normal + self.mean + 0.5) as u32
    }

    /// Returns the result for 32 random bits.
    pub(crate) fn of_bits(&self, bits: u32) -> u32 {
        match (&self.histogram, &self.cumulative) {
            (Some(histogram), _) => histogram.find(convert::uniform_double(bits)),
            (None, Some(cumulative)) => cumulative.find(convert::uniform_double(bits)),
            (None, None) => self.round(convert::inverse_double(bits)),
        }
    }

    /// Returns the result for 64 random bits.
    pub(crate) fn of_long_bits(&self, bits: u64) -> u32 {
        match (&self.histogram, &self.cumulative) {
            (Some(histogram), _) => histogram.find(convert::uniform_long(bits)),
            (None, Some(cumulative)) => cumulative.find(convert::uniform_long(bits)),
            (None, None) => self.round(convert::inverse_double((bits >> 32) as u32)),
        }
    }
}
