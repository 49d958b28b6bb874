//! Runs one kernel through the driver API. The exit code is 0 if the result is right, and 1 if a call fails, with a
//! message; any other end is a defect. The fuzz target `process_limits` starts this program.
//!
//! It defines C's `main`: the start of a Rust program allocates memory for the thread, and ends the process if that
//! fails.
#![no_main]
#![allow(
    clippy::print_stderr,
    reason = "a command line program says what is wrong"
)]

use std::ffi::c_int;

use margay_tests::fuzz::calls_under_limits;

// SAFETY: this program has no other `main`.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    match calls_under_limits() {
        Ok(0) => 0,
        Ok(wrong) => {
            eprintln!("{wrong} values are wrong");
            2
        }
        Err(call) => {
            eprintln!("{call}");
            1
        }
    }
}
