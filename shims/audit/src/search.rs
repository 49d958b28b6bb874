//! Replaces the files of NVIDIA's `libcupti` by Margay's.
//!
//! Profilers load `libcupti` by the absolute path of a wheel's file, and `libtorch` finds it by a run path, which the
//! dynamic linker searches before `LD_LIBRARY_PATH`. The dynamic linker asks this library before it opens a file, so all
//! these ways lead to Margay's library: the one in the folder of this library that belongs to the same toolkit.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The names of NVIDIA's libraries with the names of Margay's files.
const REPLACED: [(&str, &str); 2] = [
    ("libcupti.so.12", "libcupti_12.so"),
    ("libcupti.so.13", "libcupti_13.so"),
];

/// The name of a library whose toolkit the files beside it tell.
const WITHOUT_VERSION: &str = "libcupti.so";

/// Returns the path of the file that replaces the file with the given path or name; `None` if the file is none of
/// NVIDIA's, or if Margay's file does not exist.
pub fn replacement(name: &CStr) -> Option<&'static CStr> {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let file = path.file_name()?.to_str()?;
    let index = REPLACED
        .iter()
        .position(|&(known, _)| known == file)
        .or_else(|| beside(path, file))?;
    files()[index].as_deref()
}

/// Returns the index of the toolkit of a library without a version in its name.
fn beside(path: &Path, file: &str) -> Option<usize> {
    let folder = path.parent().filter(|_| file == WITHOUT_VERSION)?;
    // A bare name has an empty parent: the dynamic linker searches it in folders later.
    let exists = |&(known, _): &(&str, &str)| path.is_absolute() && folder.join(known).exists();
    REPLACED.iter().position(exists)
}

/// Returns the paths of Margay's files, in the order of [`REPLACED`].
fn files() -> &'static [Option<CString>; 2] {
    static FILES: OnceLock<[Option<CString>; 2]> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = own_folder();
        REPLACED.map(|(_, file)| {
            let file = folder.as_ref()?.join(file);
            let file = file.exists().then_some(file)?;
            CString::new(file.as_os_str().as_bytes()).ok()
        })
    })
}

/// Returns the folder of this library.
pub(crate) fn own_folder() -> Option<PathBuf> {
    // SAFETY: an all-zero structure is valid: its pointers are null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = replacement as fn(&CStr) -> Option<&'static CStr>;
    // SAFETY: `info` is valid during the call.
    let known = unsafe { libc::dladdr(here as *const _, &raw mut info) } != 0;
    let name = info.dli_fname.cast::<c_char>();
    if !known || name.is_null() {
        return None;
    }
    // SAFETY: the file's name is a C string.
    let file = unsafe { CStr::from_ptr(name) };
    let file = Path::new(OsStr::from_bytes(file.to_bytes()));
    Some(std::fs::canonicalize(file).ok()?.parent()?.to_owned())
}
