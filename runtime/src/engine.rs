//! The interface between the runtime and the engines that execute kernels.
//!
//! The runtime starts launches, and decides when CTAs run or wait. Only engines execute
//! instructions. A [`Loader`] loads an *image*. After the image has been bound to the addresses of
//! its variables, it provides one [`Engine`] per kernel. The engine prepares a launch once, and
//! many workers then run the launch at the same time.
//!
//! # Contract
//!
//! - **Units.** A *unit* is a cluster. In a launch without clusters, each CTA is a unit. Unit `u`
//!   of a launch holds the CTAs of the `u`-th cluster in grid order.
//! - **Threads.** Only workers call [`PreparedLaunch::run`] and [`PreparedLaunch::resume`]. Several workers may call
//!   them at the same time for different units, but never for the same unit. A worker may resume a
//!   unit that another worker has parked. When the scheduler passes the unit to the second worker,
//!   a release operation and an acquire operation order the accesses of the two workers.
//! - **Parking.** When all threads of a unit wait for memory, the engine returns the unit as a [`ParkedUnit`], which
//!   owns all state of the unit and its window. `progressed` states whether any thread has
//!   completed a wait since the unit was last run or resumed. If no unit makes progress, workers
//!   pause before they resume units. If only threads of the unit itself could end the waits, and no
//!   thread of the unit can continue, the engine returns a
//!   [`FaultKind::Deadlock`](crate::FaultKind) fault. The fault lists the instructions at which the
//!   threads wait.
//! - **Windows.** The engine takes a window for a unit that needs shared or local memory ([`Worker::take_window`]).
//!   When the unit completes, the engine returns the window ([`Worker::return_window`]) or keeps the window for the
//!   next unit of the same call. When the unit parks, the window stays in the unit's state. The
//!   number of windows suffices for all units that can be resident at the same time. Dropping a
//!   window makes it available to another unit.
//! - **Faults.** The engine catches faults in device code (with `fault::enter`) and returns them as
//!   values. After a fault in one unit, the runtime stops the other units of the launch.
//! - **Stops.** When [`Worker::stop_requested`] becomes true, the engine returns [`RunOutcome::Stopped`] as soon as it
//!   can. If device code is in a loop, the stop signal (module `fault`) interrupts the loop and
//!   makes `fault::enter` return.
//! - **Panics.** The worker catches a panic in an engine and fails the launch.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::call_stack::CallStack;
use crate::checks::Findings;
use crate::error::{Fault, Result, SourceLine};
use crate::launch::Dim3;
use crate::memory::{CtaWindow, Visible, WindowGeometry};
use crate::native_kernel::MemoryRange;
use crate::params::Params;
use crate::probe::Probes;
use crate::texture_table::TextureTable;
use margay_ir::syscall::Syscall;
use margay_ops::texture::Reference;

/// The location of a kernel parameter in the parameter space.
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

/// Properties of a kernel that are known when its image is loaded.
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
    /// The kernel's parameters, in the order of their declaration.
    pub params: Vec<ParamInfo>,
    /// Size of the parameter space in bytes.
    pub param_bytes: u32,
    /// Number of bytes of the module's constant memory, which all its kernels can read.
    pub const_bytes: u32,
    /// Reported number of registers per thread; 0 if it is unknown.
    pub registers: u32,
    /// The number in the `.target` directive of the PTX: 86 for `sm_86`.
    pub target: u32,
    /// The version in the `.version` directive of the PTX, times ten: 86 for `8.6`.
    pub ptx_version: u32,
    /// `.maxntid`: the maximum number of threads in a block.
    pub max_threads: Option<u32>,
    /// `.reqntid`: the required shape of a block.
    pub required_block: Option<Dim3>,
    /// `.minnctapersm`: the minimum number of resident CTAs per SM.
    pub min_ctas: Option<u32>,
    /// `.reqnctapercluster`: the required shape of a cluster.
    pub required_cluster: Option<Dim3>,
    /// `.maxclusterrank`: the maximum number of CTAs in a cluster.
    pub max_cluster_rank: Option<u32>,
}

/// Memory that a kernel's code needs; see [`Engine::sizes`].
///
/// ```
/// let sizes = margay::KernelSizes::default();
/// assert_eq!((sizes.static_shared, sizes.local_bytes), (0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelSizes {
    /// Bytes of statically declared shared memory of a CTA.
    pub static_shared: u32,
    /// Bytes of local memory of a thread.
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
    /// Whether the variable is in `.const` instead of `.global`.
    pub constant: bool,
    /// Whether the variable has `.attribute(.managed)`.
    pub managed: bool,
    /// Whether the variable is declared outside of functions, so that programs can find it by name.
    pub visible: bool,
    /// Describes the object that a variable of opaque type refers to. Such a variable has no
    /// memory, and its address is a handle.
    pub reference: Option<Reference>,
}

/// An image: bytes from which a module can be loaded.
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
    /// PTX text, a fat binary, a cubin or an archive; the first bytes determine the format.
    Bytes(&'a [u8]),
    /// Several inputs of these formats that are linked together: a `.visible` symbol of one input defines the `.extern`
    /// symbols of this name in the other inputs. The loader reads the PTX of NVIDIA's device runtime library only if
    /// the inputs leave a symbol undefined.
    Linked(&'a [&'a [u8]]),
}

/// Options for loading an image.
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
    /// The number of a compute capability (86 for 8.6), which selects an entry of a fat binary. 0 selects the
    /// capability of the device.
    pub capability: u32,
    /// The file name that diagnostics show.
    pub name: Option<String>,
    /// Register limit that the caller requests. The limit has no effect.
    pub max_registers: Option<u32>,
    /// Whether the caller requests debug information. The request has no effect.
    pub debug: bool,
    /// Whether the caller requests that the log contain properties of the kernels. The request has no effect.
    pub verbose: bool,
    /// Whether the runtime's prober ([`crate::probe`]) leaves the image as it is.
    pub unprobed: bool,
}

/// Loads images.
pub trait Loader: Send + Sync {
    /// Parses an image and checks that it is valid. An implementation may compile kernels later, in
    /// [`Engine::prepare`].
    fn load(&self, image: Image<'_>, options: &LoadOptions) -> Result<Arc<dyn LoadedImage>>;
}

/// A loaded image that is not yet bound to addresses.
pub trait LoadedImage: Send + Sync {
    /// Returns the kernels.
    fn kernels(&self) -> &[KernelInfo];
    /// Returns the module-level variables.
    fn variables(&self) -> &[VariableInfo];
    /// Returns the warnings and other messages that loading the image has produced.
    fn log(&self) -> &str {
        ""
    }
    /// Binds the image to addresses: `addresses[i]` is the address of variable `i`.
    fn bind(&self, addresses: &[u64]) -> Result<BoundImage>;
}

/// A loaded image that is bound to addresses.
pub struct BoundImage {
    /// Initial bytes of each variable, with the addresses of symbols filled in. If the variable has
    /// more bytes than this vector, its remaining bytes are zero.
    pub initial: Vec<Vec<u8>>,
    /// One engine for each kernel, in the order of [`LoadedImage::kernels`].
    pub kernels: Vec<Arc<dyn Engine>>,
}

/// A bound kernel.
pub trait Engine: Send + Sync {
    /// Returns the kernel's properties.
    fn info(&self) -> &KernelInfo;
    /// Returns the memory that the kernel's code needs. The first call lowers the code, which can
    /// take a long time but ends at the deadline. Later calls are fast.
    fn sizes(&self, deadline: Option<Instant>) -> Result<KernelSizes>;
    /// Prepares a launch: compiles code that is not compiled yet, and determines the layout of
    /// frames. The thread that launches the kernel makes this call, so that the launch can return
    /// compile errors. The call can take a long time, but ends at the deadline of the launch.
    fn prepare(&self, shape: LaunchShape) -> Result<Arc<dyn PreparedLaunch>>;
    /// Returns whether the engine runs native kernels ([`crate::native_kernel`]). The parameters of their launches contain
    /// the native kernel.
    fn is_native(&self) -> bool {
        false
    }
    /// Returns the probes of the kernel, and all its parameters, of which [`Engine::info`] names only those of the
    /// original kernel. Returns `None` if the kernel has no probes.
    fn probes(&self) -> Option<(&Arc<dyn Probes>, &KernelInfo)> {
        None
    }
}

/// The properties of a launch that an engine needs.
pub struct LaunchShape {
    /// CTAs in the grid.
    pub grid: Dim3,
    /// Threads in a CTA.
    pub block: Dim3,
    /// CTAs in a cluster; (1,1,1) if the launch has no clusters.
    pub cluster: Dim3,
    /// Bytes of dynamic shared memory of a CTA.
    pub dynamic_shared: u32,
    /// The parameter space, which contains the arguments of the launch.
    pub params: Params,
    /// Whether the launch is cooperative: its CTAs are allowed to wait for each other. In a
    /// cooperative launch, `%envreg1` and `%envreg2` contain the address of a workspace for the
    /// synchronisation of the grid.
    pub cooperative: bool,
    /// The end of the launch's time limit. Preparation of the launch counts towards the limit.
    pub deadline: Option<Instant>,
    /// The value of `%gridid`, which is unique in the process and never 0.
    pub grid_id: u64,
    /// Reported number of SMs.
    pub sms: u32,
    /// Reported number of warps that can be resident in an SM.
    pub sm_warps: u32,
    /// Stack bytes of a device thread (`CU_LIMIT_STACK_SIZE`), for recursion.
    pub stack_bytes: u64,
    /// Whether to run warps and CTAs in reverse order. Tests use this option.
    pub reverse: bool,
    /// Geometry of the CTA windows. If [`WindowGeometry::narrow`] is set, generated code must test every offset.
    pub windows: WindowGeometry,
    /// Memory that the kernel may access; `None` means all memory of the process.
    pub visible: Option<Arc<Visible>>,
    /// Implements printf, malloc and the other services for this launch.
    pub services: Arc<dyn Services>,
    /// Maps texture and surface handles to textures and surfaces.
    pub textures: Arc<TextureTable>,
    /// Where findings are recorded in a checking run; `None` in other runs.
    pub findings: Option<Arc<Findings>>,
    /// The stack of the call that launched the kernel, in a checking run.
    pub call: Option<CallStack>,
}

impl LaunchShape {
    /// Returns the number of units (clusters, or CTAs without clusters).
    pub fn units(&self) -> u64 {
        self.grid.count() / self.cluster.count().max(1)
    }
}

/// The functions of a worker that an engine can call while the engine runs units.
pub trait Worker {
    /// Returns whether the running launch must end now.
    fn stop_requested(&self) -> bool;
    /// Takes a window for the unit that is about to run. The window must hold `shared` bytes of shared memory and
    /// `local` bytes of local memory, both counted for the whole cluster.
    ///
    /// # Errors
    /// [`crate::Error::LaunchOutOfResources`] when a window cannot be this large, or the system provides no more
    /// memory.
    fn take_window(&mut self, shared: u64, local: u64) -> Result<CtaWindow>;
    /// Gives the window of a completed unit back to the worker. Alternatively, the engine can drop
    /// the window, which makes the window available to other units.
    fn return_window(&mut self, window: CtaWindow);
}

/// The coordinates of a device thread that calls one of the [`Services`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Linear index of the CTA in the grid.
    pub cta_number: u64,
    /// `%tid`.
    pub thread: [u32; 3],
}

/// Functions that device code may call: printf, malloc and others. Device code chooses the addresses that it passes, so
/// the addresses may be invalid.
pub trait Services: Send + Sync {
    /// `int vprintf(const char *format, void *arguments)`: returns the number of arguments that the format uses, -1 for
    /// a null format, or -2 for more than 32 arguments.
    ///
    /// # Errors
    /// Returns a fault if the format, the arguments or a string cannot be read.
    fn vprintf(&self, at: &Coordinates, format: u64, arguments: u64) -> Result<i32, Fault>;
    /// `void *malloc(size_t)`: returns 0 when the heap is full.
    fn malloc(&self, bytes: u64) -> u64;
    /// `void free(void *)`; null is accepted.
    ///
    /// # Errors
    /// Returns a fault if no allocated block begins at `address`.
    fn free(&self, at: &Coordinates, address: u64) -> Result<(), Fault>;
    /// Returns the address range of the heap; empty if device code has not called `malloc`.
    fn heap_region(&self) -> Range<u64>;
    /// Returns the address range of the allocated heap block that contains an address; `None` if no allocated block
    /// contains the address.
    fn heap_block(&self, address: u64) -> Option<Range<u64>>;
    /// Returns whether an address is in a block of the heap that was freed and has not been
    /// allocated again.
    fn was_freed_in_heap(&self, address: u64) -> bool;
    /// `void cudaGraphSetConditional(handle, unsigned)`: sets the value that a conditional node of a graph tests.
    ///
    /// # Errors
    /// Returns a fault if no value with this handle exists.
    fn set_conditional(&self, at: &Coordinates, handle: u64, value: u32) -> Result<(), Fault>;
    /// `void __assertfail(message, file, line, function, size of a character)`: returns the fault that ends the launch.
    fn assert_fail(
        &self,
        at: &Coordinates,
        message: u64,
        file: u64,
        line: u32,
        function: u64,
        char_size: u64,
    ) -> Fault;
    /// Calls a function of CUDA's device runtime with zero-extended arguments. `name_of` returns the name of the
    /// function that a handle refers to. Returns `None` when `which` is not a device runtime function.
    ///
    /// # Errors
    /// Returns a fault if the function needs memory that cannot be accessed.
    fn device_runtime_call(
        &self,
        at: &Coordinates,
        which: Syscall,
        args: &[u64],
        name_of: &dyn Fn(u64) -> Option<String>,
    ) -> Option<Result<u64, Fault>>;
}

/// A prepared launch, which many workers run at the same time.
pub trait PreparedLaunch: Send + Sync {
    /// Returns whether a unit of this launch can park. If no unit can park, the number of resident
    /// units is not limited, and a worker claims several units at once.
    fn may_park(&self) -> bool {
        true
    }
    /// Returns whether threads of different units may update the same memory. In this case, a
    /// single worker can be faster than several workers.
    fn contends(&self) -> bool {
        false
    }
    /// Returns the number of bytes of shared memory and of local memory that a unit needs ([`Worker::take_window`]).
    fn window_bytes(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Returns the ranges of memory that the launch accesses, and for each range whether it is written, if the launch
    /// knows them in advance. Such a launch passes no accesses to the race detector.
    fn accesses(&self) -> Option<Vec<(MemoryRange, bool)>> {
        None
    }
    /// Runs the units `first` to `first + count - 1` in this order. If a unit must wait, the call
    /// returns early.
    fn run(&self, worker: &mut dyn Worker, first: u64, count: u64) -> RunOutcome;
    /// Continues a parked unit.
    fn resume(&self, worker: &mut dyn Worker, unit: ParkedUnit) -> RunOutcome;
    /// Describes where the threads of a parked unit wait. The report of an exceeded time limit includes this text.
    fn describe(&self, unit: &ParkedUnit) -> String {
        format!("unit {} waits", unit.unit)
    }
    /// Ends the launch. The scheduler calls this function once, when no unit of the launch runs any
    /// more, and before it reports the end of the launch. `completed` states whether all units are
    /// complete.
    fn finish(&self, _completed: bool) {}
    /// Begins to observe the waiting threads, so that a later call of [`PreparedLaunch::hang`] can detect a hang.
    fn observe_waits(&self) {}
    /// Returns a description of the hang if two conditions hold. First, the threads have only
    /// polled memory since the call of [`PreparedLaunch::observe_waits`]. Second, the threads
    /// cannot change this memory, and the host can change it only with a call of the driver.
    /// Returns `None` if the engine cannot prove that both conditions hold.
    fn hang(&self) -> Option<Hang> {
        None
    }
}

/// A launch whose threads wait for memory that nothing changes.
#[derive(Clone, Debug)]
pub struct Hang {
    /// Whether the runtime must end the launch. If this field is false, the runtime prints a
    /// warning, and the launch continues.
    pub ends: bool,
    /// Any of the waiting threads, or `None` if the engine does not know which threads wait.
    pub first: Option<Polling>,
    /// Describes which threads poll which memory. Empty if the run does not observe the accesses of kernels.
    pub polled: Vec<String>,
}

/// A thread that polls memory.
#[derive(Clone, Debug)]
pub struct Polling {
    /// The index of the CTA in the grid.
    pub cta: [u32; 3],
    /// The index of the thread in the CTA.
    pub thread: [u32; 3],
    /// The address that the thread polls.
    pub address: u64,
    /// The line of the polling instruction in the PTX text.
    pub ptx_line: Option<u32>,
    /// The source line of the polling instruction.
    pub source: Option<SourceLine>,
}

/// A unit that waits. No worker runs the unit while it is parked.
pub struct ParkedUnit {
    /// The index of the unit.
    pub unit: u64,
    /// The state of the unit's CTAs (frames, program counters, barrier states) and the unit's
    /// window. Only the engine knows the type of this state.
    pub state: Box<dyn Any + Send>,
    /// Whether any thread has completed a wait since the unit was last run or resumed.
    pub progressed: bool,
}

/// How a call of [`PreparedLaunch::run`] or [`PreparedLaunch::resume`] ended.
pub enum RunOutcome {
    /// All requested units are complete.
    Done,
    /// The unit `unit.unit` waits. The units before this unit are complete, and the units after it have not started.
    Parked(ParkedUnit),
    /// Device code failed; the launch ends.
    Fault(Fault),
    /// The engine stopped as requested.
    Stopped {
        /// A text for reports that names the instructions at which the threads were stopped. Empty
        /// if no thread was running.
        place: String,
    },
}

/// Selects the engine that runs the kernels of PTX images.
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
    /// Native code, and the interpreter for kernels that native code does not support.
    #[default]
    Auto,
    /// Native code only: the launch of an unsupported kernel fails with the reason.
    Native,
    /// The interpreter only.
    Interpreter,
}

impl EngineChoice {
    /// Reads `MARGAY_ENGINE`: `native` or `interpreter`; any other text selects [`EngineChoice::Auto`].
    pub(crate) fn from_env() -> EngineChoice {
        match crate::environment::env("MARGAY_ENGINE").as_deref() {
            Some("native") => EngineChoice::Native,
            Some("interpreter") => EngineChoice::Interpreter,
            _ => EngineChoice::Auto,
        }
    }
}
