//! Determines which devices a process sees and in which order, from the variable
//! `CUDA_VISIBLE_DEVICES` (CUDA C++ programming guide, "CUDA environment variables").
//!
//! The variable is a list of numbers or of UUIDs, separated by commas. A UUID has the form `GPU-` with enough digits to
//! identify one device. The list ends before the first invalid entry. An entry is invalid if it
//! names no device, if it is a number in a list that begins with a UUID or the reverse, or if it
//! names an instance of a partitioned GPU (`MIG-`). A list that names a device twice counts as
//! empty. If an entry is a number, its value is the number that the C function `strtoul` reads at
//! the start of the entry.
//!
//! A device has a *number* among all devices of the machine, which NVML uses, and an *ordinal* among the devices that
//! the process sees.

use std::sync::OnceLock;

use crate::environment::number;

/// Maximum number of devices. The number is limited because each device has its own PCI bus number.
pub const MAX_DEVICES: u32 = 64;

/// Returns the UUID of the device with the number `number`. The UUID depends only on the number.
pub fn uuid_of(number: i32) -> [u8; 16] {
    let mut bytes = *b"Margay-CPU-dev-0";
    bytes[15] += number as u8;
    bytes
}

/// The environment variable that selects the visible devices.
pub const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Prefix of a device's UUID as text.
const UUID_PREFIX: &str = "GPU-";

/// Returns the UUID of the device with the number `number` in the form that tools print:
/// `GPU-4d617267-6179-2d43-5055-2d6465762d30`.
pub fn uuid_text(number: u32) -> String {
    let hex: String = uuid_of(number as i32)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    format!("{UUID_PREFIX}{}", parts.join("-"))
}

/// Returns the number of devices of the machine: the value of `MARGAY_DEVICES`, or 1 if the
/// variable is not set.
pub(crate) fn count() -> u32 {
    number("MARGAY_DEVICES")
        .and_then(|n| u32::try_from(n).ok())
        .filter(|devices| (1..=MAX_DEVICES).contains(devices))
        .unwrap_or(1)
}

/// Returns the value of `CUDA_VISIBLE_DEVICES`, if it is set. An entry with invalid UTF-8 names no device.
pub(crate) fn list() -> Option<String> {
    let list = std::env::var_os(VISIBLE_DEVICES)?;
    Some(list.to_string_lossy().into_owned())
}

/// Returns the numbers of the visible devices of a machine with `devices` devices, in the order of
/// their ordinals. `list` is the value of `CUDA_VISIBLE_DEVICES`.
pub(crate) fn numbers(list: Option<&str>, devices: u32) -> Vec<u32> {
    match list {
        Some(list) => listed(list, devices),
        None => (0..devices).collect(),
    }
}

/// Returns the numbers of the devices that a list names, in the order of the list, in a machine with `devices` devices.
fn listed(list: &str, devices: u32) -> Vec<u32> {
    let by_uuid = list.trim_start().starts_with(UUID_PREFIX);
    let mut numbers = Vec::new();
    for entry in list.split(',') {
        let found = match by_uuid {
            true => by_uuid_prefix(entry.trim(), devices),
            false => leading_number(entry).filter(|number| *number < devices),
        };
        let Some(number) = found else {
            break;
        };
        if numbers.contains(&number) {
            return Vec::new();
        }
        numbers.push(number);
    }
    numbers
}

/// Returns the number of the device whose UUID begins with `entry`; `None` if no device or more
/// than one device has such a UUID.
fn by_uuid_prefix(entry: &str, devices: u32) -> Option<u32> {
    if !entry.starts_with(UUID_PREFIX) {
        return None;
    }
    let begins = |number: &u32| {
        let uuid = uuid_text(*number);
        uuid.get(..entry.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(entry))
    };
    let mut found = (0..devices).filter(begins);
    found.next().filter(|_| found.next().is_none())
}

fn leading_number(entry: &str) -> Option<u32> {
    let entry = entry.trim_start();
    let digits = entry.strip_prefix('+').unwrap_or(entry);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Returns the numbers of the devices that this process sees. The first call reads the environment;
/// all later calls in the process return the same result.
fn of_process() -> &'static [u32] {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    NUMBERS.get_or_init(|| numbers(list().as_deref(), count()))
}

/// Converts a device's ordinal in this process to its number. All processes use the same numbers.
/// Returns an invalid ordinal unchanged.
pub(crate) fn to_number(ordinal: i32) -> i32 {
    let known = usize::try_from(ordinal).ok();
    let number = known.and_then(|ordinal| of_process().get(ordinal));
    number.map_or(ordinal, |number| *number as i32)
}

/// Converts a device's number to its ordinal in this process. Processes use the numbers to identify
/// devices in messages to each other. If this process does not see the device, returns `i32::MAX`,
/// which is not a valid ordinal. Returns a negative number unchanged.
pub(crate) fn to_ordinal(number: i32) -> i32 {
    let Ok(wanted) = u32::try_from(number) else {
        return number;
    };
    let found = of_process().iter().position(|number| *number == wanted);
    found.map_or(i32::MAX, |ordinal| ordinal as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers() {
        for (list, wanted) in [
            ("0,2", &[0, 2][..]),
            ("2,1", &[2, 1]),
            ("3", &[3]),
            // Invalid entries end the list.
            ("0,2,-1,1", &[0, 2]),
            ("0,4,1", &[0]),
            ("4", &[]),
            ("1,,2", &[1]),
            ("1,", &[1]),
            (",1", &[]),
            ("1,x,2", &[1]),
            ("0,99999999999999999999,1", &[0]),
            ("", &[]),
            ("-1", &[]),
            ("none", &[]),
            ("NoDevFiles", &[]),
            // Numbers are read as by `strtoul`.
            (" 1 , 2 ", &[1, 2]),
            ("+1,02", &[1, 2]),
            ("1gpu2,2ampere", &[1, 2]),
            // A duplicate makes the list empty.
            ("0,0", &[]),
            ("0,1,00", &[]),
        ] {
            assert_eq!(listed(list, 4), wanted, "{list:?}");
        }
    }

    #[test]
    fn lists_of_uuids() {
        // The UUIDs differ in the last two digits: 30, 31, 32, and 3a for device 10.
        let third = uuid_text(2);
        let nearly = &third[..third.len() - 1];
        assert_eq!(third, "GPU-4d617267-6179-2d43-5055-2d6465762d32");
        let with = |list: String| listed(&list, 4);
        assert_eq!(with(third.clone()), [2]);
        assert_eq!(with(third.to_uppercase()), [2], "digits of either case");
        assert_eq!(with(format!("{third},{}", uuid_text(0))), [2, 0]);
        assert_eq!(with(nearly.to_owned()), [0u32; 0], "not the only one");
        assert_eq!(with(format!("{third}0")), [0u32; 0], "too long");
        assert_eq!(with(format!("{third},{third}")), [0u32; 0], "twice");
        assert_eq!(with(format!("{third},1")), [2], "no number among UUIDs");
        assert_eq!(with(format!("1,{third}")), [1], "nor the other way");
        assert_eq!(with(format!("MIG-{third}")), [0u32; 0]);
        assert_eq!(with(format!("MIG-{third}/1/0")), [0u32; 0]);
        assert_eq!(with(format!("{third},MIG-{third}")), [2]);
        assert_eq!(listed("GPU-4d61", 1), [0], "of one device a part is enough");
        assert_eq!(listed("GPU-", 1), [0]);
        assert_eq!(listed("GPU-4e", 1), [0u32; 0]);
        assert_eq!(listed("GPU-4d617267-6179-2d43-5055-2d6465762d3", 1), [0]);
        // A character that is not ASCII.
        assert_eq!(listed("GPU-é", 4), [0u32; 0]);
    }
}
