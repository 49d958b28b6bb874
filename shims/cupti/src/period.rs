//! The thread that passes buffers to the client in regular intervals.

use std::time::{Duration, Instant};

use margay_activity::interface::Outcome;
use parking_lot::{Condvar, Mutex};

use crate::buffers;

struct Period {
    interval: Option<Duration>,
    /// Whether the thread exists.
    runs: bool,
}

static PERIOD: Mutex<Period> = Mutex::new(Period {
    interval: None,
    runs: false,
});
static CHANGED: Condvar = Condvar::new();

/// Sets the interval; 0 ends the thread.
///
/// # Errors
/// `OUT_OF_MEMORY` if the thread cannot be created.
pub(crate) fn set(milliseconds: u32) -> Result<(), Outcome> {
    let interval = (milliseconds != 0).then(|| Duration::from_millis(milliseconds.into()));
    let mut period = PERIOD.lock();
    period.interval = interval;
    CHANGED.notify_all();
    if interval.is_some() && !period.runs {
        let thread = std::thread::Builder::new().name("margay-cupti".into());
        thread.spawn(run).map_err(|_| Outcome::OUT_OF_MEMORY)?;
        period.runs = true;
    }
    Ok(())
}

fn run() {
    let mut period = PERIOD.lock();
    let mut last = Instant::now();
    while let Some(interval) = period.interval {
        let next = last + interval;
        if Instant::now() < next {
            CHANGED.wait_until(&mut period, next);
            continue;
        }
        drop(period);
        crate::guarded(|| {
            buffers::flush();
            Ok(())
        });
        last = Instant::now();
        period = PERIOD.lock();
    }
    period.runs = false;
}
