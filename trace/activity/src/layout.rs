//! Records as the structures of `cupti_activity.h`.
//!
//! [`write`] produces the structure of the newest known toolkit. The structures of older toolkits are prefixes of it:
//! new fields were only appended, so [`size`] is all that differs between toolkits. The test `layouts` compares both
//! with tables that C programs print from the headers.

use crate::record::*;
use crate::{Kind, Record};

/// Size of the largest structure.
pub const MOST_BYTES: usize = 248;

/// The device attributes (`CUdevice_attribute`) in [`Device::attributes`], each with the offset of its value.
pub const DEVICE_ATTRIBUTES: [(i32, usize); 26] = [
    // TOTAL_CONSTANT_MEMORY, L2_CACHE_SIZE, WARP_SIZE, CLOCK_RATE
    (9, 24),
    (38, 28),
    (10, 32),
    (13, 36),
    // ASYNC_ENGINE_COUNT, MULTIPROCESSOR_COUNT
    (40, 40),
    (16, 44),
    // MAX_BLOCKS_PER_MULTIPROCESSOR, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, MAX_REGISTERS_PER_MULTIPROCESSOR
    (106, 56),
    (81, 60),
    (82, 64),
    // MAX_REGISTERS_PER_BLOCK, MAX_SHARED_MEMORY_PER_BLOCK, MAX_THREADS_PER_BLOCK
    (12, 68),
    (8, 72),
    (1, 76),
    // MAX_BLOCK_DIM, MAX_GRID_DIM
    (2, 80),
    (3, 84),
    (4, 88),
    (5, 92),
    (6, 96),
    (7, 100),
    // COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR, ECC_ENABLED
    (75, 104),
    (76, 108),
    (32, 116),
    // MAX_THREADS_PER_MULTIPROCESSOR, which becomes a number of warps
    (39, 52),
    // CONCURRENT_KERNELS, which becomes a flag
    (31, 4),
    // MEMORY_CLOCK_RATE and GLOBAL_MEMORY_BUS_WIDTH, which become a bandwidth
    (36, 8),
    (37, 8),
    // NUMA_ID of the device's memory
    (134, 180),
];

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
