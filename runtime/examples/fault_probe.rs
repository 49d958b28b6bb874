//! A shared library that recovers from faults, for hosts that are not Rust programs.
//!
//! `tests/faults.rs` loads it into Python to see that Margay's handlers and those of the host
//! leave each other alone. It does what the driver library does at its first call, and no more.

use margay::fault;

/// Installs the handlers; 0 on success.
#[unsafe(no_mangle)]
pub extern "C" fn probe_install() -> i32 {
    i32::from(fault::install().is_err())
}

/// Loads a word from anywhere: 0, or 1 if that faulted.
#[unsafe(no_mangle)]
pub extern "C" fn probe_load(address: u64) -> i32 {
    i32::from(fault::access::load64(address).is_err())
}

/// Makes a worker thread and faults on it `times` times; how many faults were recovered.
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
