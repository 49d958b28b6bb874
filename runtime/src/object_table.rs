//! Tables of the objects of the process, such as modules, by ID or handle.

use std::hash::Hash;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// A map from keys to objects. The references are weak, so an object is freed even if the table
/// contains it.
pub(crate) struct Table<K, T>(LazyLock<RwLock<FxHashMap<K, Weak<T>>>>);

impl<K: Eq + Hash, T> Table<K, T> {
    pub(crate) const fn new() -> Table<K, T> {
        Table(LazyLock::new(RwLock::default))
    }

    pub(crate) fn add(&self, key: K, object: Weak<T>) {
        self.0.write().insert(key, object);
    }

    pub(crate) fn remove(&self, key: &K) {
        self.0.write().remove(key);
    }

    pub(crate) fn get(&self, key: &K) -> Option<Arc<T>> {
        self.0.read().get(key)?.upgrade()
    }
}
