//! Finds races: two accesses to the same byte, of which at least one is a write, that are not both strong with
//! sufficient scope, and of which neither happens before the other (PTX ISA 8, memory consistency model).
//!
//! The detector gets all accesses and all operations that order accesses, one at a time, in an order in which the
//! program can execute them. Whether two accesses race follows from what orders them, not from when they occur.
//!
//! Accesses of a warp between two synchronising operations form an *interval*. The detector records the accesses to
//! each four bytes of memory in a *cell*. A cell keeps all accesses of an interval (by instruction), so the set of
//! reported pairs does not depend on the order in which an engine runs the lanes of a warp.

mod cell;
mod clock;
mod copy;
mod cta;
mod pair;
mod quick;
mod reads;
mod sweep;
mod unit;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use cell::{Cells, Entry, GroupId};
pub use clock::{CtaId, Window};
use clock::{Shared, Thread, Time};
pub use copy::Completion;
use copy::{Copy, End, Issue, Place, Sequence};
use cta::{Basis, Cta, Use};
pub use quick::Shape;
use reads::Blocks;
pub use reads::Run;
use sweep::Unused;

/// Index of an instruction that the caller has chosen. Equal instructions of different launches have equal sites.
pub type Site = u32;

/// The scope of a strong access or fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// The threads of the CTA.
    Cta,
    /// The threads of the cluster.
    Cluster,
    /// All threads of the device, or of the system.
    Device,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// Whether the access reads.
    pub reads: bool,
    /// Whether the access writes.
    pub writes: bool,
    /// The scope of a strong access (atomic, volatile, relaxed or stronger); `None` for a weak access.
    pub strong: Option<Scope>,
    /// Number of bytes that a strong access accesses atomically.
    pub element: u32,
    /// The memory that the access is to.
    pub window: Window,
    /// Whether a read acquires what the write that it reads from has released.
    pub acquires: bool,
    /// Whether a write releases the thread's earlier accesses.
    pub releases: bool,
    /// Whether a strong access is volatile. PTX treats volatile accesses as strong, but CUDA C++ does not treat them as
    /// atomic.
    pub volatile: bool,
    /// Whether a `cp.async` of the thread performs the access.
    pub asynchronous: bool,
    /// Whether the access is a signal to an mbarrier.
    pub signals: bool,
    /// Whether a loop waits for the value that a strong access reads.
    pub polls: bool,
    /// Whether the access is a compare-and-swap, with which threads can acquire a lock.
    pub swaps: bool,
}

impl Access {
    /// A weak read.
    pub const READ: Access = Access {
        reads: true,
        writes: false,
        strong: None,
        element: 4,
        window: Window::Global,
        acquires: false,
        releases: false,
        volatile: false,
        asynchronous: false,
        signals: false,
        polls: false,
        swaps: false,
    };
    /// A weak write.
    pub const WRITE: Access = Access {
        reads: false,
        writes: true,
        ..Access::READ
    };

    fn is_update(self) -> bool {
        self.reads && self.writes
    }
}

/// What would order the two accesses of a race.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Missing {
    /// A barrier or a fence between threads of one warp (`__syncwarp`).
    WarpBarrier,
    /// A barrier of the CTA.
    Barrier,
    /// A barrier of the cluster.
    ClusterBarrier,
    /// An order between CTAs: a barrier of the grid, or a flag with release and acquire.
    GridOrder,
    /// A fence between the access and a flag that both threads use.
    Fence,
    /// A scope that includes both threads.
    Scope,
    /// An equal size of the two atomic accesses.
    Size,
    /// A wait for a `cp.async`, by the thread that has issued the copy.
    CopyWait,
    /// A wait for the group of a bulk copy, by the thread that has issued the copy.
    BulkWait,
    /// A wait for the mbarrier that an asynchronous copy signals.
    ObjectWait,
    /// A fence between the generic and the asynchronous proxy, between a write and a bulk copy.
    ProxyFence,
    /// An order between the streams of two launches.
    StreamOrder,
}

/// A race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Race {
    /// The site, the CTA and the thread of the earlier access.
    pub earlier: (Site, CtaId, u32),
    /// Whether the earlier access writes.
    pub earlier_writes: bool,
    /// The thread of the later access, in the CTA of the call.
    pub thread: u32,
    /// The address of the first byte that both access.
    pub address: u64,
    /// What would order the accesses.
    pub missing: Missing,
    /// Whether both accesses are by threads of one warp, and neither is by an asynchronous copy.
    pub same_warp: bool,
    /// Whether both accesses write.
    pub both_write: bool,
    /// Whether both accesses are strong with sufficient scope, and at least one is volatile. Such accesses do not race
    /// in PTX. If threads read at this location what other threads have written ([`Detector::is_flag`]), the location
    /// is a flag.
    pub volatile: bool,
    /// Whether only one operation is missing: a fence in the later thread between its strong read of a flag and its
    /// access. The earlier thread has released its access. Many programs lack this fence, and they work on GPUs.
    pub reader_lacks_fence: bool,
    /// Number of neighbouring threads for which the race is reported. This is more than one only for races of a write
    /// by neighbouring lanes with a write by the same lanes of another CTA: each thread of one access races with the
    /// thread of the other access at the same position.
    pub threads: u32,
}

impl Race {
    /// Returns the race of one thread of a race of several threads, each of which accesses `bytes` bytes.
    #[must_use]
    pub fn of_thread(&self, number: u32, bytes: u32) -> Race {
        let (site, cta, thread) = self.earlier;
        Race {
            earlier: (site, cta, thread + number),
            thread: self.thread + number,
            address: self.address + u64::from(number) * u64::from(bytes),
            threads: 1,
            ..*self
        }
    }
}

/// An access of a thread that conflicts with other work (not a launch) that may run at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The site.
    pub site: Site,
    /// The CTA.
    pub cta: CtaId,
    /// The thread.
    pub thread: u32,
    /// Whether the access writes.
    pub writes: bool,
    /// The address of the first byte that the thread and the other work both access.
    pub address: u64,
}

/// The accesses of the threads of a warp in one interval by one instruction.
#[derive(Clone, Copy, Debug)]
struct Group {
    launch: u32,
    cta: CtaId,
    warp: u32,
    time: Time,
    site: Site,
    strong: Option<Scope>,
    volatile: bool,
    /// Number of bytes that the accesses access atomically.
    element: u8,
    /// The asynchronous copy that performs the accesses.
    copy: Option<Copy>,
    /// The lock that the thread held.
    lock: Option<Lock>,
}

/// A lock that a thread holds: a location that it has changed with a compare-and-swap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lock {
    address: u64,
    /// The scope in which the thread has acquired what other threads have released, after or with the compare-and-swap.
    acquired: Option<Scope>,
}

/// What strong writes to a location have released.
#[derive(Debug, Default)]
struct Location {
    /// Released to all threads of the device.
    device: Shared,
    /// The clocks that strong writes have released to the threads of one CTA or cluster. Each entry contains the
    /// scope, the [`CtaId`] or the index of the cluster, and the clock.
    narrow: SmallVec<[(Scope, u64, Shared); 1]>,
    /// Accesses that happened before the strong writes ([`Basis::Suspected`]), whether the writing threads released them
    /// or not: all of them while few threads synchronise, then those of the latest writes ([`FEW_KNOWN`]). Empty after
    /// [`FEW_UPDATES`] updates.
    suspected: Shared,
    /// Number of updates since the last strong store.
    updates: u32,
    /// The number of the last strong write, counted over all locations.
    version: u64,
    /// The thread of the last strong write.
    writer: Option<Thread>,
    /// Whether the location is an mbarrier.
    is_object: bool,
    /// The part of [`Detector::known`] that is for this location.
    size: u64,
}

/// Maximum number of updates of a location for which the detector keeps [`Location::suspected`]. A location with more
/// updates is a counter and not a flag. Without this limit, the running time would be quadratic in the number of
/// threads.
const FEW_UPDATES: u32 = 1024;

/// Size of all clocks that the detector joins for [`Basis::Suspected`] before it drops all such clocks of more than a
/// small size ([`FEW_KNOWN`]). Before that, it drops only large ones ([`MANY_KNOWN`]). Without these limits, the running
/// time would be quadratic in the number of threads.
///
/// These clocks only determine what the report of a race states as missing. A program repeats its missing fence in many
/// threads, so one of its races shows it.
const MOST_SUSPECTED: u64 = 1 << 20;

/// Maximum size of a clock for [`Basis::Suspected`] at first.
const MANY_KNOWN: u64 = 1 << 13;

/// Maximum size of a clock for [`Basis::Suspected`] after the detector has joined many.
const FEW_KNOWN: u64 = 64;

/// Maximum number of accesses in the list of a cell. The list is in addition to the write and the read in the cell
/// itself.
const MOST: usize = 64;

/// Number of accesses in the list of a cell above which the detector keeps only some of them.
const KEPT: usize = 8;

/// Maximum number of accesses by one instruction of one CTA that a list of more than [`KEPT`] accesses keeps.
const OF_KIND: usize = 6;

/// Maximum number of these accesses that are by one warp.
const OF_WARP: usize = 2;

/// The CTA, the warp and the instruction of a group, and whether its accesses write.
type GroupKey = (CtaId, u32, Site, bool);

/// Number of groups that are found without a lookup in a hash table.
const RECENT: usize = 32;

/// Detects races.
#[derive(Debug, Default)]
pub struct Detector {
    ctas: Vec<Cta>,
    groups: Vec<Group>,
    unused: Unused,
    /// The groups that were used last. The instruction and the kind of access determine the index.
    recent: [Option<(GroupKey, GroupId)>; RECENT],
    cells: Cells,
    /// Reads that are not in the cells.
    blocks: Blocks,
    locations: FxHashMap<u64, Location>,
    /// Number of strong writes.
    versions: u64,
    /// The locations at which a strong access in a loop has read what another thread has written with a strong access.
    flags: FxHashSet<u64>,
    /// For each copy that signals an mbarrier, its place in clocks; `None` before the signal.
    copies: Vec<Option<Place>>,
    /// The copies of a thread for an mbarrier: the index of the sequence, and the number of the last copy.
    sequences: FxHashMap<(Thread, u64), Place>,
    /// For each launch, or other work, the earlier work that may run at the same time, in ascending order.
    overlaps: FxHashMap<u32, Vec<u32>>,
    /// The launches, or other work, that may run at the same time as another one.
    overlapping: FxHashSet<u32>,
    /// See [`Detector::depends_on_schedule`].
    scheduled: bool,
    scratch: Vec<Entry>,
    /// Total size of the clocks that were joined for [`Basis::Suspected`].
    suspected: u64,
    /// Total size ([`clock::size`]) of the clocks that the detector stores: for each thread of a CTA that has not
    /// ended, its last clock for each [`Use`]; for each location, the clocks `device` and `suspected`.
    known: u64,
    /// See [`Detector::has_given_up`].
    given_up: bool,
}

/// Maximum of [`Detector::known`]. The clocks of `n` threads that all synchronise with each other take memory that is
/// proportional to `n * n`.
const MOST_KNOWN: u64 = 1 << 26;

impl Detector {
    /// Returns whether so many threads synchronise with each other through memory that the detector has stopped
    /// recording accesses. It records accesses again after [`Detector::clear`].
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Counts the size of the clock that a thread now uses for the purpose `of`, instead of the size of the thread's
    /// previous clock for this purpose. Stops recording accesses if all clocks together take too much memory.
    fn use_clock(&mut self, id: CtaId, (thread, of): (u32, Use), clock: &Shared) {
        let size = clock::size(clock);
        let before = self.ctas[id as usize].set_size(thread, of, size);
        self.known = self.known + size - before;
        if self.known > MOST_KNOWN && !self.given_up {
            self.given_up = true;
            self.cells = Cells::default();
            self.blocks = Blocks::default();
            self.locations.clear();
            self.known = 0;
            for cta in &mut self.ctas {
                cta.take_sizes();
                cta.forget_others();
            }
        }
    }

    /// Adds a CTA whose threads have not accessed memory.
    pub fn add_cta(&mut self, launch: u32, index: u64, cluster: u64, threads: u32) -> CtaId {
        self.ctas.push(Cta::new(launch, index, cluster, threads));
        self.ctas.len() as CtaId - 1
    }

    /// States that only barriers of all threads, and barriers of warps, order the threads of a CTA: its kernel has no
    /// fences, atomics, strong accesses, asynchronous copies or other barriers.
    pub fn order_by_barriers_only(&mut self, id: CtaId) {
        self.ctas[id as usize].barriers_only = true;
    }

    /// States that the threads of a CTA will not access memory any more.
    pub fn end_cta(&mut self, id: CtaId) {
        let cta = &mut self.ctas[id as usize];
        cta.end();
        self.known -= cta.take_sizes();
    }

    /// Returns the launch and the linear index of a CTA.
    pub fn cta(&self, id: CtaId) -> (u32, u64) {
        let cta = &self.ctas[id as usize];
        (cta.launch, cta.index)
    }

    /// Returns the number of bytes that the cells occupy.
    pub fn shadow_bytes(&self) -> usize {
        self.cells.bytes() + self.blocks.bytes()
    }

    /// Forgets all CTAs and accesses: later accesses happen after them.
    pub fn clear(&mut self) {
        *self = Detector::default();
    }

    /// Records that a launch, or another piece of work, may run at the same time as each one in `earlier`. Otherwise,
    /// launches are ordered.
    pub fn add_overlaps(&mut self, work: u32, earlier: &[u32]) {
        if earlier.is_empty() {
            return;
        }
        let known = self.overlaps.entry(work).or_default();
        known.extend_from_slice(earlier);
        known.sort_unstable();
        self.overlapping.insert(work);
        self.overlapping.extend(earlier);
    }

    /// Forgets which earlier work may run at the same time as `work`, which has no recorded accesses.
    pub fn forget_overlaps(&mut self, work: u32) {
        self.overlaps.remove(&work);
    }

    /// Returns whether two pieces of work may run at the same time.
    pub fn may_overlap(&self, a: u32, b: u32) -> bool {
        let contains = |work: u32, earlier: u32| {
            let known = self.overlaps.get(&work);
            known.is_some_and(|known| known.binary_search(&earlier).is_ok())
        };
        !self.overlaps.is_empty() && (contains(a, b) || contains(b, a))
    }

    /// Returns the number of pairs of work that may run at the same time, which the detector stores.
    pub fn overlaps(&self) -> usize {
        self.overlaps.values().map(Vec::len).sum()
    }

    /// Returns the number of groups and runs of accesses, which determines how much memory the detector uses.
    pub fn groups(&self) -> usize {
        self.used_groups() + self.blocks.runs()
    }

    /// Calls `found` for each access to `bytes` bytes at `address` that conflicts with an access of the work `work`,
    /// which is not a launch. Accesses of work that is ordered with `work` do not conflict.
    pub fn conflicts(
        &mut self,
        work: u32,
        (address, bytes): (u64, u64),
        writes: bool,
        mut found: impl FnMut(Conflict),
    ) {
        if !self.overlapping.contains(&work) {
            return;
        }
        self.move_all_runs(address, address + bytes);
        let mut cells = std::mem::take(&mut self.cells);
        cells.for_each(address, address + bytes, |index, cell, further| {
            let own = cell.write().into_iter().chain(cell.read());
            for entry in own.chain(further.iter().copied()) {
                let group = &self.groups[entry.group as usize - 1];
                let first = (0..4).find(|at| {
                    let byte = index * 4 + at;
                    entry.bytes >> at & 1 != 0 && byte >= address && byte < address + bytes
                });
                if let Some(first) = first
                    && (entry.writes || writes)
                    && self.may_overlap(group.launch, work)
                {
                    found(Conflict {
                        site: group.site,
                        cta: group.cta,
                        thread: group.warp * 32 + entry.lanes.trailing_zeros(),
                        writes: entry.writes,
                        address: index * 4 + first,
                    });
                }
            }
        });
        self.cells = cells;
    }

    /// Forgets the accesses to memory that is about to be reused.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        self.move_all_runs(address, address + bytes);
        self.cells
            .forget(address / 4, (address + bytes).div_ceil(4));
        let within = |&at: &u64| at >= address && at < address + bytes;
        if !self.locations.is_empty() {
            let known = &mut self.known;
            self.locations.retain(|at, location| {
                let is_kept = !within(at);
                if !is_kept {
                    *known -= location.size;
                }
                is_kept
            });
        }
    }

    /// Forgets what strong writes to a location have released.
    fn forget_location(&mut self, address: u64) {
        if let Some(location) = self.locations.remove(&address) {
            self.known -= location.size;
        }
    }

    /// Records an access of `bytes` bytes at `address`. Calls `report` for each race with an earlier access.
    pub fn access(
        &mut self,
        id: CtaId,
        thread: u32,
        (site, access): (Site, Access),
        (address, bytes): (u64, u32),
        mut report: impl FnMut(Race),
    ) {
        if self.given_up {
            return;
        }
        self.sweep_groups();
        let by = Thread {
            cta: id,
            index: thread,
        };
        if access.writes {
            let launch = self.ctas[id as usize].launch;
            self.begin_write(launch, address, bytes.into());
        }
        let issue = self.ctas[id as usize].issue(thread);
        if let Some(issue) = issue.filter(|_| !access.signals) {
            // The copy accesses the memory, and neither acquires nor releases.
            let part = (site, access, Some(issue.copy));
            return self.touch_all(by, part, (address, bytes), &mut report);
        }
        let place = issue.and_then(|issue| self.complete(by, issue, address));
        if access.strong.is_some() {
            self.before_strong(id, thread, access, address);
        }
        let copy = access.asynchronous.then(|| Copy {
            end: End::Group(
                Sequence::Thread,
                self.ctas[id as usize].open_copies(thread, Sequence::Thread),
            ),
            proxy: false,
        });
        self.touch_all(by, (site, access, copy), (address, bytes), &mut report);
        if access.writes && access.strong.is_none() && !self.locations.is_empty() {
            // A weak write releases nothing: a thread that reads the written value does not synchronise with the
            // writer.
            self.forget_location(address);
        }
        if access.strong.is_some() {
            self.after_strong(id, thread, access, (address, place));
        }
    }

    /// Records an access to all its cells.
    fn touch_all(
        &mut self,
        by: Thread,
        (site, access, copy): (Site, Access, Option<Copy>),
        (address, bytes): (u64, u32),
        report: &mut impl FnMut(Race),
    ) {
        for (index, mask) in quick::cells_of(address, bytes) {
            if access.reads && !access.writes {
                self.touch(by, (site, access, copy), false, (index, mask), report);
            }
            if access.writes {
                self.touch(by, (site, access, copy), true, (index, mask), report);
            }
        }
    }

    /// Completes the asynchronous operation that a thread issues, with a signal to the mbarrier at `address`. Returns
    /// the operation's place in clocks.
    fn complete(&mut self, by: Thread, issue: Issue, address: u64) -> Option<Place> {
        let End::Object(copy) = issue.copy.end else {
            return None;
        };
        let next = self.sequences.len() as u32;
        let last = self.sequences.entry((by, address)).or_insert(Place {
            sequence: next,
            number: 0,
        });
        last.number += 1;
        let place = *last;
        self.copies[copy as usize] = Some(place);
        // A copy to several CTAs signals an mbarrier in each.
        self.begin_copy(by.cta, by.index, issue.completion, issue.copy.proxy);
        Some(place)
    }

    /// Adds what the writes to a location released to the clocks of a thread that reads the location.
    fn before_strong(&mut self, id: CtaId, thread: u32, access: Access, address: u64) {
        if !access.reads {
            return;
        }
        let (Some(location), Some(scope)) = (self.locations.get(&address), access.strong) else {
            return;
        };
        let writer = location.writer;
        let other = writer.is_some_and(|by| (by.cta, by.index) != (id, thread));
        if other && access.polls {
            self.flags.insert(address);
        }
        let cta = &mut self.ctas[id as usize];
        // If a thread that polls a location reads the result of the same write again, its clocks do not change.
        let seen = (address, location.version, scope, access.acquires);
        if access.polls && cta.has_seen(thread, seen) {
            return;
        }
        let mut clock = match scope {
            Scope::Device => location.device.clone(),
            _ => None,
        };
        for (width, group, released) in &location.narrow {
            let here = match width {
                Scope::Cta => *group == u64::from(id),
                _ => *group == cta.cluster && scope != Scope::Cta,
            };
            if here {
                clock::join(&mut clock, released);
            }
        }
        // In locks and queues, another schedule can let another thread write the value. The phases of an mbarrier are
        // the same in all schedules.
        let contends = (access.is_update() || access.polls) && !access.signals;
        let scheduled = other && contends && !location.is_object && clock.is_some();
        if access.acquires {
            self.scheduled |= scheduled;
            cta.acquire(thread, &clock, Basis::Guaranteed);
        } else {
            cta.read_strongly(thread, &clock, scheduled);
        }
        cta.acquire(thread, &clock, Basis::Assumed);
        let most = most_suspected(self.suspected);
        self.suspected += cta.acquire_suspected(thread, &location.suspected, most);
    }

    /// Releases the accesses of a thread that writes a location.
    fn after_strong(
        &mut self,
        id: CtaId,
        thread: u32,
        access: Access,
        (address, place): (u64, Option<Place>),
    ) {
        let Some(scope) = access.strong.filter(|_| access.writes) else {
            return;
        };
        let cta = &mut self.ctas[id as usize];
        let (mut released, width) = match (access.releases, cta.last_fence(thread)) {
            (true, _) => (cta.release(id, thread, Basis::Guaranteed), scope),
            (false, Some(fence)) => (fence.clock.clone(), fence.scope.min(scope)),
            (false, None) => (None, scope),
        };
        let learn = |clock: &mut Shared| {
            if let (Some(place), Some(clock)) = (&place, clock) {
                std::sync::Arc::make_mut(clock).learn_thread(place.thread(), place.number);
            }
        };
        learn(&mut released);
        let location = self.locations.entry(address).or_default();
        if !access.is_update() {
            *location = Location {
                size: location.size,
                ..Location::default()
            };
        }
        location.updates = location.updates.saturating_add(1);
        self.versions += 1;
        location.version = self.versions;
        if location.updates <= FEW_UPDATES {
            let most = most_suspected(self.suspected);
            let mut suspected = cta.release_suspected(id, thread, most);
            if scope != Scope::Device
                && let Some(clock) = &mut suspected
            {
                std::sync::Arc::make_mut(clock).narrow = true;
            }
            learn(&mut suspected);
            if clock::exceeds(&location.suspected, most) {
                location.suspected = None;
            }
            self.suspected += clock::joined(&location.suspected, &suspected);
            clock::join(&mut location.suspected, &suspected);
        } else {
            location.suspected = None;
        }
        if width == Scope::Device {
            clock::join(&mut location.device, &released);
        }
        let mut add = |width, group| {
            let mut known = location.narrow.iter_mut();
            match known.find(|(w, g, _)| (*w, *g) == (width, group)) {
                Some((.., clock)) => clock::join(clock, &released),
                None => location.narrow.push((width, group, released.clone())),
            }
        };
        if released.is_some() {
            // Threads of the same CTA or cluster can also acquire with a narrower scope.
            add(Scope::Cta, u64::from(id));
            if width >= Scope::Cluster {
                add(Scope::Cluster, cta.cluster);
            }
        }
        let by = Thread {
            cta: id,
            index: thread,
        };
        location.writer = Some(by);
        location.is_object |= access.signals;
        cta.end_interval(thread);
        if access.swaps {
            cta.hold_lock(thread, address, access.acquires.then_some(scope));
        } else {
            cta.release_lock(thread, address);
        }
        let suspected = location.suspected.clone();
        let size = clock::size(&location.device) + clock::size(&suspected);
        self.known = self.known + size - std::mem::replace(&mut location.size, size);
        self.use_clock(id, (thread, Use::Released), &released);
        self.use_clock(id, (thread, Use::Suspected), &suspected);
    }

    /// Records an access to some bytes of a cell.
    fn touch(
        &mut self,
        by: Thread,
        (site, access, copy): (Site, Access, Option<Copy>),
        writes: bool,
        (index, bytes): (u64, u8),
        report: &mut impl FnMut(Race),
    ) {
        let group = self.group(by, (site, access, copy), writes);
        let lane = 1 << by.lane();
        let cell = *self.cells.cell(index);
        let (own_write, own_read, list) = (cell.write(), cell.read(), cell.list());
        // The same instruction of the same warp and interval accesses the cell again.
        let known = if writes { own_write } else { own_read };
        if let Some(known) = known
            && known.group == group
            && known.bytes == bytes
            && list == cell::NONE
        {
            let quiet = known.lanes == lane || !writes;
            let other = if writes { own_read } else { own_write };
            let other = other.filter(|other| other.bytes & bytes != 0);
            if quiet && other.is_none() {
                let entry = Entry {
                    lanes: known.lanes | lane,
                    ..known
                };
                self.cells.cell(index).set(entry);
                return;
            }
        }
        let mut entries = std::mem::take(&mut self.scratch);
        entries.clear();
        entries.extend(own_write);
        entries.extend(own_read);
        entries.extend_from_slice(self.cells.further(list));
        // All strong accesses to a location precede a write of the thread that has updated it last (coherence order).
        let location = self.locations.get(&(index * 4));
        let updated = writes && location.is_some_and(|location| location.writer == Some(by));
        for entry in &entries {
            if entry.bytes & bytes == 0 || !(entry.writes || writes) {
                continue;
            }
            let group = &self.groups[entry.group as usize - 1];
            if updated && group.strong.is_some() && self.scope_includes(group, by) {
                continue;
            }
            let race = self.race(by, (access, copy), entry);
            let lock = || {
                self.race_of_lock(by, access, entry)
                    .filter(|_| copy.is_none())
            };
            let proxy = || self.race_of_proxies(by, (access, copy), entry);
            if let Some(mut race) = race.or_else(lock).or_else(proxy) {
                race.address = index * 4 + u64::from((entry.bytes & bytes).trailing_zeros());
                race.both_write = writes && entry.writes;
                report(race);
            }
        }
        // Forgets the accesses that happen before this access, and those that can race with a later access only if this
        // access does, too.
        entries.retain(|entry| {
            let covered = entry.bytes & !bytes == 0 && (writes || !entry.writes);
            !covered || self.is_current(by, entry) || !self.is_over(by, entry)
        });
        let mut new = Entry {
            group,
            lanes: lane,
            bytes,
            writes,
        };
        if let Some(at) = entries.iter().position(|entry| entry.key() == new.key()) {
            new.lanes |= entries.swap_remove(at).lanes;
        }
        self.store(index, new, &mut entries);
        self.scratch = entries;
    }

    /// Stores the accesses of a cell: the newest write and the newest read in the cell, the others in its list.
    fn store(&mut self, index: u64, new: Entry, entries: &mut Vec<Entry>) {
        let cell = *self.cells.cell(index);
        let other = if new.writes {
            cell.read()
        } else {
            cell.write()
        };
        let other = other.and_then(|kept| {
            let at = entries.iter().position(|entry| entry.key() == kept.key())?;
            Some(entries.swap_remove(at))
        });
        let had_list = cell.list() != cell::NONE;
        if new.writes {
            self.cells.unmark(index, 1);
        }
        let cell = self.cells.cell(index);
        cell.set(new);
        match other {
            Some(other) => cell.set(other),
            None => cell.clear(!new.writes),
        }
        if entries.is_empty() && !had_list {
            return;
        }
        self.limit_entries(entries);
        entries.sort_unstable_by_key(Entry::key);
        let skip = entries.len().saturating_sub(MOST);
        self.cells.set_further(index, &entries[skip..]);
    }

    /// If there are many entries, keeps only some of them. Of the latest CTA, keeps the latest entries of each instruction
    /// and kind of access: [`OF_KIND`] entries, of which at most [`OF_WARP`] are of one warp. Keeps one entry of each of
    /// three other CTAs.
    ///
    /// Whichever thread accesses the cell later, kept entries are of other warps. If only barriers order the threads,
    /// these entries race with the later access if one of the removed entries does.
    fn limit_entries(&self, entries: &mut Vec<Entry>) {
        if entries.len() <= KEPT {
            return;
        }
        let latest = entries
            .iter()
            .map(|entry| self.groups[entry.group as usize - 1].cta)
            .max();
        let mut seen: SmallVec<[(Site, bool, CtaId); 8]> = SmallVec::new();
        entries.retain(|entry| {
            let group = &self.groups[entry.group as usize - 1];
            if Some(group.cta) == latest {
                return true;
            }
            let kind = (group.site, entry.writes);
            let alike = seen
                .iter()
                .filter(|(site, writes, _)| (*site, *writes) == kind);
            if alike.clone().count() >= 3 || alike.clone().any(|(.., cta)| *cta == group.cta) {
                return false;
            }
            seen.push((group.site, entry.writes, group.cta));
            true
        });
        if entries.len() <= KEPT {
            return;
        }
        let mut seen: SmallVec<[(Site, bool, u8, u32); 16]> = SmallVec::new();
        entries.reverse();
        entries.retain(|entry| {
            let group = &self.groups[entry.group as usize - 1];
            if Some(group.cta) != latest || group.copy.is_some() || group.lock.is_some() {
                return true;
            }
            let kind = (group.site, entry.writes, entry.bytes);
            let alike = seen
                .iter()
                .filter(|(site, writes, bytes, _)| (*site, *writes, *bytes) == kind);
            let of_warp = alike.clone().filter(|(.., warp)| *warp == group.warp);
            if alike.clone().count() >= OF_KIND || of_warp.count() >= OF_WARP {
                return false;
            }
            seen.push((kind.0, kind.1, kind.2, group.warp));
            true
        });
    }

    /// Returns the group of an access.
    fn group(
        &mut self,
        by: Thread,
        (site, access, copy): (Site, Access, Option<Copy>),
        writes: bool,
    ) -> GroupId {
        let cta = &mut self.ctas[by.cta as usize];
        let time = cta.time(by.index);
        cta.note_access(by.index);
        let lock = cta.lock(by.index);
        let key = (by.cta, by.warp(), site, writes);
        let recent = &mut self.recent[(2 * site as usize + usize::from(writes)) % RECENT];
        let known = match *recent {
            Some((known, id)) if known == key => Some(id),
            _ => cta.group(by.warp(), site, writes),
        };
        if let Some(id) = known {
            *recent = Some((key, id));
            let group = &self.groups[id as usize - 1];
            if (group.time, group.copy, group.lock) == (time, copy, lock) {
                return id;
            }
        }
        let group = self.add_group(Group {
            launch: self.ctas[by.cta as usize].launch,
            cta: by.cta,
            warp: by.warp(),
            time,
            site,
            strong: access.strong,
            volatile: access.volatile,
            element: access.element.min(u8::MAX.into()) as u8,
            copy,
            lock,
        });
        self.ctas[by.cta as usize].set_group(by.warp(), site, writes, group);
        group
    }

    /// Returns whether a strong access in a loop has read at an address what another thread has written there with a
    /// strong access.
    pub fn is_flag(&self, address: u64) -> bool {
        self.flags.contains(&address)
    }

    /// Performs a fence of a thread.
    pub fn fence(&mut self, id: CtaId, thread: u32, scope: Scope) {
        if self.given_up {
            return;
        }
        let cta = &mut self.ctas[id as usize];
        self.scheduled |= cta.fence(id, thread, scope);
        let released = cta.last_fence(thread).map(|fence| fence.clock.clone());
        self.use_clock(id, (thread, Use::Fenced), &released.flatten());
    }

    /// Returns whether an atomic operation or a polling loop has acquired what another thread has released. In another
    /// schedule, other threads may synchronise with each other, and other accesses may race.
    pub fn depends_on_schedule(&self) -> bool {
        self.scheduled
    }

    /// Performs a fence of a thread between the generic and the asynchronous proxy.
    pub fn fence_proxy(&mut self, id: CtaId, thread: u32, windows: &[Window]) {
        self.ctas[id as usize].fence_proxy(id, thread, windows);
    }

    /// Ends a thread's group of `cp.async` copies.
    pub fn commit_copies(&mut self, id: CtaId, thread: u32) {
        self.ctas[id as usize].commit_copies(thread, Sequence::Thread);
    }

    /// Records that a thread has waited until at most `open` of its groups of `cp.async` copies are incomplete; with
    /// `None`, until all its copies are complete.
    pub fn wait_for_copies(&mut self, id: CtaId, thread: u32, open: Option<u32>) {
        self.ctas[id as usize].wait_for_copies(thread, Sequence::Thread, open, false);
    }

    /// Records that a thread begins to issue an asynchronous operation, which performs the thread's accesses until
    /// [`Detector::end_copy`]. `proxy` states whether the operation uses the asynchronous proxy.
    pub fn begin_copy(&mut self, id: CtaId, thread: u32, completion: Completion, proxy: bool) {
        let cta = &mut self.ctas[id as usize];
        let end = match completion {
            Completion::BulkGroup => {
                End::Group(Sequence::Bulk, cta.open_copies(thread, Sequence::Bulk))
            }
            Completion::Object => {
                self.copies.push(None);
                End::Object(self.copies.len() as u32 - 1)
            }
        };
        let copy = Copy { end, proxy };
        cta.set_issue(thread, Some(Issue { completion, copy }));
    }

    /// Returns whether a thread of a CTA is issuing an asynchronous operation.
    pub fn is_issuing(&self, id: CtaId) -> bool {
        self.ctas[id as usize].has_issues()
    }

    /// Records that a thread has issued its asynchronous operation.
    pub fn end_copy(&mut self, id: CtaId, thread: u32) {
        self.ctas[id as usize].set_issue(thread, None);
    }

    /// Ends a thread's group of bulk copies.
    pub fn commit_bulk(&mut self, id: CtaId, thread: u32) {
        self.ctas[id as usize].commit_copies(thread, Sequence::Bulk);
    }

    /// Records that a thread has waited until at most `open` of its groups of bulk copies are incomplete. With
    /// `only_reads`, the copies have read their sources, and may still write.
    pub fn wait_for_bulk(&mut self, id: CtaId, thread: u32, open: u32, only_reads: bool) {
        let cta = &mut self.ctas[id as usize];
        cta.wait_for_copies(thread, Sequence::Bulk, Some(open), only_reads);
    }

    /// Orders the accesses of the lanes `mask` of a warp, of which the lanes `alive` have not exited.
    pub fn synchronise_warp(&mut self, id: CtaId, warp: u32, mask: u32, alive: u32) {
        self.ctas[id as usize].synchronise_warp(warp, mask, alive);
    }

    /// Records that lanes have arrived at a barrier of their CTA without waiting there.
    pub fn arrive(&mut self, id: CtaId, barrier: usize, warp: u32, mask: u32) {
        self.ctas[id as usize].arrive(id, barrier, warp, mask);
    }

    /// Completes a barrier of a CTA, which releases the lanes `released` of each warp. `alive` are the lanes that have
    /// not exited.
    pub fn complete_barrier(&mut self, id: CtaId, barrier: usize, released: &[u32], alive: &[u32]) {
        self.ctas[id as usize].complete_barrier(id, barrier, released, alive);
    }

    /// Records that lanes of a warp have arrived at the barrier of the cluster. A relaxed arrival releases no accesses.
    pub fn arrive_at_cluster(&mut self, id: CtaId, warp: u32, mask: u32, relaxed: bool) {
        self.ctas[id as usize].arrive_at_cluster(id, warp, mask, relaxed);
    }

    /// Records that lanes of a warp have waited at the barrier of the cluster, which was complete before.
    pub fn wait_at_cluster(&mut self, id: CtaId, warp: u32, mask: u32) {
        self.ctas[id as usize].wait_at_cluster(warp, mask);
    }

    /// Completes the barrier of a cluster. `ctas` contains, for each CTA and each of its warps, the lanes that wait
    /// there and the lanes that have not exited.
    pub fn complete_cluster(&mut self, ctas: &[(CtaId, Vec<u32>, Vec<u32>)]) {
        let all = |(id, waiting, alive): &(CtaId, Vec<u32>, Vec<u32>)| {
            self.ctas[*id as usize].all_at_cluster(waiting, alive)
        };
        if ctas.iter().all(all) {
            for (id, _, alive) in ctas {
                self.ctas[*id as usize].take_cluster_arrivals(*id, &vec![u32::MAX; alive.len()]);
            }
            let ids: Vec<CtaId> = ctas.iter().map(|(id, ..)| *id).collect();
            return self.synchronise_ctas(&ids);
        }
        let mut released = [None, None, None];
        for (id, _, alive) in ctas {
            let arrived = self.ctas[*id as usize].take_cluster_arrivals(*id, alive);
            for (all, arrived) in released.iter_mut().zip(&arrived) {
                clock::join(all, arrived);
            }
        }
        for (id, waiting, _) in ctas {
            let cta = &mut self.ctas[*id as usize];
            cta.release_cluster(released.clone());
            for (warp, &mask) in waiting.iter().enumerate() {
                cta.wait_at_cluster(warp as u32, mask);
            }
        }
    }

    /// Orders the accesses of all threads of several CTAs: a barrier of their cluster.
    fn synchronise_ctas(&mut self, ids: &[CtaId]) {
        let mut all = None;
        for &id in ids {
            let released = self.ctas[id as usize].release_all(id);
            clock::join(&mut all, &released);
        }
        for &id in ids {
            self.ctas[id as usize].acquire_all(&all);
        }
    }
}

/// Returns the maximum size of a clock for [`Basis::Suspected`] after the detector has joined clocks of the size `joined`.
fn most_suspected(joined: u64) -> u64 {
    match joined < MOST_SUSPECTED {
        true => MANY_KNOWN,
        false => FEW_KNOWN,
    }
}

#[cfg(test)]
mod tests;
