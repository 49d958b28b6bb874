//! The entry to everything: one [`Runtime`] is one simulated machine with its devices.
//!
//! Invariant: a runtime's worker threads are started once, with the first launch, and never
//! joined.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::args::KernelArgs;
use crate::buffer::{DeviceBuffer, Plain};
use crate::checks::{Check, Finding, Findings};
use crate::context::{Context, PointerInfo};
use crate::device::Device;
use crate::device_config::DeviceConfig;
use crate::engine::{EngineChoice, Image, LoadOptions, Loader};
use crate::environment::{MAX_WORKERS, env, number};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::machine::Machine;
use crate::memory::{AddressSpace, affordable_slots};
use crate::module::Module;
use crate::native::{Caching, PtxLoader};
use crate::process::check_fork;
use crate::scheduler::SchedulerConfig;

/// A machine with one device or several. Clones are the same machine.
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
    /// Keeps the primary contexts' values for the runtime's life; there is one for each device.
    primary: Vec<Context>,
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
    caching: Caching,
    check: Option<Check>,
}

impl RuntimeBuilder {
    /// The device's properties.
    pub fn device(mut self, config: DeviceConfig) -> Self {
        self.config = Some(config);
        self
    }

    /// What loads images (tests use engines of their own).
    pub fn loader(mut self, loader: Arc<dyn Loader>) -> Self {
        self.loader = Some(loader);
        self
    }

    /// What runs the kernels of PTX images (default: `MARGAY_ENGINE`, else [`EngineChoice::Auto`]). A
    /// loader of one's own decides for itself.
    pub fn engine(mut self, choice: EngineChoice) -> Self {
        self.engine = Some(choice);
        self
    }

    /// Number of worker threads (default: `MARGAY_WORKERS`, else one per core).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Limit of a launch's running time (default: `MARGAY_TIME_LIMIT` seconds, else none).
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Runs CTAs in grid order on one worker (default: `MARGAY_DETERMINISTIC` is set).
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// Runs CTAs and warps in the opposite order (testing; default: `MARGAY_ORDER=reverse`).
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Neither takes native code from the disk nor leaves it there (default: `MARGAY_CACHE=0`). A loader of one's
    /// own decides for itself.
    pub fn without_disk_cache(mut self) -> Self {
        self.caching = Caching::Off;
        self
    }

    /// Looks for this while kernels run (default: `MARGAY_CHECK`, else nothing). See [`crate::checks`].
    pub fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Makes the runtime. No thread starts before there is work.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
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
        // Room for every CTA that a full device holds, and a third more, so that a launch that
        // fills the device and waits for another one leaves that one room.
        let full = u64::from(config.sms) * u64::from(limits.ctas);
        let workers = if deterministic { 1 } else { workers };
        // Under `ulimit -v` there may be fewer, beside those that each worker keeps.
        let affordable = affordable_slots().map_or(u64::MAX, |slots| {
            slots.saturating_sub(2 * workers as u64).max(1)
        });
        let scheduler = SchedulerConfig {
            workers,
            reverse: self.reverse || env("MARGAY_ORDER").is_some_and(|v| v == "reverse"),
            resident: (full + full / 3).min(affordable),
            time_limit: self.time_limit.or_else(time_limit_from_env),
        };
        let choice = self.engine.unwrap_or_else(EngineChoice::from_env);
        let loader = self
            .loader
            .unwrap_or_else(|| Arc::new(PtxLoader::new(choice).caching(self.caching)));
        let check = self.check.or_else(Check::from_env);
        let findings = check.map(|Check::Sync| Arc::new(Findings::from_env()));
        let machine = Machine::new(config, scheduler, loader, findings)?;
        let primary: Vec<Context> = (0..machine.device_count())
            .map(|device| Context::new(&machine, device, true, 0))
            .collect();
        Ok(Runtime {
            inner: Arc::new(Inner { machine, primary }),
        })
    }
}

fn is_set(name: &str) -> bool {
    env(name).is_some_and(|value| value == "1")
}

/// Seconds, with a fraction.
fn time_limit_from_env() -> Option<Duration> {
    let seconds: f64 = env("MARGAY_TIME_LIMIT")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|limit| !limit.is_zero())
}

impl Runtime {
    /// A runtime with the defaults, of its own.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
    pub fn new() -> Result<Runtime> {
        RuntimeBuilder::default().build()
    }

    /// Settings for a runtime.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The process's runtime, made at the first call; `ffi` uses this one.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
    pub fn global() -> Result<&'static Runtime> {
        static GLOBAL: OnceLock<Result<Runtime>> = OnceLock::new();
        check_fork()?;
        GLOBAL
            .get_or_init(Runtime::new)
            .as_ref()
            .map_err(Error::clone)
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.inner.machine
    }

    /// What launches that have ended did that is undefined, in the order in which it was found, and how many more
    /// findings there was no room for; later ones are told anew. Empty when this is no checking run
    /// ([`crate::checks`]).
    pub fn take_findings(&self) -> (Vec<Finding>, u64) {
        let findings = self.inner.machine.findings.as_ref();
        findings.map(|findings| findings.take()).unwrap_or_default()
    }

    /// Number of devices that this process sees (`MARGAY_DEVICES`, `CUDA_VISIBLE_DEVICES`); there may be none.
    pub fn device_count(&self) -> i32 {
        self.inner.machine.device_count()
    }

    /// The memory of all devices.
    pub fn memory(&self) -> &AddressSpace {
        self.inner.machine.memory.space()
    }

    /// The device with this ordinal.
    ///
    /// # Errors
    /// [`Error::InvalidDevice`].
    pub fn device(&self, ordinal: i32) -> Result<Device> {
        match self.inner.machine.device(ordinal) {
            Some(_) => Ok(Device::of(&self.inner.machine, ordinal)),
            None => Err(Error::InvalidDevice(ordinal)),
        }
    }

    /// The reported driver version, 13050 for 13.5 (`MARGAY_DRIVER_VERSION`).
    pub fn driver_version(&self) -> i32 {
        self.inner.machine.config.driver_version
    }

    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        self.inner.machine.scheduler().workers()
    }

    /// The first device's primary context; retained at the first call, for good.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is none to be seen; [`Error::NotInitialized`] in the child of a fork.
    pub fn context(&self) -> Result<Context> {
        check_fork()?;
        let primary = self.first()?;
        if !primary.is_alive() {
            Device::of(&self.inner.machine, 0).primary_retain()?;
        }
        Ok(primary.clone())
    }

    /// Looks up any address: `None` when it is not memory of ours.
    pub fn pointer_info(&self, address: u64) -> Option<PointerInfo> {
        check_fork().ok()?;
        self.first().ok()?.describe(address)
    }

    fn first(&self) -> Result<&Context> {
        self.inner.primary.first().ok_or(Error::NoDevice)
    }

    /// Loads PTX text into the primary context.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`] with the diagnostics.
    pub fn load_ptx(&self, source: &str) -> Result<Module> {
        self.load_image(Image::Ptx(source), &LoadOptions::default())
    }

    /// Loads an image into the primary context.
    ///
    /// # Errors
    /// [`Error::InvalidPtx`], [`Error::InvalidImage`], [`Error::NoBinary`].
    pub fn load_image(&self, image: Image<'_>, options: &LoadOptions) -> Result<Module> {
        self.context()?.load_module(image, options)
    }

    /// Launches a kernel on the legacy null stream. Returns before it runs; reading a buffer
    /// or [`Runtime::synchronize`] waits for it.
    ///
    /// # Errors
    /// As [`crate::Stream::launch`].
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        self.context()?.legacy_stream().launch(kernel, config, args)
    }

    /// Zeroed device memory for `len` values.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        let buffer = DeviceBuffer::new(&self.context()?, len)?;
        buffer.zero()?;
        Ok(buffer)
    }

    /// Device memory with a copy of `values`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn upload<T: Plain>(&self, values: &[T]) -> Result<DeviceBuffer<T>> {
        let mut buffer = DeviceBuffer::new(&self.context()?, values.len())?;
        buffer.write(values)?;
        Ok(buffer)
    }

    /// Waits for all work of the primary context.
    ///
    /// # Errors
    /// The sticky fault of a kernel.
    pub fn synchronize(&self) -> Result<()> {
        self.context()?.synchronize()
    }

    /// Writes what complete launches have printed (exit); waits for nothing.
    pub fn flush_output(&self) {
        if check_fork().is_ok() {
            for context in Context::all_of(&self.inner.machine) {
                context.flush_output();
            }
        }
    }

    /// Ends every launch that is running (Ctrl-C, exit); returns at once.
    pub fn stop_all(&self) {
        let scheduler = self.inner.machine.scheduler();
        for run in scheduler.active_runs() {
            scheduler.stop(&run, Some(crate::Fault::stopped(run.kernel())));
        }
    }
}

/// The loader of a runtime that is given none. Runtimes that are given one loader share the code of the images
/// that it has loaded.
pub fn built_in_loader(choice: EngineChoice) -> Arc<dyn Loader> {
    Arc::new(PtxLoader::new(choice))
}
