//! The part of the driver API of `libcuda.so` that is needed to run a kernel.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::transmute_copy;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A kernel (`CUfunction`). The handle is never dereferenced.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Function(usize);

/// The loaded driver library, with the primary context of its first device.
pub(crate) struct Driver {
    library: *mut c_void,
    context: *mut c_void,
}

// SAFETY: handles of the driver and of the dynamic linker are valid in every thread.
unsafe impl Send for Driver {}

/// Returns the path of the driver library in the same folder as this library, if it exists.
fn beside() -> Option<CString> {
    // SAFETY: an all-zero structure is valid: its pointers are null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = super::ptx_run as *const () as *const c_void;
    // SAFETY: `info` is valid during the call.
    if unsafe { libc::dladdr(here, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the file's name is a C string.
    let file = unsafe { CStr::from_ptr(info.dli_fname) };
    let file = PathBuf::from(std::ffi::OsStr::from_bytes(file.to_bytes()));
    let libcuda = std::fs::canonicalize(file)
        .ok()?
        .with_file_name("libcuda.so");
    libcuda
        .exists()
        .then(|| CString::new(libcuda.as_os_str().as_bytes()).ok())?
}

impl Driver {
    /// Loads the driver library, and activates the primary context of its first device
    /// (`cuDevicePrimaryCtxRetain`).
    pub(crate) fn load() -> Result<Driver, String> {
        // Kernels receive addresses of this process, so memory isolation must be off.
        if std::env::var_os("MARGAY_ISOLATE").is_none() {
            // SAFETY: both arguments are C strings. The caller holds the lock that all calls of this library take. The
            // program must not read the environment in other threads at the same time, as for any call of `setenv`.
            unsafe { libc::setenv(c"MARGAY_ISOLATE".as_ptr(), c"0".as_ptr(), 0) };
        }
        let names = beside().into_iter().chain([c"libcuda.so.1".to_owned()]);
        // SAFETY: the names are C strings.
        let open = |name: CString| unsafe {
            libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL)
        };
        let library = names.map(open).find(|library| !library.is_null());
        let mut driver = Driver {
            library: library
                .ok_or("libcuda.so is neither beside libgpuocelot.so nor in LD_LIBRARY_PATH")?,
            context: std::ptr::null_mut(),
        };
        // SAFETY: the functions have these types.
        unsafe {
            let init: unsafe extern "C" fn(c_uint) -> c_int = driver.function(c"cuInit")?;
            driver.check("cuInit", init(0))?;
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                driver.function(c"cuDevicePrimaryCtxRetain")?;
            let mut context = std::ptr::null_mut();
            driver.check("cuDevicePrimaryCtxRetain", retain(&raw mut context, 0))?;
            driver.context = context;
        }
        Ok(driver)
    }

    /// # Safety
    /// `F` must be the type of the C function `name`.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle belongs to a loaded library.
        let address = unsafe { libc::dlsym(self.library, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("libcuda.so has no {}", name.to_string_lossy()));
        }
        // SAFETY: the caller guarantees the type.
        Ok(unsafe { transmute_copy(&address) })
    }

    fn check(&self, what: &str, code: c_int) -> Result<(), String> {
        type Name = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
        if code == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the function has this type; the text is a constant of the driver.
        let text = unsafe {
            match self.function::<Name>(c"cuGetErrorName") {
                Ok(get) if get(code, &raw mut name) == 0 && !name.is_null() => {
                    CStr::from_ptr(name).to_string_lossy().into_owned()
                }
                _ => code.to_string(),
            }
        };
        Err(format!("{what}: {text}"))
    }

    /// Makes the primary context the current context of the calling thread.
    pub(crate) fn make_current(&self) -> Result<(), String> {
        // SAFETY: the function has this type, and the context is valid.
        unsafe {
            let set: unsafe extern "C" fn(*mut c_void) -> c_int =
                self.function(c"cuCtxSetCurrent")?;
            self.check("cuCtxSetCurrent", set(self.context))
        }
    }

    /// Loads a PTX text as a module and returns its first kernel.
    pub(crate) fn kernel(&self, text: &CStr) -> Result<Function, String> {
        type Load = unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int;
        type Enumerate = unsafe extern "C" fn(*mut Function, c_uint, *mut c_void) -> c_int;
        let (mut module, mut function) = (std::ptr::null_mut(), Function(0));
        // SAFETY: the functions have these types; the text is a C string, and the output pointers are valid.
        unsafe {
            let load: Load = self.function(c"cuModuleLoadData")?;
            let code = load(&raw mut module, text.as_ptr().cast());
            self.check("cuModuleLoadData", code)?;
            let enumerate: Enumerate = self.function(c"cuModuleEnumerateFunctions")?;
            let code = enumerate(&raw mut function, 1, module);
            self.check("cuModuleEnumerateFunctions", code)?;
        }
        if function.0 == 0 {
            return Err("the PTX has no kernel".to_owned());
        }
        Ok(function)
    }

    /// Launches a kernel and waits until it has finished.
    pub(crate) fn launch(
        &self,
        function: Function,
        words: &[*mut c_void],
        size: [u32; 6],
        shared: u32,
    ) -> Result<(), String> {
        type Launch = unsafe extern "C" fn(
            Function,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            *mut c_void,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> c_int;
        self.check_parameters(function, words.len())?;
        let mut values = words.to_vec();
        let mut places: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| (&raw mut *value).cast())
            .collect();
        let [gx, gy, gz, bx, by, bz] = size;
        let none: *mut c_void = std::ptr::null_mut();
        // SAFETY: the functions have these types; there is a value for each parameter.
        unsafe {
            let launch: Launch = self.function(c"cuLaunchKernel")?;
            let places = places.as_mut_ptr();
            let code = launch(
                function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                none,
                places,
                none.cast(),
            );
            self.check("cuLaunchKernel", code)?;
            let wait: unsafe extern "C" fn() -> c_int = self.function(c"cuCtxSynchronize")?;
            self.check("the kernel", wait())
        }
    }

    /// Returns an error if the kernel has more parameters than `given`, the number of arguments, or
    /// if a parameter is larger than a word (8 bytes).
    fn check_parameters(&self, function: Function, given: usize) -> Result<(), String> {
        type Count = unsafe extern "C" fn(Function, *mut usize) -> c_int;
        type Info = unsafe extern "C" fn(Function, usize, *mut usize, *mut usize) -> c_int;
        let mut count = 0;
        // SAFETY: the function has this type.
        let info = unsafe {
            let get: Count = self.function(c"cuFuncGetParamCount")?;
            self.check("cuFuncGetParamCount", get(function, &raw mut count))?;
            self.function::<Info>(c"cuFuncGetParamInfo")?
        };
        if count > given {
            return Err(format!(
                "the kernel has {count} parameters, {given} were given"
            ));
        }
        for index in 0..count {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function has this type.
            let code = unsafe { info(function, index, &raw mut offset, &raw mut size) };
            self.check("cuFuncGetParamInfo", code)?;
            if size > size_of::<*mut c_void>() {
                return Err(format!(
                    "parameter {index} has {size} bytes, more than a word"
                ));
            }
        }
        Ok(())
    }
}
