//! `libgpuocelot.so`: the one function of gpuocelot that tinygrad's emulated CUDA device calls, on Margay.
//!
//! `ptx_run` compiles a PTX text and runs its kernel on memory of this process: pointers among the arguments are
//! addresses of the host. The work is done by `libcuda.so`, which is looked for beside this file and then where
//! the dynamic linker looks. Texts that were run before are found again.
//!
//! Invariants: no panic leaves `ptx_run`; it answers nothing, so what fails is told on standard error and the
//! process ends, as a wrong result would go unseen.

mod driver;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

use driver::{Driver, Function};

/// The kernels that were run, by their texts.
static KERNELS: Mutex<Option<Kernels>> = Mutex::new(None);

struct Kernels {
    driver: Driver,
    by_text: HashMap<Vec<u8>, Function>,
}

/// Runs the kernel in `source` and waits for it.
///
/// `arguments` has a word for each parameter: an address of this process or a number, of which a parameter takes as many
/// low bytes as it has. A block is `block_x` by `block_y` by `block_z` threads, the grid so many blocks, and each block
/// gets `shared` bytes beside its own variables.
///
/// # Safety
/// `source` is a C string and `arguments` has `count` words. What the kernel does to the addresses is its business.
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
        // SAFETY: the caller vouches for both.
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

/// `size`: the grid's three, then the block's.
fn run(text: &CStr, words: &[*mut c_void], size: [c_int; 6], shared: c_int) -> Result<(), String> {
    let mut size = size.map(|n| u32::try_from(n).unwrap_or(0));
    // What a caller leaves at 0 means 1, as for kernels that only use the first dimension.
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
