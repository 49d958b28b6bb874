//! User objects, which are objects of the program that graphs keep alive.
//!
//! Source: CUDA programming guide, "CUDA User Objects". The program, graphs, executable graphs and incomplete launches
//! own references to user objects. When the last reference is released, the destructor runs on a service thread.
//! Invariant: the destructor of an object runs at most once.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::process::next_id;
use crate::service::ServiceThreads;

/// An object of the program with a reference count. Clones refer to the same object and do not count as references.
///
/// ```
/// use margay::graph::UserObject;
///
/// let object = UserObject::new(Box::new(|| println!("no references are left")), 1)?;
/// assert!(!object.release(1)? && object.is_gone());
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct UserObject {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    state: Mutex<UserObjectState>,
}

struct UserObjectState {
    references: u64,
    destroy: Option<Box<dyn FnOnce() + Send>>,
}

impl std::fmt::Debug for UserObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UserObject({})", self.inner.id)
    }
}

static DESTRUCTORS: ServiceThreads = ServiceThreads::new("margay-release", 1);

impl UserObject {
    /// Creates an object with `references` references, which the program owns. `destroy` is the destructor.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for 0 references.
    pub fn new(destroy: Box<dyn FnOnce() + Send>, references: u32) -> Result<UserObject> {
        if references == 0 {
            return Err(Error::invalid("an object without references"));
        }
        Ok(UserObject {
            inner: Arc::new(Inner {
                id: next_id(),
                state: Mutex::new(UserObjectState {
                    references: u64::from(references),
                    destroy: Some(destroy),
                }),
            }),
        })
    }

    /// Adds `count` references.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if no reference is left.
    pub fn retain(&self, count: u32) -> Result<()> {
        let mut state = self.inner.state.lock();
        if state.references == 0 {
            return Err(Error::invalid("the object has no references left"));
        }
        state.references += u64::from(count);
        Ok(())
    }

    /// Releases `count` references; returns whether any reference is left.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the object has fewer than `count` references.
    pub fn release(&self, count: u32) -> Result<bool> {
        let mut state = self.inner.state.lock();
        let left = state.references.checked_sub(u64::from(count));
        state.references = left.ok_or_else(|| Error::invalid("the object has fewer references"))?;
        if state.references > 0 {
            return Ok(true);
        }
        if let Some(destroy) = state.destroy.take() {
            DESTRUCTORS.send(0, destroy);
        }
        Ok(false)
    }

    /// Returns whether all references to the object have been released.
    pub fn is_gone(&self) -> bool {
        self.inner.state.lock().references == 0
    }
}

/// The references to user objects that a graph owns. A copy of a `References` owns the same number of additional
/// references.
#[derive(Default)]
pub(super) struct References {
    counts: FxHashMap<u64, (UserObject, u32)>,
}

impl References {
    /// Transfers `count` references from the caller to this `References`.
    pub(super) fn add(&mut self, object: &UserObject, count: u32) {
        let entry = self.counts.entry(object.inner.id);
        let (_, held) = entry.or_insert_with(|| (object.clone(), 0));
        *held = held.saturating_add(count);
    }

    /// Releases `count` of the references to `object`.
    pub(super) fn remove(&mut self, object: &UserObject, count: u32) -> Result<()> {
        let none = || Error::invalid("the graph has fewer references");
        let entry = self.counts.get_mut(&object.inner.id).ok_or_else(none)?;
        entry.1 = entry.1.checked_sub(count).ok_or_else(none)?;
        if entry.1 == 0 {
            self.counts.remove(&object.inner.id);
        }
        object.release(count).map(|_| ())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// For each object, adds as many references as `other` owns.
    pub(super) fn add_all(&mut self, other: &References) {
        for (object, count) in other.counts.values() {
            if object.retain(*count).is_ok() {
                self.add(object, *count);
            }
        }
    }
}

impl Clone for References {
    fn clone(&self) -> References {
        let mut copy = References::default();
        copy.add_all(self);
        copy
    }
}

impl Drop for References {
    fn drop(&mut self) {
        for (object, count) in self.counts.values() {
            // This `References` owns the references, so the release cannot fail.
            let _ = object.release(*count);
        }
    }
}
