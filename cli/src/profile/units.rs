//! Numbers as people read them.

use crate::check::words::grouped;

/// Returns a count with at most four significant digits and a unit: `1,234`, `12.3 k`, `4.56 M`.
pub(super) fn count(value: u64) -> String {
    match value {
        0..10_000 => grouped(value),
        _ => scaled(
            value as f64,
            1000.0,
            &["", " k", " M", " G", " T", " P", " E"],
        ),
    }
}

/// Returns a number of bytes with a binary unit.
pub(super) fn bytes(value: u64) -> String {
    match value {
        0..1024 => format!("{value} B"),
        _ => scaled(
            value as f64,
            1024.0,
            &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"],
        ),
    }
}

/// Returns a time with a unit.
pub(super) fn seconds(value: f64) -> String {
    match value {
        _ if value >= 1.0 => format!("{value:.2} s"),
        _ if value >= 1e-3 => format!("{:.2} ms", value * 1e3),
        _ => format!("{:.1} us", value * 1e6),
    }
}

/// Returns a share in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.1} %", 100.0 * part as f64 / whole as f64),
    }
}

/// Returns a quotient with two digits; `-` if the divisor is 0.
pub(super) fn ratio(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => format!("{:.2}", part as f64 / whole as f64),
    }
}

fn scaled(mut value: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // A value that would be printed as `1000` gets the next unit.
    while value >= base - 0.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = match value {
        _ if value >= 99.95 => 0,
        _ if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        assert_eq!(
            [0, 999, 1000, 9999].map(count),
            ["0", "999", "1,000", "9,999"]
        );
        assert_eq!(count(12_345), "12.3 k");
        assert_eq!(count(999_999), "1.00 M");
        assert_eq!(count(123_456_789), "123 M");
        assert_eq!(count(u64::MAX), "18.4 E");
        assert_eq!(
            [0, 1023, 1024, 5 << 20].map(bytes),
            ["0 B", "1023 B", "1.00 KiB", "5.00 MiB"]
        );
        assert_eq!(
            [2.5, 0.002, 0.0000015].map(seconds),
            ["2.50 s", "2.00 ms", "1.5 us"]
        );
        assert_eq!(
            (percent(1, 8), ratio(1, 8), ratio(1, 0)),
            ("12.5 %".into(), "0.12".into(), "-".into())
        );
    }
}
