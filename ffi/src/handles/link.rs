//! Pending links.

use parking_lot::Mutex;

use crate::jit_options::JitOptions;

/// A pending link.
pub(crate) struct LinkObject {
    pub(crate) options: JitOptions,
    pub(crate) state: Mutex<LinkState>,
}

/// What was added to a link, and what came of it.
#[derive(Default)]
pub(crate) struct LinkState {
    pub(crate) texts: Vec<Vec<u8>>,
    /// The PTX of `libcudadevrt`, for inputs that call it.
    pub(crate) device_runtime: Option<Vec<u8>>,
    /// The result, alive until the link is destroyed.
    pub(crate) output: Option<Box<[u8]>>,
}
