//! The end of tracing.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::producer::Producer;

/// How tracing has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finished {
    /// The subscribers have received everything, and have ended.
    Complete,
    /// Operations were still running. The subscribers have ended without the ends of these operations.
    Running(u64),
    /// A thread is still in a subscriber's callback, so the subscribers were not ended.
    Stuck,
    /// Tracing had ended before, or this is a forked child of the process that started it.
    Nothing,
}

impl Producer {
    /// Ends tracing: waits for running operations, announces that open streams are destroyed, and ends the subscribers.
    ///
    /// The caller has drained its streams. If operations are running nevertheless, or threads are in callbacks, the
    /// method waits for each of the two for at most `patience`. The subscribers get no notification afterwards.
    ///
    /// A runtime that calls this when the process exits must register the call (`atexit`) after [`crate::start`] has
    /// returned. Otherwise the destructors of the framework and of the subscribers run first.
    pub fn finish(&self, patience: Duration) -> Finished {
        if !self.is_open() {
            return Finished::Nothing;
        }
        let running = self.wait_for_operations(patience);
        if let Some(_flight) = self.flights.enter() {
            self.destroy_streams();
        }
        if !self.flights.close() {
            return Finished::Nothing;
        }
        if !self.flights.drain(patience) {
            return Finished::Stuck;
        }
        self.channels.close(&self.framework);
        self.framework.finalize();
        match running {
            0 => Finished::Complete,
            running => Finished::Running(running),
        }
    }

    /// Returns the number of operations that are running after `patience`.
    fn wait_for_operations(&self, patience: Duration) -> u64 {
        let deadline = Instant::now() + patience;
        loop {
            let running = self.running.load(Relaxed);
            if running == 0 || Instant::now() >= deadline {
                return running;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
