//! Reads `tests/clients/samples.toml`: results of samples of large test suites, which were run by hand.
//!
//! The suites of applications (PyTorch, JAX, cuDF) take hours or need several gigabytes of wheels, so the command does not
//! run them. A sample consists of tests that a fixed seed selects.

use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Samples {
    sample: Vec<Sample>,
}

/// The results of one sample.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    client: String,
    suite: String,
    /// The day of the run.
    date: String,
    /// The tests that ran: those of the sample that the suite did not skip.
    ran: u32,
    passed: u32,
    /// The causes of the failures.
    #[serde(default)]
    failures: Vec<Failures>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failures {
    count: u32,
    cause: String,
    /// Whether the tests cannot pass here, and are excluded from the goal.
    #[serde(default)]
    excluded: bool,
}

impl Sample {
    fn check(&self) -> Result<(), String> {
        let failed: u32 = self.failures.iter().map(|failures| failures.count).sum();
        match self.passed + failed == self.ran {
            true => Ok(()),
            false => Err(format!(
                "{}, {}: {} passed and {failed} failures are not the {} tests that ran",
                self.client, self.suite, self.passed, self.ran
            )),
        }
    }
}

/// Reads the samples in the folder `folder`.
pub(super) fn load(folder: &Path) -> Result<Vec<Sample>, String> {
    let path = folder.join("samples.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text).map_err(|e| format!("{}: {e}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Sample>, String> {
    let samples: Samples = toml::from_str(text).map_err(|e| e.to_string())?;
    samples.sample.iter().try_for_each(Sample::check)?;
    Ok(samples.sample)
}

/// Returns the section of the page about the samples.
pub(super) fn section(samples: &[Sample]) -> String {
    let mut section = SECTION.to_owned();
    for sample in samples {
        let excluded = sample.failures.iter().filter(|failures| failures.excluded);
        let excluded: u32 = excluded.map(|failures| failures.count).sum();
        let share = 100.0 * f64::from(sample.passed) / f64::from(sample.ran.max(1));
        let _ = writeln!(
            section,
            "| {} | {} | {} | {} | {} | {share:.1} % | {excluded} |",
            sample.client, sample.suite, sample.date, sample.ran, sample.passed
        );
    }
    for sample in samples.iter().filter(|sample| !sample.failures.is_empty()) {
        let _ = writeln!(section, "\n{}, {}:\n", sample.client, sample.suite);
        for failures in &sample.failures {
            let excluded = if failures.excluded { "excluded: " } else { "" };
            let _ = writeln!(section, "- {} {excluded}{}", failures.count, failures.cause);
        }
    }
    section
}

const SECTION: &str = "
## Samples of the suites of applications

These suites are too large to run each time. Each row is one run by hand of the tests that a fixed seed selected, with a
limit of 60 seconds for a test if the row states no other; `tests/clients/samples.toml` holds the results.

| client | suite | date | ran | passed | share | excluded |
|---|---|---|--:|--:|--:|--:|
";

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[sample]]\nclient = 'a 1.0'\nsuite = 'b'\ndate = '2026-11-29'\nran = 8\npassed = 5\n\
        failures = [{ count = 1, cause = 'c' }, { count = 2, cause = 'd', excluded = true }]\n";

    #[test]
    fn the_section_shows_shares_and_causes() {
        let section = section(&parse(ONE).unwrap());
        assert!(section.contains("| a 1.0 | b | 2026-11-29 | 8 | 5 | 62.5 % | 2 |\n"));
        assert!(section.ends_with("\na 1.0, b:\n\n- 1 c\n- 2 excluded: d\n"));
    }

    #[test]
    fn sums_are_checked() {
        let wrong = ONE.replace("passed = 5", "passed = 6");
        let error = parse(&wrong).err().unwrap();
        assert_eq!(
            error,
            "a 1.0, b: 6 passed and 3 failures are not the 8 tests that ran"
        );
    }
}
