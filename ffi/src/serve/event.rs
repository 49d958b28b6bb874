//! Events.

use std::ffi::{c_float, c_uint};

use margay::{Event, EventFlags, Stream};

use crate::convert::Out;
use crate::guard::Call;
use crate::handles::{current, events};
use crate::result::{CuResult, Served};
use crate::types::CUevent;

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
/// `CU_EVENT_RECORD_EXTERNAL`, the only flag of `cuEventRecordWithFlags`.
const ALL_RECORD_FLAGS: c_uint = 1;

pub(crate) fn event_create(_: &Call, out: Out<CUevent>, flags: c_uint) -> Served {
    let context = current()?;
    let event = context.create_event(event_flags(flags)?)?;
    let handle = events().insert(event).ok_or(CuResult::OUT_OF_MEMORY)?;
    out.set(CUevent(handle));
    Ok(())
}

fn event_flags(flags: c_uint) -> Result<EventFlags, CuResult> {
    let unknown = flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS);
    let shared_and_timed = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
    if unknown != 0 || shared_and_timed {
        return Err(CuResult::INVALID_VALUE);
    }
    Ok(EventFlags {
        blocking_sync: flags & BLOCKING_SYNC != 0,
        disable_timing: flags & DISABLE_TIMING != 0,
        interprocess: flags & INTERPROCESS != 0,
    })
}

pub(crate) fn event_record(_: &Call, event: Event, stream: Stream) -> Served {
    Ok(event.record(&stream)?)
}

pub(crate) fn event_record_with_flags(
    _: &Call,
    event: Event,
    stream: Stream,
    flags: c_uint,
) -> Served {
    if flags & !ALL_RECORD_FLAGS != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    match flags {
        0 => Ok(event.record(&stream)?),
        _ => Ok(event.record_external(&stream)?),
    }
}

/// Returns an error if the event or an active capture forbids calls that query the event or wait
/// for it. For an event that was recorded in a capture, the error is `CAPTURED_EVENT`, even if an
/// active capture forbids the call for every event.
fn check_capture(event: &Event) -> Served {
    event.check_not_captured()?;
    Ok(margay::capture::check_unsafe_call()?)
}

pub(crate) fn event_query(_: &Call, event: Event) -> Served {
    check_capture(&event)?;
    match event.query()? {
        true => Ok(()),
        false => Err(CuResult::NOT_READY),
    }
}

pub(crate) fn event_synchronize(_: &Call, event: Event) -> Served {
    check_capture(&event)?;
    Ok(event.synchronize()?)
}

pub(crate) fn event_destroy(_: &Call, handle: CUevent) -> Served {
    let event = events().remove(handle.0).ok_or(CuResult::INVALID_HANDLE)?;
    Ok(event.destroy()?)
}

pub(crate) fn event_elapsed_time(
    _: &Call,
    milliseconds: Out<c_float>,
    start: Event,
    end: Event,
) -> Served {
    milliseconds.set(end.elapsed_ms_since(&start)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags() {
        assert!(event_flags(0).is_ok_and(|flags| !flags.disable_timing));
        assert!(event_flags(2).is_ok_and(|flags| flags.disable_timing));
        assert!(event_flags(6).is_ok_and(|flags| flags.interprocess));
        assert_eq!(event_flags(4), Err(CuResult::INVALID_VALUE));
        assert_eq!(event_flags(8), Err(CuResult::INVALID_VALUE));
    }
}
