//! The entry point of the crate: a [`Runtime`] is one simulated machine with its devices.
//!
//! Invariant: a runtime's worker threads start once, with the first launch, and are never joined.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use crate::args::KernelArgs;
use crate::buffer::{DeviceBuffer, Plain};
use crate::call_stack::CallStack;
use crate::checks::host::examine_all_zones;
use crate::checks::{Finding, Findings, Kind, Options, Tool, Tools};
use crate::context::{Context, PointerInfo, leaks};
use crate::device::Device;
use crate::device_config::DeviceConfig;
use crate::engine::{EngineChoice, Image, LoadOptions, Loader};
use crate::environment::{MAX_WORKERS, env, number};
use crate::error::{Error, FaultKind, Result};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::machine::Machine;
use crate::memory::{AddressSpace, MemoryKind, affordable_slots};
use crate::module::Module;
use crate::native::{Caching, PtxLoader, Request};
use crate::native_kernel::{MemoryRange, RangeKind};
use crate::observe::{self, ToolFailure};
use crate::probe::Prober;
use crate::process::check_fork;
use crate::scheduler::SchedulerConfig;
use crate::small_stack;

/// A simulated machine with one or more devices. Clones refer to the same machine.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let buffer = rt.upload(&[1u8, 2, 3])?;
/// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    machine: Arc<Machine>,
    /// The primary context of each device. These contexts exist as long as the runtime.
    primary: Vec<Context>,
    tools: Arc<observe::Tools>,
}

/// Settings of a [`Runtime`]; the defaults come from the environment.
///
/// ```
/// use std::time::Duration;
///
/// let rt = margay::Runtime::builder().workers(2).time_limit(Duration::from_secs(10)).build()?;
/// assert_eq!(rt.workers(), 2);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Default)]
pub struct RuntimeBuilder {
    config: Option<DeviceConfig>,
    loader: Option<Arc<dyn Loader>>,
    engine: Option<EngineChoice>,
    workers: Option<usize>,
    time_limit: Option<Duration>,
    deterministic: bool,
    reverse: bool,
    shuffle: Option<u64>,
    caching: Caching,
    checks: Option<Tools>,
    tools: Vec<Arc<dyn observe::Tool>>,
    tool_memory: Option<usize>,
    prober: Option<Arc<dyn Prober>>,
}

impl RuntimeBuilder {
    /// Sets the properties of all devices of the runtime.
    pub fn device(mut self, config: DeviceConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// Sets the loader of images. Tests set a loader that provides their own engines.
    pub fn loader(mut self, loader: Arc<dyn Loader>) -> Self {
        self.loader = Some(loader);
        self
    }

    /// Selects the engine that runs the kernels of PTX images. The default is the value of
    /// `MARGAY_ENGINE` or, if the variable is not set, [`EngineChoice::Auto`]. This setting has no
    /// effect on a loader given with [`RuntimeBuilder::loader`].
    pub fn engine(mut self, choice: EngineChoice) -> Self {
        self.engine = Some(choice);
        self
    }

    /// Sets the number of worker threads. The default is the value of `MARGAY_WORKERS` or, if the variable is not set,
    /// one worker per core. A deterministic runtime and a run with racecheck use one worker.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the maximum running time of a launch. The default is `MARGAY_TIME_LIMIT` seconds or, if
    /// the variable is not set, no limit.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Makes the runtime run CTAs in grid order on one worker. `MARGAY_DETERMINISTIC=1` makes this
    /// the default.
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// Makes the runtime run CTAs and warps in reverse order, for testing. `MARGAY_ORDER=reverse` makes this the
    /// default. Has no effect in a run with racecheck.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Makes the runtime run CTAs in an order that `seed` determines, for testing. Has no effect in a run with
    /// racecheck.
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.shuffle = Some(seed);
        self
    }

    /// Disables the disk cache: native code is neither read from disk nor written to it. `MARGAY_CACHE=0` makes this
    /// the default. This setting has no effect on a loader given with [`RuntimeBuilder::loader`].
    pub fn without_disk_cache(mut self) -> Self {
        self.caching = Caching::Off;
        self
    }

    /// Makes the runtime check all launches with `tool`, in addition to the checking tools of
    /// earlier calls. If this method is not called, the runtime uses the tools that `MARGAY_CHECK`
    /// names. See [`crate::checks`].
    pub fn check(mut self, tool: Tool) -> Self {
        self.checks = Some(self.checks.unwrap_or_default().with(tool));
        self
    }

    /// Makes the runtime pass events of the kernels of PTX images to `tool`, in addition to the
    /// tools of earlier calls. See [`crate::observe`]. This setting has no effect on a loader given
    /// with [`RuntimeBuilder::loader`].
    pub fn tool(mut self, tool: Arc<dyn observe::Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Makes the runtime rewrite the PTX of modules with `prober`. See [`crate::probe`]. This setting has no effect on a
    /// loader given with [`RuntimeBuilder::loader`].
    pub fn prober(mut self, prober: Arc<dyn Prober>) -> Self {
        self.prober = Some(prober);
        self
    }

    /// Sets the maximum size in bytes of the records for tools that a launch keeps in memory (default: 64 MiB). Further
    /// records wait in a temporary file.
    pub fn tool_memory(mut self, bytes: usize) -> Self {
        self.tool_memory = Some(bytes);
        self
    }

    /// Creates the runtime. No thread starts before work is submitted. The first call in a process prints a warning for
    /// each invalid environment variable.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork; [`Error::OperatingSystem`] or
    /// [`Error::OutOfMemory`] if the operating system provides no address range for device memory.
    pub fn build(self) -> Result<Runtime> {
        check_fork()?;
        crate::settings::review();
        let config = self.config.unwrap_or_else(DeviceConfig::from_env);
        let deterministic = self.deterministic || is_set("MARGAY_DETERMINISTIC");
        let workers = self
            .workers
            .or_else(|| {
                number("MARGAY_WORKERS")
                    .filter(|&workers| workers > 0)
                    .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
            })
            .unwrap_or_else(crate::device_config::cores)
            .clamp(1, MAX_WORKERS);
        let limits = config.capability.limits();
        // There are windows for every CTA that can be resident on the device's SMs, and a third more. If a launch fills
        // the device and waits for another launch, the other launch needs the remaining windows.
        let full = u64::from(config.sms) * u64::from(limits.ctas);
        let checks = self.checks.unwrap_or_else(Tools::from_env);
        // The race detector needs all accesses in one order. The detector also reports races that would occur in other
        // orders.
        let in_order = checks.contains(Tool::Race);
        let workers = if deterministic || in_order {
            1
        } else {
            workers
        };
        // If `ulimit -v` is set, the address space may have room for fewer windows only. Each worker keeps two windows.
        let affordable = affordable_slots().map_or(u64::MAX, |slots| {
            slots.saturating_sub(2 * workers as u64).max(1)
        });
        let scheduler = SchedulerConfig {
            workers,
            reverse: !in_order
                && (self.reverse || env("MARGAY_ORDER").is_some_and(|v| v == "reverse")),
            shuffle: self.shuffle.filter(|_| !in_order),
            resident: (full + full / 3).min(affordable),
            time_limit: self.time_limit.or_else(time_limit_from_env),
        };
        let choice = self.engine.unwrap_or_else(EngineChoice::from_env);
        let tools = Arc::new(observe::Tools::new(self.tools, self.tool_memory));
        let loader = self.loader.unwrap_or_else(|| {
            let loader = PtxLoader::new(choice).caching(self.caching);
            let loader = loader.with_tools(Arc::clone(&tools));
            let loader = loader.with_prober(self.prober);
            Arc::new(loader.observing(Request {
                accesses: checks.examine_accesses(),
                order: checks.contains(Tool::Race),
                initialisation: checks.contains(Tool::Initialisation),
                synchronisation: checks.contains(Tool::Synchronisation),
                ..Request::default()
            }))
        });
        let findings = (!checks.is_empty()).then(|| Arc::new(Findings::new(checks)));
        let machine = Machine::new(
            config,
            scheduler,
            loader,
            findings.clone(),
            Arc::clone(&tools),
        )
        .inspect_err(|error| {
            // Without a machine, the failed call that creates the runtime (`cuInit`) could not be reported later.
            if let Some(findings) = findings.filter(|findings| findings.tools().contains(Tool::Api))
            {
                let text = format!("The runtime cannot start: {error}");
                findings.add(
                    Finding::new(Kind::FailedCall, text),
                    Some(&CallStack::capture()),
                );
                findings.log_counts();
            }
        })?;
        let primary: Vec<Context> = (0..machine.device_count())
            .map(|device| Context::new(&machine, device, true, 0))
            .collect();
        Ok(Runtime {
            inner: Arc::new(Inner {
                machine,
                primary,
                tools,
            }),
        })
    }
}

fn is_set(name: &str) -> bool {
    env(name).is_some_and(|value| value == "1")
}

/// Returns the value of `MARGAY_TIME_LIMIT`, which is a number of seconds and may have a fraction; `None` if the
/// variable is unset, invalid or zero.
fn time_limit_from_env() -> Option<Duration> {
    let seconds: f64 = env("MARGAY_TIME_LIMIT")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
}

impl Runtime {
    /// Creates a runtime with the default settings. It is not the runtime that [`Runtime::global`] returns.
    ///
    /// # Errors
    /// The same errors as [`RuntimeBuilder::build`].
    pub fn new() -> Result<Runtime> {
        RuntimeBuilder::default().build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// Returns the process's runtime. The first call creates the runtime. The CUDA driver interface uses this runtime.
    ///
    /// # Errors
    /// The same errors as [`RuntimeBuilder::build`].
    pub fn global() -> Result<&'static Runtime> {
        static GLOBAL: OnceLock<Result<Runtime>> = OnceLock::new();
        check_fork()?;
        let made = match GLOBAL.get() {
            Some(made) => made,
            None => small_stack::run(|| {
                GLOBAL.get_or_init(|| {
                    let tools = observe::global_tools();
                    let builder = RuntimeBuilder {
                        prober: crate::probe::prober(),
                        ..RuntimeBuilder::default()
                    };
                    tools
                        .into_iter()
                        .fold(builder, RuntimeBuilder::tool)
                        .build()
                })
            }),
        };
        made.as_ref().map_err(Error::clone)
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.inner.machine
    }

    /// Returns the tools that have panicked ([`RuntimeBuilder::tool`]).
    pub fn tool_failures(&self) -> Vec<ToolFailure> {
        self.inner.tools.failures()
    }

    /// Removes and returns the findings recorded so far, in the order in which they were recorded. A race of a kernel
    /// is recorded when its launch ends. Also returns the number of further findings that were
    /// dropped because the table was full. If a removed finding occurs again later, it is recorded
    /// again. If this is not a checking run ([`crate::checks`]), there are no findings, and the
    /// number is 0.
    pub fn take_findings(&self) -> (Vec<Finding>, u64) {
        let findings = self.inner.machine.findings.as_ref();
        findings.map(|findings| findings.take()).unwrap_or_default()
    }

    /// Returns whether this is a checking run in which the checking tool `tool` runs
    /// ([`crate::checks`]).
    pub fn checks(&self, tool: Tool) -> bool {
        let findings = self.inner.machine.findings.as_ref();
        findings.is_some_and(|findings| findings.tools().contains(tool))
    }

    /// If this is a checking run with the checking tool that `finding` belongs to, records the
    /// finding. The finding is about a call of the API, and `call` is the call stack of this call.
    pub fn report(&self, finding: Finding, call: Option<&CallStack>) {
        if let Some(findings) = &self.inner.machine.findings {
            findings.add(finding, call);
        }
    }

    /// In a checking run, writes to the log that the process will call [`Runtime::finish_checks`] when it exits. If it
    /// then ends without this call, the report states that memory was not examined.
    pub fn announce_exit(&self) {
        if let Some(findings) = &self.inner.machine.findings {
            findings.log_exits();
        }
    }

    /// In a checking run, examines the red zones (the unused bytes around allocations), adds
    /// findings about memory that was not freed or never written (if the tools and options request
    /// this), and completes the log. Call this function when the process exits.
    pub fn finish_checks(&self) {
        let memory = &self.inner.machine.memory;
        examine_all_zones(memory.space(), None);
        leaks::report_all(&self.inner.machine);
        memory.report_unused(None);
        if let Some(findings) = &self.inner.machine.findings {
            findings.log_counts();
            findings.log_exit();
        }
    }

    /// Waits until all submitted work is complete, for at most `limit`, and writes to the log of a checking run how
    /// often each finding has occurred. Returns whether all work is complete.
    pub fn settle(&self, limit: Duration) -> bool {
        let runtime = self.clone();
        let (done, wait) = mpsc::channel();
        // The waits have no time limit, so a separate thread waits.
        let waiter = std::thread::Builder::new().name("margay-settle".to_owned());
        let waiter = waiter.spawn(move || {
            for context in Context::all_of(&runtime.inner.machine) {
                context.settle();
            }
            let _ = done.send(());
        });
        let is_complete = waiter.is_ok() && wait.recv_timeout(limit).is_ok();
        if let Some(findings) = &self.inner.machine.findings {
            findings.log_counts();
        }
        is_complete
    }

    /// Returns the options of a checking run; `None` in other runs.
    pub fn check_options(&self) -> Option<&Options> {
        let findings = self.inner.machine.findings.as_ref();
        findings.map(|findings| findings.options())
    }

    /// Writes a completed call of the API to the log of a checking run. `call` is the call stack of
    /// this call.
    pub fn log_call(&self, name: &str, arguments: &str, result: &str, call: &CallStack) {
        if let Some(findings) = &self.inner.machine.findings {
            findings.log_call(name, arguments, result, call);
        }
    }

    /// Returns whether a finding of this checking run reports a fault for whose kind `is` returns
    /// true. The caller then does not report the error that the context returns for the same fault.
    pub fn is_reported(&self, is: impl Fn(FaultKind) -> bool) -> bool {
        let findings = self.inner.machine.findings.as_ref();
        findings.is_some_and(|findings| findings.explains(is))
    }

    /// In a checking run, reports that a kernel did not run. Does nothing if no context has a sticky
    /// fault. The message is written only once in a run.
    pub fn note_skipped_kernel(&self) {
        for context in Context::all_of(&self.inner.machine) {
            context.note_skipped_kernel();
        }
    }

    /// Returns the number of devices that this process sees (`MARGAY_DEVICES`, `CUDA_VISIBLE_DEVICES`); it may be 0.
    pub fn device_count(&self) -> i32 {
        self.inner.machine.device_count()
    }

    /// Returns the address space that contains the memory of all devices.
    pub fn memory(&self) -> &AddressSpace {
        self.inner.machine.memory.space()
    }

    /// Returns the device with the ordinal `ordinal`. The ordinal is the index of the device among
    /// the visible devices.
    ///
    /// # Errors
    /// [`Error::InvalidDevice`] if no visible device has this ordinal.
    pub fn device(&self, ordinal: i32) -> Result<Device> {
        match self.inner.machine.device(ordinal) {
            Some(_) => Ok(Device::of(&self.inner.machine, ordinal)),
            None => Err(Error::InvalidDevice(ordinal)),
        }
    }

    /// Returns the driver version that Margay reports to programs (`MARGAY_DRIVER_VERSION`): 13050
    /// for version 13.5.
    pub fn driver_version(&self) -> i32 {
        self.inner.machine.config.driver_version
    }

    /// Returns the number of worker threads.
    pub fn workers(&self) -> usize {
        self.inner.machine.scheduler().workers()
    }

    /// Returns the first device's primary context. If the context is not active, the call activates
    /// it; the runtime then never deactivates it.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when no device is visible; [`Error::NotInitialized`] in the child of a fork.
    pub fn context(&self) -> Result<Context> {
        check_fork()?;
        let primary = self.first()?;
        if !primary.is_alive() {
            Device::of(&self.inner.machine, 0).primary_retain()?;
        }
        Ok(primary.clone())
    }

    /// Returns a description of the allocation that contains `address`; `None` if the address is
    /// not in memory of this runtime.
    pub fn pointer_info(&self, address: u64) -> Option<PointerInfo> {
        check_fork().ok()?;
        self.first().ok()?.describe(address)
    }

    /// Returns the kind of the memory in `range`. A range of 0 bytes has the kind of the byte at its address.
    ///
    /// ```
    /// use margay::native_kernel::{MemoryRange, RangeKind};
    ///
    /// let rt = margay::Runtime::new()?;
    /// let buffer = rt.alloc::<u8>(100)?;
    /// let address = buffer.ptr().address();
    /// assert_eq!(rt.range_kind(MemoryRange::of(address, 100)), RangeKind::Device);
    /// assert_eq!(rt.range_kind(MemoryRange::of(address, 101)), RangeKind::Partial);
    /// # Ok::<(), margay::Error>(())
    /// ```
    pub fn range_kind(&self, range: MemoryRange) -> RangeKind {
        let (address, bytes) = (range.address, range.bytes.max(1));
        let space = self.machine().memory.space();
        match space.kind_of(address, bytes, 0) {
            Some(MemoryKind::Pinned | MemoryKind::Registered) => RangeKind::Host,
            Some(_) => RangeKind::Device,
            None if space.touches(address, bytes) => RangeKind::Partial,
            None => RangeKind::Unknown,
        }
    }

    fn first(&self) -> Result<&Context> {
        self.inner.primary.first().ok_or(Error::NoDevice)
    }

    /// Loads a PTX text as a module into the primary context of the first device.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`], which contains the diagnostics, if the PTX text does not compile.
    pub fn load_ptx(&self, source: &str) -> Result<Module> {
        self.load_image(Image::Ptx(source), &LoadOptions::default())
    }

    /// Loads an image as a module into the primary context of the first device.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`] when PTX does not compile, [`Error::InvalidImage`] for an unknown format,
    /// [`Error::NoBinary`] when the image contains no PTX.
    pub fn load_image(&self, image: Image<'_>, options: &LoadOptions) -> Result<Module> {
        self.context()?.load_module(image, options)
    }

    /// Launches a kernel on the legacy null stream. Does not wait for the kernel. Calls that read a buffer, and
    /// [`Runtime::synchronize`], wait for the kernel.
    ///
    /// # Errors
    /// The same errors as [`crate::Stream::launch`].
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        self.context()?.legacy_stream().launch(kernel, config, args)
    }

    /// Allocates zeroed device memory for `len` values.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        let buffer = DeviceBuffer::new(&self.context()?, len)?;
        buffer.zero()?;
        Ok(buffer)
    }

    /// Allocates device memory and copies `values` into it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<DeviceBuffer<T>> {
        let mut buffer = DeviceBuffer::new(&self.context()?, values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Waits until all work of the primary context is complete.
    ///
    /// # Errors
    /// Returns the context's sticky error, if a kernel has failed.
    pub fn synchronize(&self) -> Result<()> {
        self.context()?.synchronize()
    }

    /// Prepares the exit of the process: for each context, waits until all work is complete, for at most a second,
    /// stops the remaining work, and writes the text that completed launches have printed.
    pub fn end_at_exit(&self) {
        if check_fork().is_ok() {
            for context in Context::all_of(&self.inner.machine) {
                context.end_at_exit();
            }
        }
    }

    /// Requests that every running launch stops, and does not wait until the launches have stopped.
    /// Callers use this function at exit or after Ctrl-C.
    pub fn stop_all(&self) {
        let scheduler = self.inner.machine.scheduler();
        for run in scheduler.active_runs() {
            scheduler.stop(&run, Some(crate::Fault::stopped(run.kernel())));
        }
    }
}

/// Returns the loader that a runtime uses by default. Runtimes with the same loader share the code
/// of the images that the loader has loaded.
pub fn built_in_loader(choice: EngineChoice) -> Arc<dyn Loader> {
    Arc::new(PtxLoader::new(choice))
}
