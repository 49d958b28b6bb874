//! Vector clocks of queues. A clock represents a set of completed work.
//!
//! A program can have tens of thousands of streams, and each stream can depend on all others. Clocks are therefore
//! persistent maps, which share memory.

use margay_shadow::trie::Trie;

/// The work that is complete at a certain time: for each queue, the number of its pieces of work
/// that are complete. The key is the queue's ID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    known: Trie<u64>,
    /// Whether more work may be complete than `known` states, for example because a stream has polled memory.
    is_open: bool,
}

/// A piece of work: its queue and its number in that queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(super) queue: u64,
    pub(super) number: u64,
}

impl Clock {
    /// Adds to this clock all work that `other` contains.
    pub(crate) fn join(&mut self, other: &Clock) {
        self.is_open |= other.is_open;
        self.known.join(&other.known);
    }

    /// Adds to this clock all work that `clocks` contain. This function joins pairs of clocks, then
    /// joins pairs of the results, and so on. This is fast because the clocks of different queues
    /// usually differ little from each other, but differ much from the union of all clocks.
    pub(crate) fn join_all(&mut self, clocks: impl IntoIterator<Item = Clock>) {
        let mut unions: Vec<(u32, Clock)> = Vec::new();
        for clock in clocks {
            let mut last = (0, clock);
            while let Some((_, before)) = unions.pop_if(|(level, _)| *level == last.0) {
                last.0 += 1;
                last.1.join(&before);
            }
            unions.push(last);
        }
        for (_, union) in unions.iter().rev() {
            self.join(union);
        }
    }

    /// Adds the next piece of work of a queue to the clock, and returns this piece.
    pub(crate) fn advance(&mut self, queue: u64) -> Point {
        let number = self.last(queue).number + 1;
        self.known.add(queue, number);
        Point { queue, number }
    }

    /// Returns the last piece of work of a queue that the clock contains.
    pub(crate) fn last(&self, queue: u64) -> Point {
        let number = self.known.get(queue).copied().unwrap_or_default();
        Point { queue, number }
    }

    /// Returns true only if one of the two clocks is a copy of the other.
    pub(super) fn is_same(&self, other: &Clock) -> bool {
        self.known.is_same(&other.known) && self.is_open == other.is_open
    }

    /// Records that more work may be complete than `known` states.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns false only if the piece of work `point` is certainly not complete.
    pub(super) fn covers(&self, point: Point) -> bool {
        let known = self.known.get(point.queue);
        self.is_open || known.is_some_and(|&known| known >= point.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_contain_the_work_of_all_clocks_that_were_joined() {
        const QUEUES: u64 = 300;
        let mut host = Clock::default();
        let clocks: Vec<Clock> = (0..QUEUES)
            .map(|queue| {
                let mut clock = Clock::default();
                let first = clock.advance(queue);
                assert_eq!(first, Point { queue, number: 1 });
                clock.advance(queue);
                clock
            })
            .collect();
        host.join_all(clocks.iter().take(250).cloned());
        for queue in 0..QUEUES {
            let number = if queue < 250 { 2 } else { 0 };
            let last = Point { queue, number };
            assert_eq!(host.last(queue), last);
            assert_eq!(host.covers(last), number > 0);
            assert!(!host.covers(Point { queue, number: 3 }));
        }
        let mut none = host.clone();
        none.join_all([]);
        assert!(none.is_same(&host) && !none.is_same(&clocks[0]));
    }

    #[test]
    fn an_open_clock_covers_everything() {
        let mut clock = Clock::default();
        let point = Point {
            queue: 7,
            number: 1,
        };
        assert!(!clock.covers(point) && !clock.is_open());
        let mut other = Clock::default();
        other.open();
        clock.join(&other);
        assert!(clock.covers(point) && clock.is_open());
    }
}
