//! The tables that NVIDIA's runtimes and libraries request with `cuGetExportTable`.
//!
//! No public header describes these tables. Their layout was observed from outside the driver. A table is an array of
//! words. The first word is the size in bytes, and the other words are function pointers. The table of context-local
//! storage has no size word, and its last word is null. A slot of unknown purpose contains a function that warns and
//! returns `NOT_SUPPORTED` (`unknown`). Some callers ignore the size, so such functions also follow each table.
//!
//! Invariant: the addresses of the tables and of their functions never change, and are inside this library.

#[cfg(feature = "export-table-integrity")]
mod integrity;
mod modules;
mod native;
mod unknown;

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::{self, null};

use margay::Runtime;

use crate::activity;
use crate::context_storage as storage;
use crate::convert::{FromAbi, In, OptOut, Out, read_array};
use crate::guard::{self, Call, DefaultStream, ERROR_LOG_SWITCH};
use crate::handles::{
    ContextOrCurrent, STREAM_LEGACY, STREAM_PER_THREAD, contexts, current_handle, handle_of,
    streams,
};
use crate::jit_options::JitOptions;
use crate::result::{CuResult, Served};
use crate::serve::load_at;
use crate::types::{CUcontext, CUmodule, CUstream, CUuuid};

/// An array of words that other libraries read. The table has `WORDS` words; the words after it are slots of unknown
/// purpose.
#[repr(C)]
struct Table<const WORDS: usize>([*const c_void; unknown::SLOTS]);

// SAFETY: a table is never written, and its functions are callable from any thread.
unsafe impl<const WORDS: usize> Sync for Table<WORDS> {}

impl<const WORDS: usize> Table<WORDS> {
    /// Creates the table that has index `TABLE` in [`TABLES`]. The first word is the table's size in bytes, and the
    /// other words are slots of unknown purpose.
    const fn sized<const TABLE: usize>() -> Table<WORDS> {
        let mut words = unknown::slots::<TABLE>();
        words[0] = ptr::without_provenance(WORDS * size_of::<usize>());
        Table(words)
    }

    const fn slot(mut self, index: usize, function: *const c_void) -> Table<WORDS> {
        assert!(index < WORDS);
        self.0[index] = function;
        self
    }

    fn start(&'static self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

pub(crate) fn get_export_table(_: &Call, table: Out<*const c_void>, id: In<CUuuid>) -> Served {
    let found = find(&id.0.bytes);
    table.set(found.unwrap_or(std::ptr::null()));
    found.map(|_| ()).ok_or_else(|| {
        unknown::warn_of_table(&id.0.bytes);
        CuResult::INVALID_VALUE
    })
}

/// Returns the address of the table with the identifier `id`; `None` if there is no such table.
fn find(id: &[u8; 16]) -> Option<*const c_void> {
    let (_, table) = TABLES.iter().find(|(known, _)| known == id)?;
    Some(table())
}

type TableOf = fn() -> *const c_void;

/// The tables with their identifiers, in the byte order of `CUuuid`.
static TABLES: [([u8; 16], TableOf); 11] = [
    (
        0x6bd5fb6c_5bf4_e74a_8987_d93912fd9df9_u128.to_be_bytes(),
        || CUDART_INTERFACE.start(),
    ),
    (
        0xa094798c_2e74_2e74_93f2_0800200c0a66_u128.to_be_bytes(),
        || CALLBACK_HOOKS.start(),
    ),
    (
        0x42d85a81_23f6_cb47_8298_f6e78a3aecdc_u128.to_be_bytes(),
        || TOOLS_TLS.start(),
    ),
    (
        0xc693336e_1121_df11_a8c3_68f355d89593_u128.to_be_bytes(),
        || CONTEXT_LOCAL_STORAGE.start(),
    ),
    (
        0xd4082055_bde6_704b_8d34_ba123c66e1f2_u128.to_be_bytes(),
        || INTEGRITY_CHECK.start(),
    ),
    (
        0x263e8860_7cd2_6143_92f6_bbd5006dfa7e_u128.to_be_bytes(),
        || CONTEXT_CHECKS.start(),
    ),
    (
        0xf8cff951_2146_8b4e_b9e2_fb469e7c0dd9_u128.to_be_bytes(),
        || ERROR_LOG.start(),
    ),
    (
        0x21318c60_9714_3248_8ca6_41ff7324c8f2_u128.to_be_bytes(),
        || DESCRIPTIONS.start(),
    ),
    (
        0x6e163fbe_b958_444d_835c_e182aff1991e_u128.to_be_bytes(),
        || MODULE_FUNCTIONS.start(),
    ),
    (margay_activity::interface::TABLE, activity::start),
    (native::ID, || native::NATIVE_KERNELS.start()),
];

static CUDART_INTERFACE: Table<13> = Table::sized::<0>()
    .slot(1, load_wrapper as *const c_void)
    .slot(2, primary_context as *const c_void)
    .slot(6, load_wrapper_for_runtime as *const c_void)
    .slot(7, at_exit as *const c_void)
    .slot(8, load_container as *const c_void)
    .slot(12, load_compilers as *const c_void);

static CALLBACK_HOOKS: Table<7> = Table::sized::<1>()
    .slot(2, runtime_callback_flags as *const c_void)
    .slot(6, more_callback_flags as *const c_void);

static TOOLS_TLS: Table<4> = Table::sized::<2>().slot(2, current_context as *const c_void);

static CONTEXT_LOCAL_STORAGE: Table<4> = Table::sized::<3>()
    .slot(0, storage_put as *const c_void)
    .slot(1, storage_delete as *const c_void)
    .slot(2, storage_get as *const c_void)
    .slot(3, null());

static INTEGRITY_CHECK: Table<3> = Table::sized::<4>().slot(1, integrity_check as *const c_void);

static CONTEXT_CHECKS: Table<4> = Table::sized::<5>()
    .slot(2, check_context as *const c_void)
    .slot(3, check_nothing as *const c_void);

static ERROR_LOG: Table<3> = Table::sized::<6>()
    .slot(1, log_error as *const c_void)
    .slot(2, switch_error_log as *const c_void);

/// A table of functions that describe contexts and streams. Runtimes request it and do not call its functions. cuBLAS
/// calls three slots. It passes the value that it got from [`current_context`] as the first argument.
static DESCRIPTIONS: Table<64> = Table::sized::<7>()
    .slot(4, context_id as *const c_void)
    .slot(39, stream_id as *const c_void)
    .slot(51, stream_of as *const c_void);

/// A table with functions of modules, which cuFFT requests.
static MODULE_FUNCTIONS: Table<8> =
    Table::sized::<8>().slot(7, modules::each_function as *const c_void);

/// Declares the functions of slots: C functions with panic guard, argument conversion and trace.
macro_rules! slots {
    ($($(#[$doc:meta])* $name:ident $title:tt ($($parameter:ident: $type:ty),*) $body:block)*) => {$(
        $(#[$doc])*
        extern "C" fn $name($($parameter: $type),*) -> CuResult {
            static CALL: Call = Call::new($title, DefaultStream::Legacy);
            guard::enter(
                &CALL,
                &[$((stringify!($parameter), &$parameter as &dyn guard::Traced)),*],
                || {
                    $(
                        // SAFETY: the runtime that calls the slot guarantees that the pointers that it passes are
                        // valid.
                        let $parameter = unsafe { FromAbi::from_abi($parameter, &CALL) }?;
                    )*
                    $body
                },
            )
        }
    )*};
}

slots! {
    /// Loads a module from a fat binary wrapper.
    load_wrapper "CUDART_INTERFACE[1]" (module: *mut CUmodule, image: *const c_void) {
        load(module, image)
    }

    /// Returns the device's primary context without retaining or initialising it.
    primary_context "CUDART_INTERFACE[2]" (context: *mut CUcontext, device: c_int) {
        let context: Out<CUcontext> = context;
        let device: margay::Device = device;
        context.set(handle_of(&device.primary_context()?)?);
        Ok(())
    }

    /// Loads a module from a fat binary wrapper. The runtime passes zeros for the other parameters.
    load_wrapper_for_runtime "CUDART_INTERFACE[6]" (
        module: *mut CUmodule, image: *const c_void, a: *mut c_void, b: *mut c_void, c: u32
    ) {
        let (_, _, _): (*mut c_void, *mut c_void, u32) = (a, b, c);
        load(module, image)
    }

    /// Does nothing. The runtime calls this function when the program ends.
    at_exit "CUDART_INTERFACE[7]" () { Ok(()) }

    /// Loads a module from a fat binary container.
    load_container "CUDART_INTERFACE[8]" (
        image: *const c_void, module: *mut CUmodule, a: *mut c_void, b: *mut c_void, c: u32
    ) {
        let (_, _, _): (*mut c_void, *mut c_void, u32) = (a, b, c);
        load(module, image)
    }

    /// Does nothing: the compiler is part of this library.
    load_compilers "CUDART_INTERFACE[12]" () { Ok(()) }

    storage_put "CONTEXT_LOCAL_STORAGE[0]" (
        context: CUcontext, key: *mut c_void, value: *mut c_void, destructor: *const c_void
    ) {
        storage::put(context, key, value, destructor)
    }

    storage_delete "CONTEXT_LOCAL_STORAGE[1]" (context: CUcontext, key: *mut c_void) {
        storage::delete(context, key)
    }

    storage_get "CONTEXT_LOCAL_STORAGE[2]" (
        value: *mut *mut c_void, context: CUcontext, key: *mut c_void
    ) {
        let value: Out<*mut c_void> = value;
        value.set(storage::get(context, key)?);
        Ok(())
    }

    /// Returns the current context, or 0 if none is current. cuBLAS passes the value to the functions of
    /// [`DESCRIPTIONS`] and does not use it otherwise.
    current_context "TOOLS_TLS[2]" (context: *mut CUcontext) {
        let context: Out<CUcontext> = context;
        context.set(current_handle()?);
        Ok(())
    }

    /// Returns a number of the context that no other context has. cuBLAS accepts every number.
    context_id "DESCRIPTIONS[4]" (context: CUcontext, id: *mut u64) {
        let (context, id): (ContextOrCurrent, Out<u64>) = (context, id);
        id.set(context.0.id());
        Ok(())
    }

    /// Returns a number of a stream that no other stream has. `stream` is a value that [`stream_of`] has returned. cuBLAS
    /// accepts every number.
    stream_id "DESCRIPTIONS[39]" (context: CUcontext, stream: CUstream, id: *mut u64) {
        let (context, id): (ContextOrCurrent, Out<u64>) = (context, id);
        let stream: CUstream = stream;
        id.set(stream_in(&context.0, stream)?.id());
        Ok(())
    }

    /// Returns the value that stands for a stream in calls of [`stream_id`]: its handle. Handle 0 is the legacy stream.
    stream_of "DESCRIPTIONS[51]" (context: CUcontext, stream: CUstream, out: *mut CUstream) {
        let (context, out): (ContextOrCurrent, Out<CUstream>) = (context, out);
        let stream: CUstream = stream;
        stream_in(&context.0, stream)?;
        out.set(match stream.0 {
            0 => CUstream(STREAM_LEGACY),
            _ => stream,
        });
        Ok(())
    }

    /// Stores whether a context is that of a green context, and then also the device's primary context. The runtime passes
    /// the handle of the context to the functions for green contexts, and waits for the primary context when it waits for
    /// the device.
    check_context "CONTEXT_CHECKS[2]" (
        context: CUcontext, is_green: *mut u32, primary: *mut CUcontext
    ) {
        let (context, is_green): (CUcontext, OptOut<u32>) = (context, is_green);
        let primary: OptOut<CUcontext> = primary;
        let object = contexts().get(context.0);
        let green = object.filter(|object| object.green.is_some());
        is_green.set(u32::from(green.is_some()));
        if let Some(green) = green {
            primary.set(handle_of(&green.context)?);
        }
        Ok(())
    }

    check_nothing "CONTEXT_CHECKS[3]" () { Ok(()) }

    /// Does nothing. If the runtime itself finds a wrong argument, it passes a message for the
    /// driver's error log to this function.
    log_error "ERROR_LOG[1]" () { Ok(()) }

    /// Does nothing. The runtime calls this function to switch the driver's error log on or off.
    switch_error_log ERROR_LOG_SWITCH (on: u32) {
        let _: u32 = on;
        Ok(())
    }

    integrity_check "INTEGRITY_CHECK[1]" (version: u32, seconds: u64, answer: *mut [u64; 2]) {
        answer_integrity(version, seconds, &answer)
    }
}

/// Returns a stream of `context`.
///
/// # Errors
/// Returns `INVALID_HANDLE` if the context has no such stream.
fn stream_in(context: &margay::Context, stream: CUstream) -> Result<margay::Stream, CuResult> {
    match stream.0 {
        0 | STREAM_LEGACY => Ok(context.legacy_stream()),
        STREAM_PER_THREAD => Ok(context.per_thread_stream()),
        handle => {
            let found = streams().get(handle);
            let found = found.filter(|stream| stream.context() == context);
            found.ok_or(CuResult::INVALID_HANDLE)
        }
    }
}

fn load(module: Out<CUmodule>, image: *const c_void) -> Served {
    module.set(load_at(image, &JitOptions::none())?);
    Ok(())
}

#[cfg(feature = "export-table-integrity")]
fn answer_integrity(version: u32, seconds: u64, answer: &Out<[u64; 2]>) -> Served {
    let runtime = Runtime::global()?;
    let question = integrity::Question {
        driver_version: runtime.driver_version() as u32,
        version,
        process: std::process::id(),
        // SAFETY: `pthread_self` only returns the identifier of the calling thread.
        thread: unsafe { libc::pthread_self() } as u64 as u32,
        runtime_table: CUDART_INTERFACE.start() as u64,
        check_table: INTEGRITY_CHECK.start() as u64,
        check_function: integrity_check as *const c_void as u64,
        seconds,
    };
    let devices = (0..runtime.device_count())
        .map(|ordinal| Ok(integrity::DeviceFacts::of(&runtime.device(ordinal)?)))
        .collect::<Result<Vec<_>, CuResult>>()?;
    answer.set(integrity::answer(&question, &devices));
    Ok(())
}

#[cfg(not(feature = "export-table-integrity"))]
fn answer_integrity(_version: u32, _seconds: u64, _answer: &Out<[u64; 2]>) -> Served {
    guard::warn(format_args!(
        "NVIDIA's runtime requires a check that this library was built without \
         (cargo feature export-table-integrity)"
    ));
    Err(CuResult::NOT_SUPPORTED)
}

/// Zeroed memory whose address is given to other libraries.
struct Buffer<const WORDS: usize>(UnsafeCell<[u64; WORDS]>);

// SAFETY: only the libraries that receive the address use the memory, and they synchronise their accesses themselves.
unsafe impl<const WORDS: usize> Sync for Buffer<WORDS> {}

/// The number of words in the array of [`runtime_callback_flags`] and in the array of [`more_callback_flags`]. Runtimes
/// up to CUDA 13.5 request 1024 words of the first array and 14 words of the second array.
const RUNTIME_FLAGS: usize = 4096;
const MORE_FLAGS: usize = 14;

/// Stores in `buffer` the address of the array of flags that select which calls of the runtime a
/// tool traces, and in `count` the number of flags. All flags are zero.
extern "C" fn runtime_callback_flags(buffer: *mut *mut c_void, count: *mut usize) {
    static FLAGS: Buffer<RUNTIME_FLAGS> = Buffer(UnsafeCell::new([0; RUNTIME_FLAGS]));
    give(&FLAGS, buffer, count);
}

/// Stores the address and the length of a second array of flags that select which calls of the
/// runtime a tool traces. All flags are zero.
extern "C" fn more_callback_flags(buffer: *mut *mut c_void, count: *mut usize) {
    static FLAGS: Buffer<MORE_FLAGS> = Buffer(UnsafeCell::new([0; MORE_FLAGS]));
    give(&FLAGS, buffer, count);
}

fn give<const WORDS: usize>(
    flags: &'static Buffer<WORDS>,
    buffer: *mut *mut c_void,
    count: *mut usize,
) {
    if !buffer.is_null() {
        // SAFETY: the pointer is not null, and the runtime guarantees that it is valid.
        unsafe { buffer.write(flags.0.get().cast()) };
    }
    if !count.is_null() {
        // SAFETY: the pointer is not null, and the runtime guarantees that it is valid.
        unsafe { count.write(WORDS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_and_tell_their_size() {
        let id = [
            0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd,
            0x9d, 0xf9,
        ];
        let table = find(&id).map(|table| table.cast::<usize>());
        let table = table.unwrap_or_else(|| panic!("no table"));
        // SAFETY: a table has at least one word.
        assert_eq!(unsafe { table.read() }, 13 * 8);
        assert!(find(&[0; 16]).is_none());
    }

    #[test]
    fn no_module_has_no_kernels() {
        extern "C" fn never(_: *mut c_void, _: crate::types::CUfunction, _: *mut c_void) {
            panic!("called for a kernel");
        }
        let answer =
            modules::each_function(CUcontext(0), CUmodule(77), Some(never), ptr::null_mut());
        assert_eq!(answer, 0);
    }
}
