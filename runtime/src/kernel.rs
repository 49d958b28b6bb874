//! Kernels: what can be launched, with attributes and occupancy.

use crate::engine::{KernelInfo, ParamInfo};
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::module::Module;

/// `CUfunction_attribute`, same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum FunctionAttribute {
    /// Threads in a block, at most.
    MaxThreadsPerBlock = 0,
    /// Statically declared shared memory.
    SharedSizeBytes = 1,
    /// Constant memory.
    ConstSizeBytes = 2,
    /// Local memory of a thread.
    LocalSizeBytes = 3,
    /// Registers of a thread.
    NumRegs = 4,
    /// The PTX's target: 86 for `sm_86`.
    PtxVersion = 5,
    /// The architecture it was compiled for.
    BinaryVersion = 6,
    /// Cache mode of loads.
    CacheModeCa = 7,
    /// Dynamic shared memory, at most (settable).
    MaxDynamicSharedSizeBytes = 8,
    /// Preferred carve-out of shared memory in percent (settable).
    PreferredSharedMemoryCarveout = 9,
    /// A cluster size must be given at launch.
    ClusterSizeMustBeSet = 10,
    /// Required cluster width (settable).
    RequiredClusterWidth = 11,
    /// Required cluster height (settable).
    RequiredClusterHeight = 12,
    /// Required cluster depth (settable).
    RequiredClusterDepth = 13,
    /// Clusters of more than 8 are allowed (settable).
    NonPortableClusterSizeAllowed = 14,
    /// Cluster scheduling policy (settable).
    ClusterSchedulingPolicyPreference = 15,
}

impl FunctionAttribute {
    /// The attribute with this number.
    pub fn from_number(number: i32) -> Option<FunctionAttribute> {
        use FunctionAttribute as A;
        const ALL: [FunctionAttribute; 16] = [
            A::MaxThreadsPerBlock,
            A::SharedSizeBytes,
            A::ConstSizeBytes,
            A::LocalSizeBytes,
            A::NumRegs,
            A::PtxVersion,
            A::BinaryVersion,
            A::CacheModeCa,
            A::MaxDynamicSharedSizeBytes,
            A::PreferredSharedMemoryCarveout,
            A::ClusterSizeMustBeSet,
            A::RequiredClusterWidth,
            A::RequiredClusterHeight,
            A::RequiredClusterDepth,
            A::NonPortableClusterSizeAllowed,
            A::ClusterSchedulingPolicyPreference,
        ];
        ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// A kernel of a module. Clones are the same kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    module: Module,
    info: KernelInfo,
}

impl Kernel {
    /// The module.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Unique in the process, never reused.
    pub fn id(&self) -> u64 {
        0
    }

    /// The (mangled) name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Its facts.
    pub fn info(&self) -> &KernelInfo {
        &self.info
    }

    /// Its parameters.
    pub fn params(&self) -> &[ParamInfo] {
        &self.info.params
    }

    /// An attribute's value.
    pub fn attribute(&self, attribute: FunctionAttribute) -> Result<i32> {
        let _ = attribute;
        Err(Error::unsupported("function attributes"))
    }

    /// Changes a settable attribute.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for others and for values out of range.
    pub fn set_attribute(&self, attribute: FunctionAttribute, value: i32) -> Result<()> {
        let _ = (attribute, value);
        Err(Error::unsupported("function attributes"))
    }

    /// The preferred cache configuration (0 to 3; only remembered).
    pub fn set_cache_config(&self, config: i32) -> Result<()> {
        let _ = config;
        Ok(())
    }

    /// Blocks of `block` threads with `dynamic_shared` bytes that are resident on one SM.
    pub fn max_active_blocks(&self, block: u32, dynamic_shared: u64) -> Result<u32> {
        let _ = (block, dynamic_shared);
        Err(Error::unsupported("occupancy"))
    }

    /// Grid and block size of the highest occupancy, the block at most `limit` (0: no limit);
    /// `dynamic_shared` gives the bytes for a block size.
    pub fn max_potential_block_size(
        &self,
        dynamic_shared: &mut dyn FnMut(u32) -> u64,
        limit: u32,
    ) -> Result<(u32, u32)> {
        let _ = (dynamic_shared, limit);
        Err(Error::unsupported("occupancy"))
    }

    /// Dynamic shared memory available to a block when `blocks` of `block` threads share an SM.
    pub fn available_dynamic_shared(&self, blocks: u32, block: u32) -> Result<u64> {
        let _ = (blocks, block);
        Err(Error::unsupported("occupancy"))
    }

    /// Clusters of this launch that can be resident at once.
    pub fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32> {
        let _ = config;
        Err(Error::unsupported("occupancy"))
    }

    /// The largest cluster that this launch may have.
    pub fn max_potential_cluster_size(&self, config: &LaunchConfig) -> Result<u32> {
        let _ = config;
        Err(Error::unsupported("occupancy"))
    }
}
