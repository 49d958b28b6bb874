//! The memory functions from before CUDA 3.2, whose device addresses and sizes have 32 bits.
//!
//! Allocations of device memory with valid arguments always fail with `OUT_OF_MEMORY`, because this library usually
//! allocates memory above 4 GiB. The other functions can access only memory below 4 GiB: registered host memory and,
//! with `MARGAY_ADDRESS_SIZE=32`, device memory. For every other address, they return `INVALID_VALUE`.

use std::ffi::{c_uchar, c_uint, c_ushort, c_void};

use margay::Stream;

use super::copy::{
    memcpy_2d, memcpy_2d_async, memcpy_3d, memcpy_3d_async, memcpy_dtod, memcpy_dtod_async,
    memcpy_dtoh, memcpy_dtoh_async, memcpy_htod, memcpy_htod_async,
};
use super::fill::{memset_2d_d8, memset_2d_d16, memset_2d_d32, memset_d8, memset_d16, memset_d32};
use crate::convert::{In, OptOut, Out};
use crate::guard::Call;
use crate::handles::current;
use crate::result::{CuResult, Served};
use crate::types::{CUDA_MEMCPY2D, CUDA_MEMCPY2D_v1, CUDA_MEMCPY3D, CUDA_MEMCPY3D_v1};

/// Converts an address to 32 bits, or returns `INVALID_VALUE` if it does not fit.
fn narrow(address: u64) -> Result<c_uint, CuResult> {
    c_uint::try_from(address).map_err(|_| CuResult::INVALID_VALUE)
}

pub(crate) fn mem_get_info_v1(_: &Call, free: OptOut<c_uint>, total: OptOut<c_uint>) -> Served {
    let (free_bytes, total_bytes) = current()?.mem_info()?;
    let most = |bytes: u64| c_uint::try_from(bytes).unwrap_or(c_uint::MAX);
    free.set(most(free_bytes));
    total.set(most(total_bytes));
    Ok(())
}

pub(crate) fn mem_alloc_v1(_: &Call, _out: Out<c_uint>, bytes: c_uint) -> Served {
    current()?.status()?;
    match bytes {
        0 => Err(CuResult::INVALID_VALUE),
        _ => Err(CuResult::OUT_OF_MEMORY),
    }
}

pub(crate) fn mem_alloc_pitch_v1(
    _: &Call,
    _out: Out<c_uint>,
    _pitch: Out<c_uint>,
    width: c_uint,
    height: c_uint,
    element: c_uint,
) -> Served {
    current()?.status()?;
    match width != 0 && height != 0 && matches!(element, 4 | 8 | 16) {
        true => Err(CuResult::OUT_OF_MEMORY),
        false => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn mem_free_v1(call: &Call, address: c_uint) -> Served {
    super::memory::mem_free(call, address.into())
}

pub(crate) fn mem_get_address_range_v1(
    _: &Call,
    base: OptOut<c_uint>,
    size: OptOut<c_uint>,
    address: c_uint,
) -> Served {
    let address = margay::DevicePtr::new(address.into());
    let (start, bytes) = current()?.address_range(address)?;
    base.set(narrow(start.address())?);
    size.set(narrow(bytes)?);
    Ok(())
}

pub(crate) fn mem_host_get_device_pointer_v1(
    _: &Call,
    out: Out<c_uint>,
    ptr: *mut c_void,
    flags: c_uint,
) -> Served {
    if flags != 0 || ptr.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let device = current()?.host_device_pointer(ptr.cast_const().cast())?;
    out.set(narrow(device.address())?);
    Ok(())
}

pub(crate) fn memcpy_htod_v1(call: &Call, dst: c_uint, src: *const c_void, n: c_uint) -> Served {
    memcpy_htod(call, dst.into(), src, n as usize)
}

pub(crate) fn memcpy_dtoh_v1(call: &Call, dst: *mut c_void, src: c_uint, n: c_uint) -> Served {
    memcpy_dtoh(call, dst, src.into(), n as usize)
}

pub(crate) fn memcpy_dtod_v1(call: &Call, dst: c_uint, src: c_uint, n: c_uint) -> Served {
    memcpy_dtod(call, dst.into(), src.into(), n as usize)
}

pub(crate) fn memcpy_htod_async_v1(
    call: &Call,
    dst: c_uint,
    src: *const c_void,
    n: c_uint,
    stream: Stream,
) -> Served {
    memcpy_htod_async(call, dst.into(), src, n as usize, stream)
}

pub(crate) fn memcpy_dtoh_async_v1(
    call: &Call,
    dst: *mut c_void,
    src: c_uint,
    n: c_uint,
    stream: Stream,
) -> Served {
    memcpy_dtoh_async(call, dst, src.into(), n as usize, stream)
}

pub(crate) fn memcpy_dtod_async_v1(
    call: &Call,
    dst: c_uint,
    src: c_uint,
    n: c_uint,
    stream: Stream,
) -> Served {
    memcpy_dtod_async(call, dst.into(), src.into(), n as usize, stream)
}

pub(crate) fn memset_d8_v1(call: &Call, dst: c_uint, value: c_uchar, n: c_uint) -> Served {
    memset_d8(call, dst.into(), value, n as usize)
}

pub(crate) fn memset_d16_v1(call: &Call, dst: c_uint, value: c_ushort, n: c_uint) -> Served {
    memset_d16(call, dst.into(), value, n as usize)
}

pub(crate) fn memset_d32_v1(call: &Call, dst: c_uint, value: c_uint, n: c_uint) -> Served {
    memset_d32(call, dst.into(), value, n as usize)
}

/// The row pitch in bytes, the number of elements in a row, and the number of rows.
type Rows = (c_uint, c_uint, c_uint);

fn wide((pitch, width, height): Rows) -> (usize, usize, usize) {
    (pitch as usize, width as usize, height as usize)
}

pub(crate) fn memset_d2d8_v1(
    call: &Call,
    dst: c_uint,
    pitch: c_uint,
    value: c_uchar,
    width: c_uint,
    height: c_uint,
) -> Served {
    let (pitch, width, height) = wide((pitch, width, height));
    memset_2d_d8(call, dst.into(), pitch, value, width, height)
}

pub(crate) fn memset_d2d16_v1(
    call: &Call,
    dst: c_uint,
    pitch: c_uint,
    value: c_ushort,
    width: c_uint,
    height: c_uint,
) -> Served {
    let (pitch, width, height) = wide((pitch, width, height));
    memset_2d_d16(call, dst.into(), pitch, value, width, height)
}

pub(crate) fn memset_d2d32_v1(
    call: &Call,
    dst: c_uint,
    pitch: c_uint,
    value: c_uint,
    width: c_uint,
    height: c_uint,
) -> Served {
    let (pitch, width, height) = wide((pitch, width, height));
    memset_2d_d32(call, dst.into(), pitch, value, width, height)
}

/// Converts the parameters of a 2D copy from the structure before CUDA 3.2 to the current
/// structure.
fn rectangle(copy: &CUDA_MEMCPY2D_v1) -> CUDA_MEMCPY2D {
    CUDA_MEMCPY2D {
        src_x_in_bytes: copy.src_x_in_bytes as usize,
        src_y: copy.src_y as usize,
        src_memory_type: copy.src_memory_type,
        src_host: copy.src_host,
        src_device: copy.src_device.into(),
        src_array: copy.src_array,
        src_pitch: copy.src_pitch as usize,
        dst_x_in_bytes: copy.dst_x_in_bytes as usize,
        dst_y: copy.dst_y as usize,
        dst_memory_type: copy.dst_memory_type,
        dst_host: copy.dst_host,
        dst_device: copy.dst_device.into(),
        dst_array: copy.dst_array,
        dst_pitch: copy.dst_pitch as usize,
        width_in_bytes: copy.width_in_bytes as usize,
        height: copy.height as usize,
    }
}

/// Converts the parameters of a 3D copy from the structure before CUDA 3.2 to the current
/// structure.
fn cuboid(copy: &CUDA_MEMCPY3D_v1) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        src_x_in_bytes: copy.src_x_in_bytes as usize,
        src_y: copy.src_y as usize,
        src_z: copy.src_z as usize,
        src_lod: copy.src_lod as usize,
        src_memory_type: copy.src_memory_type,
        src_host: copy.src_host,
        src_device: copy.src_device.into(),
        src_array: copy.src_array,
        reserved0: copy.reserved0,
        src_pitch: copy.src_pitch as usize,
        src_height: copy.src_height as usize,
        dst_x_in_bytes: copy.dst_x_in_bytes as usize,
        dst_y: copy.dst_y as usize,
        dst_z: copy.dst_z as usize,
        dst_lod: copy.dst_lod as usize,
        dst_memory_type: copy.dst_memory_type,
        dst_host: copy.dst_host,
        dst_device: copy.dst_device.into(),
        dst_array: copy.dst_array,
        reserved1: copy.reserved1,
        dst_pitch: copy.dst_pitch as usize,
        dst_height: copy.dst_height as usize,
        width_in_bytes: copy.width_in_bytes as usize,
        height: copy.height as usize,
        depth: copy.depth as usize,
    }
}

pub(crate) fn memcpy_2d_v1(call: &Call, copy: In<CUDA_MEMCPY2D_v1>) -> Served {
    memcpy_2d(call, In(rectangle(&copy.0)))
}

pub(crate) fn memcpy_2d_async_v1(
    call: &Call,
    copy: In<CUDA_MEMCPY2D_v1>,
    stream: Stream,
) -> Served {
    memcpy_2d_async(call, In(rectangle(&copy.0)), stream)
}

pub(crate) fn memcpy_3d_v1(call: &Call, copy: In<CUDA_MEMCPY3D_v1>) -> Served {
    memcpy_3d(call, In(cuboid(&copy.0)))
}

pub(crate) fn memcpy_3d_async_v1(
    call: &Call,
    copy: In<CUDA_MEMCPY3D_v1>,
    stream: Stream,
) -> Served {
    memcpy_3d_async(call, In(cuboid(&copy.0)), stream)
}
