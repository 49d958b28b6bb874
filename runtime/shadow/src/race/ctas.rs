//! The CTAs of all launches. Little is stored about a CTA that has ended, because there can be millions of them.

use std::ops::{Deref, DerefMut};
use std::sync::LazyLock;

use super::cta::Running;

/// A CTA. Everything that is needed only while its threads access memory is in [`Running`], to which this type
/// dereferences.
#[derive(Debug)]
pub(super) struct Cta {
    /// The linear index of the CTA in the grid.
    pub(super) index: u64,
    /// The linear index of the CTA's cluster in the grid.
    pub(super) cluster: u64,
    /// `None` before [`Cta::begin`] and after [`Cta::end`], except if the threads of the ended CTA
    /// have committed or awaited asynchronous copies ([`Running::has_copied`]).
    running: Option<Box<Running>>,
    /// The launch that the CTA belongs to.
    pub(super) launch: u32,
    threads: u32,
    /// If the CTA has ended, the epoch that a further access of the CTA would have.
    epoch: u32,
    /// Whether the kernel synchronises threads only with barriers of the whole CTA and with warp barriers.
    pub(super) barriers_only: bool,
}

/// The memory of CTAs that have ended, for reuse by CTAs that begin later.
pub(super) type UnusedCtas = Vec<Box<Running>>;

/// Maximum number of elements of [`UnusedCtas`].
const UNUSED: usize = 64;

/// The data to which a [`Cta`] without stored [`Running`] data dereferences.
static ENDED: LazyLock<Running> = LazyLock::new(|| Running::new(1024, u32::MAX));

impl Cta {
    /// Creates a CTA whose threads have not accessed memory. The caller must call [`Cta::begin`]
    /// before it records an access.
    pub(super) fn new(launch: u32, index: u64, cluster: u64, threads: u32) -> Cta {
        Cta {
            index,
            cluster,
            running: None,
            launch,
            threads,
            epoch: 0,
            barriers_only: false,
        }
    }

    /// Creates a CTA of a kernel that synchronises threads only with barriers. The CTA forms no cluster with other
    /// CTAs, and its threads have not synchronised.
    pub(super) fn unsynchronised(launch: u32, index: u64, threads: u32) -> Cta {
        Cta {
            barriers_only: true,
            ..Cta::new(launch, index, index, threads)
        }
    }

    /// Prepares the CTA for further accesses. They get the time of accesses before the first
    /// synchronisation of the CTA. Must not be called after a synchronisation, unless the CTA has
    /// ended. Takes memory from `unused`.
    pub(super) fn begin(&mut self, unused: &mut UnusedCtas) {
        if self.running.is_none() {
            let mut running = unused.pop().unwrap_or_default();
            running.reset(self.threads, 0);
            self.running = Some(running);
        }
    }

    /// Frees data that is needed only for further accesses and synchronisation of the CTA's
    /// threads. Moves the memory to `unused`, so that CTAs that begin later can use it.
    pub(super) fn end(&mut self, unused: &mut UnusedCtas) {
        match self.running.take() {
            Some(mut running) if running.has_copied() => {
                running.end();
                self.running = Some(running);
            }
            Some(running) => {
                self.epoch = running.epoch() + 1;
                if unused.len() < UNUSED {
                    unused.push(running);
                }
            }
            None => {}
        }
    }

    /// Returns the stored [`Running`] data of the CTA, if there is any.
    pub(super) fn running(&self) -> Option<&Running> {
        self.running.as_deref()
    }

    /// Returns the stored [`Running`] data of the CTA, if there is any.
    pub(super) fn running_mut(&mut self) -> Option<&mut Running> {
        self.running.as_deref_mut()
    }
}

impl Deref for Cta {
    type Target = Running;

    #[inline]
    fn deref(&self) -> &Running {
        match &self.running {
            Some(running) => running,
            None => &ENDED,
        }
    }
}

impl DerefMut for Cta {
    fn deref_mut(&mut self) -> &mut Running {
        let new = || Box::new(Running::new(self.threads, self.epoch));
        self.running.get_or_insert_with(new)
    }
}
