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

/// The shadow memory of a checking run. If no tool of the run uses the field `initialised` or `races`, this field is
/// `None`.
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
    /// Makes a CTA the owner of the shared memory at an address. `cta` contains the launch and the
    /// linear index of the CTA. Returns whether the owner changed: another CTA, or no CTA, owned
    /// the memory before.
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

/// The key of a site, which is an instruction that accesses memory. The key consists of the number
/// of the kernel's code (`KernelCode::unique`), and bits that contain the source position and the
/// properties of the access.
pub(crate) type SiteKey = (u64, u64, u64);

/// The race detector, and tables that map instructions and CTAs to the numbers by which the
/// detector identifies them.
#[derive(Debug, Default)]
pub(crate) struct Races {
    pub(crate) detector: Detector,
    sites: FxHashMap<SiteKey, Site>,
    infos: Vec<SiteInfo>,
    /// The detector's number of each CTA of the running launches. The key consists of the launch
    /// and the linear index of the CTA.
    ctas: FxHashMap<(u64, u64), CtaId>,
    /// The last CTA that has used each window. The key consists of the start addresses of the
    /// window's shared memory and local memory.
    windows: FxHashMap<(u64, u64), CtaId>,
    /// The launches that are not over.
    launches: FxHashSet<u64>,
    /// The bytes of the stores that were passed to the detector.
    pub(crate) values: Values,
    /// The races that were found in running launches. The key consists of the instructions (sites)
    /// of the two accesses.
    pairs: IndexMap<(Site, Site), Pair, FxBuildHasher>,
    /// Races between a kernel of a running launch and a copy or fill. The key consists of the
    /// instruction (site) of the kernel's access, and the ID of the copy or fill
    /// ([`HostAccess::work`]).
    host_pairs: IndexMap<(Site, u32), Pair>,
    /// Copies and fills that later work may overlap.
    host: Vec<HostAccess>,
    /// A cache: a launch, and the elements of `host` that the launch may overlap. An entry for one
    /// launch suffices, because successive accesses usually belong to the same launch.
    overlapping: Option<(u64, Vec<HostAccess>)>,
    /// Hash values of sequences of accesses to shared memory that did not race. Each hash value is
    /// computed from all accesses of a CTA between two barriers.
    clean: FxHashSet<u64>,
    /// Loads for which the detector could not record the reads of several CTAs together
    /// ([`Detector::read_grid`]). A load is identified by the number of the kernel's code and the
    /// source position.
    separate: FxHashSet<(u64, u64)>,
    /// The extents of each launch that has CTAs in the detector.
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

/// Converts a linear index of a thread or CTA to coordinates. `extents` are the extents of the
/// block that contains the thread, or of the grid that contains the CTA.
fn coordinates(index: u64, extents: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| u64::from(extent.max(1)));
    [index % x, index / x % y, index / (x * y)].map(|coordinate| coordinate as u32)
}

/// A race that was found in a launch.
#[derive(Debug)]
struct Pair {
    launch: u64,
    /// Up to [`FLAGS`] addresses at which volatile accesses raced. The race is not a defect if all
    /// these addresses are addresses of flags ([`Detector::is_flag`]).
    volatile: Vec<u64>,
    finding: Finding,
    /// The kind of synchronisation that is missing between the accesses.
    missing: Missing,
    call: Option<CallStack>,
}

impl Pair {
    /// Returns how serious the race is that the finding describes.
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

/// Maximum number of addresses in [`Pair::volatile`].
const FLAGS: usize = 64;
/// Maximum number of hash values in [`Races::clean`].
const CLEAN: usize = 1 << 16;
/// If the detector contains more than this number of groups of accesses ([`Detector::groups`]), it
/// forgets the accesses of earlier launches as soon as no launch runs.
const GROUPS: usize = 1 << 20;

impl Races {
    /// Records that a launch has begun.
    pub(crate) fn begin_launch(&mut self, launch: u64) {
        self.launches.insert(launch);
    }

    /// Counts one more occurrence of a race between two instructions (sites). Returns whether
    /// [`Races::add_pair`] must be called: the race is new, or this occurrence is more serious than
    /// the occurrence that the race's finding describes.
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

    /// Returns whether a finding for the two instructions (sites) exists and describes a race that
    /// is at least as serious as a race with the given severity and missing synchronisation.
    pub(crate) fn covers(&self, pair: (Site, Site), severity: Severity, missing: Missing) -> bool {
        let known = self.pairs.get(&pair);
        known.is_some_and(|known| gravity(severity, missing) <= known.gravity())
    }

    /// Counts `count` more occurrences of a race between two instructions (sites). Returns whether
    /// a finding for these two instructions exists. If it does not exist, the function does
    /// nothing.
    pub(crate) fn add_count(&mut self, pair: (Site, Site), count: u64) -> bool {
        let known = self.pairs.get_mut(&pair);
        known.map(|known| known.finding.count += count).is_some()
    }

    /// Adds a race between two instructions (sites). If a race between these instructions was added
    /// before, the new finding replaces the old finding and takes over its count.
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

    /// Records that a launch is over, and returns its races. The result contains first the races
    /// with copies and fills, and then the other races, beginning with the most serious races.
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

    /// Returns whether no launch other than `launch` is prepared or runs.
    pub(crate) fn is_idle(&self, launch: u64) -> bool {
        self.launches.iter().all(|&other| other == launch)
    }

    /// Returns whether the detector should forget the accesses of earlier work, because they use too much memory.
    pub(crate) fn is_full(&self) -> bool {
        self.detector.groups() > GROUPS
    }

    /// Forgets the accesses of all earlier work. Must not be called while a launch runs. All later
    /// accesses are therefore ordered after the forgotten accesses.
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
    /// this access. Races with a kernel are reported once for each instruction, separately for its reads and its
    /// writes. For races with copies and fills, `report` is called once for each first address that a row of this
    /// access and a row of an earlier access have in common, separately for reads and writes.
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

    /// Counts one more occurrence of a race between an instruction (site) and a copy or fill.
    /// Returns whether this race was added before. If it was not added before, the function does
    /// nothing.
    pub(crate) fn count_host_pair(&mut self, pair: (Site, u32)) -> bool {
        let known = self.host_pairs.get_mut(&pair);
        known.map(|known| known.finding.count += 1).is_some()
    }

    /// Adds a race between an instruction (site) and a copy or fill.
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

    /// Returns whether [`Races::clean`] contains a hash value, so that the accesses with this hash
    /// value do not race.
    pub(crate) fn is_clean(&self, digest: u64) -> bool {
        self.clean.contains(&digest)
    }

    /// Records that the accesses with a hash value did not race.
    pub(crate) fn add_clean(&mut self, digest: u64) {
        if self.clean.len() >= CLEAN {
            self.clean.clear();
        }
        self.clean.insert(digest);
    }

    /// Returns the detector's number of the instruction (site) with the key `key`. If the
    /// instruction has no number yet, assigns a number to it.
    pub(crate) fn site(&mut self, key: SiteKey, info: impl FnOnce() -> SiteInfo) -> Site {
        *self.sites.entry(key).or_insert_with(|| {
            self.infos.push(info());
            self.infos.len() as Site - 1
        })
    }

    /// Returns whether the accesses of an instruction (site) are stores and not, for example,
    /// atomic updates.
    pub(crate) fn stores(&self, site: Site) -> bool {
        self.info(site).access.mode == AccessMode::Store
    }

    /// Returns the kernel, the place and the access of an instruction (site).
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

    /// Records that the caller must pass the reads of a load to the detector separately for each
    /// CTA after this call.
    pub(crate) fn separate(&mut self, load: (u64, u64)) {
        self.separate.insert(load);
    }

    /// Returns whether the caller must pass the reads of a load to the detector separately for each
    /// CTA.
    pub(crate) fn is_separate(&self, load: (u64, u64)) -> bool {
        self.separate.contains(&load)
    }

    /// Records the extents of a launch.
    pub(crate) fn add_extents(&mut self, launch: u64, extents: Extents) {
        self.extents.insert(launch as u32, extents);
    }

    /// Records that a new CTA uses a window. If another CTA has used the window before, informs the
    /// detector that this CTA has ended.
    pub(crate) fn use_window(&mut self, window: (u64, u64), id: CtaId) {
        if let Some(ended) = self.windows.insert(window, id) {
            self.detector.end_cta(ended);
        }
    }
}
