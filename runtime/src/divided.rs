//! Divides large copies and fills among several threads.
//!
//! The thread that performs a copy divides it into parts and performs one part after the other. Copy threads that have
//! nothing else to do help. The thread never waits for a helper to begin, only for the parts that helpers have begun.
//! A copy therefore ends even if all copy threads are busy.
//!
//! One core reaches the bandwidth of memory but not that of a shared cache, so copies that fit into the shared cache gain
//! most. The parts are copied with string instructions, which are as fast as non-temporal stores beyond the caches, and
//! several times as fast within them.
//!
//! Invariant: each byte belongs to one part, and the parts begin in the order of their addresses. If parts fail, the
//! result is the error of the first of them, as if one thread had performed all parts in order.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::service::ServiceThreads;
use crate::spin;

/// Number of bytes in a part. Copying a part takes about as long as handing it to another thread.
const PART: u64 = 256 << 10;
/// Minimum number of bytes of work that is divided.
const LEAST: u64 = 1 << 20;
/// Time for which the dividing thread polls for the end of the last parts. Copying a part takes less time.
const LOOK: std::time::Duration = std::time::Duration::from_micros(50);

/// The copy threads that help with a copy or fill, and the priority of the help.
#[derive(Clone, Copy)]
pub(crate) struct Helpers<'a> {
    pub(crate) threads: &'a ServiceThreads,
    pub(crate) priority: i32,
}

/// Work that is divided among threads.
struct Divided<F> {
    bytes: u64,
    /// Offset of the first byte that belongs to no part yet.
    next: AtomicU64,
    work: F,
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of helpers that perform parts.
    helping: usize,
    /// The offset and the error of the first part that has failed.
    failed: Option<(u64, Error)>,
}

/// Performs `work` for all of the byte offsets `0..bytes`, possibly on several threads and in several calls. The ranges of
/// the calls begin at multiples of [`PART`].
///
/// # Errors
/// Returns the error of the first range for which `work` fails. Later ranges may have been performed or not.
pub(crate) fn perform<F>(helpers: Helpers<'_>, bytes: u64, work: F) -> Result<()>
where
    F: Fn(Range<u64>) -> Result<()> + Send + Sync + 'static,
{
    // The calling thread may itself be a copy thread, so at most all other threads help.
    let others = helpers.threads.most().saturating_sub(1) as u64;
    let wanted = others.min((bytes / PART).saturating_sub(1));
    if bytes < LEAST || wanted == 0 {
        return work(0..bytes);
    }
    let divided = Arc::new(Divided {
        bytes,
        next: AtomicU64::new(0),
        work,
        state: Mutex::default(),
        left: Condvar::new(),
    });
    for _ in 0..wanted {
        let divided = Arc::clone(&divided);
        helpers
            .threads
            .send(helpers.priority, Box::new(move || divided.help()));
    }
    divided.perform_parts();
    divided.wait()
}

impl<F: Fn(Range<u64>) -> Result<()>> Divided<F> {
    /// Performs parts until none is left.
    fn perform_parts(&self) {
        loop {
            let first = self.next.fetch_add(PART, Ordering::Relaxed);
            if first >= self.bytes {
                return;
            }
            let end = self.bytes.min(first + PART);
            if let Err(error) = (self.work)(first..end) {
                // All earlier parts have begun, so no part that has not begun can contain the first error.
                self.next.store(self.bytes, Ordering::Relaxed);
                let mut state = self.state.lock();
                if state.failed.as_ref().is_none_or(|(at, _)| first < *at) {
                    state.failed = Some((first, error));
                }
                return;
            }
        }
    }

    /// Performs parts on a thread that helps.
    fn help(&self) {
        {
            let mut state = self.state.lock();
            // After the dividing thread has found no part, it waits only for the helpers that it counts.
            if self.next.load(Ordering::Relaxed) >= self.bytes {
                return;
            }
            state.helping += 1;
        }
        self.perform_parts();
        self.state.lock().helping -= 1;
        self.left.notify_all();
    }

    /// Waits until no helper performs parts any more.
    fn wait(&self) -> Result<()> {
        spin::until(LOOK, || self.state.lock().helping == 0);
        let mut state = self.state.lock();
        while state.helping > 0 {
            self.left.wait(&mut state);
        }
        state.failed.take().map_or(Ok(()), |(_, error)| Err(error))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread::ThreadId;

    use super::*;

    fn threads(most: usize) -> ServiceThreads {
        ServiceThreads::new("margay-test", most)
    }

    fn with(threads: &ServiceThreads) -> Helpers<'_> {
        Helpers {
            threads,
            priority: 0,
        }
    }

    #[test]
    fn every_byte_belongs_to_one_part() {
        for bytes in [0, 1, PART, LEAST - 1, LEAST, LEAST + 1, 9 * PART - 7] {
            for most in [1, 2, 3] {
                let done = Arc::new(Mutex::new(Vec::new()));
                let ranges = Arc::clone(&done);
                let performed = perform(with(&threads(most)), bytes, move |range| {
                    ranges.lock().push((range.start, range.end));
                    Ok(())
                });
                performed.expect("no part fails");
                let mut ranges = done.lock().clone();
                ranges.sort_unstable();
                let mut at = 0;
                for (start, end) in ranges {
                    assert_eq!(start, at);
                    at = end;
                }
                assert_eq!(at, bytes);
            }
        }
    }

    /// Each part waits until two threads perform parts.
    #[test]
    fn other_threads_help() {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let ids = Arc::clone(&seen);
        let threads = threads(2);
        let performed = perform(with(&threads), 8 * LEAST, move |_| {
            let id: ThreadId = std::thread::current().id();
            ids.lock().insert(format!("{id:?}"));
            spin::until(std::time::Duration::from_secs(20), || ids.lock().len() == 2);
            Ok(())
        });
        performed.expect("no part fails");
        assert_eq!(seen.lock().len(), 2);
    }

    /// All copy threads are busy until the work is complete.
    #[test]
    fn work_ends_without_help() {
        let threads = threads(2);
        let open = Arc::new(Mutex::new(()));
        let held = open.lock();
        for _ in 0..2 {
            let open = Arc::clone(&open);
            threads.send(0, Box::new(move || drop(open.lock())));
        }
        perform(with(&threads), 4 * LEAST, |_| Ok(())).expect("no part fails");
        drop(held);
    }

    /// Part 5 fails after part 6, which another thread performs meanwhile.
    #[test]
    fn the_first_error_is_the_result() {
        let threads = threads(2);
        let later = Arc::new(AtomicU64::new(0));
        let performed = perform(with(&threads), 16 * PART, move |range| {
            let part = range.start / PART;
            match part {
                5 => {
                    let limit = std::time::Duration::from_secs(20);
                    spin::until(limit, || later.load(Ordering::Relaxed) != 0);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                6.. => later.store(part, Ordering::Relaxed),
                _ => return Ok(()),
            }
            Err(Error::invalid(format!("part {part}")))
        });
        let error = performed.expect_err("parts fail");
        assert!(error.to_string().contains("part 5"), "{error}");
    }
}
