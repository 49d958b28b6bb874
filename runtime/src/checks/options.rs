//! The options of a checking run that the library acts on, as the environment states them.
//!
//! `margay check` translates its options to these variables. Invariant: [`is_implemented`] states which of the
//! variables have an effect, so `margay check` can name the options that have none.

use crate::environment::{env, number};

/// What ends when a kernel does something wrong that would end it on a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AfterError {
    /// Nothing: the wrong operation is suppressed, and the kernel continues.
    #[default]
    Continue,
    /// The kernel.
    EndKernel,
    /// The kernel and its context: later calls return the error.
    EndContext,
}

/// The failed calls that the check of the API reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum ApiErrors {
    /// Calls of the program itself only.
    Explicit,
    /// All calls, except those that programs use to ask for a state.
    #[default]
    Extended,
    /// All calls.
    All,
}

/// The operations in the order of a stream that are checked against other streams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamOrder {
    /// Use of memory before the stream has allocated it.
    pub use_before_alloc: bool,
    /// Use of memory after the stream has freed it.
    pub use_after_free: bool,
}

/// The options of a checking run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`AfterError`].
    pub after_error: AfterError,
    /// Minimum number of bytes between two allocations; 0 leaves the choice to the library.
    pub padding: u64,
    /// See [`ApiErrors`].
    pub api_errors: ApiErrors,
    /// Reads of global memory that nobody has written are reported.
    pub init_global: bool,
    /// Reads of shared memory that nobody has written are reported.
    pub init_shared: bool,
    /// Allocations of which the program writes at most this share, in percent, are reported; `None` if they are not.
    pub unused_memory: Option<u8>,
    /// See [`StreamOrder`].
    pub stream_order: StreamOrder,
    /// Launches run before the call that launches them returns.
    pub blocking_launches: bool,
    /// The log lists all launches.
    pub list_launches: bool,
}

/// The variables that hold options of a checking run, and whether the library acts on each.
const VARIABLES: [(&str, bool); 13] = [
    ("MARGAY_CHECK_KERNELS", true),
    ("MARGAY_CHECK_KERNELS_EXCLUDED", true),
    ("MARGAY_CHECK_LAUNCH_SKIP", true),
    ("MARGAY_CHECK_LAUNCH_COUNT", true),
    ("MARGAY_CHECK_LIST_LAUNCHES", true),
    ("MARGAY_CHECK_PADDING", true),
    ("MARGAY_CHECK_AFTER_ERROR", false),
    ("MARGAY_CHECK_API_ERRORS", false),
    ("MARGAY_CHECK_INIT_SPACES", false),
    ("MARGAY_CHECK_UNUSED_MEMORY", false),
    ("MARGAY_CHECK_UNUSED_THRESHOLD", false),
    ("MARGAY_CHECK_STREAM_ORDER", false),
    ("MARGAY_CHECK_BLOCKING", false),
];

/// Returns whether the library acts on a variable that holds an option of a checking run.
pub fn is_implemented(variable: &str) -> bool {
    VARIABLES.contains(&(variable, true))
}

impl Options {
    /// Reads the options from the environment. An invalid value counts as unset ([`crate::settings`] warns about it).
    pub(super) fn from_env() -> Options {
        let is_set = |name| env(name).as_deref() == Some("1");
        let init = env("MARGAY_CHECK_INIT_SPACES");
        let order = env("MARGAY_CHECK_STREAM_ORDER");
        let orders = |one: &str| {
            order
                .as_deref()
                .is_none_or(|all| all == one || all == "all")
        };
        let threshold = number("MARGAY_CHECK_UNUSED_THRESHOLD").unwrap_or(0);
        Options {
            after_error: match env("MARGAY_CHECK_AFTER_ERROR").as_deref() {
                Some("kernel") => AfterError::EndKernel,
                Some("context") => AfterError::EndContext,
                _ => AfterError::Continue,
            },
            padding: number("MARGAY_CHECK_PADDING").unwrap_or(0),
            api_errors: match env("MARGAY_CHECK_API_ERRORS").as_deref() {
                Some("explicit") => ApiErrors::Explicit,
                Some("all") => ApiErrors::All,
                _ => ApiErrors::Extended,
            },
            init_global: init.as_deref() != Some("shared"),
            init_shared: init.as_deref() != Some("global"),
            unused_memory: is_set("MARGAY_CHECK_UNUSED_MEMORY")
                .then(|| u8::try_from(threshold).unwrap_or(100).min(100)),
            stream_order: StreamOrder {
                use_before_alloc: orders("use-before-alloc"),
                use_after_free: orders("use-after-free"),
            },
            blocking_launches: is_set("MARGAY_CHECK_BLOCKING"),
            list_launches: is_set("MARGAY_CHECK_LIST_LAUNCHES"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_page_names_the_variables() {
        let page = include_str!("../../../docs/environment.md");
        for (name, _) in VARIABLES {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
        assert!(is_implemented("MARGAY_CHECK_KERNELS"));
        assert!(!is_implemented("MARGAY_CHECK_NOTHING"));
    }
}
