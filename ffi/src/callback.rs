//! Calls of functions that the program passes to the driver. Such a function may end the thread that executes it.
//!
//! A callback may call `pthread_exit`. For example, CPython ends a thread in this way if the thread waits for the
//! interpreter's lock while the interpreter ends. The C library then unwinds the stack of the thread. If such unwinding
//! reaches `catch_unwind`, Rust aborts the process. Callbacks are therefore called through a routine without unwind
//! information. When the C library reaches this routine, it stops unwinding and ends the thread, without unwinding the
//! frames of the callers. If a callback ends a thread of this library, `margay::service` starts another thread for the
//! remaining work.
//!
//! While a thread of this library executes a function of the program, its name does not begin with `margay-`
//! ([`ProgramName`]). A thread that the function starts inherits the name, and [`crate::main_thread`] recognises the
//! threads of this library by their names.

use std::arch::global_asm;
use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::result::CuResult;
use crate::types::CUstream;

#[cfg(target_arch = "x86_64")]
global_asm!(
    ".p2align 4",
    "margay_call_program:",
    "push rbp",
    "mov rbp, rsp",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov rcx, r8",
    "call rax",
    "pop rbp",
    "ret",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".p2align 4",
    "margay_call_program:",
    "stp x29, x30, [sp, #-16]!",
    "mov x29, sp",
    "mov x9, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "mov x3, x4",
    "blr x9",
    "ldp x29, x30, [sp], #16",
    "ret",
);

unsafe extern "C" {
    /// Calls `function` with four arguments, and returns its result. `function` may take fewer arguments.
    fn margay_call_program(
        function: *const c_void,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
    ) -> usize;
}

/// While this value exists, the calling thread has the name of a thread of the program.
struct ProgramName {
    /// The name of a thread of this library, with a NUL at its end; `None` if the thread belongs to the program.
    own: Option<[u8; 16]>,
}

impl ProgramName {
    fn begin() -> ProgramName {
        let mut name = [0u8; 16];
        // SAFETY: Linux writes at most 16 bytes, the last of which is a NUL.
        let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
        let own = (!failed && name.starts_with(b"margay-")).then_some(name);
        if own.is_some() {
            // SAFETY: the name is a C string.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"host-function".as_ptr()) };
        }
        ProgramName { own }
    }
}

impl Drop for ProgramName {
    fn drop(&mut self) {
        if let Some(name) = &self.own {
            // SAFETY: the name is a C string.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        }
    }
}

/// Calls `function` with four arguments, and returns its result. `function` may take fewer arguments: a C function may
/// be called with more arguments than it takes if all arguments are passed in registers.
///
/// # Safety
/// `function` must be a C function for which the arguments are valid. Each of its parameters must fit in one register.
unsafe fn call(function: *const c_void, [a, b, c, d]: [usize; 4]) -> usize {
    let _name = ProgramName::begin();
    // SAFETY: the caller guarantees the function and its arguments.
    unsafe { margay_call_program(function, a, b, c, d) }
}

/// Calls `function`, a function of the program, with the argument `pointer`.
///
/// # Safety
/// The program must have passed `function` to the driver together with this pointer.
pub(crate) unsafe fn with_pointer(
    function: unsafe extern "C" fn(*mut c_void),
    pointer: *mut c_void,
) {
    // SAFETY: the caller guarantees the function and its argument.
    unsafe { call(function as *const c_void, [pointer as usize, 0, 0, 0]) };
}

/// Calls `function`, a stream callback of the program.
///
/// # Safety
/// The program must have passed this function to the driver together with the pointer.
pub(crate) unsafe fn of_stream(
    function: unsafe extern "C" fn(CUstream, CuResult, *mut c_void),
    stream: CUstream,
    status: CuResult,
    pointer: *mut c_void,
) {
    let (stream, status) = (stream.0, status.0 as usize);
    // SAFETY: as for `with_pointer`; each argument fits in one register.
    unsafe {
        call(
            function as *const c_void,
            [stream, status, pointer as usize, 0],
        )
    };
}

/// Calls a function that returns the number of bytes of dynamic shared memory that a block of `block` threads needs.
///
/// # Safety
/// The program must have passed this function to the driver.
pub(crate) unsafe fn of_block_size(
    function: unsafe extern "C" fn(c_int) -> usize,
    block: c_int,
) -> usize {
    // SAFETY: as for `with_pointer`; an `int` is passed in a register's lower half.
    unsafe { call(function as *const c_void, [block as usize, 0, 0, 0]) }
}

/// Calls `function`, which the program registered for new entries of the driver's log. `text` ends
/// with a NUL, and `length` is its length without the NUL.
///
/// # Safety
/// The program must have registered this function together with `data`, and the text must be valid.
pub(crate) unsafe fn of_log(
    function: unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize),
    data: *mut c_void,
    level: c_uint,
    (text, length): (*mut c_char, usize),
) {
    let (data, level, text) = (data as usize, level as usize, text as usize);
    // SAFETY: as for `with_pointer`; an `unsigned` is passed in a register's lower half.
    unsafe { call(function as *const c_void, [data, level, text, length]) };
}

#[cfg(test)]
mod tests {
    use std::fs::read_to_string;

    use super::*;

    fn name() -> String {
        read_to_string("/proc/thread-self/comm").expect("a name")
    }

    /// Stores the name of the calling thread, and the name of a thread that it starts.
    unsafe extern "C" fn names(pointer: *mut c_void) {
        extern "C" fn inherited(pointer: *mut c_void) -> *mut c_void {
            // SAFETY: the test passes a vector, and the thread that started this one waits.
            unsafe { &mut *pointer.cast::<Vec<String>>() }.push(name());
            std::ptr::null_mut()
        }
        inherited(pointer);
        // SAFETY: the vector lives longer than the thread.
        unsafe {
            let mut thread = 0;
            libc::pthread_create(&mut thread, std::ptr::null(), inherited, pointer);
            libc::pthread_join(thread, std::ptr::null_mut());
        }
    }

    #[test]
    fn functions_of_the_program_do_not_run_under_the_name_of_this_library() {
        let seen = |thread: &str| {
            let body = || {
                let mut seen = Vec::new();
                // SAFETY: the function takes a vector.
                unsafe { with_pointer(names, (&raw mut seen).cast()) };
                seen.push(name());
                seen
            };
            let thread = std::thread::Builder::new().name(thread.to_owned());
            thread.spawn(body).expect("a thread").join().expect("names")
        };
        let expected = ["host-function\n", "host-function\n", "margay-callback\n"];
        assert_eq!(seen("margay-callback"), expected);
        assert_eq!(seen("of-the-program"), ["of-the-program\n"; 3]);
    }
}
