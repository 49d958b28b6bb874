//! A cache with sectors.
//!
//! The cache knows when each sector arrives. A sector that is requested but not there yet is *pending*.

use rustc_hash::FxHashMap;

use crate::config::CacheShape;
use crate::cycle::{Cycle, NEVER};

/// The number of sectors of a line.
pub(crate) const SECTORS: usize = 4;

/// Marks the end of a list.
const NONE: u32 = u32::MAX;

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    tag: u64,
    /// When each sector arrives, or [`NEVER`] if it is invalid.
    pub(crate) arrivals: [Cycle; SECTORS],
    /// For each sector, the bytes that have been written since the line came.
    written: [u32; SECTORS],
    /// For each sector that was requested, the number of reads that wait for it.
    waiting: [u32; SECTORS],
    /// The sectors that device memory does not have.
    pub(crate) dirty: u8,
    previous: u32,
    next: u32,
}

impl Line {
    /// Makes a sector invalid if it arrived no later than all lines became invalid. Returns when it arrives.
    pub(crate) fn forget(&mut self, sector: usize, invalidated: Cycle) -> Cycle {
        let arrival = &mut self.arrivals[sector];
        if *arrival <= invalidated {
            *arrival = NEVER;
            self.written[sector] = 0;
        }
        *arrival
    }

    /// Notes that a read requests a sector, which arrives at a time.
    pub(crate) fn request(&mut self, sector: usize, arrival: Cycle) {
        self.arrivals[sector] = arrival;
        self.waiting[sector] = 1;
    }

    /// Lets one more read wait for a requested sector. Returns false if as many as `limit` wait for it.
    pub(crate) fn wait(&mut self, sector: usize, limit: u32) -> bool {
        let waiting = &mut self.waiting[sector];
        let has_room = *waiting < limit;
        *waiting += u32::from(has_room);
        has_room
    }

    /// Writes bytes of a sector at a time. A sector that is not there can be read as soon as all of its bytes have been
    /// written; until then, a read has to fetch it.
    pub(crate) fn write(&mut self, sector: usize, bytes: u32, now: Cycle) {
        let (written, arrival) = (&mut self.written[sector], &mut self.arrivals[sector]);
        *written |= bytes;
        if *written == u32::MAX && *arrival > now {
            *arrival = now;
        }
    }
}

/// The lines of a set from the least recently used one to the most recently used one.
#[derive(Clone, Copy, Debug)]
struct Set {
    oldest: u32,
    newest: u32,
    count: u32,
}

const EMPTY: Set = Set {
    oldest: NONE,
    newest: NONE,
    count: 0,
};

/// A line that another one replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Victim {
    /// The number of the line.
    pub(crate) line: u64,
    /// The sectors that must be written.
    pub(crate) dirty: u8,
}

/// A cache whose sets replace the least recently used line.
#[derive(Debug)]
pub(crate) struct Cache {
    sets: Vec<Set>,
    ways: u32,
    hashed: bool,
    index: FxHashMap<u64, u32>,
    lines: Vec<Line>,
}

impl Cache {
    /// Returns an empty cache.
    pub(crate) fn new(shape: CacheShape) -> Cache {
        Cache {
            sets: vec![EMPTY; shape.sets as usize],
            ways: shape.ways,
            hashed: shape.hashed,
            index: FxHashMap::default(),
            lines: Vec::new(),
        }
    }

    /// Returns the number of lines.
    pub(crate) fn capacity(&self) -> u64 {
        self.sets.len() as u64 * u64::from(self.ways)
    }

    /// Makes all lines invalid, and changes the number of lines of a set.
    pub(crate) fn reset(&mut self, ways: u32) {
        self.ways = ways;
        if !self.lines.is_empty() {
            self.lines.clear();
            self.index.clear();
            self.sets.fill(EMPTY);
        }
    }

    /// Returns a line, which becomes the most recently used one, and what it replaced. `place` decides the set.
    pub(crate) fn line(&mut self, number: u64, place: u64) -> (&mut Line, Option<Victim>) {
        let (slot, victim) = self.slot(number, place);
        (self.at(slot), victim)
    }

    /// Returns the line in a slot.
    pub(crate) fn at(&mut self, slot: u32) -> &mut Line {
        &mut self.lines[slot as usize]
    }

    /// Returns the slot of a line as [`Cache::line`]. It is valid until the next call.
    pub(crate) fn slot(&mut self, number: u64, place: u64) -> (u32, Option<Victim>) {
        let set = self.set(place);
        let (slot, victim) = match self.index.get(&number) {
            Some(&slot) => (slot, None),
            None => self.allocate(number, set),
        };
        if self.sets[set].newest != slot {
            self.unlink(slot, set);
            self.link(slot, set);
        }
        (slot, victim)
    }

    fn set(&self, place: u64) -> usize {
        let sets = self.sets.len() as u64;
        let mixed = match self.hashed {
            true => place ^ (place / sets) ^ (place / sets / sets),
            false => place,
        };
        (mixed % sets) as usize
    }

    /// Adds a line to a set. It is linked as the most recently used one.
    fn allocate(&mut self, number: u64, set: usize) -> (u32, Option<Victim>) {
        let line = Line {
            tag: number,
            arrivals: [NEVER; SECTORS],
            written: [0; SECTORS],
            waiting: [0; SECTORS],
            dirty: 0,
            previous: NONE,
            next: NONE,
        };
        let (slot, victim) = if self.sets[set].count < self.ways {
            self.sets[set].count += 1;
            self.lines.push(line);
            (self.lines.len() as u32 - 1, None)
        } else {
            let slot = self.sets[set].oldest;
            self.unlink(slot, set);
            let old = std::mem::replace(&mut self.lines[slot as usize], line);
            self.index.remove(&old.tag);
            let victim = Victim {
                line: old.tag,
                dirty: old.dirty,
            };
            (slot, Some(victim))
        };
        self.index.insert(number, slot);
        self.link(slot, set);
        (slot, victim)
    }

    fn unlink(&mut self, slot: u32, set: usize) {
        let (previous, next) = {
            let line = &self.lines[slot as usize];
            (line.previous, line.next)
        };
        match previous {
            NONE => self.sets[set].oldest = next,
            _ => self.lines[previous as usize].next = next,
        }
        match next {
            NONE => self.sets[set].newest = previous,
            _ => self.lines[next as usize].previous = previous,
        }
    }

    fn link(&mut self, slot: u32, set: usize) {
        let newest = self.sets[set].newest;
        let line = &mut self.lines[slot as usize];
        (line.previous, line.next) = (newest, NONE);
        match newest {
            NONE => self.sets[set].oldest = slot,
            _ => self.lines[newest as usize].next = slot,
        }
        self.sets[set].newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(sets: u32, ways: u32) -> Cache {
        Cache::new(CacheShape {
            sets,
            ways,
            hashed: false,
            outstanding: 1,
            merges: 1,
            miss_queue: 1,
        })
    }

    #[test]
    fn the_least_recently_used_line_of_a_set_is_replaced() {
        let mut cache = cache(2, 2);
        for number in [0, 2, 1, 0] {
            assert_eq!(cache.line(number, number).1, None);
        }
        cache.line(2, 2).0.dirty = 5;
        let victim = |line, dirty| Some(Victim { line, dirty });
        assert_eq!(cache.line(4, 4).1, victim(0, 0));
        assert_eq!(cache.line(6, 6).1, victim(2, 5));
        assert_eq!(cache.line(1, 1).1, None);
        assert_eq!(cache.line(6, 6).1, None);
    }

    #[test]
    fn a_reset_cache_is_empty() {
        let mut cache = cache(1, 4);
        cache.line(7, 0).0.arrivals[2] = 10;
        assert_eq!(cache.line(7, 0).0.arrivals, [NEVER, NEVER, 10, NEVER]);
        cache.reset(1);
        assert_eq!(cache.line(7, 0).0.arrivals, [NEVER; 4]);
        assert_eq!(cache.line(8, 0).1, Some(Victim { line: 7, dirty: 0 }));
    }
}
