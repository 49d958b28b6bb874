//! The device: what it reports about itself.
//!
//! Margay's device is described by one [`DeviceConfig`], from which every attribute follows.
//! Defaults: compute capability 8.6 (the highest that all clients accept without newer code
//! paths), 28 to 48 SMs. Invariant: what is reported never changes during the process.

pub mod attributes;
pub mod capability;
mod host;

use std::fmt;
use std::sync::Arc;

pub use crate::visible_devices::{MAX_DEVICES, VISIBLE_DEVICES, uuid_of, uuid_text};
pub use capability::Capability;

pub(crate) use host::cores;

use crate::context::{Context, check_flags};
use crate::environment::{MAX_SMS, env, number};
use crate::error::{Error, Result};
use crate::machine::{DeviceState, Machine};
use crate::memory::{affordable_slots, default_device_memory};
use crate::process::check_fork;
use crate::visible_devices;

/// Default number of SMs: the number of cores, within these bounds. The upper one keeps the
/// windows of all resident CTAs under 8 TiB.
const DEFAULT_SMS: (u32, u32) = (28, 48);

/// What the device is made of.
///
/// ```
/// use margay::device::DeviceConfig;
///
/// let config = DeviceConfig { devices: 2, ..DeviceConfig::from_env() };
/// let rt = margay::Runtime::builder().device(config).build()?;
/// assert!(rt.device_count() <= 2);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceConfig {
    /// Reported compute capability.
    pub capability: Capability,
    /// Reported driver version: 13050 for 13.5.
    pub driver_version: i32,
    /// Reported number of multiprocessors.
    pub sms: u32,
    /// Number of such devices in the machine.
    pub devices: u32,
    /// Which of them programs see, as `CUDA_VISIBLE_DEVICES` says it; `None`: all.
    pub visible: Option<String>,
    /// Bytes of memory of each device; `None`: equal parts of what this process may use.
    pub memory: Option<u64>,
    /// Reported name; of several devices the later ones add their number.
    pub name: String,
}

impl DeviceConfig {
    /// The defaults, changed by `MARGAY_COMPUTE_CAPABILITY` (8.6, 86 or sm_86),
    /// `MARGAY_DRIVER_VERSION`, `MARGAY_SMS`, `MARGAY_DEVICES`, `MARGAY_MEMORY` (bytes, or with K, M, G),
    /// `MARGAY_DEVICE_NAME` and `CUDA_VISIBLE_DEVICES`.
    pub fn from_env() -> DeviceConfig {
        let capability = env("MARGAY_COMPUTE_CAPABILITY")
            .and_then(|text| Capability::parse(&text))
            .unwrap_or(Capability { major: 8, minor: 6 });
        DeviceConfig {
            capability,
            driver_version: driver_version(),
            sms: number("MARGAY_SMS")
                .and_then(|n| u32::try_from(n).ok())
                .filter(|&sms| (1..=MAX_SMS).contains(&sms))
                .unwrap_or_else(|| default_sms(capability)),
            devices: visible_devices::count(),
            visible: visible_devices::list(),
            memory: number("MARGAY_MEMORY").filter(|&bytes| bytes > 0),
            name: env("MARGAY_DEVICE_NAME")
                .unwrap_or_else(|| format!("Margay on {}", host::cpu_name())),
        }
    }

    /// Bytes of memory that each device of this description has here.
    pub fn total_memory(&self) -> u64 {
        self.memory
            .unwrap_or_else(|| default_device_memory(self.devices))
    }

    /// The name of the device with a number: with that behind it where there are several devices.
    pub fn name_of(&self, number: i32) -> String {
        match self.devices {
            1 => self.name.clone(),
            _ => format!("{} #{number}", self.name),
        }
    }

    /// The numbers of the devices that programs see, by their ordinals.
    pub fn visible_devices(&self) -> Vec<u32> {
        visible_devices::numbers(self.visible.as_deref(), self.devices)
    }
}

/// The number of multiprocessors where none is asked for. Under `ulimit -v` it is small enough that there is room for the memory of
/// all blocks that the device holds at once.
fn default_sms(capability: Capability) -> u32 {
    let sms = (host::cores() as u32).clamp(DEFAULT_SMS.0, DEFAULT_SMS.1);
    let Some(slots) = affordable_slots() else {
        return sms;
    };
    // A third more than a full device holds, and two for each worker.
    let workers = 2 * host::cores() as u64;
    let blocks = slots.saturating_sub(workers) / 4 * 3;
    let affordable = blocks / u64::from(capability.limits().ctas.max(1));
    sms.min(u32::try_from(affordable).unwrap_or(sms)).max(1)
}

/// The driver version that is reported: 13050 for 13.5 (`MARGAY_DRIVER_VERSION`).
pub fn driver_version() -> i32 {
    number("MARGAY_DRIVER_VERSION")
        .and_then(|n| i32::try_from(n).ok())
        .filter(|&version| version > 0)
        .unwrap_or(13050)
}

/// The state of a primary context.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let device = rt.device(0)?;
/// device.primary_retain()?;
/// assert!(device.primary_state()?.active);
/// device.primary_release()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrimaryState {
    /// Its flags.
    pub flags: u32,
    /// Whether it is retained.
    pub active: bool,
}

/// The device. Clones are the same device.
///
/// ```
/// let device = margay::Runtime::new()?.device(0)?;
/// let (major, _minor) = device.compute_capability();
/// assert!(major >= 5 && device.total_memory() > 0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    machine: Arc<Machine>,
    ordinal: i32,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {})", self.ordinal, self.name())
    }
}

impl Device {
    /// The device with this ordinal, which must exist.
    pub(crate) fn of(machine: &Arc<Machine>, ordinal: i32) -> Device {
        Device {
            machine: Arc::clone(machine),
            ordinal,
        }
    }

    fn state(&self) -> Result<&DeviceState> {
        self.machine
            .device(self.ordinal)
            .ok_or(Error::InvalidDevice(self.ordinal))
    }

    /// What it is made of.
    pub fn config(&self) -> &DeviceConfig {
        &self.machine.config
    }

    /// Its ordinal among the devices that programs see.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Its number among all devices of the machine.
    pub fn number(&self) -> i32 {
        self.machine.number(self.ordinal)
    }

    /// Its name: the configured one, with the number behind it where there are several devices.
    pub fn name(&self) -> String {
        self.machine.config.name_of(self.number())
    }

    /// Its UUID, the same in every process and on every machine.
    pub fn uuid(&self) -> [u8; 16] {
        uuid_of(self.number())
    }

    /// Locally unique id and node mask; Linux drivers report zeros.
    pub fn luid(&self) -> ([u8; 8], u32) {
        ([0; 8], 0)
    }

    /// Bytes of memory.
    pub fn total_memory(&self) -> u64 {
        self.machine.memory.device_info(self.ordinal).0
    }

    /// Compute capability, major and minor.
    pub fn compute_capability(&self) -> (i32, i32) {
        let Capability { major, minor } = self.machine.config.capability;
        (major as i32, minor as i32)
    }

    /// PCI domain, bus and device as text: `0000:a0:00.0`.
    pub fn pci_bus_id(&self) -> String {
        format!(
            "{:04x}:{:02x}:{:02x}.0",
            attributes::PCI_DOMAIN,
            attributes::PCI_BUS + self.number(),
            attributes::PCI_DEVICE
        )
    }

    /// The attribute with this `CUdevice_attribute` number; `None` when there is none.
    pub fn attribute(&self, number: i32) -> Option<i32> {
        match number {
            attributes::PCI_BUS_ID => Some(attributes::PCI_BUS + self.number()),
            _ => attributes::value(&self.machine.config, number),
        }
    }

    /// The primary context, retained or not; the same value for the runtime's life.
    ///
    /// # Errors
    /// [`Error::Deinitialized`] once the runtime is gone; [`Error::NotInitialized`] in the child
    /// of a fork.
    pub fn primary_context(&self) -> Result<Context> {
        check_fork()?;
        self.machine
            .primary(self.ordinal)
            .ok_or(Error::Deinitialized)
    }

    /// Retains the primary context, bringing it to life at the first call.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
    pub fn primary_retain(&self) -> Result<Context> {
        let primary = self.primary_context()?;
        let mut retained = self.state()?.retained.lock();
        if *retained == 0 {
            primary.activate();
        }
        *retained += 1;
        Ok(primary)
    }

    /// Releases the primary context; the last release ends its life.
    ///
    /// # Errors
    /// [`Error::InvalidContext`] when it is not retained.
    pub fn primary_release(&self) -> Result<()> {
        let primary = self.primary_context()?;
        let mut retained = self.state()?.retained.lock();
        match *retained {
            0 => {
                return Err(Error::InvalidContext(
                    "the primary context is not retained".into(),
                ));
            }
            1 => primary.end_life(false),
            _ => {}
        }
        *retained -= 1;
        Ok(())
    }

    /// Ends all work of the primary context, frees what it owns and clears its fault; those who
    /// have retained it go on with an empty one.
    ///
    /// # Errors
    /// [`Error::NotInitialized`] in the child of a fork.
    pub fn primary_reset(&self) -> Result<()> {
        let primary = self.primary_context()?;
        let retained = self.state()?.retained.lock();
        primary.end_life(*retained > 0);
        Ok(())
    }

    /// The primary context's flags and whether it is active.
    ///
    /// # Errors
    /// As [`Device::primary_context`].
    pub fn primary_state(&self) -> Result<PrimaryState> {
        let primary = self.primary_context()?;
        Ok(PrimaryState {
            flags: primary.flags(),
            active: primary.is_alive(),
        })
    }

    /// Changes the primary context's flags.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for unknown flags.
    pub fn primary_set_flags(&self, flags: u32) -> Result<()> {
        self.primary_context()?.set_flags(flags)
    }

    /// A new context.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for unknown flags.
    pub fn create_context(&self, flags: u32) -> Result<Context> {
        check_fork()?;
        check_flags(flags)?;
        Ok(Context::new(&self.machine, self.ordinal, false, flags))
    }
}
