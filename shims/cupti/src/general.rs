//! The version, texts of results, support of devices, numbers of threads, and the end of the library.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU32, Ordering};

use margay_activity::Kind;
use margay_activity::interface::{Outcome, domain};
use margay_activity::layout::size;

use crate::client::attached;
use crate::driver::driver;
use crate::toolkit::{toolkit, version};
use crate::{buffers, enabled, guarded, period, results, store, subscriber};

/// Stores the version of CUPTI's interface.
///
/// # Safety
/// `place` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetVersion(place: *mut u32) -> Outcome {
    // SAFETY: the caller guarantees the variable.
    guarded(|| unsafe { store(place, version()) })
}

/// Stores the name of a result.
///
/// # Safety
/// `text` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetResultString(result: u32, text: *mut *const c_char) -> Outcome {
    guarded(|| {
        let name = results::name(result).ok_or(Outcome::INVALID_PARAMETER)?;
        // SAFETY: the caller guarantees the variable.
        unsafe { store(text, name.as_ptr()) }
    })
}

/// Stores the name of a result, which is also its text.
///
/// # Safety
/// `text` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetErrorMessage(result: u32, text: *mut *const c_char) -> Outcome {
    // SAFETY: the caller guarantees the variable.
    unsafe { cuptiGetResultString(result, text) }
}

/// Returns success: errors are returned by the functions that fail.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiGetLastError() -> Outcome {
    Outcome::SUCCESS
}

/// Stops the recording, passes all buffers to the client, and forgets the client.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiFinalize() -> Outcome {
    guarded(|| {
        let driver = driver()?;
        period::set(0)?;
        (driver.detach)();
        buffers::finish();
        subscriber::forget();
        enabled::forget();
        THREADS.store(0, Ordering::Relaxed);
        Ok(())
    })
}

/// The numbers of threads in records: 0 for those of `pthread_self`, 1 for those of the system.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// Selects the numbers of threads in records.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiSetThreadIdType(kind: u32) -> Outcome {
    guarded(|| {
        if kind > 1 {
            return Err(Outcome::NOT_SUPPORTED);
        }
        (attached()?.set_system_threads)(kind);
        THREADS.store(kind, Ordering::Relaxed);
        Ok(())
    })
}

/// Stores which numbers of threads records contain.
///
/// # Safety
/// `kind` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetThreadIdType(kind: *mut u32) -> Outcome {
    // SAFETY: the caller guarantees the variable.
    guarded(|| unsafe { store(kind, THREADS.load(Ordering::Relaxed)) })
}

/// The type of the driver library's function `cuDeviceGetAttribute`.
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;

/// Stores 1: devices of all compute capabilities are supported.
///
/// # Safety
/// `support` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiComputeCapabilitySupported(
    _major: c_int,
    _minor: c_int,
    support: *mut c_int,
) -> Outcome {
    // SAFETY: the caller guarantees the variable.
    guarded(|| unsafe { store(support, 1) })
}

/// Stores 1 if there is a device with a number.
///
/// # Safety
/// `support` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiDeviceSupported(device: c_int, support: *mut c_int) -> Outcome {
    guarded(|| {
        const WARP_SIZE: c_int = 10;
        let address = crate::driver::symbol(c"cuDeviceGetAttribute");
        let address = address.ok_or(Outcome::NOT_INITIALIZED)?;
        // SAFETY: the driver library's function has this type.
        let get = unsafe { std::mem::transmute::<*mut std::ffi::c_void, GetAttribute>(address) };
        let mut value = 0;
        // SAFETY: the variable is valid during the call.
        match unsafe { get(&raw mut value, WARP_SIZE, device) } {
            // SAFETY: the caller guarantees the variable.
            0 => unsafe { store(support, 1) },
            _ => Err(Outcome::INVALID_DEVICE),
        }
    })
}

/// Stores 0: devices are not virtualised.
///
/// # Safety
/// `mode` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiDeviceVirtualizationMode(_device: c_int, mode: *mut u32) -> Outcome {
    // SAFETY: the caller guarantees the variable.
    guarded(|| unsafe { store(mode, 0) })
}

/// Records of all waits are written, whether they block or not.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableAllSyncRecords(_enable: u8) -> Outcome {
    Outcome::SUCCESS
}

/// Stores whether the client has enabled a kind of record.
///
/// # Safety
/// `running` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiIsTracingSessionRunning(running: *mut u8) -> Outcome {
    let some = Kind::ALL.into_iter().any(enabled::is_enabled);
    // SAFETY: the caller guarantees the variable.
    guarded(|| unsafe { store(running, some.into()) })
}

/// Stores the size of the structure of a kind. Only the structures of the library's own version are known.
///
/// # Safety
/// `bytes` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetStructSize(
    kind: u32,
    wanted: u32,
    bytes: *mut usize,
) -> Outcome {
    guarded(|| {
        let kind = Kind::of_number(kind).ok_or(Outcome::INVALID_KIND)?;
        if wanted != 0 && wanted != version() {
            return Err(Outcome::NOT_SUPPORTED);
        }
        // SAFETY: the caller guarantees the variable.
        unsafe { store(bytes, size(kind, toolkit())) }
    })
}

/// Stores the enabled kinds and their number. `capacity` is the number of kinds that fit into the buffer.
///
/// # Safety
/// The pointers are null or point to variables; the buffer has the stated size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetEnabledKinds(
    _subscriber: usize,
    buffer: *mut u32,
    capacity: *mut u32,
    count: *mut u32,
) -> Outcome {
    let all = Kind::ALL
        .into_iter()
        .filter(|&kind| enabled::is_enabled(kind));
    // SAFETY: the caller guarantees the variables.
    unsafe { list(all.map(|kind| kind as u32), buffer, capacity, count) }
}

/// Stores the enabled callbacks of a domain and their number. `capacity` is the number of callbacks that fit into the
/// buffer.
///
/// # Safety
/// The pointers are null or point to variables; the buffer has the stated size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetEnabledCallbacks(
    _subscriber: usize,
    domain_of: u32,
    buffer: *mut u32,
    capacity: *mut u32,
    count: *mut u32,
) -> Outcome {
    let end = match domain_of {
        domain::DRIVER_API => margay_activity::callbacks::END,
        domain::RESOURCE | domain::SYNCHRONIZE | domain::STATE => 8,
        _ => 0,
    };
    let driver = match driver() {
        Ok(driver) => driver,
        Err(outcome) => return outcome,
    };
    let enabled = |number: &u32| {
        let mut on = 0;
        let found = (driver.get_callback)(domain_of, *number, &raw mut on);
        found == Outcome::SUCCESS && on != 0
    };
    // SAFETY: the caller guarantees the variables.
    unsafe { list((1..end).filter(enabled), buffer, capacity, count) }
}

/// Stores numbers and how many there are.
///
/// # Safety
/// The pointers are null or point to variables; the buffer has the stated size.
unsafe fn list(
    all: impl Iterator<Item = u32>,
    buffer: *mut u32,
    capacity: *const u32,
    count: *mut u32,
) -> Outcome {
    guarded(|| {
        if count.is_null() || (!buffer.is_null() && capacity.is_null()) {
            return Err(Outcome::INVALID_PARAMETER);
        }
        let room = match buffer.is_null() {
            true => 0,
            // SAFETY: the caller guarantees the variable.
            false => unsafe { capacity.read() as usize },
        };
        let mut found = 0;
        for (index, number) in all.enumerate() {
            if index < room {
                // SAFETY: the buffer has room for this number.
                let place = unsafe { buffer.add(index) };
                // SAFETY: as above.
                unsafe { place.write(number) };
            }
            found += 1;
        }
        // SAFETY: the caller guarantees the variable.
        unsafe { store(count, found) }
    })
}
