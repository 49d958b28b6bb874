//! Allocates pieces of the address space. A *piece* is a range of pages that is allocated and freed
//! as a whole. Inaccessible pages (the guard) follow each piece. A guard also precedes the first
//! piece. An address range for which the program requests a particular address ([`Pages::reserve`])
//! has no guard.
//!
//! A freed piece is first *idle*: it remains accessible at most until the next launch, so that a
//! request of the same length can reuse it without a system call. Before a launch runs, idle pieces
//! are made inaccessible ([`Pages::close_idle`]), so that later accesses to them fault, as on a
//! GPU. An inaccessible freed piece is *warm*: it keeps its pages for the next request with the
//! same footprint (length plus guard). The contents of all idle and warm pieces are discarded if
//! their total size exceeds the cache limit, or if addresses, mappings or memory are scarce. The
//! addresses of these pieces are then joined with adjacent free ranges.
//!
//! If the range has at least [`ROOMY`] bytes, pieces smaller than [`HUGE_FROM`] are allocated from a separate quarter
//! of the range. The footprint of such a piece is an odd number of pages. With even footprints, many pieces would start
//! at multiples of a large power of two and compete for a few sets of the processor's caches and translation buffers.
//! Pieces smaller than [`WIDE_FROM`] have narrow guards, because the processor's prefetcher crosses
//! narrow guards but does not cross wide guards. With wide guards, the first accesses to an array
//! take one microsecond more, which is a tenth of the time to access 100 KiB (`cargo xtask
//! guards`).
//!
//! Invariant: a large piece starts at a multiple of `grain`, any other piece at a multiple of the
//! page size. The footprint of a piece is its length plus the length of its guard. The guard has at
//! least `guard` bytes, or the number of bytes that [`WIDE_FROM`] describes. All bytes that are not
//! allocated are inaccessible or idle.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::extents::Extents;
use super::mappings::Mappings;
use super::reservation::{Reservation, Rights};
use super::round_up;
use super::shared::SharedMemory;

/// Minimum length in bytes of a large piece. Margay requests huge pages from the system for large
/// pieces of private memory.
const HUGE_FROM: u64 = 4 << 20;
pub(super) const HUGE_PAGE: u64 = 2 << 20;
/// Minimum size in bytes of a reserved range in which large pieces have wide guards, and small
/// pieces are allocated from a separate quarter.
const ROOMY: u64 = 256 << 30;
/// Size in bytes of a wide guard. An access one mebibyte after the end of an array, which is a
/// common error, hits this guard.
const WIDE_GUARD: u64 = (1 << 20) + (256 << 10);
/// Minimum length in bytes of a piece with a wide guard, in a range of at least [`ROOMY`] bytes.
/// The length of the guard of a smaller piece is a sixteenth of the piece's length, but at least
/// [`NARROW_PAGES`] pages.
const WIDE_FROM: u64 = 1 << 20;
const NARROW_PAGES: u64 = 2;

/// Warm pieces with a footprint of less than this number of bytes are reused only if more than
/// [`RESTING`] pieces with the same footprint are warm. In this case, the oldest of these pieces is
/// reused. An access to a small piece soon after its free therefore faults and does not reach a new
/// allocation.
const RESTS_BELOW: u64 = 80 << 10;
const RESTING: usize = 32;
/// Number of idle pieces of each length that are kept unused if their footprint is less than
/// [`RESTS_BELOW`]. One of these pieces is reused only if more than this number exist.
const IDLE_RESTING: usize = 8;
/// Maximum number of idle pieces.
const MOST_IDLE: usize = 256;

/// The pieces of one reservation.
#[derive(Debug)]
pub(super) struct Pages {
    reservation: Reservation,
    extents: Extents,
    /// Free ranges for pieces with a length of less than [`HUGE_FROM`]; `None` if addresses are
    /// scarce.
    middle: Option<Extents>,
    /// Start and length of the warm pieces, by footprint.
    warm: BTreeMap<u64, VecDeque<(u64, u64)>>,
    /// Starts of the idle pieces. The key consists of the footprint and the length; in each queue,
    /// the piece that was freed first comes first.
    idle: BTreeMap<(u64, u64), VecDeque<u64>>,
    /// Number of idle pieces. This counter can be read without a lock.
    idle_count: Arc<AtomicUsize>,
    /// Total size of warm and idle pieces in bytes.
    warm_bytes: u64,
    warm_limit: u64,
    grain: u64,
    guard: u64,
    mappings: Mappings,
}

impl Pages {
    /// Creates an allocator of pieces of a reserved range. `warm_limit` is the maximum total size in bytes of idle and
    /// warm pieces (the cache limit).
    pub(super) fn new(reservation: Reservation, warm_limit: u64) -> Pages {
        let (grain, guard) = if reservation.len() >= ROOMY {
            (HUGE_PAGE, WIDE_GUARD)
        } else {
            (64 << 10, 64 << 10)
        };
        // The first `grain` bytes are the guard below the first piece.
        let first = reservation.base() + grain;
        let usable = reservation.len().saturating_sub(grain);
        let for_middle = if grain == HUGE_PAGE {
            (usable / 4) & !(grain - 1)
        } else {
            0
        };
        Pages {
            middle: (for_middle != 0).then(|| Extents::new(first, for_middle)),
            extents: Extents::new(first + for_middle, usable - for_middle),
            reservation,
            warm: BTreeMap::new(),
            idle: BTreeMap::new(),
            idle_count: Arc::default(),
            warm_bytes: 0,
            warm_limit,
            grain,
            guard,
            mappings: Mappings::new(),
        }
    }

    pub(super) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Returns whether another piece, which uses up to two mappings, may be made accessible
    /// ([`Mappings::allow`]).
    pub(super) fn allow_mapping(&mut self) -> bool {
        self.mappings.allow()
    }

    /// Returns the length in bytes of a slab: a piece that is divided into slots for small allocations. If there are
    /// enough addresses, a piece of this length has a wide guard.
    pub(super) fn slab_len(&self) -> u64 {
        if self.grain == HUGE_PAGE {
            WIDE_FROM
        } else {
            256 << 10
        }
    }

    /// Returns whether there are enough addresses to give small allocations pieces of their own.
    pub(super) fn is_roomy(&self) -> bool {
        self.middle.is_some()
    }

    /// Returns the total size of warm and idle pieces in bytes.
    pub(super) fn warm_bytes(&self) -> u64 {
        self.warm_bytes
    }

    /// Returns the number of bytes of address space that a piece and its guard need. If small pieces have a separate
    /// quarter of the range, their footprint is an odd number of pages and never equals the footprint of a large piece.
    fn footprint(&self, len: u64) -> Option<u64> {
        let len = self.rounded(len)?;
        if self.middle.is_none() || len >= HUGE_FROM {
            return round_up(len.checked_add(self.guard)?, self.grain);
        }
        let page = self.reservation.page();
        let guard = if len < WIDE_FROM {
            (len / 16).max(NARROW_PAGES * page)
        } else {
            self.guard
        };
        Some(round_up(len + guard, page)? | page)
    }

    /// Returns the set of free address ranges from which pieces of this footprint (length plus guard) are allocated. If
    /// there are enough addresses, small pieces are allocated from a separate set.
    fn free(&mut self, footprint: u64) -> &mut Extents {
        match &mut self.middle {
            Some(middle) if !footprint.is_multiple_of(self.grain) => middle,
            _ => &mut self.extents,
        }
    }

    /// Returns the number of bytes of memory that a piece uses: `len` rounded up to pages.
    pub(super) fn rounded(&self, len: u64) -> Option<u64> {
        round_up(len, self.reservation.page())
    }

    /// Allocates an accessible piece of `len` bytes; returns `None` if there are no more addresses or mappings, or if
    /// the system does not make the piece accessible.
    pub(super) fn open(&mut self, len: u64) -> Option<u64> {
        let (len, footprint) = (self.rounded(len)?, self.footprint(len)?);
        if let Some(start) = self.take_idle(footprint, len) {
            return Some(start);
        }
        if !self.mappings.allow() {
            // The flush reduces the number of mappings, because adjacent free pieces are joined.
            self.flush();
            if !self.mappings.allow() {
                return None;
            }
        }
        let start = self.take(footprint, len)?;
        let opened = self.reservation.protect(start, len, Rights::ReadWrite);
        if opened.is_err() {
            self.flush();
            let again = self.reservation.protect(start, len, Rights::ReadWrite);
            if again.is_err() {
                self.free(footprint).give(start, footprint);
                return None;
            }
        }
        if len >= HUGE_FROM {
            let whole = len & !(HUGE_PAGE - 1);
            self.reservation.prefer_huge_pages(start, whole);
        }
        Some(start)
    }

    /// Removes a warm piece with this footprint or, if there is none, free addresses. Returns the first address. The
    /// pages after the first `len` bytes have no content.
    fn take(&mut self, footprint: u64, len: u64) -> Option<u64> {
        let least = match footprint < RESTS_BELOW {
            true => RESTING,
            false => 0,
        };
        let pieces = self.warm.get_mut(&footprint);
        let pieces = pieces.filter(|pieces| pieces.len() > least);
        let found = match least {
            // The most recently freed piece is probably in the processor's caches.
            0 => pieces.and_then(VecDeque::pop_back),
            _ => pieces.and_then(VecDeque::pop_front),
        };
        if let Some((start, old)) = found {
            self.warm_bytes -= old;
            if old > len {
                // The new piece does not contain these pages, so its free would not discard them. If this call fails,
                // the pages keep their content, which only costs memory.
                let _ = self.reservation.discard(start + len, old - len);
            }
            return Some(start);
        }
        self.take_cold(footprint)
    }

    /// Frees a piece that [`Pages::open`] returned for the length `len`. The piece becomes idle.
    pub(super) fn close(&mut self, start: u64, len: u64) {
        let (Some(len), Some(footprint)) = (self.rounded(len), self.footprint(len)) else {
            return;
        };
        let idle = self.idle.entry((footprint, len)).or_default();
        idle.push_back(start);
        self.warm_bytes += len;
        if self.idle_count.fetch_add(1, Ordering::Relaxed) >= MOST_IDLE {
            self.close_idle();
        }
        if self.warm_bytes > self.warm_limit {
            self.flush();
        }
    }

    /// Returns the counter of idle pieces, which can be read without the lock.
    pub(super) fn idle_count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.idle_count)
    }

    /// Removes an idle piece of `len` bytes from `idle`, so that the caller can reuse it, and
    /// returns its start. Returns `None` if no idle piece of this length may be reused.
    fn take_idle(&mut self, footprint: u64, len: u64) -> Option<u64> {
        let idle = self.idle.get_mut(&(footprint, len))?;
        let start = match footprint < RESTS_BELOW {
            true if idle.len() <= IDLE_RESTING => None,
            true => idle.pop_front(),
            // The most recently freed piece is probably in the processor's caches.
            false => idle.pop_back(),
        }?;
        self.idle_count.fetch_sub(1, Ordering::Relaxed);
        self.warm_bytes -= len;
        Some(start)
    }

    /// Makes all idle pieces inaccessible, so that they become warm.
    pub(super) fn close_idle(&mut self) {
        for ((footprint, len), starts) in std::mem::take(&mut self.idle) {
            for start in starts {
                self.idle_count.fetch_sub(1, Ordering::Relaxed);
                if self.reservation.protect(start, len, Rights::None).is_err() {
                    // The piece remains accessible and is never reused. Its memory is released.
                    let _ = self.reservation.discard(start, len);
                    self.warm_bytes -= len;
                    continue;
                }
                let warm = self.warm.entry(footprint).or_default();
                warm.push_back((start, len));
            }
        }
    }

    /// Discards the content of a piece and makes the piece inaccessible. Its addresses are not reused before
    /// [`Pages::wake`] is called.
    pub(super) fn rest(&mut self, start: u64, len: u64) {
        if let Some(len) = self.rounded(len) {
            // If one of these calls fails, the pages keep their content or remain accessible until their addresses are
            // reused.
            let _ = self.reservation.discard(start, len);
            let _ = self.reservation.protect(start, len, Rights::None);
        }
    }

    /// Makes the addresses of a piece available again after [`Pages::rest`].
    pub(super) fn wake(&mut self, start: u64, len: u64) {
        if let Some(footprint) = self.footprint(len) {
            self.free(footprint).give(start, footprint);
        }
    }

    /// Allocates a piece that maps `len` bytes at `offset` of a memory file. `len` and `offset` must be multiples of
    /// the page size. Returns `None` if there are no more addresses or mappings, or if the system refuses the mapping.
    pub(super) fn open_shared(
        &mut self,
        memory: &SharedMemory,
        offset: u64,
        len: u64,
    ) -> Option<u64> {
        let footprint = self.footprint(len)?;
        if !self.mappings.allow() {
            return None;
        }
        let start = self.take_cold(footprint)?;
        match self.reservation.map_shared(start, len, memory, offset) {
            Ok(()) => Some(start),
            Err(_) => {
                self.free(footprint).give(start, footprint);
                None
            }
        }
    }

    /// Frees a piece that maps a memory file.
    pub(super) fn close_shared(&mut self, start: u64, len: u64) {
        let Some(footprint) = self.footprint(len) else {
            return;
        };
        // If the mapping cannot be removed from the piece, the addresses of the piece are never reused.
        if self.reservation.reset(start, len).is_ok() {
            self.free(footprint).give(start, footprint);
        }
    }

    /// Reserves a range of `len` bytes of free addresses, which stay inaccessible. If the range at
    /// `hint` is free, reserves this range; otherwise reserves a range that starts at a multiple of
    /// `align`. Returns the start and the argument for [`Pages::unreserve`]; `None` if no free
    /// range is large enough.
    pub(super) fn reserve(
        &mut self,
        len: u64,
        align: u64,
        hint: Option<u64>,
    ) -> Option<(u64, (u64, u64))> {
        if let Some(hint) = hint
            && self.extents.take_at(hint, len)
        {
            return Some((hint, (hint, len)));
        }
        let room = len
            .checked_add(self.guard)?
            .checked_add(align - self.grain)?;
        let footprint = round_up(room, self.grain)?;
        let taken = self.take_cold(footprint)?;
        let start = round_up(taken, align)?;
        Some((start, (taken, footprint)))
    }

    /// Releases addresses that [`Pages::reserve`] reserved. All of these addresses must be
    /// inaccessible.
    pub(super) fn unreserve(&mut self, (start, len): (u64, u64)) {
        self.extents.give(start, len);
    }

    /// Removes an address range from the free ranges and returns its start. The pages of the range
    /// have no content. If no free range is large enough, first frees the addresses of all idle and
    /// warm pieces.
    fn take_cold(&mut self, footprint: u64) -> Option<u64> {
        if let Some(start) = self.free(footprint).take(footprint) {
            return Some(start);
        }
        self.flush();
        self.free(footprint).take(footprint)
    }

    /// Makes all idle pieces inaccessible, discards the contents of all warm pieces, and frees their addresses.
    pub(super) fn flush(&mut self) {
        self.close_idle();
        for (footprint, pieces) in std::mem::take(&mut self.warm) {
            for (start, len) in pieces {
                // If this call fails, the pages keep their content, which only costs memory.
                let _ = self.reservation.discard(start, len);
                self.free(footprint).give(start, footprint);
            }
        }
        self.warm_bytes = 0;
    }

    /// Returns the number of bytes of address space that are not in use. Warm pieces are included.
    #[cfg(test)]
    pub(super) fn free_addresses(&self) -> u64 {
        let warm: u64 = self.warm.iter().map(|(f, p)| f * p.len() as u64).sum();
        self.extents.total() + self.middle.as_ref().map_or(0, Extents::total) + warm
    }
}
