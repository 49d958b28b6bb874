//! Clocks of queues: sets of completed work.
//!
//! A program can have tens of thousands of streams, and each stream can depend on all others. A clock is therefore a
//! persistent binary trie over the queues' IDs (a Patricia trie, as in Okasaki and Gill, "Fast Mergeable Integer Maps",
//! 1998). Clocks that were derived from each other share nodes, a copy costs nothing, and a join visits only the nodes
//! that the two clocks do not share.

use std::sync::Arc;

/// The work that is complete at some point: the number of pieces of work of each queue, by the queue's ID.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    known: Option<Arc<Node>>,
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
    /// Adds all work that `other` contains.
    pub(crate) fn join(&mut self, other: &Clock) {
        self.is_open |= other.is_open;
        let Some(others) = &other.known else {
            return;
        };
        self.known = Some(match &self.known {
            Some(own) => joined(own, others).node,
            None => Arc::clone(others),
        });
    }

    /// Adds all work that `clocks` contain. The clocks are joined in pairs, then the pairs in pairs, and so on: clocks
    /// of many queues differ from each other in little, and from their union in much.
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

    /// Adds the next piece of work of a queue.
    pub(crate) fn advance(&mut self, queue: u64) -> Point {
        let Point { number, .. } = self.last(queue);
        let next = Point {
            queue,
            number: number + 1,
        };
        let leaf = Arc::new(Node::Leaf(next));
        self.known = Some(match &self.known {
            Some(own) => joined(own, &leaf).node,
            None => leaf,
        });
        next
    }

    /// Returns the last piece of work of a queue.
    pub(crate) fn last(&self, queue: u64) -> Point {
        let number = self.number(queue).unwrap_or_default();
        Point { queue, number }
    }

    /// Returns whether two clocks are copies of each other.
    pub(super) fn is_same(&self, other: &Clock) -> bool {
        let nodes = [self, other].map(|clock| clock.known.as_ref().map(Arc::as_ptr));
        nodes[0] == nodes[1] && self.is_open == other.is_open
    }

    /// Records that more work may be complete than `known` states.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns whether a piece of work is, or may be, complete.
    pub(super) fn covers(&self, point: Point) -> bool {
        let known = self.number(point.queue);
        self.is_open || known.is_some_and(|known| known >= point.number)
    }

    /// Returns the number of completed pieces of work of a queue; `None` if none is complete.
    fn number(&self, queue: u64) -> Option<u64> {
        let mut node = self.known.as_deref()?;
        loop {
            match node {
                Node::Leaf(point) => return (point.queue == queue).then_some(point.number),
                Node::Branch(branch) => node = &branch.children[branch.side(queue)],
            }
        }
    }
}

#[derive(Debug)]
enum Node {
    Leaf(Point),
    Branch(Branch),
}

/// An inner node. All queues below it agree in the bits above `bit`, and differ in `bit`.
#[derive(Debug)]
struct Branch {
    /// The ID of any queue below this node.
    queue: u64,
    /// Index of the bit that selects the child.
    bit: u32,
    children: [Arc<Node>; 2],
}

impl Branch {
    /// Returns the index of the child that would contain a queue.
    fn side(&self, queue: u64) -> usize {
        (queue >> self.bit & 1) as usize
    }
}

impl Node {
    /// Returns the ID of any queue below this node.
    fn queue(&self) -> u64 {
        match self {
            Node::Leaf(point) => point.queue,
            Node::Branch(branch) => branch.queue,
        }
    }

    /// Returns how many low bits may differ between the queues below this node.
    fn width(&self) -> u32 {
        match self {
            Node::Leaf(_) => 0,
            Node::Branch(branch) => branch.bit + 1,
        }
    }
}

/// The union of two tries.
struct Union {
    node: Arc<Node>,
    /// For each of the two tries, whether it is equal to the union.
    is: [bool; 2],
}

/// Returns the union of two tries, with the larger number of each queue. If one of them is equal to the union, returns
/// this one. If both are, returns the one with the lower address, so that clocks which are joined with each other soon
/// share their nodes.
fn joined(a: &Arc<Node>, b: &Arc<Node>) -> Union {
    #[cfg(test)]
    tests::VISITS.set(tests::VISITS.get() + 1);
    if Arc::ptr_eq(a, b) {
        return chosen([a, b], [true; 2]);
    }
    let differ = u64::BITS - (a.queue() ^ b.queue()).leading_zeros();
    if differ > a.width().max(b.width()) {
        let node = branch(differ - 1, [a, b].map(Arc::clone));
        return Union {
            node,
            is: [false; 2],
        };
    }
    match (&**a, &**b) {
        (Node::Leaf(one), Node::Leaf(other)) => {
            let (one, other) = (one.number, other.number);
            chosen([a, b], [one >= other, other >= one])
        }
        (Node::Branch(one), Node::Branch(other)) if one.bit == other.bit => {
            let sides = [0, 1].map(|side| joined(&one.children[side], &other.children[side]));
            let is = [0, 1].map(|trie| sides.iter().all(|side| side.is[trie]));
            match is {
                [false, false] => Union {
                    node: branch(one.bit, sides.map(|side| side.node)),
                    is,
                },
                _ => chosen([a, b], is),
            }
        }
        _ if a.width() < b.width() => {
            let Union { node, is } = below(b, a);
            Union {
                node,
                is: [is[1], is[0]],
            }
        }
        _ => below(a, b),
    }
}

/// Returns one of two tries as their union. At least one member of `is` must be true.
fn chosen([a, b]: [&Arc<Node>; 2], is: [bool; 2]) -> Union {
    let first = is[0] && (!is[1] || Arc::as_ptr(a) <= Arc::as_ptr(b));
    Union {
        node: Arc::clone(if first { a } else { b }),
        is,
    }
}

/// Joins `inner` into the child of `outer` to which its queues belong.
fn below(outer: &Arc<Node>, inner: &Arc<Node>) -> Union {
    let Node::Branch(parent) = &**outer else {
        return joined(outer, inner);
    };
    let side = parent.side(inner.queue());
    let child = joined(&parent.children[side], inner);
    if child.is[0] {
        return chosen([outer, inner], [true, false]);
    }
    let mut children = parent.children.clone();
    children[side] = child.node;
    Union {
        node: branch(parent.bit, children),
        is: [false; 2],
    }
}

/// Creates a node with two children, in either order, whose queues differ in `bit`.
fn branch(bit: u32, mut children: [Arc<Node>; 2]) -> Arc<Node> {
    let queue = children[0].queue();
    if queue >> bit & 1 == 1 {
        children.swap(0, 1);
    }
    Arc::new(Node::Branch(Branch {
        queue,
        bit,
        children,
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use rustc_hash::FxHashSet;

    use super::*;

    thread_local! {
        /// Number of pairs of nodes that this thread has joined.
        pub(super) static VISITS: Cell<usize> = const { Cell::new(0) };
    }

    /// Adds the addresses of the nodes of a trie to `nodes`, without visiting nodes that `nodes` contains.
    fn count(node: &Arc<Node>, nodes: &mut FxHashSet<*const Node>) {
        if nodes.insert(Arc::as_ptr(node))
            && let Node::Branch(branch) = &**node
        {
            branch.children.iter().for_each(|child| count(child, nodes));
        }
    }

    fn nodes<'a>(clocks: impl IntoIterator<Item = &'a Clock>) -> usize {
        let mut nodes = FxHashSet::default();
        for known in clocks.into_iter().filter_map(|clock| clock.known.as_ref()) {
            count(known, &mut nodes);
        }
        nodes.len()
    }

    #[test]
    fn joins_and_steps_match_a_table() {
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        let queues: Vec<u64> = (0..40)
            .map(|n| match n % 4 {
                0 => n,
                1 => u64::MAX - n,
                2 => 1 << n,
                _ => n << 20 | 3,
            })
            .collect();
        let mut clocks: Vec<(Clock, HashMap<u64, u64>)> = vec![Default::default(); 12];
        for _ in 0..4000 {
            let (to, from) = (next(12) as usize, next(12) as usize);
            if next(3) == 0 {
                let (clock, table) = clocks[from].clone();
                clocks[to].0.join(&clock);
                for (queue, number) in table {
                    let own = clocks[to].1.entry(queue).or_default();
                    *own = number.max(*own);
                }
            } else {
                let queue = queues[next(40) as usize];
                let (clock, table) = &mut clocks[to];
                let number = table.entry(queue).or_default();
                *number += 1;
                let number = *number;
                assert_eq!(clock.advance(queue), Point { queue, number });
            }
            if next(50) == 0 {
                clocks[to] = Default::default();
            }
            let (clock, table) = &clocks[to];
            for &queue in &queues {
                let number = table.get(&queue).copied().unwrap_or_default();
                assert_eq!(clock.last(queue), Point { queue, number });
                let after = Point {
                    queue,
                    number: number + 1,
                };
                assert!(!clock.covers(after));
                assert_eq!(clock.covers(Point { queue, number }), number > 0);
            }
        }
    }

    // Regression test: each join visited all nodes, because every clock shared nodes with an older clock of the host
    // and none with the union.
    #[test]
    fn many_clocks_are_joined_in_pairs() {
        const QUEUES: u64 = 3000;
        let mut host = Clock::default();
        host.join_all((0..QUEUES).map(|queue| {
            let mut clock = Clock::default();
            clock.advance(queue);
            clock
        }));
        let clocks: Vec<Clock> = (0..QUEUES)
            .map(|queue| {
                let mut clock = host.clone();
                clock.advance(queue);
                clock
            })
            .collect();
        let mut all = host.clone();
        let before = VISITS.get();
        all.join_all(clocks.iter().cloned());
        let visits = VISITS.get() - before;
        assert!(visits < 60 * QUEUES as usize, "{visits} visits");
        for queue in 0..QUEUES {
            assert_eq!(all.last(queue), Point { queue, number: 2 });
        }
        let mut none = host.clone();
        none.join_all([]);
        assert!(none.is_same(&host) && !all.is_same(&host));
        // Two clocks that were built in different ways share all nodes after each has been joined with the other.
        let mut built = Clock::default();
        for clock in &clocks {
            built.join(clock);
        }
        built.join(&all);
        all.join(&built);
        assert!(all.is_same(&built));
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

    // Regression test: the clocks of 20,000 streams that waited for each other occupied 21 GB.
    #[test]
    fn clocks_of_queues_that_wait_for_each_other_share_their_nodes() {
        const QUEUES: u64 = 2000;
        let mut clocks: Vec<Clock> = Vec::new();
        let mut host = Clock::default();
        for queue in 0..QUEUES {
            let mut clock = clocks.last().cloned().unwrap_or_default();
            clock.join(&host);
            clock.advance(queue * 3);
            if queue % 100 == 0 {
                host.join(&clock);
            }
            clocks.push(clock);
        }
        let all = nodes(clocks.iter().chain([&host]));
        assert!(all < 14 * QUEUES as usize, "{all} nodes");
        // The last clock contains the clock of the host, so a join returns it unchanged.
        let mut last = clocks.pop().expect("a clock");
        let before = last.known.clone().expect("work");
        last.join(&host);
        let after = last.known.clone().expect("work");
        assert!(Arc::ptr_eq(&before, &after));
        host.join(&last);
        assert!(Arc::ptr_eq(host.known.as_ref().expect("work"), &before));
    }
}
