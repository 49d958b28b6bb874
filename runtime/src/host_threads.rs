//! Counts the threads of the program that use the driver, and how many of these threads wait for work.
//!
//! If all threads that have used the driver wait, no call of these threads can change device memory before the work is
//! complete. (A thread that has not used the driver yet is not counted.)

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::service::in_host_function;

/// Number of live threads of the program that have used the driver.
static USERS: AtomicUsize = AtomicUsize::new(0);
/// Number of threads counted by [`USERS`] that are waiting for work.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// A thread-local value of each thread that has used the driver. The destructor of the value runs
/// when the thread ends.
struct User;

impl User {
    fn new() -> User {
        USERS.fetch_add(1, Ordering::SeqCst);
        User
    }
}

impl Drop for User {
    fn drop(&mut self) {
        USERS.fetch_sub(1, Ordering::SeqCst);
    }
}

thread_local! {
    static USER: RefCell<Option<User>> = const { RefCell::new(None) };
}

/// Records that the calling thread uses the driver. Does nothing on service threads.
pub fn note() {
    if in_host_function() {
        return;
    }
    // A destructor of an ending thread may call the driver after `USER` is destroyed. The access to `USER` then fails,
    // and the thread is no longer counted.
    let _ = USER.try_with(|user| {
        let mut user = user.borrow_mut();
        if user.is_none() {
            *user = Some(User::new());
        }
    });
}

/// A wait of the calling thread for work.
pub(crate) struct Wait(());

impl Wait {
    /// Records that the calling thread waits for work until the returned value is dropped.
    pub(crate) fn begin() -> Wait {
        note();
        WAITING.fetch_add(1, Ordering::SeqCst);
        Wait(())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether all living threads of the program that have used the driver are waiting for
/// work.
pub(crate) fn all_wait() -> bool {
    let users = USERS.load(Ordering::SeqCst);
    users > 0 && WAITING.load(Ordering::SeqCst) >= users
}
