//! The barriers of a CTA, which have the numbers 0 to 15 (PTX ISA 9.7.13.1; `docs/semantics.md`,
//! "Barriers and the grid").
//!
//! A barrier counts arrivals of whole warps. A warp has arrived when all its lanes that have not exited have executed a
//! barrier instruction with the same barrier number; the instructions of these lanes may differ.
//! Invariant: after a barrier completes, no lane counts as arrived at this barrier.

use margay_ops::mods::Mode;

/// The number of barriers of a CTA.
pub const BARRIERS: usize = 16;

/// The state of one barrier of a CTA.
#[derive(Clone, Debug, Default)]
pub struct Barrier {
    /// For each warp, the mask of the lanes that have arrived.
    arrived: Vec<u32>,
    /// For each warp, the mask of the lanes that have arrived and wait. Lanes that execute `bar.arrive` do not wait.
    waiting: Vec<u32>,
    /// The largest thread count in the barrier instructions that the arrived lanes executed; 0 means all threads.
    count: u32,
    /// Whether any thread has arrived since the barrier last completed.
    active: bool,
    /// Whether any arrived lane executed a reduction (`bar.red`).
    reduces: bool,
}

impl Barrier {
    /// Records that the lanes `lanes` of the warp with index `warp` have arrived with a barrier instruction of mode
    /// `mode`. `warps` is the number of warps of the CTA. `count` is the thread count of the instruction; 0 means all
    /// threads.
    pub fn arrive(&mut self, warps: usize, warp: usize, lanes: u32, count: u32, mode: Mode) {
        if self.arrived.len() != warps {
            self.arrived = vec![0; warps];
            self.waiting = vec![0; warps];
        }
        self.active = true;
        self.count = self.count.max(count);
        self.arrived[warp] |= lanes;
        self.reduces |= mode == Mode::Red;
        if mode != Mode::Arrive {
            self.waiting[warp] |= lanes;
        }
    }

    /// Returns whether the barrier is complete. `alive` returns the lanes of a warp that have not exited.
    pub fn is_complete(&self, alive: impl Fn(usize) -> u32) -> bool {
        if !self.active {
            return false;
        }
        let mut arrived = 0;
        let mut missing = 0;
        for (warp, &lanes) in self.arrived.iter().enumerate() {
            let alive = alive(warp);
            if lanes != 0 && lanes & alive == alive {
                arrived += 1;
            } else if alive != 0 {
                missing += 1;
            }
        }
        match self.count {
            0 => missing == 0,
            count => arrived * 32 >= count,
        }
    }

    /// Completes the barrier. Returns two values: the lanes of each warp that waited at the
    /// barrier, and whether any arrived lane executed a reduction.
    pub fn complete(&mut self) -> (Vec<u32>, bool) {
        self.active = false;
        let reduces = std::mem::take(&mut self.reduces);
        self.count = 0;
        self.arrived.fill(0);
        let released = self.waiting.clone();
        self.waiting.fill(0);
        (released, reduces)
    }

    /// Returns whether no arrived lane has specified a thread count, so that the barrier waits for all threads of the
    /// CTA.
    pub fn waits_for_all(&self) -> bool {
        self.count == 0
    }

    /// Returns whether the barrier waits for all threads of a CTA of `threads` threads: the arrived lanes specified no
    /// thread count, or a count of at least `threads`.
    pub fn expects(&self, threads: u32) -> bool {
        self.count == 0 || self.count >= threads
    }

    /// Returns whether any thread has arrived since the barrier last completed.
    pub fn is_active(&self) -> bool {
        self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_barrier_completes_when_a_warp_has_exited_lanes() {
        // The test executes `bar.sync 1, 64` in two warps. 12 lanes of the second warp have exited.
        let alive = |warp: usize| if warp == 0 { u32::MAX } else { 0x000f_ffff };
        let mut barrier = Barrier::default();
        barrier.arrive(2, 0, u32::MAX, 64, Mode::Sync);
        assert!(!barrier.is_complete(alive));
        barrier.arrive(2, 1, 0x000f_ffff, 64, Mode::Sync);
        assert!(barrier.is_complete(alive));
        assert_eq!(barrier.complete().0, vec![u32::MAX, 0x000f_ffff]);
        assert!(!barrier.is_complete(alive));
    }

    #[test]
    fn arrival_of_producers_releases_only_those_that_wait() {
        let mut barrier = Barrier::default();
        barrier.arrive(2, 0, u32::MAX, 64, Mode::Arrive);
        barrier.arrive(2, 1, u32::MAX, 64, Mode::Sync);
        assert!(barrier.is_complete(|_| u32::MAX));
        assert_eq!(barrier.complete().0, vec![0, u32::MAX]);
    }

    #[test]
    fn all_thread_barrier_ignores_exited_warps() {
        let mut barrier = Barrier::default();
        barrier.arrive(2, 1, u32::MAX, 0, Mode::Sync);
        assert!(!barrier.is_complete(|_| u32::MAX));
        assert!(barrier.is_complete(|warp| if warp == 0 { 0 } else { u32::MAX }));
    }
}
