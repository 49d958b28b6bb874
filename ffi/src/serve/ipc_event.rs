//! Implements the entry points with which processes share events.

use margay::Event;
use margay::memory::{SharedKind, SharedMemory};

use super::ipc::{Named, pack, to_bytes, to_chars, unpack};
use crate::convert::Out;
use crate::guard::Call;
use crate::handles::{current, events};
use crate::result::{CuResult, Served};
use crate::types::{CUevent, CUipcEventHandle};

const MAGIC: u64 = u64::from_le_bytes(*b"mrgyEvt1");

/// Exports an event. If the event was not created for sharing between processes, this call returns
/// an error and also writes a zeroed handle, because the library Warp checks the handle instead of
/// the result.
pub(crate) fn ipc_get_event_handle(_: &Call, out: Out<CUipcEventHandle>, event: Event) -> Served {
    let reserved = to_chars([0; 64]);
    out.set(CUipcEventHandle { reserved });
    let memory = event.shared_memory().ok_or(CuResult::INVALID_HANDLE)?;
    let named = Named {
        file: memory.address().map_err(|_| CuResult::MAP_FAILED)?,
        offset: 0,
        size: 0,
    };
    out.set(CUipcEventHandle {
        reserved: to_chars(pack(MAGIC, &named)),
    });
    Ok(())
}

pub(crate) fn ipc_open_event_handle(
    _: &Call,
    out: Out<CUevent>,
    handle: CUipcEventHandle,
) -> Served {
    let context = current()?;
    context.status()?;
    let named = unpack(MAGIC, &to_bytes(handle.reserved)).ok_or(CuResult::INVALID_HANDLE)?;
    if named.file.process == std::process::id() as i32 {
        // CUDA does not permit a process to open a handle that it exported itself.
        return Err(CuResult::INVALID_CONTEXT);
    }
    let memory = SharedMemory::open(&named.file).map_err(|_| CuResult::MAP_FAILED)?;
    if memory.label().kind != SharedKind::Event {
        return Err(CuResult::INVALID_HANDLE);
    }
    let event = Event::open(&context, memory).map_err(|_| CuResult::MAP_FAILED)?;
    let handle = events().insert(event).ok_or(CuResult::MAP_FAILED)?;
    out.set(CUevent(handle));
    Ok(())
}
