//! Collects the facts that a report states beside the measured times: the machine, its load, the
//! version of the compiler, the commit and the date.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// The machine on which times were measured, and the versions of the software.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// The load average of the last minute.
    pub(crate) load: f64,
    pub(crate) rustc: String,
}

impl Machine {
    /// Returns the facts about this machine, and its load at the time of the call.
    pub(crate) fn here() -> Machine {
        Machine {
            date: today(),
            commit: output("git", &["describe", "--always", "--dirty"]),
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            load: load(),
            rustc: output("rustc", &["--version"]),
        }
    }

    /// Returns whether the machine was busy with other work when these facts were collected.
    pub(crate) fn busy(&self) -> bool {
        self.load > 1.25 * self.cores as f64
    }
}

/// Runs `program` and returns its output without white space at both ends.
fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let said = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    said.ok()
        .filter(|s| !s.is_empty())
        .unwrap_or_else(|| format!("unknown {program}"))
}

fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|l| l.strip_prefix("model name"));
    name.map_or(std::env::consts::ARCH, |n| {
        n.trim_start_matches([' ', '\t', ':'])
    })
    .to_owned()
}

/// Returns the number of bytes of a core's second-level cache; 1 MiB if the system does not report it.
pub(crate) fn second_level_cache() -> u64 {
    let folder = "/sys/devices/system/cpu/cpu0/cache/index2";
    let read = |file: &str| std::fs::read_to_string(format!("{folder}/{file}")).ok();
    let size = (read("level").as_deref().map(str::trim) == Some("2"))
        .then(|| read("size"))
        .flatten();
    let kilobytes = size.and_then(|size| size.trim().strip_suffix('K')?.parse::<u64>().ok());
    kilobytes.map_or(1 << 20, |kilobytes| kilobytes << 10)
}

fn load() -> f64 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = load.split(' ').next().and_then(|load| load.parse().ok());
    first.unwrap_or(0.0)
}

fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let (year, month, day) = date(since.map_or(0, |d| d.as_secs() / 86_400));
    format!("{year}-{month:02}-{day:02}")
}

/// Returns the date `days` days after 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        assert_eq!(super::date(0), (1970, 1, 1));
        // Expected values: `date -d @951782400`, `date -d @1735603200`.
        assert_eq!(super::date(951_782_400 / 86_400), (2000, 2, 29));
        assert_eq!(super::date(1_735_603_200 / 86_400), (2024, 12, 31));
    }
}
