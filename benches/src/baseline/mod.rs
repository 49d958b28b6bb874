//! Compares two builds of Margay: this program, and a baseline.
//!
//! Each build runs in a process of its own, which loads a kernel, checks its results and then takes samples on request
//! ([`serve`]). This process requests samples of both builds in turns, so that only one of them works at a time and
//! other work on the machine affects both. A pair is a sample of each build, one directly after the other; the order
//! alternates from pair to pair. The result is the median of the ratios of the pairs.
//!
//! The physical pages that the system chooses for an array change times by several per cent for as long as a process
//! uses the array. Therefore new processes start several times ([`ROUNDS`]).

mod client;
mod server;

use std::time::Duration;

use serde::Serialize;

use self::client::Client;
pub use self::server::serve;
use crate::case::{Case, Scale, Set};
use crate::measure;

/// Number of times that both processes are started for a kernel. Pairs of the same processes are not independent of
/// each other, but rounds are. All of five independent medians are above the true median with a probability of 1/32, and
/// below it with the same probability. Therefore the true median is between the smallest and the largest of them with
/// a probability of 94 %.
const ROUNDS: usize = 5;
/// Number of pairs of samples that two processes take.
const PAIRS: usize = 3;
/// Intended duration of a sample.
const SAMPLE_TIME: Duration = Duration::from_millis(20);

/// The times of a kernel on two builds of Margay.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pairs {
    pub(crate) name: &'static str,
    pub(crate) data: &'static str,
    pub(crate) set: Set,
    /// Number of workers of both builds.
    pub(crate) threads: usize,
    /// The result, or the reason why the kernel was not measured.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The ratios of the times.
    Compared(Ratios),
    /// The reason why the kernel was not measured.
    Failed(String),
}

/// The ratios of the baseline's times to the times of this build. Above 1, this build is faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Ratios {
    /// Median of the seconds of a run of this build.
    pub(crate) ours: f64,
    /// Median of the seconds of a run of the baseline.
    pub(crate) baseline: f64,
    pub(crate) median: f64,
    /// The smallest and the largest of the medians of the rounds.
    pub(crate) interval: [f64; 2],
    /// All ratios, from the smallest to the largest.
    pub(crate) samples: Vec<f64>,
}

impl Ratios {
    /// Summarises rounds of pairs, which contain the seconds of this build and of the baseline. Each round must contain
    /// a pair.
    fn of(rounds: &[Vec<[f64; 2]>]) -> Ratios {
        let ratio = |[ours, baseline]: &[f64; 2]| baseline / ours;
        let pairs = || rounds.iter().flatten();
        let ratios = sorted(pairs().map(ratio));
        let of_rounds = sorted(
            rounds
                .iter()
                .map(|round| median(&sorted(round.iter().map(ratio)))),
        );
        Ratios {
            ours: median(&sorted(pairs().map(|pair| pair[0]))),
            baseline: median(&sorted(pairs().map(|pair| pair[1]))),
            median: median(&ratios),
            interval: [of_rounds[0], of_rounds[of_rounds.len() - 1]],
            samples: ratios,
        }
    }

    /// Returns whether the interval contains 1, so that the builds may be equally fast.
    pub(crate) fn may_be_equal(&self) -> bool {
        self.interval[0] <= 1.0 && 1.0 <= self.interval[1]
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

/// Compares this build with the baseline, for each number of workers.
///
/// # Errors
/// Returns an error if a process does not start or does not answer as [`serve`] does.
pub(crate) fn compare(
    baseline: &str,
    cases: &[&'static Case],
    scale: Scale,
    threads: impl Iterator<Item = usize>,
) -> Result<Vec<Pairs>, String> {
    let mut rows = Vec::new();
    for threads in threads {
        let ours = || Client::of_this_build(threads);
        let theirs = || Client::of_baseline(baseline, threads);
        // If a build cannot be measured at all, report one error instead of one for each kernel.
        ours()?;
        theirs()?;
        for case in cases {
            margay::files::tell(format_args!("{}, {threads} workers", case.name));
            let outcome = match rounds(case, scale, &ours, &theirs) {
                Ok(rounds) => Outcome::Compared(Ratios::of(&rounds)),
                Err(why) => Outcome::Failed(why),
            };
            rows.push(Pairs {
                name: case.name,
                data: match scale {
                    Scale::Full => case.size,
                    Scale::Small => "a little",
                },
                set: case.group.set(),
                threads,
                outcome,
            });
        }
    }
    Ok(rows)
}

/// Takes pairs of samples of a kernel: the seconds of a run of this build and of the baseline.
fn rounds(
    case: &Case,
    scale: Scale,
    ours: &impl Fn() -> Result<Client, String>,
    theirs: &impl Fn() -> Result<Client, String>,
) -> Result<Vec<Vec<[f64; 2]>>, String> {
    let round = |round: usize| -> Result<Vec<[f64; 2]>, String> {
        let mut pairs = Vec::new();
        let mut clients = [ours()?, theirs()?];
        let mut runs = [1; 2];
        for (client, runs) in clients.iter_mut().zip(&mut runs) {
            let once = client.load(case.name, scale)?;
            *runs = measure::runs_in(SAMPLE_TIME, once);
        }
        for pair in 0..PAIRS {
            let mut seconds = [0.0; 2];
            let first = (round + pair) % 2;
            for side in [first, 1 - first] {
                seconds[side] = clients[side].sample(runs[side])?;
            }
            pairs.push(seconds);
        }
        Ok(pairs)
    };
    (0..ROUNDS).map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_summarised() {
        let rounds: Vec<Vec<[f64; 2]>> = (0..5)
            .map(|round| (1..=3).map(|i| [2.0, f64::from(3 * round + i)]).collect())
            .collect();
        let ratios = Ratios::of(&rounds);
        assert_eq!(
            (ratios.ours, ratios.baseline, ratios.median),
            (2.0, 8.0, 4.0)
        );
        assert_eq!(ratios.interval, [1.0, 7.0]);
        assert_eq!(ratios.samples.len(), 15);
        assert!(ratios.may_be_equal());
        assert!(!Ratios::of(&rounds[1..]).may_be_equal());
    }

    #[test]
    fn other_work_that_slows_both_samples_of_a_pair_changes_no_ratio() {
        let rounds = [vec![[1.0, 2.0], [10.0, 20.0]], vec![[1.0, 2.0]]];
        assert_eq!(Ratios::of(&rounds).samples, [2.0; 3]);
    }
}
