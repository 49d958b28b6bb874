//! Measures the times of actions, as medians of samples. The samples of different actions alternate.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Number of samples of each measured action.
pub const SAMPLES: usize = 5;
/// Intended duration of a sample. A sample consists of as many runs as fit into this duration, but of at least 1 and at
/// most 100,000 runs.
const SAMPLE_TIME: Duration = Duration::from_millis(40);

/// Number of samples for an action that needs a pause before each run. Each sample is one run.
const RESTED_SAMPLES: usize = 101;

/// Minimum duration of the warm-up before the first sample, for every contender. Margay needs the
/// warm-up because it compiles a kernel again after the kernel has run for some time.
const WARM_UP: Duration = Duration::from_millis(150);

/// The result of a measurement, in seconds for one run.
#[derive(Clone, Debug, Serialize)]
pub struct Time {
    /// The median of the samples.
    pub median: f64,
    /// The slowest sample divided by the fastest.
    pub spread: f64,
    /// All samples, from the fastest to the slowest.
    pub samples: Vec<f64>,
}

/// An action whose time is measured.
pub type Action<'a> = Box<dyn FnMut() + 'a>;

/// Measures several actions after a warm-up. Their samples alternate, so that other work on the machine affects all
/// actions.
pub fn in_turns(actions: &mut [Action<'_>]) -> Vec<Time> {
    let repeats: Vec<u32> = actions.iter_mut().map(|a| repeats(a)).collect();
    let mut samples = vec![Vec::with_capacity(SAMPLES); actions.len()];
    for _ in 0..SAMPLES {
        for ((action, &repeats), samples) in actions.iter_mut().zip(&repeats).zip(&mut samples) {
            samples.push(sample(repeats, action));
        }
    }
    samples.into_iter().map(summary).collect()
}

/// Measures one action.
pub fn alone(action: impl FnMut()) -> Time {
    let mut times = in_turns(&mut [Box::new(action)]);
    times.remove(0)
}

/// Measures how long `action` takes. `setup` computes the input of each run, and the time that `setup` takes is not
/// counted.
pub fn with_setup<T>(mut setup: impl FnMut() -> T, mut action: impl FnMut(T)) -> Time {
    let mut sample = || {
        let input = setup();
        let started = Instant::now();
        action(input);
        started.elapsed().as_secs_f64()
    };
    sample();
    summary((0..SAMPLES).map(|_| sample()).collect())
}

/// Measures an action. Pauses before each run, so that idle threads sleep when the run begins.
pub fn after(pause: Duration, mut action: impl FnMut()) -> Time {
    let mut sample = || {
        std::thread::sleep(pause);
        let started = Instant::now();
        action();
        started.elapsed().as_secs_f64()
    };
    summary((0..RESTED_SAMPLES).map(|_| sample()).collect())
}

/// Runs `action` for the warm-up time ([`WARM_UP`]), and returns the number of runs that a sample
/// ([`SAMPLE_TIME`]) consists of.
fn repeats(action: &mut Action<'_>) -> u32 {
    runs_in(SAMPLE_TIME, warm_up(action))
}

/// Runs `action` for the warm-up time ([`WARM_UP`]), and then returns the number of seconds that one run takes.
pub(crate) fn warm_up(mut action: impl FnMut()) -> f64 {
    let warm_up = Instant::now();
    while warm_up.elapsed() < WARM_UP {
        action();
    }
    sample(1, action)
}

/// Returns the number of seconds that a run takes, as the mean of `runs` runs.
pub(crate) fn sample(runs: u32, mut action: impl FnMut()) -> f64 {
    let started = Instant::now();
    for _ in 0..runs {
        action();
    }
    started.elapsed().as_secs_f64() / f64::from(runs)
}

/// Returns the number of runs of `once` seconds each that fit into `time`, but at least 1 and at most 100,000.
pub(crate) fn runs_in(time: Duration, once: f64) -> u32 {
    ((time.as_secs_f64() / once.max(1e-9)) as u32).clamp(1, 100_000)
}

fn summary(mut samples: Vec<f64>) -> Time {
    samples.sort_by(f64::total_cmp);
    Time {
        median: samples[samples.len() / 2],
        spread: samples[samples.len() - 1] / samples[0],
        samples,
    }
}

/// Returns the geometric mean of `ratios`.
pub fn mean(ratios: &[f64]) -> f64 {
    let sum: f64 = ratios.iter().map(|r| r.ln()).sum();
    (sum / ratios.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_in_the_middle() {
        let time = summary(vec![5.0, 1.0, 2.0, 4.0, 3.0]);
        assert_eq!((time.median, time.spread), (3.0, 5.0));
    }

    #[test]
    fn a_pause_is_not_counted() {
        let mut runs = 0;
        let time = after(Duration::from_micros(1), || runs += 1);
        assert_eq!(runs, RESTED_SAMPLES);
        assert!(time.median >= 0.0);
    }

    #[test]
    fn geometric_mean() {
        assert!((mean(&[0.5, 8.0]) - 2.0).abs() < 1e-12);
    }
}
