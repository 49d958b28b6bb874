//! The tools of the process's runtime.

use std::sync::{Arc, OnceLock};

use super::Tool;

type Make = fn() -> Vec<Arc<dyn Tool>>;

static MAKE: OnceLock<Make> = OnceLock::new();

/// Sets the function that creates the tools of the process's runtime ([`crate::Runtime::global`]), which CUDA programs
/// use. The runtime calls the function when it is created. Returns false, and changes nothing, if a function is set
/// already. A call after the creation of the runtime has no effect.
///
/// ```
/// use margay::observe::set_global_tools;
///
/// assert!(set_global_tools(Vec::new));
/// assert!(!set_global_tools(Vec::new));
/// ```
pub fn set_global_tools(make: fn() -> Vec<Arc<dyn Tool>>) -> bool {
    MAKE.set(make).is_ok()
}

/// Returns the tools of the process's runtime.
pub(crate) fn tools() -> Vec<Arc<dyn Tool>> {
    MAKE.get().map_or_else(Vec::new, |make| make())
}
