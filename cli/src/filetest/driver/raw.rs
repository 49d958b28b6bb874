//! Launches kernels outside file tests. The parameters of these kernels are buffers of bytes, followed by one parameter
//! that is passed by value.

use std::ffi::{CString, c_void};
use std::time::{Duration, Instant};

use super::{Config, Driver, SUCCESS};

/// `CUDA_ERROR_NOT_READY`: the stream still has work.
const NOT_READY: i32 = 600;

/// A module that a driver has loaded.
pub struct Loaded(*mut c_void);

/// The reason why a launch has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A call of the driver returned an error; the field is the name of this error. Later calls may
    /// fail, because most errors end the context.
    Error(String),
    /// The kernel did not end within the time limit, and may still run.
    Timeout,
}

impl Driver {
    /// Loads a PTX module.
    ///
    /// # Errors
    ///
    /// If the driver does not load the module, returns the name of the driver's error.
    pub fn load_module(&self, text: &str) -> Result<Loaded, String> {
        self.load(text)
            .map(Loaded)
            .map_err(|status| self.name_of(status))
    }

    /// Unloads a module.
    pub fn unload_module(&self, module: Loaded) {
        self.unload(module.0);
    }

    /// Launches one block of `threads` threads. The parameters are the addresses of copies of `buffers`, and then the
    /// bytes of `by_value`, which must have the size of the kernel's last parameter. Returns the
    /// content of the copies after the kernel has ended.
    ///
    /// # Errors
    ///
    /// Returns [`Stopped::Error`] with the name of the first error, or [`Stopped::Timeout`].
    pub fn launch_bytes(
        &self,
        module: &Loaded,
        kernel: &str,
        threads: u32,
        buffers: &[&[u8]],
        by_value: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, Stopped> {
        let mut addresses = Vec::new();
        for bytes in buffers {
            addresses.push(self.upload(bytes).map_err(Stopped::Error)?);
        }
        let name = CString::new(kernel).map_err(|e| Stopped::Error(e.to_string()))?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name is a C string, and the pointer to the result is valid.
        let status = unsafe { (self.api.function)(&raw mut function, module.0, name.as_ptr()) };
        self.checked("cuModuleGetFunction", status)?;
        let sizes = [vec![size_of::<u64>(); buffers.len()], vec![by_value.len()]].concat();
        self.check_parameters(function, &sizes)
            .map_err(Stopped::Error)?;
        let mut arguments: Vec<*const c_void> = Vec::new();
        arguments.extend(addresses.iter().map(|a| std::ptr::from_ref(a).cast()));
        arguments.push(by_value.as_ptr().cast());
        let config = Config {
            grid: [1; 3],
            block: [threads, 1, 1],
            shared: 0,
            stream: std::ptr::null_mut(),
            attributes: std::ptr::null(),
            count: 0,
        };
        let none = std::ptr::null();
        // SAFETY: the configuration and one argument for each parameter of the kernel live until the call returns, and
        // the call copies them.
        let status =
            unsafe { (self.api.launch)(&raw const config, function, arguments.as_ptr(), none) };
        self.checked("cuLaunchKernelEx", status)?;
        self.wait(limit)?;
        let mut contents = Vec::new();
        for (address, bytes) in addresses.iter().zip(buffers) {
            let mut content = vec![0u8; bytes.len()];
            // SAFETY: source and destination have this number of bytes.
            let status =
                unsafe { (self.api.read)(content.as_mut_ptr().cast(), *address, bytes.len()) };
            self.checked("cuMemcpyDtoH", status)?;
            contents.push(content);
            // SAFETY: this driver allocated the memory, which is not used again.
            let status = unsafe { (self.api.free)(*address) };
            self.checked("cuMemFree", status)?;
        }
        Ok(contents)
    }

    /// Waits until the default stream has no work, but not longer than `limit`.
    fn wait(&self, limit: Duration) -> Result<(), Stopped> {
        let start = Instant::now();
        loop {
            // SAFETY: a null pointer is the default stream.
            match unsafe { (self.api.query)(std::ptr::null_mut()) } {
                SUCCESS => return Ok(()),
                NOT_READY if start.elapsed() > limit => return Err(Stopped::Timeout),
                NOT_READY => std::thread::sleep(Duration::from_micros(20)),
                status => return Err(Stopped::Error(self.name_of(status))),
            }
        }
    }

    fn checked(&self, call: &str, status: i32) -> Result<(), Stopped> {
        self.check(call, status).map_err(Stopped::Error)
    }
}
