//! Replaces the files of NVIDIA's `libcupti`, `libcublas`, `libcublasLt` and `libnccl` by Margay's.
//!
//! Programs load these libraries by the absolute path of a wheel's file, or find them by a run path, which the dynamic
//! linker searches before `LD_LIBRARY_PATH`. The dynamic linker asks this library before it opens a file, so all these ways
//! lead to Margay's library: the one in the folder of this library that belongs to the same toolkit. Wheels that contain
//! NVIDIA's libraries name them after a digest (`libcublas-37d11411.so.12.9.1.4`); these names are recognised, too.
//!
//! The dynamic linker remembers the names under which a file was requested, and it ends the process if another file needs
//! symbol versions of a name that it does not remember. If this library replaces the requested name itself, the dynamic
//! linker forgets that name in case the replacement is loaded already. So a name that is not the library's own one
//! (`libcublas.so.12`) is not replaced at once, but later, when the dynamic linker tries its first path for it.
//!
//! `libcublas` and `libcublasLt` are replaced together or not at all, because handles of one are handles of the other.
//! `MARGAY_CUBLAS=nvidia` and `MARGAY_NCCL=nvidia` keep NVIDIA's.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library that is replaced.
struct Replaced {
    /// The part of the file's name before `.so`.
    stem: &'static str,
    /// The major version of the toolkit, which follows `.so.`.
    toolkit: &'static str,
    /// The name of Margay's file.
    file: &'static str,
    /// The names of Margay's other files without which the library is not replaced.
    with: [&'static str; 2],
}

const fn cublas(
    stem: &'static str,
    toolkit: &'static str,
    file: &'static str,
    with: &'static str,
) -> Replaced {
    Replaced {
        stem,
        toolkit,
        file,
        with: [with, "libmargay_cublas.so"],
    }
}

const fn cupti(toolkit: &'static str, file: &'static str) -> Replaced {
    Replaced {
        stem: "libcupti",
        toolkit,
        file,
        with: [file; 2],
    }
}

/// NCCL's functions do not depend on the toolkit, and the version in the file's name is NCCL's own.
const NCCL: Replaced = Replaced {
    stem: "libnccl",
    toolkit: "2",
    file: "libmargay_nccl.so",
    with: ["libmargay_nccl.so"; 2],
};

const REPLACED: [Replaced; 7] = [
    NCCL,
    cupti("12", "libcupti_12.so"),
    cupti("13", "libcupti_13.so"),
    cublas("libcublas", "12", "libcublas_12.so", "libcublaslt_12.so"),
    cublas("libcublas", "13", "libcublas_13.so", "libcublaslt_13.so"),
    cublas("libcublasLt", "12", "libcublaslt_12.so", "libcublas_12.so"),
    cublas("libcublasLt", "13", "libcublaslt_13.so", "libcublas_13.so"),
];

/// Returns the path of the file that replaces the file with the given path or name; `None` if the file is none of
/// NVIDIA's, or if Margay's file does not exist. `requested` says that the name is what a program or a library requested,
/// not a path that the dynamic linker derived from it.
pub fn replacement(name: &CStr, requested: bool) -> Option<&'static CStr> {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let file = path.file_name()?.to_str()?;
    let (stem, version) = parts(file)?;
    let toolkit = version.or_else(|| toolkit_beside(path, stem))?;
    let mut known = REPLACED.iter();
    let index = known.position(|one| one.stem == stem && one.toolkit == toolkit)?;
    let one = &REPLACED[index];
    let is_own_name = || file == format!("{}.so.{}", one.stem, one.toolkit);
    if requested && path.parent() == Some(Path::new("")) && !is_own_name() {
        return None;
    }
    files()[index].as_deref()
}

/// Splits the name of a library into its stem and the major version, if there is one. A digest after the stem is left out.
/// Returns `None` for other libraries.
fn parts(file: &str) -> Option<(&str, Option<&str>)> {
    let (name, rest) = file.split_once(".so")?;
    let version = match rest {
        "" => None,
        rest => Some(rest.strip_prefix('.')?.split('.').next()?),
    };
    let stem = match name.split_once('-') {
        Some((stem, digest)) if digest.bytes().all(|byte| byte.is_ascii_hexdigit()) => stem,
        Some(_) => return None,
        None => name,
    };
    let known = REPLACED.iter().any(|one| one.stem == stem);
    known.then_some((stem, version))
}

/// Returns the toolkit of a library without a version in its name: that of a file beside it with a version.
fn toolkit_beside(path: &Path, stem: &str) -> Option<&'static str> {
    // A bare name has an empty parent: the dynamic linker searches it in folders later.
    let folder = path.parent().filter(|_| path.is_absolute())?;
    let exists = |one: &&Replaced| {
        let name = format!("{stem}.so.{}", one.toolkit);
        one.stem == stem && folder.join(name).exists()
    };
    Some(REPLACED.iter().find(exists)?.toolkit)
}

/// Returns the paths of Margay's files, in the order of [`REPLACED`].
fn files() -> &'static [Option<CString>; REPLACED.len()] {
    static FILES: OnceLock<[Option<CString>; REPLACED.len()]> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = own_folder();
        let keeps = |name: &str| std::env::var_os(name).is_some_and(|value| value == "nvidia");
        let (keeps_cublas, keeps_nccl) = (keeps("MARGAY_CUBLAS"), keeps("MARGAY_NCCL"));
        REPLACED.map(|one| {
            let kept = match one.stem {
                "libcupti" => false,
                "libnccl" => keeps_nccl,
                _ => keeps_cublas,
            };
            if kept {
                return None;
            }
            let folder = folder.as_ref()?;
            let file = folder.join(one.file);
            let complete = one.with.iter().all(|other| folder.join(other).exists());
            let file = (complete && file.exists()).then_some(file)?;
            CString::new(file.as_os_str().as_bytes()).ok()
        })
    })
}

/// Returns the folder of this library.
pub(crate) fn own_folder() -> Option<PathBuf> {
    // SAFETY: an all-zero structure is valid: its pointers are null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = replacement as fn(&CStr, bool) -> Option<&'static CStr>;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_their_names() {
        assert_eq!(parts("libcublas.so.12"), Some(("libcublas", Some("12"))));
        assert_eq!(
            parts("libcublasLt.so.13.1.0.3"),
            Some(("libcublasLt", Some("13")))
        );
        assert_eq!(
            parts("libcublas-37d11411.so.12.9.1.4"),
            Some(("libcublas", Some("12")))
        );
        assert_eq!(parts("libnccl.so.2.27.5"), Some(("libnccl", Some("2"))));
        assert_eq!(parts("libnccl-net.so.2"), None);
        assert_eq!(parts("libcupti.so"), Some(("libcupti", None)));
        assert_eq!(parts("libcublas.so.11"), Some(("libcublas", Some("11"))));
        for other in [
            "libcublasXt.so.12",
            "libcublas.sofa",
            "libcublas-dev.so.12",
            "libc.so.6",
            "libcublas",
        ] {
            assert_eq!(parts(other), None, "{other}");
        }
    }

    #[test]
    fn files_without_a_version_are_told_by_those_beside_them() {
        let folder = std::env::temp_dir().join(format!("margay-search-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("libcublas.so");
        assert_eq!(toolkit_beside(&path, "libcublas"), None);
        std::fs::write(folder.join("libcublas.so.13"), "").expect("a file");
        assert_eq!(toolkit_beside(&path, "libcublas"), Some("13"));
        assert_eq!(toolkit_beside(Path::new("libcublas.so"), "libcublas"), None);
        std::fs::remove_dir_all(&folder).expect("a folder");
    }
}
