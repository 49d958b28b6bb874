//! Implements the enumeration of a module's kernels for cuFFT, which does not know the names of the kernels that it
//! compiled.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::convert::FromAbi;
use crate::guard::{self, Call, DefaultStream};
use crate::handles::{ModuleObject, module_function_handle};
use crate::result::CuResult;
use crate::types::{CUcontext, CUfunction, CUmodule};

/// The type of the function that is called for each kernel. The purpose of the third argument is unknown, and cuFFT
/// ignores the argument.
type Visit = unsafe extern "C" fn(*mut c_void, CUfunction, *mut c_void);

/// The result after a successful enumeration. The interface is undocumented; cuFFT treats any other value as a failure.
const VISITED: c_int = 1;

/// Calls `visit(user, kernel, null)` for each kernel of a module, in the order of the module. Returns 1, or 0 if the
/// module does not exist or `visit` is null.
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
            // SAFETY: the handle is looked up and never dereferenced.
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
        // SAFETY: the caller guarantees that the function is valid and takes the handle of a kernel.
        unsafe { visit(user, kernel, std::ptr::null_mut()) };
    }
    VISITED
}
