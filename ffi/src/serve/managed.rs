//! Implements the entry points for advice about managed memory and for its prefetching.
//!
//! All devices and the host use the same copy of managed memory, so no page ever moves. Advice and prefetch locations
//! are stored for each page and only returned to queries (`cuMemRangeGetAttribute`).
//!
//! Invariant: the stored page ranges of an allocation are sorted, do not overlap, and together
//! contain the whole allocation. They are stored under the allocation's ID, so the advice for a
//! freed allocation is never returned for a later allocation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::OnceLock;

use margay::{PointerInfo, PointerKind, Runtime, Stream};
use parking_lot::Mutex;

use crate::convert::read_array;
use crate::guard::Call;
use crate::handles::current;
use crate::result::{CuResult, Served};
use crate::types::CUmemLocation;

/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID`.
const CPU: c_int = -1;
const NOWHERE: c_int = -2;
/// Values of `CUmemLocationType`.
const NONE: c_uint = 0;
const DEVICE: c_uint = 1;
const HOST: c_uint = 2;
const NODE: c_uint = 3;
const THIS_NODE: c_uint = 4;
/// The page size. Advice applies to whole pages.
const PAGE: u64 = 4096;
/// The minimum of [`Advice::limit`].
const NOTES_KEPT: usize = 4096;

/// A location that advice or a prefetch names: a device, the host, or a NUMA node of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MemoryLocation {
    kind: c_uint,
    id: c_int,
}

impl MemoryLocation {
    /// Returns the ordinal of the device that this location is, or -1 for the host and for its NUMA node.
    fn device(self) -> c_int {
        match self.kind {
            DEVICE => self.id,
            _ => CPU,
        }
    }

    fn of_device(device: c_int) -> Result<MemoryLocation, CuResult> {
        if device == CPU {
            return Ok(MemoryLocation { kind: HOST, id: 0 });
        }
        let id = Runtime::global()?.device(device)?.ordinal();
        Ok(MemoryLocation { kind: DEVICE, id })
    }

    fn of_location(location: CUmemLocation) -> Result<MemoryLocation, CuResult> {
        match (location.kind, location.id) {
            (DEVICE, id) if id >= 0 => MemoryLocation::of_device(id),
            (DEVICE, _) => Err(CuResult::INVALID_DEVICE),
            (HOST, _) => Ok(MemoryLocation { kind: HOST, id: 0 }),
            (NODE, 0) | (THIS_NODE, _) => Ok(MemoryLocation { kind: NODE, id: 0 }),
            _ => Err(CuResult::INVALID_VALUE),
        }
    }
}

/// The advice and the last prefetch location of a page range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Notes {
    read_mostly: bool,
    preferred: Option<MemoryLocation>,
    accessed_by: BTreeSet<c_int>,
    prefetched: Option<MemoryLocation>,
}

/// The advice for the page ranges of an allocation. The key is the end address of a range. A range
/// begins at the end of the previous range.
type Stretches = BTreeMap<u64, Notes>;

/// The page ranges of the allocations for which the program has given advice.
struct Advice {
    /// The page ranges of each allocation, by the allocation's ID.
    ranges: HashMap<u64, Stretches>,
    /// If `ranges` contains at least this number of allocations, the ranges of freed allocations
    /// are removed before the next advice is stored.
    limit: usize,
}

fn all() -> &'static Mutex<Advice> {
    static ALL: OnceLock<Mutex<Advice>> = OnceLock::new();
    ALL.get_or_init(|| {
        Mutex::new(Advice {
            ranges: HashMap::new(),
            limit: NOTES_KEPT,
        })
    })
}

/// Returns the allocation of managed memory that contains the range of `bytes` bytes at `address`.
/// Returns `INVALID_VALUE` if there is none or the range is empty.
fn managed(address: u64, bytes: usize) -> Result<PointerInfo, CuResult> {
    let info = Runtime::global()?.pointer_info(address);
    let info = info.filter(|info| info.kind == PointerKind::Managed);
    let info = info.ok_or(CuResult::INVALID_VALUE)?;
    let room = (info.base + info.size).saturating_sub(address);
    match bytes as u64 <= room && bytes > 0 {
        true => Ok(info),
        false => Err(CuResult::INVALID_VALUE),
    }
}

/// Returns `INVALID_VALUE` if the range of `bytes` bytes at `address` is not inside a single
/// allocation of managed memory.
pub(crate) fn managed_range(address: u64, bytes: usize) -> Served {
    managed(address, bytes).map(|_| ())
}

/// Changes, with `change`, the advice for all pages of a range.
fn note(address: u64, bytes: usize, change: impl Fn(&mut Notes)) -> Served {
    let info = managed(address, bytes)?;
    let first = address & !(PAGE - 1);
    let end = (address + bytes as u64).next_multiple_of(PAGE);
    let mut all = all().lock();
    if all.ranges.len() >= all.limit {
        let living = Runtime::global()?.memory().allocations();
        let living: BTreeSet<u64> = living.iter().map(|allocation| allocation.id).collect();
        all.ranges.retain(|id, _| living.contains(id));
        // Doubling the number bounds the work for each call, also if no allocation was freed.
        all.limit = NOTES_KEPT.max(2 * all.ranges.len());
    }
    let stretches = all
        .ranges
        .entry(info.id)
        .or_insert_with(|| BTreeMap::from([(u64::MAX, Notes::default())]));
    split(stretches, first);
    split(stretches, end);
    for (_, notes) in stretches.range_mut((Excluded(first), Included(end))) {
        change(notes);
    }
    join(stretches, first, end);
    Ok(())
}

/// Splits the page range that contains `at`, so that the first part ends at `at`.
fn split(stretches: &mut Stretches, at: u64) {
    if let Some((&stop, notes)) = stretches.range(at..).next()
        && stop != at
    {
        let notes = notes.clone();
        stretches.insert(at, notes);
    }
}

/// Joins neighbouring page ranges with the same advice, if their common end is in `first..=end`.
fn join(stretches: &mut Stretches, first: u64, end: u64) {
    let ends: Vec<u64> = stretches.range(first..=end).map(|(end, _)| *end).collect();
    for end in ends {
        let mut two = stretches.range(end..).map(|(_, notes)| notes);
        if two.next() == two.next() {
            stretches.remove(&end);
        }
    }
}

/// Returns the advice of each page range that overlaps a range of addresses.
fn notes_of(info: &PointerInfo, address: u64, bytes: u64) -> Vec<Notes> {
    let all = all().lock();
    let Some(stretches) = all.ranges.get(&info.id) else {
        return vec![Notes::default()];
    };
    let (first, end) = (address & !(PAGE - 1), address + bytes);
    let mut begin = first;
    let mut found = Vec::new();
    for (stop, notes) in stretches.range((Excluded(first), Unbounded)) {
        if begin >= end {
            break;
        }
        found.push(notes.clone());
        begin = *stop;
    }
    found
}

fn prefetch(address: u64, bytes: usize, place: MemoryLocation) -> Served {
    note(address, bytes, |notes| notes.prefetched = Some(place))
}

pub(crate) fn mem_prefetch_async_v1(
    _: &Call,
    address: u64,
    bytes: usize,
    device: c_int,
    _stream: Stream,
) -> Served {
    prefetch(address, bytes, MemoryLocation::of_device(device)?)
}

pub(crate) fn mem_prefetch_async_v2(
    _: &Call,
    address: u64,
    bytes: usize,
    location: CUmemLocation,
    flags: c_uint,
    _stream: Stream,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    prefetch(address, bytes, MemoryLocation::of_location(location)?)
}

/// Reads the `count` memory ranges that a batched call lists, and checks that they are managed
/// memory.
///
/// # Safety
/// Each array must be null or contain `count` elements.
unsafe fn ranges(
    addresses: *mut u64,
    sizes: *mut usize,
    count: usize,
) -> Result<Vec<(u64, usize)>, CuResult> {
    // SAFETY: the caller guarantees that the arrays are valid.
    let (addresses, sizes) = unsafe {
        (
            read_array(addresses.cast_const(), count)?,
            read_array(sizes.cast_const(), count)?,
        )
    };
    if count == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let ranges: Vec<_> = addresses.into_iter().zip(sizes).collect();
    for &(address, bytes) in &ranges {
        managed_range(address, bytes)?;
    }
    Ok(ranges)
}

/// Returns, for each of the `count` entries of a batch, the index of the attribute set that applies to the entry.
/// For each attribute set, `firsts` contains the index of the first entry to which the set applies.
pub(super) fn groups(firsts: &[usize], count: usize) -> Result<Vec<usize>, CuResult> {
    let ascending = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    if firsts.first() != Some(&0) || !ascending || firsts.last().is_some_and(|&last| last >= count)
    {
        return Err(CuResult::INVALID_VALUE);
    }
    Ok((0..count)
        .map(|entry| firsts.partition_point(|&first| first <= entry) - 1)
        .collect())
}

#[expect(clippy::too_many_arguments, reason = "the interface's own list")]
pub(crate) fn mem_prefetch_batch_async(
    _: &Call,
    addresses: *mut u64,
    sizes: *mut usize,
    count: usize,
    places: *mut CUmemLocation,
    firsts: *mut usize,
    place_count: usize,
    flags: c_ulonglong,
    _stream: Stream,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees that the arrays are valid.
    let (ranges, places, firsts) = unsafe {
        (
            ranges(addresses, sizes, count)?,
            read_array(places.cast_const(), place_count)?,
            read_array(firsts.cast_const(), place_count)?,
        )
    };
    let places: Vec<MemoryLocation> = places
        .into_iter()
        .map(MemoryLocation::of_location)
        .collect::<Result<_, _>>()?;
    for (&(address, bytes), group) in ranges.iter().zip(groups(&firsts, count)?) {
        prefetch(address, bytes, places[group])?;
    }
    Ok(())
}

/// Checks the ranges and has no other effect, because discarded memory may keep its content.
pub(crate) fn mem_discard_batch_async(
    _: &Call,
    addresses: *mut u64,
    sizes: *mut usize,
    count: usize,
    flags: c_ulonglong,
    _stream: Stream,
) -> Served {
    if flags != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees that the arrays are valid.
    unsafe { ranges(addresses, sizes, count) }.map(|_| ())
}

pub(crate) fn mem_advise_v1(
    _: &Call,
    address: u64,
    bytes: usize,
    advice: c_uint,
    device: c_int,
) -> Served {
    advise(address, bytes, advice, || MemoryLocation::of_device(device))
}

pub(crate) fn mem_advise_v2(
    _: &Call,
    address: u64,
    bytes: usize,
    advice: c_uint,
    location: CUmemLocation,
) -> Served {
    advise(address, bytes, advice, || {
        MemoryLocation::of_location(location)
    })
}

/// Stores the advice `advice` for a range of addresses. `place` returns the location that the
/// advice names; for three kinds of advice, which name none, it is not called (CUDA driver API,
/// "cuMemAdvise").
fn advise(
    address: u64,
    bytes: usize,
    advice: c_uint,
    place: impl FnOnce() -> Result<MemoryLocation, CuResult>,
) -> Served {
    match advice {
        1 => note(address, bytes, |notes| notes.read_mostly = true),
        2 => note(address, bytes, |notes| notes.read_mostly = false),
        3 => {
            let place = place()?;
            note(address, bytes, |notes| notes.preferred = Some(place))
        }
        4 => note(address, bytes, |notes| notes.preferred = None),
        5 => {
            let device = user(place()?)?;
            note(address, bytes, |notes| {
                notes.accessed_by.insert(device);
            })
        }
        6 => {
            let device = user(place()?)?;
            note(address, bytes, |notes| {
                notes.accessed_by.remove(&device);
            })
        }
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// Returns the ordinal of the device `place`, or -1 if `place` is the host. Returns `INVALID_VALUE`
/// for a NUMA node of the host.
fn user(place: MemoryLocation) -> Result<c_int, CuResult> {
    match place.kind {
        NODE => Err(CuResult::INVALID_VALUE),
        _ => Ok(place.device()),
    }
}

/// Returns the value that `part` selects from `notes`, if it is the same in all page ranges;
/// otherwise `None`.
fn common<T: PartialEq + Copy>(notes: &[Notes], part: impl Fn(&Notes) -> Option<T>) -> Option<T> {
    let first = part(notes.first()?)?;
    notes
        .iter()
        .all(|n| part(n) == Some(first))
        .then_some(first)
}

/// Returns the value of attribute `number` of a memory range, as a list of `int`s that fills `room`
/// bytes.
fn attribute(number: c_uint, room: usize, notes: &[Notes]) -> Result<Vec<c_int>, CuResult> {
    let preferred = || common(notes, |n| n.preferred);
    let prefetched = || common(notes, |n| n.prefetched);
    let kind = |place: Option<MemoryLocation>| place.map_or(NONE, |p| p.kind) as c_int;
    let id = |place: Option<MemoryLocation>| place.map_or(NOWHERE, |p| p.id);
    let device = |place: Option<MemoryLocation>| place.map_or(NOWHERE, MemoryLocation::device);
    let one = match number {
        1 => c_int::from(notes.iter().all(|n| n.read_mostly)),
        2 => device(preferred()),
        3 => return accessed_by(room, notes),
        4 => device(prefetched()),
        5 => kind(preferred()),
        6 => id(preferred()),
        7 => kind(prefetched()),
        8 => id(prefetched()),
        _ => return Err(CuResult::INVALID_VALUE),
    };
    match room == size_of::<c_int>() {
        true => Ok(vec![one]),
        false => Err(CuResult::INVALID_VALUE),
    }
}

/// Returns the locations for which advice states that they access all page ranges: first the
/// devices, then the host. The list is padded with `NOWHERE`.
fn accessed_by(room: usize, notes: &[Notes]) -> Result<Vec<c_int>, CuResult> {
    if room == 0 || !room.is_multiple_of(size_of::<c_int>()) {
        return Err(CuResult::INVALID_VALUE);
    }
    let mut users = notes
        .first()
        .map_or_else(BTreeSet::new, |n| n.accessed_by.clone());
    users.retain(|user| notes.iter().all(|n| n.accessed_by.contains(user)));
    let (host, mut list): (Vec<c_int>, Vec<c_int>) = users.into_iter().partition(|user| *user < 0);
    list.extend(host);
    let places = room / size_of::<c_int>();
    if places > 1 << 16 {
        return Err(CuResult::INVALID_VALUE);
    }
    list.resize(places, NOWHERE);
    Ok(list)
}

pub(crate) fn mem_range_get_attribute(
    _: &Call,
    data: *mut c_void,
    room: usize,
    number: c_uint,
    address: u64,
    bytes: usize,
) -> Served {
    let info = managed(address, bytes)?;
    if data.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    let notes = notes_of(&info, address, bytes as u64);
    let values = attribute(number, room, &notes)?;
    // SAFETY: the caller guarantees `room` bytes, and the values fill no more.
    unsafe { write(data, &values) };
    Ok(())
}

/// # Safety
/// `data` must point to memory for the values.
unsafe fn write(data: *mut c_void, values: &[c_int]) {
    for (index, &value) in values.iter().enumerate() {
        // SAFETY: the caller guarantees memory for the values.
        unsafe { data.cast::<c_int>().add(index).write_unaligned(value) };
    }
}

pub(crate) fn mem_range_get_attributes(
    _: &Call,
    data: *mut *mut c_void,
    rooms: *mut usize,
    numbers: *mut c_uint,
    count: usize,
    address: u64,
    bytes: usize,
) -> Served {
    if count == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `count` elements of each array.
    let (data, rooms, numbers) = unsafe {
        (
            read_array(data.cast_const(), count)?,
            read_array(rooms.cast_const(), count)?,
            read_array(numbers.cast_const(), count)?,
        )
    };
    current()?;
    let info = managed(address, bytes)?;
    let notes = notes_of(&info, address, bytes as u64);
    let mut answers = Vec::new();
    for ((place, room), number) in data.into_iter().zip(rooms).zip(numbers) {
        if place.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        answers.push((place, attribute(number, room, &notes)?));
    }
    for (place, values) in answers {
        // SAFETY: the caller guarantees enough bytes for this attribute.
        unsafe { write(place, &values) };
    }
    Ok(())
}

/// Divides a range into parts of `summary` bytes, and writes the location of each part. The
/// location of a part is the last prefetch location of the part's first page. If this page was
/// never prefetched, the location is the preferred location of the page or, if there is none, the
/// host.
pub(crate) fn mem_get_location_info(
    _: &Call,
    address: u64,
    bytes: usize,
    summary: usize,
    sampling: usize,
    out: *mut CUmemLocation,
) -> Served {
    let info = managed(address, bytes)?;
    if out.is_null() || summary == 0 || summary > bytes || sampling > summary {
        return Err(CuResult::INVALID_VALUE);
    }
    for index in 0..bytes.div_ceil(summary) {
        let start = index * summary;
        let len = summary.min(bytes - start);
        let notes = notes_of(&info, address + start as u64, len as u64);
        let place = notes.first().and_then(|n| n.prefetched.or(n.preferred));
        let location = match place {
            Some(place) => CUmemLocation {
                kind: place.kind,
                id: place.id,
            },
            None => CUmemLocation { kind: HOST, id: 0 },
        };
        // SAFETY: the caller guarantees an element for each part.
        unsafe { out.add(index).write_unaligned(location) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_batch() {
        assert_eq!(groups(&[0, 3], 5), Ok(vec![0, 0, 0, 1, 1]));
        assert_eq!(groups(&[0], 2), Ok(vec![0, 0]));
        for wrong in [&[1][..], &[], &[0, 0], &[0, 5], &[0, 3, 2]] {
            assert_eq!(groups(wrong, 5), Err(CuResult::INVALID_VALUE), "{wrong:?}");
        }
    }

    #[test]
    fn stretches_split_where_they_are_asked_to() {
        let mut stretches = BTreeMap::from([(u64::MAX, Notes::default())]);
        split(&mut stretches, 8192);
        split(&mut stretches, 4096);
        split(&mut stretches, 8192);
        let ends: Vec<u64> = stretches.keys().copied().collect();
        assert_eq!(ends, [4096, 8192, u64::MAX]);
    }

    #[test]
    fn equal_neighbours_are_joined() {
        let mostly = Notes {
            read_mostly: true,
            ..Notes::default()
        };
        let (one, other) = (|| mostly.clone(), Notes::default);
        let all = [
            (1, other()),
            (2, one()),
            (3, one()),
            (4, one()),
            (5, other()),
        ];
        let joined = |first, end| {
            let mut stretches = BTreeMap::from(all.clone());
            join(&mut stretches, first, end);
            stretches.into_keys().collect::<Vec<u64>>()
        };
        assert_eq!(joined(1, 4), [1, 4, 5]);
        assert_eq!(joined(1, 2), [1, 3, 4, 5]);
        assert_eq!(joined(3, 9), [1, 2, 4, 5]);
        assert_eq!(joined(0, 1), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn stretches_that_differ_have_nothing_in_common() {
        let place = |id| Some(MemoryLocation { kind: DEVICE, id });
        let notes = |id| Notes {
            preferred: place(id),
            read_mostly: true,
            ..Notes::default()
        };
        assert_eq!(attribute(2, 4, &[notes(1), notes(1)]), Ok(vec![1]));
        assert_eq!(attribute(2, 4, &[notes(1), notes(0)]), Ok(vec![NOWHERE]));
        assert_eq!(attribute(1, 4, &[notes(1), Notes::default()]), Ok(vec![0]));
        assert_eq!(attribute(4, 4, &[notes(1)]), Ok(vec![NOWHERE]));
        assert_eq!(attribute(3, 12, &[notes(1)]), Ok(vec![NOWHERE; 3]));
        assert_eq!(attribute(2, 8, &[notes(1)]), Err(CuResult::INVALID_VALUE));
        assert_eq!(attribute(9, 4, &[notes(1)]), Err(CuResult::INVALID_VALUE));
    }
}
