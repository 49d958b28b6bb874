//! The log of cuBLAS: what `cublasLoggerConfigure` and the variables `CUBLAS_LOGINFO_DBG` and `CUBLAS_LOGDEST_DBG` turn
//! on.
//!
//! Each call becomes an entry with the function's name and its arguments. Entries go to the destinations that are
//! selected, and to the program's callback. The log is off by default; then a call costs one load.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::host;
use crate::status::{Failure, Outcome, Status, need};
use crate::types::{c32, c64};

/// Where entries go.
#[derive(Default)]
struct Destinations {
    stdout: bool,
    stderr: bool,
    file: Option<File>,
}

static ON: AtomicBool = AtomicBool::new(false);
static CALLBACK: AtomicUsize = AtomicUsize::new(0);
static DESTINATIONS: Mutex<Destinations> = Mutex::new(Destinations {
    stdout: false,
    stderr: false,
    file: None,
});
/// Reads the variables on first use.
static VARIABLES: LazyLock<()> = LazyLock::new(|| {
    if std::env::var_os("CUBLAS_LOGINFO_DBG").is_none_or(|value| value != "1") {
        return;
    }
    let mut destinations = DESTINATIONS.lock();
    match std::env::var_os("CUBLAS_LOGDEST_DBG") {
        None => destinations.stdout = true,
        Some(name) if name == "stdout" => destinations.stdout = true,
        Some(name) if name == "stderr" => destinations.stderr = true,
        Some(name) => destinations.file = File::create(name).ok(),
    }
    ON.store(true, Ordering::Relaxed);
});
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Whether calls are logged.
pub(crate) fn is_on() -> bool {
    LazyLock::force(&VARIABLES);
    ON.load(Ordering::Relaxed)
}

/// The entry of a call.
pub(crate) struct Entry {
    values: Vec<(String, String)>,
}

impl Entry {
    /// Begins the entry of a call.
    pub(crate) fn new() -> Entry {
        Entry { values: Vec::new() }
    }

    /// Adds the handle.
    pub(crate) fn handle(&mut self, handle: usize) {
        self.add("handle", &format_args!("0x{handle:x}"));
    }

    /// Adds an argument.
    pub(crate) fn value(&mut self, name: &str, value: impl Show) {
        value.show(|text| self.add(name, text));
    }

    fn add(&mut self, name: &str, value: &dyn Display) {
        self.values.push((name.to_owned(), value.to_string()));
    }

    /// Passes the entry of a call of cuBLAS to the destinations.
    pub(crate) fn finish(self, function: &CStr, status: Status) {
        let (function, status) = (function.to_string_lossy(), status.name().to_string_lossy());
        let mut text = format!("I! cuBLAS (Margay) function {function} called:\n");
        for (name, value) in &self.values {
            // Strings accept everything.
            let _ = writeln!(text, "i!  {name}: val={value}");
        }
        let (process, elapsed) = (std::process::id(), START.elapsed().as_secs_f64());
        let _ = writeln!(
            text,
            "i! returned {status}; Process={process}; elapsed from start {elapsed:.6} seconds"
        );
        emit(&text);
    }

    /// Returns the arguments in one line.
    pub(crate) fn line(self) -> String {
        let values = self
            .values
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        values.collect::<Vec<_>>().join(" ")
    }
}

/// Values that the log shows.
pub(crate) trait Show {
    /// Passes the value's text on.
    fn show(self, put: impl FnOnce(&dyn Display));
}

macro_rules! show_as_display {
    ($($name:ty)*) => {$(
        impl Show for $name {
            fn show(self, put: impl FnOnce(&dyn Display)) {
                put(&self);
            }
        }
    )*};
}

show_as_display! { i32 u32 i64 u64 f32 f64 }

impl Show for usize {
    fn show(self, put: impl FnOnce(&dyn Display)) {
        put(&format_args!("{self} (0x{self:x})"));
    }
}

impl Show for c_char {
    fn show(self, put: impl FnOnce(&dyn Display)) {
        put(&char::from(self.cast_unsigned()));
    }
}

impl Show for c32 {
    fn show(self, put: impl FnOnce(&dyn Display)) {
        put(&format_args!("({}, {})", self.re, self.im));
    }
}

impl Show for c64 {
    fn show(self, put: impl FnOnce(&dyn Display)) {
        put(&format_args!("({}, {})", self.re, self.im));
    }
}

impl<T> Show for *const T {
    fn show(self, put: impl FnOnce(&dyn Display)) {
        put(&format_args!("POINTER (IN HEX:0x{:x})", self.addr()));
    }
}

impl<T> Show for *mut T {
    fn show(self, put: impl FnOnce(&dyn Display)) {
        self.cast_const().show(put);
    }
}

fn emit(text: &str) {
    {
        let mut destinations = DESTINATIONS.lock();
        // A destination that fails must not fail the call.
        if destinations.stdout {
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
        if destinations.stderr {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        if let Some(file) = &mut destinations.file {
            let _ = file.write_all(text.as_bytes());
        }
    }
    let callback = CALLBACK.load(Ordering::Acquire);
    if let (true, Ok(text)) = (callback != 0, CString::new(text)) {
        type Callback = unsafe extern "C" fn(*const c_char);
        // SAFETY: the program passed a function of this type.
        let callback = unsafe { std::mem::transmute::<*const c_void, Callback>(callback as _) };
        // SAFETY: the text is valid during the call.
        unsafe { callback(text.as_ptr()) };
    }
}

/// `cublasLoggerConfigure`.
///
/// # Safety
/// None: the name may be any address.
pub(crate) unsafe fn configure(on: i32, stdout: i32, stderr: i32, name: *const c_char) -> Outcome {
    LazyLock::force(&VARIABLES);
    let mut file = None;
    if !name.is_null() {
        let name = host::read_text(name);
        need(name.is_some(), 4)?;
        let name = name.unwrap_or_default();
        if !name.is_empty() {
            let made = File::create(OsStr::from_bytes(&name));
            file = Some(made.map_err(|_| Failure::from(Status::INVALID_VALUE))?);
        }
    }
    *DESTINATIONS.lock() = Destinations {
        stdout: stdout != 0,
        stderr: stderr != 0,
        file,
    };
    ON.store(on != 0, Ordering::Relaxed);
    Ok(())
}

/// `cublasSetLoggerCallback`.
///
/// # Safety
/// The callback is null or a function that takes a text.
pub(crate) unsafe fn set_callback(callback: usize) -> Outcome {
    CALLBACK.store(callback, Ordering::Release);
    Ok(())
}

/// `cublasGetLoggerCallback`.
///
/// # Safety
/// None: the place may be any address.
pub(crate) unsafe fn callback(place: *mut usize) -> Outcome {
    let callback = CALLBACK.load(Ordering::Acquire);
    need(host::write(place, callback).is_some(), 1)
}
