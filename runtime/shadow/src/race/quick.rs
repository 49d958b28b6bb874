//! Records the accesses of all lanes of a warp together, so that data that the lanes share are
//! looked up only once. A *cell* contains the recorded accesses to four bytes of memory. If the new
//! access cannot race with the earlier accesses of a cell, a *short path* in this module records
//! the access in the cell. For all other cells, `Detector::touch` records the access.

use super::cell::{About, Cells, Entry, GroupId, Mark, NONE, Readers};
use super::clock::{CtaId, Thread, Time};
use super::cta::lanes;
use super::ctas::Cta;
use super::line::{LINE, Whole, Writes};
use super::{Access, Detector, Group, Missing, Race, Scope, Site};

/// The pattern of the addresses of the active lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// All active lanes access the same bytes.
    Uniform,
    /// The active lanes are neighbours, and each lane accesses the bytes directly after the bytes of the previous lane.
    Adjacent,
    /// The addresses have no known pattern.
    Any,
}

/// The data that all lanes of a warp share during an access: the warp, the time, the instruction,
/// and the common part of the lanes' vector clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    cta: CtaId,
    pub(super) warp: u32,
    time: Time,
    /// Index of the last interval in which all accesses of the warp happen before the next access
    /// of every lane of the warp. The same holds for all earlier intervals.
    common: u32,
    /// Whether only barriers of the CTA and of its warps have synchronised the threads of the CTA
    /// so far ([`Running::is_plain`](super::cta::Running)).
    plain: bool,
    /// Whether the kernel synchronises threads only with barriers of the whole CTA and with warp barriers.
    barriers_only: bool,
    pub(super) launch: u32,
    /// Whether other work may overlap the launch.
    overlapped: bool,
    site: Site,
}

impl Now {
    /// Returns whether the mark of a cell states that the current instruction's reads by the
    /// current lanes need not be recorded in the cell.
    fn is_marked(&self, mark: &Mark) -> bool {
        mark.site.is_none_or(|site| site == self.site)
            && match mark.readers {
                Readers::None => false,
                Readers::Launch(launch) => launch == self.launch,
                Readers::Cta(cta, epoch) => cta == self.cta && epoch == self.time.epoch,
                Readers::Warp(cta, warp, time) => {
                    cta == self.cta && warp == self.warp && time == self.time
                }
            }
    }

    /// Returns whether it is certain that no access of another CTA of the launch is ordered with
    /// the next access.
    fn has_unordered_ctas(&self) -> bool {
        self.barriers_only && self.plain && !self.overlapped
    }

    /// Returns whether `group` contains weak accesses that another CTA of the launch performed with
    /// the current instruction.
    fn is_write_elsewhere(&self, group: &Group) -> bool {
        let alike = group.site == self.site && group.strong.is_none() && group.copy.is_none();
        alike && group.launch == self.launch && group.cta != self.cta
    }

    /// Returns how the recorded accesses of a group are ordered with the next access of the warp. A
    /// group contains the accesses of one warp with one instruction in one interval.
    fn about(&self, groups: &[Group], group: GroupId) -> About {
        let group = &groups[group as usize - 1];
        if group.copy.is_some() {
            return About::Open;
        }
        if group.cta != self.cta {
            return match group.launch == self.launch || self.overlapped {
                true => About::Open,
                false => About::Over,
            };
        }
        let of_warp = group.warp == self.warp;
        if group.time.epoch < self.time.epoch || of_warp && group.time.interval <= self.common {
            return About::Over;
        }
        match of_warp && group.time == self.time {
            true => About::Current,
            false => About::Open,
        }
    }
}

/// Maximum length of a cell's list of recorded accesses that the functions of this module examine.
/// If the list is longer, `Detector::touch` examines it.
const FEW: usize = 8;

/// Maximum length of a cell's list of recorded accesses that [`record_update`] examines. This limit
/// is higher than [`FEW`], because loops with an atomic update are often unrolled, and two updates
/// are recorded for each unrolled copy of the instruction.
const MANY: usize = 24;

/// Maximum number of reads by different warps or instructions that are recorded in the list of a
/// cell until the next barrier. This limit applies only if barriers are the only operations that
/// order the threads. In this case, a later write that races with an unrecorded read also races
/// with at least one of the recorded reads.
const ENOUGH: usize = 4;

/// Searches a cell for two recorded writes that make it unnecessary to record a new write, and
/// returns them. Both are weak writes by the same instruction in two different clusters, and both
/// wrote all bytes that the new write writes. `cluster_of` returns the cluster of a write's CTA.
///
/// If only barriers order the threads of each CTA, every later access that races with the new write also races with one
/// of the two recorded writes, or with a later write that has replaced one of them. The two threads
/// of the reported race are at least as far apart as the two threads of the race with the new
/// write. For example, if the threads of the race with the new write are in different CTAs, the
/// threads of the reported race are also in different CTAs.
fn enough_writes(
    groups: &[Group],
    now: &Now,
    new: Entry,
    recorded: impl Iterator<Item = Entry>,
    cluster_of: impl Fn(CtaId) -> u64,
) -> Option<[Entry; 2]> {
    if !now.has_unordered_ctas() {
        return None;
    }
    let mut first: Option<(Entry, u64)> = None;
    for entry in recorded {
        let group = &groups[entry.group as usize - 1];
        if !entry.writes || new.bytes & !entry.bytes != 0 || !now.is_write_elsewhere(group) {
            continue;
        }
        let cluster = cluster_of(group.cta);
        match first {
            Some((other, of)) if of != cluster => return Some([other, entry]),
            Some(_) => {}
            None => first = Some((entry, cluster)),
        }
    }
    None
}

/// Records the weak access `entry` to a cell, unless `Detector::touch` must compare this access with the earlier
/// accesses. Returns false if `Detector::touch` must compare the access. Returns true if the access
/// was recorded, and also if it need not be recorded.
fn record(cells: &mut Cells, groups: &[Group], now: &Now, index: u64, entry: Entry) -> bool {
    let is_marked = |mark: &Mark| now.is_marked(mark);
    if entry.writes {
        cells.unmark(index, 1);
    } else if now.barriers_only && cells.marked(index, 1, is_marked) != 0 {
        return true;
    }
    let (cell, further) = cells.with_further(index);
    let (write, read) = (cell.write(), cell.read());
    if write.is_none() && read.is_none() && further.is_empty() {
        cell.set(entry);
        return true;
    }
    let own = |other: &Entry| other.lanes == entry.lanes && entry.lanes.is_power_of_two();
    let about = |other: &Entry| now.about(groups, other.group);
    let covers = |other: &Entry| other.bytes & !entry.bytes == 0;
    // Returns whether an access in the list can stay unchanged. This is true for reads that this access need not
    // replace, and for writes that happen before this access.
    let stays = |other: &Entry| {
        let group = &groups[other.group as usize - 1];
        let of_warp = group.cta == now.cta && group.warp == now.warp;
        match about(other) {
            About::Over => other.writes || !covers(other),
            _ if other.writes => false,
            About::Current => true,
            About::Open => !covers(other) || !of_warp && group.copy.is_none(),
        }
    };
    let ended = |other: &Entry| covers(other) && about(other) == About::Over;
    let few = further.len() <= FEW;
    let drops_further = entry.writes && few && further.iter().all(ended);
    let kept = !further.is_empty() && !drops_further;
    if kept && (entry.writes || !now.plain || !few || !further.iter().all(stays)) {
        return false;
    }
    let (same, other) = match entry.writes {
        true => (write, read),
        false => (read, write),
    };
    // `other` is the access of the other kind (read or write) that the cell stores directly. A write removes a read
    // that happens before the write.
    let mut drops_other = false;
    if let Some(other) = other
        && other.bytes & entry.bytes != 0
    {
        match about(&other) {
            About::Over => drops_other = entry.writes && covers(&other),
            About::Current if own(&other) => {}
            _ => return false,
        }
    }
    let mut new = entry;
    let mut moved = None;
    let mut made = None;
    if let Some(same) = same {
        if same.key() == entry.key() && (!entry.writes || same.lanes == entry.lanes) {
            new.lanes |= same.lanes;
        } else if !covers(&same) {
            return false;
        } else if about(&same) != About::Over {
            let dropped = is_known_elsewhere(groups, now, &same, further);
            let group = &groups[same.group as usize - 1];
            let keeps = !entry.writes && now.plain && group.copy.is_none() && further.len() < FEW;
            // Two writes of a thread in one interval are both kept, because a later access races with both or with
            // neither.
            let again = entry.writes && own(&same) && about(&same) == About::Current;
            if !dropped && !keeps && !again {
                return false;
            }
            let enough = further.len() + 1 >= ENOUGH;
            if keeps && now.barriers_only && entry.bytes == 15 && (dropped || enough) {
                let site = (!enough).then_some(now.site);
                made = mark(groups, now, site, write, further.iter().chain([&same]));
            }
            // Reads on which the new mark depends must be kept.
            moved = (!dropped || made.is_some()).then_some(same);
        }
    }
    let had_further = !further.is_empty();
    cell.set(new);
    if drops_other {
        cell.clear(!entry.writes);
    }
    if let Some(made) = made {
        cells.mark(index, made);
    }
    if drops_further && had_further {
        cells.set_further(index, &[]);
    }
    if let Some(moved) = moved {
        cells.add_further(index, moved);
    }
    true
}

/// Returns a mark that states which later reads of a cell need not be recorded. The mark applies to
/// reads by the instruction `site` or, if `site` is `None`, to reads by all instructions. Returns
/// `None` if all reads must be recorded. `write` is the latest write, and `accesses` are the
/// recorded reads and the earlier writes. The mark is correct for two reasons. First, whichever
/// thread performs a later write, at least one recorded read is by a different thread and is not
/// ordered with this write. Second, all recorded writes happen before the reads of all threads to
/// which the mark applies.
fn mark<'a>(
    groups: &[Group],
    now: &Now,
    site: Option<Site>,
    write: Option<Entry>,
    accesses: impl Iterator<Item = &'a Entry>,
) -> Option<Mark> {
    let of = |entry: &Entry| &groups[entry.group as usize - 1];
    let (mut cta, mut warp, mut lanes) = (None, None, 0u32);
    let (mut two_ctas, mut two_warps) = (false, false);
    let mut written = write.is_some();
    let is_over_for_cta = |write: &Entry| {
        let group = of(write);
        group.cta == now.cta && group.time.epoch < now.time.epoch
    };
    for entry in accesses {
        let group = of(entry);
        if entry.writes && is_over_for_cta(entry) {
            written = true;
            continue;
        }
        if entry.writes || group.strong.is_some() || group.copy.is_some() {
            return None;
        }
        let covers = entry.bytes == 15 && site.is_none_or(|site| site == group.site);
        if !covers || group.launch != now.launch {
            continue;
        }
        two_ctas |= *cta.get_or_insert(group.cta) != group.cta;
        if group.cta == now.cta && group.time.epoch == now.time.epoch {
            two_warps |= *warp.get_or_insert(group.warp) != group.warp;
            if group.warp == now.warp && group.time == now.time {
                lanes |= entry.lanes;
            }
        }
    }
    let is_over = |write: Entry| now.about(groups, write.group) == About::Over;
    let readers = if two_ctas && !written {
        Readers::Launch(now.launch)
    } else if two_warps && write.is_none_or(|write| is_over_for_cta(&write)) {
        Readers::Cta(now.cta, now.time.epoch)
    } else if lanes.count_ones() > 1 && write.is_none_or(is_over) {
        Readers::Warp(now.cta, now.warp, now.time)
    } else {
        return None;
    };
    Some(Mark::new(readers, site))
}

/// Returns whether a recorded read by another CTA can be removed, because a read by the same
/// instruction in a third CTA is kept. The new read by the current CTA is also kept, so every later
/// write is in a different CTA than at least one of the two kept reads. If only barriers order the
/// threads of a CTA, the same rule applies to reads by three warps of one CTA.
fn is_known_elsewhere(groups: &[Group], now: &Now, read: &Entry, further: &[Entry]) -> bool {
    let of = |entry: &Entry| &groups[entry.group as usize - 1];
    let group = of(read);
    if read.writes || group.strong.is_some() || group.copy.is_some() {
        return false;
    }
    let own = group.cta == now.cta;
    if own && (!now.barriers_only || group.warp == now.warp || group.time.epoch != now.time.epoch) {
        return false;
    }
    further.iter().any(|other| {
        let kept = of(other);
        let elsewhere = match own {
            true => {
                kept.cta == now.cta
                    && kept.time.epoch == now.time.epoch
                    && kept.warp != now.warp
                    && kept.warp != group.warp
            }
            false => kept.cta != now.cta && kept.cta != group.cta,
        };
        elsewhere && kept.site == group.site && read.bytes & !other.bytes == 0
    })
}

/// Records the atomic update `entry` in a cell, unless `Detector::touch` must compare the update
/// with the earlier accesses. Returns false if `Detector::touch` must compare the update. The
/// function is called only for kernels in which barriers are the only operations that order the
/// threads. `cluster_of` returns the cluster of a CTA.
///
/// Atomic updates of the same size do not race with each other. As soon as two unordered updates by
/// one instruction are recorded, no more updates by this instruction are recorded. The two updates
/// must be by different warps of the current CTA with no barrier of the CTA between them, or by
/// CTAs in different clusters. Every later access that races with an unrecorded update also races
/// with one of the two recorded updates, or with a later access that has replaced one of them, as
/// [`enough_writes`] explains.
fn record_update(
    cells: &mut Cells,
    groups: &[Group],
    now: &Now,
    (index, entry): (u64, Entry),
    cluster_of: impl Fn(CtaId) -> u64,
) -> bool {
    cells.unmark(index, 1);
    let (cell, further) = cells.with_further(index);
    let (write, read) = (cell.write(), cell.read());
    if further.len() > MANY {
        return false;
    }
    let own = &groups[entry.group as usize - 1];
    let mut first: Option<&Group> = None;
    let mut enough = false;
    for other in write.iter().chain(&read).chain(further) {
        let group = &groups[other.group as usize - 1];
        if other.bytes & entry.bytes == 0 || now.about(groups, other.group) == About::Over {
            continue;
        }
        let reaches = group.cta == now.cta || own.strong == Some(Scope::Device);
        let alike = (group.launch, group.strong, group.element, group.lock)
            == (now.launch, own.strong, own.element, None);
        if !other.writes || !alike || !reaches || group.copy.is_some() {
            return false;
        }
        if group.site != now.site || entry.bytes & !other.bytes != 0 {
            continue;
        }
        match first {
            Some(first) if first.cta == group.cta => {
                let epoch = (group.cta, group.time.epoch) == (now.cta, now.time.epoch);
                enough |= epoch && first.time.epoch == group.time.epoch && first.warp != group.warp;
            }
            Some(first) => enough |= cluster_of(first.cta) != cluster_of(group.cta),
            None => first = Some(group),
        }
    }
    if enough {
        return true;
    }
    let mut new = entry;
    let mut moved = None;
    if let Some(write) = write {
        let old = &groups[write.group as usize - 1];
        let covered = write.bytes & !entry.bytes == 0 && own.races_like(old);
        if write.key() == entry.key() {
            new.lanes |= write.lanes;
        } else if further.iter().any(|other| other.key() == entry.key()) {
            return false;
        } else if !covered || now.about(groups, write.group) != About::Over {
            moved = Some(write);
        }
    }
    cell.set(new);
    if let Some(moved) = moved {
        cells.add_further(index, moved);
    }
    true
}

impl Detector {
    /// Records the accesses of several lanes of a warp. `first` is the thread of lane 0. `active`
    /// is the mask of the lanes that access memory; each of these lanes accesses `bytes` bytes.
    /// `shape` states the pattern of the addresses, and `address` returns the address of a lane.
    /// Calls `report` for each race with an earlier access. The arguments of `report` are the lane
    /// and the race. If several threads have this race ([`Race::threads`]), the lane is the first
    /// one of them.
    pub fn access_lanes(
        &mut self,
        id: CtaId,
        first: u32,
        (site, access): (Site, Access),
        (active, bytes, shape): (u32, u32, Shape),
        address: impl Fn(u32) -> u64,
        mut report: impl FnMut(u32, Race),
    ) {
        if active == 0 || self.given_up {
            return;
        }
        self.sweep_groups();
        let last = first + 31 - active.leading_zeros();
        let cta = &self.ctas[id as usize];
        let weak = access.strong.is_none() && !access.asynchronous;
        if !(weak || self.is_silent(cta, access))
            || cta.has_locks()
            || cta.has_issues()
            || first / 32 != last / 32
        {
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
        let writes = access.writes;
        let (mut active, mut shape) = (active, shape);
        if !writes {
            let recorded = self.read_scattered(leader, (site, access), (active, bytes), &address);
            if recorded == active {
                return;
            }
            if recorded != 0 {
                (active, shape) = (active & !recorded, Shape::Any);
            }
        }
        let now = self.now(leader, site);
        if writes {
            self.begin_writes(now.launch, (active, bytes, shape), &address);
        }
        let group = self.group(leader, (site, access, None), writes);
        if !weak {
            return self.update_lanes(
                &now,
                (group, access),
                (first, active, bytes),
                address,
                report,
            );
        }
        let lowest = active.trailing_zeros();
        let one = address(lowest);
        if shape == Shape::Uniform && !writes {
            let mask = active << leader.lane();
            let start = (one, bytes);
            if self.record_uniform(&now, (group, mask), start) {
                return;
            }
        }
        let mut left = active;
        if shape == Shape::Adjacent && one.is_multiple_of(4) && bytes.is_multiple_of(4) {
            let lanes = (first + lowest, active.count_ones());
            let what = (group, writes);
            let recorded = self.record_adjacent(&now, what, lanes, (one, bytes), |lane, race| {
                report(lowest + lane, race);
            });
            left &= !(recorded << lowest);
        }
        for lane in lanes(left) {
            let by = Thread {
                cta: id,
                index: first + lane,
            };
            let range = (address(lane), bytes);
            self.record_lane(&now, by, (site, access, group), range, |race| {
                report(lane, race);
            });
        }
        if writes && !self.locations.is_empty() {
            for lane in lanes(active) {
                self.forget_location(address(lane));
            }
        }
    }

    /// Records weak accesses of `count` neighbouring lanes of a warp, beginning with the thread
    /// `first`, in all cells in which the accesses cannot race with earlier accesses (the short
    /// path). Each lane accesses the `bytes` bytes directly after the bytes of the previous lane;
    /// the first lane accesses the address `start`. Returns a bit mask of the lanes whose accesses
    /// are recorded. The arguments of `report` are the same as for [`Detector::access_lanes`]. In
    /// the mask and in the calls of `report`, the first lane has the number 0.
    pub(super) fn record_adjacent(
        &mut self,
        now: &Now,
        (group, writes): (GroupId, bool),
        (first, count): (u32, u32),
        (start, bytes): (u64, u32),
        mut report: impl FnMut(u32, Race),
    ) -> u32 {
        let per = bytes / 4;
        let place = (start / 4, first % 32);
        let (recorded, raced) = self.record_run(now, (group, writes), place, (count, per));
        for (done, writes) in raced {
            let lane = done / per;
            let by = Thread {
                cta: now.cta,
                index: first + lane,
            };
            for write in writes {
                if let Some(entry) = write.entry(0, true) {
                    let race = Race {
                        address: start + u64::from(done) * 4,
                        threads: LINE as u32 / per,
                        ..self.race_of_writes(by, &entry)
                    };
                    report(lane, race);
                }
            }
        }
        recorded
    }

    /// Records a weak access of one thread, on the short path where possible, and calls `report` for
    /// each race. Returns false and records nothing if the access is not weak, if a thread of the CTA
    /// holds a lock, or if a thread of the CTA executes an instruction that starts an asynchronous
    /// operation: the accesses of this instruction are being recorded.
    pub(super) fn access_shortly(
        &mut self,
        by: Thread,
        (site, access): (Site, Access),
        range: (u64, u32),
        report: &mut impl FnMut(Race),
    ) -> bool {
        let cta = &self.ctas[by.cta as usize];
        let weak = access.strong.is_none() && !access.asynchronous;
        if !weak || cta.has_locks() || cta.has_issues() {
            return false;
        }
        if !access.writes {
            let (address, bytes) = range;
            if self.read_scattered(by, (site, access), (1, bytes), |_| address) != 0 {
                return true;
            }
        }
        let now = self.now(by, site);
        let group = self.group(by, (site, access, None), access.writes);
        self.record_lane(&now, by, (site, access, group), range, report);
        true
    }

    /// Records the weak access of a thread to the cells that it overlaps.
    pub(super) fn record_lane(
        &mut self,
        now: &Now,
        by: Thread,
        (site, access, group): (Site, Access, GroupId),
        (start, bytes): (u64, u32),
        mut report: impl FnMut(Race),
    ) {
        let writes = access.writes;
        for (index, mask) in cells_of(start, bytes) {
            let entry = Entry {
                group,
                lanes: 1 << by.lane(),
                bytes: mask,
                writes,
            };
            if record(&mut self.cells, &self.groups, now, index, entry) {
                continue;
            }
            let (cell, further) = self.cells.with_further(index);
            let recorded = cell.write().into_iter().chain(further.iter().copied());
            let cluster_of = |cta: CtaId| self.ctas[cta as usize].cluster;
            let enough = writes
                .then(|| enough_writes(&self.groups, now, entry, recorded, cluster_of))
                .flatten();
            let Some(enough) = enough else {
                self.touch(by, (site, access, None), writes, (index, mask), &mut report);
                continue;
            };
            for write in enough {
                let from = u64::from((write.bytes & mask).trailing_zeros());
                let race = self.race_of_writes(by, &write);
                report(Race {
                    address: index * 4 + from,
                    ..race
                });
            }
        }
    }

    pub(super) fn now(&self, leader: Thread, site: Site) -> Now {
        let cta = &self.ctas[leader.cta as usize];
        Now {
            cta: leader.cta,
            warp: leader.warp(),
            time: cta.time(leader.index),
            common: cta.common_interval(leader.warp()),
            plain: cta.is_plain(),
            barriers_only: cta.barriers_only,
            launch: cta.launch,
            overlapped: self.overlapping.contains(&cta.launch),
            site,
        }
    }

    /// Returns whether an access is an atomic update that orders no other accesses. An atomic
    /// update orders no other accesses if barriers are the only operations that order the threads
    /// of the CTA, and if no other work may overlap the launch.
    fn is_silent(&self, cta: &Cta, access: Access) -> bool {
        access.is_update() && cta.barriers_only && !self.overlapping.contains(&cta.launch)
    }

    /// Records an access of `bytes` bytes at `address` if the access is an atomic update that does
    /// not order other accesses. Returns false for all other accesses. Calls `report` for each race
    /// with an earlier access.
    pub(super) fn update(
        &mut self,
        by: Thread,
        (site, access): (Site, Access),
        (address, bytes): (u64, u32),
        report: &mut impl FnMut(Race),
    ) -> bool {
        let cta = &self.ctas[by.cta as usize];
        if !self.is_silent(cta, access) {
            return false;
        }
        self.begin_write(cta.launch, address, bytes.into());
        let group = self.group(by, (site, access, None), true);
        let now = self.now(by, site);
        let lanes = (by.index, 1, bytes);
        let found = |_, race| report(race);
        self.update_lanes(&now, (group, access), lanes, |_| address, found);
        true
    }

    /// Records the atomic updates of the lanes in the mask `active`. Each lane updates `bytes`
    /// bytes. `first` is the thread of lane 0.
    fn update_lanes(
        &mut self,
        now: &Now,
        (group, access): (GroupId, Access),
        (first, active, bytes): (u32, u32, u32),
        address: impl Fn(u32) -> u64,
        mut report: impl FnMut(u32, Race),
    ) {
        for lane in lanes(active) {
            let by = Thread {
                cta: now.cta,
                index: first + lane,
            };
            for (index, mask) in cells_of(address(lane), bytes) {
                let entry = Entry {
                    group,
                    lanes: 1 << by.lane(),
                    bytes: mask,
                    writes: true,
                };
                let cluster_of = |cta: CtaId| self.ctas[cta as usize].cluster;
                let new = (index, entry);
                if record_update(&mut self.cells, &self.groups, now, new, cluster_of) {
                    continue;
                }
                let part = (now.site, access, None);
                let mut found = |race| report(lane, race);
                self.touch(by, part, true, (index, mask), &mut found);
            }
        }
    }

    fn begin_writes(
        &mut self,
        launch: u32,
        (active, bytes, shape): (u32, u32, Shape),
        address: impl Fn(u32) -> u64,
    ) {
        let each = match shape {
            Shape::Any => active,
            Shape::Uniform | Shape::Adjacent => active & active.wrapping_neg(),
        };
        let count = match shape {
            Shape::Adjacent => active.count_ones(),
            Shape::Any | Shape::Uniform => 1,
        };
        for lane in lanes(each) {
            self.begin_write(launch, address(lane), u64::from(count * bytes));
        }
    }

    /// Records accesses of `count` neighbouring lanes to adjacent cells, in all cells in which the
    /// accesses cannot race with earlier accesses (the short path). Each lane accesses `per` cells;
    /// `index` is the first cell, which `lane` accesses. Returns a bit mask of the lanes whose
    /// accesses are recorded; bit 0 of the mask stands for `lane`. Also returns lines of memory
    /// ([`LINE`] cells). A line is returned if the accesses overwrite the whole line and race in it
    /// only with one or two earlier writes, which the same instruction performed in the same lanes
    /// of other CTAs. For each such line, the result contains the first cell, relative to `index`,
    /// and these earlier writes. The mask does not contain lanes whose accesses may have other
    /// races; the caller records the accesses of these lanes cell by cell.
    fn record_run(
        &mut self,
        now: &Now,
        (group, writes): (GroupId, bool),
        (index, lane): (u64, u32),
        (count, per): (u32, u32),
    ) -> (u32, Vec<(u32, Writes)>) {
        let total = (count * per) as usize;
        let (mut last, mut known) = (NONE, About::Open);
        let mut other = (NONE, About::Open);
        let groups = &self.groups;
        let mut about = |group: GroupId| {
            if group != last {
                if group == other.0 {
                    (last, known, other) = (group, other.1, (last, known));
                } else {
                    other = (last, known);
                    (last, known) = (group, now.about(groups, group));
                }
            }
            known
        };
        let (mut done, mut open) = (0, 0u32);
        let mut raced = Vec::new();
        // Returns the cluster of a group's accesses if they are writes by the same instruction in another CTA.
        let ctas = &self.ctas;
        let races = |group: GroupId| {
            let group = &groups[group as usize - 1];
            now.is_write_elsewhere(group)
                .then(|| ctas[group.cta as usize].cluster)
        };
        let may_race = writes && now.has_unordered_ctas();
        while done < total {
            let first = index + done as u64;
            let before = first as usize % LINE;
            let count = (total - done).min(LINE - before);
            if writes {
                self.cells.unmark(first, count);
            }
            if count == LINE
                && let Some(whole) = Whole::new(group, lane + done as u32 / per, per)
                && let Some(line) = self.cells.line(first)
            {
                if line.record(whole, writes, &mut about) {
                    done += LINE;
                    continue;
                }
                if may_race {
                    let over = |group| now.about(groups, group) == About::Over;
                    let others = line.add_write(whole, over, races);
                    if !others.is_empty() {
                        raced.push((done as u32, others));
                        done += LINE;
                        continue;
                    }
                }
            }
            let marked = match writes || !now.barriers_only {
                true => 0,
                false => self.cells.marked(first, count, |mark| now.is_marked(mark)),
            };
            if marked == u64::MAX >> (64 - count) {
                done += count;
                continue;
            }
            let (cells, lists) = self.cells.run(first, count);
            for (at, cell) in cells.iter_mut().enumerate() {
                let of = done as u32 / per;
                if marked >> at & 1 != 0 {
                    done += 1;
                    continue;
                }
                if !cell.record((group, 1 << (lane + of), writes), lists, &mut about) {
                    open |= 1 << of;
                }
                done += 1;
            }
        }
        let all = u32::MAX >> (32 - count);
        (all & !open, raced)
    }

    /// Returns the race between a thread's weak write and an earlier weak write in another CTA of
    /// the launch. The caller guarantees that no operation orders the threads of the two CTAs
    /// ([`Now::has_unordered_ctas`]).
    fn race_of_writes(&self, by: Thread, write: &Entry) -> Race {
        let group = &self.groups[write.group as usize - 1];
        let cluster = |cta: CtaId| self.ctas[cta as usize].cluster;
        Race {
            earlier: (
                group.site,
                group.cta,
                group.warp * 32 + write.lanes.trailing_zeros(),
            ),
            earlier_writes: true,
            thread: by.index,
            address: 0,
            missing: match cluster(group.cta) == cluster(by.cta) {
                true => Missing::ClusterBarrier,
                false => Missing::GridOrder,
            },
            same_warp: false,
            both_write: true,
            volatile: false,
            reader_lacks_fence: false,
            threads: 1,
        }
    }

    /// Records reads of the same bytes by several lanes. Returns false, without recording all
    /// reads, if the reads must be compared with the earlier accesses of at least one cell.
    fn record_uniform(
        &mut self,
        now: &Now,
        (group, lanes): (GroupId, u32),
        (start, bytes): (u64, u32),
    ) -> bool {
        cells_of(start, bytes).all(|(index, bytes)| {
            if bytes == 15 {
                let (cells, lists) = self.cells.run(index, 1);
                let about = |group| now.about(&self.groups, group);
                if cells[0].record((group, lanes, false), lists, about) {
                    return true;
                }
            }
            let entry = Entry {
                group,
                lanes,
                bytes,
                writes: false,
            };
            record(&mut self.cells, &self.groups, now, index, entry)
        })
    }
}

/// Returns the index of each cell that an access overlaps, and a mask of four bits that states
/// which bytes of the cell are accessed.
pub(super) fn cells_of(address: u64, bytes: u32) -> impl Iterator<Item = (u64, u8)> {
    let end = address + u64::from(bytes);
    (address / 4..end.div_ceil(4)).map(move |index| {
        let from = address.max(index * 4) - index * 4;
        let to = end.min(index * 4 + 4) - index * 4;
        (index, (((1u32 << to) - 1) & !((1u32 << from) - 1)) as u8)
    })
}
