//! Ends the process after its main thread has called `pthread_exit`.
//!
//! A process ends when its last thread ends. The threads of this library never end, and they block
//! the signals of the program. Without this module, a process whose main thread has called
//! `pthread_exit` would therefore never end, and no signal except SIGKILL could end it. This module
//! registers a destructor of thread-specific data. The system calls the destructor if the main
//! thread calls `pthread_exit`, but not if the main thread returns from `main`. The destructor
//! starts a thread with the signal mask of the main thread. This thread receives the signals of the
//! process, and ends the process as soon as all other threads are threads of this library.
//!
//! Limit: nothing happens if the main thread has never called `cuInit`.

use std::ffi::c_void;
use std::fs;
use std::sync::Once;
use std::time::Duration;

/// The time between two examinations of the list of threads, each of which looks for threads of the
/// program.
const INTERVAL: Duration = Duration::from_millis(100);

/// If the calling thread is the main thread of the process, registers the destructor that ends the
/// process after the main thread has called `pthread_exit`.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    // SAFETY: both functions have no preconditions.
    if unsafe { libc::gettid() != libc::getpid() } {
        return;
    }
    ONCE.call_once(|| {
        let mut key = 0;
        // SAFETY: the library is never unloaded. The value of the key is not used as an address.
        unsafe {
            if libc::pthread_key_create(&mut key, Some(main_ends)) == 0 {
                libc::pthread_setspecific(key, std::ptr::dangling());
            }
        }
    });
}

extern "C" fn main_ends(_: *mut c_void) {
    extern "C" fn wait(_: *mut c_void) -> *mut c_void {
        while has_threads_of_program().unwrap_or(true) {
            std::thread::sleep(INTERVAL);
        }
        // The value with which a process ends whose last thread has called `pthread_exit`.
        // SAFETY: no other thread of the program runs.
        unsafe { libc::exit(0) }
    }
    let mut thread = 0;
    // SAFETY: `wait` does not use its argument. If no thread can be started, the process ends only by SIGKILL.
    unsafe {
        if libc::pthread_create(&mut thread, std::ptr::null(), wait, std::ptr::null_mut()) == 0 {
            libc::pthread_detach(thread);
        }
    }
}

/// Returns whether the process has threads other than the main thread, the calling thread, and the
/// threads of this library, whose names begin with `margay-`.
fn has_threads_of_program() -> std::io::Result<bool> {
    // SAFETY: both functions have no preconditions.
    let own = unsafe { [libc::gettid(), libc::getpid()] };
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        let id = task.file_name();
        if own.iter().any(|own| id.to_str() == Some(&own.to_string())) {
            continue;
        }
        // A thread that has ended since the directory was read has no name.
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if !name.is_empty() && !name.starts_with("margay-") {
            return Ok(true);
        }
    }
    Ok(false)
}
