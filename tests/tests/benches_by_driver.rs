//! Runs the kernels of `margay bench --driver` through a driver library. The driver library is
//! Margay's own `libcuda`, which the benchmark opens like any other driver library.

use std::path::PathBuf;

/// Returns the path of the library, which Cargo writes to the folder of the test's executable.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path of the test");
    test.with_file_name("libcuda.so")
}

#[test]
fn every_kernel_is_right() {
    let library = library();
    let wrong = margay_benches::check_driver(&library.to_string_lossy());
    assert_eq!(wrong.expect("a driver"), [""; 0]);
}

#[test]
fn a_library_that_is_missing_is_named() {
    let missing = margay_benches::check_driver("/nowhere/libcuda.so.1");
    assert!(missing.is_err_and(|error| error.contains("/nowhere/libcuda.so.1")));
}
