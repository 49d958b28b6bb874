//! Reads environment variables. [`crate::settings`] lists them.

use std::sync::OnceLock;

/// Maximum number of worker threads.
pub(crate) const MAX_WORKERS: usize = 256;
/// Maximum number of multiprocessors that a device reports.
pub(crate) const MAX_SMS: u32 = 1 << 16;

/// Returns the text of a variable without surrounding white space; `None` if it is unset or empty.
pub(crate) fn env(name: &str) -> Option<String> {
    let text = std::env::var(name).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads a number from a variable; the suffixes K, M and G are powers of 1024. Returns `None` if the variable is unset
/// or not a number.
pub(crate) fn number(name: &str) -> Option<u64> {
    parse(&env(name)?)
}

/// Parses a number; the suffixes K, M and G are powers of 1024.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Returns whether kernels may access only the memory that CUDA permits. This is the default;
/// `MARGAY_ISOLATE=0` disables it.
pub(crate) fn isolated() -> bool {
    static ISOLATED: OnceLock<bool> = OnceLock::new();
    *ISOLATED.get_or_init(|| env("MARGAY_ISOLATE").as_deref() != Some("0"))
}

/// Returns whether the runtime places device memory below 4 GiB, which modules with 32-bit
/// addresses require. This is so if `MARGAY_ADDRESS_SIZE=32` is set.
pub(crate) fn narrow_addresses() -> bool {
    env("MARGAY_ADDRESS_SIZE").as_deref() == Some("32")
}
