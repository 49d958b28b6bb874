//! The shadow memory of a checking run, and the launches that use it.

use std::cmp::Reverse;
use std::sync::Arc;

use indexmap::IndexMap;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_shadow::init::Initialised;
use margay_shadow::race::{Conflict, CtaId, Detector, Missing, Site};
use margay_shadow::values::Values;
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::streams::HostAccess;
use super::{CallStack, Finding, Place, Severity, ThreadPlace, Tool, Tools};

/// Shadow memory. A part is `None` if no tool of the run uses it.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// Which bytes of device memory have been written.
    pub(crate) initialised: Option<Initialised>,
    /// The accesses of kernels, and the synchronisation that orders them.
    pub(crate) races: Option<Mutex<Races>>,
    /// The last CTA (launch and linear index) that has used the shared memory at each address.
    owners: Mutex<FxHashMap<u64, (u64, u64)>>,
}

impl Shadow {
    /// Makes a CTA, given by launch and linear index, the owner of the shared memory at an address. Returns whether the
    /// owner changed: another CTA, or no CTA, owned the memory before.
    pub(crate) fn is_new_owner(&self, address: u64, cta: (u64, u64)) -> bool {
        self.owners.lock().insert(address, cta) != Some(cta)
    }

    pub(crate) fn new(tools: Tools) -> Shadow {
        Shadow {
            initialised: tools
                .contains(Tool::Initialisation)
                .then(Initialised::default),
            races: tools.contains(Tool::Race).then(Mutex::default),
            owners: Mutex::default(),
        }
    }
}

/// An instruction whose accesses the race detector records.
#[derive(Clone, Debug)]
pub(crate) struct SiteInfo {
    pub(crate) kernel: Arc<str>,
    pub(crate) place: Place,
    pub(crate) access: ObservedAccess,
}

/// Identifies a site: the number of the kernel's code (`KernelCode::unique`), and bits that contain the source
/// position and the properties of the access.
pub(crate) type SiteKey = (u64, u64, u64);

/// The race detector, and tables that translate between instructions and CTAs and the detector's numbers for them.
#[derive(Debug, Default)]
pub(crate) struct Races {
    pub(crate) detector: Detector,
    sites: FxHashMap<SiteKey, Site>,
    infos: Vec<SiteInfo>,
    /// The detector's numbers of the CTAs of running launches, by launch and linear index of the CTA.
    ctas: FxHashMap<(u64, u64), CtaId>,
    /// The last CTA that has used each window, by the start addresses of the window's shared and local memory.
    windows: FxHashMap<(u64, u64), CtaId>,
    /// The launches that are not over.
    launches: FxHashSet<u64>,
    /// The bytes of the stores that were passed to the detector.
    pub(crate) values: Values,
    /// Races of running launches by the sites of their accesses.
    pairs: IndexMap<(Site, Site), Pair, FxBuildHasher>,
    /// Races between a kernel of a running launch and a copy or fill. The key is the site of the kernel's access and
    /// the ID of the copy or fill ([`HostAccess::work`]).
    host_pairs: IndexMap<(Site, u32), Pair>,
    /// Copies and fills that later work may overlap.
    host: Vec<HostAccess>,
    /// A launch, and the elements of `host` that the launch may overlap. Only one launch is kept, because successive
    /// accesses are usually those of one launch.
    overlapping: Option<(u64, Vec<HostAccess>)>,
    /// Digests of accesses to shared memory that did not race. Each digest covers all accesses of a CTA between two
    /// barriers.
    clean: FxHashSet<u64>,
    /// Loads, by the number of the kernel's code and the source position, whose runs the detector could not keep
    /// together for several CTAs ([`Detector::read_grid`]).
    separate: FxHashSet<(u64, u64)>,
    /// The extents of the launches whose CTAs the detector contains, by launch.
    extents: FxHashMap<u32, Extents>,
}

/// The extents of a launch's grid and blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    /// Number of CTAs in each dimension.
    pub(crate) grid: [u32; 3],
    /// Number of threads of a CTA in each dimension.
    pub(crate) block: [u32; 3],
}

/// Converts a linear index of a thread or CTA to coordinates. `extents` are the extents of its block or grid.
fn coordinates(index: u64, extents: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| u64::from(extent.max(1)));
    [index % x, index / x % y, index / (x * y)].map(|coordinate| coordinate as u32)
}

/// A race that was found in a launch.
#[derive(Debug)]
struct Pair {
    launch: u64,
    /// The first addresses at which volatile accesses raced. The race is no defect if all these addresses are those of
    /// flags ([`Detector::is_flag`]).
    volatile: Vec<u64>,
    finding: Finding,
    /// The kind of synchronisation that is missing between the accesses.
    missing: Missing,
    call: Option<CallStack>,
}

impl Pair {
    /// Returns how serious the race is.
    fn gravity(&self) -> Gravity {
        gravity(self.finding.severity, self.missing)
    }
}

/// How serious an occurrence of a race is. A finding describes the most serious occurrence, so that the report does not
/// depend on the order of the occurrences.
type Gravity = (Severity, u8, Missing);

fn gravity(severity: Severity, missing: Missing) -> Gravity {
    (severity, distance(missing), missing)
}

/// Returns a rank of the missing synchronisation: the more threads it would order, the higher the rank. For example, a
/// barrier of the CTA has a higher rank than a barrier of a warp, because it also orders the threads of each warp.
fn distance(missing: Missing) -> u8 {
    match missing {
        Missing::WarpBarrier => 0,
        Missing::Barrier => 1,
        Missing::ClusterBarrier => 2,
        Missing::GridOrder
        | Missing::Fence
        | Missing::Scope
        | Missing::Size
        | Missing::CopyWait
        | Missing::BulkWait
        | Missing::ObjectWait
        | Missing::ProxyFence
        | Missing::StreamOrder => 3,
    }
}

/// Maximum number of addresses that are kept for a race of volatile accesses.
const FLAGS: usize = 64;
/// Maximum number of digests of accesses that did not race.
const CLEAN: usize = 1 << 16;
/// Number of groups of accesses ([`Detector::groups`]) above which the accesses of earlier launches are forgotten as
/// soon as no launch runs.
const GROUPS: usize = 1 << 20;

impl Races {
    /// Records that a launch has begun.
    pub(crate) fn begin_launch(&mut self, launch: u64) {
        self.launches.insert(launch);
    }

    /// Counts one more occurrence of a race between two sites. Returns whether [`Races::add_pair`] must be called:
    /// the race is new, or this occurrence is more serious than the one that the finding describes.
    pub(crate) fn count_pair(
        &mut self,
        pair: (Site, Site),
        severity: Severity,
        missing: Missing,
        volatile: Option<u64>,
    ) -> bool {
        let Some(known) = self.pairs.get_mut(&pair) else {
            return true;
        };
        if let Some(address) = volatile
            && known.volatile.len() < FLAGS
            && !known.volatile.contains(&address)
        {
            known.volatile.push(address);
        }
        known.finding.count += 1;
        gravity(severity, missing) > known.gravity()
    }

    /// Returns whether the finding of two sites exists and describes a race that is at least as serious as one with
    /// this severity and missing order.
    pub(crate) fn covers(&self, pair: (Site, Site), severity: Severity, missing: Missing) -> bool {
        let known = self.pairs.get(&pair);
        known.is_some_and(|known| gravity(severity, missing) <= known.gravity())
    }

    /// Counts `count` more occurrences of a race between two sites. Returns whether a finding for the two sites exists;
    /// if not, counts nothing.
    pub(crate) fn add_count(&mut self, pair: (Site, Site), count: u64) -> bool {
        let known = self.pairs.get_mut(&pair);
        known.map(|known| known.finding.count += count).is_some()
    }

    /// Adds a race between two sites. If the race is known, the new finding replaces the old one, but keeps its count.
    pub(crate) fn add_pair(
        &mut self,
        pair: (Site, Site),
        launch: u64,
        volatile: Option<u64>,
        (mut finding, missing, call): (Finding, Missing, Option<CallStack>),
    ) {
        if let Some(known) = self.pairs.get_mut(&pair) {
            finding.count = known.finding.count;
            known.finding = finding;
            known.missing = missing;
            return;
        }
        let pair_of = Pair {
            launch,
            volatile: volatile.into_iter().collect(),
            finding,
            missing,
            call,
        };
        self.pairs.insert(pair, pair_of);
    }

    /// Records that a launch is over, and returns its races. Races with copies and fills come first, then the other
    /// races, the most serious ones first.
    pub(crate) fn end_launch(&mut self, launch: u64) -> Vec<(Finding, Option<CallStack>)> {
        let mut of_host = Vec::new();
        for (key, pair) in std::mem::take(&mut self.host_pairs) {
            match pair.launch == launch {
                true => of_host.push((pair.finding, pair.call)),
                false => {
                    self.host_pairs.insert(key, pair);
                }
            }
        }
        let mut races: Vec<Pair> = Vec::new();
        for ((a, b), mut pair) in std::mem::take(&mut self.pairs) {
            if pair.launch != launch {
                self.pairs.insert((a, b), pair);
                continue;
            }
            let mut flags = pair.volatile.iter();
            if !pair.volatile.is_empty() && flags.all(|&at| self.detector.is_flag(at)) {
                pair.finding.severity = Severity::Info;
            }
            if pair.finding.severity == Severity::Info {
                pair.finding.missing = None;
            }
            races.push(pair);
        }
        // Races between copies of one instruction in an unrolled loop become one finding. The first of these races
        // determines the description of the finding.
        races.sort_by_key(|pair| Reverse(pair.gravity()));
        let races = races.into_iter();
        let races = of_host
            .into_iter()
            .chain(races.map(|pair| (pair.finding, pair.call)))
            .collect();
        if self.launches.remove(&launch) {
            let (ctas, detector) = (&mut self.ctas, &mut self.detector);
            ctas.retain(|&(of, _), &mut id| {
                let is_kept = of != launch;
                if !is_kept {
                    detector.end_cta(id);
                }
                is_kept
            });
            self.windows.clear();
        }
        races
    }

    /// Returns whether a launch is prepared or runs.
    pub(crate) fn is_running(&self, launch: u64) -> bool {
        self.launches.contains(&launch)
    }

    /// Returns whether no other launch is prepared or runs. `launch` itself has not begun.
    pub(crate) fn is_idle(&self, launch: u64) -> bool {
        self.launches.iter().all(|&other| other == launch)
    }

    /// Returns whether the detector should forget the accesses of earlier work, because they use too much memory.
    pub(crate) fn is_full(&self) -> bool {
        self.detector.groups() > GROUPS
    }

    /// Forgets the accesses of all earlier work. Must not be called while a launch runs, so that all later accesses
    /// are ordered after the forgotten ones.
    pub(crate) fn forget_earlier(&mut self) {
        self.detector.clear();
        self.ctas.clear();
        self.windows.clear();
        self.values.clear();
        self.extents.clear();
        self.host.clear();
        self.overlapping = None;
    }

    /// Forgets the copies and fills whose IDs are in `works`.
    pub(crate) fn forget_host(&mut self, works: &FxHashSet<u32>) {
        if works.is_empty() {
            return;
        }
        let detector = &mut self.detector;
        self.host.retain(|host| {
            let is_kept = !works.contains(&host.work);
            if !is_kept {
                detector.forget_overlaps(host.work);
            }
            is_kept
        });
        self.overlapping = None;
    }

    /// Records that the launch, copy or fill `work` may run at the same time as each launch, copy or fill in `earlier`.
    pub(crate) fn add_overlaps(&mut self, work: u32, earlier: &[u32]) {
        self.detector.add_overlaps(work, earlier);
        self.overlapping = None;
    }

    /// Adds an access of a copy or a fill. Calls `report` for the races with accesses of earlier work that may overlap
    /// this access. Races with a kernel are reported once for each instruction. Races with copies and fills are
    /// reported once for each first common address, separately for reads and writes.
    pub(crate) fn add_host(
        &mut self,
        host: HostAccess,
        describe: impl Fn(u64) -> Option<String>,
        mut report: impl FnMut(Finding),
    ) {
        let mut found: IndexMap<(Site, bool), (Conflict, u64)> = IndexMap::new();
        let mut found_host: IndexMap<(bool, u64), (&HostAccess, u64)> = IndexMap::new();
        let detector = &mut self.detector;
        let overlaps = |other: &&HostAccess| {
            let conflict = other.writes || host.writes;
            let close = host.rows.start < other.rows.end() && other.rows.start < host.rows.end();
            conflict && close && detector.may_overlap(other.work, host.work)
        };
        let others: Vec<&HostAccess> = self.host.iter().filter(overlaps).collect();
        for (start, bytes) in host.rows.each() {
            let range = (start, bytes);
            detector.conflicts(host.work, range, host.writes, |conflict| {
                let key = (conflict.site, conflict.writes);
                found.entry(key).or_insert((conflict, 0)).1 += 1;
            });
            for &other in &others {
                if let Some(address) = other.rows.first_common(start, bytes) {
                    found_host
                        .entry((other.writes, address))
                        .or_insert((other, 0))
                        .1 += 1;
                }
            }
        }
        for ((_, address), (other, count)) in found_host {
            let mut finding = host.race_with_host(other, (address, describe(address)));
            finding.count = count;
            report(finding);
        }
        for (conflict, count) in found.into_values() {
            let thread = self.thread_place(conflict.cta, conflict.thread);
            let memory = (conflict.address, describe(conflict.address));
            let mut finding = host.race_with(self.info(conflict.site), thread, memory);
            finding.count = count;
            report(finding);
        }
        self.host.push(host);
        self.overlapping = None;
    }

    /// Returns the copies and fills that a launch may overlap.
    pub(crate) fn overlapping_host(&mut self, launch: u64) -> &[HostAccess] {
        if self.host.is_empty() {
            return &[];
        }
        let known = self.overlapping.take().filter(|(of, _)| *of == launch);
        let (_, found) = self.overlapping.insert(known.unwrap_or_else(|| {
            let all = self.host.iter();
            let own = all.filter(|host| self.detector.may_overlap(host.work, launch as u32));
            (launch, own.cloned().collect())
        }));
        found
    }

    /// Returns a copy or fill that may overlap a launch and conflicts with an access of the launch. Also returns the
    /// address of the first common byte of the two accesses.
    pub(crate) fn host_conflict(
        &mut self,
        launch: u64,
        (address, bytes): (u64, u32),
        writes: bool,
    ) -> Option<(HostAccess, u64)> {
        self.overlapping_host(launch)
            .iter()
            .filter(|host| host.writes || writes)
            .find_map(|host| {
                let first = host.rows.first_common(address, bytes.into())?;
                Some((host.clone(), first))
            })
    }

    /// Counts one more occurrence of a race between a site and a copy or fill. Returns whether this race was added
    /// before; if not, counts nothing.
    pub(crate) fn count_host_pair(&mut self, pair: (Site, u32)) -> bool {
        let known = self.host_pairs.get_mut(&pair);
        known.map(|known| known.finding.count += 1).is_some()
    }

    /// Adds a race between a site and a copy or fill.
    pub(crate) fn add_host_pair(
        &mut self,
        pair: (Site, u32),
        launch: u64,
        (finding, call): (Finding, Option<CallStack>),
    ) {
        let volatile = Vec::new();
        let pair_of = Pair {
            launch,
            volatile,
            finding,
            missing: Missing::StreamOrder,
            call,
        };
        self.host_pairs.insert(pair, pair_of);
    }

    /// Returns the coordinates of a thread.
    pub(crate) fn thread_place(&self, cta: CtaId, thread: u32) -> ThreadPlace {
        let (launch, index) = self.detector.cta(cta);
        let one = Extents {
            grid: [1; 3],
            block: [1; 3],
        };
        let extents = self.extents.get(&launch).copied().unwrap_or(one);
        ThreadPlace {
            thread: coordinates(thread.into(), extents.block),
            block: coordinates(index, extents.grid),
        }
    }

    /// Forgets the accesses to the `bytes` bytes at `address`, because this memory was allocated again.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) {
        self.detector.forget(address, bytes);
        self.host
            .retain(|host| host.rows.first_common(address, bytes).is_none());
        self.overlapping = None;
    }

    /// Returns whether the accesses with a digest are known not to race.
    pub(crate) fn is_clean(&self, digest: u64) -> bool {
        self.clean.contains(&digest)
    }

    /// Records that the accesses with a digest did not race.
    pub(crate) fn add_clean(&mut self, digest: u64) {
        if self.clean.len() >= CLEAN {
            self.clean.clear();
        }
        self.clean.insert(digest);
    }

    /// Returns the site with a key. If there is none, creates it.
    pub(crate) fn site(&mut self, key: SiteKey, info: impl FnOnce() -> SiteInfo) -> Site {
        *self.sites.entry(key).or_insert_with(|| {
            self.infos.push(info());
            self.infos.len() as Site - 1
        })
    }

    /// Returns whether the accesses of a site are stores and not, for example, atomic updates.
    pub(crate) fn stores(&self, site: Site) -> bool {
        self.info(site).access.mode == AccessMode::Store
    }

    /// Returns the kernel, the place and the access of a site.
    pub(crate) fn info(&self, site: Site) -> &SiteInfo {
        &self.infos[site as usize]
    }

    /// Returns the detector's number of a CTA, and whether the CTA is new. Adds a new CTA to the detector.
    pub(crate) fn cta(
        &mut self,
        (launch, index): (u64, u64),
        cluster: u64,
        extents: Extents,
    ) -> (CtaId, bool) {
        if let Some(&id) = self.ctas.get(&(launch, index)) {
            return (id, false);
        }
        let threads = extents.block.iter().product();
        self.add_extents(launch, extents);
        let id = self
            .detector
            .add_cta(launch as u32, index, cluster, threads);
        self.ctas.insert((launch, index), id);
        (id, true)
    }

    /// Records that the runs of a load are passed to the detector separately for each CTA from now on.
    pub(crate) fn separate(&mut self, load: (u64, u64)) {
        self.separate.insert(load);
    }

    /// Returns whether the address ranges that a load reads are passed to the race detector separately for each CTA.
    pub(crate) fn is_separate(&self, load: (u64, u64)) -> bool {
        self.separate.contains(&load)
    }

    /// Records the extents of a launch.
    pub(crate) fn add_extents(&mut self, launch: u64, extents: Extents) {
        self.extents.insert(launch as u32, extents);
    }

    /// Records that a new CTA uses a window. Ends the CTA that has used this window before.
    pub(crate) fn use_window(&mut self, window: (u64, u64), id: CtaId) {
        if let Some(ended) = self.windows.insert(window, id) {
            self.detector.end_cta(ended);
        }
    }
}
