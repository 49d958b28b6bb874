//! The environment variables of the library: the values that each variable accepts, and a warning for every other
//! value.
//!
//! Invariant: [`VARIABLES`] and the table of `docs/environment.md` name the same variables, except
//! `CUDA_VISIBLE_DEVICES`, which accepts every value. A test checks this. An invalid value has no effect, with one
//! exception: a number of workers above [`MAX_WORKERS`] is reduced to that number.

use std::ffi::OsStr;
use std::sync::Once;
use std::time::Duration;

use crate::checks::{Tools, are_filters, kinds};
use crate::device_config::Capability;
use crate::environment::{MAX_SMS, MAX_WORKERS, parse};
use crate::visible_devices::MAX_DEVICES;

/// An environment variable.
struct Variable {
    name: &'static str,
    /// The accepted values, in words.
    accepted: &'static str,
    accepts: fn(&str) -> bool,
}

/// Returns a row of [`VARIABLES`].
const fn row(name: &'static str, accepted: &'static str, accepts: fn(&str) -> bool) -> Variable {
    Variable {
        name,
        accepted,
        accepts,
    }
}

fn anything(_: &str) -> bool {
    true
}

fn is_switch(text: &str) -> bool {
    matches!(text, "0" | "1")
}

fn within(text: &str, least: u64, most: u64) -> bool {
    parse(text).is_some_and(|number| (least..=most).contains(&number))
}

static VARIABLES: [Variable; 74] = [
    row("MARGAY_WORKERS", "a number from 1 to 256", |text| {
        within(text, 1, MAX_WORKERS as u64)
    }),
    row("MARGAY_ENGINE", "native, interpreter", |text| {
        matches!(text, "native" | "interpreter")
    }),
    row("MARGAY_ISOLATE", "0, 1", is_switch),
    row("MARGAY_ADDRESS_SIZE", "32, 64", |text| {
        matches!(text, "32" | "64")
    }),
    row("MARGAY_NVCC", "a file", anything),
    row("CUDA_MODULE_LOADING", "EAGER, LAZY", |text| {
        matches!(text, "EAGER" | "LAZY")
    }),
    row("MARGAY_LANES", "1, 4, 8, 16, 32", |text| {
        matches!(text, "1" | "4" | "8" | "16" | "32")
    }),
    row("MARGAY_JOINT", "0, 1", is_switch),
    row("MARGAY_WIDE", "0, 1, avx2, exact", |text| {
        matches!(text, "0" | "1" | "avx2" | "exact")
    }),
    row("MARGAY_DETERMINISTIC", "0, 1", is_switch),
    row("MARGAY_ORDER", "reverse", |text| text == "reverse"),
    row(
        "MARGAY_TIME_LIMIT",
        "seconds, more than 0; 0 for none",
        |text| {
            let seconds = text.parse().ok();
            seconds.is_some_and(|seconds| Duration::try_from_secs_f64(seconds).is_ok())
        },
    ),
    row(
        "MARGAY_COMPUTE_CAPABILITY",
        "a capability, as 8.6, 86 or sm_86",
        |text| Capability::parse(text).is_some(),
    ),
    row(
        "MARGAY_DRIVER_VERSION",
        "a number, as 13050 for 13.5",
        |text| within(text, 1, i32::MAX as u64),
    ),
    row("MARGAY_SMS", "a number from 1 to 65536", |text| {
        within(text, 1, u64::from(MAX_SMS))
    }),
    row("MARGAY_DEVICES", "a number from 1 to 64", |text| {
        within(text, 1, u64::from(MAX_DEVICES))
    }),
    row("MARGAY_MEMORY", "bytes, more than 0, as 2G", |text| {
        within(text, 1, u64::MAX)
    }),
    row("MARGAY_DEVICE_NAME", "a name", anything),
    row("MARGAY_CACHE", "0, 1, all", |text| {
        matches!(text, "0" | "1" | "all")
    }),
    row("MARGAY_CACHE_DIR", "a folder", anything),
    row("MARGAY_CACHE_BYTES", "bytes, as 256M", |text| {
        parse(text).is_some()
    }),
    row(
        "MARGAY_CHECK",
        "names of tools with commas between them, or all; 0 for none",
        |text| text == "0" || Tools::named(text).is_some(),
    ),
    row("MARGAY_CHECK_LOG", "a file", anything),
    row("MARGAY_PROFILE", "a folder", anything),
    row(
        "MARGAY_PROBE",
        "a file, or the name of a shipped probe file",
        anything,
    ),
    row("MARGAY_PROBE_DIR", "a folder", anything),
    row(
        "MARGAY_PROBE_KERNELS",
        "texts with colons between them",
        anything,
    ),
    row(
        "MARGAY_PROBE_KERNELS_EXCLUDED",
        "texts with colons between them",
        anything,
    ),
    row("MARGAY_PROBE_CALLBACK", "a file that ends in .py", |text| {
        text.ends_with(".py")
    }),
    row("MARGAY_PROBE_PYTHON", "a program", anything),
    row("MARGAY_PROBE_MODE", "results, benchmark, memory", |text| {
        matches!(text, "results" | "benchmark" | "memory")
    }),
    row(
        "MARGAY_PROBE_QUIRKS",
        "substring, base, behind, with commas between them",
        |text| {
            let mut words = text.split(',');
            words.all(|word| matches!(word, "substring" | "base" | "behind"))
        },
    ),
    row("MARGAY_PROBE_COMPAT", "0, 1", is_switch),
    row("MARGAY_TRACE_PERFETTO", "a folder", anything),
    row("MARGAY_TRACE_CHROME", "a folder", anything),
    row("MARGAY_XPTI_SYCL_NAMES", "0, 1", is_switch),
    row("MARGAY_TRACE_ACCELSIM", "a folder", anything),
    row(
        "MARGAY_TRACE_FORMS",
        "raw, grouped, packed, with commas between them",
        |text| {
            let mut words = text.split(',');
            words.all(|word| matches!(word, "raw" | "grouped" | "packed"))
        },
    ),
    row("MARGAY_TRACE_VERSION", "3, 4, 5, 6", |text| {
        within(text, 3, 6)
    }),
    row("MARGAY_TRACE_ARCHITECTURE", "70, 75, 80, 86", |text| {
        matches!(text, "70" | "75" | "80" | "86")
    }),
    row(
        "MARGAY_PROFILE_COUNTS",
        "launches, instructions, all or reuse",
        |text| matches!(text, "launches" | "instructions" | "all" | "reuse"),
    ),
    row("MARGAY_CHECK_LABEL", "a text", anything),
    row(
        "MARGAY_CHECK_KERNELS",
        "filters, one in each line",
        are_filters,
    ),
    row(
        "MARGAY_CHECK_KERNELS_EXCLUDED",
        "filters, one in each line",
        are_filters,
    ),
    row("MARGAY_CHECK_LAUNCH_SKIP", "a number", |text| {
        parse(text).is_some()
    }),
    row("MARGAY_CHECK_LAUNCH_COUNT", "a number", |text| {
        parse(text).is_some()
    }),
    row("MARGAY_CHECK_LIST_LAUNCHES", "0, 1", is_switch),
    row("MARGAY_CHECK_PADDING", "bytes, at most 1G", |text| {
        within(text, 0, 1 << 30)
    }),
    row(
        "MARGAY_CHECK_AFTER_ERROR",
        "continue, error, kernel, context",
        |text| matches!(text, "continue" | "error" | "kernel" | "context"),
    ),
    row(
        "MARGAY_CHECK_API_ERRORS",
        "all, extended, explicit",
        |text| matches!(text, "all" | "extended" | "explicit"),
    ),
    row("MARGAY_CHECK_INIT_SPACES", "global, shared, all", |text| {
        matches!(text, "global" | "shared" | "all")
    }),
    row("MARGAY_CHECK_UNUSED_MEMORY", "0, 1", is_switch),
    row(
        "MARGAY_CHECK_UNUSED_THRESHOLD",
        "a number from 0 to 100",
        |text| within(text, 0, 100),
    ),
    row(
        "MARGAY_CHECK_STREAM_ORDER",
        "all, use-before-alloc, use-after-free, no",
        |text| matches!(text, "all" | "use-before-alloc" | "use-after-free" | "no"),
    ),
    row("MARGAY_CHECK_BLOCKING", "0, 1", is_switch),
    row("MARGAY_CHECK_RED_ZONES", "bytes, at most 1G", |text| {
        within(text, 0, 1 << 30)
    }),
    row(
        "MARGAY_CHECK_RED_ZONE_BYTE",
        "a number from 0 to 255",
        |text| within(text, 0, 255),
    ),
    row("MARGAY_CHECK_BLOCK_STARTS", "0, 1", is_switch),
    row("MARGAY_CHECK_NULL_FREES", "0, 1", is_switch),
    row("MARGAY_CHECK_SKIP_INVALID", "0, 1", is_switch),
    row("MARGAY_CHECK_END_AT_FIRST", "0, 1", is_switch),
    row(
        "MARGAY_CHECK_KINDS",
        "names of kinds with commas between them",
        |text| kinds(text).is_some(),
    ),
    row("MARGAY_CHECK_LIST_CALLS", "a number", |text| {
        parse(text).is_some()
    }),
    row("MARGAY_CHECK_DEBUGGER", "0, 1", is_switch),
    row("MARGAY_STACK_SIZE", "bytes from 16 to 512K", |text| {
        within(text, 16, 512 << 10)
    }),
    row("MARGAY_DUMP", "a folder", anything),
    row("MARGAY_TRACE_API", "0, 1", is_switch),
    row("MARGAY_LOG", "off or fallback", |text| {
        matches!(text, "off" | "fallback")
    }),
    row("MARGAY_QUIET", "anything", anything),
    row("MARGAY_LIBCUDA", "a file", anything),
    row("MARGAY_CUBLAS", "nvidia", |text| text == "nvidia"),
    row("MARGAY_CURAND", "nvidia", |text| text == "nvidia"),
    row("MARGAY_NCCL", "nvidia", |text| text == "nvidia"),
    row("CUDA_DEVICE_ORDER", "FASTEST_FIRST, PCI_BUS_ID", |text| {
        matches!(text, "FASTEST_FIRST" | "PCI_BUS_ID")
    }),
];

/// Returns whether the value of a variable is the path of a file or folder, which need not be valid UTF-8.
fn is_path(variable: &Variable) -> bool {
    variable.accepted.starts_with("a fo") || variable.accepted == "a file"
}

/// Prints a warning on standard error for each invalid value, but only once in a process.
/// `MARGAY_LOG=off` disables the warnings.
pub(crate) fn review() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("MARGAY_LOG").is_some_and(|value| value == "off") {
            return;
        }
        for variable in &VARIABLES {
            let value = std::env::var_os(variable.name);
            if let Some(warning) = value.and_then(|value| refusal(variable, &value)) {
                // A write error is ignored: standard error is closed, so nothing can be reported.
                margay_jit::files::tell(format_args!("margay: {warning}"));
            }
        }
    });
}

/// Returns a warning if the variable does not accept `value`. An empty value counts as unset.
fn refusal(variable: &Variable, value: &OsStr) -> Option<String> {
    const LONGEST: usize = 40;
    let text = value.to_str().map(str::trim);
    let is_fine = match text {
        Some(text) => text.is_empty() || (variable.accepts)(text),
        None => is_path(variable) || variable.name == "MARGAY_QUIET",
    };
    if is_fine {
        return None;
    }
    let mut shown: String = value.to_string_lossy().chars().take(LONGEST).collect();
    if value.len() > shown.len() {
        shown += "...";
    }
    let effect = match (variable.name, text.and_then(parse)) {
        ("MARGAY_WORKERS", Some(number)) if number > MAX_WORKERS as u64 => {
            format!("is too large, and {MAX_WORKERS} workers are used")
        }
        _ => "is ignored".to_owned(),
    };
    Some(format!(
        "{}={shown} {effect}; accepted: {}",
        variable.name, variable.accepted
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn said(name: &str, value: &str) -> Option<String> {
        let variable = VARIABLES.iter().find(|variable| variable.name == name);
        refusal(variable.expect("a variable"), OsStr::new(value))
    }

    #[test]
    fn the_page_names_the_same_variables() {
        let page = include_str!("../../docs/environment.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let documented: BTreeSet<&str> = rows
            .filter_map(|row| row.split('`').next())
            // Every text is a valid list of devices ("Visible devices").
            .filter(|&name| name != "CUDA_VISIBLE_DEVICES")
            .collect();
        let known: BTreeSet<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        assert_eq!(documented, known);
    }

    #[test]
    fn what_is_not_accepted_is_told_with_what_is() {
        assert_eq!(
            said("MARGAY_ENGINE", "x").as_deref(),
            Some("MARGAY_ENGINE=x is ignored; accepted: native, interpreter")
        );
        assert_eq!(
            said("MARGAY_WORKERS", "10000").as_deref(),
            Some(
                "MARGAY_WORKERS=10000 is too large, and 256 workers are used; accepted: a number from 1 to 256"
            )
        );
        let refused = [
            ("MARGAY_TIME_LIMIT", "-1"),
            ("MARGAY_TIME_LIMIT", "inf"),
            ("MARGAY_TIME_LIMIT", "NaN"),
            ("MARGAY_TIME_LIMIT", "1e300"),
            ("MARGAY_WORKERS", "0"),
            ("MARGAY_WORKERS", "-3"),
            ("MARGAY_WORKERS", "99999999999999999999"),
            ("MARGAY_LANES", "2"),
            ("MARGAY_DETERMINISTIC", "yes"),
            ("MARGAY_ORDER", "forward"),
            ("MARGAY_COMPUTE_CAPABILITY", "fast"),
            ("MARGAY_DRIVER_VERSION", "13.5"),
            ("MARGAY_SMS", "0"),
            ("MARGAY_DEVICES", "65"),
            ("MARGAY_MEMORY", "lots"),
            ("MARGAY_MEMORY", "99999999999G"),
            ("MARGAY_CACHE", "no"),
            ("MARGAY_CACHE_BYTES", "1.5G"),
            ("MARGAY_CHECK", "race"),
            ("MARGAY_CHECK_KERNELS", "kernel"),
            ("MARGAY_CHECK_PADDING", "2G"),
            ("MARGAY_CHECK_UNUSED_THRESHOLD", "101"),
            ("MARGAY_TRACE_API", "2"),
            ("MARGAY_LOG", "on"),
            ("CUDA_DEVICE_ORDER", "SLOWEST_FIRST"),
        ];
        for (name, value) in refused {
            let text = said(name, value).unwrap_or_else(|| panic!("{name}={value}"));
            assert!(text.contains(name) && text.contains("accepted: "), "{text}");
        }
        let fine = [
            ("MARGAY_ENGINE", "native"),
            ("MARGAY_ENGINE", ""),
            ("MARGAY_ENGINE", "  "),
            ("MARGAY_TIME_LIMIT", "0.5"),
            ("MARGAY_TIME_LIMIT", " 10 "),
            ("MARGAY_WORKERS", "256"),
            ("MARGAY_COMPUTE_CAPABILITY", "sm_90"),
            ("MARGAY_MEMORY", "3G"),
            ("MARGAY_QUIET", "whatever"),
            ("MARGAY_CHECK", "memcheck,synccheck"),
            ("MARGAY_CHECK", "0"),
            ("MARGAY_CHECK_KERNELS", "kns=a\nregex=b{1,2}"),
        ];
        for (name, value) in fine {
            assert_eq!(said(name, value), None);
        }
        let huge = "9".repeat(1 << 20);
        assert!(said("MARGAY_SMS", &huge).expect("refused").len() < 200);
    }

    #[cfg(unix)]
    #[test]
    fn bytes_that_are_no_text_are_file_names_at_most() {
        use std::os::unix::ffi::OsStrExt;
        let bytes = OsStr::from_bytes(b"/tmp/\xff\xfe");
        for variable in &VARIABLES {
            let is_fine = refusal(variable, bytes).is_none();
            let may_be = is_path(variable) || variable.name == "MARGAY_QUIET";
            assert_eq!(is_fine, may_be, "{}", variable.name);
        }
    }
}
