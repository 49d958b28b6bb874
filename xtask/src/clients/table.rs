//! Reads and writes `docs/clients.csv` and `docs/clients.md`: the results of the last run of each client.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use super::here;
use super::junit::Results;
use super::manifest::Client;
use super::samples::{self, Sample};
use crate::{Outcome, exec};

const HEAD: &str = "client,version,what,tests,passed,skipped,apart,notes";
/// The value of the column `what` in the row of a test suite.
const SUITE: &str = "suite";

/// A row of the table: the results of a program or of a test suite of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) client: String,
    pub(super) version: String,
    /// The file name of a program, or `suite`.
    pub(super) what: String,
    pub(super) tests: usize,
    pub(super) passed: usize,
    pub(super) skipped: usize,
    /// Number of failed tests that cannot pass on a CPU or with these wheels. The percentage of
    /// passed tests counts these tests as failed. The project's goal for passed tests does not
    /// count these tests.
    pub(super) apart: usize,
    pub(super) notes: String,
}

impl Row {
    /// Returns the row for a run of a program.
    pub(super) fn of_program(client: &Client, version: &str, program: &str, passed: bool) -> Row {
        Row {
            client: client.name.clone(),
            version: version.to_owned(),
            what: program.rsplit('/').next().unwrap_or(program).to_owned(),
            tests: 1,
            passed: usize::from(passed),
            ..Row::default()
        }
    }

    /// Returns the row for a run of a test suite, without the client's version.
    pub(super) fn of_suite(
        client: &Client,
        results: &Results,
        apart: usize,
        reasons: Vec<String>,
    ) -> Row {
        Row {
            client: client.name.clone(),
            what: SUITE.to_owned(),
            tests: results.tests,
            passed: results.tests - results.skipped - results.failed.len(),
            skipped: results.skipped,
            apart,
            notes: reasons.join("; ").replace(',', ";"),
            ..Row::default()
        }
    }

    /// Adds to the row a note that the part `what` of the suite did not run.
    pub(super) fn leave_out(&mut self, what: &str) {
        let what = what.replace(',', ";");
        self.notes = match self.notes.is_empty() {
            true => what,
            false => format!("{}; {what}", self.notes),
        };
    }

    /// Returns the row of a suite as one line of text.
    pub(super) fn summary(&self) -> String {
        format!(
            "suite: {} of {} pass ({:.1} %), {} skipped, {} excluded",
            self.passed,
            self.ran(),
            self.share(),
            self.skipped,
            self.apart
        )
    }

    /// Returns the number of tests that ran.
    fn ran(&self) -> usize {
        self.tests.saturating_sub(self.skipped)
    }

    /// Returns the percentage of passed tests among the tests that ran.
    fn share(&self) -> f64 {
        100.0 * self.passed as f64 / self.ran().max(1) as f64
    }

    /// Returns the known failures of the row's suite, one line for each reason. In the column
    /// `notes`, the reasons are separated by semicolons, and each reason begins with the number of
    /// tests that fail for it.
    fn failures(&self) -> Vec<String> {
        let mut failures: Vec<String> = Vec::new();
        for part in self.notes.split("; ").filter(|part| !part.is_empty()) {
            match failures.last_mut() {
                Some(last) if !part.starts_with(|c: char| c.is_ascii_digit()) => {
                    last.push_str(", ");
                    last.push_str(part);
                }
                _ => failures.push(part.replacen(" apart:", " excluded:", 1)),
            }
        }
        failures
    }

    fn parse(line: &str) -> Option<Row> {
        let fields: Vec<&str> = line.splitn(8, ',').collect();
        let [client, version, what, tests, passed, skipped, apart, notes] = fields[..] else {
            return None;
        };
        Some(Row {
            client: client.to_owned(),
            version: version.to_owned(),
            what: what.to_owned(),
            tests: tests.parse().ok()?,
            passed: passed.parse().ok()?,
            skipped: skipped.parse().ok()?,
            apart: apart.parse().ok()?,
            notes: notes.to_owned(),
        })
    }

    fn line(&self) -> String {
        let numbers = [self.tests, self.passed, self.skipped, self.apart];
        let numbers = numbers.map(|number| number.to_string()).join(",");
        format!(
            "{},{},{},{numbers},{}",
            self.client, self.version, self.what, self.notes
        )
    }
}

/// All rows of the table. The key consists of the client and the column `what`.
#[derive(Default)]
pub(super) struct Table {
    rows: BTreeMap<(String, String), Row>,
}

fn path(extension: &str) -> PathBuf {
    exec::root().join("docs/clients").with_extension(extension)
}

impl Table {
    /// Reads the results of earlier runs.
    pub(super) fn load() -> Result<Table, String> {
        let text = std::fs::read_to_string(path("csv")).unwrap_or_default();
        let mut table = Table::default();
        for line in text.lines().skip(1) {
            table.set(Row::parse(line).ok_or_else(|| format!("docs/clients.csv: {line}"))?);
        }
        Ok(table)
    }

    /// Inserts a row or replaces an earlier row with the same key.
    pub(super) fn set(&mut self, row: Row) {
        self.rows
            .insert((row.client.clone(), row.what.clone()), row);
    }

    /// Writes `docs/clients.csv` and `docs/clients.md`, without rows of clients that the manifest
    /// no longer lists.
    pub(super) fn store(&mut self, clients: &[Client]) -> Outcome {
        self.rows
            .retain(|(name, _), _| clients.iter().any(|client| client.name == *name));
        let mut csv = format!("{HEAD}\n");
        for row in self.rows.values() {
            let _ = writeln!(csv, "{}", row.line());
        }
        let page = self.page(clients, &samples::load(&here())?);
        for (extension, text) in [("csv", csv), ("md", page)] {
            let path = path(extension);
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }

    fn page(&self, clients: &[Client], samples: &[Sample]) -> String {
        let mut page = PAGE.to_owned();
        for client in clients {
            for row in self.of(client).filter(|row| row.what != SUITE) {
                let passed = if row.passed == 1 {
                    "passes"
                } else {
                    "**fails**"
                };
                let about = format!("{} {}", client.about, row.version);
                let _ = writeln!(page, "| {about} | `{}` | {passed} |", row.what);
            }
        }
        page.push_str(SUITES);
        let mut known = String::new();
        for client in clients {
            let Some(suite) = &client.suite else { continue };
            for row in self.of(client).filter(|row| row.what == SUITE) {
                let about = format!("{} {}", client.about, row.version);
                let _ = writeln!(
                    page,
                    "| {about} | {} | {} | {} | {:.1} % | {} | {} % |",
                    row.tests,
                    row.ran(),
                    row.passed,
                    row.share(),
                    row.apart,
                    suite.goal,
                );
                let failures = row.failures();
                if !failures.is_empty() {
                    let _ = writeln!(known, "\n{about}:\n\n- {}", failures.join("\n- "));
                }
            }
        }
        page.push_str("\n## Known failures\n");
        page.push_str(&known);
        page.push_str(&samples::section(samples));
        page
    }

    fn of<'a>(&'a self, client: &'a Client) -> impl Iterator<Item = &'a Row> {
        self.rows.values().filter(|row| row.client == client.name)
    }
}

const PAGE: &str = "\
# Clients

`cargo xtask clients` writes this page. It installs each client from its wheels, unchanged, and starts it with `margay run`.
`tests/clients` holds the programs, the versions of all wheels and the known failures.

## Minimal programs

Each program compares its results with those of the client's own CPU path or of NumPy.

| client | program | result |
|---|---|---|
";

const SUITES: &str = "
## Their own test suites

A test that its suite skips does not count as run. The share is that of passed tests among all tests that ran. *Excluded*
tests ran and failed, but cannot pass here: they call libraries that contain machine code only, measure hardware, or
contradict the versions of the wheels. They count in the share; the goal is for the tests without them.

| client | tests | ran | passed | share | excluded | goal |
|---|--:|--:|--:|--:|--:|--:|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_being_written() {
        let line = "numba,0.30.4,suite,2011,1900,80,3,3 apart: need SASS; 1 needs two devices";
        let row = Row::parse(line).unwrap();
        assert_eq!(row.line(), line);
        assert_eq!(
            row.summary(),
            "suite: 1900 of 1931 pass (98.4 %), 80 skipped, 3 excluded"
        );
        assert_eq!(Row::parse("too,short"), None);
        let failures = ["3 excluded: need SASS", "1 needs two devices, or three"];
        let row = Row::parse(&format!("{line}; or three")).unwrap();
        assert_eq!(row.failures(), failures);
    }

    #[test]
    fn the_page_shows_the_table() {
        let clients = super::super::manifest::load(&here()).unwrap();
        let samples = samples::load(&here()).unwrap();
        let page = Table::load().unwrap().page(&clients, &samples);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path("md"), &page).unwrap();
        }
        let written = std::fs::read_to_string(path("md")).unwrap();
        assert!(page == written, "docs/clients.md is stale: BLESS=1");
    }

    #[test]
    fn what_did_not_run_is_said_in_the_notes() {
        let mut row = Row::default();
        row.leave_out("1 of 2 pieces ran; without b,c");
        assert_eq!(row.notes, "1 of 2 pieces ran; without b;c");
        let mut row = Row::parse("numba,0.30.4,suite,9,8,0,0,1 needs SASS").unwrap();
        row.leave_out("1 of 2 pieces ran");
        assert_eq!(row.notes, "1 needs SASS; 1 of 2 pieces ran");
    }
}
