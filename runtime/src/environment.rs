//! Reading environment variables. [`crate::settings`] lists them.

use std::sync::OnceLock;

/// Most threads that run kernels.
pub(crate) const MAX_WORKERS: usize = 256;
/// Most multiprocessors that a device reports.
pub(crate) const MAX_SMS: u32 = 1 << 16;

/// A variable's text without white space around it; an empty one is none.
pub(crate) fn env(name: &str) -> Option<String> {
    let text = std::env::var(name).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number from the environment, with K, M and G as powers of 1024.
pub(crate) fn number(name: &str) -> Option<u64> {
    parse(&env(name)?)
}

/// A number, with K, M and G as powers of 1024.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Whether kernels are confined to the memory that CUDA gives them: unless `MARGAY_ISOLATE=0`.
pub(crate) fn isolated() -> bool {
    static ISOLATED: OnceLock<bool> = OnceLock::new();
    *ISOLATED.get_or_init(|| env("MARGAY_ISOLATE").as_deref() != Some("0"))
}
