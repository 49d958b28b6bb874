//! A core: its resident CTAs, its schedulers and units.
//!
//! An instruction reserves its unit and everything behind it when it is issued, so that its end is known at once. A core
//! therefore only acts in cycles in which a scheduler can issue or a CTA ends.

mod barrier;
mod issue;

use std::ops::Range;

use crate::config::{Config, Policy};
use crate::cycle::{Cycle, NEVER};
use crate::kernel::Kernel;
use crate::load_store::LoadStore;
use crate::local::LocalMemory;
use crate::memory::MemorySystem;
use crate::occupancy::Resources;
use crate::program::{CtaProgram, Template, UnitKind};
use crate::units::Units;
use crate::warp::Warp;

/// Cycles from the dispatch of a CTA to its first instruction.
const DISPATCH: Cycle = 2;

/// A CTA that is resident in a core.
#[derive(Debug)]
struct Cta {
    kernel: usize,
    program: CtaProgram,
    /// The slots of its warps.
    slots: Vec<usize>,
    resources: Resources,
    /// The number of warps that barriers wait for.
    live: u32,
    /// The number of warps that have instructions to issue.
    remaining: u32,
    /// The number of warps that wait at the barrier.
    waiting: u32,
    /// When all that its warps issued is done.
    done: Cycle,
}

/// A warp scheduler. It issues warps from the slots that have its number as remainder.
#[derive(Clone, Debug)]
struct Scheduler {
    /// When it can issue next.
    next: Cycle,
    /// The slot that issued last.
    last: usize,
}

/// A core.
#[derive(Debug)]
pub(crate) struct Core {
    /// When the core acts next.
    pub(crate) next: Cycle,
    /// The number of the kernel that used the core last.
    pub(crate) last_kernel: u64,
    schedulers: Vec<Scheduler>,
    policy: Policy,
    /// Whether warps that ended count as arrived at barriers.
    ended_arrive: bool,
    units: Units,
    /// By slot: when the warp can issue, apart from its unit.
    ready: Vec<Cycle>,
    /// By slot: the unit of the next instruction.
    next_units: Vec<UnitKind>,
    /// By slot: when the warp came, for the age.
    ages: Vec<u64>,
    warps: Vec<Warp>,
    /// All taken slots are below this number.
    slots: usize,
    is_taken: Vec<bool>,
    ctas: Vec<Option<Cta>>,
    /// CTAs whose instructions have been issued, with the times of their ends.
    ending: Vec<(Cycle, usize)>,
    used: Resources,
    all: Resources,
    arrivals: u64,
    /// The kernel of the resident CTAs, if there are any.
    kernel: Option<usize>,
    share: bool,
    memory_unit: LoadStore,
    local: LocalMemory,
}

/// A CTA that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    /// Its kernel.
    pub(crate) kernel: usize,
    /// The bytes of its instructions.
    pub(crate) bytes: u64,
}

impl Core {
    /// Returns an idle core.
    pub(crate) fn new(config: &Config, ended_arrive: bool) -> Core {
        let slots = config.warps_per_core() as usize;
        let ctas = config.core.ctas as usize;
        let scheduler = Scheduler {
            next: NEVER,
            last: 0,
        };
        let schedulers = config.core.schedulers as usize;
        Core {
            next: NEVER,
            last_kernel: 0,
            schedulers: vec![scheduler; schedulers],
            policy: config.core.policy,
            ended_arrive,
            units: Units::new(config),
            ready: vec![NEVER; slots],
            next_units: vec![UnitKind::Integer; slots],
            ages: vec![0; slots],
            warps: (0..slots).map(|_| Warp::default()).collect(),
            slots: 0,
            is_taken: vec![false; slots],
            ctas: (0..ctas).map(|_| None).collect(),
            ending: Vec::new(),
            used: Resources::default(),
            all: Resources::of_core(config),
            arrivals: 0,
            kernel: None,
            share: config.launch.share_cores,
            memory_unit: LoadStore::new(config),
            local: LocalMemory::default(),
        }
    }

    /// Returns whether a CTA of a kernel fits.
    pub(crate) fn has_room(&self, kernel: usize, resources: &Resources) -> bool {
        let is_free = self.share || self.kernel.is_none_or(|resident| resident == kernel);
        is_free && self.used.fits(resources, &self.all)
    }

    /// Makes the data cache empty, with this number of lines in a set.
    pub(crate) fn flush(&mut self, ways: u32) {
        self.memory_unit.flush(ways);
    }

    /// Sets where local memory is.
    pub(crate) fn set_local(&mut self, local: LocalMemory) {
        self.local = local;
    }

    /// Places a CTA, for which there is room.
    pub(crate) fn place(
        &mut self,
        now: Cycle,
        kernel: usize,
        program: CtaProgram,
        resources: Resources,
        templates: &[Template],
    ) {
        let Some(place) = self.ctas.iter().position(Option::is_none) else {
            return;
        };
        self.used.add(&resources);
        self.kernel = Some(kernel);
        let mut slots = Vec::with_capacity(program.warps.len());
        let mut remaining = 0;
        for (number, records) in program.warps.iter().enumerate() {
            let slot = self.free_slot();
            slots.push(slot);
            self.place_warp(now, slot, place, number as u32, records.clone());
            if let Some(record) = program.records[records.clone()].first() {
                let template = &templates[record.template()];
                self.next_units[slot] = template.unit;
                self.ready[slot] = now + DISPATCH;
                remaining += 1;
                self.wake(slot, now + DISPATCH);
            }
        }
        let live = slots.len() as u32;
        self.ctas[place] = Some(Cta {
            kernel,
            program,
            slots,
            resources,
            // A warp without instructions never arrives at barriers, but the CTA ends without it.
            live,
            remaining,
            waiting: 0,
            done: now,
        });
        if remaining == 0 {
            self.end(place, now + DISPATCH);
        }
    }

    /// Returns the first free slot. The resources guarantee that there is one.
    fn free_slot(&mut self) -> usize {
        let slot = self.is_taken.iter().position(|taken| !taken).unwrap_or(0);
        self.is_taken[slot] = true;
        self.slots = self.slots.max(slot + 1);
        slot
    }

    fn place_warp(
        &mut self,
        now: Cycle,
        slot: usize,
        cta: usize,
        number: u32,
        records: Range<usize>,
    ) {
        self.warps[slot].restart(cta, number, records, now);
        self.ready[slot] = NEVER;
        self.ages[slot] = self.arrivals;
        self.arrivals += 1;
    }

    fn wake(&mut self, slot: usize, time: Cycle) {
        let count = self.schedulers.len();
        let scheduler = &mut self.schedulers[slot % count];
        scheduler.next = scheduler.next.min(time);
        self.next = self.next.min(time);
    }

    fn end(&mut self, cta: usize, time: Cycle) {
        self.ending.push((time, cta));
        self.next = self.next.min(time);
    }

    /// Acts in this cycle. Adds the CTAs that end to `ended`.
    pub(crate) fn step(
        &mut self,
        now: Cycle,
        memory: &mut MemorySystem,
        kernels: &mut [Option<Kernel>],
        ended: &mut Vec<Ended>,
    ) {
        for index in 0..self.schedulers.len() {
            if self.schedulers[index].next <= now {
                self.schedule(index, now, memory, kernels);
            }
        }
        if self.ending.iter().any(|(time, _)| *time <= now) {
            self.finish(now, ended);
        }
        let schedulers = self.schedulers.iter().map(|scheduler| scheduler.next);
        let ends = self.ending.iter().map(|(time, _)| *time);
        self.next = schedulers.chain(ends).min().unwrap_or(NEVER);
    }

    /// Ends the warp in a slot, whose instructions have been issued.
    fn end_warp(&mut self, slot: usize, now: Cycle) {
        let place = self.warps[slot].cta;
        let done = self.warps[slot].done.max(self.warps[slot].accesses);
        let Some(cta) = &mut self.ctas[place] else {
            return;
        };
        cta.done = cta.done.max(done);
        cta.remaining -= 1;
        if self.ended_arrive {
            cta.live -= 1;
        }
        match cta.remaining {
            0 => {
                let time = cta.done.max(now + 1);
                self.end(place, time);
            }
            _ => self.open_barrier(place, now),
        }
    }

    /// Removes the CTAs that have ended.
    fn finish(&mut self, now: Cycle, ended: &mut Vec<Ended>) {
        let mut index = 0;
        while let Some(&(time, place)) = self.ending.get(index) {
            if time > now {
                index += 1;
                continue;
            }
            self.ending.remove(index);
            let Some(cta) = self.ctas[place].take() else {
                continue;
            };
            for slot in cta.slots {
                self.is_taken[slot] = false;
            }
            self.used.subtract(&cta.resources);
            ended.push(Ended {
                kernel: cta.kernel,
                bytes: cta.program.bytes(),
            });
        }
        self.slots = self
            .is_taken
            .iter()
            .rposition(|taken| *taken)
            .map_or(0, |slot| slot + 1);
        if self.used.ctas == 0 {
            self.kernel = None;
        }
    }
}
