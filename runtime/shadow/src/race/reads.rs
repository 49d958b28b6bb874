//! Reads of memory that the launch has not written.
//!
//! Most kernels read some arrays and write others. Reads of memory that no thread of the launch writes cannot race
//! within the launch, so the detector keeps them as runs, which take less memory and time than cells. The first write
//! to a block of memory moves the block's runs to the cells.
//!
//! Only reads of CTAs whose threads barriers order ([`Cta::barriers_only`](super::Cta)) are kept as runs, and only if no
//! other work may overlap the launch. Of the reads of one run, only some are kept: enough that every later write by any
//! thread races with one of them if it races with any.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cell::{Entry, GroupId};
use super::clock::{CtaId, Time};
use super::quick::cells_of;
use super::{Access, Detector, Group, Site};

/// Number of bytes of a block. A block is the unit for which the detector knows whether a launch has written it.
const BLOCK: u64 = 1 << 16;

/// Maximum number of runs of a block. With more runs, cells take less memory.
const MOST_RUNS: usize = 4096;

/// Maximum number of readers that are kept of a run.
const MOST_READERS: usize = 16;

/// Weak reads by consecutive threads of a CTA: thread `first + i` reads `bytes` bytes at `address + stride * i`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The address that the first thread reads.
    pub address: u64,
    /// The index of the first thread in its CTA.
    pub first: u32,
    /// Number of threads.
    pub threads: u32,
    /// Number of bytes between the addresses of neighbouring threads.
    pub stride: u32,
    /// Number of bytes that each thread reads.
    pub bytes: u32,
}

impl Run {
    /// Returns the number of bytes from the address of the first thread to the end of the last thread's read.
    fn span(&self) -> u64 {
        u64::from(self.stride) * u64::from(self.threads.saturating_sub(1)) + u64::from(self.bytes)
    }
}

/// The memory and the instruction of a run. Runs with equal keys differ only in the threads and the time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    launch: u32,
    site: Site,
    address: u64,
    threads: u32,
    stride: u32,
    bytes: u32,
}

/// The first thread of a run, and when its threads read.
#[derive(Clone, Copy, Debug)]
struct Reader {
    cta: CtaId,
    first: u32,
    time: Time,
}

/// The readers of runs with equal keys.
#[derive(Debug)]
struct Readers {
    /// Number of bytes of an element.
    element: u8,
    kept: SmallVec<[Reader; 4]>,
}

impl Readers {
    /// Adds a reader, unless enough readers are kept.
    fn add(&mut self, new: Reader) {
        let same = |kept: &&mut Reader| {
            let earlier = kept.time.epoch < new.time.epoch;
            kept.cta == new.cta && (earlier || kept.first == new.first)
        };
        // A write that is ordered after the new read is also ordered after an earlier read of the same threads, and
        // after all reads of the CTA before its last barrier.
        if let Some(kept) = self.kept.iter_mut().find(same) {
            *kept = new;
            return;
        }
        let own = || self.kept.iter().filter(|kept| kept.cta == new.cta);
        let first = self.kept.first().map(|kept| kept.cta);
        let two_others = self.kept.iter().any(|kept| Some(kept.cta) != first);
        // Two readers of one CTA in different warps: every thread that writes is of another warp than one of them, and
        // nothing orders it with that reader. The same holds for two CTAs.
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

/// A block of memory.
#[derive(Debug, Default)]
struct Block {
    /// The last launch that has written the block.
    writer: Option<u32>,
    runs: FxHashMap<Key, Readers>,
}

/// The blocks of memory that launches have accessed.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: FxHashMap<u64, Block>,
    /// Number of runs in all blocks.
    runs: usize,
    /// The block that was written last, and the launch that wrote it.
    last_written: Option<(u64, u32)>,
}

impl Blocks {
    /// Returns the number of runs.
    pub(super) fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the number of bytes that the runs occupy.
    pub(super) fn bytes(&self) -> usize {
        self.runs * size_of::<(Key, Readers)>() + self.blocks.len() * size_of::<(u64, Block)>()
    }
}

impl Detector {
    /// Records reads by `run` in a CTA, if they can be kept as a run. Otherwise returns false, and the caller must record
    /// the reads of each warp.
    pub fn read_run(&mut self, id: CtaId, (site, access): (Site, Access), run: &Run) -> bool {
        let cta = &self.ctas[id as usize];
        let launch = cta.launch;
        let block = run.address / BLOCK;
        let last = run.first + run.threads.saturating_sub(1);
        let time = cta.time(run.first);
        let at_one_time =
            (run.first / 32..=last / 32).all(|warp| cta.time(warp * 32).interval == time.interval);
        if !cta.barriers_only
            || !at_one_time
            || self.overlapping.contains(&launch)
            || run.address % BLOCK + run.span() > BLOCK
        {
            return false;
        }
        let found = self.blocks.blocks.entry(block).or_default();
        if found.writer == Some(launch) {
            return false;
        }
        let key = Key {
            launch,
            site,
            address: run.address,
            threads: run.threads,
            stride: run.stride,
            bytes: run.bytes,
        };
        if found.runs.len() >= MOST_RUNS && !found.runs.contains_key(&key) {
            return false;
        }
        if self
            .blocks
            .last_written
            .is_some_and(|(last, _)| last == block)
        {
            self.blocks.last_written = None;
        }
        let runs = &mut self.blocks.runs;
        let readers = found.runs.entry(key).or_insert_with(|| {
            *runs += 1;
            Readers {
                element: access.element.min(u8::MAX.into()) as u8,
                kept: SmallVec::new(),
            }
        });
        readers.add(Reader {
            cta: id,
            first: run.first,
            time,
        });
        true
    }

    /// Prepares for a write by a launch: moves the runs of the memory's blocks to the cells.
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
        self.blocks.blocks.entry(block).or_default().writer = Some(launch);
        self.blocks.last_written = Some((block, launch));
        self.move_runs(block);
    }

    /// Moves all runs of the memory from `from` up to `to` to the cells.
    pub(super) fn move_all_runs(&mut self, from: u64, to: u64) {
        if self.blocks.runs == 0 || from >= to {
            return;
        }
        let (first, last) = (from / BLOCK, (to - 1) / BLOCK);
        if last - first < self.blocks.blocks.len() as u64 {
            return (first..=last).for_each(|block| self.move_runs(block));
        }
        let blocks = self.blocks.blocks.keys();
        let inside: Vec<u64> = blocks
            .filter(|block| (first..=last).contains(block))
            .copied()
            .collect();
        inside.into_iter().for_each(|block| self.move_runs(block));
    }

    /// Moves the runs of a block to the cells.
    fn move_runs(&mut self, block: u64) {
        let Some(block) = self.blocks.blocks.get_mut(&block) else {
            return;
        };
        if block.runs.is_empty() {
            return;
        }
        let runs = std::mem::take(&mut block.runs);
        self.blocks.runs -= runs.len();
        let mut runs: Vec<(Key, Readers)> = runs.into_iter().collect();
        runs.sort_unstable_by_key(|(key, _)| (key.launch, key.address, key.site, key.threads));
        for (key, readers) in &runs {
            for reader in &readers.kept {
                self.move_run(key, readers.element, reader);
            }
        }
    }

    fn move_run(&mut self, key: &Key, element: u8, reader: &Reader) {
        let mut group: Option<(u32, GroupId)> = None;
        for i in 0..key.threads {
            let thread = reader.first + i;
            let warp = thread / 32;
            let id = match group {
                Some((of, id)) if of == warp => id,
                _ => {
                    self.groups.push(Group {
                        launch: key.launch,
                        cta: reader.cta,
                        warp,
                        time: reader.time,
                        site: key.site,
                        strong: None,
                        volatile: false,
                        element,
                        copy: None,
                        lock: None,
                    });
                    self.groups.len() as GroupId
                }
            };
            group = Some((warp, id));
            let start = key.address + u64::from(key.stride) * u64::from(i);
            for (index, bytes) in cells_of(start, key.bytes) {
                let entry = Entry {
                    group: id,
                    lanes: 1 << (thread % 32),
                    bytes,
                    writes: false,
                };
                self.add_read(index, entry);
            }
        }
    }

    /// Adds a read to the accesses of a cell. The read does not race with them.
    fn add_read(&mut self, index: u64, new: Entry) {
        let (cell, further) = self.cells.with_further(index);
        match cell.read() {
            Some(read) if read.key() != new.key() => {
                let mut entries = further.to_vec();
                match entries.iter_mut().find(|entry| entry.key() == new.key()) {
                    Some(same) => same.lanes |= new.lanes,
                    None => entries.push(new),
                }
                self.limit_readers(&mut entries);
                entries.sort_unstable_by_key(Entry::key);
                self.cells.set_further(index, &entries);
            }
            Some(read) => cell.set(Entry {
                lanes: read.lanes | new.lanes,
                ..new
            }),
            None => cell.set(new),
        }
    }
}
