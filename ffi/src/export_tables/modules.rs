//! What cuFFT asks of a module that it compiled: its kernels, of which it does not know the names.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::convert::FromAbi;
use crate::guard::{self, Call, DefaultStream};
use crate::handles::{ModuleObject, module_function_handle};
use crate::result::CuResult;
use crate::types::{CUcontext, CUfunction, CUmodule};

/// Called for each kernel; the third argument is of unknown meaning, and cuFFT does not look at it.
type Visit = unsafe extern "C" fn(*mut c_void, CUfunction, *mut c_void);

/// What the slot answers when it went through a module, observed from outside: cuFFT takes anything else for a failure.
const VISITED: c_int = 1;

/// Calls `visit(user, kernel, null)` for each kernel of a module, in the order of the module; answers 0 where there is
/// no such module.
pub(super) extern "C" fn each_function(
    context: CUcontext,
    module: CUmodule,
    visit: Option<Visit>,
    user: *mut c_void,
) -> c_int {
    static CALL: Call = Call::new("MODULE_FUNCTIONS[7]", DefaultStream::Legacy);
    let mut found = Vec::new();
    let listed = guard::enter(
        &CALL,
        &[("context", &context), ("module", &module), ("user", &user)],
        || {
            // SAFETY: a handle is looked up, never dereferenced.
            let object: Arc<ModuleObject> = unsafe { FromAbi::from_abi(module, &CALL) }?;
            for kernel in object.module.kernels() {
                found.push(module_function_handle(&object, kernel.name())?);
            }
            Ok(())
        },
    );
    let Some(visit) = visit.filter(|_| listed == CuResult::SUCCESS) else {
        return 0;
    };
    for kernel in found {
        // SAFETY: the caller vouches for its function, which takes the handle of a kernel.
        unsafe { visit(user, kernel, std::ptr::null_mut()) };
    }
    VISITED
}
