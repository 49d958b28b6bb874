//! Properties of Margay's devices. Programs can query them without starting the runtime. `margay
//! smi` prints the same properties.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use margay::device::attributes::{PCI_BUS, PCI_DEVICE, PCI_DOMAIN};
use margay::device::{DeviceConfig, uuid_text};

/// The number of CUDA cores of one multiprocessor. This is the number for compute capability 8.6;
/// Margay uses it for every compute capability.
const CORES_PER_SM: u32 = 128;

/// A device, with functions that return its properties and its current state.
#[derive(Debug)]
pub struct Facts {
    config: DeviceConfig,
    number: u32,
}

/// The size of the device's memory in bytes, and how much of it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The size of the device's memory, in bytes.
    pub total: u64,
    /// The size of the free part of the device's memory, in bytes.
    pub free: u64,
}

impl Facts {
    /// Returns the device with number `number`. Environment variables define the devices' properties.
    pub fn of(number: u32) -> Facts {
        Facts {
            config: DeviceConfig::from_env(),
            number,
        }
    }

    /// Returns the number of devices, including devices that CUDA programs cannot see.
    pub fn count() -> u32 {
        DeviceConfig::from_env().devices
    }

    /// Returns the ordinal of the device in CUDA programs with this environment, or `None` if `CUDA_VISIBLE_DEVICES`
    /// hides the device.
    pub fn ordinal(&self) -> Option<u32> {
        let visible = self.config.visible_devices();
        let found = visible.iter().position(|number| *number == self.number);
        found.map(|ordinal| ordinal as u32)
    }

    /// Returns the content of `CUDA_VISIBLE_DEVICES`, if it is set.
    pub fn visible_list(&self) -> Option<&str> {
        self.config.visible.as_deref()
    }

    /// Returns all devices.
    pub fn all() -> Vec<Facts> {
        (0..Facts::count()).map(Facts::of).collect()
    }

    /// Returns the device's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the device's name.
    pub fn name(&self) -> String {
        self.config.name.clone()
    }

    /// Returns the device's compute capability: its major and its minor number.
    pub fn capability(&self) -> (u32, u32) {
        (self.config.capability.major, self.config.capability.minor)
    }

    /// Returns the CUDA version of the driver: 13050 for 13.5.
    pub fn cuda_version(&self) -> i32 {
        self.config.driver_version
    }

    /// Returns the version of the driver as text: the driver branch and the CUDA version.
    pub fn driver_version(&self) -> String {
        let branch = match self.config.driver_version / 1000 {
            ..=11 => 450,
            12 => 525,
            _ => 580,
        };
        format!("{branch}.{}", self.config.driver_version)
    }

    /// Returns the total number of CUDA cores of the device's multiprocessors.
    pub fn cores(&self) -> u32 {
        self.config.sms.saturating_mul(CORES_PER_SM)
    }

    /// Returns the device's UUID as text.
    pub fn uuid(&self) -> String {
        uuid_text(self.number)
    }

    /// Returns the device's PCI location: the numbers of domain, bus and device.
    pub fn pci(&self) -> (u32, u32, u32) {
        (
            PCI_DOMAIN as u32,
            PCI_BUS as u32 + self.number,
            PCI_DEVICE as u32,
        )
    }

    /// Returns the device's PCI location as text. The domain has `domain_digits` digits: eight, or
    /// four in the older form.
    pub fn bus_id(&self, domain_digits: usize) -> String {
        let (domain, bus, device) = self.pci();
        format!("{domain:0domain_digits$X}:{bus:02X}:{device:02X}.0")
    }

    /// Returns the total and free sizes of the device's memory, which is memory of the host.
    pub fn memory(&self) -> Memory {
        let total = self.config.total_memory();
        Memory {
            total,
            free: available().unwrap_or(total).min(total),
        }
    }
}

/// Returns the number of bytes that the host can allocate without swapping.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Returns two numbers of clock ticks, summed over the host's cores since the start of the system:
/// the busy ticks, and all ticks.
fn ticks() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    // The fields are user, nice, system, idle, I/O wait, two kinds of interrupts and steal. Guest time is part of user
    // time.
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Some((all.checked_sub(idle)?, all))
}

/// The minimum duration of a measurement of the utilisation; the result of a shorter measurement
/// would be inaccurate.
const PERIOD: Duration = Duration::from_millis(100);

/// Returns the utilisation of the host's cores in percent, since the previous measurement. The first call measures for
/// a tenth of a second. A call within a tenth of a second after a measurement returns the result of that measurement.
pub fn utilization() -> Option<u32> {
    type Last = Option<(Instant, (u64, u64), u32)>;
    static LAST: Mutex<Last> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let (then, before) = match *last {
        Some((then, _, percent)) if then.elapsed() < PERIOD => return Some(percent),
        Some((then, before, _)) => (then, before),
        None => {
            let before = ticks()?;
            let then = Instant::now();
            std::thread::sleep(PERIOD);
            (then, before)
        }
    };
    debug_assert!(then.elapsed() >= PERIOD);
    let now = ticks()?;
    let (busy, all) = (
        now.0.saturating_sub(before.0),
        now.1.saturating_sub(before.1),
    );
    let percent = (busy * 100).checked_div(all).unwrap_or(0).min(100) as u32;
    *last = Some((Instant::now(), now, percent));
    Some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_forms() {
        let facts = Facts::of(0);
        assert_eq!(facts.uuid(), "GPU-4d617267-6179-2d43-5055-2d6465762d30");
        assert_eq!(facts.bus_id(8), "00000000:A0:00.0");
        assert_eq!(facts.bus_id(4), "0000:A0:00.0");
        let second = Facts::of(1);
        assert_eq!(second.uuid(), "GPU-4d617267-6179-2d43-5055-2d6465762d31");
        assert_eq!(second.bus_id(8), "00000000:A1:00.0");
    }

    #[test]
    fn the_host_tells_memory_and_use() {
        let memory = Facts::of(0).memory();
        assert!(
            memory.total >= 1 << 28 && memory.free <= memory.total,
            "{memory:?}"
        );
        assert!(utilization().unwrap() <= 100);
        assert!(utilization().unwrap() <= 100);
    }
}
