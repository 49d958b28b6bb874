//! Finds Margay's driver library for programs that replace `LD_LIBRARY_PATH`.
//!
//! `margay run` puts the driver library first in `LD_LIBRARY_PATH`. Scripts and programs can set this variable to other
//! folders before they start another program, whose dynamic linker then does not find `libcuda.so.1`. `LD_AUDIT` is
//! still set, so this library names the driver library to the dynamic linker.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::search::own_folder;

/// The names under which programs load the driver library. Margay's file has the second name.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
/// The folder of toolkits with a driver library that only linkers of programs use: its functions do nothing.
const STUBS: &str = "stubs";

/// Returns the path of Margay's driver library, if a program requests the driver library by a name that no folder of
/// `search_path` contains, by the path of a toolkit's stub, or by a path where no file exists. `search_path` is the value
/// of `LD_LIBRARY_PATH`. Other files are not replaced, so that a program can load another driver library, or a library
/// that records calls of the driver. `name` is the name that the program specifies.
pub fn replacement(name: &CStr, search_path: Option<OsString>) -> Option<&'static CStr> {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let file = path.file_name()?.to_str()?;
    if !NAMES.contains(&file) {
        return None;
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let has_driver = |folder: &Path| folder.join(file).exists() && !folder.ends_with(STUBS);
    let is_found = match folder {
        Some(folder) => has_driver(folder),
        None => std::env::split_paths(&search_path.unwrap_or_default())
            .any(|folder| !folder.as_os_str().is_empty() && has_driver(&folder)),
    };
    if is_found { None } else { own() }
}

/// Returns the path of the driver library in the folder of this library.
fn own() -> Option<&'static CStr> {
    static OWN: OnceLock<Option<CString>> = OnceLock::new();
    let found = OWN.get_or_init(|| {
        let folder = own_folder()?;
        let file = NAMES
            .iter()
            .rev()
            .map(|name| folder.join(name))
            .find(|file| file.exists())?;
        CString::new(file.as_os_str().as_bytes()).ok()
    });
    found.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stubs_and_missing_files_are_replaced() {
        let folder = std::env::temp_dir().join(format!("margay-driver-{}", std::process::id()));
        let stubs = folder.join("stubs");
        std::fs::create_dir_all(&stubs).unwrap();
        std::fs::write(stubs.join("libcuda.so"), "").unwrap();
        std::fs::write(folder.join("libcuda.so.1"), "").unwrap();
        // The tests are in a program, in whose folder the driver library may be missing.
        let search = |path: &Path, folders: Option<&Path>| {
            let name = CString::new(path.as_os_str().as_bytes()).unwrap();
            replacement(&name, folders.map(|folders| folders.as_os_str().to_owned())).is_some()
        };
        let is_replaced = |path: &Path| search(path, None);
        let exists = own().is_some();
        for path in ["libcuda.so.1", "libcuda.so", "/missing/libcuda.so.1"] {
            assert_eq!(is_replaced(Path::new(path)), exists, "{path}");
        }
        assert_eq!(is_replaced(&stubs.join("libcuda.so")), exists);
        assert!(!is_replaced(&folder.join("libcuda.so.1")));
        assert!(!is_replaced(Path::new("libcudart.so.12")));
        let bare = Path::new("libcuda.so.1");
        assert!(
            !search(bare, Some(&folder)),
            "the dynamic linker finds a driver library"
        );
        assert_eq!(search(bare, Some(&stubs)), exists);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
