//! Implements the entry points for initialisation, versions, error texts, the module loading mode and the profiler.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::{Once, OnceLock};

use margay::Runtime;

use crate::convert::Out;
use crate::guard::{Call, set_ready};
use crate::handles::current;
use crate::result::{CuResult, Served};

/// `CU_MODULE_EAGER_LOADING` and `CU_MODULE_LAZY_LOADING`.
const LOADING_MODES: (c_uint, c_uint) = (1, 2);

pub(crate) fn init(_: &Call, flags: c_uint) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    if Runtime::global()?.device_count() == 0 {
        return Err(CuResult::NO_DEVICE);
    }
    end_at_exit();
    crate::main_thread::watch();
    set_ready()
}

/// Registers an exit handler that waits for running work (at most a second), stops the remaining work, and prints the
/// pending output of kernels. The handler runs before the handlers that NVIDIA's runtime has registered, which unload
/// modules and therefore wait for kernels.
fn end_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn end() {
        let _ = std::panic::catch_unwind(|| {
            if let Ok(runtime) = Runtime::global() {
                runtime.end_at_exit();
            }
        });
    }
    ONCE.call_once(|| {
        // SAFETY: the library is never unloaded, and the handler does not unwind. If the registration fails, only the
        // last output is lost.
        unsafe { libc::atexit(end) };
    });
}

/// Returns the driver's version without initialising the runtime, so that changes to the environment before `cuInit`
/// still take effect.
pub(crate) fn reported_version() -> c_int {
    static VERSION: OnceLock<c_int> = OnceLock::new();
    *VERSION.get_or_init(margay::device::driver_version)
}

pub(crate) fn driver_get_version(_: &Call, version: Out<c_int>) -> Served {
    version.set(reported_version());
    Ok(())
}

pub(crate) fn get_error_name(_: &Call, error: CuResult, text: Out<*const c_char>) -> Served {
    tell(error.name(), text)
}

pub(crate) fn get_error_string(_: &Call, error: CuResult, text: Out<*const c_char>) -> Served {
    tell(error.text(), text)
}

fn tell(found: Option<&'static std::ffi::CStr>, text: Out<*const c_char>) -> Served {
    text.set(found.map_or(std::ptr::null(), |text| text.as_ptr()));
    found.map(|_| ()).ok_or(CuResult::INVALID_VALUE)
}

pub(crate) fn module_get_loading_mode(_: &Call, mode: Out<c_uint>) -> Served {
    let eager = std::env::var_os("CUDA_MODULE_LOADING").is_some_and(|value| value == "EAGER");
    let (eager_mode, lazy_mode) = LOADING_MODES;
    mode.set(if eager { eager_mode } else { lazy_mode });
    Ok(())
}

/// Does nothing. There is no profiler, but programs that use a profiler should continue.
pub(crate) fn profiler_initialize(
    _: &Call,
    _config: *const c_char,
    _output: *const c_char,
    _mode: c_uint,
) -> Served {
    Ok(())
}

pub(crate) fn profiler_start(_: &Call) -> Served {
    current().map(|_| ())
}

pub(crate) fn profiler_stop(_: &Call) -> Served {
    current().map(|_| ())
}
