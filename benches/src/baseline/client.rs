//! Starts a server process and sends requests to it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::server::{GREETING, name};
use crate::case::Scale;

/// A server process. It ends when this value is dropped.
pub(super) struct Client {
    child: Child,
    /// `None` only while this value is dropped.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a server of this program.
    ///
    /// # Errors
    /// Returns an error if the process does not start or does not answer.
    pub(super) fn of_this_build(workers: usize) -> Result<Client, String> {
        Client::start(Command::new(this_program()?), workers)
    }

    /// Starts a server of the baseline. If `baseline` is a shared library, this program opens it and uses it through
    /// the driver API; otherwise it is a program.
    ///
    /// # Errors
    /// Returns an error if the process does not start or does not answer.
    pub(super) fn of_baseline(baseline: &str, workers: usize) -> Result<Client, String> {
        if !Path::new(baseline).is_file() {
            return Err(format!("{baseline}: no such file"));
        }
        if !is_library(baseline) {
            return Client::start(Command::new(program(baseline)), workers)
                .map_err(|why| format!("{baseline}: {why}"));
        }
        let mut command = Command::new(this_program()?);
        command.env("MARGAY_WORKERS", workers.to_string());
        command.args(["bench", "--driver", baseline]);
        Client::serve(command, workers).map_err(|why| format!("{baseline}: {why}"))
    }

    fn start(mut command: Command, workers: usize) -> Result<Client, String> {
        command.arg("bench");
        Client::serve(command, workers)
    }

    /// Starts the command with the argument that makes the program a server.
    fn serve(mut command: Command, workers: usize) -> Result<Client, String> {
        let mut child = command
            .args(["--serve", &workers.to_string()])
            // Each process compiles its code, so that neither build runs code that another build stored on disk.
            .env("MARGAY_CACHE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| e.to_string())?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut client = Client {
            child,
            requests,
            answers,
        };
        match client.line() {
            Ok(line) if line == GREETING => Ok(client),
            _ => Err("the program does not support `bench --baseline`".to_owned()),
        }
    }

    /// Loads a kernel, compares its results with the expected results, and warms up. Returns the number of seconds of a
    /// run.
    pub(super) fn load(&mut self, kernel: &str, scale: Scale) -> Result<f64, String> {
        self.request(&format!("load {} {kernel}", name(scale)))
    }

    /// Returns the number of seconds of a run, as the mean of `runs` runs.
    pub(super) fn sample(&mut self, runs: u32) -> Result<f64, String> {
        self.request(&format!("sample {runs}"))
    }

    fn request(&mut self, request: &str) -> Result<f64, String> {
        let requests = self.requests.as_mut().ok_or("the process has ended")?;
        writeln!(requests, "{request}").map_err(|e| e.to_string())?;
        let answer = self.line()?;
        match answer.strip_prefix("error ") {
            Some(why) => Err(why.to_owned()),
            None => answer
                .parse()
                .map_err(|_| format!("unexpected answer {answer}")),
        }
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => Err("the process ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The server ends at the end of its input.
        drop(self.requests.take());
        // Its exit status is of no interest: all its answers have been read.
        let _ = self.child.wait();
    }
}

fn this_program() -> Result<std::path::PathBuf, String> {
    std::env::current_exe().map_err(|e| e.to_string())
}

/// Returns whether a file is a shared library, by its name: `libcuda.so` or `libcuda.so.1`.
fn is_library(path: &str) -> bool {
    let name = Path::new(path).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    name.ends_with(".so") || name.contains(".so.")
}

/// Returns the path of a program such that [`Command`] does not search for it in `PATH`.
fn program(path: &str) -> std::path::PathBuf {
    match path.contains('/') {
        true => path.into(),
        false => Path::new(".").join(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        assert!(is_library("old/libcuda.so"));
        assert!(is_library("/usr/lib/libcuda.so.1"));
        assert!(!is_library("target.so/margay"));
        assert!(!is_library("margay"));
    }

    #[test]
    fn files_that_are_no_baseline_are_errors() {
        let missing = Client::of_baseline("/nowhere/margay", 1).err();
        assert!(missing.is_some_and(|why| why.contains("no such file")));
        let other = Client::of_baseline("/bin/true", 1).err();
        assert!(other.is_some_and(|why| why.contains("--baseline")));
    }
}
