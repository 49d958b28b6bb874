//! Guarded pieces of the address space: each is followed, and so also preceded, by closed pages.
//!
//! A freed piece is closed, so that a use after the free faults as on a GPU, but keeps its pages
//! for the next request of the same footprint (*warm*). Over the cache limit, or when room is
//! short, warm pieces are emptied and joined with their neighbours.
//!
//! Invariant: a piece starts at a multiple of the grain, and its footprint ends with at least
//! `guard` closed bytes. Everything not handed out is closed.

use std::collections::BTreeMap;

use super::MemoryError;
use super::extents::Extents;
use super::reservation::{Reservation, Rights};
use super::round_up;

/// From this size on huge pages pay.
const HUGE_FROM: u64 = 4 << 20;
const HUGE_PAGE: u64 = 2 << 20;
/// Spaces of this size can afford wide guards.
const ROOMY: u64 = 256 << 30;
/// An index that is a mebibyte too large, the usual kind of wild, still hits the guard.
const WIDE_GUARD: u64 = (1 << 20) + (256 << 10);

/// The pieces of one reservation.
#[derive(Debug)]
pub(super) struct Pages {
    reservation: Reservation,
    extents: Extents,
    /// Closed pieces with content, by footprint: start and opened length.
    warm: BTreeMap<u64, Vec<(u64, u64)>>,
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
        let reservation = Reservation::largest(sizes, HUGE_PAGE)?;
        let (grain, guard) = if reservation.len() >= ROOMY {
            (HUGE_PAGE, WIDE_GUARD)
        } else {
            (64 << 10, 64 << 10)
        };
        let usable = reservation.len().saturating_sub(grain);
        Ok(Pages {
            // The first grain guards the first piece from below.
            extents: Extents::new(reservation.base() + grain, usable),
            reservation,
            warm: BTreeMap::new(),
            warm_bytes: 0,
            warm_limit,
            grain,
            guard,
        })
    }

    pub(super) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Length of a slab: leaves the guard within one grain where guards are wide.
    pub(super) fn slab_len(&self) -> u64 {
        if self.grain == HUGE_PAGE {
            512 << 10
        } else {
            256 << 10
        }
    }

    /// Bytes that are kept warm.
    pub(super) fn warm_bytes(&self) -> u64 {
        self.warm_bytes
    }

    fn footprint(&self, len: u64) -> Option<u64> {
        round_up(len.checked_add(self.guard)?, self.grain)
    }

    /// What `len` bytes take of the machine's memory.
    pub(super) fn rounded(&self, len: u64) -> Option<u64> {
        round_up(len, self.reservation.page())
    }

    /// Opens a piece of `len` bytes; `None` when addresses or mappings have run out.
    pub(super) fn open(&mut self, len: u64) -> Option<u64> {
        let (len, footprint) = (self.rounded(len)?, self.footprint(len)?);
        let start = self.take(footprint)?;
        let opened = self.reservation.protect(start, len, Rights::ReadWrite);
        if opened.is_err() {
            // Too many mappings: joined pieces need fewer.
            self.flush();
            let again = self.reservation.protect(start, len, Rights::ReadWrite);
            if again.is_err() {
                self.extents.give(start, footprint);
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
        if let Some((start, len)) = self.warm.get_mut(&footprint).and_then(Vec::pop) {
            self.warm_bytes -= len;
            return Some(start);
        }
        if let Some(start) = self.extents.take(footprint) {
            return Some(start);
        }
        self.flush();
        self.extents.take(footprint)
    }

    /// Closes a piece that [`Pages::open`] gave for this length.
    pub(super) fn close(&mut self, start: u64, len: u64) {
        let (Some(len), Some(footprint)) = (self.rounded(len), self.footprint(len)) else {
            return;
        };
        if self.reservation.protect(start, len, Rights::None).is_err() {
            // It stays open and is never handed out again; its memory goes back.
            let _ = self.reservation.discard(start, len);
            return;
        }
        self.warm.entry(footprint).or_default().push((start, len));
        self.warm_bytes += len;
        if self.warm_bytes > self.warm_limit {
            self.flush();
        }
    }

    /// Empties all warm pieces.
    pub(super) fn flush(&mut self) {
        for (footprint, pieces) in std::mem::take(&mut self.warm) {
            for (start, len) in pieces {
                // Failure keeps the pages' content, which costs memory and nothing else.
                let _ = self.reservation.discard(start, len);
                self.extents.give(start, footprint);
            }
        }
        self.warm_bytes = 0;
    }

    /// Bytes of address space not in use, warm pieces included.
    #[cfg(test)]
    pub(super) fn free_addresses(&self) -> u64 {
        let warm: u64 = self.warm.iter().map(|(f, p)| f * p.len() as u64).sum();
        self.extents.total() + warm
    }
}
