//! Output of kernels (`printf`) that is not yet written to standard output.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Text that launches of a context have printed and that is not yet written.
#[derive(Default)]
pub(crate) struct Output {
    pending: Mutex<Vec<u8>>,
    /// Whether `pending` may contain text.
    some: AtomicBool,
}

impl Output {
    /// Appends output of a launch to the pending text.
    pub(crate) fn append(&self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.pending.lock().extend_from_slice(text);
        self.some.store(true, Ordering::Release);
    }

    /// Writes the pending text to the process's standard output, through the C library's buffer.
    pub(crate) fn flush(&self) {
        if !self.some.load(Ordering::Acquire) {
            return;
        }
        let mut pending = self.pending.lock();
        if !pending.is_empty() {
            write_stdout(&pending);
            pending.clear();
        }
        self.some.store(false, Ordering::Release);
    }
}

unsafe extern "C" {
    /// The C library's standard output stream.
    static stdout: *mut libc::FILE;
}

/// Writes `bytes` to standard output through the C library's buffer, so that kernel output and the
/// program's own output keep their order.
fn write_stdout(bytes: &[u8]) {
    // SAFETY: the C library initialises `stdout` before any of our code runs; `fwrite` only reads `bytes`. Write errors
    // are ignored: the program can detect them in the same way as errors of its own `printf`.
    unsafe {
        libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
        libc::fflush(stdout);
    }
}
