//! The layout of the inputs and results of generated kernels.
//!
//! The results are in one buffer of sections. Most sections have a cell for each thread, so that no two threads write
//! the same cell. Invariant: a section contains values of one kind, so that the comparison can recognise NaNs, whose
//! payload PTX does not specify.

use super::numbers::Random;

/// Size of an input section in bytes.
pub const INPUT_SECTION: u32 = 16384;
/// Size of the inputs in bytes. The inputs have four sections: for integers, f32, f64 and f16.
pub const INPUT_BYTES: u32 = 4 * INPUT_SECTION;
/// Maximum number of threads of a launch. An input section has at least eight bytes for each thread.
pub const MOST_THREADS: u32 = 1536;
/// Number of accumulators of each atomic operation. An accumulator is a cell that all threads
/// change with this operation.
pub const ACCUMULATORS: u32 = 16;

/// The type of values in a section's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Integers and bits, which are compared exactly.
    Bits,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

/// The registers in which a generated kernel computes. Each entry contains the first letter of the
/// registers' names, the number of registers, the size of a register in bytes, and the kind of its
/// values.
pub const REGISTERS: [(char, u32, u32, Kind); 8] = [
    ('r', 5, 4, Kind::Bits),
    ('d', 3, 8, Kind::Bits),
    ('f', 3, 4, Kind::F32),
    ('e', 2, 8, Kind::F64),
    ('h', 2, 2, Kind::Bits),
    ('g', 2, 2, Kind::F16),
    ('w', 2, 4, Kind::Bits),
    // One word contains all predicates of a thread.
    ('p', 1, 4, Kind::Bits),
];

/// The atomic operations on the 32-bit accumulators. Each operation has accumulators of its own.
pub const REDUCTIONS: [(&str, &str); 8] = [
    ("add", "u32"),
    ("and", "b32"),
    ("or", "b32"),
    ("xor", "b32"),
    ("min", "s32"),
    ("max", "s32"),
    ("min", "u32"),
    ("max", "u32"),
];

/// The atomic operations on the 64-bit accumulators. Each operation has accumulators of its own.
pub const WIDE_REDUCTIONS: [(&str, &str); 4] = [
    ("add", "u64"),
    ("xor", "b64"),
    ("min", "s64"),
    ("max", "u64"),
];

/// A section of the result buffer.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Offset in bytes of the section in the result buffer.
    pub offset: u32,
    /// Size of the section in bytes.
    pub bytes: u32,
    /// Kind of the section's values.
    pub kind: Kind,
}

/// The layout of the result buffer of a launch.
#[derive(Clone, Debug)]
pub struct Layout {
    /// A section for each entry of [`REGISTERS`], with one cell for each register and thread. The cells of all threads
    /// for one register are contiguous.
    pub registers: Vec<Section>,
    /// The final values of the CTA's accumulators in shared memory. The section has one word for
    /// each thread.
    pub shared: Section,
    /// 32 bytes for each thread, with integers of any type.
    pub integers: Section,
    /// Four words for each thread; the cells of all threads are contiguous.
    pub words: Section,
    /// Four f32 values for each thread; the cells of all threads are contiguous.
    pub floats: Section,
    /// 16 bytes of f32 values for each thread.
    pub quads: Section,
    /// Two f64 values for each thread; the cells of all threads are contiguous.
    pub doubles: Section,
    /// Four f16 values for each thread; the cells of all threads are contiguous.
    pub halves: Section,
    /// The 32-bit accumulators.
    pub accumulators: Section,
    /// The 64-bit accumulators.
    pub wide_accumulators: Section,
    /// Total size of all sections in bytes.
    pub bytes: u32,
}

impl Layout {
    /// Returns the layout of the results of a launch with `threads` threads.
    pub fn new(threads: u32) -> Layout {
        let mut end = 0u32;
        let mut section = |bytes: u32, kind| {
            let offset = end;
            end = (offset + bytes).next_multiple_of(64) + 64;
            Section {
                offset,
                bytes,
                kind,
            }
        };
        let registers = REGISTERS
            .iter()
            .map(|&(_, count, bytes, kind)| section(count * bytes * threads, kind))
            .collect();
        let words = |count: usize| count as u32 * ACCUMULATORS;
        Layout {
            registers,
            shared: section(4 * threads, Kind::Bits),
            integers: section(32 * threads, Kind::Bits),
            words: section(16 * threads, Kind::Bits),
            floats: section(16 * threads, Kind::F32),
            quads: section(16 * threads, Kind::F32),
            doubles: section(16 * threads, Kind::F64),
            halves: section(8 * threads, Kind::F16),
            accumulators: section(4 * words(REDUCTIONS.len()), Kind::Bits),
            wide_accumulators: section(8 * words(WIDE_REDUCTIONS.len()), Kind::Bits),
            bytes: end,
        }
    }

    fn sections(&self) -> impl Iterator<Item = &Section> {
        self.registers.iter().chain([
            &self.shared,
            &self.integers,
            &self.words,
            &self.floats,
            &self.quads,
            &self.doubles,
            &self.halves,
            &self.accumulators,
            &self.wide_accumulators,
        ])
    }

    fn kind_at(&self, at: u32) -> Kind {
        let inside = |s: &&Section| (s.offset..s.offset + s.bytes).contains(&at);
        self.sections().find(inside).map_or(Kind::Bits, |s| s.kind)
    }

    /// Returns the content of the result buffer before the launch.
    pub fn before(&self) -> Vec<u8> {
        (0..self.bytes)
            .map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect()
    }

    /// Returns a description of the first difference between two result buffers; `None` if they are
    /// equal. In a section of floating-point values, all NaNs count as equal.
    pub fn difference(&self, left: &[u8], right: &[u8]) -> Option<String> {
        let mut at = 0;
        loop {
            let rest = left[at..].iter().zip(&right[at..]);
            at += rest.into_iter().position(|(a, b)| a != b)?;
            let kind = self.kind_at(at as u32);
            let (bytes, exponent) = match kind {
                Kind::Bits => (4, 0),
                Kind::F16 => (2, 0x7c00),
                Kind::F32 => (4, 0x7f80_0000),
                Kind::F64 => (8, 0x7ff0_0000_0000_0000),
            };
            let start = at / bytes * bytes;
            let value = |all: &[u8]| {
                let mut cell = [0; 8];
                cell[..bytes].copy_from_slice(&all[start..start + bytes]);
                u64::from_le_bytes(cell)
            };
            let (a, b) = (value(left), value(right));
            let is_nan = |bits: u64| bits & !(1 << (8 * bytes - 1)) > exponent;
            if kind == Kind::Bits || !(is_nan(a) && is_nan(b)) {
                return Some(self.describe(start as u32, kind, a, b));
            }
            at = start + bytes;
        }
    }

    fn describe(&self, at: u32, kind: Kind, a: u64, b: u64) -> String {
        let parts = [
            ("shared", &self.shared),
            ("integers", &self.integers),
            ("words", &self.words),
            ("floats", &self.floats),
            ("quads", &self.quads),
            ("doubles", &self.doubles),
            ("halves", &self.halves),
            ("accumulators", &self.accumulators),
            ("wide accumulators", &self.wide_accumulators),
        ];
        let inside = |s: &Section| (s.offset..s.offset + s.bytes).contains(&at);
        for ((letter, count, bytes, _), section) in REGISTERS.iter().zip(&self.registers) {
            if inside(section) {
                let cell = (at - section.offset) / bytes;
                let threads = section.bytes / bytes / count;
                let (register, thread) = (cell / threads, cell % threads);
                return format!("%{letter}{register} of thread {thread}: {a:#x}, {b:#x}");
            }
        }
        let part = parts.iter().find(|(_, section)| inside(section));
        let (name, from) = part.map_or(("between sections", 0), |(name, s)| (name, s.offset));
        format!("{name} at {}: {a:#x}, {b:#x} ({kind:?})", at - from)
    }
}

const EDGES_32: [u32; 12] = [
    0,
    1,
    2,
    31,
    32,
    33,
    0xff,
    0xffff,
    u32::MAX,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
];
const EDGES_F32: [u32; 12] = [
    0,
    0x8000_0000,
    0x0000_0001,
    0x807f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7f7f_ffff,
    0x7fc0_0000,
    0x4f00_0000,
];
const EDGES_F16: [u16; 8] = [0, 0x8000, 0x0001, 0x03ff, 0x3c00, 0x7bff, 0xfc00, 0x7e00];

/// Returns the content of the input buffer, which is equal for all kernels.
pub fn inputs() -> Vec<u8> {
    let mut random = Random::new(0x006d_6172_6761_7921);
    let mut bytes = Vec::with_capacity(INPUT_BYTES as usize);
    for _ in 0..INPUT_SECTION / 4 {
        let value = match random.below(4) {
            0 => *random.pick(&EDGES_32),
            1 => random.below(100),
            _ => random.bits() as u32,
        };
        bytes.extend(value.to_le_bytes());
    }
    let tame = |random: &mut Random| (f64::from(random.below(40000)) - 20000.0) / 128.0;
    for _ in 0..INPUT_SECTION / 4 {
        let value = match random.below(8) {
            0 => f32::from_bits(*random.pick(&EDGES_F32)),
            1 => f32::from_bits(random.bits() as u32),
            _ => tame(&mut random) as f32,
        };
        bytes.extend(value.to_le_bytes());
    }
    for _ in 0..INPUT_SECTION / 8 {
        let value = match random.below(8) {
            0 => f64::from(f32::from_bits(*random.pick(&EDGES_F32))),
            1 => f64::from_bits(random.bits()),
            _ => tame(&mut random),
        };
        bytes.extend(value.to_le_bytes());
    }
    for _ in 0..INPUT_SECTION / 2 {
        let value = match random.below(8) {
            0 => *random.pick(&EDGES_F16),
            _ => random.bits() as u16,
        };
        bytes.extend(value.to_le_bytes());
    }
    bytes
}
