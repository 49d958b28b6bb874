//! Properties of the host: number of cores and the processor's name.

use std::fs;

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the processor's name, or its architecture if the name is unknown.
pub(crate) fn cpu_name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |(_, name)| name.trim().to_owned(),
        )
}
