//! `libmargay_audit.so`: makes NVIDIA's run-time compilers answer with PTX where a client asks for machine code.
//!
//! NVRTC (`nvrtcGetCUBIN`) and nvJitLink (`nvJitLinkGetLinkedCubin`) make cubins, which no CPU runs. A program
//! started by `margay run` has this library in `LD_AUDIT`, so the dynamic linker asks it about every symbol that
//! somebody binds to one of these two libraries, by linking against it or by `dlsym`, and it gives its own
//! function for those in [`nvrtc`] and [`jitlink`].
//!
//! Why auditing and nothing else:
//!
//! - Python clients load the libraries of their wheels by absolute path and look functions up in that handle. A
//!   library in `LD_LIBRARY_PATH` is never asked, nor are symbols of `LD_PRELOAD`.
//! - The files carry symbol versions and find their companions (`libnvrtc-builtins`) beside themselves, and clients
//!   ask the linker where a library lies to find headers. A stand-in file breaks that; changed bindings do not.
//! - Taichi is loaded with `RTLD_DEEPBIND`, which goes past preloaded functions but not past an auditor.
//!
//! The library lives in a namespace of its own, with its own C library. Bindings between all other libraries are not
//! looked at, and calls cost nothing more. It does not work with a C library other than glibc, where
//! `margay run` falls back on what environment variables can do.
//!
//! Invariants: no panic leaves a function here; a program that uses neither library notices nothing.

pub mod jitlink;
pub mod nvrtc;
pub mod slots;
mod symbols;

pub use symbols::LinkMap;

use std::ffi::{CStr, c_char, c_int, c_long, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use slots::Kind;

/// The interface's version that we were written for.
const VERSION: c_uint = 2;
/// Tell us what binds to this file.
const BIND_TO: c_uint = 1;
/// Tell us what this file binds to others.
const BIND_FROM: c_uint = 2;

/// Called first: which version of the interface is spoken.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(offered: c_uint) -> c_uint {
    offered.min(VERSION)
}

/// Called for each file that is loaded. The cookie becomes the number of its slot, or 0 for files of no interest.
///
/// # Safety
/// Called by the dynamic linker with a map and a cookie.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(
    map: *mut LinkMap,
    _namespace: c_long,
    cookie: *mut usize,
) -> c_uint {
    // SAFETY: the map's name is a C string, or null.
    let kind = unsafe { (*map).name.as_ref().and_then(|name| kind_of(name)) };
    let slot = kind.and_then(|kind| slots::open(kind, map));
    // SAFETY: the linker gives a cookie to write to.
    unsafe { *cookie = slot.map_or(0, |slot| slot + 1) };
    match slot {
        Some(_) => BIND_FROM | BIND_TO,
        None => BIND_FROM,
    }
}

/// # Safety
/// `name` begins a C string.
unsafe fn kind_of(name: &c_char) -> Option<Kind> {
    // SAFETY: the caller vouches for it.
    let path = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = path.rsplit(|&byte| byte == b'/').next()?;
    Kind::of_file(file)
}

/// Called when a file is unloaded.
///
/// # Safety
/// Called by the dynamic linker with the cookie of [`la_objopen`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objclose(cookie: *mut usize) -> c_uint {
    // SAFETY: the linker gives the cookie.
    if let Some(slot) = unsafe { *cookie }.checked_sub(1) {
        slots::close(slot);
    }
    0
}

/// Called for each binding to a file with a slot: the address that the symbol gets.
///
/// # Safety
/// Called by the dynamic linker, as its interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_symbind64(
    symbol: *const Symbol,
    _index: c_uint,
    _from: *mut usize,
    to: *mut usize,
    _flags: *mut c_uint,
    name: *const c_char,
) -> usize {
    // SAFETY: the linker gives a symbol, the definer's cookie and a name.
    let (address, cookie, name) = unsafe { ((*symbol).value as usize, *to, CStr::from_ptr(name)) };
    let ours = || slots::stand_in(cookie.checked_sub(1)?, name.to_str().ok()?);
    catch_unwind(AssertUnwindSafe(ours))
        .ok()
        .flatten()
        .unwrap_or(address)
}

/// An ELF symbol, whose value is its address in memory by now.
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

/// Runs the body of a stand-in; a panic becomes `broken`.
fn guarded(broken: c_int, body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(broken)
}
