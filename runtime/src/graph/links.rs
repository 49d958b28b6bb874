//! A list of the incoming edges of a node, or of its outgoing edges.
//!
//! A node can have very many edges, so lookups and removals take constant time on average. A
//! removal does not change the order of the remaining edges.
//!
//! Invariants: no two entries contain the same node. There are at most [`FEW`] more empty entries than other entries.
//! If there are more than [`FEW`] entries, `places` maps each node to its entry.

use rustc_hash::FxHashMap;

/// The edges of a node in the order in which they were added. Each entry contains the node at the
/// other end of the edge, and the data of the edge.
#[derive(Clone)]
pub(super) struct Links<T> {
    /// The entries; `None` for removed edges.
    entries: Vec<Option<(u64, T)>>,
    /// Number of entries that are not empty.
    len: usize,
    /// The indices of the entries, by node.
    places: Option<Box<FxHashMap<u64, usize>>>,
}

/// Maximum number of entries for which a linear search is used instead of the table `places`.
const FEW: usize = 16;

impl<T> Default for Links<T> {
    fn default() -> Links<T> {
        Links {
            entries: Vec::new(),
            len: 0,
            places: None,
        }
    }
}

impl<T: Copy> FromIterator<(u64, T)> for Links<T> {
    fn from_iter<I: IntoIterator<Item = (u64, T)>>(links: I) -> Links<T> {
        let mut all = Links::default();
        for (id, data) in links {
            all.push(id, data);
        }
        all
    }
}

impl<T: Copy> Links<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns, for each edge, the node at the other end and the data of the edge.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, T)> {
        self.entries.iter().filter_map(|entry| *entry)
    }

    /// Returns the data of the edge to a node; `None` if there is no such edge.
    pub(super) fn get(&self, id: u64) -> Option<T> {
        let (_, data) = self.entries[self.place(id)?]?;
        Some(data)
    }

    /// Adds an edge to a node to which there is no edge yet.
    pub(super) fn push(&mut self, id: u64, data: T) {
        if let Some(places) = &mut self.places {
            places.insert(id, self.entries.len());
        }
        self.entries.push(Some((id, data)));
        self.len += 1;
        if self.places.is_none() && self.entries.len() > FEW {
            self.rebuild();
        }
    }

    /// Removes the edge to a node, if there is one.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(place) = self.place(id) else {
            return;
        };
        self.entries[place] = None;
        self.len -= 1;
        if let Some(places) = &mut self.places {
            places.remove(&id);
        }
        if self.entries.len() > 2 * self.len + FEW {
            self.rebuild();
        }
    }

    fn place(&self, id: u64) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(&id).copied(),
            None => {
                let mut entries = self.entries.iter();
                entries.position(|entry| entry.is_some_and(|(known, _)| known == id))
            }
        }
    }

    /// Removes the empty entries, and creates the table of places if there are many entries.
    fn rebuild(&mut self) {
        self.entries.retain(Option::is_some);
        let places = self.iter().enumerate().map(|(at, (id, _))| (id, at));
        self.places = (self.len > FEW).then(|| Box::new(places.collect()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_keep_the_order_of_the_other_edges() {
        for size in [1, FEW, FEW + 1, 10 * FEW] {
            let mut links: Links<u8> = (0..size as u64).map(|id| (id, id as u8)).collect();
            let mut expected: Vec<(u64, u8)> = links.iter().collect();
            // Removes from the middle, so that the empty entries are on both sides of the others.
            while !expected.is_empty() {
                let (id, data) = expected.remove(expected.len() / 2);
                assert_eq!(links.get(id), Some(data));
                links.remove(id);
                links.remove(id);
                assert_eq!(links.get(id), None);
                assert_eq!(links.iter().collect::<Vec<_>>(), expected);
                assert_eq!(links.len, expected.len());
                assert!(links.entries.len() <= 2 * links.len + FEW);
            }
            assert!(links.is_empty());
            links.push(7, 1);
            assert_eq!(links.iter().collect::<Vec<_>>(), [(7, 1)]);
        }
    }
}
