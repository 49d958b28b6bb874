//! The native kernels that were launched in a context, by name.
//!
//! Launches of native kernels with the same name share an [`Entry`], so that the scheduler knows the running times of
//! earlier launches, and tools see one kernel.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::Context;
use crate::engine::Engine;
use crate::entry::Entry;
use crate::error::Result;
use crate::native_engine::NativeEngine;
use crate::observe::HostEvent;

/// Maximum number of names that a context remembers. A new name beyond this number removes all others.
const MOST_NAMES: usize = 4096;

/// The entries of a context's native kernels.
#[derive(Default)]
pub(super) struct Natives(Mutex<FxHashMap<Arc<str>, Arc<Entry>>>);

impl Natives {
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.0.lock().get(name).cloned()
    }

    /// Adds an entry. If another thread has added an entry with this name, returns that entry and false.
    fn add(&self, entry: Arc<Entry>) -> (Arc<Entry>, bool) {
        let mut entries = self.0.lock();
        if let Some(known) = entries.get(&entry.name) {
            return (Arc::clone(known), false);
        }
        if entries.len() >= MOST_NAMES {
            entries.clear();
        }
        entries.insert(Arc::clone(&entry.name), Arc::clone(&entry));
        (entry, true)
    }
}

impl Context {
    /// Returns the entry of the native kernels with the name `name`. Tells the tools that observe the host of a new entry
    /// as of a module that was loaded.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if a tool requests an event that is not implemented.
    pub(crate) fn native_entry(&self, name: &str) -> Result<Arc<Entry>> {
        let natives = &self.inner().natives;
        if let Some(known) = natives.find(name) {
            return Ok(known);
        }
        let tools = &self.machine().tools;
        let engine = Arc::new(NativeEngine::new(name, tools)?);
        let (entry, is_new) = natives.add(Entry::new(Arc::clone(&engine) as _));
        if is_new {
            tools.tell(|| HostEvent::LoadModule {
                module: entry.id,
                context: self.id(),
                kernels: std::slice::from_ref(engine.info()),
            });
        }
        Ok(entry)
    }
}
