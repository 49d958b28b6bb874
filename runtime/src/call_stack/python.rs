//! Reads the frames of Python code on the calling thread's stack, for CPython 3.10 and later (`PyGC_IsEnabled`).
//!
//! Invariant: functions of the interpreter that need the interpreter's lock are called only on a thread that holds the
//! lock. Most extension modules release the lock before a call of CUDA. The frames of a thread that has released the
//! lock can be read only if [`released`] supports the interpreter's version.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::sync::OnceLock;

use super::{HostFrame, released};

/// Maximum number of frames that are stored.
const MOST: usize = 64;

type Object = *mut c_void;

/// Declares the functions of the interpreter that this module calls. If several symbols are given, a function has
/// different names in different versions.
macro_rules! interpreter {
    ($($name:ident: $($symbol:literal)|+ ($($parameter:ty),*) $(-> $result:ty)?;)*) => {
        struct Interpreter {
            $($name: unsafe extern "C" fn($($parameter),*) $(-> $result)?,)*
        }

        impl Interpreter {
            /// Finds the interpreter's functions that this module calls. Returns `None` if the
            /// process has no interpreter, or an interpreter that lacks one of the functions.
            fn find() -> Option<Interpreter> {
                Some(Interpreter {
                    $($name: {
                        let found = [$($symbol),+].into_iter().find_map(symbol)?;
                        // SAFETY: the symbol is CPython's function with this documented type.
                        unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn($($parameter),*) $(-> $result)?>(found) }
                    },)*
                })
            }
        }
    };
}

interpreter! {
    is_initialized: c"Py_IsInitialized" () -> c_int;
    holds_lock: c"PyGILState_Check" () -> c_int;
    thread: c"PyGILState_GetThisThreadState" () -> Object;
    current_thread: c"PyThreadState_GetUnchecked" | c"_PyThreadState_UncheckedGet" () -> Object;
    error: c"PyErr_Occurred" () -> Object;
    clear_error: c"PyErr_Clear" ();
    frame: c"PyEval_GetFrame" () -> Object;
    caller: c"PyFrame_GetBack" (Object) -> Object;
    code: c"PyFrame_GetCode" (Object) -> Object;
    line: c"PyFrame_GetLineNumber" (Object) -> c_int;
    attribute: c"PyObject_GetAttrString" (Object, *const c_char) -> Object;
    utf8: c"PyUnicode_AsUTF8" (Object) -> *const c_char;
    retain: c"Py_IncRef" (Object);
    release: c"Py_DecRef" (Object);
    collects: c"PyGC_IsEnabled" () -> c_int;
    stop_collecting: c"PyGC_Disable" () -> c_int;
    collect: c"PyGC_Enable" () -> c_int;
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns the Python frames of the calling thread, innermost first. If the thread does not hold
/// the interpreter's lock, returns frames only if [`released`] can read them.
pub(super) fn frames() -> Vec<HostFrame> {
    static INTERPRETER: OnceLock<Option<Interpreter>> = OnceLock::new();
    match INTERPRETER.get_or_init(Interpreter::find) {
        Some(interpreter) if interpreter.is_ours() => interpreter.frames(),
        Some(interpreter) => interpreter.released_frames(),
        None => Vec::new(),
    }
}

impl Interpreter {
    /// Returns whether the calling thread holds the interpreter's lock and has no pending exception.
    fn is_ours(&self) -> bool {
        // SAFETY: these functions only read the state of the interpreter and of the thread, and need no lock.
        let holds = unsafe {
            (self.is_initialized)() != 0
                && !(self.thread)().is_null()
                && (self.thread)() == (self.current_thread)()
                && (self.holds_lock)() == 1
        };
        // SAFETY: the thread holds the lock.
        holds && unsafe { (self.error)() }.is_null()
    }

    /// Returns the frames of the calling thread, which does not hold the interpreter's lock.
    /// Returns no frames if [`released`] does not support the interpreter's version.
    fn released_frames(&self) -> Vec<HostFrame> {
        static TYPES: OnceLock<Option<released::Types>> = OnceLock::new();
        let types = TYPES.get_or_init(|| {
            let version = symbol(c"Py_Version")?.cast::<u64>();
            // SAFETY: the symbol is a variable of this type.
            let version = unsafe { version.read() };
            let known = version >> 16 == released::VERSION;
            Some(released::Types {
                code: symbol(c"PyCode_Type").filter(|_| known)? as u64,
                text: symbol(c"PyUnicode_Type")? as u64,
                bytes: symbol(c"PyBytes_Type")? as u64,
            })
        });
        // SAFETY: the function reads a variable of the thread and needs no lock.
        let thread = unsafe { (self.thread)() };
        // SAFETY: see above.
        let is_running = unsafe { (self.is_initialized)() } != 0 && !thread.is_null();
        match types {
            // If the thread holds the lock but has a pending exception, no frames are returned.
            // SAFETY: the function reads a variable and needs no lock.
            Some(types) if is_running && unsafe { (self.current_thread)() } != thread => {
                released::frames(thread as u64, types)
            }
            _ => Vec::new(),
        }
    }

    fn frames(&self) -> Vec<HostFrame> {
        // Garbage collection is stopped here, because it could run code of the program, which could call this library
        // again.
        // SAFETY: the thread holds the lock, here and below.
        let collects = unsafe { (self.collects)() } != 0;
        if collects {
            // SAFETY: see above.
            unsafe { (self.stop_collecting)() };
        }
        let mut found = Vec::new();
        // SAFETY: see above. The function returns a borrowed reference, and `retain` makes it an owned reference.
        let mut frame = unsafe { (self.frame)() };
        if !frame.is_null() {
            // SAFETY: the frame is valid.
            unsafe { (self.retain)(frame) };
        }
        while !frame.is_null() {
            if found.len() < MOST {
                found.extend(self.describe(frame));
            }
            // SAFETY: the frame is valid.
            let caller = unsafe { (self.caller)(frame) };
            // SAFETY: this function owns a reference to the frame.
            unsafe { (self.release)(frame) };
            frame = caller;
        }
        if collects {
            // SAFETY: see above.
            unsafe { (self.collect)() };
        }
        found
    }

    fn describe(&self, frame: Object) -> Option<HostFrame> {
        // SAFETY: the thread holds the lock, and the frame is valid.
        let line = unsafe { (self.line)(frame) };
        // SAFETY: see above.
        let code = unsafe { (self.code)(frame) };
        if code.is_null() {
            return None;
        }
        let function = self.text(code, c"co_qualname");
        let function = function.or_else(|| self.text(code, c"co_name"));
        let file = self.text(code, c"co_filename");
        // SAFETY: this function owns a reference to the code object.
        unsafe { (self.release)(code) };
        Some(HostFrame {
            function: function?,
            file,
            line: u32::try_from(line).ok(),
            ..HostFrame::default()
        })
    }

    /// Returns the value of the attribute `name` of an object, if the value is a text.
    fn text(&self, object: Object, name: &CStr) -> Option<String> {
        // SAFETY: the thread holds the lock, and the object is valid.
        let value = unsafe { (self.attribute)(object, name.as_ptr()) };
        if value.is_null() {
            // SAFETY: the thread holds the lock.
            unsafe { (self.clear_error)() };
            return None;
        }
        // SAFETY: the attribute is a text, and the object is valid.
        let text = unsafe { (self.utf8)(value) };
        let owned = match text.is_null() {
            true => None,
            // SAFETY: the text ends with a NUL and is valid as long as the object.
            false => Some(
                unsafe { CStr::from_ptr(text) }
                    .to_string_lossy()
                    .into_owned(),
            ),
        };
        if owned.is_none() {
            // SAFETY: the thread holds the lock.
            unsafe { (self.clear_error)() };
        }
        // SAFETY: this function owns a reference to the value.
        unsafe { (self.release)(value) };
        owned
    }
}
