//! Opens shared libraries at run time.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// An open library. It is never closed, because threads of the library may still run.
#[derive(Clone, Copy)]
pub(crate) struct Library(NonNull<c_void>);

impl Library {
    /// Opens a library by its path, or by its name on the system's search path.
    ///
    /// # Safety
    /// The caller must guarantee that the library's initialisers are sound, because this call runs them.
    pub(crate) unsafe fn open(name: &str) -> Result<Library, String> {
        let name = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the name ends with a zero; the caller guarantees that the initialisers are sound.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(library).map(Library).ok_or_else(reason)
    }

    /// Returns the address of the function or variable called `name`, as a value of the pointer
    /// type `F`.
    ///
    /// # Safety
    /// `F` must be a function pointer of the function's type, or a pointer to the variable's type.
    pub(crate) unsafe fn symbol<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: the library is open and the name ends with a zero.
        let symbol = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        if symbol.is_null() {
            return Err(reason());
        }
        // SAFETY: the sizes are equal; the caller guarantees the type.
        Ok(unsafe { std::mem::transmute_copy(&symbol) })
    }
}

/// Returns the message of the dynamic linker's last error (`dlerror`).
fn reason() -> String {
    // SAFETY: `dlerror` returns a text that is valid until the next call on this thread, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader reports no reason".to_owned();
    }
    // SAFETY: the text is valid until the next call of the loader on this thread.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        // SAFETY: no library has this name, so no initialiser runs.
        let missing = unsafe { Library::open("libno_such_library.so.9") };
        assert!(
            missing
                .err()
                .expect("missing")
                .contains("libno_such_library")
        );
    }
}
