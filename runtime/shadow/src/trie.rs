//! Maps whose copies share nodes. The keys have 64 bits, and two values can be joined, like
//! components of vector clocks.
//!
//! A map is a binary trie over the bits of the keys (a Patricia trie, as in Okasaki and Gill, "Fast Mergeable Integer
//! Maps", 1998). Maps that were derived from each other share nodes. A copy therefore takes
//! constant time, and a join visits only the nodes that the two maps do not share.

use std::sync::Arc;

/// The type of the values of a [`Trie`].
pub trait Value: Clone {
    /// Returns the join of two values, and states for each of the two values whether it is equal to
    /// the join.
    fn join(&self, other: &Self) -> (Self, [bool; 2]);

    /// Returns the contribution of the value to [`Trie::weight`].
    fn weight(&self) -> u64;
}

impl Value for u64 {
    fn join(&self, other: &u64) -> (u64, [bool; 2]) {
        (*self.max(other), [self >= other, other >= self])
    }

    fn weight(&self) -> u64 {
        1
    }
}

impl Value for u32 {
    fn join(&self, other: &u32) -> (u32, [bool; 2]) {
        (*self.max(other), [self >= other, other >= self])
    }

    fn weight(&self) -> u64 {
        1
    }
}

/// A map from keys to values.
#[derive(Clone, Debug)]
pub struct Trie<V>(Option<Arc<Node<V>>>);

impl<V> Default for Trie<V> {
    fn default() -> Trie<V> {
        Trie(None)
    }
}

impl<V: Value> Trie<V> {
    /// Returns whether the map has no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the sum of the weights of all values.
    pub fn weight(&self) -> u64 {
        self.0.as_ref().map_or(0, |node| node.weight())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: u64) -> Option<&V> {
        let mut node = self.0.as_deref()?;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf.0 == key).then_some(&leaf.1),
                Node::Branch(branch) => node = &branch.children[branch.side(key)],
            }
        }
    }

    /// Replaces the value of a key by the join of this value and `value`. Inserts the value if the
    /// map does not have the key.
    pub fn add(&mut self, key: u64, value: V) {
        let known = self.get(key).map(|known| known.join(&value));
        let value = match known {
            Some((_, [true, _])) => return,
            Some((joined, _)) => joined,
            None => value,
        };
        match &mut self.0 {
            Some(node) => set(node, key, value),
            root => *root = Some(leaf(key, value)),
        }
    }

    /// Adds all keys of another map to this map. The value of a key that both maps contain becomes
    /// the join of its two values.
    pub fn join(&mut self, other: &Trie<V>) {
        let Some(others) = &other.0 else {
            return;
        };
        self.0 = Some(match &self.0 {
            Some(own) => joined(own, others).node,
            None => Arc::clone(others),
        });
    }

    /// Removes all keys that agree with `key` in bit `low` and in all higher bits.
    pub fn remove_all(&mut self, key: u64, low: u32) {
        if let Some(node) = &self.0 {
            self.0 = without(node, key, low);
        }
    }

    /// Returns whether the two maps share their root node, and are therefore equal.
    pub fn is_same(&self, other: &Trie<V>) -> bool {
        let nodes = [self, other].map(|map| map.0.as_ref().map(Arc::as_ptr));
        nodes[0] == nodes[1]
    }
}

#[derive(Clone, Debug)]
enum Node<V> {
    Leaf((u64, V)),
    Branch(Branch<V>),
}

/// An inner node. All keys below this node agree in the bits above `bit`. The keys below the first
/// child differ from the keys below the second child in `bit`.
#[derive(Clone, Debug)]
struct Branch<V> {
    /// One of the keys below this node; it does not matter which one.
    key: u64,
    /// Index of the bit that selects the child.
    bit: u32,
    /// The sum of the weights of all values below this node.
    weight: u64,
    children: [Arc<Node<V>>; 2],
}

impl<V> Branch<V> {
    /// Returns the index of the child that would contain a key.
    fn side(&self, key: u64) -> usize {
        (key >> self.bit & 1) as usize
    }
}

impl<V: Value> Node<V> {
    /// Returns one of the keys below this node; it does not matter which one.
    fn key(&self) -> u64 {
        match self {
            Node::Leaf(leaf) => leaf.0,
            Node::Branch(branch) => branch.key,
        }
    }

    /// Returns the number of low bits in which the keys below this node may differ.
    fn width(&self) -> u32 {
        match self {
            Node::Leaf(_) => 0,
            Node::Branch(branch) => branch.bit + 1,
        }
    }

    fn weight(&self) -> u64 {
        match self {
            Node::Leaf(leaf) => leaf.1.weight(),
            Node::Branch(branch) => branch.weight,
        }
    }
}

/// Returns the number of low bits outside which two keys are equal.
fn differing(a: u64, b: u64) -> u32 {
    u64::BITS - (a ^ b).leading_zeros()
}

fn leaf<V>(key: u64, value: V) -> Arc<Node<V>> {
    Arc::new(Node::Leaf((key, value)))
}

/// Creates a node with two children, in either order, whose keys differ in `bit`.
fn branch<V: Value>(bit: u32, mut children: [Arc<Node<V>>; 2]) -> Arc<Node<V>> {
    let key = children[0].key();
    if key >> bit & 1 == 1 {
        children.swap(0, 1);
    }
    let weight = children.iter().map(|child| child.weight()).sum();
    Arc::new(Node::Branch(Branch {
        key,
        bit,
        weight,
        children,
    }))
}

/// Sets the value of a key. Modifies nodes in place, except that nodes which other maps share are
/// copied.
fn set<V: Value>(node: &mut Arc<Node<V>>, key: u64, value: V) {
    let differ = differing(node.key(), key);
    if differ > node.width() {
        *node = branch(differ - 1, [Arc::clone(node), leaf(key, value)]);
        return;
    }
    match Arc::make_mut(node) {
        Node::Leaf(own) => own.1 = value,
        Node::Branch(own) => {
            let side = own.side(key);
            set(&mut own.children[side], key, value);
            own.weight = own.children.iter().map(|child| child.weight()).sum();
        }
    }
}

/// Returns the part of a map whose keys differ from `key` in bit `low` or in a higher bit.
fn without<V: Value>(node: &Arc<Node<V>>, key: u64, low: u32) -> Option<Arc<Node<V>>> {
    let differ = differing(node.key(), key);
    if differ > node.width().max(low) {
        return Some(Arc::clone(node));
    }
    match &**node {
        Node::Branch(own) if own.bit >= low => {
            let side = own.side(key);
            let other = &own.children[1 - side];
            Some(match without(&own.children[side], key, low) {
                None => Arc::clone(other),
                Some(child) if Arc::ptr_eq(&child, &own.children[side]) => Arc::clone(node),
                Some(child) => branch(own.bit, [child, Arc::clone(other)]),
            })
        }
        _ => None,
    }
}

/// The join of two maps: it contains the keys of both, and joins the two values of each common key.
struct Union<V> {
    node: Arc<Node<V>>,
    /// For each of the two maps, whether it is equal to the join.
    is: [bool; 2],
}

/// Joins two maps. If one of the maps is equal to the join, returns this map. If both maps are
/// equal to the join, returns the map with the lower address; maps that are repeatedly joined with
/// each other therefore soon share their nodes.
fn joined<V: Value>(a: &Arc<Node<V>>, b: &Arc<Node<V>>) -> Union<V> {
    #[cfg(test)]
    tests::VISITS.set(tests::VISITS.get() + 1);
    if Arc::ptr_eq(a, b) {
        return chosen([a, b], [true; 2]);
    }
    let differ = differing(a.key(), b.key());
    if differ > a.width().max(b.width()) {
        let node = branch(differ - 1, [a, b].map(Arc::clone));
        return Union {
            node,
            is: [false; 2],
        };
    }
    match (&**a, &**b) {
        (Node::Leaf(one), Node::Leaf(other)) => match one.1.join(&other.1) {
            (value, is @ [false, false]) => Union {
                node: leaf(one.0, value),
                is,
            },
            (_, is) => chosen([a, b], is),
        },
        (Node::Branch(one), Node::Branch(other)) if one.bit == other.bit => {
            let sides = [0, 1].map(|side| joined(&one.children[side], &other.children[side]));
            let is = [0, 1].map(|map| sides.iter().all(|side| side.is[map]));
            match is {
                [false, false] => Union {
                    node: branch(one.bit, sides.map(|side| side.node)),
                    is,
                },
                _ => chosen([a, b], is),
            }
        }
        (Node::Branch(outer), _) if a.width() > b.width() => below((a, outer), b),
        (_, Node::Branch(outer)) => {
            let Union { node, is } = below((b, outer), a);
            Union {
                node,
                is: [is[1], is[0]],
            }
        }
        // Two nodes of equal width are of the same kind.
        _ => chosen([a, b], [true, false]),
    }
}

/// Returns the join of two maps. At least one of the maps is equal to the join, and `is` states
/// which of the maps are equal to it.
fn chosen<V>([a, b]: [&Arc<Node<V>>; 2], is: [bool; 2]) -> Union<V> {
    let first = is[0] && (!is[1] || Arc::as_ptr(a) <= Arc::as_ptr(b));
    Union {
        node: Arc::clone(if first { a } else { b }),
        is,
    }
}

/// Returns the join of the maps `outer` and `inner`: joins `inner` with the child of `outer` that
/// must contain the keys of `inner`.
fn below<V: Value>((outer, parent): (&Arc<Node<V>>, &Branch<V>), inner: &Arc<Node<V>>) -> Union<V> {
    let side = parent.side(inner.key());
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

    /// Adds the addresses of all nodes of a map to `nodes`. Does not visit nodes that `nodes`
    /// already contains.
    fn count(node: &Arc<Node<u64>>, nodes: &mut FxHashSet<*const Node<u64>>) {
        if nodes.insert(Arc::as_ptr(node))
            && let Node::Branch(branch) = &**node
        {
            branch.children.iter().for_each(|child| count(child, nodes));
        }
    }

    /// Returns a function that computes pseudo-random numbers below a bound.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 1u64;
        move |below| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        }
    }

    /// Returns keys that differ in low bits, keys that differ in high bits, and keys that differ in
    /// a single bit.
    fn keys() -> Vec<u64> {
        let key = |n: u64| match n % 4 {
            0 => n,
            1 => u64::MAX - n,
            2 => 1 << n,
            _ => n << 20 | 3,
        };
        (0..40).map(key).collect()
    }

    #[test]
    fn maps_match_a_table() {
        let mut next = numbers();
        let keys = keys();
        let mut maps: Vec<(Trie<u64>, HashMap<u64, u64>)> = vec![Default::default(); 12];
        for _ in 0..6000 {
            let (to, from) = (next(12) as usize, next(12) as usize);
            match next(8) {
                0..2 => {
                    let (map, table) = maps[from].clone();
                    maps[to].0.join(&map);
                    for (key, value) in table {
                        let own = maps[to].1.entry(key).or_default();
                        *own = value.max(*own);
                    }
                }
                2 => maps[to] = maps[from].clone(),
                3 => {
                    let (key, low) = (keys[next(40) as usize], next(64) as u32);
                    let (map, table) = &mut maps[to];
                    map.remove_all(key, low);
                    table.retain(|other, _| other >> low != key >> low);
                }
                _ => {
                    let (key, value) = (keys[next(40) as usize], next(9));
                    let (map, table) = &mut maps[to];
                    map.add(key, value);
                    let own = table.entry(key).or_default();
                    *own = value.max(*own);
                }
            }
            for (map, table) in &maps {
                let all = keys.iter().map(|&key| map.get(key).copied());
                assert!(all.eq(keys.iter().map(|key| table.get(key).copied())));
                assert_eq!(map.weight(), table.len() as u64);
                assert_eq!(map.is_empty(), table.is_empty());
            }
        }
    }

    // Regression test: each join visited all nodes, because every clock shared nodes with an older map and none with
    // the union.
    #[test]
    fn joins_visit_only_nodes_that_are_not_shared() {
        const KEYS: u64 = 2000;
        let mut maps: Vec<Trie<u64>> = Vec::new();
        for key in 0..KEYS {
            let mut map = maps.last().cloned().unwrap_or_default();
            map.add(key * 3, 1);
            maps.push(map);
        }
        let mut nodes = FxHashSet::default();
        for map in &maps {
            count(map.0.as_ref().expect("keys"), &mut nodes);
        }
        assert!(nodes.len() < 14 * KEYS as usize, "{} nodes", nodes.len());
        let before = VISITS.get();
        for pair in maps.windows(2) {
            let mut older = pair[0].clone();
            older.join(&pair[1]);
            assert!(older.is_same(&pair[1]));
        }
        let visits = VISITS.get() - before;
        assert!(visits < 40 * KEYS as usize, "{visits} visits");
    }

    #[test]
    fn equal_maps_share_their_nodes_after_joins() {
        let mut maps = [Trie::<u64>::default(), Trie::default()];
        for key in 0..100 {
            maps[0].add(key, 5);
            maps[1].add(99 - key, 5);
        }
        let [mut one, mut other] = maps;
        assert!(!one.is_same(&other));
        one.join(&other);
        other.join(&one);
        assert!(one.is_same(&other));
    }
}
