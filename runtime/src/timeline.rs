//! In checking runs, records the order that CUDA guarantees between pieces of work, and checks
//! whether programs use stream-ordered memory correctly.
//!
//! Each queue has a [`Clock`]. The clock contains, for every queue, the number of pieces of work
//! that are complete before the next work of the clock's own queue can start. The clocks follow the
//! rules of streams, events and waiting host threads, and do not depend on which work happens to be
//! complete. All host threads share one clock, because this library cannot see how the program
//! synchronises its threads. With separate clocks, Margay would report errors that do not exist.
//!
//! If the clocks do not state the order of two launches or copies, these may run at the same time.
//! The race detector then compares their accesses.
//!
//! A program uses stream-ordered memory correctly if each use is ordered after the allocation and before the free.

mod clock;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::call_stack::CallStack;
use crate::checks::{Finding, Findings, HostAccess, Kind, Races, Rows};
use crate::memory::AddressSpace;
use crate::process::next_id;

pub(crate) use clock::{Clock, Point};

/// The last use of a block of memory by the work of one queue.
struct Use {
    number: u64,
    what: String,
}

/// An allocation of stream-ordered memory.
struct Block {
    size: u64,
    /// The ID of the allocation, which is unique in the address space.
    id: u64,
    allocated: Point,
    uses: FxHashMap<u64, Use>,
    is_freed: bool,
}

/// The recorded order of work: the clock of the host, the allocations of stream-ordered memory, and
/// recent launches and copies.
pub(crate) struct Timeline {
    host: Mutex<Clock>,
    /// The allocations of stream-ordered memory, by start address.
    blocks: Mutex<BTreeMap<u64, Block>>,
    /// Recent launches and copies, which may run at the same time as later work.
    works: Mutex<Vec<Work>>,
    findings: Arc<Findings>,
}

/// A launch or a copy that is kept for comparison with later work.
struct Work {
    id: u64,
    at: Point,
    past: Clock,
}

/// Maximum number of pieces of work that are kept ([`Timeline::works`]). Margay assumes that older
/// work is complete before new work starts.
const WORKS: usize = 1024;

impl Timeline {
    pub(crate) fn new(findings: Arc<Findings>) -> Timeline {
        Timeline {
            host: Mutex::default(),
            blocks: Mutex::default(),
            works: Mutex::default(),
            findings,
        }
    }

    /// Adds to the host's clock the work that a host thread has waited for.
    pub(crate) fn host_waited(&self, past: &Clock) {
        self.host.lock().join(past);
    }

    /// The caller calls this function after a host thread has waited for the queues whose clocks
    /// are `pasts`. The function adds the work in these clocks to the host's clock, and then
    /// replaces these clocks by copies of the host's clock. This is correct because the next work
    /// of these queues adds the host's work to them anyway, and it saves memory because copies
    /// share memory. The queues must not contain work whose clock will still be read
    /// ([`Queues::after_last`](crate::queue::Queues::after_last)).
    pub(crate) fn host_waited_for(&self, pasts: &[&Mutex<Clock>]) {
        let mut host = self.host.lock();
        let copies: Vec<Clock> = pasts.iter().map(|past| past.lock().clone()).collect();
        host.join_all(copies.iter().cloned());
        for (past, copy) in pasts.iter().zip(&copies) {
            let mut past = past.lock();
            // Another host thread may have added work to the queue in the meantime.
            match past.is_same(copy) {
                true => past.clone_from(&host),
                false => past.join(&host),
            }
        }
    }

    /// Adds to `clock` all work that the host threads have waited for.
    pub(crate) fn add_host(&self, clock: &mut Clock) {
        clock.join(&self.host.lock());
    }

    /// Records an allocation of stream-ordered memory, and removes the records of freed blocks that
    /// overlap the allocation.
    pub(crate) fn allocated(&self, space: &AddressSpace, base: u64, allocated: Point) {
        let Some(found) = space.find(base) else {
            return;
        };
        let mut blocks = self.blocks.lock();
        // Blocks that were freed before can overlap the new block.
        let below = blocks.range(..base).next_back();
        let below = below.filter(|(start, block)| *start + block.size > base);
        let below = below.map(|(start, _)| *start);
        let stale = below.into_iter();
        let stale = stale.chain(blocks.range(base..found.end()).map(|(start, _)| *start));
        for start in stale.collect::<Vec<_>>() {
            blocks.remove(&start);
        }
        blocks.insert(
            base,
            Block {
                size: found.size,
                id: found.id,
                allocated,
                uses: FxHashMap::default(),
                is_freed: false,
            },
        );
    }

    /// Calls `f` with the recorded block that contains `address`. Does nothing if another
    /// allocation now contains this address.
    fn with_block<R>(
        &self,
        space: &AddressSpace,
        address: u64,
        f: impl FnOnce(&mut Block) -> Option<R>,
    ) -> Option<R> {
        let found = space.find(address);
        let mut blocks = self.blocks.lock();
        let (&start, block) = blocks.range_mut(..=address).next_back()?;
        let inside = address - start < block.size;
        let same = found.is_none_or(|found| found.id == block.id);
        if inside && same { f(block) } else { None }
    }

    /// Records that the piece of work `at`, which `what` names, uses the memory at `address`, and
    /// adds a finding if the use is wrong. `past` is the work that is complete before `at` starts.
    pub(crate) fn used(
        &self,
        space: &AddressSpace,
        (at, past): (Point, &Clock),
        address: u64,
        what: &str,
    ) {
        let wrong = self.with_block(space, address, |block| {
            if block.is_freed && !past.is_open() {
                return Some((Kind::UseAfterStreamFree, "after its free"));
            }
            let last = Use {
                number: at.number,
                what: what.to_owned(),
            };
            block.uses.insert(at.queue, last);
            let ordered = past.covers(block.allocated);
            (!ordered).then_some((Kind::UseBeforeAllocation, "before its allocation"))
        });
        if let Some((kind, when)) = wrong {
            let text = format!("Use of stream-ordered memory {when} by {what}");
            self.report(space, kind, text, address);
        }
    }

    /// Records that a stream frees the memory at `base`, and adds a finding if the free is wrong.
    /// `past` is the work that is complete before the free.
    pub(crate) fn freed(&self, space: &AddressSpace, past: &Clock, base: u64) {
        let wrong = self.with_block(space, base, |block| {
            block.is_freed = true;
            if !past.covers(block.allocated) {
                let text = "Free of stream-ordered memory before its allocation".to_owned();
                return Some((Kind::FreeBeforeAllocation, text));
            }
            let unordered = block.uses.iter().find(|(queue, last)| {
                let number = last.number;
                !past.covers(Point {
                    queue: **queue,
                    number,
                })
            });
            let (_, last) = unordered?;
            let text = format!(
                "Free of stream-ordered memory that {} may still use",
                last.what
            );
            Some((Kind::UseAfterStreamFree, text))
        });
        if let Some((kind, text)) = wrong {
            self.report(space, kind, text, base);
        }
    }

    /// Records the launch with the ID `id` before it begins. `past` is the work that is complete
    /// before the launch starts.
    pub(crate) fn launched(&self, id: u64, (at, past): (Point, &Clock)) {
        if let Some(races) = &self.findings.shadow().races {
            let mut works = self.works.lock();
            self.add_work(&mut works, &mut races.lock(), id, (at, past));
        }
    }

    /// Records a copy, a fill or a launch of a native kernel, and adds a finding for each of its races. `past` is the work that is
    /// complete before the copy or fill starts. `accesses` contains the byte ranges that the copy
    /// or fill accesses, and for each range whether it is written. For a native kernel, `kernel` is its name.
    pub(crate) fn copied(
        &self,
        space: &AddressSpace,
        (at, past): (Point, &Clock),
        accesses: &[(Rows, bool)],
        what: &'static str,
        kernel: Option<&str>,
    ) {
        let Some(races) = &self.findings.shadow().races else {
            return;
        };
        let accesses = accesses
            .iter()
            .filter(|(rows, _)| space.contains(rows.start));
        let kernel: Option<Arc<str>> = kernel.map(Arc::from);
        let mut found = Vec::new();
        {
            let mut works = self.works.lock();
            let mut races = races.lock();
            let id = next_id();
            self.add_work(&mut works, &mut races, id, (at, past));
            for &(rows, writes) in accesses {
                let host = HostAccess {
                    work: id as u32,
                    rows,
                    writes,
                    what,
                    kernel: kernel.clone(),
                };
                let describe = |address| space.describe(address);
                races.add_host(host, describe, |finding| found.push(finding));
            }
        }
        if found.is_empty() {
            return;
        }
        let call = CallStack::capture();
        for finding in found {
            self.findings.add(finding, Some(&call));
        }
    }

    /// Adds the piece of work `at`, and passes to the race detector the earlier work that may run
    /// at the same time. Removes completed work that is ordered before all running and all later
    /// work. If more than [`WORKS`] pieces of work would be kept, also removes the oldest work.
    fn add_work(
        &self,
        works: &mut Vec<Work>,
        races: &mut Races,
        id: u64,
        (at, past): (Point, &Clock),
    ) {
        let host = self.host.lock().clone();
        let running: Vec<(u64, Clock)> = works
            .iter()
            .filter(|work| races.is_running(work.id))
            .map(|work| (work.id, work.past.clone()))
            .collect();
        let mut removed = FxHashSet::default();
        works.retain(|work| {
            let is_over = host.covers(work.at) && !races.is_running(work.id);
            let is_kept = !is_over || !running.iter().all(|(_, past)| past.covers(work.at));
            if !is_kept {
                removed.insert(work.id as u32);
            }
            is_kept
        });
        let excess = (works.len() + 1).saturating_sub(WORKS);
        removed.extend(works.drain(..excess).map(|work| work.id as u32));
        if races.is_idle(id) && (works.is_empty() || races.is_full()) {
            works.clear();
            races.forget_earlier();
        }
        races.forget_host(&removed);
        let unordered = works.iter().filter(|work| !past.covers(work.at));
        let unordered: Vec<u32> = unordered.map(|work| work.id as u32).collect();
        races.add_overlaps(id as u32, &unordered);
        works.push(Work {
            id,
            at,
            past: past.clone(),
        });
    }

    fn report(&self, space: &AddressSpace, kind: Kind, text: String, address: u64) {
        let selected = self.findings.options().stream_order;
        let is_selected = match kind {
            Kind::UseAfterStreamFree => selected.use_after_free,
            _ => selected.use_before_alloc,
        };
        if !is_selected {
            return;
        }
        let mut finding = Finding::new(kind, text);
        finding.address = Some(address);
        finding.allocation = space.describe(address);
        finding.missing = Some("stream order");
        self.findings.add(finding, Some(&CallStack::capture()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Tool, Tools};
    use crate::memory::MemoryConfig;

    /// Tests thousands of copies in streams whose relative order is unknown. The memory that the
    /// copies need is proportional to the number of pieces of work that are kept, and races of the
    /// latest copies are found.
    #[test]
    fn unordered_copies_leave_no_pairs_behind() {
        let findings = Arc::new(Findings::new(Tools::default().with(Tool::Race)));
        let timeline = Timeline::new(Arc::clone(&findings));
        let space = AddressSpace::new(&MemoryConfig::default()).expect("address space");
        let base = space.range().start;
        let mut clocks = vec![Clock::default(); 8];
        let mut copy = |queue: usize, offset: u64| {
            let past = clocks[queue].clone();
            let at = clocks[queue].advance(queue as u64);
            let rows = Rows {
                start: base + offset,
                width: 1024,
                height: 1,
                pitch: 1024,
                depth: 1,
                slice: 1024,
            };
            timeline.copied(&space, (at, &past), &[(rows, true)], "a copy", None);
        };
        for number in 0..4 * WORKS {
            copy(number % 8, 4096 * (number as u64 % 8));
        }
        let races = findings.shadow().races.as_ref().expect("a detector");
        let pairs = races.lock().detector.overlaps();
        assert!(pairs <= WORKS * WORKS, "{pairs}");
        assert_eq!(findings.take().0.len(), 0);
        copy(1, 0);
        assert_eq!(findings.take().0.len(), 1);
    }
}
