//! The replacement of nvJitLink: a linker that combines PTX inputs into one image instead of
//! producing a cubin.
//!
//! Margay's front end parses all inputs that are PTX or contain PTX, so error messages contain line
//! numbers. The linker combines the inputs into one image that Margay can load
//! ([`margay_frontend::container::join`]). LTO-IR (code for link-time optimisation), which NVRTC,
//! Numba and `nvcc` produce, has NVIDIA's own format, which Margay cannot read. NVIDIA's linker
//! translates all LTO-IR inputs of a link together to PTX (`-lto -ptx`). The translated PTX
//! contains the kernels and the functions that they call, and the functions that the PTX inputs
//! call ([`kept`]). Functions that other inputs define stay undefined in the translated PTX; Margay
//! then links this PTX with the other inputs.
//!
//! NVIDIA's linker checks the options of a link. Each link of this module therefore has a handle of
//! NVIDIA's linker. Invariant: this module looks up a client's handle in a table and never
//! dereferences it.

mod kept;
mod link;
mod registry;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

use super::guarded;
use super::slots::{Kind, SLOTS, real};
use link::Link;
use registry::{insert, remove, with};

type Handle = *mut c_void;
type Create = unsafe extern "C" fn(*mut Handle, u32, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Handle) -> c_int;
type AddData = unsafe extern "C" fn(Handle, c_int, *const c_void, usize, *const c_char) -> c_int;
type Version = unsafe extern "C" fn(*mut c_uint, *mut c_uint) -> c_int;
type Complete = unsafe extern "C" fn(Handle) -> c_int;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;

/// The result codes that this module returns (values of `nvJitLinkResult`).
pub(crate) mod code {
    use std::ffi::c_int;

    pub(crate) const SUCCESS: c_int = 0;
    pub(crate) const INVALID_INPUT: c_int = 3;
    pub(crate) const PTX_COMPILE: c_int = 4;
    pub(crate) const INTERNAL: c_int = 6;
    pub(crate) const NULL_INPUT: c_int = 10;
    pub(crate) const INCOMPATIBLE_OPTIONS: c_int = 11;
    pub(crate) const INCORRECT_INPUT_TYPE: c_int = 12;
}

/// The outputs of a link that clients can request: the results and the logs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Cubin,
    Ptx,
    LtoIr,
    ErrorLog,
    InfoLog,
}

impl Output {
    const fn from_number(number: usize) -> Output {
        match number {
            0 => Output::Cubin,
            1 => Output::Ptx,
            2 => Output::LtoIr,
            3 => Output::ErrorLog,
            _ => Output::InfoLog,
        }
    }

    /// Returns the name of the nvJitLink function that copies this output to the client's memory.
    fn getter(self) -> &'static str {
        match self {
            Output::Cubin => "nvJitLinkGetLinkedCubin",
            Output::Ptx => "nvJitLinkGetLinkedPtx",
            Output::LtoIr => "nvJitLinkGetLinkedLTOIR",
            Output::ErrorLog => "nvJitLinkGetErrorLog",
            Output::InfoLog => "nvJitLinkGetInfoLog",
        }
    }
}

macro_rules! in_slots {
    ($type:ty: $function:ident $(, $output:literal)?) => {
        const {
            let table: [$type; SLOTS] = [
                $function::<0 $(, $output)?>, $function::<1 $(, $output)?>,
                $function::<2 $(, $output)?>, $function::<3 $(, $output)?>,
                $function::<4 $(, $output)?>, $function::<5 $(, $output)?>,
                $function::<6 $(, $output)?>, $function::<7 $(, $output)?>,
            ];
            table
        }
    };
}

/// Returns the address of the function that replaces a symbol of the library copy in a slot, or
/// `None` if the symbol is not replaced. The name of the symbol may contain a version, which macros
/// of NVIDIA's header add: `__nvJitLinkCreate_13_5` instead of `nvJitLinkCreate`.
pub fn stand_in(slot: usize, symbol: &str) -> Option<usize> {
    if slot >= SLOTS {
        return None;
    }
    Some(match plain(symbol) {
        "nvJitLinkCreate" => in_slots!(Create: create)[slot] as usize,
        "nvJitLinkDestroy" => destroy as *const () as usize,
        "nvJitLinkAddData" => add_data as *const () as usize,
        "nvJitLinkAddFile" => add_file as *const () as usize,
        "nvJitLinkComplete" => complete as *const () as usize,
        "nvJitLinkGetLinkedCubinSize" => size::<0> as *const () as usize,
        "nvJitLinkGetLinkedCubin" => get::<0> as *const () as usize,
        "nvJitLinkGetLinkedPtxSize" => size::<1> as *const () as usize,
        "nvJitLinkGetLinkedPtx" => get::<1> as *const () as usize,
        "nvJitLinkGetLinkedLTOIRSize" => size::<2> as *const () as usize,
        "nvJitLinkGetLinkedLTOIR" => get::<2> as *const () as usize,
        "nvJitLinkGetErrorLogSize" => size::<3> as *const () as usize,
        "nvJitLinkGetErrorLog" => get::<3> as *const () as usize,
        "nvJitLinkGetInfoLogSize" => size::<4> as *const () as usize,
        "nvJitLinkGetInfoLog" => get::<4> as *const () as usize,
        _ => return None,
    })
}

/// Returns a symbol's name without the version that NVIDIA's header has added.
fn plain(symbol: &str) -> &str {
    match symbol.strip_prefix("__") {
        None => symbol,
        Some(versioned) => versioned.split('_').next().unwrap_or(versioned),
    }
}

/// The handle of NVIDIA's linker that belongs to a link of this module.
#[derive(Clone, Copy)]
pub(crate) struct Theirs {
    slot: usize,
    handle: usize,
}

impl Theirs {
    /// # Safety
    /// `F` must be the type of the C function with this name.
    unsafe fn function<F: Copy>(self, name: &str) -> Option<F> {
        // SAFETY: the caller guarantees the type.
        unsafe { real(Kind::JitLink, self.slot, name) }
    }

    fn handle(self) -> Handle {
        self.handle as Handle
    }

    fn add(self, kind: c_int, bytes: &[u8], name: &CStr) -> c_int {
        // SAFETY: the function has this type; bytes and name are valid during the call.
        unsafe {
            match self.function::<AddData>("nvJitLinkAddData") {
                Some(add) => {
                    let data = bytes.as_ptr().cast();
                    add(self.handle(), kind, data, bytes.len(), name.as_ptr())
                }
                None => code::INTERNAL,
            }
        }
    }

    fn complete(self) -> c_int {
        // SAFETY: the function has this type.
        match unsafe { self.function::<Complete>("nvJitLinkComplete") } {
            // SAFETY: the handle is destroyed only together with this module's handle.
            Some(complete) => unsafe { complete(self.handle()) },
            None => code::INTERNAL,
        }
    }

    /// Returns the output `output` of NVIDIA's linker, or the linker's error code.
    fn output(self, output: Output) -> Result<Vec<u8>, c_int> {
        let name = output.getter();
        // SAFETY: the functions have these types.
        let functions = unsafe {
            (
                self.function::<Size>(&format!("{name}Size")),
                self.function::<Get>(name),
            )
        };
        let (Some(size), Some(get)) = functions else {
            return Err(code::INTERNAL);
        };
        let mut bytes = 0;
        // SAFETY: the handle is destroyed only together with this module's handle; the buffer is larger than the size
        // that the linker returned.
        unsafe {
            match size(self.handle(), &raw mut bytes) {
                code::SUCCESS => {}
                code => return Err(code),
            }
            if bytes == 0 {
                return Ok(Vec::new());
            }
            // The extra byte is for a NUL, which the size possibly does not include.
            let mut data = vec![0; bytes + 1];
            match get(self.handle(), data.as_mut_ptr().cast()) {
                code::SUCCESS => {
                    data.truncate(bytes);
                    Ok(data)
                }
                code => Err(code),
            }
        }
    }

    /// Returns the major version of NVIDIA's linker, or 0 if it is unknown.
    fn major_version(self) -> c_int {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function has this type; both pointers are valid during the call.
        unsafe {
            if let Some(version) = self.function::<Version>("nvJitLinkVersion") {
                version(&raw mut major, &raw mut minor);
            }
        }
        major as c_int
    }

    fn destroy(self) {
        let mut handle = self.handle();
        // SAFETY: the function has this type, and nothing uses the handle afterwards.
        unsafe {
            if let Some(destroy) = self.function::<Destroy>("nvJitLinkDestroy") {
                destroy(&raw mut handle);
            }
        }
    }
}

/// # Safety
/// The caller must satisfy the conditions of `nvJitLinkCreate`.
unsafe extern "C" fn create<const SLOT: usize>(
    out: *mut Handle,
    count: u32,
    options: *const *const c_char,
) -> c_int {
    guarded(code::INTERNAL, || {
        let mut given = Vec::new();
        for index in 0..count as usize {
            if options.is_null() {
                break;
            }
            // SAFETY: the caller guarantees `count` C strings.
            let option = unsafe { options.add(index).read() };
            if option.is_null() {
                return code::NULL_INPUT;
            }
            // SAFETY: the caller guarantees `count` C strings.
            given.push(unsafe { CStr::from_ptr(option) }.to_owned());
        }
        let link = Link::new(&given);
        if link.wants_lto() && !given.iter().any(|option| option.as_c_str() == c"-ptx") {
            // With this option, NVIDIA's linker translates LTO-IR to PTX.
            given.push(CString::from(c"-ptx"));
        }
        let pointers: Vec<*const c_char> = given.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the function has this type.
        let Some(own) = (unsafe { real::<Create>(Kind::JitLink, SLOT, "nvJitLinkCreate") }) else {
            return code::INTERNAL;
        };
        // SAFETY: the caller guarantees memory for a handle; there are as many C strings as the count says.
        unsafe {
            let code = own(out, pointers.len() as u32, pointers.as_ptr());
            if code == code::SUCCESS {
                let handle = *out as usize;
                *out = insert(link.over(Theirs { slot: SLOT, handle }));
            }
            code
        }
    })
}

/// # Safety
/// The caller must satisfy the conditions of `nvJitLinkDestroy`.
unsafe extern "C" fn destroy(handle: *mut Handle) -> c_int {
    guarded(code::INTERNAL, || {
        if handle.is_null() {
            return code::NULL_INPUT;
        }
        // SAFETY: the caller guarantees a valid pointer to a handle.
        let Some(link) = remove(unsafe { *handle }) else {
            return code::INVALID_INPUT;
        };
        link.end();
        // SAFETY: the caller guarantees a valid pointer to a handle.
        unsafe { *handle = std::ptr::null_mut() };
        code::SUCCESS
    })
}

/// # Safety
/// The caller must satisfy the conditions of `nvJitLinkAddData`.
unsafe extern "C" fn add_data(
    handle: Handle,
    kind: c_int,
    data: *const c_void,
    size: usize,
    name: *const c_char,
) -> c_int {
    guarded(code::INTERNAL, || {
        if data.is_null() || size == 0 {
            return code::NULL_INPUT;
        }
        // SAFETY: the caller guarantees `size` bytes and a name that is null or a C string.
        let (bytes, name) = unsafe {
            let name = match name.is_null() {
                true => c"input",
                false => CStr::from_ptr(name),
            };
            (std::slice::from_raw_parts(data.cast::<u8>(), size), name)
        };
        with(handle, |link| link.add(kind, bytes, name))
    })
}

/// # Safety
/// The caller must satisfy the conditions of `nvJitLinkAddFile`.
unsafe extern "C" fn add_file(handle: Handle, kind: c_int, path: *const c_char) -> c_int {
    guarded(code::INTERNAL, || {
        if path.is_null() {
            return code::NULL_INPUT;
        }
        // SAFETY: the caller guarantees that the path is a C string.
        let path = unsafe { CStr::from_ptr(path) };
        with(handle, |link| {
            match std::fs::read(path.to_string_lossy().as_ref()) {
                Ok(bytes) => link.add(kind, &bytes, path),
                Err(error) => {
                    link.complain(&format!("{}: {error}", path.to_string_lossy()));
                    code::INVALID_INPUT
                }
            }
        })
    })
}

unsafe extern "C" fn complete(handle: Handle) -> c_int {
    guarded(code::INTERNAL, || with(handle, Link::complete))
}

/// # Safety
/// The caller must satisfy the conditions of `nvJitLinkGetLinkedCubinSize` and of the other size
/// functions.
unsafe extern "C" fn size<const OUTPUT: usize>(handle: Handle, out: *mut usize) -> c_int {
    guarded(code::INTERNAL, || {
        if out.is_null() {
            return code::NULL_INPUT;
        }
        with(handle, |link| {
            match link.output(Output::from_number(OUTPUT)) {
                Ok(bytes) => {
                    // SAFETY: the caller guarantees memory for a size.
                    unsafe { *out = bytes.len() };
                    code::SUCCESS
                }
                Err(code) => code,
            }
        })
    })
}

/// # Safety
/// The caller must satisfy the conditions of `nvJitLinkGetLinkedCubin` and of the other output
/// functions.
unsafe extern "C" fn get<const OUTPUT: usize>(handle: Handle, out: *mut c_void) -> c_int {
    guarded(code::INTERNAL, || {
        if out.is_null() {
            return code::NULL_INPUT;
        }
        with(handle, |link| {
            match link.output(Output::from_number(OUTPUT)) {
                Ok(bytes) => {
                    // SAFETY: the caller guarantees as many bytes as the size function returned.
                    unsafe {
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), bytes.len())
                    };
                    code::SUCCESS
                }
                Err(code) => code,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_names_do_not_matter() {
        assert_eq!(plain("__nvJitLinkAddData_13_5"), "nvJitLinkAddData");
        assert_eq!(plain("nvJitLinkAddData"), "nvJitLinkAddData");
        let plain = stand_in(2, "nvJitLinkCreate");
        assert!(plain.is_some());
        assert_eq!(stand_in(2, "__nvJitLinkCreate_12_9"), plain);
        assert_ne!(stand_in(3, "nvJitLinkCreate"), plain);
        assert_eq!(stand_in(2, "nvJitLinkVersion"), None);
    }
}
