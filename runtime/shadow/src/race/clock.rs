//! Vector clocks. A clock is a set of accesses. The clock of a thread contains the accesses of other threads that
//! happen before the next access of this thread. In the code, the clock, or the thread, *knows* the
//! accesses that the clock contains.
//!
//! Time is measured in two units. The *epoch* of a CTA counts the barriers that all threads of the CTA have passed. The
//! *interval* of a warp counts the operations that order accesses of its threads. Epochs and intervals never decrease.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::trie::{Trie, Value};

/// The index of a CTA in the detector. Indices of different launches differ.
pub type CtaId = u32;

/// Identifies a thread by the index of its CTA and its index in the CTA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Thread {
    /// The CTA.
    pub(super) cta: CtaId,
    /// The linear index of the thread in the CTA.
    pub(super) index: u32,
}

impl Thread {
    /// Returns the index of the thread's warp in its CTA.
    #[inline]
    pub(super) fn warp(self) -> u32 {
        self.index / 32
    }

    /// Returns the index of the thread in its warp.
    #[inline]
    pub(super) fn lane(self) -> u32 {
        self.index % 32
    }
}

/// The time of an access.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Time {
    /// The epoch of the thread's CTA during the access.
    pub(super) epoch: u32,
    /// The number of the interval of the thread's warp during the access.
    pub(super) interval: u32,
}

impl Time {
    /// The time of accesses before the first synchronisation.
    pub(super) const FIRST: Time = Time {
        epoch: 0,
        interval: 1,
    };
}

/// The accesses of one warp that a clock contains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct WarpTime {
    /// The clock contains all accesses of all threads of the warp in intervals up to this one; 0 if it contains no such
    /// interval.
    all: u32,
    /// Pairs of a lane and an interval: the clock contains all accesses of the lane in intervals up to this interval.
    lanes: SmallVec<[(u8, u32); 2]>,
}

impl WarpTime {
    fn knows(&self, lane: u32, interval: u32) -> bool {
        let lanes = self.lanes.iter();
        interval <= self.all
            || lanes
                .filter(|&&(other, _)| u32::from(other) == lane)
                .any(|&(_, until)| interval <= until)
    }

    /// Returns the lanes whose accesses in intervals up to `interval` the clock contains.
    fn lanes(&self, interval: u32) -> u32 {
        if interval <= self.all {
            return u32::MAX;
        }
        let known = self.lanes.iter().filter(|&&(_, until)| interval <= until);
        known.fold(0, |mask, &(lane, _)| mask | 1 << lane)
    }

    /// Returns whether this entry and `other` contain the same accesses of a warp.
    fn has_same_lanes(&self, other: &WarpTime) -> bool {
        let known = |time: &WarpTime| {
            let mut known = [time.all; 32];
            for &(lane, until) in &time.lanes {
                let known = &mut known[usize::from(lane) % 32];
                *known = until.max(*known);
            }
            known
        };
        known(self) == known(other)
    }

    fn learn_lane(&mut self, lane: u32, until: u32) {
        match self.lanes.iter_mut().find(|(l, _)| u32::from(*l) == lane) {
            Some((_, known)) => *known = (*known).max(until),
            None => self.lanes.push((lane as u8, until)),
        }
        if self.lanes.len() == 32 {
            let least = self.lanes.iter().map(|&(_, until)| until).min();
            let all = self.all.max(least.unwrap_or(0));
            self.all = all;
            self.lanes.retain(|(_, until)| *until > all);
            self.lanes.shrink_to_fit();
        }
    }

    fn merge(&mut self, other: &WarpTime) {
        self.all = self.all.max(other.all);
        if other.lanes.len() <= 2 {
            for &(lane, until) in &other.lanes {
                if until > self.all {
                    self.learn_lane(lane.into(), until);
                }
            }
            return;
        }
        let mut known = [0; 32];
        for &(lane, until) in self.lanes.iter().chain(&other.lanes) {
            let known = &mut known[usize::from(lane) % 32];
            *known = until.max(*known);
        }
        let all = known
            .iter()
            .fold(u32::MAX, |least, &until| least.min(until));
        let all = self.all.max(all);
        self.all = all;
        self.lanes.clear();
        let lanes = (0..32).zip(known);
        self.lanes.extend(lanes.filter(|&(_, until)| until > all));
    }
}

impl Value for WarpTime {
    fn join(&self, other: &WarpTime) -> (WarpTime, [bool; 2]) {
        if self == other {
            return (self.clone(), [true; 2]);
        }
        let mut joined = self.clone();
        joined.merge(other);
        let is = [self, other].map(|one| one.has_same_lanes(&joined));
        (joined, is)
    }

    fn weight(&self) -> u64 {
        4 + self.lanes.len() as u64
    }
}

/// Returns the key of a warp in the map of a clock.
fn warp_key(cta: CtaId, warp: u32) -> u64 {
    u64::from(cta) << 32 | u64::from(warp)
}

/// A set of accesses. The clock of a thread, warp or CTA contains the accesses that happen before its next access. The
/// clock of a location contains the accesses that the writes to the location have released.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// For each CTA, an epoch: the clock contains all accesses of the CTA before this epoch.
    ctas: Trie<u32>,
    /// For each warp ([`warp_key`]), the accesses of its lanes that the clock contains in addition
    /// to the accesses that `ctas` covers.
    warps: Trie<WarpTime>,
    /// Whether an edge with too narrow a scope contributed to this clock. (An edge is a write and a read that
    /// synchronise two threads; the fence after the read belongs to it.) Only [`Basis::Suspected`](super::cta::Basis)
    /// clocks, which explain races, contain such edges.
    pub(super) narrow: bool,
    /// For each [`Window`], the writes in this clock that are followed by a fence between the
    /// generic and the asynchronous proxy. These writes are visible to the asynchronous proxy.
    pub(super) fenced: [Shared; 2],
}

/// A state space that an access uses, or to which a fence between the generic and the asynchronous proxy applies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Window {
    /// Shared memory.
    Shared,
    /// Global memory.
    Global,
}

impl Window {
    /// All windows.
    pub const ALL: [Window; 2] = [Window::Shared, Window::Global];
}

impl Clock {
    /// Returns whether the clock contains no accesses.
    pub(super) fn is_empty(&self) -> bool {
        let fenced = self.fenced.iter().any(Option::is_some);
        self.ctas.is_empty() && self.warps.is_empty() && !fenced
    }

    /// Returns a number that is about proportional to the memory that the clock occupies.
    pub(super) fn size(&self) -> u64 {
        self.ctas.weight() + self.warps.weight()
    }

    /// Returns whether [`Clock::size`] is greater than `most`.
    fn exceeds(&self, most: u64) -> bool {
        self.size() > most
    }

    /// Returns whether the clock contains the accesses of `thread` at `time`.
    pub(super) fn knows(&self, thread: Thread, time: Time) -> bool {
        let cta = self.ctas.get(thread.cta.into());
        cta.is_some_and(|&before| time.epoch < before)
            || self
                .warps
                .get(warp_key(thread.cta, thread.warp()))
                .is_some_and(|warp| warp.knows(thread.lane(), time.interval))
    }

    /// Returns the lanes of a warp whose accesses at `time` the clock contains.
    fn lanes(&self, (cta, warp): (CtaId, u32), time: Time) -> u32 {
        let before = self.ctas.get(cta.into());
        if before.is_some_and(|&before| time.epoch < before) {
            return u32::MAX;
        }
        let warp = self.warps.get(warp_key(cta, warp));
        warp.map_or(0, |warp| warp.lanes(time.interval))
    }

    /// Adds to the clock all accesses of a CTA in epochs before `epoch`.
    pub(super) fn learn_cta(&mut self, cta: CtaId, epoch: u32) {
        self.ctas.add(cta.into(), epoch);
    }

    /// Adds to the clock all accesses of a thread in intervals up to `interval`.
    pub(super) fn learn_thread(&mut self, thread: Thread, interval: u32) {
        let lanes = SmallVec::from_slice(&[(thread.lane() as u8, interval)]);
        let time = WarpTime { all: 0, lanes };
        self.warps.add(warp_key(thread.cta, thread.warp()), time);
    }

    /// Adds to the clock all accesses of a warp in intervals up to `interval`.
    pub(super) fn learn_warp(&mut self, cta: CtaId, warp: u32, interval: u32) {
        let time = WarpTime {
            all: interval,
            lanes: SmallVec::new(),
        };
        self.warps.add(warp_key(cta, warp), time);
    }

    /// Adds to the clock all accesses that another clock contains.
    pub(super) fn join(&mut self, other: &Clock) {
        self.ctas.join(&other.ctas);
        self.warps.join(&other.warps);
        self.narrow |= other.narrow;
        for (own, fenced) in self.fenced.iter_mut().zip(&other.fenced) {
            join(own, fenced);
        }
    }

    /// Returns whether the clock records that a fence between proxies, for `window`, follows the accesses of `thread`
    /// at `time`.
    pub(super) fn has_fenced(&self, thread: Thread, time: Time, window: Window) -> bool {
        knows(&self.fenced[window as usize], thread, time)
    }

    /// Removes the entries for the individual warps of a CTA, but not the entry for the CTA. The caller must ensure
    /// that the epoch of the CTA in this clock covers their accesses.
    pub(super) fn forget_warps_of(&mut self, cta: CtaId) {
        self.warps.remove_all(warp_key(cta, 0), 32);
    }
}

/// A clock that threads and memory locations can share; `None` if it contains no accesses.
pub(super) type Shared = Option<Arc<Clock>>;

/// Adds all accesses that `other` contains to a shared clock.
pub(super) fn join(clock: &mut Shared, other: &Shared) {
    let Some(other) = other else {
        return;
    };
    match clock {
        None => *clock = Some(Arc::clone(other)),
        Some(own) if Arc::ptr_eq(own, other) => {}
        Some(own) => Arc::make_mut(own).join(other),
    }
}

/// Returns whether the size of a shared clock is greater than `most`.
pub(super) fn exceeds(clock: &Shared, most: u64) -> bool {
    clock.as_ref().is_some_and(|clock| clock.exceeds(most))
}

/// Returns the total size of the clocks that [`join`] with these arguments reads or copies.
pub(super) fn joined(clock: &Shared, other: &Shared) -> u64 {
    match (clock, other) {
        (Some(own), Some(other)) if !Arc::ptr_eq(own, other) => own.size() + other.size(),
        _ => 0,
    }
}

/// Returns the size of a shared clock ([`Clock::size`]); 0 if there is no clock.
pub(super) fn size(clock: &Shared) -> u64 {
    clock.as_ref().map_or(0, |clock| clock.size())
}

/// Returns the lanes of a warp whose accesses at `time` a shared clock contains.
pub(super) fn lanes(clock: &Shared, warp: (CtaId, u32), time: Time) -> u32 {
    clock.as_ref().map_or(0, |clock| clock.lanes(warp, time))
}

/// Returns whether a shared clock contains the accesses of `thread` at `time`.
pub(super) fn knows(clock: &Shared, thread: Thread, time: Time) -> bool {
    clock
        .as_ref()
        .is_some_and(|clock| clock.knows(thread, time))
}
