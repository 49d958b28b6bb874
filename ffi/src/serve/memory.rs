//! Implements the entry points for device memory, pinned memory, registered memory and managed
//! memory.

use std::ffi::{c_uint, c_void};

use margay::{DevicePtr, HostFlags, PointerKind, Runtime};

use super::pool::{free_counted, pool_of};
use crate::checking;
use crate::convert::{OptOut, Out};
use crate::guard::Call;
use crate::handles::{current, current_alive};
use crate::result::{CuResult, Served};

const PORTABLE: c_uint = 1;
const DEVICE_MAP: c_uint = 2;
/// `CU_MEMHOSTALLOC_WRITECOMBINED`.
const WRITE_COMBINED: c_uint = 4;
/// `CU_MEMHOSTREGISTER_IOMEMORY` and `CU_MEMHOSTREGISTER_READ_ONLY`.
const IO_MEMORY: c_uint = 4;
const READ_ONLY: c_uint = 8;
/// `CU_MEM_ATTACH_GLOBAL` and `CU_MEM_ATTACH_HOST`.
const ATTACH_FLAGS: [c_uint; 2] = [1, 2];

pub(crate) fn mem_get_info(_: &Call, free: OptOut<usize>, total: OptOut<usize>) -> Served {
    let (free_bytes, total_bytes) = current()?.mem_info()?;
    free.set(free_bytes as usize);
    total.set(total_bytes as usize);
    Ok(())
}

/// Writes the address of new memory to the caller's output `out`, and stores the address for the
/// list of calls in the log.
fn set_allocated(out: &Out<u64>, ptr: DevicePtr) {
    checking::allocated(ptr.address());
    out.set(ptr.address());
}

pub(crate) fn mem_alloc(_: &Call, out: Out<u64>, bytes: usize) -> Served {
    set_allocated(&out, current()?.alloc(bytes as u64)?);
    Ok(())
}

pub(crate) fn mem_alloc_pitch(
    _: &Call,
    out: Out<u64>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: c_uint,
) -> Served {
    let context = current()?;
    let (ptr, row) = context.alloc_pitched(width as u64, height as u64, element)?;
    set_allocated(&out, ptr);
    pitch.set(row as usize);
    Ok(())
}

pub(crate) fn mem_free(_: &Call, address: u64) -> Served {
    if address == 0 {
        checking::null_free();
    }
    free(address).inspect_err(|_| checking::bad_free(address))
}

fn free(address: u64) -> Served {
    let context = current_alive()?;
    let Some(info) = Runtime::global()?.pointer_info(address) else {
        return free_counted(address, || context.free(DevicePtr::new(address)));
    };
    // `pool_of` must run before `free_counted`, which removes the entry that connects the allocation with its pool.
    let from_pool = pool_of(address).is_some();
    free_counted(address, || match info.kind {
        // Pinned host memory from a pool is freed here too.
        PointerKind::Pinned if from_pool => info.context.free_host(address as *mut u8),
        _ => info.context.free(DevicePtr::new(address)),
    })
}

pub(crate) fn mem_get_address_range(
    _: &Call,
    base: OptOut<u64>,
    size: OptOut<usize>,
    address: u64,
) -> Served {
    let (start, bytes) = current()?.address_range(DevicePtr::new(address))?;
    base.set(start.address());
    size.set(bytes as usize);
    Ok(())
}

fn alloc_host(out: &Out<*mut c_void>, bytes: usize, flags: HostFlags) -> Served {
    let ptr = current()?.alloc_host(bytes as u64, flags)?;
    checking::allocated(ptr as u64);
    out.set(ptr.cast());
    Ok(())
}

pub(crate) fn mem_alloc_host_v2(_: &Call, out: Out<*mut c_void>, bytes: usize) -> Served {
    alloc_host(&out, bytes, HostFlags::default())
}

pub(crate) fn mem_alloc_host_v1(_: &Call, out: Out<*mut c_void>, bytes: c_uint) -> Served {
    alloc_host(&out, bytes as usize, HostFlags::default())
}

pub(crate) fn mem_host_alloc(
    _: &Call,
    out: Out<*mut c_void>,
    bytes: usize,
    flags: c_uint,
) -> Served {
    if flags & !(PORTABLE | DEVICE_MAP | WRITE_COMBINED) != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let flags = HostFlags {
        portable: flags & PORTABLE != 0,
        device_map: flags & DEVICE_MAP != 0,
        write_combined: flags & WRITE_COMBINED != 0,
        read_only: false,
    };
    alloc_host(&out, bytes, flags)
}

pub(crate) fn mem_free_host(_: &Call, ptr: *mut c_void) -> Served {
    let context = current_alive()?;
    let freed = context.free_host(ptr.cast());
    Ok(freed.inspect_err(|_| checking::bad_free(ptr as u64))?)
}

pub(crate) fn mem_host_get_device_pointer(
    _: &Call,
    out: Out<u64>,
    ptr: *mut c_void,
    flags: c_uint,
) -> Served {
    if flags != 0 || ptr.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let device = current()?.host_device_pointer(ptr.cast_const().cast())?;
    out.set(device.address());
    Ok(())
}

pub(crate) fn mem_host_get_flags(_: &Call, out: Out<c_uint>, ptr: *mut c_void) -> Served {
    let flags = current()?.host_flags(ptr.cast_const().cast())?;
    let bit = |set: bool, bit: c_uint| if set { bit } else { 0 };
    // All host memory is mapped for the device, even without the flag.
    out.set(DEVICE_MAP | bit(flags.portable, PORTABLE) | bit(flags.write_combined, WRITE_COMBINED));
    Ok(())
}

pub(crate) fn mem_host_register(_: &Call, ptr: *mut c_void, bytes: usize, flags: c_uint) -> Served {
    if ptr.is_null() || flags & !(PORTABLE | DEVICE_MAP | IO_MEMORY | READ_ONLY) != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    if flags & IO_MEMORY != 0 {
        return Err(CuResult::NOT_PERMITTED);
    }
    let flags = HostFlags {
        portable: flags & PORTABLE != 0,
        device_map: flags & DEVICE_MAP != 0,
        write_combined: false,
        read_only: flags & READ_ONLY != 0,
    };
    Ok(current()?.register_host(ptr.cast(), bytes as u64, flags)?)
}

pub(crate) fn mem_host_unregister(_: &Call, ptr: *mut c_void) -> Served {
    if ptr.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let ended = current_alive()?.unregister_host(ptr.cast());
    Ok(ended.inspect_err(|_| checking::bad_unregister(ptr as u64))?)
}

pub(crate) fn mem_alloc_managed(_: &Call, out: Out<u64>, bytes: usize, flags: c_uint) -> Served {
    if !ATTACH_FLAGS.contains(&flags) {
        return Err(CuResult::INVALID_VALUE);
    }
    set_allocated(&out, current()?.alloc_managed(bytes as u64, flags)?);
    Ok(())
}
