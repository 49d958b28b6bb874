//! Pending links (`CUlinkState`).

use parking_lot::Mutex;

use crate::jit_options::JitOptions;

/// A link operation: the linking of several inputs to one image, which `cuLinkCreate` started.
pub(crate) struct LinkObject {
    pub(crate) options: JitOptions,
    pub(crate) state: Mutex<LinkState>,
}

/// The inputs and the result of a link operation.
#[derive(Default)]
pub(crate) struct LinkState {
    pub(crate) texts: Vec<Vec<u8>>,
    /// The PTX of `libcudadevrt`, for inputs that call functions of this library.
    pub(crate) device_runtime: Option<Vec<u8>>,
    /// The linked image, which the program may read until it calls `cuLinkDestroy`.
    pub(crate) output: Option<Box<[u8]>>,
}
