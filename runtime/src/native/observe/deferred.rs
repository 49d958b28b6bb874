//! Passes loads and stores that generated code has recorded to the race detector.
//!
//! An epoch is the time between two barriers of a CTA. In kernels that order accesses only with
//! barriers, loads and stores may be passed to the detector later than they occur, if they are
//! passed before the epoch ends. The detector then finds the same races. Passing them later has two
//! advantages:
//!
//! - Accesses to shared memory cannot race with accesses of other epochs. Most epochs access shared memory in the same
//!   way as an earlier epoch did. If no access of that earlier epoch raced, the accesses of the
//!   later epoch need not be passed to the detector.
//! - Accesses of neighbouring threads to global memory are passed to the detector together ([`Run`]).
//!
//! Stores are recorded with their values, because a race is less serious if both accesses store the same bytes.

use margay_ir::function::SourceLoc;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_jit::abi::{AccessLog, AccessRecord};
use margay_shadow::race::{CtaId, Race, Run, Site, Window};
use parking_lot::MutexGuard;
use smallvec::SmallVec;

use super::log::Log;
use super::order::described;
use super::runs::{GridRun, OpenRun, OpenRuns};
use super::{Addresses, Chunk, Examiner, KNOWN_SITES, Observed};
use crate::checks::Races;

/// The accesses of the current CTA to shared memory since its last barrier.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    /// Whether this examiner has received all accesses since the last barrier or, before the first
    /// barrier, since the start of the CTA.
    whole: bool,
    /// Whether the detector has found a race of any of these accesses.
    pub(super) raced: bool,
    /// A digest of the accesses that were passed to the detector when they occurred.
    immediate: u64,
    /// The recorded accesses that are not yet passed to the detector. The last field is their digest.
    deferred: Vec<AccessRecord>,
    /// The addresses and operands that follow the records in `deferred`, in the same order.
    following: Vec<u8>,
    digest: u64,
}

/// Maximum number of accesses in [`Epoch::deferred`].
const MOST_DEFERRED: usize = 1 << 17;

fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Returns `digest` with one more access added to it.
fn add(digest: u64, [address, loc, access, lanes]: [u64; 4]) -> u64 {
    let kind = loc.wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ access.wrapping_mul(0xc4ce_b9fe_1a85_ec53).rotate_left(23)
        ^ lanes.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(41);
    mix(mix(digest, address), kind)
}

impl<'a> Examiner<'a> {
    /// Returns the address of the log in which generated code records accesses.
    pub(in crate::native) fn access_log(&mut self) -> *mut AccessLog {
        let may_wait = self.launch.waits.is_observed();
        if self.orders() && self.launch.code.barriers_only && !may_wait {
            self.log.open();
        }
        self.log.cursor()
    }

    /// Records that the next native call starts new CTAs, so that all accesses of their first
    /// epochs will be recorded.
    pub(in crate::native) fn begin_ctas(&mut self) {
        self.epoch.whole = true;
        self.unsynchronised = true;
    }

    /// Records that all CTAs of the current native call have run to their end, and passes their recorded accesses to
    /// the detector.
    pub(in crate::native) fn end_ctas(&mut self) {
        self.pass_deferred(true);
    }

    /// Adds the shared-memory accesses of a chunk to the epoch's digest of accesses that are passed to the detector
    /// when they occur.
    pub(super) fn note_immediate(&mut self, at: &Observed<'_>, chunk: &Chunk<'_>) {
        if !self.launch.code.barriers_only {
            return;
        }
        let loc = at.loc.to_bits();
        let lanes = u64::from(chunk.active) << 32 | u64::from(at.thread);
        let access = at.access.to_bits();
        let mut note = |address: u64| {
            if self.is_in_shared_window(address) {
                self.epoch.immediate = add(self.epoch.immediate, [address, loc, access, lanes]);
            }
        };
        match chunk.addresses {
            // All lanes are in the same window as the first one.
            Addresses::Strided { stride, .. } => {
                let first = chunk.addresses.of(chunk.active.trailing_zeros() & 31);
                note(first);
                self.epoch.immediate = mix(self.epoch.immediate, stride as u64);
            }
            Addresses::Each(each) => chunk.lanes().for_each(|lane| note(each[lane as usize])),
        }
    }

    /// If the log is nearly full, enlarges the log, or empties it if it has its maximum size.
    pub(super) fn make_space(&mut self) {
        if self.log.is_nearly_full() && !self.log.grow() {
            self.sort_deferred();
        }
    }

    /// Passes all recorded accesses to the detector. `over` states whether the epoch ends.
    pub(super) fn pass_deferred(&mut self, over: bool) {
        if self.log.len() != 0 {
            self.sort_deferred();
        }
        self.end_epoch(over);
    }

    /// Empties the log: moves the accesses to shared memory to [`Epoch::deferred`], and passes the
    /// other accesses to the detector.
    fn sort_deferred(&mut self) {
        let mut log = std::mem::replace(&mut self.log, Log::new());
        self.sort(&log);
        log.clear();
        self.log = log;
    }

    fn sort(&mut self, log: &Log) {
        let mut runs = OpenRuns::new();
        let mut held = None;
        for (record, following) in log.accesses() {
            if self.cta.linear == record.cta && self.keeps_loads(&mut held, record, following) {
                continue;
            }
            held = None;
            if record.cta != self.cta.linear {
                self.pass_runs(&mut runs);
                self.end_epoch(true);
                self.epoch.whole = true;
                self.unsynchronised = true;
                self.switch_to(record.cta);
            }
            if record.is_whole() {
                match self.is_in_shared_window(record.address) {
                    true => self.keep(record, following, None),
                    false => self.extend_run(&mut runs, record, following),
                }
                continue;
            }
            let each = &mut [0; 32];
            let chunk = chunk_of_record(record, following, each);
            if chunk.active == 0 {
                continue;
            }
            // The active lanes access one allocation, or one variable in shared memory.
            match self.is_in_shared_window(chunk.addresses.of(chunk.active.trailing_zeros())) {
                true => self.keep(record, following, Some(&chunk)),
                false => self.pass_part(&mut runs, record, &chunk),
            }
        }
        drop(held);
        self.pass_runs(&mut runs);
        while let Some(run) = self.grid_runs.take() {
            self.pass_grid_run(&run);
        }
    }

    /// Passes the loads of a record to the detector and returns true, if the record contains an
    /// address for each lane, all addresses are in global memory, and the detector accepts the loads as
    /// reads of memory that the launch has not written ([`margay_shadow::race::Detector::read_lanes`]).
    /// Otherwise, returns false, and the caller must pass the record in another way. `held` keeps the
    /// detector locked from one record to the next.
    fn keeps_loads(
        &mut self,
        held: &mut Option<MutexGuard<'a, Races>>,
        record: &AccessRecord,
        following: &[u8],
    ) -> bool {
        let active = record.active as u32;
        let is_global = record.address_bytes() == 8 && record.address == 0;
        if record.is_store() || !is_global || active == 0 {
            return false;
        }
        let address = |lane: u32| address_of(record, following, lane);
        let Some(races) = &self.findings.shadow().races else {
            return false;
        };
        let races = &mut **held.get_or_insert_with(|| races.lock());
        if self.is_in_shared_window(address(active.trailing_zeros()))
            || !races.overlapping_host(self.info.grid_id).is_empty()
        {
            return false;
        }
        let access = ObservedAccess::from_bits(record.access);
        let at = observed(record, &access);
        let id = self.cta_id(races);
        let site = self.site(races, &at);
        let what = (site, described(&access, true, Window::Global));
        let lanes = (active, access.bytes);
        let first = at.thread;
        races.detector.read_lanes(id, first, what, lanes, address) == active
    }

    /// Stores accesses to shared memory in the current epoch, for use when the epoch ends.
    /// `following` are the addresses and operands of the record. `part` contains the accesses; it
    /// is `None` if the addresses of all lanes have a common stride.
    fn keep(&mut self, record: &AccessRecord, following: &[u8], part: Option<&Chunk<'_>>) {
        let epoch = &mut self.epoch;
        let words = [record.address, record.loc, record.access, record.lanes];
        epoch.digest = add(epoch.digest, words);
        if let Some(chunk) = part {
            let addresses = chunk.lanes().map(|lane| chunk.addresses.of(lane));
            epoch.digest = addresses.fold(mix(epoch.digest, record.active), mix);
        }
        epoch.deferred.push(*record);
        epoch.following.extend_from_slice(following);
        if epoch.deferred.len() >= MOST_DEFERRED {
            self.end_epoch(false);
        }
    }

    /// Passes to the detector the accesses of `chunk` to global memory, which belong to no run
    /// ([`OpenRun`]).
    fn pass_part(&mut self, runs: &mut OpenRuns<'_>, record: &AccessRecord, chunk: &Chunk<'_>) {
        let access = ObservedAccess::from_bits(record.access);
        let at = observed(record, &access);
        if record.is_store()
            && let Some((start, bytes)) = chunk.span(access.bytes)
        {
            self.pass_overlapped(runs, runs.stores, (start, start + bytes));
        }
        self.order_lanes(&at, chunk);
    }

    /// Adds an access to the open run ([`OpenRun`]) that it continues. If it continues no run,
    /// begins a new run with the access.
    fn extend_run<'l>(
        &mut self,
        runs: &mut OpenRuns<'l>,
        record: &'l AccessRecord,
        operands: &'l [u8],
    ) {
        let index = OpenRuns::index(record.loc);
        let (thread, stride, width) = record.unpack();
        let is_store = record.is_store();
        let others = runs.stores & !(1 << index);
        if is_store && others != 0 {
            let new = OpenRun {
                first: record,
                threads: width,
                operands: SmallVec::new(),
            };
            self.pass_overlapped(runs, others, new.hull());
        }
        if let Some(run) = &mut runs.runs[index] {
            let first = run.first;
            let (start, ..) = first.unpack();
            let same = (first.loc, first.access, first.lanes >> 32)
                == (record.loc, record.access, record.lanes >> 32);
            let next = first
                .address
                .wrapping_add((stride as u64).wrapping_mul(u64::from(run.threads)));
            // All records of a run begin in the same 4 KiB of memory (a page of the detector's cells). This limits the
            // length of a run.
            let near = first.address >> 12 == record.address >> 12;
            if same && stride > 0 && near && next == record.address && start + run.threads == thread
            {
                run.threads += width;
                if is_store {
                    run.operands.push(operands);
                }
                return;
            }
            self.pass_open(runs, index);
        }
        runs.used |= 1 << index;
        runs.stores |= u64::from(is_store) << index;
        runs.runs[index] = Some(OpenRun {
            first: record,
            threads: width,
            operands: is_store.then_some(operands).into_iter().collect(),
        });
    }

    /// The caller calls this function before it adds a new store to the addresses `low..high`. Of
    /// the open runs in the mask `of`, passes to the detector those that contain stores to some of
    /// these addresses, so that the detector receives stores to the same bytes in program order.
    fn pass_overlapped(&mut self, runs: &mut OpenRuns<'_>, of: u64, (low, high): (u64, u64)) {
        let mut rest = of;
        while rest != 0 {
            let other = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let overlaps = runs.runs[other].as_ref().is_some_and(|run| {
                let (start, end) = run.hull();
                start < high && low < end
            });
            if overlaps {
                self.pass_open(runs, other);
            }
        }
    }

    fn pass_runs(&mut self, runs: &mut OpenRuns<'_>) {
        while runs.used != 0 {
            self.pass_open(runs, runs.used.trailing_zeros() as usize);
        }
    }

    /// Passes an open run to the detector.
    fn pass_open(&mut self, runs: &mut OpenRuns<'_>, index: usize) {
        runs.used &= !(1 << index);
        runs.stores &= !(1 << index);
        if let Some(run) = runs.runs[index].take() {
            self.pass_run(&run);
        }
    }

    /// Passes the accesses of a run to the detector.
    fn pass_run(&mut self, open: &OpenRun<'_>) {
        let record = open.first;
        let access = ObservedAccess::from_bits(record.access);
        let (first, stride, _) = record.unpack();
        let at = observed(record, &access);
        let threads = open.threads;
        let run = u32::try_from(stride).ok().map(|stride| Run {
            address: record.address,
            first,
            threads,
            stride,
            bytes: access.bytes,
        });
        if access.mode == AccessMode::Store {
            if !run.is_some_and(|run| self.keeps_stores(&at, &run, open)) {
                for (at, chunk) in open.parts(&at) {
                    self.order_lanes(&at, &chunk);
                }
            }
            return;
        }
        let together = run.is_some() && stride > 0 && self.unsynchronised;
        if together && self.info.cluster_size() == 1 && !self.is_separate(record.loc) {
            if let Some(complete) = self.grid_runs.add(record, threads) {
                self.pass_grid_run(&complete);
            }
            return;
        }
        if let Some(run) = run {
            if let Some(races) = &self.findings.shadow().races {
                let races = &mut *races.lock();
                let id = self.cta_id(races);
                let site = self.site(races, &at);
                self.order_run(races, (site, id), &at, &run);
            }
            return;
        }
        self.order_lanes(&at, &chunk_of(record.address, stride, threads));
    }

    /// Returns whether the runs of the load at the source position `loc` must be passed separately
    /// for each CTA instead of in a [`GridRun`].
    fn is_separate(&mut self, loc: u64) -> bool {
        let known = &mut self.known_separate[loc as usize % KNOWN_SITES];
        if let Some((of, separate)) = *known
            && of == loc
        {
            return separate;
        }
        let races = self.findings.shadow().races.as_ref();
        let load = (self.launch.code.unique, loc);
        let separate = races.is_none_or(|races| races.lock().is_separate(load));
        *known = Some((loc, separate));
        separate
    }

    /// Passes a run of loads of consecutive CTAs ([`GridRun`]) to the detector.
    fn pass_grid_run(&mut self, grid: &GridRun) {
        let access = ObservedAccess::from_bits(grid.first.access);
        let (first, stride, _) = grid.first.unpack();
        let at = observed(&grid.first, &access);
        let mut run = Run {
            address: grid.first.address,
            first,
            threads: grid.threads,
            stride: stride as u32,
            bytes: access.bytes,
        };
        let (launch, threads) = (self.info.grid_id, self.info.threads());
        let Some(races) = &self.findings.shadow().races else {
            return;
        };
        let mut races = races.lock();
        let races = &mut *races;
        let free = races.overlapping_host(launch).is_empty();
        let site = self.site(races, &at);
        races.add_extents(launch, self.extents());
        let what = (site, described(&access, true, Window::Global));
        let ctas = (grid.first.cta, grid.ctas, threads);
        if free && races.detector.read_grid(launch as u32, ctas, what, &run) {
            return;
        }
        races.separate((self.launch.code.unique, grid.first.loc));
        self.known_separate = [None; KNOWN_SITES];
        for index in (grid.first.cta..).take(grid.ctas as usize) {
            let detector = &mut races.detector;
            let (id, ended) = detector.begin_unsynchronised(launch as u32, (index, threads));
            self.order_run(races, (site, id), &at, &run);
            if ended {
                races.detector.end_cta(id);
            }
            run.address += u64::from(run.threads) * u64::from(run.stride);
        }
    }

    /// Passes the loads of a run of the CTA `id` to the detector.
    fn order_run(
        &mut self,
        races: &mut Races,
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        run: &Run,
    ) {
        if self.keeps_run(races, (site, id), at, run) {
            return;
        }
        let mut done = 0;
        while done < run.threads {
            let thread = run.first + done;
            let count = (run.threads - done).min(32 - thread % 32);
            let address = run.address + u64::from(done) * u64::from(run.stride);
            let at = Observed { thread, ..*at };
            let chunk = chunk_of(address, run.stride.into(), count);
            self.order_weak(races, (site, id), &at, &chunk);
            done += count;
        }
    }

    /// Passes a run of stores to the detector, and adds the races of the stores to the findings. Returns false if the
    /// caller must pass the stores of each record separately instead.
    fn keeps_stores(&mut self, at: &Observed<'_>, run: &Run, open: &OpenRun<'_>) -> bool {
        let Some(races) = &self.findings.shadow().races else {
            return true;
        };
        let mut races = races.lock();
        let races = &mut *races;
        if !races.overlapping_host(self.info.grid_id).is_empty() {
            return false;
        }
        let id = self.cta_id(races);
        let site = self.site(races, at);
        let access = described(at.access, true, Window::Global);
        let mut found: Vec<(u32, Race)> = Vec::new();
        let what = (site, access);
        let kept = races.detector.adjacent_run(id, what, run, |thread, race| {
            found.push((thread, race));
        });
        if !kept {
            return false;
        }
        self.epoch.raced |= !found.is_empty();
        for (at, chunk) in open.parts(at) {
            if !found.is_empty() {
                let before = at.thread - run.first;
                let end = before + chunk.width as u32;
                // A race of several threads can be a race of the lanes of several chunks.
                let part = |&(thread, race): &(u32, Race)| {
                    let (from, to) = (thread.max(before), (thread + race.threads).min(end));
                    let own = || Race {
                        threads: to - from,
                        ..race.of_thread(from - thread, run.bytes)
                    };
                    (from < to).then(|| (from - before, own()))
                };
                let races_of = found.iter().filter_map(part).collect();
                self.add_races_of_lanes(races, races_of, (site, id), &at, &chunk);
            }
            chunk.record_stores(at.access, &mut races.values);
        }
        true
    }

    /// Passes a run of loads of the CTA `id` to the detector. Returns false if the caller must pass the loads of the
    /// run separately for each warp instead.
    fn keeps_run(
        &mut self,
        races: &mut Races,
        (site, id): (Site, CtaId),
        at: &Observed<'_>,
        run: &Run,
    ) -> bool {
        if !races.overlapping_host(self.info.grid_id).is_empty() {
            return false;
        }
        let what = (site, described(at.access, true, Window::Global));
        let mut found = Vec::new();
        let kept = races.detector.read_run(id, what, run)
            || races.detector.adjacent_run(id, what, run, |thread, race| {
                found.push((thread, race));
            });
        self.epoch.raced |= !found.is_empty();
        for (thread, race) in found {
            let own = Observed {
                thread: at.thread + thread,
                ..*at
            };
            let address = run.address + u64::from(thread) * u64::from(run.stride);
            self.add_races(races, &[race], (site, id), &own, (address, None));
        }
        kept
    }

    /// Passes the accesses to shared memory to the detector, unless an earlier epoch without races had the same
    /// accesses. `over` states whether the epoch ends.
    fn end_epoch(&mut self, over: bool) {
        // Other CTAs of a cluster can access the same shared memory.
        let known = self.epoch.whole && over && self.info.cluster_size() == 1;
        let start = mix(self.launch.code.unique, self.cta.shared_base);
        let digest = mix(mix(start, self.epoch.immediate), self.epoch.digest);
        let mut deferred = std::mem::take(&mut self.epoch.deferred);
        let mut following = std::mem::take(&mut self.epoch.following);
        if !deferred.is_empty() {
            let races = || self.findings.shadow().races.as_ref();
            let clean = known && races().is_some_and(|races| races.lock().is_clean(digest));
            if !clean {
                let mut rest = following.as_slice();
                for record in &deferred {
                    let access = ObservedAccess::from_bits(record.access);
                    let at = observed(record, &access);
                    let own;
                    (own, rest) = rest.split_at(record.bytes());
                    self.order_lanes(&at, &chunk_of_record(record, own, &mut [0; 32]));
                }
                let races = self.findings.shadow().races.as_ref();
                if let Some(races) = races
                    && known
                    && !self.epoch.raced
                {
                    races.lock().add_clean(digest);
                }
            }
        }
        // The next epoch reuses the memory of the vectors.
        deferred.clear();
        following.clear();
        self.epoch = Epoch {
            whole: over,
            deferred,
            following,
            ..Epoch::default()
        };
    }
}

impl Drop for Examiner<'_> {
    fn drop(&mut self) {
        // The epoch may continue with another examiner, so it does not end here.
        self.pass_deferred(false);
    }
}

/// Returns the description of a record's accesses, without their addresses. `access` is the
/// unpacked [`AccessRecord::access`].
fn observed<'a>(record: &AccessRecord, access: &'a ObservedAccess) -> Observed<'a> {
    Observed {
        access,
        loc: SourceLoc::from_bits(record.loc),
        thread: record.unpack().0,
    }
}

/// Returns the accesses of `count` neighbouring threads, without operands, as a chunk.
pub(super) fn chunk_of(address: u64, stride: i64, count: u32) -> Chunk<'static> {
    Chunk {
        active: u32::MAX >> (32 - count.clamp(1, 32)),
        addresses: Addresses::Strided {
            first: address,
            stride,
            window: 0,
        },
        operands: &[],
        operand_bytes: 0,
        width: count as usize,
    }
}

/// Returns the stores of a record as a chunk. All lanes of the record store.
pub(super) fn chunk_of_stores<'a>(record: &AccessRecord, operands: &'a [u8]) -> Chunk<'a> {
    let (_, stride, width) = record.unpack();
    Chunk {
        operands,
        operand_bytes: record.operand_bytes(),
        ..chunk_of(record.address, stride, width)
    }
}

/// Returns the accesses of a record as a chunk. `following` are the addresses and operands that follow the record, and
/// `each` is memory for the addresses of the lanes.
fn chunk_of_record<'a>(
    record: &AccessRecord,
    following: &'a [u8],
    each: &'a mut [u64; 32],
) -> Chunk<'a> {
    let (.., width) = record.unpack();
    let (addresses, operands) = following.split_at(record.addresses());
    let mut chunk = chunk_of_stores(record, operands);
    chunk.active = record.active as u32;
    if addresses.is_empty() {
        return chunk;
    }
    for (lane, address) in (0..width).zip(&mut *each) {
        *address = address_of(record, addresses, lane);
    }
    let each = &each[..width as usize];
    chunk.addresses = Addresses::of_each(each, chunk.active);
    chunk
}

/// Returns the address of a lane from the addresses that follow a record.
fn address_of(record: &AccessRecord, addresses: &[u8], lane: u32) -> u64 {
    let bytes = record.address_bytes();
    let word = &addresses[lane as usize * bytes..][..bytes];
    match (record.address, word.first_chunk()) {
        (0, Some(word)) => u64::from_le_bytes(*word),
        (window, _) => {
            let offset = word.first_chunk().map_or(0, |low| u32::from_le_bytes(*low));
            window + u64::from(offset)
        }
    }
}
