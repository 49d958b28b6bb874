//! Messages about fallbacks, which are slower than the code that the compiler normally generates.
//!
//! A kernel that the interpreter runs is reported once, unless `MARGAY_LOG=off`. With `MARGAY_LOG=fallback`, every
//! fallback that code generation counts ([`margay_jit::Fallback`]) is also reported.

use std::sync::OnceLock;

use margay_jit::CompileError;

use super::kernel::NativeKernel;
use crate::error::tell;

/// Returns the value of `MARGAY_LOG`.
fn log() -> &'static str {
    static LOG: OnceLock<String> = OnceLock::new();
    LOG.get_or_init(|| std::env::var("MARGAY_LOG").unwrap_or_default())
}

/// Reports that the interpreter runs a kernel, unless the reports are switched off.
pub(super) fn tell_interpreted(kernel: &str, why: &CompileError) {
    if log() != "off" {
        let reason = why.fallback();
        tell(&format_args!(
            "the kernel {kernel} runs in the interpreter, which is slow: {why} ({})",
            reason.name()
        ));
    }
}

/// Reports all fallbacks in the native code of a kernel if `MARGAY_LOG` requests them.
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
