//! Kernels, which are functions that a program can launch: their attributes, their occupancy, and
//! the checks of their launches.
//!
//! Invariant: [`Kernel::check_launch`] checks each launch against all limits of the kernel and the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Instant;

use crate::context::Context;
use crate::device_config::DeviceConfig;
use crate::engine::{Engine, KernelInfo, ParamInfo};
use crate::entry::{Entry, Residency, UNSET};
use crate::error::{Error, Result};
use crate::launch::{Dim3, LaunchConfig};
use crate::module::Module;
use crate::native_engine;
use crate::native_kernel::NativeKernel;
use crate::occupancy::{self, Footprint};
use crate::params::Params;
use crate::probed::Probed;
use crate::scheduler::Throttle;

/// Attributes of a kernel, with the numbers of `CUfunction_attribute`.
///
/// ```
/// use margay::FunctionAttribute;
///
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }")?;
/// let kernel = module.kernel("nothing")?;
/// assert_eq!(kernel.attribute(FunctionAttribute::MaxThreadsPerBlock)?, 1024);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum FunctionAttribute {
    /// Maximum number of threads in a block.
    MaxThreadsPerBlock = 0,
    /// Bytes of statically declared shared memory.
    SharedSizeBytes = 1,
    /// Bytes of constant memory of the kernel's module.
    ConstSizeBytes = 2,
    /// Bytes of local memory of a thread.
    LocalSizeBytes = 3,
    /// Reported number of registers of a thread.
    NumRegs = 4,
    /// The number in the `.target` directive of the PTX: 86 for `sm_86`.
    PtxVersion = 5,
    /// The architecture that the kernel was compiled for, which is the architecture of the device.
    BinaryVersion = 6,
    /// Cache mode of loads; always 0.
    CacheModeCa = 7,
    /// Maximum number of bytes of dynamic shared memory (settable).
    MaxDynamicSharedSizeBytes = 8,
    /// Preferred carve-out of shared memory in percent (settable).
    PreferredSharedMemoryCarveout = 9,
    /// Whether a launch must specify a cluster size; always 0.
    ClusterSizeMustBeSet = 10,
    /// Required cluster width (settable).
    RequiredClusterWidth = 11,
    /// Required cluster height (settable).
    RequiredClusterHeight = 12,
    /// Required cluster depth (settable).
    RequiredClusterDepth = 13,
    /// Whether clusters of more than 8 blocks are permitted (settable).
    NonPortableClusterSizeAllowed = 14,
    /// Cluster scheduling policy (settable).
    ClusterSchedulingPolicyPreference = 15,
}

impl FunctionAttribute {
    /// Returns the attribute with this number.
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

/// Maximum number of bytes of shared memory of a CTA whose kernel does not opt in to more.
const DEFAULT_SHARED: u32 = 48 << 10;
/// A typical number of registers of a thread, which is reported if the real number is unknown.
const USUAL_REGISTERS: u32 = 32;
/// Maximum number of CTAs in a cluster that every device permits. [`LARGEST_CLUSTER`] is the maximum if
/// `NonPortableClusterSizeAllowed` is set.
const PORTABLE_CLUSTER: u64 = 8;
const LARGEST_CLUSTER: u64 = 16;

/// A kernel of a module. Clones refer to the same kernel.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }")?;
/// let kernel = module.kernel("nothing")?;
/// rt.launch(&kernel, margay::LaunchConfig::new(4, 32), ())?;
/// rt.synchronize()?;
/// assert_eq!(kernel.name(), "nothing");
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Kernel {
    module: Module,
    entry: Arc<Entry>,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name())
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }
}

impl Eq for Kernel {}

/// Returns the configuration of a launch of a native kernel.
fn native_config(kernel: &NativeKernel) -> LaunchConfig {
    let (grid, block) = native_engine::shape_of(kernel);
    LaunchConfig::new(grid, block)
}

impl Kernel {
    /// Returns the kernel under which `context` runs a native kernel, and the configuration and the parameters of its
    /// launch.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the native kernel has too many tasks, a name that is too long, or a range that exceeds
    /// the address space; [`Error::Unsupported`] if a tool requests an event that is not implemented.
    pub(crate) fn of_native(
        context: &Context,
        kernel: &NativeKernel,
    ) -> Result<(Kernel, LaunchConfig, Params)> {
        kernel.check()?;
        let entry = context.native_entry(kernel.name())?;
        let module = Module::of_native(context, &entry);
        let params = Params::of_native(Arc::new(kernel.clone()));
        Ok((Kernel { module, entry }, native_config(kernel), params))
    }

    fn new(module: &Module, entry: &Arc<Entry>) -> Kernel {
        Kernel {
            module: module.clone(),
            entry: Arc::clone(entry),
        }
    }

    /// Returns the module of the kernel.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the kernel's ID, which is unique in the process and never reused.
    pub fn id(&self) -> u64 {
        self.entry.id
    }

    /// Returns the (mangled) name of the kernel.
    pub fn name(&self) -> &str {
        &self.info().name
    }

    /// Returns the kernel's properties.
    pub fn info(&self) -> &KernelInfo {
        self.entry.info()
    }

    /// Returns the kernel's parameters, in the order of their declaration.
    pub fn params(&self) -> &[ParamInfo] {
        &self.info().params
    }

    /// Returns a zeroed parameter space of the kernel's size.
    pub fn empty_params(&self) -> Params {
        Params::zeroed(self.info().param_bytes as usize)
    }

    /// Returns the maximum time that a unit of this kernel has taken, in nanoseconds. The maximum
    /// decays, so that old measurements lose their influence. Returns 0 if no unit has run.
    pub(crate) fn pace(&self) -> &AtomicU64 {
        &self.entry.pace
    }

    /// Returns the contention throttle, which limits how many workers run the kernel.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.entry.throttle
    }

    /// Returns the engine that runs the kernel.
    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.entry.engine
    }

    /// Returns how launches of the kernel run if it has probes; `None` if it has none.
    pub(crate) fn probed(&self) -> Result<Option<&Probed>> {
        let engine = &self.entry.engine;
        if engine.probes().is_none() {
            return Ok(None);
        }
        let variant = |text: &str| self.module.variant(text, self.name());
        let make = || Probed::new(engine, &variant);
        let made = self.entry.probed.get_or_init(make);
        made.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// Returns a shared copy of the kernel's name. Data that is used after a call has returned can
    /// refer to this copy.
    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.entry.name
    }

    fn config(&self) -> &DeviceConfig {
        &self.module.context().machine().config
    }

    fn registers(&self) -> u32 {
        match self.info().registers {
            0 => USUAL_REGISTERS,
            registers => registers,
        }
    }

    /// Returns the maximum number of threads in a block of this kernel.
    fn max_threads(&self) -> u32 {
        let registers = self.config().capability.limits().registers;
        let by_registers = registers / (self.registers() * 32) * 32;
        let declared = match (self.info().required_block, self.info().max_threads) {
            (Some(block), _) => u32::try_from(block.count()).unwrap_or(u32::MAX),
            (None, Some(threads)) => threads,
            (None, None) => u32::MAX,
        };
        declared.min(by_registers).min(1024)
    }

    /// Returns the value of an attribute.
    pub fn attribute(&self, attribute: FunctionAttribute) -> Result<i32> {
        use FunctionAttribute as A;
        self.module.check()?;
        let (entry, info) = (&self.entry, self.info());
        let set = |value: &AtomicI32| value.load(Ordering::Relaxed);
        Ok(match attribute {
            A::MaxThreadsPerBlock => self.max_threads() as i32,
            A::SharedSizeBytes => self.static_shared()? as i32,
            A::ConstSizeBytes => info.const_bytes as i32,
            A::LocalSizeBytes => entry.engine.sizes(None)?.local_bytes as i32,
            A::NumRegs => self.registers() as i32,
            A::PtxVersion => info.target as i32,
            A::BinaryVersion => self.config().capability.number() as i32,
            A::CacheModeCa => 0,
            A::MaxDynamicSharedSizeBytes => self.max_dynamic_shared()? as i32,
            A::PreferredSharedMemoryCarveout => set(&entry.carveout),
            A::ClusterSizeMustBeSet => 0,
            A::RequiredClusterWidth => set(&entry.cluster[0]),
            A::RequiredClusterHeight => set(&entry.cluster[1]),
            A::RequiredClusterDepth => set(&entry.cluster[2]),
            A::NonPortableClusterSizeAllowed => set(&entry.non_portable_cluster),
            A::ClusterSchedulingPolicyPreference => set(&entry.cluster_policy),
        })
    }

    /// Changes a settable attribute.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for attributes that cannot be set and for values out of range.
    pub fn set_attribute(&self, attribute: FunctionAttribute, value: i32) -> Result<()> {
        use FunctionAttribute as A;
        self.module.check()?;
        let entry = &self.entry;
        let limits = self.config().capability.limits();
        let room = limits.shared_optin.saturating_sub(self.static_shared()?);
        let declared_cluster = self.info().required_cluster.is_some();
        let (slot, range) = match attribute {
            A::MaxDynamicSharedSizeBytes => (&entry.max_dynamic_shared, 0..=room as i32),
            A::PreferredSharedMemoryCarveout => (&entry.carveout, -1..=100),
            A::RequiredClusterWidth if !declared_cluster => (&entry.cluster[0], 0..=16),
            A::RequiredClusterHeight if !declared_cluster => (&entry.cluster[1], 0..=16),
            A::RequiredClusterDepth if !declared_cluster => (&entry.cluster[2], 0..=16),
            A::NonPortableClusterSizeAllowed => (&entry.non_portable_cluster, 0..=1),
            A::ClusterSchedulingPolicyPreference => (&entry.cluster_policy, 0..=2),
            _ => return Err(Error::invalid(format!("{attribute:?} cannot be set"))),
        };
        if !range.contains(&value) {
            return Err(Error::invalid(format!("{attribute:?} cannot be {value}")));
        }
        slot.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the preferred cache configuration (0 to 3). The value is stored and has no effect.
    pub fn set_cache_config(&self, config: i32) -> Result<()> {
        self.module.check()?;
        if !(0..=3).contains(&config) {
            return Err(Error::invalid(format!("cache configuration {config}")));
        }
        self.entry.cache_config.store(config, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of bytes of shared memory that the kernel declares statically.
    fn static_shared(&self) -> Result<u32> {
        Ok(self.entry.engine.sizes(None)?.static_shared)
    }

    /// Returns the maximum number of bytes of dynamic shared memory that a launch may request.
    fn max_dynamic_shared(&self) -> Result<u32> {
        match self.entry.max_dynamic_shared.load(Ordering::Relaxed) {
            UNSET => Ok(DEFAULT_SHARED.saturating_sub(self.static_shared()?)),
            bytes => Ok(bytes as u32),
        }
    }

    fn footprint(&self, block: u32, dynamic_shared: u64) -> Result<Footprint> {
        Ok(Footprint {
            threads: block,
            registers: self.registers(),
            shared: u64::from(self.static_shared()?).saturating_add(dynamic_shared),
        })
    }

    /// Returns the maximum number of blocks that can be resident on one SM, if each block has
    /// `block` threads and `dynamic_shared` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a block without threads.
    pub fn max_active_blocks(&self, block: u32, dynamic_shared: u64) -> Result<u32> {
        self.module.check()?;
        if block == 0 {
            return Err(Error::invalid("a block of 0 threads"));
        }
        self.resident_per_sm(block, dynamic_shared)
    }

    fn resident_per_sm(&self, block: u32, dynamic_shared: u64) -> Result<u32> {
        if block > self.max_threads() {
            return Ok(0);
        }
        let known = Residency(self.entry.residency.load(Ordering::Relaxed));
        if let Some(resident) = known.of(block, dynamic_shared) {
            return Ok(resident);
        }
        let limits = self.config().capability.limits();
        let footprint = self.footprint(block, dynamic_shared)?;
        // Under a small `ulimit -v`, there are fewer windows than the SMs could use.
        let scheduled = self.module.context().machine().scheduler().resident();
        let most = (scheduled / u64::from(self.config().sms)).max(1);
        let resident = occupancy::resident(&limits, &footprint);
        let resident = resident.min(u32::try_from(most).unwrap_or(u32::MAX));
        let known = Residency::new(block, dynamic_shared, resident);
        self.entry.residency.store(known.0, Ordering::Relaxed);
        Ok(resident)
    }

    /// Finds the block size with the highest occupancy. Returns the number of blocks of this size that can be resident
    /// on the device at the same time, and the block size. A block has at most `limit` threads; a `limit` of 0 means no
    /// limit. `dynamic_shared` returns the bytes of dynamic shared memory for a block size.
    pub fn max_potential_block_size(
        &self,
        dynamic_shared: &mut dyn FnMut(u32) -> u64,
        limit: u32,
    ) -> Result<(u32, u32)> {
        self.module.check()?;
        let largest = match limit {
            0 => self.max_threads(),
            limit => limit.min(self.max_threads()),
        };
        let mut best = (0, 0, 0);
        let mut block = largest;
        while block > 0 {
            let resident = self.resident_per_sm(block, dynamic_shared(block))?;
            if resident * block > best.0 {
                best = (resident * block, resident, block);
            }
            // The first block size need not be a multiple of the warp size. All further block sizes are.
            block = (block - 1) / 32 * 32;
        }
        Ok((best.1 * self.config().sms, best.2))
    }

    /// Returns the maximum number of bytes of dynamic shared memory of a block, if `blocks` blocks
    /// of `block` threads each must be resident on one SM. The result does not exceed the kernel's
    /// limit of dynamic shared memory.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when this number of blocks cannot be resident.
    pub fn available_dynamic_shared(&self, blocks: u32, block: u32) -> Result<u64> {
        if blocks == 0 || blocks > self.max_active_blocks(block, 0)? {
            return Err(Error::invalid(format!("{blocks} blocks of {block}")));
        }
        let limits = self.config().capability.limits();
        let room = occupancy::shared_of(&limits, blocks);
        let room = room.saturating_sub(self.static_shared()?);
        Ok(u64::from(room.min(self.max_dynamic_shared()?)))
    }

    /// Returns the maximum number of clusters of a launch with this configuration that can be
    /// resident at the same time.
    pub fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32> {
        let block = u32::try_from(config.block.count()).unwrap_or(u32::MAX);
        let per_sm = self.max_active_blocks(block, u64::from(config.shared))?;
        let cluster = self.cluster_of(config)?.count().max(1);
        let clusters = u64::from(per_sm) * u64::from(self.config().sms) / cluster;
        Ok(u32::try_from(clusters).unwrap_or(u32::MAX))
    }

    /// Returns the maximum number of blocks that a cluster may have in a launch with this configuration. If the kernel
    /// requires a cluster shape, this is the number of blocks of that shape. The cluster shape in `config` is not used.
    pub fn max_potential_cluster_size(&self, config: &LaunchConfig) -> Result<u32> {
        let block = u32::try_from(config.block.count()).unwrap_or(u32::MAX);
        if self.max_active_blocks(block, u64::from(config.shared))? == 0 {
            return Err(Error::LaunchOutOfResources("no block is resident".into()));
        }
        let required = self.entry.cluster.each_ref();
        let required = required.map(|extent| extent.load(Ordering::Relaxed));
        if required.iter().any(|&extent| extent > 0) {
            let extents = required.iter().map(|&extent| extent.max(1) as u32);
            return Ok(extents.fold(1, u32::saturating_mul));
        }
        let declared = self.info().max_cluster_rank.map_or(u64::MAX, u64::from);
        Ok(self.largest_cluster().min(declared) as u32)
    }

    fn largest_cluster(&self) -> u64 {
        match self.entry.non_portable_cluster.load(Ordering::Relaxed) {
            0 => PORTABLE_CLUSTER,
            _ => LARGEST_CLUSTER,
        }
    }

    /// Returns the cluster shape of a launch: the shape in `config` if there is one, otherwise the shape that the
    /// kernel's attributes or its declaration specify. Returns an error if the shape does not
    /// divide the grid, or if it has more CTAs than a cluster of this kernel may have.
    fn cluster_of(&self, config: &LaunchConfig) -> Result<Dim3> {
        let set = self
            .entry
            .cluster
            .each_ref()
            .map(|n| n.load(Ordering::Relaxed).max(1) as u32);
        let cluster = config.cluster.unwrap_or(Dim3::new(set[0], set[1], set[2]));
        let pairs = config.grid.to_array().into_iter().zip(cluster.to_array());
        for (grid, cluster) in pairs {
            if cluster == 0 || !grid.is_multiple_of(cluster) {
                return Err(Error::invalid("the grid is not a multiple of the cluster"));
            }
        }
        let largest = self.info().max_cluster_rank.map_or(u64::MAX, u64::from);
        let most = self.largest_cluster().min(largest);
        if cluster.count() > most {
            return Err(Error::InvalidClusterSize(format!(
                "{} blocks, the kernel takes {most}",
                cluster.count()
            )));
        }
        Ok(cluster)
    }

    /// Returns an error if a launch with these arguments is not permitted. Otherwise returns the
    /// shape of the launch's clusters, and the maximum number of units that may be resident at the
    /// same time.
    ///
    /// The first launch of a kernel lowers the kernel's code. The call fails if the code has not been lowered by
    /// `deadline`.
    pub(crate) fn check_launch(
        &self,
        config: &LaunchConfig,
        params: &Params,
        deadline: Option<Instant>,
    ) -> Result<(Dim3, u64)> {
        self.module.check()?;
        self.check_native(config, params)?;
        self.check_shape(config)?;
        self.entry.engine.sizes(deadline)?;
        self.check_shared(config)?;
        let cluster = self.cluster_of(config)?;
        let resident = self.resident_units(config, cluster)?;
        if params.bytes().len() != self.info().param_bytes as usize {
            return Err(Error::invalid(
                "the parameters do not have the kernel's size",
            ));
        }
        Ok((cluster, resident))
    }

    /// Returns an error if the parameters of a launch do not contain the native kernel that the launch would run, or if
    /// the launch has another shape than this native kernel.
    fn check_native(&self, config: &LaunchConfig, params: &Params) -> Result<()> {
        let kernel = match (self.entry.engine.is_native(), params.native()) {
            (false, None) => return Ok(()),
            (true, Some(kernel)) => kernel,
            (true, None) => {
                return Err(Error::invalid(format!(
                    "{} is a native kernel, which only its library can launch",
                    self.name()
                )));
            }
            (false, Some(_)) => return Err(Error::invalid("the parameters of a native kernel")),
        };
        let own = LaunchConfig {
            priority: config.priority,
            cluster: config.cluster.filter(|cluster| cluster.count() == 1),
            ..native_config(kernel)
        };
        match *config == own {
            true => Ok(()),
            false => Err(Error::invalid(
                "the grid of a native kernel is one block of one thread for each task",
            )),
        }
    }

    /// Returns an error if a launch may not have the shape in `config`, or not this much shared
    /// memory.
    ///
    /// # Errors
    /// Returns the same errors as a launch with an invalid configuration.
    pub(crate) fn check_config(&self, config: &LaunchConfig) -> Result<()> {
        self.check_shape(config)?;
        self.check_shared(config)
    }

    fn check_shape(&self, config: &LaunchConfig) -> Result<()> {
        let LaunchConfig { grid, block, .. } = *config;
        if grid.count() == 0 || grid.x > 0x7fff_ffff || grid.y > 65_535 || grid.z > 65_535 {
            return Err(Error::invalid(format!("grid {:?}", grid.to_array())));
        }
        let threads = block.count();
        if threads == 0 || threads > 1024 || block.z > 64 {
            return Err(Error::invalid(format!("block {:?}", block.to_array())));
        }
        if let Some(required) = self.info().required_block
            && required != block
        {
            return Err(Error::invalid(format!(
                "block {:?}, the kernel requires {:?}",
                block.to_array(),
                required.to_array()
            )));
        }
        if threads > u64::from(self.max_threads()) {
            // NVIDIA's driver returns this error. Numba's tests, which were written for GPUs, expect this error.
            return Err(Error::invalid(format!(
                "{threads} threads per block, the kernel takes {}",
                self.max_threads()
            )));
        }
        Ok(())
    }

    fn check_shared(&self, config: &LaunchConfig) -> Result<()> {
        let allowed = self.max_dynamic_shared()?;
        if config.shared > allowed {
            return Err(Error::invalid(format!(
                "{} bytes of dynamic shared memory, {allowed} allowed",
                config.shared
            )));
        }
        Ok(())
    }

    /// Returns the maximum number of units that may be resident at the same time. This number is at
    /// least one. Returns an error if a block does not fit on an SM, or if a cooperative grid is
    /// too large.
    fn resident_units(&self, config: &LaunchConfig, cluster: Dim3) -> Result<u64> {
        let threads = config.block.count() as u32;
        let per_sm = self.resident_per_sm(threads, u64::from(config.shared))?;
        if per_sm == 0 {
            return Err(Error::LaunchOutOfResources(
                "a block does not fit on a multiprocessor".into(),
            ));
        }
        let machine = self.module.context().machine();
        let ctas = u64::from(per_sm) * u64::from(machine.config.sms);
        let units = (ctas / cluster.count()).clamp(1, machine.scheduler().resident());
        let wanted = config.grid.count() / cluster.count();
        if config.cooperative && wanted > units {
            return Err(Error::CooperativeLaunchTooLarge {
                ctas: config.grid.count(),
                resident: ctas,
            });
        }
        Ok(units)
    }
}

impl Module {
    /// Returns the kernel with a (mangled) name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the module has no such kernel.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        self.check()?;
        let entry = self
            .entry(name)
            .ok_or_else(|| Error::NotFound(format!("kernel {name}")))?;
        Ok(Kernel::new(self, entry))
    }

    /// Returns all kernels of the module, in the image's order.
    pub fn kernels(&self) -> Vec<Kernel> {
        let entries = self.entries().iter();
        entries.map(|entry| Kernel::new(self, entry)).collect()
    }
}
