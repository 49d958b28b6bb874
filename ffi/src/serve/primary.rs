//! Primary contexts.

use std::ffi::{c_int, c_uint};

use margay::{Context, Device, Runtime};

use super::context::check_flags;
use crate::context_storage;
use crate::convert::Out;
use crate::guard::Call;
use crate::handles::{forget_objects_of, handle_of};
use crate::leaks;
use crate::result::Served;
use crate::types::CUcontext;

pub(crate) fn device_primary_ctx_retain(
    _: &Call,
    context: Out<CUcontext>,
    device: Device,
) -> Served {
    context.set(handle_of(&device.primary_retain()?)?);
    Ok(())
}

pub(crate) fn device_primary_ctx_release(_: &Call, device: Device) -> Served {
    release(&device)
}

/// Decrements the use count of the device's primary context. When the count becomes 0, removes
/// everything that the context owns.
pub(super) fn release(device: &Device) -> Served {
    let context = device.primary_context()?;
    if device.is_last_use()? {
        leaks::of_context(&context);
    }
    device.primary_release()?;
    if !context.is_alive() {
        emptied(&context)?;
    }
    Ok(())
}

pub(crate) fn device_primary_ctx_reset(_: &Call, device: Device) -> Served {
    leaks::of_context(&device.primary_context()?);
    device.primary_reset()?;
    emptied(&device.primary_context()?)
}

/// Removes everything that this library stores for a context that has ended: the handles of its
/// objects, its context-local storage, its opened memory handles, and the entries for its
/// allocations in pools.
fn emptied(context: &Context) -> Served {
    super::pool::forget_ended(Runtime::global()?);
    super::ipc::forget_imports_of(context);
    forget_objects_of(context);
    context_storage::destroy_all(handle_of(context)?);
    Ok(())
}

pub(crate) fn device_primary_ctx_set_flags(_: &Call, device: Device, flags: c_uint) -> Served {
    check_flags(flags)?;
    device.primary_set_flags(flags)?;
    Ok(())
}

pub(crate) fn device_primary_ctx_get_state(
    _: &Call,
    device: Device,
    flags: Out<c_uint>,
    active: Out<c_int>,
) -> Served {
    let state = device.primary_state()?;
    flags.set(state.flags);
    active.set(c_int::from(state.active));
    Ok(())
}
