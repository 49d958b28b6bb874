//! Descriptions of tracks, in words that both formats use.

use crate::layout::{Place, Process};

/// What a sequence of events is about.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Thread(Thread),
    Counter(CounterTrack),
}

/// A track of slices.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) place: Place,
    pub(crate) name: String,
    /// The position among the threads of the process.
    pub(crate) rank: i32,
}

/// A track of values.
#[derive(Clone, Debug)]
pub(crate) struct CounterTrack {
    pub(crate) process: Process,
    pub(crate) uuid: u64,
    pub(crate) name: String,
    /// The name of the value.
    pub(crate) series: &'static str,
    pub(crate) is_bytes: bool,
    pub(crate) rank: i32,
}

/// A group of tracks.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) process: Process,
    pub(crate) name: String,
}

/// What is known when a timeline is created and holds for all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The real number of the host process.
    pub(crate) process_id: u32,
    /// The time that Chrome's format shows as 0.
    pub(crate) origin: u64,
    pub(crate) clocks: Option<Clocks>,
}

/// Readings of the system's clocks at one moment, in nanoseconds.
///
/// They let a viewer align the timeline with other traces. All times of the timeline are those of the monotonic clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`.
    pub boottime: u64,
    /// `CLOCK_REALTIME`: since 1970-01-01.
    pub realtime: u64,
}
