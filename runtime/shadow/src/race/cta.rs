//! The clocks of the threads of a CTA. They determine which accesses of other threads of the CTA, and of other CTAs,
//! happen before a thread's next access.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::cell::GroupId;
use super::clock::{self, Clock, CtaId, Shared, Thread, Time, Window};
use super::copy::{Groups, Issue, Sequence};
use super::sequenced::Sequenced;
use super::{Lock, Scope, Site};

/// Clocks on three levels: CTA, warps and threads. The union of a thread's own clock, the clock of
/// its warp and the clock of its CTA contains the accesses that happen before the thread's next
/// access.
#[derive(Debug, Default)]
pub(super) struct Known {
    cta: Shared,
    /// The clock of each warp. The list is empty until a warp's clock contains accesses that the
    /// clock of the CTA does not contain.
    warps: Vec<Shared>,
    /// The clock of each thread. The list is empty until a thread's clock contains accesses that
    /// the clock of the thread's warp does not contain.
    threads: Vec<Shared>,
    /// Number of warps.
    count: usize,
}

impl Known {
    pub(super) fn new(warps: usize) -> Known {
        Known {
            cta: None,
            warps: Vec::new(),
            threads: Vec::new(),
            count: warps,
        }
    }

    /// Returns the clock of a thread's CTA, and the clocks of its warp and of the thread itself if
    /// they exist.
    fn levels(&self, thread: u32) -> impl Iterator<Item = &Shared> {
        let warp = self.warps.get(thread as usize / 32);
        let own = self.threads.get(thread as usize);
        [&self.cta].into_iter().chain(warp).chain(own)
    }

    fn knows(&self, reader: u32, thread: Thread, time: Time) -> bool {
        self.levels(reader)
            .any(|clock| clock::knows(clock, thread, time))
    }

    /// Returns the lanes of a warp whose accesses at `time` the clocks of a thread contain.
    fn lanes(&self, reader: u32, warp: (CtaId, u32), time: Time) -> u32 {
        let levels = self.levels(reader);
        levels.fold(0, |mask, clock| mask | clock::lanes(clock, warp, time))
    }

    fn warp_mut(&mut self, warp: usize) -> &mut Shared {
        if self.warps.is_empty() {
            self.warps = vec![None; self.count];
        }
        &mut self.warps[warp]
    }

    pub(super) fn thread_mut(&mut self, thread: u32) -> &mut Shared {
        if self.threads.is_empty() {
            self.threads = vec![None; self.count * 32];
        }
        &mut self.threads[thread as usize]
    }

    /// Adds the accesses in the clocks of the threads `mask` of a warp to the clock of the warp,
    /// and empties the clocks of these threads.
    fn raise_to_warp(&mut self, warp: usize, mask: u32) {
        if self.threads.is_empty() {
            return;
        }
        for lane in lanes(mask) {
            let known = self.threads[warp * 32 + lane as usize].take();
            if known.is_some() {
                clock::join(self.warp_mut(warp), &known);
            }
        }
    }

    /// Adds the accesses in the clocks of all threads and warps to the clock of the CTA, and
    /// empties the clocks of the threads and warps.
    fn raise_to_cta(&mut self) {
        for warp in 0..self.count {
            self.raise_to_warp(warp, u32::MAX);
        }
        for known in std::mem::take(&mut self.warps) {
            clock::join(&mut self.cta, &known);
        }
    }

    /// Adds all accesses in the clocks of the lanes `mask` of a warp to the clock of each of these
    /// lanes. `alive` are the lanes of the warp that have not exited.
    fn join_lanes(&mut self, warp: usize, mask: u32, alive: u32) {
        if mask == alive {
            self.raise_to_warp(warp, mask);
        } else if !self.threads.is_empty() {
            let mut all = None;
            for lane in lanes(mask) {
                clock::join(&mut all, &self.threads[warp * 32 + lane as usize]);
            }
            for lane in lanes(mask) {
                self.threads[warp * 32 + lane as usize].clone_from(&all);
            }
        }
    }

    /// Adds all accesses in the clocks of the threads `mask` to the clock of each of these threads.
    /// `mask` contains a mask for each warp.
    fn join_threads(&mut self, mask: &[u32]) {
        let threads = || {
            let warps = mask.iter().enumerate();
            warps.flat_map(|(warp, &mask)| lanes(mask).map(move |lane| warp as u32 * 32 + lane))
        };
        let mut all = None;
        for thread in threads() {
            clock::join(&mut all, &self.of(thread));
        }
        if all.is_some() {
            for thread in threads() {
                self.thread_mut(thread).clone_from(&all);
            }
        }
    }

    /// Returns the union of the clocks on the three levels of a thread.
    pub(super) fn of(&self, thread: u32) -> Shared {
        self.of_at_most(thread, u64::MAX)
    }

    /// Does the same as [`Known::of`], but without the clocks whose size is greater than `most`.
    fn of_at_most(&self, thread: u32, most: u64) -> Shared {
        let mut all = None;
        for clock in self
            .levels(thread)
            .filter(|clock| !clock::exceeds(clock, most))
        {
            clock::join(&mut all, clock);
        }
        all
    }
}

/// For each pair of lanes of a warp, element `[reader][lane]` is an interval: the accesses of
/// `lane` in intervals up to this one happen before the next access of `reader`. The matrix exists
/// only if these intervals differ between lanes.
type Matrix = Box<[[u32; 32]; 32]>;

#[derive(Debug)]
struct Warp {
    /// The current interval of the warp; the first interval is 1.
    interval: u32,
    /// All accesses of all lanes of the warp in intervals up to this one happen before the next
    /// access of every lane of the warp.
    common: u32,
    matrix: Option<Matrix>,
    /// The interval of the warp's latest access.
    used: u32,
    /// The interval in which a lane first arrived at the current barrier of the cluster.
    arrival: Option<u32>,
}

/// Selects the edges of the happens-before order from which a clock is computed. These are either only edges that the
/// memory model guarantees, or also edges that lack a fence or a sufficient scope. From the clocks
/// with such additional edges, the detector determines which operation is missing if two accesses
/// race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Basis {
    /// Only edges that the memory model guarantees.
    Guaranteed,
    /// The edges that the memory model guarantees, and also edges from a proper release to a strong
    /// read after which the reader executes no fence, or only a fence of too narrow a scope.
    Assumed,
    /// The edges that the memory model guarantees, and also edges from every strong write to every
    /// strong read that reads the written value.
    Suspected,
}

impl Basis {
    /// All kinds.
    const ALL: [Basis; 3] = [Basis::Guaranteed, Basis::Assumed, Basis::Suspected];
}

/// The purpose for which a thread uses a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// The clock contains the accesses that the thread has released with a strong access.
    Released,
    /// The clock is used only to explain races ([`Basis::Suspected`]).
    Suspected,
    /// The clock contains the accesses that the thread has released with a fence.
    Fenced,
}

/// What the detector stores about a CTA whose threads still access memory.
#[derive(Debug, Default)]
pub(super) struct Running {
    epoch: u32,
    warps: Vec<Warp>,
    guaranteed: Known,
    assumed: Known,
    suspected: Known,
    /// For each thread: its last fence.
    fences: Vec<Option<Box<Fence>>>,
    /// The clocks that belong to `fence.sc`; `None` until a thread executes a `fence.sc`, or reads
    /// a value that was written after a `fence.sc`.
    sequenced: Option<Box<Sequenced>>,
    /// For each thread, the clocks of the writes whose values the thread has read with strong
    /// reads, without the clocks that the thread has already acquired with a fence. The index of a
    /// clock is the least [`Scope`] of a fence that acquires it.
    pending: Vec<[Shared; 3]>,
    /// The threads whose clock in `pending` depends on the schedule.
    scheduled: FxHashSet<u32>,
    /// By number of the barrier and by [`Basis`], the clocks of the threads that have arrived without waiting.
    barriers: Vec<[Shared; 3]>,
    /// The groups of asynchronous copies, by thread and by [`Sequence`]: groups of `cp.async` or of bulk copies. The
    /// first commit or wait of a thread creates its entry.
    copies: FxHashMap<(u32, Sequence), Groups>,
    /// The asynchronous operations that threads are issuing.
    issues: FxHashMap<u32, Issue>,
    /// For each [`Basis`]: the accesses that threads have released by arriving at the barrier of the cluster.
    cluster_arrivals: [Shared; 3],
    /// For each [`Basis`]: the accesses that threads acquire by waiting at the barrier of the cluster.
    cluster_released: [Shared; 3],
    /// Whether a thread has arrived at the barrier of the cluster without releasing its accesses.
    relaxed_arrival: bool,
    /// The latest polling read of each thread that polls.
    polled: FxHashMap<u32, Polled>,
    /// The lock that each thread holds, and whether the thread has accessed memory before it has acquired the lock with
    /// [`Scope::Device`].
    locks: FxHashMap<u32, (Lock, bool)>,
    /// For each thread and each [`Use`], the size of the clock that the thread has used last; empty until a thread uses
    /// a clock.
    sizes: Vec<[u32; 3]>,
    /// The current group of an instruction in a warp. The key consists of the warp, the instruction, and whether the
    /// accesses write.
    groups: FxHashMap<(u32, Site, bool), GroupId>,
    /// For instructions whose accesses were recorded as runs, the groups of all warps: the group of warp `w` is the
    /// first group plus `w`.
    run_groups: SmallVec<[(Site, GroupId); 2]>,
}

/// A strong read in a loop: the address, the number of the write whose value was read, the scope of the read, and
/// whether the read acquires.
type Polled = (u64, u64, Scope, bool);

/// The data about the last fence of a thread. Later strong writes of the thread release the
/// accesses before the fence.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    /// The accesses of other threads that happen before the fence, and the thread's own accesses
    /// before the fence.
    pub(super) clock: Shared,
    /// The scope of the fence.
    pub(super) scope: Scope,
}

impl Running {
    /// Creates a CTA with `threads` threads that have not accessed memory since the barrier that begins `epoch`.
    pub(super) fn new(threads: u32, epoch: u32) -> Running {
        let mut running = Running::default();
        running.reset(threads, epoch);
        running
    }

    /// Resets this data, so that it describes another CTA as after [`Running::new`]. Keeps the
    /// memory of maps for reuse.
    pub(super) fn reset(&mut self, threads: u32, epoch: u32) {
        let count = threads.div_ceil(32) as usize;
        self.end();
        for basis in Basis::ALL {
            self.known_mut(basis).count = count;
        }
        self.epoch = epoch;
        self.warps.clear();
        self.warps.resize_with(count, || Warp {
            interval: 1,
            common: 0,
            matrix: None,
            used: 0,
            arrival: None,
        });
        self.scheduled.clear();
        self.copies.clear();
        self.issues.clear();
        self.cluster_arrivals = [None, None, None];
        self.cluster_released = [None, None, None];
        self.relaxed_arrival = false;
        self.locks.clear();
        self.sizes = Vec::new();
    }

    /// Returns the number of warps.
    pub(super) fn warps(&self) -> u32 {
        self.warps.len() as u32
    }

    /// Returns the group of warp 0 for the accesses of an instruction. The groups of the other
    /// warps have the IDs after it.
    pub(super) fn run_groups(&self, site: Site) -> Option<GroupId> {
        let mut known = self.run_groups.iter();
        known.find(|(of, _)| *of == site).map(|&(_, first)| first)
    }

    /// Sets the group of warp 0 for the accesses of an instruction. The groups of the other warps
    /// have the IDs after it.
    pub(super) fn set_run_groups(&mut self, site: Site, first: GroupId) {
        let mut known = self.run_groups.iter_mut();
        match known.find(|(of, _)| *of == site) {
            Some(known) => known.1 = first,
            None => self.run_groups.push((site, first)),
        }
    }

    /// Returns whether two values are equal for all warps from `first` to `last`: the current
    /// interval, and the interval of [`Running::common_interval`].
    pub(super) fn are_at_one_time(&self, first: u32, last: u32) -> bool {
        let warps = self.warps.get(first as usize..=last as usize);
        let same = |a: &Warp, b: &Warp| (a.interval, a.common) == (b.interval, b.common);
        warps.is_some_and(|warps| warps.iter().all(|warp| same(warp, &warps[0])))
    }

    /// Returns the current group of an instruction in a warp.
    pub(super) fn group(&self, warp: u32, site: Site, writes: bool) -> Option<GroupId> {
        self.groups.get(&(warp, site, writes)).copied()
    }

    /// Calls `f` with the current group of each instruction and warp.
    pub(super) fn for_each_group(&self, f: &mut impl FnMut(GroupId)) {
        self.groups.values().for_each(|group| f(*group));
        for &(_, first) in &self.run_groups {
            (first..first + self.warps()).for_each(&mut *f);
        }
    }

    /// Sets the current group of an instruction in a warp.
    pub(super) fn set_group(&mut self, warp: u32, site: Site, writes: bool, group: GroupId) {
        self.groups.insert((warp, site, writes), group);
    }

    /// Stores the size of the clock that a thread now uses for the purpose `of`. Returns the size of the previous
    /// clock.
    pub(super) fn set_size(&mut self, thread: u32, of: Use, size: u64) -> u64 {
        if self.sizes.is_empty() {
            self.sizes = vec![[0; 3]; self.warps.len() * 32];
        }
        let known = &mut self.sizes[thread as usize][of as usize];
        let size = size.min(u32::MAX.into()) as u32;
        std::mem::replace(known, size).into()
    }

    /// Removes the sizes of all clocks, and returns their sum.
    pub(super) fn take_sizes(&mut self) -> u64 {
        let sizes = std::mem::take(&mut self.sizes);
        sizes.iter().flatten().map(|&size| u64::from(size)).sum()
    }

    /// Returns the current epoch of the CTA.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns whether threads have committed groups of asynchronous copies or waited for copies. Whether a later
    /// access races with such a copy depends on the waits of these threads.
    pub(super) fn has_copied(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Frees data that is needed only for further accesses and synchronisation of the CTA's threads.
    pub(super) fn end(&mut self) {
        self.forget_others();
        self.groups.clear();
        self.run_groups.clear();
        self.polled.clear();
        self.barriers.clear();
    }

    /// Records a strong read in a loop. Returns whether this read is equal to the thread's previous strong read in a
    /// loop. Equal reads have read the value of the same write.
    pub(super) fn has_seen(&mut self, thread: u32, read: Polled) -> bool {
        self.polled.insert(thread, read) == Some(read)
    }

    /// Returns the lock that a thread holds.
    pub(super) fn lock(&self, thread: u32) -> Option<Lock> {
        match self.locks.is_empty() {
            true => None,
            false => self.locks.get(&thread).map(|&(lock, _)| lock),
        }
    }

    /// Records that a thread accesses memory. Returns the lock that the thread holds.
    pub(super) fn use_lock(&mut self, thread: u32) -> Option<Lock> {
        if self.locks.is_empty() {
            return None;
        }
        let (lock, early) = self.locks.get_mut(&thread)?;
        *early |= lock.acquired != Some(Scope::Device);
        Some(*lock)
    }

    /// Returns whether a thread of the CTA holds a lock.
    pub(super) fn has_locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Returns the highest interval for which all accesses of a warp's lanes in intervals up to
    /// this one happen before the next access of every lane of the warp.
    pub(super) fn common_interval(&self, warp: u32) -> u32 {
        self.warps[warp as usize].common
    }

    /// Records that a thread has taken the lock at `address`. `acquired` is the scope of the acquire that belongs to
    /// the compare-and-swap, if there is one.
    pub(super) fn hold_lock(&mut self, thread: u32, address: u64, acquired: Option<Scope>) {
        let lock = Lock { address, acquired };
        self.locks.insert(thread, (lock, false));
    }

    /// Records that a thread writes to `address`. If this is the address of the lock that the thread holds, the thread
    /// releases the lock. Returns whether it releases the lock and has accessed memory before it had acquired the lock
    /// with [`Scope::Device`].
    pub(super) fn release_lock(&mut self, thread: u32, address: u64) -> bool {
        match self.locks.get(&thread) {
            Some(&(lock, early)) if lock.address == address => {
                self.locks.remove(&thread);
                early
            }
            _ => false,
        }
    }

    /// Returns the groups of a sequence of a thread.
    pub(super) fn groups(&self, thread: u32, sequence: Sequence) -> Option<&Groups> {
        self.copies.get(&(thread, sequence))
    }

    /// Returns the number of the group to which a thread's next asynchronous copy belongs.
    pub(super) fn open_copies(&self, thread: u32, sequence: Sequence) -> u32 {
        self.groups(thread, sequence).map_or(0, Groups::open)
    }

    /// Records that a thread commits its current group of asynchronous copies.
    pub(super) fn commit_copies(&mut self, thread: u32, sequence: Sequence) {
        self.copies.entry((thread, sequence)).or_default().commit();
    }

    /// Records that a thread has waited until at most `open` of its groups are incomplete or, if `open` is `None`,
    /// until all copies are complete. If `only_reads` is true, the copies have only read their sources and may still
    /// write.
    pub(super) fn wait_for_copies(
        &mut self,
        thread: u32,
        sequence: Sequence,
        open: Option<u32>,
        only_reads: bool,
    ) {
        let time = self.time(thread);
        let groups = self.copies.entry((thread, sequence)).or_default();
        if groups.wait(open, only_reads, time) {
            self.end_interval(thread);
        }
    }

    /// Returns the asynchronous operation that a thread is issuing.
    pub(super) fn issue(&self, thread: u32) -> Option<Issue> {
        match self.issues.is_empty() {
            true => None,
            false => self.issues.get(&thread).copied(),
        }
    }

    /// Returns whether a thread of the CTA is issuing an asynchronous operation.
    pub(super) fn has_issues(&self) -> bool {
        !self.issues.is_empty()
    }

    /// Sets the asynchronous operation that a thread is issuing.
    pub(super) fn set_issue(&mut self, thread: u32, issue: Option<Issue>) {
        match issue {
            Some(issue) => self.issues.insert(thread, issue),
            None => self.issues.remove(&thread),
        };
    }

    /// Records that a thread executes a fence between the generic and the asynchronous proxy. The
    /// writes to the state spaces `windows` that happen before the fence are then visible to the
    /// asynchronous proxy.
    pub(super) fn fence_proxy(&mut self, id: CtaId, thread: u32, windows: &[Window]) {
        let released = self.release(id, thread, Basis::Guaranteed);
        let Some(released) = released else {
            return;
        };
        let mut known = (*released).clone();
        known.fenced = [None, None];
        let known = Some(std::sync::Arc::new(known));
        let mut fence = Clock::default();
        for &window in windows {
            fence.fenced[window as usize].clone_from(&known);
        }
        let fence = Some(std::sync::Arc::new(fence));
        for basis in Basis::ALL {
            self.acquire(thread, &fence, basis);
        }
        self.end_interval(thread);
    }

    /// Returns whether a fence between proxies follows an access and happens before the next access of `reader`.
    pub(super) fn has_fenced(
        &self,
        reader: u32,
        (thread, time): (Thread, Time),
        window: Window,
    ) -> bool {
        let known = &self.guaranteed;
        let has = |clock: &Shared| {
            let clock = clock.as_ref();
            clock.is_some_and(|clock| clock.has_fenced(thread, time, window))
        };
        known.levels(reader).any(has)
    }

    /// Removes the clocks, the last fences and the pending clocks of all threads.
    pub(super) fn forget_others(&mut self) {
        for basis in Basis::ALL {
            let known = self.known_mut(basis);
            known.cta = None;
            known.warps = Vec::new();
            known.threads = Vec::new();
        }
        self.fences = Vec::new();
        self.sequenced = None;
        self.pending = Vec::new();
    }

    /// Returns the current time of a thread.
    pub(super) fn time(&self, thread: u32) -> Time {
        Time {
            epoch: self.epoch,
            interval: self.warps[thread as usize / 32].interval,
        }
    }

    fn known(&self, basis: Basis) -> &Known {
        match basis {
            Basis::Guaranteed => &self.guaranteed,
            Basis::Assumed => &self.assumed,
            Basis::Suspected => &self.suspected,
        }
    }

    fn known_mut(&mut self, basis: Basis) -> &mut Known {
        match basis {
            Basis::Guaranteed => &mut self.guaranteed,
            Basis::Assumed => &mut self.assumed,
            Basis::Suspected => &mut self.suspected,
        }
    }

    /// Returns whether an access of `thread` at `time` happens before the next access of `reader`,
    /// which is a thread of this CTA. `id` is the index of this CTA.
    pub(super) fn knows(
        &self,
        id: CtaId,
        reader: u32,
        (thread, time): (Thread, Time),
        basis: Basis,
    ) -> bool {
        if thread.cta == id {
            if thread.index == reader || time.epoch < self.epoch {
                return true;
            }
            let of_warp = thread.warp() == reader / 32;
            if of_warp && self.lanes_in_order(reader, time.interval) >> thread.lane() & 1 != 0 {
                return true;
            }
        }
        self.known(basis).knows(reader, thread, time)
    }

    /// Returns the lanes of the warp `warp` of the CTA `cta` whose accesses at `time` happen before
    /// the next access of `reader`, a thread of this CTA ([`Running::knows`]). `id` is the index of
    /// this CTA.
    pub(super) fn known_lanes(
        &self,
        id: CtaId,
        reader: u32,
        ((cta, warp), time): ((CtaId, u32), Time),
        basis: Basis,
    ) -> u32 {
        let in_order = match cta == id {
            true => self.lanes_before_barriers(reader, warp, time),
            false => 0,
        };
        match in_order {
            u32::MAX => u32::MAX,
            _ => in_order | self.known(basis).lanes(reader, (cta, warp), time),
        }
    }

    /// Returns the lanes of the warp `warp` of this CTA whose accesses at `time` happen before the
    /// next access of `reader` because of barriers of the CTA or of a warp, or because `reader`
    /// itself made them.
    pub(super) fn lanes_before_barriers(&self, reader: u32, warp: u32, time: Time) -> u32 {
        if time.epoch < self.epoch {
            return u32::MAX;
        }
        match warp == reader / 32 {
            true => self.lanes_in_order(reader, time.interval),
            false => 0,
        }
    }

    /// Returns the lanes of the warp of `reader` whose accesses in an interval of the current epoch happen before the
    /// next access of `reader`, because of warp barriers or because `reader` itself made them.
    fn lanes_in_order(&self, reader: u32, interval: u32) -> u32 {
        let warp = &self.warps[reader as usize / 32];
        if interval <= warp.common {
            return u32::MAX;
        }
        let own = 1 << (reader % 32);
        let Some(matrix) = &warp.matrix else {
            return own;
        };
        let known = matrix[reader as usize % 32].iter().zip(0..32);
        let known = known.filter(|(last, _)| interval <= **last);
        known.fold(own, |mask, (_, lane)| mask | 1 << lane)
    }

    /// Returns whether the threads have been synchronised only by barriers of the CTA and of its warps.
    pub(super) fn is_plain(&self) -> bool {
        let known = &self.guaranteed;
        known.cta.is_none()
            && known.warps.iter().all(Option::is_none)
            && known.threads.iter().all(Option::is_none)
    }

    /// Returns whether an edge with too narrow a scope contributed to the suspected clocks of `reader`.
    pub(super) fn is_narrow(&self, reader: u32) -> bool {
        let narrow = |clock: &Shared| clock.as_ref().is_some_and(|clock| clock.narrow);
        self.suspected.levels(reader).any(narrow)
    }

    /// Begins a new interval of a warp.
    fn advance(&mut self, warp: usize) {
        self.warps[warp].interval += 1;
    }

    /// Records that the lanes `mask` of a warp synchronise with each other: their earlier accesses
    /// happen before their later accesses. `alive` are the lanes that have not exited.
    pub(super) fn synchronise_warp(&mut self, warp: u32, mask: u32, alive: u32) {
        let index = warp as usize;
        for basis in Basis::ALL {
            self.known_mut(basis).join_lanes(index, mask, alive);
        }
        if let Some(sequenced) = &mut self.sequenced {
            for known in sequenced.all() {
                known.join_lanes(index, mask, alive);
            }
        }
        let state = &mut self.warps[index];
        if mask == alive {
            state.common = state.interval;
            state.matrix = None;
        } else {
            let interval = state.interval;
            let common = state.common;
            let matrix = state
                .matrix
                .get_or_insert_with(|| Box::new([[common; 32]; 32]));
            let mut joined = [0; 32];
            for reader in lanes(mask) {
                for (all, known) in joined.iter_mut().zip(&matrix[reader as usize]) {
                    *all = (*all).max(*known);
                }
            }
            for lane in lanes(mask) {
                joined[lane as usize] = interval;
            }
            for reader in lanes(mask) {
                matrix[reader as usize] = joined;
            }
        }
        self.advance(index);
    }

    /// Records that the CTA passes a barrier at which all threads that have not exited have
    /// arrived: all earlier accesses of the CTA's threads happen before all later accesses.
    pub(super) fn pass_barrier(&mut self, id: CtaId) {
        for basis in Basis::ALL {
            self.known_mut(basis).raise_to_cta();
        }
        if let Some(sequenced) = &mut self.sequenced {
            sequenced.all().into_iter().for_each(Known::raise_to_cta);
        }
        // A location that threads change with compare-and-swap need not be a lock. The detector assumes that no thread
        // holds a real lock at a barrier of the CTA, so it removes all locks here.
        self.locks.clear();
        self.epoch += 1;
        for basis in Basis::ALL {
            // The new epoch covers all earlier accesses of this CTA, so entries for single warps of this CTA are
            // redundant.
            if let Some(clock) = &mut self.known_mut(basis).cta
                && !clock.is_empty()
            {
                std::sync::Arc::make_mut(clock).forget_warps_of(id);
            }
        }
        for warp in &mut self.warps {
            warp.common = warp.interval;
            warp.matrix = None;
            warp.interval += 1;
        }
    }

    /// Returns a clock with all accesses in a thread's clocks and the thread's own accesses so far.
    pub(super) fn release(&self, id: CtaId, thread: u32, basis: Basis) -> Shared {
        self.release_with(id, thread, &self.known(basis).of(thread))
    }

    /// Does the same as [`Running::release`] for [`Basis::Suspected`], but without the clocks whose size is greater
    /// than `most`.
    pub(super) fn release_suspected(&self, id: CtaId, thread: u32, most: u64) -> Shared {
        self.release_with(id, thread, &self.suspected.of_at_most(thread, most))
    }

    /// Returns a clock that contains the accesses in `known`, the thread's own accesses so far, and the accesses that
    /// barriers order before the thread's next access.
    fn release_with(&self, id: CtaId, thread: u32, known: &Shared) -> Shared {
        let known = known.as_ref();
        let mut clock = known.map_or_else(Clock::default, |known| (**known).clone());
        if self.epoch > 0 {
            clock.learn_cta(id, self.epoch);
        }
        let warp = &self.warps[thread as usize / 32];
        clock.learn_warp(id, thread / 32, warp.common);
        if let Some(matrix) = &warp.matrix {
            for (lane, &until) in matrix[thread as usize % 32].iter().enumerate() {
                let index = thread / 32 * 32 + lane as u32;
                clock.learn_thread(Thread { cta: id, index }, until);
            }
        }
        let own = Thread {
            cta: id,
            index: thread,
        };
        clock.learn_thread(own, warp.interval);
        Some(std::sync::Arc::new(clock))
    }

    /// Returns a clock with all accesses in the clocks of the lanes `mask` of a warp, and the
    /// accesses of these lanes so far.
    fn release_lanes(&self, id: CtaId, warp: u32, mask: u32, basis: Basis) -> Shared {
        let mut all = None;
        if mask == u32::MAX {
            let known = self.known(basis);
            for lane in 0..32 {
                clock::join(&mut all, &known.of(warp * 32 + lane));
            }
            let mut clock = all.map_or_else(Clock::default, |known| (*known).clone());
            if self.epoch > 0 {
                clock.learn_cta(id, self.epoch);
            }
            clock.learn_warp(id, warp, self.warps[warp as usize].interval);
            return Some(std::sync::Arc::new(clock));
        }
        for lane in lanes(mask) {
            clock::join(&mut all, &self.release(id, warp * 32 + lane, basis));
        }
        all
    }

    /// Ends the interval of a thread's warp, because the thread has released its accesses.
    pub(super) fn end_interval(&mut self, thread: u32) {
        self.advance(thread as usize / 32);
    }

    /// Adds the accesses in `clock` to the clock of a thread.
    pub(super) fn acquire(&mut self, thread: u32, clock: &Shared, basis: Basis) {
        if clock.is_some() {
            clock::join(self.known_mut(basis).thread_mut(thread), clock);
        }
    }

    /// Does the same as [`Running::acquire`] for [`Basis::Suspected`]. If the thread's clock is larger than `most`,
    /// `clock` replaces it instead of being added to it. Returns the total size of the clocks that were joined.
    pub(super) fn acquire_suspected(&mut self, thread: u32, clock: &Shared, most: u64) -> u64 {
        if clock.is_none() {
            return 0;
        }
        let own = self.suspected.thread_mut(thread);
        if clock::exceeds(own, most) {
            *own = None;
        }
        let joined = clock::joined(own, clock);
        clock::join(own, clock);
        joined
    }

    /// Stores the clocks of writes whose values a thread has read with a strong read. A later fence of the thread
    /// acquires those clocks whose index is at most the [`Scope`] of the fence. `scheduled` states whether the schedule
    /// decides from which write the thread reads.
    pub(super) fn read_strongly(&mut self, thread: u32, clocks: &[Shared; 3], scheduled: bool) {
        if clocks.iter().all(Option::is_none) {
            return;
        }
        if self.pending.is_empty() {
            self.pending = vec![[None, None, None]; self.warps.len() * 32];
        }
        for (pending, clock) in self.pending[thread as usize].iter_mut().zip(clocks) {
            clock::join(pending, clock);
        }
        if scheduled {
            self.scheduled.insert(thread);
        }
    }

    /// Records that a thread executes a fence. Returns whether the clock that the thread acquires depends on the
    /// schedule.
    pub(super) fn fence(&mut self, id: CtaId, thread: u32, scope: Scope) -> bool {
        let (mut acquires, mut narrow) = (false, false);
        for least in Scope::ALL {
            let Some(pending) = self.pending.get_mut(thread as usize) else {
                break;
            };
            let pending = &mut pending[least as usize];
            if pending.is_none() {
                continue;
            }
            if least <= scope {
                let clock = pending.take();
                self.acquire(thread, &clock, Basis::Guaranteed);
                acquires = true;
            } else {
                narrow = true;
            }
        }
        if narrow && !self.is_narrow(thread) {
            let mut clock = Clock::default();
            clock.narrow = true;
            self.acquire(thread, &Some(std::sync::Arc::new(clock)), Basis::Suspected);
        }
        if let Some((lock, _)) = self.locks.get_mut(&thread) {
            lock.acquired = lock.acquired.max(Some(scope));
        }
        let clock = self.release(id, thread, Basis::Guaranteed);
        if self.fences.is_empty() {
            self.fences = vec![None; self.warps.len() * 32];
        }
        self.fences[thread as usize] = Some(Box::new(Fence { clock, scope }));
        self.end_interval(thread);
        acquires && self.scheduled.remove(&thread)
    }

    fn sequenced_mut(&mut self) -> &mut Sequenced {
        let warps = self.warps.len();
        let made = || Box::new(Sequenced::new(warps));
        self.sequenced.get_or_insert_with(made)
    }

    /// Records that a thread executes a `fence.sc` whose scope includes the device. Returns whether the clock that the
    /// thread acquires depends on the schedule.
    pub(super) fn fence_sc(&mut self, id: CtaId, thread: u32) -> bool {
        let (acquired, scheduled) = self.sequenced_mut().acquired(thread);
        for basis in Basis::ALL {
            self.acquire(thread, &acquired, basis);
        }
        let depends = self.fence(id, thread, Scope::Device);
        let known = self.last_fence(thread).map(|fence| fence.clock.clone());
        self.sequenced_mut().fence(thread, &known.flatten());
        depends || acquired.is_some() && scheduled
    }

    /// Returns the accesses that a strong write of a thread passes to each `fence.sc` that follows
    /// a read of the written value.
    pub(super) fn written_sequenced(&self, thread: u32) -> Shared {
        self.sequenced.as_ref()?.written(thread)
    }

    /// Records that a thread has read the value of a write with the clock `written` ([`Running::written_sequenced`]).
    /// `scheduled` states whether the schedule decides from which write the thread reads.
    pub(super) fn read_sequenced(&mut self, thread: u32, written: &Shared, scheduled: bool) {
        if written.is_some() {
            self.sequenced_mut().read(thread, written, scheduled);
        }
    }

    /// Returns the last fence of a thread; `None` if the thread has executed no fence.
    pub(super) fn last_fence(&self, thread: u32) -> Option<&Fence> {
        self.fences.get(thread as usize)?.as_deref()
    }

    /// Records that the lanes `mask` of a warp have arrived at a barrier without waiting there.
    pub(super) fn arrive(&mut self, id: CtaId, barrier: usize, warp: u32, mask: u32) {
        if self.barriers.len() <= barrier {
            self.barriers.resize(barrier + 1, [None, None, None]);
        }
        for (index, basis) in Basis::ALL.into_iter().enumerate() {
            let released = self.release_lanes(id, warp, mask, basis);
            clock::join(&mut self.barriers[barrier][index], &released);
        }
        self.advance(warp as usize);
    }

    /// Records that a barrier is complete: the accesses of the threads that have arrived happen
    /// before the later accesses of the threads `released`, which the barrier releases. `alive` are
    /// the threads that have not exited. Both sets contain a mask for each warp.
    pub(super) fn complete_barrier(
        &mut self,
        id: CtaId,
        barrier: usize,
        released: &[u32],
        alive: &[u32],
    ) {
        let arrived = self.barriers.get_mut(barrier).map(std::mem::take);
        let mut all = arrived.unwrap_or_default();
        if released == alive && all[0].is_none() {
            return self.pass_barrier(id);
        }
        if let Some(sequenced) = &mut self.sequenced {
            for known in sequenced.all() {
                known.join_threads(released);
            }
        }
        for (warp, &mask) in released.iter().enumerate() {
            if mask != 0 {
                for (clock, basis) in all.iter_mut().zip(Basis::ALL) {
                    clock::join(clock, &self.release_lanes(id, warp as u32, mask, basis));
                }
            }
        }
        for (warp, &mask) in released.iter().enumerate() {
            for lane in lanes(mask) {
                let thread = warp as u32 * 32 + lane;
                for (clock, basis) in all.iter().zip(Basis::ALL) {
                    self.acquire(thread, clock, basis);
                }
            }
            if mask != 0 {
                self.advance(warp);
            }
        }
    }

    /// Records an access of a thread in the current interval.
    pub(super) fn note_access(&mut self, thread: u32) {
        let warp = &mut self.warps[thread as usize / 32];
        warp.used = warp.interval;
    }

    /// Records that the lanes `mask` of a warp have arrived at the barrier of the cluster. A relaxed arrival of a
    /// thread releases only the accesses before the thread's last fence, and only if the scope of this fence includes
    /// the cluster.
    pub(super) fn arrive_at_cluster(&mut self, id: CtaId, warp: u32, mask: u32, relaxed: bool) {
        for (index, basis) in Basis::ALL.into_iter().enumerate() {
            if !relaxed {
                let released = self.release_lanes(id, warp, mask, basis);
                clock::join(&mut self.cluster_arrivals[index], &released);
                continue;
            }
            for lane in lanes(mask) {
                let fence = self.fences.get((warp * 32 + lane) as usize);
                let fence = fence.and_then(|fence| fence.as_ref());
                if let Some(fence) = fence.filter(|fence| fence.scope >= Scope::Cluster) {
                    clock::join(&mut self.cluster_arrivals[index], &fence.clock);
                }
            }
        }
        self.relaxed_arrival |= relaxed;
        let state = &mut self.warps[warp as usize];
        state.arrival.get_or_insert(state.interval);
        self.advance(warp as usize);
    }

    /// Returns whether the barrier of the cluster orders all accesses of the CTA so far, in the same way as a barrier
    /// of all threads. This is so if all lanes that have not exited wait, no arrival was relaxed, and no warp has
    /// accessed memory since its first arrival. `waiting` and `alive` are, for each warp, the lanes that wait at the
    /// barrier and the lanes that have not exited.
    pub(super) fn all_at_cluster(&self, waiting: &[u32], alive: &[u32]) -> bool {
        let quiet = |warp: &Warp| warp.arrival.is_some_and(|arrival| warp.used <= arrival);
        let warps = self.warps.iter().zip(alive);
        !self.relaxed_arrival
            && waiting == alive
            && warps
                .clone()
                .all(|(warp, &alive)| alive == 0 || quiet(warp))
    }

    /// Returns the clocks that are released by the threads that have arrived at the barrier of the
    /// cluster or have exited. Resets the barrier for its next use.
    pub(super) fn take_cluster_arrivals(&mut self, id: CtaId, alive: &[u32]) -> [Shared; 3] {
        let mut all = std::mem::take(&mut self.cluster_arrivals);
        for (warp, &alive) in alive.iter().enumerate() {
            if alive != u32::MAX {
                for (clock, basis) in all.iter_mut().zip(Basis::ALL) {
                    let released = self.release_lanes(id, warp as u32, !alive, basis);
                    clock::join(clock, &released);
                }
            }
        }
        self.relaxed_arrival = false;
        for warp in &mut self.warps {
            warp.arrival = None;
        }
        all
    }

    /// Sets the clocks that are acquired by the threads that wait at the barrier of the cluster.
    pub(super) fn release_cluster(&mut self, released: [Shared; 3]) {
        self.cluster_released = released;
    }

    /// Records that the lanes `mask` of a warp have waited at the barrier of the cluster.
    pub(super) fn wait_at_cluster(&mut self, warp: u32, mask: u32) {
        let released = self.cluster_released.clone();
        for lane in lanes(mask) {
            for (clock, basis) in released.iter().zip(Basis::ALL) {
                self.acquire(warp * 32 + lane, clock, basis);
            }
        }
    }

    /// Records that all threads of the CTA pass a barrier. Returns a clock with all accesses in the
    /// clocks of the CTA's threads and all accesses of these threads so far.
    pub(super) fn release_all(&mut self, id: CtaId) -> Shared {
        self.pass_barrier(id);
        let mut clock = self.guaranteed.cta.clone();
        let mut own = Clock::default();
        own.learn_cta(id, self.epoch);
        clock::join(&mut clock, &Some(std::sync::Arc::new(own)));
        clock
    }

    /// Adds the accesses in `clock` to the clocks of all threads of the CTA.
    pub(super) fn acquire_all(&mut self, clock: &Shared) {
        for basis in Basis::ALL {
            clock::join(&mut self.known_mut(basis).cta, clock);
        }
    }
}

/// Returns the lanes of a mask, the lowest first.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (lane < 32).then_some(lane)
    })
}
