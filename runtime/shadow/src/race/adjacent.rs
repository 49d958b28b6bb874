//! Records *runs* of accesses: weak loads or stores of adjacent addresses by consecutive threads of
//! a CTA. The data that the warps of the CTA share is looked up once for a run.

use super::cell::GroupId;
use super::clock::{CtaId, Thread, Time};
use super::reads::Run;
use super::{Access, Detector, Group, Race, Site};

impl Detector {
    /// Records the accesses of a run, and returns true. Returns false if the caller must record the accesses separately
    /// for each warp instead. Calls `report` for each race with an earlier access. The arguments are the race and its
    /// thread, or its first thread if it is a race of several threads ([`Race::threads`]); threads are counted from the
    /// first thread of the run.
    pub fn adjacent_run(
        &mut self,
        id: CtaId,
        (site, access): (Site, Access),
        run: &Run,
        mut report: impl FnMut(u32, Race),
    ) -> bool {
        if self.given_up {
            return true;
        }
        let cta = &self.ctas[id as usize];
        let (first, last) = (run.first / 32, (run.first + run.threads - 1) / 32);
        // Groups are added for all warps of the CTA, so runs of few warps must not add groups for each interval.
        let many = 2 * (last - first + 1) >= cta.warps() || cta.time(run.first) == Time::FIRST;
        let weak = access.strong.is_none() && !access.asynchronous;
        let adjacent = run.stride == run.bytes
            && run.address.is_multiple_of(4)
            && run.bytes.is_multiple_of(4)
            && run.bytes != 0;
        if !(cta.barriers_only && many && weak && adjacent)
            || cta.has_locks()
            || cta.has_issues()
            || !self.locations.is_empty()
            || !cta.are_at_one_time(first, last)
        {
            return false;
        }
        self.sweep_groups();
        let leader = Thread {
            cta: id,
            index: run.first,
        };
        let mut now = self.now(leader, site);
        if access.writes {
            self.begin_write(now.launch, run.address, run.span());
        }
        let groups = self.groups_of_warps(leader, (site, access));
        let mut done = 0;
        while done < run.threads {
            let thread = run.first + done;
            let count = (run.threads - done).min(32 - thread % 32);
            now.warp = thread / 32;
            self.ctas[id as usize].note_access(thread);
            let group = groups + now.warp;
            let start = run.address + u64::from(done) * u64::from(run.bytes);
            let lanes = (thread, count);
            let place = (start, run.bytes);
            let what = (group, access.writes);
            let recorded = self.record_adjacent(&now, what, lanes, place, |lane, race| {
                report(done + lane, race);
            });
            let all = u32::MAX >> (32 - count);
            for lane in super::cta::lanes(all & !recorded) {
                let by = Thread {
                    cta: id,
                    index: thread + lane,
                };
                let range = (start + u64::from(lane) * u64::from(run.bytes), run.bytes);
                self.record_lane(&now, by, (site, access, group), range, |race| {
                    report(done + lane, race);
                });
            }
            done += count;
        }
        true
    }

    /// Returns the first of several groups with consecutive IDs, one for each warp of a CTA.
    /// Creates these groups if necessary. The groups contain the accesses of an instruction at the
    /// time of the thread `leader`.
    fn groups_of_warps(&mut self, leader: Thread, (site, access): (Site, Access)) -> GroupId {
        let cta = &self.ctas[leader.cta as usize];
        let time = cta.time(leader.index);
        if let Some(known) = cta.run_groups(site)
            && self.groups[known as usize - 1].time == time
        {
            return known;
        }
        let (launch, warps) = (cta.launch, cta.warps());
        let what = (site, access.element.min(u8::MAX.into()) as u8);
        let first = self.add_groups(warps, |warp| {
            Group::of_weak((launch, leader.cta, warp), time, what)
        });
        self.ctas[leader.cta as usize].set_run_groups(site, first);
        first
    }
}
