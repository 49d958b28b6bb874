//! The driver library and its table of functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use margay_activity::interface::{Interface, Outcome, TABLE, VERSION};

/// Returns the table of the driver library.
///
/// # Errors
/// `NOT_INITIALIZED` if no driver library is found, or one that is not of this build. The next call tries again.
pub(crate) fn driver() -> Result<&'static Interface, Outcome> {
    static FOUND: OnceLock<&'static Interface> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    let found = find().ok_or(Outcome::NOT_INITIALIZED)?;
    Ok(FOUND.get_or_init(|| found))
}

type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_int;

fn find() -> Option<&'static Interface> {
    let address = symbol(c"cuGetExportTable")?;
    // SAFETY: the driver library's function has this type.
    let get = unsafe { std::mem::transmute::<*mut c_void, GetExportTable>(address) };
    let (mut table, id) = (std::ptr::null(), TABLE);
    // SAFETY: both arguments are valid during the call.
    let code = unsafe { get(&raw mut table, &raw const id) };
    if code != 0 || table.is_null() {
        return None;
    }
    // SAFETY: a table with this identifier begins with its size and its version, and is never freed.
    let [size, version] = unsafe { table.cast::<[usize; 2]>().read() };
    if size != size_of::<Interface>() || version != VERSION {
        return None;
    }
    // SAFETY: the table has the layout of this version.
    Some(unsafe { &*table.cast::<Interface>() })
}

/// Returns the address of a function of the driver library. A program may look for its devices later than for this
/// library, so the driver library is loaded if it is not yet loaded.
pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    const LIBRARY: *const c_char = c"libcuda.so.1".as_ptr();
    // SAFETY: the name is a C string.
    let library = unsafe { libc::dlopen(LIBRARY, libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the handle belongs to a loaded library, and the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
