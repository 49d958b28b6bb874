//! Reads of consecutive CTAs that have not synchronised their threads.
//!
//! A run consists of reads of adjacent addresses by consecutive threads of a CTA. If each thread of
//! a grid reads an element of an array, the runs of neighbouring CTAs are adjacent. The detector
//! stores such runs as one record. It needs no data about the individual CTAs until one of their
//! reads may race.

use smallvec::SmallVec;

use super::clock::{CtaId, Time};
use super::ctas::Cta;
use super::reads::{BLOCK, Key, MOST_RUNS, Reader, Run};
use super::{Access, Detector, Site};

/// The instruction and the addresses of equal runs of consecutive CTAs that read adjacent memory.
/// Such runs are stored as one record, because the number of records would otherwise be large, and
/// would depend on the order in which CTAs run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct GridKey {
    pub(super) site: Site,
    /// The index in its CTA of the first thread of each run.
    pub(super) first: u32,
    /// Number of threads of each run.
    pub(super) threads: u16,
    pub(super) stride: u32,
    pub(super) bytes: u32,
    /// The address that the CTA with linear index 0 would read.
    pub(super) origin: u64,
}

impl GridKey {
    /// Returns the run of the CTA with a linear index.
    pub(super) fn run(&self, index: u64) -> Run {
        let each = u64::from(self.threads) * u64::from(self.stride);
        Run {
            address: self.origin.wrapping_add(index.wrapping_mul(each)),
            first: self.first,
            threads: self.threads.into(),
            stride: self.stride,
            bytes: self.bytes,
        }
    }
}

/// The CTAs that perform the runs with a [`GridKey`].
#[derive(Debug)]
pub(super) struct GridReaders {
    /// The last launch that has performed these runs.
    pub(super) launch: u32,
    /// Number of bytes of an element of each access.
    pub(super) element: u8,
    /// Ranges of linear indices of CTAs, each from the first index to the index after the last.
    pub(super) ctas: SmallVec<[(u64, u64); 1]>,
}

impl GridReaders {
    /// Adds the CTAs `first..end` of a launch. No other work may run at the same time as this
    /// launch.
    fn add(&mut self, launch: u32, (first, end): (u64, u64)) {
        if self.launch != launch {
            self.launch = launch;
            self.ctas.clear();
        }
        let close = |range: &&mut (u64, u64)| range.0 <= end && first <= range.1;
        match self.ctas.iter_mut().rev().find(close) {
            Some(range) => *range = (range.0.min(first), range.1.max(end)),
            None => self.ctas.push((first, end)),
        }
    }
}

impl Detector {
    /// Records the reads of equal runs of consecutive CTAs, if they can be kept as one run, and returns true. `first`
    /// is the linear index of the first of the `ctas` CTAs, each of which has `threads` threads. The CTAs have not
    /// synchronised their threads before these reads, form no clusters, and order their threads with barriers only
    /// ([`Detector::order_by_barriers_only`]). The run of a CTA begins directly after the memory
    /// that the previous CTA's last thread reads. Returns false if the caller must record the run
    /// of each CTA separately instead ([`Detector::begin_unsynchronised`]).
    pub fn read_grid(
        &mut self,
        launch: u32,
        (first, ctas, threads): (u64, u32, u32),
        (site, access): (Site, Access),
        run: &Run,
    ) -> bool {
        if self.given_up {
            return true;
        }
        let all = Run {
            threads: run.threads * ctas,
            ..*run
        };
        let block = run.address / BLOCK;
        let Ok(each) = u16::try_from(run.threads) else {
            return false;
        };
        if self.overlapping.contains(&launch) || run.address % BLOCK + all.span() > BLOCK {
            return false;
        }
        self.threads.insert(launch, threads);
        if ctas == 1 {
            let key = Key {
                site,
                of_grid: true,
                offset: (run.address % BLOCK) as u16,
                threads: each,
                stride: run.stride,
                bytes: run.bytes,
            };
            let reader = Reader {
                cta: first,
                first: run.first,
                time: Time::FIRST,
                common: 0,
            };
            return self.add_reader(block, key, (launch, access.element), reader);
        }
        let bytes = u64::from(run.threads) * u64::from(run.stride);
        let key = GridKey {
            site,
            first: run.first,
            threads: each,
            stride: run.stride,
            bytes: run.bytes,
            origin: run.address.wrapping_sub(first.wrapping_mul(bytes)),
        };
        let Some(found) = self.blocks.unwritten(block, launch) else {
            return false;
        };
        let known = found.grids.len();
        if known >= MOST_RUNS && !found.grids.contains_key(&key) {
            return false;
        }
        let readers = found.grids.entry(key).or_insert_with(|| GridReaders {
            launch,
            element: access.element.min(u8::MAX.into()) as u8,
            ctas: SmallVec::new(),
        });
        readers.add(launch, (first, first + u64::from(ctas)));
        self.blocks.runs += found.grids.len() - known;
        true
    }

    /// Prepares for accesses of a CTA before its first synchronisation, and returns the CTA and whether it had ended.
    /// After these accesses, the caller must call [`Detector::end_cta`] again if the CTA had ended. `index` is the
    /// CTA's linear index in the launch. If the caller has not added the CTA, it must satisfy the requirements of
    /// [`Detector::read_grid`].
    pub fn begin_unsynchronised(
        &mut self,
        launch: u32,
        (index, threads): (u64, u32),
    ) -> (CtaId, bool) {
        self.threads.insert(launch, threads);
        let id = self.cta_of(launch, index);
        let cta = &mut self.ctas[id as usize];
        let ended = cta.running().is_none();
        cta.begin(&mut self.unused_ctas);
        (id, ended)
    }

    /// Returns the CTA with the linear index `index` in a launch. Adds the CTA if the caller of the
    /// detector has not added it.
    pub(super) fn cta_of(&mut self, launch: u32, index: u64) -> CtaId {
        if let Some(&id) = self.ids.get(&(launch, index)) {
            return id;
        }
        let threads = self.threads.get(&launch).copied().unwrap_or_default();
        self.ctas.push(Cta::unsynchronised(launch, index, threads));
        let id = self.ctas.len() as CtaId - 1;
        self.ids.insert((launch, index), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::reads::tests::{Numbers, X, run, write};
    use super::super::{Race, Shape};
    use super::*;

    /// Number of threads of a CTA in [`races_of_grids`].
    const THREADS: u32 = 64;

    /// Performs random reads of consecutive CTAs and random writes in two launches, and returns the cells in which
    /// races are found. If `together` is true, one call passes the reads of all CTAs, and the test
    /// adds a CTA to the detector only when the CTA writes. About half of the CTAs end after their
    /// write.
    fn races_of_grids(seed: u64, together: bool) -> BTreeSet<(u32, u64)> {
        let mut numbers = Numbers(seed);
        let mut detector = Detector::default();
        let mut races = BTreeSet::new();
        for launch in 0..2 {
            let add = |detector: &mut Detector, index: u64| {
                let id = detector.add_cta(launch, index, index, THREADS);
                detector.order_by_barriers_only(id);
                id
            };
            if !together {
                (0..8).for_each(|index| _ = add(&mut detector, index));
            }
            for _ in 0..12 {
                let index = u64::from(numbers.below(8));
                if numbers.below(6) == 0 {
                    let id = add(&mut detector, index);
                    let what = (9, Access::WRITE);
                    let range = (X + u64::from(numbers.below(600) * 4), 4);
                    detector.access(id, numbers.below(THREADS), what, range, |race| {
                        races.insert((launch, race.address / 4));
                    });
                    let ends = numbers.below(2) == 0;
                    if together && ends {
                        detector.end_cta(id);
                    }
                    continue;
                }
                let ctas = 1 + numbers.below(8 - index as u32);
                let bytes = [4, 8][numbers.below(2) as usize];
                let run = Run {
                    address: X + u64::from(numbers.below(60) * 4),
                    first: 32 * numbers.below(2),
                    threads: 1 + numbers.below(32),
                    stride: [bytes, bytes, 12][numbers.below(3) as usize],
                    bytes,
                };
                let what = (numbers.below(3), Access::READ);
                let grid = (index, ctas, THREADS);
                if together && detector.read_grid(launch, grid, what, &run) {
                    continue;
                }
                let mut own = run;
                for index in (index..).take(ctas as usize) {
                    let begun = detector.begin_unsynchronised(launch, (index, THREADS));
                    let (id, ended) = begun;
                    let mut report = |_, race: Race| _ = races.insert((launch, race.address / 4));
                    let kept = detector.read_run(id, what, &own)
                        || detector.adjacent_run(id, what, &own, &mut report);
                    if !kept {
                        let lanes = (u32::MAX >> (32 - own.threads), own.bytes, Shape::Any);
                        let address = |lane| own.address + u64::from(own.stride * lane);
                        detector.access_lanes(id, own.first, what, lanes, address, report);
                    }
                    if ended {
                        detector.end_cta(id);
                    }
                    own.address += u64::from(own.threads) * u64::from(own.stride);
                }
            }
        }
        races
    }

    #[test]
    fn runs_of_a_grid_race_like_those_of_its_ctas() {
        let mut found = 0;
        for seed in 0..4000 {
            let cells = races_of_grids(seed, false);
            assert_eq!(races_of_grids(seed, true), cells, "seed {seed}");
            found += cells.len();
        }
        assert!(found > 1000, "{found}");
    }

    #[test]
    fn a_grid_that_runs_in_other_parts_needs_no_more_memory() {
        let mut detector = Detector::default();
        for launch in 0..20 {
            let parts = [(0, launch + 2), (launch + 2, 30 - launch)];
            for (first, ctas) in parts {
                let own = Run {
                    address: X + u64::from(first) * 4 * 32,
                    ..run(0)
                };
                let grid = (first.into(), ctas, 32);
                assert!(detector.read_grid(launch, grid, (0, Access::READ), &own));
            }
            assert_eq!(detector.blocks.runs(), 1, "launch {launch}");
        }
        let id = detector.add_cta(19, 31, 31, 32);
        detector.order_by_barriers_only(id);
        let races = write(&mut detector, id, 7, X + 4 * (32 * 5 + 9));
        let (_, cta, thread) = races[0].earlier;
        assert_eq!((detector.cta(cta), thread), ((19, 5), 9));
    }
}
