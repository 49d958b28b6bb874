//! Shared and local memory of resident CTAs.
//!
//! Each resident CTA uses one slot, which has one window for shared memory and one for local memory. In generated code,
//! offsets in a window have 32 bits. If the system grants enough addresses, a window spans 4 GiB, and inaccessible
//! memory follows it. In this case, an access at any 32-bit offset either is in the CTA's own
//! memory or faults, so generated code need not test offsets. If the system does not grant enough
//! addresses, windows are *narrow*, and generated code must test every offset.
//!
//! Accessible sizes of windows are powers of two (*size classes*). The accessible size of a window is the largest size
//! class that was ever requested for this window. Exception: checking runs reduce the accessible size for each CTA to
//! the size that the CTA needs, rounded up to pages ([`CtaWindow::close_beyond`]). At the start of a CTA, its windows
//! contain the bytes that the previous CTA in the slot wrote, as on a GPU, or zeroes.
//!
//! A cluster of CTAs also uses one slot. The shared memories of its CTAs are in one window. The offset of a CTA's
//! shared memory is the CTA's rank times a constant.
//!
//! Invariant: windows of different slots never overlap, and at most one [`CtaWindow`] owns a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::reservation::{Reservation, Rights};
use super::{MemoryError, limits};

const GIB: u64 = 1 << 30;
/// Size in bytes of the smallest size class.
const SMALLEST_CLASS: u64 = 64 << 10;

/// Sizes of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowGeometry {
    /// Size in bytes of a window for shared memory: a power of two.
    pub shared_span: u64,
    /// Size in bytes of a window for local memory: a power of two.
    pub local_span: u64,
    /// Number of inaccessible bytes after each window. An access of 16 bytes at the last offset of a window ends inside
    /// these bytes.
    pub tail: u64,
    /// Whether generated code must test offsets, because a window spans less than 4 GiB.
    pub narrow: bool,
}

impl WindowGeometry {
    const fn new(shared_span: u64, local_span: u64, tail: u64) -> WindowGeometry {
        WindowGeometry {
            shared_span,
            local_span,
            tail,
            narrow: shared_span < 4 * GIB || local_span < 4 * GIB,
        }
    }

    /// Returns the number of bytes from the start of a slot to the start of the next slot.
    pub fn stride(&self) -> u64 {
        self.shared_span + self.local_span + 2 * self.tail
    }
}

const NARROWEST: WindowGeometry = GEOMETRIES[GEOMETRIES.len() - 1];

/// Returns the maximum number of slots to reserve under `ulimit -v`, so that enough addresses
/// remain for device memory and the program. Returns `None` if this limit is not set.
///
/// Device memory takes up to half of the addresses, and the threads take up to half of the rest. At least a quarter of
/// all addresses remains, and [`Windows::new`] takes up to half of it: an eighth of all addresses. This function leaves
/// a reserve: the slots need at most a twelfth of all addresses.
pub(crate) fn affordable_slots() -> Option<u64> {
    Some(limits::address_space_left()? / 12 / NARROWEST.stride())
}

/// The geometries to try, widest first.
const GEOMETRIES: [WindowGeometry; 6] = [
    WindowGeometry::new(4 * GIB, 4 * GIB, 64 << 20),
    WindowGeometry::new(64 << 20, GIB, 1 << 20),
    WindowGeometry::new(16 << 20, 256 << 20, 64 << 10),
    WindowGeometry::new(4 << 20, 64 << 20, 64 << 10),
    WindowGeometry::new(1 << 20, 16 << 20, 64 << 10),
    WindowGeometry::new(256 << 10, 4 << 20, 64 << 10),
];

/// The number of accessible bytes of each window of a slot.
#[derive(Debug, Default)]
struct Slot {
    shared_open: AtomicU64,
    local_open: AtomicU64,
}

/// The windows of all resident CTAs.
#[derive(Debug)]
pub struct Windows {
    reservation: Reservation,
    geometry: WindowGeometry,
    slots: Box<[Slot]>,
    /// Free slots. The most recently used slot is taken first, because its pages already have memory.
    free: Mutex<Vec<u32>>,
}

impl Windows {
    /// Reserves address space for the windows of `slots` resident CTAs or clusters. If the system
    /// does not grant enough addresses, the windows have fewer than 4 GiB.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] or [`MemoryError::System`] if there are not enough addresses for the narrowest
    /// windows.
    pub fn new(slots: usize) -> Result<Arc<Windows>, MemoryError> {
        let room = limits::address_space_left().map_or(u64::MAX, |left| left / 2);
        let mut last = MemoryError::OutOfMemory {
            requested: NARROWEST.stride().saturating_mul(slots as u64),
            free: room,
        };
        for geometry in GEOMETRIES {
            let len = geometry.stride().checked_mul(slots as u64);
            let Some(len) = len.filter(|&len| len <= room) else {
                continue;
            };
            match Windows::with_geometry(slots, geometry, len) {
                Ok(windows) => return Ok(windows),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn with_geometry(
        slots: usize,
        geometry: WindowGeometry,
        len: u64,
    ) -> Result<Arc<Windows>, MemoryError> {
        let reservation = Reservation::new(len, 2 << 20)?;
        if geometry.narrow {
            tracing::warn!("limited address space: windows are narrow, offsets are tested");
        }
        Ok(Arc::new(Windows {
            reservation,
            geometry,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            free: Mutex::new((0..slots as u32).rev().collect()),
        }))
    }

    /// Returns the sizes of the windows, and whether generated code must test offsets.
    pub fn geometry(&self) -> WindowGeometry {
        self.geometry
    }

    /// Returns the total number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of slots that are not in use.
    pub fn free_slots(&self) -> usize {
        self.free.lock().len()
    }

    /// Returns the address range of all windows.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.reservation.base()..self.reservation.base() + self.reservation.len()
    }

    /// Marks a free slot as used, and makes at least `shared` bytes of its shared memory and
    /// `local` bytes of its local memory accessible.
    ///
    /// # Errors
    /// [`MemoryError::NoWindow`] if no slot is free; [`MemoryError::WindowTooLarge`] if a size exceeds its window;
    /// [`MemoryError::System`] if a system call fails.
    pub fn claim(self: &Arc<Self>, shared: u64, local: u64) -> Result<CtaWindow, MemoryError> {
        let slot = self.free.lock().pop();
        let slot = slot.ok_or(MemoryError::NoWindow(self.slots.len()))?;
        // From here on, the slot is freed when `window` is dropped.
        let window = CtaWindow {
            windows: Arc::clone(self),
            slot,
        };
        window.open(shared, local)?;
        Ok(window)
    }

    /// Checks that `count` slots can have at least `shared` accessible bytes of shared memory and
    /// `local` accessible bytes of local memory at the same time.
    ///
    /// # Errors
    /// [`MemoryError::WindowTooLarge`] if a size exceeds its window; [`MemoryError::OutOfMemory`] if the limit on the
    /// private memory of the process (`ulimit -d`) is too low.
    pub(crate) fn check(&self, count: u64, shared: u64, local: u64) -> Result<(), MemoryError> {
        let WindowGeometry {
            shared_span,
            local_span,
            ..
        } = self.geometry;
        for (wanted, available) in [(shared, shared_span), (local, local_span)] {
            if wanted > available {
                return Err(MemoryError::WindowTooLarge { wanted, available });
            }
        }
        // Windows of the smallest size class are not checked, because every process has enough memory for some of them.
        if shared.max(local) <= SMALLEST_CLASS {
            return Ok(());
        }
        let Some(free) = limits::data_left() else {
            return Ok(());
        };
        let requested = self.missing(count, shared, local);
        match requested <= free {
            true => Ok(()),
            false => Err(MemoryError::OutOfMemory { requested, free }),
        }
    }

    /// Returns an upper bound for the number of bytes that must be made accessible so that `count`
    /// slots have at least `shared` accessible bytes of shared memory and `local` accessible bytes
    /// of local memory.
    fn missing(&self, count: u64, shared: u64, local: u64) -> u64 {
        let missing = |wanted: u64, open: fn(&Slot) -> &AtomicU64| {
            let slots = self.slots.iter();
            let ready = slots.filter(|slot| open(slot).load(Ordering::Relaxed) >= wanted);
            let closed = count.saturating_sub(ready.count() as u64);
            closed.saturating_mul(class_of(wanted))
        };
        missing(shared, |slot| &slot.shared_open)
            .saturating_add(missing(local, |slot| &slot.local_open))
    }

    /// Releases the memory of all free slots to the system.
    pub fn trim(&self) {
        let free = self.free.lock();
        for &slot in free.iter() {
            let [shared, local] = self.parts(slot);
            for part in [shared, local] {
                let open = part.open.load(Ordering::Relaxed);
                if open != 0 {
                    // If this call fails, the slot keeps its memory, which has no other effect.
                    let _ = self.reservation.discard(part.base, open);
                }
            }
        }
    }

    /// Returns the text in which reports of faults describe an address in the windows; `None` for any other address.
    pub fn describe(&self, address: u64) -> Option<String> {
        let offset = address.wrapping_sub(self.reservation.base());
        if offset >= self.reservation.len() {
            return None;
        }
        let (shared, stride) = (self.geometry.shared_span, self.geometry.stride());
        let within = offset % stride;
        let behind_shared = shared + self.geometry.tail;
        Some(match within < behind_shared {
            true => format!("offset {within:#x} of a block's shared memory"),
            false => {
                let within = within - behind_shared;
                format!("offset {within:#x} of a block's local memory")
            }
        })
    }

    fn shared_base(&self, slot: u32) -> u64 {
        self.reservation.base() + self.geometry.stride() * u64::from(slot)
    }

    fn parts(&self, slot: u32) -> [Part<'_>; 2] {
        let base = self.shared_base(slot);
        let state = &self.slots[slot as usize];
        [
            Part {
                base,
                span: self.geometry.shared_span,
                open: &state.shared_open,
            },
            Part {
                base: base + self.geometry.shared_span + self.geometry.tail,
                span: self.geometry.local_span,
                open: &state.local_open,
            },
        ]
    }
}

/// Returns the size class of a window with at least `wanted` accessible bytes.
fn class_of(wanted: u64) -> u64 {
    wanted.next_power_of_two().max(SMALLEST_CLASS)
}

/// One window of a slot.
struct Part<'a> {
    base: u64,
    span: u64,
    open: &'a AtomicU64,
}

impl Part<'_> {
    /// Makes at least the first `wanted` bytes of the window accessible. Only the owner of the slot
    /// calls this function.
    fn grow(&self, reservation: &Reservation, wanted: u64) -> Result<(), MemoryError> {
        if wanted <= self.open.load(Ordering::Relaxed) {
            return Ok(());
        }
        if wanted > self.span {
            return Err(MemoryError::WindowTooLarge {
                wanted,
                available: self.span,
            });
        }
        let class = class_of(wanted);
        reservation.protect(self.base, class, Rights::ReadWrite)?;
        self.open.store(class, Ordering::Relaxed);
        Ok(())
    }

    /// Makes all bytes after the first `wanted` bytes (rounded up to pages) inaccessible.
    fn shrink(&self, reservation: &Reservation, wanted: u64) -> Result<(), MemoryError> {
        let open = self.open.load(Ordering::Relaxed);
        let keep = super::round_up(wanted, reservation.page()).unwrap_or(open);
        if keep < open {
            reservation.protect(self.base + keep, open - keep, Rights::None)?;
            self.open.store(keep, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The windows of one resident CTA or cluster. Dropping the value frees the slot.
#[derive(Debug)]
pub struct CtaWindow {
    windows: Arc<Windows>,
    slot: u32,
}

impl CtaWindow {
    /// Returns the address of offset 0 in shared memory.
    pub fn shared(&self) -> u64 {
        self.windows.shared_base(self.slot)
    }

    /// Returns the address one past the last accessible byte of shared memory.
    pub fn shared_end(&self) -> u64 {
        let [shared, _] = self.windows.parts(self.slot);
        shared.base + shared.open.load(Ordering::Relaxed)
    }

    /// Returns the address of offset 0 in local memory.
    pub fn local(&self) -> u64 {
        let geometry = &self.windows.geometry;
        self.shared() + geometry.shared_span + geometry.tail
    }

    /// Returns the index of the slot, which is less than [`Windows::len`].
    pub fn slot(&self) -> usize {
        self.slot as usize
    }

    /// Returns the set of windows to which the slot belongs.
    pub fn windows(&self) -> &Arc<Windows> {
        &self.windows
    }

    /// Makes at least `shared` bytes of shared memory and `local` bytes of local memory accessible.
    /// If these bytes are already accessible, makes no system call.
    ///
    /// # Errors
    /// [`MemoryError::WindowTooLarge`] if a size exceeds its window; [`MemoryError::System`] if a system call fails.
    pub fn open(&self, shared: u64, local: u64) -> Result<(), MemoryError> {
        let parts = self.windows.parts(self.slot);
        for (part, wanted) in parts.into_iter().zip([shared, local]) {
            part.grow(&self.windows.reservation, wanted)?;
        }
        Ok(())
    }

    /// Makes all bytes of shared memory after the first `shared` bytes, and all bytes of local
    /// memory after the first `local` bytes, inaccessible. Both numbers are rounded up to pages.
    /// Only checking runs use this function.
    ///
    /// # Errors
    /// [`MemoryError::System`] if a system call fails.
    pub fn close_beyond(&self, shared: u64, local: u64) -> Result<(), MemoryError> {
        let parts = self.windows.parts(self.slot);
        for (part, wanted) in parts.into_iter().zip([shared, local]) {
            part.shrink(&self.windows.reservation, wanted)?;
        }
        Ok(())
    }

    /// Returns the number of accessible bytes of shared memory and the number of accessible bytes of local memory.
    pub fn opened(&self) -> (u64, u64) {
        let [shared, local] = self.windows.parts(self.slot);
        let open = |part: Part<'_>| part.open.load(Ordering::Relaxed);
        (open(shared), open(local))
    }
}

impl Drop for CtaWindow {
    fn drop(&mut self) {
        self.windows.free.lock().push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{TrapKind, access, install};

    #[test]
    fn offsets_stay_in_the_window_or_fault() {
        install().expect("handlers");
        let windows = Windows::new(4).expect("address space");
        assert!(!windows.geometry().narrow);
        let a = windows.claim(48 << 10, 100 << 10).expect("slot");
        let b = windows.claim(1, 1).expect("slot");
        assert_eq!(a.opened(), (64 << 10, 128 << 10));
        assert_eq!(b.opened(), (64 << 10, 64 << 10));
        for window in [&a, &b] {
            let (shared_open, local_open) = window.opened();
            for (base, open) in [(window.shared(), shared_open), (window.local(), local_open)] {
                // SAFETY: only this test uses the memory.
                unsafe { access::store32(base + open - 4, 9) }.expect("open");
                for offset in [open, open + (1 << 20), u64::from(u32::MAX) - 15] {
                    let fault = access::load128(base + offset).expect_err("closed");
                    assert_eq!(fault.kind, TrapKind::Protected);
                }
                assert!(access::load128(base + u64::from(u32::MAX)).is_err());
                assert!(access::load8(base - 1).is_err() || base == windows.range().start);
            }
        }
        assert!(windows.range().end < 1 << 47);
    }

    #[test]
    fn slots_are_reused_and_stay_open() {
        install().expect("handlers");
        let windows = Windows::new(2).expect("address space");
        let a = windows.claim(1 << 20, 0).expect("slot");
        let _b = windows.claim(0, 0).expect("slot");
        assert!(matches!(windows.claim(0, 0), Err(MemoryError::NoWindow(2))));
        let (slot, shared) = (a.slot(), a.shared());
        // SAFETY: only this test uses the memory.
        unsafe { access::store32(shared, 5) }.expect("open");
        drop(a);
        assert_eq!(windows.free_slots(), 1);
        let again = windows.claim(16, 70_000).expect("slot");
        assert_eq!((again.slot(), again.shared()), (slot, shared));
        assert_eq!(again.opened(), (1 << 20, 128 << 10));
        assert_eq!(access::load32(shared), Ok(5));
        again.close_beyond(5000, 0).expect("close");
        assert_eq!(again.opened(), (8192, 0));
        assert!(access::load8(shared + 8192).is_err());
        again.open(8193, 0).expect("open");
        assert_eq!(access::load8(shared + 8192), Ok(0));
        drop(again);
        windows.trim();
        assert_eq!(access::load32(shared), Ok(0));
    }

    #[test]
    fn too_much_is_an_error_and_keeps_the_slot_free() {
        let windows = Windows::new(1).expect("address space");
        let error = windows.claim(0, (4 << 30) + 1).expect_err("too wide");
        assert!(matches!(error, MemoryError::WindowTooLarge { .. }));
        assert!(windows.claim(u64::MAX, 0).is_err());
        assert_eq!(windows.free_slots(), 1);
        assert!(Windows::new(usize::MAX).is_err());
    }

    // Regression test: the launch succeeded, and a worker without a window ended it with a sticky error.
    #[test]
    fn windows_are_checked_before_workers_claim_them() {
        let len = NARROWEST.stride() * 4;
        let windows = Windows::with_geometry(4, NARROWEST, len).expect("address space");
        let (shared, local) = (NARROWEST.shared_span, NARROWEST.local_span);
        assert!(windows.check(1, shared, local).is_ok());
        for (shared, local) in [(shared + 1, 0), (0, local + 1)] {
            let error = windows.check(1, shared, local).expect_err("too wide");
            assert!(matches!(error, MemoryError::WindowTooLarge { .. }));
        }
        const LOCAL: u64 = 1 << 20;
        assert_eq!(windows.missing(3, 1, LOCAL), 3 * (SMALLEST_CLASS + LOCAL));
        drop(windows.claim(1, LOCAL - 1).expect("slot"));
        assert_eq!(windows.missing(3, 1, LOCAL), 2 * (SMALLEST_CLASS + LOCAL));
        assert_eq!(windows.missing(1, 1, LOCAL), 0);
        assert_eq!(windows.missing(1, 1, LOCAL + 1), 2 * LOCAL);
    }

    #[test]
    fn all_geometries_are_sound() {
        for geometry in GEOMETRIES {
            assert!(
                geometry.shared_span.is_power_of_two() && geometry.local_span.is_power_of_two()
            );
            assert!(geometry.tail >= SMALLEST_CLASS);
        }
        // Even 900 slots of the widest geometry need less than 8 TiB.
        assert!(GEOMETRIES[0].stride() * 900 < 8 << 40);
    }
}
