//! Shadow cells. A cell records the accesses to an aligned group of four bytes.
//!
//! A cell stores at most one write and one read directly, and the index of a list of further accesses. A cell takes 20
//! bytes for four bytes of memory.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::line::{LINE, Line};

/// The ID of a group. A group is the set of accesses that the threads of one warp perform with one instruction in one
/// interval.
pub(super) type GroupId = u32;

/// The value of a group ID or list index that stands for no group or no list.
pub(super) const NONE: u32 = 0;

/// An access of some lanes of a warp to some bytes of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Entry {
    /// The group of the access.
    pub(super) group: GroupId,
    /// The lanes that have accessed the bytes.
    pub(super) lanes: u32,
    /// The accessed bytes of the cell, as a mask of four bits.
    pub(super) bytes: u8,
    /// Whether the access writes.
    pub(super) writes: bool,
}

impl Entry {
    /// Returns the key of the entry. Entries of a cell with equal keys are merged into one entry, which contains the
    /// lanes of all merged entries.
    pub(super) fn key(&self) -> (GroupId, u8, bool) {
        (self.group, self.bytes, self.writes)
    }
}

/// The recorded accesses to an aligned group of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(super) struct Cell {
    write: u32,
    write_lanes: u32,
    read: u32,
    read_lanes: u32,
    /// The index of a list in the low 24 bits, then four bits for the bytes of the write, then four bits for the bytes
    /// of the read.
    more: u32,
}

const LIST_BITS: u32 = 24;
const LIST_MASK: u32 = (1 << LIST_BITS) - 1;

impl Cell {
    /// Returns the write that the cell stores directly.
    #[inline]
    pub(super) fn write(&self) -> Option<Entry> {
        (self.write != NONE).then_some(Entry {
            group: self.write,
            lanes: self.write_lanes,
            bytes: (self.more >> LIST_BITS & 15) as u8,
            writes: true,
        })
    }

    /// Returns the read that the cell stores directly.
    #[inline]
    pub(super) fn read(&self) -> Option<Entry> {
        (self.read != NONE).then_some(Entry {
            group: self.read,
            lanes: self.read_lanes,
            bytes: (self.more >> (LIST_BITS + 4)) as u8,
            writes: false,
        })
    }

    /// Returns the index of the list of further accesses; [`NONE`] if there is none.
    #[inline]
    pub(super) fn list(&self) -> u32 {
        self.more & LIST_MASK
    }

    /// Replaces the write or the read that the cell stores directly by `entry`.
    #[inline]
    pub(super) fn set(&mut self, entry: Entry) {
        let bytes = u32::from(entry.bytes);
        if entry.writes {
            (self.write, self.write_lanes) = (entry.group, entry.lanes);
            self.more = self.more & !(15 << LIST_BITS) | bytes << LIST_BITS;
        } else {
            (self.read, self.read_lanes) = (entry.group, entry.lanes);
            self.more = self.more & !(15 << (LIST_BITS + 4)) | bytes << (LIST_BITS + 4);
        }
    }

    /// Removes the write (if `writes` is true) or the read (if `writes` is false) that the cell stores directly.
    #[inline]
    pub(super) fn clear(&mut self, writes: bool) {
        if writes {
            (self.write, self.write_lanes) = (NONE, 0);
        } else {
            (self.read, self.read_lanes) = (NONE, 0);
        }
    }

    /// Records a weak access to all bytes of the cell by lanes of a group, unless `Detector::touch` must compare it
    /// with the earlier accesses. Returns whether the access was recorded. `about` returns how the accesses of a group
    /// are ordered with the new access.
    #[inline]
    pub(super) fn record(
        &mut self,
        (group, lanes, writes): (GroupId, u32, bool),
        lists: &Lists,
        mut about: impl FnMut(GroupId) -> About,
    ) -> bool {
        if self.list() != NONE {
            // If the cell directly stores a read of the same group, only the lanes of this read change, and the list
            // stays unchanged. This is permitted only if all writes in the list happen before the new read.
            let joins = !writes && self.read == group && self.more >> (LIST_BITS + 4) == 15;
            let mut list = lists.get(self.list()).iter();
            if !joins || list.any(|entry| entry.writes && about(entry.group) != About::Over) {
                return false;
            }
        }
        let mut over = |other: GroupId, by: u32| match about(other) {
            About::Over => Some(true),
            About::Current if by == lanes && lanes.is_power_of_two() => Some(false),
            _ => None,
        };
        if !writes {
            if self.write != NONE && over(self.write, self.write_lanes).is_none() {
                return false;
            }
            if self.read == group && self.more >> (LIST_BITS + 4) == 15 {
                self.read_lanes |= lanes;
                return true;
            }
            if self.read != NONE && over(self.read, self.read_lanes) != Some(true) {
                return false;
            }
            (self.read, self.read_lanes) = (group, lanes);
            self.more |= 15 << (LIST_BITS + 4);
            return true;
        }
        let again =
            self.write == group && self.write_lanes == lanes && self.more >> LIST_BITS & 15 == 15;
        if !again && self.write != NONE && over(self.write, self.write_lanes) != Some(true) {
            return false;
        }
        if self.read != NONE {
            match over(self.read, self.read_lanes) {
                None => return false,
                Some(true) => self.clear(false),
                Some(false) => {}
            }
        }
        (self.write, self.write_lanes) = (group, lanes);
        self.more |= 15 << LIST_BITS;
        true
    }

    fn set_list(&mut self, list: u32) {
        self.more = self.more & !LIST_MASK | list;
    }
}

/// How the recorded accesses of a group are ordered with a new access of some lanes of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum About {
    /// The accesses happen before the next access of every thread of the CTA or, if the group is of the same warp, of
    /// every lane of the warp.
    Over,
    /// The accesses belong to the current interval of the warp.
    Current,
    /// It is not known whether the accesses happen before the next access, or whether they belong
    /// to the current interval of the warp.
    Open,
}

/// Number of cells of a page. A page is 4096 consecutive bytes of memory, whose cells are stored
/// together.
const PAGE_CELLS: usize = 1024;

/// Number of adjacent cells that share a [`Mark`].
const MARKED: usize = 16;

/// The threads whose reads need not be recorded because of a [`Mark`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Readers {
    /// None.
    #[default]
    None,
    /// All threads of a launch.
    Launch(u32),
    /// The threads of a CTA, in an epoch.
    Cta(super::CtaId, u32),
    /// The threads of a warp, in an interval.
    Warp(super::CtaId, u32, super::Time),
}

/// A set of cells among [`MARKED`] adjacent cells. Some later reads of these cells need not be recorded, because enough
/// reads of different threads are already recorded. The fields `readers` and `site` state which reads these are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Mark {
    pub(super) readers: Readers,
    /// The instruction whose later reads need not be recorded; `None` for all instructions.
    pub(super) site: Option<super::Site>,
    /// The marked cells, as a bit for each cell.
    cells: u16,
}

impl Mark {
    /// Creates a mark that does not yet mark a cell.
    pub(super) fn new(readers: Readers, site: Option<super::Site>) -> Mark {
        Mark {
            readers,
            site,
            cells: 0,
        }
    }
}

/// The marks of a page.
type Marks = [Mark; PAGE_CELLS / MARKED];

/// The recorded accesses to the memory of a page.
#[derive(Debug, Default)]
struct Page {
    /// The cells; `None` if no cell was used so far.
    cells: Option<Box<[Cell; PAGE_CELLS]>>,
    /// For each line, the recorded accesses that cover all cells of the line.
    lines: Option<Box<[Line; PAGE_CELLS / LINE]>>,
    /// Bit mask of the lines whose accesses are recorded in `lines`. The cells of these lines contain no accesses.
    whole: u64,
    marks: Option<Box<Marks>>,
}

impl Page {
    /// Returns the cells of the page. Accesses that are recorded in `lines` are not moved to the cells.
    fn cells(&mut self) -> &mut [Cell; PAGE_CELLS] {
        self.cells
            .get_or_insert_with(|| Box::new([Cell::default(); PAGE_CELLS]))
    }

    /// For each line that contains a cell in `from..to`, moves the accesses that `lines` records to the cells of the
    /// line.
    #[inline]
    fn expand(&mut self, from: usize, to: usize, lists: &mut Lists) {
        let lines = u64::MAX >> (63 - (to - 1) / LINE) & u64::MAX << (from / LINE);
        let mut whole = self.whole & lines;
        while whole != 0 {
            let line = whole.trailing_zeros() as usize;
            whole &= whole - 1;
            self.expand_line(line, lists);
        }
    }

    #[cold]
    fn expand_line(&mut self, line: usize, lists: &mut Lists) {
        self.whole &= !(1 << line);
        let Some(lines) = &mut self.lines else {
            return;
        };
        let accesses = std::mem::take(&mut lines[line]);
        let cells = &mut self.cells()[line * LINE..][..LINE];
        for (at, cell) in cells.iter_mut().enumerate() {
            let write = accesses.write.entry(at, true);
            let read = accesses.read.entry(at, false);
            write
                .into_iter()
                .chain(read)
                .for_each(|entry| cell.set(entry));
            if let Some(other) = accesses.other_write.entry(at, true) {
                cell.set_list(lists.add(cell.list(), other));
            }
        }
    }

    /// Removes the accesses to lines that are completely in `from..to`. If only a part of a line is
    /// in this range, the accesses of the line are moved to its cells.
    fn forget_lines(&mut self, from: usize, to: usize, lists: &mut Lists) {
        let inside = (from.div_ceil(LINE), to / LINE);
        if let Some(lines) = &mut self.lines {
            for line in inside.0..inside.1 {
                lines[line] = Line::default();
                self.whole &= !(1 << line);
            }
        }
        if from < to {
            self.expand(from, to, lists);
        }
    }

    /// Returns the line that begins at a cell; `None` if accesses to single cells of the line are recorded.
    fn line(&mut self, at: usize) -> Option<&mut Line> {
        let line = at / LINE;
        if self.whole >> line & 1 == 0 {
            let cells = self.cells.as_ref().map(|cells| &cells[at..at + LINE]);
            if cells.is_some_and(|cells| cells.iter().any(|cell| *cell != Cell::default())) {
                return None;
            }
        }
        let lines = self
            .lines
            .get_or_insert_with(|| Box::new([Line::default(); PAGE_CELLS / LINE]));
        self.whole |= 1 << line;
        Some(&mut lines[line])
    }
}

/// The cells of all memory that was accessed.
#[derive(Debug, Default)]
pub(super) struct Cells {
    index: FxHashMap<u64, usize>,
    pages: Vec<Page>,
    /// The number of the page that was used last (its address divided by the page size), and its index in `pages`.
    last: Option<(u64, usize)>,
    /// The lists of the accesses that the cells do not store directly.
    lists: Lists,
}

impl Cells {
    /// Returns the cell with the given index, which is the address of its bytes divided by four.
    #[inline]
    pub(super) fn cell(&mut self, index: u64) -> &mut Cell {
        let (found, at) = self.find(index);
        let page = &mut self.pages[found];
        page.expand(at, at + 1, &mut self.lists);
        &mut page.cells()[at]
    }

    /// Returns up to `most` cells from the cell `index` on, without cells in later pages, and the lists of all cells.
    #[inline]
    pub(super) fn run(&mut self, index: u64, most: usize) -> (&mut [Cell], &Lists) {
        let (found, at) = self.find(index);
        let end = (at + most).min(PAGE_CELLS);
        let page = &mut self.pages[found];
        page.expand(at, end, &mut self.lists);
        (&mut page.cells()[at..end], &self.lists)
    }

    /// Returns the line that begins at a cell; `None` if accesses to single cells of the line are recorded.
    #[inline]
    pub(super) fn line(&mut self, index: u64) -> Option<&mut Line> {
        let (page, at) = self.place(index);
        page.line(at)
    }

    /// Returns the page of a cell, and the cell's index in the page.
    #[inline]
    fn place(&mut self, index: u64) -> (&mut Page, usize) {
        let (found, at) = self.find(index);
        (&mut self.pages[found], at)
    }

    /// Returns the index of the page of a cell, and the cell's index in the page.
    #[inline]
    fn find(&mut self, index: u64) -> (usize, usize) {
        let page = index / PAGE_CELLS as u64;
        let found = match self.last {
            Some((last, found)) if last == page => found,
            _ => self.page(page),
        };
        (found, index as usize % PAGE_CELLS)
    }

    fn page(&mut self, page: u64) -> usize {
        let found = *self.index.entry(page).or_insert_with(|| {
            self.pages.push(Page::default());
            self.pages.len() - 1
        });
        self.last = Some((page, found));
        found
    }

    /// Examines the `count` cells from `index` on, and returns a bit mask of the cells that have a
    /// mark for which `holds` returns true. `count` is at most 64, and the cells must be in one
    /// page.
    #[inline]
    pub(super) fn marked(
        &mut self,
        index: u64,
        count: usize,
        holds: impl Fn(&Mark) -> bool,
    ) -> u64 {
        let (page, at) = self.place(index);
        let Some(marks) = &page.marks else {
            return 0;
        };
        let mut all = 0;
        for group in at / MARKED..=(at + count - 1) / MARKED {
            let mark = &marks[group];
            if mark.cells != 0 && holds(mark) {
                let cells = u64::from(mark.cells);
                all |= match (group * MARKED).checked_sub(at) {
                    Some(above) => cells << above,
                    None => cells >> (at - group * MARKED),
                };
            }
        }
        all & (u64::MAX >> (64 - count))
    }

    /// Marks a cell with `mark`. The [`MARKED`] adjacent cells share one mark. If they had a different mark, it is
    /// replaced by `mark`, and the other cells are then unmarked.
    pub(super) fn mark(&mut self, index: u64, mark: Mark) {
        let (page, at) = self.place(index);
        let marks = page
            .marks
            .get_or_insert_with(|| Box::new([Mark::default(); PAGE_CELLS / MARKED]));
        let own = &mut marks[at / MARKED];
        if (own.readers, own.site) != (mark.readers, mark.site) {
            *own = mark;
        }
        own.cells |= 1 << (at % MARKED);
    }

    /// Removes the marks of `count` cells from the cell `index` on, so that reads of these cells are recorded again.
    /// The cells must be in one page.
    #[inline]
    pub(super) fn unmark(&mut self, index: u64, count: usize) {
        let (page, at) = self.place(index);
        if let Some(marks) = &mut page.marks {
            for at in at..at + count {
                marks[at / MARKED].cells &= !(1 << (at % MARKED));
            }
        }
    }

    /// Returns the cell with the index `index`, and the accesses that the cell does not store
    /// directly.
    #[inline]
    pub(super) fn with_further(&mut self, index: u64) -> (&mut Cell, &[Entry]) {
        let (found, at) = self.find(index);
        let page = &mut self.pages[found];
        page.expand(at, at + 1, &mut self.lists);
        let cell = &mut page.cells()[at];
        let list = cell.list();
        (cell, self.lists.get(list))
    }

    /// Returns the accesses in the list with index `list`.
    pub(super) fn further(&self, list: u32) -> &[Entry] {
        self.lists.get(list)
    }

    /// Replaces the list of a cell, which contains the accesses that the cell does not store directly.
    pub(super) fn set_further(&mut self, index: u64, entries: &[Entry]) {
        let old = self.cell(index).list();
        let list = self.lists.replace(old, entries);
        self.cell(index).set_list(list);
    }

    /// Adds an access to the further accesses of a cell.
    pub(super) fn add_further(&mut self, index: u64, entry: Entry) {
        let old = self.cell(index).list();
        let list = self.lists.add(old, entry);
        self.cell(index).set_list(list);
    }

    /// Calls `f` for each cell that contains a byte from `from` up to `to`, if the cell's page stores cells. The
    /// arguments are the index of the cell, the cell, and its further accesses.
    pub(super) fn for_each(&mut self, from: u64, to: u64, mut f: impl FnMut(u64, &Cell, &[Entry])) {
        let bytes = 4 * PAGE_CELLS as u64;
        let inside = from / bytes..to.div_ceil(bytes);
        let index = &self.index;
        let mut pages: Vec<(u64, usize)> = match inside.end.saturating_sub(inside.start) {
            few if few <= index.len() as u64 => inside
                .filter_map(|page| Some((page, *index.get(&page)?)))
                .collect(),
            _ => (index.iter())
                .filter(|(page, _)| inside.contains(page))
                .map(|(&page, &found)| (page, found))
                .collect(),
        };
        pages.sort_unstable();
        for (page, found) in pages {
            let first = page * PAGE_CELLS as u64;
            let start = (from / 4).max(first);
            let end = to.div_ceil(4).min(first + PAGE_CELLS as u64);
            let page = &mut self.pages[found];
            let cells = ((start - first) as usize, (end - first) as usize);
            page.expand(cells.0, cells.1, &mut self.lists);
            let Some(cells) = &page.cells else {
                continue;
            };
            for index in start..end {
                let cell = &cells[(index - first) as usize];
                f(index, cell, self.lists.get(cell.list()));
            }
        }
    }

    /// Calls `f` with the group of each recorded access, in an unspecified order.
    pub(super) fn for_each_group(&self, f: &mut impl FnMut(GroupId)) {
        for page in &self.pages {
            for cell in page.cells.iter().flat_map(|cells| cells.iter()) {
                f(cell.write);
                f(cell.read);
            }
            for line in page.lines.iter().flat_map(|lines| lines.iter()) {
                line.for_each_group(f);
            }
        }
        for entry in self.lists.lists.iter().flatten() {
            f(entry.group);
        }
    }

    /// Removes all accesses to a range of cells, and all marks of the pages that contain these cells.
    pub(super) fn forget(&mut self, first: u64, end: u64) {
        let mut index = first;
        while index < end {
            let page = index / PAGE_CELLS as u64;
            let next = ((page + 1) * PAGE_CELLS as u64).min(end);
            if let Some(&found) = self.index.get(&page) {
                let from = index as usize % PAGE_CELLS;
                let to = from + (next - index) as usize;
                let page = &mut self.pages[found];
                page.marks = None;
                page.forget_lines(from, to, &mut self.lists);
                for cell in page.cells.iter_mut().flat_map(|cells| &mut cells[from..to]) {
                    self.lists.release(cell.list());
                    *cell = Cell::default();
                }
            }
            index = next;
        }
    }

    /// Returns the number of bytes that the cells, lines and marks occupy.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |page: &Page| {
            size_of::<Page>()
                + page.cells.as_ref().map_or(0, |cells| size_of_val(&**cells))
                + page.lines.as_ref().map_or(0, |lines| size_of_val(&**lines))
                + page.marks.as_ref().map_or(0, |marks| size_of_val(&**marks))
        };
        self.pages.iter().map(bytes).sum()
    }
}

/// Lists of accesses. Each list that is in use belongs to one cell.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: Vec<SmallVec<[Entry; 4]>>,
    /// The lists that belong to no cell.
    free: Vec<u32>,
}

impl Lists {
    fn get(&self, list: u32) -> &[Entry] {
        match list {
            NONE => &[],
            _ => &self.lists[list as usize - 1],
        }
    }

    /// Replaces the entries of the list with index `list`; if `list` is [`NONE`], creates a list. Returns the index of
    /// the list. Returns [`NONE`] if there are no entries, in which case the list is freed, or if all indices are in
    /// use.
    fn replace(&mut self, list: u32, entries: &[Entry]) -> u32 {
        if entries.is_empty() {
            self.release(list);
            return NONE;
        }
        let list = match list {
            NONE => match self.free.pop() {
                Some(list) => list,
                // All list indices are in use, so the cell keeps only the accesses that it stores directly.
                None if self.lists.len() as u32 + 1 >= LIST_MASK => return NONE,
                None => {
                    self.lists.push(SmallVec::new());
                    self.lists.len() as u32
                }
            },
            list => list,
        };
        let own = &mut self.lists[list as usize - 1];
        own.clear();
        own.extend_from_slice(entries);
        list
    }

    /// Adds an entry to the list with index `list`, which is sorted by key; if `list` is [`NONE`], creates a list.
    /// Returns the index of the list, or [`NONE`] if no list can be created because all indices are in use.
    fn add(&mut self, list: u32, entry: Entry) -> u32 {
        if list == NONE {
            return self.replace(list, &[entry]);
        }
        let own = &mut self.lists[list as usize - 1];
        let at = own.partition_point(|other| other.key() < entry.key());
        own.insert(at, entry);
        list
    }

    fn release(&mut self, list: u32) {
        if list != NONE {
            self.lists[list as usize - 1] = SmallVec::new();
            self.free.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_takes_twenty_bytes() {
        assert_eq!(size_of::<Cell>(), 20);
    }

    #[test]
    fn cells_hold_a_write_a_read_and_a_list() {
        let mut cells = Cells::default();
        let entry = |group, writes| Entry {
            group,
            lanes: 1 << group,
            bytes: 6,
            writes,
        };
        cells.cell(5000).set(entry(3, true));
        cells.cell(5000).set(entry(4, false));
        cells.set_further(5000, &[entry(7, true)]);
        let cell = *cells.cell(5000);
        assert_eq!(cell.write(), Some(entry(3, true)));
        assert_eq!(cell.read(), Some(entry(4, false)));
        assert_eq!(cells.further(cell.list()), [entry(7, true)]);
        cells.set_further(6, &[entry(7, true), entry(8, false)]);
        cells.forget(4000, 5001);
        assert_eq!(*cells.cell(5000), Cell::default());
        let kept = cells.cell(6).list();
        assert_eq!(cells.further(kept).len(), 2);
        cells.set_further(9, &[entry(1, false)]);
        assert_eq!(cells.cell(9).list(), cell.list(), "a list is used again");
        cells.set_further(6, &[]);
        assert_eq!(cells.cell(6).list(), NONE);
    }
}
