//! What the tools that receive the events of the host have in common.

use rustix::time::ClockId;

/// The number of pieces of work that are kept after their ends, so that later work can name them.
pub(crate) const MOST_ENDED: usize = 1 << 16;

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    Stream,
    Event,
    Context,
}

/// Returns what a function of the driver API waits for, or none if it only waits in special cases.
pub(crate) fn waited_for(function: &str) -> Option<Waited> {
    match function.split('_').next().unwrap_or("") {
        "cuStreamSynchronize" => Some(Waited::Stream),
        "cuEventSynchronize" => Some(Waited::Event),
        "cuCtxSynchronize" => Some(Waited::Context),
        _ => None,
    }
}

/// Returns whether the result of a call is an error. That a query finds work incomplete is none.
pub(crate) fn is_failure(result: u32) -> bool {
    const NOT_READY: u32 = 600;
    result != 0 && result != NOT_READY
}

/// Returns the time of a clock of the system in nanoseconds.
pub(crate) fn nanoseconds(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the number that Linux gives the calling thread. In a forked child process, in which no tool records, this is the
/// number of the parent's thread.
pub(crate) fn thread_number() -> u64 {
    thread_local! {
        static NUMBER: u64 = rustix::thread::gettid().as_raw_nonzero().get() as u64;
    }
    NUMBER.with(|&number| number)
}
