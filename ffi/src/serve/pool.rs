//! Implements the entry points for memory pools and stream-ordered allocation.
//!
//! A pool contains only statistics and settings. Its memory comes from the device's allocator,
//! which caches freed memory. In contrast, a pool that other processes can use has a separate
//! memory file. Each kind and location of memory ([`PoolLocation`]) has a default pool.
//!
//! Invariant: the used bytes of a pool are the sum of the sizes of its allocations that are not freed yet.

pub(super) use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use margay::memory::{Access, Arena, GRANULARITY, SharedKind};
use margay::{Device, DevicePtr, Runtime, Stream};
use parking_lot::Mutex;

use super::virtual_memory::{
    DESCRIPTOR, access_flags, access_of, check_handle_kind, give_descriptor, take_descriptor,
};

use super::ipc::{Named, pack, unpack};
use crate::checking;
use crate::convert::{In, Out, read_array};
use crate::guard::Call;
use crate::handles::{PoolLocation, PoolObject, current, pools};
use crate::result::{CuResult, Served};
use crate::types::{
    CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemPoolPtrExportData, CUmemoryPool,
};

/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_uint = 1;
/// All defined bits of `CUmemAllocationHandleType`.
const NAMED_HANDLES: c_uint = 0xf;

/// `CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS`, the only defined use of a pool. Any memory is suitable for it.
const FOR_DECOMPRESSION: u16 = 2;

/// The numbers of three attributes of a pool that permit or forbid the reuse of memory; their type
/// is int. The constants below are the numbers of the other attributes.
const REUSE: std::ops::RangeInclusive<c_uint> = 1..=3;
const RELEASE_THRESHOLD: c_uint = 4;
const RESERVED_CURRENT: c_uint = 5;
const RESERVED_HIGH: c_uint = 6;
const USED_CURRENT: c_uint = 7;
const USED_HIGH: c_uint = 8;
const ALLOCATION_TYPE: c_uint = 9;
const HANDLE_TYPES: c_uint = 10;
const LOCATION_ID: c_uint = 11;
const LOCATION_TYPE: c_uint = 12;
const MAX_SIZE: c_uint = 13;
const DECOMPRESS: c_uint = 14;
const LOCALITY_DOMAIN: c_uint = 15;

impl PoolObject {
    fn new(place: PoolLocation) -> PoolObject {
        PoolObject {
            place,
            reuse: [1, 1, 1].map(AtomicU64::new),
            ..PoolObject::default()
        }
    }

    /// Adds the size of an allocation to the pool's used bytes. Returns an error if the pool would exceed its maximum
    /// size.
    fn take(&self, bytes: u64) -> Served {
        let order = Ordering::Relaxed;
        let fits = |used: u64| {
            let after = used.checked_add(bytes)?;
            (self.max_size == 0 || after <= self.max_size).then_some(after)
        };
        let before = self.used.fetch_update(order, order, fits);
        let used = before.map_err(|_| CuResult::OUT_OF_MEMORY)? + bytes;
        self.high.fetch_max(used, Ordering::Relaxed);
        self.reserved_high.fetch_max(used, Ordering::Relaxed);
        Ok(())
    }

    fn gave_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The pool and the size of an allocation that came from a pool. The entry stays in the map
/// [`Allocations`] until the allocation is freed.
struct Allocation {
    pool: Arc<PoolObject>,
    bytes: u64,
}

type Allocations = HashMap<u64, Allocation>;

fn allocations() -> &'static Mutex<Allocations> {
    static ALLOCATIONS: OnceLock<Mutex<Allocations>> = OnceLock::new();
    ALLOCATIONS.get_or_init(Mutex::default)
}

/// The handles of two pools of a location: its default pool, and the pool for allocations that name
/// no pool.
#[derive(Clone, Copy)]
struct PlacePools {
    default: usize,
    current: usize,
}

/// Calls `work` with the handles of the pools of a location. The first call for a location creates
/// its default pool.
fn with_pools<R>(
    place: PoolLocation,
    work: impl FnOnce(&mut PlacePools) -> R,
) -> Result<R, CuResult> {
    static POOLS: OnceLock<Mutex<HashMap<PoolLocation, PlacePools>>> = OnceLock::new();
    let mut all = POOLS.get_or_init(Mutex::default).lock();
    let known = match all.entry(place) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(free) => {
            let pool = PoolObject {
                is_default: true,
                ..PoolObject::new(place)
            };
            let pool = pools().insert(Arc::new(pool));
            let default = pool.ok_or(CuResult::OUT_OF_MEMORY)?;
            let current = default;
            free.insert(PlacePools { default, current })
        }
    };
    Ok(work(known))
}

/// Returns the default pool of a location.
fn default_pool(place: PoolLocation) -> Result<CUmemoryPool, CuResult> {
    with_pools(place, |pools| CUmemoryPool(pools.default))
}

/// Returns the pool for allocations at `place` that name no pool. If the program has destroyed this
/// pool, returns the default pool.
fn current_pool(place: PoolLocation) -> Result<CUmemoryPool, CuResult> {
    with_pools(place, |known| match pools().get(known.current) {
        Some(_) => CUmemoryPool(known.current),
        None => CUmemoryPool(known.default),
    })
}

/// Makes `pool` the pool for allocations at `place` that name no pool. `pool` must have the same
/// location, and must not be imported.
fn set_current_pool(place: PoolLocation, pool: CUmemoryPool) -> Served {
    let found = find(pool)?;
    if found.place != place || found.imported {
        return Err(CuResult::INVALID_VALUE);
    }
    with_pools(place, |pools| pools.current = pool.0)
}

/// Returns the pool from which the allocation at `address` came; `None` if it came from no pool.
pub(crate) fn pool_of(address: u64) -> Option<CUmemoryPool> {
    let allocations = allocations().lock();
    let pool = &allocations.get(&address)?.pool;
    pools()
        .find(|known| Arc::ptr_eq(known, pool))
        .map(CUmemoryPool)
}

fn find(pool: CUmemoryPool) -> Result<Arc<PoolObject>, CuResult> {
    pools().get(pool.0).ok_or(CuResult::INVALID_VALUE)
}

fn alloc(out: &Out<u64>, bytes: usize, pool: Arc<PoolObject>, stream: &Stream) -> Served {
    if pool.imported {
        return Err(CuResult::INVALID_VALUE);
    }
    stream.context().status()?;
    if bytes == 0 {
        // In contrast to `cuMemAlloc`, an allocation of size 0 succeeds. Its null pointer can be freed like any other
        // pointer.
        out.set(0);
        return Ok(());
    }
    stream.capture_status()?;
    let place = pool.place;
    if let Some(captured) = stream.alloc_captured(bytes as u64, place.pointers(), place.pack()) {
        // The graph, and not the pool, owns the allocation.
        out.set(captured?.address());
        return Ok(());
    }
    pool.take(bytes as u64)?;
    let context = stream.context();
    let (device, kind) = (place.counted(context), place.pointers());
    let address = match context.alloc_from_pool(bytes as u64, device, kind, pool.arena.as_ref()) {
        Ok(pointer) => pointer.address(),
        Err(error) => {
            pool.gave_back(bytes as u64);
            return Err(error.into());
        }
    };
    let entry = Allocation {
        pool,
        bytes: bytes as u64,
    };
    let replaced = allocations().lock().insert(address, entry);
    if let Some(ended) = replaced {
        // A reset freed the earlier allocation, and `forget_ended` has not removed its entry yet.
        ended.pool.gave_back(ended.bytes);
    }
    stream.note_allocation(DevicePtr::new(address));
    out.set(address);
    Ok(())
}

pub(crate) fn mem_alloc_async(_: &Call, out: Out<u64>, bytes: usize, stream: Stream) -> Served {
    let place = PoolLocation::device(stream.context().device().ordinal());
    alloc(&out, bytes, find(current_pool(place)?)?, &stream)
}

pub(crate) fn mem_alloc_from_pool_async(
    _: &Call,
    out: Out<u64>,
    bytes: usize,
    pool: Arc<PoolObject>,
    stream: Stream,
) -> Served {
    alloc(&out, bytes, pool, &stream)
}

pub(crate) fn mem_free_async(_: &Call, address: u64, stream: Stream) -> Served {
    if address == 0 {
        return Ok(stream.context().status()?);
    }
    let freed = free_counted(address, || stream.free_async(DevicePtr::new(address)));
    freed.inspect_err(|_| checking::bad_free(address))
}

/// Returns whether an allocation from a pool begins at the address.
fn is_pooled(address: u64) -> Result<bool, CuResult> {
    let info = Runtime::global()?.pointer_info(address);
    Ok(info.is_some_and(|info| info.pooled && info.base == address))
}

/// Frees the memory at `address` by calling `free`. If the memory comes from a pool, subtracts its
/// size from the pool's used bytes. Returns `INVALID_VALUE` if the allocation came from a pool and
/// a free of it has already been submitted to a stream.
pub(crate) fn free_counted(address: u64, free: impl FnOnce() -> margay::Result<()>) -> Served {
    // Remove the entry first: once the memory is freed, another thread may allocate the same address.
    let entry = allocations().lock().remove(&address);
    if entry.is_none() && is_pooled(address)? {
        return Err(CuResult::INVALID_VALUE);
    }
    match free() {
        Ok(()) => {
            if let Some(entry) = entry {
                entry.pool.gave_back(entry.bytes);
            }
            Ok(())
        }
        Err(error) => {
            let entry = entry.map(|entry| (address, entry));
            allocations().lock().extend(entry);
            Err(error.into())
        }
    }
}

/// Removes the allocations whose memory was freed because a primary context ended, and subtracts
/// their sizes from the used bytes of their pools.
pub(super) fn forget_ended(runtime: &Runtime) {
    let remains = |address: u64| {
        let info = runtime.pointer_info(address);
        info.is_some_and(|info| info.pooled && info.base == address)
    };
    allocations().lock().retain(|&address, allocation| {
        let remains = remains(address);
        if !remains {
            allocation.pool.gave_back(allocation.bytes);
        }
        remains
    });
}

/// Does nothing: a pool keeps no unused memory that could be returned to the system.
pub(crate) fn mem_pool_trim_to(_: &Call, _pool: Arc<PoolObject>, _keep: usize) -> Served {
    Ok(())
}

pub(crate) fn mem_pool_get_attribute(
    _: &Call,
    pool: Arc<PoolObject>,
    attribute: c_uint,
    value: *mut c_void,
) -> Served {
    if value.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let long = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let answer = match attribute {
        number if REUSE.contains(&number) => {
            let number = long(&pool.reuse[number as usize - 1]);
            // SAFETY: the caller guarantees memory for an int.
            unsafe { value.cast::<i32>().write_unaligned(number as i32) };
            return Ok(());
        }
        RELEASE_THRESHOLD => long(&pool.threshold),
        RESERVED_CURRENT | USED_CURRENT => long(&pool.used),
        RESERVED_HIGH => long(&pool.reserved_high),
        USED_HIGH => long(&pool.high),
        MAX_SIZE if pool.max_size == 0 => {
            let device = pool.place.pinned_device().unwrap_or(0);
            Runtime::global()?.device(device)?.total_memory()
        }
        MAX_SIZE => pool.max_size,
        ALLOCATION_TYPE | LOCATION_TYPE | LOCATION_ID | HANDLE_TYPES | DECOMPRESS
        | LOCALITY_DOMAIN => {
            let (kind, location, id) = pool.place.told();
            let answer = match attribute {
                ALLOCATION_TYPE => kind,
                LOCATION_TYPE => location,
                LOCATION_ID => id,
                LOCALITY_DOMAIN => -1,
                DECOMPRESS => pool.decompresses.into(),
                HANDLE_TYPES if pool.arena.is_some() && !pool.imported => DESCRIPTOR as i32,
                _ => 0,
            };
            // SAFETY: the caller guarantees memory for an int or an enumeration.
            unsafe { value.cast::<i32>().write_unaligned(answer) };
            return Ok(());
        }
        _ => return Err(CuResult::INVALID_VALUE),
    };
    // SAFETY: the caller guarantees memory for 64 bits.
    unsafe { value.cast::<u64>().write_unaligned(answer) };
    Ok(())
}

pub(crate) fn mem_pool_set_attribute(
    _: &Call,
    pool: Arc<PoolObject>,
    attribute: c_uint,
    value: *mut c_void,
) -> Served {
    if value.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    if REUSE.contains(&attribute) {
        // SAFETY: the caller passed an int.
        let on = unsafe { value.cast::<i32>().read_unaligned() } != 0;
        pool.reuse[attribute as usize - 1].store(u64::from(on), Ordering::Relaxed);
        return Ok(());
    }
    // SAFETY: the other settable attributes have 64 bits.
    let given = || unsafe { value.cast::<u64>().read_unaligned() };
    let used = pool.used.load(Ordering::Relaxed);
    match attribute {
        RELEASE_THRESHOLD => pool.threshold.store(given(), Ordering::Relaxed),
        // The only valid value for a high-water mark is 0, which resets the mark to the current use.
        RESERVED_HIGH if given() == 0 => pool.reserved_high.store(used, Ordering::Relaxed),
        USED_HIGH if given() == 0 => pool.high.store(used, Ordering::Relaxed),
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}

/// Stores access rights, which only queries use. Kernels are not restricted by them, because all
/// devices belong to this process.
pub(crate) fn mem_pool_set_access(
    _: &Call,
    pool: Arc<PoolObject>,
    map: *const CUmemAccessDesc,
    count: usize,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let map = unsafe { read_array(map, count) }?;
    let mut wanted = Vec::new();
    for entry in &map {
        let place = PoolLocation::of(&entry.location, PINNED)?;
        let access = access_of(entry.flags)?;
        // A location cannot lose the access to its own memory.
        let own = place.first_access(pool.place) == Access::ReadWrite;
        if own && access != Access::ReadWrite {
            return Err(CuResult::INVALID_VALUE);
        }
        wanted.push((place, access));
    }
    pool.access.lock().extend(wanted);
    Ok(())
}

pub(crate) fn mem_pool_get_access(
    _: &Call,
    flags: Out<c_uint>,
    pool: Arc<PoolObject>,
    location: *mut CUmemLocation,
) -> Served {
    if location.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let place = PoolLocation::of(&unsafe { location.read_unaligned() }, PINNED)?;
    let access = pool.access.lock().get(&place).copied();
    let first = place.first_access(pool.place);
    flags.set(access_flags(access.unwrap_or(first)));
    Ok(())
}

pub(crate) fn mem_pool_create(
    _: &Call,
    out: Out<CUmemoryPool>,
    properties: In<CUmemPoolProps>,
) -> Served {
    let properties = properties.0;
    let handles = properties.handle_types;
    if handles & !NAMED_HANDLES != 0 || properties.reserved != [0; 53] {
        return Err(CuResult::INVALID_VALUE);
    }
    let place = PoolLocation::of(&properties.location, properties.alloc_type)?;
    if place.is_managed() && properties.max_size != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let other = handles & !DESCRIPTOR != 0 || properties.usage & !FOR_DECOMPRESSION != 0;
    if other || properties.gpu_direct_rdma_capable != 0 {
        return Err(CuResult::NOT_SUPPORTED);
    }
    let mut pool = PoolObject {
        max_size: properties.max_size as u64,
        decompresses: properties.usage & FOR_DECOMPRESSION != 0,
        ..PoolObject::new(place)
    };
    if handles == DESCRIPTOR {
        let label = place.label().ok_or(CuResult::INVALID_VALUE)?;
        let device = place.pinned_device().unwrap_or(0);
        let total = Runtime::global()?.device(device)?.total_memory();
        let most = match pool.max_size {
            0 => total,
            size => size.min(total),
        };
        // The arena is twice as large as the pool, because rounding leaves gaps between allocations. Its size is a
        // multiple of the largest page size.
        let room = most.saturating_mul(2).next_multiple_of(GRANULARITY);
        let arena = Arena::new(room, label).map_err(|_| CuResult::OUT_OF_MEMORY)?;
        pool.arena = Some(Arc::new(arena));
    }
    let pool = pools().insert(Arc::new(pool));
    out.set(CUmemoryPool(pool.ok_or(CuResult::OUT_OF_MEMORY)?));
    Ok(())
}

pub(crate) fn mem_pool_destroy(_: &Call, pool: CUmemoryPool) -> Served {
    let place = find(pool)?.place;
    if pool == default_pool(place)? {
        return Err(CuResult::INVALID_VALUE);
    }
    pools()
        .remove(pool.0)
        .map(|_| ())
        .ok_or(CuResult::INVALID_VALUE)
}

/// Converts a location and a kind of memory to a [`PoolLocation`]. Returns `INVALID_VALUE` if
/// `location` is null.
fn check_place(location: *mut CUmemLocation, kind: c_uint) -> Result<PoolLocation, CuResult> {
    if location.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    PoolLocation::of(&unsafe { location.read_unaligned() }, kind)
}

pub(crate) fn mem_get_default_mem_pool(
    _: &Call,
    pool: Out<CUmemoryPool>,
    location: *mut CUmemLocation,
    kind: c_uint,
) -> Served {
    pool.set(default_pool(check_place(location, kind)?)?);
    Ok(())
}

pub(crate) fn mem_get_mem_pool(
    _: &Call,
    pool: Out<CUmemoryPool>,
    location: *mut CUmemLocation,
    kind: c_uint,
) -> Served {
    pool.set(current_pool(check_place(location, kind)?)?);
    Ok(())
}

pub(crate) fn mem_set_mem_pool(
    _: &Call,
    location: *mut CUmemLocation,
    kind: c_uint,
    pool: CUmemoryPool,
) -> Served {
    set_current_pool(check_place(location, kind)?, pool)
}

pub(crate) fn device_get_default_mem_pool(
    _: &Call,
    pool: Out<CUmemoryPool>,
    device: Device,
) -> Served {
    pool.set(default_pool(PoolLocation::device(device.ordinal()))?);
    Ok(())
}

pub(crate) fn device_get_mem_pool(_: &Call, pool: Out<CUmemoryPool>, device: Device) -> Served {
    pool.set(current_pool(PoolLocation::device(device.ordinal()))?);
    Ok(())
}

pub(crate) fn device_set_mem_pool(_: &Call, device: Device, pool: CUmemoryPool) -> Served {
    set_current_pool(PoolLocation::device(device.ordinal()), pool)
}

/// Returns a new file descriptor for a pool's memory. The program owns the descriptor.
pub(crate) fn mem_pool_export_to_shareable_handle(
    _: &Call,
    out: *mut c_void,
    pool: Arc<PoolObject>,
    kind: c_uint,
    flags: c_ulonglong,
) -> Served {
    if out.is_null() || flags != 0 || pool.imported {
        return Err(CuResult::INVALID_VALUE);
    }
    check_handle_kind(kind).map_err(|_| CuResult::INVALID_VALUE)?;
    let arena = pool.arena.as_ref().ok_or(CuResult::INVALID_VALUE)?;
    // SAFETY: the pointer is not null; a descriptor is an int.
    unsafe { give_descriptor(out, arena.memory()) }
}

pub(crate) fn mem_pool_import_from_shareable_handle(
    _: &Call,
    out: Out<CUmemoryPool>,
    handle: *mut c_void,
    kind: c_uint,
    flags: c_ulonglong,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    check_handle_kind(kind).map_err(|_| CuResult::INVALID_VALUE)?;
    let memory = take_descriptor(handle)?;
    let label = memory.label();
    if label.kind != SharedKind::Pool {
        return Err(CuResult::INVALID_VALUE);
    }
    let pool = PoolObject {
        arena: Some(Arc::new(Arena::of(memory))),
        imported: true,
        ..PoolObject::new(PoolLocation::of_label(label.device)?)
    };
    let pool = pools().insert(Arc::new(pool));
    out.set(CUmemoryPool(pool.ok_or(CuResult::OUT_OF_MEMORY)?));
    Ok(())
}

const POINTER_MAGIC: u64 = u64::from_le_bytes(*b"mrgyPtr1");

pub(crate) fn mem_pool_export_pointer(
    _: &Call,
    out: Out<CUmemPoolPtrExportData>,
    address: u64,
) -> Served {
    let runtime = Runtime::global()?;
    let info = runtime.pointer_info(address);
    let info = info.ok_or(CuResult::INVALID_VALUE)?;
    let found = runtime.memory().arena_offset(info.base);
    let (arena, offset) = found.ok_or(CuResult::INVALID_VALUE)?;
    let named = Named {
        file: arena
            .memory()
            .address()
            .map_err(|_| CuResult::OUT_OF_MEMORY)?,
        offset,
        size: info.size,
    };
    out.set(CUmemPoolPtrExportData {
        reserved: pack(POINTER_MAGIC, &named),
    });
    Ok(())
}

/// Maps an allocation that another process exported from a pool which this process has imported.
/// The process that exported the allocation may have ended.
pub(crate) fn mem_pool_import_pointer(
    _: &Call,
    out: Out<u64>,
    pool: Arc<PoolObject>,
    data: *mut CUmemPoolPtrExportData,
) -> Served {
    if data.is_null() || !pool.imported {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let data = unsafe { data.read_unaligned() };
    let named = unpack(POINTER_MAGIC, &data.reserved).ok_or(CuResult::INVALID_VALUE)?;
    let arena = pool.arena.as_ref().ok_or(CuResult::INVALID_VALUE)?;
    let same = arena.memory().address();
    if same.map_or(0, |file| file.inode) != named.file.inode {
        return Err(CuResult::INVALID_VALUE);
    }
    let context = current()?;
    let pointer = context.import_pooled(arena, named.offset, named.size)?;
    out.set(pointer.address());
    Ok(())
}
