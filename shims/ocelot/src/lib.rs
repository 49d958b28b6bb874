//! `libgpuocelot.so`: implements `ptx_run`, the only function of gpuocelot that tinygrad's emulated CUDA device calls.
//!
//! `ptx_run` compiles a PTX text and runs its kernel on memory of this process, so pointer
//! arguments are addresses of the host. To do so, the function calls the driver library
//! `libcuda.so`. This library loads the driver library from its own folder or, if the folder does
//! not contain the driver library, from the dynamic linker's search path. Each PTX text is compiled
//! only once.
//!
//! Invariants: no panic propagates out of `ptx_run`. The function has no return value. If an error
//! occurs, it therefore prints the error to standard error and aborts the process, so that the
//! program does not continue with a wrong result.

mod driver;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

use driver::{Driver, Function};

/// A map from PTX texts to compiled kernels.
static KERNELS: Mutex<Option<Kernels>> = Mutex::new(None);

struct Kernels {
    driver: Driver,
    by_text: HashMap<Vec<u8>, Function>,
}

/// Runs the kernel in the PTX text `source`, and waits until it has ended.
///
/// `arguments` contains a word for each parameter: an address of this process or a number. A parameter uses the low
/// bytes of its word. A block has `block_x` by `block_y` by `block_z` threads, and the grid has `grid_x` by `grid_y` by
/// `grid_z` blocks. Each block has `shared` bytes of dynamic shared memory.
///
/// # Safety
/// `source` is a C string and `arguments` has `count` words. The caller is responsible for the memory that the kernel
/// accesses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptx_run(
    source: *const c_char,
    count: c_int,
    arguments: *const *mut c_void,
    block_x: c_int,
    block_y: c_int,
    block_z: c_int,
    grid_x: c_int,
    grid_y: c_int,
    grid_z: c_int,
    shared: c_int,
) {
    let ran = catch_unwind(|| {
        let count =
            usize::try_from(count).map_err(|_| "a negative count of arguments".to_owned())?;
        if source.is_null() || (arguments.is_null() && count > 0) {
            return Err("no source, or no arguments".to_owned());
        }
        // SAFETY: the caller guarantees the C string and the words.
        let (text, words) = unsafe {
            let words = match count {
                0 => &[],
                _ => std::slice::from_raw_parts(arguments, count),
            };
            (CStr::from_ptr(source), words)
        };
        let size = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        run(text, words, size, shared)
    });
    let problem = match ran {
        Ok(Ok(())) => return,
        Ok(Err(problem)) => problem,
        Err(_) => "panicked".to_owned(),
    };
    eprintln!("margay: ptx_run: {problem}");
    std::process::abort();
}

/// Runs the kernel in the PTX text `text`, and waits until it has ended. `size` contains the grid
/// dimensions, then the block dimensions.
fn run(text: &CStr, words: &[*mut c_void], size: [c_int; 6], shared: c_int) -> Result<(), String> {
    let mut size = size.map(|n| u32::try_from(n).unwrap_or(0));
    // A dimension of 0 means 1, so a caller can set unused dimensions to 0.
    size.iter_mut().for_each(|n| *n = (*n).max(1));
    let shared = u32::try_from(shared).map_err(|_| "a negative size of shared memory")?;
    let mut kernels = KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let kernels = match &mut *kernels {
        Some(kernels) => kernels,
        none => none.insert(Kernels {
            driver: Driver::load()?,
            by_text: HashMap::new(),
        }),
    };
    kernels.driver.make_current()?;
    let function = match kernels.by_text.get(text.to_bytes()) {
        Some(function) => *function,
        None => {
            let function = kernels.driver.kernel(text)?;
            kernels.by_text.insert(text.to_bytes().to_vec(), function);
            function
        }
    };
    kernels.driver.launch(function, words, size, shared)
}
