//! The objects that handles of green contexts and of resource descriptors denote.

use std::ffi::c_int;
use std::sync::OnceLock;

use margay::Context;
use parking_lot::Mutex;

use crate::types::{CUcontext, CUdevResource};

/// A green context.
pub(crate) struct GreenObject {
    pub(crate) id: u64,
    pub(crate) context: Context,
    /// The `CUcontext` handle of the green context; set when the green context is created.
    pub(crate) handle: OnceLock<CUcontext>,
    pub(crate) resource: CUdevResource,
    pub(crate) streams: Mutex<Vec<usize>>,
}

/// The content of a resource descriptor: a device and multiprocessors of this device.
#[derive(Clone, Copy)]
pub(crate) struct Description {
    pub(crate) device: c_int,
    pub(crate) resource: CUdevResource,
}

// SAFETY: the pointer in a resource is never dereferenced.
unsafe impl Send for Description {}
// SAFETY: the pointer in a resource is never dereferenced.
unsafe impl Sync for Description {}
// SAFETY: the pointer in a resource is never dereferenced.
unsafe impl Send for GreenObject {}
// SAFETY: the pointer in a resource is never dereferenced.
unsafe impl Sync for GreenObject {}
