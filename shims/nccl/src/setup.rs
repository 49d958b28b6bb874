//! Creates and destroys communicators, and answers questions about them.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::comm::{self, Comm, Key, Member};
use crate::driver::{checked, driver};
use crate::group::{self, Job, derived};
use crate::place;
use crate::status::{Outcome, Status, failure, need};

/// The version of NCCL whose functions this library has: 2.27.7.
const VERSION: i32 = 22_707;

/// The first bytes of an identifier.
const MAGIC: [u8; 8] = *b"MargayID";

fn stored(done: Option<()>) -> Outcome {
    need(done.is_some(), "the place for a result is not writable")
}

/// `ncclGetVersion`.
pub(crate) fn version(place: *mut i32) -> Outcome {
    stored(place::write(place, VERSION))
}

/// Returns a number that differs between hosts.
fn host() -> u64 {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let key = derived(
        [0; 16],
        &id.iter().map(|&byte| u64::from(byte)).collect::<Vec<_>>(),
    );
    let mut half = [0; 8];
    half.copy_from_slice(&key[..8]);
    u64::from_le_bytes(half)
}

fn fresh_key() -> Key {
    let mut key = [0; 16];
    for half in key.chunks_mut(8) {
        half.copy_from_slice(
            &RandomState::new()
                .hash_one(std::process::id())
                .to_le_bytes(),
        );
    }
    let mut bytes = [0u8; 16];
    // SAFETY: the array has 16 bytes. Without the system's random numbers, the hasher's keys remain.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    std::array::from_fn(|index| key[index] ^ bytes[index])
}

/// Returns an identifier: the magic bytes, the host, the key.
fn identifier(key: Key) -> [u8; 128] {
    let mut id = [0; 128];
    id[..8].copy_from_slice(&MAGIC);
    id[8..16].copy_from_slice(&host().to_le_bytes());
    id[16..32].copy_from_slice(&key);
    id
}

/// `ncclGetUniqueId`.
pub(crate) fn unique_id(place: *mut [u8; 128]) -> Outcome {
    stored(place::write(place, identifier(fresh_key())))
}

/// Returns the key in an identifier.
fn key_of(id: &[u8; 128]) -> Outcome<Key> {
    need(
        id[..8] == MAGIC,
        "the identifier does not come from ncclGetUniqueId of Margay's NCCL",
    )?;
    if id[8..16] != host().to_le_bytes() {
        let text = "the ranks are on several hosts, which Margay's NCCL does not support";
        return Err(failure(Status::SYSTEM, text));
    }
    let mut key = [0; 16];
    key.copy_from_slice(&id[16..32]);
    Ok(key)
}

/// Reads a configuration. Returns whether the communicator blocks.
fn is_blocking(config: *const u8) -> Outcome<bool> {
    const MAGIC: u32 = 0xcafe_beef;
    const UNDEFINED: u32 = i32::MIN.cast_unsigned();
    if config.is_null() {
        return Ok(true);
    }
    // The size (two words), the magic number, the version and the first setting.
    let words = place::read(config.cast::<[u32; 5]>());
    need(words.is_some(), "the configuration is not readable")?;
    let [_, _, magic, _, blocking] = words.unwrap_or_default();
    need(magic == MAGIC, "the configuration is not initialised")?;
    need(
        matches!(blocking, 0 | 1 | UNDEFINED),
        "the setting `blocking` is neither 0 nor 1",
    )?;
    Ok(blocking != 0)
}

/// Returns the current context and its device. If there is none, the primary context of the first device becomes current.
fn current() -> Outcome<(usize, i32)> {
    let driver = driver()?;
    let mut context = driver.current()?;
    if context == 0 {
        context = driver.primary(0)?;
        // SAFETY: the function accepts all numbers.
        checked(unsafe { (driver.set_context)(context) }, "cuCtxSetCurrent")?;
    }
    let mut device = 0;
    // SAFETY: the variable is valid.
    let code = unsafe { (driver.device)(&raw mut device) };
    checked(code, "cuCtxGetDevice")?;
    Ok((context, device))
}

/// Returns the numbers of ranks and of a rank.
fn numbers(ranks: i32, rank: i32) -> Outcome<(usize, usize)> {
    need(ranks >= 1, "a communicator needs at least one rank")?;
    need(
        (0..ranks).contains(&rank),
        "the rank is not less than the number of ranks",
    )?;
    Ok((ranks as usize, rank as usize))
}

/// `ncclCommInitRank` and `ncclCommInitRankConfig`.
pub(crate) fn init_rank(
    place: *mut usize,
    ranks: i32,
    id: &[u8; 128],
    rank: i32,
    config: *const u8,
) -> Outcome {
    stored(place::write(place, 0))?;
    let (ranks, rank) = numbers(ranks, rank)?;
    let blocking = is_blocking(config)?;
    let key = key_of(id)?;
    let (context, device) = current()?;
    let member = Member {
        rank,
        ranks,
        device,
        context,
        blocking,
    };
    enter(place, Comm::join(key, member)?)
}

/// Stores the handle of a new communicator, and waits for the other ranks.
fn enter(place: *mut usize, comm: Arc<Comm>) -> Outcome {
    stored(place::write(place, comm.publish()))?;
    group::add(Job::Join(comm))
}

/// `ncclCommInitRankScalable`.
pub(crate) fn init_rank_scalable(
    place: *mut usize,
    ranks: i32,
    rank: i32,
    ids: i32,
    id: *const [u8; 128],
    config: *const u8,
) -> Outcome {
    need(ids >= 1, "there is no identifier")?;
    let id = place::read(id);
    need(id.is_some(), "the identifiers are not readable")?;
    init_rank(place, ranks, &id.unwrap_or([0; 128]), rank, config)
}

/// `ncclCommInitAll`.
pub(crate) fn init_all(places: *mut usize, count: i32, devices: *const i32) -> Outcome {
    need(count >= 1, "a communicator needs at least one rank")?;
    let driver = driver()?;
    let mut present = 0;
    // SAFETY: the variable is valid.
    let code = unsafe { (driver.device_count)(&raw mut present) };
    checked(code, "cuDeviceGetCount")?;
    need(count <= present, "there are fewer devices than ranks")?;
    let mut chosen = Vec::new();
    for index in 0..count {
        let device = match devices.is_null() {
            true => Some(index),
            false => place::read(devices.wrapping_add(index as usize)),
        };
        need(device.is_some(), "the list of devices is not readable")?;
        let device = device.unwrap_or(-1);
        need((0..present).contains(&device), "a device does not exist")?;
        if chosen.contains(&device) {
            let text = format!("device {device} is listed twice");
            return Err(failure(Status::INVALID_USAGE, &text));
        }
        chosen.push(device);
    }
    let (key, mut comms) = (fresh_key(), Vec::new());
    for (rank, device) in chosen.into_iter().enumerate() {
        let member = Member {
            rank,
            ranks: count as usize,
            device,
            context: driver.primary(device)?,
            blocking: true,
        };
        comms.push(Comm::join(key, member)?);
    }
    for (rank, comm) in comms.into_iter().enumerate() {
        comm.wait_for_ranks()?;
        stored(place::write(places.wrapping_add(rank), comm.publish()))?;
    }
    Ok(())
}

/// `ncclCommSplit`.
pub(crate) fn split(
    handle: usize,
    color: i32,
    order: i32,
    place: *mut usize,
    config: *const u8,
) -> Outcome {
    let parent = comm::get_ready(handle)?;
    need(
        color >= 0 || color == group::NO_COLOR,
        "the color is negative",
    )?;
    let blocking = match config.is_null() {
        true => parent.blocking,
        false => is_blocking(config)?,
    };
    stored(place::write(place, 0))?;
    let number = group::announce(&parent, color, order);
    group::add(Job::Split {
        parent,
        number,
        blocking,
        handle: place,
    })
}

/// `ncclCommShrink`. The excluded ranks do not call it.
pub(crate) fn shrink(
    handle: usize,
    excluded: *const i32,
    count: i32,
    place: *mut usize,
    config: *const u8,
    flags: i32,
) -> Outcome {
    const ABORT: i32 = 1;
    let parent = comm::get_ready(handle)?;
    need(matches!(flags, 0 | ABORT), "a flag is unknown")?;
    need(count >= 1, "no rank is excluded")?;
    let mut without = Vec::new();
    for index in 0..count as usize {
        let rank = place::read(excluded.wrapping_add(index));
        let rank = rank.and_then(|rank| usize::try_from(rank).ok());
        need(
            rank.is_some_and(|rank| rank < parent.ranks),
            "an excluded rank does not exist",
        )?;
        without.extend(rank.map(|rank| rank as u64));
    }
    without.sort_unstable();
    without.dedup();
    let stays = |rank: &usize| !without.contains(&(*rank as u64));
    need(
        stays(&parent.rank),
        "an excluded rank must not shrink the communicator",
    )?;
    let blocking = match config.is_null() {
        true => parent.blocking,
        false => is_blocking(config)?,
    };
    if flags == ABORT {
        parent.abort();
    }
    let number = parent.derived.fetch_add(1, SeqCst);
    let words: Vec<_> = [2, u64::from(number)]
        .into_iter()
        .chain(without.iter().copied())
        .collect();
    let member = Member {
        rank: (0..parent.rank).filter(stays).count(),
        ranks: (0..parent.ranks).filter(stays).count(),
        device: parent.device,
        context: parent.context,
        blocking,
    };
    stored(place::write(place, 0))?;
    enter(
        place,
        Comm::join_as(derived(parent.key, &words), member, parent.process())?,
    )
}

/// `ncclCommFinalize`. Operations need no communication after they have been submitted.
pub(crate) fn finalize(handle: usize) -> Outcome {
    known(handle)
}

/// `ncclCommDestroy` and `ncclCommAbort`. A null communicator is ignored.
pub(crate) fn destroy(handle: usize, abort: bool) -> Outcome {
    match handle {
        0 => Ok(()),
        _ => comm::destroy(handle, abort),
    }
}

/// Returns an error if a communicator is unknown.
pub(crate) fn known(handle: usize) -> Outcome {
    comm::get(handle).map(drop)
}

/// `ncclCommGetAsyncError`.
pub(crate) fn async_error(handle: usize, place: *mut i32) -> Outcome {
    let comm = comm::get(handle)?;
    let status = match comm.is_ready() {
        false => Status::IN_PROGRESS,
        true if comm.control.header().failed.load(SeqCst) != 0 => Status::INTERNAL,
        true => Status::SUCCESS,
    };
    stored(place::write(place, status.0))
}

/// Stores a number of a communicator.
pub(crate) fn store(handle: usize, place: *mut i32, value: impl Fn(&Comm) -> i32) -> Outcome {
    stored(place::write(place, value(&*comm::get(handle)?)))
}

/// `ncclCommQueryProperties`: who the rank is. All features that NCCL's device functions need are absent.
pub(crate) fn properties(handle: usize, place: usize) -> Outcome {
    /// The offsets of the numbers, of the hash, and the largest structure that is filled.
    const NUMBERS: usize = 16;
    const HASH: usize = 56;
    const MOST: usize = 256;
    let comm = comm::get_ready(handle)?;
    let size = place::read(place as *const usize);
    need(
        size.is_some_and(|size| size >= HASH + 8),
        "the structure is too small",
    )?;
    for offset in NUMBERS..size.unwrap_or_default().min(MOST) {
        stored(place::write((place + offset) as *mut u8, 0))?;
    }
    let device = comm.device.cast_unsigned();
    let numbers = [comm.rank as u32, comm.ranks as u32, device, device];
    stored(place::write((place + NUMBERS) as *mut [u32; 4], numbers))?;
    let mut hash = [0; 8];
    hash.copy_from_slice(&comm.key[..8]);
    stored(place::write(
        (place + HASH) as *mut u64,
        u64::from_le_bytes(hash),
    ))
}

/// `ncclCommRegister`. Operations need no registration.
pub(crate) fn register(handle: usize, address: usize, size: usize, place: *mut usize) -> Outcome {
    known(handle)?;
    need(address != 0 && size != 0, "the buffer is empty")?;
    stored(place::write(place, address))
}

/// `ncclCommWindowRegister`: there are no windows, which NCCL expresses by a null window.
pub(crate) fn register_window(
    handle: usize,
    address: usize,
    size: usize,
    place: *mut usize,
) -> Outcome {
    known(handle)?;
    need(address != 0 && size != 0, "the buffer is empty")?;
    stored(place::write(place, 0))
}

/// `ncclMemAlloc`.
pub(crate) fn alloc(place: *mut usize, size: usize) -> Outcome {
    stored(place::write(place, 0))?;
    current()?;
    let (driver, mut address) = (driver()?, 0);
    // SAFETY: the variable is valid.
    let code = unsafe { (driver.alloc)(&raw mut address, size) };
    checked(code, "cuMemAlloc")?;
    stored(place::write(place, address))
}

/// `ncclMemFree`.
pub(crate) fn free(address: usize) -> Outcome {
    if address == 0 {
        return Ok(());
    }
    current()?;
    // SAFETY: the driver checks the address.
    checked(unsafe { (driver()?.free)(address) }, "cuMemFree")
}
