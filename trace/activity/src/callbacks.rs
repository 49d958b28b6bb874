//! The numbers of driver functions in callbacks and in records of calls (`CUpti_driver_api_trace_cbid`).

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// Each line contains a number and the name of an exported function of the driver, in ascending order of the numbers.
/// The numbers are those of `cupti_driver_cbid.h` of CUDA 13.5, and of CUDA 12.9 for functions that 13.5 lacks.
const TABLE: &str = include_str!("../data/driver-callbacks.txt");

/// One more than the largest number.
pub const END: u32 = 877;

fn rows() -> impl Iterator<Item = (u32, &'static str)> {
    TABLE.lines().filter_map(|line| {
        let (number, name) = line.split_once(' ')?;
        Some((number.parse().ok()?, name))
    })
}

/// Returns the number of an exported function of the driver; `None` if the headers contain no number for it.
///
/// ```
/// assert_eq!(margay_activity::callbacks::number("cuLaunchKernel"), Some(307));
/// assert_eq!(margay_activity::callbacks::number("margay_settle"), None);
/// ```
pub fn number(function: &str) -> Option<u32> {
    static NUMBERS: LazyLock<FxHashMap<&str, u32>> =
        LazyLock::new(|| rows().map(|(number, name)| (name, number)).collect());
    NUMBERS.get(function).copied()
}

/// Returns the function with a number.
///
/// ```
/// assert_eq!(margay_activity::callbacks::function(307), Some("cuLaunchKernel"));
/// ```
pub fn function(number: u32) -> Option<&'static str> {
    static NAMES: LazyLock<FxHashMap<u32, &str>> = LazyLock::new(|| rows().collect());
    NAMES.get(&number).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_complete_and_in_order() {
        let rows: Vec<(u32, &str)> = rows().collect();
        assert_eq!((rows.len(), TABLE.lines().count()), (795, 795));
        assert!(rows.is_sorted());
        assert!(rows.iter().all(|&(number, _)| number < END));
        // From cupti_driver_cbid.h.
        for (name, known) in [
            ("cuInit", 1),
            ("cuMemAlloc_v2", 243),
            ("cuMemcpyHtoDAsync_v2", 277),
            ("cuLaunchKernelEx", 652),
            ("cuGraphLaunch", 514),
        ] {
            assert_eq!(number(name), Some(known), "{name}");
            assert_eq!(function(known), Some(name));
        }
    }
}
