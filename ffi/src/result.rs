//! Result codes: every `CUresult` with its name and a short description.
//!
//! Invariant: each code has one row in the table of this module; `cuGetErrorName` and
//! `cuGetErrorString` read only this table.

use std::ffi::CStr;

use margay::FaultKind;

/// A result of the driver API, `CUresult` in C. The number need not be one of the defined results.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
#[must_use]
pub struct CuResult(pub u32);

/// The result of a function in [`crate::serve`]: `Err` contains any result except success.
pub(crate) type Served = Result<(), CuResult>;

impl CuResult {
    /// Returns the result code for a kind of kernel fault.
    pub(crate) fn of_fault(kind: FaultKind) -> CuResult {
        match kind {
            FaultKind::IllegalAddress => CuResult::ILLEGAL_ADDRESS,
            FaultKind::Timeout | FaultKind::Deadlock | FaultKind::Hang => CuResult::LAUNCH_TIMEOUT,
            FaultKind::Assert => CuResult::ASSERT,
            FaultKind::Stack => CuResult::HARDWARE_STACK_ERROR,
            FaultKind::IllegalInstruction => CuResult::ILLEGAL_INSTRUCTION,
            FaultKind::MisalignedAddress => CuResult::MISALIGNED_ADDRESS,
            FaultKind::InvalidAddressSpace => CuResult::INVALID_ADDRESS_SPACE,
            FaultKind::InvalidPc => CuResult::INVALID_PC,
            FaultKind::OutOfResources => CuResult::LAUNCH_OUT_OF_RESOURCES,
            _ => CuResult::LAUNCH_FAILED,
        }
    }
}

macro_rules! results {
    ($($name:ident = $value:literal, $full:literal, $text:literal;)*) => {
        impl CuResult {
            $(
                #[doc = concat!("`", $full, "`: ", $text, ".")]
                pub const $name: CuResult = CuResult($value);
            )*
        }

        /// The number, name and description of each code, in ascending order of the number. The strings end with a NUL.
        static TABLE: &[(u32, &str, &str)] = &[
            $(($value, concat!($full, "\0"), concat!($text, "\0")),)*
        ];
    };
}

results! {
    SUCCESS = 0, "CUDA_SUCCESS", "no error";
    INVALID_VALUE = 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "CUDA_ERROR_NOT_INITIALIZED", "driver not initialized";
    DEINITIALIZED = 4, "CUDA_ERROR_DEINITIALIZED", "driver is shutting down";
    PROFILER_DISABLED = 5, "CUDA_ERROR_PROFILER_DISABLED", "profiler is disabled";
    PROFILER_NOT_INITIALIZED = 6, "CUDA_ERROR_PROFILER_NOT_INITIALIZED", "profiler not initialized";
    PROFILER_ALREADY_STARTED = 7, "CUDA_ERROR_PROFILER_ALREADY_STARTED", "profiler already started";
    PROFILER_ALREADY_STOPPED = 8, "CUDA_ERROR_PROFILER_ALREADY_STOPPED", "profiler already stopped";
    STUB_LIBRARY = 34, "CUDA_ERROR_STUB_LIBRARY", "a stub of the driver library was loaded";
    CALL_REQUIRES_NEWER_DRIVER = 36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", "this call needs a newer driver";
    DEVICE_UNAVAILABLE = 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device is busy or unavailable";
    MULTICAST_RESOURCE_FULL = 47, "CUDA_ERROR_MULTICAST_RESOURCE_FULL", "multicast resources are exhausted";
    NO_DEVICE = 100, "CUDA_ERROR_NO_DEVICE", "no CUDA device found";
    INVALID_DEVICE = 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal";
    DEVICE_NOT_LICENSED = 102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "device is not licensed";
    INVALID_IMAGE = 200, "CUDA_ERROR_INVALID_IMAGE", "kernel image is invalid";
    INVALID_CONTEXT = 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context";
    CONTEXT_ALREADY_CURRENT = 202, "CUDA_ERROR_CONTEXT_ALREADY_CURRENT", "context is already current";
    MAP_FAILED = 205, "CUDA_ERROR_MAP_FAILED", "mapping failed";
    UNMAP_FAILED = 206, "CUDA_ERROR_UNMAP_FAILED", "unmapping failed";
    ARRAY_IS_MAPPED = 207, "CUDA_ERROR_ARRAY_IS_MAPPED", "array is mapped";
    ALREADY_MAPPED = 208, "CUDA_ERROR_ALREADY_MAPPED", "resource is already mapped";
    NO_BINARY_FOR_GPU = 209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "image contains no code usable on this device";
    ALREADY_ACQUIRED = 210, "CUDA_ERROR_ALREADY_ACQUIRED", "resource is already acquired";
    NOT_MAPPED = 211, "CUDA_ERROR_NOT_MAPPED", "resource is not mapped";
    NOT_MAPPED_AS_ARRAY = 212, "CUDA_ERROR_NOT_MAPPED_AS_ARRAY", "resource is not mapped as an array";
    NOT_MAPPED_AS_POINTER = 213, "CUDA_ERROR_NOT_MAPPED_AS_POINTER", "resource is not mapped as a pointer";
    ECC_UNCORRECTABLE = 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable memory error";
    UNSUPPORTED_LIMIT = 215, "CUDA_ERROR_UNSUPPORTED_LIMIT", "limit is not supported by the device";
    CONTEXT_ALREADY_IN_USE = 216, "CUDA_ERROR_CONTEXT_ALREADY_IN_USE", "context is bound to another thread";
    PEER_ACCESS_UNSUPPORTED = 217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not possible between these devices";
    INVALID_PTX = 218, "CUDA_ERROR_INVALID_PTX", "PTX does not compile";
    INVALID_GRAPHICS_CONTEXT = 219, "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT", "invalid graphics context";
    NVLINK_UNCORRECTABLE = 220, "CUDA_ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error";
    JIT_COMPILER_NOT_FOUND = 221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX compiler not found";
    UNSUPPORTED_PTX_VERSION = 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "PTX version is not supported";
    JIT_COMPILATION_DISABLED = 223, "CUDA_ERROR_JIT_COMPILATION_DISABLED", "PTX compilation is disabled";
    UNSUPPORTED_EXEC_AFFINITY = 224, "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", "execution affinity is not supported";
    UNSUPPORTED_DEVSIDE_SYNC = 225, "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC", "synchronization in device code is not supported";
    CONTAINED = 226, "CUDA_ERROR_CONTAINED", "contained hardware error";
    INSUFFICIENT_LOADER_VERSION = 227, "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION", "loader is too old for the image";
    INVALID_SOURCE = 300, "CUDA_ERROR_INVALID_SOURCE", "device kernel source is invalid";
    FILE_NOT_FOUND = 301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND", "symbol of a shared object could not be resolved";
    SHARED_OBJECT_INIT_FAILED = 303, "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED", "shared object could not be initialized";
    OPERATING_SYSTEM = 304, "CUDA_ERROR_OPERATING_SYSTEM", "operating system call failed";
    INVALID_HANDLE = 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "CUDA_ERROR_ILLEGAL_STATE", "resource is in a state that forbids the operation";
    LOSSY_QUERY = 402, "CUDA_ERROR_LOSSY_QUERY", "query would lose information";
    NOT_FOUND = 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "CUDA_ERROR_NOT_READY", "work is not complete yet";
    ILLEGAL_ADDRESS = 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "kernel accessed memory outside its allocations";
    LAUNCH_OUT_OF_RESOURCES = 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "launch needs more resources than available";
    LAUNCH_TIMEOUT = 702, "CUDA_ERROR_LAUNCH_TIMEOUT", "launch did not finish in time";
    LAUNCH_INCOMPATIBLE_TEXTURING = 703, "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING", "launch with incompatible texturing";
    PEER_ACCESS_ALREADY_ENABLED = 704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access is not enabled";
    PRIMARY_CONTEXT_ACTIVE = 708, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE", "primary context is active";
    CONTEXT_IS_DESTROYED = 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "CUDA_ERROR_ASSERT", "device-side assertion failed";
    TOO_MANY_PEERS = 711, "CUDA_ERROR_TOO_MANY_PEERS", "too many peers";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory is already registered";
    HOST_MEMORY_NOT_REGISTERED = 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory is not registered";
    HARDWARE_STACK_ERROR = 714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "stack of a device thread is exhausted";
    ILLEGAL_INSTRUCTION = 715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "kernel ran an illegal instruction";
    MISALIGNED_ADDRESS = 716, "CUDA_ERROR_MISALIGNED_ADDRESS", "kernel accessed a misaligned address";
    INVALID_ADDRESS_SPACE = 717, "CUDA_ERROR_INVALID_ADDRESS_SPACE", "kernel used an address of the wrong state space";
    INVALID_PC = 718, "CUDA_ERROR_INVALID_PC", "kernel jumped to an invalid address";
    LAUNCH_FAILED = 719, "CUDA_ERROR_LAUNCH_FAILED", "kernel failed";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "cooperative launch has too many blocks";
    TENSOR_MEMORY_LEAK = 721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "kernel left tensor memory allocated";
    NOT_PERMITTED = 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted";
    NOT_SUPPORTED = 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported";
    SYSTEM_NOT_READY = 802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not ready";
    SYSTEM_DRIVER_MISMATCH = 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver versions of the system do not match";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility is not supported on this device";
    MPS_CONNECTION_FAILED = 805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "connection to the MPS server failed";
    MPS_RPC_FAILURE = 806, "CUDA_ERROR_MPS_RPC_FAILURE", "call of the MPS server failed";
    MPS_SERVER_NOT_READY = 807, "CUDA_ERROR_MPS_SERVER_NOT_READY", "MPS server is not ready";
    MPS_MAX_CLIENTS_REACHED = 808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED", "MPS server has too many clients";
    MPS_MAX_CONNECTIONS_REACHED = 809, "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED", "MPS server has too many connections";
    MPS_CLIENT_TERMINATED = 810, "CUDA_ERROR_MPS_CLIENT_TERMINATED", "MPS server ended the client";
    CDP_NOT_SUPPORTED = 811, "CUDA_ERROR_CDP_NOT_SUPPORTED", "launches from device code are not supported";
    CDP_VERSION_MISMATCH = 812, "CUDA_ERROR_CDP_VERSION_MISMATCH", "versions of device-side launching do not match";
    STREAM_CAPTURE_UNSUPPORTED = 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted while a stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "capture was invalidated by an earlier error";
    STREAM_CAPTURE_MERGE = 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would merge two captures";
    STREAM_CAPTURE_UNMATCHED = 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture did not begin in this stream";
    STREAM_CAPTURE_UNJOINED = 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capture has a branch that did not join";
    STREAM_CAPTURE_ISOLATION = 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency would leave the capture";
    STREAM_CAPTURE_IMPLICIT = 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "operation implies a dependency on the legacy stream";
    CAPTURED_EVENT = 907, "CUDA_ERROR_CAPTURED_EVENT", "event was last recorded in a capture";
    STREAM_CAPTURE_WRONG_THREAD = 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "capture began in another thread";
    TIMEOUT = 909, "CUDA_ERROR_TIMEOUT", "wait timed out";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "graph changed in a way that forbids updating";
    EXTERNAL_DEVICE = 911, "CUDA_ERROR_EXTERNAL_DEVICE", "another device failed";
    INVALID_CLUSTER_SIZE = 912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size";
    FUNCTION_NOT_LOADED = 913, "CUDA_ERROR_FUNCTION_NOT_LOADED", "function is not loaded";
    INVALID_RESOURCE_TYPE = 914, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type";
    INVALID_RESOURCE_CONFIGURATION = 915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration";
    KEY_ROTATION = 916, "CUDA_ERROR_KEY_ROTATION", "key rotation in progress";
    STREAM_DETACHED = 917, "CUDA_ERROR_STREAM_DETACHED", "stream is detached";
    GRAPH_RECAPTURE_FAILURE = 918, "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE", "recapturing the graph failed";
    FABRIC_NOT_READY = 919, "CUDA_ERROR_FABRIC_NOT_READY", "fabric is not ready";
    UNKNOWN = 999, "CUDA_ERROR_UNKNOWN", "unknown error";
}

impl CuResult {
    fn row(self) -> Option<&'static (u32, &'static str, &'static str)> {
        let at = TABLE.binary_search_by_key(&self.0, |row| row.0).ok()?;
        TABLE.get(at)
    }

    /// Returns the name, such as `CUDA_ERROR_INVALID_VALUE`, or `None` if the number is not a known result.
    pub fn name(self) -> Option<&'static CStr> {
        self.row()
            .and_then(|row| CStr::from_bytes_with_nul(row.1.as_bytes()).ok())
    }

    /// Returns the description, or `None` if the number is not a known result.
    pub fn text(self) -> Option<&'static CStr> {
        self.row()
            .and_then(|row| CStr::from_bytes_with_nul(row.2.as_bytes()).ok())
    }
}

impl std::fmt::Debug for CuResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name().and_then(|name| name.to_str().ok()) {
            Some(name) => f.write_str(name),
            None => write!(f, "CUresult({})", self.0),
        }
    }
}

impl From<Served> for CuResult {
    fn from(served: Served) -> CuResult {
        match served {
            Ok(()) => CuResult::SUCCESS,
            Err(code) => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_lookups_find_every_row() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        for row in TABLE {
            assert!(CuResult(row.0).name().is_some(), "{row:?}");
            assert!(CuResult(row.0).text().is_some(), "{row:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_documentation() {
        let name = |code: u32| CuResult(code).name().map(CStr::to_bytes);
        assert_eq!(name(0), Some(&b"CUDA_SUCCESS"[..]));
        assert_eq!(name(1), Some(&b"CUDA_ERROR_INVALID_VALUE"[..]));
        assert_eq!(name(700), Some(&b"CUDA_ERROR_ILLEGAL_ADDRESS"[..]));
        assert_eq!(name(999), Some(&b"CUDA_ERROR_UNKNOWN"[..]));
        assert_eq!(name(998), None);
    }
}
