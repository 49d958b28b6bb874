//! A kernel that runs.

use margay_accelsim::Header;

use crate::counters::Counters;
use crate::cycle::Cycle;
use crate::error::Error;
use crate::feed::Feed;
use crate::occupancy::{Occupancy, Resources};
use crate::program::{CtaProgram, Template};
use crate::report::{KernelReport, Totals};

/// A kernel that runs.
pub(crate) struct Kernel {
    /// The number of the launch in the simulation, from 1.
    pub(crate) uid: u64,
    /// The name of its file.
    pub(crate) file: String,
    pub(crate) header: Header,
    pub(crate) occupancy: Occupancy,
    /// The demand of a CTA.
    pub(crate) resources: Resources,
    /// The number of lines in a set of the data cache.
    pub(crate) l1_ways: u32,
    pub(crate) feed: Feed,
    /// The instructions that the placed CTAs have.
    pub(crate) templates: Vec<Template>,
    /// When it was launched.
    pub(crate) launched: Cycle,
    /// When its first CTA can be placed.
    pub(crate) start: Cycle,
    /// The number of CTAs that are placed.
    pub(crate) placed: u64,
    pub(crate) counters: Counters,
}

impl Kernel {
    /// Returns whether CTAs have not been placed yet.
    pub(crate) fn has_ctas(&self) -> bool {
        self.placed < self.header.ctas()
    }

    /// Returns whether all CTAs have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.counters.ctas == self.header.ctas()
    }

    /// Returns the next CTA of the file, which has as many as the grid.
    pub(crate) fn next_cta(&mut self) -> Result<CtaProgram, Error> {
        self.placed += 1;
        match self.feed.next()? {
            Some(program) => Ok(program),
            None => Err(Error::Thread("the file ended early".to_owned())),
        }
    }

    /// Checks that nothing follows the last CTA in the file.
    pub(crate) fn check_end(&mut self) -> Result<(), Error> {
        self.feed.next().map(|_| ())
    }

    /// Returns the result of the kernel, which ended now. The totals contain it.
    pub(crate) fn report(self, now: Cycle, totals: &Totals) -> KernelReport {
        let Header { grid, block, .. } = self.header;
        KernelReport {
            uid: self.uid,
            name: self.header.kernel_name,
            id: self.header.kernel_id,
            file: self.file,
            stream: self.header.stream,
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            launched: self.launched,
            ended: now,
            occupancy: self.occupancy,
            counters: self.counters,
            totals: totals.clone(),
        }
    }
}
