//! The functions of `cupti_activity.h` that control the recording and return records.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use margay_activity::Kind;
use margay_activity::interface::Outcome;
use margay_activity::layout::size;

use crate::buffers::{self, Complete, Request};
use crate::client::attached;
use crate::driver::driver;
use crate::toolkit::toolkit;
use crate::{check, enabled, guarded, period, store};

/// One more than the largest number of a kind in the toolkits.
const KINDS: u32 = 60;

/// Enables or disables a kind.
///
/// # Errors
/// `INVALID_KIND` for a number that is no kind, `NOT_SUPPORTED` for a kind that Margay does not record.
fn set_kind(number: u32, on: bool) -> Result<(), Outcome> {
    if number == 0 || number >= KINDS {
        return Err(Outcome::INVALID_KIND);
    }
    let Some(kind) = Kind::of_number(number) else {
        return match on {
            true => Err(Outcome::NOT_SUPPORTED),
            false => Ok(()),
        };
    };
    // The order makes sure that records which the call itself causes find the kind enabled.
    enabled::set(kind, on);
    check((attached()?.set_kind)(number, on.into()))
}

/// Sets the client's functions that provide and receive buffers.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityRegisterCallbacks(
    request: Option<Request>,
    complete: Option<Complete>,
) -> Outcome {
    guarded(|| {
        let functions = request.zip(complete);
        let (request, complete) = functions.ok_or(Outcome::INVALID_PARAMETER)?;
        attached()?;
        buffers::register(request, complete);
        Ok(())
    })
}

/// Starts the recording of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnable(kind: u32) -> Outcome {
    guarded(|| set_kind(kind, true))
}

/// Starts the recording of a kind. Records of objects that exist are sent by each function that starts a recording.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableAndDump(kind: u32) -> Outcome {
    guarded(|| match buffers::is_registered() {
        true => set_kind(kind, true),
        false => Err(Outcome::UNKNOWN),
    })
}

/// Stops the recording of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityDisable(kind: u32) -> Outcome {
    guarded(|| set_kind(kind, false))
}

/// Starts the recording of a kind. The recording is not limited to the context.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableContext(_context: usize, kind: u32) -> Outcome {
    cuptiActivityEnable(kind)
}

/// Stops the recording of a kind in all contexts.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityDisableContext(_context: usize, kind: u32) -> Outcome {
    cuptiActivityDisable(kind)
}

/// Starts or stops the recording of calls of one driver function.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableDriverApi(function: u32, enable: u8) -> Outcome {
    guarded(|| check((attached()?.set_call)(function, (enable != 0).into())))
}

/// Calls of the runtime API are not recorded.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableRuntimeApi(_function: u32, enable: u8) -> Outcome {
    match enable {
        0 => Outcome::SUCCESS,
        _ => Outcome::NOT_SUPPORTED,
    }
}

/// Passes buffers with records to the client. Records are written when their activities are complete, so no flag makes a
/// difference.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushAll(_flag: u32) -> Outcome {
    guarded(|| {
        driver()?;
        if !buffers::is_registered() {
            return Err(Outcome::INVALID_OPERATION);
        }
        buffers::flush();
        Ok(())
    })
}

/// Passes buffers with records to the client. Buffers do not belong to streams.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlush(_context: usize, _stream: u32, flag: u32) -> Outcome {
    cuptiActivityFlushAll(flag)
}

/// Passes buffers to the client in regular intervals of milliseconds; 0 ends this.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityFlushPeriod(milliseconds: u32) -> Outcome {
    guarded(|| period::set(milliseconds))
}

/// Stores the address of the record that follows `*record`, or of the first record if it is null.
///
/// # Safety
/// `buffer` is null or a buffer with `valid` bytes of records, and `record` is null or points to a variable that contains
/// null or the address of one of the records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNextRecord(
    buffer: *mut u8,
    valid: usize,
    record: *mut *mut u8,
) -> Outcome {
    guarded(|| {
        if buffer.is_null() || record.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        // SAFETY: the caller guarantees the variable.
        let current = unsafe { record.read() };
        let at = match current.is_null() {
            true => 0,
            false => {
                let at = current.addr().checked_sub(buffer.addr());
                let at = at
                    .filter(|&at| at < valid)
                    .ok_or(Outcome::INVALID_PARAMETER)?;
                // SAFETY: the record is in the buffer.
                at + unsafe { bytes_of(buffer, valid, at) }?
            }
        };
        if at >= valid {
            return Err(Outcome::MAX_LIMIT_REACHED);
        }
        // SAFETY: the offset is in the buffer.
        unsafe { bytes_of(buffer, valid, at) }?;
        // SAFETY: as above.
        let next = unsafe { buffer.add(at) };
        // SAFETY: the caller guarantees the variable.
        unsafe { record.write(next) };
        Ok(())
    })
}

/// Returns the size of the record at an offset of a buffer.
///
/// # Safety
/// The buffer has `valid` bytes.
unsafe fn bytes_of(buffer: *const u8, valid: usize, at: usize) -> Result<usize, Outcome> {
    if valid - at < size_of::<u32>() {
        return Err(Outcome::INVALID_KIND);
    }
    // SAFETY: the buffer contains these bytes.
    let place = unsafe { buffer.add(at) };
    // SAFETY: as above.
    let number = unsafe { place.cast::<u32>().read_unaligned() };
    let kind = Kind::of_number(number).ok_or(Outcome::INVALID_KIND)?;
    let bytes = size(kind, toolkit());
    match bytes <= valid - at {
        true => Ok(bytes),
        false => Err(Outcome::INVALID_KIND),
    }
}

/// Stores the number of records that were dropped since the last call.
///
/// # Safety
/// `dropped` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetNumDroppedRecords(
    _context: usize,
    _stream: u32,
    dropped: *mut usize,
) -> Outcome {
    guarded(|| {
        if dropped.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        // SAFETY: the caller guarantees the variable.
        unsafe { store(dropped, buffers::take_dropped() as usize) }
    })
}

/// Number of kinds of external numbers (`CUPTI_EXTERNAL_CORRELATION_KIND_SIZE`).
const EXTERNAL_KINDS: u32 = 6;

/// Pushes an external number of the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityPushExternalCorrelationId(kind: u32, id: u64) -> Outcome {
    guarded(|| match kind {
        1..EXTERNAL_KINDS => check((driver()?.push)(kind, id)),
        _ => Err(Outcome::INVALID_PARAMETER),
    })
}

/// Pops an external number of the calling thread, and stores it if `last` is not null.
///
/// # Safety
/// `last` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityPopExternalCorrelationId(
    kind: u32,
    last: *mut u64,
) -> Outcome {
    guarded(|| match kind {
        1..EXTERNAL_KINDS => check((driver()?.pop)(kind, last)),
        _ => Err(Outcome::INVALID_PARAMETER),
    })
}

/// The attributes with their sizes in bytes and their values before the client changes them. Only the numbers that both
/// toolkits have are known; none changes the records.
static ATTRIBUTES: [(usize, AtomicU64); 11] = [
    (8, AtomicU64::new(3_200_000)),
    (8, AtomicU64::new(8 << 20)),
    (8, AtomicU64::new(250)),
    (8, AtomicU64::new(25_000)),
    (8, AtomicU64::new(250)),
    (1, AtomicU64::new(0)),
    (8, AtomicU64::new(3)),
    (8, AtomicU64::new(3)),
    (1, AtomicU64::new(0)),
    (1, AtomicU64::new(1)),
    (8, AtomicU64::new(16 << 20)),
];

/// Returns an attribute whose value needs at most the number of bytes that the caller states.
///
/// # Safety
/// `bytes` is null or points to a variable.
unsafe fn attribute(
    number: u32,
    bytes: *mut usize,
    value: *const c_void,
) -> Result<&'static (usize, AtomicU64), Outcome> {
    if bytes.is_null() || value.is_null() {
        return Err(Outcome::INVALID_PARAMETER);
    }
    let known = ATTRIBUTES.get(number as usize);
    let known = known.ok_or(match number {
        ..25 => Outcome::NOT_SUPPORTED,
        _ => Outcome::INVALID_PARAMETER,
    })?;
    // SAFETY: the caller guarantees the variable.
    match unsafe { bytes.read() } >= known.0 {
        true => Ok(known),
        false => Err(Outcome::PARAMETER_SIZE_NOT_SUFFICIENT),
    }
}

/// Stores the value of an attribute and its size.
///
/// # Safety
/// `bytes` is null or points to a variable, and `value` is null or points to as many bytes as it contains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivityGetAttribute(
    number: u32,
    bytes: *mut usize,
    value: *mut c_void,
) -> Outcome {
    guarded(|| {
        // SAFETY: the caller guarantees the variables.
        let (size, known) = unsafe { attribute(number, bytes, value) }?;
        let found = known.load(Ordering::Relaxed).to_le_bytes();
        // SAFETY: the value has at least this size.
        unsafe {
            value
                .cast::<u8>()
                .copy_from_nonoverlapping(found.as_ptr(), *size)
        };
        // SAFETY: the caller guarantees the variable.
        unsafe { store(bytes, *size) }
    })
}

/// Sets the value of an attribute. It has no effect on the records.
///
/// # Safety
/// `bytes` is null or points to a variable, and `value` is null or points to as many bytes as it contains.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiActivitySetAttribute(
    number: u32,
    bytes: *mut usize,
    value: *const c_void,
) -> Outcome {
    guarded(|| {
        // SAFETY: the caller guarantees the variables.
        let (size, known) = unsafe { attribute(number, bytes, value) }?;
        let mut new = [0u8; 8];
        // SAFETY: the value has at least this size.
        unsafe {
            new.as_mut_ptr()
                .copy_from_nonoverlapping(value.cast(), *size)
        };
        known.store(u64::from_le_bytes(new), Ordering::Relaxed);
        Ok(())
    })
}

/// Stores the time that records use.
///
/// # Safety
/// `time` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetTimestamp(time: *mut u64) -> Outcome {
    guarded(|| {
        if time.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        let now = (driver()?.now)();
        // SAFETY: the caller guarantees the variable.
        unsafe { store(time, now) }
    })
}

/// Sets the function that returns the times of records. It is called on threads of the program and of the driver.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityRegisterTimestampCallback(
    clock: Option<extern "C" fn() -> u64>,
) -> Outcome {
    guarded(|| {
        let clock = clock.ok_or(Outcome::INVALID_PARAMETER)?;
        (attached()?.set_clock)(Some(clock));
        Ok(())
    })
}

/// Selects whether kernels get times of queueing and submission.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableLatencyTimestamps(enable: u8) -> Outcome {
    enabled::set_latency(enable != 0);
    Outcome::SUCCESS
}
