//! Selects the findings that count, and determines which of them are printed. A finding that does not count is in no
//! report and does not affect the exit code.

use margay::checks::{Kind, Severity, Tool};

use super::options::{InitSpace, PrintLevel};
use super::record::Record;
use super::suppressions::Suppressions;

/// The findings that count (those that reports contain and that affect the exit code), and the
/// numbers of findings that suppressions and [`Choice::spaces`] exclude.
#[derive(Default)]
pub(crate) struct Selection {
    pub(crate) records: Vec<Record>,
    /// Number of findings that do not count because a suppression describes them.
    pub(crate) suppressed: u64,
    /// Number of findings that do not count because initcheck found them in memory that
    /// [`Choice::spaces`] excludes.
    pub(crate) elsewhere: u64,
}

/// The options that determine which findings count: those that reports contain and that affect the
/// exit code.
pub(crate) struct Choice {
    pub(crate) tools: Vec<Tool>,
    pub(crate) spaces: InitSpace,
    /// Whether reports contain findings about copies of unwritten device memory to the host.
    pub(crate) copies: bool,
    /// Races of a lower severity are not in reports.
    pub(crate) races: Severity,
}

impl Choice {
    /// Returns whether the options select tool, kind and severity of the finding `record`. The tool
    /// must be checked, because a file that `--read` names can contain findings of tools that are
    /// not selected.
    fn takes(&self, record: &Record) -> bool {
        let is_selected = Tool::named(&record.tool).is_none_or(|tool| self.tools.contains(&tool));
        let is_copy = record.kind == Kind::UninitializedCopy.name();
        let is_minor = record.is_of(Tool::Race) && record.severity < self.races;
        is_selected && (self.copies || !is_copy) && !is_minor
    }
}

/// Selects the findings that count: those that `choice` selects and that no suppression describes.
pub(crate) fn select(
    records: Vec<Record>,
    choice: &Choice,
    suppressions: &Suppressions,
) -> Selection {
    let mut selection = Selection::default();
    for record in records {
        if !choice.takes(&record) {
            continue;
        }
        if !is_in(&record, choice.spaces) {
            selection.elsewhere += 1;
        } else if suppressions.describe(&record) {
            selection.suppressed += 1;
        } else {
            selection.records.push(record);
        }
    }
    selection
}

/// Returns whether `spaces` includes the memory that a finding concerns. For findings of tools other than initcheck,
/// returns true.
fn is_in(record: &Record, spaces: InitSpace) -> bool {
    let is_shared = record.space.as_deref() == Some("__shared__");
    match spaces {
        _ if !record.is_of(Tool::Initialisation) => true,
        InitSpace::All => true,
        InitSpace::Global => !is_shared,
        InitSpace::Shared => is_shared,
    }
}

/// Returns whether the text report prints the finding `record` if `--print-level` is `level`. The
/// result depends on the finding's severity and tool.
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

    fn choice(tools: &[Tool], spaces: InitSpace) -> Choice {
        Choice {
            tools: tools.to_vec(),
            spaces,
            copies: true,
            races: Severity::Info,
        }
    }

    #[test]
    fn copies_and_races_can_be_left_out() {
        let copy = ACCESS.replace("memcheck", "initcheck");
        let copy = copy.replace("out-of-bounds", "uninitialized-copy");
        let warning = RACE.replace(r#""error""#, r#""warning""#);
        let count = |choice: Choice| {
            let all = records(&[ACCESS, &copy, &warning]);
            select(all, &choice, &Suppressions::default()).records.len()
        };
        let all = || choice(&Tool::ALL, InitSpace::All);
        assert_eq!(count(all()), 3);
        let copies = false;
        assert_eq!(count(Choice { copies, ..all() }), 2);
        let races = Severity::Error;
        assert_eq!(count(Choice { races, ..all() }), 2);
    }

    #[test]
    fn unselected_memory_does_not_count() {
        let global = ACCESS.replace("memcheck", "initcheck");
        let shared = global.replace("__global__", "__shared__");
        let count = |spaces| {
            let all = records(&[&global, &shared.replace("fill", "full"), RACE]);
            let selection = select(all, &choice(&Tool::ALL, spaces), &Suppressions::default());
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
        let kept = select(
            all,
            &choice(&tools, InitSpace::All),
            &Suppressions::default(),
        )
        .records;
        let tools: Vec<&str> = kept.iter().map(|record| record.tool.as_str()).collect();
        // Findings of a tool with an unknown name always count.
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
        // The two lines for the leak have the same ID, so they are one finding, which has the higher severity.
        assert_eq!(levels.map(printed), [3, 3, 2, 1]);
    }
}
