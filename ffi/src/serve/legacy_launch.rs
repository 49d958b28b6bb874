//! The launch functions from before CUDA 4: separate calls set the dimensions and each parameter of a function.

use std::collections::HashMap;
use std::ffi::{c_float, c_int, c_uint, c_void};

use margay::Stream;
use parking_lot::Mutex;

use super::launch::launch_with_bytes;
use crate::guard::Call;
use crate::handles::{functions, stream};
use crate::result::{CuResult, Served};
use crate::types::{CUfunction, CUstream};

/// The maximum size in bytes of all parameters of a kernel together.
const MAX_PARAM_BYTES: usize = 32764;

/// The launch settings that the program has stored for a function.
#[derive(Clone, Default)]
struct Settings {
    block: [u32; 3],
    shared: u32,
    params: Vec<u8>,
}

fn with_settings<R>(
    call: &Call,
    function: CUfunction,
    work: impl FnOnce(&mut Settings) -> R,
) -> Result<R, CuResult> {
    static SETTINGS: Mutex<Option<HashMap<usize, Settings>>> = Mutex::new(None);
    functions()
        .get(function.0)
        .ok_or_else(|| call.bad_handle())?;
    let mut all = SETTINGS.lock();
    let settings = all.get_or_insert_default().entry(function.0).or_default();
    Ok(work(settings))
}

fn number(value: c_int) -> Result<u32, CuResult> {
    u32::try_from(value).map_err(|_| CuResult::INVALID_VALUE)
}

pub(crate) fn func_set_block_shape(
    call: &Call,
    function: CUfunction,
    x: c_int,
    y: c_int,
    z: c_int,
) -> Served {
    let block = [number(x)?, number(y)?, number(z)?];
    if block.contains(&0) {
        return Err(CuResult::INVALID_VALUE);
    }
    with_settings(call, function, |settings| settings.block = block)
}

pub(crate) fn func_set_shared_size(call: &Call, function: CUfunction, bytes: c_uint) -> Served {
    with_settings(call, function, |settings| settings.shared = bytes)
}

pub(crate) fn param_set_size(call: &Call, function: CUfunction, bytes: c_uint) -> Served {
    let bytes = bytes as usize;
    if bytes > MAX_PARAM_BYTES {
        return Err(CuResult::INVALID_VALUE);
    }
    with_settings(call, function, |settings| settings.params.resize(bytes, 0))
}

fn put(call: &Call, function: CUfunction, offset: c_int, bytes: &[u8]) -> Served {
    let start = number(offset)? as usize;
    let end = start + bytes.len();
    if end > MAX_PARAM_BYTES {
        return Err(CuResult::INVALID_VALUE);
    }
    with_settings(call, function, |settings| {
        let len = settings.params.len().max(end);
        settings.params.resize(len, 0);
        settings.params[start..end].copy_from_slice(bytes);
    })
}

pub(crate) fn param_set_i32(
    call: &Call,
    function: CUfunction,
    offset: c_int,
    value: c_uint,
) -> Served {
    put(call, function, offset, &value.to_ne_bytes())
}

pub(crate) fn param_set_f32(
    call: &Call,
    function: CUfunction,
    offset: c_int,
    value: c_float,
) -> Served {
    put(call, function, offset, &value.to_ne_bytes())
}

pub(crate) fn param_set_bytes(
    call: &Call,
    function: CUfunction,
    offset: c_int,
    data: *mut c_void,
    bytes: c_uint,
) -> Served {
    if data.is_null() || bytes as usize > MAX_PARAM_BYTES {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `bytes` bytes.
    let slice = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes as usize) };
    put(call, function, offset, slice)
}

fn start(
    call: &Call,
    function: CUfunction,
    stream: &Stream,
    width: c_int,
    height: c_int,
) -> Served {
    let grid = [number(width)?, number(height)?, 1];
    let settings = with_settings(call, function, |settings| settings.clone())?;
    let function = functions()
        .get(function.0)
        .ok_or(CuResult::INVALID_HANDLE)?;
    let Settings {
        block,
        shared,
        params,
    } = settings;
    launch_with_bytes(&function, stream, grid, block, shared, &params)
}

pub(crate) fn launch(call: &Call, function: CUfunction) -> Served {
    launch_grid(call, function, 1, 1)
}

pub(crate) fn launch_grid(
    call: &Call,
    function: CUfunction,
    width: c_int,
    height: c_int,
) -> Served {
    let stream = stream(CUstream(0), call)?;
    start(call, function, &stream, width, height)
}

pub(crate) fn launch_grid_async(
    call: &Call,
    function: CUfunction,
    width: c_int,
    height: c_int,
    stream: Stream,
) -> Served {
    start(call, function, &stream, width, height)
}
