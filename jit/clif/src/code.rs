//! Emits operations on groups of lanes and on scalars.
//!
//! An operation has one lowering for vectors and scalars, because its methods choose the instructions: in the mode
//! [`Mode::Vector`], values are groups of vector registers, and truth values are masks; in the mode [`Mode::Scalar`],
//! values are scalars of at least 32 bits, and truth values are bytes that contain 0 or 1. Methods that have no vector
//! instructions return `None` in the vector mode.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, types};
use cranelift_frontend::FunctionBuilder;

use crate::group::Group;

/// Whether values are scalars or groups of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Scalar,
    Vector,
}

/// Emits instructions.
pub(crate) struct Code<'a, 'b> {
    pub(crate) b: &'a mut FunctionBuilder<'b>,
    /// Whether the machine has instructions for fused multiply-add.
    pub(crate) has_fma: bool,
    pub(crate) mode: Mode,
}

macro_rules! unary {
    ($($name:ident = $op:ident;)*) => {$(
        pub(crate) fn $name(&mut self, a: Group) -> Group {
            a.map(|a| self.b.ins().$op(a))
        }
    )*};
}

macro_rules! binary {
    ($($name:ident = $op:ident;)*) => {$(
        pub(crate) fn $name(&mut self, a: Group, b: Group) -> Group {
            self.each2(a, b, |code, a, b| code.ins().$op(a, b))
        }
    )*};
}

macro_rules! shifts {
    ($($name:ident = $op:ident;)*) => {$(
        /// Shifts all lanes by a constant below the width.
        pub(crate) fn $name(&mut self, a: Group, by: u32) -> Group {
            let by = self.b.ins().iconst(types::I32, i64::from(by));
            a.map(|a| self.b.ins().$op(a, by))
        }
    )*};
}

/// Returns the condition of which an unordered condition is the inverse; `None` for other conditions.
fn ordered_opposite(condition: FloatCC) -> Option<FloatCC> {
    Some(match condition {
        FloatCC::UnorderedOrLessThan => FloatCC::GreaterThanOrEqual,
        FloatCC::UnorderedOrLessThanOrEqual => FloatCC::GreaterThan,
        FloatCC::UnorderedOrGreaterThan => FloatCC::LessThanOrEqual,
        FloatCC::UnorderedOrGreaterThanOrEqual => FloatCC::LessThan,
        _ => return None,
    })
}

impl Code<'_, '_> {
    unary! {
        not = bnot;
        neg = ineg;
        abs = iabs;
        fneg = fneg;
        fabs = fabs;
        sqrt = sqrt;
        nearest = nearest;
        trunc = trunc;
        floor = floor;
        ceil = ceil;
    }

    binary! {
        add = iadd;
        sub = isub;
        mul = imul;
        and = band;
        or = bor;
        xor = bxor;
        and_not = band_not;
        fadd = fadd;
        fsub = fsub;
        fmul = fmul;
        fdiv = fdiv;
    }

    shifts! {
        shl = ishl;
        shr = ushr;
        sar = sshr;
    }

    pub(crate) fn each2(
        &mut self,
        a: Group,
        b: Group,
        mut op: impl FnMut(&mut FunctionBuilder<'_>, ir::Value, ir::Value) -> ir::Value,
    ) -> Group {
        let mut others = b.iter();
        a.map(|a| match others.next() {
            Some(&b) => op(self.b, a, b),
            None => a,
        })
    }

    pub(crate) fn fma(&mut self, a: Group, b: Group, c: Group) -> Group {
        let mut addends = c.iter();
        self.each2(a, b, |code, a, b| match addends.next() {
            Some(&c) => code.ins().fma(a, b, c),
            None => a,
        })
    }

    pub(crate) fn is_vector(&self) -> bool {
        self.mode == Mode::Vector
    }

    /// Returns the number of bits of the lanes of a group.
    pub(crate) fn bits(&self, a: Group) -> u32 {
        self.b.func.dfg.value_type(a[0]).lane_bits()
    }

    fn type_of(&self, a: Group) -> ir::Type {
        self.b.func.dfg.value_type(a[0])
    }

    /// Returns a group whose lanes have the integer type of 32 or 64 bits and contain `value`.
    pub(crate) fn int(&mut self, bits: u32, value: u64) -> Group {
        let ty = if bits == 64 { types::I64 } else { types::I32 };
        match self.mode {
            Mode::Scalar => self.scalar_constant(ty, value).into(),
            Mode::Vector => {
                let register = self.vector_constant(ty, |_| value);
                Group::new(&[register, register][..bits as usize / 32])
            }
        }
    }

    /// Returns a group whose lanes are floating-point numbers of 32 or 64 bits and contain `value`.
    pub(crate) fn float(&mut self, bits: u32, value: f64) -> Group {
        let pattern = match bits {
            64 => value.to_bits(),
            _ => u64::from((value as f32).to_bits()),
        };
        self.float_of_bits(bits, pattern)
    }

    /// Returns a group whose lanes are floating-point numbers with the bits `pattern`.
    pub(crate) fn float_of_bits(&mut self, bits: u32, pattern: u64) -> Group {
        let value = self.int(bits, pattern);
        self.as_float(value)
    }

    /// Returns a scalar constant of an integer type of at most 64 bits.
    pub(crate) fn scalar_constant(&mut self, ty: ir::Type, value: u64) -> ir::Value {
        let unused = 64 - ty.bits();
        let bits = ((value << unused) as i64) >> unused;
        self.b.ins().iconst(ty, bits)
    }

    /// Returns a vector register with lanes of the integer type `lane`, which contain the results of `value`.
    pub(crate) fn vector_constant(
        &mut self,
        lane: ir::Type,
        value: impl Fn(u32) -> u64,
    ) -> ir::Value {
        let bytes = lane.bytes() as usize;
        let count = 16 / lane.bytes();
        let data: Vec<u8> = (0..count)
            .flat_map(|n| value(n).to_le_bytes().into_iter().take(bytes))
            .collect();
        let constant = self.b.func.dfg.constants.insert(data.into());
        let ty = lane.by(count).expect("the lanes fill a register");
        self.b.ins().vconst(ty, constant)
    }

    /// Returns a register as another type with as many bits.
    pub(crate) fn cast(&mut self, a: ir::Value, ty: ir::Type) -> ir::Value {
        let from = self.b.func.dfg.value_type(a);
        if from == ty {
            return a;
        }
        let flags = match from.lane_count() == ty.lane_count() {
            true => MemFlagsData::new(),
            false => MemFlagsData::new().with_endianness(ir::Endianness::Little),
        };
        self.b.ins().bitcast(ty, flags, a)
    }

    /// Returns the bits of floating-point lanes, or integer lanes unchanged.
    pub(crate) fn as_int(&mut self, a: Group) -> Group {
        let ty = self.type_of(a);
        let lane = ty.lane_type().as_int();
        let to = lane.by(ty.lane_count()).expect("as many lanes");
        a.map(|a| self.cast(a, to))
    }

    /// Returns the floating-point numbers with the bits of integer lanes, or floating-point lanes unchanged.
    pub(crate) fn as_float(&mut self, a: Group) -> Group {
        let ty = self.type_of(a);
        let lane = match ty.lane_bits() {
            64 => types::F64,
            _ => types::F32,
        };
        let to = lane.by(ty.lane_count()).expect("as many lanes");
        a.map(|a| self.cast(a, to))
    }

    /// Selects words of the registers `a` and `b`: `first` contains the index of the first byte of each word. The bytes
    /// of `b` follow those of `a`.
    pub(crate) fn words(&mut self, a: ir::Value, b: ir::Value, first: [u8; 4]) -> ir::Value {
        let bytes = first.iter().flat_map(|&n| n..n + 4);
        self.shuffle(a, b, bytes, types::I32X4)
    }

    /// Selects 16 bytes of the registers `a` and `b`. The bytes of `b` follow those of `a`.
    pub(crate) fn shuffle(
        &mut self,
        a: ir::Value,
        b: ir::Value,
        bytes: impl Iterator<Item = u8>,
        ty: ir::Type,
    ) -> ir::Value {
        let bytes: Vec<u8> = bytes.collect();
        let mask = self.b.func.dfg.immediates.push(bytes.as_slice().into());
        let (a, b) = (self.cast(a, types::I8X16), self.cast(b, types::I8X16));
        let words = self.b.ins().shuffle(a, b, mask);
        self.cast(words, ty)
    }

    /// Extends integer lanes of 32 bits to 64 bits.
    pub(crate) fn widen(&mut self, a: Group, signed: bool) -> Group {
        let a = a[0];
        match (self.mode, signed) {
            (Mode::Scalar, true) => self.b.ins().sextend(types::I64, a).into(),
            (Mode::Scalar, false) => self.b.ins().uextend(types::I64, a).into(),
            (Mode::Vector, true) => {
                let low = self.b.ins().swiden_low(a);
                Group::new(&[low, self.b.ins().swiden_high(a)])
            }
            (Mode::Vector, false) => {
                let low = self.b.ins().uwiden_low(a);
                Group::new(&[low, self.b.ins().uwiden_high(a)])
            }
        }
    }

    /// Returns the low words of integer lanes of 64 bits.
    pub(crate) fn low_words(&mut self, a: Group) -> Group {
        match self.mode {
            Mode::Scalar => self.b.ins().ireduce(types::I32, a[0]).into(),
            Mode::Vector => self.words(a[0], a[1], [0, 8, 16, 24]).into(),
        }
    }

    /// Returns the high words of integer lanes of 64 bits.
    pub(crate) fn high_words(&mut self, a: Group) -> Group {
        match self.mode {
            Mode::Scalar => {
                let high = self.shr(a, 32);
                self.low_words(high)
            }
            Mode::Vector => self.words(a[0], a[1], [4, 12, 20, 28]).into(),
        }
    }

    /// Returns integer lanes of 64 bits with the given words.
    pub(crate) fn join_words(&mut self, low: Group, high: Group) -> Group {
        match self.mode {
            Mode::Scalar => {
                let (low, high) = (self.widen(low, false), self.widen(high, false));
                let high = self.shl(high, 32);
                self.or(low, high)
            }
            Mode::Vector => Group::new(&[[0, 16, 4, 20], [8, 24, 12, 28]].map(|first| {
                let words = self.words(low[0], high[0], first);
                self.cast(words, types::I64X2)
            })),
        }
    }

    /// Compares integer lanes.
    pub(crate) fn icmp(&mut self, condition: IntCC, a: Group, b: Group) -> Group {
        if self.mode == Mode::Scalar || self.bits(a) == 32 {
            return self.each2(a, b, |code, a, b| code.ins().icmp(condition, a, b));
        }
        let signed = match condition {
            IntCC::UnsignedLessThan => IntCC::SignedLessThan,
            IntCC::UnsignedLessThanOrEqual => IntCC::SignedLessThanOrEqual,
            IntCC::UnsignedGreaterThan => IntCC::SignedGreaterThan,
            IntCC::UnsignedGreaterThanOrEqual => IntCC::SignedGreaterThanOrEqual,
            other => other,
        };
        // There is no unsigned comparison of 64-bit lanes. It is a signed one of lanes whose top bits are inverted.
        let (a, b) = match signed == condition {
            true => (a, b),
            false => {
                let top = self.int(64, 1 << 63);
                (self.xor(a, top), self.xor(b, top))
            }
        };
        let wide = self.each2(a, b, |code, a, b| code.ins().icmp(signed, a, b));
        self.low_words(wide)
    }

    /// Compares integer lanes with a constant.
    pub(crate) fn icmp_with(&mut self, condition: IntCC, a: Group, value: u64) -> Group {
        let value = self.int(self.bits(a), value);
        self.icmp(condition, a, value)
    }

    /// Compares floating-point lanes.
    pub(crate) fn fcmp(&mut self, condition: FloatCC, a: Group, b: Group) -> Group {
        if self.is_vector() {
            // Cranelift has no vector code for these conditions on all machines.
            if let Some(opposite) = ordered_opposite(condition) {
                let truth = self.fcmp(opposite, a, b);
                return self.negate(truth);
            }
            let both = match condition {
                FloatCC::OrderedNotEqual => Some([FloatCC::LessThan, FloatCC::GreaterThan]),
                FloatCC::UnorderedOrEqual => Some([FloatCC::Equal, FloatCC::Unordered]),
                _ => None,
            };
            if let Some([first, second]) = both {
                let (first, second) = (self.fcmp(first, a, b), self.fcmp(second, a, b));
                return self.or(first, second);
            }
        }
        let truth = self.each2(a, b, |code, a, b| code.ins().fcmp(condition, a, b));
        match truth.len() {
            2 => self.low_words(truth),
            _ => truth,
        }
    }

    /// Inverts truth values.
    pub(crate) fn negate(&mut self, truth: Group) -> Group {
        match self.mode {
            Mode::Scalar => self.b.ins().bxor_imm_u(truth[0], 1).into(),
            Mode::Vector => self.not(truth),
        }
    }

    /// Returns truth values as integer lanes of 32 bits, which are all ones or all zeros.
    pub(crate) fn mask(&mut self, truth: Group) -> Group {
        match self.mode {
            Mode::Scalar => {
                let word = self.b.ins().uextend(types::I32, truth[0]);
                self.b.ins().ineg(word).into()
            }
            Mode::Vector => truth,
        }
    }

    /// Returns truth values as integer lanes of 32 or 64 bits that contain 0 or 1.
    pub(crate) fn zero_or_one(&mut self, bits: u32, truth: Group) -> Group {
        let (one, none) = (self.int(bits, 1), self.int(bits, 0));
        self.select(truth, one, none)
    }

    /// Returns `a` where the condition is true, and `b` elsewhere.
    pub(crate) fn select(&mut self, condition: Group, a: Group, b: Group) -> Group {
        if self.mode == Mode::Scalar {
            return self.b.ins().select(condition[0], a[0], b[0]).into();
        }
        let ty = self.type_of(a);
        let masks = match a.len() {
            1 => condition,
            2 => self.widen(condition, true),
            // Each lane fills a register.
            _ => {
                let pairs = self.widen(condition, true);
                let both = [(0, 0), (0, 8), (1, 0), (1, 8)];
                Group::new(&both.map(|(register, first)| {
                    let pair = pairs[register];
                    self.words(pair, pair, [first, first + 4, first, first + 4])
                }))
            }
        };
        let masks = masks.map(|mask| self.cast(mask, ty));
        let mut masks = masks.iter();
        self.each2(a, b, |code, a, b| match masks.next() {
            Some(&mask) => code.ins().bitselect(mask, a, b),
            None => a,
        })
    }

    /// Returns `a` in the bits in which `mask` is one, and `b` in the other bits.
    pub(crate) fn merge(&mut self, mask: Group, a: Group, b: Group) -> Group {
        let mut masks = mask.iter();
        self.each2(a, b, |code, a, b| match masks.next() {
            Some(&mask) => code.ins().bitselect(mask, a, b),
            None => a,
        })
    }

    /// Returns the lesser lanes, or the greater ones if `is_max`.
    pub(crate) fn extreme(&mut self, a: Group, b: Group, is_max: bool, signed: bool) -> Group {
        if self.is_vector() && self.bits(a) == 64 {
            let condition = match signed {
                true => IntCC::SignedLessThan,
                false => IntCC::UnsignedLessThan,
            };
            let less = self.icmp(condition, a, b);
            return match is_max {
                true => self.select(less, b, a),
                false => self.select(less, a, b),
            };
        }
        self.each2(a, b, |code, a, b| match (is_max, signed) {
            (false, false) => code.ins().umin(a, b),
            (false, true) => code.ins().smin(a, b),
            (true, false) => code.ins().umax(a, b),
            (true, true) => code.ins().smax(a, b),
        })
    }

    /// Sign-extends the low `bits` bits of lanes of 32 or 64 bits.
    pub(crate) fn sign_extended(&mut self, a: Group, bits: u32) -> Group {
        let by = self.bits(a) - bits;
        if by == 0 {
            return a;
        }
        let high = self.shl(a, by);
        self.sar(high, by)
    }

    /// Clears all bits of lanes of 32 or 64 bits except the low `bits` bits.
    pub(crate) fn truncated(&mut self, a: Group, bits: u32) -> Group {
        let width = self.bits(a);
        if bits >= width {
            return a;
        }
        let mask = self.int(width, (1 << bits) - 1);
        self.and(a, mask)
    }

    /// Ands all lanes with a constant.
    pub(crate) fn and_with(&mut self, a: Group, value: u64) -> Group {
        let value = self.int(self.bits(a), value);
        self.and(a, value)
    }

    /// Converts `f32` lanes to `f64`.
    pub(crate) fn promote(&mut self, a: Group) -> Group {
        match self.mode {
            Mode::Scalar => self.b.ins().fpromote(types::F64, a[0]).into(),
            Mode::Vector => {
                let high = self.words(a[0], a[0], [8, 12, 8, 12]);
                let high = self.cast(high, types::F32X4);
                let low = self.b.ins().fvpromote_low(a[0]);
                Group::new(&[low, self.b.ins().fvpromote_low(high)])
            }
        }
    }

    /// Converts `f64` lanes to `f32`, rounded to nearest even.
    pub(crate) fn demote(&mut self, a: Group) -> Group {
        match self.mode {
            Mode::Scalar => self.b.ins().fdemote(types::F32, a[0]).into(),
            Mode::Vector => {
                let (low, high) = (self.b.ins().fvdemote(a[0]), self.b.ins().fvdemote(a[1]));
                let words = self.words(low, high, [0, 4, 16, 20]);
                self.cast(words, types::F32X4).into()
            }
        }
    }
}
