//! Bound kernels: a kernel's engine and the attributes that the program has set.

use std::sync::atomic::{AtomicI32, AtomicU64};
use std::sync::{Arc, OnceLock};

use crate::engine::{Engine, KernelInfo};
use crate::error::Result;
use crate::padded::Padded;
use crate::probed::Probed;
use crate::process::next_id;
use crate::scheduler::Throttle;

/// The value of an attribute that the program has not set.
pub(crate) const UNSET: i32 = -1;

/// A cached result of the occupancy calculation. The 64 bits consist of 16 bits for the number of
/// threads of a block, 32 bits for the number of bytes of dynamic shared memory, and 16 bits for
/// the number of blocks that can be resident on an SM. Successive launches usually need the same
/// result. Zero means that no result is cached.
#[derive(Clone, Copy)]
pub(crate) struct Residency(pub(crate) u64);

impl Residency {
    pub(crate) fn new(block: u32, dynamic_shared: u64, resident: u32) -> Residency {
        let known = Residency::key(block, dynamic_shared).zip(u16::try_from(resident).ok());
        Residency(known.map_or(0, |(key, resident)| key | u64::from(resident)))
    }

    pub(crate) fn of(self, block: u32, dynamic_shared: u64) -> Option<u32> {
        let same = Residency::key(block, dynamic_shared)? == self.0 & !0xffff;
        (same && self.0 != 0).then_some((self.0 & 0xffff) as u32)
    }

    fn key(block: u32, dynamic_shared: u64) -> Option<u64> {
        let (block, shared) = (
            u16::try_from(block).ok()?,
            u32::try_from(dynamic_shared).ok()?,
        );
        Some(u64::from(block) << 48 | u64::from(shared) << 16)
    }
}

/// A bound kernel and the attributes that the program has set.
pub(crate) struct Entry {
    pub(crate) id: u64,
    /// A shared copy of the kernel's name. Data that is used after a call has returned can refer to
    /// this copy.
    pub(crate) name: Arc<str>,
    /// The maximum time that a unit of this kernel has taken, in nanoseconds. The maximum decays,
    /// so that old measurements lose their influence. 0 if no unit has run.
    pub(crate) pace: Padded<AtomicU64>,
    pub(crate) throttle: Throttle,
    /// The last occupancy result, as a [`Residency`].
    pub(crate) residency: AtomicU64,
    pub(crate) engine: Arc<dyn Engine>,
    /// How launches run if the kernel has probes. The first launch sets this field.
    pub(crate) probed: OnceLock<Result<Option<Probed>>>,
    /// Maximum bytes of dynamic shared memory of a block. [`UNSET`] means the default limit minus static shared memory.
    pub(crate) max_dynamic_shared: AtomicI32,
    pub(crate) carveout: AtomicI32,
    pub(crate) cluster: [AtomicI32; 3],
    pub(crate) non_portable_cluster: AtomicI32,
    pub(crate) cluster_policy: AtomicI32,
    pub(crate) cache_config: AtomicI32,
}

impl Entry {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Arc<Entry> {
        let cluster = engine.info().required_cluster;
        // An extent that does not fit becomes `i32::MAX`; every launch refuses such a cluster.
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let cluster = cluster.map_or([0; 3], |c| c.to_array().map(number));
        Arc::new(Entry {
            id: next_id(),
            name: engine.info().name.as_str().into(),
            pace: Padded::default(),
            throttle: Throttle::default(),
            residency: AtomicU64::new(0),
            engine,
            probed: OnceLock::new(),
            max_dynamic_shared: AtomicI32::new(UNSET),
            carveout: AtomicI32::new(-1),
            cluster: cluster.map(AtomicI32::new),
            non_portable_cluster: AtomicI32::new(0),
            cluster_policy: AtomicI32::new(0),
            cache_config: AtomicI32::new(0),
        })
    }

    pub(crate) fn info(&self) -> &KernelInfo {
        self.engine.info()
    }
}

#[cfg(test)]
mod tests {
    use super::Residency;

    #[test]
    fn a_residency_answers_its_own_question_alone() {
        let known = Residency::new(256, 48 << 10, 6);
        assert_eq!(known.of(256, 48 << 10), Some(6));
        assert_eq!(known.of(255, 48 << 10), None);
        assert_eq!(known.of(256, 0), None);
        assert_eq!(Residency(0).of(0, 0), None);
        assert_eq!(
            Residency::new(32, 1 << 40, 1).of(32, 0),
            None,
            "no such question is kept"
        );
        assert_eq!(Residency::new(1024, 0, 0).of(1024, 0), Some(0));
    }
}
