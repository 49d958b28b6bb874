//! Finds races. Two accesses to the same byte race if at least one of them is a write, they are not both strong with
//! sufficient scope and the same size, and neither happens before the other (PTX ISA 8, memory consistency model).
//!
//! The detector receives all accesses and all operations that order accesses, one at a time, in an order in which the
//! program can execute them. Whether two accesses race depends only on the operations that order them, and not on the
//! time at which they occur.
//!
//! The time between two synchronising operations of a warp is an *interval*. The detector records the accesses to
//! each aligned group of four bytes of memory in a *cell*. A cell stores the accesses of an interval
//! separately for each instruction. The reported pairs of instructions therefore do not depend on
//! the order in which an engine runs the lanes of a warp.

mod adjacent;
mod cell;
mod clock;
mod copy;
mod cta;
mod ctas;
mod grids;
mod line;
mod location;
mod pair;
mod quick;
mod reads;
mod scattered;
mod sequenced;
mod sweep;

use std::num::NonZeroU32;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use cell::{Cells, Entry, GroupId};
pub use clock::{CtaId, Window};
use clock::{Shared, Thread, Time};
pub use copy::Completion;
use copy::{Copy, End, Issue, Place, Sequence};
use cta::Use;
use ctas::{Cta, UnusedCtas};
use location::Location;
pub use quick::Shape;
use reads::Blocks;
pub use reads::Run;
use sweep::Unused;

/// Index of an instruction, chosen by the caller. The same instruction has the same site in different launches.
pub type Site = u32;

/// The scope of a strong access or fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// The scope contains the threads of the CTA.
    Cta,
    /// The scope contains the threads of the cluster.
    Cluster,
    /// The scope contains all threads of the device, or of the system.
    Device,
}

impl Scope {
    /// All scopes, the narrowest first.
    const ALL: [Scope; 3] = [Scope::Cta, Scope::Cluster, Scope::Device];
}

/// The properties of an access.
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
    /// The state space that the access uses.
    pub window: Window,
    /// Whether a read acquires the accesses that were released by the write whose value it reads.
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

/// The missing operation or property because of which two accesses race.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Missing {
    /// A barrier or a fence between threads of one warp (`__syncwarp`).
    WarpBarrier,
    /// A barrier of the CTA.
    Barrier,
    /// A barrier of the cluster.
    ClusterBarrier,
    /// Synchronisation between CTAs: a barrier of the grid, or a flag that is written with release and read with
    /// acquire.
    GridOrder,
    /// A fence between the access and a flag that both threads use.
    Fence,
    /// A strong access or fence whose scope includes both threads.
    Scope,
    /// Equal sizes of the two atomic accesses.
    Size,
    /// A wait for a `cp.async`, by the thread that has issued the copy.
    CopyWait,
    /// A wait for the group of a bulk copy, by the thread that has issued the copy.
    BulkWait,
    /// A wait for the mbarrier that an asynchronous copy signals.
    ObjectWait,
    /// A fence between the generic and the asynchronous proxy, which must follow a write and precede a bulk copy.
    ProxyFence,
    /// Synchronisation between the streams of two launches.
    StreamOrder,
}

/// A race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Race {
    /// The site, the CTA and the thread of the earlier access.
    pub earlier: (Site, CtaId, u32),
    /// Whether the earlier access writes.
    pub earlier_writes: bool,
    /// The thread of the later access, as an index in the CTA that the caller has passed to the
    /// detector.
    pub thread: u32,
    /// The address of the first byte that both accesses have in common.
    pub address: u64,
    /// The missing operation or property.
    pub missing: Missing,
    /// Whether both accesses are by threads of one warp, and neither is by an asynchronous copy.
    pub same_warp: bool,
    /// Whether both accesses write.
    pub both_write: bool,
    /// Whether both accesses are strong with sufficient scope, and at least one is volatile. Such accesses do not race
    /// in PTX. The location is a flag if threads read from it values that other threads have written
    /// ([`Detector::is_flag`]).
    pub volatile: bool,
    /// Whether the only cause of the race is a fence in the later thread, between the thread's
    /// strong read of a flag and its access: the fence is missing or has too narrow a scope. The
    /// earlier thread has released its access properly. Many programs lack this fence and still
    /// work on GPUs.
    pub reader_lacks_fence: bool,
    /// Number of neighbouring threads for which the race is reported. The number is more than one only if neighbouring
    /// lanes of one CTA and the same lanes of another CTA write the same memory. Each thread of one CTA then races with
    /// the corresponding thread of the other CTA.
    pub threads: u32,
}

impl Race {
    /// For a race of several threads, returns the race of the thread with index `number`. Each thread accesses `bytes`
    /// bytes.
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

/// An access of a thread that conflicts with a piece of work that is not a launch, such as a copy,
/// and that may run at the same time.
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
    /// The address of the first byte that both the thread and the other piece of work access.
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
    /// Number of bytes that each access of the group accesses atomically.
    element: u8,
    /// The asynchronous copy that performs the accesses; `None` if the threads perform them.
    copy: Option<Copy>,
    /// The lock that the accessing thread held, as its index in [`Detector::locks`] plus one.
    lock: Option<NonZeroU32>,
}

impl Group {
    /// Creates the group of the weak accesses that one instruction performs in one warp at one
    /// time. The arguments are the launch, the CTA and the warp; the time; and the instruction with
    /// the number of bytes of an element.
    fn of_weak(
        (launch, cta, warp): (u32, CtaId, u32),
        time: Time,
        (site, element): (Site, u8),
    ) -> Group {
        Group {
            launch,
            cta,
            warp,
            time,
            site,
            strong: None,
            volatile: false,
            element,
            copy: None,
            lock: None,
        }
    }

    /// Returns whether every access that races with an access of `other` also races with an access of this group, if no
    /// order exists between the accesses. A later atomic access does not race with an atomic access of this group, but
    /// it races with a weak access, an access of a narrower scope or an access of another size.
    fn races_like(&self, other: &Group) -> bool {
        let kind = |group: &Group| (group.strong, group.element, group.volatile);
        self.strong.is_none() || kind(self) == kind(other)
    }
}

/// A lock that a thread holds. It is a location that the thread has changed with a compare-and-swap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lock {
    address: u64,
    /// The scope of the acquire that the thread has performed with or after the compare-and-swap; `None` if there was
    /// no acquire.
    acquired: Option<Scope>,
}

/// Maximum number of accesses in the list of a cell, in addition to the write and the read that the cell stores
/// directly.
const MOST: usize = 64;

/// If the list of a cell has more than this number of accesses, the detector keeps only some of them.
const KEPT: usize = 8;

/// Maximum number of accesses of the latest CTA by one instruction to the same bytes that are kept in a list of more
/// than [`KEPT`] accesses.
const OF_KIND: usize = 6;

/// Maximum number of accesses by the same warp among the accesses that [`OF_KIND`] limits.
const OF_WARP: usize = 2;

/// The CTA, the warp and the instruction of a group, and whether its accesses write.
type GroupKey = (CtaId, u32, Site, bool);

/// Number of entries of the cache of groups ([`Detector::recent`]).
const RECENT: usize = 32;

/// Detects races.
#[derive(Debug, Default)]
pub struct Detector {
    ctas: Vec<Cta>,
    /// The CTAs by launch and linear index.
    ids: FxHashMap<(u32, u64), CtaId>,
    /// The data structures of CTAs that have ended, for reuse by CTAs that begin later.
    unused_ctas: UnusedCtas,
    /// Number of threads of a CTA in launches with CTAs that the caller has not added ([`Detector::read_grid`]).
    threads: FxHashMap<u32, u32>,
    groups: Vec<Group>,
    unused: Unused,
    /// A cache of the groups that were used last. The instruction and the kind of access determine the index.
    recent: [Option<(GroupKey, GroupId)>; RECENT],
    cells: Cells,
    /// Reads that are recorded as runs instead of in cells.
    blocks: Blocks,
    locations: FxHashMap<u64, Location>,
    /// Number of strong writes and of completed phases of mbarriers so far, counted over all locations.
    versions: u64,
    /// The locations from which a strong access in a loop has read a value that another thread had written with a
    /// strong access.
    flags: FxHashSet<u64>,
    /// For each copy that signals an mbarrier, the position of the copy in its sequence; `None`
    /// before the signal.
    copies: Vec<Option<Place>>,
    /// For each thread and mbarrier, the index of the sequence of copies, and the number of the last copy in the
    /// sequence.
    sequences: FxHashMap<(Thread, u64), Place>,
    /// For each launch or other piece of work, the earlier pieces of work that may run at the same time, in ascending
    /// order.
    overlaps: FxHashMap<u32, Vec<u32>>,
    /// All launches and other pieces of work that may run at the same time as some other piece of work.
    overlapping: FxHashSet<u32>,
    /// See [`Detector::depends_on_schedule`].
    scheduled: bool,
    scratch: Vec<Entry>,
    /// Total size of the clocks that were joined for [`cta::Basis::Suspected`].
    suspected: u64,
    /// Total size ([`clock::size`]) of the clocks that the detector stores: for each thread of a CTA that has not
    /// ended, its last clock for each [`Use`]; for each location, the clocks that it stores for
    /// all threads of the device.
    known: u64,
    /// Pairs of a thread and the address of a lock. The thread has released the lock, and has
    /// accessed memory while it held the lock and had not acquired the lock with [`Scope::Device`].
    /// The pairs of CTAs that have ended are kept.
    released: FxHashSet<(Thread, u64)>,
    /// The locks that threads have held while they accessed memory.
    locks: IndexSet<Lock, FxBuildHasher>,
    /// See [`Detector::has_given_up`].
    given_up: bool,
}

/// Maximum of [`Detector::known`]. The clocks of `n` threads that all synchronise with each other take memory that is
/// proportional to `n * n`.
const MOST_KNOWN: u64 = 1 << 26;

impl Detector {
    /// Returns whether the detector has stopped recording accesses because too many threads synchronise with each other
    /// through memory. It records accesses again after [`Detector::clear`].
    pub fn has_given_up(&self) -> bool {
        self.given_up
    }

    /// Updates the total size of clocks: the clock that a thread now uses for the purpose `of` replaces the thread's
    /// previous clock for this purpose. If all clocks together take too much memory, removes all
    /// recorded accesses and stops recording.
    fn use_clock(&mut self, id: CtaId, (thread, of): (u32, Use), clock: &Shared) {
        let size = clock::size(clock);
        let before = self.ctas[id as usize].set_size(thread, of, size);
        self.known = self.known + size - before;
        if self.known > MOST_KNOWN && !self.given_up {
            self.given_up = true;
            self.cells = Cells::default();
            self.blocks = Blocks::default();
            self.locations.clear();
            self.released = FxHashSet::default();
            self.known = 0;
            for cta in self.ctas.iter_mut().filter_map(Cta::running_mut) {
                cta.take_sizes();
                cta.forget_others();
            }
        }
    }

    /// Adds a CTA whose threads have not accessed memory.
    pub fn add_cta(&mut self, launch: u32, index: u64, cluster: u64, threads: u32) -> CtaId {
        let next = self.ctas.len() as CtaId;
        let id = *self.ids.entry((launch, index)).or_insert(next);
        if id == next {
            self.ctas.push(Cta::new(launch, index, cluster, threads));
        }
        self.ctas[id as usize].begin(&mut self.unused_ctas);
        id
    }

    /// Tells the detector that the threads of a CTA synchronise only with barriers of the whole CTA
    /// and with warp barriers: the kernel has no fences, asynchronous copies or other barriers. Its
    /// only strong accesses are relaxed atomic updates whose results are unused, and none of them
    /// is a compare-and-swap or a signal to an mbarrier.
    pub fn order_by_barriers_only(&mut self, id: CtaId) {
        self.ctas[id as usize].barriers_only = true;
    }

    /// Tells the detector that the threads of a CTA have performed all their accesses.
    pub fn end_cta(&mut self, id: CtaId) {
        let cta = &mut self.ctas[id as usize];
        if let Some(running) = cta.running_mut() {
            self.known -= running.take_sizes();
        }
        cta.end(&mut self.unused_ctas);
    }

    /// Returns the launch and the linear index of a CTA.
    pub fn cta(&self, id: CtaId) -> (u32, u64) {
        let cta = &self.ctas[id as usize];
        (cta.launch, cta.index)
    }

    /// Returns the number of bytes that the cells and the runs of reads occupy.
    pub fn shadow_bytes(&self) -> usize {
        self.cells.bytes() + self.blocks.bytes()
    }

    /// Removes all recorded data: CTAs, accesses, flags and overlaps of work. The caller calls this
    /// function when all later accesses happen after the recorded accesses.
    pub fn clear(&mut self) {
        *self = Detector::default();
    }

    /// Records that the piece of work `work`, for example a launch, may run at the same time as each piece of work in
    /// `earlier`. Pieces of work for which no overlap is recorded are ordered.
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

    /// Removes the record of earlier work that may run at the same time as `work`. The detector must contain no
    /// accesses of `work`.
    pub fn forget_overlaps(&mut self, work: u32) {
        self.overlaps.remove(&work);
    }

    /// Returns whether two pieces of work may run at the same time.
    pub fn may_overlap(&self, a: u32, b: u32) -> bool {
        may_overlap(&self.overlaps, a, b)
    }

    /// Returns the number of stored pairs of pieces of work that may run at the same time.
    pub fn overlaps(&self) -> usize {
        self.overlaps.values().map(Vec::len).sum()
    }

    /// Returns the number of groups and runs of accesses, which is a measure of the detector's use of memory.
    pub fn groups(&self) -> usize {
        self.used_groups() + self.blocks.runs()
    }

    /// Calls `found` for each recorded access that conflicts with an access of `work` to `bytes` bytes at `address`.
    /// `work` is a piece of work other than a launch. Accesses of launches that are ordered with `work` do not
    /// conflict.
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

    /// Removes the recorded accesses to memory that is about to be reused.
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

    /// Records an access; `range` contains its address and its number of bytes. Calls `report` for
    /// each race with an earlier access.
    pub fn access(
        &mut self,
        id: CtaId,
        thread: u32,
        what: (Site, Access),
        range: (u64, u32),
        mut report: impl FnMut(Race),
    ) {
        self.access_with(true, (id, thread), what, range, &mut report);
    }

    /// Does the same as [`Detector::access`]. If `shortly` is false, compares each access with all
    /// earlier accesses, even if the shorter comparison of `Detector::access_shortly` would be
    /// sufficient.
    fn access_with(
        &mut self,
        shortly: bool,
        (id, thread): (CtaId, u32),
        (site, access): (Site, Access),
        (address, bytes): (u64, u32),
        report: &mut impl FnMut(Race),
    ) {
        if self.given_up {
            return;
        }
        self.sweep_groups();
        let by = Thread {
            cta: id,
            index: thread,
        };
        if self.update(by, (site, access), (address, bytes), report) {
            return;
        }
        if access.writes {
            let launch = self.ctas[id as usize].launch;
            self.begin_write(launch, address, bytes.into());
        }
        if shortly && self.access_shortly(by, (site, access), (address, bytes), report) {
            if access.writes && !self.locations.is_empty() {
                self.forget_location(address);
            }
            return;
        }
        let issue = self.ctas[id as usize].issue(thread);
        if let Some(issue) = issue.filter(|_| !access.signals) {
            // The copy performs this access instead of the thread. The access neither acquires nor releases.
            let part = (site, access, Some(issue.copy));
            return self.touch_all(by, part, (address, bytes), report);
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
        self.touch_all(by, (site, access, copy), (address, bytes), report);
        if access.writes && access.strong.is_none() && !self.locations.is_empty() {
            // A weak write ends the release sequence: a thread that reads the written value does not synchronise with
            // any writer.
            self.forget_location(address);
        }
        if access.strong.is_some() {
            self.after_strong(id, thread, access, (address, place));
        }
    }

    /// Records an access in all cells that the access overlaps.
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

    /// Completes the asynchronous operation that a thread is issuing, because the operation signals the mbarrier at
    /// `address`. Returns the operation's place in its sequence; `None` if the operation does not complete with a
    /// signal to an mbarrier.
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
        // A copy to several CTAs signals an mbarrier in each CTA, so the operation continues for the next signal.
        self.begin_copy(by.cta, by.index, issue.completion, issue.copy.proxy);
        Some(place)
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
        // If the same instruction of the same warp accesses the cell again in the same interval, only lanes are added.
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
        // If this thread has performed the last strong write to the location, all strong accesses to the location so
        // far precede this write in coherence order.
        let location = self.locations.get(&(index * 4));
        let updated = writes && location.is_some_and(|location| location.writer == Some(by));
        // Operations on an mbarrier are atomic with respect to all other operations on it, whatever their scopes are.
        let on_object = access.strong.is_some() && self.is_object((index * 4) & !7);
        for entry in &entries {
            if entry.bytes & bytes == 0 || !(entry.writes || writes) {
                continue;
            }
            let group = &self.groups[entry.group as usize - 1];
            let one_size = access.strong.is_none() || u32::from(group.element) == access.element;
            // Volatile accesses are not atomic in CUDA C++, so coherence order does not excuse two of them.
            let ordered = updated && !(group.volatile && access.volatile);
            if group.strong.is_some()
                && one_size
                && (on_object || ordered && self.scope_includes(group, by))
            {
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
        // Removes accesses that happen before this access and can race with a later access only if this access also
        // races with it.
        let new_group = self.groups[group as usize - 1];
        entries.retain(|entry| {
            let old = &self.groups[entry.group as usize - 1];
            let covered =
                entry.bytes & !bytes == 0 && (writes || !entry.writes) && new_group.races_like(old);
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

    /// Stores the accesses of a cell: `new` is the newest access, and `entries` are all others. The
    /// newest write and the newest read are stored directly in the cell, all other accesses in its
    /// list.
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

    /// If there are more than [`KEPT`] entries, keeps only some entries of each instruction and kind of access (read or
    /// write). Of the latest CTA, keeps up to [`OF_KIND`] of the latest entries, at most [`OF_WARP`] of them by the
    /// same warp. Of other CTAs, keeps one entry of each of up to three CTAs. Entries of the latest CTA by asynchronous
    /// copies or by threads that held a lock are always kept.
    ///
    /// For every thread that accesses the cell later, some of the kept entries are of other warps. If only barriers
    /// order the threads, the later access races with these entries if it races with a removed entry.
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

    /// Returns the group to which an access belongs. Creates the group if it does not exist yet.
    fn group(
        &mut self,
        by: Thread,
        (site, access, copy): (Site, Access, Option<Copy>),
        writes: bool,
    ) -> GroupId {
        let cta = &mut self.ctas[by.cta as usize];
        let time = cta.time(by.index);
        cta.note_access(by.index);
        let lock = cta.use_lock(by.index).and_then(|lock| {
            let (index, _) = self.locks.insert_full(lock);
            NonZeroU32::new(index as u32 + 1)
        });
        let key = (by.cta, by.warp(), site, writes);
        let recent = &mut self.recent[(2 * site as usize + usize::from(writes)) % RECENT];
        let last = recent.and_then(|(known, id)| (known == key).then_some(id));
        let of_run = cta.run_groups(site);
        let known = [
            last.or_else(|| cta.group(by.warp(), site, writes)),
            of_run.map(|first| first + by.warp()),
        ];
        let is_current = |id: &GroupId| {
            let group = &self.groups[*id as usize - 1];
            (group.time, group.copy, group.lock) == (time, copy, lock)
        };
        if let Some(id) = known.into_iter().flatten().find(is_current) {
            *recent = Some((key, id));
            return id;
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

    /// Returns whether a strong access in a loop has read a value at `address` that another thread had written with a
    /// strong access.
    pub fn is_flag(&self, address: u64) -> bool {
        self.flags.contains(&address)
    }

    /// Records that a thread executes a fence.
    pub fn fence(&mut self, id: CtaId, thread: u32, scope: Scope) {
        self.fence_with(id, thread, |cta| cta.fence(id, thread, scope));
    }

    /// Records that a thread executes a `fence.sc`. It has all effects of a fence. In addition, a flag that other
    /// threads write and read can order two such fences of device scope ([`sequenced`]).
    pub fn fence_sc(&mut self, id: CtaId, thread: u32, scope: Scope) {
        match scope {
            Scope::Device => self.fence_with(id, thread, |cta| cta.fence_sc(id, thread)),
            _ => self.fence(id, thread, scope),
        }
    }

    /// Records a fence of a thread by a call of `perform`, which returns whether the acquired clock
    /// depends on the schedule.
    fn fence_with(&mut self, id: CtaId, thread: u32, perform: impl FnOnce(&mut Cta) -> bool) {
        if self.given_up {
            return;
        }
        let cta = &mut self.ctas[id as usize];
        self.scheduled |= perform(cta);
        let released = cta.last_fence(thread).map(|fence| fence.clock.clone());
        self.use_clock(id, (thread, Use::Fenced), &released.flatten());
    }

    /// Returns whether an atomic operation or a polling loop has acquired accesses that another thread had released. In
    /// a different schedule, different threads may synchronise with each other, and different accesses may race.
    pub fn depends_on_schedule(&self) -> bool {
        self.scheduled
    }

    /// Records that a thread executes a fence between the generic and the asynchronous proxy.
    pub fn fence_proxy(&mut self, id: CtaId, thread: u32, windows: &[Window]) {
        self.ctas[id as usize].fence_proxy(id, thread, windows);
    }

    /// Records that a thread commits its current group of `cp.async` copies.
    pub fn commit_copies(&mut self, id: CtaId, thread: u32) {
        self.ctas[id as usize].commit_copies(thread, Sequence::Thread);
    }

    /// Records that a thread has waited until at most `open` of its groups of `cp.async` copies are incomplete or, if
    /// `open` is `None`, until all its copies are complete.
    pub fn wait_for_copies(&mut self, id: CtaId, thread: u32, open: Option<u32>) {
        self.ctas[id as usize].wait_for_copies(thread, Sequence::Thread, open, false);
    }

    /// Records that a thread begins to issue an asynchronous operation. All accesses of the thread until
    /// [`Detector::end_copy`] are treated as accesses of this operation. `proxy` states whether the operation uses the
    /// asynchronous proxy.
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

    /// Records that a thread commits its current group of bulk copies.
    pub fn commit_bulk(&mut self, id: CtaId, thread: u32) {
        self.ctas[id as usize].commit_copies(thread, Sequence::Bulk);
    }

    /// Records that a thread has waited until at most `open` of its groups of bulk copies are incomplete. If
    /// `only_reads` is true, the copies have only read their sources and may still write.
    pub fn wait_for_bulk(&mut self, id: CtaId, thread: u32, open: u32, only_reads: bool) {
        let cta = &mut self.ctas[id as usize];
        cta.wait_for_copies(thread, Sequence::Bulk, Some(open), only_reads);
    }

    /// Records that the lanes `mask` of a warp synchronise with each other. `alive` are the lanes
    /// of the warp that have not exited.
    pub fn synchronise_warp(&mut self, id: CtaId, warp: u32, mask: u32, alive: u32) {
        self.ctas[id as usize].synchronise_warp(warp, mask, alive);
    }

    /// Records that lanes have arrived at a barrier of their CTA without waiting there.
    pub fn arrive(&mut self, id: CtaId, barrier: usize, warp: u32, mask: u32) {
        self.ctas[id as usize].arrive(id, barrier, warp, mask);
    }

    /// Records that a barrier of a CTA is complete. For each warp, `released` contains the lanes
    /// that the barrier releases, and `alive` contains the lanes that have not exited. For a
    /// barrier that waits for a given number of threads, `alive` contains all lanes.
    pub fn complete_barrier(&mut self, id: CtaId, barrier: usize, released: &[u32], alive: &[u32]) {
        self.ctas[id as usize].complete_barrier(id, barrier, released, alive);
    }

    /// Records that lanes of a warp have arrived at the barrier of the cluster. A relaxed arrival of a thread releases
    /// only the accesses before the thread's last fence.
    pub fn arrive_at_cluster(&mut self, id: CtaId, warp: u32, mask: u32, relaxed: bool) {
        self.ctas[id as usize].arrive_at_cluster(id, warp, mask, relaxed);
    }

    /// Records that lanes of a warp have waited at the barrier of the cluster. The barrier was complete before this
    /// call.
    pub fn wait_at_cluster(&mut self, id: CtaId, warp: u32, mask: u32) {
        self.ctas[id as usize].wait_at_cluster(warp, mask);
    }

    /// Records that the barrier of a cluster is complete. `ctas` contains, for each CTA and each of
    /// its warps, the lanes that wait at the barrier and the lanes that have not exited.
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

    /// Records that all threads of a cluster pass a barrier: the earlier accesses of all threads of
    /// the CTAs happen before all later accesses.
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

/// Returns whether two pieces of work may run at the same time. `overlaps` is [`Detector::overlaps`].
fn may_overlap(overlaps: &FxHashMap<u32, Vec<u32>>, a: u32, b: u32) -> bool {
    let contains = |work: u32, earlier: u32| {
        let known = overlaps.get(&work);
        known.is_some_and(|known| known.binary_search(&earlier).is_ok())
    };
    !overlaps.is_empty() && (contains(a, b) || contains(b, a))
}

#[cfg(test)]
mod tests;
