//! Handles of cuBLAS, cuBLASLt and cublasXt: numbers, which a table maps to their settings.
//!
//! Invariant: a handle is never dereferenced. Its number is no address, and is not used again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};

use crate::status::Status;

/// The library whose function created a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// cuBLAS. The handle is one of cuBLASLt, too.
    Cublas,
    /// cuBLASLt.
    Lt,
    /// cublasXt.
    Xt,
}

/// What a program sets for a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) stream: usize,
    /// Scalars and results are in device memory.
    pub(crate) device_pointers: bool,
    pub(crate) atomics: i32,
    pub(crate) math: i32,
    pub(crate) sm_count: i32,
    pub(crate) emulation_strategy: i32,
    pub(crate) special_values: i32,
    pub(crate) mantissa_control: i32,
    pub(crate) mantissa_bits: i32,
    pub(crate) mantissa_offset: i32,
    pub(crate) mantissa_pointer: usize,
    /// A setting without documentation, which cuSOLVER changes.
    pub(crate) environment: i32,
    /// The block size of cublasXt.
    pub(crate) block: i32,
    /// Whether cublasXt pins memory.
    pub(crate) pinning: i32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            stream: 0,
            device_pointers: false,
            atomics: 0,
            math: 0,
            sm_count: 0,
            emulation_strategy: 0,
            special_values: 0xffff,
            mantissa_control: 0,
            mantissa_bits: 0,
            mantissa_offset: 0,
            mantissa_pointer: 0,
            environment: 0,
            block: 2048,
            pinning: 0,
        }
    }
}

/// The object behind a handle.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) owner: Owner,
    /// The context that was current when the handle was created.
    pub(crate) context: usize,
    pub(crate) settings: Mutex<Settings>,
}

static HANDLES: LazyLock<RwLock<HashMap<usize, Arc<Handle>>>> = LazyLock::new(RwLock::default);

/// Creates a handle and returns its number.
pub(crate) fn create(owner: Owner, context: usize) -> usize {
    /// Numbers have these high bits. No address of a process has them.
    const MARK: usize = 0x6d61_0000_0000_0000;
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = MARK + NEXT.fetch_add(1, Ordering::Relaxed) * 16;
    let handle = Handle {
        owner,
        context,
        settings: Mutex::default(),
    };
    HANDLES.write().insert(number, Arc::new(handle));
    number
}

/// Returns the object of a handle that one of the owners created.
///
/// # Errors
/// `NOT_INITIALIZED` for other numbers.
pub(crate) fn get(number: usize, owners: &[Owner]) -> Result<Arc<Handle>, Status> {
    let found = HANDLES.read().get(&number).cloned();
    let found = found.filter(|handle| owners.contains(&handle.owner));
    found.ok_or(Status::NOT_INITIALIZED)
}

/// Removes a handle. Errors are those of [`get`].
pub(crate) fn remove(number: usize, owner: Owner) -> Result<Arc<Handle>, Status> {
    let mut handles = HANDLES.write();
    let known = handles
        .get(&number)
        .is_some_and(|handle| handle.owner == owner);
    let removed = known.then(|| handles.remove(&number)).flatten();
    removed.ok_or(Status::NOT_INITIALIZED)
}
