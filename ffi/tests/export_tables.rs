//! Calls the functions of the export tables (`cuGetExportTable`) that NVIDIA's CUDA runtimes
//! request, in the way that a runtime calls them.

mod common;
#[path = "export_tables/native.rs"]
mod native;

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::Driver;

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let driver = Driver::load();
        assert_eq!(driver.call("cuInit", &[0]), 0);
        driver
    })
}

fn address<T>(place: &mut T) -> usize {
    std::ptr::from_mut(place) as usize
}

/// Returns the first `words` words of the export table with this identifier.
fn table(id: u128, words: usize) -> &'static [usize] {
    let mut bytes = id.to_be_bytes();
    let mut start: *const usize = std::ptr::null();
    let code = driver().call(
        "cuGetExportTable",
        &[address(&mut start), address(&mut bytes)],
    );
    assert_eq!(code, 0);
    // SAFETY: the table has at least `words` words and is never freed.
    unsafe { std::slice::from_raw_parts(start, words) }
}

/// Calls the function with the address `slot`, which is a word of an export table. Returns its
/// result code.
fn call(slot: usize, arguments: [usize; 4]) -> u32 {
    type F = unsafe extern "C" fn(usize, usize, usize, usize) -> u32;
    // SAFETY: the slot contains a function; extra arguments are harmless.
    unsafe {
        let function = std::mem::transmute::<*const c_void, F>(slot as *const c_void);
        function(arguments[0], arguments[1], arguments[2], arguments[3])
    }
}

const CUDART_INTERFACE: u128 = 0x6bd5fb6c_5bf4_e74a_8987_d93912fd9df9;
const CALLBACK_HOOKS: u128 = 0xa094798c_2e74_2e74_93f2_0800200c0a66;
const STORAGE: u128 = 0xc693336e_1121_df11_a8c3_68f355d89593;
const CONTEXT_CHECKS: u128 = 0x263e8860_7cd2_6143_92f6_bbd5006dfa7e;
const MODULE_FUNCTIONS: u128 = 0x6e163fbe_b958_444d_835c_e182aff1991e;
const INTEGRITY: u128 = 0xd4082055_bde6_704b_8d34_ba123c66e1f2;

#[test]
fn the_primary_context_is_told_without_retaining_it() {
    let interface = table(CUDART_INTERFACE, 13);
    assert_eq!(interface[0], 13 * 8);
    let (mut told, mut retained) = (0usize, 0usize);
    assert_eq!(call(interface[2], [address(&mut told), 0, 0, 0]), 0);
    assert_eq!(call(interface[2], [address(&mut told), 7, 0, 0]), 101);
    assert_eq!(driver().call("cuCtxSetCurrent", &[told]), 0);
    let code = driver().call("cuDevicePrimaryCtxRetain", &[address(&mut retained), 0]);
    assert_eq!((code, retained), (0, told));
    assert_eq!(call(interface[12], [0; 4]), 0);
}

/// cuBLAS calls slots of a table without regard to the size that the table states.
#[test]
fn slots_of_unknown_purpose_are_functions_that_fail() {
    const NOT_SUPPORTED: u32 = 801;
    let unnamed = table(0x21318c60_9714_3248_8ca6_41ff7324c8f2, 96);
    assert_eq!(unnamed[0], 64 * 8);
    let mut word = 7usize;
    let unknown = unnamed.iter().enumerate().skip(1);
    for (slot, &function) in unknown.filter(|(slot, _)| ![4, 39, 51].contains(slot)) {
        let code = call(function, [0, 0, address(&mut word), 0]);
        assert_eq!((code, word), (NOT_SUPPORTED, 7), "slot {slot}");
    }
    let local = table(0x42d85a81_23f6_cb47_8298_f6e78a3aecdc, 96);
    assert_eq!(local[0], 4 * 8);
    for slot in [1, 3, 4, 95] {
        assert_eq!(
            call(local[slot], [address(&mut word), 0, 0, 0]),
            NOT_SUPPORTED
        );
    }
    let mut id = *b"there is no such";
    for _ in 0..2 {
        let (mut start, id) = (1usize, address(&mut id));
        let code = driver().call("cuGetExportTable", &[address(&mut start), id]);
        assert_eq!((code, start), (1, 0));
    }
}

/// The runtime asks whether an execution context is a green context, and then destroys it by the handle of its context.
#[test]
fn green_contexts_are_found_by_their_contexts() {
    const INVALID_CONTEXT: u32 = 201;
    let check = table(CONTEXT_CHECKS, 4)[2];
    let mut primary = 0usize;
    let code = driver().call("cuDevicePrimaryCtxRetain", &[address(&mut primary), 0]);
    assert_eq!(code, 0);
    let is_green = |context: usize| {
        let (mut answer, mut of_device) = (7u32, 7usize);
        let places = (address(&mut answer), address(&mut of_device));
        assert_eq!(call(check, [context, places.0, places.1, 0]), 0);
        // The runtime may omit the second place.
        let mut again = 7u32;
        assert_eq!(call(check, [context, address(&mut again), 0, 0]), 0);
        let wanted = if answer == 1 { primary } else { 7 };
        assert_eq!((again, of_device), (answer, wanted));
        answer
    };
    assert_eq!(is_green(primary), 0);
    // A `CUdevResource` has 144 bytes.
    let mut resource = [0u64; 18];
    let resource_at = resource.as_mut_ptr() as usize;
    assert_eq!(
        driver().call("cuDeviceGetDevResource", &[0, resource_at, 1]),
        0
    );
    let mut description = 0usize;
    let description_at = address(&mut description);
    let code = driver().call(
        "cuDevResourceGenerateDesc",
        &[description_at, resource_at, 1],
    );
    assert_eq!(code, 0);
    let (mut green, mut context, mut other) = (0usize, 0usize, 0usize);
    for (by_context, handle) in [(true, &mut green), (false, &mut other)] {
        let code = driver().call("cuGreenCtxCreate", &[address(handle), description, 0, 0]);
        assert_eq!(code, 0);
        let code = driver().call("cuCtxFromGreenCtx", &[address(&mut context), *handle]);
        assert_eq!((code, is_green(context)), (0, 1));
        let passed = if by_context { context } else { *handle };
        let (mut stream, mut id, mut own) = (0usize, 0u64, 0u64);
        let code = driver().call(
            "cuGreenCtxStreamCreate",
            &[address(&mut stream), passed, 1, 0],
        );
        assert_eq!(code, 0);
        let mut of_stream = 0usize;
        let code = driver().call("cuStreamGetGreenCtx", &[stream, address(&mut of_stream)]);
        assert_eq!((code, of_stream), (0, *handle));
        assert_eq!(driver().call("cuStreamDestroy_v2", &[stream]), 0);
        assert_eq!(
            driver().call("cuGreenCtxGetId", &[passed, address(&mut id)]),
            0
        );
        assert_eq!(
            driver().call("cuGreenCtxGetId", &[*handle, address(&mut own)]),
            0
        );
        assert_eq!(id, own);
        assert_eq!(driver().call("cuGreenCtxDestroy", &[passed]), 0);
        assert_eq!(
            driver().call("cuGreenCtxDestroy", &[passed]),
            INVALID_CONTEXT
        );
        assert_eq!(is_green(context), 0);
    }
    assert_eq!(
        driver().call("cuGreenCtxDestroy", &[primary]),
        INVALID_CONTEXT
    );
    assert_eq!(driver().call("cuDevicePrimaryCtxRelease_v2", &[0]), 0);
}

/// The calls that cuBLAS makes: it passes on what it gets, so contexts and streams must be told apart.
#[test]
fn contexts_and_streams_have_numbers() {
    let descriptions = table(0x21318c60_9714_3248_8ca6_41ff7324c8f2, 64);
    let local = table(0x42d85a81_23f6_cb47_8298_f6e78a3aecdc, 4);
    let mut current = 7usize;
    assert_eq!(call(local[2], [address(&mut current), 0, 0, 0]), 0);
    assert_eq!(current, 0, "no context is current");
    let mut context = 0usize;
    let code = driver().call("cuCtxCreate_v2", &[address(&mut context), 0, 0]);
    assert_eq!(code, 0);
    assert_eq!(call(local[2], [address(&mut current), 0, 0, 0]), 0);
    assert_eq!(current, context);
    let (mut stream, mut id, mut expected) = (0usize, 0u64, 0u64);
    let code = driver().call("cuStreamCreate", &[address(&mut stream), 0]);
    assert_eq!(code, 0);
    let id_place = address(&mut id);
    assert_eq!(call(descriptions[4], [context, id_place, 0, 0]), 0);
    let code = driver().call("cuCtxGetId", &[context, address(&mut expected)]);
    assert_eq!((code, id), (0, expected));
    for handle in [0, 1, 2, stream] {
        let mut token = 0usize;
        let code = call(descriptions[51], [context, handle, address(&mut token), 0]);
        assert_eq!(code, 0);
        assert_eq!(call(descriptions[39], [context, token, id_place, 0]), 0);
        let code = driver().call("cuStreamGetId", &[handle, address(&mut expected)]);
        assert_eq!((code, id), (0, expected), "stream {handle}");
    }
    let mut token = 0usize;
    let wrong = call(
        descriptions[51],
        [context, 0x1234_5678, address(&mut token), 0],
    );
    assert_eq!(wrong, 400);
    assert_eq!(call(descriptions[4], [0x1234_5678, id_place, 0, 0]), 201);
    assert_eq!(call(descriptions[51], [context, 0, 0, 0]), 1, "no place");
    assert_eq!(driver().call("cuCtxDestroy_v2", &[context]), 0);
}

#[test]
fn the_flag_buffers_are_large_enough_for_every_runtime() {
    let hooks = table(CALLBACK_HOOKS, 7);
    assert_eq!(hooks[0], 7 * 8);
    for (slot, wanted) in [(2, 1024), (6, 14)] {
        let (mut buffer, mut count) = (0usize, 0usize);
        call(
            hooks[slot],
            [address(&mut buffer), address(&mut count), 0, 0],
        );
        assert!(buffer != 0 && count >= wanted, "slot {slot}: {count}");
        // SAFETY: the buffer contains at least `count` words.
        let flags = unsafe { std::slice::from_raw_parts(buffer as *const u32, count) };
        assert!(flags.iter().all(|flag| *flag == 0));
    }
}

static ENDED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn ended(_context: usize, key: usize, value: usize) {
    ENDED.store(key + value, Ordering::SeqCst);
}

#[test]
fn context_local_storage_ends_with_its_context() {
    let storage = table(STORAGE, 3);
    let (put, delete, get) = (storage[0], storage[1], storage[2]);
    let mut context = 0usize;
    let code = driver().call("cuCtxCreate_v2", &[address(&mut context), 0, 0]);
    assert_eq!(code, 0);
    let mut value = 0usize;
    let destructor = ended as *const c_void as usize;
    assert_eq!(
        call(get, [address(&mut value), 0, 40, 0]),
        400,
        "nothing yet"
    );
    assert_eq!(call(put, [0, 40, 2, destructor]), 0);
    assert_eq!(call(get, [address(&mut value), context, 40, 0]), 0);
    assert_eq!(value, 2);
    assert_eq!(call(put, [context, 41, 3, 0]), 0);
    assert_eq!(call(delete, [context, 41, 0, 0]), 0);
    assert_eq!(call(get, [address(&mut value), 0, 41, 0]), 400, "deleted");
    assert_eq!(call(put, [0x1234, 40, 2, 0]), 201, "no such context");
    assert_eq!(driver().call("cuCtxDestroy_v2", &[context]), 0);
    assert_eq!(ENDED.load(Ordering::SeqCst), 42);
    assert_eq!(call(get, [address(&mut value), context, 40, 0]), 400);
}

extern "C" fn note(user: usize, function: usize) {
    // SAFETY: the test passed the address of its list.
    unsafe { (*(user as *mut Vec<usize>)).push(function) };
}

#[test]
fn the_kernels_of_a_module_are_visited() {
    let slots = table(MODULE_FUNCTIONS, 8);
    assert_eq!(slots[0], 8 * 8);
    let ptx = c".version 8.0\n.target sm_80\n.address_size 64\n\
        .entry one() { ret; }\n.func helper() { ret; }\n.entry two() { ret; }\n";
    let (mut context, mut module) = (0usize, 0usize);
    let code = driver().call("cuCtxCreate_v2", &[address(&mut context), 0, 0]);
    assert_eq!(code, 0);
    let image = ptx.as_ptr() as usize;
    let code = driver().call("cuModuleLoadData", &[address(&mut module), image]);
    assert_eq!(code, 0);
    let mut expected: Vec<usize> = Vec::new();
    for name in [c"one", c"two"] {
        let mut function = 0usize;
        let name = name.as_ptr() as usize;
        let code = driver().call(
            "cuModuleGetFunction",
            &[address(&mut function), module, name],
        );
        assert_eq!(code, 0);
        expected.push(function);
    }
    let mut visited: Vec<usize> = Vec::new();
    let user = address(&mut visited);
    let visit = note as *const c_void as usize;
    assert_eq!(call(slots[7], [context, module, visit, user]), 1);
    assert_eq!(visited, expected);
    assert_eq!(call(slots[7], [context, module, 0, user]), 0, "no function");
    assert_eq!(
        call(slots[7], [context, context, visit, user]),
        0,
        "no module"
    );
    assert_eq!(visited, expected);
    assert_eq!(driver().call("cuCtxDestroy_v2", &[context]), 0);
}

#[test]
#[cfg(feature = "export-table-integrity")]
fn the_check_is_answered_for_this_thread_and_time() {
    let check = table(INTEGRITY, 2)[1];
    let answer = move |version: usize, seconds: usize| {
        let mut answer = [0u64; 2];
        assert_eq!(call(check, [version, seconds, address(&mut answer), 0]), 0);
        answer
    };
    assert_eq!(answer(13050, 1), answer(12080, 2), "a constant");
    assert_eq!(answer(13051, 1), answer(11081, 2), "a constant");
    assert_ne!(answer(13050, 1), answer(13051, 1));
    let third = answer(13052, 1000);
    assert_eq!(answer(13052, 1000), third);
    assert_ne!(answer(13052, 1001), third, "the time counts");
    assert_ne!(answer(12082, 1000), third, "the version counts");
    let elsewhere = std::thread::spawn(move || answer(13052, 1000)).join();
    assert_ne!(elsewhere.expect("no panic"), third, "the thread counts");
}
