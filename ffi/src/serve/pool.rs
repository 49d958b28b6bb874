//! Memory pools and stream-ordered allocation.
//!
//! A pool is bookkeeping: the memory comes from the device's one allocator, which caches what is
//! freed. Invariant: a pool's used bytes are those of the allocations made from it and not yet
//! freed.

use std::collections::HashMap;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use margay::{Context, DevicePtr, Stream};
use parking_lot::Mutex;

use crate::convert::{In, Out, read_array};
use crate::guard::Call;
use crate::handles::pools;
use crate::result::{CuResult, Served};
use crate::types::{CUmemAccessDesc, CUmemLocation, CUmemPoolProps, CUmemoryPool};

/// `CU_MEM_ALLOCATION_TYPE_PINNED`, the kind of a device's pool.
const PINNED: c_uint = 1;
const LOCATION_DEVICE: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_WRITE: c_uint = 3;

/// The three switches of reuse come first; they are of type int.
const REUSE: std::ops::RangeInclusive<c_uint> = 1..=3;
const RELEASE_THRESHOLD: c_uint = 4;
const RESERVED_CURRENT: c_uint = 5;
const RESERVED_HIGH: c_uint = 6;
const USED_CURRENT: c_uint = 7;
const USED_HIGH: c_uint = 8;

/// A memory pool.
#[derive(Default)]
pub(crate) struct PoolObject {
    reuse: [AtomicU64; 3],
    threshold: AtomicU64,
    used: AtomicU64,
    high: AtomicU64,
    reserved_high: AtomicU64,
}

impl PoolObject {
    fn new() -> PoolObject {
        PoolObject {
            reuse: [1, 1, 1].map(AtomicU64::new),
            ..PoolObject::default()
        }
    }

    fn took(&self, bytes: u64) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.high.fetch_max(used, Ordering::Relaxed);
        self.reserved_high.fetch_max(used, Ordering::Relaxed);
    }

    fn gave_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An allocation that is in use.
struct Allocation {
    pool: Arc<PoolObject>,
    bytes: u64,
    context: u64,
}

type Allocations = HashMap<u64, Allocation>;

fn allocations() -> &'static Mutex<Allocations> {
    static ALLOCATIONS: OnceLock<Mutex<Allocations>> = OnceLock::new();
    ALLOCATIONS.get_or_init(Mutex::default)
}

/// The device's own pool.
pub(crate) fn default_pool() -> Result<CUmemoryPool, CuResult> {
    static POOL: OnceLock<Option<usize>> = OnceLock::new();
    POOL.get_or_init(|| pools().insert(Arc::new(PoolObject::new())))
        .map(CUmemoryPool)
        .ok_or(CuResult::OUT_OF_MEMORY)
}

/// The pool that was made the device's current one; 0: the default one.
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// The pool that allocations without one come from.
pub(crate) fn device_pool() -> Result<CUmemoryPool, CuResult> {
    match CURRENT.load(Ordering::Acquire) {
        handle if pools().get(handle).is_some() => Ok(CUmemoryPool(handle)),
        _ => default_pool(),
    }
}

/// Changes the pool that allocations without one come from.
pub(crate) fn set_device_pool(pool: CUmemoryPool) -> Served {
    find(pool)?;
    CURRENT.store(pool.0, Ordering::Release);
    Ok(())
}

fn find(pool: CUmemoryPool) -> Result<Arc<PoolObject>, CuResult> {
    pools().get(pool.0).ok_or(CuResult::INVALID_VALUE)
}

fn alloc(out: &Out<u64>, bytes: usize, pool: Arc<PoolObject>, stream: &Stream) -> Served {
    let address = stream.alloc_async(bytes as u64)?.address();
    pool.took(bytes as u64);
    let entry = Allocation {
        pool,
        bytes: bytes as u64,
        context: stream.context().id(),
    };
    allocations().lock().insert(address, entry);
    out.set(address);
    Ok(())
}

pub(crate) fn mem_alloc_async(_: &Call, out: Out<u64>, bytes: usize, stream: Stream) -> Served {
    alloc(&out, bytes, find(device_pool()?)?, &stream)
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
    free_counted(address, || stream.free_async(DevicePtr::new(address)))
}

/// Frees by `free` what may be an allocation from a pool.
pub(crate) fn free_counted(address: u64, free: impl FnOnce() -> margay::Result<()>) -> Served {
    // Forgotten first: once freed, the address may come back from another thread's allocation.
    let entry = allocations().lock().remove(&address);
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

/// Counts everything of a context as freed.
pub(crate) fn forget_allocations_of(context: &Context) {
    allocations().lock().retain(|_, entry| {
        let gone = entry.context == context.id();
        if gone {
            entry.pool.gave_back(entry.bytes);
        }
        !gone
    });
}

/// Nothing is held that could be given back to the system.
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
            // SAFETY: the caller gave room for an int.
            unsafe { value.cast::<i32>().write_unaligned(number as i32) };
            return Ok(());
        }
        RELEASE_THRESHOLD => long(&pool.threshold),
        RESERVED_CURRENT | USED_CURRENT => long(&pool.used),
        RESERVED_HIGH => long(&pool.reserved_high),
        USED_HIGH => long(&pool.high),
        _ => return Err(CuResult::INVALID_VALUE),
    };
    // SAFETY: the caller gave room for 64 bits.
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
        // High-water marks can only be reset.
        RESERVED_HIGH if given() == 0 => pool.reserved_high.store(used, Ordering::Relaxed),
        USED_HIGH if given() == 0 => pool.high.store(used, Ordering::Relaxed),
        _ => return Err(CuResult::INVALID_VALUE),
    }
    Ok(())
}

/// The one device always has access.
pub(crate) fn mem_pool_set_access(
    _: &Call,
    _pool: Arc<PoolObject>,
    map: *const CUmemAccessDesc,
    count: usize,
) -> Served {
    // SAFETY: the caller vouches for `count` elements.
    for access in unsafe { read_array(map, count) }? {
        if access.location.kind != LOCATION_DEVICE || access.location.id != 0 {
            return Err(CuResult::INVALID_DEVICE);
        }
        if access.flags != READ_WRITE {
            return Err(CuResult::INVALID_VALUE);
        }
    }
    Ok(())
}

pub(crate) fn mem_pool_get_access(
    _: &Call,
    flags: Out<c_uint>,
    _pool: Arc<PoolObject>,
    location: *mut CUmemLocation,
) -> Served {
    if location.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the rest.
    let location = unsafe { location.read_unaligned() };
    if location.kind != LOCATION_DEVICE || location.id != 0 {
        return Err(CuResult::INVALID_DEVICE);
    }
    flags.set(READ_WRITE);
    Ok(())
}

pub(crate) fn mem_pool_create(
    _: &Call,
    out: Out<CUmemoryPool>,
    properties: In<CUmemPoolProps>,
) -> Served {
    let properties = properties.0;
    if properties.alloc_type != PINNED {
        return Err(CuResult::INVALID_VALUE);
    }
    if properties.handle_types != 0 || properties.location.kind != LOCATION_DEVICE {
        return Err(CuResult::NOT_SUPPORTED);
    }
    if properties.location.id != 0 {
        return Err(CuResult::INVALID_DEVICE);
    }
    let pool = pools().insert(Arc::new(PoolObject::new()));
    out.set(CUmemoryPool(pool.ok_or(CuResult::OUT_OF_MEMORY)?));
    Ok(())
}

pub(crate) fn mem_pool_destroy(_: &Call, pool: CUmemoryPool) -> Served {
    if pool == default_pool()? {
        return Err(CuResult::INVALID_VALUE);
    }
    pools()
        .remove(pool.0)
        .map(|_| ())
        .ok_or(CuResult::INVALID_VALUE)
}

/// The device that a location names: pinned memory of the one device is all there is.
fn check_place(location: *mut CUmemLocation, kind: c_uint) -> Served {
    if location.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the rest.
    let location = unsafe { location.read_unaligned() };
    match (location.kind, location.id, kind) {
        (LOCATION_DEVICE, 0, PINNED) => Ok(()),
        (LOCATION_DEVICE, 0, _) => Err(CuResult::NOT_SUPPORTED),
        (LOCATION_DEVICE, ..) => Err(CuResult::INVALID_DEVICE),
        _ => Err(CuResult::NOT_SUPPORTED),
    }
}

pub(crate) fn mem_get_default_mem_pool(
    _: &Call,
    pool: Out<CUmemoryPool>,
    location: *mut CUmemLocation,
    kind: c_uint,
) -> Served {
    check_place(location, kind)?;
    pool.set(default_pool()?);
    Ok(())
}

pub(crate) fn mem_get_mem_pool(
    _: &Call,
    pool: Out<CUmemoryPool>,
    location: *mut CUmemLocation,
    kind: c_uint,
) -> Served {
    check_place(location, kind)?;
    pool.set(device_pool()?);
    Ok(())
}

pub(crate) fn mem_set_mem_pool(
    _: &Call,
    location: *mut CUmemLocation,
    kind: c_uint,
    pool: CUmemoryPool,
) -> Served {
    check_place(location, kind)?;
    set_device_pool(pool)
}
