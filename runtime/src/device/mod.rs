//! Devices and the properties that they report.
//!
//! Attributes are derived from the [`DeviceConfig`]. Invariant: reported properties never change during the process.

pub mod attributes;

use std::fmt;
use std::sync::Arc;

pub use crate::device_config::{Capability, DeviceConfig, capability, driver_version};
pub use crate::visible_devices::{MAX_DEVICES, VISIBLE_DEVICES, uuid_of, uuid_text};

use crate::context::Context;
use crate::machine::Machine;

/// A simulated device. Clones refer to the same device.
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
    /// Returns the device with this ordinal, which must exist.
    pub(crate) fn of(machine: &Arc<Machine>, ordinal: i32) -> Device {
        Device {
            machine: Arc::clone(machine),
            ordinal,
        }
    }

    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Returns the device's configuration.
    pub fn config(&self) -> &DeviceConfig {
        &self.machine.config
    }

    /// Returns the ordinal among the devices that programs see.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Returns the device's number: its index among all configured devices, including those that programs do not see.
    pub fn number(&self) -> i32 {
        self.machine.number(self.ordinal)
    }

    /// Returns the name. All devices have the same name, as GPUs of one model do: XLA runs a program for several devices
    /// only on devices with the same name.
    pub fn name(&self) -> String {
        self.machine.config.name.clone()
    }

    /// Returns the UUID. It depends only on the device's number.
    pub fn uuid(&self) -> [u8; 16] {
        uuid_of(self.number())
    }

    /// Returns the locally unique ID and the node mask. Both are zero, as with Linux drivers.
    pub fn luid(&self) -> ([u8; 8], u32) {
        ([0; 8], 0)
    }

    /// Returns the size of the device's memory in bytes.
    pub fn total_memory(&self) -> u64 {
        self.machine.memory.device_info(self.ordinal).0
    }

    /// Returns the compute capability, major and minor.
    pub fn compute_capability(&self) -> (i32, i32) {
        let Capability { major, minor } = self.machine.config.capability;
        (major as i32, minor as i32)
    }

    /// Returns PCI domain, bus and device as text: `0000:a0:00.0`.
    pub fn pci_bus_id(&self) -> String {
        format!(
            "{:04x}:{:02x}:{:02x}.0",
            attributes::PCI_DOMAIN,
            attributes::PCI_BUS + self.number(),
            attributes::PCI_DEVICE
        )
    }

    /// Returns the value of the attribute with this `CUdevice_attribute` number; `None` when no attribute has this
    /// number.
    pub fn attribute(&self, number: i32) -> Option<i32> {
        match number {
            attributes::PCI_BUS_ID => Some(attributes::PCI_BUS + self.number()),
            _ => attributes::value(&self.machine.config, number),
        }
    }
}

impl Context {
    /// Returns the device of the context.
    pub fn device(&self) -> Device {
        Device::of(self.machine(), self.ordinal())
    }
}
