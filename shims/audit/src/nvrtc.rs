//! NVRTC: architectures of machines become virtual ones, and the PTX is the cubin.
//!
//! `--gpu-architecture=sm_86` is passed on as `compute_86`, which spares NVIDIA's assembler its work; where NVRTC then
//! has no cubin, the PTX is handed out for it. Code for linking later (`-dlto`) is compiled to PTX that can be
//! linked, which [`super::jitlink`] takes for it. Nothing is kept for a program: what there is of it is asked
//! of NVRTC. Where the changed options are refused, the caller's own are used.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::guarded;
use super::slots::{Kind, SLOTS, real};

type Program = *mut c_void;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Program, *mut c_char) -> c_int;

/// `NVRTC_SUCCESS`.
const SUCCESS: c_int = 0;
/// `NVRTC_ERROR_INVALID_INPUT`.
const INVALID_INPUT: c_int = 3;
/// `NVRTC_ERROR_INVALID_OPTION`.
const INVALID_OPTION: c_int = 5;
/// `NVRTC_ERROR_INTERNAL_ERROR`.
const INTERNAL: c_int = 11;

/// Our functions for one slot.
#[derive(Clone, Copy)]
struct StandIns {
    compile: Compile,
    cubin_size: Size,
    cubin: Get,
    lto_size: Size,
    lto: Get,
}

/// What clients ask for and get PTX in its place: the name of the function that copies it, by number.
const OUTPUTS: [&str; 2] = ["nvrtcGetCUBIN", "nvrtcGetLTOIR"];

macro_rules! for_slots {
    ($($slot:literal)*) => {
        [$(StandIns {
            compile: compile::<$slot>,
            cubin_size: size::<$slot, 0>,
            cubin: get::<$slot, 0>,
            lto_size: size::<$slot, 1>,
            lto: get::<$slot, 1>,
        }),*]
    };
}

static STAND_INS: [StandIns; SLOTS] = for_slots!(0 1 2 3 4 5 6 7);

/// Our function for a symbol, for the copy in a slot.
pub fn stand_in(slot: usize, symbol: &str) -> Option<usize> {
    let ours = STAND_INS.get(slot)?;
    match symbol {
        "nvrtcCompileProgram" => Some(ours.compile as usize),
        "nvrtcGetCUBINSize" => Some(ours.cubin_size as usize),
        "nvrtcGetCUBIN" => Some(ours.cubin as usize),
        "nvrtcGetLTOIRSize" => Some(ours.lto_size as usize),
        "nvrtcGetLTOIR" => Some(ours.lto as usize),
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

/// The options that make PTX, or `None` when these do.
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

/// Spellings of the option that asks for code to be linked later.
const LATER: [&[u8]; 4] = [b"-dlto", b"--dlto", b"-dlink-time-opt", b"--dlink-time-opt"];
/// PTX that can be linked, instead.
const LINKABLE: &[u8] = b"--relocatable-device-code=true";

/// `option` with `compute_` for `sm_`, where it names an architecture, in one word or after its name; and without
/// code for linking later.
fn virtual_option(previous: &[u8], option: &[u8]) -> Option<Vec<u8>> {
    if LATER.contains(&option) {
        return Some(LINKABLE.to_vec());
    }
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

/// The size of an output, and whether it is PTX that stands in for it.
///
/// # Safety
/// As `nvrtcGetCUBINSize`.
unsafe fn sized(slot: usize, output: usize, program: Program) -> Result<(usize, bool), c_int> {
    let name = OUTPUTS.get(output).ok_or(INTERNAL)?;
    let mut bytes = 0;
    // SAFETY: these are their types; the program is the caller's.
    unsafe {
        let own_size = own::<Size>(slot, &format!("{name}Size")).ok_or(INTERNAL)?;
        let code = own_size(program, &raw mut bytes);
        if code == SUCCESS && bytes > 0 {
            return Ok((bytes, false));
        }
        let ptx_size = own::<Size>(slot, "nvrtcGetPTXSize").ok_or(INTERNAL)?;
        match ptx_size(program, &raw mut bytes) {
            // One byte is an empty text.
            SUCCESS if bytes > 1 => Ok((bytes, true)),
            _ if code == SUCCESS => Ok((0, false)),
            _ => Err(code),
        }
    }
}

/// # Safety
/// As `nvrtcGetCUBINSize`.
unsafe extern "C" fn size<const SLOT: usize, const OUTPUT: usize>(
    program: Program,
    out: *mut usize,
) -> c_int {
    guarded(INTERNAL, || {
        if out.is_null() {
            return INVALID_INPUT;
        }
        // SAFETY: the caller's program and place.
        match unsafe { sized(SLOT, OUTPUT, program) } {
            Ok((bytes, _)) => {
                // SAFETY: the caller's place.
                unsafe { *out = bytes };
                SUCCESS
            }
            Err(code) => code,
        }
    })
}

/// # Safety
/// As `nvrtcGetCUBIN`.
unsafe extern "C" fn get<const SLOT: usize, const OUTPUT: usize>(
    program: Program,
    out: *mut c_char,
) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: the caller's program.
        let name = match unsafe { sized(SLOT, OUTPUT, program) } {
            Ok((_, true)) => "nvrtcGetPTX",
            _ => OUTPUTS[OUTPUT],
        };
        // SAFETY: that is their type; the caller has room for as many bytes as were told.
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
        is("-dlto", "--relocatable-device-code=true");
        assert_eq!(one("-arch=compute_86"), None);
        assert_eq!(one("-I=sm_86"), None);
        assert_eq!(one("-archive=sm_86"), None);
        let two = virtual_option(b"-arch", b"sm_75");
        assert_eq!(two.as_deref(), Some(&b"compute_75"[..]));
    }
}
