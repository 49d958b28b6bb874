//! The results of commands, and functions that print them.
//!
//! Invariant: a command does not fail if the reader of the output exits early (`margay support |
//! head`).

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The text that a command prints, and its exit status.
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) status: u8,
}

impl Report {
    /// Returns a report that consists of `text` and the exit status 0.
    pub(crate) fn of(text: String) -> Report {
        Report { text, status: 0 }
    }
}

/// An error message and an exit status of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) status: u8,
}

impl Failure {
    /// Returns a failure that consists of `message` and the exit status `status`.
    pub(crate) fn with_status(message: impl Into<String>, status: u8) -> Failure {
        Failure {
            message: message.into(),
            status,
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::with_status(message, 1)
    }
}

impl From<margay::Error> for Failure {
    fn from(error: margay::Error) -> Failure {
        Failure::from(error.to_string())
    }
}

/// The result of a command.
pub(crate) type Outcome = Result<Report, Failure>;

/// Writes `text` to standard output. Returns true if the text was written, or if the reader of the output has exited.
/// After any other error, writes the error to standard error and returns false.
pub(crate) fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => true,
        Err(error) => {
            complain(&format!("standard output: {error}"));
            false
        }
    }
}

/// Writes `line` to standard error, without a prefix.
pub(crate) fn note(line: &str) {
    // If standard error is closed, the program cannot report the error.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes the error message `message` to standard error.
pub(crate) fn complain(message: &str) {
    let mut err = io::stderr().lock();
    let label = if colours(&io::stderr()) {
        "\x1b[1;31merror:\x1b[0m"
    } else {
        "error:"
    };
    let _ = writeln!(err, "{label} {}", message.trim_end());
}

/// Returns whether commands colour their output to `stream`: if it is a terminal and `NO_COLOR` is
/// empty or not set.
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && stream.is_terminal()
}

/// The meaning of a word in a report, which determines the word's colour on a terminal.
#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Good,
    Bad,
    Heading,
}

/// Returns `text`, coloured if standard output is a terminal.
pub(crate) fn paint(text: &str, paint: Paint) -> String {
    if !colours(&io::stdout()) {
        return text.to_owned();
    }
    let code = match paint {
        Paint::Good => "32",
        Paint::Bad => "1;31",
        Paint::Heading => "1",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Runs `work`. If the work takes over a second, shows a spinner on the terminal until the work ends.
pub(crate) fn with_progress<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return work();
    }
    let (done, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if wait.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let spinner = indicatif::ProgressBar::new_spinner().with_message(what.to_owned());
                spinner.enable_steady_tick(Duration::from_millis(100));
                let _ = wait.recv();
                spinner.finish_and_clear();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail with an error. Without a handler for `SIGXFSZ`, such a
/// write would end this process. Programs that this process starts or executes have the default action.
///
/// # Errors
/// Returns the system's error if the handler cannot be installed.
pub(crate) fn survive_limits() -> io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default()).map(|_| ())
}
