//! Strong accesses: which earlier accesses the writes to a location release, and which of them a read acquires.

use smallvec::SmallVec;

use super::clock::{self, CtaId, Shared, Thread};
use super::copy::Place;
use super::cta::{Basis, Use};
use super::{Access, Detector, Scope};

/// The accesses that strong writes to a location have released.
#[derive(Debug, Default)]
struct Released {
    /// The clock that strong writes have released to all threads of the device.
    device: Shared,
    /// The clocks that strong writes have released to the threads of one CTA or cluster, with the scope.
    narrow: SmallVec<[(Scope, Threads, Shared); 1]>,
}

/// The threads to which a clock of [`Released::narrow`] is released: 0 and the CTA (its [`CtaId`] or [`ALL_CTAS`]), or
/// the launch and the index of the cluster.
type Threads = (u32, u64);

impl Released {
    /// Adds a clock for the threads of a CTA or a cluster.
    fn add(&mut self, (width, group): (Scope, Threads), released: &Shared) {
        let mut known = self.narrow.iter_mut();
        match known.find(|(w, g, _)| (*w, *g) == (width, group)) {
            Some((.., clock)) => clock::join(clock, released),
            None => self.narrow.push((width, group, released.clone())),
        }
    }

    /// Adds the clocks of `other` to the clocks of `self`.
    fn join(&mut self, other: &Released) {
        clock::join(&mut self.device, &other.device);
        for (width, group, released) in &other.narrow {
            self.add((*width, *group), released);
        }
    }
}

/// In [`Released::narrow`], stands for all CTAs. The signal of an asynchronous copy releases the
/// copy's accesses to every thread that waits for the mbarrier. This includes a thread in another
/// CTA of the cluster, even if the scope of the thread's wait is only its own CTA. Programs with
/// multicast copies contain such waits.
const ALL_CTAS: u64 = u64::MAX;

/// What the detector stores about the strong writes to a memory location.
#[derive(Debug, Default)]
pub(super) struct Location {
    /// The accesses that strong writes have released. For an mbarrier, the accesses that arrivals
    /// at the current phase have released.
    released: Released,
    /// For an mbarrier, the accesses that arrivals at completed phases have released. A thread that
    /// waits acquires only these accesses, even if threads have already arrived at the next phase.
    completed: Released,
    /// For an mbarrier, the parity of the current phase that was last passed to
    /// [`Detector::note_parity`].
    parity: Option<bool>,
    /// The accesses that precede a `fence.sc`, if this fence happens before a strong write of device
    /// scope to the location ([`super::sequenced`]). Unlike the other clocks, this clock also
    /// contains accesses that happen before writes whose values have been overwritten.
    sequenced: Shared,
    /// The accesses that precede the strong writes, even if the writing threads have not released them
    /// ([`Basis::Suspected`]). While few threads synchronise, this clock contains all such
    /// accesses. Later, it contains only the accesses that precede the latest writes
    /// ([`FEW_KNOWN`]). It is empty once `updates` exceeds [`FEW_UPDATES`].
    pub(super) suspected: Shared,
    /// Number of strong writes since the last strong store, including this store.
    updates: u32,
    /// The value of [`Detector::versions`] at the last strong write or, for an mbarrier, at the last completed phase.
    version: u64,
    /// The thread of the last strong write.
    pub(super) writer: Option<Thread>,
    /// Whether the location is an mbarrier.
    is_object: bool,
    /// The number that is included in [`Detector::known`] for this location.
    pub(super) size: u64,
}

impl Location {
    /// Returns whether an access waits for an mbarrier. Such an access must not acquire the
    /// accesses that arrivals at the current phase have released.
    fn waits(&self, access: Access) -> bool {
        self.is_object && !access.writes && self.parity.is_some()
    }

    /// Returns the clocks that a strong read with scope `scope` in a CTA obtains. The index of a
    /// clock is the least [`Scope`] with which the reader must acquire to obtain the accesses in
    /// the clock. `cluster` contains the launch and the index of the cluster of the CTA.
    fn clocks(&self, access: Access, scope: Scope, id: CtaId, cluster: Threads) -> [Shared; 3] {
        let current = (!self.waits(access)).then_some(&self.released);
        let mut clocks = [None, None, None];
        for from in current.into_iter().chain([&self.completed]) {
            if scope == Scope::Device {
                clock::join(&mut clocks[Scope::Device as usize], &from.device);
            }
            for (width, group, released) in &from.narrow {
                let here = match width {
                    Scope::Cta => *group == (0, id.into()) || *group == (0, ALL_CTAS),
                    _ => *group == cluster && scope != Scope::Cta,
                };
                if here {
                    clock::join(&mut clocks[*width as usize], released);
                }
            }
        }
        clocks
    }
}

/// Maximum number of updates of a location for which the detector keeps [`Location::suspected`]. A location with more
/// updates is a counter and not a flag. Without this limit, the running time would be quadratic in the number of
/// threads.
const FEW_UPDATES: u32 = 1024;

/// Limits the total size of the clocks that the detector joins for [`Basis::Suspected`]. Below this total, the detector
/// drops only clocks larger than [`MANY_KNOWN`]. From this total on, it drops all clocks larger than [`FEW_KNOWN`].
/// Without these limits, the running time would be quadratic in the number of threads.
///
/// The clocks for [`Basis::Suspected`] determine only which missing operation the report of a race
/// names. Usually the same fence is missing in many threads, so the clocks that are kept suffice to
/// name the fence for one of the races.
pub(super) const MOST_SUSPECTED: u64 = 1 << 20;

/// Maximum size of a clock for [`Basis::Suspected`] until the total size of the joined clocks reaches
/// [`MOST_SUSPECTED`].
const MANY_KNOWN: u64 = 1 << 13;

/// Maximum size of a clock for [`Basis::Suspected`] after the total size of the joined clocks has
/// reached [`MOST_SUSPECTED`].
const FEW_KNOWN: u64 = 64;

/// Maximum number of pairs in [`Detector::released`]. The detector does not store further pairs.
const MOST_LOCKS: usize = 1 << 22;

impl Detector {
    /// Removes the record of the accesses that strong writes to a location have released.
    pub(super) fn forget_location(&mut self, address: u64) {
        if let Some(location) = self.locations.remove(&address) {
            self.known -= location.size;
        }
    }

    /// Returns whether threads have arrived at an mbarrier at `address`.
    pub fn is_object(&self, address: u64) -> bool {
        let location = self.locations.get(&address);
        location.is_some_and(|location| location.is_object)
    }

    /// Sets the parity of the current phase of the mbarrier at `address`. Must be called before
    /// each arrival and each wait, so that the detector notices when a phase completes.
    pub fn note_parity(&mut self, address: u64, parity: bool) {
        if self.given_up {
            return;
        }
        let location = self.locations.entry(address).or_default();
        if location
            .parity
            .replace(parity)
            .is_some_and(|before| before != parity)
        {
            let phase = std::mem::take(&mut location.released);
            location.completed.join(&phase);
            // A thread that has polled before reads another value now.
            self.versions += 1;
            location.version = self.versions;
        }
    }

    /// Adds the accesses that the writes to a location have released to the clocks of a thread that reads the location.
    /// Also records whether the location is a flag, and whether the schedule decides which thread's accesses are
    /// acquired.
    pub(super) fn before_strong(&mut self, id: CtaId, thread: u32, access: Access, address: u64) {
        if !access.reads {
            return;
        }
        let (Some(location), Some(scope)) = (self.locations.get(&address), access.strong) else {
            return;
        };
        let launch = |id: CtaId| self.ctas[id as usize].launch;
        // If the launches of the two threads are ordered, the thread reads this value in every schedule.
        let concurrent = |by: Thread| {
            launch(by.cta) == launch(id) || self.may_overlap(launch(by.cta), launch(id))
        };
        let other = (location.writer)
            .is_some_and(|by| (by.cta, by.index) != (id, thread) && concurrent(by));
        if other && access.polls {
            self.flags.insert(address);
        }
        let cta = &mut self.ctas[id as usize];
        // If a polling thread reads the value of the same write again, the clocks of the thread do not change.
        let seen = (address, location.version, scope, access.acquires);
        if access.polls && cta.has_seen(thread, seen) {
            return;
        }
        let clocks = location.clocks(access, scope, id, (cta.launch, cta.cluster));
        let mut clock = None;
        for released in clocks.iter().rev() {
            clock::join(&mut clock, released);
        }
        // In locks and queues, a different thread may have written the value in another schedule. The phases of an
        // mbarrier are the same in all schedules.
        let contends = (access.is_update() || access.polls) && !access.signals;
        let contended = other && contends && !location.is_object;
        let scheduled = contended && clock.is_some();
        // The clocks `sequenced` and `suspected` do not separate the phases of an mbarrier, so a wait must not use
        // them.
        let waits = location.waits(access);
        if scope == Scope::Device && !waits {
            cta.read_sequenced(thread, &location.sequenced, contended);
        }
        if access.acquires {
            self.scheduled |= scheduled;
            cta.acquire(thread, &clock, Basis::Guaranteed);
        } else {
            cta.read_strongly(thread, &clocks, scheduled);
        }
        cta.acquire(thread, &clock, Basis::Assumed);
        if waits {
            cta.acquire(thread, &clock, Basis::Suspected);
            return;
        }
        let most = most_suspected(self.suspected);
        self.suspected += cta.acquire_suspected(thread, &location.suspected, most);
    }

    /// Records at a location the accesses that a thread releases with a strong write to this location. Also records the
    /// lock that the thread takes or releases with this write, and ends the interval of the thread's warp.
    pub(super) fn after_strong(
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
                sequenced: location.sequenced.take(),
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
            clock::join(&mut location.released.device, &released);
        }
        if scope == Scope::Device {
            clock::join(&mut location.sequenced, &cta.written_sequenced(thread));
        }
        let mut add = |width, group| location.released.add((width, group), &released);
        if released.is_some() {
            // Threads of the writer's CTA or cluster can also acquire these accesses with a read of a narrower scope.
            let threads = place.map_or(u64::from(id), |_| ALL_CTAS);
            add(Scope::Cta, (0, threads));
            if width >= Scope::Cluster {
                add(Scope::Cluster, (cta.launch, cta.cluster));
            }
        }
        let by = Thread {
            cta: id,
            index: thread,
        };
        location.writer = Some(by);
        location.is_object = access.signals;
        if !access.signals && location.parity.take().is_some() {
            // The program has invalidated the mbarrier, and uses its memory for something else.
            let phases = std::mem::take(&mut location.completed);
            location.released.join(&phases);
        }
        cta.end_interval(thread);
        if access.swaps {
            cta.hold_lock(thread, address, access.acquires.then_some(scope));
        } else if cta.release_lock(thread, address) && self.released.len() < MOST_LOCKS {
            self.released.insert((by, address));
        }
        let suspected = location.suspected.clone();
        let kept = [
            &location.released.device,
            &location.completed.device,
            &location.sequenced,
            &suspected,
        ];
        let size = kept.into_iter().map(clock::size).sum();
        self.known = self.known + size - std::mem::replace(&mut location.size, size);
        self.use_clock(id, (thread, Use::Released), &released);
        self.use_clock(id, (thread, Use::Suspected), &suspected);
    }
}

/// Returns the maximum size of a clock for [`Basis::Suspected`] after the detector has joined clocks of the total size
/// `joined`.
fn most_suspected(joined: u64) -> u64 {
    match joined < MOST_SUSPECTED {
        true => MANY_KNOWN,
        false => FEW_KNOWN,
    }
}
