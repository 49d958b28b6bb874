//! The driver library, and its table of functions for native kernels.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;

/// The identifier of the table of native kernels.
const TABLE: [u8; 16] = *b"MargayNativeKern";
/// The version of the table's layout.
const VERSION: usize = 1;

/// A range of memory that a native kernel accesses.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub address: *const c_void,
    /// The number of bytes.
    pub bytes: usize,
    /// 1 if the kernel writes the range, 0 if it reads it.
    pub writes: u32,
    /// Unused.
    pub pad: u32,
}

/// A native kernel: `tasks` calls of `run`. The driver calls `drop` once, also if it does not accept the kernel.
#[repr(C)]
pub struct Kernel {
    /// The size of this structure.
    pub size: usize,
    /// The name that tools show.
    pub name: *const c_char,
    /// The first argument of `run` and `drop`.
    pub context: *mut c_void,
    /// The number of calls.
    pub tasks: u32,
    /// Unused.
    pub pad: u32,
    /// Runs a task; returns 0 or a result of the driver API.
    pub run: extern "C" fn(*mut c_void, u32) -> u32,
    /// Frees the context.
    pub drop: Option<extern "C" fn(*mut c_void)>,
    /// The ranges that the tasks access.
    pub ranges: *const Range,
    /// Their number.
    pub range_count: usize,
}

/// The table of native kernels.
#[repr(C)]
pub struct Native {
    /// The size of the table.
    pub size: usize,
    /// The version of its layout.
    pub version: usize,
    /// Submits a kernel to a stream.
    pub launch: unsafe extern "C" fn(usize, u32, *const Kernel) -> u32,
    /// Says what a range is: 0 other memory, 1 device or managed memory, 2 registered host memory, 3 not inside one.
    pub memory: unsafe extern "C" fn(*const c_void, usize) -> u32,
    /// Returns the number of workers.
    pub workers: extern "C" fn() -> u32,
}

/// A driver library that is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Library(*mut c_void);

impl Library {
    /// Returns the driver library: one that the program can see, else `libcuda.so.1`, which is loaded if necessary.
    pub fn find() -> Option<Library> {
        let visible = Library(libc::RTLD_DEFAULT);
        if visible.symbol(c"cuGetExportTable").is_some() {
            return Some(visible);
        }
        const LIBRARY: *const c_char = c"libcuda.so.1".as_ptr();
        // SAFETY: the name is a C string.
        let library = unsafe { libc::dlopen(LIBRARY, libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!library.is_null()).then_some(Library(library))
    }

    /// Returns the address of a function.
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle belongs to a loaded library or is one of the special handles, and the name is a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// Returns the table of native kernels; `None` if the driver is not Margay's.
    pub fn native(self) -> Option<&'static Native> {
        type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_int;
        let address = self.symbol(c"cuGetExportTable")?;
        // SAFETY: the driver library's function has this type.
        let get = unsafe { transmute::<*mut c_void, GetExportTable>(address) };
        let (mut table, id) = (std::ptr::null(), TABLE);
        // SAFETY: both arguments are valid during the call.
        let code = unsafe { get(&raw mut table, &raw const id) };
        if code != 0 || table.is_null() {
            return None;
        }
        // SAFETY: a table with this identifier begins with its size and its version, and is never freed.
        let [size, version] = unsafe { table.cast::<[usize; 2]>().read() };
        if size < size_of::<Native>() || version != VERSION {
            return None;
        }
        // SAFETY: the table has the layout of this version.
        Some(unsafe { &*table.cast::<Native>() })
    }
}
