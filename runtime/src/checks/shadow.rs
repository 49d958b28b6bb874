//! The shadow memory of a checking run, and the launches that use it.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::IndexMap;
use margay_ir::observe::ObservedAccess;
use margay_shadow::init::Initialised;
use margay_shadow::race::{CtaId, Detector, Missing, Site};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{CallStack, Finding, Place, Severity, Tool, Tools};

/// Shadow memory; each part exists if a tool uses it.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    /// Which bytes of device memory have been written.
    pub(crate) initialised: Option<Initialised>,
    /// What orders the accesses of kernels.
    pub(crate) races: Option<Mutex<Races>>,
    /// The launch and the linear index of the CTA that uses the shared memory at an address.
    owners: Mutex<FxHashMap<u64, (u64, u64)>>,
}

impl Shadow {
    /// Makes a CTA, given by launch and linear index, the owner of the shared memory at an address. Returns whether
    /// another CTA owned it before.
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

/// Identifies a site: a number of the kernel's code, a source position and the properties of the access.
pub(crate) type SiteKey = (u64, u64, u64);

/// The race detector with the names of its sites and CTAs.
#[derive(Debug, Default)]
pub(crate) struct Races {
    pub(crate) detector: Detector,
    sites: FxHashMap<SiteKey, Site>,
    infos: Vec<SiteInfo>,
    /// The CTAs of running launches, by launch and linear index.
    ctas: FxHashMap<(u64, u64), CtaId>,
    /// The launches that are not over.
    launches: FxHashSet<u64>,
    /// The last stores, oldest first: address and bytes. Racing stores of equal bytes are less serious.
    recent: VecDeque<(u64, [u8; 16], u32)>,
    /// Races of running launches by the sites of their accesses.
    pairs: IndexMap<(Site, Site), Pair>,
}

/// A race that was found in a launch.
#[derive(Debug)]
struct Pair {
    launch: u64,
    /// The first addresses of a race of volatile accesses, which is no defect if all addresses are flags.
    volatile: Vec<u64>,
    finding: Finding,
    /// The order that is missing.
    missing: Missing,
    call: Option<CallStack>,
}

impl Pair {
    /// How far apart the accesses are.
    fn gravity(&self) -> (Severity, u8) {
        (self.finding.severity, distance(self.missing))
    }
}

/// Returns how many threads the missing order concerns: a barrier of the CTA orders also the threads of a warp.
fn distance(missing: Missing) -> u8 {
    match missing {
        Missing::WarpBarrier => 0,
        Missing::Barrier => 1,
        Missing::ClusterBarrier => 2,
        Missing::GridOrder | Missing::Fence | Missing::Scope | Missing::CopyWait => 3,
    }
}

/// Maximum number of addresses that are kept for a race of volatile accesses.
const FLAGS: usize = 64;
/// Number of stores whose bytes are kept.
const RECENT: usize = 64;

impl Races {
    /// Records that a launch has begun.
    pub(crate) fn begin_launch(&mut self, launch: u64) {
        self.launches.insert(launch);
    }

    /// Counts one more occurrence of a race between two sites. Returns whether [`Races::add_pair`] must be called: the
    /// race is new, or this occurrence is worse than the one that the finding describes.
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
        (severity, distance(missing)) > known.gravity()
    }

    /// Adds a race between two sites. If it is known, the new finding replaces the old one.
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

    /// Records that a launch is over, and returns its races, the worst ones first. If no launch runs, all later accesses happen after all
    /// earlier ones.
    pub(crate) fn end_launch(&mut self, launch: u64) -> Vec<(Finding, Option<CallStack>)> {
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
        // The copies of an unrolled loop are one finding, and the first one gives its description.
        races.sort_by_key(|pair| Reverse(pair.gravity()));
        let races = races.into_iter();
        let races = races.map(|pair| (pair.finding, pair.call)).collect();
        if !self.launches.remove(&launch) {
            return races;
        }
        if self.launches.is_empty() {
            self.detector.clear();
            self.ctas.clear();
            self.recent.clear();
        } else {
            self.ctas.retain(|&(of, _), _| of != launch);
        }
        races
    }

    /// Returns the site with a key.
    pub(crate) fn site(&mut self, key: SiteKey, info: impl FnOnce() -> SiteInfo) -> Site {
        *self.sites.entry(key).or_insert_with(|| {
            self.infos.push(info());
            self.infos.len() as Site - 1
        })
    }

    /// Returns what is known about a site.
    pub(crate) fn info(&self, site: Site) -> &SiteInfo {
        &self.infos[site as usize]
    }

    /// Returns a CTA, and whether it is new.
    pub(crate) fn cta(
        &mut self,
        (launch, index): (u64, u64),
        cluster: u64,
        threads: u32,
    ) -> (CtaId, bool) {
        if let Some(&id) = self.ctas.get(&(launch, index)) {
            return (id, false);
        }
        let id = self
            .detector
            .add_cta(launch as u32, index, cluster, threads);
        self.ctas.insert((launch, index), id);
        (id, true)
    }

    /// Records the bytes that a thread is about to store.
    pub(crate) fn stored(&mut self, address: u64, bytes: [u8; 16], count: u32) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((address, bytes, count));
    }

    /// Forgets the recorded stores, because memory contains their bytes.
    pub(crate) fn forget_stores(&mut self) {
        self.recent.clear();
    }

    /// Returns the byte that the latest recorded store wrote at an address.
    pub(crate) fn recent_byte(&self, address: u64) -> Option<u8> {
        self.recent.iter().rev().find_map(|(start, bytes, count)| {
            let offset = address.wrapping_sub(*start);
            (offset < u64::from(*count)).then(|| bytes[offset as usize])
        })
    }
}
