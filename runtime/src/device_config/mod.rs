//! The configuration of the simulated devices.
//!
//! One [`DeviceConfig`] describes all devices of a machine. The default compute capability is 8.6.
//! With a higher capability, some of the supported programs choose code paths that need features of
//! newer GPUs. The default number of SMs is 28 to 48, or fewer if `ulimit -v` limits the address
//! space.

pub mod capability;
mod host;

pub use capability::Capability;

pub(crate) use host::cores;

use crate::environment::{MAX_SMS, env, number};
use crate::memory::{affordable_slots, default_device_memory};
use crate::visible_devices;

/// Bounds of the default number of SMs. The default is the number of cores, limited to these bounds. With the upper
/// bound and the default compute capability, the windows of CTAs occupy about 8 TiB of address space, in addition to
/// two windows for each worker.
const DEFAULT_SMS: (u32, u32) = (28, 48);

/// The configuration of all devices of a machine.
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
    /// Number of devices in the machine. All devices have the properties in this configuration.
    pub devices: u32,
    /// Which devices programs see, in the form of `CUDA_VISIBLE_DEVICES`. `None` means all devices.
    pub visible: Option<String>,
    /// Size of the memory of each device in bytes. `None` means an equal share of four fifths of the memory that this
    /// process may use.
    pub memory: Option<u64>,
    /// Reported name. If there are several devices, each device appends its number to this name.
    pub name: String,
}

impl DeviceConfig {
    /// Returns the default configuration with the changes that the following environment variables
    /// request: `MARGAY_COMPUTE_CAPABILITY` (8.6, 86 or sm_86), `MARGAY_DRIVER_VERSION`,
    /// `MARGAY_SMS`, `MARGAY_DEVICES`, `MARGAY_MEMORY` (a number of bytes, optionally with the
    /// suffix K, M or G), `MARGAY_DEVICE_NAME` and `CUDA_VISIBLE_DEVICES`.
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

    /// Returns the bytes of memory of each device.
    pub fn total_memory(&self) -> u64 {
        self.memory
            .unwrap_or_else(|| default_device_memory(self.devices))
    }

    /// Returns the numbers of the devices that programs see, by ordinal.
    pub fn visible_devices(&self) -> Vec<u32> {
        visible_devices::numbers(self.visible.as_deref(), self.devices)
    }
}

/// Returns the default number of multiprocessors. If `ulimit -v` limits the address space of the
/// process, the number is reduced, so that the address space suffices for the windows of all blocks
/// that can be resident at the same time.
fn default_sms(capability: Capability) -> u32 {
    let sms = (host::cores() as u32).clamp(DEFAULT_SMS.0, DEFAULT_SMS.1);
    let Some(slots) = affordable_slots() else {
        return sms;
    };
    // The number of windows is 4/3 of the maximum number of resident blocks, plus two for each worker.
    let workers = 2 * host::cores() as u64;
    let blocks = slots.saturating_sub(workers) / 4 * 3;
    let affordable = blocks / u64::from(capability.limits().ctas.max(1));
    sms.min(u32::try_from(affordable).unwrap_or(sms)).max(1)
}

/// Returns the reported driver version: 13050 for 13.5 (`MARGAY_DRIVER_VERSION`).
pub fn driver_version() -> i32 {
    number("MARGAY_DRIVER_VERSION")
        .and_then(|n| i32::try_from(n).ok())
        .filter(|&version| version > 0)
        .unwrap_or(13050)
}
