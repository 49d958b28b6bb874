//! The keeper is a thread that stops launches at their time limit. It also signals the workers of a stopping launch
//! repeatedly until they have left the launch.
//!
//! One signal is not always sufficient. If the worker is in a helper function, the signal only sets
//! a flag, and generated code can then enter a loop that does not read the flag. If two runs stop
//! at the same time, the request to leave the second run replaces the request to leave the first,
//! unless the worker has already left the first.
//!
//! Invariant: the thread starts when the first time limit is set or the first launch is stopped.
//! While no launch has a time limit and no launch is stopping, the thread sleeps.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Run, Shared};

#[derive(Default)]
pub(super) struct Keeper {
    state: Mutex<KeeperState>,
    changed: Condvar,
}

#[derive(Default)]
struct KeeperState {
    started: bool,
    limits: Vec<(Instant, Duration, Weak<Run>)>,
    stopping: Vec<Weak<Run>>,
}

/// Time between two signals to the workers of a stopping launch.
const REPEAT: Duration = Duration::from_millis(1);

impl Keeper {
    /// Stops the run if it is not complete after `limit`.
    pub(super) fn watch(&self, shared: &Arc<Shared>, run: &Arc<Run>, limit: Duration) {
        let Some(deadline) = Instant::now().checked_add(limit) else {
            return;
        };
        let mut state = self.state.lock();
        state.limits.retain(|(_, _, run)| run.strong_count() > 0);
        state.limits.push((deadline, limit, Arc::downgrade(run)));
        self.wake_or_start(shared, state);
    }

    /// Signals the run's workers until all of them have left the run.
    pub(super) fn stop(&self, shared: &Arc<Shared>, run: &Arc<Run>) {
        shared.signal_workers(run);
        let mut state = self.state.lock();
        state.stopping.push(Arc::downgrade(run));
        self.wake_or_start(shared, state);
    }

    pub(super) fn wake(&self) {
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    fn wake_or_start(
        &self,
        shared: &Arc<Shared>,
        mut state: parking_lot::MutexGuard<'_, KeeperState>,
    ) {
        if state.started {
            self.changed.notify_all();
            return;
        }
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("margay-keeper".into());
        state.started = thread.spawn(move || keep(&shared)).is_ok();
    }
}

/// Runs the loop of the keeper thread.
fn keep(shared: &Arc<Shared>) {
    let keeper = &shared.keeper;
    let mut state = keeper.state.lock();
    loop {
        let expired = take_expired(&mut state);
        state.stopping.retain(is_running);
        let stopping: Vec<_> = state.stopping.iter().filter_map(Weak::upgrade).collect();
        if !expired.is_empty() || !stopping.is_empty() {
            parking_lot::MutexGuard::unlocked(&mut state, || {
                for (run, limit) in expired {
                    let fault = run.timeout(limit);
                    shared.stop(&run, Some(fault));
                }
                for run in stopping {
                    shared.signal_workers(&run);
                }
            });
        }
        let idle = state.stopping.is_empty();
        if shared.closed.load(Ordering::SeqCst) && idle && state.limits.is_empty() {
            return;
        }
        let next = state.limits.iter().map(|(deadline, ..)| *deadline).min();
        match (idle, next) {
            (false, _) => {
                keeper.changed.wait_for(&mut state, REPEAT);
            }
            (true, Some(deadline)) => {
                keeper.changed.wait_until(&mut state, deadline);
            }
            (true, None) => keeper.changed.wait(&mut state),
        }
    }
}

fn is_running(run: &Weak<Run>) -> bool {
    run.upgrade().is_some_and(|run| !run.is_finished())
}

fn take_expired(state: &mut KeeperState) -> Vec<(Arc<Run>, Duration)> {
    let now = Instant::now();
    state.limits.retain(|(_, _, run)| is_running(run));
    let expired = state
        .limits
        .extract_if(.., |(deadline, ..)| *deadline <= now);
    expired
        .filter_map(|(_, limit, run)| Some((run.upgrade()?, limit)))
        .collect()
}
