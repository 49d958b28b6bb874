//! Implements the entry points for green contexts and device resources.
//!
//! A green context is a part of a device's primary context. It uses the memory, modules and objects of the primary
//! context, and has a share of the device's multiprocessors. On a thread's context stack, the handle of a green context
//! denotes the primary context. Queries return the share, but it has no effect on kernels: the
//! scheduler decides which core runs a block.
//!
//! Invariant: the parts of one split have disjoint multiprocessors. If the program passes a
//! resource that it created itself, or of which it changed a field that the checksum ([`check`])
//! covers, the call returns an error.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use margay::{Device, Event, Stream, StreamKind};
use parking_lot::Mutex;

use crate::convert::{FromAbi, In, OptOut, Out, read_array};
use crate::guard::Call;
use crate::handles::{
    ContextObject, Description, GreenObject, contexts, current_handle, green_contexts,
    resource_descriptions, streams,
};
use crate::result::{CuResult, Served};
use crate::types::{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS, CUcontext, CUdevResource, CUdevResourceDesc, CUgreenCtx,
    CUstream,
};

/// `CU_DEV_RESOURCE_TYPE_SM` and `CU_DEV_RESOURCE_TYPE_WORKQUEUE_CONFIG`.
const SMS: c_uint = 1;
const QUEUES: c_uint = 1000;
/// `CU_GREEN_CTX_DEFAULT_STREAM`, the only flag of `cuGreenCtxCreate`.
const DEFAULT_STREAM: c_uint = 1;
/// `CU_STREAM_NON_BLOCKING`, which is required for streams of a green context.
const NON_BLOCKING: c_uint = 1;
/// `CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING` and `CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE`.
const IGNORE_GROUPS: c_uint = 1;
const LARGE_CLUSTERS: c_uint = 2;
/// `CU_DEV_SM_RESOURCE_GROUP_BACKFILL`.
const BACKFILL: c_uint = 1;
/// The value of the first private word in each resource structure (`CUdevResource`) that this
/// library creates.
const MAGIC: u32 = u32::from_le_bytes(*b"mrgR");
/// The number of work queues that a device has according to its resource queries.
const QUEUE_LIMIT: u32 = 32;

/// Writes the private words of a resource structure: magic number, device, first multiprocessor,
/// and a checksum of these words, of the kind, and of the first three words of the union.
fn seal(resource: &mut CUdevResource, device: c_int, first: u32) {
    resource.filler[..3].copy_from_slice(&[MAGIC, device as u32, first]);
    resource.filler[3] = check(resource);
}

fn check(resource: &CUdevResource) -> u32 {
    let words = resource.filler[..3].iter().chain(&resource.words[..3]);
    words.fold(resource.kind, |sum, &word| {
        (sum ^ word).wrapping_mul(0x0100_0193).rotate_left(7)
    })
}

/// Returns the device and the first multiprocessor of a resource that this library created.
fn unseal(resource: &CUdevResource) -> Result<(c_int, u32), CuResult> {
    let ours = resource.filler[0] == MAGIC && resource.filler[3] == check(resource);
    match ours {
        true => Ok((resource.filler[1] as c_int, resource.filler[2])),
        false => Err(CuResult::INVALID_RESOURCE_TYPE),
    }
}

fn empty(kind: c_uint) -> CUdevResource {
    CUdevResource {
        kind,
        filler: [0; 23],
        words: [0; 10],
        next: std::ptr::null_mut(),
    }
}

/// Returns the minimum number of multiprocessors of a part of a split, and the granularity: the
/// number of multiprocessors of each part must be a multiple of this second number (CUDA
/// programming guide, "Green contexts").
fn grain(device: &Device, flags: c_uint) -> (u32, u32) {
    match device.compute_capability().0 {
        _ if flags & IGNORE_GROUPS != 0 => (2, 2),
        9.. => (8, 8),
        8 => (4, 2),
        _ => (2, 2),
    }
}

/// Returns the resource structure for `count` consecutive multiprocessors of a device, the first of
/// which has the index `first`.
fn sms(device: &Device, first: u32, count: u32, flags: c_uint) -> CUdevResource {
    let (least, multiple) = grain(device, flags);
    let mut resource = empty(SMS);
    resource.words[..3].copy_from_slice(&[count, least, multiple]);
    seal(&mut resource, device.ordinal(), first);
    resource
}

fn resource_of(device: &Device, kind: c_uint) -> Result<CUdevResource, CuResult> {
    match kind {
        SMS => Ok(sms(device, 0, device.config().sms, 0)),
        QUEUES => {
            let mut resource = empty(QUEUES);
            resource.words[..3].copy_from_slice(&[device.ordinal() as u32, QUEUE_LIMIT, 0]);
            seal(&mut resource, device.ordinal(), 0);
            Ok(resource)
        }
        _ => Err(CuResult::INVALID_RESOURCE_TYPE),
    }
}

pub(crate) fn device_get_dev_resource(
    _: &Call,
    device: Device,
    out: Out<CUdevResource>,
    kind: c_uint,
) -> Served {
    out.set(resource_of(&device, kind)?);
    Ok(())
}

/// Returns the green context that `handle` denotes; `None` if `handle` is invalid or denotes another kind of context.
fn green_of(handle: CUcontext) -> Option<Arc<GreenObject>> {
    contexts().get(handle.0)?.green
}

impl GreenObject {
    fn resource(&self, kind: c_uint) -> Result<CUdevResource, CuResult> {
        match kind {
            SMS => Ok(self.resource),
            other => resource_of(&self.context.device(), other),
        }
    }
}

pub(crate) fn ctx_get_dev_resource(
    _: &Call,
    handle: CUcontext,
    out: Out<CUdevResource>,
    kind: c_uint,
) -> Served {
    let handle = match handle.0 {
        0 => current_handle()?,
        _ => handle,
    };
    let object = contexts().get(handle.0).ok_or(CuResult::INVALID_CONTEXT)?;
    out.set(match &object.green {
        Some(green) => green.resource(kind)?,
        None => resource_of(&object.context.device(), kind)?,
    });
    Ok(())
}

/// Returns the handle of a green context. If `handle` is the handle of the context that `cuCtxFromGreenCtx` returns for a
/// green context, the result is the handle of that green context. Runtimes pass either handle, because with NVIDIA's
/// driver they are equal.
fn own_handle(handle: CUgreenCtx) -> CUgreenCtx {
    let green = green_of(CUcontext(handle.0));
    let own = green.and_then(|green| green_contexts().find(|known| known.id == green.id));
    own.map_or(handle, CUgreenCtx)
}

fn green(handle: CUgreenCtx) -> Result<Arc<GreenObject>, CuResult> {
    by_own_handle(own_handle(handle))
}

fn by_own_handle(handle: CUgreenCtx) -> Result<Arc<GreenObject>, CuResult> {
    let green = green_contexts().get(handle.0);
    green.ok_or(CuResult::INVALID_CONTEXT)
}

pub(crate) fn green_ctx_get_dev_resource(
    _: &Call,
    handle: CUgreenCtx,
    out: Out<CUdevResource>,
    kind: c_uint,
) -> Served {
    out.set(green(handle)?.resource(kind)?);
    Ok(())
}

/// Returns the device, the first multiprocessor and the number of multiprocessors of a resource to split.
fn to_split(input: &CUdevResource) -> Result<(Device, u32, u32), CuResult> {
    if input.kind != SMS {
        return Err(CuResult::INVALID_RESOURCE_TYPE);
    }
    let (ordinal, first) = unseal(input)?;
    let device = margay::Runtime::global()?.device(ordinal)?;
    Ok((device, first, input.words[0]))
}

/// Writes to `out` the resource of the `count` multiprocessors that remain after a split.
fn set_remainder(
    out: &OptOut<CUdevResource>,
    device: &Device,
    first: u32,
    count: u32,
    flags: c_uint,
) {
    out.set(match count {
        0 => empty(0),
        _ => sms(device, first, count, flags),
    });
}

pub(crate) fn dev_sm_resource_split_by_count(
    _: &Call,
    result: *mut CUdevResource,
    groups: *mut c_uint,
    input: In<CUdevResource>,
    remainder: OptOut<CUdevResource>,
    flags: c_uint,
    least: c_uint,
) -> Served {
    if groups.is_null() || flags & !(IGNORE_GROUPS | LARGE_CLUSTERS) != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let (device, first, count) = to_split(&input.0)?;
    if least > count {
        return Err(CuResult::INVALID_RESOURCE_CONFIGURATION);
    }
    let (smallest, multiple) = grain(&device, flags);
    let size = least.max(smallest).next_multiple_of(multiple);
    let possible = count / size;
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let wanted = unsafe { groups.read_unaligned() };
    let made = match result.is_null() {
        true => possible,
        false if wanted == 0 => return Err(CuResult::INVALID_VALUE),
        false => possible.min(wanted),
    };
    if !result.is_null() {
        for group in 0..made {
            let part = sms(&device, first + group * size, size, flags);
            // SAFETY: the caller guarantees memory for `wanted` elements, and `made` is not greater.
            unsafe { result.add(group as usize).write_unaligned(part) };
        }
        let taken = made * size;
        set_remainder(&remainder, &device, first + taken, count - taken, flags);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { groups.write_unaligned(made) };
    Ok(())
}

pub(crate) fn dev_sm_resource_split(
    _: &Call,
    result: *mut CUdevResource,
    groups: c_uint,
    input: In<CUdevResource>,
    remainder: OptOut<CUdevResource>,
    flags: c_uint,
    params: *mut CU_DEV_SM_RESOURCE_GROUP_PARAMS,
) -> Served {
    if flags != 0 || groups == 0 || params.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let (device, first, count) = to_split(&input.0)?;
    // SAFETY: the caller guarantees `groups` elements.
    let mut wanted = unsafe { read_array(params.cast_const(), groups as usize) }?;
    let mut next = 0;
    let mut parts = Vec::new();
    for group in &mut wanted {
        if group.flags & !BACKFILL != 0 || group.reserved != [0; 11] {
            return Err(CuResult::INVALID_VALUE);
        }
        let multiple = match group.coscheduled_sm_count {
            0 => grain(&device, 0).1,
            given => given,
        };
        let left = count - next;
        let size = match group.sm_count {
            0 => left / multiple * multiple,
            given => given,
        };
        let fills = group.flags & BACKFILL != 0;
        if size == 0 || size > left || (!fills && !size.is_multiple_of(multiple)) {
            return Err(CuResult::INVALID_RESOURCE_CONFIGURATION);
        }
        group.sm_count = size;
        parts.push(sms(&device, first + next, size, 0));
        next += size;
    }
    for (index, (part, group)) in parts.into_iter().zip(wanted).enumerate() {
        // SAFETY: the caller guarantees `groups` elements in each array.
        unsafe {
            params.add(index).write_unaligned(group);
            if !result.is_null() {
                result.add(index).write_unaligned(part);
            }
        }
    }
    if !result.is_null() {
        set_remainder(&remainder, &device, first + next, count - next, 0);
    }
    Ok(())
}

pub(crate) fn dev_resource_generate_desc(
    _: &Call,
    out: Out<CUdevResourceDesc>,
    resources: *mut CUdevResource,
    count: c_uint,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let resources = unsafe { read_array(resources.cast_const(), count as usize) }?;
    let mut found = None;
    // The multiprocessors of each resource: the first one and their number.
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for resource in &resources {
        let (device, first) = unseal(resource)?;
        if *found.get_or_insert(device) != device {
            return Err(CuResult::INVALID_RESOURCE_CONFIGURATION);
        }
        if resource.kind == SMS {
            parts.push((first, resource.words[0]));
        }
    }
    parts.sort_unstable();
    let mut pairs = parts.windows(2);
    if pairs.any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        // Resources that overlap are not parts of one split.
        return Err(CuResult::INVALID_RESOURCE_CONFIGURATION);
    }
    let ordinal = found.ok_or(CuResult::INVALID_VALUE)?;
    let first = parts.first().map_or(0, |&(first, _)| first);
    let total: u32 = parts.iter().map(|&(_, count)| count).sum();
    let device = margay::Runtime::global()?.device(ordinal)?;
    let resource = match total {
        0 => resource_of(&device, SMS)?,
        _ => sms(&device, first, total, 0),
    };
    let description = Description {
        device: ordinal,
        resource,
    };
    let handle = resource_descriptions().insert(description);
    out.set(CUdevResourceDesc(handle.ok_or(CuResult::INVALID_VALUE)?));
    Ok(())
}

pub(crate) fn green_ctx_create(
    _: &Call,
    out: Out<CUgreenCtx>,
    description: CUdevResourceDesc,
    device: Device,
    flags: c_uint,
) -> Served {
    let found = resource_descriptions().get(description.0);
    let found = found.ok_or(CuResult::INVALID_VALUE)?;
    if flags & !DEFAULT_STREAM != 0 || found.device != device.ordinal() {
        return Err(CuResult::INVALID_VALUE);
    }
    let context = device.primary_retain()?;
    let undo = |code| {
        let _ = device.primary_release();
        code
    };
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let green = Arc::new(GreenObject {
        id: NEXT.fetch_add(1, Ordering::Relaxed) << 32,
        context: context.clone(),
        handle: OnceLock::new(),
        resource: found.resource,
        streams: Mutex::default(),
    });
    let object = ContextObject {
        context,
        attachments: Arc::default(),
        green: Some(Arc::clone(&green)),
    };
    let handle = contexts().insert(object);
    let handle = handle.ok_or_else(|| undo(CuResult::OUT_OF_MEMORY))?;
    green.handle.get_or_init(|| CUcontext(handle));
    let green = green_contexts().insert(green);
    let green = green.ok_or_else(|| undo(CuResult::OUT_OF_MEMORY))?;
    out.set(CUgreenCtx(green));
    Ok(())
}

pub(crate) fn green_ctx_destroy(_: &Call, handle: CUgreenCtx) -> Served {
    let handle = own_handle(handle);
    let green = green_contexts().remove(handle.0);
    let green = green.ok_or(CuResult::INVALID_CONTEXT)?;
    if let Some(handle) = green.handle.get() {
        contexts().remove(handle.0);
    }
    of_streams().lock().retain(|_, owner| *owner != handle.0);
    super::primary::release(&green.context.device())
}

pub(crate) fn ctx_from_green_ctx(_: &Call, out: Out<CUcontext>, handle: CUgreenCtx) -> Served {
    let green = green(handle)?;
    out.set(*green.handle.get().ok_or(CuResult::INVALID_CONTEXT)?);
    Ok(())
}

/// Returns the map from streams to the green contexts for which they were created.
fn of_streams() -> &'static Mutex<HashMap<usize, usize>> {
    static OWNERS: OnceLock<Mutex<HashMap<usize, usize>>> = OnceLock::new();
    OWNERS.get_or_init(Mutex::default)
}

pub(crate) fn green_ctx_stream_create(
    _: &Call,
    out: Out<CUstream>,
    handle: CUgreenCtx,
    flags: c_uint,
    priority: c_int,
) -> Served {
    let handle = own_handle(handle);
    let green = by_own_handle(handle)?;
    if flags != NON_BLOCKING {
        return Err(CuResult::INVALID_VALUE);
    }
    let stream = green
        .context
        .create_stream(StreamKind::NonBlocking, priority)?;
    let stream = streams().insert(stream).ok_or(CuResult::OUT_OF_MEMORY)?;
    own(&green, handle.0, stream);
    out.set(CUstream(stream));
    Ok(())
}

fn own(green: &GreenObject, handle: usize, stream: usize) {
    let mut list = green.streams.lock();
    list.retain(|&stream| streams().get(stream).is_some());
    list.push(stream);
    of_streams().lock().insert(stream, handle);
}

/// If a green context is current, stores that the new stream `stream` was created for it.
pub(crate) fn own_by_current(stream: usize) -> Served {
    let Some(green) = green_of(current_handle()?) else {
        return Ok(());
    };
    if let Some(handle) = green_contexts().find(|known| known.id == green.id) {
        own(&green, handle, stream);
    }
    Ok(())
}

/// Returns the handle of the green context for which `stream` was created, or 0 if there is none.
/// The green context of a default stream is the current green context.
pub(crate) fn green_handle_of(stream: CUstream) -> Result<CUgreenCtx, CuResult> {
    if stream.0 <= 2 {
        let green = green_of(current_handle()?);
        let handle = green.and_then(|g| green_contexts().find(|known| known.id == g.id));
        return Ok(CUgreenCtx(handle.unwrap_or(0)));
    }
    let owner = of_streams().lock().get(&stream.0).copied();
    Ok(CUgreenCtx(owner.unwrap_or(0)))
}

pub(crate) fn stream_get_green_ctx(call: &Call, stream: CUstream, out: Out<CUgreenCtx>) -> Served {
    // SAFETY: the handle is looked up and never dereferenced.
    unsafe { Stream::from_abi(stream, call) }?;
    out.set(green_handle_of(stream)?);
    Ok(())
}

pub(crate) fn stream_get_dev_resource(
    call: &Call,
    stream: CUstream,
    out: Out<CUdevResource>,
    kind: c_uint,
) -> Served {
    // SAFETY: the handle is looked up and never dereferenced.
    let found = unsafe { Stream::from_abi(stream, call) }?;
    let green = green_contexts().get(green_handle_of(stream)?.0);
    out.set(match green {
        Some(green) => green.resource(kind)?,
        None => resource_of(&found.context().device(), kind)?,
    });
    Ok(())
}

pub(crate) fn green_ctx_get_id(_: &Call, handle: CUgreenCtx, out: Out<c_ulonglong>) -> Served {
    let found = match handle.0 {
        0 => green_of(current_handle()?),
        _ => green(handle).ok(),
    };
    out.set(found.ok_or(CuResult::INVALID_CONTEXT)?.id);
    Ok(())
}

impl GreenObject {
    fn living_streams(&self) -> Vec<Stream> {
        let list = self.streams.lock();
        list.iter()
            .filter_map(|&stream| streams().get(stream))
            .collect()
    }

    fn record(&self, event: &Event) -> Served {
        if *event.context() != self.context {
            return Err(CuResult::INVALID_HANDLE);
        }
        Ok(self.context.record_streams(event, &self.living_streams())?)
    }

    fn wait(&self, event: &Event) -> Served {
        if *event.context() != self.context {
            return Err(CuResult::INVALID_HANDLE);
        }
        for stream in self.living_streams() {
            stream.wait_event(event)?;
        }
        Ok(())
    }
}

pub(crate) fn green_ctx_record_event(_: &Call, handle: CUgreenCtx, event: Event) -> Served {
    green(handle)?.record(&event)
}

pub(crate) fn green_ctx_wait_event(_: &Call, handle: CUgreenCtx, event: Event) -> Served {
    green(handle)?.wait(&event)
}

/// Returns the context that `handle` denotes; handle 0 denotes the current context.
fn context_or_current(handle: CUcontext) -> Result<ContextObject, CuResult> {
    let handle = match handle.0 {
        0 => current_handle()?,
        _ => handle,
    };
    contexts().get(handle.0).ok_or(CuResult::INVALID_CONTEXT)
}

pub(crate) fn ctx_record_event(_: &Call, handle: CUcontext, event: Event) -> Served {
    let object = context_or_current(handle)?;
    match &object.green {
        Some(green) => green.record(&event),
        None => Ok(object.context.record_event(&event)?),
    }
}

pub(crate) fn ctx_wait_event(_: &Call, handle: CUcontext, event: Event) -> Served {
    let object = context_or_current(handle)?;
    match &object.green {
        Some(green) => green.wait(&event),
        None => Ok(object.context.wait_event(&event)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_resource_is_refused() {
        let mut resource = empty(SMS);
        resource.words[..3].copy_from_slice(&[8, 2, 2]);
        seal(&mut resource, 1, 4);
        assert_eq!(unseal(&resource), Ok((1, 4)));
        for change in [
            |r: &mut CUdevResource| r.words[0] = 9,
            |r: &mut CUdevResource| r.kind = QUEUES,
            |r: &mut CUdevResource| r.filler[2] = 0,
            |r: &mut CUdevResource| r.filler[0] = 0,
        ] {
            let mut changed = resource;
            change(&mut changed);
            assert_eq!(unseal(&changed), Err(CuResult::INVALID_RESOURCE_TYPE));
        }
        assert_eq!(unseal(&empty(SMS)), Err(CuResult::INVALID_RESOURCE_TYPE));
    }
}
