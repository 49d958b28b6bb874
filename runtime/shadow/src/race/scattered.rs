//! Records reads of single elements of memory that the reading launch has not written.
//!
//! If the addresses that the lanes read have no common pattern, for example in a sparse matrix, the
//! reads cannot be stored as runs ([`super::reads`]). The detector stores these reads in tables. A
//! table contains the reads of one block of memory by one instruction, with at most two readers for
//! each element. Two readers suffice, because every later write that races with another read by the
//! instruction in the same launch also races with a read of one of these two readers. When a launch
//! first writes to a block of memory, the detector moves the launch's reads of this block from the
//! tables to cells.

use rustc_hash::FxHashMap;

use super::cell::Entry;
use super::clock::{CtaId, Thread, Time};
use super::cta::lanes;
use super::quick::cells_of;
use super::reads::{BLOCK, Blocks};
use super::{Access, Detector, Group, Site};

/// Number of entries of the cache of tables, and of the cache of readers.
const CACHED: usize = 256;

/// The detector searches for unused readers only if it stores at least this number of readers.
const MANY: usize = 1 << 16;

/// Number of runs that take about as much memory as one table. [`Blocks::runs`] counts each table
/// as this number of runs.
pub(super) const RUNS: usize = 512;

/// A warp that performs reads, and the time of these reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reader {
    launch: u32,
    cta: CtaId,
    warp: u32,
    time: Time,
    /// Index of the last interval in which all accesses of the warp happen before the next access
    /// of every lane of the warp. The same holds for all earlier intervals.
    common: u32,
}

impl Reader {
    /// Returns whether the reader `new`, which reads the same element later, can replace this
    /// reader. It can if every access that is not ordered with the reads of this reader is not
    /// ordered with the reads of `new` either. The function assumes that no other work may overlap
    /// the launches.
    fn is_replaced_by(&self, new: &Reader) -> bool {
        let over = self.time.epoch < new.time.epoch
            || self.warp == new.warp && self.time.interval <= new.common;
        self.launch != new.launch || self.cta == new.cta && over
    }

    fn is_at_time_of(&self, other: &Reader) -> bool {
        (self.cta, self.warp, self.time) == (other.cta, other.warp, other.time)
    }
}

/// Up to two readers of an element. Two words describe each reader: the reader's index plus one (0
/// if there is no reader), and the mask of the lanes that have read the element. If there is only
/// one reader, the first two words describe it.
type Readers = [u32; 4];

/// The word in a [`Table`] for an element whose readers are stored in [`Scattered::several`].
const SEVERAL: u32 = u32::MAX;

/// Maximum value of the index of a reader plus one. A word stores a reader as its index plus one,
/// so that 0 can stand for no reader.
const LAST_READER: u32 = (1 << 27) - 2;

/// Returns the word for an element that a single lane of a reader has read. `reader` is the reader's index plus one.
/// The word is not 0 and not [`SEVERAL`].
fn pack(reader: u32, lane: u32) -> u32 {
    reader << 5 | lane
}

/// Reverses [`pack`]: returns the reader, and the lane as a mask.
fn unpack(word: u32) -> (u32, u32) {
    (word >> 5, 1 << (word & 31))
}

/// The recorded reads of one block of memory by one instruction.
#[derive(Debug)]
struct Table {
    block: u64,
    site: Site,
    /// Number of bytes that a lane reads; a power of two.
    bytes: u32,
    /// Number of bytes of an element of the access.
    element: u8,
    /// A word for each `bytes` bytes of the block: 0 if no lane has read the bytes, the result of
    /// [`pack`] if one lane has read the bytes, and [`SEVERAL`] if several lanes have read the
    /// bytes.
    readers: Vec<u32>,
    /// The last launch whose reads the table contains.
    launch: u32,
    /// A bit for each element of the block. The bit is set if two CTAs of the launch `launch` have
    /// read the element. Further reads of such an element need not be recorded, because every later
    /// write comes from a different CTA than the reads of at least one of the two CTAs.
    enough: Vec<u64>,
}

impl Table {
    /// Prepares the table for reads of `launch`: if the table contains reads of another launch,
    /// replaces [`Table::launch`] and clears [`Table::enough`].
    #[inline]
    fn begin(&mut self, launch: u32) {
        if self.launch != launch {
            self.launch = launch;
            self.enough.fill(0);
        }
    }

    /// Returns whether each of up to 32 elements has been read by two CTAs.
    #[inline]
    fn are_enough(&self, first: usize, count: u32) -> bool {
        let low = self.enough[first / 64] >> (first % 64);
        let inside = 64 - first as u32 % 64;
        let wanted = u64::MAX >> (64 - count);
        let known = match inside < count {
            true => low | self.enough[first / 64 + 1] << inside,
            false => low,
        };
        known & wanted == wanted
    }

    fn set_enough(&mut self, element: usize) {
        self.enough[element / 64] |= 1 << (element % 64);
    }
}

/// A read that the detector moves from a table to cells.
struct Moved {
    reader: Reader,
    site: Site,
    element: u8,
    lanes: u32,
    address: u64,
    bytes: u32,
}

/// An entry of the cache of the tables that were used last.
#[derive(Clone, Copy, Debug)]
struct Cached {
    key: (u64, Site),
    /// The launch that used the table. This launch has not written the table's block.
    launch: u32,
    /// The index of the table.
    table: u32,
}

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Scattered {
    tables: Vec<Table>,
    /// The index of each table. The key consists of the block and the instruction.
    index: FxHashMap<(u64, Site), u32>,
    /// The tables of each block.
    of_block: FxHashMap<u64, Vec<u32>>,
    /// The tables that were used last.
    cache: Vec<Option<Cached>>,
    /// The readers of elements that several lanes have read. The key consists of the index of the
    /// table and the index of the element.
    several: FxHashMap<(u32, u32), Readers>,
    readers: Vec<Reader>,
    /// A cache of the readers that were added last. An entry is the index of a reader plus one, or
    /// 0 if the entry is empty.
    recent: Vec<u32>,
    /// Number of readers in use after the last search for unused readers.
    kept: usize,
}

impl Scattered {
    /// Returns the number of bytes that the tables and readers occupy.
    pub(super) fn bytes(&self) -> usize {
        let tables = self.tables.iter();
        let elements: usize = tables.map(|table| table.readers.len()).sum();
        elements * size_of::<u32>()
            + self.several.len() * size_of::<((u32, u32), Readers)>()
            + self.readers.len() * size_of::<Reader>()
    }

    /// Removes all entries of the cache. An entry is valid only as long as its launch has not
    /// written the table's block.
    pub(super) fn forget_unwritten(&mut self) {
        self.cache.clear();
    }

    /// Adds a reader if it is not in the list of recent readers, and returns its index plus one.
    fn reader(&mut self, reader: Reader) -> u32 {
        if self.recent.is_empty() {
            self.recent = vec![0; CACHED];
        }
        let at = (reader.cta as usize * 8 + reader.warp as usize) % CACHED;
        let known = self.recent[at];
        if known != 0 && self.readers[known as usize - 1] == reader {
            return known;
        }
        if self.readers.len() >= MANY.max(2 * self.kept) {
            self.remove_unused_readers();
        }
        self.readers.push(reader);
        let index = self.readers.len() as u32;
        self.recent[at] = index;
        index
    }

    fn remove_unused_readers(&mut self) {
        let mut places = vec![0; self.readers.len() + 1];
        let mut kept = Vec::new();
        let mut place_of = |index: u32| {
            let place = &mut places[index as usize];
            if *place == 0 {
                kept.push(self.readers[index as usize - 1]);
                *place = kept.len() as u32;
            }
            *place
        };
        let tables = self.tables.iter_mut();
        for word in tables.flat_map(|table| &mut table.readers) {
            if !matches!(*word, 0 | SEVERAL) {
                *word = place_of(*word >> 5) << 5 | *word & 31;
            }
        }
        for [first, _, second, _] in self.several.values_mut() {
            *first = place_of(*first);
            if *second != 0 {
                *second = place_of(*second);
            }
        }
        self.kept = kept.len();
        self.readers = kept;
        self.recent.fill(0);
    }

    /// Records in a table that the lanes `by` of a reader have read an element. Returns false,
    /// without a change, if the caller must record the read outside the table.
    #[inline]
    fn record(&mut self, table: u32, element: usize, (new, by): (u32, u32)) -> bool {
        let of = &mut self.tables[table as usize];
        let word = &mut of.readers[element];
        if by.is_power_of_two() {
            let own = pack(new, by.trailing_zeros());
            if *word == 0 {
                *word = own;
                return true;
            }
            if *word == own {
                return true;
            }
        }
        self.record_further(table, element, (new, by))
    }

    /// Does the same as [`Scattered::record`] for an element that already has a reader, or that
    /// several lanes read at the same time.
    fn record_further(&mut self, table: u32, element: usize, (new, by): (u32, u32)) -> bool {
        let of = &mut self.tables[table as usize];
        let key = (table, element as u32);
        let word = &mut of.readers[element];
        let mut readers = readers_of(&self.several, key, *word).unwrap_or([new, by, 0, 0]);
        if !add(&self.readers, &mut readers, new, by) {
            return false;
        }
        *word = SEVERAL;
        self.several.insert(key, readers);
        let [first, _, second, _] = readers;
        let cta = |index: u32| self.readers[index as usize - 1].cta;
        if second != 0 && cta(first) != cta(second) {
            of.set_enough(element);
        }
        true
    }

    /// Returns the index of the table for a block and an instruction, or `None` if the cache does
    /// not contain the table for this launch.
    fn cached(&self, key: (u64, Site), launch: u32) -> Option<u32> {
        let cached = (*self.cache.get(cache_index(key))?)?;
        (cached.key == key && cached.launch == launch).then_some(cached.table)
    }

    /// Returns the index of the table for a block and an instruction, and whether the function
    /// added this table.
    fn table(
        &mut self,
        key: (u64, Site),
        (bytes, element): (u32, u32),
        launch: u32,
    ) -> (u32, bool) {
        let (block, site) = key;
        let next = self.tables.len() as u32;
        let table = *self.index.entry(key).or_insert(next);
        if table == next {
            let elements = (BLOCK / u64::from(bytes)) as usize;
            self.tables.push(Table {
                block,
                site,
                bytes,
                element: element.min(u8::MAX.into()) as u8,
                readers: vec![0; elements],
                launch,
                enough: vec![0; elements / 64],
            });
            self.of_block.entry(block).or_default().push(table);
        }
        if self.cache.is_empty() {
            self.cache = vec![None; CACHED];
        }
        self.cache[cache_index(key)] = Some(Cached { key, launch, table });
        (table, table == next)
    }

    /// Removes the reads of a block from the tables, and returns them: only the reads by the launch
    /// `of`, or all reads if `of` is `None`.
    fn take(&mut self, block: u64, of: Option<u32>) -> Vec<Moved> {
        let mut moved = Vec::new();
        for &index in self.of_block.get(&block).into_iter().flatten() {
            let table = &mut self.tables[index as usize];
            if of.is_some_and(|of| of != table.launch) {
                continue;
            }
            table.enough.fill(0);
            for (element, word) in (0u32..).zip(&mut table.readers) {
                let key = (index, element);
                let Some(readers) = readers_of(&self.several, key, *word) else {
                    continue;
                };
                let [first, of_first, second, of_second] = readers;
                let reader = |index: u32| self.readers[index as usize - 1];
                // Both readers are of one launch.
                if of.is_some_and(|of| of != reader(first).launch) {
                    continue;
                }
                if *word == SEVERAL {
                    self.several.remove(&key);
                }
                *word = 0;
                for (index, lanes) in [(first, of_first), (second, of_second)] {
                    if index != 0 {
                        moved.push(Moved {
                            reader: reader(index),
                            site: table.site,
                            element: table.element,
                            lanes,
                            address: table.block * BLOCK + u64::from(element * table.bytes),
                            bytes: table.bytes,
                        });
                    }
                }
            }
        }
        moved
    }
}

/// Returns the readers of an element, or `None` if the element has no readers. `key` consists of
/// the index of the table and the index of the element, and `word` is the element's word in
/// [`Table::readers`].
fn readers_of(
    several: &FxHashMap<(u32, u32), Readers>,
    key: (u32, u32),
    word: u32,
) -> Option<Readers> {
    match word {
        0 => None,
        SEVERAL => several.get(&key).copied(),
        word => {
            let (reader, lanes) = unpack(word);
            Some([reader, lanes, 0, 0])
        }
    }
}

/// Adds the lanes `by` of the reader `new` to the readers of an element. Returns false, without a
/// change, if the element would need more than two readers.
fn add(known: &[Reader], readers: &mut Readers, new: u32, by: u32) -> bool {
    let of = |index: u32| &known[index as usize - 1];
    let own = of(new);
    let [first, _, second, _] = *readers;
    let has_second = second != 0;
    if first == new {
        readers[1] |= by;
        return true;
    }
    let replaced = |index: u32| of(index).is_replaced_by(own);
    match (replaced(first), has_second && replaced(second)) {
        (true, true) => *readers = [new, by, 0, 0],
        (true, false) => readers[..2].copy_from_slice(&[new, by]),
        (false, true) => readers[2..].copy_from_slice(&[new, by]),
        (false, false) if of(first).is_at_time_of(own) => readers[1] |= by,
        (false, false) if has_second && of(second).is_at_time_of(own) => readers[3] |= by,
        (false, false) if !has_second || of(first).cta != own.cta => {
            readers[2..].copy_from_slice(&[new, by]);
        }
        // Every later write of the CTA is in a different warp than at least one of the two readers.
        (false, false) if of(first).warp != of(second).warp => {}
        (false, false) if of(first).warp != own.warp => {
            readers[2..].copy_from_slice(&[new, by]);
        }
        (false, false) => return false,
    }
    true
}

fn cache_index((block, site): (u64, Site)) -> usize {
    (block as usize).wrapping_add(site as usize * 37) % CACHED
}

impl Detector {
    /// Records weak reads of the lanes in the mask `active` as reads of memory that the launch has
    /// not written. Each lane reads `bytes` bytes. `first` is the thread of lane 0, and `address`
    /// returns the address of a lane. Returns the mask of the lanes whose reads are recorded. The
    /// caller must pass the reads of the other lanes to [`Detector::access_lanes`].
    pub fn read_lanes(
        &mut self,
        id: CtaId,
        first: u32,
        (site, access): (Site, Access),
        (active, bytes): (u32, u32),
        address: impl Fn(u32) -> u64,
    ) -> u32 {
        let weak = access.strong.is_none() && !access.asynchronous;
        if active == 0 || self.given_up {
            return active;
        }
        let last = first + 31 - active.leading_zeros();
        if !weak || first / 32 != last / 32 {
            return 0;
        }
        let leader = Thread {
            cta: id,
            index: first,
        };
        self.read_scattered(leader, (site, access), (active, bytes), address)
    }

    /// Does the same as [`Detector::read_lanes`] for lanes whose reads are known to be weak.
    pub(super) fn read_scattered(
        &mut self,
        first: Thread,
        (site, access): (Site, Access),
        (active, bytes): (u32, u32),
        address: impl Fn(u32) -> u64,
    ) -> u32 {
        let cta = &self.ctas[first.cta as usize];
        let launch = cta.launch;
        let sized = bytes.is_power_of_two() && (4..=16).contains(&bytes);
        if !cta.barriers_only || !sized || self.overlapping.contains(&launch) {
            return 0;
        }
        let warp = first.warp();
        let reader = Reader {
            launch,
            cta: first.cta,
            warp,
            time: cta.time(first.index),
            common: cta.common_interval(warp),
        };
        let own = self.blocks.scattered.reader(reader);
        if own > LAST_READER {
            return 0;
        }
        let what = (launch, site, bytes, access.element);
        let mut recorded = 0;
        let mut read = |part: &Part| {
            let by = (own, part.mask << first.lane());
            if self.blocks.read_part(what, part, by) {
                recorded |= part.mask;
            }
        };
        let mut lanes = lanes(active).map(|lane| (lane, address(lane)));
        let Some((lane, address)) = lanes.next() else {
            return 0;
        };
        let mut part = Part::new(lane, address);
        for (lane, address) in lanes {
            if !part.extend(lane, address, bytes) {
                read(&part);
                part = Part::new(lane, address);
            }
        }
        read(&part);
        recorded
    }

    /// Moves the reads of a block from the tables to cells: only the reads of the launch `of`, or
    /// all reads if `of` is `None`.
    pub(super) fn move_scattered(&mut self, block: u64, of: Option<u32>) {
        let mut moved = self.blocks.scattered.take(block, of);
        moved.sort_unstable_by_key(|read| {
            let reader = read.reader;
            let time = (reader.time.epoch, reader.time.interval);
            (
                reader.launch,
                reader.cta,
                time,
                reader.warp,
                read.site,
                read.address,
            )
        });
        let mut last = None;
        for read in moved {
            let Reader {
                launch,
                cta,
                warp,
                time,
                common,
            } = read.reader;
            let of = (read.reader, read.site);
            let group = match last {
                Some((known, group)) if known == of => group,
                _ => self.add_group(Group::of_weak(
                    (launch, cta, warp),
                    time,
                    (read.site, read.element),
                )),
            };
            last = Some((of, group));
            for (index, bytes) in cells_of(read.address, read.bytes) {
                let entry = Entry {
                    group,
                    lanes: read.lanes,
                    bytes,
                    writes: false,
                };
                self.add_read(index, entry, common);
            }
        }
    }
}

/// Reads by consecutive active lanes of a warp. The lanes read either the same element or adjacent
/// elements.
struct Part {
    /// The lanes.
    mask: u32,
    /// The address that the first lane reads.
    address: u64,
    /// Number of elements.
    elements: u32,
}

impl Part {
    fn new(lane: u32, address: u64) -> Part {
        Part {
            mask: 1 << lane,
            address,
            elements: 1,
        }
    }

    /// Adds the next active lane if it reads the same element as all lanes so far, or the element
    /// after the element of the previous lane. Returns whether the lane was added. An element has
    /// `bytes` bytes.
    #[inline]
    fn extend(&mut self, lane: u32, address: u64, bytes: u32) -> bool {
        let all = self.mask.count_ones();
        let follows = address == self.address + u64::from(bytes * all) && all == self.elements;
        let equal = address == self.address && self.elements == 1;
        if follows || equal {
            self.mask |= 1 << lane;
            self.elements += u32::from(follows);
        }
        follows || equal
    }
}

impl Blocks {
    /// Records the reads `part` in a table. The last argument consists of the reader and the mask
    /// of the lanes that read. Returns false if the launch has written the block, or the table
    /// cannot contain all the reads.
    #[inline]
    fn read_part(
        &mut self,
        (launch, site, bytes, element): (u32, Site, u32, u32),
        part: &Part,
        (reader, lanes): (u32, u32),
    ) -> bool {
        let key = (part.address / BLOCK, site);
        let table = match self.scattered.cached(key, launch) {
            Some(table) => table,
            None => {
                if self.unwritten(key.0, launch).is_none() {
                    return false;
                }
                let (table, is_new) = self.scattered.table(key, (bytes, element), launch);
                self.runs += if is_new { RUNS } else { 0 };
                table
            }
        };
        let of = &mut self.scattered.tables[table as usize];
        let offset = (part.address % BLOCK) as u32;
        let first = (offset >> bytes.trailing_zeros()) as usize;
        let end = first + part.elements as usize;
        if of.bytes != bytes || offset & (bytes - 1) != 0 || end > of.readers.len() {
            return false;
        }
        of.begin(launch);
        if of.are_enough(first, part.elements) {
            return true;
        }
        if part.elements == 1 {
            return self.scattered.record(table, first, (reader, lanes));
        }
        let mut rest = lanes;
        (first..end).all(|element| {
            let lane = rest & rest.wrapping_neg();
            rest &= rest - 1;
            self.scattered.record(table, element, (reader, lane))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::reads::tests::{X, write};
    use super::*;

    const SITE: Site = 7;

    fn detector(ctas: u64) -> Detector {
        let mut detector = Detector::default();
        for index in 0..ctas {
            let id = detector.add_cta(0, index, index, 64);
            detector.order_by_barriers_only(id);
        }
        detector
    }

    /// Performs reads with the lanes `active` of a warp: each lane reads the word with the index
    /// `4 * lane`.
    fn read(detector: &mut Detector, id: CtaId, first: u32, active: u32) -> u32 {
        let what = (SITE, Access::READ);
        detector.read_lanes(id, first, what, (active, 4), |lane| {
            X + u64::from(16 * lane)
        })
    }

    #[test]
    fn a_write_races_with_the_lane_that_has_read_the_element() {
        let mut detector = detector(2);
        assert_eq!(read(&mut detector, 0, 32, 0xa5), 0xa5);
        assert_eq!(
            write(&mut detector, 0, 37, X + 16 * 5),
            [],
            "the same thread"
        );
        let races = write(&mut detector, 1, 3, X + 16 * 7);
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].earlier, (SITE, 0, 39));
        assert_eq!(
            write(&mut detector, 1, 3, X + 16 * 6),
            [],
            "no lane has read this"
        );
        assert_eq!(
            read(&mut detector, 0, 32, 1),
            0,
            "the launch has written the block"
        );
    }

    #[test]
    fn readers_in_two_ctas_are_enough() {
        let mut detector = detector(4);
        for id in 0..4 {
            assert_eq!(read(&mut detector, id, 0, u32::MAX), u32::MAX);
        }
        let races = write(&mut detector, 0, 40, X);
        let mut readers: Vec<CtaId> = races.iter().map(|race| race.earlier.1).collect();
        readers.sort_unstable();
        assert_eq!(readers, [0, 1]);
    }

    #[test]
    fn reads_before_a_barrier_are_ordered_with_later_writes() {
        let mut detector = detector(1);
        assert_eq!(read(&mut detector, 0, 0, 3), 3);
        detector.complete_barrier(0, 0, &[u32::MAX; 2], &[u32::MAX; 2]);
        assert_eq!(write(&mut detector, 0, 40, X), []);
    }

    /// Creates more than [`MANY`] readers, so that the detector searches for unused readers.
    #[test]
    fn unused_readers_are_removed() {
        let mut detector = detector(2);
        assert_eq!(read(&mut detector, 1, 0, 1), 1);
        for _ in 0..MANY + 10 {
            assert_eq!(read(&mut detector, 0, 0, 2), 2);
            detector.complete_barrier(0, 0, &[u32::MAX; 2], &[u32::MAX; 2]);
        }
        assert!(detector.blocks.scattered.readers.len() < MANY);
        let races = write(&mut detector, 0, 9, X);
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].earlier, (SITE, 1, 0));
    }
}
