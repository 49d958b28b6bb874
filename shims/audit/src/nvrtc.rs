//! The replacement of NVRTC: it compiles for virtual architectures (`compute_86`) and returns the
//! resulting PTX instead of a cubin.
//!
//! `--gpu-architecture=sm_86` is passed to NVRTC as `compute_86`, so NVIDIA's assembler does not
//! run. NVRTC then has no cubin, and this module returns the PTX in place of the cubin. Code for
//! link-time optimisation (`-dlto`, LTO-IR) stays NVRTC's, and [`super::jitlink`] translates it to
//! PTX. This module needs no state for an `nvrtcProgram`, because it passes every query on to
//! NVRTC. If NVRTC rejects the changed options, this module calls NVRTC again with the caller's
//! own options.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::guarded;
use super::slots::{Kind, SLOTS, real};

type Program = *mut c_void;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// `NVRTC_SUCCESS`.
const SUCCESS: c_int = 0;
/// `NVRTC_ERROR_INVALID_INPUT`.
const INVALID_INPUT: c_int = 3;
/// `NVRTC_ERROR_INVALID_OPTION`.
const INVALID_OPTION: c_int = 5;
/// `NVRTC_ERROR_INTERNAL_ERROR`.
const INTERNAL: c_int = 11;

/// The replacement functions for the library copy in one slot.
#[derive(Clone, Copy)]
struct StandIns {
    compile: Compile,
    cubin_size: Size,
    cubin: Get,
}

macro_rules! for_slots {
    ($($slot:literal)*) => {
        [$(StandIns {
            compile: compile::<$slot>,
            cubin_size: size::<$slot>,
            cubin: get::<$slot>,
        }),*]
    };
}

static STAND_INS: [StandIns; SLOTS] = for_slots!(0 1 2 3 4 5 6 7);

/// Returns the address of the function that replaces a symbol of the library copy in a slot, or
/// `None` if the symbol is not replaced.
pub fn stand_in(slot: usize, symbol: &str) -> Option<usize> {
    let ours = STAND_INS.get(slot)?;
    match symbol {
        "nvrtcCompileProgram" => Some(ours.compile as usize),
        "nvrtcGetCUBINSize" => Some(ours.cubin_size as usize),
        "nvrtcGetCUBIN" => Some(ours.cubin as usize),
        _ => None,
    }
}

/// Returns the library's own function `symbol` of the library copy in a slot.
///
/// # Safety
/// `F` must be the type of the C function `symbol`.
unsafe fn own<F: Copy>(slot: usize, symbol: &str) -> Option<F> {
    // SAFETY: the caller guarantees the type.
    unsafe { real(Kind::Nvrtc, slot, symbol) }
}

/// Compiles CUDA C++ to LTO-IR for the architecture `sm` with a copy of NVRTC, for a copy of NVIDIA's linker with the
/// major version `major`. Uses a loaded copy of this version, or loads one. Returns the reason as text if that fails.
pub(crate) fn link_time_code(source: &CStr, sm: u32, major: c_int) -> Result<Vec<u8>, String> {
    let slot = (0..SLOTS)
        .find(|&slot| version(slot) == Some(major))
        .or_else(|| load(major))
        .ok_or_else(|| {
            format!("NVRTC {major} (libnvrtc.so.{major}) is not loaded and not found")
        })?;
    // SAFETY: the functions have these types.
    let functions = unsafe {
        (
            own::<Create>(slot, "nvrtcCreateProgram"),
            own::<Compile>(slot, "nvrtcCompileProgram"),
            own::<Size>(slot, "nvrtcGetLTOIRSize"),
            own::<Get>(slot, "nvrtcGetLTOIR"),
            own::<Destroy>(slot, "nvrtcDestroyProgram"),
        )
    };
    let (Some(create), Some(compile), Some(size), Some(get), Some(destroy)) = functions else {
        return Err("NVRTC has no link-time code (LTO-IR)".to_owned());
    };
    let architecture = CString::new(format!("-arch=compute_{sm}")).unwrap_or_default();
    let options = [
        architecture.as_ptr(),
        c"-dlto".as_ptr(),
        c"-rdc=true".as_ptr(),
    ];
    let mut program: Program = std::ptr::null_mut();
    let mut bytes = 0;
    let mut code = Vec::new();
    // SAFETY: the strings are C strings; the program is destroyed after its last use; the buffer has the size that NVRTC
    // returned.
    let result = unsafe {
        let mut result = create(
            &raw mut program,
            source.as_ptr(),
            c"references.cu".as_ptr(),
            0,
            std::ptr::null(),
            std::ptr::null(),
        );
        if result == SUCCESS {
            result = compile(program, options.len() as c_int, options.as_ptr());
            if result == SUCCESS {
                result = size(program, &raw mut bytes);
            }
            if result == SUCCESS {
                code.resize(bytes, 0);
                result = get(program, code.as_mut_ptr().cast());
            }
            destroy(&raw mut program);
        }
        result
    };
    match result {
        SUCCESS => Ok(code),
        result => Err(format!("NVRTC returns error {result}")),
    }
}

/// Returns the major version of the copy of NVRTC in a slot.
fn version(slot: usize) -> Option<c_int> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the function has this type.
    let version = unsafe { own::<Version>(slot, "nvrtcVersion") }?;
    // SAFETY: both pointers are valid during the call.
    let result = unsafe { version(&raw mut major, &raw mut minor) };
    (result == SUCCESS).then_some(major)
}

/// Loads NVRTC as a program would, and returns its slot.
fn load(major: c_int) -> Option<usize> {
    let name = CString::new(format!("libnvrtc.so.{major}")).ok()?;
    // SAFETY: the name is a C string. The library stays loaded.
    let handle = unsafe { libc::dlmopen(libc::LM_ID_BASE, name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return None;
    }
    (0..SLOTS).find(|&slot| version(slot) == Some(major))
}

/// # Safety
/// The caller must satisfy the conditions of `nvrtcCompileProgram`.
unsafe extern "C" fn compile<const SLOT: usize>(
    program: Program,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: the function has this type.
        let Some(own) = (unsafe { own::<Compile>(SLOT, "nvrtcCompileProgram") }) else {
            return INTERNAL;
        };
        // SAFETY: the caller guarantees the options.
        if let Some(virtual_ones) = unsafe { virtual_options(count, options) } {
            let pointers: Vec<*const c_char> = virtual_ones.iter().map(|o| o.as_ptr()).collect();
            // SAFETY: there are `count` C strings.
            let code = unsafe { own(program, count, pointers.as_ptr()) };
            if code != INVALID_OPTION {
                return code;
            }
        }
        // SAFETY: the arguments come from the caller.
        unsafe { own(program, count, options) }
    })
}

/// Returns a copy of the options with changes that make NVRTC produce PTX, or `None` if no change is needed.
///
/// # Safety
/// `options` must be null or point to `count` C strings.
unsafe fn virtual_options(count: c_int, options: *const *const c_char) -> Option<Vec<CString>> {
    let count = usize::try_from(count).ok()?;
    if options.is_null() {
        return None;
    }
    let mut found = false;
    let mut changed = Vec::with_capacity(count);
    let mut previous: &CStr = c"";
    for index in 0..count {
        // SAFETY: the caller guarantees the strings.
        let option = unsafe {
            let option = options.add(index).read();
            if option.is_null() {
                return None;
            }
            CStr::from_ptr(option)
        };
        let text = virtual_option(previous.to_bytes(), option.to_bytes());
        found |= text.is_some();
        changed.push(match text {
            Some(text) => CString::new(text).ok()?,
            None => option.to_owned(),
        });
        previous = option;
    }
    found.then_some(changed)
}

const NAMES: [&[u8]; 2] = [b"--gpu-architecture", b"-arch"];

/// Returns the option that NVRTC gets instead of `option`, or `None` if it gets `option` unchanged.
/// An architecture `sm_*` becomes `compute_*`. The architecture is a part of the argument that
/// names the option, or it is the next argument; `previous` is the argument before `option`.
fn virtual_option(previous: &[u8], option: &[u8]) -> Option<Vec<u8>> {
    let names = || {
        NAMES
            .iter()
            .chain(&[b"-gpu-architecture" as &[u8], b"--arch"])
    };
    let head = if names().any(|name| *name == previous) {
        0
    } else {
        let with_equals = |name: &&&[u8]| {
            option
                .strip_prefix(**name)
                .is_some_and(|rest| rest.starts_with(b"="))
        };
        names().find(with_equals)?.len() + 1
    };
    let number = option[head..].strip_prefix(b"sm_")?;
    Some([&option[..head], b"compute_", number].concat())
}

/// Returns the size of the cubin, or of the PTX that replaces it, in bytes, and whether PTX replaces it.
///
/// # Safety
/// The caller must satisfy the conditions of `nvrtcGetCUBINSize`.
unsafe fn sized(slot: usize, program: Program) -> Result<(usize, bool), c_int> {
    let mut bytes = 0;
    // SAFETY: the functions have these types; the program comes from the caller.
    unsafe {
        let own_size = own::<Size>(slot, "nvrtcGetCUBINSize").ok_or(INTERNAL)?;
        let code = own_size(program, &raw mut bytes);
        if code == SUCCESS && bytes > 0 {
            return Ok((bytes, false));
        }
        let ptx_size = own::<Size>(slot, "nvrtcGetPTXSize").ok_or(INTERNAL)?;
        match ptx_size(program, &raw mut bytes) {
            // A size of one byte means that the PTX is empty: the byte is the NUL.
            SUCCESS if bytes > 1 => Ok((bytes, true)),
            _ if code == SUCCESS => Ok((0, false)),
            _ => Err(code),
        }
    }
}

/// # Safety
/// The caller must satisfy the conditions of `nvrtcGetCUBINSize`.
unsafe extern "C" fn size<const SLOT: usize>(program: Program, out: *mut usize) -> c_int {
    guarded(INTERNAL, || {
        if out.is_null() {
            return INVALID_INPUT;
        }
        // SAFETY: the program and the pointer come from the caller; the pointer is not null.
        match unsafe { sized(SLOT, program) } {
            Ok((bytes, _)) => {
                // SAFETY: the caller guarantees memory for a size.
                unsafe { *out = bytes };
                SUCCESS
            }
            Err(code) => code,
        }
    })
}

/// # Safety
/// The caller must satisfy the conditions of `nvrtcGetCUBIN`.
unsafe extern "C" fn get<const SLOT: usize>(program: Program, out: *mut c_char) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: the program comes from the caller.
        let name = match unsafe { sized(SLOT, program) } {
            Ok((_, true)) => "nvrtcGetPTX",
            _ => "nvrtcGetCUBIN",
        };
        // SAFETY: both functions have this type; the caller guarantees as many bytes as the size function returned.
        unsafe { own::<Get>(SLOT, name).map_or(INTERNAL, |get| get(program, out)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_become_virtual() {
        let one = |option: &str| virtual_option(b"", option.as_bytes()).map(String::from_utf8);
        let is = |option, text: &str| assert_eq!(one(option), Some(Ok(text.to_owned())));
        is("-arch=sm_86", "-arch=compute_86");
        is(
            "--gpu-architecture=sm_90a",
            "--gpu-architecture=compute_90a",
        );
        assert_eq!(one("-dlto"), None);
        assert_eq!(one("-arch=compute_86"), None);
        assert_eq!(one("-I=sm_86"), None);
        assert_eq!(one("-archive=sm_86"), None);
        let two = virtual_option(b"-arch", b"sm_75");
        assert_eq!(two.as_deref(), Some(&b"compute_75"[..]));
    }
}
