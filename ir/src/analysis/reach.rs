//! Computes bounds of the distance between an address and the value from which it is computed.
//!
//! Most addresses in device code are a pointer plus a bounded offset: a widened 32-bit index times the size of an
//! element. [`Reach::of`] splits an address into this pointer, the *root*, and an interval that contains the offset.
//! Consider a reserved range of addresses with inaccessible margins. If the offset is smaller than a margin, a back
//! end needs to test only whether the root is in the range: the access is then in the range, or in a margin, where it
//! faults. If the root is the address of a variable and the access is inside the variable, the access needs no test
//! at all.
//!
//! An interval bounds a value `v` of `n` bits modulo 2^n: there is an integer in `low..=high` that is congruent to `v`
//! modulo 2^n. Sums, differences, products and left shifts preserve this property even if they wrap. For operations
//! whose result depends on the value as an integer (widening, right shifts, remainders), the analysis first limits the
//! interval to the range of the type.

use crate::entity::{Inst, SymbolId, Value};
use crate::function::{Function, payload_slot, payload_sreg, split_symbol_payload};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

/// The maximum length of a path of operations, backwards from a value, that the analysis considers.
const DEPTH: u32 = 10;

/// Maximum number of warps that can be resident on a multiprocessor, for all architectures (`%nwarpid`).
const MAX_SM_WARPS: i128 = 64;

/// An interval of integers, from `low` to `high`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The lower bound.
    pub low: i128,
    /// The upper bound, which belongs to the interval.
    pub high: i128,
}

impl Interval {
    /// The interval that contains only zero.
    pub const ZERO: Interval = Interval { low: 0, high: 0 };

    fn new(low: i128, high: i128) -> Interval {
        Interval { low, high }
    }

    pub(super) fn point(at: i128) -> Interval {
        Interval::new(at, at)
    }

    /// Returns the interval of all values of an integer type with this number of bits and this
    /// signedness.
    fn of_bits(bits: u32, signed: bool) -> Interval {
        match signed {
            true => Interval::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            false => Interval::new(0, (1 << bits) - 1),
        }
    }

    pub(super) fn lies_in(self, other: Interval) -> bool {
        other.low <= self.low && self.high <= other.high
    }

    /// Returns `self` if its bounds are so small that the product of two such intervals cannot
    /// overflow, and `None` otherwise.
    pub(super) fn checked(self) -> Option<Interval> {
        const LIMIT: i128 = 1 << 62;
        self.lies_in(Interval::new(-LIMIT, LIMIT)).then_some(self)
    }

    pub(super) fn plus(self, other: Interval) -> Interval {
        Interval::new(self.low + other.low, self.high + other.high)
    }

    fn minus(self, other: Interval) -> Interval {
        Interval::new(self.low - other.high, self.high - other.low)
    }

    pub(super) fn times(self, other: Interval) -> Interval {
        let products = [
            self.low * other.low,
            self.low * other.high,
            self.high * other.low,
            self.high * other.high,
        ];
        let (low, high) = products
            .iter()
            .fold((i128::MAX, i128::MIN), |(low, high), &product| {
                (low.min(product), high.max(product))
            });
        Interval::new(low, high)
    }
}

/// An address, split into a root and an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// The root: the value to which the offset is added.
    pub value: Value,
    /// The bounds of the offset modulo 2^n, where `n` is the width of the address in bits.
    pub offset: Interval,
}

/// The analysis of a function, which splits addresses into roots and offsets.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    function: &'a Function,
    /// The maximum number of threads of a block in launches of the function.
    threads: i128,
    /// The maximum number of blocks of a grid in each dimension, or `None` if it is not known.
    blocks: Option<i128>,
}

/// The maximum number of threads of a block on every device (CUDA C++ Programming Guide, "Compute
/// Capabilities").
const MAX_THREADS: i128 = 1024;

impl<'a> Reach<'a> {
    /// Creates the analysis for a function, for launches of any size.
    pub fn new(function: &'a Function) -> Reach<'a> {
        let kernel = function.kernel.as_ref();
        let shape = kernel.and_then(|kernel| kernel.reqntid.or(kernel.maxntid));
        let threads = shape.map(|shape| shape.iter().map(|&n| i128::from(n.max(1))).product());
        Reach {
            function,
            threads: threads.unwrap_or(MAX_THREADS).min(MAX_THREADS),
            blocks: None,
        }
    }

    /// Creates the analysis for a function, for launches of at most `blocks` blocks in each
    /// dimension.
    pub fn in_grids(function: &'a Function, blocks: u32) -> Reach<'a> {
        Reach {
            blocks: Some(blocks.into()),
            ..Reach::new(function)
        }
    }

    /// Returns the root of an address and the bounds of the offset. The search goes backwards only
    /// through operations for which `here` returns true, because the root must be available where
    /// the address is used.
    pub fn of(&self, address: Value, here: &dyn Fn(Inst) -> bool) -> Root {
        let dfg = &self.function.dfg;
        let mut root = Root {
            value: address,
            offset: Interval::ZERO,
        };
        for _ in 0..DEPTH {
            let Some(def) = dfg.def_inst(root.value).filter(|&def| here(def)) else {
                break;
            };
            let Some((value, offset)) = self.step(def) else {
                break;
            };
            let Some(offset) = root.offset.plus(offset).checked() else {
                break;
            };
            root = Root { value, offset };
        }
        root
    }

    /// Returns the root of an address, like [`Reach::of`], but the search goes backwards only through operations that
    /// add a constant (0 for conversions). Therefore, the distance between two addresses with the same root is
    /// constant.
    pub fn by_constants(&self, address: Value, here: &dyn Fn(Inst) -> bool) -> Root {
        let mut root = Root {
            value: address,
            offset: Interval::ZERO,
        };
        for _ in 0..DEPTH {
            let def = self.function.dfg.def_inst(root.value);
            let step = def.filter(|&def| here(def)).and_then(|def| self.step(def));
            let is_point = |offset: Interval| offset.low == offset.high;
            let Some((value, offset)) = step.filter(|&(_, offset)| is_point(offset)) else {
                break;
            };
            let Some(offset) = root.offset.plus(offset).checked() else {
                break;
            };
            root = Root { value, offset };
        }
        root
    }

    /// Returns whether `root.value` is the address of a variable, and an access of `bytes` bytes at
    /// the split address is inside this variable. `space` is the state space of the access, and
    /// `symbol` returns the space and the size of a module's variable.
    pub fn is_inside(
        &self,
        root: &Root,
        bytes: u32,
        space: StateSpace,
        symbol: &dyn Fn(SymbolId) -> Option<(StateSpace, u64)>,
    ) -> bool {
        let Some(def) = self.function.dfg.def_inst(root.value) else {
            return false;
        };
        let data = &self.function.dfg.insts[def];
        let found = match (data.opcode, space) {
            (Opcode::LocalAddr, StateSpace::Local) => {
                let slot = &self.function.slots[payload_slot(data.payload())];
                Some((0, i128::from(slot.size)))
            }
            (Opcode::ParamAddr, StateSpace::Param) => self
                .function
                .kernel
                .as_ref()
                .map(|kernel| (i128::from(data.payload()), i128::from(kernel.param_bytes))),
            (Opcode::SymbolAddr, _) => {
                let (id, addend) = split_symbol_payload(data.payload());
                symbol(id)
                    .filter(|&(of, _)| is_window(of) == is_window(space) && !is_private(space))
                    .map(|(_, size)| (i128::from(addend), i128::from(size)))
            }
            _ => None,
        };
        found.is_some_and(|(start, size)| {
            let (low, high) = (root.offset.low + start, root.offset.high + start);
            low >= 0 && high + i128::from(bytes) <= size
        })
    }

    /// Returns the operand of the operation `def` that is the address, and the bounds of the offset
    /// that the operation adds to it. Returns `None` if the operation does not add a bounded
    /// offset.
    fn step(&self, def: Inst) -> Option<(Value, Interval)> {
        let data = &self.function.dfg.insts[def];
        let args = self.function.dfg.args(def);
        let desc = data.desc();
        if desc.opcode == Opcode::Cvta
            && !is_window(desc.mods.space())
            && !is_private(desc.mods.space())
        {
            // A global or constant address and the generic address of the same memory are equal.
            return Some((args[0], Interval::ZERO));
        }
        let plain = desc.ty.is_integer() && desc.ty.elements() == 1 && !desc.mods.sat();
        if !plain {
            return None;
        }
        let bounded = |value: Value| self.interval(value, DEPTH).filter(|found| is_small(*found));
        match (desc.opcode, args) {
            // The conversion keeps all bits of the address, or only its low bits.
            (Opcode::Cvt, &[from])
                if desc.src.is_integer()
                    && desc.ty.bits() >= 32
                    && desc.src.bits() >= desc.ty.bits() =>
            {
                Some((from, Interval::ZERO))
            }
            (Opcode::Add, &[a, b]) => match bounded(b) {
                Some(offset) => Some((a, offset)),
                None => Some((b, bounded(a)?)),
            },
            (Opcode::Sub, &[a, b]) => Some((a, Interval::ZERO.minus(bounded(b)?))),
            (Opcode::Mad, &[a, b, c]) => {
                let product = self.product(def, a, b, DEPTH)?;
                is_small(product).then_some((c, product))
            }
            _ => None,
        }
    }

    /// Returns the bounds of a value modulo 2^n, or `None` if there are none. Here, `n` is the
    /// width of the value in bits.
    pub(super) fn bounds(&self, value: Value) -> Option<Interval> {
        self.interval(value, DEPTH)
    }

    /// Returns the same bounds as [`Reach::bounds`], but considers only paths of at most `depth`
    /// operations backwards from the value.
    fn interval(&self, value: Value, depth: u32) -> Option<Interval> {
        let dfg = &self.function.dfg;
        let bits = dfg.ty(value).lane_bits();
        let any = || (bits <= 32).then(|| Interval::of_bits(bits, false));
        let (Some(def), Some(depth)) = (dfg.def_inst(value), depth.checked_sub(1)) else {
            return any();
        };
        self.result(def, depth)
            .and_then(Interval::checked)
            .or_else(any)
    }

    /// Returns the bounds of the result of the operation `def`.
    fn result(&self, def: Inst, depth: u32) -> Option<Interval> {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[def];
        match data.opcode {
            Opcode::Const => return Some(Interval::point(i128::from(data.payload() as i64))),
            Opcode::SReg => return self.register(payload_sreg(data.payload())?),
            _ => {}
        }
        let desc = data.desc();
        let (ty, args) = (desc.ty, dfg.args(def));
        if !ty.is_integer() || ty.elements() != 1 || desc.mods.sat() {
            return None;
        }
        let bits = ty.bits();
        let of = |index: usize| self.interval(args[index], depth);
        // Bounds of the operand, interpreted as an integer of the operation's type.
        let number = |index: usize| self.number(args[index], bits, ty.is_signed(), depth);
        let constant = |index: usize| dfg.constant(args[index]);
        match (desc.opcode, args.len()) {
            (Opcode::Add, 2) => Some(of(0)?.plus(of(1)?)),
            (Opcode::Sub, 2) => Some(of(0)?.minus(of(1)?)),
            (Opcode::Mul, 2) => self.product(def, args[0], args[1], depth),
            (Opcode::Mad, 3) => Some(self.product(def, args[0], args[1], depth)?.plus(of(2)?)),
            (Opcode::Shl, 2) => {
                let by = constant(1).filter(|&by| by < u64::from(bits))?;
                Some(of(0)?.times(Interval::point(1 << by)))
            }
            (Opcode::Shr, 2) => {
                let by = constant(1).filter(|&by| by < u64::from(bits))?;
                let from = number(0)?;
                Some(Interval::new(from.low >> by, from.high >> by))
            }
            (Opcode::And, 2) => {
                let mask = |index: usize| constant(index).map(|mask| mask & low_bits(bits));
                let mask = mask(1).or_else(|| mask(0))?;
                Some(Interval::new(0, i128::from(mask)))
            }
            (Opcode::Rem, 2) if !ty.is_signed() => {
                // The divisor must not be zero: a remainder by zero has all bits set, so it has no bound.
                let by = constant(1)
                    .map(|by| by & low_bits(bits))
                    .filter(|&by| by != 0)?;
                Some(Interval::new(0, i128::from(by) - 1))
            }
            (Opcode::Div, 2) if !ty.is_signed() => {
                let by = constant(1)
                    .map(|by| by & low_bits(bits))
                    .filter(|&by| by != 0)?;
                Some(Interval::new(0, number(0)?.high / i128::from(by)))
            }
            (Opcode::Min, 2) if !ty.is_signed() => {
                let [a, b] = [number(0), number(1)];
                let high = match (a, b) {
                    (Some(a), Some(b)) => a.high.min(b.high),
                    (Some(one), None) | (None, Some(one)) => one.high,
                    (None, None) => return None,
                };
                Some(Interval::new(0, high))
            }
            (Opcode::Cvt, 1) if desc.src.is_integer() => {
                let from = desc.src;
                self.number(args[0], from.bits(), from.is_signed(), depth)
            }
            _ => None,
        }
    }

    /// Returns the bounds of the integer that the low `bits` bits of a value represent; `signed`
    /// states whether the integer is signed.
    fn number(&self, value: Value, bits: u32, signed: bool, depth: u32) -> Option<Interval> {
        let whole = (bits <= 64).then(|| Interval::of_bits(bits, signed))?;
        let found = self.interval(value, depth);
        let held = self.function.dfg.ty(value).lane_bits();
        match found.filter(|_| bits <= held) {
            Some(found) if found.lies_in(whole) => Some(found),
            _ => whole.checked(),
        }
    }

    /// Returns the bounds of the result of the multiplication `def`, which is the full product (`.wide`) or its low
    /// half.
    fn product(&self, def: Inst, a: Value, b: Value, depth: u32) -> Option<Interval> {
        let desc = self.function.dfg.insts[def].desc();
        let depth = depth.checked_sub(1)?;
        let [a, b] = match desc.mods.half() {
            Half::Wide => {
                let (bits, signed) = (desc.ty.bits(), desc.ty.is_signed());
                [a, b].map(|factor| self.number(factor, bits, signed, depth))
            }
            Half::Hi => return None,
            _ => [a, b].map(|factor| self.interval(factor, depth)),
        };
        let (a, b) = (a?, b?);
        let narrow = |factor: Interval| factor.lies_in(Interval::new(-(1 << 60), 1 << 60));
        (narrow(a) && narrow(b)).then(|| a.times(b))?.checked()
    }

    /// Returns the bounds of the value of a special register, or `None` if there are none.
    pub(super) fn register(&self, register: SpecialReg) -> Option<Interval> {
        use SpecialReg as R;
        let most = match register {
            R::TidX | R::TidY => self.threads - 1,
            R::TidZ => (self.threads - 1).min(63),
            R::NtidX | R::NtidY => self.threads,
            R::NtidZ => self.threads.min(64),
            R::Laneid => 31,
            R::Warpid => (self.threads - 1) / 32,
            // The number of warps of the multiprocessor, not of the CTA.
            R::Nwarpid => MAX_SM_WARPS,
            R::CtaidX | R::CtaidY | R::CtaidZ => self.blocks? - 1,
            R::NctaidX | R::NctaidY | R::NctaidZ => self.blocks?,
            _ => return None,
        };
        Some(Interval::new(0, most))
    }
}

/// Returns whether the addresses of a state space are offsets in the shared memory window of a CTA.
pub(super) fn is_window(space: StateSpace) -> bool {
    matches!(space, StateSpace::Shared | StateSpace::SharedCluster)
}

/// Returns whether a state space is local or parameter memory, which contains no variables of the module.
pub(super) fn is_private(space: StateSpace) -> bool {
    matches!(
        space,
        StateSpace::Local | StateSpace::Param | StateSpace::ParamFunc
    )
}

fn low_bits(bits: u32) -> u64 {
    u64::MAX >> (64 - bits.clamp(1, 64))
}

/// Returns whether the absolute value of an offset is at most 2^50. No margin is larger, so callers
/// cannot use larger offsets.
fn is_small(offset: Interval) -> bool {
    const LARGE: i128 = 1 << 50;
    offset.lies_in(Interval::new(-LARGE, LARGE))
}
