//! Memory pools.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use margay::memory::{Access, Arena};
use parking_lot::Mutex;

use super::PoolLocation;

/// A memory pool.
#[derive(Default)]
pub(crate) struct PoolObject {
    pub(crate) place: PoolLocation,
    /// The memory file of a pool that other processes can use.
    pub(crate) arena: Option<Arc<Arena>>,
    /// Whether another process created the pool.
    pub(crate) imported: bool,
    /// Whether this is the default pool of its location, which exists until the process ends.
    pub(crate) is_default: bool,
    /// Whether the program has requested memory for hardware decompression. Margay has no such hardware; queries
    /// return this request.
    pub(crate) decompresses: bool,
    /// The maximum total size of the pool's allocations in bytes; 0 means no limit.
    pub(crate) max_size: u64,
    /// The access rights to the pool's memory that the program has set with `cuMemPoolSetAccess`;
    /// the key is the location that has the rights.
    pub(crate) access: Mutex<HashMap<PoolLocation, Access>>,
    pub(crate) reuse: [AtomicU64; 3],
    pub(crate) threshold: AtomicU64,
    pub(crate) used: AtomicU64,
    pub(crate) high: AtomicU64,
    pub(crate) reserved_high: AtomicU64,
}
