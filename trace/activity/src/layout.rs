//! Records as the structures of `cupti_activity.h`.
//!
//! [`write()`] produces the structure of the newest known toolkit. The structures of older toolkits are prefixes of it:
//! new fields were only appended, so [`size`] is all that differs between toolkits. The test `layouts` compares both
//! with tables that C programs print from the headers.

pub use crate::record::DEVICE_ATTRIBUTES;
use crate::record::*;
use crate::{Kind, Record};

/// Size of the largest structure.
pub const MOST_BYTES: usize = 248;

/// A toolkit whose structures are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toolkit {
    /// CUDA 12.
    Cuda12,
    /// CUDA 13.
    Cuda13,
}

/// Returns the size of the structure of a kind.
///
/// ```
/// use margay_activity::layout::{Toolkit, size};
/// use margay_activity::Kind;
///
/// assert_eq!(size(Kind::ConcurrentKernel, Toolkit::Cuda12), 208);
/// assert_eq!(size(Kind::ConcurrentKernel, Toolkit::Cuda13), 248);
/// ```
pub fn size(kind: Kind, toolkit: Toolkit) -> usize {
    let (older, newer) = match kind {
        Kind::Copy => (96, 112),
        Kind::Fill => (88, 104),
        Kind::Kernel | Kind::ConcurrentKernel => (208, 248),
        Kind::Driver => (40, 40),
        Kind::Device => (184, 192),
        Kind::Context => (32, 40),
        Kind::Marker => (56, 56),
        Kind::MarkerData => (32, 40),
        Kind::Overhead => (56, 56),
        Kind::PeerCopy => (96, 96),
        Kind::Function => (32, 32),
        Kind::Module => (24, 24),
        Kind::CudaEvent => (56, 80),
        Kind::Stream => (24, 24),
        Kind::Synchronisation => (56, 56),
        Kind::ExternalCorrelation => (24, 24),
        Kind::Memory => (128, 128),
    };
    match toolkit {
        Toolkit::Cuda12 => older,
        Toolkit::Cuda13 => newer,
    }
}

/// CUPTI's number for an unknown stream or event (`CUPTI_SYNCHRONIZATION_INVALID_VALUE`).
const INVALID: u32 = u32::MAX;

/// CUPTI's number for an unknown hardware channel (`CUPTI_INVALID_CHANNEL_ID`).
const NO_CHANNEL: u32 = u32::MAX;

/// A structure.
struct Bytes([u8; MOST_BYTES]);

impl Bytes {
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> &mut Bytes {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    fn u8(&mut self, at: usize, value: u8) -> &mut Bytes {
        self.put(at, [value])
    }

    fn u16(&mut self, at: usize, value: u16) -> &mut Bytes {
        self.put(at, value.to_ne_bytes())
    }

    fn u32(&mut self, at: usize, value: u32) -> &mut Bytes {
        self.put(at, value.to_ne_bytes())
    }

    fn i32(&mut self, at: usize, value: i32) -> &mut Bytes {
        self.put(at, value.to_ne_bytes())
    }

    fn u64(&mut self, at: usize, value: u64) -> &mut Bytes {
        self.put(at, value.to_ne_bytes())
    }

    fn name(&mut self, at: usize, name: Option<crate::Name>) -> &mut Bytes {
        let address = name.map_or(0, |name| name.pointer() as usize);
        self.put(at, address.to_ne_bytes())
    }

    /// Writes start, end, device, context and stream, which follow one another in several structures.
    fn place(&mut self, at: usize, place: &Place) -> &mut Bytes {
        self.u64(at, place.start).u64(at + 8, place.end);
        self.u32(at + 16, place.device)
            .u32(at + 20, place.context)
            .u32(at + 24, place.stream)
    }
}

/// Writes a record as a structure of the newest toolkit into a zeroed buffer, and returns it.
pub fn write(record: &Record) -> [u8; MOST_BYTES] {
    let mut bytes = Bytes([0; MOST_BYTES]);
    let to = &mut bytes;
    to.u32(0, record.kind() as u32);
    match record {
        Record::Kernel(kernel) => write_kernel(to, kernel),
        Record::Copy(copy) => write_copy(to, copy),
        Record::Fill(fill) => write_fill(to, fill),
        Record::Call(call) => write_call(to, call),
        Record::Device(device) => write_device(to, device),
        Record::Context(context) => write_context(to, context),
        Record::Stream(stream) => write_stream(to, stream),
        Record::Synchronisation(wait) => write_wait(to, wait),
        Record::CudaEvent(event) => write_event(to, event),
        Record::Module(module) => drop(to.u32(4, module.context).u32(8, module.id)),
        Record::Function(function) => write_function(to, function),
        Record::Marker(marker) => write_marker(to, marker),
        Record::MarkerData(data) => write_marker_data(to, data),
        Record::Memory(memory) => write_memory(to, memory),
        Record::ExternalCorrelation(external) => {
            to.u32(4, external.kind)
                .u64(8, external.id)
                .u32(16, external.correlation);
        }
        Record::Overhead(overhead) => write_overhead(to, overhead),
    }
    bytes.0
}

fn write_kernel(to: &mut Bytes, kernel: &Kernel) {
    to.u16(6, kernel.registers)
        .u64(16, kernel.place.start)
        .u64(24, kernel.place.end)
        .u32(40, kernel.place.device)
        .u32(44, kernel.place.context)
        .u32(48, kernel.place.stream);
    for axis in 0..3 {
        to.i32(52 + 4 * axis, kernel.grid[axis])
            .i32(64 + 4 * axis, kernel.block[axis])
            .u32(176 + 4 * axis, kernel.cluster[axis]);
    }
    to.i32(76, kernel.static_shared)
        .i32(80, kernel.dynamic_shared)
        .u32(92, kernel.place.correlation)
        .put(96, kernel.launch.to_ne_bytes())
        .name(104, Some(kernel.name))
        .u64(120, kernel.queued)
        .u64(128, kernel.submitted)
        .u32(168, NO_CHANNEL)
        .u32(156, kernel.place.graph);
}

fn write_copy(to: &mut Bytes, copy: &Copy) {
    to.u8(4, copy.kind as u8)
        .u8(5, copy.from as u8)
        .u8(6, copy.to as u8)
        .u8(7, copy.is_asynchronous.into())
        .u64(8, copy.bytes)
        .place(16, &copy.place);
    match copy.devices {
        None => {
            to.u32(44, copy.place.correlation)
                .u32(72, copy.place.graph)
                .u32(76, NO_CHANNEL)
                .u64(88, 1);
        }
        Some([from, into]) => {
            to.u32(44, from)
                .u32(48, copy.place.context)
                .u32(52, into)
                .u32(56, copy.place.context)
                .u32(60, copy.place.correlation)
                .u32(80, copy.place.graph)
                .u32(84, NO_CHANNEL);
        }
    }
}

fn write_fill(to: &mut Bytes, fill: &Fill) {
    to.u32(4, fill.value)
        .u64(8, fill.bytes)
        .place(16, &fill.place)
        .u32(44, fill.place.correlation)
        .u16(48, fill.is_asynchronous.into())
        .u16(50, fill.memory as u16)
        .u32(72, fill.place.graph)
        .u32(76, NO_CHANNEL);
}

fn write_call(to: &mut Bytes, call: &Call) {
    to.u32(4, call.function)
        .u64(8, call.start)
        .u64(16, call.end)
        .u32(24, call.process)
        .u32(28, call.thread)
        .u32(32, call.correlation)
        .u32(36, call.result);
}

fn write_device(to: &mut Bytes, device: &Device) {
    let (mut clock, mut width) = (0, 0);
    for (&(attribute, at), &value) in DEVICE_ATTRIBUTES.iter().zip(&device.attributes) {
        match attribute {
            36 => clock = u64::from(value),
            37 => width = u64::from(value),
            39 => drop(to.u32(at, value / 32)),
            31 => drop(to.u32(at, u32::from(value != 0))),
            _ => drop(to.u32(at, value)),
        }
    }
    // Kilohertz, bits and two transfers a clock become kilobytes a second.
    to.u64(8, clock * 2 * width / 8)
        .u64(16, device.memory)
        .u32(112, device.id)
        .put(120, device.uuid)
        .name(136, Some(device.name))
        .u8(144, 1);
}

fn write_context(to: &mut Bytes, context: &Context) {
    const CUDA: u16 = 1;
    to.u32(4, context.id)
        .u32(8, context.device)
        .u16(12, CUDA)
        .u16(14, context.null_stream as u16)
        .u32(32, context.process);
}

fn write_stream(to: &mut Bytes, stream: &Stream) {
    to.u32(4, stream.context)
        .u32(8, stream.id)
        .i32(12, stream.priority)
        .u32(16, stream.flag as u32)
        .u32(20, stream.correlation);
}

fn write_wait(to: &mut Bytes, wait: &Synchronisation) {
    to.u32(4, wait.kind as u32)
        .u64(8, wait.start)
        .u64(16, wait.end)
        .u32(24, wait.correlation)
        .u32(28, wait.context)
        .u32(32, wait.stream.unwrap_or(INVALID))
        .u32(36, wait.event.unwrap_or(INVALID))
        .u64(40, wait.record);
}

fn write_event(to: &mut Bytes, event: &CudaEvent) {
    to.u32(4, event.correlation)
        .u32(8, event.context)
        .u32(12, event.stream)
        .u32(16, event.id)
        .u32(24, event.device)
        .u64(48, event.record);
}

fn write_function(to: &mut Bytes, function: &Function) {
    to.u32(4, function.id)
        .u32(8, function.context)
        .u32(12, function.module)
        .u32(16, function.index)
        .name(24, Some(function.name));
}

fn write_marker(to: &mut Bytes, marker: &Marker) {
    const THREAD: u32 = 2;
    to.u32(4, marker.kind as u32)
        .u64(8, marker.time)
        .u32(16, marker.id)
        .u32(20, THREAD)
        .u32(24, marker.process)
        .u32(28, marker.thread)
        .name(40, marker.name)
        .name(48, marker.domain);
}

fn write_marker_data(to: &mut Bytes, data: &MarkerData) {
    const NO_COLOUR: u32 = 1;
    const ARGB: u32 = 2;
    to.u32(4, data.colour.map_or(NO_COLOUR, |_| ARGB))
        .u32(8, data.id)
        .u32(24, data.colour.unwrap_or(0))
        .u32(28, data.category);
    // `CUpti_MetricValueKind`: 0 double, 1 unsigned, 4 signed.
    match data.payload {
        Some(Payload::Unsigned(value)) => drop(to.u32(12, 1).u64(16, value)),
        Some(Payload::Signed(value)) => drop(to.u32(12, 4).u64(16, value as u64)),
        Some(Payload::Float(value)) => drop(to.u32(12, 0).u64(16, value.to_bits())),
        None => {}
    }
}

fn write_memory(to: &mut Bytes, memory: &Memory) {
    to.u32(4, if memory.is_release { 2 } else { 1 })
        .u32(8, memory.kind as u32)
        .u32(12, memory.correlation)
        .u64(16, memory.address)
        .u64(24, memory.bytes)
        .u64(32, memory.time)
        .u32(48, memory.process)
        .u32(52, memory.device)
        .u32(56, memory.context)
        .u32(72, memory.is_asynchronous.into());
}

fn write_overhead(to: &mut Bytes, overhead: &Overhead) {
    const THREAD: u32 = 2;
    to.u32(4, overhead.kind as u32)
        .u32(8, THREAD)
        .u32(12, overhead.process)
        .u32(16, overhead.thread)
        .u64(24, overhead.start)
        .u64(32, overhead.end)
        .u32(40, overhead.correlation);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    /// The structures of the headers, printed by a C program.
    const HEADERS: &str = include_str!("../data/layouts.txt");

    /// Returns the lines of a structure.
    fn lines(kind: &str) -> Vec<Vec<&'static str>> {
        let rest = HEADERS
            .lines()
            .skip_while(|line| line.split(' ').next() != Some(kind));
        let lines = rest
            .enumerate()
            .take_while(|(index, line)| *index == 0 || line.starts_with("  "));
        lines
            .map(|(_, line)| line.split_whitespace().collect())
            .collect()
    }

    /// Returns the value of an integer field of a structure.
    fn field(kind: &str, bytes: &[u8], name: &str) -> u64 {
        let lines = lines(kind);
        let line = lines.iter().find(|line| line[0] == name).expect(name);
        let (at, size): (usize, usize) = (line[1].parse().unwrap(), line[2].parse().unwrap());
        let mut value = [0; 8];
        value[..size].copy_from_slice(&bytes[at..at + size]);
        u64::from_le_bytes(value)
    }

    #[track_caller]
    fn check(kind: &str, record: Record, fields: &[(&str, u64)]) {
        let bytes = write(&record);
        assert_eq!(field(kind, &bytes, "kind"), record.kind() as u64);
        for &(name, expected) in fields {
            assert_eq!(field(kind, &bytes, name), expected, "{name}");
        }
        // Nothing is written behind the structure, and nothing that is not a field listed here is required to be zero.
        assert!(
            bytes[size(record.kind(), Toolkit::Cuda13)..]
                .iter()
                .all(|&byte| byte == 0)
        );
    }

    #[test]
    fn sizes_are_those_of_the_headers() {
        let names = [
            "MEMCPY",
            "MEMSET",
            "CONCURRENT_KERNEL",
            "DRIVER",
            "DEVICE",
            "CONTEXT",
            "CONCURRENT_KERNEL",
            "MARKER",
            "MARKER_DATA",
            "OVERHEAD",
            "MEMCPY2",
            "FUNCTION",
            "MODULE",
            "CUDA_EVENT",
            "STREAM",
            "SYNCHRONIZATION",
            "EXTERNAL_CORRELATION",
            "MEMORY2",
        ];
        for (kind, name) in Kind::ALL.into_iter().zip(names) {
            let header = &lines(name)[0];
            assert_eq!(header[2], size(kind, Toolkit::Cuda12).to_string(), "{name}");
            assert_eq!(header[4], size(kind, Toolkit::Cuda13).to_string(), "{name}");
            assert!(size(kind, Toolkit::Cuda13) <= MOST_BYTES);
        }
    }

    const PLACE: Place = Place {
        start: 0x11_0000_0001,
        end: 0x11_0000_0002,
        device: 3,
        context: 4,
        stream: 5,
        correlation: 6,
        graph: 7,
    };
    const PLACED: [(&str, u64); 7] = [
        ("start", 0x11_0000_0001),
        ("end", 0x11_0000_0002),
        ("deviceId", 3),
        ("contextId", 4),
        ("streamId", 5),
        ("correlationId", 6),
        ("graphId", 7),
    ];

    #[test]
    fn kernels_have_the_layout_of_the_headers() {
        let kernel = Kernel {
            place: PLACE,
            is_concurrent: true,
            name: Name::of("add"),
            grid: [10, 11, 12],
            block: [13, 14, 15],
            cluster: [16, 17, 18],
            registers: 19,
            static_shared: 20,
            dynamic_shared: 21,
            launch: 0x2200_0000_0022,
            queued: 0x2300_0000_0023,
            submitted: 0x2400_0000_0024,
        };
        let record = Record::Kernel(Box::new(kernel));
        check("CONCURRENT_KERNEL", record.clone(), &PLACED);
        let fields = [
            ("gridX", 10),
            ("gridY", 11),
            ("gridZ", 12),
            ("blockX", 13),
            ("blockY", 14),
            ("blockZ", 15),
            ("clusterX", 16),
            ("clusterY", 17),
            ("clusterZ", 18),
            ("registersPerThread", 19),
            ("staticSharedMemory", 20),
            ("dynamicSharedMemory", 21),
            ("gridId", 0x2200_0000_0022),
            ("queued", 0x2300_0000_0023),
            ("submitted", 0x2400_0000_0024),
            ("name", Name::of("add").pointer() as u64),
            ("channelID", 0xffff_ffff),
            ("completed", 0),
            ("localMemoryTotal", 0),
        ];
        check("CONCURRENT_KERNEL", record, &fields);
    }

    #[test]
    fn copies_and_fills_have_the_layout_of_the_headers() {
        let copy = Copy {
            place: PLACE,
            kind: CopyKind::HostToDevice,
            from: MemoryKind::Pinned,
            to: MemoryKind::Managed,
            is_asynchronous: true,
            bytes: 0x8000_0000_0000,
            devices: None,
        };
        let fields = [
            ("copyKind", 1),
            ("srcKind", 2),
            ("dstKind", 5),
            ("flags", 1),
            ("bytes", 0x8000_0000_0000),
            ("copyCount", 1),
            ("channelID", 0xffff_ffff),
        ];
        check("MEMCPY", Record::Copy(copy), &PLACED);
        check("MEMCPY", Record::Copy(copy), &fields);
        let peer = Record::Copy(Copy {
            kind: CopyKind::PeerToPeer,
            devices: Some([21, 22]),
            ..copy
        });
        check("MEMCPY2", peer.clone(), &PLACED);
        let fields = [
            ("copyKind", 10),
            ("srcDeviceId", 21),
            ("dstDeviceId", 22),
            ("srcContextId", 4),
            ("dstContextId", 4),
        ];
        check("MEMCPY2", peer, &fields);
        let fill = Record::Fill(Fill {
            place: PLACE,
            value: 31,
            bytes: 0x9000_0000_0000,
            memory: MemoryKind::Device,
            is_asynchronous: true,
        });
        check("MEMSET", fill.clone(), &PLACED);
        let fields = [
            ("value", 31),
            ("bytes", 0x9000_0000_0000),
            ("memoryKind", 3),
            ("flags", 1),
        ];
        check("MEMSET", fill, &fields);
    }

    #[test]
    fn records_of_calls_have_the_layout_of_the_headers() {
        let call = Record::Call(Call {
            function: 307,
            start: 0x1_0000_0001,
            end: 0x1_0000_0002,
            process: 41,
            thread: 42,
            correlation: 43,
            result: 700,
        });
        let fields = [
            ("cbid", 307),
            ("start", 0x1_0000_0001),
            ("end", 0x1_0000_0002),
            ("processId", 41),
            ("threadId", 42),
            ("correlationId", 43),
            ("returnValue", 700),
        ];
        check("DRIVER", call, &fields);
        let wait = Record::Synchronisation(Synchronisation {
            kind: SynchronisationKind::StreamEvent,
            start: 0x1_0000_0003,
            end: 0x1_0000_0004,
            correlation: 44,
            context: 45,
            stream: Some(46),
            event: None,
            record: 0x2_0000_0047,
        });
        let fields = [
            ("type", 2),
            ("start", 0x1_0000_0003),
            ("end", 0x1_0000_0004),
            ("correlationId", 44),
            ("contextId", 45),
            ("streamId", 46),
            ("cudaEventId", 0xffff_ffff),
            ("cudaEventSyncId", 0x2_0000_0047),
        ];
        check("SYNCHRONIZATION", wait, &fields);
        let external = Record::ExternalCorrelation(ExternalCorrelation {
            kind: 3,
            id: 0x3_0000_0048,
            correlation: 49,
        });
        let fields = [
            ("externalKind", 3),
            ("externalId", 0x3_0000_0048),
            ("correlationId", 49),
        ];
        check("EXTERNAL_CORRELATION", external, &fields);
        let overhead = Record::Overhead(Overhead {
            kind: OverheadKind::BufferRequest,
            process: 51,
            thread: 52,
            start: 0x1_0000_0005,
            end: 0x1_0000_0006,
            correlation: 53,
        });
        let fields = [
            ("overheadKind", 7 << 16),
            ("objectKind", 2),
            ("start", 0x1_0000_0005),
            ("end", 0x1_0000_0006),
            ("correlationId", 53),
        ];
        check("OVERHEAD", overhead, &fields);
    }

    #[test]
    fn objects_have_the_layout_of_the_headers() {
        let mut attributes = [0; DEVICE_ATTRIBUTES.len()];
        for (value, (attribute, _)) in attributes.iter_mut().zip(DEVICE_ATTRIBUTES) {
            *value = match attribute {
                36 => 1000,
                37 => 256,
                39 => 2048,
                31 => 1,
                number => 100 + number as u32,
            };
        }
        let device = Record::Device(Box::new(Device {
            id: 61,
            name: Name::of("Margay"),
            uuid: *b"0123456789abcdef",
            memory: 0x4_0000_0062,
            attributes,
        }));
        // Numbers of CUdevice_attribute in cuda.h, plus 100.
        let fields = [
            ("id", 61),
            ("globalMemorySize", 0x4_0000_0062),
            ("flags", 1),
            ("globalMemoryBandwidth", 64_000),
            ("constantMemorySize", 109),
            ("l2CacheSize", 138),
            ("numThreadsPerWarp", 110),
            ("coreClockRate", 113),
            ("numMemcpyEngines", 140),
            ("numMultiprocessors", 116),
            ("maxWarpsPerMultiprocessor", 64),
            ("maxBlocksPerMultiprocessor", 206),
            ("maxSharedMemoryPerMultiprocessor", 181),
            ("maxRegistersPerMultiprocessor", 182),
            ("maxRegistersPerBlock", 112),
            ("maxSharedMemoryPerBlock", 108),
            ("maxThreadsPerBlock", 101),
            ("maxBlockDimX", 102),
            ("maxBlockDimZ", 104),
            ("maxGridDimX", 105),
            ("maxGridDimZ", 107),
            ("computeCapabilityMajor", 175),
            ("computeCapabilityMinor", 176),
            ("eccEnabled", 132),
            ("isCudaVisible", 1),
            ("numaId", 234),
        ];
        check("DEVICE", device.clone(), &fields);
        let bytes = write(&device);
        assert_eq!(&bytes[120..136], b"0123456789abcdef");
        assert_eq!(
            bytes[136..144],
            (Name::of("Margay").pointer() as u64).to_le_bytes()
        );

        let context = Context {
            id: 71,
            device: 72,
            null_stream: 73,
            process: 74,
        };
        let fields = [
            ("contextId", 71),
            ("deviceId", 72),
            ("computeApiKind", 1),
            ("nullStreamId", 73),
            ("processId", 74),
        ];
        check("CONTEXT", Record::Context(context), &fields);
        let stream = Stream {
            context: 81,
            id: 82,
            priority: -1,
            flag: StreamFlag::NonBlocking,
            correlation: 83,
        };
        let fields = [
            ("contextId", 81),
            ("streamId", 82),
            ("priority", 0xffff_ffff),
            ("flag", 2),
            ("correlationId", 83),
        ];
        check("STREAM", Record::Stream(stream), &fields);
        let event = CudaEvent {
            id: 91,
            context: 92,
            device: 93,
            stream: 94,
            correlation: 95,
            record: 0x5_0000_0096,
        };
        let fields = [
            ("eventId", 91),
            ("contextId", 92),
            ("deviceId", 93),
            ("streamId", 94),
            ("correlationId", 95),
            ("cudaEventSyncId", 0x5_0000_0096),
        ];
        check("CUDA_EVENT", Record::CudaEvent(event), &fields);
        check(
            "MODULE",
            Record::Module(Module { id: 1, context: 2 }),
            &[("id", 1), ("contextId", 2)],
        );
        let function = Function {
            id: 3,
            context: 4,
            module: 5,
            index: 6,
            name: Name::of("f"),
        };
        let fields = [
            ("id", 3),
            ("contextId", 4),
            ("moduleId", 5),
            ("functionIndex", 6),
        ];
        check("FUNCTION", Record::Function(function), &fields);
        // The header's structure has a pointer to the name behind four bytes of padding.
        let bytes = write(&Record::Function(function));
        assert_eq!(
            bytes[24..32],
            (Name::of("f").pointer() as u64).to_le_bytes()
        );
    }

    #[test]
    fn annotations_and_memory_have_the_layout_of_the_headers() {
        let marker = Marker {
            kind: MarkerKind::Start,
            time: 0x6_0000_0001,
            id: 2,
            process: 3,
            thread: 4,
            name: Some(Name::of("epoch")),
            domain: None,
        };
        let fields = [
            ("flags", 2),
            ("timestamp", 0x6_0000_0001),
            ("id", 2),
            ("objectKind", 2),
            ("name", Name::of("epoch").pointer() as u64),
            ("domain", 0),
        ];
        check("MARKER", Record::Marker(marker), &fields);
        let bytes = write(&Record::Marker(marker));
        assert_eq!(bytes[24..32], [3, 0, 0, 0, 4, 0, 0, 0]);
        let data = MarkerData {
            id: 5,
            colour: Some(0xff00_ff00),
            category: 6,
            payload: Some(Payload::Signed(-7)),
        };
        let fields = [
            ("flags", 2),
            ("id", 5),
            ("color", 0xff00_ff00),
            ("category", 6),
            ("payloadKind", 4),
            ("payload", -7i64 as u64),
        ];
        check("MARKER_DATA", Record::MarkerData(data), &fields);
        let memory = Memory {
            is_release: true,
            kind: MemoryKind::Pinned,
            correlation: 8,
            address: 0x7_0000_0009,
            bytes: 0x7_0000_000a,
            time: 0x7_0000_000b,
            process: 12,
            device: 13,
            context: 14,
            is_asynchronous: true,
        };
        let fields = [
            ("memoryOperationType", 2),
            ("memoryKind", 2),
            ("correlationId", 8),
            ("address", 0x7_0000_0009),
            ("bytes", 0x7_0000_000a),
            ("timestamp", 0x7_0000_000b),
            ("processId", 12),
            ("deviceId", 13),
            ("contextId", 14),
            ("isAsync", 1),
        ];
        check("MEMORY2", Record::Memory(memory), &fields);
    }
}
