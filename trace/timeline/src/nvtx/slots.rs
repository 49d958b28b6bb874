//! The tables of functions that an NVTX client offers to fill.

/// A table of function slots. The value is the id that the client's `GetModuleFunctionTable` takes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Module {
    /// Marks, ranges and names in the default domain.
    Core = 1,
    /// Names of objects of the driver API.
    Cuda = 2,
    /// Names of objects of the runtime API.
    CudaRuntime = 4,
    /// Marks, ranges and names in domains of their own.
    Core2 = 5,
}

impl Module {
    /// All modules.
    pub const ALL: [Module; 4] = [
        Module::Core,
        Module::Cuda,
        Module::CudaRuntime,
        Module::Core2,
    ];

    /// Returns the functions of the module with their slots. A client may have fewer slots: compare with its count.
    pub fn functions(self) -> impl Iterator<Item = (usize, &'static str)> {
        // No function has slot 0.
        (1..).zip(self.names().iter().copied())
    }

    /// Returns the slot of a function, such as `nvtxRangePushA`.
    pub fn slot(self, function: &str) -> Option<usize> {
        self.functions()
            .find(|(_, name)| *name == function)
            .map(|(slot, _)| slot)
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Module::Core => &CORE,
            Module::Cuda => &CUDA,
            Module::CudaRuntime => &CUDA_RUNTIME,
            Module::Core2 => &CORE2,
        }
    }
}

const CORE: [&str; 15] = [
    "nvtxMarkEx",
    "nvtxMarkA",
    "nvtxMarkW",
    "nvtxRangeStartEx",
    "nvtxRangeStartA",
    "nvtxRangeStartW",
    "nvtxRangeEnd",
    "nvtxRangePushEx",
    "nvtxRangePushA",
    "nvtxRangePushW",
    "nvtxRangePop",
    "nvtxNameCategoryA",
    "nvtxNameCategoryW",
    "nvtxNameOsThreadA",
    "nvtxNameOsThreadW",
];

const CUDA: [&str; 8] = [
    "nvtxNameCuDeviceA",
    "nvtxNameCuDeviceW",
    "nvtxNameCuContextA",
    "nvtxNameCuContextW",
    "nvtxNameCuStreamA",
    "nvtxNameCuStreamW",
    "nvtxNameCuEventA",
    "nvtxNameCuEventW",
];

const CUDA_RUNTIME: [&str; 6] = [
    "nvtxNameCudaDeviceA",
    "nvtxNameCudaDeviceW",
    "nvtxNameCudaStreamA",
    "nvtxNameCudaStreamW",
    "nvtxNameCudaEventA",
    "nvtxNameCudaEventW",
];

const CORE2: [&str; 15] = [
    "nvtxDomainMarkEx",
    "nvtxDomainRangeStartEx",
    "nvtxDomainRangeEnd",
    "nvtxDomainRangePushEx",
    "nvtxDomainRangePop",
    "nvtxDomainResourceCreate",
    "nvtxDomainResourceDestroy",
    "nvtxDomainNameCategoryA",
    "nvtxDomainNameCategoryW",
    "nvtxDomainRegisterStringA",
    "nvtxDomainRegisterStringW",
    "nvtxDomainCreateA",
    "nvtxDomainCreateW",
    "nvtxDomainDestroy",
    "nvtxInitialize",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_clients_tables() {
        assert_eq!(Module::Core.slot("nvtxMarkEx"), Some(1));
        assert_eq!(Module::Core.slot("nvtxRangePushA"), Some(9));
        assert_eq!(Module::Core.slot("nvtxNameOsThreadW"), Some(15));
        assert_eq!(Module::Cuda.slot("nvtxNameCuStreamA"), Some(5));
        assert_eq!(Module::CudaRuntime.slot("nvtxNameCudaEventW"), Some(6));
        assert_eq!(Module::Core2.slot("nvtxDomainRangePop"), Some(5));
        assert_eq!(Module::Core2.slot("nvtxInitialize"), Some(15));
        assert_eq!(Module::Core2.slot("nvtxMarkA"), None);
        assert_eq!(Module::ALL.map(|module| module as u32), [1, 2, 4, 5]);
    }
}
