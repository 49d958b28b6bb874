//! The exported functions of a library: jumps to the functions of `libmargay_cublas.so`, which is in the same folder.
//!
//! The four libraries `libcublas` and `libcublasLt` of both toolkits share this file, the functions, and the state behind
//! them: a handle of cuBLAS is also one of cuBLASLt. When a library is loaded, it asks for the addresses of its functions
//! ([`at_load`]). If `libmargay_cublas.so` is missing or of another build, all functions return
//! `CUBLAS_STATUS_NOT_INITIALIZED`.

use std::arch::naked_asm;
use std::ffi::{CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The addresses of the functions, in the order of their jumps.
static SLOTS: AtomicPtr<*const ()> = AtomicPtr::new(std::ptr::null_mut());

/// The type of the function that returns the addresses; its arguments are the library, the toolkit and the number of
/// functions. It returns null if its own number is another one.
type Functions = unsafe extern "C" fn(u32, u32, usize) -> *mut *const ();

macro_rules! trampoline {
    ($name:ident, $offset:literal) => {
        #[doc = "Jumps to the function of the same name."]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                "mov r11, qword ptr [rip + {slots}]",
                "jmp qword ptr [r11 + {offset}]",
                slots = sym SLOTS,
                offset = const $offset,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                "adrp x16, {slots}",
                "ldr x16, [x16, :lo12:{slots}]",
                "ldr x16, [x16, #{offset}]",
                "br x16",
                slots = sym SLOTS,
                offset = const $offset,
            );
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let slots = functions().unwrap_or_else(|| {
        let all = vec![unavailable as extern "C" fn() -> i32 as *const (); COUNT];
        Box::leak(all.into_boxed_slice()).as_mut_ptr()
    });
    SLOTS.store(slots, Ordering::Release);
}

/// Answers each call if there is no library with the functions.
extern "C" fn unavailable() -> i32 {
    const NOT_INITIALIZED: i32 = 1;
    NOT_INITIALIZED
}

/// Returns the addresses of the functions.
fn functions() -> Option<*mut *const ()> {
    let file = own_folder()?.join("libmargay_cublas.so");
    let file = CString::new(file.as_os_str().as_bytes()).ok()?;
    // SAFETY: the name is a C string.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the handle belongs to a loaded library, and the name is a C string.
    let address = unsafe { libc::dlsym(library, c"margay_cublas_functions".as_ptr()) };
    if address.is_null() {
        return None;
    }
    // SAFETY: the function has this type.
    let functions = unsafe { std::mem::transmute::<*mut c_void, Functions>(address) };
    // SAFETY: the function accepts all numbers.
    let slots = unsafe { functions(super::LIBRARY, super::TOOLKIT, COUNT) };
    (!slots.is_null()).then_some(slots)
}

/// Returns the folder of this library's file. The dynamic linker can know the file under a path of NVIDIA's file, which
/// Margay's replaces, so the system's list of mappings is asked.
fn own_folder() -> Option<PathBuf> {
    let own = (&raw const SLOTS).addr();
    let maps = std::fs::read("/proc/self/maps").ok()?;
    for line in maps.split(|&byte| byte == b'\n') {
        let range = line.split(|&byte| byte == b' ').next()?;
        let range = std::str::from_utf8(range).ok()?;
        let Some((start, end)) = range.split_once('-') else {
            continue;
        };
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16));
        if (start.ok()?..end.ok()?).contains(&own) {
            let path = &line[line.iter().position(|&byte| byte == b'/')?..];
            return Some(Path::new(OsStr::from_bytes(path)).parent()?.to_owned());
        }
    }
    None
}
