//! The log of cuBLASLt: levels and masks, a file, and a callback of the program.
//!
//! The variables `CUBLASLT_LOG_LEVEL`, `CUBLASLT_LOG_MASK` and `CUBLASLT_LOG_FILE` (in which `%i` stands for the process)
//! and the functions of the logger change it. A call is an entry of the level *API trace*, a failure one of the level *error*.

use std::ffi::{CString, OsStr, c_char, c_void};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use parking_lot::Mutex;

/// A level of entries: its number and its name.
#[derive(Clone, Copy)]
pub(crate) struct Level(i32, &'static str);

/// Failures.
pub(crate) const ERROR: Level = Level(1, "Error");
/// Calls.
pub(crate) const API: Level = Level(5, "Api");
/// The highest level.
pub(crate) const HIGHEST: i32 = 5;

/// The bits of the levels that are logged.
static MASK: AtomicI32 = AtomicI32::new(0);
static CALLBACK: AtomicUsize = AtomicUsize::new(0);

/// Where entries go.
enum Destination {
    Stdout,
    File(File),
    /// A `FILE` of the program.
    Stream(usize),
}

static DESTINATION: Mutex<Destination> = Mutex::new(Destination::Stdout);
/// Whether the program has turned the log off for good.
static DISABLED: AtomicI32 = AtomicI32::new(0);

static VARIABLES: LazyLock<()> = LazyLock::new(|| {
    let number = |name| std::env::var(name).ok()?.trim().parse::<i32>().ok();
    if let Some(level) = number("CUBLASLT_LOG_LEVEL") {
        MASK.store(mask_of(level.clamp(0, HIGHEST)), Ordering::Relaxed);
    }
    if let Some(mask) = number("CUBLASLT_LOG_MASK") {
        MASK.store(mask, Ordering::Relaxed);
    }
    if let Some(name) = std::env::var_os("CUBLASLT_LOG_FILE") {
        let name = name.into_vec();
        let process = std::process::id().to_string();
        let name = String::from_utf8_lossy(&name).replace("%i", &process);
        if let Ok(file) = File::create(name) {
            *DESTINATION.lock() = Destination::File(file);
        }
    }
});

/// The mask of a level and of all lower ones.
fn mask_of(level: i32) -> i32 {
    (1 << level) - 1
}

/// Whether entries of a level are logged.
pub(crate) fn is_on(level: Level) -> bool {
    LazyLock::force(&VARIABLES);
    MASK.load(Ordering::Relaxed) & 1 << (level.0 - 1) != 0 && DISABLED.load(Ordering::Relaxed) == 0
}

/// Logs entries up to a level.
pub(crate) fn set_level(level: i32) {
    set_mask(mask_of(level));
}

/// Logs the entries of a mask.
pub(crate) fn set_mask(mask: i32) {
    LazyLock::force(&VARIABLES);
    MASK.store(mask, Ordering::Relaxed);
}

/// Passes entries to a function of the program, too; 0 for none.
pub(crate) fn set_callback(callback: usize) {
    CALLBACK.store(callback, Ordering::Release);
}

/// Writes entries to a `FILE` of the program; 0 for standard output.
pub(crate) fn set_stream(stream: usize) {
    LazyLock::force(&VARIABLES);
    *DESTINATION.lock() = match stream {
        0 => Destination::Stdout,
        stream => Destination::Stream(stream),
    };
}

/// Writes entries to a new file.
pub(crate) fn open(name: &[u8]) -> std::io::Result<()> {
    LazyLock::force(&VARIABLES);
    let file = File::create(OsStr::from_bytes(name))?;
    *DESTINATION.lock() = Destination::File(file);
    Ok(())
}

/// Turns the log off for good.
pub(crate) fn disable() {
    DISABLED.store(1, Ordering::Relaxed);
}

/// Logs an entry.
pub(crate) fn emit(level: Level, function: &str, text: &str) {
    let process = std::process::id();
    let line = format!("[cublasLt][{process}][{}][{function}] {text}\n", level.1);
    {
        let mut destination = DESTINATION.lock();
        // A destination that fails must not fail the call.
        match &mut *destination {
            Destination::Stdout => {
                let _ = std::io::stdout().write_all(line.as_bytes());
            }
            Destination::File(file) => {
                let _ = file.write_all(line.as_bytes());
            }
            Destination::Stream(stream) => {
                let stream = *stream as *mut libc::FILE;
                // SAFETY: the program passed an open stream.
                unsafe { libc::fwrite(line.as_ptr().cast(), 1, line.len(), stream) };
                // SAFETY: as above.
                unsafe { libc::fflush(stream) };
            }
        }
    }
    let callback = CALLBACK.load(Ordering::Acquire);
    if let (true, Ok(function), Ok(text)) =
        (callback != 0, CString::new(function), CString::new(text))
    {
        type Callback = unsafe extern "C" fn(i32, *const c_char, *const c_char);
        // SAFETY: the program passed a function of this type.
        let callback = unsafe { std::mem::transmute::<*const c_void, Callback>(callback as _) };
        // SAFETY: the texts are valid during the call.
        unsafe { callback(level.0, function.as_ptr(), text.as_ptr()) };
    }
}
