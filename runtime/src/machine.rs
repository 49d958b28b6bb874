//! The state that all contexts of a runtime share: workers, service threads, memory, and the image
//! loader.
//!
//! Invariant: a machine exists as long as at least one of its contexts, buffers or unfinished tasks
//! exists.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::checks::{Findings, Tool};
use crate::device_config::DeviceConfig;
use crate::divided::Helpers;
use crate::engine::Loader;
use crate::environment::{isolated, narrow_addresses};
use crate::error::Result;
use crate::host_threads;
use crate::mem::DeviceMemory;
use crate::memory::{MemoryConfig, Visible};
use crate::observe::Tools;
use crate::scheduler::{Scheduler, SchedulerConfig};
use crate::service::ServiceThreads;
use crate::texture_table::Registry;
use crate::timeline::Timeline;
use crate::wait::Waits;

pub(crate) struct Machine {
    pub(crate) config: DeviceConfig,
    pub(crate) reverse: bool,
    /// The findings of a checking run; `None` in other runs.
    pub(crate) findings: Option<Arc<Findings>>,
    /// The tools that observe the runtime (see [`crate::observe`]).
    pub(crate) tools: Arc<Tools>,
    /// In a run that checks memory or races, records which work CUDA orders before which other
    /// work; `None` in other runs.
    pub(crate) timeline: Option<Arc<Timeline>>,
    scheduler: Scheduler,
    copies: ServiceThreads,
    callbacks: ServiceThreads,
    waits: Waits,
    pub(crate) memory: DeviceMemory,
    /// The memory that kernels may access. This field is set when the address range of the CTA
    /// windows has been reserved.
    visible: OnceLock<Arc<Visible>>,
    /// Maps texture and surface handles to textures and surfaces.
    pub(crate) textures: Registry,
    pub(crate) loader: Arc<dyn Loader>,
    /// The devices that programs see, by ordinal.
    devices: Vec<DeviceState>,
}

/// The mutable state of a device.
pub(crate) struct DeviceState {
    /// The device's number: its index among all configured devices, including those that programs do not see.
    number: i32,
    /// Number of times that the program has retained the primary context and not yet released it.
    pub(crate) retained: Mutex<u64>,
}

impl DeviceState {
    fn new(number: u32) -> DeviceState {
        DeviceState {
            number: number as i32,
            retained: Mutex::new(0),
        }
    }
}

/// Minimum number of bytes between two allocations in runs that examine accesses.
const RED_ZONE: u64 = 256;

impl Machine {
    pub(crate) fn new(
        config: DeviceConfig,
        scheduler: SchedulerConfig,
        loader: Arc<dyn Loader>,
        findings: Option<Arc<Findings>>,
        tools: Arc<Tools>,
    ) -> Result<Arc<Machine>> {
        crate::process::watch_forks();
        if let Err(error) = crate::fault::install() {
            tracing::error!(%error, "cannot recover from faults");
        }
        let numbers = config.visible_devices();
        // `total_memory` divides the memory among all devices, including those that programs do not see.
        let examining = findings
            .as_ref()
            .filter(|found| found.tools().examine_accesses());
        let red_zone = examining.map_or(0, |found| {
            RED_ZONE.max(found.options().padding.next_multiple_of(RED_ZONE))
        });
        let memory = DeviceMemory::new(&MemoryConfig {
            low: narrow_addresses(),
            devices: numbers.len().max(1),
            device_limit: Some(config.total_memory()),
            red_zone,
            zones: findings.as_ref().and_then(|found| found.options().zones),
            keeps_calls: findings.is_some(),
            ..MemoryConfig::default()
        });
        let memory = memory.map(|memory| memory.observed(Arc::clone(&tools)));
        let memory = memory.inspect_err(|error| {
            crate::error::tell(&format!("no addresses for device memory: {error}"));
        })?;
        if let Some(findings) = &findings {
            crate::checks::host::begin(findings, memory.space());
        }
        if let Some(findings) = examining {
            let spare = memory.spare().inspect_err(|_| {
                crate::error::tell(&format!(
                    "checks of accesses need more device memory than the limit permits: each allocation has red zones \
                     of {red_zone} bytes"
                ));
            });
            findings.set_spare(spare?);
        }
        let machine = Arc::new(Machine {
            reverse: scheduler.reverse,
            timeline: findings
                .as_ref()
                .filter(|findings| {
                    let tools = findings.tools();
                    tools.contains(Tool::Memory) || tools.contains(Tool::Race)
                })
                .map(|findings| Arc::new(Timeline::new(Arc::clone(findings)))),
            findings,
            copies: ServiceThreads::new("margay-copy", scheduler.workers.max(1)),
            scheduler: Scheduler::new(scheduler),
            callbacks: ServiceThreads::new("margay-callback", 1),
            waits: Waits::default(),
            memory,
            tools,
            visible: OnceLock::new(),
            textures: Registry::default(),
            loader,
            devices: numbers.into_iter().map(DeviceState::new).collect(),
            config,
        });
        let weak = Arc::downgrade(&machine);
        machine.scheduler.set_host_test(Box::new(move || {
            let machine = weak.upgrade();
            machine.is_some_and(|machine| {
                host_threads::all_wait() && machine.copies.is_idle() && machine.callbacks.is_idle()
            })
        }));
        Ok(machine)
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Returns the memory that kernels may access; `None` if their accesses are not checked.
    ///
    /// # Errors
    /// [`crate::Error::OperatingSystem`] when no addresses are left for windows.
    pub(crate) fn visible(&self) -> Result<Option<Arc<Visible>>> {
        let examines = self.findings.as_ref();
        let examines = examines.is_some_and(|findings| findings.tools().examine_accesses());
        if !isolated() && !examines {
            return Ok(None);
        }
        if self.visible.get().is_none() {
            let windows = self.scheduler.window_range()?;
            let visible = Visible::new(Arc::clone(self.memory.space()), windows);
            let _ = self.visible.set(Arc::new(visible));
        }
        Ok(self.visible.get().cloned())
    }

    pub(crate) fn copies(&self) -> &ServiceThreads {
        &self.copies
    }

    /// Returns the threads that help with a copy or fill of a stream with the priority `priority`.
    pub(crate) fn copy_helpers(&self, priority: i32) -> Helpers<'_> {
        Helpers {
            threads: &self.copies,
            priority,
        }
    }

    pub(crate) fn callbacks(&self) -> &ServiceThreads {
        &self.callbacks
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Returns the number of devices that programs see.
    pub(crate) fn device_count(&self) -> i32 {
        self.devices.len() as i32
    }

    /// Returns a device's number, which is its index among all configured devices.
    pub(crate) fn number(&self, ordinal: i32) -> i32 {
        self.device(ordinal).map_or(ordinal, |state| state.number)
    }

    pub(crate) fn device(&self, ordinal: i32) -> Option<&DeviceState> {
        self.devices.get(usize::try_from(ordinal).ok()?)
    }
}
