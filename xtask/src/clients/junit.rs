//! Reads results of a test suite in JUnit's format, which pytest and other test runners write.

use std::path::Path;

use regex_lite::Regex;

/// The results of a test suite, or of a piece of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) tests: usize,
    pub(super) skipped: usize,
    /// The name (`class::name`) of each test that failed or could not run.
    pub(super) failed: Vec<String>,
}

impl Results {
    /// Returns the results for a piece of the suite that wrote no file of results: one failed test.
    pub(super) fn none(piece: &str) -> Results {
        Results {
            tests: 1,
            skipped: 0,
            failed: vec![format!("{piece}::no results")],
        }
    }

    /// Adds the results of another piece of the suite.
    pub(super) fn add(&mut self, other: Results) {
        self.tests += other.tests;
        self.skipped += other.skipped;
        self.failed.extend(other.failed);
    }
}

/// Reads the results from a file in JUnit's format.
pub(super) fn read(path: &Path) -> Result<Results, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text)
}

/// A regular expression that matches the XML element of a test, with the element's content if it
/// has any.
const CASE: &str = r#"(?s)<testcase\s([^>]*?)(/>|>(.*?)</testcase>)"#;

fn parse(text: &str) -> Result<Results, String> {
    let case = Regex::new(CASE).map_err(|e| e.to_string())?;
    let inside = Regex::new(r"^\s*(?:<system-(?:out|err)>.*?</system-(?:out|err)>\s*)*<(\w+)")
        .map_err(|e| e.to_string())?;
    let mut results = Results::default();
    for found in case.captures_iter(text) {
        let head = found.get(1).map_or("", |m| m.as_str());
        let body = found.get(3).map_or("", |m| m.as_str());
        match inside
            .captures(body)
            .and_then(|m| m.get(1))
            .map(|m| m.as_str())
        {
            Some("failure" | "error") => {
                let name = format!("{}::{}", value(head, "classname"), value(head, "name"));
                // Each failing part of a test (`subTest`) has an element of its own, but the test counts only once.
                if results.failed.contains(&name) {
                    continue;
                }
                results.failed.push(name);
            }
            Some("skipped") => results.skipped += 1,
            _ => {}
        }
        results.tests += 1;
    }
    match results.tests {
        0 => Err("no results of tests".to_owned()),
        _ => Ok(results),
    }
}

/// Returns the value of the attribute `name` in the XML tag `head`.
fn value(head: &str, name: &str) -> String {
    let mut rest = head;
    while let Some(at) = rest.find(name) {
        let before = &rest[..at];
        let after = &rest[at + name.len()..];
        let starts = before.is_empty() || before.ends_with(char::is_whitespace);
        if let Some(quoted) = after.strip_prefix("=\"").filter(|_| starts) {
            return quoted.split('"').next().unwrap_or_default().to_owned();
        }
        rest = after;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_counted_by_what_is_in_them() {
        let text = r#"<?xml version="1.0"?><testsuites><testsuite tests="5">
<testcase classname="a.B" name="passes" time="0.1" />
<testcase classname="a.B" name="skips"><skipped message="no GPU">why</skipped></testcase>
<testcase classname="a.B" name="fails"><failure message="x &lt; y">text</failure></testcase>
<testcase name="breaks" classname="a.C"><error message="e"/></testcase>
<testcase classname="a.C" name="talks"><system-out>fail</system-out></testcase>
</testsuite></testsuites>"#;
        let results = parse(text).unwrap();
        assert_eq!((results.tests, results.skipped), (5, 1));
        assert_eq!(results.failed, ["a.B::fails", "a.C::breaks"]);
        assert!(parse("<testsuite/>").is_err());
    }

    #[test]
    fn parts_of_a_test_that_fail_are_one_failure() {
        let part = r#"<testcase classname="A" name="one"><failure>x</failure></testcase>"#;
        let other = r#"<testcase classname="A" name="two"/>"#;
        let results = parse(&format!("{part}{part}{other}")).unwrap();
        assert_eq!((results.tests, results.failed.len()), (2, 1));
    }

    #[test]
    fn pieces_add_up_and_one_without_results_is_a_failure() {
        let mut results =
            parse(r#"<testcase name="a"/><testcase name="b"><skipped/></testcase>"#).unwrap();
        results.add(Results::none("test_b*.py"));
        assert_eq!((results.tests, results.skipped), (3, 1));
        assert_eq!(results.failed, ["test_b*.py::no results"]);
    }
}
