//! Measures costs that a program has only once: the time until the first result, and the time to load a large image.
//!
//! Each cost is measured in a separate process ([`Once::measure`] starts this program again, as `margay bench --once`),
//! because a process initialises the runtime only once, and because the peak memory of a process would include the
//! memory of earlier measurements.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Instant;

use margay::{LaunchConfig, Runtime};

use serde::Serialize;

use crate::measure;
use crate::stages;

/// The arguments that make this program measure one cost and print the result. A third argument is the cost's name.
const ARGUMENTS: [&str; 2] = ["bench", "--once"];
/// Number of elements of the vectors of the kernel (y = a x + y) whose result the measured process
/// waits for.
const ELEMENTS: usize = 1024;
/// Number of copies of the ten programs in the large image of 20 MB.
const TURNS: usize = 180;

/// A cost that is measured in a separate process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The time to create a runtime, load a small image, perform three copies, and run y = a x + y.
    FirstResult,
    /// The time to load a large image and to get the result of one of its kernels.
    LargeImage,
}

/// The result of measuring a cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Number of seconds from the start of the runtime to the result.
    pub seconds: f64,
    /// The largest resident memory of the process, in bytes; 0 if the system does not report it.
    pub peak: u64,
}

impl Once {
    const ALL: [Once; 2] = [Once::FirstResult, Once::LargeImage];

    fn name(self) -> &'static str {
        match self {
            Once::FirstResult => "first-result",
            Once::LargeImage => "large-image",
        }
    }

    /// Measures this cost in the calling process.
    ///
    /// # Errors
    /// Returns the error of the runtime, or an error that describes a wrong result.
    pub fn run(self) -> Result<Cost, String> {
        let seconds = match self {
            Once::FirstResult => first_result(stages::SAXPY, "saxpy"),
            Once::LargeImage => first_result(&stages::repeated(stages::PARTS, TURNS), "saxpy_0_0"),
        };
        Ok(Cost {
            seconds: seconds?,
            peak: peak(),
        })
    }

    /// Measures the cost called `name` and formats the result for [`Once::measure`].
    ///
    /// # Errors
    /// Returns an error if the name is unknown, and the errors of [`Once::run`].
    pub fn answer(name: &str) -> Result<String, String> {
        let known = Once::ALL.into_iter().find(|once| once.name() == name);
        let cost = known
            .ok_or_else(|| format!("unknown measurement {name}"))?
            .run()?;
        let mut text = String::new();
        write!(text, "{} {}", cost.seconds, cost.peak).expect("writing to a string");
        Ok(text)
    }

    /// Measures the cost in several processes of this program and returns the medians.
    ///
    /// # Errors
    /// Returns an error if a process does not start or does not print a result.
    pub fn measure(self, code: Code) -> Result<Cost, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let folder = std::env::temp_dir().join(format!("margay-bench-{}", std::process::id()));
        let start = || {
            let mut command = Command::new(&program);
            command
                .args(ARGUMENTS)
                .arg(self.name())
                .env("MARGAY_CACHE", code.setting())
                .env("MARGAY_CACHE_DIR", &folder);
            command.output().map_err(|e| e.to_string())
        };
        if code == Code::Kept {
            start()?;
        }
        let (mut seconds, mut peaks) = (Vec::new(), Vec::new());
        for _ in 0..measure::SAMPLES {
            let output = start()?;
            let text = String::from_utf8_lossy(&output.stdout);
            let cost = read(&text).ok_or_else(|| {
                format!(
                    "{}: {}",
                    self.name(),
                    String::from_utf8_lossy(&output.stderr)
                )
            })?;
            seconds.push(cost.seconds);
            peaks.push(cost.peak);
        }
        // The folder does not exist if nothing was cached.
        let _ = std::fs::remove_dir_all(&folder);
        seconds.sort_by(f64::total_cmp);
        peaks.sort_unstable();
        let middle = measure::SAMPLES / 2;
        Ok(Cost {
            seconds: seconds[middle],
            peak: peaks[middle],
        })
    }
}

/// Where a measured process gets its native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The process compiles its code.
    Compiled,
    /// The process loads its code from the disk cache. The cache does not contain functions whose
    /// compilation takes little time; the process compiles these functions.
    Kept,
}

impl Code {
    /// Returns the value of the environment variable `MARGAY_CACHE` with which a process gets its
    /// native code in the way that `self` states.
    fn setting(self) -> &'static str {
        match self {
            Code::Compiled => "0",
            Code::Kept => "1",
        }
    }
}

/// A measured cost with its name.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Started {
    pub(crate) what: &'static str,
    #[serde(flatten)]
    pub(crate) cost: Cost,
}

/// Measures all costs.
pub(crate) fn measure() -> Result<Vec<Started>, String> {
    let rows = [
        (
            "to the first result (saxpy, 1,024 elements)",
            Once::FirstResult,
            Code::Compiled,
        ),
        (
            "the same, with its code on disk",
            Once::FirstResult,
            Code::Kept,
        ),
        (
            "to the result of one kernel of an image of 20 MB",
            Once::LargeImage,
            Code::Compiled,
        ),
    ];
    let measured = rows.into_iter().map(|(what, once, code)| {
        margay::files::tell(format_args!("starting: {what}"));
        let cost = once.measure(code)?;
        Ok(Started { what, cost })
    });
    measured.collect()
}

fn read(text: &str) -> Option<Cost> {
    let (seconds, peak) = text.trim().split_once(' ')?;
    Some(Cost {
        seconds: seconds.parse().ok()?,
        peak: peak.parse().ok()?,
    })
}

/// Returns the number of seconds from the start of the runtime until the result of `kernel`, a
/// kernel of the PTX `text`, was compared with the expected result.
fn first_result(text: &str, kernel: &str) -> Result<f64, String> {
    let started = Instant::now();
    let y = saxpy(text, kernel).map_err(|e| e.to_string())?;
    let seconds = started.elapsed().as_secs_f64();
    let right = (0..).zip(&y).all(|(i, y)| *y == 2.0 * i as f32 + 1.0);
    match right {
        true => Ok(seconds),
        false => Err(format!("{kernel} computed wrong values")),
    }
}

fn saxpy(text: &str, kernel: &str) -> margay::Result<Vec<f32>> {
    let x: Vec<f32> = (0..ELEMENTS).map(|i| i as f32).collect();
    let runtime = Runtime::new()?;
    let kernel = runtime.load_ptx(text)?.kernel(kernel)?;
    let x = runtime.upload(&x)?;
    let y = runtime.upload(&[1.0f32; ELEMENTS])?;
    let n = ELEMENTS as i32;
    let config = LaunchConfig::linear(n as u32, 256);
    runtime.launch(&kernel, config, (n, 2.0f32, &x, &y))?;
    y.to_vec()
}

/// Returns the largest resident memory of this process so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_result_is_right_and_told() {
        let text = Once::answer("first-result").expect("runs");
        let cost = read(&text).expect("two numbers");
        assert!(cost.seconds > 0.0);
        assert!(Once::answer("nothing").is_err());
        assert_eq!(read("no numbers"), None);
    }

    #[test]
    fn the_kernel_of_a_repeated_image_is_found() {
        let text = stages::repeated(stages::PARTS, 1);
        first_result(&text, "saxpy_0_0").expect("the same kernel under another name");
    }
}
