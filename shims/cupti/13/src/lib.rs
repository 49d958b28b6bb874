//! `libcupti.so.13`: the functions of crate `margay_cupti` with the records of CUDA 13.

use std::ffi::{c_int, c_void};

use margay_activity::interface::Outcome;
use margay_activity::layout::Toolkit;
use margay_cupti::callbacks::{Callback, cuptiSubscribe};

/// The address of the function that selects the toolkit when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    margay_cupti::select(Toolkit::Cuda13);
}

margay_cupti::refuse! { Outcome::NOT_SUPPORTED, "Refuses a feature that does not exist.":
    cuptiActivityDisable_v2
    cuptiActivityEnableAndDump_v2
    cuptiActivityEnableDriverApi_v2
    cuptiActivityEnableRawTimestamps_v2
    cuptiActivityEnableRuntimeApi_v2
    cuptiActivityEnable_v2
    cuptiActivityGetAttribute_v2
    cuptiActivityGetNextRecord_v2
    cuptiActivityGetNumDroppedRecords_v2
    cuptiActivityGetNvtxExtPayloadAttr
    cuptiActivityGetNvtxExtPayloadEntryTypeInfo
    cuptiActivityPopExternalCorrelationId_v2
    cuptiActivityPushExternalCorrelationId_v2
    cuptiActivityRegisterCallbacks_v2
    cuptiActivitySetAttribute_v2
    cuptiClockControlGetStatus
    cuptiClockControlLock
    cuptiClockControlUnlock
    cuptiGetTimestamp_v2
    cuptiNvtxExtensionInitialize
    cuptiProfilerHostGetMetricsInSinglePassSet
    cuptiProfilerHostGetSinglePassSets
    cuptiProfilerHostSetDevicePartitionInfo
    cuptiRangeProfilerGetDevicePartitionInfo
}

/// The beginning of `CUpti_SubscriberParams`.
#[repr(C)]
#[allow(dead_code, reason = "the fields before the flag give it its place")]
struct Parameters {
    size: usize,
    /// Names of subscribers, which are not used.
    names: [usize; 3],
    allows_others: u8,
}

/// Makes the client the only subscriber. Several subscribers are not supported.
///
/// # Safety
/// `subscriber` is null or points to a variable, and `parameters` is null or points to a structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuptiSubscribe_v2(
    subscriber: *mut *mut c_void,
    callback: Option<Callback>,
    user: *mut c_void,
    parameters: *const c_void,
) -> Outcome {
    // SAFETY: the structure begins with its size.
    let bytes = unsafe { parameters.cast::<usize>().as_ref() };
    if bytes.is_some_and(|&bytes| bytes >= size_of::<Parameters>()) {
        // SAFETY: the structure has these fields.
        let allows_others = unsafe { (*parameters.cast::<Parameters>()).allows_others };
        if allows_others != 0 {
            return Outcome::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
        }
    }
    // SAFETY: the caller guarantees the variable.
    unsafe { cuptiSubscribe(subscriber, callback, user) }
}

/// Device times of CUDA events do not exist. Switching them off succeeds.
#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityEnableCudaEventDeviceTimestamps(enable: u8) -> Outcome {
    match enable {
        0 => Outcome::SUCCESS,
        _ => Outcome::NOT_SUPPORTED,
    }
}

/// Extensions of NVTX do not exist.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjectionNvtxExtension(_get: *const c_void) -> c_int {
    0
}
