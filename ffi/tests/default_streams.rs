//! Tests to which streams the stream handles 0, 1 and 2 refer. This depends on the entry point and
//! on the thread of the call.

mod common;

use std::sync::OnceLock;

use common::Driver;

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let driver = Driver::load();
        assert_eq!(driver.call("cuInit", &[0]), 0);
        driver
    })
}

fn id(export: &str, stream: usize) -> u64 {
    let mut id = 0u64;
    let place = std::ptr::from_mut(&mut id) as usize;
    assert_eq!(driver().call(export, &[stream, place]), 0);
    id
}

/// Calls `export`, a function that returns the id of a stream, for the handles 0, 1 and 2 on a new
/// thread with the primary context. Returns the three ids.
fn ids(export: &'static str) -> [u64; 3] {
    let thread = std::thread::spawn(move || {
        let mut context = 0usize;
        let place = std::ptr::from_mut(&mut context) as usize;
        assert_eq!(driver().call("cuDevicePrimaryCtxRetain", &[place, 0]), 0);
        assert_eq!(driver().call("cuCtxSetCurrent", &[context]), 0);
        [0, 1, 2].map(|stream| id(export, stream))
    });
    thread.join().expect("no panic")
}

#[test]
fn zero_is_the_legacy_stream_or_the_threads_own() {
    let [zero, legacy, own] = ids("cuStreamGetId");
    assert_eq!(zero, legacy);
    assert_ne!(own, legacy);
    let [zero, again, other] = ids("cuStreamGetId_ptsz");
    assert_eq!(zero, other, "the suffix changes what 0 means");
    assert_eq!(again, legacy, "and what 1 means it does not");
    assert_ne!(other, own, "each thread has its own");
}
