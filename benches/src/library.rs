//! Shared libraries opened at run time.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// An open library. It is never closed: threads that it started may go on.
#[derive(Clone, Copy)]
pub(crate) struct Library(NonNull<c_void>);

impl Library {
    /// Opens a library by its path, or by its name where the system looks for libraries.
    ///
    /// # Safety
    /// Its initialisers run.
    pub(crate) unsafe fn open(name: &str) -> Result<Library, String> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the name ends with a zero; the caller answers for the initialisers.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(library).map(Library).ok_or_else(reason)
    }

    /// A function or variable of this name.
    ///
    /// # Safety
    /// `F` is a function pointer of its type, or a pointer to a variable of its type.
    pub(crate) unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: the library is open and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if symbol.is_null() {
            return Err(reason());
        }
        // SAFETY: the sizes are equal; the caller answers for the type.
        Ok(unsafe { std::mem::transmute_copy(&symbol) })
    }
}

/// What the loader says went wrong.
fn reason() -> String {
    // SAFETY: `dlerror` gives a text that stays until the next call in this thread, or nothing.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        // SAFETY: nothing has this name.
        let missing = unsafe { Library::open("libno_such_library.so.9") };
        assert!(
            missing
                .err()
                .expect("missing")
                .contains("libno_such_library")
        );
    }
}
