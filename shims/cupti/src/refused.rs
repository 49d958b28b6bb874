//! Functions of features that do not exist: hardware counters, samples, replays of kernels, checksums of machine code,
//! OpenACC and OpenMP. They return an error and change nothing.

/// Declares exported functions that return a result. They ignore their arguments.
#[macro_export]
macro_rules! refuse {
    ($result:expr, $why:literal: $($name:ident)*) => {$(
        #[doc = $why]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> $crate::refused::Outcome {
            $result
        }
    )*};
}

pub use margay_activity::interface::Outcome;

/// Events and metrics of old toolkits, which also newer GPUs refuse (`CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED`).
const LEGACY: Outcome = Outcome(38);
/// `CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED`.
const MANAGED: Outcome = Outcome(28);

refuse! { MANAGED, "Migrations of managed memory do not exist.":
    cuptiActivityConfigureUnifiedMemoryCounter
}

refuse! { LEGACY, "Events and metrics do not exist.":
    cuptiDeviceEnumEventDomains
    cuptiDeviceEnumMetrics
    cuptiDeviceGetAttribute
    cuptiDeviceGetEventDomainAttribute
    cuptiDeviceGetNumEventDomains
    cuptiDeviceGetNumMetrics
    cuptiDisableKernelReplayMode
    cuptiEnableKernelReplayMode
    cuptiEnumEventDomains
    cuptiEnumMetrics
    cuptiEventDomainEnumEvents
    cuptiEventDomainGetAttribute
    cuptiEventDomainGetNumEvents
    cuptiEventGetAttribute
    cuptiEventGetIdFromName
    cuptiEventGroupAddEvent
    cuptiEventGroupCreate
    cuptiEventGroupDestroy
    cuptiEventGroupDisable
    cuptiEventGroupEnable
    cuptiEventGroupGetAttribute
    cuptiEventGroupReadAllEvents
    cuptiEventGroupReadEvent
    cuptiEventGroupRemoveAllEvents
    cuptiEventGroupRemoveEvent
    cuptiEventGroupResetAllEvents
    cuptiEventGroupSetAttribute
    cuptiEventGroupSetDisable
    cuptiEventGroupSetEnable
    cuptiEventGroupSetsCreate
    cuptiEventGroupSetsDestroy
    cuptiGetNumEventDomains
    cuptiGetNumMetrics
    cuptiKernelReplaySubscribeUpdate
    cuptiMetricCreateEventGroupSets
    cuptiMetricEnumEvents
    cuptiMetricEnumProperties
    cuptiMetricGetAttribute
    cuptiMetricGetIdFromName
    cuptiMetricGetNumEvents
    cuptiMetricGetNumProperties
    cuptiMetricGetRequiredEventGroupSets
    cuptiMetricGetValue
    cuptiMetricGetValue2
    cuptiSetEventCollectionMode
}

refuse! { Outcome::NOT_SUPPORTED, "Refuses a feature that does not exist.":
    cuptiActivityConfigurePCSampling
    cuptiDeviceGetChipName
    cuptiDisableLibcuda
    cuptiEnableCigMode
    cuptiGetAutoBoostState
    cuptiGetCubinCrc
    cuptiGetGlobalCallbackState
    cuptiGetNumContexts
    cuptiGetRecommendedBufferSize
    cuptiGetSassToSourceCorrelation
    cuptiNvtxInitialize
    cuptiOpenACCInitialize
    cuptiOpenMpInitialize
    cuptiOpenMpInitialize_v2
    cuptiPCSamplingDisable
    cuptiPCSamplingEnable
    cuptiPCSamplingGetConfigurationAttribute
    cuptiPCSamplingGetData
    cuptiPCSamplingGetNumStallReasons
    cuptiPCSamplingGetStallReasons
    cuptiPCSamplingSetConfigurationAttribute
    cuptiPCSamplingStart
    cuptiPCSamplingStop
    cuptiPmSamplingCounterDataGetSampleInfo
    cuptiPmSamplingCounterDataImageInitialize
    cuptiPmSamplingDecodeData
    cuptiPmSamplingDisable
    cuptiPmSamplingEnable
    cuptiPmSamplingGetCounterAvailability
    cuptiPmSamplingGetCounterDataInfo
    cuptiPmSamplingGetCounterDataSize
    cuptiPmSamplingSetConfig
    cuptiPmSamplingStart
    cuptiPmSamplingStop
    cuptiProfilerBeginPass
    cuptiProfilerBeginSession
    cuptiProfilerCounterDataImageCalculateScratchBufferSize
    cuptiProfilerCounterDataImageCalculateSize
    cuptiProfilerCounterDataImageInitialize
    cuptiProfilerCounterDataImageInitializeScratchBuffer
    cuptiProfilerDeInitialize
    cuptiProfilerDeviceSupported
    cuptiProfilerDisableProfiling
    cuptiProfilerEnableProfiling
    cuptiProfilerEndPass
    cuptiProfilerEndSession
    cuptiProfilerFlushCounterData
    cuptiProfilerGetCounterAvailability
    cuptiProfilerHostConfigAddMetrics
    cuptiProfilerHostDeinitialize
    cuptiProfilerHostEvaluateToGpuValues
    cuptiProfilerHostGetBaseMetrics
    cuptiProfilerHostGetConfigImage
    cuptiProfilerHostGetConfigImageSize
    cuptiProfilerHostGetMaxNumHardwareMetricsPerPass
    cuptiProfilerHostGetMetricProperties
    cuptiProfilerHostGetNumOfPasses
    cuptiProfilerHostGetRangeName
    cuptiProfilerHostGetSubMetrics
    cuptiProfilerHostGetSupportedChips
    cuptiProfilerHostInitialize
    cuptiProfilerInitialize
    cuptiProfilerIsPassCollected
    cuptiProfilerPopRange
    cuptiProfilerPushRange
    cuptiProfilerSetConfig
    cuptiProfilerUnsetConfig
    cuptiRangeProfilerCounterDataGetRangeInfo
    cuptiRangeProfilerCounterDataImageInitialize
    cuptiRangeProfilerDecodeData
    cuptiRangeProfilerDisable
    cuptiRangeProfilerEnable
    cuptiRangeProfilerGetCounterDataInfo
    cuptiRangeProfilerGetCounterDataSize
    cuptiRangeProfilerPopRange
    cuptiRangeProfilerPushRange
    cuptiRangeProfilerSetConfig
    cuptiRangeProfilerStart
    cuptiRangeProfilerStop
    cuptiRegisterComputeCrcCallback
    cuptiSassMetricsDisable
    cuptiSassMetricsEnable
    cuptiSassMetricsFlushData
    cuptiSassMetricsGetDataProperties
    cuptiSassMetricsGetMetrics
    cuptiSassMetricsGetNumOfMetrics
    cuptiSassMetricsGetProperties
    cuptiSassMetricsSetConfig
    cuptiSassMetricsUnsetConfig
    cuptiStateQuery
}

/// Declares functions that switch something on or off that does not exist: switching it off succeeds.
macro_rules! refuse_on {
    ($($name:ident)*) => {$(
        /// Switches a feature that does not exist. Switching it off succeeds.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(enable: u8) -> Outcome {
            match enable {
                0 => Outcome::SUCCESS,
                _ => Outcome::NOT_SUPPORTED,
            }
        }
    )*};
}

refuse_on! {
    cuptiActivityEnableLaunchAttributes
    cuptiActivityEnableAllocationSource
    cuptiActivityEnableDeviceGraph
    cuptiActivityEnableHWTrace
    cuptiActivityEnableRawTimestamps
    cuptiActivityEnableBufferSummary
}
