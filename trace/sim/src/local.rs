//! Where the local memory of threads is.
//!
//! A trace has addresses in the local memory of each thread. The simulator places the same word of all threads that can be
//! resident next to each other, so that a warp whose lanes access the same word accesses one line.

use crate::config::Config;

/// The first line of local memory in the address space of the simulator.
const FIRST_LINE: u64 = 0x1f88_0000 / 128;

/// The number of lanes whose words fill a line.
const LANES: u64 = 32;

/// The local memory of the threads of a core.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct LocalMemory {
    core: u64,
    cores: u64,
    /// The number of warps of a CTA.
    warps: u64,
    /// The number of lines between a word and the next one of the same thread.
    stride: u64,
}

/// The lines of the local memory of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalLines {
    first: u64,
    stride: u64,
}

impl LocalMemory {
    /// Returns the local memory of a core that holds at most this number of CTAs, each with this number of threads.
    pub(crate) fn new(config: &Config, core: usize, threads: u64, ctas: u64) -> LocalMemory {
        let cores = u64::from(config.cores());
        let warps = threads.div_ceil(LANES).max(1);
        LocalMemory {
            core: core as u64,
            cores,
            warps,
            stride: warps.saturating_mul(ctas).saturating_mul(cores),
        }
    }

    /// Returns the lines of the warp in a slot.
    pub(crate) fn lines(&self, slot: usize) -> LocalLines {
        let warps = self.warps.max(1);
        let (cta, warp) = (slot as u64 / warps, slot as u64 % warps);
        LocalLines {
            first: FIRST_LINE + (self.core + self.cores * cta) * self.warps + warp,
            stride: self.stride,
        }
    }
}

impl LocalLines {
    /// Returns the line of a word.
    pub(crate) fn line(self, word: u64) -> u64 {
        self.first.wrapping_add(word.wrapping_mul(self.stride))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_resident_threads_are_adjacent() {
        let config = Config::builtin("qv100").unwrap();
        // 3 warps in a CTA, 2 CTAs in each of 80 cores.
        let memory = LocalMemory::new(&config, 5, 70, 2);
        let line = |slot, word| memory.lines(slot).line(word) - FIRST_LINE;
        assert_eq!(line(0, 0), 5 * 3);
        assert_eq!(line(2, 0), 5 * 3 + 2);
        assert_eq!(line(3, 0), (80 + 5) * 3);
        assert_eq!(line(0, 1), 480 + 5 * 3);
    }
}
