//! NVRTC: architectures of machines become virtual ones, and the PTX is the cubin.
//!
//! `--gpu-architecture=sm_86` is passed on as `compute_86`, which spares NVIDIA's assembler its work; where NVRTC then
//! has no cubin, the PTX is handed out for it. Nothing is kept for a program: that there is no cubin of a
//! program is asked of NVRTC. Where the changed options are refused, the caller's own are used.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::guarded;
use super::slots::{Kind, SLOTS, real};

type Program = *mut c_void;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// `NVRTC_SUCCESS`.
const SUCCESS: c_int = 0;
/// `NVRTC_ERROR_INVALID_OPTION`.
const INVALID_OPTION: c_int = 5;
/// `NVRTC_ERROR_INTERNAL_ERROR`.
const INTERNAL: c_int = 11;

/// Our functions for one slot.
#[derive(Clone, Copy)]
struct StandIns {
    compile: Compile,
    size: Size,
    get: Get,
}

macro_rules! for_slots {
    ($($slot:literal)*) => {
        [$(StandIns { compile: compile::<$slot>, size: size::<$slot>, get: get::<$slot> }),*]
    };
}

static STAND_INS: [StandIns; SLOTS] = for_slots!(0 1 2 3 4 5 6 7);

/// Our function for a symbol, for the copy in a slot.
pub fn stand_in(slot: usize, symbol: &str) -> Option<usize> {
    let ours = STAND_INS.get(slot)?;
    match symbol {
        "nvrtcCompileProgram" => Some(ours.compile as usize),
        "nvrtcGetCUBINSize" => Some(ours.size as usize),
        "nvrtcGetCUBIN" => Some(ours.get as usize),
        _ => None,
    }
}

/// The copy's own function.
///
/// # Safety
/// `F` is its type.
unsafe fn own<F: Copy>(slot: usize, symbol: &str) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    unsafe { real(Kind::Nvrtc, slot, symbol) }
}

/// # Safety
/// As `nvrtcCompileProgram`.
unsafe extern "C" fn compile<const SLOT: usize>(
    program: Program,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: that is its type.
        let Some(own) = (unsafe { own::<Compile>(SLOT, "nvrtcCompileProgram") }) else {
            return INTERNAL;
        };
        // SAFETY: the caller vouches for the options.
        if let Some(virtual_ones) = unsafe { virtual_options(count, options) } {
            let pointers: Vec<*const c_char> = virtual_ones.iter().map(|o| o.as_ptr()).collect();
            // SAFETY: as many C strings as are counted.
            let code = unsafe { own(program, count, pointers.as_ptr()) };
            if code != INVALID_OPTION {
                return code;
            }
        }
        // SAFETY: the caller's arguments.
        unsafe { own(program, count, options) }
    })
}

/// The options with virtual architectures, or `None` when they name no machine's.
///
/// # Safety
/// `options` points to `count` C strings, or is null.
unsafe fn virtual_options(count: c_int, options: *const *const c_char) -> Option<Vec<CString>> {
    let count = usize::try_from(count).ok()?;
    if options.is_null() {
        return None;
    }
    let mut found = false;
    let mut changed = Vec::with_capacity(count);
    let mut previous: &CStr = c"";
    for index in 0..count {
        // SAFETY: the caller vouches for the strings.
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

/// `option` with `compute_` for `sm_`, where it names an architecture, in one word or after its name.
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

/// # Safety
/// As `nvrtcGetCUBINSize`.
unsafe extern "C" fn size<const SLOT: usize>(program: Program, out: *mut usize) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: these are their types, and the caller's arguments.
        unsafe {
            let Some(cubin) = own::<Size>(SLOT, "nvrtcGetCUBINSize") else {
                return INTERNAL;
            };
            let code = cubin(program, out);
            match own::<Size>(SLOT, "nvrtcGetPTXSize") {
                Some(ptx) if code == SUCCESS && *out == 0 => ptx(program, out),
                _ => code,
            }
        }
    })
}

/// # Safety
/// As `nvrtcGetCUBIN`.
unsafe extern "C" fn get<const SLOT: usize>(program: Program, out: *mut c_char) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: these are their types, and the caller's arguments.
        unsafe {
            let (Some(size), Some(cubin)) = (
                own::<Size>(SLOT, "nvrtcGetCUBINSize"),
                own::<Get>(SLOT, "nvrtcGetCUBIN"),
            ) else {
                return INTERNAL;
            };
            let mut bytes = 0;
            match (size(program, &raw mut bytes), bytes) {
                (SUCCESS, 0) => match own::<Get>(SLOT, "nvrtcGetPTX") {
                    Some(ptx) => ptx(program, out),
                    None => INTERNAL,
                },
                _ => cubin(program, out),
            }
        }
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
        assert_eq!(one("-arch=compute_86"), None);
        assert_eq!(one("-I=sm_86"), None);
        assert_eq!(one("-archive=sm_86"), None);
        let two = virtual_option(b"-arch", b"sm_75");
        assert_eq!(two.as_deref(), Some(&b"compute_75"[..]));
    }
}
