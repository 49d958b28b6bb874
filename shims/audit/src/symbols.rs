//! Looks up the address of a function in one loaded file.
//!
//! `dlsym` is unsuitable for two reasons. The dynamic linker also audits lookups by the auditing
//! library itself, and a file that was loaded as a dependency of another file has no search scope
//! of its own. Instead, this module reads the file's hash table in the same way as the dynamic
//! linker.

use std::ffi::{CStr, c_char};

use super::Symbol;

/// The public first fields of glibc's `struct link_map`, which describes a loaded file.
#[repr(C)]
#[derive(Debug)]
pub struct LinkMap {
    pub(super) base: usize,
    pub(super) name: *const c_char,
    dynamic: *const Dynamic,
    next: *mut LinkMap,
    previous: *mut LinkMap,
}

/// An entry of a file's dynamic section.
#[repr(C)]
#[derive(Debug)]
struct Dynamic {
    tag: i64,
    value: usize,
}

const STRINGS: i64 = 5;
const SYMBOLS: i64 = 6;
const GNU_HASH: i64 = 0x6fff_fef5;
/// The section index of a symbol that the file does not define.
const UNDEFINED: u16 = 0;

/// Computes the hash of a symbol's name for `DT_GNU_HASH` tables.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    })
}

/// Returns the address of the symbol `name` if the file itself defines it.
///
/// # Safety
/// `map` must be the link map of a loaded file.
pub(super) unsafe fn find(map: *const LinkMap, name: &CStr) -> Option<usize> {
    // SAFETY: the map and its dynamic section belong to the dynamic linker; a null tag ends the section.
    unsafe {
        let (mut symbols, mut strings, mut table) = (0, 0, 0);
        let mut entry = (*map).dynamic;
        while (*entry).tag != 0 {
            // The dynamic linker has relocated these values to absolute addresses.
            match (*entry).tag {
                SYMBOLS => symbols = (*entry).value,
                STRINGS => strings = (*entry).value,
                GNU_HASH => table = (*entry).value,
                _ => {}
            }
            entry = entry.add(1);
        }
        if symbols == 0 || strings == 0 || table == 0 {
            return None;
        }
        let symbol = in_table(
            table as *const u32,
            symbols as *const Symbol,
            strings as *const c_char,
            name,
        )?;
        Some((*map).base + (*symbol).value as usize)
    }
}

/// Searches a file's GNU hash table (`DT_GNU_HASH`) for the symbol `name`. The table consists of a
/// header, a filter of 64-bit words, the buckets, and the hash of each symbol. The last hash of
/// each bucket has its lowest bit set.
///
/// # Safety
/// The pointers must point to the tables of a loaded file.
unsafe fn in_table(
    table: *const u32,
    symbols: *const Symbol,
    strings: *const c_char,
    name: &CStr,
) -> Option<*const Symbol> {
    let wanted = hash(name.to_bytes());
    // SAFETY: the caller guarantees a well-formed table.
    unsafe {
        let [buckets, first, filter] = [0, 1, 2].map(|at| *table.add(at));
        let bucket = table.add(4 + 2 * filter as usize);
        let hashes = bucket.add(buckets as usize);
        let mut index = *bucket.add((wanted % buckets.max(1)) as usize);
        if index < first {
            return None;
        }
        loop {
            let found = *hashes.add((index - first) as usize);
            let symbol = symbols.add(index as usize);
            if found | 1 == wanted | 1
                && (*symbol).section != UNDEFINED
                && CStr::from_ptr(strings.add((*symbol).name as usize)) == name
            {
                return Some(symbol);
            }
            if found & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_a_loaded_file_are_found() {
        // SAFETY: the handle belongs to the C library, which is loaded.
        unsafe {
            let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
            assert!(!libc.is_null());
            for name in [c"qsort", c"getpid", c"strtol"] {
                let expected = libc::dlsym(libc, name.as_ptr()) as usize;
                assert_eq!(find(libc.cast(), name), Some(expected), "{name:?}");
            }
            assert_eq!(find(libc.cast(), c"no_such_function"), None);
            libc::dlclose(libc);
        }
    }
}
