//! The contender that runs OpenCL kernels through `libOpenCL.so.1`. It uses only platforms of PoCL.
//!
//! The kernels of `benches/opencl` have the names and arguments of the CUDA kernels. Buffers use host memory that this
//! process allocates. Large buffers are in huge pages, as are Margay's large buffers. To run kernels on fewer cores
//! than the machine has, this module creates a sub-device (`clCreateSubDevices`). Invariant: the owner of a program,
//! kernel or buffer handle releases the handle. Contexts and queues are never released.

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::rc::Rc;

use super::{Contender, Loaded};
use crate::case::Case;
use crate::library::Library;
use crate::memory::Memory;
use crate::work::{Argument, Extent, Step, Work};

type Status = c_int;
type Handle = *mut c_void;

const SUCCESS: Status = 0;
const PLATFORM_VERSION: c_uint = 0x0901;
const PLATFORM_NAME: c_uint = 0x0902;
const DEVICE_TYPE_CPU: u64 = 1 << 1;
const DEVICE_MAX_COMPUTE_UNITS: c_uint = 0x1002;
const PARTITION_BY_COUNTS: isize = 0x1087;
const MEM_USE_HOST_PTR: u64 = 1 << 3;
const PROGRAM_BUILD_LOG: c_uint = 0x1183;

/// Declares the functions that this module calls, each loaded by its name.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ty),* $(,)?) -> $ret:ty;)*) => {
        #[derive(Clone, Copy)]
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> $ret,)* }

        impl Functions {
            fn load(library: &Library) -> Result<Functions, String> {
                $(
                    // SAFETY: the types are those of the OpenCL 1.2 specification.
                    let $name = unsafe { library.symbol($symbol) }?;
                )*
                Ok(Functions { $($name),* })
            }
        }
    };
}

functions! {
    platforms = c"clGetPlatformIDs" (c_uint, *mut Handle, *mut c_uint) -> Status;
    platform_info = c"clGetPlatformInfo" (Handle, c_uint, usize, *mut c_void, *mut usize) -> Status;
    devices = c"clGetDeviceIDs" (Handle, u64, c_uint, *mut Handle, *mut c_uint) -> Status;
    device_info = c"clGetDeviceInfo" (Handle, c_uint, usize, *mut c_void, *mut usize) -> Status;
    sub_devices = c"clCreateSubDevices" (Handle, *const isize, c_uint, *mut Handle, *mut c_uint) -> Status;
    context = c"clCreateContext" (*const isize, c_uint, *const Handle, *const c_void, *mut c_void, *mut Status) -> Handle;
    queue = c"clCreateCommandQueue" (Handle, Handle, u64, *mut Status) -> Handle;
    program = c"clCreateProgramWithSource" (Handle, c_uint, *const *const c_char, *const usize, *mut Status) -> Handle;
    build = c"clBuildProgram" (Handle, c_uint, *const Handle, *const c_char, *const c_void, *mut c_void) -> Status;
    build_info = c"clGetProgramBuildInfo" (Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> Status;
    kernel = c"clCreateKernel" (Handle, *const c_char, *mut Status) -> Handle;
    argument = c"clSetKernelArg" (Handle, c_uint, usize, *const c_void) -> Status;
    buffer = c"clCreateBuffer" (Handle, u64, usize, *mut c_void, *mut Status) -> Handle;
    fill = c"clEnqueueFillBuffer" (Handle, Handle, *const c_void, usize, usize, usize, c_uint, *const Handle, *mut Handle) -> Status;
    read = c"clEnqueueReadBuffer" (Handle, Handle, c_uint, usize, usize, *mut c_void, c_uint, *const Handle, *mut Handle) -> Status;
    launch = c"clEnqueueNDRangeKernel" (Handle, Handle, c_uint, *const usize, *const usize, *const usize, c_uint, *const Handle, *mut Handle) -> Status;
    finish = c"clFinish" (Handle) -> Status;
    release_kernel = c"clReleaseKernel" (Handle) -> Status;
    release_program = c"clReleaseProgram" (Handle) -> Status;
    release_buffer = c"clReleaseMemObject" (Handle) -> Status;
}

/// Returns an error that contains the status code if `status`, which the OpenCL function `call` returned, is not
/// `CL_SUCCESS`.
fn done(status: Status, call: &str) -> Result<(), String> {
    match status {
        SUCCESS => Ok(()),
        status => Err(format!("{call} returned {status}")),
    }
}

/// Returns the text that an OpenCL query such as `clGetPlatformInfo` returns. `ask` performs the
/// query; it is called twice: first for the length of the text, then for the text.
fn text(ask: impl Fn(usize, *mut c_void, *mut usize) -> Status) -> String {
    let mut len = 0;
    if ask(0, ptr::null_mut(), &mut len) != SUCCESS {
        return String::new();
    }
    let mut bytes = vec![0u8; len];
    if ask(len, bytes.as_mut_ptr().cast(), ptr::null_mut()) != SUCCESS {
        return String::new();
    }
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(len);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// PoCL's CPU device.
pub(crate) struct Platform {
    functions: Functions,
    device: Handle,
    /// Name and version of the platform.
    pub(crate) name: String,
    /// Number of cores of the device.
    pub(crate) cores: usize,
}

impl Platform {
    /// Returns the first OpenCL platform of this machine that belongs to PoCL.
    ///
    /// # Errors
    ///
    /// If the OpenCL loader or PoCL is missing, the error is a message that says what is missing.
    pub(crate) fn pocl() -> Result<Platform, String> {
        // SAFETY: the initialisers of the OpenCL loader do not affect this process.
        let library = unsafe { Library::open("libOpenCL.so.1") }?;
        let functions = Functions::load(&library)?;
        let mut platforms = [ptr::null_mut(); 16];
        let mut found = 0;
        // SAFETY: the array has as many elements as the call may write.
        let status = unsafe { (functions.platforms)(16, platforms.as_mut_ptr(), &mut found) };
        done(status, "clGetPlatformIDs")?;
        let info = |platform, what| {
            // SAFETY: `text` passes a buffer and the size of this buffer.
            text(|len, to, wrote| unsafe {
                (functions.platform_info)(platform, what, len, to, wrote)
            })
        };
        let platform = platforms[..(found as usize).min(16)]
            .iter()
            .find(|p| info(**p, PLATFORM_NAME).contains("Portable Computing Language"))
            .ok_or("OpenCL has no platform of PoCL")?;
        let mut device = ptr::null_mut();
        // SAFETY: the pointer refers to memory for one handle.
        let status = unsafe {
            (functions.devices)(*platform, DEVICE_TYPE_CPU, 1, &mut device, ptr::null_mut())
        };
        done(status, "clGetDeviceIDs")?;
        let mut cores: c_uint = 0;
        let to = ptr::from_mut(&mut cores).cast();
        // SAFETY: the result has four bytes.
        let status = unsafe {
            (functions.device_info)(device, DEVICE_MAX_COMPUTE_UNITS, 4, to, ptr::null_mut())
        };
        done(status, "clGetDeviceInfo")?;
        Ok(Platform {
            functions,
            device,
            name: info(*platform, PLATFORM_VERSION),
            cores: cores as usize,
        })
    }

    /// Returns the contender that uses only `cores` cores of the device.
    pub(crate) fn with_cores(&self, cores: usize) -> Result<OpenCl, String> {
        let functions = self.functions;
        let device = match cores == self.cores {
            true => self.device,
            false => self.part(cores)?,
        };
        let mut status = SUCCESS;
        // SAFETY: the call gets one device, no properties and no callback.
        let context = unsafe {
            (functions.context)(
                ptr::null(),
                1,
                &device,
                ptr::null(),
                ptr::null_mut(),
                &mut status,
            )
        };
        done(status, "clCreateContext")?;
        // SAFETY: the context and its device exist.
        let queue = unsafe { (functions.queue)(context, device, 0, &mut status) };
        done(status, "clCreateCommandQueue")?;
        Ok(OpenCl(Rc::new(Device {
            functions,
            device,
            context,
            queue,
        })))
    }

    fn part(&self, cores: usize) -> Result<Handle, String> {
        let properties = [PARTITION_BY_COUNTS, cores as isize, 0, 0];
        let mut part = ptr::null_mut();
        // SAFETY: zeros terminate the list of counts and the properties; the pointer refers to memory for one device.
        let status = unsafe {
            (self.functions.sub_devices)(
                self.device,
                properties.as_ptr(),
                1,
                &mut part,
                ptr::null_mut(),
            )
        };
        done(status, "clCreateSubDevices")?;
        Ok(part)
    }
}

/// A device with its context and queue, which are never released.
struct Device {
    functions: Functions,
    device: Handle,
    context: Handle,
    queue: Handle,
}

impl Device {
    fn finish(&self) -> Result<(), String> {
        // SAFETY: the queue is never released.
        done(unsafe { (self.functions.finish)(self.queue) }, "clFinish")
    }
}

/// The contender: PoCL on a given number of the machine's cores.
pub(crate) struct OpenCl(Rc<Device>);

impl Contender for OpenCl {
    fn load(&self, case: &Case, work: &Work) -> Result<Box<dyn Loaded>, String> {
        let device = &self.0;
        let program = Program::build(device, case.sources.opencl, case.sources.opencl_options)?;
        let buffers: Result<Vec<Buffer>, String> = work
            .buffers
            .iter()
            .map(|bytes| Buffer::of(device, bytes))
            .collect();
        let buffers = buffers?;
        let actions: Result<Vec<Action>, String> = work
            .steps
            .iter()
            .map(|step| match step {
                Step::Zero(buffer) => Ok(Action::Zero(buffer.0, work.buffers[buffer.0].len())),
                Step::Launch(launch) => Ok(Action::Launch {
                    kernel: Kernel::new(&program, launch.kernel, &launch.arguments, &buffers)?,
                    global: global(launch.grid, launch.block),
                    local: launch.block.map(|n| n as usize),
                }),
            })
            .collect();
        Ok(Box::new(Ready {
            actions: actions?,
            device: device.clone(),
            buffers,
        }))
    }
}

fn global(grid: Extent, block: Extent) -> [usize; 3] {
    std::array::from_fn(|axis| grid[axis] as usize * block[axis] as usize)
}

struct Program {
    device: Rc<Device>,
    handle: Handle,
}

impl Program {
    fn build(device: &Rc<Device>, source: &str, options: &str) -> Result<Program, String> {
        let functions = &device.functions;
        let options = CString::new(options).map_err(|e| e.to_string())?;
        let (start, len) = (source.as_ptr().cast::<c_char>(), source.len());
        let mut status = SUCCESS;
        // SAFETY: the call gets one text with its length.
        let handle = unsafe { (functions.program)(device.context, 1, &start, &len, &mut status) };
        done(status, "clCreateProgramWithSource")?;
        let program = Program {
            device: device.clone(),
            handle,
        };
        // SAFETY: the call gets one device, options that end with a zero, and no callback.
        let status = unsafe {
            (functions.build)(
                handle,
                1,
                &device.device,
                options.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
            )
        };
        done(status, "clBuildProgram").map_err(|error| {
            // SAFETY: `text` passes a buffer and the size of this buffer.
            let log = text(|len, to, wrote| unsafe {
                (functions.build_info)(handle, device.device, PROGRAM_BUILD_LOG, len, to, wrote)
            });
            format!("{error}: {log}")
        })?;
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the handle was created by this value and is released once.
        unsafe { (self.device.functions.release_program)(self.handle) };
    }
}

struct Buffer {
    device: Rc<Device>,
    handle: Handle,
    // The memory of the buffer. It is a field, so it is dropped after `drop` has released the OpenCL buffer.
    _memory: Memory,
}

impl Buffer {
    fn of(device: &Rc<Device>, bytes: &[u8]) -> Result<Buffer, String> {
        let memory = Memory::of(bytes);
        let mut status = SUCCESS;
        // SAFETY: the memory has this size and outlives the buffer.
        let handle = unsafe {
            let start = memory.start().cast();
            (device.functions.buffer)(
                device.context,
                MEM_USE_HOST_PTR,
                bytes.len().max(1),
                start,
                &mut status,
            )
        };
        done(status, "clCreateBuffer")?;
        Ok(Buffer {
            device: device.clone(),
            handle,
            _memory: memory,
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the handle was created by this value and is released once.
        unsafe { (self.device.functions.release_buffer)(self.handle) };
    }
}

/// An OpenCL kernel whose arguments have been set.
struct Kernel {
    device: Rc<Device>,
    handle: Handle,
}

impl Kernel {
    fn new(
        program: &Program,
        name: &str,
        arguments: &[Argument],
        buffers: &[Buffer],
    ) -> Result<Kernel, String> {
        let functions = &program.device.functions;
        let name = CString::new(name).map_err(|e| e.to_string())?;
        let mut status = SUCCESS;
        // SAFETY: the program is built, and the name ends with a zero.
        let handle = unsafe { (functions.kernel)(program.handle, name.as_ptr(), &mut status) };
        done(status, "clCreateKernel")?;
        let kernel = Kernel {
            device: program.device.clone(),
            handle,
        };
        for (index, argument) in (0..).zip(arguments) {
            let (size, value): (usize, *const c_void) = match argument {
                Argument::Buffer(buffer) => (
                    size_of::<Handle>(),
                    ptr::from_ref(&buffers[buffer.0].handle).cast(),
                ),
                Argument::Value(bytes) => (bytes.len(), bytes.as_ptr().cast()),
            };
            // SAFETY: the value has this size, and the call copies it.
            let status = unsafe { (functions.argument)(handle, index, size, value) };
            done(status, "clSetKernelArg")?;
        }
        Ok(kernel)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the handle was created by this value and is released once.
        unsafe { (self.device.functions.release_kernel)(self.handle) };
    }
}

enum Action {
    /// Fills a buffer with zeros. The fields are the index and the size in bytes of the buffer.
    Zero(usize, usize),
    Launch {
        kernel: Kernel,
        global: [usize; 3],
        local: [usize; 3],
    },
}

struct Ready {
    // This field precedes `buffers`, so that kernels are dropped before the buffers to which they refer.
    actions: Vec<Action>,
    device: Rc<Device>,
    buffers: Vec<Buffer>,
}

impl Loaded for Ready {
    fn run(&mut self) -> Result<(), String> {
        let Device {
            functions, queue, ..
        } = &*self.device;
        for action in &self.actions {
            match action {
                Action::Zero(buffer, len) => {
                    let (buffer, zero) = (self.buffers[*buffer].handle, 0u8);
                    let pattern = ptr::from_ref(&zero).cast();
                    // SAFETY: the pattern has one byte and is copied; the buffer has `len` bytes.
                    let status = unsafe {
                        (functions.fill)(
                            *queue,
                            buffer,
                            pattern,
                            1,
                            0,
                            *len,
                            0,
                            ptr::null(),
                            ptr::null_mut(),
                        )
                    };
                    done(status, "clEnqueueFillBuffer")?;
                }
                Action::Launch {
                    kernel,
                    global,
                    local,
                } => {
                    let (kernel, start) = (kernel.handle, ptr::null());
                    // SAFETY: the extents have three dimensions, and there are no events.
                    let status = unsafe {
                        (functions.launch)(
                            *queue,
                            kernel,
                            3,
                            start,
                            global.as_ptr(),
                            local.as_ptr(),
                            0,
                            ptr::null(),
                            ptr::null_mut(),
                        )
                    };
                    done(status, "clEnqueueNDRangeKernel")?;
                }
            }
        }
        self.device.finish()
    }

    fn read(&mut self, buffer: usize, len: usize) -> Result<Vec<u8>, String> {
        let Device {
            functions, queue, ..
        } = &*self.device;
        let (buffer, mut bytes) = (self.buffers[buffer].handle, vec![0; len]);
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: the read is blocking, and the destination has room for the bytes.
        let status = unsafe {
            (functions.read)(
                *queue,
                buffer,
                1,
                0,
                len,
                to,
                0,
                ptr::null(),
                ptr::null_mut(),
            )
        };
        done(status, "clEnqueueReadBuffer")?;
        Ok(bytes)
    }
}
