//! Assigns a slot to each loaded copy of NVRTC and nvJitLink. Through its slot, a replacement function finds the copy
//! whose function it replaces.
//!
//! Each replacement function is compiled once for each slot. A slot contains a pointer to the copy's link map, or null
//! if no copy uses the slot. The slots of nvJitLink are numbered after the slots of NVRTC. Invariant: the pointer is
//! set from `la_objopen` to `la_objclose`, and the link map is valid during this time.

use std::ffi::CString;
use std::mem::transmute_copy;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::symbols::{LinkMap, find};

/// The number of slots for each library. If more copies of a library are loaded, the functions of
/// the further copies are not replaced.
pub const SLOTS: usize = 8;

/// The libraries of which this library replaces functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// NVRTC, the compiler of CUDA C++.
    Nvrtc,
    /// nvJitLink, the linker.
    JitLink,
}

impl Kind {
    /// Returns which of the audited libraries a file contains, according to its name; `None` for
    /// any other file.
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

/// The link maps of the loaded copies of one library.
type Maps = [AtomicPtr<LinkMap>; SLOTS];

static NVRTC: Maps = [const { AtomicPtr::new(null_mut()) }; SLOTS];
static JIT_LINK: Maps = [const { AtomicPtr::new(null_mut()) }; SLOTS];

fn maps(kind: Kind) -> &'static Maps {
    match kind {
        Kind::Nvrtc => &NVRTC,
        Kind::JitLink => &JIT_LINK,
    }
}

/// Assigns a slot to a library copy that is being loaded, and returns the slot's number. Returns
/// `None` if all slots are in use.
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

/// Releases the slot with the number `number`.
pub fn close(number: usize) {
    let mut all = NVRTC.iter().chain(&JIT_LINK);
    if let Some(slot) = all.nth(number) {
        slot.store(null_mut(), Ordering::Release);
    }
}

/// Returns the address of the function that replaces a symbol of the library copy in the slot
/// `number`, or `None` if the symbol is not replaced.
pub fn stand_in(number: usize, symbol: &str) -> Option<usize> {
    match number.checked_sub(SLOTS) {
        None => super::nvrtc::stand_in(number, symbol),
        Some(slot) => super::jitlink::stand_in(slot, symbol),
    }
}

/// Returns the library's own function `symbol` of the library copy in a slot.
///
/// # Safety
/// `F` must be the type of the C function `symbol`.
pub unsafe fn real<F: Copy>(kind: Kind, slot: usize, symbol: &str) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    let map = maps(kind).get(slot)?.load(Ordering::Acquire);
    let name = CString::new(symbol).ok()?;
    if map.is_null() {
        return None;
    }
    // SAFETY: the map belongs to a loaded file, because it is not null.
    let address = unsafe { find(map, &name) }?;
    // SAFETY: the caller guarantees the type.
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
