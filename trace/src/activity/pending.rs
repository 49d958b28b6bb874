//! Work that has not ended.

use margay_activity::{Copy, CopyKind, Fill, Kernel, MemoryKind, Name, Place, Record};
use rustc_hash::FxHashMap;

/// A piece of work.
pub(super) struct Work {
    pub(super) place: Place,
    /// The times at which the call began and at which it submitted the work.
    pub(super) queued: u64,
    pub(super) submitted: u64,
    pub(super) what: What,
}

/// What a piece of work does.
pub(super) enum What {
    Kernel(Box<Launched>),
    Copy {
        kind: CopyKind,
        from: MemoryKind,
        to: MemoryKind,
        bytes: u64,
        is_asynchronous: bool,
        devices: Option<[u32; 2]>,
    },
    Fill {
        value: u32,
        bytes: u64,
        memory: MemoryKind,
        is_asynchronous: bool,
    },
}

/// A launch of a kernel.
pub(super) struct Launched {
    pub(super) launch: u64,
    pub(super) is_concurrent: bool,
    pub(super) name: Name,
    pub(super) grid: [i32; 3],
    pub(super) block: [i32; 3],
    pub(super) dynamic_shared: u32,
    /// What is known when the kernel begins.
    pub(super) begun: Begun,
}

/// What is known when a kernel begins.
#[derive(Clone, Copy, Default)]
pub(super) struct Begun {
    pub(super) cluster: [u32; 3],
    pub(super) registers: u32,
    pub(super) static_shared: u32,
}

/// The pieces of work that have not ended.
#[derive(Default)]
pub(super) struct Pending {
    works: FxHashMap<u64, Work>,
    /// The work of launches that have not begun, by the number of the launch.
    launches: FxHashMap<u64, u64>,
    /// The numbers of annotated ranges that need not nest, by the number that NVTX gave them.
    pub(super) ranges: FxHashMap<u64, u32>,
    /// The number of the newest record of each CUDA event that waits can name. Limited by [`MOST_EVENTS`].
    pub(super) recorded: FxHashMap<u64, u64>,
}

/// Maximum number of CUDA events whose newest record is known.
pub(super) const MOST_EVENTS: usize = 1 << 16;

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    pub(super) fn add(&mut self, number: u64, work: Work) {
        if let What::Kernel(launched) = &work.what {
            self.launches.insert(launched.launch, number);
        }
        self.works.insert(number, work);
    }

    pub(super) fn begin(&mut self, number: u64, now: u64) {
        if let Some(work) = self.works.get_mut(&number) {
            work.place.start = now;
        }
    }

    /// Notes that the launch with a number begins.
    pub(super) fn begin_launch(&mut self, launch: u64, now: u64, begun: Begun) {
        let Some(number) = self.launches.remove(&launch) else {
            return;
        };
        if let Some(work) = self.works.get_mut(&number) {
            work.place.start = now;
            if let What::Kernel(launched) = &mut work.what {
                launched.begun = begun;
            }
        }
    }

    /// Removes a piece of work and returns its record; `None` if the work is unknown or was cancelled before it began.
    pub(super) fn end(&mut self, number: u64, end: u64) -> Option<Record> {
        let work = self.works.remove(&number)?;
        if let What::Kernel(launched) = &work.what {
            self.launches.remove(&launched.launch);
        }
        if work.place.start == 0 {
            return None;
        }
        let place = Place {
            end: end.max(work.place.start),
            ..work.place
        };
        Some(match work.what {
            What::Kernel(launched) => Record::Kernel(Box::new(Kernel {
                place,
                is_concurrent: launched.is_concurrent,
                name: launched.name,
                grid: launched.grid,
                block: launched.block,
                cluster: launched.begun.cluster,
                registers: u16::try_from(launched.begun.registers).unwrap_or(u16::MAX),
                static_shared: launched.begun.static_shared as i32,
                dynamic_shared: launched.dynamic_shared as i32,
                launch: launched.launch as i64,
                queued: work.queued,
                submitted: work.submitted,
            })),
            What::Copy {
                kind,
                from,
                to,
                bytes,
                is_asynchronous,
                devices,
            } => Record::Copy(Copy {
                place,
                kind,
                from,
                to,
                is_asynchronous,
                bytes,
                devices,
            }),
            What::Fill {
                value,
                bytes,
                memory,
                is_asynchronous,
            } => Record::Fill(Fill {
                place,
                value,
                bytes,
                memory,
                is_asynchronous,
            }),
        })
    }
}
