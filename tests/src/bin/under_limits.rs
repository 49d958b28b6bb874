//! Runs one kernel by the driver's calls: 0 if its result is right, 1 if a call fails, which it says; anything else is a
//! defect. The fuzz target `process_limits` starts it.
//!
//! It starts as a C program does: the start of a Rust program takes memory for each thread, or ends the process.
#![no_main]
#![allow(
    clippy::print_stderr,
    reason = "a command line program says what is wrong"
)]

use std::ffi::c_int;

use margay_tests::fuzz::calls_under_limits;

// SAFETY: the one `main` of this program.
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
