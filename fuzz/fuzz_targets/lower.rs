//! Runs `margay_tests::fuzz::lower` on the inputs of the fuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| margay_tests::fuzz::lower(bytes));
