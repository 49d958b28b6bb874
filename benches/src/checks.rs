//! Compares the times of checking runs and of profiled runs with those of normal runs. All kinds of
//! runs execute the same kernels with the same data on one worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use margay::checks::Tool;
use margay::{Runtime, RuntimeBuilder};
use margay_profile::{Options, Profiler};
use serde::Serialize;

use crate::case::{Case, Scale, Set};
use crate::comparison::{Prepared, chosen};
use crate::measure::{self, Time};

/// What observes kernels in a run.
#[derive(Clone, Copy)]
enum Observers {
    /// Checking tools.
    Checks(&'static [Tool]),
    /// The profiler.
    Profiler(Options),
}

/// What the profiler counts in the fastest of its measured runs.
const INSTRUCTIONS: Options = Options {
    instructions: true,
    accesses: false,
    reuse: false,
};

/// The sets of tools with which kernels are measured, each set with its name.
const SETS: [(&str, Observers); 8] = [
    ("memcheck", Observers::Checks(&[Tool::Memory])),
    ("initcheck", Observers::Checks(&[Tool::Initialisation])),
    ("racecheck", Observers::Checks(&[Tool::Race])),
    ("synccheck", Observers::Checks(&[Tool::Synchronisation])),
    ("all", Observers::Checks(&Tool::ALL)),
    ("instructions", Observers::Profiler(INSTRUCTIONS)),
    (
        "profile",
        Observers::Profiler(Options {
            accesses: true,
            ..INSTRUCTIONS
        }),
    ),
    (
        "reuse",
        Observers::Profiler(Options {
            accesses: true,
            reuse: true,
            ..INSTRUCTIONS
        }),
    ),
];

/// Number of measured runs of a kernel with each set of tools.
const RUNS: usize = 3;

/// The times of a kernel in normal runs and in checking runs.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Checked {
    pub(crate) name: &'static str,
    /// Time of a run without checks, in seconds.
    pub(crate) normal: Time,
    /// For each set of tools, by its name: seconds of a run with these tools, as the median of [`RUNS`] runs.
    pub(crate) checked: BTreeMap<&'static str, f64>,
}

impl Checked {
    /// Returns the time of a run with the set of tools called `set`, divided by the time of a
    /// normal run.
    pub(crate) fn ratio(&self, set: &str) -> Option<f64> {
        Some(self.checked.get(set)? / self.normal.median)
    }
}

/// Returns the names of the sets of tools.
pub(crate) fn sets() -> impl Iterator<Item = &'static str> {
    SETS.iter().map(|&(name, _)| name)
}

fn runtime(observers: Observers) -> Result<Runtime, String> {
    let builder = Runtime::builder().workers(1);
    let builder = match observers {
        Observers::Checks(tools) => tools
            .iter()
            .fold(builder, |b, &tool| RuntimeBuilder::check(b, tool)),
        Observers::Profiler(options) => {
            let tools = Arc::new(Profiler::new(options)).tools();
            tools.into_iter().fold(builder, RuntimeBuilder::tool)
        }
    };
    builder.build().map_err(|e| e.to_string())
}

/// Measures every kernel whose name contains one of `names`, or the first set if `names` is empty,
/// without tools and with each set of tools. Before a kind of run is timed, its results are
/// compared with the expected results.
///
/// # Errors
/// Returns an error if no kernel's name contains one of `names`, a runtime does not start or a kernel fails.
pub(crate) fn measure(scale: Scale, names: &[String]) -> Result<Vec<Checked>, String> {
    let normal = runtime(Observers::Checks(&[]))?;
    let checking: Result<Vec<_>, String> = SETS
        .iter()
        .map(|&(name, observers)| Ok((name, runtime(observers)?)))
        .collect();
    let checking = checking?;
    let one = |case: &Case| {
        margay::files::tell(format_args!("{}", case.name));
        let mut ready = Prepared::new(case, scale, &normal)?;
        let mut checked = BTreeMap::new();
        for (name, runtime) in &checking {
            let mut ready = Prepared::new(case, scale, runtime)?;
            checked.insert(*name, median(|| ready.run()));
        }
        Ok(Checked {
            name: case.name,
            normal: measure::alone(|| ready.run()),
            checked,
        })
    };
    let set = names.is_empty().then_some(Set::First);
    chosen(set, names)?.into_iter().map(one).collect()
}

fn median(mut action: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            action();
            started.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_runs_with_every_set_of_tools() {
        let rows = measure(Scale::Small, &["saxpy, in L2".to_owned()]).expect("runs");
        let [row] = rows.as_slice() else {
            panic!("one kernel has this name: {rows:?}");
        };
        for set in sets() {
            assert!(row.ratio(set).is_some_and(|ratio| ratio > 0.0), "{set}");
        }
        assert_eq!(row.ratio("no set"), None);
    }
}
