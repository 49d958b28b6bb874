//! A warp: where it is in its instructions, and what it waits for.

use std::collections::VecDeque;

use crate::cycle::Cycle;
use crate::program::Template;

/// The number of copy groups that a warp remembers one by one.
const GROUPS: usize = 256;

/// A warp that is resident in a core.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    /// The slot of its CTA in the core.
    pub(crate) cta: usize,
    /// Its number in the CTA.
    pub(crate) number: u32,
    /// Where its next record is in the program of the CTA.
    pub(crate) cursor: usize,
    /// Where its first record is.
    pub(crate) begin: usize,
    /// Where its records end.
    pub(crate) end: usize,
    /// Whether it waits at a barrier.
    pub(crate) is_at_barrier: bool,
    /// When it can go on behind the barrier.
    pub(crate) resume: Cycle,
    /// When all that it issued is done.
    pub(crate) done: Cycle,
    /// When all its accesses to memory are done.
    pub(crate) accesses: Cycle,
    /// The registers that are not written yet, with the time when they are.
    pending: Vec<(u32, Cycle)>,
    copies: Copies,
}

/// The groups of asynchronous copies of a warp.
#[derive(Debug, Default)]
struct Copies {
    /// When the copies since the last commit are done.
    open: Cycle,
    /// When the youngest groups and all before them are done.
    groups: VecDeque<Cycle>,
    /// When all older groups are done.
    older: Cycle,
}

impl Warp {
    /// Makes the warp ready for these records of a CTA. It keeps its memory.
    pub(crate) fn restart(
        &mut self,
        cta: usize,
        number: u32,
        records: std::ops::Range<usize>,
        now: Cycle,
    ) {
        self.cta = cta;
        self.number = number;
        (self.cursor, self.begin, self.end) = (records.start, records.start, records.end);
        self.is_at_barrier = false;
        (self.done, self.accesses) = (now, now);
        self.pending.clear();
        self.copies.open = 0;
        self.copies.older = 0;
        self.copies.groups.clear();
    }

    /// Returns whether all instructions have been issued.
    pub(crate) fn is_finished(&self) -> bool {
        self.cursor >= self.end
    }

    /// Returns when no register of an instruction is pending. Forgets what has been written by now.
    pub(crate) fn registers_ready(&mut self, template: &Template, now: Cycle) -> Cycle {
        let registers = template.registers();
        let mut ready = now;
        let mut index = 0;
        while let Some(&(register, time)) = self.pending.get(index) {
            if time <= now {
                self.pending.swap_remove(index);
                continue;
            }
            if registers.contains(&register) {
                ready = ready.max(time);
            }
            index += 1;
        }
        ready
    }

    /// Returns when all registers are written.
    pub(crate) fn registers_written(&self) -> Cycle {
        let times = self.pending.iter().map(|(_, time)| *time);
        times.max().unwrap_or(0)
    }

    /// Notes that an instruction, whose registers were ready, writes its destination at a time.
    pub(crate) fn write(&mut self, template: &Template, time: Cycle) {
        if template.has_destination {
            self.pending.push((template.registers[0], time));
        }
        self.done = self.done.max(time);
    }

    /// Notes that an asynchronous copy is done at a time.
    pub(crate) fn copy(&mut self, time: Cycle) {
        self.copies.open = self.copies.open.max(time);
    }

    /// Ends the group of the copies since the last commit.
    pub(crate) fn commit_copies(&mut self) {
        let copies = &mut self.copies;
        let last = copies.groups.back().copied().unwrap_or(copies.older);
        copies.groups.push_back(last.max(copies.open));
        copies.open = 0;
        if copies.groups.len() > GROUPS {
            copies.older = copies.groups.pop_front().unwrap_or(copies.older);
        }
    }

    /// Returns when all groups but this number of the youngest ones are done.
    pub(crate) fn copies_done(&self, open: u32) -> Cycle {
        let groups = &self.copies.groups;
        let closed = groups.len().checked_sub(open as usize);
        let last = closed.and_then(|closed| closed.checked_sub(1));
        last.map_or(self.copies.older, |last| groups[last])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_wait_for_all_but_the_youngest_groups() {
        let mut warp = Warp::default();
        assert_eq!(warp.copies_done(0), 0);
        for time in [100, 50, 300] {
            warp.copy(time);
            warp.commit_copies();
        }
        warp.copy(1000);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|open| warp.copies_done(open)),
            [300, 100, 100, 0, 0]
        );
    }
}
