//! The shape of each op: the types, operands, results, modifiers and branch targets that its
//! instructions may have.
//!
//! The last column of the op table ([`crate::for_each_op`]) is an expression that is evaluated in this module. The
//! result is a [`Shape`], against which the verifier checks instructions. The function [`shape`]
//! creates a [`Shape`] from the types that an instruction may have, a string for the operands and a
//! string for the results. The strings have one letter for each value:
//!
//! | letter | value |
//! |---|---|
//! | `t` | the register type of `ty` ([`OpType::held`]) |
//! | `s` | the register type of `src` |
//! | `m` | the register type of `src` if given, otherwise of `ty` |
//! | `w` | the register type of `ty`, or twice as wide if `half` is `wide` |
//! | `x` | an integer or a floating-point register with as many bits as `ty` |
//! | `T` | any register with as many bits as the register type of `ty`, or a wider integer |
//! | `S` | the register type of `src`, or an integer with at least as many bits |
//! | `p`, `b`, `q` | `pred`, `b32`, `b64` |
//! | `a` | an address: `b32` or `b64` |
//! | `c` | a carry of type `pred`, present only with `.cc` |
//!
//! If `?` follows a letter, the value is optional. If `*` follows a letter, there is one value for each element of the
//! vector (`vec`).
//!
//! Methods of [`Shape`] add the second types that an instruction may have (`from`), its modifiers
//! (`mods`), and properties that the letters cannot express.

use crate::ops::Opcode;
use crate::types::OpType;

/// The number of branch targets of an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Targets {
    /// The op has exactly this number of branch targets.
    Exactly(usize),
    /// The op has at least one branch target; the first is the default target.
    AtLeastOne,
}

/// The rules that all instructions of an op must satisfy. The last column of the op's row in the op
/// table defines them.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The types that an instruction may have. If the list is empty, instructions have no type.
    pub types: &'static [OpType],
    /// Whether an instruction may have no type although `types` is not empty.
    pub type_optional: bool,
    /// The second types that an instruction may have, such as the source type of a conversion. If
    /// the list is empty, instructions have no second type.
    pub sources: &'static [OpType],
    /// Whether an instruction may have no second type although `sources` is not empty.
    pub source_optional: bool,
    /// The pattern that the operands of an instruction must match.
    pub operands: Pattern,
    /// The pattern that the results of an instruction must match.
    pub results: Pattern,
    /// The names of the fields of [`crate::mods::Mods`] that an instruction may set.
    pub mods: &'static [&'static str],
    /// The number of branch targets that an instruction must have.
    pub targets: Targets,
}

/// The rule for the number and the types of an instruction's operands or results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// One value for each letter; the documentation of the module defines the letters.
    Letters(&'static str),
    /// The operands of `pack` or the results of `unpack`, whose total size must be the size of the
    /// packed value.
    Parts,
    /// The operands of `cvt`: the values to convert, followed by random bits or a scale factor if the conversion needs
    /// them.
    Converted,
    /// The operands or results of a matrix product: the member mask and the registers of the
    /// matrices, see [`crate::meaning::matrix`].
    Product,
    /// An address, followed by the operands of the access that `check.access` or `observe.access`
    /// describes. These operands may be absent; there are at most two for each element.
    Examined,
    /// Values of the types in the signature to which the instruction refers; for `ret`, of the
    /// result types of the function that contains it.
    Signature,
}

use OpType::*;
use Pattern::*;
use Targets::*;

const NONE: &[OpType] = &[];
const HELD: &[OpType] = &[Pred, B8, B16, B32, B64, B128, F32, F64];
const BITS: &[OpType] = &[B8, B16, B32, B64, B128];
const ADDRESS: &[OpType] = &[U32, U64];
const INT: &[OpType] = &[U16, S16, U32, S32, U64, S64];
const I32: &[OpType] = &[U32, S32];
const I32_64: &[OpType] = &[U32, S32, U64, S64];
const B32_64: &[OpType] = &[B32, B64];
const HALVES: &[OpType] = &[F16, BF16];
const SINGLE: &[OpType] = &[F32, F64];
const DIVIDED: &[OpType] = &[U16, S16, U32, S32, U64, S64, F32, F64];
const FACTORS: &[OpType] = &[F16, BF16, TF32, F64, E4M3, E5M2, S8, U8, S4, U4, B1];
const APPROXIMATE: &[OpType] = &[F16, F16x2, BF16, BF16x2, F32, F64];
const FUSED: &[OpType] = &[F16, F16x2, BF16, BF16x2, F32, F32x2, F64];
const ARITHMETIC: &[OpType] = &[
    U16, S16, U32, S32, U64, S64, U16x2, S16x2, U8x4, S8x4, F16, F16x2, BF16, BF16x2, F32, F32x2,
    F64,
];
const LOGIC: &[OpType] = &[B8, B16, B32, B64, Pred];
const SHIFTED: &[OpType] = &[B16, B32, B64, U16, S16, U32, S32, U64, S64];
const SCALAR: &[OpType] = &[
    Pred, B8, B16, B32, B64, B128, U8, S8, U16, S16, U32, S32, U64, S64, F16, F16x2, BF16, BF16x2,
    F32, F64,
];
const COMPARED: &[OpType] = &[
    B16, B32, B64, U16, S16, U32, S32, U64, S64, F16, F16x2, BF16, BF16x2, F32, F64,
];
const SET: &[OpType] = &[U16, S16, U32, S32, F16, F16x2, BF16, BF16x2, F32];
const MEMORY: &[OpType] = &[
    B8, B16, B32, B64, B128, U8, S8, U16, S16, U32, S32, U64, S64, F16, F16x2, BF16, BF16x2, F32,
    F64,
];
const UPDATED: &[OpType] = &[
    B16, B32, B64, B128, U32, S32, U64, S64, F16, F16x2, BF16, BF16x2, F32, F64,
];
const PACKED: &[OpType] = &[U16, S16, U8, S8, U4, S4, U2, S2];
const CONVERTED: &[OpType] = &[
    U8, S8, U16, S16, U32, S32, U64, S64, F16, F16x2, BF16, BF16x2, TF32, F32, F64, E4M3x2, E5M2x2,
    E4M3x4, E5M2x4, E3M2x2, E2M3x2, E3M2x4, E2M3x4, E2M1x2, E2M1x4, UE8M0x2,
];

const FLOAT_MODS: &[&str] = &["rounding", "ftz", "sat", "precision"];
const SUM_MODS: &[&str] = &["rounding", "ftz", "sat", "carry_out"];
const MIN_MAX_MODS: &[&str] = &["ftz", "nan", "relu", "xorsign_abs", "abs"];
const MEMORY_MODS: &[&str] = &["space", "order", "scope", "vec_log2", "nc"];
const ATOMIC_MODS: &[&str] = &[
    "space", "order", "scope", "vec_log2", "atom_op", "noftz", "ftz",
];
const PRODUCT_MODS: &[&str] = &[
    "mode",
    "atom_op",
    "rounding",
    "satfinite",
    "noftz",
    "asel",
    "bsel",
    "bsigned",
    "dsel",
];
const VIDEO_MODS: &[&str] = &[
    "sat", "atom_op", "mode", "cmp", "flag", "asel", "bsel", "dsel", "negate", "bsigned",
];

const fn shape(types: &'static [OpType], operands: &'static str, results: &'static str) -> Shape {
    Shape {
        types,
        type_optional: false,
        sources: NONE,
        source_optional: false,
        operands: Letters(operands),
        results: Letters(results),
        mods: &[],
        targets: Exactly(0),
    }
}

impl Shape {
    const fn from(mut self, sources: &'static [OpType]) -> Shape {
        self.sources = sources;
        self
    }

    const fn maybe_typed(mut self) -> Shape {
        self.type_optional = true;
        self
    }

    const fn maybe_from(mut self, sources: &'static [OpType]) -> Shape {
        self.source_optional = true;
        self.from(sources)
    }

    const fn operands(mut self, operands: Pattern) -> Shape {
        self.operands = operands;
        self
    }

    const fn results(mut self, results: Pattern) -> Shape {
        self.results = results;
        self
    }

    const fn mods(mut self, mods: &'static [&'static str]) -> Shape {
        self.mods = mods;
        self
    }

    const fn targets(mut self, targets: Targets) -> Shape {
        self.targets = targets;
        self
    }
}

/// The shape of instructions that have no type, no operands and no results.
const NOTHING: Shape = shape(NONE, "", "");
/// The shape of instructions whose operands and results a signature or a payload determines.
const BY_SIGNATURE: Shape = NOTHING.operands(Signature).results(Signature);
/// The shape of an op that computes a function of one floating-point operand.
const FUNCTION: Shape = shape(APPROXIMATE, "t", "t").mods(FLOAT_MODS);
const VIDEO: Shape = shape(I32, "bbb?", "b").from(I32).mods(VIDEO_MODS);
const PACKED_VIDEO: Shape = shape(I32, "bbb", "b").from(I32).mods(VIDEO_MODS);

macro_rules! define_shapes {
    ($($name:ident $text:literal ($($effects:tt)*) ($($meaning:tt)*) [$($shape:tt)*];)*) => {
        static SHAPES: &[(Opcode, Shape)] = &[$((Opcode::$name, $($shape)*),)*];
    };
}

crate::for_each_op!(define_shapes);

impl Opcode {
    /// Returns the rules that instructions of this op must satisfy.
    pub fn shape(self) -> &'static Shape {
        &SHAPES[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mods::Mods;

    #[test]
    fn rows_are_in_the_order_of_opcodes() {
        for &opcode in Opcode::ALL {
            assert_eq!(SHAPES[opcode as usize].0, opcode);
        }
    }

    #[test]
    fn rows_use_known_letters_and_fields() {
        for (_, shape) in SHAPES {
            for pattern in [shape.operands, shape.results] {
                if let Pattern::Letters(letters) = pattern {
                    assert!(letters.chars().all(|c| "tsmwxTSpbqac?*".contains(c)));
                }
            }
            for name in shape.mods {
                assert!(Mods::FIELDS.iter().any(|f| f.name == *name), "{name}");
            }
        }
    }
}
