//! Names and small files of the folder of results.

use std::fmt::Write;

use sha1::{Digest, Sha1};

use crate::model::{Level, Map};

/// A moment in local time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalTime {
    /// The month, from 1.
    pub month: u32,
    /// The day of the month, from 1.
    pub day: u32,
    /// The hour.
    pub hour: u32,
    /// The minute.
    pub minute: u32,
    /// The second.
    pub second: u32,
}

/// Returns the name of a process's folder of results: the time at which the process started, and its number.
pub fn trace_folder(start: LocalTime, process: u32) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = MONTHS[(start.month.clamp(1, 12) - 1) as usize];
    format!(
        "{month}{:02}_{:02}{:02}{:02}_{process}",
        start.day, start.hour, start.minute, start.second
    )
}

/// Returns the name of the folder of the kernel that was probed as number `index`, from 0, in the folder `kernel`.
pub fn kernel_folder(index: u64, kernel: &str) -> String {
    let mut name = format!("{index}_");
    for byte in Sha1::digest(kernel.as_bytes()) {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Returns the name of a result file in the folder `result`, from the seconds since the start of the tool.
pub fn result_file(seconds: f64) -> String {
    format!("{seconds:.6}.bin")
}

/// Returns the text of `kernel.info` for a kernel with this number of own parameters.
pub fn kernel_info(kernel: &str, parameters: usize, maps: &[Map]) -> String {
    let mut text = format!("{kernel}\n{parameters}\n{}\n", maps.len());
    for map in maps {
        let level = match map.level {
            Level::Thread => 0,
            Level::Warp => 1,
        };
        let _ = match map.slot_bytes() {
            Some(bytes) => writeln!(text, "{level},{bytes}"),
            None => writeln!(text, "{level},-1"),
        };
    }
    text
}
