//! Implements the entry points for streams: their creation, order, attributes and callbacks.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use margay::{Event, Stream, StreamKind};
use parking_lot::Mutex;

use super::capture::forget_told;
use super::graph::HostOrigin;
use super::green::{green_handle_of, own_by_current};
use super::managed::managed_range;
use crate::callback;
use crate::convert::{In, OptOut, Out};
use crate::guard::Call;
use crate::handles::{current, handle_of, streams};
use crate::result::{CuResult, Served};
use crate::types::{
    CUDA_HOST_NODE_PARAMS, CUcontext, CUgreenCtx, CUhostFn, CUstream, CUstreamAttrValue,
    CUstreamCallback,
};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_WAIT_EXTERNAL`, the only flag of `cuStreamWaitEvent`.
const ALL_WAIT_FLAGS: c_uint = 1;
/// `CU_MEM_ATTACH_GLOBAL`, `CU_MEM_ATTACH_HOST` and `CU_MEM_ATTACH_SINGLE`.
const ATTACH_FLAGS: [c_uint; 3] = [1, 2, 4];

pub(crate) fn stream_create(call: &Call, out: Out<CUstream>, flags: c_uint) -> Served {
    stream_create_with_priority(call, out, flags, 0)
}

pub(crate) fn stream_create_with_priority(
    _: &Call,
    out: Out<CUstream>,
    flags: c_uint,
    priority: c_int,
) -> Served {
    let context = current()?;
    let kind = match flags {
        0 => StreamKind::Blocking,
        NON_BLOCKING => StreamKind::NonBlocking,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    let stream = context.create_stream(kind, priority)?;
    let handle = streams().insert(stream).ok_or(CuResult::OUT_OF_MEMORY)?;
    own_by_current(handle)?;
    out.set(CUstream(handle));
    Ok(())
}

pub(crate) fn stream_destroy(_: &Call, handle: CUstream) -> Served {
    let stream = streams().remove(handle.0).ok_or(CuResult::INVALID_HANDLE)?;
    {
        let mut attributes = attributes().lock();
        for hint in HINTS {
            attributes.remove(&(stream.id(), hint));
        }
    }
    forget_told(&stream);
    Ok(stream.destroy()?)
}

pub(crate) fn stream_get_priority(_: &Call, stream: Stream, priority: Out<c_int>) -> Served {
    priority.set(stream.priority());
    Ok(())
}

pub(crate) fn stream_get_device(_: &Call, stream: Stream, device: Out<c_int>) -> Served {
    device.set(stream.context().device().ordinal());
    Ok(())
}

pub(crate) fn stream_get_flags(_: &Call, stream: Stream, flags: Out<c_uint>) -> Served {
    flags.set(match stream.kind() {
        StreamKind::NonBlocking => NON_BLOCKING,
        _ => 0,
    });
    Ok(())
}

pub(crate) fn stream_get_id(_: &Call, stream: Stream, id: Out<c_ulonglong>) -> Served {
    id.set(stream.id());
    Ok(())
}

pub(crate) fn stream_get_ctx_v1(_: &Call, stream: Stream, context: Out<CUcontext>) -> Served {
    context.set(handle_of(stream.context())?);
    Ok(())
}

pub(crate) fn stream_get_ctx_v2(
    call: &Call,
    handle: CUstream,
    context: OptOut<CUcontext>,
    green: OptOut<CUgreenCtx>,
) -> Served {
    let stream = crate::handles::stream(handle, call)?;
    context.set(handle_of(stream.context())?);
    green.set(green_handle_of(handle)?);
    Ok(())
}

pub(crate) fn stream_wait_event(_: &Call, stream: Stream, event: Event, flags: c_uint) -> Served {
    if flags & !ALL_WAIT_FLAGS != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    match flags {
        0 => Ok(stream.wait_event(&event)?),
        _ => Ok(stream.wait_event_external(&event)?),
    }
}

pub(crate) fn stream_query(_: &Call, stream: Stream) -> Served {
    match stream.query()? {
        true => Ok(()),
        false => Err(CuResult::NOT_READY),
    }
}

pub(crate) fn stream_synchronize(_: &Call, stream: Stream) -> Served {
    Ok(stream.synchronize()?)
}

/// A pointer that the program passes for its callback. It is sent to the thread that runs the
/// callback.
struct UserData(*mut c_void);

// SAFETY: the driver API passes the pointer to the callback's thread; the caller is responsible for the memory that it
// points to.
unsafe impl Send for UserData {}

impl UserData {
    /// Returns the pointer. A closure that calls this method captures the whole value, which is `Send`, and not only
    /// the pointer.
    fn pointer(&self) -> *mut c_void {
        self.0
    }
}

pub(crate) fn stream_add_callback(
    call: &Call,
    handle: CUstream,
    function: CUstreamCallback,
    user_data: *mut c_void,
    flags: c_uint,
) -> Served {
    let function = function.ok_or(CuResult::INVALID_VALUE)?;
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let stream = crate::handles::stream(handle, call)?;
    let data = UserData(user_data);
    Ok(stream.callback(move |status| {
        let status = status.map_err(CuResult::from).into();
        // SAFETY: the caller passed a function of this type together with its data.
        unsafe { callback::of_stream(function, handle, status, data.pointer()) }
    })?)
}

pub(crate) fn launch_host_func(
    _: &Call,
    stream: Stream,
    function: CUhostFn,
    user_data: *mut c_void,
) -> Served {
    let origin = HostOrigin::new(CUDA_HOST_NODE_PARAMS {
        function,
        user_data,
    })?;
    let function = Arc::new(move || origin.call());
    Ok(stream.launch_host(function, Some(Arc::new(origin)))?)
}

/// Implements `cuLaunchHostFunc_v2`. The synchronisation mode is a hint and has no effect.
pub(crate) fn launch_host_func_v2(
    call: &Call,
    stream: Stream,
    function: CUhostFn,
    user_data: *mut c_void,
    _sync_mode: c_uint,
) -> Served {
    launch_host_func(call, stream, function, user_data)
}

/// Checks the flags and the address, but not the length. Has no other effect, because every device and the host can
/// always access managed memory.
pub(crate) fn stream_attach_mem_async(
    _: &Call,
    _stream: Stream,
    address: u64,
    _length: usize,
    flags: c_uint,
) -> Served {
    if !ATTACH_FLAGS.contains(&flags) {
        return Err(CuResult::INVALID_VALUE);
    }
    managed_range(address, 1)
}

type Attributes = HashMap<(u64, c_uint), CUstreamAttrValue>;

/// Returns the values of the attributes that are hints, by stream ID and attribute number.
fn attributes() -> &'static Mutex<Attributes> {
    static ATTRIBUTES: std::sync::OnceLock<Mutex<Attributes>> = std::sync::OnceLock::new();
    ATTRIBUTES.get_or_init(Mutex::default)
}

/// Attributes that are stored and returned, but have no effect: access policy window (1), synchronisation policy (3),
/// map of memory synchronisation domains (9), and memory synchronisation domain (10).
const HINTS: [c_uint; 4] = [1, 3, 9, 10];
/// `CU_LAUNCH_ATTRIBUTE_PRIORITY`.
const PRIORITY: c_uint = 8;

fn no_value() -> CUstreamAttrValue {
    CUstreamAttrValue { bytes: [0; 64] }
}

pub(crate) fn stream_get_attribute(
    _: &Call,
    stream: Stream,
    attribute: c_uint,
    value: Out<CUstreamAttrValue>,
) -> Served {
    let mut answer = no_value();
    match attribute {
        PRIORITY => answer.bytes[..4].copy_from_slice(&stream.priority().to_ne_bytes()),
        hint if HINTS.contains(&hint) => {
            let set = attributes().lock().get(&(stream.id(), hint)).copied();
            answer = set.unwrap_or(answer);
        }
        _ => return Err(CuResult::INVALID_VALUE),
    }
    value.set(answer);
    Ok(())
}

pub(crate) fn stream_set_attribute(
    _: &Call,
    stream: Stream,
    attribute: c_uint,
    value: In<CUstreamAttrValue>,
) -> Served {
    if !HINTS.contains(&attribute) {
        return Err(CuResult::INVALID_VALUE);
    }
    attributes()
        .lock()
        .insert((stream.id(), attribute), value.0);
    Ok(())
}

pub(crate) fn stream_copy_attributes(_: &Call, destination: Stream, source: Stream) -> Served {
    let mut attributes = attributes().lock();
    for hint in HINTS {
        match attributes.get(&(source.id(), hint)).copied() {
            Some(value) => attributes.insert((destination.id(), hint), value),
            None => attributes.remove(&(destination.id(), hint)),
        };
    }
    Ok(())
}
