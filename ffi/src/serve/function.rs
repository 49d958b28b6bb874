//! Implements the entry points for attributes, names and parameters of functions.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::Arc;

use margay::FunctionAttribute;

use super::context::preference;
use crate::convert::{OptOut, Out};
use crate::guard::Call;
use crate::handles::{Function, FunctionObject, current, library_module_handle, modules};
use crate::result::{CuResult, Served};
use crate::types::CUmodule;

/// The largest value of `CUfunc_cache`. The constant below is the largest value of
/// `CUsharedconfig`.
pub(crate) const LAST_CACHE_CONFIG: c_uint = 3;
const LAST_SHARED_CONFIG: c_uint = 2;
/// `CU_FUNCTION_LOADING_STATE_LOADED`.
const LOADED: c_uint = 1;

/// Returns the function attribute with the number `number`, or `INVALID_VALUE` if there is none.
pub(crate) fn function_attribute(number: c_uint) -> Result<FunctionAttribute, CuResult> {
    i32::try_from(number)
        .ok()
        .and_then(FunctionAttribute::from_number)
        .ok_or(CuResult::INVALID_VALUE)
}

pub(crate) fn func_get_attribute(
    _: &Call,
    value: Out<c_int>,
    attribute: c_uint,
    function: Function,
) -> Served {
    let attribute = function_attribute(attribute)?;
    value.set(function.here()?.attribute(attribute)?);
    Ok(())
}

pub(crate) fn func_set_attribute(
    _: &Call,
    function: Function,
    attribute: c_uint,
    value: c_int,
) -> Served {
    let attribute = function_attribute(attribute)?;
    Ok(function.here()?.set_attribute(attribute, value)?)
}

pub(crate) fn func_set_cache_config(_: &Call, function: Function, config: c_uint) -> Served {
    let config = preference(config, LAST_CACHE_CONFIG)?;
    Ok(function.here()?.set_cache_config(config)?)
}

/// Checks the value but does not use it, because the bank width of shared memory has no effect.
pub(crate) fn func_set_shared_mem_config(_: &Call, _function: Function, config: c_uint) -> Served {
    preference(config, LAST_SHARED_CONFIG).map(|_| ())
}

pub(crate) fn func_get_module(_: &Call, out: Out<CUmodule>, function: Function) -> Served {
    let handle = match &*function {
        FunctionObject::OfLibrary { library, .. } => library_module_handle(library, &current()?)?,
        FunctionObject::Loaded { module, .. } => {
            let module = module.upgrade().ok_or(CuResult::INVALID_HANDLE)?;
            let handle = modules().find(|held| Arc::ptr_eq(held, &module));
            CUmodule(handle.ok_or(CuResult::INVALID_HANDLE)?)
        }
    };
    out.set(handle);
    Ok(())
}

pub(crate) fn func_get_name(_: &Call, name: Out<*const c_char>, function: Function) -> Served {
    name.set(function.name().as_ptr());
    Ok(())
}

/// Writes the offset and the size of the parameter with the index `index`. If the function has no
/// such parameter, returns `INVALID_VALUE`.
pub(crate) fn param_info(
    function: &Function,
    index: usize,
    offset: &Out<usize>,
    size: &OptOut<usize>,
) -> Served {
    let params = function.params()?;
    let param = params.get(index).ok_or(CuResult::INVALID_VALUE)?;
    offset.set(param.offset as usize);
    size.set(param.size as usize);
    Ok(())
}

pub(crate) fn func_get_param_info(
    _: &Call,
    function: Function,
    index: usize,
    offset: Out<usize>,
    size: OptOut<usize>,
) -> Served {
    param_info(&function, index, &offset, &size)
}

pub(crate) fn func_get_param_count(_: &Call, function: Function, count: Out<usize>) -> Served {
    count.set(function.params()?.len());
    Ok(())
}

pub(crate) fn func_is_loaded(_: &Call, state: Out<c_uint>, _function: Function) -> Served {
    state.set(LOADED);
    Ok(())
}

pub(crate) fn func_load(_: &Call, function: Function) -> Served {
    function.here().map(|_| ())
}
