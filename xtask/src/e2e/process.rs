//! Runs a child process with captured output and a time limit, and can send it a signal when it is ready.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::exec;

/// The line that a program prints when it is ready to receive a signal.
const READY: &str = "READY";
/// Time between two tests whether the child process still runs.
const POLL: Duration = Duration::from_millis(20);

/// A running child process.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<(Stream, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// How a child process ended, and its output.
pub(crate) struct Ended {
    /// The exit code. As in a shell, it is 128 + N if signal N ended the process. `None` if the
    /// process exceeded the time limit.
    pub(crate) code: Option<i32>,
    status: ExitStatus,
    timed_out: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Returns a text that describes how the process ended.
    pub(crate) fn how(&self) -> String {
        match (self.timed_out, self.status.signal(), self.code) {
            (true, ..) => "the time limit".to_owned(),
            (_, Some(signal), _) => format!("signal {signal}"),
            (_, _, Some(code)) => format!("exit code {code}"),
            _ => self.status.to_string(),
        }
    }
}

impl Process {
    /// Starts `command` in a new process group, so that a signal to the group also ends the
    /// children of the process.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command
            .spawn()
            .map_err(|e| format!("{}: {e}", exec::show(command)))?;
        let (sender, lines) = channel();
        read(
            child.stdout.take().expect("piped"),
            Stream::Out,
            sender.clone(),
        );
        read(child.stderr.take().expect("piped"), Stream::Err, sender);
        Ok(Process { child, lines })
    }

    /// Waits until the process ends. After the time `limit`, kills the process and its children.
    /// Sends `signal` to the process group as soon as the program has printed `READY`.
    pub(crate) fn wait(
        mut self,
        limit: Duration,
        mut signal: Option<&str>,
    ) -> Result<Ended, String> {
        let started = Instant::now();
        let mut said = [String::new(), String::new()];
        let mut timed_out = false;
        let status = loop {
            match self.lines.recv_timeout(POLL) {
                Ok((stream, line)) => {
                    if stream == Stream::Out && line.trim_end() == READY {
                        signal.take().map_or(Ok(()), |s| self.send(s))?;
                    }
                    said[stream as usize] += &line;
                }
                Err(ended) => {
                    if let Some(status) = self.child.try_wait().map_err(|e| e.to_string())? {
                        break status;
                    }
                    if ended == RecvTimeoutError::Disconnected {
                        std::thread::sleep(POLL);
                    }
                }
            }
            if started.elapsed() > limit {
                timed_out = true;
                self.send("KILL")?;
                break self.child.wait().map_err(|e| e.to_string())?;
            }
        };
        for (stream, line) in self.lines {
            said[stream as usize] += &line;
        }
        let [stdout, stderr] = said;
        Ok(Ended {
            code: status
                .code()
                .or(status.signal().map(|signal| 128 + signal))
                .filter(|_| !timed_out),
            status,
            timed_out,
            stdout,
            stderr,
        })
    }

    /// Sends a signal to the child's process group.
    fn send(&self, signal: &str) -> Result<(), String> {
        let group = format!("-{}", self.child.id());
        exec::run(Command::new("kill").args(["-s", signal, "--", &group]))
    }
}

/// Sends each line that it reads from `from` to the channel `to`, until `from` is closed.
fn read(from: impl Read + Send + 'static, stream: Stream, to: Sender<(Stream, String)>) {
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if to.send((stream, text)).is_err() {
                return;
            }
            line.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration, signal: Option<&str>) -> Ended {
        let process = Process::start(Command::new("sh").args(["-c", script])).expect("starts");
        process.wait(limit, signal).expect("waits")
    }

    #[test]
    fn gathers_output_and_code() {
        let ended = shell(
            "echo one; echo two >&2; printf three; exit 7",
            Duration::from_secs(60),
            None,
        );
        assert_eq!(
            (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
            (Some(7), "one\nthree", "two\n")
        );
    }

    #[test]
    fn sends_the_signal_when_ready() {
        let script = "trap 'echo got it; exit 3' INT; echo READY; while :; do sleep 0.05; done";
        let ended = shell(script, Duration::from_secs(60), Some("INT"));
        assert_eq!(
            (ended.code, ended.stdout.as_str()),
            (Some(3), "READY\ngot it\n")
        );
    }

    #[test]
    fn a_signal_counts_from_128() {
        let ended = shell("kill -TERM $$", Duration::from_secs(60), None);
        assert_eq!((ended.code, ended.how().as_str()), (Some(143), "signal 15"));
    }

    #[test]
    fn ends_what_hangs() {
        let ended = shell("sleep 600", Duration::from_millis(100), None);
        assert_eq!((ended.code, ended.how().as_str()), (None, "the time limit"));
    }
}
