//! Checking runs. A checking run reports operations of the program whose behaviour CUDA or PTX does
//! not define. Apart from these operations, kernels have the same results as in a run without
//! checks.
//!
//! [`crate::RuntimeBuilder::check`], or the variable `MARGAY_CHECK` with a list of names, selects [`Tool`]s. Each
//! tool checks a property of the program:
//!
//! - memcheck: each access is aligned, and is inside one allocation or variable that the thread may
//!   access. A wrong access is reported and suppressed: a load or an atomic operation returns
//!   zeros, and a store has no effect.
//! - initcheck: each byte that a kernel reads, or that a copy to the host reads, has been written.
//! - racecheck: two accesses to the same byte, at least one of which is a write, are ordered by barriers, fences,
//!   atomic operations or streams.
//! - synccheck: threads synchronise as PTX requires. This tool checks member masks, source lanes of shuffles,
//!   barriers in divergent code, and the IDs and thread counts of barriers ([`Undefined`]).
//! - leakcheck: the program frees its memory and destroys its objects.
//! - apicheck: calls of the driver API have correct arguments and succeed.
//!
//! All occurrences of a defect with the same kind, kernel, access and place form one [`Finding`], which is reported
//! once. (For a race, this includes the place of the second access; for a defect in a call of the host, the call stack
//! and the address.) The finding is written to the file that `MARGAY_CHECK_LOG` names or, if this variable is not set,
//! to standard error. [`crate::Runtime::take_findings`] removes and returns all findings.

mod filter;
mod finding;
mod findings;
pub(crate) mod host;
mod kind;
mod log;
mod options;
mod shadow;
mod streams;

pub use crate::call_stack::{CallStack, HostFrame, frame_of_program};
pub use crate::memory::grouped_bytes;
pub use filter::KernelFilter;
pub(crate) use filter::are_filters;
pub(crate) use finding::more_specific;
pub use finding::{Access, Finding, Other, Place, ThreadPlace};
pub use findings::Findings;
pub use kind::{Kind, Severity, Tool, Undefined};
pub use log::complete_marker;
pub(crate) use options::kinds;
pub use options::{AfterError, ApiErrors, ListedCalls, Options, StreamOrder};
pub(crate) use shadow::{Extents, Races, Shadow, SiteInfo};
pub(crate) use streams::{HostAccess, Rows};

/// A set of tools.
///
/// ```
/// use margay::checks::{Tool, Tools};
///
/// let tools = Tools::named("memcheck,synccheck").unwrap();
/// assert!(tools.contains(Tool::Memory) && !tools.contains(Tool::Race));
/// assert_eq!(tools.with(Tool::Race), Tools::named("racecheck,synccheck,memcheck").unwrap());
/// assert_eq!(Tools::named("none"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tools(u8);

impl Tools {
    /// Returns the set that also contains `tool`.
    #[must_use]
    pub fn with(self, tool: Tool) -> Tools {
        Tools(self.0 | 1 << tool as u8)
    }

    /// Returns whether the set contains a tool.
    pub fn contains(self, tool: Tool) -> bool {
        self.0 >> (tool as u8) & 1 != 0
    }

    /// Returns whether the set contains no tool.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a tool of the set examines accesses of kernels.
    pub fn examine_accesses(self) -> bool {
        [Tool::Memory, Tool::Initialisation, Tool::Race]
            .into_iter()
            .any(|tool| self.contains(tool))
    }

    /// Returns the tools in a list of names that commas separate; `all` stands for all tools. Returns `None` if a name
    /// is unknown.
    pub fn named(list: &str) -> Option<Tools> {
        let mut tools = Tools::default();
        for name in list.split(',') {
            tools = match name {
                "all" => Tool::ALL.into_iter().fold(tools, Tools::with),
                _ => tools.with(Tool::named(name)?),
            };
        }
        Some(tools)
    }

    /// Returns the tools that `MARGAY_CHECK` selects. The result is empty if the variable is not
    /// set or invalid.
    pub fn from_env() -> Tools {
        let value = crate::environment::env("MARGAY_CHECK");
        value
            .and_then(|value| Tools::named(&value))
            .unwrap_or_default()
    }
}
