//! The recorder of activity records and the client that receives them.
//!
//! The recorder ([`Recorder`]) is a tool of every process, with a closed gate. [`crate::activity`] attaches clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use margay_activity::interface::Receiver;
use margay_activity::layout;
use margay_trace::activity::Recorder;
use parking_lot::RwLock;

/// The functions of the client that is attached.
pub(crate) static RECEIVER: RwLock<Option<Receiver>> = RwLock::new(None);

static RECORDER: LazyLock<Arc<Recorder>> = LazyLock::new(|| {
    let recorder = Recorder::new(|record| {
        if let Some(receiver) = receiver() {
            (receiver.record)(layout::write(&record).as_ptr());
        }
    });
    recorder.set_threads(Some(thread_number));
    Arc::new(recorder)
});

/// Returns a copy, so that no lock is held while the client runs.
pub(crate) fn receiver() -> Option<Receiver> {
    *RECEIVER.read()
}

/// Returns the recorder.
pub(crate) fn recorder() -> &'static Arc<Recorder> {
    &RECORDER
}

/// Returns the low bits of `pthread_self`, by which CUPTI identifies threads unless the client selects other numbers.
pub(crate) fn thread_number() -> u32 {
    // SAFETY: the function has no preconditions.
    unsafe { libc::pthread_self() as u32 }
}

/// Whether a client of NVTX has found `libcupti`.
static ANNOTATIONS: AtomicBool = AtomicBool::new(false);

/// States that a client of NVTX has found `libcupti`.
pub(crate) fn want_annotations() {
    ANNOTATIONS.store(true, Ordering::Relaxed);
}

/// Returns whether a client of NVTX has found `libcupti`, so that annotations are received even if nobody wants them yet.
pub(crate) fn wants_annotations() -> bool {
    ANNOTATIONS.load(Ordering::Relaxed)
}
