//! `libmargay_audit.so`: makes NVIDIA's run-time compilers return PTX when a client requests machine code, and replaces
//! the files of NVIDIA's `libcupti` ([`search`]). It also finds the driver library ([`driver`]).
//!
//! NVRTC (`nvrtcGetCUBIN`) and nvJitLink (`nvJitLinkGetLinkedCubin`) produce cubins, which no CPU can run. `margay run`
//! starts a program with this library in `LD_AUDIT`. The dynamic linker then calls this library
//! each time another file binds a symbol of one of the two compilers, by linking or by `dlsym`. For
//! the symbols that [`nvrtc`] and [`jitlink`] replace, this library returns the address of its own
//! function.
//!
//! Margay uses the dynamic linker's audit interface (`LD_AUDIT`), and no other method to replace
//! functions, for these reasons:
//!
//! - Python clients load the libraries of their wheels by absolute path and look functions up in the handle that
//!   `dlopen` returned. Neither libraries in `LD_LIBRARY_PATH` nor symbols of `LD_PRELOAD` take part in this lookup.
//! - The compilers' files have symbol versions and load companion files (`libnvrtc-builtins`) from their own folder.
//!   Clients query the path of a compiler's library to find headers. If another file replaced a
//!   compiler's file, companion files would not be found, and this query would return a wrong path.
//!   Changed bindings do not cause these problems.
//! - The client Taichi is loaded with `RTLD_DEEPBIND`. Its symbols are then not bound to functions
//!   of `LD_PRELOAD`, but an audit library can still change the bindings.
//!
//! The library runs in its own linker namespace with its own C library. It does not change bindings between other
//! libraries. Calls through changed bindings have no additional cost. It requires glibc. On systems with another C
//! library, such as musl, `margay run` only sets environment variables.
//!
//! Invariants: no panic propagates out of a function of this library. The library does not affect
//! programs that use neither of the two compilers, nor `libcupti`, nor the driver library.

pub mod driver;
pub mod jitlink;
pub mod nvrtc;
pub mod search;
pub mod slots;
mod symbols;

pub use symbols::LinkMap;

use std::ffi::{CStr, c_char, c_int, c_long, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use slots::Kind;

/// The version of the dynamic linker's audit interface for which this library is written.
const VERSION: c_uint = 2;
/// The flag with which [`la_objopen`] requests calls of [`la_symbind64`] for symbols that other files bind to this
/// file.
const BIND_TO: c_uint = 1;
/// The flag with which [`la_objopen`] requests calls of [`la_symbind64`] for symbols that this file binds to other
/// files.
const BIND_FROM: c_uint = 2;

/// Returns the version of the audit interface that the dynamic linker must use. The dynamic linker
/// calls this function first.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(offered: c_uint) -> c_uint {
    offered.min(VERSION)
}

/// The flag of [`la_objsearch`] for the name that the program specifies. Other flags are for paths that the dynamic
/// linker derives from this name.
const ORIGINAL: c_uint = 1;

/// Returns the path that the dynamic linker tries for a file: the given one, or that of a file which replaces NVIDIA's
/// ([`search`], [`driver`]). The dynamic linker calls this function for each path that it is about to try.
///
/// # Safety
/// The dynamic linker calls this function with a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objsearch(
    name: *const c_char,
    _cookie: *mut usize,
    flag: c_uint,
) -> *const c_char {
    if name.is_null() {
        return name;
    }
    // SAFETY: the dynamic linker passes a C string.
    let given = unsafe { CStr::from_ptr(name) };
    let search_path = || std::env::var_os("LD_LIBRARY_PATH");
    let driver = || (flag == ORIGINAL).then(|| driver::replacement(given, search_path()))?;
    let replacement = || search::replacement(given, flag == ORIGINAL).or_else(driver);
    let found = catch_unwind(AssertUnwindSafe(replacement));
    found.ok().flatten().map_or(name, CStr::as_ptr)
}

/// Sets the cookie of a file to the number of the file's slot plus 1, or to 0 if the file is not
/// audited. The dynamic linker calls this function for each file (program or library) that it
/// loads.
///
/// # Safety
/// The dynamic linker calls this function with a valid map and cookie.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(
    map: *mut LinkMap,
    _namespace: c_long,
    cookie: *mut usize,
) -> c_uint {
    // SAFETY: the map's name is a C string, or null.
    let kind = unsafe { (*map).name.as_ref().and_then(|name| kind_of(name)) };
    let slot = kind.and_then(|kind| slots::open(kind, map));
    // SAFETY: the dynamic linker passes a valid pointer to the cookie.
    unsafe { *cookie = slot.map_or(0, |slot| slot + 1) };
    match slot {
        Some(_) => BIND_FROM | BIND_TO,
        None => BIND_FROM,
    }
}

/// # Safety
/// `name` must be the first character of a C string.
unsafe fn kind_of(name: &c_char) -> Option<Kind> {
    // SAFETY: the caller guarantees a C string.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = path.rsplit(|&byte| byte == b'/').next()?;
    Kind::of_file(file)
}

/// Releases the slot of a file, if the file has a slot. The dynamic linker calls this function when
/// it unloads the file.
///
/// # Safety
/// The dynamic linker calls this function with the cookie of [`la_objopen`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objclose(cookie: *mut usize) -> c_uint {
    // SAFETY: the dynamic linker passes a valid pointer to the cookie.
    if let Some(slot) = unsafe { *cookie }.checked_sub(1) {
        slots::close(slot);
    }
    0
}

/// Returns the address to which the dynamic linker binds a symbol: the address of the replacement
/// function, or the original address. The dynamic linker calls this function for each symbol that
/// another file binds to a file with a slot.
///
/// # Safety
/// The dynamic linker calls this function with the arguments that the audit interface defines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_symbind64(
    symbol: *const Symbol,
    _index: c_uint,
    _from: *mut usize,
    to: *mut usize,
    _flags: *mut c_uint,
    name: *const c_char,
) -> usize {
    // SAFETY: the dynamic linker passes a valid symbol, the cookie of the defining file, and a C string.
    let (address, cookie, name) = unsafe { ((*symbol).value as usize, *to, CStr::from_ptr(name)) };
    let ours = || slots::stand_in(cookie.checked_sub(1)?, name.to_str().ok()?);
    catch_unwind(AssertUnwindSafe(ours))
        .ok()
        .flatten()
        .unwrap_or(address)
}

/// An ELF symbol. In the symbols that [`la_symbind64`] receives, `value` is an absolute address. In
/// the symbol table of a file, `value` is relative to the file's base address.
#[repr(C)]
#[derive(Debug)]
pub struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Runs the body of a replacement function. If the body panics, returns the error code `broken`.
fn guarded(broken: c_int, body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(broken)
}
