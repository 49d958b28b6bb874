//! Passes the accesses and the synchronisation of a CTA's threads to the race detector, and adds a
//! finding for each race that the detector finds.

use margay_exec::{ClusterLanes, SyncEvent};
use margay_ir::observe::{AccessMode, Asynchronous, ObservedAccess, PROXY_GLOBAL, PROXY_SHARED};
use margay_ops::meaning::{Bits, mbarrier};
use margay_ops::mods::{AtomOp, MemOrder, Mode, Scope as PtxScope, StateSpace};
use margay_shadow::race::{
    self, Access, Completion, CtaId, Missing, Race, Scope, Shape, Site, Window,
};
use smallvec::SmallVec;

use super::report::{place_of, space_name};
use super::{Chunk, Examiner, KNOWN_SITES, Observed};
use crate::checks::{
    Access as CheckAccess, Extents, Finding, Kind, Other, Races, Severity, SiteInfo,
};
use crate::native::reach::is_in_workspace;

/// Converts a PTX scope to a scope of the race detector.
pub(super) fn scope_of(scope: PtxScope) -> Scope {
    match scope {
        PtxScope::Cta => Scope::Cta,
        PtxScope::Cluster => Scope::Cluster,
        PtxScope::None | PtxScope::Gpu | PtxScope::Sys => Scope::Device,
    }
}

/// Converts an access to the race detector's description of an access.
pub(super) fn described(access: &ObservedAccess, writes: bool, window: Window) -> Access {
    let order = access.order;
    let strong = order != MemOrder::Weak;
    let update = access.mode == AccessMode::Update;
    Access {
        reads: !access.mode.writes() || update,
        writes: access.mode.writes() && writes,
        strong: strong.then(|| scope_of(access.scope)),
        element: access.element / access.packed.max(1),
        window,
        acquires: matches!(order, MemOrder::Acquire | MemOrder::AcqRel | MemOrder::Sc),
        releases: matches!(order, MemOrder::Release | MemOrder::AcqRel | MemOrder::Sc),
        volatile: order == MemOrder::Volatile,
        asynchronous: access.only_copied && access.mode != AccessMode::Load,
        signals: update && matches!(access.op, AtomOp::Signal | AtomOp::SignalDrop),
        polls: access.polls,
        swaps: access.op == AtomOp::Cas,
    }
}

/// Returns the text that reports use for `missing`, the synchronisation that would order two racing
/// accesses.
fn missing_text(missing: Missing) -> &'static str {
    match missing {
        Missing::WarpBarrier => "warp barrier",
        Missing::Barrier => "barrier",
        Missing::ClusterBarrier => "cluster barrier",
        Missing::GridOrder => "grid barrier or atomic flag",
        Missing::Fence => "fence.gpu",
        Missing::Scope => "scope gpu",
        Missing::Size => "one size of atomic accesses",
        Missing::CopyWait => "cp.async wait",
        Missing::BulkWait => "cp.async.bulk wait",
        Missing::ObjectWait => "mbarrier wait",
        Missing::ProxyFence => "fence.proxy.async",
        Missing::StreamOrder => "stream order",
    }
}

impl Examiner<'_> {
    /// Returns whether accesses are passed to the race detector.
    pub(super) fn orders(&self) -> bool {
        self.findings.shadow().races.is_some()
    }

    /// Passes an access to the race detector, and adds a finding for each race of the access.
    pub(super) fn order(&mut self, at: &Observed<'_>, address: u64, bytes: u32, operands: &[Bits]) {
        let Some(races) = &self.findings.shadow().races else {
            return;
        };
        let local = at.access.space == StateSpace::Local || self.is_in_local_window(address);
        if local || at.access.space == StateSpace::Const || bytes == 0 {
            return;
        }
        let mut races = races.lock();
        let races = &mut *races;
        let id = self.cta_id(races);
        let site = self.site(races, at);
        let window = match self.is_in_shared_window(address) {
            true => Window::Shared,
            false => Window::Global,
        };
        let mut access = described(at.access, self.writes(at.access, address, operands), window);
        if is_in_workspace(self.info, address, bytes.into()) {
            // As at an mbarrier, the order of the arrivals at a grid barrier has no effect.
            access.signals = access.reads && access.writes;
        } else if access.signals || access.strong.is_some() && races.detector.is_object(address) {
            let mut word = [0; 8];
            if crate::fault::access::read(&mut word, address).is_ok() {
                let parity = u64::from_ne_bytes(word) >> mbarrier::PARITY == 1;
                races.detector.note_parity(address, parity);
            }
        }
        let mut found: Vec<Race> = Vec::new();
        let range = (address, bytes);
        races
            .detector
            .access(id, at.thread, (site, access), range, |race| {
                found.push(race)
            });
        self.epoch.raced |= !found.is_empty();
        let stored =
            (at.access.mode == AccessMode::Store).then(|| stored_bytes(at.access, operands));
        self.add_races(races, &found, (site, id), at, (address, stored.as_deref()));
        self.order_with_host(races, (site, id), at, (range, access.writes));
        if let Some(bytes) = stored {
            races.values.store(address, &bytes);
        }
    }

    /// Passes the accesses of the lanes of a chunk to the race detector, and adds a finding for
    /// each race of these accesses.
    pub(super) fn order_lanes(&mut self, at: &Observed<'_>, chunk: &Chunk<'_>) {
        let Some(races) = &self.findings.shadow().races else {
            return;
        };
        if at.access.space == StateSpace::Const {
            return;
        }
        let mut races = races.lock();
        let id = self.cta_id(&mut races);
        let is_issuing = races.detector.is_issuing(id);
        let is_weak = at.access.order == MemOrder::Weak && at.access.mode != AccessMode::Update;
        // In kernels whose threads only barriers order, no atomic update orders accesses.
        let is_counted = at.access.mode == AccessMode::Update && self.launch.code.barriers_only;
        if !(is_weak || is_counted) || is_issuing {
            drop(races);
            for lane in chunk.lanes() {
                let own = Observed {
                    thread: at.thread + lane,
                    ..*at
                };
                let operands = chunk.operands_of(lane);
                self.order(&own, chunk.addresses.of(lane), at.access.bytes, &operands);
            }
            return;
        }
        let site = self.site(&mut races, at);
        self.order_weak(&mut races, (site, id), at, chunk);
    }

    /// Passes weak accesses, or atomic updates that order nothing, of the lanes of a chunk to the race
    /// detector, and adds a finding for each race of these accesses. `id` is the detector's index of
    /// the CTA.
    pub(super) fn order_weak(
        &mut self,
        races: &mut Races,
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        chunk: &Chunk<'_>,
    ) {
        let access = described(at.access, true, Window::Global);
        let mut found: Vec<(u32, Race)> = Vec::new();
        races.detector.access_lanes(
            id,
            at.thread,
            (site, access),
            (chunk.active, at.access.bytes, chunk.shape(at.access)),
            |lane| chunk.addresses.of(lane),
            |lane, race| found.push((lane, race)),
        );
        if !found.is_empty() {
            self.epoch.raced = true;
            self.add_races_of_lanes(races, found, (site, id), at, chunk);
        }
        if at.access.mode == AccessMode::Store {
            chunk.record_stores(at.access, &mut races.values);
        }
        if races.overlapping_host(self.info.grid_id).is_empty() {
            return;
        }
        for lane in chunk.lanes() {
            let own = Observed {
                thread: at.thread + lane,
                ..*at
            };
            let range = (chunk.addresses.of(lane), at.access.bytes);
            self.order_with_host(races, (site, id), &own, (range, access.writes));
        }
    }

    /// Adds a finding for each race in `found`. These are races of the access `at` to `address`.
    /// `stored` contains the bytes that the access stores; it is `None` if the access is not a
    /// store.
    pub(super) fn add_races(
        &self,
        races: &mut Races,
        found: &[Race],
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        (address, stored): (u64, Option<&[u8]>),
    ) {
        for race in found {
            let equal = race.both_write
                && races.stores(race.earlier.0)
                && stored.is_some_and(|bytes| {
                    // The bytes from the first byte that races to the end of its aligned group of four bytes.
                    let offset = |to: u64| (to.saturating_sub(address) as usize).min(bytes.len());
                    let part = offset(race.address)..offset(race.address / 4 * 4 + 4);
                    races.values.equal(race.address, &bytes[part])
                });
            let severity = match (
                equal,
                race.same_warp || race.volatile || race.reader_lacks_fence,
            ) {
                (true, _) => Severity::Info,
                (false, true) => Severity::Warning,
                (false, false) => Severity::Error,
            };
            let pair = (race.earlier.0.min(site), race.earlier.0.max(site));
            let volatile = race.volatile.then_some(address);
            if races.count_pair(pair, severity, race.missing, volatile) {
                let finding = self.race_finding(races, race, (site, id), at, severity);
                let found = (finding, race.missing, self.launch.shape.call.clone());
                races.add_pair(pair, self.info.grid_id, volatile, found);
            }
        }
    }

    /// Adds findings for the races of the lanes of a chunk. `found` contains each race with the
    /// first lane that takes part in it.
    pub(super) fn add_races_of_lanes(
        &self,
        races: &mut Races,
        mut found: Vec<(u32, Race)>,
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        chunk: &Chunk<'_>,
    ) {
        found.sort_by_key(|&(lane, _)| lane);
        let stores = at.access.mode == AccessMode::Store;
        let mut equal_lanes = match stores {
            true => chunk.equal_stores(at.access, &races.values),
            false => 0,
        };
        // If lanes may store to the same bytes, a lane is also compared with the lanes before it.
        let overlap = stores && chunk.shape(at.access) != Shape::Adjacent;
        if overlap && equal_lanes != chunk.active {
            equal_lanes = 0;
        }
        let mut earlier = chunk.lanes().peekable();
        for (lane, race) in found {
            let lanes = (u32::MAX >> (32 - race.threads)) << lane;
            let pair = (race.earlier.0.min(site), race.earlier.0.max(site));
            let both_store = race.both_write && races.stores(race.earlier.0);
            let equal = both_store && !race.volatile && lanes & !equal_lanes == 0;
            if equal && races.covers(pair, Severity::Info, race.missing) {
                races.add_count(pair, race.threads.into());
                continue;
            }
            for number in 0..race.threads {
                let lane = lane + number;
                while let Some(before) = earlier.next_if(|&before| overlap && before < lane) {
                    let bytes = stored_bytes(at.access, &chunk.operands_of(before));
                    races.values.store(chunk.addresses.of(before), &bytes);
                }
                let own = Observed {
                    thread: at.thread + lane,
                    ..*at
                };
                let bytes = stores.then(|| stored_bytes(at.access, &chunk.operands_of(lane)));
                let place = (chunk.addresses.of(lane), bytes.as_deref());
                let race = race.of_thread(number, at.access.bytes);
                self.add_races(races, &[race], (site, id), &own, place);
            }
        }
    }

    /// Adds a finding if an access of a kernel races with a copy or fill in another stream and no earlier
    /// access at the same site has raced with it.
    fn order_with_host(
        &self,
        races: &mut Races,
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        (range, writes): ((u64, u32), bool),
    ) {
        let launch = self.info.grid_id;
        let Some((host, address)) = races.host_conflict(launch, range, writes) else {
            return;
        };
        if races.count_host_pair((site, host.work)) {
            return;
        }
        let thread = races.thread_place(id, at.thread);
        let memory = (address, self.visible.describe(address));
        let finding = host.race_with(races.info(site), thread, memory);
        let call = self.launch.shape.call.clone();
        races.add_host_pair((site, host.work), launch, (finding, call));
    }

    /// Returns whether an access that is about to be performed will write memory. A
    /// compare-and-swap writes only if its comparison succeeds. The comparison takes into account
    /// the values that other lanes are about to write with the same instruction
    /// ([`Examiner::swapped`]).
    fn writes(&mut self, access: &ObservedAccess, address: u64, operands: &[Bits]) -> bool {
        if access.op != AtomOp::Cas || access.mode != AccessMode::Update {
            return true;
        }
        let mut bytes = [0; 16];
        let count = access.bytes.min(16) as usize;
        let mut earlier = self.swapped.iter().rev();
        let known = match earlier.find(|(at, _)| *at == address) {
            Some((_, value)) => {
                bytes = value.to_le_bytes();
                true
            }
            None => crate::fault::access::read(&mut bytes[..count], address).is_ok(),
        };
        let expected = operands.first().map(|bits| bits.to_le_bytes());
        let equal = |expected: [u8; 16]| expected[..count] == bytes[..count];
        let writes = !known || expected.is_none_or(equal);
        if let (true, Some(&new)) = (writes, operands.get(1)) {
            self.swapped.push((address, new));
        }
        writes
    }

    /// Records that all accesses that this examiner has examined have also been performed.
    pub(in crate::native) fn performed(&mut self) {
        self.swapped.clear();
    }

    /// Returns the detector's index of the current CTA. The first call for a CTA registers the CTA
    /// with the detector. The detector then discards its records of accesses to the CTA's shared
    /// memory, because the accesses were performed by earlier CTAs that used the same memory.
    pub(super) fn cta_id(&mut self, races: &mut Races) -> CtaId {
        let linear = self.cta.linear;
        let launch = self.info.grid_id;
        if let Some((known, id)) = self.known_cta
            && known == linear
        {
            return id;
        }
        let cluster = self.cluster();
        let (id, new) = races.cta((launch, linear), cluster, self.extents());
        if new && self.launch.code.barriers_only {
            races.detector.order_by_barriers_only(id);
        }
        if new {
            let window = (self.cta.shared_base, self.cta.local_base);
            if self.info.cluster_size() == 1 {
                races.use_window(window, id);
            }
            // An earlier CTA may have used the same shared memory. The detector must forget the accesses of that CTA.
            let own = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
            let start = self.cta.shared_base + self.shared_offset();
            if own != 0 {
                races.detector.forget(start, own);
            }
        }
        self.known_cta = Some((linear, id));
        id
    }

    /// Returns the extents of the launch: the dimensions of its grid and of its blocks.
    pub(super) fn extents(&self) -> Extents {
        Extents {
            grid: self.info.grid,
            block: self.info.block,
        }
    }

    /// Returns the linear index of the current CTA's cluster.
    fn cluster(&self) -> u64 {
        let sizes = self.info.cluster.map(|n| n.max(1));
        let counts: [u64; 3] =
            std::array::from_fn(|i| u64::from((self.info.grid[i] / sizes[i]).max(1)));
        let [x, y, z] = std::array::from_fn(|i| u64::from(self.cta.index[i] / sizes[i]));
        x + counts[0] * (y + counts[1] * z)
    }

    pub(super) fn site(&mut self, races: &mut Races, at: &Observed<'_>) -> Site {
        let access = at.access.to_bits();
        let known = &mut self.known_sites[at.loc.ptx_line as usize % KNOWN_SITES];
        if let Some((loc, of, site)) = *known
            && (loc, of) == (at.loc, access)
        {
            return site;
        }
        let code = &self.launch.code;
        let loc = at.loc.to_bits();
        let site = races.site((code.unique, loc, access), || SiteInfo {
            kernel: code.name.as_str().into(),
            place: place_of(code, at.loc),
            access: *at.access,
        });
        *known = Some((at.loc, access, site));
        site
    }

    #[cold]
    fn race_finding(
        &self,
        races: &Races,
        race: &Race,
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        severity: Severity,
    ) -> Finding {
        let (other_site, other_cta, other_thread) = race.earlier;
        let (own, other) = (races.info(site), races.info(other_site));
        let here = (own, races.thread_place(id, race.thread));
        let there = (other, races.thread_place(other_cta, other_thread));
        // In another run, the two accesses can be executed in the opposite order. The report therefore lists them in
        // the order of the source, so that all runs create the same report.
        let order = |info: &SiteInfo| (info.place.ptx_line, std::sync::Arc::clone(&info.kernel));
        let (first, second) = match order(other) <= order(own) {
            true => (there, here),
            false => (here, there),
        };
        let space = space_name(self.space_of(at.access.space, race.address));
        let name = |info: &SiteInfo| CheckAccess::of(info.access.mode).title();
        let text = format!(
            "Race reported between {} access and {} access to {space} memory",
            name(first.0),
            name(second.0)
        );
        let mut finding = Finding::new(Kind::Race, text);
        finding.severity = severity;
        finding.kernel = Some(first.0.kernel.to_string());
        finding.place = first.0.place.clone();
        finding.access = Some(CheckAccess::of(first.0.access.mode));
        finding.space = Some(space);
        finding.size = Some(u64::from(first.0.access.bytes));
        finding.thread = Some(first.1);
        (finding.address, finding.allocation) = match space {
            "__shared__" => (
                Some(self.shared_place(race.address).1),
                Some(self.shared_text(race.address)),
            ),
            _ => (Some(race.address), self.visible.describe(race.address)),
        };
        finding.other = Some(Box::new(Other {
            kernel: Some(second.0.kernel.to_string()),
            place: second.0.place.clone(),
            access: CheckAccess::of(second.0.access.mode),
            thread: Some(second.1),
        }));
        finding.missing = Some(missing_text(race.missing));
        if race.volatile {
            let text = "volatile accesses are not atomic in CUDA C++";
            finding.explanation = Some(text.to_owned());
        }
        finding
    }

    /// Passes the recorded accesses and then an operation on asynchronous copies to the race detector: the beginning or
    /// the end of a copy, an operation on groups of copies, or a fence between proxies.
    pub(in crate::native) fn copy_group(&mut self, cta: u64, thread: u32, mode: Mode, count: u32) {
        self.move_to(cta);
        self.pass_deferred(false);
        if let Some(races) = &self.findings.shadow().races {
            let mut races = races.lock();
            let id = self.cta_id(&mut races);
            let detector = &mut races.detector;
            match mode {
                Mode::Arrive => detector.commit_copies(id, thread),
                Mode::Sync => detector.wait_for_copies(id, thread, Some(count)),
                Mode::Begin => match Asynchronous::ALL.get(count as usize) {
                    Some(Asynchronous::Object) => {
                        detector.begin_copy(id, thread, Completion::Object, true);
                    }
                    Some(Asynchronous::Store) => {
                        detector.begin_copy(id, thread, Completion::Object, false);
                    }
                    _ => detector.begin_copy(id, thread, Completion::BulkGroup, true),
                },
                Mode::End => detector.end_copy(id, thread),
                Mode::BulkArrive => detector.commit_bulk(id, thread),
                Mode::BulkSync => detector.wait_for_bulk(id, thread, count, false),
                Mode::BulkRead => detector.wait_for_bulk(id, thread, count, true),
                Mode::ProxyFence => {
                    let of = |bit, window| (count & bit != 0).then_some(window);
                    let shared = of(PROXY_SHARED, Window::Shared);
                    let windows = shared.into_iter().chain(of(PROXY_GLOBAL, Window::Global));
                    detector.fence_proxy(id, thread, &windows.collect::<Vec<_>>());
                }
                _ => detector.wait_for_copies(id, thread, None),
            }
        }
    }

    /// Passes the recorded accesses and then a fence of a thread to the race detector. `is_sc` states whether the fence
    /// is a `fence.sc`.
    pub(in crate::native) fn fence(
        &mut self,
        cta: u64,
        thread: u32,
        (is_sc, scope): (bool, PtxScope),
    ) {
        self.move_to(cta);
        self.pass_deferred(false);
        if let Some(races) = &self.findings.shadow().races {
            let mut races = races.lock();
            let id = self.cta_id(&mut races);
            match is_sc {
                true => races.detector.fence_sc(id, thread, scope_of(scope)),
                false => races.detector.fence(id, thread, scope_of(scope)),
            }
        }
    }

    /// Passes the recorded accesses and then a synchronisation of threads to the race detector.
    pub(in crate::native) fn synchronised(&mut self, cta: u64, event: SyncEvent<'_>) {
        self.move_to(cta);
        self.pass_deferred(matches!(event, SyncEvent::Barrier { .. }));
        self.unsynchronised = false;
        let Some(races) = &self.findings.shadow().races else {
            return;
        };
        let mut races = races.lock();
        let id = self.cta_id(&mut races);
        let detector: &mut race::Detector = &mut races.detector;
        match event {
            SyncEvent::Warp { warp, lanes, alive } => {
                detector.synchronise_warp(id, warp, lanes, alive);
            }
            SyncEvent::Arrive {
                barrier,
                warp,
                lanes,
            } => detector.arrive(id, barrier as usize, warp, lanes),
            SyncEvent::Barrier {
                barrier,
                released,
                alive,
            } => detector.complete_barrier(id, barrier as usize, released, alive),
            SyncEvent::ClusterArrive {
                warp,
                lanes,
                relaxed,
            } => detector.arrive_at_cluster(id, warp, lanes, relaxed),
            SyncEvent::ClusterWait { warp, lanes } => detector.wait_at_cluster(id, warp, lanes),
        }
    }
}

/// Passes a barrier of a cluster to the race detector. `ctas` contains, for each CTA, its examiner and, for each warp,
/// the lanes that wait at the barrier and the lanes that have not exited.
pub(in crate::native) fn synchronise_cluster(ctas: Vec<(Examiner<'_>, ClusterLanes)>) {
    let Some(findings) = ctas.first().map(|(cta, _)| cta.findings) else {
        return;
    };
    if let Some(races) = &findings.shadow().races {
        let mut races = races.lock();
        let ctas = ctas.into_iter().map(|(mut examiner, lanes)| {
            let id = examiner.cta_id(&mut races);
            (id, lanes.waiting, lanes.alive)
        });
        let ctas: Vec<_> = ctas.collect();
        races.detector.complete_cluster(&ctas);
    }
}

/// Returns the contents of the bytes that a store writes: the low `access.element` bytes of each operand, at most
/// `access.bytes` bytes in all.
pub(super) fn stored_bytes(access: &ObservedAccess, operands: &[Bits]) -> SmallVec<[u8; 32]> {
    let element = access.element.min(16) as usize;
    let mut bytes = SmallVec::new();
    for bits in operands {
        bytes.extend_from_slice(&bits.to_le_bytes()[..element]);
    }
    bytes.truncate(access.bytes as usize);
    bytes
}
