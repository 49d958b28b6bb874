//! The reasons why slower code than usual is generated for a kernel. Wherever the compiler falls
//! back to slower code, it counts a [`Fallback`].
//!
//! The enum [`Fallback`] is the only list of these reasons. A test checks that `docs/fallbacks.md`
//! matches it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

macro_rules! fallbacks {
    ($($variant:ident $name:literal $about:literal;)*) => {
        /// A reason for slower code.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Fallback {
            $(#[doc = $about] $variant,)*
        }

        impl Fallback {
            /// All reasons.
            pub const ALL: &'static [Fallback] = &[$(Fallback::$variant,)*];

            /// Returns the name of this reason in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fallback::$variant => $name,)*
                }
            }

            /// Returns a sentence that explains this reason.
            pub fn about(self) -> &'static str {
                match self {
                    $(Fallback::$variant => $about,)*
                }
            }
        }
    };
}

fallbacks! {
    InterpreterBudget "interpreter-budget" "The interpreter runs the kernel: native code would take too long or too much memory to make.";
    InterpreterUnsupported "interpreter-unsupported" "The interpreter runs the kernel: it uses a feature that native code does not support.";
    InterpreterBackend "interpreter-backend" "The interpreter runs the kernel: the code generator failed.";
    InterpreterMachine "interpreter-machine" "The interpreter runs the kernel: this machine has no code generator, or no memory for code is available.";
    CallsKept "calls-kept" "Functions that would be inlined in a smaller kernel are called.";
    DeviceCall "device-call" "A function is called for one thread at a time.";
    NoPhases "no-phases" "Each region between synchronisation points is a separate native function, because one for all would be too large.";
    JointRegions "joint-regions" "All regions between synchronisation points are one native function that keeps their common values in memory, because separate functions would be too large.";
    QuickRegisters "quick-registers" "A large native function is compiled with the fast register allocator; its code spills more.";
    SingleBlocks "single-blocks" "Lanes run one by one: the function has too many blocks or branch targets.";
    SingleWide "single-wide" "Lanes run one by one: the function has 128-bit values.";
    SingleCode "single-code" "Lanes run one by one: vector code would be too large.";
    WideRefused "wide-refused" "The back end for wide vectors does not support the kernel, or not for this shape of blocks.";
    WideBudget "wide-budget" "The back end for wide vectors does not compile the kernel: the code would take too long or too much memory to make.";
    WideBackend "wide-backend" "The back end for wide vectors failed on the kernel.";
    NarrowCode "narrow-code" "Vector code processes fewer lanes at once: the code for more would be too large.";
    NarrowLive "narrow-live" "Vector code processes fewer lanes at once: too many values are live at the same time.";
    NarrowSaved "narrow-saved" "Vector code processes fewer lanes at once: too many values are live across synchronisation points.";
    SlicesBudget "slices-budget" "Lanes run one by one: the generated vector code was too large.";
    SlicesUnsupported "slices-unsupported" "Lanes run one by one: the kernel uses a feature that vector code does not support.";
    SlicesBackend "slices-backend" "Lanes run one by one: the code generator failed on the vector code.";
    UnrolledLanes "unrolled-lanes" "An operation without a vector form runs lane by lane.";
    LoopedLanes "looped-lanes" "An operation without a vector form runs in a loop over the lanes.";
    SlowOperation "slow-operation" "An operation that the code generator does not support is a call of its reference function.";
}

/// Counts how often each reason occurred in this process while a kernel was prepared or compiled. If code comes from
/// the disk cache, reasons that would occur in its compilation are not counted.
#[derive(Debug)]
pub struct Fallbacks {
    counts: [AtomicU32; Fallback::ALL.len()],
    /// Why the back end for wide vectors does not compile the kernel.
    refusals: Mutex<Vec<(Fallback, String)>>,
}

impl Default for Fallbacks {
    fn default() -> Fallbacks {
        Fallbacks {
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            refusals: Mutex::default(),
        }
    }
}

impl Fallbacks {
    /// Counts one occurrence of a reason.
    pub fn note(&self, why: Fallback) {
        self.counts[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an occurrence of a reason, and records why the back end for wide vectors does not compile the kernel.
    pub(crate) fn refuse(&self, why: Fallback, details: &str) {
        self.note(why);
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = (why, details.to_owned());
        if !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    /// Returns the sentence that explains a reason that occurred, with the details that are known.
    pub fn explain(&self, why: Fallback) -> String {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let details = refusals.iter().filter(|(reason, _)| *reason == why);
        let details: Vec<&str> = details.map(|(_, details)| details.as_str()).collect();
        match details.as_slice() {
            [] => why.about().to_owned(),
            details => format!("{} ({})", why.about(), details.join("; ")),
        }
    }

    /// Returns the reasons that occurred, with their counts.
    pub fn all(&self) -> Vec<(Fallback, u32)> {
        let counts = Fallback::ALL.iter().zip(&self.counts);
        let counts = counts.map(|(&why, count)| (why, count.load(Ordering::Relaxed)));
        counts.filter(|&(_, count)| count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_by_name() {
        let fallbacks = Fallbacks::default();
        fallbacks.note(Fallback::NoPhases);
        fallbacks.note(Fallback::NoPhases);
        fallbacks.note(Fallback::DeviceCall);
        let all = [(Fallback::DeviceCall, 1), (Fallback::NoPhases, 2)];
        assert_eq!(fallbacks.all(), all);
    }

    #[test]
    fn each_refusal_is_named_once() {
        let fallbacks = Fallbacks::default();
        for why in [
            "`tex` is not vectorised",
            "a large kernel",
            "a large kernel",
        ] {
            fallbacks.refuse(Fallback::WideRefused, why);
        }
        fallbacks.refuse(Fallback::WideBudget, "a large frame");
        let all = [(Fallback::WideRefused, 3), (Fallback::WideBudget, 1)];
        assert_eq!(fallbacks.all(), all);
        let text = fallbacks.explain(Fallback::WideRefused);
        assert!(
            text.ends_with(" (`tex` is not vectorised; a large kernel)"),
            "{text}"
        );
    }

    #[test]
    fn the_documentation_has_every_reason() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fallbacks.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("| `"))
            .collect();
        let row = |why: &Fallback| format!("| `{}` | {} |", why.name(), why.about());
        let expected: Vec<String> = Fallback::ALL.iter().map(row).collect();
        assert_eq!(
            rows, expected,
            "docs/fallbacks.md lists the reasons in order"
        );
    }
}
