//! Handles of cublasXt. Its operations are those of cuBLAS on matrices that may be in the host's memory.

use crate::driver::driver;
use crate::handle::{self, Handle, Owner};
use crate::host;
use crate::library::{complain, create_for};
use crate::status::{Outcome, Status, need};
use std::sync::Arc;

fn get(handle: usize) -> Result<Arc<Handle>, Status> {
    handle::get(handle, &[Owner::Xt])
}

/// `cublasXtCreate`.
///
/// # Safety
/// None: places may be any address. The same holds for the other functions of this module.
pub(crate) unsafe fn create(place: *mut usize) -> Outcome {
    create_for(place, Owner::Xt)
}

/// `cublasXtDestroy`.
pub(crate) unsafe fn destroy(handle: usize) -> Outcome {
    handle::remove(handle, Owner::Xt)?;
    Ok(())
}

/// `cublasXtGetNumBoards`: each device is a board.
pub(crate) unsafe fn boards(count: i32, devices: *const i32, place: *mut i32) -> Outcome {
    devices_of(count, devices)?;
    need(host::write(place, count).is_some(), 3)
}

/// `cublasXtMaxBoards`.
pub(crate) unsafe fn max_boards(place: *mut i32) -> Outcome {
    need(host::write(place, device_count()?).is_some(), 1)
}

/// `cublasXtDeviceSelect`. All devices share the machine's cores, so the selection has no effect on the work.
pub(crate) unsafe fn select(handle: usize, count: i32, devices: *const i32) -> Outcome {
    get(handle)?;
    devices_of(count, devices)
}

fn device_count() -> Result<i32, Status> {
    let driver = driver()?;
    driver.enter(0)?;
    let mut count = 0;
    // SAFETY: the variable is valid.
    crate::driver::status_of(unsafe { (driver.device_count)(&raw mut count) })?;
    Ok(count)
}

/// Checks a list of devices.
fn devices_of(count: i32, devices: *const i32) -> Outcome {
    let most = device_count()?;
    need(count > 0, 1)?;
    let devices = host::read_all(devices, count as usize);
    need(
        devices.is_some_and(|all| all.iter().all(|device| (0..most).contains(device))),
        2,
    )
}

/// `cublasXtSetBlockDim`. The work is not cut into blocks of this size.
pub(crate) unsafe fn set_block(handle: usize, size: i32) -> Outcome {
    let handle = get(handle)?;
    need(size > 0, 1)?;
    handle.settings.lock().block = size;
    Ok(())
}

/// `cublasXtGetBlockDim`.
pub(crate) unsafe fn block(handle: usize, place: *mut i32) -> Outcome {
    let size = get(handle)?.settings.lock().block;
    need(host::write(place, size).is_some(), 1)
}

/// `cublasXtSetPinningMemMode`. No memory needs to be pinned.
pub(crate) unsafe fn set_pinning(handle: usize, mode: i32) -> Outcome {
    let handle = get(handle)?;
    need(matches!(mode, 0 | 1), 1)?;
    handle.settings.lock().pinning = mode;
    Ok(())
}

/// `cublasXtGetPinningMemMode`.
pub(crate) unsafe fn pinning(handle: usize, place: *mut i32) -> Outcome {
    let mode = get(handle)?.settings.lock().pinning;
    need(host::write(place, mode).is_some(), 1)
}

/// `cublasXtSetCpuRoutine`. The library computes everything itself, so the routine is never called.
pub(crate) unsafe fn set_routine(
    handle: usize,
    operation: i32,
    kind: i32,
    _routine: usize,
) -> Outcome {
    get(handle)?;
    operation_of(operation, kind)
}

/// `cublasXtSetCpuRatio`. A part of the work for the program's routine is not supported.
pub(crate) unsafe fn set_ratio(handle: usize, operation: i32, kind: i32, ratio: f32) -> Outcome {
    get(handle)?;
    operation_of(operation, kind)?;
    need((0.0..=1.0).contains(&ratio), 3)?;
    if ratio > 0.0 {
        complain("margay: cublasXtSetCpuRatio: the program's routine is not called");
    }
    Ok(())
}

/// Checks a `cublasXtBlasOp_t` and a `cublasXtOpType_t`.
fn operation_of(operation: i32, kind: i32) -> Outcome {
    need((0..=11).contains(&operation), 1)?;
    need((0..=3).contains(&kind), 2)
}
