//! The contender for any `libcuda.so.1`: opens the library by its path and calls its C driver API.
//! The PTX, the data and the checks are the same as those for Margay.
//!
//! The user must provide the environment that the library needs, such as a GPU or environment variables. A run ends
//! with `cuStreamSynchronize`, so its time includes the launches and the wait for their end. Invariant: a `Buffer`
//! allocates its device memory when it is created, and frees this memory when it is dropped.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::rc::Rc;

use super::{Contender, Loaded};
use crate::case::Case;
use crate::library::Library;
use crate::work::{Argument, Extent, Launch, Step, Work};

type Status = c_int;
type Handle = *mut c_void;
type Address = u64;

/// Declares the functions of the driver that this module calls, each loaded by its exported name.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ty),* $(,)?);)*) => {
        #[derive(Clone, Copy)]
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> Status,)* }

        impl Functions {
            fn load(library: &Library) -> Result<Functions, String> {
                $(
                    // SAFETY: the types are those of the driver API.
                    let $name = unsafe { library.symbol($symbol) }?;
                )*
                Ok(Functions { $($name),* })
            }
        }
    };
}

functions! {
    init = c"cuInit" (c_uint);
    version = c"cuDriverGetVersion" (*mut c_int);
    device = c"cuDeviceGet" (*mut c_int, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    retain = c"cuDevicePrimaryCtxRetain" (*mut Handle, c_int);
    set_current = c"cuCtxSetCurrent" (Handle);
    load_module = c"cuModuleLoadDataEx" (*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    unload_module = c"cuModuleUnload" (Handle);
    function = c"cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
    alloc = c"cuMemAlloc_v2" (*mut Address, usize);
    free = c"cuMemFree_v2" (Address);
    to_device = c"cuMemcpyHtoD_v2" (Address, *const c_void, usize);
    to_host = c"cuMemcpyDtoH_v2" (*mut c_void, Address, usize);
    fill = c"cuMemsetD8Async" (Address, u8, usize, Handle);
    launch = c"cuLaunchKernel" (
        Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void,
    );
    synchronize = c"cuStreamSynchronize" (Handle);
    error_name = c"cuGetErrorName" (c_int, *mut *const c_char);
}

/// The stream to which all launches are submitted: the legacy default stream.
const STREAM: Handle = ptr::null_mut();

impl Functions {
    /// Returns an error if `status`, which the driver function `call` returned, is not `CUDA_SUCCESS`. The error
    /// contains the library's name for the status.
    fn done(&self, status: Status, call: &str) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut name = ptr::null();
        // SAFETY: the pointer refers to memory for a pointer to a static text.
        let told = unsafe { (self.error_name)(status, &mut name) };
        if told != 0 || name.is_null() {
            return Err(format!("{call} returned {status}"));
        }
        // SAFETY: the library returned a static text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Err(format!("{call}: {name}"))
    }
}

/// A driver library with a context on its first device.
pub(crate) struct Driver {
    functions: Rc<Functions>,
    context: Handle,
    /// Name of the device and version of the driver.
    pub(crate) name: String,
}

impl Driver {
    /// Opens a library and its first device.
    ///
    /// # Errors
    /// Returns the error message of the loader or the driver.
    pub(crate) fn open(path: &str) -> Result<Driver, String> {
        // SAFETY: the user requested that this library be loaded.
        let library = unsafe { Library::open(path) }?;
        let functions = Functions::load(&library)?;
        let done = |status, call| functions.done(status, call);
        let (mut version, mut device, mut context) = (0, 0, ptr::null_mut());
        // SAFETY: the types are those of the driver API; the call has no pointers.
        let status = unsafe { (functions.init)(0) };
        done(status, "cuInit")?;
        // SAFETY: the types are those of the driver API, and the pointer refers to memory for the result.
        let status = unsafe { (functions.version)(&mut version) };
        done(status, "cuDriverGetVersion")?;
        // SAFETY: the types are those of the driver API, and the pointer refers to memory for the result.
        let status = unsafe { (functions.device)(&mut device, 0) };
        done(status, "cuDeviceGet")?;
        let mut name = [0; 128];
        // SAFETY: the buffer has 128 bytes, and the written text ends with a zero.
        let status = unsafe { (functions.device_name)(name.as_mut_ptr(), 128, device) };
        done(status, "cuDeviceGetName")?;
        // SAFETY: the pointer refers to memory for the result. The context is never released, just as the library is
        // never closed.
        let status = unsafe { (functions.retain)(&mut context, device) };
        done(status, "cuDevicePrimaryCtxRetain")?;
        // SAFETY: the call above wrote the text, which ends with a zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
        let (major, minor) = (version / 1000, version % 1000 / 10);
        Ok(Driver {
            functions: Rc::new(functions),
            context,
            name: format!("{name}, CUDA {major}.{minor}"),
        })
    }
}

impl Contender for Driver {
    fn load(&self, case: &Case, work: &Work) -> Result<Box<dyn Loaded>, String> {
        let functions = &self.functions;
        // SAFETY: the library whose functions are called created the context.
        let status = unsafe { (functions.set_current)(self.context) };
        functions.done(status, "cuCtxSetCurrent")?;
        let module = Module::load(functions, case.sources.ptx)?;
        let buffers: Result<Vec<Buffer>, String> = work
            .buffers
            .iter()
            .map(|b| Buffer::of(functions, b))
            .collect();
        let buffers = buffers?;
        let actions: Result<Vec<Action>, String> = work
            .steps
            .iter()
            .map(|step| match step {
                Step::Zero(buffer) => Ok(Action::Zero(buffer.0, work.buffers[buffer.0].len())),
                Step::Launch(launch) => Ok(Action::Launch(Call::new(&module, launch, &buffers)?)),
            })
            .collect();
        Ok(Box::new(Ready {
            actions: actions?,
            functions: functions.clone(),
            buffers,
            _module: module,
        }))
    }
}

struct Module {
    functions: Rc<Functions>,
    handle: Handle,
}

impl Module {
    fn load(functions: &Rc<Functions>, ptx: &str) -> Result<Module, String> {
        let text = CString::new(with_old_version(ptx)).map_err(|e| e.to_string())?;
        let (mut handle, none) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the PTX ends with a zero, and there are no options.
        let status = unsafe {
            (functions.load_module)(&mut handle, text.as_ptr().cast(), 0, none, ptr::null_mut())
        };
        functions.done(status, "cuModuleLoadDataEx")?;
        Ok(Module {
            functions: functions.clone(),
            handle,
        })
    }
}

/// Returns a kernel's PTX with `.version 8.0`, so that drivers that are older than the compiler
/// load it. `nvcc` writes its newest PTX version into the text, but no kernel of the benchmarks
/// contains an instruction that is newer than 8.0.
fn with_old_version(ptx: &str) -> String {
    let line = |line: &str| match line.starts_with(".version ") {
        true => ".version 8.0\n".to_owned(),
        false => format!("{line}\n"),
    };
    ptx.lines().map(line).collect()
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module was loaded by this value and is unloaded once.
        unsafe { (self.functions.unload_module)(self.handle) };
    }
}

struct Buffer {
    functions: Rc<Functions>,
    address: Address,
}

impl Buffer {
    fn of(functions: &Rc<Functions>, bytes: &[u8]) -> Result<Buffer, String> {
        let mut address = 0;
        // SAFETY: the pointer refers to memory for an address.
        let status = unsafe { (functions.alloc)(&mut address, bytes.len().max(1)) };
        functions.done(status, "cuMemAlloc")?;
        let buffer = Buffer {
            functions: functions.clone(),
            address,
        };
        // SAFETY: source and destination have this number of bytes.
        let status = unsafe { (functions.to_device)(address, bytes.as_ptr().cast(), bytes.len()) };
        functions.done(status, "cuMemcpyHtoD")?;
        Ok(buffer)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated by this value and is freed once.
        unsafe { (self.functions.free)(self.address) };
    }
}

/// A launch with its arguments.
struct Call {
    function: Handle,
    grid: Extent,
    block: Extent,
    /// The arguments. Each is padded to a multiple of eight bytes and stored in words of 64 bits, so that its address
    /// is aligned.
    arguments: Vec<Vec<u64>>,
}

impl Call {
    fn new(module: &Module, launch: &Launch, buffers: &[Buffer]) -> Result<Call, String> {
        let functions = &module.functions;
        let name = CString::new(launch.kernel).map_err(|e| e.to_string())?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends with a zero.
        let status = unsafe { (functions.function)(&mut function, module.handle, name.as_ptr()) };
        functions.done(status, "cuModuleGetFunction")?;
        let arguments = launch.arguments.iter().map(|argument| match argument {
            Argument::Buffer(buffer) => vec![buffers[buffer.0].address],
            Argument::Value(bytes) => words(bytes),
        });
        Ok(Call {
            function,
            grid: launch.grid,
            block: launch.block,
            arguments: arguments.collect(),
        })
    }

    fn start(&mut self, functions: &Functions) -> Result<(), String> {
        let mut pointers: Vec<*mut c_void> = self
            .arguments
            .iter_mut()
            .map(|words| words.as_mut_ptr().cast())
            .collect();
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        let (arguments, none) = (pointers.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the number and sizes of the arguments are those of the kernel's parameters.
        let status = unsafe {
            (functions.launch)(
                self.function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                0,
                STREAM,
                arguments,
                none,
            )
        };
        functions.done(status, "cuLaunchKernel")
    }
}

/// Packs bytes into 64-bit words. The last word is padded with zeros.
fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

enum Action {
    /// Fills a buffer with zeros. The fields are the index and the size in bytes of the buffer.
    Zero(usize, usize),
    Launch(Call),
}

struct Ready {
    actions: Vec<Action>,
    functions: Rc<Functions>,
    buffers: Vec<Buffer>,
    _module: Module,
}

impl Loaded for Ready {
    fn run(&mut self) -> Result<(), String> {
        let functions = &*self.functions;
        for action in &mut self.actions {
            match action {
                Action::Zero(buffer, len) => {
                    let address = self.buffers[*buffer].address;
                    // SAFETY: the buffer has this number of bytes.
                    let status = unsafe { (functions.fill)(address, 0, *len, STREAM) };
                    functions.done(status, "cuMemsetD8Async")?;
                }
                Action::Launch(call) => call.start(functions)?,
            }
        }
        // SAFETY: the legacy stream always exists.
        let status = unsafe { (functions.synchronize)(STREAM) };
        functions.done(status, "cuStreamSynchronize")
    }

    fn read(&mut self, buffer: usize, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0u8; len];
        let (to, from) = (bytes.as_mut_ptr().cast(), self.buffers[buffer].address);
        // SAFETY: source and destination have this number of bytes.
        let status = unsafe { (self.functions.to_host)(to, from, len) };
        self.functions.done(status, "cuMemcpyDtoH")?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_replaced() {
        let text = "// nvcc\n.version 9.5\n.target sm_75\n";
        let expected = "// nvcc\n.version 8.0\n.target sm_75\n";
        assert_eq!(super::with_old_version(text), expected);
    }

    #[test]
    fn arguments_fill_whole_words() {
        assert_eq!(super::words(&[1, 2]), [0x0201]);
        assert_eq!(super::words(&[0; 12]).len(), 2);
    }
}
