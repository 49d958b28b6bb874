//! Options of NVIDIA's compute-sanitizer that have no effect in `margay check`. The command accepts them so that
//! existing scripts work. If such an option is given, the command prints the reason why it has no effect.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// An option of compute-sanitizer that has no effect in `margay check`.
struct Accepted {
    name: &'static str,
    /// Whether the option has a value.
    has_value: bool,
    /// The reason why the option has no effect.
    reason: &'static str,
}

const fn flag(name: &'static str, reason: &'static str) -> Accepted {
    Accepted {
        name,
        has_value: false,
        reason,
    }
}

const fn value(name: &'static str, reason: &'static str) -> Accepted {
    Accepted {
        name,
        has_value: true,
        reason,
    }
}

const CONNECTION: &str =
    "the program reports to this command through a file, not through a connection";
const COREDUMP: &str =
    "findings do not end the program, and Margay writes no core dumps of devices";
const LIBRARIES: &str = "Margay is the driver library, so nothing is injected";
const OPTIX: &str = "Margay has no OptiX";
const DEADLOCK: &str = "a deadlock is detected without a time limit, and ends the launch";

/// All options that have no effect in `margay check`.
const ACCEPTED: &[Accepted] = &[
    value("backtrace-short", "stacks never contain frames below main"),
    flag("check-cache-control", "Margay simulates no caches"),
    value(
        "check-device-heap",
        "memcheck always checks the device heap",
    ),
    flag("check-optix", OPTIX),
    flag("check-optix-leaks", OPTIX),
    value(
        "check-warpgroup-mma",
        "Margay does not support wgmma instructions: launches of kernels that contain them fail",
    ),
    value("coredump-behavior", COREDUMP),
    value("coredump-name", COREDUMP),
    flag(
        "detect-missing-module-unload",
        "leakcheck always reports modules that the program does not unload, as warnings",
    ),
    value(
        "force-synchronization-limit",
        "checks keep no data for each launch, so synchronisation would save no memory",
    ),
    flag("generate-coredump", COREDUMP),
    flag(
        "ignore-getprocaddress-notfound",
        "a failed cuGetProcAddress is reported only with --report-api-errors all",
    ),
    value("injection-path", LIBRARIES),
    value("injection-path32", LIBRARIES),
    flag("kill", CONNECTION),
    value("language", "reports name addresses, not array indices"),
    value("launch-timeout", CONNECTION),
    value("max-connections", CONNECTION),
    value(
        "missing-barrier-init-is-fatal",
        "--destroy-on-device-error states which errors end a kernel",
    ),
    value("mode", "this command always starts the program itself"),
    value(
        "num-cuda-barriers",
        "Margay has no limit for barriers in memory",
    ),
    value("nvtx", "reports do not name ranges of NVTX"),
    value("port", CONNECTION),
    value("racecheck-continue-on-deadlock", DEADLOCK),
    value("racecheck-deadlock-timeout", DEADLOCK),
    value(
        "racecheck-filter-cluster-id",
        "racecheck examines all clusters; --kernel-name selects kernels",
    ),
    value(
        "racecheck-memcpy-async",
        "racecheck always examines asynchronous copies",
    ),
    value(
        "racecheck-num-workers",
        "racecheck runs kernels in one order, on one thread",
    ),
    value("racecheck-trace-sync", "synchronisation is not listed"),
    value(
        "report-device-side-allocation-failure",
        "a failed malloc in a kernel is not reported",
    ),
    flag("save-session-details", "--save stores the findings only"),
    flag("support-32bit", "Margay runs 64-bit programs only"),
    value(
        "target-processes-filter",
        "--target-processes selects the processes",
    ),
    value(
        "unused-shared-memory-report-limit",
        "unused shared memory is not reported",
    ),
];

/// The options on the command line that have no effect.
#[derive(Default)]
pub(crate) struct AcceptedOptions(Vec<&'static Accepted>);

impl AcceptedOptions {
    /// Returns a line for each option of the list: the option, and the reason why it has no effect.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let lines = self.0.iter();
        lines.map(|option| format!("--{} has no effect: {}", option.name, option.reason))
    }
}

impl clap::Args for AcceptedOptions {
    fn augment_args(command: Command) -> Command {
        let arguments = ACCEPTED.iter().map(|option| {
            let argument = Arg::new(option.name).long(option.name).hide(true);
            match option.has_value {
                true => argument.action(ArgAction::Set),
                false => argument.action(ArgAction::SetTrue),
            }
        });
        command.args(arguments)
    }

    fn augment_args_for_update(command: Command) -> Command {
        AcceptedOptions::augment_args(command)
    }
}

impl clap::FromArgMatches for AcceptedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |option: &&Accepted| match option.has_value {
            true => matches.contains_id(option.name),
            false => matches.get_flag(option.name),
        };
        Ok(AcceptedOptions(ACCEPTED.iter().filter(is_given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AcceptedOptions::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::options;
    use super::*;

    #[test]
    fn each_option_is_accepted_and_named() {
        let page = include_str!("../../../docs/checks.md");
        for option in ACCEPTED {
            let value = if option.has_value { " 1" } else { "" };
            let notes = options(&format!("--{}{value}", option.name)).notes();
            let start = format!("--{} has no effect: ", option.name);
            assert!(
                matches!(&notes[..], [note] if note.starts_with(&start)),
                "{notes:?}"
            );
            assert!(
                page.contains(&format!("| `--{}` |", option.name)),
                "{}",
                option.name
            );
            assert!(page.contains(option.reason), "{}", option.reason);
        }
    }
}
