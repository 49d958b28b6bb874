//! Messages about fallbacks, which are slower than the code that the compiler normally generates.
//!
//! If the interpreter runs a kernel because native code cannot be generated, a message about this
//! kernel is printed before its first launch, unless `MARGAY_LOG=off`. With `MARGAY_LOG=fallback`,
//! messages about all fallbacks that code generation counts ([`margay_jit::Fallback`]) are also
//! printed.

use std::sync::OnceLock;

use margay_jit::{CompileError, Fallback};
use parking_lot::Mutex;

use super::kernel::NativeKernel;
use crate::error::tell;

/// Returns the value of the environment variable `MARGAY_LOG`; empty if it is not set.
fn log() -> &'static str {
    static LOG: OnceLock<String> = OnceLock::new();
    LOG.get_or_init(|| std::env::var("MARGAY_LOG").unwrap_or_default())
}

/// Prints that the interpreter runs `kernel` and the reason `why`, unless `MARGAY_LOG=off`.
pub(super) fn tell_interpreted(kernel: &str, why: &CompileError) {
    if log() != "off" {
        let reason = why.fallback();
        tell(&format_args!(
            "the kernel {kernel} runs in the interpreter, which is slow: {why} ({})",
            reason.name()
        ));
    }
}

/// Prints the fallbacks in the native code of a kernel if `MARGAY_LOG=fallback`. Each further call
/// for the same kernel prints only the fallbacks that are new or whose count has changed since the
/// previous call. Fallbacks are added later because some code of a kernel is compiled later, for
/// example when a launch first uses another block shape.
pub(super) fn tell_all(name: &str, kernel: &NativeKernel) {
    if log() == "fallback" {
        for line in kernel.printed.lines(name, kernel.fallbacks()) {
            tell(&line);
        }
    }
}

/// The fallbacks of a kernel, with their counts, at the time of the last call of [`tell_all`];
/// `None` before the first call.
#[derive(Debug, Default)]
pub(super) struct Printed(Mutex<Option<Vec<(Fallback, u32)>>>);

impl Printed {
    /// Returns one message for each fallback in `all` that is new or whose count has changed since
    /// the previous call.
    fn lines(&self, name: &str, all: Vec<(Fallback, u32)>) -> Vec<String> {
        let mut printed = self.0.lock();
        let known = printed.as_deref();
        let mut lines = Vec::new();
        if all.is_empty() && known.is_none() {
            lines.push(format!("{name}: no fallback"));
        }
        for (why, count) in &all {
            if !known.is_some_and(|known| known.contains(&(*why, *count))) {
                let (reason, about) = (why.name(), why.about());
                lines.push(format!("{name}: {reason} x{count}: {about}"));
            }
        }
        *printed = Some(all);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fallback_is_reported_again_only_with_another_count() {
        let printed = Printed::default();
        assert_eq!(printed.lines("k", Vec::new()), ["k: no fallback"]);
        assert!(printed.lines("k", Vec::new()).is_empty());
        let first = vec![(Fallback::NarrowCode, 1), (Fallback::UnrolledLanes, 2)];
        let lines = printed.lines("k", first.clone());
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("k: unrolled-lanes x2: "), "{lines:?}");
        assert!(printed.lines("k", first).is_empty());
        let more = vec![(Fallback::NarrowCode, 1), (Fallback::UnrolledLanes, 5)];
        let lines = printed.lines("k", more);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("k: unrolled-lanes x5: "), "{lines:?}");
    }
}
