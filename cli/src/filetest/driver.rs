//! Runs file tests with another driver library: the `libcuda` of a real GPU, or any replacement.
//!
//! The files, arguments and expected values are the same as in [`super::Bench`], but a driver reports fewer details.
//! For a PTX module with errors, the harness checks only that the driver refuses the module with an error code for
//! wrong modules, and compares no diagnostics. For a fault, the harness compares only the error code. Invariant: a
//! launch whose results cannot be compared is counted as not compared, and never as passed. There are two such kinds of
//! launches: launches that must fail because Margay does not support a feature, and launches with a wait that would
//! never end on a GPU.

#![expect(
    unsafe_code,
    reason = "calls a C library that is found at run time; every call is in `Api`'s users below"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::path::Path;

mod raw;
mod textures;

pub use raw::{Loaded, Stopped};

use super::directive::{self, Argument, Buffer, FileTest, Launch, Outcome};
use super::run::{Failure, difference};

/// Result of a successful call.
const SUCCESS: c_int = 0;
/// Result codes for a module with errors: `INVALID_IMAGE`, `INVALID_PTX`, `UNSUPPORTED_PTX_VERSION`.
const REFUSED: [c_int; 3] = [200, 218, 222];

/// Returns the error codes that a driver may return for the fault with the name `fault`. Returns `None` for `Timeout`,
/// `Deadlock` and `Hang`, because the wait of such a launch never ends on a GPU.
fn codes_of(fault: &str) -> Option<&'static [c_int]> {
    Some(match fault {
        "IllegalAddress" => &[700],
        "MisalignedAddress" => &[716],
        "IllegalInstruction" => &[715],
        "InvalidPc" => &[718],
        "Assert" => &[710],
        "InvalidAddressSpace" => &[717],
        "Stack" => &[714, 719],
        "OutOfResources" => &[701],
        "Timeout" | "Deadlock" | "Hang" => return None,
        _ => &[719],
    })
}

macro_rules! api {
    ($($field:ident = $name:literal($($arg:ty),*);)*) => {
        /// Pointers to the driver's functions that this module calls.
        struct Api { $($field: unsafe extern "C" fn($($arg),*) -> c_int,)* }

        impl Api {
            /// Looks up the functions in `library`, a handle of `dlopen`.
            fn load(library: *mut c_void) -> Result<Api, String> {
                Ok(Api { $($field: {
                    let found = symbol(library, $name)?;
                    // SAFETY: the driver API specifies this type for the function of this name.
                    unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($arg),*) -> c_int,
                        >(found)
                    }
                },)* })
            }
        }
    };
}

api! {
    init = c"cuInit"(c_uint);
    error_name = c"cuGetErrorName"(c_int, *mut *const c_char);
    device = c"cuDeviceGet"(*mut c_int, c_int);
    retain = c"cuDevicePrimaryCtxRetain"(*mut *mut c_void, c_int);
    reset = c"cuDevicePrimaryCtxReset_v2"(c_int);
    set_current = c"cuCtxSetCurrent"(*mut c_void);
    synchronize = c"cuCtxSynchronize"();
    query = c"cuStreamQuery"(*mut c_void);
    load = c"cuModuleLoadData"(*mut *mut c_void, *const c_void);
    unload = c"cuModuleUnload"(*mut c_void);
    function = c"cuModuleGetFunction"(*mut *mut c_void, *mut c_void, *const c_char);
    parameter = c"cuFuncGetParamInfo"(*mut c_void, usize, *mut usize, *mut usize);
    set_attribute = c"cuFuncSetAttribute"(*mut c_void, c_int, c_int);
    alloc = c"cuMemAlloc_v2"(*mut u64, usize);
    free = c"cuMemFree_v2"(u64);
    write = c"cuMemcpyHtoD_v2"(u64, *const c_void, usize);
    read = c"cuMemcpyDtoH_v2"(*mut c_void, u64, usize);
    array_create = c"cuArray3DCreate_v2"(*mut *mut c_void, *const c_void);
    array_destroy = c"cuArrayDestroy"(*mut c_void);
    mipmapped_create = c"cuMipmappedArrayCreate"(*mut *mut c_void, *const c_void, c_uint);
    mipmapped_destroy = c"cuMipmappedArrayDestroy"(*mut c_void);
    level = c"cuMipmappedArrayGetLevel"(*mut *mut c_void, *mut c_void, c_uint);
    copy = c"cuMemcpy3D_v2"(*const c_void);
    texture_create = c"cuTexObjectCreate"(*mut u64, *const c_void, *const c_void, *const c_void);
    texture_destroy = c"cuTexObjectDestroy"(u64);
    surface_create = c"cuSurfObjectCreate"(*mut u64, *const c_void);
    surface_destroy = c"cuSurfObjectDestroy"(u64);
    texref = c"cuModuleGetTexRef"(*mut *mut c_void, *mut c_void, *const c_char);
    texref_array = c"cuTexRefSetArray"(*mut c_void, *mut c_void, c_uint);
    texref_mipmapped = c"cuTexRefSetMipmappedArray"(*mut c_void, *mut c_void, c_uint);
    texref_format = c"cuTexRefSetFormat"(*mut c_void, c_uint, c_int);
    texref_address = c"cuTexRefSetAddress_v2"(*mut usize, *mut c_void, u64, usize);
    texref_mode = c"cuTexRefSetAddressMode"(*mut c_void, c_int, c_uint);
    texref_filter = c"cuTexRefSetFilterMode"(*mut c_void, c_uint);
    texref_flags = c"cuTexRefSetFlags"(*mut c_void, c_uint);
    texref_mipmap_filter = c"cuTexRefSetMipmapFilterMode"(*mut c_void, c_uint);
    texref_bias = c"cuTexRefSetMipmapLevelBias"(*mut c_void, f32);
    texref_clamp = c"cuTexRefSetMipmapLevelClamp"(*mut c_void, f32, f32);
    surfref = c"cuModuleGetSurfRef"(*mut *mut c_void, *mut c_void, *const c_char);
    surfref_array = c"cuSurfRefSetArray"(*mut c_void, *mut c_void, c_uint);
    launch = c"cuLaunchKernelEx"(
        *const Config, *mut c_void, *const *const c_void, *const *const c_void
    );
}

/// The driver API's `CUlaunchConfig`.
#[repr(C)]
struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: *mut c_void,
    attributes: *const Attribute,
    count: c_uint,
}

/// The driver API's `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    id: c_uint,
    padding: [u8; 4],
    value: [u32; 16],
}

/// The value of `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`. The constant below is that of
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const COOPERATIVE: c_uint = 2;
const CLUSTER: c_uint = 4;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`. A kernel must set this attribute to use more
/// dynamic shared memory than the constant below states.
const MAX_DYNAMIC_SHARED: c_int = 8;
const SHARED_WITHOUT_LEAVE: u32 = 48 << 10;

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle belongs to a loaded library, and the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("the driver has no {}", name.to_string_lossy()));
    }
    Ok(found)
}

/// The result of running a file test with a driver.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The expectations that the driver did not meet.
    pub failures: Vec<Failure>,
    /// Number of launches whose results were compared with the expectations, and of modules that the driver must
    /// refuse.
    pub judged: usize,
    /// Number of launches that were not compared, because a driver cannot run them or reports too
    /// little.
    pub not_judged: usize,
}

/// A driver library and its first device.
pub struct Driver {
    api: Api,
    device: c_int,
}

impl Driver {
    /// Opens a driver library.
    ///
    /// # Errors
    ///
    /// Returns the error message of the dynamic linker, or the name of the driver's error.
    pub fn open(path: &Path) -> Result<Driver, String> {
        let name = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| "the path contains a zero byte".to_owned())?;
        // SAFETY: the path is a C string; the user requested that the library, and thus its initialisers, run.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(loader_error());
        }
        let mut driver = Driver {
            api: Api::load(library)?,
            device: 0,
        };
        // SAFETY: the only argument is a flag word, which must be zero.
        driver.check("cuInit", unsafe { (driver.api.init)(0) })?;
        let mut device = 0;
        // SAFETY: the pointer to the result is valid.
        let status = unsafe { (driver.api.device)(&raw mut device, 0) };
        driver.check("cuDeviceGet", status)?;
        driver.device = device;
        driver.enter()?;
        Ok(driver)
    }

    /// Makes the device's primary context the current context of this thread.
    fn enter(&self) -> Result<(), String> {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer to the result is valid.
        let status = unsafe { (self.api.retain)(&raw mut context, self.device) };
        self.check("cuDevicePrimaryCtxRetain", status)?;
        // SAFETY: the call above returned the context.
        self.check("cuCtxSetCurrent", unsafe {
            (self.api.set_current)(context)
        })
    }

    fn name_of(&self, status: c_int) -> String {
        let mut name = std::ptr::null();
        // SAFETY: the pointer to the result is valid.
        let known = unsafe { (self.api.error_name)(status, &raw mut name) };
        if known != SUCCESS || name.is_null() {
            return format!("error {status}");
        }
        // SAFETY: the driver returns a static C string.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }

    fn check(&self, call: &str, status: c_int) -> Result<(), String> {
        match status {
            SUCCESS => Ok(()),
            _ => Err(format!("{call}: {}", self.name_of(status))),
        }
    }

    /// Runs the launches of the file test at `path`, and compares their results with the
    /// expectations in the file.
    pub fn run(&self, path: &Path) -> Verdict {
        let mut verdict = Verdict::default();
        let mut fail = |line, kernel: Option<&str>, what| {
            verdict.failures.push(Failure {
                line,
                kernel: kernel.map(str::to_owned),
                setting: None,
                what,
            });
        };
        let text = match margay::input::read_text(path) {
            Ok(text) => text,
            Err(error) => {
                fail(0, None, error.to_string());
                return verdict;
            }
        };
        match directive::read(&text) {
            Err((line, what)) => fail(line, None, what),
            Ok(FileTest::Rejected(_)) => {
                match self.load(&text) {
                    Err(status) if REFUSED.contains(&status) => {}
                    Err(status) => fail(1, None, self.name_of(status)),
                    Ok(module) => {
                        self.unload(module);
                        fail(1, None, "the module is accepted".to_owned());
                    }
                }
                verdict.judged += 1;
            }
            Ok(FileTest::Launches(launches)) => {
                for launch in &launches {
                    match self.judge(&text, launch) {
                        Ok(true) => verdict.judged += 1,
                        Ok(false) => verdict.not_judged += 1,
                        Err(what) => {
                            verdict.judged += 1;
                            verdict.failures.push(Failure {
                                line: launch.at,
                                kernel: Some(launch.kernel.clone()),
                                setting: None,
                                what,
                            });
                        }
                    }
                }
            }
        }
        verdict
    }

    fn load(&self, text: &str) -> Result<*mut c_void, c_int> {
        let Ok(text) = CString::new(text) else {
            return Err(REFUSED[0]);
        };
        let mut module = std::ptr::null_mut();
        // SAFETY: the image is text that ends with a zero byte, and the pointer to the result is valid.
        match unsafe { (self.api.load)(&raw mut module, text.as_ptr().cast()) } {
            SUCCESS => Ok(module),
            status => Err(status),
        }
    }

    fn unload(&self, module: *mut c_void) {
        // SAFETY: this driver loaded the module, and the module is not used again. A failure is ignored: the module is
        // then destroyed together with its context.
        let _ = unsafe { (self.api.unload)(module) };
    }

    /// Loads the module again, runs a launch, and compares its results. Returns true if the results
    /// are as expected, false if the launch cannot be compared, and otherwise an error text.
    fn judge(&self, text: &str, launch: &Launch) -> Result<bool, String> {
        let codes: &[c_int] = match &launch.outcome {
            Outcome::Values => &[SUCCESS],
            Outcome::Unsupported(_) => return Ok(false),
            Outcome::Fault(kind, _) => match codes_of(kind) {
                Some(codes) => codes,
                None => return Ok(false),
            },
        };
        let module = self
            .load(text)
            .map_err(|status| format!("loading: {}", self.name_of(status)))?;
        let mut memory = Vec::new();
        let ended = self.launch(module, launch, &mut memory);
        let completed = ended == Ok(SUCCESS);
        let outcome = match ended {
            Ok(status) if !codes.contains(&status) => {
                Err(format!("ends with {}", self.name_of(status)))
            }
            Ok(SUCCESS) => self.compare(launch, &memory),
            Ok(_) => Ok(()),
            Err(what) => Err(what),
        };
        if completed {
            for held in &memory {
                self.release(held)?;
            }
            self.unload(module);
        } else {
            // A fault makes all later calls in its context fail, so the device must be reset before later launches.
            // SAFETY: no object of the context is used again.
            let status = unsafe { (self.api.reset)(self.device) };
            self.check("cuDevicePrimaryCtxReset", status)?;
            self.enter()?;
        }
        outcome.map(|()| true)
    }

    /// Launches the kernel, waits for it, and returns the status with which the launch ended.
    fn launch<'a>(
        &self,
        module: *mut c_void,
        launch: &'a Launch,
        memory: &mut Vec<Held<'a>>,
    ) -> Result<c_int, String> {
        let mut arguments = Vec::new();
        for argument in &launch.arguments {
            arguments.push(match argument {
                Argument::Scalar(bytes) => bytes.clone(),
                Argument::Buffer(buffer) => {
                    let address = self.upload(&buffer.bytes)?;
                    memory.push(Held::Buffer(address, buffer));
                    address.to_le_bytes().to_vec()
                }
                Argument::Texels(texels) => {
                    let made = self.texels(module, texels)?;
                    let handle = made.handle();
                    memory.push(Held::Texels(made));
                    match handle {
                        Some(handle) => handle.to_le_bytes().to_vec(),
                        None => continue,
                    }
                }
            });
        }
        let pointers: Vec<*const c_void> = arguments.iter().map(|a| a.as_ptr().cast()).collect();
        let name = CString::new(launch.kernel.as_str()).map_err(|e| e.to_string())?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name is a C string, and the pointer to the result is valid.
        let status = unsafe { (self.api.function)(&raw mut function, module, name.as_ptr()) };
        self.check("cuModuleGetFunction", status)?;
        let sizes: Vec<usize> = arguments.iter().map(Vec::len).collect();
        self.check_parameters(function, &sizes)?;
        if launch.shared > SHARED_WITHOUT_LEAVE {
            let bytes = launch.shared as c_int;
            // SAFETY: the function belongs to a loaded module.
            let status = unsafe { (self.api.set_attribute)(function, MAX_DYNAMIC_SHARED, bytes) };
            self.check("cuFuncSetAttribute", status)?;
        }
        let attributes = attributes(launch);
        let config = Config {
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
            stream: std::ptr::null_mut(),
            attributes: attributes.as_ptr(),
            count: attributes.len() as c_uint,
        };
        let none = std::ptr::null();
        // SAFETY: the configuration and one argument for each parameter of the kernel live until the call returns, and
        // the call copies them.
        let status =
            unsafe { (self.api.launch)(&raw const config, function, pointers.as_ptr(), none) };
        self.check("cuLaunchKernelEx", status)?;
        // SAFETY: the call has no arguments.
        Ok(unsafe { (self.api.synchronize)() })
    }

    /// Checks that the arguments have the sizes of the kernel's parameters, because the driver reads as many bytes as
    /// the parameter has.
    fn check_parameters(&self, function: *mut c_void, sizes: &[usize]) -> Result<(), String> {
        let size_of = |index: usize| {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function belongs to a loaded module, and the pointers to the results are valid.
            let status =
                unsafe { (self.api.parameter)(function, index, &raw mut offset, &raw mut size) };
            (status == SUCCESS).then_some(size)
        };
        let fits = (0..)
            .zip(sizes)
            .all(|(index, size)| size_of(index) == Some(*size));
        if fits && size_of(sizes.len()).is_none() {
            Ok(())
        } else {
            Err("the arguments do not match the kernel's parameters".to_owned())
        }
    }

    fn upload(&self, bytes: &[u8]) -> Result<u64, String> {
        let mut address = 0;
        // SAFETY: the pointer to the result is valid.
        let status = unsafe { (self.api.alloc)(&raw mut address, bytes.len().max(1)) };
        self.check("cuMemAlloc", status)?;
        // SAFETY: source and destination have this number of bytes.
        let status = unsafe { (self.api.write)(address, bytes.as_ptr().cast(), bytes.len()) };
        self.check("cuMemcpyHtoD", status)?;
        Ok(address)
    }

    /// Frees the memory or texels that a launch used.
    fn release(&self, held: &Held<'_>) -> Result<(), String> {
        match held {
            Held::Buffer(address, _) => {
                // SAFETY: this driver allocated the memory, which is not used again.
                let status = unsafe { (self.api.free)(*address) };
                self.check("cuMemFree", status)
            }
            Held::Texels(made) => self.drop_texels(made),
        }
    }

    fn compare(&self, launch: &Launch, memory: &[Held<'_>]) -> Result<(), String> {
        for (index, held) in memory.iter().enumerate() {
            let (bytes, buffer) = match held {
                Held::Texels(made) => (self.read_texels(made)?, &made.texels().buffer),
                Held::Buffer(address, buffer) => {
                    let mut bytes = vec![0u8; buffer.bytes.len()];
                    let target = bytes.as_mut_ptr().cast();
                    // SAFETY: source and destination have this number of bytes.
                    let status = unsafe { (self.api.read)(target, *address, bytes.len()) };
                    self.check("cuMemcpyDtoH", status)?;
                    (bytes, *buffer)
                }
            };
            if let Some(what) = difference(buffer, &bytes, launch) {
                return Err(format!("buffer {index}: {what}"));
            }
        }
        Ok(())
    }
}

/// What was allocated for one argument of a launch: device memory, or texels with their texture or surface.
enum Held<'a> {
    Buffer(u64, &'a Buffer),
    Texels(textures::Made<'a>),
}

fn attributes(launch: &Launch) -> Vec<Attribute> {
    let attribute = |id, words: &[u32]| {
        let mut value = [0; 16];
        value[..words.len()].copy_from_slice(words);
        Attribute {
            id,
            padding: [0; 4],
            value,
        }
    };
    let cooperative = launch.cooperative.then(|| attribute(COOPERATIVE, &[1]));
    let cluster = launch.cluster.map(|extent| attribute(CLUSTER, &extent));
    cooperative.into_iter().chain(cluster).collect()
}

fn loader_error() -> String {
    // SAFETY: the failed call of the dynamic linker was made on the same thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the library cannot be opened".to_owned();
    }
    // SAFETY: the C string is valid until the next call of the dynamic linker on this thread.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use margay::FaultKind;

    #[test]
    fn faults_have_the_numbers_of_the_documentation() {
        let codes = |kind: FaultKind| codes_of(&format!("{kind:?}"));
        assert_eq!(codes(FaultKind::IllegalAddress), Some(&[700][..]));
        assert_eq!(codes(FaultKind::OutOfResources), Some(&[701][..]));
        assert_eq!(codes(FaultKind::Assert), Some(&[710][..]));
        assert_eq!(codes(FaultKind::Stack), Some(&[714, 719][..]));
        assert_eq!(codes(FaultKind::InvalidPc), Some(&[718][..]));
        assert_eq!(codes(FaultKind::LaunchFailed), Some(&[719][..]));
        for endless in [FaultKind::Timeout, FaultKind::Deadlock, FaultKind::Hang] {
            assert_eq!(codes(endless), None, "{endless:?}");
        }
    }
}
