//! The loaded copies of NVRTC and nvJitLink, numbered, so that a stand-in knows which copy it stands for.
//!
//! Each copy that is loaded gets a slot; a stand-in is compiled once for each slot. Invariant: a slot's map is valid
//! while it is not null, which lasts from `la_objopen` to `la_objclose`.

use std::ffi::CString;
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::symbols::{LinkMap, find};

/// More copies than any process loads. What is loaded beyond is left as it is.
pub const SLOTS: usize = 8;

/// Which library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The compiler of CUDA C++.
    Nvrtc,
    /// The linker.
    JitLink,
}

impl Kind {
    /// The library that a file is, by its name.
    pub fn of_file(name: &[u8]) -> Option<Kind> {
        let is = |stem: &[u8]| {
            let rest = name.strip_prefix(stem);
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
        };
        if is(b"libnvrtc.so") {
            Some(Kind::Nvrtc)
        } else if is(b"libnvJitLink.so") {
            Some(Kind::JitLink)
        } else {
            None
        }
    }
}

/// The maps of the loaded copies.
type Maps = [AtomicPtr<LinkMap>; SLOTS];

static NVRTC: Maps = [const { AtomicPtr::new(null_mut()) }; SLOTS];
static JIT_LINK: Maps = [const { AtomicPtr::new(null_mut()) }; SLOTS];

fn maps(kind: Kind) -> &'static Maps {
    match kind {
        Kind::Nvrtc => &NVRTC,
        Kind::JitLink => &JIT_LINK,
    }
}

/// A number for a copy that is being loaded; `None` when all are taken.
pub fn open(kind: Kind, map: *mut LinkMap) -> Option<usize> {
    let free = |slot: &AtomicPtr<LinkMap>| {
        slot.compare_exchange(null_mut(), map, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let slot = maps(kind).iter().position(free)?;
    Some(match kind {
        Kind::Nvrtc => slot,
        Kind::JitLink => slot + SLOTS,
    })
}

/// Gives a number back.
pub fn close(number: usize) {
    let mut all = NVRTC.iter().chain(&JIT_LINK);
    if let Some(slot) = all.nth(number) {
        slot.store(null_mut(), Ordering::Release);
    }
}

/// The address of our function for a symbol of the copy with this number, if we have one.
pub fn stand_in(number: usize, symbol: &str) -> Option<usize> {
    match number.checked_sub(SLOTS) {
        None => super::nvrtc::stand_in(number, symbol),
        Some(slot) => super::jitlink::stand_in(slot, symbol),
    }
}

/// The copy's own function.
///
/// # Safety
/// `F` is the type of the C function `symbol`.
pub unsafe fn real<F: Copy>(kind: Kind, slot: usize, symbol: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    let map = maps(kind).get(slot)?.load(Ordering::Acquire);
    let name = CString::new(symbol).ok()?;
    if map.is_null() {
        return None;
    }
    // SAFETY: the slot's map is loaded.
    let address = unsafe { find(map, &name) }?;
    // SAFETY: the caller vouches for the type.
    Some(unsafe { transmute_copy(&address) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_names() {
        assert_eq!(Kind::of_file(b"libnvrtc.so.13"), Some(Kind::Nvrtc));
        assert_eq!(Kind::of_file(b"libnvrtc.so"), Some(Kind::Nvrtc));
        assert_eq!(Kind::of_file(b"libnvJitLink.so.12"), Some(Kind::JitLink));
        assert_eq!(Kind::of_file(b"libnvrtc-builtins.so.13.5"), None);
        assert_eq!(Kind::of_file(b"libnvrtc.sofa"), None);
    }

    #[test]
    fn slots_are_given_and_taken_back() {
        let maps: [u8; SLOTS + 1] = [0; SLOTS + 1];
        let map = |i: usize| (&raw const maps[i]).cast_mut().cast();
        let given: Vec<_> = (0..=SLOTS).map(|i| open(Kind::JitLink, map(i))).collect();
        assert_eq!(given[0], Some(SLOTS));
        assert_eq!(given[SLOTS], None);
        close(SLOTS + 3);
        assert_eq!(open(Kind::JitLink, map(0)), Some(SLOTS + 3));
        (SLOTS..2 * SLOTS).for_each(close);
    }
}
