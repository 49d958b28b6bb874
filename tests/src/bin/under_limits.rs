//! Runs one kernel through the driver API. If the result is right, the exit code is 0. If a call fails, the program
//! prints a message and the exit code is 1. If the program ends with any other exit code or by a
//! signal, the library has a defect. The fuzz target `process_limits` starts this program.
//!
//! The program defines C's `main`, because Rust's own `main` allocates memory for the thread and
//! ends the process if the allocation fails.
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
