//! Every entry point, called wrongly in several ways: with nothing, with handles that were never given out, with
//! numbers that are too large. None may crash, and each code must be one that the documentation lists for it.
//!
//! The calls are made in a child, a new instance of this program, which says what it is about to do: when it dies, the
//! parent knows where, and goes on behind it. Pointers to the program's own memory are null or valid, as a driver may
//! expect; a place holds zeroes.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::io::Write;
use std::process::{Command, Stdio};

use common::Driver;

/// Set in the child: the number of the first call.
const FIRST_CALL: &str = "MARGAY_TEST_FIRST_CALL";
/// Never given out as a handle or an address.
const BOGUS: usize = 0x5a5a_5a58;
/// More than the parameters of any entry point.
const MOST: usize = 20;

/// Ways to call: whether there is a current context, and what pointers, handles and numbers are.
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
            // Enumerations are numbers too, but a handle's bits are as good.
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
    // SAFETY: superfluous arguments do no harm in the C calling convention; what they mean is the test's business.
    unsafe {
        let function: Twenty = driver.function(name);
        function(
            a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
            a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19],
        )
    }
}

/// The calls, in order: row and way.
fn calls() -> impl Iterator<Item = (&'static cuda::ApiRow, usize)> {
    cuda::api_rows().flat_map(|row| (0..WAYS.len()).map(move |way| (row, way)))
}

/// Makes the calls from the given one on, and says what it does.
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
        // One for each parameter, so that an output is not another's input.
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
            // The thread's own stream captures now, which would forbid much of what comes.
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

/// What NVIDIA's driver answers and its documentation forgets, or what the language of the document leaves open.
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

/// Codes that any call may give (CUDA driver API, "Error handling": from work that was launched before, and from the
/// state of the driver).
const ALWAYS: [&str; 3] = ["SUCCESS", "DEINITIALIZED", "NOT_INITIALIZED"];

fn name_of(driver: &Driver, code: u32) -> String {
    let mut text: *const std::ffi::c_char = std::ptr::null();
    let got = driver.call("cuGetErrorName", &[code as usize, &raw mut text as usize]);
    if got != 0 {
        return format!("{code}, which is no result");
    }
    // SAFETY: the call succeeded, so the text is a C string.
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
