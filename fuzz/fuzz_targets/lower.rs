//! See `margay_tests::fuzz::lower`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| margay_tests::fuzz::lower(bytes));
