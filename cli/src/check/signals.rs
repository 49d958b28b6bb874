//! Reacts to signals that `margay check` receives while the program runs.
//!
//! The command must outlive the program, because it prints the report. It passes `SIGHUP` and `SIGTERM` on to the
//! program. It catches `SIGINT` and `SIGQUIT` and does not pass them on, because the terminal sends
//! the signals of its keys (such as Ctrl-C) directly to the program as well.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Makes the system keep the exit status of child processes. Without a handler, the system would discard the status if
/// this process was started with `SIGCHLD` ignored. The children start with the default action for `SIGCHLD`.
///
/// # Errors
/// Returns the system's error if the handler cannot be installed.
pub(crate) fn keep_statuses() -> io::Result<()> {
    signal_hook::flag::register(SIGCHLD, Arc::default()).map(|_| ())
}

/// Starts a program and waits until it ends. Returns its process ID and its exit status.
///
/// # Errors
/// Returns the system's error if the program cannot be started, or for the same reasons as the two functions that this
/// function calls.
pub(crate) fn run(command: &mut Command) -> io::Result<(u32, ExitStatus)> {
    keep_statuses()?;
    let mut child = command.spawn()?;
    let status = wait(&mut child)?;
    Ok((child.id(), status))
}

/// Waits until the program ends. The handlers stay installed afterwards, so that another signal does not end this
/// process before it has printed the report.
///
/// # Errors
/// Returns the system's error if the handlers cannot be installed or the process cannot wait for
/// the program.
fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    let handle = signals.handle();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let passes = thread::spawn(move || {
        for signal in signals.forever() {
            let passed = match signal {
                SIGHUP => Signal::HUP,
                SIGTERM => Signal::TERM,
                _ => continue,
            };
            if let Some(pid) = pid {
                // If the program has ended, the call fails, and the failure is ignored.
                let _ = kill_process(pid, passed);
            }
        }
    });
    let status = child.wait();
    handle.close();
    // The thread cannot panic.
    let _ = passes.join();
    status
}
