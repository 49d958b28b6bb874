//! Context-local storage: values that NVIDIA's runtime stores for each context.
//!
//! NVIDIA's runtime looks up its entry in this storage before nearly every call. Each thread
//! therefore caches the result of its last successful lookup. The cached result is valid until an
//! entry of any context changes. A lookup that finds the cached result takes no lock.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::handles::{contexts, current_handle};
use crate::result::{CuResult, Served};
use crate::types::CUcontext;

type Destructor = extern "C" fn(CUcontext, *mut c_void, *mut c_void);

#[derive(Clone, Copy)]
struct Entry {
    value: usize,
    destructor: Option<Destructor>,
}

type Entries = HashMap<(usize, usize), Entry>;

fn entries() -> &'static RwLock<Entries> {
    static ENTRIES: OnceLock<RwLock<Entries>> = OnceLock::new();
    ENTRIES.get_or_init(RwLock::default)
}

/// The number of changes of entries so far, plus 1. It is never 0, because 0 marks an empty cache.
static CHANGES: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Copy, Default)]
struct Hit {
    changes: u64,
    context: usize,
    key: usize,
    value: usize,
}

thread_local! {
    static LAST: Cell<Hit> = const { Cell::new(Hit { changes: 0, context: 0, key: 0, value: 0 }) };
}

/// Returns the handle of `context`, or of the current context if `context` is null.
fn resolve(context: CUcontext) -> Result<usize, CuResult> {
    let handle = match context.0 {
        0 => current_handle()?.0,
        handle => handle,
    };
    match handle {
        0 => Err(CuResult::INVALID_CONTEXT),
        handle => Ok(handle),
    }
}

/// Stores `value` for `key` in `context`. `destructor` is null or a function to call when the
/// context is destroyed.
pub(crate) fn put(
    context: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: *const c_void,
) -> Served {
    let context = resolve(context)?;
    if contexts().get(context).is_none() {
        return Err(CuResult::INVALID_CONTEXT);
    }
    let destructor = (!destructor.is_null()).then(|| {
        // SAFETY: the runtime passes a function of this type.
        unsafe { std::mem::transmute::<*const c_void, Destructor>(destructor) }
    });
    let entry = Entry {
        value: value as usize,
        destructor,
    };
    entries().write().insert((context, key as usize), entry);
    changed();
    Ok(())
}

fn changed() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Removes a value.
pub(crate) fn delete(context: CUcontext, key: *mut c_void) -> Served {
    let context = resolve(context)?;
    let removed = entries().write().remove(&(context, key as usize));
    changed();
    removed.map(|_| ()).ok_or(CuResult::INVALID_HANDLE)
}

/// Returns the value that is stored for `key` in `context`.
pub(crate) fn get(context: CUcontext, key: *mut c_void) -> Result<*mut c_void, CuResult> {
    let (context, key) = (resolve(context)?, key as usize);
    let changes = CHANGES.load(Ordering::Acquire);
    let last = LAST.try_with(Cell::get).unwrap_or_default();
    if (last.changes, last.context, last.key) == (changes, context, key) {
        return Ok(last.value as *mut c_void);
    }
    let found = entries().read().get(&(context, key)).copied();
    let value = found.ok_or(CuResult::INVALID_HANDLE)?.value;
    let hit = Hit {
        changes,
        context,
        key,
        value,
    };
    // While the thread's local storage is being destroyed, there is no cache. The lookup works without the cache.
    let _ = LAST.try_with(|last| last.set(hit));
    Ok(value as *mut c_void)
}

/// Removes all values of a context and calls their destructors.
pub(crate) fn destroy_all(context: CUcontext) {
    let ended: Vec<_> = {
        let mut entries = entries().write();
        entries
            .extract_if(|(owner, _), _| *owner == context.0)
            .collect()
    };
    changed();
    for ((_, key), entry) in ended {
        if let Some(destructor) = entry.destructor {
            destructor(context, key as *mut c_void, entry.value as *mut c_void);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    static DESTROYED: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn destructor(_: CUcontext, key: *mut c_void, value: *mut c_void) {
        DESTROYED.fetch_add(key as usize * 1000 + value as usize, Ordering::Relaxed);
    }

    fn store(context: usize, key: usize, value: usize) {
        let entry = Entry {
            value,
            destructor: Some(destructor),
        };
        entries().write().insert((context, key), entry);
        changed();
    }

    fn look(context: usize, key: usize) -> Result<usize, CuResult> {
        get(CUcontext(context), key as *mut c_void).map(|value| value as usize)
    }

    #[test]
    fn hits_misses_and_the_end() {
        store(0x111, 5, 7);
        store(0x222, 5, 8);
        assert_eq!(look(0x111, 5), Ok(7));
        assert_eq!(look(0x111, 5), Ok(7), "from the cache");
        assert_eq!(look(0x222, 5), Ok(8));
        assert_eq!(look(0x111, 6), Err(CuResult::INVALID_HANDLE));
        store(0x111, 5, 9);
        assert_eq!(look(0x111, 5), Ok(9), "a change is seen");
        destroy_all(CUcontext(0x111));
        assert_eq!(DESTROYED.load(Ordering::Relaxed), 5009);
        assert_eq!(look(0x111, 5), Err(CuResult::INVALID_HANDLE));
        assert_eq!(look(0x222, 5), Ok(8));
        assert_eq!(delete(CUcontext(0x222), 5 as *mut c_void), Ok(()));
        assert_eq!(look(0x222, 5), Err(CuResult::INVALID_HANDLE));
    }
}
