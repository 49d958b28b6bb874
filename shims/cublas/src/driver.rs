//! The driver library: the functions that this crate calls, and the table of native kernels.
//!
//! A native kernel is a function that the driver runs on its workers in the order of a stream (`runtime/src/native_kernel.rs`).
//! `margay-native` finds the driver library and its table of functions for native kernels.

use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::sync::OnceLock;

use margay_native::table::Library;
pub(crate) use margay_native::table::{Native, Range};

use crate::status::Status;

/// `CUDA_MEMCPY2D` for pointers of which the driver knows the memory.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Copy2d {
    source: Side2d,
    target: Side2d,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One half of a [`Copy2d`].
#[repr(C)]
#[derive(Default)]
struct Side2d {
    x: usize,
    y: usize,
    kind: u32,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

impl Copy2d {
    /// Returns the copy of `height` rows of `width` bytes.
    pub(crate) fn new(
        target: (usize, usize),
        source: (usize, usize),
        width: usize,
        height: usize,
    ) -> Copy2d {
        const UNIFIED: u32 = 4;
        let side = |(device, pitch)| Side2d {
            kind: UNIFIED,
            device,
            pitch,
            ..Side2d::default()
        };
        Copy2d {
            source: side(source),
            target: side(target),
            width,
            height,
        }
    }
}

#[cfg(test)]
impl Copy2d {
    /// Returns the addresses and distances of rows of target and source.
    pub(crate) fn sides(&self) -> ((usize, usize), (usize, usize)) {
        let side = |side: &Side2d| (side.device, side.pitch);
        (side(&self.target), side(&self.source))
    }
}

macro_rules! functions {
    ($($field:ident $name:literal ($($kind:ty),*);)*) => {
        /// The functions of the driver library that this crate calls. Handles and addresses are numbers.
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($kind),*) -> u32,)*
            pub(crate) native: &'static Native,
        }

        fn load(library: Library, native: &'static Native) -> Option<Driver> {
            Some(Driver {
                $($field: {
                    let address = library.symbol($name)?;
                    // SAFETY: the driver library's function has this type.
                    unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> u32>(address) }
                },)*
                native,
            })
        }
    };
}

functions! {
    init c"cuInit" (u32);
    device_count c"cuDeviceGetCount" (*mut c_int);
    attribute c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    device c"cuCtxGetDevice" (*mut c_int);
    context c"cuCtxGetCurrent" (*mut usize);
    set_context c"cuCtxSetCurrent" (usize);
    retain_primary c"cuDevicePrimaryCtxRetain" (*mut usize, c_int);
    wait_context c"cuCtxSynchronize" ();
    wait_stream c"cuStreamSynchronize" (usize);
    capture_status c"cuStreamIsCapturing" (usize, *mut u32);
    copy c"cuMemcpy" (usize, usize, usize);
    copy_async c"cuMemcpyAsync" (usize, usize, usize, usize);
    copy_2d c"cuMemcpy2DUnaligned_v2" (*const Copy2d);
    copy_2d_async c"cuMemcpy2DAsync_v2" (*const Copy2d, usize);
    alloc c"cuMemAlloc_v2" (*mut usize, usize);
    free c"cuMemFree_v2" (usize);
}

impl Driver {
    /// Makes sure that a context is current: if there is none, `preferred` (a context, or 0) or else the primary context
    /// of the first device becomes current, as NVIDIA's runtime does it. Returns the current context.
    pub(crate) fn enter(&self, preferred: usize) -> Result<usize, Status> {
        let mut current = 0;
        // SAFETY: the driver's functions accept all numbers, and the variable is valid. (`driver` has initialised the driver,
        // because a query before that would be an error, which checking runs report.)
        if unsafe { (self.context)(&raw mut current) } == 0 && current != 0 {
            return Ok(current);
        }
        current = preferred;
        if current == 0 {
            // SAFETY: as above.
            let retained = unsafe { (self.retain_primary)(&raw mut current, 0) };
            if retained != 0 {
                return Err(Status::NOT_INITIALIZED);
            }
        }
        // SAFETY: as above.
        match unsafe { (self.set_context)(current) } {
            0 => Ok(current),
            _ => Err(Status::NOT_INITIALIZED),
        }
    }

    /// Waits until the work of a stream has ended.
    pub(crate) fn wait(&self, stream: usize) -> Result<(), Status> {
        // SAFETY: the driver checks the stream.
        status_of(unsafe { (self.wait_stream)(stream) })
    }

    /// Whether the work of a stream is captured in a graph.
    pub(crate) fn is_capturing(&self, stream: usize) -> bool {
        const ACTIVE: u32 = 1;
        let mut status = 0;
        // SAFETY: the variable is valid, and the driver checks the stream.
        unsafe { (self.capture_status)(stream, &raw mut status) == 0 && status == ACTIVE }
    }

    /// Whether a range is memory that kernels may access.
    pub(crate) fn is_accessible(&self, address: *const c_void, bytes: usize) -> bool {
        // SAFETY: the function accepts all numbers.
        matches!(unsafe { (self.native.memory)(address, bytes) }, 1 | 2)
    }
}

/// Returns the status for a result of the driver.
pub(crate) fn status_of(result: u32) -> Result<(), Status> {
    const OUT_OF_MEMORY: u32 = 2;
    const UNINITIALIZED: [u32; 3] = [3, 4, 201];
    match result {
        0 => Ok(()),
        OUT_OF_MEMORY => Err(Status::ALLOC_FAILED),
        code if UNINITIALIZED.contains(&code) => Err(Status::NOT_INITIALIZED),
        _ => Err(Status::EXECUTION_FAILED),
    }
}

/// Returns the driver library.
///
/// # Errors
/// `NOT_INITIALIZED` if no driver library is found, or one without native kernels. The next call tries again.
pub(crate) fn driver() -> Result<&'static Driver, Status> {
    static FOUND: OnceLock<Driver> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found);
    }
    #[cfg(test)]
    let found = Some(crate::fake::driver());
    #[cfg(not(test))]
    let found = find();
    let found = found.ok_or(Status::NOT_INITIALIZED)?;
    // SAFETY: the function accepts all numbers.
    if unsafe { (found.init)(0) } != 0 {
        return Err(Status::NOT_INITIALIZED);
    }
    Ok(FOUND.get_or_init(|| found))
}

#[cfg_attr(test, allow(dead_code, reason = "tests have a driver of their own"))]
fn find() -> Option<Driver> {
    let library = Library::find()?;
    load(library, library.native()?)
}
