//! The subscriber to callbacks.

use std::ffi::c_void;

use margay_activity::interface::Outcome;
use parking_lot::Mutex;

/// A function of the client (`CUpti_CallbackFunc`).
pub type Callback = extern "C" fn(user: *mut c_void, domain: u32, number: u32, data: *const c_void);

/// The subscriber: the client's function and its argument.
#[derive(Clone, Copy)]
struct Subscriber {
    function: Callback,
    user: usize,
}

static SUBSCRIBER: Mutex<Option<Subscriber>> = Mutex::new(None);

/// The handle of the only subscriber: the address of this variable.
static HANDLE: u8 = 0;

fn handle() -> *mut c_void {
    (&raw const HANDLE).cast_mut().cast()
}

/// Returns an error if a handle is not that of the subscriber.
pub(crate) fn check_handle(given: *mut c_void) -> Result<(), Outcome> {
    match given == handle() && SUBSCRIBER.lock().is_some() {
        true => Ok(()),
        false => Err(Outcome::INVALID_PARAMETER),
    }
}

/// Receives a callback of the driver library.
pub(crate) extern "C" fn receive(domain: u32, number: u32, data: *const c_void) {
    let subscriber = *SUBSCRIBER.lock();
    if let Some(subscriber) = subscriber {
        (subscriber.function)(subscriber.user as *mut c_void, domain, number, data);
    }
}

/// Sets the subscriber, and returns its handle.
///
/// # Errors
/// `MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED` if there is one.
pub(crate) fn set(function: Callback, user: *mut c_void) -> Result<*mut c_void, Outcome> {
    let mut known = SUBSCRIBER.lock();
    if known.is_some() {
        return Err(Outcome::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    }
    *known = Some(Subscriber {
        function,
        user: user as usize,
    });
    Ok(handle())
}

/// Removes the subscriber.
pub(crate) fn forget() {
    *SUBSCRIBER.lock() = None;
}
