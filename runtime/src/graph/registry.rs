//! Tables of graphs, nodes and conditional handles by number.
//!
//! Numbers are unique in the process. The destructor of an object removes its entry, so destroyed objects are not
//! found.

use std::hash::Hash;
use std::sync::{LazyLock, Weak};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::Inner;
use super::conditional::ConditionalHandle;

/// Objects by number. The references are weak, so that the table keeps no object alive.
pub(crate) struct Table<K, T>(LazyLock<RwLock<FxHashMap<K, Weak<T>>>>);

impl<K: Eq + Hash, T> Table<K, T> {
    const fn new() -> Table<K, T> {
        Table(LazyLock::new(RwLock::default))
    }

    pub(crate) fn add(&self, key: K, object: Weak<T>) {
        self.0.write().insert(key, object);
    }

    pub(crate) fn remove(&self, key: &K) {
        self.0.write().remove(key);
    }

    pub(crate) fn get(&self, key: &K) -> Option<std::sync::Arc<T>> {
        self.0.read().get(key)?.upgrade()
    }
}

/// Graphs by their number.
pub(crate) static GRAPHS: Table<u64, Inner> = Table::new();
/// The graph of a node, by the node's number.
pub(crate) static NODES: Table<u64, Inner> = Table::new();
/// Conditional handles by their number.
pub(crate) static CONDITIONALS: Table<u64, ConditionalHandle> = Table::new();
