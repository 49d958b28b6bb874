//! The options of a checking run. The library reads these options from environment variables.
//!
//! `margay check` translates its command line options to these variables.

use super::Kind;
use crate::environment::{env, number};
use crate::memory::RedZones;

/// States whether a checking run ends the kernel, and also its context, if the kernel performs an
/// invalid operation that would end it on a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AfterError {
    /// The checking run suppresses the invalid operation and ends nothing: the kernel and its
    /// context continue.
    #[default]
    Continue,
    /// The kernel continues. After the kernel has completed, calls in its context return the error
    /// that the first invalid access of the launch would cause on a GPU.
    SetError,
    /// The checking run ends the kernel. The kernel's context continues.
    EndKernel,
    /// The checking run ends the kernel. Later calls in its context return the error that the
    /// invalid operation would cause on a GPU.
    EndContext,
}

/// The failed calls that apicheck reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum ApiErrors {
    /// Calls of the program, except calls that only query a state.
    Explicit,
    /// The same calls as for `Explicit`, and also calls that CUDA's libraries, for example cuBLAS,
    /// make.
    #[default]
    Extended,
    /// All failed calls, including calls that only query a state. (CUDA's runtime makes such calls
    /// when it starts.)
    All,
}

/// Selects the uses of stream-ordered memory that a checking run checks for missing synchronisation
/// between streams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StreamOrder {
    /// Whether uses of memory that are not ordered after the allocation of the memory are reported.
    pub use_before_alloc: bool,
    /// Whether uses of memory that are not ordered before the free of the memory are reported.
    pub use_after_free: bool,
}

/// The options of a checking run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// See [`AfterError`].
    pub after_error: AfterError,
    /// Minimum number of bytes between two allocations; 0 selects the library's default.
    pub padding: u64,
    /// See [`ApiErrors`].
    pub api_errors: ApiErrors,
    /// Whether reads of unwritten bytes of global memory are reported.
    pub init_global: bool,
    /// Whether reads of unwritten bytes of shared memory are reported.
    pub init_shared: bool,
    /// An allocation with unwritten bytes is reported if at least this percentage of its bytes is unwritten. If the
    /// option is `None`, unwritten bytes are not reported.
    pub unused_memory: Option<u8>,
    /// See [`StreamOrder`].
    pub stream_order: StreamOrder,
    /// Whether a call that submits a launch waits until the launch is complete.
    pub blocking_launches: bool,
    /// Whether the log lists all launches.
    pub list_launches: bool,
    /// The red zones around allocations; `None` if there are none.
    pub zones: Option<RedZones>,
    /// Whether copies and fills that do not begin at the start of an allocation are reported.
    pub block_starts: bool,
    /// Whether calls for copies and fills with invalid arguments do nothing and return an error.
    pub skips_invalid: bool,
    /// Whether the process ends at the first finding, with exit code 1.
    pub ends_at_first: bool,
    /// The kinds of findings to report; `None` for all kinds.
    pub kinds: Option<Vec<Kind>>,
    /// The API calls that the log lists.
    pub calls: ListedCalls,
    /// Whether frees of null pointers are reported.
    pub null_frees: bool,
}

/// The calls of the API that the log of a checking run lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum ListedCalls {
    /// None.
    #[default]
    None,
    /// Launches, and calls that change an object of the program, for example memory, a module, a stream or a graph.
    Changes,
    /// All calls.
    All,
    /// All API calls, with their durations.
    Timed,
}

/// The default value of each byte of a red zone.
const ZONE_BYTE: u64 = 0xde;

/// Parses a list of names of kinds that are separated by commas. Returns `None` if a name is
/// unknown.
pub(crate) fn kinds(text: &str) -> Option<Vec<Kind>> {
    text.split(',').map(Kind::named).collect()
}

impl Options {
    /// Returns whether findings of a kind are reported.
    pub(super) fn reports(&self, kind: Kind) -> bool {
        self.kinds
            .as_ref()
            .is_none_or(|kinds| kinds.contains(&kind))
    }

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
                Some("error") => AfterError::SetError,
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
            zones: number("MARGAY_CHECK_RED_ZONES")
                .filter(|bytes| (1..=1 << 30).contains(bytes))
                .map(|bytes| RedZones {
                    bytes,
                    byte: number("MARGAY_CHECK_RED_ZONE_BYTE").unwrap_or(ZONE_BYTE) as u8,
                }),
            block_starts: is_set("MARGAY_CHECK_BLOCK_STARTS"),
            skips_invalid: is_set("MARGAY_CHECK_SKIP_INVALID"),
            ends_at_first: is_set("MARGAY_CHECK_END_AT_FIRST"),
            kinds: env("MARGAY_CHECK_KINDS").and_then(|text| kinds(&text)),
            calls: match number("MARGAY_CHECK_LIST_CALLS") {
                None | Some(0) => ListedCalls::None,
                Some(1) => ListedCalls::Changes,
                Some(2) => ListedCalls::All,
                Some(_) => ListedCalls::Timed,
            },
            null_frees: is_set("MARGAY_CHECK_NULL_FREES"),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_environment_page_names_the_variables() {
        let page = include_str!("../../../docs/environment.md");
        let source = include_str!("options.rs");
        let is_name = |word: &&str| word.starts_with(concat!("MARGAY", "_CHECK_"));
        let names: Vec<&str> = source.split('"').filter(is_name).collect();
        assert!(names.len() > 8);
        for name in names {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
