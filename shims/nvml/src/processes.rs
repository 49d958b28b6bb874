//! Lists the processes that use the device. A process uses the device if it has loaded a driver
//! library (`libcuda.so`).

use std::fs;

/// If the path of a file that a process has mapped contains this text, the file is a driver
/// library.
const LIBRARY: &str = "/libcuda.so";

/// Returns the IDs of the processes that use the device, in ascending order. Processes of other
/// users are absent, because their mappings are not readable.
pub fn computing() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = numbers.filter(|&pid| has_library(pid)).collect();
    pids.sort_unstable();
    pids
}

fn has_library(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    // Only executable mappings count, because other tools may map the file to read it.
    let is_code = |line: &str| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|r| r.contains('x'))
    };
    maps.lines()
        .any(|line| line.contains(LIBRARY) && is_code(line))
}

/// Returns the path of the program that a process runs.
pub fn name(pid: u32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(link.to_string_lossy().into_owned())
}
