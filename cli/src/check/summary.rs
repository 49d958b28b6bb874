//! Counts the findings of a checking run.

use margay::checks::{Severity, Tool};

use super::filter::Selection;

/// The counts and notes at the end of reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) errors: u64,
    pub(crate) warnings: u64,
    pub(crate) infos: u64,
    pub(crate) race_errors: u64,
    pub(crate) race_warnings: u64,
    pub(crate) leaked_bytes: u64,
    pub(crate) leaked_allocations: u64,
    pub(crate) suppressed: u64,
    /// Number of findings of initcheck that are left out because `--initcheck-address-space` does
    /// not select their memory.
    pub(crate) elsewhere: u64,
    /// Whether the order in which threads ran determined which threads synchronised with each
    /// other. If so, the reported races are those of this order only.
    pub(crate) one_order: bool,
    /// Whether some memory was not examined for leaks, because an error had ended its context, or because its process
    /// ended without exit handlers.
    pub(crate) leaks_unexamined: bool,
    /// Whether a kernel did not run because an error had ended its context.
    pub(crate) kernels_skipped: bool,
    /// Number of lines of the log that could not be read.
    pub(crate) damaged: u64,
    /// Whether findings may be missing, because a process could not write a line of the log or had
    /// too many findings. This counts as an error.
    pub(crate) incomplete: bool,
    /// Whether the program has not initialised CUDA although the options require it. This counts as
    /// an error.
    pub(crate) not_initialised: bool,
}

impl Summary {
    /// Counts findings.
    pub(crate) fn of(selection: &Selection) -> Summary {
        let mut summary = Summary {
            suppressed: selection.suppressed,
            elsewhere: selection.elsewhere,
            ..Summary::default()
        };
        for record in &selection.records {
            let (all, races) = match record.severity {
                Severity::Error => (&mut summary.errors, Some(&mut summary.race_errors)),
                Severity::Warning => (&mut summary.warnings, Some(&mut summary.race_warnings)),
                Severity::Info => (&mut summary.infos, None),
            };
            *all += 1;
            if let Some(races) = races.filter(|_| record.is_of(Tool::Race)) {
                *races += 1;
            }
            if let Some(size) = record.size.filter(|_| record.is_of(Tool::Leak)) {
                let bytes = size.saturating_mul(record.count);
                summary.leaked_bytes = summary.leaked_bytes.saturating_add(bytes);
                summary.leaked_allocations += record.count;
            }
        }
        summary
    }

    /// Returns the number of errors, including those that are not findings: that the program has not initialised CUDA,
    /// and that findings may be missing.
    pub(crate) fn all_errors(&self) -> u64 {
        self.errors + u64::from(self.not_initialised) + u64::from(self.incomplete)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    #[test]
    fn leaks_and_races_are_counted_apart() {
        let warning = RACE
            .replace(r#""error""#, r#""warning""#)
            .replace("f.cu", "g.cu");
        let info = ACCESS
            .replace(r#""error""#, r#""info""#)
            .replace("fill", "full");
        let second = LEAK.replace("7000", "8000").replace("28672", "32768");
        let selection = Selection {
            records: records(&[ACCESS, RACE, &warning, &info, LEAK, &second]),
            suppressed: 3,
            elsewhere: 0,
        };
        let expected = Summary {
            errors: 4,
            warnings: 1,
            infos: 1,
            race_errors: 1,
            race_warnings: 1,
            leaked_bytes: 2048,
            leaked_allocations: 2,
            suppressed: 3,
            ..Summary::default()
        };
        assert_eq!(Summary::of(&selection), expected);
        let without = Summary {
            not_initialised: true,
            ..expected
        };
        assert_eq!(without.all_errors(), 5);
        let incomplete = Summary {
            incomplete: true,
            ..expected
        };
        assert_eq!(incomplete.all_errors(), 5);
    }
}
