//! `margay waste`: runs a CUDA program with red zones around its memory, and reports wrong calls when they happen. The
//! options have the same letters as those of WASTE, an emulator from the time of CUDA 5.
//!
//! The command uses the checks of `margay check`: the program runs as a child process, and it and its own children
//! append findings and calls to a file. This process reads the file while the program runs, and prints each finding in
//! WASTE's form ([`words`]). `docs/waste.md` describes options and findings.

mod words;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use margay::checks::Kind;
use margay::device::Capability;

use crate::check::words::INCOMPLETE;
use crate::check::{exit_code, files, signals};
use crate::output::{Failure, Outcome, Report, note};
use crate::run;

const EXAMPLES: &str = "\
Examples:
  margay waste ./vector_add 1000000
  margay waste -t=1 -s=64 -b=0xAA ./vector_add 1000000
  margay waste -q -d compute_50 ./vector_add 1000000

Findings are printed on standard error when they happen. The exit code is the program's; 1 if -q is given and there is a
finding. docs/waste.md lists the checks.";

/// The kinds of findings that are printed.
const KINDS: [Kind; 7] = [
    Kind::ChangedRedZone,
    Kind::LeakedMemory,
    Kind::WrongDirection,
    Kind::InvalidPointer,
    Kind::OutsideAllocation,
    Kind::DestroyedHandle,
    Kind::UnimplementedFunction,
];

/// The largest stack of a device thread in bytes.
const LARGEST_STACK: u64 = 512 << 10;

/// Time between two reads of the file to which the program's processes write.
const PAUSE: Duration = Duration::from_millis(10);

/// The arguments of `margay waste`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, disable_version_flag = true)]
pub(crate) struct Arguments {
    /// Run kernels on the CPU (the default).
    #[arg(short = 'e', overrides_with = "no_emulate")]
    emulate: bool,
    /// Only check calls, and forward them to the driver of a GPU; also written -ne.
    #[arg(long)]
    no_emulate: bool,
    /// Device to emulate, from compute_20: determines the reported compute capability and which image of a fat binary
    /// is used.
    #[arg(short, long, value_name = "NAME", value_parser = device, default_value = "compute_20")]
    device: Capability,
    /// Print calls: 0 none, 1 those that change something, 2 all, 3 all with durations.
    #[arg(
        short,
        long,
        value_name = "N",
        require_equals = true,
        default_value_t = 0
    )]
    trace: u32,
    /// Bytes of the red zone on each side of an allocation.
    #[arg(
        short = 's',
        long,
        value_name = "N",
        require_equals = true,
        default_value_t = 32,
        value_parser = clap::value_parser!(u64).range(0..=1 << 30)
    )]
    padding_size: u64,
    /// Content of red zones: a number from 0 to 255, or from 0x0 to 0xff.
    #[arg(
        short = 'b',
        long,
        value_name = "C",
        require_equals = true,
        default_value = "0xDE",
        value_parser = byte
    )]
    padding_byte: u8,
    /// End the program with exit code 1 at the first finding.
    #[arg(short, long)]
    quit_on_error: bool,
    /// Do not execute copies and fills with wrong arguments; their calls return an error.
    #[arg(short = 'k', long)]
    skip_on_error: bool,
    /// Permit copies and fills that begin inside an allocation.
    #[arg(short, long)]
    non_standard_ptr: bool,
    /// Worker threads that run kernels [default: one for each core].
    #[arg(short = 'm', long, value_name = "N", require_equals = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// Bytes of the stack of a device thread, at most 524288.
    #[arg(short = 'c', long, value_name = "N", require_equals = true)]
    stack_size: Option<u64>,
    /// Wait for a debugger before the first call of the driver, and stop in it.
    #[arg(short = 'x')]
    debugger: bool,
    /// Print the version.
    #[arg(short, long)]
    version: bool,
    /// The program and its arguments.
    #[arg(
        required_unless_present = "version",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM",
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    program: Vec<OsString>,
}

fn device(text: &str) -> Result<Capability, String> {
    Capability::parse(text).ok_or_else(|| "no device such as compute_20".to_owned())
}

fn byte(text: &str) -> Result<u8, String> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let byte = match hexadecimal {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    byte.map_err(|_| "not a number from 0 to 255".to_owned())
}

/// Options that clap cannot parse, each with an equivalent long option. These are the options that
/// consist of one letter and `=`, such as `-t=1`, and one option of two letters.
const LONG_FORMS: [(&str, &str); 6] = [
    ("-t=", "--trace="),
    ("-s=", "--padding-size="),
    ("-b=", "--padding-byte="),
    ("-m=", "--threads="),
    ("-c=", "--stack-size="),
    ("-ne", "--no-emulate"),
];

/// Replaces the options in [`LONG_FORMS`] on a command line by the equivalent long options.
pub(crate) fn canonical(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = arguments.collect();
    if all.get(1).is_none_or(|command| command != "waste") {
        return all;
    }
    let mut options = all.iter_mut().skip(2);
    while let Some(option) = options.next() {
        let Some(text) = option.to_str().filter(|text| text.starts_with('-')) else {
            break;
        };
        match text {
            "--" => break,
            "-d" | "--device" => {
                options.next();
                continue;
            }
            _ => {}
        }
        let form = LONG_FORMS.iter().find_map(|(short, long)| {
            let value = text.strip_prefix(short)?;
            (short.ends_with('=') || value.is_empty()).then(|| format!("{long}{value}"))
        });
        if let Some(form) = form {
            *option = OsString::from(form);
        }
    }
    all
}

impl Arguments {
    /// Returns the environment variables that these options set for the program.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        let mut variables = vec![
            ("MARGAY_CHECK", "apicheck,leakcheck".to_owned()),
            ("MARGAY_CHECK_KINDS", kinds.join(",")),
            (
                "MARGAY_COMPUTE_CAPABILITY",
                format!("{}.{}", self.device.major, self.device.minor),
            ),
            ("MARGAY_CHECK_NULL_FREES", "1".to_owned()),
            ("MARGAY_CHECK_LIST_CALLS", self.trace.to_string()),
            ("MARGAY_CHECK_RED_ZONES", self.padding_size.to_string()),
            ("MARGAY_CHECK_RED_ZONE_BYTE", self.padding_byte.to_string()),
        ];
        let switches = [
            ("MARGAY_CHECK_END_AT_FIRST", self.quit_on_error),
            ("MARGAY_CHECK_SKIP_INVALID", self.skip_on_error),
            ("MARGAY_CHECK_BLOCK_STARTS", !self.non_standard_ptr),
            ("MARGAY_CHECK_DEBUGGER", self.debugger),
        ];
        for (name, is_on) in switches {
            variables.push((name, u8::from(is_on).to_string()));
        }
        let mut set =
            |name, value: Option<String>| variables.extend(value.map(|value| (name, value)));
        set("MARGAY_WORKERS", self.threads.map(|n| n.to_string()));
        let stack = self.stack_size.map(|bytes| bytes.clamp(16, LARGEST_STACK));
        set("MARGAY_STACK_SIZE", stack.map(|bytes| bytes.to_string()));
        variables
    }

    /// Returns a line for each option whose value is too large and is replaced by the largest value.
    fn notes(&self) -> Vec<String> {
        let too_large = self.stack_size.filter(|&bytes| bytes > LARGEST_STACK);
        let note =
            |bytes| format!("margay: -c={bytes} is too large, and {LARGEST_STACK} bytes are used");
        too_large.map(note).into_iter().collect()
    }
}

/// Runs the program and prints findings and calls.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.version {
        note(concat!("Version ", env!("CARGO_PKG_VERSION")));
        if arguments.program.is_empty() {
            return Ok(Report::of(String::new()));
        }
    }
    if arguments.no_emulate {
        return Err(Failure::from(
            "-ne is not supported: Margay forwards no calls to the driver of a GPU".to_owned(),
        ));
    }
    for text in arguments.notes() {
        note(&text);
    }
    let log = files::LogFile::new()
        .map_err(|error| format!("cannot create a file for the findings: {error}"))?;
    let mut command = run::command(&run::Options::default(), &arguments.program)?;
    command
        .envs(arguments.environment())
        .env("MARGAY_CHECK_LOG", log.path());
    // The library warns about calls of functions that are not implemented. These warnings are turned off, because the
    // calls are findings of this command.
    if std::env::var_os("MARGAY_LOG").is_none() {
        command.env("MARGAY_LOG", "off");
    }
    let failed = |error| run::cannot_run(&arguments.program, &error);
    let lines = File::open(log.path()).map_err(failed)?;
    signals::keep_statuses().map_err(failed)?;
    let child = command.spawn().map_err(failed)?;
    let status = follow(child, Lines::new(lines)).map_err(failed)?;
    let mut status = exit_code(status);
    if !log.is_complete() {
        note(&format!("margay: {INCOMPLETE}"));
        status = status.max(1);
    }
    Ok(Report {
        text: String::new(),
        status,
    })
}

/// Prints the findings and calls that the program's processes write to the file, until the program has ended.
fn follow(mut child: Child, mut lines: Lines) -> std::io::Result<ExitStatus> {
    let mut print = || {
        for line in lines.take() {
            for text in words::lines(&line) {
                note(&text);
            }
        }
    };
    loop {
        // The program can write shortly before it ends, so the file is read once more after the program's end.
        let status = child.try_wait()?;
        print();
        if let Some(status) = status {
            return Ok(status);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Reads the lines that other processes append to a file.
struct Lines {
    file: File,
    /// Number of bytes of the file that were read so far.
    position: u64,
    /// The start of a line whose end has not been written yet.
    rest: Vec<u8>,
}

impl Lines {
    fn new(file: File) -> Lines {
        Lines {
            file,
            position: 0,
            rest: Vec::new(),
        }
    }

    /// Returns the lines that were completed since the previous call.
    fn take(&mut self) -> Vec<Vec<u8>> {
        // If the file cannot be read, nothing can be printed.
        let _ = self.file.seek(SeekFrom::Start(self.position));
        let read = self.file.read_to_end(&mut self.rest).unwrap_or(0);
        self.position += read as u64;
        let end = self.rest.iter().rposition(|&byte| byte == b'\n');
        let after = self.rest.split_off(end.map_or(0, |end| end + 1));
        let whole = std::mem::replace(&mut self.rest, after);
        let lines = whole.split(|&byte| byte == b'\n');
        lines
            .filter(|line| !line.is_empty())
            .map(<[u8]>::to_vec)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(line: &str) -> Arguments {
        let words = ["margay", "waste"].into_iter().chain(line.split(' '));
        let words = canonical(words.map(OsString::from)).split_off(1);
        Line::try_parse_from(words).expect("accepted").arguments
    }

    fn variable(line: &str, name: &str) -> Option<String> {
        let variables = parsed(line).environment();
        let found = variables
            .into_iter()
            .find(|(variable, _)| *variable == name);
        found.map(|(_, value)| value)
    }

    #[test]
    fn letters_become_variables() {
        let cases = [
            ("-d compute_50 p", "MARGAY_COMPUTE_CAPABILITY", "5.0"),
            ("--device sm_90 p", "MARGAY_COMPUTE_CAPABILITY", "9.0"),
            ("p", "MARGAY_COMPUTE_CAPABILITY", "2.0"),
            ("-t=2 p", "MARGAY_CHECK_LIST_CALLS", "2"),
            ("p", "MARGAY_CHECK_LIST_CALLS", "0"),
            ("-s=64 p", "MARGAY_CHECK_RED_ZONES", "64"),
            ("--padding-size=8 p", "MARGAY_CHECK_RED_ZONES", "8"),
            ("p", "MARGAY_CHECK_RED_ZONES", "32"),
            ("-b=65 p", "MARGAY_CHECK_RED_ZONE_BYTE", "65"),
            ("--padding-byte=0xAa p", "MARGAY_CHECK_RED_ZONE_BYTE", "170"),
            ("p", "MARGAY_CHECK_RED_ZONE_BYTE", "222"),
            ("-q p", "MARGAY_CHECK_END_AT_FIRST", "1"),
            ("p", "MARGAY_CHECK_END_AT_FIRST", "0"),
            ("--skip-on-error p", "MARGAY_CHECK_SKIP_INVALID", "1"),
            ("-e -k p", "MARGAY_CHECK_SKIP_INVALID", "1"),
            ("-n p", "MARGAY_CHECK_BLOCK_STARTS", "0"),
            ("p", "MARGAY_CHECK_BLOCK_STARTS", "1"),
            ("-m=3 p", "MARGAY_WORKERS", "3"),
            ("-c=4096 p", "MARGAY_STACK_SIZE", "4096"),
            ("-c=10485760 p", "MARGAY_STACK_SIZE", "524288"),
            ("-x p", "MARGAY_CHECK_DEBUGGER", "1"),
        ];
        for (line, name, value) in cases {
            assert_eq!(variable(line, name).as_deref(), Some(value), "{line}");
        }
        assert_eq!(variable("p", "MARGAY_WORKERS"), None);
        assert_eq!(parsed("-c=10485760 p").notes().len(), 1);
    }

    #[test]
    fn options_end_at_the_program() {
        let arguments = parsed("-d compute_50 -ne -t=1 p -ne -q");
        assert!(arguments.no_emulate && !arguments.quit_on_error && !arguments.non_standard_ptr);
        assert_eq!(arguments.program, ["p", "-ne", "-q"]);
        let arguments = parsed("-n -e p");
        assert!(!arguments.no_emulate && arguments.non_standard_ptr && arguments.emulate);
        assert!(!parsed("-ne -e p").no_emulate);
        let other = ["margay", "run", "-ne"].map(OsString::from);
        assert_eq!(canonical(other.clone().into_iter()), other);
    }

    #[test]
    fn wrong_values_are_refused() {
        for line in [
            "-b=256 p", "-b=x p", "-d gpu p", "-s=-1 p", "-m=0 p", "-t=x p", "-t= p", "-t 1 p",
        ] {
            let words = ["margay", "waste"].into_iter().chain(line.split(' '));
            let words = canonical(words.map(OsString::from)).split_off(1);
            let parsed = Line::try_parse_from(words);
            assert!(parsed.is_err_and(|error| error.exit_code() == 2), "{line}");
        }
    }

    #[test]
    fn lines_are_read_when_they_are_complete() {
        let log = files::LogFile::new().expect("a file");
        let mut end = File::options()
            .append(true)
            .open(log.path())
            .expect("the file");
        let mut lines = Lines::new(File::open(log.path()).expect("the file"));
        assert!(lines.take().is_empty());
        end.write_all(b"one\ntw").expect("written");
        assert_eq!(lines.take(), [b"one"]);
        end.write_all(b"o\n\nthree\n").expect("written");
        assert_eq!(lines.take(), [&b"two"[..], b"three"]);
        assert!(lines.take().is_empty());
    }
}
