//! The size of the cache of a core, for which panels are sized. Results do not depend on it.

use std::sync::OnceLock;

/// Bytes of the second level of the cache, between 256 KiB and 2 MiB.
pub(super) fn bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size")
            .unwrap_or_default();
        let kibibytes = text
            .trim()
            .strip_suffix('K')
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(512usize);
        kibibytes.clamp(256, 2048) * 1024
    })
}
