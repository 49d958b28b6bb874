//! Runs the tests of `margay test --driver` through a driver library. The driver library is
//! Margay's own `libcuda`, which the test program opens like any other driver library.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use margay_cli::filetest::driver::Driver;
use margay_cli::filetest::files;

/// Returns the path of the library, which Cargo writes to the folder of the test's executable.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a path of the test");
    test.with_file_name("libcuda.so")
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx").join(name)
}

/// Locks the device of this process, because a test with a fault resets the device.
fn device() -> MutexGuard<'static, ()> {
    static DEVICE: Mutex<()> = Mutex::new(());
    DEVICE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn launches_end_as_their_files_say() {
    let _device = device();
    let driver = Driver::open(&library()).expect("a driver");
    let mut judged = 0;
    for name in ["control", "warp", "memory", "rejected"] {
        for file in files(&folder(name)).expect("files") {
            let verdict = driver.run(&file);
            assert!(
                verdict.failures.is_empty(),
                "{}: {:?}",
                file.display(),
                verdict.failures
            );
            judged += verdict.judged;
        }
    }
    assert!(judged > 20, "{judged} launches");
}

#[test]
fn what_is_wrong_is_said() {
    let _device = device();
    let driver = Driver::open(&library()).expect("a driver");
    let file = std::env::temp_dir().join(format!("margay-driver-{}.ptx", std::process::id()));
    let text = "\
.version 8.0
.target sm_80
.address_size 64
//@ kernel: k
//@ buffer: u32 1 2
//@ expect: u32 1 3
//@ kernel: k
//@ buffer: u32 1
//@ expect: u32 1
//@ scalar: u32 7
.visible .entry k(.param .u64 p) { ret; }
";
    std::fs::write(&file, text).expect("a file");
    let verdict = driver.run(&file);
    std::fs::remove_file(&file).expect("the file");
    let said: Vec<&str> = verdict.failures.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(
        said,
        [
            "buffer 0: 1 of 2 wrong: element 1 is 0x00000002, expected 0x00000003",
            "the arguments do not match the kernel's parameters",
        ]
    );
    let missing = Driver::open(Path::new("/nowhere/libcuda.so.1")).err();
    assert!(missing.is_some_and(|error| error.contains("/nowhere/libcuda.so.1")));
}
