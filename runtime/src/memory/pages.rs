//! Guarded pieces of the address space: each is followed, and so also preceded, by closed pages.
//!
//! A freed piece is *idle*: still open, for a request of the same length that comes before the next launch, since opening and
//! closing are system calls. Before a launch runs, idle pieces are closed ([`Pages::close_idle`]), so that a use after the
//! free faults as on a GPU; a closed piece keeps its pages for the next request of the same footprint (*warm*). Over the cache limit, or when room is
//! short, warm pieces are emptied and joined with their neighbours.
//!
//! Where there is room, pieces under [`HUGE_FROM`] have a quarter of the range to themselves and lie an odd
//! number of pages apart; at multiples of a power of two they would share a few sets of the processor's caches
//! and translation buffers. Those under [`WIDE_FROM`] lie close together: the processor reads ahead across a
//! short gap, and with a wide one every array costs a microsecond more to begin with, which for 100 KiB
//! is a tenth (`cargo xtask guards`).
//!
//! Invariant: a large piece starts at a multiple of the grain, any at one of the page, and its footprint ends
//! with closed bytes: at least `guard`, or as many as [`WIDE_FROM`] says. Everything not handed out is closed or idle.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::MemoryError;
use super::extents::Extents;
use super::reservation::{Reservation, Rights};
use super::round_up;
use super::shared::SharedMemory;

/// From this size on huge pages pay.
const HUGE_FROM: u64 = 4 << 20;
const HUGE_PAGE: u64 = 2 << 20;
/// Spaces of this size can afford wide guards.
const ROOMY: u64 = 256 << 30;
/// An index that is a mebibyte too large, the usual kind of wild, still hits the guard.
const WIDE_GUARD: u64 = (1 << 20) + (256 << 10);
/// From this size on guards are wide; below, a sixteenth of the piece and at least [`NARROW_PAGES`].
const WIDE_FROM: u64 = 1 << 20;
const NARROW_PAGES: u64 = 2;

/// Pieces with a footprint below this are handed out again only when [`RESTING`] others of it were freed since, the oldest first:
/// so an access to a small array that was freed meets no other array for a while.
const RESTS_BELOW: u64 = 80 << 10;
const RESTING: usize = 32;
/// The same for idle pieces.
const IDLE_RESTING: usize = 8;
/// Idle pieces, at most.
const MOST_IDLE: usize = 256;

/// The pieces of one reservation.
#[derive(Debug)]
pub(super) struct Pages {
    reservation: Reservation,
    extents: Extents,
    /// Of pieces under [`HUGE_FROM`]; `None` where addresses are scarce.
    middle: Option<Extents>,
    /// Closed pieces with content, by footprint: start and opened length.
    warm: BTreeMap<u64, VecDeque<(u64, u64)>>,
    /// Open pieces that nobody has, by footprint and opened length; the oldest first.
    idle: BTreeMap<(u64, u64), VecDeque<u64>>,
    /// How many those are; asked without a lock.
    idle_count: Arc<AtomicUsize>,
    /// Bytes of warm and idle pieces.
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
        // The first grain guards the first piece from below.
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

    /// Length of a slab: gets a wide guard where there are such.
    pub(super) fn slab_len(&self) -> u64 {
        if self.grain == HUGE_PAGE {
            WIDE_FROM
        } else {
            256 << 10
        }
    }

    /// Whether there are addresses enough for guards around small pieces.
    pub(super) fn is_roomy(&self) -> bool {
        self.middle.is_some()
    }

    /// Bytes that are kept warm.
    pub(super) fn warm_bytes(&self) -> u64 {
        self.warm_bytes
    }

    /// Addresses that a piece takes: an odd number of pages among the middle ones, which no large one takes.
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

    /// The free ranges that pieces of this footprint come from.
    fn free(&mut self, footprint: u64) -> &mut Extents {
        match &mut self.middle {
            Some(middle) if !footprint.is_multiple_of(self.grain) => middle,
            _ => &mut self.extents,
        }
    }

    /// What `len` bytes take of the machine's memory.
    pub(super) fn rounded(&self, len: u64) -> Option<u64> {
        round_up(len, self.reservation.page())
    }

    /// Opens a piece of `len` bytes; `None` when addresses or mappings have run out.
    pub(super) fn open(&mut self, len: u64) -> Option<u64> {
        let (len, footprint) = (self.rounded(len)?, self.footprint(len)?);
        if let Some(start) = self.take_idle(footprint, len) {
            return Some(start);
        }
        let start = self.take(footprint)?;
        let opened = self.reservation.protect(start, len, Rights::ReadWrite);
        if opened.is_err() {
            // Too many mappings: joined pieces need fewer.
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
            // The last one is in the processor's caches.
            0 => pieces.and_then(VecDeque::pop_back),
            _ => pieces.and_then(VecDeque::pop_front),
        };
        if let Some((start, len)) = found {
            self.warm_bytes -= len;
            return Some(start);
        }
        self.take_cold(footprint)
    }

    /// Closes a piece that [`Pages::open`] gave for this length.
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

    /// How many pieces are idle; for those who do not hold the lock.
    pub(super) fn idle_count(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.idle_count)
    }

    /// Takes an idle piece of this length.
    fn take_idle(&mut self, footprint: u64, len: u64) -> Option<u64> {
        let idle = self.idle.get_mut(&(footprint, len))?;
        let start = match footprint < RESTS_BELOW {
            true if idle.len() <= IDLE_RESTING => None,
            true => idle.pop_front(),
            // The last one is in the processor's caches.
            false => idle.pop_back(),
        }?;
        self.idle_count.fetch_sub(1, Ordering::Relaxed);
        self.warm_bytes -= len;
        Some(start)
    }

    /// Closes all idle pieces: before a launch, and when many are idle.
    pub(super) fn close_idle(&mut self) {
        for ((footprint, len), starts) in std::mem::take(&mut self.idle) {
            for start in starts {
                self.idle_count.fetch_sub(1, Ordering::Relaxed);
                if self.reservation.protect(start, len, Rights::None).is_err() {
                    // It stays open and is never handed out again; its memory goes back.
                    let _ = self.reservation.discard(start, len);
                    self.warm_bytes -= len;
                    continue;
                }
                let warm = self.warm.entry(footprint).or_default();
                warm.push_back((start, len));
            }
        }
    }

    /// Empties and closes a piece whose addresses shall not be handed out before [`Pages::wake`] names them.
    pub(super) fn rest(&mut self, start: u64, len: u64) {
        if let Some(len) = self.rounded(len) {
            // Failure keeps the pages' content, or leaves it readable.
            let _ = self.reservation.discard(start, len);
            let _ = self.reservation.protect(start, len, Rights::None);
        }
    }

    /// Ends the rest of a piece.
    pub(super) fn wake(&mut self, start: u64, len: u64) {
        if let Some(footprint) = self.footprint(len) {
            self.free(footprint).give(start, footprint);
        }
    }

    /// Opens a piece that shows `len` bytes at `offset` of a memory file; both are multiples of the page.
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

    /// Closes a piece whose pages belong to a memory file.
    pub(super) fn close_shared(&mut self, start: u64, len: u64) {
        let Some(footprint) = self.footprint(len) else {
            return;
        };
        // One that cannot be closed is never handed out again.
        if self.reservation.reset(start, len).is_ok() {
            self.free(footprint).give(start, footprint);
        }
    }

    /// Takes closed addresses for `len` bytes at a multiple of `align`, at `hint` if that is free: the start, and
    /// what [`Pages::unreserve`] wants back.
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

    /// Gives back what [`Pages::reserve`] took; everything in it is closed.
    pub(super) fn unreserve(&mut self, (start, len): (u64, u64)) {
        self.extents.give(start, len);
    }

    /// Addresses without content.
    fn take_cold(&mut self, footprint: u64) -> Option<u64> {
        if let Some(start) = self.free(footprint).take(footprint) {
            return Some(start);
        }
        self.flush();
        self.free(footprint).take(footprint)
    }

    /// Empties all warm pieces.
    pub(super) fn flush(&mut self) {
        self.close_idle();
        for (footprint, pieces) in std::mem::take(&mut self.warm) {
            for (start, len) in pieces {
                // Failure keeps the pages' content, which costs memory and nothing else.
                let _ = self.reservation.discard(start, len);
                self.free(footprint).give(start, footprint);
            }
        }
        self.warm_bytes = 0;
    }

    /// Bytes of address space not in use, warm pieces included.
    #[cfg(test)]
    pub(super) fn free_addresses(&self) -> u64 {
        let warm: u64 = self.warm.iter().map(|(f, p)| f * p.len() as u64).sum();
        self.extents.total() + self.middle.as_ref().map_or(0, Extents::total) + warm
    }
}
