//! See `margay_tests::fuzz::image_sizes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| margay_tests::fuzz::image_sizes(bytes));
