//! Runs launches over the worker threads.

/// A window for shared and local memory of one unit.
pub struct Window(());

/// What a worker lends to the engine while it runs units.
pub struct WorkerState {
    index: usize,
    stop: bool,
    window: Option<Window>,
    /// Anything that an engine wants to keep per worker.
    pub scratch: Option<Box<dyn std::any::Any + Send>>,
}

impl WorkerState {
    /// The worker's number, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether the launch that is running is to end now.
    pub fn stop_requested(&self) -> bool {
        self.stop
    }

    /// The worker's window, for the unit that is about to run.
    pub fn take_window(&mut self) -> Option<Window> {
        self.window.take()
    }

    /// Gives the window of a completed unit back.
    pub fn return_window(&mut self, window: Window) {
        self.window = Some(window);
    }
}
