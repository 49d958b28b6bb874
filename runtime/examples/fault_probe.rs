//! A shared library that recovers from faults, for hosts that are not Rust programs.
//!
//! `tests/faults.rs` loads it into Python to check that the signal handlers of Margay and of the host do not interfere.
//! The library installs the handlers in the same way as the driver library at its first call.

use margay::fault;

/// Installs the handlers; returns 0 on success.
#[unsafe(no_mangle)]
pub extern "C" fn probe_install() -> i32 {
    i32::from(fault::install().is_err())
}

/// Loads 8 bytes from any address; returns 0, or 1 if the load faulted.
#[unsafe(no_mangle)]
pub extern "C" fn probe_load(address: u64) -> i32 {
    i32::from(fault::access::load64(address).is_err())
}

/// Starts a worker thread that faults `times` times; returns the number of recovered faults.
#[unsafe(no_mangle)]
pub extern "C" fn probe_worker(times: u32) -> u32 {
    let worker = std::thread::spawn(move || {
        let Ok(_guard) = fault::WorkerGuard::new() else {
            return 0;
        };
        (0..times)
            .filter(|&i| fault::access::load8(u64::from(i)).is_err())
            .count() as u32
    });
    worker.join().unwrap_or(0)
}
