//! What lies behind the cores: the interconnect, the slices of the second cache, and device memory.

use crate::cache::Cache;
use crate::config::Config;
use crate::counters::Counters;
use crate::cycle::{Cycle, NEVER, Server, Window};
use crate::dram::{Channel, Timing};
use crate::partition::{Partition, Place};

/// Cycles of a packet from a core to a slice, or back.
const HOP: Cycle = 4;

/// The number of requests that wait in front of a slice before cores stall.
const SLICE_QUEUE: Cycle = 512;

/// The number of accesses that wait in front of a channel before its slices stall, in cycles.
const CHANNEL_QUEUE: Cycle = 256;

/// What a request does in the second cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Reads a sector.
    Read,
    /// Writes a sector.
    Write {
        /// The bytes that are written.
        bytes: u32,
    },
    /// Reads, modifies and writes a sector.
    Atomic,
}

/// The memory that all cores share.
#[derive(Debug)]
pub(crate) struct MemorySystem {
    partition: Partition,
    slices: Vec<Slice>,
    channels: Vec<Channel>,
    timing: Timing,
    /// The number of reads that can wait for a sector in the second cache.
    merges: u32,
    l2_latency: Cycle,
    dram_latency: Cycle,
}

#[derive(Debug)]
struct Slice {
    cache: Cache,
    port: Server,
    /// The arrivals of the sectors that the slice has requested.
    outstanding: Window,
}

impl MemorySystem {
    /// Returns an idle memory.
    pub(crate) fn new(config: &Config) -> MemorySystem {
        let slice = || Slice {
            cache: Cache::new(config.l2.cache),
            port: Server::default(),
            outstanding: Window::new(config.l2.cache.outstanding as usize),
        };
        MemorySystem {
            partition: Partition::new(config),
            slices: (0..config.slices()).map(|_| slice()).collect(),
            channels: vec![Channel::new(config); config.dram.channels as usize],
            timing: Timing::new(config),
            merges: config.l2.cache.merges,
            l2_latency: u64::from(config.l2.latency),
            dram_latency: u64::from(config.dram.latency),
        }
    }

    /// Returns where a line is.
    pub(crate) fn place(&self, line: u64) -> Place {
        self.partition.place(line)
    }

    /// Serves a request for a sector that leaves its core at `sent`. Returns when the answer is back at the core, and
    /// until when the core must wait before it sends more.
    pub(crate) fn request(
        &mut self,
        sent: Cycle,
        line: u64,
        place: Place,
        sector: usize,
        request: Request,
        counters: &mut Counters,
    ) -> (Cycle, Cycle) {
        let slice = &mut self.slices[place.slice as usize];
        let channel = &mut self.channels[place.channel as usize];
        let start = slice.port.reserve(sent + HOP, 1);
        let mut access = start + self.l2_latency;
        counters.l2.accesses += 1;
        let (cached, victim) = slice.cache.line(line, place.local_line);
        let arrival = match request {
            Request::Write { bytes } => {
                counters.l2.writes += 1;
                cached.dirty |= 1 << sector;
                cached.write(sector, bytes, access);
                access
            }
            Request::Read => cached.arrivals[sector],
            Request::Atomic => {
                counters.l2.atomics += 1;
                cached.dirty |= 1 << sector;
                cached.arrivals[sector]
            }
        };
        let data = if arrival == NEVER {
            access = access.max(slice.outstanding.room());
            counters.l2.read_misses += 1;
            counters.dram_reads += 1;
            let arrival = access + self.dram_latency;
            let (data, is_open) = channel.access(&self.timing, arrival, place.bank, place.row);
            counters.dram_activations += u64::from(!is_open);
            cached.request(sector, data);
            slice.outstanding.push(data);
            data
        } else if arrival > access {
            counters.l2.pending_hits += 1;
            if !cached.wait(sector, self.merges) {
                access = arrival;
            }
            arrival
        } else {
            access
        };
        // A request that cannot go on blocks those behind it.
        slice.port.block(access.saturating_sub(self.l2_latency));
        if let Some(victim) = victim.filter(|victim| victim.dirty != 0) {
            let place = self.partition.place(victim.line);
            let arrival = access + self.dram_latency;
            for _ in 0..victim.dirty.count_ones() {
                counters.dram_writes += 1;
                channel.access(&self.timing, arrival, place.bank, place.row);
            }
        }
        let blocked = channel
            .free()
            .saturating_sub(CHANNEL_QUEUE + self.dram_latency + self.l2_latency);
        let stall = start.saturating_sub(SLICE_QUEUE).max(blocked);
        (data + HOP, stall)
    }

    /// Fills the second cache with a copied range, as if it had been written before the simulation reached this time.
    pub(crate) fn fill(&mut self, address: u64, bytes: u64, now: Cycle) {
        let Some(last) = bytes
            .checked_sub(1)
            .map(|bytes| address.saturating_add(bytes))
        else {
            return;
        };
        // The beginning of a range that is larger than the cache would not stay.
        let capacity: u64 = self.slices.iter().map(|slice| slice.cache.capacity()).sum();
        let first = (address / 128).max((last / 128).saturating_sub(2 * capacity));
        for line in first..=last / 128 {
            let place = self.partition.place(line);
            let cache = &mut self.slices[place.slice as usize].cache;
            let (cached, _) = cache.line(line, place.local_line);
            for (sector, arrival) in cached.arrivals.iter_mut().enumerate() {
                let start = line * 128 + sector as u64 * 32;
                if start <= last && start + 31 >= address {
                    *arrival = now.min(*arrival);
                }
            }
        }
    }
}
