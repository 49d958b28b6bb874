//! A process that runs kernels and takes samples for another process.
//!
//! The process reads one request from each line of its input and writes one answer as a line of its output. The first
//! line of its output is [`GREETING`]. Requests:
//!
//! - `load SCALE KERNEL` loads the kernel with this name, compares its results with the expected results and warms up.
//!   The answer is the number of seconds of a run.
//! - `sample RUNS` runs the loaded kernel RUNS times. The answer is the mean number of seconds of a run.
//!
//! The answer to a request that fails is `error` and the reason. The process ends at the end of its input.

use std::io::{BufRead, Write};

use crate::case::Scale;
use crate::contender::driver::Driver;
use crate::contender::margay::Margay;
use crate::contender::{Contender, Loaded, checked};
use crate::{kernels, measure};

/// The first line that a server writes. It states the version of the requests.
pub(super) const GREETING: &str = "margay bench server 1";

/// Returns the name of a scale in requests.
pub(super) fn name(scale: Scale) -> &'static str {
    match scale {
        Scale::Full => "full",
        Scale::Small => "small",
    }
}

/// Answers requests from standard input until its end, with a number of workers. If `driver` is the path of a driver
/// library, this library runs the kernels; otherwise this program runs them.
///
/// # Errors
/// Returns an error if the runtime or driver does not start, or if an answer cannot be written.
pub fn serve(workers: usize, driver: Option<&str>) -> Result<(), String> {
    let contender: Box<dyn Contender> = match driver {
        Some(path) => Box::new(Driver::open(path).map_err(|e| format!("{path}: {e}"))?),
        None => Box::new(Margay::with_workers(Some(workers))?),
    };
    answer(&*contender, std::io::stdin().lock(), std::io::stdout())
}

/// Reads requests until the end of `input`, and writes an answer to each.
fn answer(
    contender: &dyn Contender,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), String> {
    let mut server = Server {
        contender,
        loaded: None,
    };
    let mut write = |line: &str| {
        writeln!(output, "{line}")
            .and_then(|()| output.flush())
            .map_err(|e| e.to_string())
    };
    write(GREETING)?;
    for line in input.lines() {
        let line = line.map_err(|e| e.to_string())?;
        match server.seconds(&line) {
            Ok(seconds) => write(&format!("{seconds:e}"))?,
            Err(why) => write(&format!("error {}", why.replace('\n', " ")))?,
        }
    }
    Ok(())
}

struct Server<'a> {
    contender: &'a dyn Contender,
    loaded: Option<Box<dyn Loaded>>,
}

impl Server<'_> {
    /// Performs a request and returns the number of seconds of a run.
    fn seconds(&mut self, request: &str) -> Result<f64, String> {
        match request.split_once(' ') {
            Some(("load", rest)) => self.load(rest),
            Some(("sample", runs)) => self.sample(runs),
            _ => Err(format!("unknown request {request}")),
        }
    }

    fn load(&mut self, arguments: &str) -> Result<f64, String> {
        let scales = [Scale::Full, Scale::Small];
        let known = arguments.split_once(' ').and_then(|(word, kernel)| {
            let scale = scales.into_iter().find(|scale| name(*scale) == word)?;
            Some((scale, kernels::all().find(|case| case.name == kernel)?))
        });
        let (scale, case) = known.ok_or_else(|| format!("unknown kernel {arguments}"))?;
        self.loaded = None;
        let work = (case.make)(scale);
        let mut loaded = checked(self.contender, case, &work)?;
        let mut failure = None;
        let seconds = measure::warm_up(|| run(&mut *loaded, &mut failure));
        self.loaded = Some(loaded);
        failure.map_or(Ok(seconds), Err)
    }

    fn sample(&mut self, runs: &str) -> Result<f64, String> {
        let runs = runs.parse::<u32>().ok().filter(|runs| *runs > 0);
        let runs = runs.ok_or("the number of runs is not a positive number")?;
        let loaded = self.loaded.as_mut().ok_or("no kernel is loaded")?;
        let mut failure = None;
        let seconds = measure::sample(runs, || run(&mut **loaded, &mut failure));
        failure.map_or(Ok(seconds), Err)
    }
}

/// Runs the kernel once, and keeps the first error.
fn run(loaded: &mut dyn Loaded, failure: &mut Option<String>) {
    if let Err(why) = loaded.run() {
        failure.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_line_by_line() {
        let contender = Margay::with_workers(Some(1)).expect("starts");
        let requests = "sample 3\nload small saxpy, in L2\nsample 3\nsample 0\nload small none\nload huge saxpy\nstop\n";
        let mut output = Vec::new();
        answer(&contender, requests.as_bytes(), &mut output).expect("answers");
        let output = String::from_utf8(output).expect("text");
        let lines: Vec<&str> = output.lines().collect();
        assert_eq!(lines[..2], [GREETING, "error no kernel is loaded"]);
        for seconds in &lines[2..4] {
            assert!(
                seconds.parse::<f64>().is_ok_and(|seconds| seconds > 0.0),
                "{seconds}"
            );
        }
        assert_eq!(
            lines[4..],
            [
                "error the number of runs is not a positive number",
                "error unknown kernel small none",
                "error unknown kernel huge saxpy",
                "error unknown request stop",
            ]
        );
    }
}
