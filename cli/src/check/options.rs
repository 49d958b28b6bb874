//! The options of `margay check`, and the environment variables that pass some of the options to the driver library.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use margay::checks::{KernelFilter, Severity, Tool};

use super::accepted::AcceptedOptions;

/// The options of `margay check` besides those of `margay run`.
#[derive(clap::Args)]
#[command(next_help_heading = "What is checked")]
pub(crate) struct Options {
    /// Tools, with commas between them: memcheck, initcheck, racecheck, synccheck, leakcheck, apicheck; or all.
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = tools)]
    tool: ToolList,
    /// Report memory that the program does not free (default: if --tool contains leakcheck).
    #[arg(long, value_enum, value_name = "full|no")]
    leak_check: Option<LeakCheck>,
    /// Failed calls to report: those of the program (explicit), also those of CUDA's libraries (extended), also those
    /// that query a state (all), or none (no) [default: extended].
    #[arg(long, value_enum, value_name = "LEVEL")]
    report_api_errors: Option<ApiErrors>,
    /// Memory whose reads initcheck reports.
    #[arg(long, value_enum, value_name = "SPACE", default_value = "all")]
    pub(crate) initcheck_address_space: InitSpace,
    /// Report allocations with bytes that are never written.
    #[arg(long)]
    track_unused_memory: bool,
    /// Unwritten share of an allocation, in percent, below which it is not reported [default: 0].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    unused_memory_threshold: Option<u8>,
    /// Uses of memory to check against the order of streams [default: all].
    #[arg(long, value_enum, value_name = "USES")]
    track_stream_ordered_races: Option<StreamOrder>,
    /// Check only kernels whose (mangled) name meets all conditions, such as kns=reduce,regex=^_Z. If the option is
    /// repeated, the conditions of one list suffice.
    #[arg(long, value_name = "FILTER")]
    kernel_name: Vec<String>,
    /// Do not check kernels whose name meets all conditions.
    #[arg(long, value_name = "FILTER")]
    kernel_name_exclude: Vec<String>,
    /// Do not check the first N launches of matching kernels [default: 0].
    #[arg(long, short = 's', value_name = "N")]
    launch_skip: Option<u64>,
    /// Check N launches of matching kernels; 0 for all [default: 0].
    #[arg(long, short = 'c', value_name = "N")]
    launch_count: Option<u64>,
    /// Minimum number of bytes between two allocations [default: 256].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    padding: Option<u64>,
    /// What to end after an error in a kernel [default: the context, but only when the kernel is over: wrong accesses
    /// are suppressed, and later calls return the error].
    #[arg(long, value_enum, value_name = "WHAT")]
    destroy_on_device_error: Option<Destroy>,
    /// Complete each launch before the call returns.
    #[arg(long)]
    force_blocking_launches: bool,
    /// Processes whose findings are reported: all, or only the process that this command starts.
    #[arg(long, value_enum, value_name = "PROCESSES", default_value = "all")]
    pub(crate) target_processes: Processes,
    /// Report a program that does not initialise CUDA as an error.
    #[arg(long, value_enum, value_name = "yes|no", default_value = "yes")]
    pub(crate) require_cuda_init: YesNo,
    /// Report reads of unwritten memory by copies to the host.
    #[arg(long, value_enum, value_name = "yes|no", default_value = "yes")]
    pub(crate) check_api_memory_access: YesNo,
    /// Lowest severity of races to report.
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "info")]
    racecheck_detect_level: RaceLevel,
    /// Libraries that the program loads before all others, with commas between them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    preload_library: Vec<OsString>,
    #[command(flatten)]
    accepted: AcceptedOptions,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The options about reports and exit codes.
#[derive(clap::Args)]
#[command(next_help_heading = "Reports")]
pub(crate) struct Output {
    /// Exit code if there are errors and the program itself exits with 0. Warnings and infos are
    /// not errors.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) error_exitcode: u8,
    /// Print a line if the program's own exit code is not 0.
    #[arg(long, value_enum, value_name = "yes|no", default_value = "yes")]
    pub(crate) check_exit_code: YesNo,
    /// Findings to print for each tool; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) print_limit: usize,
    /// Lowest severity to print. auto: warn, or info with --dump-kernel-launches. fatal: errors that end a kernel on a
    /// GPU.
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "auto")]
    print_level: PrintLevel,
    /// How to print races: one report for two places (analysis), one with address and threads (hazard), or both.
    #[arg(long, value_enum, value_name = "FORM", default_value = "analysis")]
    pub(crate) racecheck_report: RaceReport,
    /// Stacks to print: of the host, of inlined device functions, both (yes) or none.
    #[arg(long, value_enum, value_name = "STACKS", default_value = "yes")]
    pub(crate) show_backtrace: Backtrace,
    /// Functions of the host to print of each stack; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) num_callers_host: usize,
    /// Inlined device functions to print of each stack; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) num_callers_device: usize,
    /// Print only the names of files, without their folders.
    #[arg(long, value_enum, value_name = "yes|no", default_value = "no")]
    pub(crate) strip_paths: YesNo,
    /// How to print names of C++ kernels: with parameters, without them (simple), or mangled (no).
    #[arg(long, value_enum, value_name = "FORM", default_value = "full")]
    pub(crate) demangle: Demangle,
    /// Print errors only, and nothing if there are none.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Start of each line of the report.
    #[arg(long, value_name = "TEXT", default_value = "=========")]
    pub(crate) prefix: String,
    /// Print the command and the process ID of the program.
    #[arg(long)]
    pub(crate) print_session_details: bool,
    /// List all launches.
    #[arg(long)]
    pub(crate) dump_kernel_launches: bool,
    /// Write a report to a file in the format of its extension: .json, .html or .sarif. May be repeated.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) report: Vec<PathBuf>,
    /// Print to a file instead of standard error. In names, %p is the process and %q{VARIABLE} the value of a variable.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<String>,
    /// Save the findings to a file, for --read.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<String>,
    /// Save as XML; the file can be used with --suppressions.
    #[arg(long, requires = "save")]
    pub(crate) xml: bool,
    /// Print the findings that --save has written, instead of running a program.
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    pub(crate) read: Option<String>,
    /// Leave out findings that an XML file describes.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) suppressions: Vec<PathBuf>,
}

/// A list of checking tools, the value of `--tool`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ToolList(Vec<Tool>);

fn tools(text: &str) -> Result<ToolList, String> {
    let mut list = Vec::new();
    for name in text.split(',') {
        match (name, Tool::named(name)) {
            ("all", _) => list.extend(Tool::ALL),
            (_, Some(tool)) => list.push(tool),
            _ => return Err(format!("`{name}` is not a tool")),
        }
    }
    list.sort();
    list.dedup();
    Ok(ToolList(list))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LeakCheck {
    Full,
    No,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApiErrors {
    All,
    Extended,
    Explicit,
    No,
}

/// The state spaces whose reads initcheck reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum InitSpace {
    Global,
    Shared,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StreamOrder {
    All,
    UseBeforeAlloc,
    UseAfterFree,
    No,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Destroy {
    Context,
    Kernel,
    /// End nothing: the context stays usable, and later calls return no error.
    Nothing,
}

/// The processes whose findings are reported.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Processes {
    All,
    ApplicationOnly,
}

/// Yes or no.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
}

/// The lowest severity of findings that the report prints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum PrintLevel {
    Info,
    Auto,
    Warn,
    Error,
    Fatal,
}

/// The lowest severity of races that reports contain and that affect the exit code.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RaceLevel {
    Info,
    Warn,
    Error,
}

/// How races are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum RaceReport {
    Hazard,
    Analysis,
    All,
}

/// The stacks that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Backtrace {
    Host,
    Device,
    Yes,
    No,
}

impl Backtrace {
    /// Returns whether the stacks of the host are printed.
    pub(crate) fn host(self) -> bool {
        matches!(self, Backtrace::Host | Backtrace::Yes)
    }

    /// Returns whether the stacks of inlined device functions are printed.
    pub(crate) fn device(self) -> bool {
        matches!(self, Backtrace::Device | Backtrace::Yes)
    }
}

/// How names of C++ kernels are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Demangle {
    Full,
    Simple,
    No,
}

impl Options {
    /// Returns the checking tools that the options select.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        let mut tools = self.tool.0.clone();
        let mut set = |tool: Tool, wanted: Option<bool>| {
            if let Some(wanted) = wanted {
                tools.retain(|other| *other != tool);
                tools.extend(wanted.then_some(tool));
            }
        };
        let leaks = self.leak_check.map(|check| check == LeakCheck::Full);
        set(Tool::Leak, leaks);
        let calls = self.report_api_errors.map(|level| level != ApiErrors::No);
        set(Tool::Api, calls);
        tools.sort();
        tools
    }

    /// Returns the lowest severity of races that reports contain and that affect the exit code.
    pub(crate) fn race_level(&self) -> Severity {
        match self.racecheck_detect_level {
            RaceLevel::Info => Severity::Info,
            RaceLevel::Warn => Severity::Warning,
            RaceLevel::Error => Severity::Error,
        }
    }

    /// Returns the value of `LD_PRELOAD` for the program, or `None` if `--preload-library` adds nothing to the current
    /// value.
    pub(crate) fn preloaded(&self) -> Option<OsString> {
        let mut list = self.preload_library.join(":".as_ref());
        if list.is_empty() {
            return None;
        }
        if let Some(present) = std::env::var_os("LD_PRELOAD").filter(|present| !present.is_empty())
        {
            list.push(":");
            list.push(present);
        }
        Some(list)
    }

    /// Returns the lowest severity of findings that the report prints.
    pub(crate) fn print_level(&self) -> PrintLevel {
        match (self.output.print_level, self.output.dump_kernel_launches) {
            (PrintLevel::Auto | PrintLevel::Info | PrintLevel::Warn, _) if self.output.quiet => {
                PrintLevel::Error
            }
            (PrintLevel::Auto, true) => PrintLevel::Info,
            (PrintLevel::Auto, false) => PrintLevel::Warn,
            (level, _) => level,
        }
    }

    /// Returns the environment variables that pass options of the command line to the driver library.
    fn passed(&self) -> Vec<(&'static str, String)> {
        let mut list = Vec::new();
        let mut pass = |variable, value: Option<String>| {
            list.extend(value.map(|value| (variable, value)));
        };
        let lines = |filters: &[String]| {
            let right = |text: &&String| KernelFilter::parse(text).is_ok();
            let right: Vec<&str> = filters.iter().filter(right).map(|f| f.as_str()).collect();
            (!right.is_empty()).then(|| right.join("\n"))
        };
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let switch = |is_on: bool| is_on.then(|| "1".to_owned());
        pass("MARGAY_CHECK_KERNELS", lines(&self.kernel_name));
        pass(
            "MARGAY_CHECK_KERNELS_EXCLUDED",
            lines(&self.kernel_name_exclude),
        );
        pass("MARGAY_CHECK_LAUNCH_SKIP", number(self.launch_skip));
        pass("MARGAY_CHECK_LAUNCH_COUNT", number(self.launch_count));
        pass(
            "MARGAY_CHECK_LIST_LAUNCHES",
            switch(self.output.dump_kernel_launches),
        );
        pass("MARGAY_CHECK_PADDING", number(self.padding));
        pass(
            "MARGAY_CHECK_AFTER_ERROR",
            Some(match self.destroy_on_device_error {
                Some(Destroy::Nothing) => "continue".to_owned(),
                Some(what) => name(what),
                None => "error".to_owned(),
            }),
        );
        let level = self
            .report_api_errors
            .filter(|level| *level != ApiErrors::No);
        pass("MARGAY_CHECK_API_ERRORS", level.map(name));
        pass(
            "MARGAY_CHECK_UNUSED_MEMORY",
            switch(self.track_unused_memory),
        );
        pass(
            "MARGAY_CHECK_UNUSED_THRESHOLD",
            number(self.unused_memory_threshold.map(u64::from)),
        );
        pass(
            "MARGAY_CHECK_STREAM_ORDER",
            self.track_stream_ordered_races.map(name),
        );
        pass(
            "MARGAY_CHECK_BLOCKING",
            switch(self.force_blocking_launches),
        );
        list
    }

    /// Returns the environment variables to set for the program.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let tools: Vec<&str> = self.tools().iter().map(|tool| tool.name()).collect();
        let tools = match tools.is_empty() {
            true => "0".to_owned(),
            false => tools.join(","),
        };
        let spaces = name(self.initcheck_address_space);
        let mut variables = vec![
            ("MARGAY_CHECK", tools),
            ("MARGAY_CHECK_INIT_SPACES", spaces),
        ];
        variables.extend(self.passed());
        variables
    }

    /// Returns a line for each option that has no effect, with the reason.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let filters = [
            ("--kernel-name", &self.kernel_name),
            ("--kernel-name-exclude", &self.kernel_name_exclude),
        ];
        for (option, texts) in filters {
            for text in texts {
                if let Err(error) = KernelFilter::parse(text) {
                    notes.push(format!("{option} {text} is ignored: {error}"));
                }
            }
        }
        notes.extend(self.accepted.notes());
        notes
    }
}

/// Returns the name with which the command line specifies `value`.
fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
        program: Vec<String>,
    }

    pub(crate) fn options(arguments: &str) -> Options {
        let arguments = ["check"].into_iter().chain(arguments.split_whitespace());
        Line::parse_from(arguments).options
    }

    fn variables(arguments: &str) -> Vec<(&'static str, String)> {
        options(arguments).environment().split_off(1)
    }

    #[test]
    fn tools_are_selected_by_three_options() {
        let selected = |arguments: &str| options(arguments).environment()[0].1.clone();
        let all = "memcheck,initcheck,racecheck,synccheck,leakcheck,apicheck";
        assert_eq!(selected(""), all);
        assert_eq!(selected("--tool all"), all);
        assert_eq!(selected("--tool racecheck,memcheck"), "memcheck,racecheck");
        assert_eq!(
            selected("--tool memcheck --leak-check full"),
            "memcheck,leakcheck"
        );
        assert_eq!(
            selected("--leak-check no --report-api-errors no"),
            "memcheck,initcheck,racecheck,synccheck"
        );
        assert_eq!(selected("--tool leakcheck --leak-check no"), "0");
        assert_eq!(tools("memcheck,x"), Err("`x` is not a tool".to_owned()));
    }

    #[test]
    fn options_become_variables() {
        let spaces = ("MARGAY_CHECK_INIT_SPACES", "all".to_owned());
        let code = ("MARGAY_CHECK_AFTER_ERROR", "error".to_owned());
        assert_eq!(variables(""), [spaces, code]);
        let set = variables(
            "--kernel-name kns=a,kns=b --kernel-name regex=c --launch-skip 3 --padding 512 \
             --destroy-on-device-error kernel --initcheck-address-space shared",
        );
        let expected = [
            ("MARGAY_CHECK_INIT_SPACES", "shared"),
            ("MARGAY_CHECK_KERNELS", "kns=a,kns=b\nregex=c"),
            ("MARGAY_CHECK_LAUNCH_SKIP", "3"),
            ("MARGAY_CHECK_PADDING", "512"),
            ("MARGAY_CHECK_AFTER_ERROR", "kernel"),
        ];
        let expected = expected.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(set, expected);
    }

    #[test]
    fn options_without_effect_are_named() {
        assert!(options("").notes().is_empty());
        assert!(options("--launch-skip 1 --padding 16").notes().is_empty());
        let notes =
            options("--check-cache-control --kernel-name reduce --kernel-name kns=a").notes();
        assert_eq!(notes.len(), 2);
        assert!(
            notes[0].starts_with("--kernel-name reduce is ignored: `reduce` begins with none of")
        );
        assert_eq!(
            notes[1],
            "--check-cache-control has no effect: Margay simulates no caches"
        );
    }

    #[test]
    fn the_level_depends_on_the_list_of_launches() {
        assert_eq!(options("").print_level(), PrintLevel::Warn);
        assert_eq!(
            options("--dump-kernel-launches").print_level(),
            PrintLevel::Info
        );
        let both = options("--dump-kernel-launches --print-level error");
        assert_eq!(both.print_level(), PrintLevel::Error);
    }
}
