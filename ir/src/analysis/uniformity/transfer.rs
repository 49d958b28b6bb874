//! Computes the class of an instruction's results from the classes of its operands.

use super::{Assumptions, Class, Fact};
use crate::entity::Inst;
use crate::function::{Function, payload_sreg};
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Half, Mode, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::{self, SpecialReg};
use margay_ops::types::Class as TypeClass;

/// Number of trailing zero bits of the value zero.
const ALL_ZEROS: u32 = 64;

/// An instruction and the facts about its operands.
pub(in crate::analysis) struct Transfer<'a> {
    pub(in crate::analysis) function: &'a Function,
    pub(in crate::analysis) inst: Inst,
    pub(in crate::analysis) args: &'a [Fact],
    /// Whether a loop around the instruction contains a `yield` or `nanosleep`.
    pub(in crate::analysis) yields: bool,
    pub(in crate::analysis) assumptions: Assumptions,
}

impl Transfer<'_> {
    /// Returns the fact about the result with index `number`.
    pub(in crate::analysis) fn result(&self, number: usize) -> Fact {
        let desc = self.function.dfg.insts[self.inst].desc();
        match desc.opcode {
            Opcode::Const => Fact {
                class: Class::Launch,
                zeros: zeros_of(desc.mods.0),
            },
            Opcode::ParamAddr | Opcode::SymbolAddr | Opcode::FuncAddr => uniform(Class::Launch),
            // With `flag`, the checking run examines each lane, and can replace the addresses of single lanes.
            Opcode::CheckAccess if desc.mods.flag() => Fact::VARYING,
            // The frame of a device function begins where the frame of its caller ends. This position differs between
            // threads.
            Opcode::LocalAddr if self.function.kernel.is_none() => Fact::VARYING,
            Opcode::LocalAddr => uniform(Class::Launch),
            Opcode::SReg => self.register(desc),
            Opcode::Ld => uniform(self.load(desc)),
            Opcode::Cvta => self.cvta(desc),
            Opcode::Isspacep => uniform(match desc.mods.space() {
                StateSpace::Global | StateSpace::Const => self.worst(),
                StateSpace::Shared => self.worst().at_most(Class::Cta),
                _ => Class::Varying,
            }),
            Opcode::Vote | Opcode::Redux | Opcode::Match => uniform(self.collective(desc, number)),
            Opcode::Bar => uniform(self.barrier()),
            opcode if opcode.effects().is_pure() && number == 0 => self.pure(desc),
            opcode if opcode.effects().is_pure() => uniform(self.worst()),
            _ => Fact::VARYING,
        }
    }

    fn within(&self, fact: Fact, bits: u32) -> bool {
        within(fact, bits, self.assumptions.width)
    }

    fn arg(&self, index: usize) -> Fact {
        self.args.get(index).copied().unwrap_or(Fact::VARYING)
    }

    /// Returns the class of the results of an op for which the analysis has no other rule: the
    /// class of the least uniform operand, but [`Class::Varying`] instead of an affine class.
    fn worst(&self) -> Class {
        let all = self.args.iter().map(|fact| fact.class);
        match all.fold(Class::Launch, Class::max) {
            Class::Affine(_) => Class::Varying,
            class => class,
        }
    }

    fn register(&self, desc: Desc) -> Fact {
        let Some(register) = payload_sreg(desc.mods.0) else {
            return Fact::VARYING;
        };
        let rows = self.assumptions.whole_rows;
        let affine = |zeros| Fact {
            class: Class::Affine(1),
            zeros,
        };
        match register {
            SpecialReg::Laneid if self.assumptions.width == 32 => affine(ALL_ZEROS),
            SpecialReg::Laneid => affine(self.assumptions.width.trailing_zeros()),
            // The first lane of a chunk is at a multiple of the chunk's width in its row.
            SpecialReg::TidX if rows => affine(self.assumptions.width.trailing_zeros()),
            SpecialReg::TidY | SpecialReg::TidZ if rows => uniform(Class::Warp),
            SpecialReg::NtidX => Fact {
                class: Class::Launch,
                zeros: self.assumptions.ntid_x_zeros,
            },
            _ => uniform(match register.uniformity() {
                sreg::Uniformity::Launch => Class::Launch,
                sreg::Uniformity::Cta => Class::Cta,
                sreg::Uniformity::Warp => Class::Warp,
                sreg::Uniformity::Varying => Class::Varying,
            }),
        }
    }

    fn load(&self, desc: Desc) -> Class {
        let address = self.arg(0).class;
        let weak = desc.mods.is_weak();
        if !weak || !address.is_uniform() {
            return Class::Varying;
        }
        match desc.mods.space() {
            StateSpace::Const | StateSpace::Param => address,
            _ if desc.mods.nc() => address,
            StateSpace::Local | StateSpace::ParamFunc => Class::Varying,
            _ if self.yields => Class::Varying,
            // A generic address that is equal for all lanes is not an address of local memory, because each lane has
            // its local memory at a different generic address.
            _ => Class::Warp,
        }
    }

    fn cvta(&self, desc: Desc) -> Fact {
        let fact = self.arg(0);
        match desc.mods.space() {
            StateSpace::Global | StateSpace::Const | StateSpace::Param => fact,
            StateSpace::Shared | StateSpace::SharedCluster => match fact.class {
                // The instruction adds only the low 32 bits of the operand to the start of the window.
                Class::Affine(_) if !self.within(fact, 32) => Fact::VARYING,
                class => Fact {
                    class: class.at_most(Class::Cta),
                    zeros: 0,
                },
            },
            _ => Fact::VARYING,
        }
    }

    /// Returns the class of result `number` of a collective. The first result is equal for lanes
    /// with equal member masks, except the result of `match.any`.
    fn collective(&self, desc: Desc, number: usize) -> Class {
        let each = desc.opcode == Opcode::Match && desc.mods.mode() != Mode::All;
        if !each && number == 0 && !desc.mods.flag() && self.arg(1).class.is_uniform() {
            Class::Warp
        } else {
            Class::Varying
        }
    }

    /// Returns the class of the result of a `bar.red`. The result is equal for the CTA if all threads of the CTA take
    /// part.
    fn barrier(&self) -> Class {
        let args = self.function.dfg.args(self.inst);
        let all = args
            .get(1)
            .and_then(|&count| self.function.dfg.constant(count))
            == Some(0);
        if all && self.arg(0).class <= Class::Cta {
            Class::Cta
        } else {
            Class::Varying
        }
    }

    /// Returns the fact about the result of a pure operation. The result is uniform if all operands are uniform, and
    /// affine if an operand is affine and the operation preserves strides.
    fn pure(&self, desc: Desc) -> Fact {
        let worst = uniform(self.worst());
        if !desc.ty.is_integer() || desc.ty.elements() != 1 || desc.mods.sat() {
            return worst;
        }
        let (a, b, c) = (self.arg(0), self.arg(1), self.arg(2));
        match (desc.opcode, self.args.len()) {
            (Opcode::Add, 2) => sum(a, b, 1),
            (Opcode::Sub, 2) => sum(a, b, -1),
            (Opcode::Mul, 2) => self.product(desc),
            (Opcode::Mad, 3) => sum(self.product(desc), c, 1),
            (Opcode::Shl, 2) => match self.constant(1) {
                Some(count) if count < 63 => scaled(a, 1 << count),
                _ => worst,
            },
            (Opcode::Neg, 1) => scaled(a, -1),
            (Opcode::Shr, 2) => match self.constant(1) {
                Some(count) if count < 32 => self.shifted_right(a, count as u32, desc.ty.bits()),
                _ => worst,
            },
            (Opcode::And, 2) => match (self.constant(0), self.constant(1)) {
                (_, Some(mask)) => self.masked(a, mask as u64, desc.ty.bits()),
                (Some(mask), _) => self.masked(b, mask as u64, desc.ty.bits()),
                _ => worst,
            },
            (Opcode::Bitcast, 1) if desc.src.is_integer() => a,
            (Opcode::Cvt, 1) if desc.src.is_integer() => self.converted(desc),
            (Opcode::Setp, 2) => self.comparison(desc, (a, b)).unwrap_or(worst),
            // All lanes select the same operand.
            (Opcode::Selp, 3) if c.class.is_uniform() => {
                let fact = super::either(a, b);
                let class = fact.class.at_most(c.class);
                Fact { class, ..fact }
            }
            _ => worst,
        }
    }

    /// Returns the fact about `a >> count`. The result is uniform if the lanes of an affine value differ only in the bits
    /// that the shift drops.
    fn shifted_right(&self, a: Fact, count: u32, bits: u32) -> Fact {
        let dropped = Fact {
            zeros: a.zeros.min(count),
            ..a
        };
        let zeros = a.zeros.saturating_sub(count);
        match a.class {
            Class::Affine(_) if self.within(dropped, bits) => Fact {
                class: Class::Warp,
                zeros,
            },
            class if class.is_uniform() => Fact { class, zeros },
            _ => Fact::VARYING,
        }
    }

    /// Returns the fact about `a & mask`. If the mask contains all bits in which the lanes of an affine value differ, the
    /// result is affine; if it contains none of them, the result is uniform.
    fn masked(&self, a: Fact, mask: u64, bits: u32) -> Fact {
        let zeros = a.zeros.max(zeros_of(mask));
        let (ones, other) = (mask.trailing_ones(), zeros_of(mask));
        let differs_below = |count: u32| {
            let zeros = a.zeros.min(count);
            self.within(Fact { zeros, ..a }, bits)
        };
        match a.class {
            Class::Affine(_) if differs_below(ones) => Fact { zeros, ..a },
            Class::Affine(_) if differs_below(other) => Fact {
                class: Class::Warp,
                zeros,
            },
            class if class.is_uniform() => Fact { class, zeros },
            _ => Fact::VARYING,
        }
    }

    fn constant(&self, index: usize) -> Option<i64> {
        let arg = *self.function.dfg.args(self.inst).get(index)?;
        Some(self.function.dfg.constant(arg)? as i64)
    }

    /// Returns the fact about the comparison of an affine value with a uniform value. The result is uniform if the lanes
    /// differ only in bits that are zero in the uniform value and in the first lane: no lane is then on the other side of the
    /// uniform value.
    fn comparison(&self, desc: Desc, (a, b): (Fact, Fact)) -> Option<Fact> {
        let cmp = desc.mods.cmp();
        let (affine, other, compares_sides) = match (a.class, b.class) {
            (Class::Affine(_), other) if other.is_uniform() => {
                let sides = [CmpOp::Lt, CmpOp::Ge, CmpOp::Lo, CmpOp::Hs];
                (a, b, sides.contains(&cmp))
            }
            (other, Class::Affine(_)) if other.is_uniform() => {
                let sides = [CmpOp::Gt, CmpOp::Le, CmpOp::Hi, CmpOp::Ls];
                (b, a, sides.contains(&cmp))
            }
            _ => return None,
        };
        let zeros = affine.zeros.min(other.zeros);
        let differs_below = self.within(Fact { zeros, ..affine }, desc.ty.bits());
        (compares_sides && differs_below).then(|| uniform(Class::Warp))
    }

    /// Returns the fact about the result of a multiplication. A product of an affine value and a
    /// constant is affine.
    fn product(&self, desc: Desc) -> Fact {
        let (a, b) = (self.arg(0), self.arg(1));
        let bits = desc.ty.bits();
        let signed = |value: i64| match desc.ty.class() {
            TypeClass::Signed => sign_extended(value, bits),
            _ => value,
        };
        let (factor, scale) = match (self.constant(0), self.constant(1)) {
            (_, Some(scale)) => (a, signed(scale)),
            (Some(scale), _) => (b, signed(scale)),
            _ => (a, 0),
        };
        let both = Fact {
            class: uniform_or_varying(a.class.max(b.class)),
            zeros: (a.zeros + b.zeros).min(ALL_ZEROS),
        };
        match (factor.class, desc.mods.half()) {
            (_, Half::Hi) => uniform(self.worst_of(2)),
            (Class::Affine(_), Half::Wide) if !self.within(factor, bits) => Fact::VARYING,
            (Class::Affine(_), _) if self.constant(0).is_some() || self.constant(1).is_some() => {
                scaled(factor, scale)
            }
            _ => both,
        }
    }

    fn worst_of(&self, count: usize) -> Class {
        let all = self.args.iter().take(count).map(|fact| fact.class);
        uniform_or_varying(all.fold(Class::Launch, Class::max))
    }

    /// Returns the fact about an integer converted to another width.
    fn converted(&self, desc: Desc) -> Fact {
        let fact = self.arg(0);
        // The register may be wider than the source type of the conversion, which then ignores the upper bits.
        let actual = self.function.dfg.args(self.inst).first();
        let plain = actual.is_some_and(|&v| self.function.dfg.ty(v) == desc.src.held());
        let widens = desc.ty.bits() > desc.src.bits();
        match fact.class {
            Class::Affine(_) if widens && !self.within(fact, desc.src.bits()) || !plain => {
                Fact::VARYING
            }
            Class::Affine(_) => fact,
            _ if plain => fact,
            _ => uniform(self.worst()),
        }
    }
}

fn uniform(class: Class) -> Fact {
    Fact { class, zeros: 0 }
}

fn uniform_or_varying(class: Class) -> Class {
    match class {
        Class::Affine(_) => Class::Varying,
        class => class,
    }
}

fn zeros_of(bits: u64) -> u32 {
    bits.trailing_zeros().min(ALL_ZEROS)
}

fn sign_extended(value: i64, bits: u32) -> i64 {
    match bits {
        0 | 64.. => value,
        bits => value << (64 - bits) >> (64 - bits),
    }
}

/// Returns whether adding `stride * lane` to the base changes only bits that are zero in the base, in a type of `bits`
/// bits. If so, the sum neither wraps nor changes its sign between the first lane and the last.
fn within(fact: Fact, bits: u32, width: u32) -> bool {
    match fact.class {
        Class::Affine(stride) => {
            let room = 1i64 << fact.zeros.min(bits.saturating_sub(1)).min(62);
            let reach = stride.checked_mul(i64::from(width) - 1);
            stride >= 0 && reach.is_some_and(|reach| reach < room)
        }
        _ => false,
    }
}

/// Returns the fact about `a + sign * b`.
fn sum(a: Fact, b: Fact, sign: i64) -> Fact {
    let stride = |fact: Fact| match fact.class {
        Class::Affine(stride) => Some(stride),
        class if class.is_uniform() => Some(0),
        _ => None,
    };
    let class = match (stride(a), stride(b)) {
        (Some(0), Some(0)) => a.class.max(b.class),
        (Some(x), Some(y)) => match x.wrapping_add(y.wrapping_mul(sign)) {
            0 => Class::Warp,
            stride => Class::Affine(stride),
        },
        _ => Class::Varying,
    };
    let zeros = a.zeros.min(b.zeros);
    Fact { class, zeros }
}

/// Returns the fact about `a * scale`.
fn scaled(a: Fact, scale: i64) -> Fact {
    let class = match a.class {
        Class::Affine(stride) => match stride.wrapping_mul(scale) {
            0 => Class::Warp,
            stride => Class::Affine(stride),
        },
        class => class,
    };
    let zeros = (a.zeros + zeros_of(scale as u64)).min(ALL_ZEROS);
    Fact { class, zeros }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_stay_within_the_zero_bits_of_their_base() {
        let affine = |stride, zeros| Fact {
            class: Class::Affine(stride),
            zeros,
        };
        // 31 * 1 needs five bits, 31 * 4 needs seven and 31 * 5 needs eight.
        assert!(within(affine(1, 5), 32, 32) && !within(affine(1, 4), 32, 32));
        assert!(within(affine(4, 7), 32, 32) && !within(affine(4, 6), 32, 32));
        assert!(within(affine(5, 20), 32, 32) && !within(affine(5, 7), 32, 32));
        assert!(!within(affine(-1, 20), 32, 32));
        // In a narrower chunk the last lane has a lower number, so fewer zero bits are enough.
        assert!(within(affine(1, 4), 32, 16) && !within(affine(2, 4), 32, 16));
        // Bit 7 is the sign bit of an 8-bit type.
        assert!(within(affine(4, 64), 8, 32) && !within(affine(5, 64), 8, 32));
    }

    #[test]
    fn strides_add_and_scale() {
        let tid = Fact {
            class: Class::Affine(1),
            zeros: 5,
        };
        assert_eq!(sum(tid, scaled(tid, 3), 1).class, Class::Affine(4));
        assert_eq!(sum(tid, tid, -1).class, Class::Warp);
        assert_eq!(scaled(tid, 4).zeros, 7);
        assert_eq!(sum(tid, uniform(Class::Cta), 1).class, Class::Affine(1));
        assert_eq!(sum(tid, Fact::VARYING, 1).class, Class::Varying);
    }
}
