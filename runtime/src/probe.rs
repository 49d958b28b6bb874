//! Probes: code that is added to the PTX of kernels and writes to memory of its own.
//!
//! A [`Prober`] rewrites the PTX text of each module that a program loads. A rewritten kernel has more parameters than
//! the program knows. For each launch of the kernel, the runtime asks the kernel's [`Probes`] for the [`LaunchProbes`]:
//! they describe blocks of device memory, and compute the additional arguments from the addresses of the blocks. When
//! the launch has ended, they read the blocks.
//!
//! The program does not notice the probes: queries of parameters answer for the original kernel.
//!
//! Invariant: the runtime calls [`LaunchProbes::end`] after the last instruction of the launch, and before work that
//! follows the launch in stream order.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::error::Result;
use crate::launch::Dim3;

/// Rewrites modules.
///
/// ```
/// use margay::probe::{PtxText, Prober, Rewritten};
///
/// /// Changes nothing.
/// struct Silent;
///
/// impl Prober for Silent {
///     fn module(&self, _: &PtxText<'_>) -> Option<Rewritten> {
///         None
///     }
/// }
///
/// let rt = margay::Runtime::builder().prober(std::sync::Arc::new(Silent)).build()?;
/// assert!(rt.load_ptx(".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }").is_ok());
/// # Ok::<(), margay::Error>(())
/// ```
pub trait Prober: Send + Sync {
    /// Rewrites a PTX text that a program loads. Returns `None` if no kernel of the text has probes. Images that were
    /// loaded before, and are still in the cache of images, are not rewritten again.
    fn module(&self, text: &PtxText<'_>) -> Option<Rewritten>;
}

/// A PTX text that a program loads.
#[derive(Clone, Copy, Debug)]
pub struct PtxText<'a> {
    /// The name of the text, for messages.
    pub name: &'a str,
    /// The text.
    pub text: &'a str,
}

/// A PTX text whose kernels have probes.
pub struct Rewritten {
    /// The text to load. It declares the same variables and kernels as the original text. The parameters of each kernel
    /// begin with those of the original kernel.
    pub text: String,
    /// The kernels with probes.
    pub kernels: Vec<ProbedKernel>,
}

/// A kernel with probes.
#[derive(Clone)]
pub struct ProbedKernel {
    /// The (mangled) name of the kernel.
    pub name: String,
    /// The number of parameters of the original kernel.
    pub parameters: usize,
    /// The probes.
    pub probes: Arc<dyn Probes>,
}

/// The probes of a kernel.
pub trait Probes: Send + Sync {
    /// Returns the code that launches of the kernel run. The runtime calls this method once, before the first launch.
    fn code(&self) -> Code {
        Code::InPlace
    }

    /// Returns a variant of the kernel that runs before each launch of the kernel that a stream does not capture. The
    /// program then waits for both. The runtime calls this method once, after [`Probes::code`].
    fn rehearsal(&self) -> Option<Variant> {
        None
    }

    /// Begins a launch, on the thread that submits it. The runtime drops the result without a call of
    /// [`LaunchProbes::end`] if the launch does not run. If the code is [`Code::Separate`], the result can be `None`: the
    /// launch then runs the kernel of the rewritten text, without probes.
    ///
    /// # Errors
    /// An error makes the launch fail.
    fn launch(&self, launch: &ProbedLaunch<'_>) -> Result<Option<Box<dyn LaunchProbes>>>;
}

/// The code that launches of a kernel run.
pub enum Code {
    /// The kernel of the rewritten text.
    InPlace,
    /// The kernel of this name in another PTX text, which uses the module's variables.
    Separate(Arc<str>),
    /// The kernel of the rewritten text, which has no probes.
    Unprobed,
}

/// A variant of a kernel.
pub struct Variant {
    /// A PTX text that contains the kernel, and uses the module's variables.
    pub text: Arc<str>,
    /// The probes of the variant.
    pub probes: Arc<dyn Probes>,
}

/// A launch of a kernel with probes.
#[derive(Clone, Copy, Debug)]
pub struct ProbedLaunch<'a> {
    /// The number of CTAs of the grid in each dimension.
    pub grid: Dim3,
    /// The number of threads of a CTA in each dimension.
    pub block: Dim3,
    /// Number of bytes of a CTA's dynamic shared memory.
    pub dynamic_shared: u32,
    /// The arguments of the program, in the layout of the original kernel's parameters.
    pub arguments: &'a [u8],
    /// Whether a variant runs before the launch ([`Probes::rehearsal`]).
    pub is_rehearsed: bool,
}

/// A block of zeroed device memory that a launch needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Number of bytes to allocate.
    pub bytes: u64,
    /// The least number of bytes that suffices if the device has not enough memory.
    pub least: u64,
}

/// The probes of a launch.
pub trait LaunchProbes: Send + Sync {
    /// Returns the blocks that the launch needs.
    fn blocks(&self) -> Vec<Block>;

    /// Receives the address and the size of each block. Returns the first bytes of each block, and the value of each
    /// additional parameter.
    fn begin(&self, blocks: &[(u64, u64)]) -> Beginning;

    /// Ends the launch.
    fn end(&self, end: &Ended<'_>);
}

/// What the probes of a launch write before it begins.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Beginning {
    /// The first bytes of each block; the others are zero.
    pub first_bytes: Vec<Vec<u8>>,
    /// The values of the additional parameters, in their order. A parameter that is shorter than 8 bytes gets the
    /// least significant bytes.
    pub arguments: Vec<u64>,
}

/// A launch that has ended.
pub struct Ended<'a> {
    /// Whether all threads have ended without a fault.
    pub completed: bool,
    /// The time from the first instruction to the last one.
    pub time: Duration,
    /// The blocks.
    pub memory: &'a dyn Memory,
}

/// The blocks of a launch.
pub trait Memory {
    /// Reads bytes of a block.
    ///
    /// # Errors
    /// [`crate::Error::InvalidValue`] if the block does not have these bytes, and [`crate::Error::OutOfMemory`] if the
    /// host has not enough memory.
    fn read(&self, block: usize, offset: u64, bytes: u64) -> Result<Vec<u8>>;
}

type Make = fn() -> Option<Arc<dyn Prober>>;

static MAKE: OnceLock<Make> = OnceLock::new();

/// Sets the function that creates the prober of the process's runtime ([`crate::Runtime::global`]), which CUDA programs
/// use. Returns false, and changes nothing, if a function is set already. A call after the creation of the runtime has
/// no effect.
///
/// ```
/// use margay::probe::set_global_prober;
///
/// assert!(set_global_prober(|| None));
/// assert!(!set_global_prober(|| None));
/// ```
pub fn set_global_prober(make: fn() -> Option<Arc<dyn Prober>>) -> bool {
    MAKE.set(make).is_ok()
}

/// Returns the prober of the process's runtime.
pub(crate) fn prober() -> Option<Arc<dyn Prober>> {
    MAKE.get().and_then(|make| make())
}
