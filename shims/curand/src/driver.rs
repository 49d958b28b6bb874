//! The driver library: the functions that this crate calls, and the launch of native kernels.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use margay_native::launch;
use margay_native::table::{Library, Native};

use crate::status::{Outcome, Status};

macro_rules! functions {
    ($($field:ident $name:literal ($($kind:ty),*);)*) => {
        /// The functions of the driver library that this crate calls. Handles and addresses are numbers.
        pub(crate) struct Driver {
            $($field: unsafe extern "C" fn($($kind),*) -> u32,)*
            native: &'static Native,
        }

        fn load(library: Library) -> Option<Driver> {
            Some(Driver {
                $($field: {
                    let address = library.symbol($name)?;
                    // SAFETY: the driver library's function has this type.
                    unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> u32>(address) }
                },)*
                native: library.native()?,
            })
        }
    };
}

functions! {
    init c"cuInit" (u32);
    context c"cuCtxGetCurrent" (*mut usize);
    set_context c"cuCtxSetCurrent" (usize);
    retain_primary c"cuDevicePrimaryCtxRetain" (*mut usize, c_int);
    alloc c"cuMemAlloc_v2" (*mut usize, usize);
    free c"cuMemFree_v2" (usize);
    copy c"cuMemcpyHtoD_v2" (usize, *const c_void, usize);
}

/// Returns the driver library.
///
/// # Errors
/// `InitializationFailed` if there is none, or one without native kernels. The next call tries again.
pub(crate) fn driver() -> Result<&'static Driver, Status> {
    static FOUND: OnceLock<Driver> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    let found = Library::find()
        .and_then(load)
        .ok_or(Status::InitializationFailed)?;
    // SAFETY: the function accepts all numbers.
    if unsafe { (found.init)(0) } != 0 {
        return Err(Status::InitializationFailed);
    }
    Ok(FOUND.get_or_init(|| found))
}

/// A function that computes the results of a task.
pub(crate) type Task = Box<dyn Fn(usize) + Send + Sync>;

impl Driver {
    /// Makes sure that a context is current, as NVIDIA's runtime does it.
    pub(crate) fn enter(&self) -> Outcome {
        let mut current = 0;
        // SAFETY: the driver's functions accept all numbers, and the variable is valid.
        if unsafe { (self.context)(&raw mut current) } == 0 && current != 0 {
            return Ok(());
        }
        // SAFETY: as above.
        if unsafe { (self.retain_primary)(&raw mut current, 0) } != 0 {
            return Err(Status::InitializationFailed);
        }
        // SAFETY: as above.
        match unsafe { (self.set_context)(current) } {
            0 => Ok(()),
            _ => Err(Status::InitializationFailed),
        }
    }

    /// Submits tasks that write a range of memory to a stream.
    pub(crate) fn launch(
        &self,
        stream: usize,
        name: &'static CStr,
        tasks: usize,
        (address, bytes): (usize, usize),
        task: Task,
    ) -> Outcome {
        let tasks = u32::try_from(tasks).map_err(|_| Status::OutOfRange)?;
        let ranges = [launch::range(address, bytes, true)];
        let run = move |index| {
            task(index as usize);
            0
        };
        match launch::submit(self.native, stream, name, tasks, &ranges, run) {
            0 => Ok(()),
            _ => Err(Status::LaunchFailure),
        }
    }

    /// Returns new device memory with the given contents.
    pub(crate) fn store(
        &self,
        size: usize,
        contents: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<usize, Status> {
        let mut address = 0;
        // SAFETY: the variable is valid.
        if unsafe { (self.alloc)(&raw mut address, size) } != 0 {
            return Err(Status::AllocationFailed);
        }
        let bytes = contents(address);
        if bytes.len() > size {
            return Err(Status::InternalError);
        }
        // SAFETY: the buffer is valid, and the driver checks the address.
        if unsafe { (self.copy)(address, bytes.as_ptr().cast(), bytes.len()) } != 0 {
            return Err(Status::InternalError);
        }
        Ok(address)
    }

    /// Frees device memory.
    pub(crate) fn free(&self, address: usize) -> Outcome {
        // SAFETY: the driver checks the address.
        match unsafe { (self.free)(address) } {
            0 => Ok(()),
            _ => Err(Status::InternalError),
        }
    }
}
