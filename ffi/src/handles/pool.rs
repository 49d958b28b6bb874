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
    /// Where the memory comes from if other processes may use it.
    pub(crate) arena: Option<Arc<Arena>>,
    /// Another process's.
    pub(crate) imported: bool,
    /// Bytes; 0: no limit of its own.
    pub(crate) max_size: u64,
    /// What was granted or taken.
    pub(crate) access: Mutex<HashMap<PoolLocation, Access>>,
    pub(crate) reuse: [AtomicU64; 3],
    pub(crate) threshold: AtomicU64,
    pub(crate) used: AtomicU64,
    pub(crate) high: AtomicU64,
    pub(crate) reserved_high: AtomicU64,
}
