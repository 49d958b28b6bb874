//! Accesses of the lanes of a warp together: one lookup for all lanes of what they share, and a short path for cells of
//! which all that matters is known to be over.

use super::cell::{Cells, Entry, GroupId};
use super::clock::{CtaId, Thread, Time};
use super::cta::lanes;
use super::{Access, Detector, Group, Race, Site};

/// What the lanes of a warp know at the time of their accesses.
#[derive(Clone, Copy, Debug)]
struct Now {
    cta: CtaId,
    warp: u32,
    time: Time,
    /// All lanes know all accesses of the warp up to this interval.
    common: u32,
}

/// What is known about an earlier access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// It is over for all threads of the CTA, or for all lanes of the warp if it is one of the warp.
    Over,
    /// It is an access of the same thread in the present interval.
    Own,
    /// The long way has to find out.
    Open,
}

impl Now {
    fn about(&self, groups: &[Group], entry: &Entry, lanes: u32) -> Known {
        let group = &groups[entry.group as usize - 1];
        if group.cta != self.cta || group.copy.is_some() {
            return Known::Open;
        }
        let of_warp = group.warp == self.warp;
        if group.time.epoch < self.time.epoch || of_warp && group.time.interval <= self.common {
            return Known::Over;
        }
        let own = of_warp && entry.lanes == lanes && lanes.is_power_of_two();
        match own && group.time == self.time {
            true => Known::Own,
            false => Known::Open,
        }
    }
}

/// Maximum number of further accesses of a cell that the short path looks at.
const FEW: usize = 8;

/// Records a weak access of `entry` to a cell, if little about the earlier accesses matters. Returns whether it has done
/// so.
fn record(cells: &mut Cells, groups: &[Group], now: &Now, index: u64, entry: Entry) -> bool {
    let (cell, further) = cells.with_further(index);
    let (write, read) = (cell.write(), cell.read());
    if write.is_none() && read.is_none() && further.is_empty() {
        cell.set(entry);
        return true;
    }
    let only_reads = || further.len() <= FEW && further.iter().all(|other| !other.writes);
    if !further.is_empty() && (entry.writes || !only_reads()) {
        return false;
    }
    let about = |other: &Entry| now.about(groups, other, entry.lanes);
    let covers = |other: &Entry| other.bytes & !entry.bytes == 0;
    let (same, other) = match entry.writes {
        true => (write, read),
        false => (read, write),
    };
    // The access of the other kind: a write replaces reads that are over.
    let mut drops_other = false;
    if let Some(other) = other
        && other.bytes & entry.bytes != 0
    {
        match about(&other) {
            Known::Open => return false,
            Known::Over => drops_other = entry.writes && covers(&other),
            Known::Own => {}
        }
    }
    let mut new = entry;
    if let Some(same) = same {
        if same.key() == entry.key() && (!entry.writes || same.lanes == entry.lanes) {
            new.lanes |= same.lanes;
        } else if !covers(&same)
            || about(&same) != Known::Over && !is_known_elsewhere(groups, now, &same, further)
        {
            return false;
        }
    }
    cell.set(new);
    if drops_other {
        cell.clear(!entry.writes);
    }
    true
}

/// Returns whether a read by another CTA need not be kept: the instruction's read by a third CTA is kept. Every later
/// write is then of another CTA than one of the reads that are kept.
fn is_known_elsewhere(groups: &[Group], now: &Now, read: &Entry, further: &[Entry]) -> bool {
    let of = |entry: &Entry| &groups[entry.group as usize - 1];
    let group = of(read);
    let elsewhere = group.cta != now.cta && !read.writes && group.strong.is_none();
    elsewhere
        && further.iter().any(|other| {
            let kept = of(other);
            kept.site == group.site
                && kept.cta != now.cta
                && kept.cta != group.cta
                && read.bytes & !other.bytes == 0
        })
}

impl Detector {
    /// Records the accesses of several lanes of a warp. `first` is the thread of lane 0, `active` are the lanes that access
    /// `bytes` bytes each, and `address` returns the address of a lane. Calls `report` with the lane for each race with an
    /// earlier access.
    pub fn access_lanes(
        &mut self,
        id: CtaId,
        first: u32,
        (site, access): (Site, Access),
        (active, bytes): (u32, u32),
        address: impl Fn(u32) -> u64,
        mut report: impl FnMut(u32, Race),
    ) {
        if active == 0 {
            return;
        }
        let last = first + 31 - active.leading_zeros();
        let cta = &self.ctas[id as usize];
        let weak = access.strong.is_none() && !access.asynchronous;
        if !weak || cta.has_locks() || cta.has_issues() || first / 32 != last / 32 {
            for lane in lanes(active) {
                let range = (address(lane), bytes);
                self.access(id, first + lane, (site, access), range, |race| {
                    report(lane, race);
                });
            }
            return;
        }
        let leader = Thread {
            cta: id,
            index: first,
        };
        let now = Now {
            cta: id,
            warp: leader.warp(),
            time: cta.time(first),
            common: cta.common_interval(leader.warp()),
        };
        let writes = access.writes;
        let group = self.group(leader, (site, access, None), writes);
        let lowest = active.trailing_zeros();
        let one = address(lowest);
        if !writes && active != 1 << lowest && lanes(active).all(|lane| address(lane) == one) {
            let mask = active << leader.lane();
            if self.all_quick(&now, (group, mask, false), (one, bytes)) {
                return;
            }
        }
        for lane in lanes(active) {
            let by = Thread {
                cta: id,
                index: first + lane,
            };
            let start = address(lane);
            for (index, mask) in cells_of(start, bytes) {
                let entry = Entry {
                    group,
                    lanes: 1 << by.lane(),
                    bytes: mask,
                    writes,
                };
                if !record(&mut self.cells, &self.groups, &now, index, entry) {
                    self.touch(
                        by,
                        (site, access, None),
                        writes,
                        (index, mask),
                        &mut |race| {
                            report(lane, race);
                        },
                    );
                }
            }
            if writes && !self.locations.is_empty() {
                self.locations.remove(&start);
            }
        }
    }

    /// Records the reads of several lanes of the same bytes, if that is possible for the first cell.
    fn all_quick(
        &mut self,
        now: &Now,
        (group, lanes, writes): (GroupId, u32, bool),
        (start, bytes): (u64, u32),
    ) -> bool {
        cells_of(start, bytes).all(|(index, bytes)| {
            let entry = Entry {
                group,
                lanes,
                bytes,
                writes,
            };
            record(&mut self.cells, &self.groups, now, index, entry)
        })
    }
}

/// Returns the cells that an access touches, with the bytes of each as a mask of four bits.
pub(super) fn cells_of(address: u64, bytes: u32) -> impl Iterator<Item = (u64, u8)> {
    let end = address + u64::from(bytes);
    (address / 4..end.div_ceil(4)).map(move |index| {
        let from = address.max(index * 4) - index * 4;
        let to = end.min(index * 4 + 4) - index * 4;
        (index, (((1u32 << to) - 1) & !((1u32 << from) - 1)) as u8)
    })
}
