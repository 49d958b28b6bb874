//! The shape of each op: types, operands, results, modifiers, branch targets.
//!
//! These rows are separate from the op table ([`crate::for_each_op`]): they specify how an instruction must be
//! built, not what it does. The verifier reads them. Operands and results are written as a string, with one
//! letter for each:
//!
//! | letter | value |
//! |---|---|
//! | `t` | held like `ty` |
//! | `s` | held like `src` |
//! | `m` | held like `src` if given, else like `ty` |
//! | `w` | held like `ty`, or twice as wide if `half` is `wide` |
//! | `x` | as many bits as `ty`, in an integer or a floating-point register |
//! | `T`, `S` | held like `ty` (`T`) or `src` (`S`), or a wider integer |
//! | `p`, `b`, `q` | `pred`, `b32`, `b64` |
//! | `a` | an address: `b32` or `b64` |
//! | `c` | a carry of type `pred`, present only with `.cc` |
//!
//! A letter followed by `?` is optional. A letter followed by `*` is repeated for each element of the vector
//! (`vec`).
//!
//! Invariant: every opcode has exactly one row, as a test checks.

use std::sync::LazyLock;

use crate::ops::Opcode;
use crate::types::OpType;

/// The number of branch targets of an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Targets {
    /// Exactly this number.
    Exactly(usize),
    /// One (the default) or more.
    AtLeastOne,
}

/// A row: how an instruction of an op must be built.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Allowed types; if empty, no type is given.
    pub types: &'static [OpType],
    /// Whether the type may be omitted although some types are allowed.
    pub type_optional: bool,
    /// Allowed second types; if empty, no second type is given.
    pub sources: &'static [OpType],
    /// Whether the second type may be omitted although some are allowed.
    pub source_optional: bool,
    /// Operands.
    pub operands: Pattern,
    /// Results.
    pub results: Pattern,
    /// Fields of [`crate::mods::Mods`] that may be set.
    pub mods: &'static [&'static str],
    /// Branch targets.
    pub targets: Targets,
}

/// The pattern of the operands or of the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// As the letters specify: see the module's documentation.
    Letters(&'static str),
    /// The parts of `pack` or `unpack`, which together have the size of the other type.
    Parts,
    /// The operands of `cvt`: values to convert, then random bits or a scale factor if the rounding needs them.
    Converted,
    /// The member mask and the registers of matrices: see [`crate::meaning::matrix`].
    Product,
    /// The types in the signature that the instruction names; for `ret`, in the signature of its function.
    Signature,
}

use OpType::{
    B8, B16, B32, B64, B128, BF16, BF16x2, E2M1x2, E2M1x4, E2M3x2, E2M3x4, E3M2x2, E3M2x4, E4M3,
    E4M3x2, E4M3x4, E5M2, E5M2x2, E5M2x4, F16, F16x2, F32, F32x2, F64, Pred, S2, S4, S8, S8x4, S16,
    S16x2, S32, S64, TF32, U2, U4, U8, U8x4, U16, U16x2, U32, U64, UE8M0x2,
};

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
const FACTORS: &[OpType] = &[F16, BF16, TF32, F64, E4M3, E5M2, S8, U8, S4, U4, OpType::B1];
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
const MEMORY_MODS: &[&str] = &["space", "order", "scope", "vec_log2", "nc"];
const VIDEO_MODS: &[&str] = &[
    "sat", "atom_op", "mode", "cmp", "flag", "asel", "bsel", "dsel", "negate", "bsigned",
];

const fn shape(
    types: &'static [OpType],
    operands: &'static str,
    results: &'static str,
    mods: &'static [&'static str],
) -> Shape {
    Shape {
        types,
        type_optional: false,
        sources: NONE,
        source_optional: false,
        operands: Pattern::Letters(operands),
        results: Pattern::Letters(results),
        mods,
        targets: Targets::Exactly(0),
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

    const fn targets(mut self, targets: Targets) -> Shape {
        self.targets = targets;
        self
    }
}

const fn end(operands: &'static str, targets: Targets) -> Shape {
    shape(NONE, operands, "", &[]).targets(targets)
}

/// Returns the rows. The ops of one row have the same shape.
fn rows() -> Vec<(&'static [Opcode], Shape)> {
    let mut rows = structure();
    rows.extend(arithmetic());
    rows.extend(logic_and_conversion());
    rows.extend(memory_and_synchronisation());
    rows
}

fn structure() -> Vec<(&'static [Opcode], Shape)> {
    use Opcode::*;
    vec![
        (&[Const], shape(HELD, "", "t", &[])),
        (
            &[LocalAddr, SymbolAddr, ParamAddr, FuncAddr],
            shape(&[U64], "", "t", &[]),
        ),
        (&[SReg, Clock], shape(&[U32, U64, Pred], "", "t", &[])),
        (&[Bitcast], shape(HELD, "s", "t", &[]).from(HELD)),
        (
            &[Pack],
            shape(BITS, "", "t", &[])
                .from(BITS)
                .operands(Pattern::Parts),
        ),
        (
            &[Unpack],
            shape(BITS, "s", "", &[]).from(BITS).results(Pattern::Parts),
        ),
        (&[Jump], end("", Targets::Exactly(1))),
        (&[Brif], end("p", Targets::Exactly(2))),
        (&[BrTable], end("b", Targets::AtLeastOne)),
        (
            &[Ret],
            end("", Targets::Exactly(0)).operands(Pattern::Signature),
        ),
        (&[Exit, Trap, Unreachable], end("", Targets::Exactly(0))),
        (&[InvalidPc], end("q", Targets::Exactly(0))),
        (&[StackCheck], shape(NONE, "a", "", &[])),
        (
            &[Call, CallIndirect, Syscall, Tex, Txq, Suld, Sust, Sured],
            shape(NONE, "", "", &[])
                .operands(Pattern::Signature)
                .results(Pattern::Signature),
        ),
    ]
}

fn arithmetic() -> Vec<(&'static [Opcode], Shape)> {
    use Opcode::*;
    vec![
        (
            &[Add, Sub],
            shape(
                ARITHMETIC,
                "mt",
                "tc",
                &["rounding", "ftz", "sat", "carry_out"],
            )
            .maybe_from(HALVES),
        ),
        (
            &[Mul],
            shape(ARITHMETIC, "tt", "w", &["rounding", "ftz", "sat", "half"]),
        ),
        (
            &[Mad],
            shape(INT, "ttw", "wc", &["half", "sat", "carry_out"]),
        ),
        (
            &[Fma],
            shape(
                FUSED,
                "mmt",
                "t",
                &["rounding", "ftz", "sat", "relu", "oob"],
            )
            .maybe_from(HALVES),
        ),
        (&[Addc, Subc], shape(INT, "ttp", "tc", &["carry_out"])),
        (&[Madc], shape(INT, "tttp", "tc", &["half", "carry_out"])),
        (&[Mul24], shape(I32, "tt", "t", &["half"])),
        (&[Mad24], shape(I32, "ttt", "t", &["half", "sat"])),
        (&[Sad], shape(INT, "ttt", "t", &[])),
        (
            &[Div],
            shape(
                &[U16, S16, U32, S32, U64, S64, F32, F64],
                "tt",
                "t",
                FLOAT_MODS,
            ),
        ),
        (&[Rem], shape(INT, "tt", "t", &[])),
        (&[Abs, Neg], shape(ARITHMETIC, "t", "t", &["ftz"])),
        (
            &[Min, Max],
            shape(
                ARITHMETIC,
                "ttt?",
                "t",
                &["ftz", "nan", "relu", "xorsign_abs", "abs"],
            ),
        ),
        (&[Popc, Clz], shape(B32_64, "t", "b", &[])),
        (&[Bfind], shape(I32_64, "t", "b", &["flag"])),
        (&[Fns], shape(&[B32], "bbb", "b", &[])),
        (&[Brev], shape(B32_64, "t", "t", &[])),
        (&[Bfe], shape(I32_64, "tbb", "t", &[])),
        (&[Bfi], shape(B32_64, "ttbb", "t", &[])),
        (&[Szext], shape(I32, "tb", "t", &["mode"])),
        (&[Bmsk], shape(&[B32], "tt", "t", &["mode"])),
        (&[Dp4a, Dp2a], shape(I32, "bbb", "b", &["half"]).from(I32)),
        (
            &[Rcp, Sqrt, Rsqrt, Sin, Cos, Lg2, Ex2, Tanh],
            shape(APPROXIMATE, "t", "t", FLOAT_MODS),
        ),
        (&[Copysign], shape(SINGLE, "tt", "t", &[])),
        (&[Testp], shape(SINGLE, "t", "p", &["mode"])),
    ]
}

fn logic_and_conversion() -> Vec<(&'static [Opcode], Shape)> {
    use Opcode::*;
    vec![
        (
            &[Set],
            shape(SET, "ssp?", "t", &["cmp", "bool_op", "ftz"]).from(COMPARED),
        ),
        (
            &[Setp],
            shape(COMPARED, "ttp?", "pp?", &["cmp", "bool_op", "ftz"]),
        ),
        (&[Selp], shape(SCALAR, "xxp", "x", &[])),
        (
            &[Slct],
            shape(SCALAR, "tts", "t", &["ftz"]).from(&[S32, F32]),
        ),
        (&[And, Or, Xor], shape(LOGIC, "tt", "t", &[])),
        (&[Not, Cnot], shape(LOGIC, "t", "t", &[])),
        (&[Lop3], shape(&[B32], "tttbp?", "tp?", &["bool_op"])),
        (&[Shl, Shr], shape(SHIFTED, "tb", "t", &[])),
        (&[Shf], shape(&[B32], "ttb", "t", &["mode", "flag"])),
        (&[Prmt], shape(&[B32], "ttb", "t", &["mode"])),
        (
            &[Cvt],
            shape(
                CONVERTED,
                "",
                "t",
                &["rounding", "ftz", "sat", "satfinite", "relu"],
            )
            .from(CONVERTED)
            .operands(Pattern::Converted),
        ),
        (
            &[CvtPack],
            shape(PACKED, "ssb?", "b", &["sat"]).from(&[S32]),
        ),
        (
            &[Vadd, Vsub, Vabsdiff, Vmin, Vmax, Vshl, Vshr, Vmad, Vset],
            shape(I32, "bbb?", "b", VIDEO_MODS).from(I32),
        ),
        (
            &[
                Vadd2, Vsub2, Vavrg2, Vabsdiff2, Vmin2, Vmax2, Vset2, Vadd4, Vsub4, Vavrg4,
                Vabsdiff4, Vmin4, Vmax4, Vset4,
            ],
            shape(I32, "bbb", "b", VIDEO_MODS).from(I32),
        ),
    ]
}

fn memory_and_synchronisation() -> Vec<(&'static [Opcode], Shape)> {
    use Opcode::*;
    vec![
        (&[Cvta], shape(ADDRESS, "a", "t", &["space", "mode"])),
        (&[Isspacep], shape(NONE, "a", "p", &["space"])),
        (&[Ld], shape(MEMORY, "a", "T*", MEMORY_MODS)),
        (&[St], shape(MEMORY, "aT*", "", MEMORY_MODS)),
        (
            &[Atom],
            shape(
                UPDATED,
                "at*t?",
                "t*",
                &[
                    "space", "order", "scope", "vec_log2", "atom_op", "noftz", "ftz",
                ],
            ),
        ),
        (
            &[Red],
            shape(
                UPDATED,
                "at*t?",
                "",
                &[
                    "space", "order", "scope", "vec_log2", "atom_op", "noftz", "ftz",
                ],
            ),
        ),
        (&[Fence], shape(NONE, "", "", &["order", "scope", "space"])),
        (&[CpAsync], shape(NONE, "aabb", "", &["space"])),
        (&[Alloca], shape(ADDRESS, "t", "t", &[])),
        (&[StackSave], shape(ADDRESS, "", "t", &[])),
        (&[StackRestore], shape(ADDRESS, "t", "", &[])),
        (
            &[Bar],
            shape(&[U32, Pred], "bbp?", "t?", &["mode", "atom_op", "flag"]).maybe_typed(),
        ),
        (&[BarWarp], shape(NONE, "b", "", &[])),
        (
            &[ClusterBar],
            shape(NONE, "", "", &["mode", "order", "flag"]),
        ),
        (&[Shfl], shape(&[B32], "tbbb", "tp", &["mode", "flag"])),
        (&[Vote], shape(&[Pred, B32], "pb", "t", &["mode", "flag"])),
        (&[Match], shape(B32_64, "tb", "bp?", &["mode"])),
        (
            &[Redux],
            shape(&[U32, S32, B32, F32], "tb", "t", &["atom_op", "abs", "nan"]),
        ),
        (&[Elect], shape(NONE, "b", "bp", &[])),
        (
            &[Mma],
            shape(
                &[F16, F32, F64, S32],
                "",
                "",
                &[
                    "mode",
                    "atom_op",
                    "rounding",
                    "satfinite",
                    "noftz",
                    "asel",
                    "bsel",
                    "bsigned",
                    "dsel",
                ],
            )
            .from(FACTORS)
            .operands(Pattern::Product)
            .results(Pattern::Product),
        ),
        (&[ActiveMask], shape(&[B32], "", "b", &[])),
        (&[Converge, Brkpt], shape(NONE, "", "", &[])),
        (&[Yield], shape(NONE, "", "", &["flag"])),
        (&[Nanosleep], shape(&[U32], "b", "", &[])),
    ]
}

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let rows = rows();
    let of = |opcode: &Opcode| {
        let row = rows.iter().find(|(opcodes, _)| opcodes.contains(opcode));
        row.map_or(shape(NONE, "", "", &[]), |(_, shape)| *shape)
    };
    Opcode::ALL.iter().map(of).collect()
});

impl Opcode {
    /// Returns how instructions of this op must be built.
    pub fn shape(self) -> &'static Shape {
        &SHAPES[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mods::Mods;

    #[test]
    fn every_opcode_has_one_row() {
        let rows = rows();
        for opcode in Opcode::ALL {
            let count = rows.iter().filter(|(all, _)| all.contains(opcode)).count();
            assert_eq!(count, 1, "{}", opcode.name());
        }
    }

    #[test]
    fn rows_use_known_letters_and_fields() {
        for (_, shape) in rows() {
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
