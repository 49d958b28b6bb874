//! Times.

/// A number of cycles of the cores' clock since the start of the simulation.
pub(crate) type Cycle = u64;

/// A time that does not come.
pub(crate) const NEVER: Cycle = Cycle::MAX;

/// A resource that serves one request after the other.
///
/// Requests reserve the resource when they are issued, not when they arrive at it. A request that arrives late therefore
/// does not delay later requests that arrive before it: the resource only never serves more than its rate.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Server {
    free: Cycle,
}

impl Server {
    /// Reserves the next `length` cycles from `earliest` on. Returns their start.
    pub(crate) fn reserve(&mut self, earliest: Cycle, length: Cycle) -> Cycle {
        let start = self.free.max(earliest);
        self.free = start + length;
        start
    }

    /// Reserves all cycles before `until`.
    pub(crate) fn block(&mut self, until: Cycle) {
        self.free = self.free.max(until);
    }

    /// Returns the first cycle that is not reserved.
    pub(crate) fn free(&self) -> Cycle {
        self.free
    }
}

/// The last times of a resource that holds a limited number of requests.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    times: Box<[Cycle]>,
    next: usize,
}

impl Window {
    /// Returns a window for `capacity` requests, at least 1.
    pub(crate) fn new(capacity: usize) -> Window {
        Window {
            times: vec![0; capacity.max(1)].into(),
            next: 0,
        }
    }

    /// Returns when there is room for one more request: when the oldest one in the window ends.
    pub(crate) fn room(&self) -> Cycle {
        self.times[self.next]
    }

    /// Adds a request that ends at `end`.
    pub(crate) fn push(&mut self, end: Cycle) {
        self.times[self.next] = end;
        self.next += 1;
        if self.next == self.times.len() {
            self.next = 0;
        }
    }
}
