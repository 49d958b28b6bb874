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
use std::sync::Once;
use std::time::Duration;
use std::{fs, io};

/// The time between two examinations of the list of threads ([`has_threads_of_program`]).
const INTERVAL: Duration = Duration::from_millis(100);

/// The errors with which reading a file of a thread fails if the thread has ended.
const ENDED: [i32; 2] = [libc::ENOENT, libc::ESRCH];

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
        // A thread of the program can start another one and end during an examination, so two
        // examinations must agree.
        let mut alone = 0;
        while alone < 2 {
            std::thread::sleep(INTERVAL);
            alone = match has_threads_of_program() {
                Ok(false) => alone + 1,
                _ => 0,
            };
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
/// threads of this library, whose names begin with `margay-` unless they execute a function of the program
/// ([`crate::callback`]). Returns true if the list of threads
/// is incomplete: when a thread ends while Linux writes the list, Linux leaves out the threads that
/// follow it.
fn has_threads_of_program() -> io::Result<bool> {
    // SAFETY: both functions have no preconditions.
    let own = unsafe { [libc::gettid(), libc::getpid()] }.map(|id| id.to_string());
    let before = thread_count()?;
    let mut listed = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        listed += 1;
        if own.iter().any(|own| task.file_name() == own.as_str()) {
            continue;
        }
        match fs::read_to_string(task.path().join("comm")) {
            Ok(name) if name.starts_with("margay-") => {}
            Ok(_) => return Ok(true),
            // The thread has ended since the directory was read.
            Err(error) if ENDED.contains(&error.raw_os_error().unwrap_or_default()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(before != listed || thread_count()? != listed)
}

/// Returns the number of threads of the process.
fn thread_count() -> io::Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok());
    count.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    // Regression test: threads that ended during an examination hid the threads that follow them in
    // the list, and the process ended too early.
    #[test]
    fn threads_that_end_do_not_hide_a_thread_of_the_program() {
        for _ in 0..300 {
            let (end, last) = (Barrier::new(9), Barrier::new(2));
            thread::scope(|scope| {
                for _ in 0..8 {
                    let ending = thread::Builder::new().name("margay-ends".to_owned());
                    let ending = ending.spawn_scoped(scope, || end.wait());
                    ending.expect("a thread");
                }
                scope.spawn(|| last.wait());
                end.wait();
                let found = (0..20).all(|_| matches!(has_threads_of_program(), Ok(true)));
                last.wait();
                assert!(found);
            });
        }
    }
}
