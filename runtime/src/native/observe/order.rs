//! Passes accesses and synchronisation of a CTA to the race detector, and reports the races that it finds.

use margay_exec::SyncEvent;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::meaning::Bits;
use margay_ops::mods::{AtomOp, MemOrder, Mode, Scope as PtxScope, StateSpace};
use margay_shadow::race::{self, Access, CtaId, Missing, Race, Scope, Site};

use super::report::{access_of, place_of, space_name};
use super::{Chunk, Examiner, Observed};
use crate::checks::{Finding, Kind, Other, Races, Severity, SiteInfo, ThreadPlace};

/// Returns the scope in the terms of the race detector.
pub(super) fn scope_of(scope: PtxScope) -> Scope {
    match scope {
        PtxScope::Cta => Scope::Cta,
        PtxScope::Cluster => Scope::Cluster,
        PtxScope::None | PtxScope::Gpu | PtxScope::Sys => Scope::Device,
    }
}

/// Returns an access in the terms of the race detector.
fn described(access: &ObservedAccess, writes: bool) -> Access {
    let order = access.order;
    let strong = order != MemOrder::Weak;
    let update = access.mode == AccessMode::Update;
    Access {
        reads: !access.mode.writes() || update,
        writes: access.mode.writes() && writes,
        strong: strong.then(|| scope_of(access.scope)),
        acquires: matches!(order, MemOrder::Acquire | MemOrder::AcqRel | MemOrder::Sc),
        releases: matches!(order, MemOrder::Release | MemOrder::AcqRel | MemOrder::Sc),
        volatile: order == MemOrder::Volatile,
        asynchronous: access.only_copied && access.mode != AccessMode::Load,
        repeats: access.repeats,
        swaps: access.op == AtomOp::Cas,
    }
}

/// Returns the words that a report uses for what would order two accesses.
fn missing_text(missing: Missing) -> &'static str {
    match missing {
        Missing::WarpBarrier => "warp barrier",
        Missing::Barrier => "barrier",
        Missing::ClusterBarrier => "cluster barrier",
        Missing::GridOrder => "grid barrier or atomic flag",
        Missing::Fence => "fence.gpu",
        Missing::Scope => "scope gpu",
        Missing::CopyWait => "cp.async wait",
    }
}

impl Examiner<'_> {
    /// Returns whether accesses are passed to the race detector.
    pub(super) fn orders(&self) -> bool {
        self.findings.shadow().races.is_some()
    }

    /// Passes an access to the race detector.
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
        let access = described(at.access, self.writes(at.access, address, operands));
        let mut found: Vec<Race> = Vec::new();
        let range = (address, bytes);
        races
            .detector
            .access(id, at.thread, (site, access), range, |race| {
                found.push(race)
            });
        let stored =
            (at.access.mode == AccessMode::Store).then(|| stored_bytes(at.access, operands));
        self.add_races(races, &found, (site, id), at, (address, stored.as_deref()));
        if let Some(bytes) = stored {
            record_store(races, address, &bytes);
        }
    }

    /// Passes the accesses of the lanes of a chunk to the race detector.
    pub(super) fn order_lanes(&mut self, at: &Observed<'_>, chunk: &Chunk<'_>) {
        let Some(races) = &self.findings.shadow().races else {
            return;
        };
        if at.access.space == StateSpace::Const {
            return;
        }
        if at.access.order != MemOrder::Weak || at.access.mode == AccessMode::Update {
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
        let mut races = races.lock();
        let races = &mut *races;
        let id = self.cta_id(races);
        let site = self.site(races, at);
        let access = described(at.access, true);
        let mut found: Vec<(u32, Race)> = Vec::new();
        races.detector.access_lanes(
            id,
            at.thread,
            (site, access),
            (chunk.active, at.access.bytes, chunk.is_adjacent(at.access)),
            |lane| chunk.addresses.of(lane),
            |lane, race| found.push((lane, race)),
        );
        // Earlier stores have been executed, those of the lanes of this chunk have not.
        races.forget_stores();
        let stores = at.access.mode == AccessMode::Store;
        let stored = |lane| stored_bytes(at.access, &chunk.operands_of(lane));
        let mut earlier = chunk.lanes().peekable();
        for (lane, race) in found {
            while let Some(before) = earlier.next_if(|&before| stores && before < lane) {
                record_store(races, chunk.addresses.of(before), &stored(before));
            }
            let own = Observed {
                thread: at.thread + lane,
                ..*at
            };
            let bytes = stores.then(|| stored(lane));
            let place = (chunk.addresses.of(lane), bytes.as_deref());
            self.add_races(races, &[race], (site, id), &own, place);
        }
        races.forget_stores();
    }

    /// Adds races of an access to `address` to the findings. `stored` are the bytes that the access stores.
    fn add_races(
        &self,
        races: &mut Races,
        found: &[Race],
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        (address, stored): (u64, Option<&[u8]>),
    ) {
        for race in found {
            let equal = race.both_write
                && stored.is_some_and(|bytes| is_unchanged(races, race.address, address, bytes));
            let severity = match (
                equal,
                race.same_warp || race.volatile || race.reader_lacks_fence,
            ) {
                (true, _) => Severity::Info,
                (false, true) => Severity::Warning,
                (false, false) => Severity::Error,
            };
            let pair = (race.earlier.0, site);
            let volatile = race.volatile.then_some(address);
            if races.count_pair(pair, severity, race.missing, volatile) {
                let finding = self.race_finding(races, race, (site, id), at, severity);
                let found = (finding, race.missing, self.launch.shape.call.clone());
                races.add_pair(pair, self.info.grid_id, volatile, found);
            }
        }
    }

    /// Returns whether an access is going to write: a compare-and-swap only if the comparison succeeds.
    fn writes(&self, access: &ObservedAccess, address: u64, operands: &[Bits]) -> bool {
        if access.op != AtomOp::Cas || access.mode != AccessMode::Update {
            return true;
        }
        let mut bytes = [0; 16];
        let count = access.bytes.min(16) as usize;
        let read = crate::fault::access::read(&mut bytes[..count], address);
        let expected = operands.first().map(|bits| bits.to_le_bytes());
        read.is_err() || expected.is_none_or(|expected| expected[..count] == bytes[..count])
    }

    /// Returns the detector's index of the present CTA.
    fn cta_id(&mut self, races: &mut Races) -> CtaId {
        let linear = self.cta.linear;
        let launch = self.info.grid_id;
        if let Some((known, id)) = self.known_cta
            && known == linear
        {
            return id;
        }
        let cluster = self.cluster();
        let (id, new) = races.cta((launch, linear), cluster, self.info.threads());
        if new && self.launch.code.barriers_only {
            races.detector.order_by_barriers_only(id);
        }
        if new {
            // The CTA uses shared memory that another CTA has used before.
            let own = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
            let start = self.cta.shared_base + self.shared_offset();
            if own != 0 {
                races.detector.forget(start, own);
            }
        }
        self.known_cta = Some((linear, id));
        id
    }

    /// Returns the linear index of the present CTA's cluster.
    fn cluster(&self) -> u64 {
        let sizes = self.info.cluster.map(|n| n.max(1));
        let counts: [u64; 3] =
            std::array::from_fn(|i| u64::from((self.info.grid[i] / sizes[i]).max(1)));
        let [x, y, z] = std::array::from_fn(|i| u64::from(self.cta.index[i] / sizes[i]));
        x + counts[0] * (y + counts[1] * z)
    }

    fn site(&self, races: &mut Races, at: &Observed<'_>) -> Site {
        let code = &self.launch.code;
        let loc = u64::from(at.loc.ptx_line) | u64::from(at.loc.loc) << 32;
        let key = (code.unique, loc, at.access.to_bits());
        races.site(key, || SiteInfo {
            kernel: code.name.as_str().into(),
            place: place_of(code, at.loc),
            access: *at.access,
        })
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
        let (_, other_index) = races.detector.cta(other_cta);
        let thread = |cta: u64, thread: u32| ThreadPlace {
            thread: self.info.thread_index(thread),
            block: self.info.cta_index(cta),
        };
        let here = (own, thread(races.detector.cta(id).1, race.thread));
        let there = (other, thread(other_index, other_thread));
        // The order in which the accesses occurred means nothing, so the report has the order of the source.
        let (first, second) = match other.place.ptx_line <= own.place.ptx_line {
            true => (there, here),
            false => (here, there),
        };
        let space = space_name(self.space_of(at.access.space, race.address));
        let name = |info: &SiteInfo| match access_of(info.access.mode) {
            crate::checks::Access::Read => "Read",
            crate::checks::Access::Write => "Write",
            crate::checks::Access::Atomic => "Atomic",
        };
        let text = format!(
            "Race reported between {} access and {} access to {space} memory",
            name(first.0),
            name(second.0)
        );
        let mut finding = Finding::new(Kind::Race, text);
        finding.severity = severity;
        finding.kernel = Some(first.0.kernel.to_string());
        finding.place = first.0.place.clone();
        finding.access = Some(access_of(first.0.access.mode));
        finding.space = Some(space);
        finding.size = Some(u64::from(first.0.access.bytes));
        finding.thread = Some(first.1);
        finding.address = Some(race.address);
        finding.allocation = match space {
            "__shared__" => Some(self.shared_text(race.address)),
            _ => self.visible.describe(race.address),
        };
        finding.other = Some(Box::new(Other {
            kernel: Some(second.0.kernel.to_string()),
            place: second.0.place.clone(),
            access: access_of(second.0.access.mode),
            thread: Some(second.1),
        }));
        finding.missing = (severity != Severity::Info).then(|| missing_text(race.missing));
        if race.volatile {
            let text = "volatile accesses are not atomic in CUDA C++";
            finding.explanation = Some(text.to_owned());
        }
        finding
    }

    /// Passes an operation on groups of asynchronous copies to the race detector.
    pub(in crate::native) fn copy_group(&mut self, cta: u64, thread: u32, mode: Mode, count: u32) {
        self.move_to(cta);
        if let Some(races) = &self.findings.shadow().races {
            let mut races = races.lock();
            let id = self.cta_id(&mut races);
            match mode {
                Mode::Arrive => races.detector.commit_copies(id, thread),
                Mode::Sync => races.detector.wait_for_copies(id, thread, Some(count)),
                _ => races.detector.wait_for_copies(id, thread, None),
            }
        }
    }

    /// Passes a fence of a thread to the race detector.
    pub(in crate::native) fn fence(&mut self, cta: u64, thread: u32, scope: PtxScope) {
        self.move_to(cta);
        if let Some(races) = &self.findings.shadow().races {
            let mut races = races.lock();
            let id = self.cta_id(&mut races);
            races.detector.fence(id, thread, scope_of(scope));
        }
    }

    /// Passes a synchronisation of threads to the race detector.
    pub(in crate::native) fn synchronised(&mut self, cta: u64, event: SyncEvent<'_>) {
        self.move_to(cta);
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
        }
    }
}

/// Passes a barrier of a cluster, whose CTAs have these examiners, to the race detector.
pub(in crate::native) fn synchronise_cluster(ctas: &mut [Examiner<'_>]) {
    let Some(findings) = ctas.first().map(|cta| cta.findings) else {
        return;
    };
    if let Some(races) = &findings.shadow().races {
        let mut races = races.lock();
        let ids: Vec<CtaId> = ctas.iter_mut().map(|cta| cta.cta_id(&mut races)).collect();
        races.detector.synchronise_ctas(&ids);
    }
}

/// Returns the bytes that a store writes.
fn stored_bytes(access: &ObservedAccess, operands: &[Bits]) -> Vec<u8> {
    let element = access.element.min(16) as usize;
    let bytes = operands
        .iter()
        .flat_map(|bits| bits.to_le_bytes()[..element].to_vec());
    bytes.take(access.bytes as usize).collect()
}

/// Records the bytes that a thread is about to store at an address.
fn record_store(races: &mut Races, address: u64, bytes: &[u8]) {
    for (index, part) in bytes.chunks(16).enumerate() {
        let mut cells = [0; 16];
        cells[..part.len()].copy_from_slice(part);
        races.stored(address + 16 * index as u64, cells, part.len() as u32);
    }
}

/// Returns whether a store writes the bytes that the latest store has written. The comparison ends with the four bytes at
/// `from`, which the race is about.
fn is_unchanged(races: &Races, from: u64, start: u64, bytes: &[u8]) -> bool {
    let end = (from / 4 * 4 + 4).min(start + bytes.len() as u64);
    (from..end).all(|at| {
        let new = bytes.get((at - start) as usize);
        let old = races.recent_byte(at).or_else(|| {
            let mut byte = [0];
            crate::fault::access::read(&mut byte, at).ok()?;
            Some(byte[0])
        });
        new.copied() == old
    })
}
