//! The processes and threads of a timeline: numbers, names and order.
//!
//! A viewer shows the host process, then the devices, then memory, then the workers of the runtime.

/// A group of tracks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Process {
    /// The traced process. Its tracks are OS threads.
    Host,
    /// A device. Its tracks are streams.
    Device(u32),
    /// Counters of bytes.
    Memory,
    /// The worker threads of the runtime.
    Workers,
}

impl Process {
    /// The number of the process in Chrome's format: 1 is the host, 2 the first device, 3 memory.
    pub(crate) fn number(self) -> u32 {
        match self {
            Process::Host => 1,
            Process::Device(0) => 2,
            Process::Memory => 3,
            Process::Workers => 4,
            Process::Device(index) => index.saturating_add(100),
        }
    }

    /// The position among the processes.
    pub(crate) fn rank(self) -> i32 {
        match self {
            Process::Host => 0,
            Process::Device(index) => {
                i32::try_from(index).map_or(MAX_DEVICE, |index| index.min(MAX_DEVICE) + 1)
            }
            Process::Memory => MAX_DEVICE + 2,
            Process::Workers => MAX_DEVICE + 3,
        }
    }

    /// The name of the process, if the caller gives none.
    pub(crate) fn default_name(self) -> String {
        match self {
            Process::Host => "Host".to_owned(),
            Process::Device(index) => format!("Device {index}"),
            Process::Memory => "Memory".to_owned(),
            Process::Workers => "Margay workers".to_owned(),
        }
    }
}

/// The rank of a device is at most this number.
const MAX_DEVICE: i32 = 1000;

/// The number of the process `process` in a format that contains the host's real number `host`.
///
/// Invented numbers differ from `host`.
pub(crate) fn distinct_number(process: Process, host: u32) -> u32 {
    match process {
        Process::Host => host,
        _ if process.number() == host => process.number() + PID_LIMIT,
        _ => process.number(),
    }
}

/// Linux numbers processes below this number.
const PID_LIMIT: u32 = 1 << 22;

/// Where events are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) process: Process,
    /// The thread: the number of an OS thread, a stream, a worker.
    pub(crate) thread: u64,
}

impl Place {
    /// The identity of the track in Perfetto's format.
    pub(crate) fn uuid(self) -> u64 {
        uuid(u64::from(self.process.number()), self.thread)
    }

    /// The place to which overlapping slices of this place move.
    pub(crate) fn overflow(self, level: u32) -> Place {
        Place {
            thread: self.thread.wrapping_add(u64::from(level) * OVERFLOW_STRIDE),
            ..self
        }
    }
}

/// The distance between the number of a thread and that of its overflow track.
const OVERFLOW_STRIDE: u64 = 1_000_000_000;

/// The identity of the track of a process.
pub(crate) fn process_uuid(process: Process) -> u64 {
    uuid(PROCESSES, u64::from(process.number()))
}

/// The identity of the track of an NVTX range.
pub(crate) fn range_uuid(id: u64) -> u64 {
    uuid(RANGES, id)
}

/// The identity of the track of the counter `name`.
pub(crate) fn counter_uuid(name: &str) -> u64 {
    let number = name
        .bytes()
        .fold(0, |number, byte| mix(number ^ u64::from(byte)));
    uuid(COUNTERS, number)
}

/// Spaces of identities beside those of the numbers of processes.
const PROCESSES: u64 = 1 << 32;
const RANGES: u64 = 2 << 32;
const COUNTERS: u64 = 3 << 32;

/// Returns a number that is the same for equal arguments and hardly ever for others, and never 0, which is the root.
fn uuid(space: u64, number: u64) -> u64 {
    mix(mix(space) ^ number).max(1)
}

/// The finaliser of the generator SplitMix64, a bijection.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_ordered_as_documented() {
        let order = [
            Process::Host,
            Process::Device(0),
            Process::Device(7),
            Process::Device(u32::MAX),
            Process::Memory,
            Process::Workers,
        ];
        assert!(order.is_sorted_by_key(|process| process.rank()));
        assert_eq!(order.map(Process::number), [1, 2, 107, u32::MAX, 3, 4]);
    }

    #[test]
    fn invented_process_numbers_differ_from_the_real_one() {
        assert_eq!(distinct_number(Process::Host, 2), 2);
        assert_eq!(distinct_number(Process::Device(0), 2), 2 + (1 << 22));
        assert_eq!(distinct_number(Process::Device(0), 4711), 2);
    }

    #[test]
    fn mix_is_splitmix64() {
        // The first two outputs of the published generator for the seed 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
