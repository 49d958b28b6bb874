//! Checks that calls with wrong arguments return the result code that the CUDA documentation
//! states.
//!
//! Each case calls one export with a wrong argument. The call must return the result code that the
//! case states. If `data/return-codes.txt` lists the function, the file must list this code for the
//! function; the file contains the result codes in the function's documentation.

mod common;
#[path = "misuse/textures.rs"]
mod textures;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use common::Driver;

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const INVALID_DEVICE: u32 = 101;
const INVALID_CONTEXT: u32 = 201;
const UNSUPPORTED_LIMIT: u32 = 215;
const INVALID_GRAPHICS_CONTEXT: u32 = 219;
const FILE_NOT_FOUND: u32 = 301;
const INVALID_HANDLE: u32 = 400;
const NOT_FOUND: u32 = 500;
const PEER_ACCESS_NOT_ENABLED: u32 = 705;
const ALREADY_REGISTERED: u32 = 712;
const NOT_REGISTERED: u32 = 713;
const NOT_SUPPORTED: u32 = 801;

/// A number that is never a valid handle or address.
const BOGUS: usize = 0x5a5a_5a58;

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let driver = Driver::load();
        assert_eq!(driver.call("cuInit", &[0]), 0);
        driver
    })
}

fn documented() -> BTreeMap<&'static str, Vec<&'static str>> {
    let lines = include_str!("data/return-codes.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, codes)| (name, codes.split(' ').collect()))
        .collect()
}

fn name_of(code: u32) -> String {
    let mut text: *const std::ffi::c_char = std::ptr::null();
    let code = driver().call("cuGetErrorName", &[code as usize, address(&mut text)]);
    assert_eq!(code, 0);
    // SAFETY: the call succeeded, so the pointer is a C string.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    let text = text.to_str().expect("ASCII");
    text.trim_start_matches("CUDA_ERROR_").to_owned()
}

fn address<T>(place: &mut T) -> usize {
    std::ptr::from_mut(place) as usize
}

/// Pairs of a function and a result code. NVIDIA's driver returns this code, although the
/// documentation does not list it for the function.
const FORGOTTEN: &[(&str, u32)] = &[
    ("cuCtxGetCurrent", INVALID_VALUE),
    ("cuCtxGetLimit", INVALID_CONTEXT),
    ("cuCtxGetStreamPriorityRange", INVALID_CONTEXT),
    ("cuLaunchHostFunc", INVALID_VALUE),
    ("cuStreamAddCallback", INVALID_VALUE),
];

/// Makes the calls of a test, and collects the results that differ from the expected results.
struct Checker {
    documented: BTreeMap<&'static str, Vec<&'static str>>,
    wrong: Vec<String>,
}

impl Checker {
    fn new() -> Checker {
        Checker {
            documented: documented(),
            wrong: Vec::new(),
        }
    }

    fn expect(&mut self, export: &str, arguments: &[usize], wanted: u32) {
        let code = driver().call(export, arguments);
        if code != wanted {
            let (code, wanted) = (name_of(code), name_of(wanted));
            self.wrong
                .push(format!("{export}{arguments:x?}: {code}, not {wanted}"));
        }
        let symbol = cuda::api_rows().find(|row| row.export == export);
        let symbol = symbol.expect("in the table").symbol();
        let name = name_of(wanted);
        if let Some(codes) = self.documented.get(symbol) {
            let forgotten = FORGOTTEN.contains(&(symbol, wanted));
            if !forgotten && !codes.contains(&name.as_str()) {
                self.wrong
                    .push(format!("{export}: {name} is not documented"));
            }
        }
    }

    fn finish(self) {
        assert!(self.wrong.is_empty(), "\n{}", self.wrong.join("\n"));
    }
}

/// Makes the primary context current on this thread.
fn with_context() {
    let mut context = 0usize;
    assert_eq!(
        driver().call("cuDevicePrimaryCtxRetain", &[address(&mut context), 0]),
        0
    );
    assert_eq!(driver().call("cuCtxSetCurrent", &[context]), 0);
}

fn device_memory(bytes: usize) -> usize {
    let mut pointer = 0usize;
    let code = driver().call("cuMemAlloc_v2", &[address(&mut pointer), bytes]);
    assert_eq!(code, 0);
    pointer
}

#[test]
fn devices() {
    let mut check = Checker::new();
    let mut out = [0u8; 64];
    let place = address(&mut out);
    check.expect("cuInit", &[1], INVALID_VALUE);
    check.expect("cuDriverGetVersion", &[0], INVALID_VALUE);
    check.expect("cuGetErrorName", &[123_456, place], INVALID_VALUE);
    check.expect("cuGetErrorString", &[0, 0], INVALID_VALUE);
    check.expect("cuDeviceGet", &[0, 0], INVALID_VALUE);
    check.expect("cuDeviceGet", &[place, 1], INVALID_DEVICE);
    check.expect("cuDeviceGet", &[place, usize::MAX], INVALID_DEVICE);
    check.expect("cuDeviceGetCount", &[0], INVALID_VALUE);
    check.expect("cuDeviceGetName", &[0, 10, 0], INVALID_VALUE);
    check.expect("cuDeviceGetName", &[place, 0, 0], INVALID_VALUE);
    check.expect("cuDeviceGetName", &[place, usize::MAX, 0], INVALID_VALUE);
    check.expect("cuDeviceGetName", &[place, 10, 7], INVALID_DEVICE);
    check.expect("cuDeviceGetUuid_v2", &[0, 0], INVALID_VALUE);
    check.expect("cuDeviceGetUuid", &[place, 3], INVALID_DEVICE);
    check.expect("cuDeviceTotalMem_v2", &[0, 0], INVALID_VALUE);
    check.expect("cuDeviceTotalMem_v2", &[place, 9], INVALID_DEVICE);
    check.expect("cuDeviceGetAttribute", &[0, 1, 0], INVALID_VALUE);
    check.expect("cuDeviceGetAttribute", &[place, 0, 0], INVALID_VALUE);
    check.expect("cuDeviceGetAttribute", &[place, 1 << 20, 0], INVALID_VALUE);
    check.expect("cuDeviceGetAttribute", &[place, 1, 5], INVALID_DEVICE);
    check.expect("cuDeviceGetProperties", &[place, 5], INVALID_DEVICE);
    check.expect("cuDeviceComputeCapability", &[place, 0, 0], INVALID_VALUE);
    check.expect("cuDeviceGetPCIBusId", &[0, 20, 0], INVALID_VALUE);
    check.expect("cuDeviceGetDefaultMemPool", &[0, 0], INVALID_VALUE);
    check.expect("cuDeviceGetDefaultMemPool", &[place, 4], INVALID_DEVICE);
    let text = c"no place".as_ptr() as usize;
    check.expect("cuDeviceGetByPCIBusId", &[place, text], INVALID_VALUE);
    let text = c"7f:1f.0".as_ptr() as usize;
    check.expect("cuDeviceGetByPCIBusId", &[place, text], INVALID_DEVICE);
    check.expect("cuDeviceGetP2PAttribute", &[place, 1, 0, 0], INVALID_DEVICE);
    check.expect("cuDeviceCanAccessPeer", &[place, 0, 3], INVALID_DEVICE);
    check.finish();
}

#[test]
fn contexts() {
    let mut check = Checker::new();
    let mut out = [0u8; 64];
    let place = address(&mut out);
    check.expect("cuCtxSetCurrent", &[BOGUS], INVALID_CONTEXT);
    check.expect("cuCtxPushCurrent_v2", &[0], INVALID_CONTEXT);
    check.expect("cuCtxPushCurrent_v2", &[BOGUS], INVALID_CONTEXT);
    check.expect("cuCtxDestroy_v2", &[0], INVALID_CONTEXT);
    check.expect("cuCtxDestroy_v2", &[BOGUS], INVALID_CONTEXT);
    check.expect("cuCtxGetCurrent", &[0], INVALID_VALUE);
    check.expect("cuCtxCreate_v2", &[0, 0, 0], INVALID_VALUE);
    check.expect("cuCtxCreate_v2", &[place, 7, 0], INVALID_VALUE);
    check.expect("cuCtxCreate_v2", &[place, 0, 9], INVALID_DEVICE);
    check.expect("cuDevicePrimaryCtxRetain", &[0, 0], INVALID_VALUE);
    check.expect("cuDevicePrimaryCtxRetain", &[place, 2], INVALID_DEVICE);
    check.expect("cuDevicePrimaryCtxRelease_v2", &[2], INVALID_DEVICE);
    check.expect("cuDevicePrimaryCtxSetFlags_v2", &[0, 0x1000], INVALID_VALUE);
    check.expect("cuDevicePrimaryCtxGetState", &[0, 0, place], INVALID_VALUE);

    with_context();
    check.expect("cuCtxGetDevice", &[0], INVALID_VALUE);
    check.expect("cuCtxSetLimit", &[77, 1], UNSUPPORTED_LIMIT);
    check.expect("cuCtxGetLimit", &[0, 0], INVALID_VALUE);
    check.expect("cuCtxGetLimit", &[place, 77], UNSUPPORTED_LIMIT);
    check.expect("cuCtxSetCacheConfig", &[9], INVALID_VALUE);
    check.expect("cuCtxGetCacheConfig", &[0], INVALID_VALUE);
    check.expect("cuCtxSetFlags", &[0x1000], INVALID_VALUE);
    check.expect("cuCtxGetApiVersion", &[BOGUS, place], INVALID_CONTEXT);
    check.expect("cuCtxGetApiVersion", &[0, 0], INVALID_VALUE);
    check.expect("cuCtxEnablePeerAccess", &[BOGUS, 0], INVALID_CONTEXT);
    let mut current = 0usize;
    assert_eq!(
        driver().call("cuCtxGetCurrent", &[address(&mut current)]),
        0
    );
    check.expect("cuCtxEnablePeerAccess", &[current, 1], INVALID_VALUE);
    check.expect("cuCtxEnablePeerAccess", &[current, 0], INVALID_CONTEXT);
    check.expect(
        "cuCtxDisablePeerAccess",
        &[current],
        PEER_ACCESS_NOT_ENABLED,
    );
    check.expect("cuCtxDestroy_v2", &[current], INVALID_CONTEXT);
    check.finish();
}

#[test]
fn no_context() {
    let mut check = Checker::new();
    let mut out = [0u8; 64];
    let place = address(&mut out);
    let name = c"x".as_ptr() as usize;
    let image = c".version 8.0\n.target sm_80\n.address_size 64\n".as_ptr() as usize;
    for (export, arguments) in [
        ("cuCtxPopCurrent_v2", &[place][..]),
        ("cuCtxGetDevice", &[place]),
        ("cuCtxGetFlags", &[place]),
        ("cuCtxSynchronize", &[]),
        ("cuCtxSetLimit", &[0, 1024]),
        ("cuCtxGetLimit", &[place, 0]),
        ("cuCtxGetStreamPriorityRange", &[place, place]),
        ("cuMemAlloc_v2", &[place, 16]),
        ("cuMemFree_v2", &[BOGUS]),
        ("cuMemGetInfo_v2", &[place, place]),
        ("cuMemHostAlloc", &[place, 16, 0]),
        ("cuMemFreeHost", &[BOGUS]),
        ("cuMemAllocManaged", &[place, 16, 1]),
        ("cuMemcpyHtoD_v2", &[BOGUS, place, 4]),
        ("cuMemcpyDtoHAsync_v2", &[place, BOGUS, 4, 0]),
        ("cuMemsetD8_v2", &[BOGUS, 0, 4]),
        ("cuStreamCreate", &[place, 0]),
        ("cuStreamSynchronize", &[0]),
        ("cuStreamQuery", &[2]),
        ("cuEventCreate", &[place, 0]),
        ("cuModuleLoadData", &[place, image]),
        ("cuModuleLoad", &[place, name]),
        ("cuProfilerStart", &[]),
    ] {
        check.expect(export, arguments, INVALID_CONTEXT);
    }
    check.finish();
}

#[test]
fn memory() {
    with_context();
    let mut check = Checker::new();
    let mut out = [0u8; 256];
    let place = address(&mut out);
    let memory = device_memory(4096);
    check.expect("cuMemAlloc_v2", &[0, 16], INVALID_VALUE);
    check.expect("cuMemAlloc_v2", &[place, 0], INVALID_VALUE);
    check.expect("cuMemAlloc_v2", &[place, 1 << 62], OUT_OF_MEMORY);
    check.expect("cuMemAlloc_v2", &[place, usize::MAX], OUT_OF_MEMORY);
    check.expect(
        "cuMemAllocPitch_v2",
        &[place, place, 64, 2, 5],
        INVALID_VALUE,
    );
    check.expect(
        "cuMemAllocPitch_v2",
        &[place, place, 0, 2, 4],
        INVALID_VALUE,
    );
    check.expect("cuMemFree_v2", &[BOGUS], INVALID_VALUE);
    check.expect("cuMemFree_v2", &[memory + 16], INVALID_VALUE);
    check.expect("cuMemGetAddressRange_v2", &[place, place, BOGUS], NOT_FOUND);
    check.expect("cuMemHostAlloc", &[0, 16, 0], INVALID_VALUE);
    check.expect("cuMemHostAlloc", &[place, 16, 0x100], INVALID_VALUE);
    check.expect("cuMemFreeHost", &[place], INVALID_VALUE);
    check.expect("cuMemAllocManaged", &[place, 16, 9], INVALID_VALUE);
    check.expect("cuMemAllocManaged", &[place, 0, 1], INVALID_VALUE);
    check.expect("cuMemHostRegister_v2", &[0, 16, 0], INVALID_VALUE);
    check.expect("cuMemHostRegister_v2", &[place, 16, 0x100], INVALID_VALUE);
    check.expect("cuMemHostRegister_v2", &[place, 0, 0], INVALID_VALUE);
    check.expect("cuMemHostUnregister", &[place], NOT_REGISTERED);
    check.expect(
        "cuMemHostGetDevicePointer_v2",
        &[place, place, 0],
        INVALID_VALUE,
    );
    assert_eq!(driver().call("cuMemHostRegister_v2", &[place, 64, 0]), 0);
    check.expect("cuMemHostRegister_v2", &[place, 64, 0], ALREADY_REGISTERED);
    assert_eq!(driver().call("cuMemHostUnregister", &[place]), 0);
    check.expect("cuPointerGetAttribute", &[place, 2, place], INVALID_VALUE);
    check.expect("cuPointerGetAttribute", &[0, 2, memory], INVALID_VALUE);
    check.expect(
        "cuPointerGetAttribute",
        &[place, 5000, memory],
        INVALID_VALUE,
    );
    check.expect("cuPointerGetAttributes", &[1, 0, 0, memory], INVALID_VALUE);
    check.expect("cuPointerSetAttribute", &[place, 2, memory], INVALID_VALUE);
    check.expect("cuMemPrefetchAsync", &[memory, 16, 0, 0], INVALID_VALUE);
    check.expect("cuMemAdvise", &[memory, 16, 1, 0], INVALID_VALUE);
    check.expect("cuMemPoolDestroy", &[BOGUS], INVALID_VALUE);
    check.expect("cuMemPoolGetAttribute", &[BOGUS, 4, place], INVALID_VALUE);
    assert_eq!(driver().call("cuMemFree_v2", &[memory]), 0);
    check.expect("cuMemFree_v2", &[memory], INVALID_VALUE);
    check.finish();
}

#[test]
fn copies_and_fills() {
    with_context();
    let mut check = Checker::new();
    let mut host = vec![0u8; 8192];
    let host = host.as_mut_ptr() as usize;
    let memory = device_memory(4096);
    check.expect("cuMemcpyHtoD_v2", &[0, host, 4], INVALID_VALUE);
    check.expect("cuMemcpyHtoD_v2", &[memory, 0, 4], INVALID_VALUE);
    check.expect("cuMemcpyHtoD_v2", &[BOGUS, host, 4], INVALID_VALUE);
    check.expect("cuMemcpyHtoD_v2", &[memory, host, 4097], INVALID_VALUE);
    check.expect("cuMemcpyDtoH_v2", &[host, memory + 4000, 97], INVALID_VALUE);
    check.expect(
        "cuMemcpyDtoH_v2",
        &[host, memory, usize::MAX],
        INVALID_VALUE,
    );
    check.expect("cuMemcpyDtoD_v2", &[memory, BOGUS, 4], INVALID_VALUE);
    check.expect(
        "cuMemcpyHtoDAsync_v2",
        &[memory, host, 4, BOGUS],
        INVALID_HANDLE,
    );
    check.expect("cuMemcpyHtoDAsync_v2", &[BOGUS, host, 4, 0], INVALID_VALUE);
    check.expect("cuMemsetD8_v2", &[memory, 0, 4097], INVALID_VALUE);
    check.expect("cuMemsetD8_v2", &[BOGUS, 0, 1], INVALID_VALUE);
    check.expect("cuMemsetD16_v2", &[memory + 1, 0, 1], INVALID_VALUE);
    check.expect("cuMemsetD32_v2", &[memory + 2, 0, 1], INVALID_VALUE);
    check.expect(
        "cuMemsetD32_v2",
        &[memory, 0, usize::MAX / 2],
        INVALID_VALUE,
    );
    check.expect("cuMemsetD8Async", &[memory, 0, 4, BOGUS], INVALID_VALUE);
    check.expect("cuMemsetD2D8_v2", &[memory, 8, 0, 16, 4], INVALID_VALUE);
    check.expect("cuMemcpy2D_v2", &[0], INVALID_VALUE);
    check.expect("cuMemcpy3D_v2", &[0], INVALID_VALUE);
    // A copy of 0 bytes succeeds with any pointers.
    assert_eq!(driver().call("cuMemcpyHtoD_v2", &[memory, host, 0]), 0);
    check.finish();
}

#[test]
fn handles() {
    with_context();
    let mut check = Checker::new();
    let mut out = [0u8; 64];
    let place = address(&mut out);
    let name = c"x".as_ptr() as usize;
    let mut config = [0usize; 8];
    let config = address(&mut config);
    for bad in [0, BOGUS] {
        check.expect("cuModuleUnload", &[bad], INVALID_VALUE);
        check.expect("cuModuleGetFunction", &[place, bad, name], INVALID_VALUE);
        check.expect(
            "cuModuleGetGlobal_v2",
            &[place, place, bad, name],
            INVALID_VALUE,
        );
        check.expect("cuLibraryUnload", &[bad], INVALID_VALUE);
        check.expect("cuLibraryGetKernel", &[place, bad, name], INVALID_HANDLE);
        check.expect("cuLibraryGetModule", &[place, bad], INVALID_HANDLE);
        check.expect("cuKernelGetFunction", &[place, bad], INVALID_HANDLE);
        check.expect("cuFuncGetAttribute", &[place, 0, bad], INVALID_HANDLE);
        for query in [
            "cuOccupancyMaxActiveClusters",
            "cuOccupancyMaxPotentialClusterSize",
        ] {
            check.expect(query, &[place, bad, config], INVALID_VALUE);
        }
        check.expect("cuEventRecord", &[bad, 0], INVALID_HANDLE);
        check.expect("cuEventQuery", &[bad], INVALID_HANDLE);
        check.expect("cuEventSynchronize", &[bad], INVALID_HANDLE);
        check.expect("cuEventDestroy_v2", &[bad], INVALID_HANDLE);
        check.expect("cuStreamWaitEvent", &[0, bad, 0], INVALID_HANDLE);
        check.expect("cuStreamDestroy_v2", &[bad], INVALID_HANDLE);
        let launch = [bad, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0];
        check.expect("cuLaunchKernel", &launch, INVALID_HANDLE);
    }
    for special in [1, 2] {
        check.expect("cuStreamDestroy_v2", &[special], INVALID_HANDLE);
    }
    check.expect("cuStreamSynchronize", &[BOGUS], INVALID_HANDLE);
    check.expect("cuStreamQuery", &[BOGUS], INVALID_HANDLE);
    check.expect("cuStreamCreate", &[0, 0], INVALID_VALUE);
    check.expect("cuStreamCreate", &[place, 5], INVALID_VALUE);
    check.expect("cuEventCreate", &[place, 0x40], INVALID_VALUE);
    check.expect("cuLaunchHostFunc", &[0, 0, 0], INVALID_VALUE);
    check.expect("cuStreamAddCallback", &[0, 0, 0, 0], INVALID_VALUE);
    check.expect("cuModuleLoadData", &[0, name], INVALID_VALUE);
    check.expect("cuModuleLoadData", &[place, 0], INVALID_VALUE);
    check.expect("cuModuleLoadDataEx", &[place, name, 1, 0, 0], INVALID_VALUE);
    check.expect(
        "cuLibraryLoadData",
        &[place, 0, 0, 0, 0, 0, 0, 0],
        INVALID_VALUE,
    );
    let missing = c"/nonexistent/module.ptx".as_ptr() as usize;
    check.expect("cuModuleLoad", &[place, missing], FILE_NOT_FOUND);
    check.expect(
        "cuLinkAddData_v2",
        &[BOGUS, 1, name, 1, 0, 0, 0, 0],
        INVALID_HANDLE,
    );
    check.expect("cuLinkDestroy", &[BOGUS], INVALID_HANDLE);
    check.finish();
}

/// Regression test: the library used to ignore options with unknown numbers. In CUDA, the first
/// invalid number is `CU_JIT_NUM_OPTIONS` (36) for JIT options and `CU_LIBRARY_NUM_OPTIONS` (2) for
/// library options.
#[test]
fn options_that_cuda_does_not_define() {
    const TEXT: &CStr = c".version 7.0\n.target sm_70\n.address_size 64\n";
    with_context();
    let mut check = Checker::new();
    let (mut out, mut values) = (0usize, [1usize; 2]);
    let (place, values, text) = (
        address(&mut out),
        address(&mut values),
        TEXT.as_ptr() as usize,
    );
    let bytes = TEXT.to_bytes_with_nul().len();
    let file = c"/nonexistent/module.ptx".as_ptr() as usize;
    let mut link = 0usize;
    let create = [0, 0, 0, address(&mut link)];
    assert_eq!(driver().call("cuLinkCreate_v2", &create), 0);
    for unknown in [36u32, 37, 1000, u32::MAX] {
        // The first option is known.
        let mut options = [12u32, unknown];
        let options = address(&mut options);
        let mut expect = |name, arguments: &[usize]| check.expect(name, arguments, INVALID_VALUE);
        expect("cuModuleLoadDataEx", &[place, text, 2, options, values]);
        expect("cuLinkCreate_v2", &[2, options, values, place]);
        let add = [link, 1, text, bytes, 0, 2, options, values];
        expect("cuLinkAddData_v2", &add);
        expect("cuLinkAddFile_v2", &[link, 1, file, 2, options, values]);
        expect(
            "cuLibraryLoadData",
            &[place, text, options, values, 2, 0, 0, 0],
        );
        expect(
            "cuLibraryLoadFromFile",
            &[place, file, options, values, 2, 0, 0, 0],
        );
    }
    let mut options = [1u32, 2];
    let options = address(&mut options);
    check.expect(
        "cuLibraryLoadData",
        &[place, text, 0, 0, 0, options, values, 2],
        INVALID_VALUE,
    );
    let one = [place, text, 0, 0, 0, options, values, 1];
    assert_eq!(driver().call("cuLibraryLoadData", &one), 0);
    assert_eq!(driver().call("cuLibraryUnload", &[out]), 0);
    let mut options = [34u32, 35];
    let options = address(&mut options);
    let load = [place, text, 2, options, values];
    assert_eq!(driver().call("cuModuleLoadDataEx", &load), 0);
    assert_eq!(driver().call("cuModuleUnload", &[out]), 0);
    assert_eq!(driver().call("cuLinkDestroy", &[link]), 0);
    check.finish();
}

#[test]
fn handles_of_what_is_gone_are_stale() {
    with_context();
    let mut check = Checker::new();
    let mut stream = 0usize;
    assert_eq!(
        driver().call("cuStreamCreate", &[address(&mut stream), 0]),
        0
    );
    assert_eq!(driver().call("cuStreamQuery", &[stream]), 0);
    assert_eq!(driver().call("cuStreamDestroy_v2", &[stream]), 0);
    check.expect("cuStreamQuery", &[stream], INVALID_HANDLE);
    let mut event = 0usize;
    assert_eq!(driver().call("cuEventCreate", &[address(&mut event), 0]), 0);
    check.expect("cuStreamQuery", &[event], INVALID_HANDLE);
    assert_eq!(driver().call("cuEventDestroy", &[event]), 0);
    check.expect("cuEventDestroy", &[event], INVALID_HANDLE);
    check.finish();
}

#[test]
fn what_has_no_implementation_says_so() {
    let mut check = Checker::new();
    check.expect("cuVDPAUGetDevice", &[0, 0, 0], NOT_SUPPORTED);
    check.expect("cuEGLStreamConsumerDisconnect", &[0], NOT_SUPPORTED);
    check.expect("cuGLInit", &[], INVALID_GRAPHICS_CONTEXT);
    check.expect("cuGraphicsUnregisterResource", &[BOGUS], INVALID_HANDLE);
    check.expect("cuDestroyExternalMemory", &[BOGUS], INVALID_HANDLE);
    check.expect("cuTensorMapReplaceAddress", &[0, 0], NOT_SUPPORTED);
    check.finish();
}

/// Requests an export table with an unknown identifier (`cuGetExportTable`).
#[test]
fn unknown_tables() {
    let mut table: *const c_void = std::ptr::null();
    let mut id = [0u8; 16];
    let mut check = Checker::new();
    let (table, id) = (address(&mut table), address(&mut id));
    check.expect("cuGetExportTable", &[table, id], INVALID_VALUE);
    check.expect("cuGetExportTable", &[0, id], INVALID_VALUE);
    check.expect("cuGetExportTable", &[table, 0], INVALID_VALUE);
    check.finish();
}
