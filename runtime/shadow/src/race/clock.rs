//! Clocks: which accesses of other threads a thread knows to be over.
//!
//! Time is counted in two units. The *epoch* of a CTA counts the barriers that all threads of the CTA have passed. The
//! *interval* of a warp counts the operations that order accesses of its threads. Both only grow.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The index of a CTA in the detector. Indices of different launches differ.
pub type CtaId = u32;

/// A thread: the index of its CTA, and its index in the CTA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Thread {
    /// The CTA.
    pub(super) cta: CtaId,
    /// The linear index of the thread in the CTA.
    pub(super) index: u32,
}

impl Thread {
    /// Returns the index of the thread's warp in its CTA.
    pub(super) fn warp(self) -> u32 {
        self.index / 32
    }

    /// Returns the index of the thread in its warp.
    pub(super) fn lane(self) -> u32 {
        self.index % 32
    }
}

/// When an access occurred.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Time {
    /// The epoch of the thread's CTA.
    pub(super) epoch: u32,
    /// The interval of the thread's warp.
    pub(super) interval: u32,
}

/// What a clock knows about a warp.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct WarpTime {
    /// All accesses of all threads of the warp up to this interval are known, if it is not 0.
    all: u32,
    /// All accesses of a lane up to an interval are known.
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

    fn join(&mut self, other: &WarpTime) {
        self.all = self.all.max(other.all);
        for &(lane, until) in &other.lanes {
            if until > self.all {
                self.learn_lane(lane.into(), until);
            }
        }
    }
}

/// The accesses that are known to be over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Clock {
    /// All accesses of a CTA before an epoch.
    ctas: FxHashMap<CtaId, u32>,
    /// Accesses of single warps in later epochs.
    warps: FxHashMap<(CtaId, u32), WarpTime>,
    /// Whether an edge (a write and a read that synchronise two threads) that contributed to this clock has too narrow
    /// a scope. Only clocks that explain a race contain such edges.
    pub(super) narrow: bool,
    /// For each [`Window`], the writes that are followed by a fence between the generic and the asynchronous proxy. The
    /// asynchronous proxy sees these writes.
    pub(super) fenced: [Shared; 2],
}

/// The state space to which a fence between the generic and the asynchronous proxy applies.
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
    /// Returns whether nothing is known.
    pub(super) fn is_empty(&self) -> bool {
        let fenced = self.fenced.iter().any(Option::is_some);
        self.ctas.is_empty() && self.warps.is_empty() && !fenced
    }

    /// Returns a number that grows with the memory of the clock.
    pub(super) fn size(&self) -> u64 {
        let warps = self.warps.values().map(|warp| 4 + warp.lanes.len() as u64);
        self.ctas.len() as u64 + warps.sum::<u64>()
    }

    /// Returns whether an access of a thread is known to be over.
    pub(super) fn knows(&self, thread: Thread, time: Time) -> bool {
        let cta = self.ctas.get(&thread.cta);
        cta.is_some_and(|&before| time.epoch < before)
            || self
                .warps
                .get(&(thread.cta, thread.warp()))
                .is_some_and(|warp| warp.knows(thread.lane(), time.interval))
    }

    /// Learns that all accesses of a CTA before `epoch` are over.
    pub(super) fn learn_cta(&mut self, cta: CtaId, epoch: u32) {
        let known = self.ctas.entry(cta).or_default();
        *known = (*known).max(epoch);
    }

    /// Learns that all accesses of a thread up to `interval` are over.
    pub(super) fn learn_thread(&mut self, thread: Thread, interval: u32) {
        let warp = self.warps.entry((thread.cta, thread.warp())).or_default();
        warp.learn_lane(thread.lane(), interval);
    }

    /// Learns that all accesses of a warp up to `interval` are over.
    pub(super) fn learn_warp(&mut self, cta: CtaId, warp: u32, interval: u32) {
        let warp = self.warps.entry((cta, warp)).or_default();
        warp.all = warp.all.max(interval);
    }

    /// Learns all that another clock knows.
    pub(super) fn join(&mut self, other: &Clock) {
        for (&cta, &epoch) in &other.ctas {
            self.learn_cta(cta, epoch);
        }
        for (&warp, time) in &other.warps {
            self.warps.entry(warp).or_default().join(time);
        }
        self.narrow |= other.narrow;
        for (own, fenced) in self.fenced.iter_mut().zip(&other.fenced) {
            join(own, fenced);
        }
    }

    /// Returns whether an access is known to be followed by a fence between proxies.
    pub(super) fn has_fenced(&self, thread: Thread, time: Time, window: Window) -> bool {
        knows(&self.fenced[window as usize], thread, time)
    }

    /// Forgets what is known about the warps of a CTA before the CTA's known epoch. `intervals` are the intervals in
    /// which the epoch began, by warp.
    pub(super) fn forget_warps_of(&mut self, cta: CtaId) {
        self.warps.retain(|&(of, _), _| of != cta);
    }
}

/// A clock that several threads and memory locations share.
pub(super) type Shared = Option<Arc<Clock>>;

/// Adds the knowledge of `other` to a shared clock.
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

/// Returns a number that grows with the memory of a shared clock.
pub(super) fn size(clock: &Shared) -> u64 {
    clock.as_ref().map_or(0, |clock| clock.size())
}

/// Returns whether a shared clock knows that an access is over.
pub(super) fn knows(clock: &Shared, thread: Thread, time: Time) -> bool {
    clock
        .as_ref()
        .is_some_and(|clock| clock.knows(thread, time))
}
