//! Runs: accesses that neighbouring threads perform with one instruction. The accesses of a run are
//! passed to the race detector together.

use margay_ir::observe::ObservedAccess;
use margay_jit::abi::AccessRecord;
use smallvec::SmallVec;

use super::deferred::chunk_of_stores;
use super::{Chunk, Observed};

/// Maximum number of open runs: runs to which later accesses can be added.
const OPEN_RUNS: usize = 64;

/// A run to which later accesses can still be added.
pub(super) struct OpenRun<'l> {
    /// The first access.
    pub(super) first: &'l AccessRecord,
    /// Number of threads whose accesses the run contains so far.
    pub(super) threads: u32,
    /// For a run of stores, the operands of each record of the run, as bytes; empty for a run of loads.
    pub(super) operands: SmallVec<[&'l [u8]; 1]>,
}

impl OpenRun<'_> {
    /// For each record of the run, returns its stores as a chunk, and a copy of `at` with the
    /// thread of the chunk's first lane.
    pub(super) fn parts<'a>(
        &'a self,
        at: &'a Observed<'a>,
    ) -> impl Iterator<Item = (Observed<'a>, Chunk<'a>)> {
        let (_, stride, width) = self.first.unpack();
        (0u32..).zip(&self.operands).map(move |(index, operands)| {
            let before = index * width;
            let distance = (stride as u64).wrapping_mul(u64::from(before));
            let record = AccessRecord {
                address: self.first.address.wrapping_add(distance),
                ..*self.first
            };
            let own = Observed {
                thread: at.thread + before,
                ..*at
            };
            (own, chunk_of_stores(&record, operands))
        })
    }

    /// Returns the address of the first accessed byte, and the address after the last accessed
    /// byte.
    pub(super) fn hull(&self) -> (u64, u64) {
        let (_, stride, _) = self.first.unpack();
        let bytes = ObservedAccess::from_bits(self.first.access).bytes;
        let last = stride * i64::from(self.threads.saturating_sub(1));
        let start = self.first.address;
        let end = start.wrapping_add_signed(last.max(0)) + u64::from(bytes);
        (start.wrapping_add_signed(last.min(0)), end)
    }
}

/// The runs to which later accesses can still be added.
pub(super) struct OpenRuns<'l> {
    pub(super) runs: [Option<OpenRun<'l>>; OPEN_RUNS],
    /// Bit mask of the elements of `runs` that contain a run.
    pub(super) used: u64,
    /// Bit mask of the elements of `runs` that contain a run of stores.
    pub(super) stores: u64,
}

impl OpenRuns<'_> {
    pub(super) fn new() -> Self {
        OpenRuns {
            runs: [const { None }; OPEN_RUNS],
            used: 0,
            stores: 0,
        }
    }

    /// Returns the index in `runs` of the run for the instruction at the source position `loc`.
    pub(super) fn index(loc: u64) -> usize {
        hash(loc) as usize % OPEN_RUNS
    }
}

/// Returns a hash whose low bits depend on all bits of a word.
fn hash(word: u64) -> u64 {
    (word ^ word >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// Number of entries of the table of grid runs ([`GridRun`]).
const GRID_RUNS: usize = 1024;

/// A grid run: loads that the same threads of consecutive CTAs perform with one instruction. The
/// memory that a CTA reads begins directly after the memory that the previous CTA reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridRun {
    /// The record of the first access that the first CTA performed.
    pub(super) first: AccessRecord,
    /// Number of threads that perform the loads in each CTA.
    pub(super) threads: u32,
    /// Number of CTAs.
    pub(super) ctas: u32,
}

impl GridRun {
    /// Adds the loads of the next CTA to the run. Returns false and adds nothing if the loads do
    /// not continue the run.
    fn extend(&mut self, record: &AccessRecord, threads: u32) -> bool {
        let first = &self.first;
        let (_, stride, _) = first.unpack();
        let before = stride as u64 * u64::from(self.threads) * u64::from(self.ctas);
        let next = first.address.wrapping_add(before);
        // The loads of all CTAs of a run begin in the same 64 KiB block, because the detector stores a grid run only
        // if it lies in one block.
        let continues = (first.loc, first.access, first.lanes, self.threads)
            == (record.loc, record.access, record.lanes, threads)
            && next == record.address
            && first.address >> 16 == record.address >> 16
            && first.cta + u64::from(self.ctas) == record.cta;
        self.ctas += u32::from(continues);
        continues
    }
}

/// The grid runs ([`GridRun`]) to which loads of later CTAs can be added.
#[derive(Debug, Default)]
pub(super) struct GridRuns {
    /// The runs. A hash of the instruction and of the first thread determines the index of a run.
    /// The vector is empty before the first run.
    runs: Vec<Option<GridRun>>,
    /// The indices in `runs` that contain a run.
    used: Vec<u32>,
}

impl GridRuns {
    /// Adds the loads of `threads` threads of a CTA. If the loads do not continue the run in their
    /// entry of the table, they replace this run; the function then returns the replaced run, which
    /// the caller must pass to the detector.
    pub(super) fn add(&mut self, record: &AccessRecord, threads: u32) -> Option<GridRun> {
        if self.runs.is_empty() {
            self.runs = vec![None; GRID_RUNS];
        }
        let (thread, ..) = record.unpack();
        let index = hash(record.loc ^ u64::from(thread) << 24) as usize % GRID_RUNS;
        let known = &mut self.runs[index];
        if known
            .as_mut()
            .is_some_and(|run| run.extend(record, threads))
        {
            return None;
        }
        if known.is_none() {
            self.used.push(index as u32);
        }
        known.replace(GridRun {
            first: *record,
            threads,
            ctas: 1,
        })
    }

    /// Removes a run and returns it; `None` if no run is left.
    pub(super) fn take(&mut self) -> Option<GridRun> {
        let index = self.used.pop()?;
        self.runs[index as usize].take()
    }
}
