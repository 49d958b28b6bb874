//! The environment of the interpreter, operands, and comparisons.

use margay_ops::meaning::{Bits, mask};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::function::Function;
use margay_vir::interpreter::{Environment, Fault, run};
use margay_vir::meaning::Lanes;
use margay_vir::{parse, verify};

/// Where the slots of the interpreter's programs are.
const SLOTS: u64 = 0x7000_0000_0000;

/// A helper of a program: it returns its results, or `None` to end the program.
pub(crate) type Helper = fn(&[Bits], &mut [Bits]) -> Option<()>;

/// Memory from an address on, slots of 256 bytes, and helpers.
pub(crate) struct Machine {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
    slots: Vec<u8>,
    helpers: &'static [Helper],
}

impl Machine {
    pub(crate) fn new(base: u64, bytes: Vec<u8>) -> Machine {
        Machine {
            base,
            bytes,
            slots: vec![0; 4096],
            helpers: &[add, mixed],
        }
    }

    fn part(&mut self, address: u64, bytes: u32) -> Option<&mut [u8]> {
        let (area, start) = match address.checked_sub(SLOTS) {
            Some(start) if start < 4096 => (&mut self.slots, start),
            _ => (&mut self.bytes, address.checked_sub(self.base)?),
        };
        area.get_mut(usize::try_from(start).ok()?..)?
            .get_mut(..bytes as usize)
    }
}

impl Environment for Machine {
    fn load(&mut self, address: u64, bytes: u32) -> Option<Bits> {
        let part = self.part(address, bytes)?;
        let reversed = part.iter().rev();
        Some(reversed.fold(0, |bits, &byte| bits << 8 | Bits::from(byte)))
    }

    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Option<()> {
        let part = self.part(address, bytes)?;
        part.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Some(())
    }

    fn slot(&mut self, slot: usize) -> u64 {
        SLOTS + 256 * slot as u64
    }

    fn call(&mut self, helper: usize, args: &[Bits], results: &mut [Bits]) -> Option<()> {
        self.helpers[helper](args, results)
    }
}

/// The helper [`crate::native::sum`].
fn add(args: &[Bits], results: &mut [Bits]) -> Option<()> {
    results[0] = (args[0] + args[1]) & mask(32);
    (results[0] != 99).then_some(())
}

/// The helper [`crate::native::mix`].
fn mixed(args: &[Bits], results: &mut [Bits]) -> Option<()> {
    let [pred, byte, half, whole, single, double] = args else {
        return None;
    };
    results[0] = whole ^ byte ^ half << 8 ^ single << 24 ^ double << 56;
    results[1] = *pred;
    Some(())
}

/// Parses a function, which must be valid.
pub(crate) fn parsed(text: &str) -> Function {
    let function = parse::function(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    checked(function)
}

/// Returns a function, which must be valid.
pub(crate) fn checked(function: Function) -> Function {
    let problems = verify::function(&function);
    assert!(problems.is_empty(), "{problems:?}\n{function}");
    function
}

/// Runs a function in the interpreter.
pub(crate) fn interpreted(
    function: &Function,
    args: &[Lanes],
    machine: &mut Machine,
) -> Result<Vec<Lanes>, Fault> {
    run(function, args, machine, 100_000)
}

/// A sequence of numbers that look random.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Returns a value of a kind, often one at an edge of an operation's behaviour.
    pub(crate) fn value(&mut self, kind: Kind) -> Bits {
        let random = Bits::from(self.next()) | Bits::from(self.next()) << 64;
        let bits = match self.below(4) {
            0 => edge(kind, self.below(16)),
            1 => random >> self.below(128),
            // Two values of 16 bits at their edges.
            2 if kind == Kind::B32 => {
                edge(Kind::B16, self.below(16)) | edge(Kind::B16, self.below(16)) << 16
            }
            2 if kind == Kind::B64 => {
                edge(Kind::F32, self.below(16)) | edge(Kind::F32, self.below(16)) << 32
            }
            2 if matches!(kind, Kind::F32 | Kind::F64) => near_one(kind, random),
            _ => random,
        };
        bits & mask(kind.bits())
    }

    /// Returns lanes of a type.
    pub(crate) fn lanes(&mut self, ty: Type) -> Lanes {
        (0..ty.lanes()).map(|_| self.value(ty.kind())).collect()
    }
}

/// Returns a number whose exponent is near that of one.
fn near_one(kind: Kind, random: Bits) -> Bits {
    match kind {
        Kind::F32 => random & 0x83ff_ffff | 0x3c00_0000,
        _ => random & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000,
    }
}

fn edge(kind: Kind, index: usize) -> Bits {
    let singles = [
        0.0f32,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        f32::MAX,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-39,
        2147483648.0,
    ];
    // Zero, one, subnormal and greatest numbers, infinity and NaN, of `f16` and of `bf16`.
    let halves = [
        0, 0x8000, 0x3c00, 0x3f80, 1, 0x8001, 0x03ff, 0x7bff, 0x7c00, 0xfc00, 0x7e01, 0x7f80,
        0xff80, 0x7fc1, 0x7f7f, 0xffff,
    ];
    let ones = mask(kind.bits());
    match kind {
        Kind::F32 => singles[index].to_bits().into(),
        Kind::F64 => match index {
            8 => f64::MAX.to_bits().into(),
            12 => f64::MIN_POSITIVE.to_bits().into(),
            13 => 1,
            14 => 4294967295.5f64.to_bits().into(),
            _ => f64::from(singles[index]).to_bits().into(),
        },
        Kind::B16 => halves[index],
        _ => match index {
            0..8 => index as Bits,
            8 => ones,
            9 => ones >> 1,
            10 => (ones >> 1) + 1,
            11 => 31,
            12 => 32,
            13 => 64,
            14 => ones - 1,
            _ => 0x7fff,
        },
    }
}

/// Returns the formats of the parts of a value that an operation with the result type `ty` computes: the number of bits
/// of a part and those of its fraction.
fn format(ty: OpType, kind: Kind) -> Option<(u32, u32)> {
    match (ty, kind) {
        (OpType::F16 | OpType::F16x2, _) => Some((16, 10)),
        (OpType::BF16 | OpType::BF16x2, _) => Some((16, 7)),
        (OpType::F32x2, _) | (_, Kind::F32) => Some((32, 23)),
        (_, Kind::F64) => Some((64, 52)),
        _ => None,
    }
}

/// Returns whether two results of an operation with the type `ty` are equal. All NaNs are.
pub(crate) fn equal(ty: OpType, kind: Kind, a: Bits, b: Bits) -> bool {
    let Some((bits, fraction)) = format(ty, kind) else {
        return a == b;
    };
    let infinity = (mask(bits - 1) >> fraction) << fraction;
    let is_nan = |part: Bits| part & mask(bits - 1) > infinity;
    (0..kind.bits() / bits).all(|index| {
        let part = |whole: Bits| whole >> (index * bits) & mask(bits);
        part(a) == part(b) || is_nan(part(a)) && is_nan(part(b))
    })
}
