//! The time for which the runtime's worker threads run CTAs.

use std::sync::Arc;

use margay::observe::{Event, Worker};
use margay_timeline::{self as format, Timeline, Track, category};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::now;
use crate::host::thread_number;

/// The runtime's worker threads, by the number of the thread.
pub(super) struct Workers {
    timeline: Timeline,
    threads: Mutex<FxHashMap<u64, WorkerThread>>,
}

/// A worker thread.
struct WorkerThread {
    track: Track,
    run: Option<Run>,
}

/// The time for which a thread runs CTAs of one launch, without CTAs of another launch between them.
struct Run {
    launch: u64,
    kernel: Arc<str>,
    begin: u64,
    end: u64,
}

impl Workers {
    pub(super) fn new(timeline: Timeline) -> Workers {
        Workers {
            timeline,
            threads: Mutex::default(),
        }
    }

    /// Notes that the calling thread begins to run CTAs of a launch.
    fn resume(&self, launch: u64, kernel: &Arc<str>) {
        let thread = thread_number();
        let mut threads = self.threads.lock();
        let next = threads.len() as u32;
        let thread = threads.entry(thread).or_insert_with(|| WorkerThread {
            track: self.timeline.worker(next),
            run: None,
        });
        if thread.run.as_ref().is_none_or(|run| run.launch != launch) {
            thread.flush();
            let begin = now();
            thread.run = Some(Run {
                launch,
                kernel: Arc::clone(kernel),
                begin,
                end: begin,
            });
        }
    }

    /// Notes that the calling thread no longer runs CTAs.
    fn pause(&self) {
        let thread = thread_number();
        if let Some(run) = self
            .threads
            .lock()
            .get_mut(&thread)
            .and_then(|thread| thread.run.as_mut())
        {
            run.end = now();
        }
    }

    /// Writes the runs of a launch, which has ended.
    pub(super) fn end(&self, launch: u64) {
        for thread in self.threads.lock().values_mut() {
            if thread.run.as_ref().is_some_and(|run| run.launch == launch) {
                thread.flush();
            }
        }
    }
}

impl WorkerThread {
    fn flush(&mut self) {
        if let Some(run) = self.run.take() {
            let event = format::Event::new(category::WORKER, &run.kernel);
            self.track.slice(run.begin, run.end, &event);
        }
    }
}

/// Receives when threads run CTAs of a launch.
pub(super) struct LaunchWorker {
    pub(super) workers: Arc<Workers>,
    pub(super) launch: u64,
    pub(super) kernel: Arc<str>,
}

impl Worker for LaunchWorker {
    fn resume(&mut self) {
        self.workers.resume(self.launch, &self.kernel);
    }

    fn pause(&mut self) {
        self.workers.pause();
    }

    fn event(&mut self, _: &Event<'_>) {}
}
