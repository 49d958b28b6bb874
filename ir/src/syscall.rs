//! System functions: functions that the CUDA runtime provides to device code. The front end lowers a `call` of such a
//! function to the op `syscall`.

use margay_ops::types::Type;

macro_rules! syscalls {
    ($($(#[$doc:meta])* $name:ident $text:literal ($($param:ident),*) -> ($($result:ident),*);)*) => {
        /// A function that the CUDA runtime provides to device code.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Syscall { $($(#[$doc])* $name,)* }

        impl Syscall {
            /// All system functions, in payload order.
            pub const ALL: &'static [Syscall] = &[$(Syscall::$name,)*];

            /// Returns the name by which PTX code calls the function.
            pub const fn name(self) -> &'static str {
                match self { $(Syscall::$name => $text,)* }
            }

            /// Returns the types of the arguments.
            pub const fn params(self) -> &'static [Type] {
                match self { $(Syscall::$name => &[$(Type::$param,)*],)* }
            }

            /// Returns the types of the results.
            pub const fn results(self) -> &'static [Type] {
                match self { $(Syscall::$name => &[$(Type::$result,)*],)* }
            }

            fn of_text(text: &str) -> Option<Syscall> {
                match text { $($text => Some(Syscall::$name),)* _ => None }
            }
        }
    };
}

syscalls! {
    /// `int vprintf(const char *format, void *arguments)`: returns the number of arguments that the format uses, -1 for
    /// a null format, or -2 for more than 32 arguments.
    Vprintf "vprintf" (B64, B64) -> (B32);
    /// `void *malloc(size_t)`: returns null if the heap is full.
    Malloc "malloc" (B64) -> (B64);
    /// `void free(void *)`.
    Free "free" (B64) -> ();
    /// `void __assertfail(message, file, line, function, character size)`: ends the launch.
    Assertfail "__assertfail" (B64, B64, B32, B64, B64) -> ();
    /// `void cudaGraphSetConditional(handle, unsigned)`: sets the value of a conditional node.
    GraphSetConditional "cudaGraphSetConditional" (B64, B32) -> ();

    // CUDA's device runtime (`cuda_device_runtime_api.h`). A function returns a `cudaError_t` unless its comment states
    // another type. The caller passes a structure by its address.

    /// `void *GetParameterBuffer(size_t alignment, size_t size)`.
    DevGetParameterBuffer "__cudaCDP2GetParameterBuffer" (B64, B64) -> (B64);
    /// `void *GetParameterBufferV2(void *func, dim3 grid, dim3 block, unsigned shared_bytes)`.
    DevGetParameterBufferV2 "__cudaCDP2GetParameterBufferV2" (B64, B64, B64, B32) -> (B64);
    /// `LaunchDevice(void *func, void *buffer, dim3 grid, dim3 block, unsigned shared_bytes, stream)`.
    DevLaunchDevice "__cudaCDP2LaunchDevice" (B64, B64, B64, B64, B32, B64) -> (B32);
    /// `LaunchDeviceV2(void *buffer, stream)`.
    DevLaunchDeviceV2 "__cudaCDP2LaunchDeviceV2" (B64, B64) -> (B32);
    /// `GetLastError()`: returns the last error and resets it.
    DevGetLastError "__cudaCDP2GetLastError" () -> (B32);
    /// `PeekAtLastError()`: returns the last error without resetting it.
    DevPeekAtLastError "__cudaCDP2PeekAtLastError" () -> (B32);
    /// `const char *GetErrorString(error)`.
    DevGetErrorString "__cudaCDP2GetErrorString" (B32) -> (B64);
    /// `const char *GetErrorName(error)`.
    DevGetErrorName "__cudaCDP2GetErrorName" (B32) -> (B64);
    /// `GetDeviceCount(int *)`.
    DevGetDeviceCount "__cudaCDP2GetDeviceCount" (B64) -> (B32);
    /// `GetDevice(int *)`.
    DevGetDevice "__cudaCDP2GetDevice" (B64) -> (B32);
    /// `DeviceGetAttribute(int *value, attribute, device)`.
    DevDeviceGetAttribute "__cudaCDP2DeviceGetAttribute" (B64, B32, B32) -> (B32);
    /// `DeviceGetLimit(size_t *value, limit)`.
    DevDeviceGetLimit "__cudaCDP2DeviceGetLimit" (B64, B32) -> (B32);
    /// `DeviceGetCacheConfig(enum *)`.
    DevDeviceGetCacheConfig "__cudaCDP2DeviceGetCacheConfig" (B64) -> (B32);
    /// `DeviceGetSharedMemConfig(enum *)`.
    DevDeviceGetSharedMemConfig "__cudaCDP2DeviceGetSharedMemConfig" (B64) -> (B32);
    /// `RuntimeGetVersion(int *)`.
    DevRuntimeGetVersion "__cudaCDP2RuntimeGetVersion" (B64) -> (B32);
    /// `FuncGetAttributes(cudaFuncAttributes *, const void *func)`.
    DevFuncGetAttributes "__cudaCDP2FuncGetAttributes" (B64, B64) -> (B32);
    /// `OccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, func, int threads, size_t shared)`.
    DevOccupancy "__cudaCDP2OccupancyMaxActiveBlocksPerMultiprocessor" (B64, B64, B32, B64) -> (B32);
    /// `OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, func, int threads, size_t shared, unsigned
    /// flags)`.
    DevOccupancyWithFlags "__cudaCDP2OccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
        (B64, B64, B32, B64, B32) -> (B32);
    /// `StreamCreateWithFlags(cudaStream_t *, unsigned flags)`.
    DevStreamCreate "__cudaCDP2StreamCreateWithFlags" (B64, B32) -> (B32);
    /// `StreamDestroy(stream)`.
    DevStreamDestroy "__cudaCDP2StreamDestroy" (B64) -> (B32);
    /// `StreamWaitEvent(stream, event, unsigned flags)`.
    DevStreamWaitEvent "__cudaCDP2StreamWaitEvent" (B64, B64, B32) -> (B32);
    /// `EventCreateWithFlags(cudaEvent_t *, unsigned flags)`.
    DevEventCreate "__cudaCDP2EventCreateWithFlags" (B64, B32) -> (B32);
    /// `EventRecord(event, stream)`.
    DevEventRecord "__cudaCDP2EventRecord" (B64, B64) -> (B32);
    /// `EventRecordWithFlags(event, stream, unsigned flags)`.
    DevEventRecordWithFlags "__cudaCDP2EventRecordWithFlags" (B64, B64, B32) -> (B32);
    /// `EventDestroy(event)`.
    DevEventDestroy "__cudaCDP2EventDestroy" (B64) -> (B32);
    /// `Malloc(void **, size_t)`.
    DevMalloc "__cudaCDP2Malloc" (B64, B64) -> (B32);
    /// `Free(void *)`.
    DevFree "__cudaCDP2Free" (B64) -> (B32);
    /// `MemcpyAsync(to, from, size_t bytes, kind, stream)`.
    DevMemcpy "__cudaCDP2MemcpyAsync" (B64, B64, B64, B32, B64) -> (B32);
    /// `Memcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, stream)`.
    DevMemcpy2D "__cudaCDP2Memcpy2DAsync" (B64, B64, B64, B64, B64, B64, B32, B64) -> (B32);
    /// `Memcpy3DAsync(const cudaMemcpy3DParms *, stream)`.
    DevMemcpy3D "__cudaCDP2Memcpy3DAsync" (B64, B64) -> (B32);
    /// `MemsetAsync(to, int value, size_t bytes, stream)`.
    DevMemset "__cudaCDP2MemsetAsync" (B64, B32, B64, B64) -> (B32);
    /// `Memset2DAsync(to, pitch, int value, width, height, stream)`.
    DevMemset2D "__cudaCDP2Memset2DAsync" (B64, B64, B32, B64, B64, B64) -> (B32);
    /// `Memset3DAsync(cudaPitchedPtr, int value, cudaExtent, stream)`.
    DevMemset3D "__cudaCDP2Memset3DAsync" (B64, B32, B64, B64) -> (B32);
}

/// Prefix of the names of the device runtime's functions.
const DEVICE_RUNTIME: &str = "__cudaCDP2";

impl Syscall {
    /// Returns the system function with this name. A function of the device runtime also has an older name, such as
    /// `cudaMalloc`. `from_name` accepts both names, with or without the suffix `_ptsz`. The suffix selects a default
    /// stream per thread and has no effect in device code.
    pub fn from_name(name: &str) -> Option<Syscall> {
        let rest = match name.strip_prefix(DEVICE_RUNTIME) {
            Some(rest) => rest,
            None => match name.strip_prefix("cuda") {
                Some(rest) => rest,
                None => return Syscall::of_text(name),
            },
        };
        let rest = rest.strip_suffix("_ptsz").unwrap_or(rest);
        Syscall::of_text(name).or_else(|| Syscall::of_text(&format!("{DEVICE_RUNTIME}{rest}")))
    }

    /// Returns the system function with this payload.
    pub fn from_payload(payload: u64) -> Option<Syscall> {
        Syscall::ALL.get(usize::try_from(payload).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Syscall;

    #[test]
    fn the_device_runtime_has_several_names_for_one_function() {
        for name in ["__cudaCDP2Malloc", "cudaMalloc", "cudaMalloc_ptsz"] {
            assert_eq!(Syscall::from_name(name), Some(Syscall::DevMalloc));
        }
        let launch = Syscall::from_name("__cudaCDP2LaunchDeviceV2_ptsz");
        assert_eq!(launch, Some(Syscall::DevLaunchDeviceV2));
        assert_eq!(Syscall::from_name("malloc"), Some(Syscall::Malloc));
        for name in [
            "cuda",
            "cudaDeviceSynchronize",
            "Malloc",
            "__cudaCDP2vprintf",
            "cudamalloc",
        ] {
            assert_eq!(Syscall::from_name(name), None, "{name}");
        }
        for &call in Syscall::ALL {
            assert_eq!(Syscall::from_name(call.name()), Some(call));
        }
    }
}
