//! Green contexts and descriptions of device resources.

use std::ffi::c_int;
use std::sync::OnceLock;

use margay::Context;
use parking_lot::Mutex;

use crate::types::{CUcontext, CUdevResource};

/// A green context.
pub(crate) struct GreenObject {
    pub(crate) id: u64,
    pub(crate) context: Context,
    /// The handle that stands for it where a context is wanted; set when it is made.
    pub(crate) handle: OnceLock<CUcontext>,
    pub(crate) resource: CUdevResource,
    pub(crate) streams: Mutex<Vec<usize>>,
}

/// What a description holds: a device and multiprocessors of it.
#[derive(Clone, Copy)]
pub(crate) struct Description {
    pub(crate) device: c_int,
    pub(crate) resource: CUdevResource,
}

// SAFETY: the pointer in a resource is never followed.
unsafe impl Send for Description {}
// SAFETY: as above.
unsafe impl Sync for Description {}
// SAFETY: as above.
unsafe impl Send for GreenObject {}
// SAFETY: as above.
unsafe impl Sync for GreenObject {}
