//! Calls every entry point with several kinds of wrong arguments: null pointers, invalid handles, and numbers that are
//! too large. No call may crash, and the documentation of the function must list the result.
//!
//! A child process, which runs the program of this test again, makes the calls. It prints the index
//! of each call before it makes the call. If the child crashes, the parent can therefore determine
//! which call failed, and continues with the next call in a new child. Pointers are null or point
//! to zeroed memory of the child, because a driver may access the memory that valid pointers refer
//! to.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::io::Write;
use std::process::{Command, Stdio};

use common::Driver;

/// The environment variable in which the child receives the index (in [`calls`]) of the first call that it makes.
const FIRST_CALL: &str = "MARGAY_TEST_FIRST_CALL";
/// A number that is never a valid handle or address.
const BOGUS: usize = 0x5a5a_5a58;
/// A number of arguments that is larger than the parameter count of every entry point.
const MOST: usize = 20;

/// The state and the arguments for a call: whether a context is current, whether pointers are null,
/// and the value of all handles and of all numbers.
#[derive(Clone, Copy)]
struct Way {
    context: bool,
    places: bool,
    handle: usize,
    number: usize,
}

const fn way(context: bool, places: bool, handle: usize, number: usize) -> Way {
    Way {
        context,
        places,
        handle,
        number,
    }
}

const WAYS: [Way; 8] = [
    way(false, false, 0, 0),
    way(false, true, BOGUS, 1),
    way(true, false, 0, 0),
    way(true, false, BOGUS, 1),
    way(true, true, 0, 0),
    way(true, true, BOGUS, 0),
    way(true, true, BOGUS, usize::MAX),
    way(true, true, BOGUS, 0x7fff_ffff),
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Pointer,
    Handle,
    Number,
    Function,
}

fn kinds(parameters: &str) -> Vec<Kind> {
    let inside = parameters.trim_start_matches('(').trim_end_matches(')');
    let types = inside.split(',').filter_map(|one| one.split_once(':'));
    types
        .map(|(_, kind)| match kind.trim() {
            kind if kind.starts_with('*') => Kind::Pointer,
            "CUhostFn"
            | "CUstreamCallback"
            | "CUoccupancyB2DSize"
            | "CUlogsCallback"
            | "CUasyncCallback"
            | "CUcoredumpStatusCallback"
            | "CUgraphRecaptureCallback" => Kind::Function,
            kind if kind.starts_with("c_")
                || matches!(kind, "usize" | "u32" | "u64" | "CUdevice") =>
            {
                Kind::Number
            }
            // Enumerations are numbers too, but the values for handles test them equally well.
            _ => Kind::Handle,
        })
        .collect()
}

#[rustfmt::skip]
type Twenty = unsafe extern "C" fn(
    usize, usize, usize, usize, usize, usize, usize, usize, usize, usize,
    usize, usize, usize, usize, usize, usize, usize, usize, usize, usize,
) -> u32;

#[rustfmt::skip]
fn call(driver: &Driver, name: &str, a: &[usize; MOST]) -> u32 {
    // SAFETY: extra arguments are harmless in the C calling convention; the test chooses the values for the parameter
    // types.
    unsafe {
        let function: Twenty = driver.function(name);
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
            a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19],
        )
    }
}

/// Returns all calls of the test in order. Each is a pair of a row, which describes the function to
/// call, and an index into `WAYS`.
fn calls() -> impl Iterator<Item = (&'static cuda::ApiRow, usize)> {
    cuda::api_rows().flat_map(|row| (0..WAYS.len()).map(move |way| (row, way)))
}

/// In the child process: makes all calls whose index is at least the value of the variable
/// `FIRST_CALL`, and prints the index and the result code of each call.
#[test]
fn child() {
    let Ok(first) = std::env::var(FIRST_CALL) else {
        return;
    };
    let first: usize = first.parse().expect("a number");
    let driver = Driver::load();
    assert_eq!(driver.call("cuInit", &[0]), 0);
    let mut out = std::io::stdout().lock();
    for (number, (row, way)) in calls().enumerate().skip(first) {
        let way = WAYS[way];
        let mut context = 0usize;
        if way.context {
            let place = &raw mut context as usize;
            assert_eq!(driver.call("cuDevicePrimaryCtxRetain", &[place, 0]), 0);
        }
        assert_eq!(driver.call("cuCtxSetCurrent", &[context]), 0);
        writeln!(out, "\ncall {number}")
            .and_then(|()| out.flush())
            .expect("a pipe");
        // Each parameter has its own memory, so that no output is the input of another parameter.
        let mut places = vec![[0u64; 512]; MOST];
        let mut arguments = [0; MOST];
        for (index, kind) in kinds(row.parameters).into_iter().enumerate() {
            arguments[index] = match kind {
                Kind::Pointer if way.places => places[index].as_mut_ptr() as usize,
                Kind::Pointer | Kind::Function => 0,
                Kind::Handle => way.handle,
                Kind::Number => way.number,
            };
        }
        let code = call(&driver, row.export, &arguments);
        if row.export.contains("BeginCapture") && code == 0 {
            // The thread's stream is capturing now. The capture would forbid many of the following calls, so the test
            // ends the capture.
            let mut graph = 0usize;
            let end = [0, &raw mut graph as usize];
            assert_eq!(driver.call("cuStreamEndCapture_ptsz", &end), 0);
        }
        writeln!(out, "\ncode {number} {code}")
            .and_then(|()| out.flush())
            .expect("a pipe");
    }
    writeln!(out, "\nend").expect("a pipe");
}

fn documented() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let lines = include_str!("data/return-codes.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, codes)| (name, codes.split(' ').collect()))
        .collect()
}

/// Pairs of a function and a result code that the function may return, although the documentation
/// does not list this code for the function.
const FORGOTTEN: &[(&str, &str)] = &[
    ("cuCtxGetCurrent", "INVALID_VALUE"),
    ("cuCtxGetLimit", "INVALID_CONTEXT"),
    ("cuCtxGetStreamPriorityRange", "INVALID_CONTEXT"),
    ("cuCtxResetPersistingL2Cache", "INVALID_CONTEXT"),
    ("cuDeviceCanAccessPeer", "INVALID_VALUE"),
    ("cuDeviceGetGraphMemAttribute", "INVALID_VALUE"),
    ("cuDeviceGetMemPool", "INVALID_DEVICE"),
    ("cuDeviceSetGraphMemAttribute", "INVALID_VALUE"),
    ("cuDeviceSetMemPool", "INVALID_DEVICE"),
    ("cuEventElapsedTime", "INVALID_VALUE"),
    ("cuGetProcAddress", "NOT_FOUND"),
    ("cuGraphExecUpdate", "INVALID_VALUE"),
    ("cuLaunchHostFunc", "INVALID_VALUE"),
    ("cuLibraryLoadFromFile", "FILE_NOT_FOUND"),
    ("cuMemPrefetchAsync", "INVALID_CONTEXT"),
    ("cuStreamAddCallback", "INVALID_VALUE"),
    ("cuStreamAttachMemAsync", "INVALID_VALUE"),
    ("cuStreamBatchMemOp", "INVALID_CONTEXT"),
    ("cuStreamBeginCapture", "INVALID_CONTEXT"),
    ("cuStreamBeginCapture", "STREAM_CAPTURE_UNSUPPORTED"),
    ("cuStreamBeginCaptureToGraph", "INVALID_CONTEXT"),
    ("cuStreamBeginCaptureToGraph", "STREAM_CAPTURE_UNSUPPORTED"),
    ("cuStreamCopyAttributes", "INVALID_CONTEXT"),
    ("cuStreamEndCapture", "ILLEGAL_STATE"),
    ("cuStreamEndCapture", "INVALID_CONTEXT"),
    ("cuStreamGetAttribute", "INVALID_CONTEXT"),
    ("cuStreamGetCaptureInfo", "INVALID_CONTEXT"),
    ("cuStreamGetCtx", "INVALID_VALUE"),
    ("cuStreamGetId", "INVALID_CONTEXT"),
    ("cuStreamIsCapturing", "INVALID_CONTEXT"),
    ("cuStreamSetAttribute", "INVALID_CONTEXT"),
    ("cuStreamUpdateCaptureDependencies", "INVALID_CONTEXT"),
    ("cuStreamWaitValue32", "INVALID_CONTEXT"),
    ("cuStreamWaitValue64", "INVALID_CONTEXT"),
    ("cuStreamWriteValue32", "INVALID_CONTEXT"),
    ("cuStreamWriteValue64", "INVALID_CONTEXT"),
];

/// Results that any call may return (CUDA driver API, "Error handling"), because of earlier launches or because of the
/// driver's state.
const ALWAYS: [&str; 3] = ["SUCCESS", "DEINITIALIZED", "NOT_INITIALIZED"];

fn name_of(driver: &Driver, code: u32) -> String {
    let mut text: *const std::ffi::c_char = std::ptr::null();
    let got = driver.call("cuGetErrorName", &[code as usize, &raw mut text as usize]);
    if got != 0 {
        return format!("{code}, which is no result");
    }
    // SAFETY: the call succeeded, so the pointer is a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_str().expect("ASCII");
    let text = text.trim_start_matches("CUDA_ERROR_");
    text.trim_start_matches("CUDA_").to_owned()
}

#[test]
fn nothing_crashes_and_every_code_is_a_documented_one() {
    let driver = Driver::load();
    let documented = documented();
    let all: Vec<_> = calls().collect();
    let mut wrong = BTreeSet::new();
    let mut next = 0;
    while next < all.len() {
        let child = Command::new(std::env::current_exe().expect("this program has a path"))
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(FIRST_CALL, next.to_string())
            .env("MARGAY_LOG", "off")
            .env("MARGAY_WORKERS", "1")
            .stderr(Stdio::null())
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&child.stdout);
        let mut begun = None;
        for line in text.lines() {
            let mut words = line.split(' ');
            let number = |word: Option<&str>| word.and_then(|w| w.parse::<usize>().ok());
            match words.next() {
                Some("call") => begun = number(words.next()),
                Some("code") => {
                    let (Some(call), Some(code)) = (number(words.next()), number(words.next()))
                    else {
                        continue;
                    };
                    begun = None;
                    let (row, way) = all[call];
                    let name = name_of(&driver, code as u32);
                    let known = documented.get(row.symbol());
                    let listed = known.is_none_or(|codes| codes.contains(name.as_str()))
                        || ALWAYS.contains(&name.as_str())
                        || FORGOTTEN.contains(&(row.symbol(), name.as_str()))
                        || (!row.is_implemented() && name == "NOT_SUPPORTED");
                    if !listed || name.contains(' ') {
                        wrong.insert(format!("{}: {name} (way {way})", row.export));
                    }
                }
                _ => {}
            }
        }
        if text.contains("\nend\n") {
            break;
        }
        let Some(call) = begun else {
            panic!("the child ended by {}: {text}", child.status);
        };
        let (row, way) = all[call];
        wrong.insert(format!(
            "{}: ended the process by {} (way {way})",
            row.export, child.status
        ));
        next = call + 1;
    }
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
