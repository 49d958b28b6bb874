//! Implements the entry points for virtual memory: address ranges, physical allocations, mappings,
//! access rights, and handles for other processes.
//!
//! A handle is computed from the allocation's ID, so `cuMemRetainAllocationHandle` returns the same value as
//! `cuMemCreate`. Each handle counts how many releases it needs before it becomes invalid.
//!
//! Invariant: a handle is in the table while its count is not zero. While an allocation is mapped,
//! it exists even if its handle is released.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, OnceLock};

use margay::memory::{Access, AddressSpace, GRANULARITY, MemoryError, Physical, SharedMemory};
use margay::{Runtime, Stream};
use parking_lot::Mutex;

use crate::convert::{In, Out, read_array};
use crate::guard::Call;
use crate::result::{CuResult, Served};
use crate::types::{CUarrayMapInfo, CUmemAccessDesc, CUmemAllocationProp, CUmemLocation};

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_uint = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, which is the only supported kind of handle. The
/// constant below contains the bits of all defined kinds.
pub(super) const DESCRIPTOR: c_uint = 1;
const NAMED_HANDLES: c_uint = 0xf;
/// `CU_MEM_LOCATION_TYPE_DEVICE`. The three constants below are the types `_HOST`, `_HOST_NUMA` and
/// `_HOST_NUMA_CURRENT`.
const ON_DEVICE: c_uint = 1;
const ON_HOST: c_uint = 2;
const ON_NODE: c_uint = 3;
const ON_THIS_NODE: c_uint = 4;
/// The ordinal that denotes the host.
const HOST: c_int = -1;
/// `CU_MEM_ALLOC_GRANULARITY_MINIMUM` and `CU_MEM_ALLOC_GRANULARITY_RECOMMENDED`.
const GRANULARITIES: std::ops::RangeInclusive<c_uint> = 0..=1;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`. The constant below is the flag for this kind of handle.
const DMA_BUF: c_uint = 1;
const DMA_BUF_PCIE: c_ulonglong = 1;

struct Handle {
    physical: Arc<Physical>,
    uses: u64,
}

fn handles() -> &'static Mutex<HashMap<u64, Handle>> {
    static HANDLES: OnceLock<Mutex<HashMap<u64, Handle>>> = OnceLock::new();
    HANDLES.get_or_init(Mutex::default)
}

/// Returns the handle of the physical allocation, and increments the number of releases after which
/// the handle becomes invalid.
fn handle_of(physical: Arc<Physical>) -> u64 {
    let number = physical.id() << 4 | 0xb;
    let mut handles = handles().lock();
    let entry = handles
        .entry(number)
        .or_insert(Handle { physical, uses: 0 });
    entry.uses += 1;
    number
}

fn physical(handle: u64) -> Result<Arc<Physical>, CuResult> {
    let handles = handles().lock();
    let found = handles.get(&handle).ok_or(CuResult::INVALID_VALUE)?;
    Ok(Arc::clone(&found.physical))
}

fn space() -> Result<&'static AddressSpace, CuResult> {
    Ok(Runtime::global()?.memory())
}

/// Converts a memory error to a result code.
fn code(error: MemoryError) -> CuResult {
    margay::Error::from(error).into()
}

/// Packs two properties of an allocation into the number that the allocation stores: the location
/// and the requested kinds of handles.
fn pack(location: &CUmemLocation, handles: c_uint) -> u64 {
    u64::from(location.kind) | u64::from(handles) << 8 | (location.id as u32 as u64) << 32
}

/// Checks the properties of a new allocation. Returns the ordinal of the device where they place
/// it, or -1 for the host.
fn place_of(properties: &CUmemAllocationProp) -> Result<c_int, CuResult> {
    let CUmemAllocationProp {
        kind,
        requested_handle_types: handles,
        location,
        win32_handle_meta_data,
        gpu_direct_rdma_capable,
        usage,
        compression_type,
        ..
    } = *properties;
    let known = kind == PINNED && handles & !NAMED_HANDLES == 0 && compression_type <= 1;
    if !known || !win32_handle_meta_data.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let device = location_device(&location)?;
    if handles & !DESCRIPTOR != 0 || gpu_direct_rdma_capable != 0 || usage != 0 {
        return Err(CuResult::NOT_SUPPORTED);
    }
    Ok(device)
}

/// Returns the ordinal of the device that `location` denotes, or -1 for the host.
fn location_device(location: &CUmemLocation) -> Result<c_int, CuResult> {
    match (location.kind, location.id) {
        (ON_DEVICE, id) => Ok(Runtime::global()?.device(id)?.ordinal()),
        (ON_HOST | ON_THIS_NODE, _) | (ON_NODE, 0) => Ok(HOST),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn mem_address_reserve(
    _: &Call,
    out: Out<u64>,
    size: usize,
    alignment: usize,
    hint: u64,
    flags: c_ulonglong,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let reserved = space()?.reserve(size as u64, alignment as u64, hint);
    out.set(reserved.map_err(code)?);
    Ok(())
}

pub(crate) fn mem_address_free(_: &Call, address: u64, size: usize) -> Served {
    space()?.unreserve(address, size as u64).map_err(code)
}

pub(crate) fn mem_create(
    _: &Call,
    out: Out<u64>,
    size: usize,
    properties: In<CUmemAllocationProp>,
    flags: c_ulonglong,
) -> Served {
    let properties = properties.0;
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let device = place_of(&properties)?;
    let handles = properties.requested_handle_types;
    let kept = pack(&properties.location, handles);
    let made = space()?.create_physical(size as u64, device, handles != 0, kept);
    out.set(handle_of(made.map_err(code)?));
    Ok(())
}

pub(crate) fn mem_release(_: &Call, handle: u64) -> Served {
    let mut handles = handles().lock();
    let found = handles.get_mut(&handle).ok_or(CuResult::INVALID_VALUE)?;
    found.uses -= 1;
    if found.uses == 0 {
        handles.remove(&handle);
    }
    Ok(())
}

pub(crate) fn mem_map(
    _: &Call,
    address: u64,
    size: usize,
    offset: usize,
    handle: u64,
    flags: c_ulonglong,
) -> Served {
    if flags != 0 || offset != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let physical = physical(handle)?;
    space()?.map(address, size as u64, &physical).map_err(code)
}

/// Unmaps a range without waiting. If a kernel still uses the memory, the kernel faults, as on a GPU.
pub(crate) fn mem_unmap(_: &Call, address: u64, size: usize) -> Served {
    space()?.unmap(address, size as u64).map_err(code)
}

pub(crate) fn mem_set_access(
    _: &Call,
    address: u64,
    size: usize,
    list: *const CUmemAccessDesc,
    count: usize,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let list = unsafe { read_array(list, count) }?;
    if list.is_empty() {
        return Err(CuResult::INVALID_VALUE);
    }
    let space = space()?;
    let mut wanted = Vec::new();
    for entry in &list {
        let device = location_device(&entry.location)?;
        wanted.push((device, access_of(entry.flags)?));
    }
    // The host cannot access the memory of a device.
    let memory = space.physical_at(address).ok_or(CuResult::INVALID_VALUE)?;
    if memory.device() != HOST && wanted.iter().any(|&(device, _)| device == HOST) {
        return Err(CuResult::INVALID_VALUE);
    }
    for (device, access) in wanted {
        space
            .set_access(address, size as u64, device, access)
            .map_err(code)?;
    }
    Ok(())
}

/// Converts `CUmemAccess_flags` to access rights.
pub(super) fn access_of(flags: c_uint) -> Result<Access, CuResult> {
    match flags {
        0 => Ok(Access::None),
        1 => Ok(Access::Read),
        3 => Ok(Access::ReadWrite),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// Converts access rights to `CUmemAccess_flags`.
pub(super) fn access_flags(access: Access) -> c_uint {
    match access {
        Access::None => 0,
        Access::Read => 1,
        Access::ReadWrite => 3,
    }
}

pub(crate) fn mem_get_access(
    _: &Call,
    flags: Out<c_ulonglong>,
    location: In<CUmemLocation>,
    address: u64,
) -> Served {
    let device = location_device(&location.0)?;
    let access = space()?.access(address, device);
    let access = access.ok_or(CuResult::INVALID_VALUE)?;
    flags.set(access_flags(access).into());
    Ok(())
}

pub(crate) fn mem_export_to_shareable_handle(
    _: &Call,
    out: *mut c_void,
    handle: u64,
    kind: c_uint,
    flags: c_ulonglong,
) -> Served {
    if out.is_null() || flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let physical = physical(handle)?;
    check_handle_kind(kind)?;
    if !physical.is_exportable() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; a descriptor is an int.
    unsafe { give_descriptor(out, physical.memory()) }
}

/// Returns an error if `kind` is not the kind of handle that is supported ([`DESCRIPTOR`]).
pub(super) fn check_handle_kind(kind: c_uint) -> Served {
    match kind {
        DESCRIPTOR => Ok(()),
        2 | 4 | 8 => Err(CuResult::NOT_SUPPORTED),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// # Safety
/// `out` must point to memory for an int.
pub(super) unsafe fn give_descriptor(out: *mut c_void, memory: &SharedMemory) -> Served {
    let descriptor = memory.duplicate().map_err(code)?.into_raw_fd();
    // SAFETY: the caller guarantees memory for an int.
    unsafe { out.cast::<c_int>().write_unaligned(descriptor) };
    Ok(())
}

/// Opens the shared memory of the file descriptor that `handle` contains: the program passes the
/// descriptor as the value of a pointer.
pub(super) fn take_descriptor(handle: *mut c_void) -> Result<SharedMemory, CuResult> {
    let descriptor = c_int::try_from(handle as usize).map_err(|_| CuResult::INVALID_VALUE)?;
    SharedMemory::from_descriptor(descriptor).map_err(code)
}

pub(crate) fn mem_import_from_shareable_handle(
    _: &Call,
    out: Out<u64>,
    handle: *mut c_void,
    kind: c_uint,
) -> Served {
    check_handle_kind(kind)?;
    let memory = take_descriptor(handle)?;
    let device = memory.label().device;
    // The exporting process may have more devices than this process.
    if device != HOST {
        Runtime::global()?
            .device(device)
            .map_err(|_| CuResult::INVALID_VALUE)?;
    }
    let physical = space()?.import_physical(memory).map_err(code)?;
    out.set(handle_of(physical));
    Ok(())
}

pub(crate) fn mem_get_allocation_granularity(
    _: &Call,
    granularity: Out<usize>,
    properties: In<CUmemAllocationProp>,
    option: c_uint,
) -> Served {
    if !GRANULARITIES.contains(&option) {
        return Err(CuResult::INVALID_VALUE);
    }
    // CUDA documents an invalid device as `INVALID_VALUE` for this function.
    match place_of(&properties.0) {
        Ok(_) => granularity.set(GRANULARITY as usize),
        Err(CuResult::INVALID_DEVICE) => return Err(CuResult::INVALID_VALUE),
        Err(other) => return Err(other),
    }
    Ok(())
}

pub(crate) fn mem_get_allocation_properties_from_handle(
    _: &Call,
    out: Out<CUmemAllocationProp>,
    handle: u64,
) -> Served {
    let physical = physical(handle)?;
    let kept = physical.flags();
    let location = match (kept, physical.device()) {
        (0, HOST) => CUmemLocation {
            kind: ON_HOST,
            id: 0,
        },
        (0, device) => CUmemLocation {
            kind: ON_DEVICE,
            id: device,
        },
        _ => CUmemLocation {
            kind: (kept & 0xff) as c_uint,
            id: (kept >> 32) as c_int,
        },
    };
    out.set(CUmemAllocationProp {
        kind: PINNED,
        requested_handle_types: match kept {
            0 => DESCRIPTOR,
            _ => (kept >> 8) as c_uint & NAMED_HANDLES,
        },
        location,
        win32_handle_meta_data: std::ptr::null_mut(),
        compression_type: 0,
        gpu_direct_rdma_capable: 0,
        usage: 0,
        reserved: [0; 4],
    });
    Ok(())
}

pub(crate) fn mem_retain_allocation_handle(
    _: &Call,
    out: Out<u64>,
    address: *mut c_void,
) -> Served {
    let physical = space()?.physical_at(address as u64);
    out.set(handle_of(physical.ok_or(CuResult::INVALID_VALUE)?));
    Ok(())
}

/// Always fails, because memory cannot be exported as DMA buffers. The value of the device
/// attribute for DMA buffers states this, too.
pub(crate) fn mem_get_handle_for_address_range(
    _: &Call,
    out: *mut c_void,
    address: u64,
    size: usize,
    kind: c_uint,
    flags: c_ulonglong,
) -> Served {
    let space = space()?;
    let aligned = address.is_multiple_of(4096) && size.is_multiple_of(4096) && size != 0;
    let known = kind == DMA_BUF && flags & !DMA_BUF_PCIE == 0;
    if out.is_null() || !aligned || !known || space.find(address).is_none() {
        return Err(CuResult::INVALID_VALUE);
    }
    Err(CuResult::NOT_SUPPORTED)
}

/// Always fails, because no array is sparse.
pub(crate) fn mem_map_array_async(
    _: &Call,
    list: *mut CUarrayMapInfo,
    count: c_uint,
    _stream: Stream,
) -> Served {
    match list.is_null() || count == 0 {
        true => Err(CuResult::INVALID_VALUE),
        false => Err(CuResult::NOT_SUPPORTED),
    }
}
