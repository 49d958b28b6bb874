//! What people are told about kernels whose code is slower than it could be.
//!
//! A kernel that the interpreter runs is named once; with `MARGAY_LOG=fallback` every reason that code generation counts
//! ([`margay_jit::Fallback`]) is shown.

use std::sync::OnceLock;

use margay_jit::CompileError;

use super::kernel::NativeKernel;
use crate::error::tell;

/// What `MARGAY_LOG` asks for.
fn log() -> &'static str {
    static LOG: OnceLock<String> = OnceLock::new();
    LOG.get_or_init(|| std::env::var("MARGAY_LOG").unwrap_or_default())
}

/// The kernel has no native code.
pub(super) fn tell_interpreted(kernel: &str, why: &CompileError) {
    if log() != "off" {
        let reason = why.fallback();
        tell(&format_args!(
            "the kernel {kernel} runs in the interpreter, which is slow: {why} ({})",
            reason.name()
        ));
    }
}

/// The kernel has native code.
pub(super) fn tell_all(name: &str, kernel: &NativeKernel) {
    if log() != "fallback" {
        return;
    }
    let all = kernel.fallbacks();
    if all.is_empty() {
        tell(&format_args!("{name}: no fallback"));
    }
    for (why, count) in all {
        tell(&format_args!(
            "{name}: {} x{count}: {}",
            why.name(),
            why.about()
        ));
    }
}
