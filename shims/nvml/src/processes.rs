//! Which processes use the device: those that have Margay's driver library loaded.

use std::fs;

/// Where the library's name ends in the list of a process's files.
const LIBRARY: &str = "/libcuda.so";

/// Process ids, ascending. Processes of other users, which hide their files, are not among them.
pub fn computing() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = numbers.filter(|&pid| has_library(pid)).collect();
    pids.sort_unstable();
    pids
}

fn has_library(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    // Executable pages of it: the files that other tools open to read are none.
    let is_code = |line: &str| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|r| r.contains('x'))
    };
    maps.lines()
        .any(|line| line.contains(LIBRARY) && is_code(line))
}

/// The file that a process runs.
pub fn name(pid: u32) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(link.to_string_lossy().into_owned())
}
