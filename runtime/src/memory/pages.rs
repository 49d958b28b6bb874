//! Guarded pieces of the address space: inaccessible pages follow each piece, and so precede it as well.
//!
//! A freed piece is *idle*: it stays accessible for a request of the same length before the next launch, because
//! changes of access rights are system calls. Before a launch runs, idle pieces are made inaccessible
//! ([`Pages::close_idle`]), so that an access after the free faults as on a GPU. An inaccessible piece keeps its pages
//! for the next request with the same footprint (*warm*). If warm pieces exceed the cache limit, or addresses are
//! short, they are emptied and joined with their neighbours.
//!
//! In a roomy space, pieces under [`HUGE_FROM`] are allocated from a separate quarter of the range, at distances of an
//! odd number of pages. At multiples of a power of two they would share a few sets of the processor's caches and
//! translation buffers. Pieces under [`WIDE_FROM`] have narrow guards: the processor prefetches across a short gap.
//! With a wide gap, the first accesses to every array cost an additional microsecond, which for 100 KiB is a tenth
//! (`cargo xtask guards`).
//!
//! Invariant: a large piece starts at a multiple of the grain, any other piece at a multiple of the page size. The
//! footprint of a piece ends with inaccessible bytes: at least `guard`, or the number given at [`WIDE_FROM`]. All bytes
//! that are not allocated are inaccessible or idle.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::MemoryError;
use super::extents::Extents;
use super::reservation::{Reservation, Rights};
use super::round_up;
use super::shared::SharedMemory;

/// From this size on, huge pages are worthwhile.
const HUGE_FROM: u64 = 4 << 20;
const HUGE_PAGE: u64 = 2 << 20;
/// Spaces of at least this size can afford wide guards.
const ROOMY: u64 = 256 << 30;
/// Size of a wide guard: an index that is too large by a mebibyte, the most common wild access, still hits it.
const WIDE_GUARD: u64 = (1 << 20) + (256 << 10);
/// From this size on guards are wide. Below it a guard is a sixteenth of the piece and at least [`NARROW_PAGES`].
const WIDE_FROM: u64 = 1 << 20;
const NARROW_PAGES: u64 = 2;

/// A warm piece with a footprint below this size is reused only if more than [`RESTING`] pieces of this footprint are
/// warm, the oldest first. So for a while an access to a freed small array hits no other array.
const RESTS_BELOW: u64 = 80 << 10;
const RESTING: usize = 32;
/// Number of idle pieces of one length that are not reused if their footprint is below [`RESTS_BELOW`].
const IDLE_RESTING: usize = 8;
/// Maximum number of idle pieces.
const MOST_IDLE: usize = 256;

/// The pieces of one reservation.
#[derive(Debug)]
pub(super) struct Pages {
    reservation: Reservation,
    extents: Extents,
    /// Free ranges for pieces under [`HUGE_FROM`]; `None` if addresses are scarce.
    middle: Option<Extents>,
    /// Inaccessible pieces with content, by footprint: start and length.
    warm: BTreeMap<u64, VecDeque<(u64, u64)>>,
    /// Accessible pieces that are not allocated, by footprint and length; the oldest first.
    idle: BTreeMap<(u64, u64), VecDeque<u64>>,
    /// Number of idle pieces; readable without a lock.
    idle_count: Arc<AtomicUsize>,
    /// Total size of warm and idle pieces in bytes.
    warm_bytes: u64,
    warm_limit: u64,
    grain: u64,
    guard: u64,
}

impl Pages {
    /// Reserves the largest of `sizes` that the system grants.
    pub(super) fn new(
        sizes: impl IntoIterator<Item = u64>,
        warm_limit: u64,
    ) -> Result<Pages, MemoryError> {
        let reservation = Reservation::largest(sizes, HUGE_PAGE, margay_jit::MARGIN)?;
        let (grain, guard) = if reservation.len() >= ROOMY {
            (HUGE_PAGE, WIDE_GUARD)
        } else {
            (64 << 10, 64 << 10)
        };
        // The first grain is the guard below the first piece.
        let first = reservation.base() + grain;
        let usable = reservation.len().saturating_sub(grain);
        let for_middle = if grain == HUGE_PAGE {
            (usable / 4) & !(grain - 1)
        } else {
            0
        };
        Ok(Pages {
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
        })
    }

    pub(super) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Returns the length of a slab, which has a wide guard if the space is roomy.
    pub(super) fn slab_len(&self) -> u64 {
        if self.grain == HUGE_PAGE {
            WIDE_FROM
        } else {
            256 << 10
        }
    }

    /// Whether there are enough addresses for guards around small pieces.
    pub(super) fn is_roomy(&self) -> bool {
        self.middle.is_some()
    }

    /// Returns the total size of warm and idle pieces in bytes.
    pub(super) fn warm_bytes(&self) -> u64 {
        self.warm_bytes
    }

    /// Returns the number of address bytes of a piece with its guard. Small pieces have an odd number of pages, so a
    /// large piece never has the footprint of a small one.
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

    /// Returns the free ranges for pieces of this footprint.
    fn free(&mut self, footprint: u64) -> &mut Extents {
        match &mut self.middle {
            Some(middle) if !footprint.is_multiple_of(self.grain) => middle,
            _ => &mut self.extents,
        }
    }

    /// Returns the memory that `len` bytes use: the length rounded up to pages.
    pub(super) fn rounded(&self, len: u64) -> Option<u64> {
        round_up(len, self.reservation.page())
    }

    /// Allocates an accessible piece of `len` bytes; returns `None` if there are no more addresses or mappings.
    pub(super) fn open(&mut self, len: u64) -> Option<u64> {
        let (len, footprint) = (self.rounded(len)?, self.footprint(len)?);
        if let Some(start) = self.take_idle(footprint, len) {
            return Some(start);
        }
        let start = self.take(footprint)?;
        let opened = self.reservation.protect(start, len, Rights::ReadWrite);
        if opened.is_err() {
            // There are too many mappings: joined pieces need fewer.
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

    fn take(&mut self, footprint: u64) -> Option<u64> {
        let least = match footprint < RESTS_BELOW {
            true => RESTING,
            false => 0,
        };
        let pieces = self.warm.get_mut(&footprint);
        let pieces = pieces.filter(|pieces| pieces.len() > least);
        let found = match least {
            // The piece that was freed last is in the processor's caches.
            0 => pieces.and_then(VecDeque::pop_back),
            _ => pieces.and_then(VecDeque::pop_front),
        };
        if let Some((start, len)) = found {
            self.warm_bytes -= len;
            return Some(start);
        }
        self.take_cold(footprint)
    }

    /// Takes back a piece that [`Pages::open`] returned for this length; it becomes idle.
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

    /// Takes an idle piece of this length.
    fn take_idle(&mut self, footprint: u64, len: u64) -> Option<u64> {
        let idle = self.idle.get_mut(&(footprint, len))?;
        let start = match footprint < RESTS_BELOW {
            true if idle.len() <= IDLE_RESTING => None,
            true => idle.pop_front(),
            // The piece that was freed last is in the processor's caches.
            false => idle.pop_back(),
        }?;
        self.idle_count.fetch_sub(1, Ordering::Relaxed);
        self.warm_bytes -= len;
        Some(start)
    }

    /// Makes all idle pieces inaccessible: before a launch, and if there are many.
    pub(super) fn close_idle(&mut self) {
        for ((footprint, len), starts) in std::mem::take(&mut self.idle) {
            for start in starts {
                self.idle_count.fetch_sub(1, Ordering::Relaxed);
                if self.reservation.protect(start, len, Rights::None).is_err() {
                    // The piece stays accessible and is never reused; its memory is released.
                    let _ = self.reservation.discard(start, len);
                    self.warm_bytes -= len;
                    continue;
                }
                let warm = self.warm.entry(footprint).or_default();
                warm.push_back((start, len));
            }
        }
    }

    /// Empties a piece and makes it inaccessible; its addresses must not be reused before [`Pages::wake`].
    pub(super) fn rest(&mut self, start: u64, len: u64) {
        if let Some(len) = self.rounded(len) {
            // If this fails, the pages keep their content or stay readable.
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

    /// Allocates a piece that maps `len` bytes at `offset` of a memory file; both are multiples of the page size.
    pub(super) fn open_shared(
        &mut self,
        memory: &SharedMemory,
        offset: u64,
        len: u64,
    ) -> Option<u64> {
        let footprint = self.footprint(len)?;
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
        // If it cannot be reset, its addresses are never reused.
        if self.reservation.reset(start, len).is_ok() {
            self.free(footprint).give(start, footprint);
        }
    }

    /// Takes inaccessible addresses for `len` bytes at a multiple of `align`, at `hint` if that is free. Returns the
    /// start, and the argument for [`Pages::unreserve`].
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

    /// Releases addresses that [`Pages::reserve`] took; all of them are inaccessible.
    pub(super) fn unreserve(&mut self, (start, len): (u64, u64)) {
        self.extents.give(start, len);
    }

    /// Takes addresses whose pages have no content.
    fn take_cold(&mut self, footprint: u64) -> Option<u64> {
        if let Some(start) = self.free(footprint).take(footprint) {
            return Some(start);
        }
        self.flush();
        self.free(footprint).take(footprint)
    }

    /// Makes all idle pieces inaccessible and empties all warm ones.
    pub(super) fn flush(&mut self) {
        self.close_idle();
        for (footprint, pieces) in std::mem::take(&mut self.warm) {
            for (start, len) in pieces {
                // If this fails, the pages keep their content, which only costs memory.
                let _ = self.reservation.discard(start, len);
                self.free(footprint).give(start, footprint);
            }
        }
        self.warm_bytes = 0;
    }

    /// Returns the bytes of address space that are not in use, including warm pieces.
    #[cfg(test)]
    pub(super) fn free_addresses(&self) -> u64 {
        let warm: u64 = self.warm.iter().map(|(f, p)| f * p.len() as u64).sum();
        self.extents.total() + self.middle.as_ref().map_or(0, Extents::total) + warm
    }
}
