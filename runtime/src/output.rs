//! What kernels have printed, on its way to the standard output.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Text that the launches of a context have printed and that is not written yet.
#[derive(Default)]
pub(crate) struct Output {
    pending: Mutex<Vec<u8>>,
    /// Whether there is any.
    some: AtomicBool,
}

impl Output {
    /// Takes over what a launch has printed.
    pub(crate) fn append(&self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        self.pending.lock().extend_from_slice(text);
        self.some.store(true, Ordering::Release);
    }

    /// Writes it to the process's standard output, through the C library's buffer.
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

/// Writes through the C library's buffer, so that it comes in order with the program's output.
fn write_stdout(bytes: &[u8]) {
    // SAFETY: `stdout` is set up by the C library before any of our code runs; `fwrite` reads
    // `bytes` only. Errors are the program's business, as with its own `printf`.
    unsafe {
        libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stdout);
        libc::fflush(stdout);
    }
}
