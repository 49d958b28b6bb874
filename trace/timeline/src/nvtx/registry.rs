//! What a program names through NVTX: domains, strings, categories, and the ranges that are open.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::event::category;
use crate::text::bounded;

/// The number of entries of each kind. What a program names beyond it has no name.
const MAX_ENTRIES: usize = 1 << 18;

/// The names that a program gives. Handles are numbers from 1, which the C interface returns as pointers; 0 is the
/// default domain.
#[derive(Debug, Default)]
pub struct Registry {
    last: AtomicU64,
    domains: Mutex<FxHashMap<u64, Arc<str>>>,
    strings: Mutex<FxHashMap<u64, Arc<str>>>,
    categories: Mutex<FxHashMap<(u64, u32), Arc<str>>>,
    ranges: Mutex<FxHashMap<u64, OpenRange>>,
}

/// A range that has begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenRange {
    /// The name of the domain.
    pub domain: Arc<str>,
    /// The name of the range.
    pub name: Arc<str>,
}

impl Registry {
    /// Creates a domain and returns its handle. Domains of the same name are the same domain.
    pub fn create_domain(&self, name: &str) -> u64 {
        let mut domains = self.domains.lock();
        if let Some((handle, _)) = domains.iter().find(|(_, known)| ***known == *name) {
            return *handle;
        }
        let handle = self.handle();
        insert(&mut domains, handle, shared(name));
        handle
    }

    /// Returns the name of a domain: the category of its events. Unknown handles are in the default domain.
    pub fn domain(&self, handle: u64) -> Arc<str> {
        let known = self.domains.lock().get(&handle).cloned();
        known.unwrap_or_else(|| category::NVTX.into())
    }

    /// Registers a string of a domain and returns its handle.
    pub fn register_string(&self, text: &str) -> u64 {
        let handle = self.handle();
        insert(&mut self.strings.lock(), handle, shared(text));
        handle
    }

    /// Returns a registered string.
    pub fn string(&self, handle: u64) -> Option<Arc<str>> {
        self.strings.lock().get(&handle).cloned()
    }

    /// Names a category of a domain.
    pub fn name_category(&self, domain: u64, category: u32, name: &str) {
        insert(
            &mut self.categories.lock(),
            (domain, category),
            shared(name),
        );
    }

    /// Returns the name of a category.
    pub fn category(&self, domain: u64, category: u32) -> Option<Arc<str>> {
        self.categories.lock().get(&(domain, category)).cloned()
    }

    /// Starts a range and returns its id, which is unique in the process.
    pub fn start_range(&self, domain: u64, name: &str) -> u64 {
        let range = OpenRange {
            domain: self.domain(domain),
            name: shared(name),
        };
        let id = self.handle();
        insert(&mut self.ranges.lock(), id, range);
        id
    }

    /// Ends a range. Returns `None` if no range with this id is open.
    pub fn end_range(&self, id: u64) -> Option<OpenRange> {
        self.ranges.lock().remove(&id)
    }

    fn handle(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

fn shared(text: &str) -> Arc<str> {
    (*bounded(text)).into()
}

fn insert<K: Eq + Hash, V>(map: &mut FxHashMap<K, V>, key: K, value: V) {
    if map.len() < MAX_ENTRIES || map.contains_key(&key) {
        map.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_have_names() {
        let registry = Registry::default();
        let loader = registry.create_domain("loader");
        assert_ne!(loader, 0);
        assert_eq!(registry.create_domain("loader"), loader);
        assert_ne!(registry.create_domain("solver"), loader);
        assert_eq!(&*registry.domain(loader), "loader");
        assert_eq!(&*registry.domain(0), "NVTX");
        assert_eq!(&*registry.domain(12345), "NVTX");
    }

    #[test]
    fn strings_and_categories_are_found_by_handle() {
        let registry = Registry::default();
        let text = registry.register_string("step");
        assert_eq!(registry.string(text).as_deref(), Some("step"));
        assert_eq!(registry.string(text + 1), None);
        registry.name_category(0, 7, "io");
        assert_eq!(registry.category(0, 7).as_deref(), Some("io"));
        assert_eq!(registry.category(1, 7), None);
    }

    #[test]
    fn a_range_ends_once() {
        let registry = Registry::default();
        let domain = registry.create_domain("loader");
        let id = registry.start_range(domain, "batch");
        let expected = OpenRange {
            domain: "loader".into(),
            name: "batch".into(),
        };
        assert_eq!(registry.end_range(id), Some(expected));
        assert_eq!(registry.end_range(id), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut map = FxHashMap::default();
        for key in 0..MAX_ENTRIES + 10 {
            insert(&mut map, key, ());
        }
        assert_eq!(map.len(), MAX_ENTRIES);
    }
}
