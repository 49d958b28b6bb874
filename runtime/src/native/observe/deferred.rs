//! Passes reads that generated code has recorded to the race detector.
//!
//! An epoch is the time between two barriers of a CTA. In kernels that order accesses only with barriers, reads may be
//! passed to the detector later than they occur, if they are passed before the epoch ends. The detector then finds the
//! same races. This has two advantages:
//!
//! - Reads of shared memory cannot race with accesses of other epochs. Most epochs access shared memory in the same way
//!   as an earlier epoch did. If no access of that earlier epoch raced, the detector need not see the reads.
//! - Reads of neighbouring threads in global memory are passed to the detector together ([`Run`]).

use margay_ir::function::SourceLoc;
use margay_ir::observe::ObservedAccess;
use margay_jit::abi::{ReadLog, ReadRecord};
use margay_shadow::race::{Run, Window};

use super::order::described;
use super::{Addresses, Chunk, Examiner, Observed};

/// The accesses of the current CTA to shared memory since its last barrier.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    /// Whether this examiner has seen all accesses since the barrier, or since the start of the CTA.
    whole: bool,
    /// Whether any of these accesses raced.
    pub(super) raced: bool,
    /// A digest of the accesses that were passed to the detector when they occurred.
    immediate: u64,
    /// The recorded reads that are not yet passed to the detector. The next field is the digest of these reads.
    reads: Vec<ReadRecord>,
    digest: u64,
}

/// Maximum number of reads of an epoch that are kept.
const MOST_READS: usize = 1 << 17;

/// Maximum number of open runs: runs to which later reads can be added.
const OPEN_RUNS: usize = 16;

/// The first read of a run, and the number of threads whose reads the run contains so far.
type OpenRun = (ReadRecord, u32);

fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Adds an access to a digest.
fn add(digest: u64, [address, loc, access, lanes]: [u64; 4]) -> u64 {
    let kind = loc.wrapping_mul(0xff51_afd7_ed55_8ccd)
        ^ access.wrapping_mul(0xc4ce_b9fe_1a85_ec53).rotate_left(23)
        ^ lanes.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(41);
    mix(mix(digest, address), kind)
}

impl Examiner<'_> {
    /// Returns the address of the log in which generated code records reads.
    pub(in crate::native) fn read_log(&mut self) -> *mut ReadLog {
        let may_wait = self.launch.waits.is_observed();
        if self.orders() && self.launch.code.barriers_only && !may_wait {
            self.log.open();
        }
        self.log.cursor()
    }

    /// Records that the next CTAs run from their start, so that all accesses of their first epochs are known.
    pub(in crate::native) fn begin_ctas(&mut self) {
        self.epoch.whole = true;
    }

    /// Records that all CTAs of the current native call have run to their end, and passes their recorded reads to the
    /// detector.
    pub(in crate::native) fn end_ctas(&mut self) {
        self.pass_reads(true);
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

    /// Provides space for more reads if the log is full: enlarges the log, or empties it if it has its maximum size.
    pub(super) fn make_space(&mut self) {
        if self.log.is_nearly_full() && !self.log.grow() {
            self.sort_reads();
        }
    }

    /// Passes all recorded reads to the detector. `over` states whether the epoch ends.
    pub(super) fn pass_reads(&mut self, over: bool) {
        if self.log.len() != 0 {
            self.sort_reads();
        }
        self.end_epoch(over);
    }

    /// Empties the log: keeps the reads of shared memory for the end of the epoch, and passes the other reads to the
    /// detector.
    fn sort_reads(&mut self) {
        let mut log = std::mem::replace(&mut self.log, super::log::Log::new());
        let mut runs: [Option<OpenRun>; OPEN_RUNS] = [None; OPEN_RUNS];
        for record in log.records() {
            if record.cta != self.cta.linear {
                self.pass_runs(&mut runs);
                self.end_epoch(true);
                self.epoch.whole = true;
                self.switch_to(record.cta);
            }
            if self.is_in_shared_window(record.address) {
                self.keep_read(record);
            } else {
                self.extend_run(&mut runs, record);
            }
        }
        self.pass_runs(&mut runs);
        log.clear();
        self.log = log;
    }

    fn keep_read(&mut self, record: &ReadRecord) {
        let epoch = &mut self.epoch;
        epoch.digest = add(
            epoch.digest,
            [record.address, record.loc, record.access, record.lanes],
        );
        epoch.reads.push(*record);
        if epoch.reads.len() >= MOST_READS {
            self.end_epoch(false);
        }
    }

    /// Adds a read to the run that it continues, or begins a run.
    fn extend_run(&mut self, runs: &mut [Option<OpenRun>; OPEN_RUNS], record: &ReadRecord) {
        let index = (record.loc ^ record.loc >> 4) as usize % OPEN_RUNS;
        let (thread, stride, width) = record.unpack();
        if let Some((first, threads)) = &mut runs[index] {
            let (start, ..) = first.unpack();
            let same = (first.loc, first.access, first.lanes >> 32)
                == (record.loc, record.access, record.lanes >> 32);
            let next = first
                .address
                .wrapping_add((stride as u64).wrapping_mul(u64::from(*threads)));
            // A run must not cross the boundary of a 4 KiB block, because the detector's memory is divided into such
            // blocks.
            let near = first.address >> 12 == record.address >> 12;
            if same && stride > 0 && near && next == record.address && start + *threads == thread {
                *threads += width;
                return;
            }
            let (first, threads) = (*first, *threads);
            self.pass_run(&first, threads);
        }
        runs[index] = Some((*record, width));
    }

    fn pass_runs(&mut self, runs: &mut [Option<OpenRun>; OPEN_RUNS]) {
        for run in runs {
            if let Some((first, threads)) = run.take() {
                self.pass_run(&first, threads);
            }
        }
    }

    /// Passes the reads of `threads` threads to the detector.
    fn pass_run(&mut self, record: &ReadRecord, threads: u32) {
        let access = ObservedAccess::from_bits(record.access);
        let (first, stride, _) = record.unpack();
        let at = Observed {
            access: &access,
            loc: SourceLoc::from_bits(record.loc),
            thread: first,
        };
        let run = u32::try_from(stride).ok().map(|stride| Run {
            address: record.address,
            first,
            threads,
            stride,
            bytes: access.bytes,
        });
        if let Some(run) = run
            && self.keeps_run(&at, &run)
        {
            return;
        }
        let mut done = 0;
        while done < threads {
            let thread = first + done;
            let count = (threads - done).min(32 - thread % 32);
            let address = record
                .address
                .wrapping_add((stride as u64).wrapping_mul(u64::from(done)));
            let at = Observed { thread, ..at };
            self.order_lanes(&at, &chunk_of(address, stride, count));
            done += count;
        }
    }

    /// Passes a run to the detector. Returns false if the caller must pass the reads of the run separately for each
    /// warp instead.
    fn keeps_run(&mut self, at: &Observed<'_>, run: &Run) -> bool {
        let Some(races) = &self.findings.shadow().races else {
            return true;
        };
        let mut races = races.lock();
        if !races.overlapping_host(self.info.grid_id).is_empty() {
            return false;
        }
        let id = self.cta_id(&mut races);
        let site = self.site(&mut races, at);
        let access = described(at.access, true, Window::Global);
        races.detector.read_run(id, (site, access), run)
    }

    /// Passes the reads of shared memory to the detector, unless an earlier epoch without races had the same
    /// accesses. `over` states whether the epoch ends.
    fn end_epoch(&mut self, over: bool) {
        let known = self.epoch.whole && over;
        let start = mix(self.launch.code.unique, self.cta.shared_base);
        let digest = mix(mix(start, self.epoch.immediate), self.epoch.digest);
        let reads = std::mem::take(&mut self.epoch.reads);
        if !reads.is_empty() {
            let races = || self.findings.shadow().races.as_ref();
            let clean = known && races().is_some_and(|races| races.lock().is_clean(digest));
            if !clean {
                for record in &reads {
                    let access = ObservedAccess::from_bits(record.access);
                    let (thread, stride, width) = record.unpack();
                    let at = Observed {
                        access: &access,
                        loc: SourceLoc::from_bits(record.loc),
                        thread,
                    };
                    self.order_lanes(&at, &chunk_of(record.address, stride, width));
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
        // The next epoch reuses the vector's memory.
        let mut reads = reads;
        reads.clear();
        self.epoch = Epoch {
            whole: over,
            reads,
            ..Epoch::default()
        };
    }
}

impl Drop for Examiner<'_> {
    fn drop(&mut self) {
        // The epoch may continue with another examiner, so it does not end here.
        self.pass_reads(false);
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
