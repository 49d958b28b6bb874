//! The unit of a core that executes loads and stores: shared memory, the data cache, and the way to the second cache.

use crate::cache::{Cache, SECTORS};
use crate::config::{Config, L1Shape};
use crate::counters::Counters;
use crate::cycle::{Cycle, NEVER, Server, Window};
use crate::local::LocalLines;
use crate::memory::{MemorySystem, Request};
use crate::program::{Access, AccessKind, LineAccess, Lines};

/// Cycles from the issue of an instruction to its start in the unit.
const ISSUE: Cycle = 3;
/// Cycles from the data of shared memory to a dependent instruction.
const SHARED_RETURN: Cycle = 2;
/// Cycles from a hit in the data cache to a dependent instruction.
const HIT_RETURN: Cycle = 1;
/// Cycles from an answer of the second cache to a dependent instruction.
const ANSWER_RETURN: Cycle = 3;
/// The number of instructions that wait for the unit at most.
const WAITING: usize = 8;
/// The number of requests that wait for the interconnect before the unit stalls.
const REQUEST_QUEUE: Cycle = 64;

/// The unit of one core.
#[derive(Debug)]
pub(crate) struct LoadStore {
    /// When the unit can start the next instruction.
    unit: Server,
    /// When the last instructions left the queue in front of the unit.
    waiting: Window,
    /// The port to the interconnect.
    requests: Server,
    /// The port from the interconnect.
    answers: Server,
    /// The arrivals of the sectors that the cache has requested.
    outstanding: Window,
    cache: Cache,
    /// When memory barriers made all lines invalid: the latest time, and the one before it.
    invalidated: [Cycle; 2],
    flushes: bool,
    banks: Box<[Bank]>,
    merges: u32,
    miss_queue: Cycle,
    l1_latency: Cycle,
    shared_latency: Cycle,
}

/// A bank of the data cache. Its accesses pass a queue, and the one at the head accesses the cache.
#[derive(Clone, Debug)]
struct Bank {
    /// When the head has room.
    head: Server,
    /// When the accesses in the queue leave it.
    queue: Window,
}

impl Bank {
    fn new(config: &Config) -> Bank {
        Bank {
            head: Server::default(),
            queue: Window::new(config.l1.latency as usize),
        }
    }
}

/// When an access is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    /// When a dependent instruction can issue.
    pub(crate) value: Cycle,
    /// When all effects of the access are done.
    pub(crate) all: Cycle,
}

impl Done {
    /// Everything is done at this time.
    pub(crate) fn at(time: Cycle) -> Done {
        Done {
            value: time,
            all: time,
        }
    }
}

impl LoadStore {
    /// Returns an idle unit.
    pub(crate) fn new(config: &Config) -> LoadStore {
        LoadStore {
            unit: Server::default(),
            waiting: Window::new(WAITING),
            requests: Server::default(),
            answers: Server::default(),
            outstanding: Window::new(config.l1.cache.outstanding as usize),
            cache: Cache::new(config.l1.cache),
            invalidated: [0; 2],
            flushes: config.l1.flush,
            banks: vec![Bank::new(config); config.l1.banks as usize].into(),
            merges: config.l1.cache.merges,
            miss_queue: u64::from(config.l1.cache.miss_queue),
            l1_latency: u64::from(config.l1.latency),
            shared_latency: u64::from(config.shared.latency),
        }
    }

    /// Returns when the next instruction can be issued to the unit.
    pub(crate) fn room(&self) -> Cycle {
        self.waiting.room().saturating_sub(ISSUE)
    }

    /// Makes the data cache empty, with this number of lines in a set.
    pub(crate) fn flush(&mut self, ways: u32) {
        self.cache.reset(ways);
    }

    /// Makes all sectors invalid that arrive before a memory barrier ends, which is at this time. The simulator does this if
    /// kernels also begin with an empty cache ([`L1Shape::flush`]). A barrier does not wait for the answers to stores.
    pub(crate) fn invalidate(&mut self, now: Cycle) {
        if self.flushes && now > self.invalidated[0] {
            self.invalidated = [now, self.invalidated[0]];
        }
    }

    /// Returns when the last memory barrier before this time made all lines invalid.
    fn invalidated(&self, now: Cycle) -> Cycle {
        let [latest, previous] = self.invalidated;
        if now >= latest { latest } else { previous }
    }

    /// Occupies the unit for one cycle.
    pub(crate) fn pass(&mut self, now: Cycle) -> Cycle {
        self.start(now, 1)
    }

    /// Accesses shared memory in this number of passes. A store is done when its last pass begins.
    pub(crate) fn shared(&mut self, now: Cycle, passes: u32, is_store: bool) -> Done {
        let passes = u64::from(passes.max(1));
        let start = self.start(now, passes);
        let last = start + passes - 1;
        Done::at(match is_store {
            true => last,
            false => last + self.shared_latency + SHARED_RETURN,
        })
    }

    /// Accesses global or local memory. `local` has the lines of the warp in local memory.
    pub(crate) fn global(
        &mut self,
        now: Cycle,
        access: Access,
        lines: Lines<'_>,
        local: LocalLines,
        memory: &mut MemorySystem,
        counters: &mut Counters,
    ) -> Done {
        let start = self.start(now, 0);
        let mut transfer = Transfer {
            access,
            memory,
            counters,
            value: start + HIT_RETURN,
            stall: 0,
        };
        let lines = lines.map(|mut access_to_line| {
            if access.is_local {
                access_to_line.line = local.line(access_to_line.line);
            }
            access_to_line
        });
        let end = match access.bypasses_l1 {
            true => self.bypass(start, lines, &mut transfer),
            false => self.cached(start, lines, &mut transfer),
        };
        let Transfer { value, stall, .. } = transfer;
        let queued = self.requests.free().saturating_sub(REQUEST_QUEUE);
        self.unit.reserve(end.max(stall).max(queued), 0);
        let is_store = access.kind == AccessKind::Store;
        Done {
            value: if is_store { start + 1 } else { value },
            all: value,
        }
    }

    /// Starts an instruction that occupies the unit for some cycles.
    fn start(&mut self, now: Cycle, cycles: Cycle) -> Cycle {
        let start = self.unit.reserve(now + ISSUE, cycles);
        self.waiting.push(start);
        start
    }

    /// Sends all sectors to the second cache, one in each cycle. Returns when the unit is free.
    fn bypass(
        &mut self,
        start: Cycle,
        lines: impl Iterator<Item = LineAccess>,
        transfer: &mut Transfer,
    ) -> Cycle {
        let mut end = start + 1;
        for line in lines {
            for sector in sectors(&line) {
                let sent = self.requests.reserve(start, 1);
                end = end.max(sent + 1);
                self.send(sent, &line, sector, transfer);
            }
        }
        end
    }

    /// Accesses all sectors in the data cache: in each cycle one in each bank. Returns when the unit is free.
    fn cached(
        &mut self,
        start: Cycle,
        lines: impl Iterator<Item = LineAccess>,
        transfer: &mut Transfer,
    ) -> Cycle {
        let mut cycle = start;
        let mut busy = 0_u64;
        for line in lines {
            let (slot, _) = self.cache.slot(line.line, line.line);
            for sector in sectors(&line) {
                let index = line.line.wrapping_mul(SECTORS as u64) + sector as u64;
                let number = (index & (self.banks.len() as u64 - 1)) as usize;
                let bank = &self.banks[number];
                let room = bank.queue.room();
                if busy >> number & 1 == 1 || room > cycle {
                    cycle = room.max(cycle + 1);
                    busy = 0;
                }
                busy |= 1 << number;
                let arrival = bank.head.free().max(cycle + self.l1_latency);
                let done = self.sector(arrival, slot, &line, sector, transfer);
                let bank = &mut self.banks[number];
                bank.head.block(done + 1);
                bank.queue.push(done);
            }
        }
        cycle + 1
    }

    /// Accesses a sector of a line that is in a slot of the data cache. Returns when the access leaves its bank, which is
    /// `now` unless it has to wait.
    fn sector(
        &mut self,
        now: Cycle,
        slot: u32,
        line: &LineAccess,
        sector: usize,
        transfer: &mut Transfer,
    ) -> Cycle {
        transfer.counters.l1.accesses += 1;
        let invalidated = self.invalidated(now);
        let cached = self.cache.at(slot);
        let arrival = cached.forget(sector, invalidated);
        if transfer.access.kind == AccessKind::Store {
            let now = now.max(self.requests.free().saturating_sub(self.miss_queue));
            cached.write(sector, line.bytes[sector], now);
            transfer.counters.l1.writes += 1;
            let sent = self.requests.reserve(now, 1);
            self.send(sent, line, sector, transfer);
            return now;
        }
        if arrival != NEVER {
            let is_pending = arrival > now;
            transfer.counters.l1.pending_hits += u64::from(is_pending);
            let is_blocked = is_pending && !cached.wait(sector, self.merges);
            let now = if is_blocked { arrival } else { now };
            transfer.value = transfer.value.max(arrival.max(now + HIT_RETURN));
            return now;
        }
        transfer.counters.l1.read_misses += 1;
        let room = self.requests.free().saturating_sub(self.miss_queue);
        let now = now.max(room).max(self.outstanding.room());
        let sent = self.requests.reserve(now, 1);
        let arrival = self.send(sent, line, sector, transfer);
        self.outstanding.push(arrival);
        self.cache.at(slot).request(sector, arrival);
        now
    }

    /// Sends a request for a sector. Returns when a dependent instruction can issue.
    fn send(
        &mut self,
        sent: Cycle,
        line: &LineAccess,
        sector: usize,
        transfer: &mut Transfer,
    ) -> Cycle {
        let request = match transfer.access.kind {
            AccessKind::Load | AccessKind::Copy => Request::Read,
            AccessKind::Store => Request::Write {
                bytes: line.bytes[sector],
            },
            AccessKind::Atomic => Request::Atomic,
        };
        let memory = &mut *transfer.memory;
        let place = memory.place(line.line);
        let (answer, stall) =
            memory.request(sent, line.line, place, sector, request, transfer.counters);
        // The port limits the rate of answers, but it does not order them.
        let slot = self.answers.reserve(sent, 1);
        let value = answer.max(slot) + ANSWER_RETURN;
        transfer.value = transfer.value.max(value);
        transfer.stall = transfer.stall.max(stall);
        value
    }
}

/// An access that is under way.
struct Transfer<'a> {
    access: Access,
    memory: &'a mut MemorySystem,
    counters: &'a mut Counters,
    /// When the last answer is there.
    value: Cycle,
    /// When the unit can go on.
    stall: Cycle,
}

/// Returns the touched sectors of a line, from the highest one.
fn sectors(line: &LineAccess) -> impl Iterator<Item = usize> + use<> {
    let touched = line.sectors;
    (0..SECTORS)
        .rev()
        .filter(move |sector| touched >> sector & 1 == 1)
}

/// Returns the number of lines in a set of the data cache for a kernel whose resident CTAs need these bytes of shared memory.
pub(crate) fn ways(shape: &L1Shape, shared_bytes: u64) -> u32 {
    if !shape.adaptive {
        return shape.cache.ways;
    }
    let fits = |option: &&u32| u64::from(**option) >= shared_bytes;
    let option = shape.shared_options.iter().find(fits);
    let option = option.or(shape.shared_options.last()).copied();
    let bytes = shape.unified_bytes.saturating_sub(option.unwrap_or(0));
    (bytes / 128 / shape.cache.sets).max(1)
}
