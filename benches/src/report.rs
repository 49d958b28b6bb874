//! Runs the benchmarks and collects their results in a report, which can be formatted as tables or JSON.

use serde::Serialize;

use crate::baseline::{self, Outcome, Pairs};
use crate::case::{Case, Scale, Set};
use crate::checks::{self, Checked};
use crate::comparison::{self, Entrant, Field, Kind, Row};
use crate::copies::{self, Copied};
use crate::fetches::{self, Fetched};
use crate::interpreter::{self, Interpreted};
use crate::launches::{self, Launched};
use crate::limits::{self, Limit, waking};
use crate::machine::Machine;
use crate::measure::{self, Time};
use crate::stages::{self, Rates};
use crate::start::{self, Started};

/// The options of a run of the benchmarks.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The kernels and tables to measure: parts of the names of kernels, and names of tables ([`Part`]). If the list is
    /// empty, everything is measured.
    pub names: Vec<String>,
    /// Path of another `libcuda.so.1` with which Margay is compared.
    pub driver: Option<String>,
    /// Whether to use little data, to test the benchmarks.
    pub check: bool,
    /// The set whose kernels are measured. If it is `None`, the kernels of all sets are measured.
    pub set: Option<Set>,
    /// Path of another build of Margay, a program or a `libcuda.so`. If it is given, kernels are measured only on both
    /// builds, and only tables that are named are measured in addition.
    pub baseline: Option<String>,
}

/// The tables other than the table of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Limits,
    Launches,
    Copies,
    Fetches,
    Interpreter,
    Checks,
    Starting,
    Loading,
}

impl Part {
    const ALL: [(&'static str, Part); 8] = [
        ("limits", Part::Limits),
        ("launches", Part::Launches),
        ("copies", Part::Copies),
        ("fetches", Part::Fetches),
        ("interpreter", Part::Interpreter),
        ("checks", Part::Checks),
        ("starting", Part::Starting),
        ("loading", Part::Loading),
    ];
}

/// The results of a run of the benchmarks. Times are in seconds, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub(crate) machine: Machine,
    /// The contenders that ran the kernels.
    pub(crate) entrants: Vec<Entrant>,
    /// For each contender that is not available, a message with the reason.
    pub(crate) missing: Vec<String>,
    pub(crate) kernels: Vec<Row>,
    pub(crate) means: Vec<Mean>,
    /// Path of the other build of Margay with which this build was compared.
    pub(crate) baseline: Option<String>,
    /// The comparison of two builds of Margay.
    pub(crate) pairs: Vec<Pairs>,
    pub(crate) limits: Vec<Limit>,
    /// The time that the system takes to wake a thread; `None` if it was not measured.
    pub(crate) waking: Option<Time>,
    pub(crate) launches: Vec<Launched>,
    pub(crate) copies: Vec<Copied>,
    pub(crate) fetches: Vec<Fetched>,
    pub(crate) interpreter: Vec<Interpreted>,
    pub(crate) checks: Vec<Checked>,
    pub(crate) starting: Vec<Started>,
    pub(crate) loading: Vec<Rates>,
}

/// The geometric mean, over kernels, of Margay's speedup over another contender with the same number of threads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Mean {
    pub(crate) set: Set,
    pub(crate) rival: Kind,
    pub(crate) threads: usize,
    /// Whether the mean covers only the kernels for which goals are set.
    pub(crate) goals_only: bool,
    /// Number of kernels that both contenders ran.
    pub(crate) kernels: usize,
    pub(crate) ratio: f64,
}

impl Report {
    /// Formats the report as one JSON document; `BENCHMARKING.md` describes its keys.
    ///
    /// # Panics
    /// Never panics: JSON can represent every value.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("numbers and texts")
    }

    /// Returns a message for each kernel and contender for which the result was wrong or the kernel could not run.
    pub fn failures(&self) -> Vec<String> {
        let told = |row: &Row| {
            let told = row.failures.iter();
            let told = told.map(|(id, why)| format!("{} ({id}): {why}", row.name));
            told.collect::<Vec<_>>()
        };
        let of_pairs = self.pairs.iter().filter_map(|pairs| match &pairs.outcome {
            Outcome::Failed(why) => {
                Some(format!("{} ({} workers): {why}", pairs.name, pairs.threads))
            }
            Outcome::Compared(_) => None,
        });
        self.kernels.iter().flat_map(told).chain(of_pairs).collect()
    }

    /// Returns the entrant that is Margay with `threads` workers.
    pub(crate) fn margay(&self, threads: usize) -> Option<&Entrant> {
        let mut entrants = self.entrants.iter();
        entrants.find(|e| e.kind == Kind::Margay && e.threads == threads)
    }
}

/// Runs the benchmarks and returns the report.
///
/// # Errors
/// Returns an error if a name is unknown or a runtime or driver does not start.
pub fn run(options: &Options) -> Result<Report, String> {
    let scale = if options.check {
        Scale::Small
    } else {
        Scale::Full
    };
    let (parts, kernels): (Vec<String>, Vec<String>) = options
        .names
        .iter()
        .cloned()
        .partition(|name| Part::ALL.iter().any(|(n, _)| n == name));
    let whole = options.names.is_empty() && options.set.is_none() && options.baseline.is_none();
    let wanted = |part: Part| {
        let named = |(name, p): &(&str, Part)| *p == part && parts.iter().any(|n| n == name);
        whole || Part::ALL.iter().any(named)
    };
    let mut report = Report {
        machine: Machine::here(),
        entrants: Vec::new(),
        missing: Vec::new(),
        kernels: Vec::new(),
        means: Vec::new(),
        baseline: options.baseline.clone(),
        pairs: Vec::new(),
        limits: Vec::new(),
        waking: None,
        launches: Vec::new(),
        copies: Vec::new(),
        fetches: Vec::new(),
        interpreter: Vec::new(),
        checks: Vec::new(),
        starting: Vec::new(),
        loading: Vec::new(),
    };
    let checks_only = parts.len() == 1 && wanted(Part::Checks);
    let compared = parts.is_empty() || !kernels.is_empty() && !checks_only;
    if compared {
        let cases = comparison::chosen(options.set, &kernels)?;
        match &options.baseline {
            Some(baseline) => {
                let threads = comparison::counts(comparison::workers()?);
                report.pairs = baseline::compare(baseline, &cases, scale, threads)?;
            }
            None => compare(&mut report, scale, &cases, options.driver.as_deref())?,
        }
    }
    if compared && !options.check || wanted(Part::Limits) {
        let threads = comparison::counts(comparison::workers()?);
        report.limits = limits::measure(options.check, threads)?;
    }
    if wanted(Part::Limits) || wanted(Part::Launches) {
        report.waking = Some(waking::measure());
    }
    if wanted(Part::Launches) {
        report.launches = launches::measure()?;
    }
    if wanted(Part::Copies) {
        report.copies = copies::measure(options.check)?;
    }
    if wanted(Part::Fetches) {
        report.fetches = fetches::measure(options.check)?;
    }
    if wanted(Part::Interpreter) {
        report.interpreter = interpreter::measure(scale)?;
    }
    if wanted(Part::Checks) {
        report.checks = checks::measure(scale, &kernels)?;
    }
    if wanted(Part::Starting) {
        report.starting = start::measure()?;
    }
    if wanted(Part::Loading) {
        report.loading = stages::measure()?;
    }
    Ok(report)
}

fn compare(
    report: &mut Report,
    scale: Scale,
    cases: &[&'static Case],
    driver: Option<&str>,
) -> Result<(), String> {
    let field = Field::find(driver)?;
    for case in cases {
        margay::files::tell(format_args!("{}", case.name));
        report.kernels.push(field.measure(case, scale));
    }
    report.entrants = field.entrants;
    report.missing = field.missing;
    report.means = means(report);
    Ok(())
}

fn means(report: &Report) -> Vec<Mean> {
    let mut means = Vec::new();
    for rival in report.entrants.iter().filter(|e| e.kind != Kind::Margay) {
        let Some(ours) = report.margay(rival.threads) else {
            continue;
        };
        let of_set = |set| [true, false].map(|goals_only| (set, goals_only));
        for (set, goals_only) in Set::ALL.into_iter().flat_map(of_set) {
            let rows = report.kernels.iter();
            let rows = rows.filter(|row| row.set == set && (row.goal || !goals_only));
            let ratios: Vec<f64> = rows.filter_map(|row| ratio(row, ours, rival)).collect();
            if !ratios.is_empty() {
                means.push(Mean {
                    set,
                    rival: rival.kind,
                    threads: rival.threads,
                    goals_only,
                    kernels: ratios.len(),
                    ratio: measure::mean(&ratios),
                });
            }
        }
    }
    means
}

/// Returns the time of `rival`, another contender, divided by the time of `ours`, which is Margay.
/// A value above 1 means that Margay is faster.
pub(crate) fn ratio(row: &Row, ours: &Entrant, rival: &Entrant) -> Option<f64> {
    Some(row.median(rival)? / row.median(ours)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_compares_and_says_it_in_json() {
        let options = Options {
            names: vec!["saxpy".to_owned()],
            check: true,
            ..Options::default()
        };
        let report = run(&options).expect("runs");
        assert_eq!(report.failures(), [""; 0]);
        let json: serde_json::Value = serde_json::from_str(&report.json()).expect("is JSON");
        let time = &json["kernels"][0]["times"]["margay-1"]["median"];
        assert!(time.as_f64().is_some_and(|t| t > 0.0), "{json}");
        assert!(report.markdown().contains("| saxpy"));
    }

    #[test]
    fn a_set_has_its_own_table_and_mean() {
        let options = Options {
            names: vec!["Sobel".to_owned(), "saxpy, in L2".to_owned()],
            check: true,
            ..Options::default()
        };
        let text = run(&options).expect("runs").markdown();
        let (first, second) = text.split_once("The second set:").expect("a table");
        assert!(first.contains("The first set:") && first.contains("saxpy, in L2"));
        assert!(second.contains("| Sobel filter") && second.contains("geometric mean, all"));
        let options = Options {
            set: Some(Set::First),
            ..options
        };
        let text = run(&options).expect("runs").markdown();
        assert!(
            text.contains("saxpy, in L2") && !text.contains("Sobel"),
            "{text}"
        );
    }

    #[test]
    fn unknown_names_are_told() {
        let options = Options {
            names: vec!["no such kernel".to_owned()],
            ..Options::default()
        };
        assert!(run(&options).is_err());
    }
}
