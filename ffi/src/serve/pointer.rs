//! Pointer attributes.

use std::collections::HashSet;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use margay::{PointerInfo, PointerKind, Runtime};
use parking_lot::Mutex;

use super::pool::pool_of;
use super::virtual_memory::access_flags;
use crate::convert::read_array;
use crate::guard::Call;
use crate::handles::{current, handle_of};
use crate::result::{CuResult, Served};
use crate::types::{CUcontext, CUmemoryPool};

/// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
const MEMORY_TYPE: (u32, u32) = (1, 2);
/// The device ordinal that `cuPointerGetAttributes` returns for unknown addresses.
const NO_DEVICE: c_int = -2;
/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE`.
const READ_WRITE: u32 = 3;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const DESCRIPTOR: u64 = 1;
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS`, the only attribute that can be set.
const SYNC_MEMOPS: c_uint = 6;
const DEVICE_ORDINAL: c_uint = 9;

/// The value of a pointer attribute, in the C type that the attribute has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Int(c_int),
    Uint(u32),
    Long(u64),
    Context(CUcontext),
    Pool(CUmemoryPool),
}

impl Value {
    /// # Safety
    /// `data` must be null or point to memory for the attribute's type.
    unsafe fn write(self, data: *mut c_void) -> Served {
        if data.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: the pointer is not null and points to memory for the attribute's type.
        unsafe {
            match self {
                Value::Int(value) => data.cast::<c_int>().write_unaligned(value),
                Value::Uint(value) => data.cast::<u32>().write_unaligned(value),
                Value::Long(value) => data.cast::<u64>().write_unaligned(value),
                Value::Context(value) => data.cast::<CUcontext>().write_unaligned(value),
                Value::Pool(value) => data.cast::<CUmemoryPool>().write_unaligned(value),
            }
        }
        Ok(())
    }
}

/// Returns the value that `attribute` has for `address`, which is in memory that the runtime
/// manages; `None` if no attribute has this number.
fn known(attribute: c_uint, address: u64, info: &PointerInfo) -> Result<Option<Value>, CuResult> {
    let host = matches!(info.kind, PointerKind::Pinned | PointerKind::Registered);
    let managed = info.kind == PointerKind::Managed;
    let value = match attribute {
        // Mapped physical memory and pool memory belong to no context.
        1 if info.mapped || info.pooled => Value::Context(CUcontext(0)),
        1 => Value::Context(handle_of(&info.context)?),
        2 if host => Value::Uint(MEMORY_TYPE.0),
        2 => Value::Uint(MEMORY_TYPE.1),
        3 => Value::Long(address),
        4 if host || managed => Value::Long(address),
        SYNC_MEMOPS => Value::Int(c_int::from(synchronous().lock().contains(&info.id))),
        7 => Value::Long(info.id),
        8 => Value::Int(c_int::from(managed)),
        DEVICE_ORDINAL => Value::Int(info.device),
        10 => {
            let own = !info.mapped && !info.pooled && !info.imported && !info.internal;
            Value::Int(c_int::from(own && info.kind == PointerKind::Device))
        }
        15 | 21 => Value::Int(0),
        11 => Value::Long(range(address, info).0),
        12 => Value::Long(range(address, info).1),
        19 => Value::Long(info.base),
        18 => Value::Long(info.size),
        13 => Value::Int(1),
        14 => Value::Long(handle_types(address, info)),
        16 => Value::Uint(access(address, info)),
        17 => Value::Pool(pool_of(info.base).unwrap_or(CUmemoryPool(0))),
        20 => Value::Long(info.id),
        // This attribute is in no public header; NVIDIA's runtimes query it and accept 0.
        22 => Value::Int(0),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// Returns the start and the size of the reserved address range that contains `address`, if virtual
/// memory is mapped there; otherwise, those of the allocation.
fn range(address: u64, info: &PointerInfo) -> (u64, u64) {
    let reserved = || Runtime::global().ok()?.memory().range_at(address);
    let found = info.mapped.then(reserved).flatten();
    found.unwrap_or((info.base, info.size))
}

/// Returns the kinds of handles with which the memory can be exported to other processes.
fn handle_types(address: u64, info: &PointerInfo) -> u64 {
    let Ok(runtime) = Runtime::global() else {
        return 0;
    };
    let memory = runtime.memory();
    let exportable = match info.mapped {
        true => memory
            .physical_at(address)
            .is_some_and(|p| p.is_exportable()),
        false => memory.arena_offset(info.base).is_some(),
    };
    if exportable { DESCRIPTOR } else { 0 }
}

/// Returns the access rights of the current context's device to the memory at `address`. If no
/// context is current, returns those of the device to which the memory belongs. All devices may
/// read and write memory that the virtual memory interface has not mapped.
fn access(address: u64, info: &PointerInfo) -> u32 {
    if !info.mapped {
        return READ_WRITE;
    }
    let device = current().map_or(info.device, |context| context.device().ordinal());
    let access = || Runtime::global().ok()?.memory().access(address, device);
    access().map_or(0, access_flags)
}

/// Returns the value that `cuPointerGetAttributes` writes if the address is unknown or does not have the attribute.
fn absent(attribute: c_uint) -> Value {
    match attribute {
        1 | 17 => Value::Context(CUcontext(0)),
        3 | 4 | 7 | 11 | 12 | 14 | 18 | 19 | 20 => Value::Long(0),
        DEVICE_ORDINAL => Value::Int(NO_DEVICE),
        _ => Value::Int(0),
    }
}

pub(crate) fn pointer_get_attribute(
    _: &Call,
    data: *mut c_void,
    attribute: c_uint,
    address: u64,
) -> Served {
    if data.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let info = Runtime::global()?.pointer_info(address);
    let info = info.ok_or(CuResult::INVALID_VALUE)?;
    let value = known(attribute, address, &info)?.ok_or(CuResult::INVALID_VALUE)?;
    // SAFETY: the caller guarantees memory for the attribute's type.
    unsafe { value.write(data) }
}

/// Returns several attributes of an address. In contrast to `cuPointerGetAttribute`, this function
/// succeeds for unknown addresses and for attributes that an address does not have.
pub(crate) fn pointer_get_attributes(
    _: &Call,
    count: c_uint,
    attributes: *mut c_uint,
    data: *mut *mut c_void,
    address: u64,
) -> Served {
    if count == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `count` elements of both arrays.
    let (attributes, places) = unsafe {
        (
            read_array(attributes.cast_const(), count as usize)?,
            read_array(data.cast_const(), count as usize)?,
        )
    };
    let info = Runtime::global()?.pointer_info(address);
    for (attribute, place) in attributes.into_iter().zip(places) {
        let value = match &info {
            Some(info) => known(attribute, address, info)?,
            None => None,
        };
        // SAFETY: the caller guarantees memory for the attribute's type.
        unsafe { value.unwrap_or(absent(attribute)).write(place) }?;
    }
    Ok(())
}

/// Returns the IDs of the allocations whose `SYNC_MEMOPS` is set. IDs are never reused.
fn synchronous() -> &'static Mutex<HashSet<u64>> {
    static SYNCHRONOUS: OnceLock<Mutex<HashSet<u64>>> = OnceLock::new();
    SYNCHRONOUS.get_or_init(Mutex::default)
}

/// Returns whether the program has set `SYNC_MEMOPS` for the allocation that contains `address`. Synchronous fills and
/// copies of such memory wait until they are complete. (Without the attribute, fills of device memory and copies
/// between device memory return earlier.)
pub(super) fn is_synchronous(address: u64) -> bool {
    if synchronous().lock().is_empty() {
        return false;
    }
    let runtime = Runtime::global().ok();
    let info = runtime.and_then(|runtime| runtime.pointer_info(address));
    info.is_some_and(|info| synchronous().lock().contains(&info.id))
}

/// Sets or clears `SYNC_MEMOPS` ([`is_synchronous`]).
pub(crate) fn pointer_set_attribute(
    _: &Call,
    value: *const c_void,
    attribute: c_uint,
    address: u64,
) -> Served {
    if value.is_null() || attribute != SYNC_MEMOPS {
        return Err(CuResult::INVALID_VALUE);
    }
    let info = Runtime::global()?.pointer_info(address);
    let info = info.ok_or(CuResult::INVALID_VALUE)?;
    // SAFETY: the pointer is not null; the caller passed an unsigned int or a bool, whose first byte is read.
    let on = unsafe { value.cast::<u8>().read() } != 0;
    let mut synchronous = synchronous().lock();
    match on {
        true => synchronous.insert(info.id),
        false => synchronous.remove(&info.id),
    };
    Ok(())
}
