//! Implements the entry points that create and destroy contexts, and those for a thread's context
//! stack, limits and preferences.

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::atomic::Ordering;

use margay::{Context, Device, Limit};

use crate::context_storage;
use crate::convert::{OptOut, Out, read_array};
use crate::guard::Call;
use crate::handles::{
    ContextOrCurrent, contexts, current, current_handle, forget, forget_objects_of, handle_of,
    pop_current, push_current, set_current,
};
use crate::leaks;
use crate::result::{CuResult, Served};
use crate::types::{CUcontext, CUctxCreateParams, CUexecAffinityParam};

/// All defined `CU_CTX_*` flags.
const ALL_FLAGS: c_uint = 0xff;
/// The flags that select how a thread waits. At most one of them may be set.
const SCHEDULING_FLAGS: c_uint = 0x7;
/// The API version that contexts report, which is the version of CUDA 3.2 and later.
const API_VERSION: c_uint = 3020;
/// The largest value of `CUfunc_cache`. The constant below is the largest value of
/// `CUsharedconfig`.
const LAST_CACHE_CONFIG: c_uint = 3;
const LAST_SHARED_CONFIG: c_uint = 2;

/// Returns an error if `flags` are not valid flags of a context (`CU_CTX_*`).
pub(crate) fn check_flags(flags: c_uint) -> Served {
    let scheduling = flags & SCHEDULING_FLAGS;
    match flags & !ALL_FLAGS == 0 && scheduling.count_ones() <= 1 {
        true => Ok(()),
        false => Err(CuResult::INVALID_VALUE),
    }
}

fn create(out: &Out<CUcontext>, flags: c_uint, device: &Device) -> Served {
    check_flags(flags)?;
    let context = device.create_context(flags)?;
    let handle = handle_of(&context)?;
    push_current(handle, context)?;
    out.set(handle);
    Ok(())
}

pub(crate) fn ctx_create_v2(
    _: &Call,
    context: Out<CUcontext>,
    flags: c_uint,
    device: Device,
) -> Served {
    create(&context, flags, &device)
}

pub(crate) fn ctx_create_v3(
    _: &Call,
    context: Out<CUcontext>,
    affinities: *mut CUexecAffinityParam,
    count: c_int,
    flags: c_uint,
    device: Device,
) -> Served {
    let count = usize::try_from(count).map_err(|_| CuResult::INVALID_VALUE)?;
    // SAFETY: the caller guarantees `count` elements.
    let affinities = unsafe { read_array(affinities.cast_const(), count) }?;
    if !affinities.is_empty() {
        return Err(CuResult::UNSUPPORTED_EXEC_AFFINITY);
    }
    create(&context, flags, &device)
}

pub(crate) fn ctx_create_v4(
    _: &Call,
    context: Out<CUcontext>,
    params: *mut CUctxCreateParams,
    flags: c_uint,
    device: Device,
) -> Served {
    if !params.is_null() {
        // SAFETY: the caller guarantees a valid structure.
        let params = unsafe { params.read_unaligned() };
        if params.num_exec_affinity_params != 0 {
            return Err(CuResult::UNSUPPORTED_EXEC_AFFINITY);
        }
        if !params.cig_params.is_null() {
            return Err(CuResult::NOT_SUPPORTED);
        }
    }
    create(&context, flags, &device)
}

pub(crate) fn ctx_destroy(_: &Call, handle: CUcontext) -> Served {
    destroy(handle)
}

fn destroy(handle: CUcontext) -> Served {
    let context = context_of(handle)?;
    if context.is_primary() {
        return Err(CuResult::INVALID_CONTEXT);
    }
    if current_handle()? == handle {
        pop_current()?;
    }
    leaks::of_context(&context);
    context_storage::destroy_all(handle);
    // This waits for the submitted work, which may use the objects and the imported memory.
    context.destroy()?;
    super::ipc::forget_imports_of(&context);
    forget_objects_of(&context);
    forget(handle);
    Ok(())
}

fn context_of(handle: CUcontext) -> Result<Context, CuResult> {
    contexts()
        .get(handle.0)
        .map(|object| object.context)
        .ok_or(CuResult::INVALID_CONTEXT)
}

pub(crate) fn ctx_attach(_: &Call, out: Out<CUcontext>, flags: c_uint) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let handle = current_handle()?;
    let object = contexts().get(handle.0).ok_or(CuResult::INVALID_CONTEXT)?;
    object.attachments.fetch_add(1, Ordering::Relaxed);
    out.set(handle);
    Ok(())
}

pub(crate) fn ctx_detach(_: &Call, handle: CUcontext) -> Served {
    let object = contexts().get(handle.0).ok_or(CuResult::INVALID_CONTEXT)?;
    let less = |uses: u32| uses.checked_sub(1);
    let order = Ordering::Relaxed;
    match object.attachments.fetch_update(order, order, less) {
        Ok(_) => Ok(()),
        Err(_) => destroy(handle),
    }
}

pub(crate) fn ctx_push_current(_: &Call, handle: CUcontext) -> Served {
    push_current(handle, context_of(handle)?)
}

pub(crate) fn ctx_pop_current(_: &Call, out: OptOut<CUcontext>) -> Served {
    out.set(pop_current()?.ok_or(CuResult::INVALID_CONTEXT)?);
    Ok(())
}

pub(crate) fn ctx_set_current(_: &Call, handle: CUcontext) -> Served {
    match handle.0 {
        0 => set_current(None),
        _ => set_current(Some((handle, context_of(handle)?))),
    }
}

pub(crate) fn ctx_get_current(_: &Call, out: Out<CUcontext>) -> Served {
    out.set(current_handle()?);
    Ok(())
}

pub(crate) fn ctx_get_device_v1(_: &Call, device: Out<c_int>) -> Served {
    device.set(current()?.device().ordinal());
    Ok(())
}

pub(crate) fn ctx_get_device_v2(_: &Call, device: Out<c_int>, context: ContextOrCurrent) -> Served {
    device.set(context.0.device().ordinal());
    Ok(())
}

pub(crate) fn ctx_get_flags(_: &Call, flags: Out<c_uint>) -> Served {
    flags.set(current()?.flags());
    Ok(())
}

pub(crate) fn ctx_set_flags(_: &Call, flags: c_uint) -> Served {
    check_flags(flags)?;
    current()?.set_flags(flags)?;
    Ok(())
}

pub(crate) fn ctx_get_id(_: &Call, context: ContextOrCurrent, id: Out<c_ulonglong>) -> Served {
    id.set(context.0.id());
    Ok(())
}

pub(crate) fn ctx_synchronize_v1(_: &Call) -> Served {
    Ok(current()?.synchronize()?)
}

pub(crate) fn ctx_synchronize_v2(_: &Call, context: ContextOrCurrent) -> Served {
    Ok(context.0.synchronize()?)
}

fn limit(number: c_uint) -> Result<Limit, CuResult> {
    let number = i32::try_from(number).map_err(|_| CuResult::INVALID_VALUE)?;
    Ok(Limit::from_number(number)?)
}

pub(crate) fn ctx_set_limit(_: &Call, number: c_uint, value: usize) -> Served {
    current()?.set_limit(limit(number)?, value as u64)?;
    Ok(())
}

pub(crate) fn ctx_get_limit(_: &Call, value: Out<usize>, number: c_uint) -> Served {
    value.set(current()?.limit(limit(number)?)? as usize);
    Ok(())
}

pub(crate) fn ctx_get_cache_config(_: &Call, config: Out<c_uint>) -> Served {
    config.set(current()?.cache_config() as c_uint);
    Ok(())
}

pub(crate) fn ctx_set_cache_config(_: &Call, config: c_uint) -> Served {
    let context = current()?;
    let config = preference(config, LAST_CACHE_CONFIG)?;
    Ok(context.set_cache_config(config)?)
}

/// Converts a preference (`CUfunc_cache` or `CUsharedconfig`), and returns `INVALID_VALUE` for
/// numbers greater than `last`.
pub(crate) fn preference(number: c_uint, last: c_uint) -> Result<c_int, CuResult> {
    match number <= last {
        true => Ok(number as c_int),
        false => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn ctx_get_shared_mem_config(_: &Call, config: Out<c_uint>) -> Served {
    config.set(current()?.shared_config() as c_uint);
    Ok(())
}

pub(crate) fn ctx_set_shared_mem_config(_: &Call, config: c_uint) -> Served {
    let context = current()?;
    let config = preference(config, LAST_SHARED_CONFIG)?;
    Ok(context.set_shared_config(config)?)
}

pub(crate) fn ctx_get_api_version(
    _: &Call,
    _context: ContextOrCurrent,
    version: Out<c_uint>,
) -> Served {
    version.set(API_VERSION);
    Ok(())
}

pub(crate) fn ctx_get_stream_priority_range(
    _: &Call,
    least: OptOut<c_int>,
    greatest: OptOut<c_int>,
) -> Served {
    let (low, high) = current()?.stream_priority_range();
    least.set(low);
    greatest.set(high);
    Ok(())
}

/// Does nothing, because there is no L2 cache with a persisting part.
pub(crate) fn ctx_reset_persisting_l2_cache(_: &Call) -> Served {
    current().map(|_| ())
}

pub(crate) fn ctx_enable_peer_access(_: &Call, peer: Context, flags: c_uint) -> Served {
    let context = current()?;
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    match peer == context {
        true => Err(CuResult::INVALID_CONTEXT),
        false => Ok(context.enable_peer(&peer)?),
    }
}

pub(crate) fn ctx_disable_peer_access(_: &Call, peer: Context) -> Served {
    Ok(current()?.disable_peer(&peer)?)
}

/// Always fails, because contexts have no execution affinity. Programs can learn this from
/// `cuDeviceGetExecAffinitySupport`.
pub(crate) fn ctx_get_exec_affinity(
    _: &Call,
    _out: Out<CUexecAffinityParam>,
    kind: c_uint,
) -> Served {
    current()?.status()?;
    match kind {
        0 => Err(CuResult::UNSUPPORTED_EXEC_AFFINITY),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_flags() {
        for good in [0, 1, 2, 4, 8, 0x10, 0x18 | 4, 0x80] {
            assert_eq!(check_flags(good), Ok(()), "{good:#x}");
        }
        for bad in [3, 6, 7, 0x100, 0x8000_0000] {
            assert_eq!(check_flags(bad), Err(CuResult::INVALID_VALUE), "{bad:#x}");
        }
    }
}
