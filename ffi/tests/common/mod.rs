//! Loads the built library as a CUDA program loads the driver library.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::{CString, c_void};
use std::path::PathBuf;

/// Returns the path of the built library, which is in the folder of this test's program or in the
/// folder above.
pub(crate) fn library_path() -> PathBuf {
    let test = std::env::current_exe().expect("this program has a path");
    let deps = test.parent().expect("a folder");
    let beside = deps.join("libcuda.so");
    if beside.exists() {
        return beside;
    }
    deps.parent().expect("a folder").join("libcuda.so")
}

/// Returns the path of a folder that contains the library under the name that programs load
/// (`libcuda.so.1`).
pub(crate) fn library_folder() -> PathBuf {
    let folder = library_path()
        .parent()
        .expect("a folder")
        .join("libcuda-for-tests");
    std::fs::create_dir_all(&folder).expect("folder");
    let link = folder.join("libcuda.so.1");
    // If the folder was moved, an existing link is dangling.
    if std::fs::read_link(&link).is_ok_and(|to| to != library_path()) {
        let _ = std::fs::remove_file(&link);
    }
    // Several tests may do this at the same time. All of them create the same link.
    let _ = std::os::unix::fs::symlink(library_path(), &link);
    folder
}

/// The built `libcuda.so`, loaded into this process.
pub(crate) struct Driver {
    handle: *mut c_void,
}

// SAFETY: the handle of a library is valid in every thread.
unsafe impl Send for Driver {}
// SAFETY: the handle of a library is valid in every thread.
unsafe impl Sync for Driver {}

impl Driver {
    pub(crate) fn load() -> Driver {
        let path = library_path().into_os_string().into_encoded_bytes();
        let path = CString::new(path).expect("a path");
        // SAFETY: the path is a C string.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} does not load");
        Driver { handle }
    }

    pub(crate) fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).expect("a name");
        // SAFETY: handle and name are valid.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// Returns the library's export `name` as a function of type `F`.
    ///
    /// # Safety
    /// `F` must be the function type of the export.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> F {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        let address = self
            .symbol(name)
            .unwrap_or_else(|| panic!("{name} is not exported"));
        // SAFETY: the caller guarantees the type.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

impl Driver {
    /// Calls the library's export `name`, whose arguments must be integers and pointers. Returns
    /// its result code.
    ///
    /// On every supported platform, an argument narrower than a word is passed in the same register as a word.
    pub(crate) fn call(&self, name: &str, arguments: &[usize]) -> u32 {
        type F = unsafe extern "C" fn(
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
            usize,
        ) -> u32;
        let mut a = [0; 11];
        a[..arguments.len()].copy_from_slice(arguments);
        // SAFETY: extra arguments are harmless in the C calling convention; the test passes arguments that are valid
        // for the export.
        unsafe {
            let function: F = self.function(name);
            function(
                a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10],
            )
        }
    }
}
