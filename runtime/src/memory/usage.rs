//! Counts the memory in use, for each device and for each kind of host memory.
//!
//! Invariant: the memory in use never exceeds the limit of its kind, with one exception. Pools may
//! exceed the limit by the number of *promised* bytes. A byte is promised if its free has been
//! submitted to a stream and not yet executed. Each amount that [`Usage::take`] adds is subtracted
//! exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::MemoryKind;

/// The counters of an address space.
#[derive(Debug)]
pub(super) struct Usage {
    devices: Vec<AtomicU64>,
    /// For each device, the number of promised bytes. Pools may allocate this amount in addition to the limit.
    promised: Vec<AtomicU64>,
    device_limit: u64,
    /// Number of bytes of pinned and managed memory together, to which `host_limit` applies.
    host: AtomicU64,
    managed: AtomicU64,
    host_limit: u64,
}

impl Usage {
    pub(super) fn new(devices: usize, device_limit: u64, host_limit: u64) -> Usage {
        Usage {
            devices: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            promised: (0..devices).map(|_| AtomicU64::new(0)).collect(),
            device_limit,
            host: AtomicU64::new(0),
            managed: AtomicU64::new(0),
            host_limit,
        }
    }

    /// Returns the number of devices.
    pub(super) fn devices(&self) -> usize {
        self.devices.len()
    }

    /// Returns the size in bytes of a device's memory, and the number of free bytes.
    pub(super) fn device(&self, device: usize) -> (u64, u64) {
        let used = self.devices.get(device);
        let used = used.map_or(0, |used| used.load(Ordering::Relaxed));
        (self.device_limit, self.device_limit.saturating_sub(used))
    }

    pub(super) fn pinned(&self) -> u64 {
        let managed = self.managed();
        self.host.load(Ordering::Relaxed).saturating_sub(managed)
    }

    pub(super) fn managed(&self) -> u64 {
        self.managed.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes of this kind that can still be allocated.
    pub(super) fn free(&self, kind: MemoryKind, device: i32) -> u64 {
        let (sum, limit) = self.place(kind, device);
        limit.saturating_sub(sum.load(Ordering::Relaxed))
    }

    /// Adds `bytes` to the memory in use unless the sum would exceed the limit. Returns whether the bytes were added.
    pub(super) fn take(&self, kind: MemoryKind, device: i32, bytes: u64) -> bool {
        let (sum, limit) = self.place(kind, device);
        let promised = self.promises(device).filter(|_| kind == MemoryKind::Pool);
        let fits = |used: u64| {
            // When a promised free is executed, `promised` decreases before `sum`. It is therefore read after `sum`.
            let promised = promised.map_or(0, |promised| promised.load(Ordering::Relaxed));
            let after = used.checked_add(bytes)?;
            (after <= limit.saturating_add(promised)).then_some(after)
        };
        let taken = sum.fetch_update(Ordering::Acquire, Ordering::Acquire, fits);
        if taken.is_ok() && kind == MemoryKind::Managed {
            self.managed.fetch_add(bytes, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Subtracts `bytes` from the memory in use. For promised bytes, the caller calls [`Usage::keep`] first.
    pub(super) fn give(&self, kind: MemoryKind, device: i32, bytes: u64) {
        if kind == MemoryKind::Managed {
            self.managed.fetch_sub(bytes, Ordering::Relaxed);
        }
        let (sum, _) = self.place(kind, device);
        sum.fetch_sub(bytes, Ordering::Release);
    }

    /// Adds `bytes` to the promised bytes. The caller has submitted a free of `bytes` bytes of a
    /// pool to a stream.
    pub(super) fn promise(&self, device: i32, bytes: u64) {
        if let Some(promised) = self.promises(device) {
            promised.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Subtracts `bytes` from the promised bytes. A stream has executed the free that was recorded
    /// with [`Usage::promise`].
    pub(super) fn keep(&self, device: i32, bytes: u64) {
        if let Some(promised) = self.promises(device) {
            promised.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    fn promises(&self, device: i32) -> Option<&AtomicU64> {
        self.promised.get(usize::try_from(device).ok()?)
    }

    /// Returns the counter to which the limit for a kind of memory applies, and the limit. Memory of
    /// a device that does not exist is counted as pinned host memory.
    fn place(&self, kind: MemoryKind, device: i32) -> (&AtomicU64, u64) {
        let found = usize::try_from(device)
            .ok()
            .and_then(|d| self.devices.get(d));
        match (kind, found) {
            (MemoryKind::Device | MemoryKind::Pool | MemoryKind::Mapped, Some(sum)) => {
                (sum, self.device_limit)
            }
            _ => (&self.host, self.host_limit),
        }
    }
}

/// A number of bytes that count as memory in use until the `Charge` is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    usage: Arc<Usage>,
    device: i32,
    bytes: u64,
}

impl Charge {
    /// Adds `bytes` to the memory in use of a device, or of the host if `device` is -1. Returns `None` if the sum would
    /// exceed the limit.
    pub(super) fn new(usage: &Arc<Usage>, device: i32, bytes: u64) -> Option<Charge> {
        usage
            .take(MemoryKind::Mapped, device, bytes)
            .then(|| Charge {
                usage: Arc::clone(usage),
                device,
                bytes,
            })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.usage.give(MemoryKind::Mapped, self.device, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_each_device_and_for_the_host() {
        let usage = Arc::new(Usage::new(2, 100, 50));
        assert!(usage.take(MemoryKind::Device, 0, 60));
        assert!(!usage.take(MemoryKind::Pool, 0, 41));
        assert!(usage.take(MemoryKind::Pool, 1, 41));
        assert_eq!((usage.device(0), usage.device(1)), ((100, 40), (100, 59)));
        assert!(usage.take(MemoryKind::Pinned, 0, 30));
        assert!(!usage.take(MemoryKind::Managed, 0, 21));
        assert!(!usage.take(MemoryKind::Managed, 0, u64::MAX));
        let charge = Charge::new(&usage, 1, 59).expect("room");
        assert!(Charge::new(&usage, 1, 1).is_none());
        drop(charge);
        let host = Charge::new(&usage, -1, 20).expect("room");
        assert_eq!(usage.free(MemoryKind::Managed, 0), 0);
        drop(host);
        usage.give(MemoryKind::Device, 0, 60);
        assert_eq!(usage.device(0), (100, 100));
    }

    #[test]
    fn kinds_of_host_memory_share_their_limit_when_threads_allocate_at_once() {
        let usage = Usage::new(1, 100, 50);
        // There is room for one block of 30 bytes.
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let both = std::sync::Barrier::new(2);
        let use_repeatedly = |kind| {
            both.wait();
            for _ in 0..5_000_000 {
                while !usage.take(kind, 0, 30) {
                    std::thread::yield_now();
                }
                most.fetch_max(1 + held.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                held.fetch_sub(1, Ordering::SeqCst);
                usage.give(kind, 0, 30);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| use_repeatedly(MemoryKind::Managed));
            use_repeatedly(MemoryKind::Pinned);
        });
        assert_eq!(most.into_inner(), 1);
        assert_eq!((usage.pinned(), usage.managed()), (0, 0));
    }

    #[test]
    fn pools_hand_out_what_streams_will_free() {
        let usage = Usage::new(1, 100, 50);
        assert!(usage.take(MemoryKind::Pool, 0, 80));
        usage.promise(0, 80);
        assert!(!usage.take(MemoryKind::Device, 0, 21));
        assert!(usage.take(MemoryKind::Pool, 0, 100));
        assert!(!usage.take(MemoryKind::Pool, 0, 1));
        usage.keep(0, 80);
        usage.give(MemoryKind::Pool, 0, 80);
        assert_eq!(usage.device(0), (100, 0));
    }
}
