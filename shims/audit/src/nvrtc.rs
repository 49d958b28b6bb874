//! The replacement of NVRTC: it compiles for virtual architectures (`compute_86`) and returns the
//! resulting PTX instead of a cubin.
//!
//! `--gpu-architecture=sm_86` is passed to NVRTC as `compute_86`, so NVIDIA's assembler does not
//! run. NVRTC then has no cubin, and this module returns the PTX in place of the cubin. If the
//! caller passes `-dlto`, NVRTC produces linkable PTX instead of LTO-IR, and [`super::jitlink`]
//! accepts this PTX. This module needs no state for an `nvrtcProgram`, because it passes every
//! query on to NVRTC. If NVRTC rejects the changed options, this module calls NVRTC again with the
//! caller's own options.

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

/// The replacement functions for the library copy in one slot.
#[derive(Clone, Copy)]
struct StandIns {
    compile: Compile,
    cubin_size: Size,
    cubin: Get,
    lto_size: Size,
    lto: Get,
}

/// The outputs of NVRTC that this module replaces by PTX. Each entry is the name of the function
/// that copies the output to the caller's memory.
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

/// Returns the address of the function that replaces a symbol of the library copy in a slot, or
/// `None` if the symbol is not replaced.
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

/// Returns the library's own function `symbol` of the library copy in a slot.
///
/// # Safety
/// `F` must be the type of the C function `symbol`.
unsafe fn own<F: Copy>(slot: usize, symbol: &str) -> Option<F> {
    // SAFETY: the caller guarantees the type.
    unsafe { real(Kind::Nvrtc, slot, symbol) }
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

/// The spellings of the option that requests LTO-IR (code for link-time optimisation).
const LATER: [&[u8]; 4] = [b"-dlto", b"--dlto", b"-dlink-time-opt", b"--dlink-time-opt"];
/// The option that NVRTC gets instead of an option in [`LATER`]. It requests linkable PTX, which
/// [`super::jitlink`] can read, instead of LTO-IR.
const LINKABLE: &[u8] = b"--relocatable-device-code=true";

/// Returns the option that NVRTC gets instead of `option`, or `None` if it gets `option` unchanged.
/// An architecture `sm_*` becomes `compute_*`. The architecture is a part of the argument that
/// names the option, or it is the next argument; `previous` is the argument before `option`. An
/// option for LTO-IR becomes the option for linkable PTX.
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

/// Returns the size of an output ([`OUTPUTS`]) in bytes, and whether PTX replaces the output.
///
/// # Safety
/// The caller must satisfy the conditions of `nvrtcGetCUBINSize`.
unsafe fn sized(slot: usize, output: usize, program: Program) -> Result<(usize, bool), c_int> {
    let name = OUTPUTS.get(output).ok_or(INTERNAL)?;
    let mut bytes = 0;
    // SAFETY: the functions have these types; the program comes from the caller.
    unsafe {
        let own_size = own::<Size>(slot, &format!("{name}Size")).ok_or(INTERNAL)?;
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
unsafe extern "C" fn size<const SLOT: usize, const OUTPUT: usize>(
    program: Program,
    out: *mut usize,
) -> c_int {
    guarded(INTERNAL, || {
        if out.is_null() {
            return INVALID_INPUT;
        }
        // SAFETY: the program and the pointer come from the caller; the pointer is not null.
        match unsafe { sized(SLOT, OUTPUT, program) } {
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
unsafe extern "C" fn get<const SLOT: usize, const OUTPUT: usize>(
    program: Program,
    out: *mut c_char,
) -> c_int {
    guarded(INTERNAL, || {
        // SAFETY: the program comes from the caller.
        let name = match unsafe { sized(SLOT, OUTPUT, program) } {
            Ok((_, true)) => "nvrtcGetPTX",
            _ => OUTPUTS[OUTPUT],
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
        is("-dlto", "--relocatable-device-code=true");
        assert_eq!(one("-arch=compute_86"), None);
        assert_eq!(one("-I=sm_86"), None);
        assert_eq!(one("-archive=sm_86"), None);
        let two = virtual_option(b"-arch", b"sm_75");
        assert_eq!(two.as_deref(), Some(&b"compute_75"[..]));
    }
}
