//! The entry to everything: one [`Runtime`] is one simulated machine with one device.
//!
//! Invariant: a runtime's worker threads are started once, with the first launch, and never
//! joined.

use std::sync::{Arc, OnceLock};

use crate::args::KernelArgs;
use crate::buffer::{DeviceBuffer, Plain};
use crate::context::{Context, PointerInfo};
use crate::device::{Device, DeviceConfig};
use crate::engine::{Image, LoadOptions, Loader};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::module::Module;

/// A machine with one device. Clones are the same machine.
#[derive(Clone)]
pub struct Runtime {
    inner: Arc<Inner>,
}

struct Inner {
    device: Device,
}

/// Settings of a [`Runtime`]; the defaults come from the environment.
#[derive(Default)]
pub struct RuntimeBuilder {
    config: Option<DeviceConfig>,
    loader: Option<Arc<dyn Loader>>,
    workers: Option<usize>,
    time_limit: Option<std::time::Duration>,
    deterministic: bool,
    reverse: bool,
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

    /// Number of worker threads (default: `MARGAY_WORKERS`, else one per core).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Limit of a launch's running time (default: `MARGAY_TIME_LIMIT` seconds, else none).
    pub fn time_limit(mut self, limit: std::time::Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Runs CTAs in grid order on one worker.
    pub fn deterministic(mut self) -> Self {
        self.deterministic = true;
        self
    }

    /// Runs CTAs and warps in the opposite order (testing).
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Makes the runtime.
    pub fn build(self) -> Result<Runtime> {
        let device = Device::new(self.config.unwrap_or_else(DeviceConfig::from_env));
        Ok(Runtime {
            inner: Arc::new(Inner { device }),
        })
    }
}

impl Runtime {
    /// A runtime with the defaults, of its own.
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
        GLOBAL
            .get_or_init(Runtime::new)
            .as_ref()
            .map_err(Error::clone)
    }

    /// Number of devices: one.
    pub fn device_count(&self) -> i32 {
        1
    }

    /// The device with this ordinal.
    pub fn device(&self, ordinal: i32) -> Result<Device> {
        match ordinal {
            0 => Ok(self.inner.device.clone()),
            _ => Err(Error::InvalidDevice(ordinal)),
        }
    }

    /// The reported driver version, 13050 for 13.5 (`MARGAY_DRIVER_VERSION`).
    pub fn driver_version(&self) -> i32 {
        self.inner.device.config().driver_version
    }

    /// The device's primary context, retained for the runtime's life.
    pub fn context(&self) -> Result<Context> {
        self.inner.device.primary_retain()
    }

    /// Looks up any address: `None` when it is not memory of ours.
    pub fn pointer_info(&self, address: u64) -> Option<PointerInfo> {
        let _ = address;
        None
    }

    /// Loads PTX text into the primary context.
    pub fn load_ptx(&self, source: &str) -> Result<Module> {
        self.load_image(Image::Ptx(source), &LoadOptions::default())
    }

    /// Loads an image into the primary context.
    pub fn load_image(&self, image: Image<'_>, options: &LoadOptions) -> Result<Module> {
        self.context()?.load_module(image, options)
    }

    /// Launches a kernel on the legacy null stream. Returns before it runs; reading a buffer
    /// or [`Runtime::synchronize`] waits for it.
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        self.context()?.legacy_stream().launch(kernel, config, args)
    }

    /// Zeroed device memory.
    pub fn alloc<T: Plain>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::new(&self.context()?, len)
    }

    /// Waits for all work of the primary context.
    pub fn synchronize(&self) -> Result<()> {
        self.context()?.synchronize()
    }
}
