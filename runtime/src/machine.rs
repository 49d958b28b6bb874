//! What all contexts of a runtime share: workers, service threads, memory, the image loader.
//!
//! Invariant: a machine lives as long as any context, buffer or unfinished task of it.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::checks::Findings;
use crate::context::{Context, Inner as ContextInner};
use crate::device::DeviceConfig;
use crate::engine::Loader;
use crate::environment::isolated;
use crate::error::Result;
use crate::mem::{Allocation, DeviceMemory};
use crate::memory::Visible;
use crate::scheduler::{Scheduler, SchedulerConfig};
use crate::service::ServiceThread;
use crate::texture_table::Registry;
use crate::wait::Waits;

pub(crate) struct Machine {
    pub(crate) config: DeviceConfig,
    pub(crate) reverse: bool,
    /// In a checking run: what was found.
    pub(crate) findings: Option<Arc<Findings>>,
    scheduler: Scheduler,
    copies: ServiceThread,
    callbacks: ServiceThread,
    waits: Waits,
    pub(crate) memory: DeviceMemory,
    /// What kernels may access, known when the windows of CTAs are.
    visible: OnceLock<Arc<Visible>>,
    /// What handles of textures and surfaces name.
    pub(crate) textures: Registry,
    pub(crate) loader: Arc<dyn Loader>,
    /// Contexts by id; a destroyed one disappears with its last handle.
    contexts: Mutex<Vec<Weak<ContextInner>>>,
    /// Those that programs see.
    devices: Vec<DeviceState>,
}

/// What changes of a device.
pub(crate) struct DeviceState {
    /// Its number among all devices.
    number: i32,
    primary: OnceLock<Weak<ContextInner>>,
    /// How often the primary context is retained.
    pub(crate) retained: Mutex<u64>,
}

impl DeviceState {
    fn new(number: u32) -> DeviceState {
        DeviceState {
            number: number as i32,
            primary: OnceLock::new(),
            retained: Mutex::new(0),
        }
    }
}

impl Machine {
    pub(crate) fn new(
        config: DeviceConfig,
        scheduler: SchedulerConfig,
        loader: Arc<dyn Loader>,
        findings: Option<Arc<Findings>>,
    ) -> Result<Arc<Machine>> {
        crate::process::watch_forks();
        if let Err(error) = crate::fault::install() {
            tracing::error!(%error, "faults cannot be survived");
        }
        let numbers = config.visible_devices();
        // Devices that are not seen keep their part of the memory.
        let memory = DeviceMemory::new(Some(config.total_memory()), numbers.len().max(1));
        let memory = memory.inspect_err(|error| {
            crate::error::tell(&format!("no addresses for device memory: {error}"));
        })?;
        Ok(Arc::new(Machine {
            reverse: scheduler.reverse,
            findings,
            scheduler: Scheduler::new(scheduler),
            copies: ServiceThread::new("margay-copy"),
            callbacks: ServiceThread::new("margay-callback"),
            waits: Waits::default(),
            memory,
            visible: OnceLock::new(),
            textures: Registry::default(),
            loader,
            contexts: Mutex::new(Vec::new()),
            devices: numbers.into_iter().map(DeviceState::new).collect(),
            config,
        }))
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// What kernels may access; `None` where they are trusted.
    ///
    /// # Errors
    /// [`crate::Error::OperatingSystem`] when there is no room for windows.
    pub(crate) fn visible(&self) -> Result<Option<Arc<Visible>>> {
        if !isolated() {
            return Ok(None);
        }
        if self.visible.get().is_none() {
            let windows = self.scheduler.window_range()?;
            let visible = Visible::new(Arc::clone(self.memory.space()), windows);
            let _ = self.visible.set(Arc::new(visible));
        }
        Ok(self.visible.get().cloned())
    }

    pub(crate) fn copies(&self) -> &ServiceThread {
        &self.copies
    }

    pub(crate) fn callbacks(&self) -> &ServiceThread {
        &self.callbacks
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn add_context(&self, context: &Arc<ContextInner>) {
        let mut contexts = self.contexts.lock();
        contexts.retain(|known| known.strong_count() > 0);
        contexts.push(Arc::downgrade(context));
    }

    /// Notes the primary context of its device.
    pub(crate) fn set_primary(&self, context: &Context) {
        if let Some(state) = self.device(context.ordinal()) {
            let _ = state.primary.set(context.downgrade());
        }
    }

    /// Number of devices that programs see.
    pub(crate) fn device_count(&self) -> i32 {
        self.devices.len() as i32
    }

    /// A device's number among all of them.
    pub(crate) fn number(&self, ordinal: i32) -> i32 {
        self.device(ordinal).map_or(ordinal, |state| state.number)
    }

    pub(crate) fn device(&self, ordinal: i32) -> Option<&DeviceState> {
        self.devices.get(usize::try_from(ordinal).ok()?)
    }

    /// A device's primary context; `None` once the runtime is gone.
    pub(crate) fn primary(&self, ordinal: i32) -> Option<Context> {
        let state = self.device(ordinal)?;
        Some(Context::from(state.primary.get()?.upgrade()?))
    }

    /// All contexts that are alive.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        let contexts = self.contexts.lock();
        let living = contexts.iter().filter_map(Weak::upgrade);
        living.map(Context::from).collect()
    }

    /// The context of an allocation. One that has none counts to its device's primary context, and that of a device that is
    /// not there to the first one's.
    pub(crate) fn context_of(&self, found: &Allocation) -> Option<Context> {
        match found.context {
            0 => self.primary(found.device).or_else(|| self.primary(0)),
            id => self.context(id),
        }
    }

    fn context(&self, id: u64) -> Option<Context> {
        let contexts = self.contexts.lock();
        let mut living = contexts.iter().filter_map(Weak::upgrade);
        living.find(|known| known.id() == id).map(Context::from)
    }
}
