//! Records reads of memory that the reading launch has not written.
//!
//! Most kernels read some arrays and write other arrays. Reads of memory that no thread of the launch writes cannot
//! race within the launch. The detector stores these reads as *runs*: a run describes the reads of
//! consecutive threads with one entry, and takes less memory and time than separate entries in
//! cells. When a launch first writes to a block of memory, the detector moves those runs of the
//! block that may race with the write into cells. It does not move the runs of earlier launches,
//! unless other work may overlap the writing launch.
//!
//! The detector stores reads as runs only if barriers are the only operations that order the
//! threads of the CTA ([`Cta::barriers_only`](super::Cta)), and if no other work may overlap the
//! launch. If several threads or CTAs perform equal runs, only some of these readers are kept. The
//! kept readers suffice, because every later write that races with any of the reads also races with
//! a read of a kept reader.

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::cell::{Entry, GroupId};
use super::clock::{CtaId, Time};
use super::grids::{GridKey, GridReaders};
use super::line::{LINE, Whole};
use super::quick::cells_of;
use super::scattered::Scattered;
use super::{Access, Detector, Group, Site, may_overlap};

/// Number of bytes of a block. For each block, the detector records whether a launch has written the block.
pub(super) const BLOCK: u64 = 1 << 16;

/// Maximum number of runs that are stored for one block of memory. A larger number of runs would
/// take more memory than the cells of the block.
pub(super) const MOST_RUNS: usize = 4096;

/// Maximum number of readers that are kept for runs with equal keys.
const MOST_READERS: usize = 16;

/// Weak accesses by consecutive threads of a CTA: thread `first + i` accesses `bytes` bytes at `address + stride * i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The address that the first thread accesses.
    pub address: u64,
    /// The index of the first thread in its CTA.
    pub first: u32,
    /// Number of threads.
    pub threads: u32,
    /// Number of bytes between the addresses of neighbouring threads.
    pub stride: u32,
    /// Number of bytes that each thread accesses.
    pub bytes: u32,
}

impl Run {
    /// Returns the number of bytes from the address of the first thread to the end of the last thread's access.
    pub(super) fn span(&self) -> u64 {
        u64::from(self.stride) * u64::from(self.threads.saturating_sub(1)) + u64::from(self.bytes)
    }
}

/// The instruction, the addresses and the number of threads of a [`Run`]. Runs with equal keys differ only in the
/// launch, the CTA, the first thread and the time of the reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) site: Site,
    /// Whether the run was recorded with [`Detector::read_grid`].
    pub(super) of_grid: bool,
    /// Offset of the first address in the block.
    pub(super) offset: u16,
    pub(super) threads: u16,
    pub(super) stride: u32,
    pub(super) bytes: u32,
}

/// A CTA that performs the reads of a run: the first thread of the run, and the time of the reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    /// The CTA: its [`CtaId`] or, if [`Key::of_grid`] is true, its linear index.
    pub(super) cta: u64,
    pub(super) first: u32,
    pub(super) time: Time,
    /// An index of an interval for which this is true of each warp of the run: the accesses of the
    /// warp until the end of the interval happen before the next access of each of its lanes. It is
    /// the largest such index.
    pub(super) common: u32,
}

/// The readers of runs with equal keys.
#[derive(Debug)]
struct Readers {
    /// The launch to which all these readers belong. This is the last launch that has read these
    /// addresses with this instruction. The reads of earlier launches need not be kept: every later
    /// access that is not ordered with them is not ordered with the reads of the last launch
    /// either.
    launch: u32,
    /// Number of bytes of an element of the reads (`Access::element`).
    element: u8,
    kept: SmallVec<[Reader; 1]>,
}

impl Readers {
    /// Adds a reader, unless the list already contains enough readers. The caller must know that no
    /// other work can run at the same time as the reader's launch.
    fn add(&mut self, launch: u32, new: Reader) {
        if self.launch != launch {
            self.launch = launch;
            self.kept.clear();
        }
        let same = |kept: &&mut Reader| {
            let earlier = kept.time.epoch < new.time.epoch;
            kept.cta == new.cta && (earlier || kept.first == new.first)
        };
        // The new reader replaces an earlier reader of the same CTA that has the same threads or has read before the
        // CTA's last barrier. Every write that is ordered after the new reads is also ordered after the replaced reads.
        if let Some(kept) = self.kept.iter_mut().find(same) {
            *kept = new;
            return;
        }
        let own = || self.kept.iter().filter(|kept| kept.cta == new.cta);
        let first = self.kept.first().map(|kept| kept.cta);
        let two_others = self.kept.iter().any(|kept| Some(kept.cta) != first);
        // Two readers in different warps of one CTA are enough: every writing thread is in a different warp than at
        // least one of them and is not ordered with this reader. In the same way, readers in two CTAs are enough.
        let two_warps = own().any(|a| own().any(|b| a.first.abs_diff(b.first) >= 32));
        let enough = match own().next() {
            Some(_) => two_warps,
            None => two_others,
        };
        if !enough && self.kept.len() < MOST_READERS {
            self.kept.push(new);
        }
    }
}

/// Equal runs, one by each CTA of a range of consecutive CTAs. The first part is the [`GridKey`] of
/// these runs. The second part consists of the launch and the number of bytes of an element
/// ([`GridReaders`]). The third part consists of the linear indices of the first CTA and of the CTA
/// after the last CTA.
type GridRange = (GridKey, (u32, u8), (u64, u64));

/// The recorded runs of a block of memory ([`BLOCK`] bytes), and the last launch that wrote the
/// block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The last launch that has written the block.
    writer: Option<u32>,
    runs: IndexMap<Key, Readers, FxBuildHasher>,
    /// Index of the run that follows the most recently used run. Launches usually read the runs of
    /// a block in the order in which the first launch has read them.
    next: usize,
    pub(super) grids: IndexMap<GridKey, GridReaders, FxBuildHasher>,
}

impl Block {
    /// Returns the readers of runs with the given key, and the number of runs that the function
    /// added (0 or 1). If the block has no such run, `make` creates the readers. Returns `None` if
    /// the block has too many runs.
    fn readers(
        &mut self,
        key: Key,
        make: impl FnOnce() -> Readers,
    ) -> Option<(&mut Readers, usize)> {
        let before = self.runs.len();
        let index = match self.runs.get_index(self.next) {
            Some((known, _)) if *known == key => self.next,
            _ if before < MOST_RUNS => {
                let entry = self.runs.entry(key);
                let index = entry.index();
                entry.or_insert_with(make);
                index
            }
            _ => self.runs.get_index_of(&key)?,
        };
        self.next = index + 1;
        let added = self.runs.len() - before;
        self.runs
            .get_index_mut(index)
            .map(|(_, readers)| (readers, added))
    }
}

/// The blocks of memory that launches have accessed.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: FxHashMap<u64, Block>,
    /// Number of runs in all blocks. Runs with equal keys are counted as one run. A table of
    /// scattered reads counts as [`super::scattered::RUNS`] runs.
    pub(super) runs: usize,
    pub(super) scattered: Scattered,
    /// The block that was written last, and the launch that wrote it.
    last_written: Option<(u64, u32)>,
}

impl Blocks {
    /// Returns the number of runs in all blocks.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the block that a launch reads, or `None` if the same launch has written the block.
    pub(super) fn unwritten(&mut self, block: u64, launch: u32) -> Option<&mut Block> {
        let found = self.blocks.entry(block).or_default();
        if found.writer == Some(launch) {
            return None;
        }
        if self.last_written.is_some_and(|(last, _)| last == block) {
            self.last_written = None;
        }
        Some(found)
    }

    /// Returns the number of bytes that the runs occupy.
    pub(super) fn bytes(&self) -> usize {
        self.runs * size_of::<(Key, Readers)>()
            + self.blocks.len() * size_of::<(u64, Block)>()
            + self.scattered.bytes()
    }
}

impl Detector {
    /// Records the reads of consecutive threads of a CTA as a run, and returns true. If the reads
    /// cannot be stored as a run, returns false, and the caller must record the reads separately
    /// for each warp. If the detector has stopped recording ([`Detector::has_given_up`]), the
    /// function records nothing and returns true.
    pub fn read_run(&mut self, id: CtaId, (site, access): (Site, Access), run: &Run) -> bool {
        if self.given_up {
            return true;
        }
        let cta = &self.ctas[id as usize];
        let launch = cta.launch;
        let block = run.address / BLOCK;
        let last = run.first + run.threads.saturating_sub(1);
        let time = cta.time(run.first);
        let common = cta.common_interval(run.first / 32);
        let at_one_time = cta.are_at_one_time(run.first / 32, last / 32);
        let Ok(threads) = u16::try_from(run.threads) else {
            return false;
        };
        if !cta.barriers_only
            || !at_one_time
            || self.overlapping.contains(&launch)
            || run.address % BLOCK + run.span() > BLOCK
        {
            return false;
        }
        let key = Key {
            site,
            of_grid: false,
            offset: (run.address % BLOCK) as u16,
            threads,
            stride: run.stride,
            bytes: run.bytes,
        };
        let reader = Reader {
            cta: id.into(),
            first: run.first,
            time,
            common,
        };
        self.add_reader(block, key, (launch, access.element), reader)
    }

    /// Adds a reader of a run in a block. Returns false if the launch has written the block, or if
    /// the block has too many runs.
    pub(super) fn add_reader(
        &mut self,
        block: u64,
        key: Key,
        (launch, element): (u32, u32),
        reader: Reader,
    ) -> bool {
        let Some(found) = self.blocks.unwritten(block, launch) else {
            return false;
        };
        let make = || Readers {
            launch,
            element: element.min(u8::MAX.into()) as u8,
            kept: SmallVec::new(),
        };
        let Some((readers, added)) = found.readers(key, make) else {
            return false;
        };
        readers.add(launch, reader);
        self.blocks.runs += added;
        true
    }

    /// Prepares the detector for a write by a launch: moves those runs of the written blocks that
    /// may race with the write into cells.
    #[inline]
    pub(super) fn begin_write(&mut self, launch: u32, address: u64, bytes: u64) {
        let (first, last) = (address / BLOCK, (address + bytes.max(1) - 1) / BLOCK);
        if first != last || self.blocks.last_written != Some((first, launch)) {
            for block in first..=last {
                self.write_block(launch, block);
            }
        }
    }

    fn write_block(&mut self, launch: u32, block: u64) {
        self.blocks.last_written = Some((block, launch));
        let found = self.blocks.blocks.entry(block).or_default();
        if found.writer.replace(launch) != Some(launch) {
            self.blocks.scattered.forget_unwritten();
            let all = self.overlapping.contains(&launch);
            self.move_reads(block, (!all).then_some(launch));
        }
    }

    /// For all blocks that overlap the addresses `from..to`, moves the runs of the block into
    /// cells.
    pub(super) fn move_all_runs(&mut self, from: u64, to: u64) {
        if self.blocks.runs == 0 || from >= to {
            return;
        }
        let (first, last) = (from / BLOCK, (to - 1) / BLOCK);
        if last - first < self.blocks.blocks.len() as u64 {
            return (first..=last).for_each(|block| self.move_reads(block, None));
        }
        let blocks = self.blocks.blocks.keys();
        let inside: Vec<u64> = blocks
            .filter(|block| (first..=last).contains(block))
            .copied()
            .collect();
        inside
            .into_iter()
            .for_each(|block| self.move_reads(block, None));
    }

    /// Moves the runs and the scattered reads of a block into cells: only those of the launch `of`,
    /// or all if `of` is `None`.
    fn move_reads(&mut self, block: u64, of: Option<u32>) {
        self.move_runs(block, of);
        self.move_scattered(block, of);
    }

    /// Moves the runs of a block into cells: only those of the launch `of`, or all runs if `of` is
    /// `None`.
    fn move_runs(&mut self, block: u64, of: Option<u32>) {
        let start = block * BLOCK;
        let Some(block) = self.blocks.blocks.get_mut(&block) else {
            return;
        };
        let before = block.runs.len() + block.grids.len();
        if before == 0 {
            return;
        }
        let mut grids: Vec<GridRange> = Vec::new();
        block.grids.retain(|key, readers| {
            let moves = of.is_none_or(|of| of == readers.launch);
            if moves {
                let shared = (readers.launch, readers.element);
                let ranges = readers.ctas.iter();
                grids.extend(ranges.map(|range| (*key, shared, *range)));
            }
            !moves
        });
        let mut runs: Vec<(Key, (u32, u8), Reader)> = Vec::new();
        block.next = 0;
        block.runs.retain(|key, readers| {
            let moves = of.is_none_or(|of| of == readers.launch);
            if moves {
                let shared = (readers.launch, readers.element);
                let kept = readers.kept.iter();
                runs.extend(kept.map(|reader| (*key, shared, *reader)));
            }
            !moves
        });
        self.blocks.runs -= before - block.runs.len() - block.grids.len();
        runs.sort_unstable_by_key(|(key, (launch, _), reader)| {
            let time = (reader.time.epoch, reader.time.interval);
            let place = (key.offset, key.site, key.threads, key.stride, key.bytes);
            (*launch, reader.cta, time, reader.first, place)
        });
        for (key, shared, reader) in &runs {
            let run = Run {
                address: start + u64::from(key.offset),
                first: reader.first,
                threads: key.threads.into(),
                stride: key.stride,
                bytes: key.bytes,
            };
            let id = match key.of_grid {
                true => self.cta_of(shared.0, reader.cta),
                false => reader.cta as CtaId,
            };
            let time = (reader.time, reader.common);
            self.move_run((key.site, id), &run, *shared, time);
        }
        grids.sort_unstable_by_key(|(key, (launch, _), range)| {
            let place = (key.origin, key.site, key.first, key.threads, key.stride);
            (*launch, *range, place, key.bytes)
        });
        for (key, shared, (first, end)) in &grids {
            for index in *first..*end {
                let id = self.cta_of(shared.0, index);
                self.move_run((key.site, id), &key.run(index), *shared, (Time::FIRST, 0));
            }
        }
    }

    /// Moves a run that was removed from a [`Readers`] into cells. `launch` and `element` are the
    /// launch that performed the reads, and the size of an element in bytes.
    fn move_run(
        &mut self,
        (site, cta): (Site, CtaId),
        run: &Run,
        (launch, element): (u32, u8),
        (time, common): (Time, u32),
    ) {
        let mut group: Option<(u32, GroupId)> = None;
        let mut i = 0;
        while i < run.threads {
            let thread = run.first + i;
            let warp = thread / 32;
            let id = match group {
                Some((of, id)) if of == warp => id,
                _ => self.add_group(Group::of_weak((launch, cta, warp), time, (site, element))),
            };
            group = Some((warp, id));
            if self.add_line(run, (thread, i), id) {
                i += 4 * LINE as u32 / run.bytes;
                continue;
            }
            let start = run.address + u64::from(run.stride) * u64::from(i);
            i += 1;
            for (index, bytes) in cells_of(start, run.bytes) {
                let entry = Entry {
                    group: id,
                    lanes: 1 << (thread % 32),
                    bytes,
                    writes: false,
                };
                self.add_read(index, entry, common);
            }
        }
    }

    /// Adds reads of a run to a line of cells, if the threads of the run, beginning with index `i`,
    /// read this whole line. Returns whether the reads were added. `thread` is the thread with
    /// index `i`.
    fn add_line(&mut self, run: &Run, (thread, i): (u32, u32), group: GroupId) -> bool {
        let start = run.address + u64::from(run.stride) * u64::from(i);
        let bytes = 4 * LINE as u32;
        let whole = run.stride == run.bytes
            && run.bytes.is_multiple_of(4)
            && start.is_multiple_of(bytes.into())
            && bytes.is_multiple_of(run.bytes)
            && run.threads - i >= bytes / run.bytes
            && thread % 32 + bytes / run.bytes <= 32;
        if !whole {
            return false;
        }
        let Some(whole) = Whole::new(group, thread % 32, run.bytes / 4) else {
            return false;
        };
        let Some(line) = self.cells.line(start / 4) else {
            return false;
        };
        let write = line.write.entry(0, true);
        let (groups, overlaps) = (&self.groups, &self.overlaps);
        write.is_some_and(|write| is_replaced(groups, overlaps, group, &write))
            || line.add_read(whole)
    }

    /// Adds a read to a cell that contains no access with which the read races. Like
    /// [`Detector::touch`], the function removes a recorded read if every later access that races
    /// with it also races with another recorded read.
    pub(super) fn add_read(&mut self, index: u64, mut new: Entry, common: u32) {
        let (cell, further) = self.cells.with_further(index);
        let mut writes = cell.write().into_iter().chain(further.iter().copied());
        let (groups, overlaps) = (&self.groups, &self.overlaps);
        if writes.any(|write| {
            let covers = write.writes && new.bytes & !write.bytes == 0;
            covers && is_replaced(groups, overlaps, new.group, &write)
        }) {
            return;
        }
        if cell.read().is_none() && further.is_empty() {
            return cell.set(new);
        }
        let mut entries: Vec<Entry> = cell.read().into_iter().collect();
        entries.extend_from_slice(further);
        let groups = &self.groups;
        let of = |entry: &Entry| &groups[entry.group as usize - 1];
        let own = of(&new);
        let is_dominated = |entry: &Entry| {
            let group = of(entry);
            let later = group.cta == own.cta && group.time.epoch > own.time.epoch;
            later && !entry.writes && new.bytes & !entry.bytes == 0
        };
        if entries.iter().any(is_dominated) {
            return;
        }
        entries.retain(|entry| {
            let group = of(entry);
            let of_warp = (group.cta, group.warp) == (own.cta, own.warp);
            let is_over = group.cta == own.cta && group.time.epoch < own.time.epoch
                || of_warp && group.time.interval <= common;
            entry.writes || !is_over || entry.bytes & !new.bytes != 0
        });
        if let Some(at) = entries.iter().position(|entry| entry.key() == new.key()) {
            new.lanes |= entries.swap_remove(at).lanes;
        }
        cell.set(new);
        self.limit_entries(&mut entries);
        entries.sort_unstable_by_key(Entry::key);
        self.cells.set_further(index, &entries);
    }
}

/// Returns whether a write to the same bytes replaces the reads of the group `read`. The write
/// replaces the reads if it is a weak write of a later launch that is ordered with the launch of
/// the reads. In this case, every later access that is not ordered with the reads is not ordered
/// with this write either.
fn is_replaced(
    groups: &[Group],
    overlaps: &FxHashMap<u32, Vec<u32>>,
    read: GroupId,
    write: &Entry,
) -> bool {
    let [read, write] = [read, write.group].map(|group| &groups[group as usize - 1]);
    write.launch > read.launch
        && write.strong.is_none()
        && write.copy.is_none()
        && !may_overlap(overlaps, read.launch, write.launch)
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use super::super::{Race, Shape};
    use super::*;

    pub(in super::super) const X: u64 = 0x1000;

    fn detector(ctas: u64) -> Detector {
        let mut detector = Detector::default();
        for index in 0..ctas {
            let id = detector.add_cta(0, index, index, 128);
            detector.order_by_barriers_only(id);
        }
        detector
    }

    pub(in super::super) fn run(first: u32) -> Run {
        Run {
            address: X,
            first,
            threads: 32,
            stride: 4,
            bytes: 4,
        }
    }

    pub(in super::super) fn write(
        detector: &mut Detector,
        id: CtaId,
        thread: u32,
        address: u64,
    ) -> Vec<Race> {
        let mut races = Vec::new();
        let what = (1, Access::WRITE);
        detector.access(id, thread, what, (address, 4), |race| races.push(race));
        races
    }

    fn barrier(detector: &mut Detector, id: CtaId) {
        detector.complete_barrier(id, 0, &[u32::MAX; 4], &[u32::MAX; 4]);
    }

    #[test]
    fn a_write_races_with_the_thread_of_a_run_that_has_read_its_address() {
        let mut detector = detector(2);
        assert!(detector.read_run(0, (0, Access::READ), &run(32)));
        let races = write(&mut detector, 1, 5, X + 4 * 7);
        assert_eq!(races.len(), 1);
        assert_eq!((races[0].earlier, races[0].thread), ((0, 0, 39), 5));
        assert!(!detector.read_run(0, (0, Access::READ), &run(32)));
        assert_eq!(write(&mut detector, 1, 5, X + 4 * 32), []);
    }

    #[test]
    fn reads_keep_their_time() {
        let mut detector = detector(1);
        assert!(detector.read_run(0, (0, Access::READ), &run(0)));
        barrier(&mut detector, 0);
        assert_eq!(write(&mut detector, 0, 99, X), []);
        let mut detector = self::detector(1);
        assert!(detector.read_run(0, (0, Access::READ), &run(0)));
        barrier(&mut detector, 0);
        assert!(detector.read_run(0, (0, Access::READ), &run(0)));
        assert_eq!(write(&mut detector, 0, 99, X).len(), 1);
    }

    #[test]
    fn a_barrier_of_one_warp_does_not_hide_readers_of_others() {
        let mut detector = detector(1);
        for first in [0, 1, 2, 64] {
            let one = Run {
                threads: 1,
                ..run(first)
            };
            assert!(detector.read_run(0, (0, Access::READ), &one));
        }
        detector.synchronise_warp(0, 0, u32::MAX, u32::MAX);
        let races = write(&mut detector, 0, 9, X);
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].earlier, (0, 0, 64));
    }

    #[test]
    fn work_that_may_overlap_sees_the_runs() {
        let mut detector = detector(1);
        assert!(detector.read_run(0, (0, Access::READ), &run(0)));
        let later = detector.add_cta(7, 0, 0, 32);
        detector.order_by_barriers_only(later);
        detector.add_overlaps(7, &[0]);
        assert!(!detector.read_run(later, (0, Access::READ), &run(0)));
        assert!(!detector.read_run(0, (0, Access::READ), &run(0)));
        assert_eq!(write(&mut detector, later, 3, X).len(), 1);
        detector.add_overlaps(8, &[0]);
        let mut found = 0;
        detector.conflicts(8, (X + 4, 4), true, |_| found += 1);
        assert_eq!(found, 1);
        detector.forget(X, 4);
        assert_eq!(write(&mut detector, later, 3, X), []);
    }

    /// Launches 0 and 1 are ordered. Other work overlaps both launches. At the addresses that
    /// launch 1 accesses, this work conflicts with the accesses of launch 1; at other addresses, it
    /// conflicts with the accesses of launch 0.
    #[test]
    fn a_launch_replaces_the_reads_of_an_earlier_one() {
        let conflicts = |detector: &mut Detector, address: u64, writes: bool| {
            let mut found = Vec::new();
            detector.conflicts(9, (address, 4), writes, |conflict| {
                found.push((conflict.cta, conflict.writes));
            });
            found
        };
        let mut detector = detector(1);
        let second = detector.add_cta(1, 0, 0, 128);
        detector.order_by_barriers_only(second);
        assert!(detector.read_run(0, (0, Access::READ), &run(0)));
        let short = Run {
            threads: 16,
            ..run(64)
        };
        assert!(detector.read_run(0, (1, Access::READ), &short));
        assert!(detector.read_run(second, (0, Access::READ), &run(0)));
        assert_eq!(detector.blocks.runs(), 2);
        for lane in 0..16 {
            assert_eq!(
                write(&mut detector, second, lane, X + 4 * u64::from(lane)),
                []
            );
        }
        assert_eq!(
            detector.blocks.runs(),
            1,
            "the runs of launch 1 are in cells"
        );
        detector.add_overlaps(9, &[0, 1]);
        assert_eq!(conflicts(&mut detector, X, true), [(1, true), (1, false)]);
        assert_eq!(conflicts(&mut detector, X + 64, true), [(1, false)]);
        assert_eq!(conflicts(&mut detector, X + 128, true), []);
        let mut detector = self::detector(1);
        let second = detector.add_cta(1, 0, 0, 128);
        detector.order_by_barriers_only(second);
        assert!(detector.read_run(0, (0, Access::READ), &run(0)));
        assert_eq!(write(&mut detector, second, 3, X), []);
        assert_eq!(
            detector.blocks.runs(),
            1,
            "no access of launch 1 races with it"
        );
        detector.add_overlaps(9, &[0, 1]);
        assert_eq!(conflicts(&mut detector, X, true), [(1, true)]);
        assert_eq!(conflicts(&mut detector, X, false), [(1, true)]);
        assert_eq!(conflicts(&mut detector, X + 64, true), [(0, false)]);
        assert_eq!(conflicts(&mut detector, X + 64, false), []);
    }

    /// A sequence of pseudo-random numbers.
    pub(in super::super) struct Numbers(pub(in super::super) u64);

    impl Numbers {
        pub(in super::super) fn below(&mut self, end: u32) -> u32 {
            self.0 = self.0.wrapping_mul(6364136223846793005);
            self.0 = self.0.wrapping_add(1442695040888963407);
            (self.0 >> 33) as u32 % end
        }
    }

    /// Performs random accesses and returns the cells in which races are found. If `later` is true,
    /// the test passes the reads of a CTA to the detector as runs when the threads of the CTA
    /// synchronise. (The result does not contain the sites, because the reported pairs of sites
    /// depend on the order of the accesses: the detector removes a read that is followed by another
    /// read.)
    fn races(seed: u64, ctas: u32, later: bool) -> BTreeSet<u64> {
        let mut numbers = Numbers(seed);
        let mut detector = detector(ctas.into());
        let mut waiting: Vec<Vec<(Site, Run)>> = vec![Vec::new(); ctas as usize];
        let mut races = BTreeSet::new();
        for step in 0..49 {
            let id = numbers.below(ctas);
            let warp = numbers.below(4);
            let kind = numbers.below(10);
            if kind < 2 || step == 48 {
                for id in (0..ctas).filter(|&of| of == id || step == 48) {
                    for (site, run) in std::mem::take(&mut waiting[id as usize]) {
                        let what = (site, Access::READ);
                        if detector.read_run(id, what, &run) {
                            continue;
                        }
                        let lanes = (u32::MAX >> (32 - run.threads), run.bytes, Shape::Any);
                        let address = |lane| run.address + u64::from(run.stride * lane);
                        detector.access_lanes(id, run.first, what, lanes, address, |_, race| {
                            races.insert(race.address / 4);
                        });
                    }
                }
                match kind {
                    0 => barrier(&mut detector, id),
                    _ => detector.synchronise_warp(id, warp, u32::MAX, u32::MAX),
                }
                continue;
            }
            // Writes are rare, so that blocks remain unwritten for some time.
            let writes = kind == 9;
            let block = u64::from(numbers.below(3)) * BLOCK;
            let bytes = [4, 8, 1][numbers.below(3) as usize];
            let run = Run {
                address: block + u64::from(numbers.below(40) * 4),
                first: warp * 32 + 16 * numbers.below(2),
                threads: 1 + numbers.below(16),
                stride: [bytes, bytes, 0, 12][numbers.below(4) as usize],
                bytes,
            };
            let site = 2 * numbers.below(3) + u32::from(writes);
            if later && !writes {
                waiting[id as usize].push((site, run));
                continue;
            }
            let access = match writes {
                true => Access::WRITE,
                false => Access::READ,
            };
            for i in 0..run.threads {
                let range = (run.address + u64::from(run.stride * i), run.bytes);
                detector.access(id, run.first + i, (site, access), range, |race| {
                    races.insert(race.address / 4);
                });
            }
        }
        races
    }

    #[test]
    fn runs_race_like_single_reads() {
        let mut found = 0;
        for seed in 0..3000 {
            for ctas in [1, 2, 4] {
                let cells = races(seed, ctas, false);
                assert_eq!(races(seed, ctas, true), cells, "seed {seed}, {ctas} CTAs");
                found += cells.len();
            }
        }
        assert!(found > 1000, "{found}");
    }
}
