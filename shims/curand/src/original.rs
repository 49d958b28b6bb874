//! Tables of NVIDIA's library: those of scrambled Sobol sequences are nowhere published, so they are read from the file
//! that this library replaces.
//!
//! The file is opened under a name that `margay run` does not replace (`/proc/self/fd/...`). Only functions that return
//! addresses of tables are called.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::sobol::DIMENSIONS;
use crate::status::Status;

/// The name of the library. Its address is one of this library.
static NAME: &str = "libcurand.so.10";

/// The tables of scrambled sequences.
pub(crate) struct Tables {
    pub(crate) vectors32: &'static [[u32; 32]; DIMENSIONS],
    pub(crate) vectors64: &'static [[u64; 64]; DIMENSIONS],
    pub(crate) constants32: &'static [u32; DIMENSIONS],
    pub(crate) constants64: &'static [u64; DIMENSIONS],
}

/// Returns the tables.
///
/// # Errors
/// `InitializationFailed` if NVIDIA's library is not found; a line on standard error says so.
pub(crate) fn tables() -> Result<&'static Tables, Status> {
    static TABLES: OnceLock<Option<Tables>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        let found = candidates().iter().find_map(|file| open(file));
        if found.is_none() {
            complain();
        }
        found
    });
    tables.as_ref().ok_or(Status::InitializationFailed)
}

#[allow(clippy::print_stderr, reason = "the program's user must know")]
fn complain() {
    eprintln!(
        "margay: scrambled Sobol sequences need the tables in NVIDIA's {NAME}, which was not found"
    );
}

/// Returns the files that may be NVIDIA's library.
fn candidates() -> BTreeSet<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut own = None;
    let here = (&raw const NAME).addr();
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    for line in maps.split(|&byte| byte == b'\n') {
        let Some(start) = line.iter().position(|&byte| byte == b'/') else {
            continue;
        };
        let path = Path::new(OsStr::from_bytes(&line[start..]));
        if range_of(line).is_some_and(|range| range.contains(&here)) {
            own = std::fs::metadata(path)
                .ok()
                .map(|data| (data.dev(), data.ino()));
        }
        let Some(folder) = path.parent() else {
            continue;
        };
        folders.push(folder.to_owned());
        // In Python's folder of packages, NVIDIA's wheels are side by side.
        for above in folder
            .ancestors()
            .filter(|above| above.ends_with("site-packages"))
        {
            folders.push(above.join("nvidia/curand/lib"));
            folders.push(above.join("nvidia/cu13/lib"));
        }
        if let Some(above) = folder.parent().and_then(Path::parent) {
            folders.push(above.join("curand/lib"));
        }
    }
    folders.extend(loaded_as().and_then(|path| path.parent().map(Path::to_owned)));
    if let Some(paths) = std::env::var_os("LD_LIBRARY_PATH") {
        folders.extend(std::env::split_paths(&paths));
    }
    for variable in ["CUDA_PATH", "CUDA_HOME"] {
        folders.extend(std::env::var_os(variable).map(|path| Path::new(&path).join("lib64")));
    }
    folders.push("/usr/local/cuda/lib64".into());
    folders.push("/usr/lib/x86_64-linux-gnu".into());
    folders.push("/usr/lib/aarch64-linux-gnu".into());
    let folders: BTreeSet<PathBuf> = folders.into_iter().collect();
    let is_other = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|data| Some((data.dev(), data.ino())) != own)
    };
    folders
        .iter()
        .map(|folder| folder.join(NAME))
        .filter(is_other)
        .collect()
}

fn range_of(line: &[u8]) -> Option<std::ops::Range<usize>> {
    let text = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
    let (start, end) = text.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// Returns the name under which the dynamic linker knows this library: possibly NVIDIA's file.
fn loaded_as() -> Option<PathBuf> {
    // SAFETY: an all-zero structure is valid: its pointers are null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is valid during the call.
    let known = unsafe { libc::dladdr((&raw const NAME).cast(), &raw mut info) } != 0;
    if !known || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the file's name is a C string.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(OsStr::from_bytes(name.to_bytes()).into())
}

/// Opens a library; `None` if that fails.
fn load(path: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
    (!library.is_null()).then_some(library)
}

/// Reads the tables of a file; `None` if it is not NVIDIA's library.
fn open(path: &Path) -> Option<Tables> {
    let file = File::open(path).ok()?;
    let name = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let library = load(&name).or_else(|| {
        // The library of CUDA 13 needs the runtime beside it.
        let runtime = path.with_file_name("libcudart.so.13");
        load(&CString::new(runtime.as_os_str().as_bytes()).ok()?)?;
        load(&name)
    })?;
    let vectors32 = table(library, c"curandGetDirectionVectors32", Some(102))?;
    let vectors64 = table(library, c"curandGetDirectionVectors64", Some(104))?;
    let constants32 = table(library, c"curandGetScrambleConstants32", None)?;
    let constants64 = table(library, c"curandGetScrambleConstants64", None)?;
    Some(Tables {
        // SAFETY: the table has this type, is never written, and the library stays loaded.
        vectors32: unsafe { &*vectors32.cast() },
        // SAFETY: as above.
        vectors64: unsafe { &*vectors64.cast() },
        // SAFETY: as above.
        constants32: unsafe { &*constants32.cast() },
        // SAFETY: as above.
        constants64: unsafe { &*constants64.cast() },
    })
}

/// Returns the address of a table that a function of the library returns.
fn table(library: *mut c_void, name: &CStr, set: Option<i32>) -> Option<*const c_void> {
    // SAFETY: the handle belongs to a loaded library, and the name is a C string.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    if function.is_null() {
        return None;
    }
    let mut address: *const c_void = std::ptr::null();
    let status = match set {
        Some(set) => {
            type Get = unsafe extern "C" fn(*mut *const c_void, i32) -> i32;
            // SAFETY: the function has this type.
            let get = unsafe { std::mem::transmute::<*mut c_void, Get>(function) };
            // SAFETY: the variable is valid.
            unsafe { get(&raw mut address, set) }
        }
        None => {
            type Get = unsafe extern "C" fn(*mut *const c_void) -> i32;
            // SAFETY: the function has this type.
            let get = unsafe { std::mem::transmute::<*mut c_void, Get>(function) };
            // SAFETY: the variable is valid.
            unsafe { get(&raw mut address) }
        }
    };
    (status == 0 && !address.is_null()).then_some(address)
}
