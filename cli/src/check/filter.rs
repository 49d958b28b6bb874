//! Selects the findings that count, and those that are printed.

use margay::checks::{Severity, Tool};

use super::options::{InitSpace, PrintLevel};
use super::record::Record;
use super::suppressions::Suppressions;

/// The findings that count, and the numbers of those that do not.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) records: Vec<Record>,
    /// Number of findings that suppressions describe.
    pub(crate) suppressed: u64,
    /// Number of findings of initcheck about memory that is not selected.
    pub(crate) elsewhere: u64,
}

/// Selects the findings that count. A file that `--read` names can contain findings of other tools.
pub(crate) fn select(
    records: Vec<Record>,
    tools: &[Tool],
    spaces: InitSpace,
    suppressions: &Suppressions,
) -> Selection {
    let mut selection = Selection::default();
    for record in records {
        if Tool::named(&record.tool).is_some_and(|tool| !tools.contains(&tool)) {
            continue;
        }
        if !is_in(&record, spaces) {
            selection.elsewhere += 1;
        } else if suppressions.describe(&record) {
            selection.suppressed += 1;
        } else {
            selection.records.push(record);
        }
    }
    selection
}

/// Returns whether a finding is about selected memory, or not one of initcheck.
fn is_in(record: &Record, spaces: InitSpace) -> bool {
    let is_shared = record.space.as_deref() == Some("__shared__");
    match spaces {
        _ if !record.is_of(Tool::Initialisation) => true,
        InitSpace::All => true,
        InitSpace::Global => !is_shared,
        InitSpace::Shared => is_shared,
    }
}

/// Returns whether a finding is printed.
pub(crate) fn is_printed(record: &Record, level: PrintLevel) -> bool {
    match level {
        PrintLevel::Info => true,
        PrintLevel::Auto | PrintLevel::Warn => record.severity >= Severity::Warning,
        PrintLevel::Error => record.severity == Severity::Error,
        PrintLevel::Fatal => {
            let ends = record.is_of(Tool::Memory) || record.is_of(Tool::Synchronisation);
            record.severity == Severity::Error && ends
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::{ACCESS, LEAK, RACE, records};
    use super::*;

    #[test]
    fn unselected_memory_does_not_count() {
        let global = ACCESS.replace("memcheck", "initcheck");
        let shared = global.replace("__global__", "__shared__");
        let count = |spaces| {
            let all = records(&[&global, &shared.replace("fill", "full"), RACE]);
            let selection = select(all, &Tool::ALL, spaces, &Suppressions::default());
            (selection.records.len(), selection.elsewhere)
        };
        assert_eq!(count(InitSpace::All), (3, 0));
        assert_eq!(count(InitSpace::Global), (2, 1));
        assert_eq!(count(InitSpace::Shared), (2, 1));
    }

    #[test]
    fn findings_of_other_tools_do_not_count() {
        let all = records(&[
            ACCESS,
            RACE,
            LEAK,
            &LEAK
                .replace("leakcheck", "newcheck")
                .replace(r#""kind":"leak""#, r#""kind":"x""#),
        ]);
        let tools = [Tool::Race];
        let kept = select(all, &tools, InitSpace::All, &Suppressions::default()).records;
        let tools: Vec<&str> = kept.iter().map(|record| record.tool.as_str()).collect();
        // Findings of a tool that this version does not know always count.
        assert_eq!(tools, ["racecheck", "newcheck"]);
    }

    #[test]
    fn levels_are_severities() {
        let warning = RACE.replace(r#""error""#, r#""warning""#);
        let info = LEAK.replace(r#""error""#, r#""info""#);
        let all = records(&[ACCESS, &warning, &info, LEAK]);
        let printed = |level| all.iter().filter(|r| is_printed(r, level)).count();
        let levels = [
            PrintLevel::Info,
            PrintLevel::Warn,
            PrintLevel::Error,
            PrintLevel::Fatal,
        ];
        // The two leaks are one finding of the higher severity.
        assert_eq!(levels.map(printed), [3, 3, 2, 1]);
    }
}
