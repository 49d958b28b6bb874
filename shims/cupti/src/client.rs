//! Attaches this library to the driver library.

use margay_activity::interface::{Interface, Outcome, Receiver};

use crate::driver::driver;
use crate::{buffers, check, subscriber};

/// Returns the table of the driver library after this library has attached itself to it.
///
/// # Errors
/// Those of [`driver`]; `MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED` if another library is attached.
pub(crate) fn attached() -> Result<&'static Interface, Outcome> {
    let driver = driver()?;
    let receiver = Receiver {
        record: buffers::receive,
        callback: subscriber::receive,
    };
    check((driver.attach)(&raw const receiver))?;
    Ok(driver)
}
