//! The functions of `cupti_callbacks.h`.

use std::ffi::{c_char, c_void};

use margay_activity::interface::{ALL_CALLBACKS, Outcome, domain};
use margay_activity::{Name, callbacks};

use crate::client::attached;
pub use crate::subscriber::Callback;
use crate::subscriber::{self, check_handle};
use crate::{check, guarded, store};

/// The domains whose callbacks exist.
static DOMAINS: [u32; 4] = [
    domain::DRIVER_API,
    domain::RESOURCE,
    domain::SYNCHRONIZE,
    domain::STATE,
];

/// Stores the domains whose callbacks exist.
///
/// # Safety
/// The pointers are null or point to variables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSupportedDomains(
    count: *mut usize,
    table: *mut *const u32,
) -> Outcome {
    guarded(|| {
        if count.is_null() || table.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        // SAFETY: the caller guarantees the variables.
        unsafe { store(count, DOMAINS.len()) }?;
        // SAFETY: as above.
        unsafe { store(table, DOMAINS.as_ptr()) }
    })
}

/// Makes the client the only subscriber.
///
/// # Safety
/// `subscriber` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSubscribe(
    subscriber: *mut *mut c_void,
    callback: Option<Callback>,
    user: *mut c_void,
) -> Outcome {
    guarded(|| {
        if subscriber.is_null() {
            return Err(Outcome::INVALID_PARAMETER);
        }
        // A client may subscribe without a function, for activity records alone.
        extern "C" fn nothing(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}
        attached()?;
        let handle = subscriber::set(callback.unwrap_or(nothing), user)?;
        // SAFETY: the caller guarantees the variable.
        unsafe { store(subscriber, handle) }
    })
}

/// Removes the subscriber and ends its callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiUnsubscribe(subscriber: *mut c_void) -> Outcome {
    guarded(|| {
        check_handle(subscriber)?;
        let driver = attached()?;
        for domain in DOMAINS {
            check((driver.set_callback)(domain, ALL_CALLBACKS, 0))?;
        }
        subscriber::forget();
        Ok(())
    })
}

/// Stores whether a callback is enabled.
///
/// # Safety
/// `enable` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetCallbackState(
    enable: *mut u32,
    subscriber: *mut c_void,
    domain: u32,
    number: u32,
) -> Outcome {
    guarded(|| {
        check_handle(subscriber)?;
        check((attached()?.get_callback)(domain, number, enable))
    })
}

/// Enables or disables a callback.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiEnableCallback(
    enable: u32,
    subscriber: *mut c_void,
    domain: u32,
    number: u32,
) -> Outcome {
    guarded(|| {
        check_handle(subscriber)?;
        if number == ALL_CALLBACKS {
            return Err(Outcome::INVALID_PARAMETER);
        }
        set(enable, domain, number)
    })
}

/// Enables or disables the callbacks of a domain.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiEnableDomain(enable: u32, subscriber: *mut c_void, domain: u32) -> Outcome {
    guarded(|| {
        check_handle(subscriber)?;
        set(enable, domain, ALL_CALLBACKS)
    })
}

/// Enables or disables the callbacks of all domains whose callbacks exist.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiEnableAllDomains(enable: u32, subscriber: *mut c_void) -> Outcome {
    guarded(|| {
        check_handle(subscriber)?;
        DOMAINS
            .iter()
            .try_for_each(|&domain| set(enable, domain, ALL_CALLBACKS))
    })
}

fn set(enable: u32, domain_of: u32, number: u32) -> Result<(), Outcome> {
    // Callbacks that do not exist are disabled.
    if enable == 0 && matches!(domain_of, domain::RUNTIME_API | domain::NVTX) {
        return Ok(());
    }
    let on = u32::from(enable != 0);
    check((attached()?.set_callback)(domain_of, number, on))
}

/// Names of callbacks for resources, by number.
const RESOURCES: [&str; 8] = [
    "",
    "CONTEXT_CREATED",
    "CONTEXT_DESTROY_STARTING",
    "STREAM_CREATED",
    "STREAM_DESTROY_STARTING",
    "CU_INIT_FINISHED",
    "MODULE_LOADED",
    "MODULE_UNLOAD_STARTING",
];

/// Stores the name of a callback.
///
/// # Safety
/// `name` is null or points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiGetCallbackName(
    domain_of: u32,
    number: u32,
    name: *mut *const c_char,
) -> Outcome {
    guarded(|| {
        let at = number as usize;
        let found = match domain_of {
            domain::DRIVER_API => callbacks::function(number),
            domain::RUNTIME_API | domain::NVTX => return Err(Outcome::NOT_SUPPORTED),
            domain::RESOURCE => RESOURCES.get(at).copied(),
            domain::SYNCHRONIZE => ["", "STREAM_SYNCHRONIZED", "CONTEXT_SYNCHRONIZED"]
                .get(at)
                .copied(),
            domain::STATE => ["", "FATAL_ERROR", "ERROR", "WARNING"].get(at).copied(),
            _ => None,
        };
        let found = found.filter(|name| !name.is_empty());
        let found = found.ok_or(Outcome::INVALID_PARAMETER)?;
        // SAFETY: the caller guarantees the variable.
        unsafe { store(name, Name::of(found).pointer()) }
    })
}
