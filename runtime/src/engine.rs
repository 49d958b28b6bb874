//! The seam between the runtime and whatever executes kernels.
//!
//! The runtime knows launches, CTAs and waits; it knows no instruction. An *image* is loaded by
//! a [`Loader`], bound to the addresses of its variables, and gives one [`Engine`] per kernel.
//! A launch is prepared once and then run by many workers at the same time.
//!
//! # Contract
//!
//! - **Units.** Everything is counted in *units*: clusters, in grid order (a CTA without a
//!   cluster is a cluster of one). Unit `u` of a launch holds the CTAs of the `u`-th cluster.
//! - **Threads.** [`PreparedLaunch::run`] and [`PreparedLaunch::resume`] are called on workers
//!   only, from many at once for different units, never twice at once for one unit. A unit may
//!   be resumed by another worker than the one that parked it; the scheduler's hand-over is a
//!   release/acquire pair.
//! - **Parking.** A unit whose threads all wait for memory (an open wait) is returned as a
//!   [`ParkedUnit`]; it owns all its state, its window too. `progressed` tells whether any
//!   thread got past a wait since the unit was last given a worker; when no unit does, workers
//!   back off. A wait that only threads of the unit could end, with nobody left to end it, is a
//!   [`FaultKind::Deadlock`](crate::FaultKind) fault with the list of who waits where.
//! - **Windows.** The engine takes a window for a unit that needs shared or local memory
//!   ([`Worker::take_window`]) and gives it back when the unit completes
//!   ([`Worker::return_window`]), or keeps it from unit to unit of one call. When the unit
//!   parks, the window goes with it in [`ParkedUnit::window`]. One is there for every unit that
//!   may be resident; a window that is dropped is free again.
//! - **Faults** in device code are caught by the engine (through `fault::enter`) and returned
//!   as values. After a fault in one unit the other units of the launch are stopped.
//! - **Stops.** When [`Worker::stop_requested`] turns true the engine returns
//!   [`RunOutcome::Stopped`] as soon as it can; device code in a loop is unwound by the stop
//!   signal (`fault`), which makes `fault::enter` return.
//! - **Panics.** A panic in an engine is caught by the worker and fails the launch.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use crate::checks::Findings;
use crate::error::{Fault, Result};
use crate::launch::Dim3;
use crate::memory::{CtaWindow, Visible, WindowGeometry};
use crate::params::Params;
use crate::texture_table::TextureTable;
use margay_ir::syscall::Syscall;
use margay_ops::texture::Reference;

/// Where a kernel parameter lies in the parameter space.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(
///     ".version 7.0 .target sm_80 .address_size 64
///      .visible .entry two(.param .u32 a, .param .u64 b) { ret; }",
/// )?;
/// let kernel = module.kernel("two")?;
/// let places: Vec<(u32, u32)> = kernel.params().iter().map(|p| (p.offset, p.size)).collect();
/// assert_eq!(places, [(0, 4), (8, 8)]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamInfo {
    /// Offset in bytes.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// What is known of a kernel once its image is loaded, from its head alone.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(
///     ".version 7.0 .target sm_80 .address_size 64
///      .visible .entry small() .maxntid 64 { ret; }",
/// )?;
/// let kernel = module.kernel("small")?;
/// assert_eq!((kernel.info().target, kernel.info().max_threads), (80, Some(64)));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelInfo {
    /// The kernel's (mangled) name.
    pub name: String,
    /// Its parameters in order.
    pub params: Vec<ParamInfo>,
    /// Size of the parameter space.
    pub param_bytes: u32,
    /// Constant memory of the module that the kernel can reach.
    pub const_bytes: u32,
    /// Registers of a thread as reported; 0: unknown.
    pub registers: u32,
    /// The PTX's `.target` as two digits: 86 for `sm_86`.
    pub target: u32,
    /// The PTX's `.version`, times ten: 86 for `8.6`.
    pub ptx_version: u32,
    /// `.maxntid` multiplied out.
    pub max_threads: Option<u32>,
    /// `.reqntid`.
    pub required_block: Option<Dim3>,
    /// `.minnctapersm`.
    pub min_ctas: Option<u32>,
    /// `.reqnctapercluster`.
    pub required_cluster: Option<Dim3>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
}

/// What a kernel's code needs of memory: known once it was looked at.
///
/// ```
/// let sizes = margay::KernelSizes::default();
/// assert_eq!((sizes.static_shared, sizes.local_bytes), (0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelSizes {
    /// Statically declared shared memory of a CTA.
    pub static_shared: u32,
    /// Local memory of a thread.
    pub local_bytes: u32,
}

/// A module-level variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableInfo {
    /// The variable's (mangled) name.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u64,
    /// In `.const`, not `.global`.
    pub constant: bool,
    /// Has `.attribute(.managed)`.
    pub managed: bool,
    /// Can be found by name (`.visible`, or any that is not `.extern`).
    pub visible: bool,
    /// Its type is opaque: it has no memory, and its address is a handle.
    pub reference: Option<Reference>,
}

/// Bytes that a module may be loaded from.
///
/// ```
/// use margay::{Image, LoadOptions};
///
/// let rt = margay::Runtime::new()?;
/// let ptx = ".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }";
/// let module = rt.load_image(Image::Bytes(ptx.as_bytes()), &LoadOptions::default())?;
/// assert_eq!(module.kernels().len(), 1);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// PTX text.
    Ptx(&'a str),
    /// PTX text, a fatbin container, a cubin or an archive, told apart by the first bytes.
    Bytes(&'a [u8]),
    /// Several such inputs to be linked (`.extern` of one against `.visible` of another), the
    /// last ones read only when a symbol is missing.
    Linked(&'a [&'a [u8]]),
}

/// Options of loading.
///
/// ```
/// use margay::{Error, Image, LoadOptions};
///
/// let rt = margay::Runtime::new()?;
/// let options = LoadOptions { name: Some("broken.ptx".into()), ..LoadOptions::default() };
/// let Err(error) = rt.load_image(Image::Ptx(".version 7.0 .target"), &options) else {
///     panic!("the text is not complete");
/// };
/// assert!(error.to_string().contains("broken.ptx"));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The device's compute capability as two digits; the choice of a container's entry.
    pub capability: u32,
    /// Shown in diagnostics as the file's name.
    pub name: Option<String>,
    /// Register limit as given by the caller; reported back only.
    pub max_registers: Option<u32>,
    /// Debug information wanted.
    pub debug: bool,
    /// Write facts about the kernels to the log.
    pub verbose: bool,
}

/// Reads images.
pub trait Loader: Send + Sync {
    /// Reads, checks and compiles what has to be compiled early.
    fn load(&self, image: Image<'_>, options: &LoadOptions) -> Result<Arc<dyn LoadedImage>>;
}

/// A loaded image, not yet at any address.
pub trait LoadedImage: Send + Sync {
    /// Its kernels.
    fn kernels(&self) -> &[KernelInfo];
    /// Its variables.
    fn variables(&self) -> &[VariableInfo];
    /// Warnings and notes.
    fn log(&self) -> &str {
        ""
    }
    /// Binds the image: `addresses[i]` is where variable `i` lives.
    fn bind(&self, addresses: &[u64]) -> Result<BoundImage>;
}

/// A loaded image at its addresses.
pub struct BoundImage {
    /// Initial bytes of each variable (symbol addresses resolved); shorter than the variable
    /// means that the rest is zero.
    pub initial: Vec<Vec<u8>>,
    /// One engine for each kernel, in the order of [`LoadedImage::kernels`].
    pub kernels: Vec<Arc<dyn Engine>>,
}

/// One loaded kernel, ready to run.
pub trait Engine: Send + Sync {
    /// The kernel's facts.
    fn info(&self) -> &KernelInfo;
    /// What its code needs. The first call looks at the code, which may take a while; later ones are cheap.
    fn sizes(&self) -> Result<KernelSizes>;
    /// Makes one launch ready: compiles what is missing, lays out frames. The thread that launches waits for it, so that
    /// what cannot be compiled is that call's error; may take long, but no longer than to the deadline of the launch.
    fn prepare(&self, shape: LaunchShape) -> Result<Arc<dyn PreparedLaunch>>;
}

/// Everything an engine needs to know of one launch.
pub struct LaunchShape {
    /// CTAs in the grid.
    pub grid: Dim3,
    /// Threads in a CTA.
    pub block: Dim3,
    /// CTAs in a cluster; (1,1,1) without clusters.
    pub cluster: Dim3,
    /// Dynamic shared memory of a CTA.
    pub dynamic_shared: u32,
    /// The parameter space.
    pub params: Params,
    /// All CTAs may wait for each other; `%envreg1/2` point to a grid workspace.
    pub cooperative: bool,
    /// When the launch has to be ready: compiling counts against its time limit.
    pub deadline: Option<Instant>,
    /// Unique in the process, never 0; `%gridid`.
    pub grid_id: u64,
    /// Reported number of SMs.
    pub sms: u32,
    /// Stack of a device thread (`CU_LIMIT_STACK_SIZE`), for recursion.
    pub stack_bytes: u64,
    /// Run warps and CTAs in the opposite order (testing).
    pub reverse: bool,
    /// Widths of the CTA windows: code for masked ones reduces every offset.
    pub windows: WindowGeometry,
    /// What the kernel may access; `None`: whatever the process may.
    pub visible: Option<Arc<Visible>>,
    /// printf, malloc and the like for this launch.
    pub services: Arc<dyn Services>,
    /// What handles of textures and surfaces name.
    pub textures: Arc<TextureTable>,
    /// In a checking run: where what is found goes.
    pub findings: Option<Arc<Findings>>,
}

impl LaunchShape {
    /// Number of units (clusters, or CTAs without clusters).
    pub fn units(&self) -> u64 {
        self.grid.count() / self.cluster.count().max(1)
    }
}

/// What a worker lends to an engine while it runs units.
pub trait Worker {
    /// Whether the launch that is running is to end now.
    fn stop_requested(&self) -> bool;
    /// A window for the unit that is about to run, open for these sizes (bytes of the whole cluster's shared memory, and
    /// of its local memory).
    ///
    /// # Errors
    /// [`crate::Error::LaunchOutOfResources`] when a window cannot be so large, or the system gives no more memory.
    fn take_window(&mut self, shared: u64, local: u64) -> Result<CtaWindow>;
    /// Gives the window of a completed unit back. (A window that is dropped is free as well.)
    fn return_window(&mut self, window: CtaWindow);
}

/// The thread that calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// The CTA's number in the grid.
    pub cta_number: u64,
    /// `%tid`.
    pub thread: [u32; 3],
}

/// What device code may call: printf, malloc and the like. Addresses are those that the device code passed.
pub trait Services: Send + Sync {
    /// `int vprintf(const char *format, void *arguments)`: the number of arguments, or -1 for a null format.
    ///
    /// # Errors
    /// The fault of reading the format, the arguments or a string.
    fn vprintf(&self, at: &Coordinates, format: u64, arguments: u64) -> Result<i32, Fault>;
    /// `void *malloc(size_t)`: 0 when the heap is full.
    fn malloc(&self, bytes: u64) -> u64;
    /// `void free(void *)`; null is accepted.
    ///
    /// # Errors
    /// A fault when `address` is not allocated.
    fn free(&self, at: &Coordinates, address: u64) -> Result<(), Fault>;
    /// `void cudaGraphSetConditional(handle, unsigned)`: what a conditional node of a graph decides by.
    ///
    /// # Errors
    /// A fault when there is no such handle.
    fn set_conditional(&self, at: &Coordinates, handle: u64, value: u32) -> Result<(), Fault>;
    /// `void __assertfail(message, file, line, function, size of a character)`: the fault that ends the launch.
    fn assert_fail(
        &self,
        at: &Coordinates,
        message: u64,
        file: u64,
        line: u32,
        function: u64,
        char_size: u64,
    ) -> Fault;
    /// A function of CUDA's device runtime, whose arguments are zero-extended; `name_of` tells the name of the function
    /// with a handle. `None` when `which` is none of them.
    ///
    /// # Errors
    /// The fault of an address that cannot be used.
    fn device_runtime_call(
        &self,
        at: &Coordinates,
        which: Syscall,
        args: &[u64],
        name_of: &dyn Fn(u64) -> Option<String>,
    ) -> Option<Result<u64, Fault>>;
}

/// One launch, run by many workers at once.
pub trait PreparedLaunch: Send + Sync {
    /// Whether a unit can ever park. When not, residency is not limited and chunks are larger.
    fn may_park(&self) -> bool {
        true
    }
    /// Whether threads of different units may update the same memory, so that one worker may be faster than several.
    fn contends(&self) -> bool {
        false
    }
    /// Runs units `[first, first + count)` in order; stops early when one must wait.
    fn run(&self, worker: &mut dyn Worker, first: u64, count: u64) -> RunOutcome;
    /// Goes on with a parked unit.
    fn resume(&self, worker: &mut dyn Worker, unit: ParkedUnit) -> RunOutcome;
    /// Who waits where in a parked unit, for the report of a time limit.
    fn describe(&self, unit: &ParkedUnit) -> String {
        format!("unit {} waits", unit.unit)
    }
}

/// A unit that waits and has given its worker away.
pub struct ParkedUnit {
    /// Which unit.
    pub unit: u64,
    /// The engine's state: frames, program counters, barrier states.
    pub state: Box<dyn Any + Send>,
    /// The window that the unit's addresses point into, when it has one.
    pub window: Option<CtaWindow>,
    /// Whether anything happened but waiting since the unit was last run or resumed.
    pub progressed: bool,
}

/// How a call of [`PreparedLaunch::run`] or [`PreparedLaunch::resume`] ended.
pub enum RunOutcome {
    /// All units asked for are complete.
    Done,
    /// The units before `unit.unit` are complete, this one waits, those after it are untouched.
    Parked(ParkedUnit),
    /// Device code failed; the launch is over.
    Fault(Fault),
    /// A stop was requested and obeyed.
    Stopped {
        /// Who was where, for a report; empty when nothing was running.
        place: String,
    },
}

/// Which engine runs the kernels of PTX images.
///
/// ```
/// use margay::{EngineChoice, Runtime};
///
/// let rt = Runtime::builder().engine(EngineChoice::Interpreter).build()?;
/// assert!(rt.workers() >= 1);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineChoice {
    /// Native code, and the interpreter for kernels that native code refuses.
    #[default]
    Auto,
    /// Native code only: a kernel that it refuses fails to launch, with the reason.
    Native,
    /// The interpreter only.
    Interpreter,
}

impl EngineChoice {
    /// What `MARGAY_ENGINE` asks for: `native`, `interpreter`, or anything else for both.
    pub(crate) fn from_env() -> EngineChoice {
        match crate::environment::env("MARGAY_ENGINE").as_deref() {
            Some("native") => EngineChoice::Native,
            Some("interpreter") => EngineChoice::Interpreter,
            _ => EngineChoice::Auto,
        }
    }
}
