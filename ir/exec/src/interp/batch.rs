//! Functions that compute a pure op for all lanes in one call.
//!
//! A [`Batch`] is a function with a loop over the lanes, which calls the reference function of an
//! op for one description (op, types and modifiers). The description is a constant in the loop, so
//! the Rust compiler specialises the reference function for it. [`ROWS`] lists the descriptions
//! that are common in CUDA programs. For all other descriptions, the interpreter calls the
//! reference function once for each lane.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::decode::Step;
use super::registers::{Active, Lane, Rows};
use margay_ops::meaning::{Bits, Desc, mask};
use margay_ops::mods::{CmpOp, Half, Mode, Mods, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType};

/// A function that computes the result of a step for the active lanes.
pub(super) type Batch = fn(&mut Rows<'_>, &Step, Active);

/// A [`Batch`], with the description that it computes and the kinds of its operands and its result.
struct Row {
    desc: Desc,
    args: &'static [Kind],
    result: Kind,
    run: Batch,
}

/// Returns the [`Batch`] for a description whose operands and results have these kinds, or `None`
/// if there is none.
pub(super) fn find(
    desc: &Desc,
    args: impl Iterator<Item = Kind>,
    mut results: impl Iterator<Item = Kind>,
) -> Option<Batch> {
    static BY_DESC: LazyLock<FxHashMap<Desc, &Row>> =
        LazyLock::new(|| ROWS.iter().map(|row| (row.desc, row)).collect());
    let row = BY_DESC.get(desc)?;
    let fits = args.eq(row.args.iter().copied())
        && results.next() == Some(row.result)
        && results.next().is_none();
    fits.then_some(row.run)
}

/// A Rust type that represents a [`Kind`] of values. It is a type argument of the functions with
/// the loops.
trait Cell {
    const KIND: Kind;
    type Lane: Lane + Default + Into<Bits>;
    fn cut(bits: Bits) -> Self::Lane;
}

macro_rules! cells {
    ($($kind:ident $lane:ty;)*) => {$(
        enum $kind {}

        impl Cell for $kind {
            const KIND: Kind = Kind::$kind;
            type Lane = $lane;

            #[inline(always)]
            fn cut(bits: Bits) -> $lane {
                (bits & mask(Kind::$kind.bits())) as $lane
            }
        }
    )*};
}

cells! { Pred u32; B16 u32; B32 u32; B64 u64; F32 u32; F64 u64; }

/// Calls `op` for each active lane, and possibly for other lanes, and returns the results. The
/// results for lanes that are not active are arbitrary.
#[inline(always)]
fn each_lane<R: Lane + Default>(active: Active, op: impl Fn(usize) -> R) -> [R; 32] {
    let mut out = [R::default(); 32];
    if active.are_few() {
        for lane in active.lanes() {
            out[lane] = op(lane);
        }
    } else {
        for (lane, out) in out.iter_mut().enumerate() {
            *out = op(lane);
        }
    }
    out
}

#[inline(always)]
fn unary<A: Cell, R: Cell>(
    rows: &mut Rows<'_>,
    step: &Step,
    active: Active,
    op: impl Fn(&[Bits; 1]) -> Bits,
) {
    let a = rows.read::<A::Lane>(step.args[0]);
    let out = each_lane(active, |lane| R::cut(op(&[a[lane].into()])));
    rows.write(step.result, &out, active);
}

#[inline(always)]
fn binary<A: Cell, B: Cell, R: Cell>(
    rows: &mut Rows<'_>,
    step: &Step,
    active: Active,
    op: impl Fn(&[Bits; 2]) -> Bits,
) {
    let a = rows.read::<A::Lane>(step.args[0]);
    let b = rows.read::<B::Lane>(step.args[1]);
    let out = each_lane(active, |lane| R::cut(op(&[a[lane].into(), b[lane].into()])));
    rows.write(step.result, &out, active);
}

#[inline(always)]
fn ternary<A: Cell, B: Cell, C: Cell, R: Cell>(
    rows: &mut Rows<'_>,
    step: &Step,
    active: Active,
    op: impl Fn(&[Bits; 3]) -> Bits,
) {
    let a = rows.read::<A::Lane>(step.args[0]);
    let b = rows.read::<B::Lane>(step.args[1]);
    let c = rows.read::<C::Lane>(step.args[2]);
    let out = each_lane(active, |lane| {
        R::cut(op(&[a[lane].into(), b[lane].into(), c[lane].into()]))
    });
    rows.write(step.result, &out, active);
}

/// For each pure op of the op table, defines a function that calls the op's reference function, so
/// that the Rust compiler can inline the call.
macro_rules! define_meanings {
    ($($name:ident $text:literal ($($effects:tt)*) ($($meaning:tt)*) [$($shape:tt)*];)*) => {
        #[allow(non_snake_case, reason = "named after the rows")]
        #[allow(dead_code, reason = "most rows have no loop of their own")]
        mod row {
            use margay_ops::meaning::*;
            $(define_meanings! { @one $name $($meaning)* })*
        }
    };
    (@one $name:ident pure $path:path) => {
        #[inline(always)]
        pub(super) fn $name(desc: &Desc, args: &[Bits]) -> Bits {
            let mut out = [0];
            $path(desc, args, &mut out);
            out[0]
        }
    };
    (@one $($other:tt)*) => {};
}

margay_ops::for_each_op!(define_meanings);

/// Defines [`ROWS`]. Each line of the input contains an op, the kinds of its operands and of its
/// result, and a list of descriptions: a type, a source type and modifiers.
macro_rules! rows {
    ($($op:ident $args:tt $result:ident: $($ty:ident $src:ident $mods:expr),*;)*) => {
        static ROWS: &[Row] = &[$($(
            Row {
                desc: Desc {
                    opcode: Opcode::$op,
                    ty: OpType::$ty,
                    src: OpType::$src,
                    mods: $mods,
                },
                args: rows!(@kinds $args),
                result: $result::KIND,
                run: |rows, step, active| {
                    const DESC: Desc = Desc {
                        opcode: Opcode::$op,
                        ty: OpType::$ty,
                        src: OpType::$src,
                        mods: $mods,
                    };
                    rows!(@call $args $result, rows, step, active, |args| row::$op(&DESC, args));
                },
            },
        )*)*];
    };
    (@kinds ($($arg:ident),*)) => { &[$($arg::KIND),*] };
    (@call ($a:ident) $r:ident, $rows:ident, $step:ident, $active:ident, $op:expr) => {
        unary::<$a, $r>($rows, $step, $active, $op)
    };
    (@call ($a:ident, $b:ident) $r:ident, $rows:ident, $step:ident, $active:ident, $op:expr) => {
        binary::<$a, $b, $r>($rows, $step, $active, $op)
    };
    (@call ($a:ident, $b:ident, $c:ident) $r:ident, $rows:ident, $step:ident, $active:ident, $op:expr) => {
        ternary::<$a, $b, $c, $r>($rows, $step, $active, $op)
    };
}

const NONE: Mods = Mods::NONE;
const LO: Mods = NONE.with_half(Half::Lo);
const HI: Mods = NONE.with_half(Half::Hi);
const WIDE: Mods = NONE.with_half(Half::Wide);
const RN: Mods = NONE.with_rounding(Rounding::Rn);
const RZI: Mods = NONE.with_rounding(Rounding::Rzi);
const FTZ: Mods = NONE.with_ftz(true);
const RN_FTZ: Mods = RN.with_ftz(true);
const EQ: Mods = NONE.with_cmp(CmpOp::Eq);
const NE: Mods = NONE.with_cmp(CmpOp::Ne);
const LT: Mods = NONE.with_cmp(CmpOp::Lt);
const LE: Mods = NONE.with_cmp(CmpOp::Le);
const GT: Mods = NONE.with_cmp(CmpOp::Gt);
const GE: Mods = NONE.with_cmp(CmpOp::Ge);
const LEFT: Mods = NONE.with_mode(Mode::Left).with_flag(true);
const RIGHT: Mods = NONE.with_mode(Mode::Right).with_flag(true);

rows! {
    Add (B32, B32) B32: S32 None NONE, U32 None NONE;
    Add (B64, B64) B64: S64 None NONE, U64 None NONE;
    Add (B16, B16) B16: S16 None NONE, U16 None NONE;
    Sub (B32, B32) B32: S32 None NONE, U32 None NONE;
    Sub (B64, B64) B64: S64 None NONE, U64 None NONE;
    Mul (B32, B32) B32: S32 None LO, U32 None LO, S32 None HI, U32 None HI;
    Mul (B64, B64) B64: S64 None LO, U64 None LO;
    Mul (B32, B32) B64: S32 None WIDE, U32 None WIDE;
    Mad (B32, B32, B32) B32: S32 None LO, U32 None LO;
    Mad (B64, B64, B64) B64: S64 None LO, U64 None LO;
    Mad (B32, B32, B64) B64: S32 None WIDE, U32 None WIDE;
    Min (B32, B32) B32: S32 None NONE, U32 None NONE;
    Max (B32, B32) B32: S32 None NONE, U32 None NONE;
    Neg (B32) B32: S32 None NONE;
    Neg (B64) B64: S64 None NONE;
    Abs (B32) B32: S32 None NONE;
    Div (B32, B32) B32: S32 None NONE, U32 None NONE;
    Rem (B32, B32) B32: S32 None NONE, U32 None NONE;
    And (B32, B32) B32: B32 None NONE;
    And (B64, B64) B64: B64 None NONE;
    And (B16, B16) B16: B16 None NONE;
    And (Pred, Pred) Pred: Pred None NONE;
    Or (B32, B32) B32: B32 None NONE;
    Or (B64, B64) B64: B64 None NONE;
    Or (B16, B16) B16: B16 None NONE;
    Or (Pred, Pred) Pred: Pred None NONE;
    Xor (B32, B32) B32: B32 None NONE;
    Xor (B64, B64) B64: B64 None NONE;
    Xor (Pred, Pred) Pred: Pred None NONE;
    Not (B32) B32: B32 None NONE;
    Not (Pred) Pred: Pred None NONE;
    Shl (B32, B32) B32: B32 None NONE, U32 None NONE, S32 None NONE;
    Shl (B64, B32) B64: B64 None NONE, U64 None NONE, S64 None NONE;
    Shr (B32, B32) B32: B32 None NONE, U32 None NONE, S32 None NONE;
    Shr (B64, B32) B64: B64 None NONE, U64 None NONE, S64 None NONE;
    Shf (B32, B32, B32) B32: B32 None LEFT, B32 None RIGHT;
    Popc (B32) B32: B32 None NONE;
    Clz (B32) B32: B32 None NONE;
    Setp (B32, B32) Pred: S32 None EQ, S32 None NE, S32 None LT, S32 None LE, S32 None GT, S32 None GE,
        U32 None EQ, U32 None NE, U32 None LT, U32 None LE, U32 None GT, U32 None GE, B32 None EQ, B32 None NE;
    Setp (B64, B64) Pred: S64 None EQ, S64 None NE, S64 None LT, S64 None LE, S64 None GT, S64 None GE,
        U64 None EQ, U64 None NE, U64 None LT, U64 None LE, U64 None GT, U64 None GE, B64 None EQ, B64 None NE;
    Setp (B16, B16) Pred: S16 None EQ, S16 None NE, U16 None EQ, U16 None NE;
    Setp (F32, F32) Pred: F32 None EQ, F32 None NE, F32 None LT, F32 None LE, F32 None GT, F32 None GE;
    Setp (F64, F64) Pred: F64 None EQ, F64 None NE, F64 None LT, F64 None LE, F64 None GT, F64 None GE;
    Selp (B32, B32, Pred) B32: B32 None NONE, U32 None NONE, S32 None NONE;
    Selp (B64, B64, Pred) B64: B64 None NONE, U64 None NONE, S64 None NONE;
    Selp (B16, B16, Pred) B16: B16 None NONE, U16 None NONE, S16 None NONE;
    Selp (F32, F32, Pred) F32: F32 None NONE;
    Selp (F64, F64, Pred) F64: F64 None NONE;
    Bitcast (F32) B32: B32 F32 NONE;
    Bitcast (B32) F32: F32 B32 NONE;
    Bitcast (F64) B64: B64 F64 NONE;
    Bitcast (B64) F64: F64 B64 NONE;
    Pack (B16, B16) B32: B32 B16 NONE;
    Cvt (B32) B64: U64 U32 NONE, S64 S32 NONE;
    Cvt (B64) B32: U32 U64 NONE, S32 S64 NONE;
    Cvt (B32) B16: U16 U32 NONE, S16 S32 NONE;
    Cvt (B16) B32: U32 U16 NONE, S32 S16 NONE;
    Cvt (B32) F32: F32 S32 RN, F32 U32 RN;
    Cvt (B32) F64: F64 S32 RN;
    Cvt (F32) B32: S32 F32 RZI, U32 F32 RZI;
    Add (F32, F32) F32: F32 None NONE, F32 None RN, F32 None FTZ, F32 None RN_FTZ;
    Sub (F32, F32) F32: F32 None NONE, F32 None RN, F32 None FTZ, F32 None RN_FTZ;
    Mul (F32, F32) F32: F32 None NONE, F32 None RN, F32 None FTZ, F32 None RN_FTZ;
    Fma (F32, F32, F32) F32: F32 None RN, F32 None RN_FTZ;
    Neg (F32) F32: F32 None NONE, F32 None FTZ;
    Abs (F32) F32: F32 None NONE, F32 None FTZ;
    Min (F32, F32) F32: F32 None NONE, F32 None FTZ;
    Max (F32, F32) F32: F32 None NONE, F32 None FTZ;
    Div (F32, F32) F32: F32 None RN;
    Add (F64, F64) F64: F64 None NONE, F64 None RN;
    Sub (F64, F64) F64: F64 None NONE, F64 None RN;
    Mul (F64, F64) F64: F64 None NONE, F64 None RN;
    Fma (F64, F64, F64) F64: F64 None RN;
    Neg (F64) F64: F64 None NONE;
    Abs (F64) F64: F64 None NONE;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::registers::{RegisterId, Registers};
    use margay_ops::meaning::Meaning;

    /// Returns the value of an operand for a test, which depends on `seed`: an edge case of
    /// integers or floating-point numbers, or a random value.
    fn bits_of(seed: u64) -> Bits {
        const CORNERS: [u64; 16] = [
            0,
            1,
            0x8000_0000,
            0x7fff_ffff,
            0xffff_ffff,
            0x3f80_0000,
            0xbf80_0001,
            0x7f80_0000,
            0x7fc0_0001,
            0x0000_0007,
            0x0080_0000,
            0x7f7f_ffff,
            u64::MAX,
            1 << 63,
            0x3ff0_0000_0000_0000,
            0x7ff8_0000_0000_0001,
        ];
        // SplitMix64.
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let corner = CORNERS[(z >> 8) as usize % CORNERS.len()];
        Bits::from(if z.is_multiple_of(2) { corner } else { z })
    }

    /// Checks that the function of each row returns the same results as the op's reference
    /// function, and does not change the registers of inactive lanes.
    #[test]
    fn loops_agree_with_the_meanings() {
        let mut seed = 0;
        for row in ROWS {
            let Meaning::Pure(meaning) = row.desc.opcode.meaning() else {
                panic!("{:?} has no meaning", row.desc);
            };
            let found = find(
                &row.desc,
                row.args.iter().copied(),
                [row.result].into_iter(),
            );
            assert!(found.is_some(), "{:?} is not found", row.desc);
            for mask in [u32::MAX, 0x00ff_ff0f, 0x8000_0001] {
                let (mut registers, constants) = (Registers::default(), Registers::default());
                registers.resize([4, 4, 4]);
                let place = |(index, &kind): (usize, &Kind)| RegisterId::register(kind, index);
                let args: Vec<RegisterId> = row.args.iter().enumerate().map(place).collect();
                let result = RegisterId::register(row.result, 3);
                let mut rows = Rows {
                    registers: &mut registers,
                    constants: &constants,
                };
                let mut expected = [1; 32];
                for (lane, expected) in expected.iter_mut().enumerate() {
                    let values: Vec<Bits> = (0..args.len() as u64)
                        .map(|i| {
                            bits_of(seed + i)
                                & margay_ops::meaning::mask(row.args[i as usize].bits())
                        })
                        .collect();
                    seed += args.len() as u64;
                    for (&place, &bits) in args.iter().zip(&values) {
                        rows.set(place, lane, bits);
                    }
                    rows.set(result, lane, 1);
                    if mask >> lane & 1 != 0 {
                        let mut out = [0];
                        meaning(&row.desc, &values, &mut out);
                        *expected = out[0];
                    }
                }
                let active = Active { mask, unused: 0 };
                (row.run)(&mut rows, &Step::for_test(result, &args), active);
                let left: Vec<Bits> = (0..32).map(|lane| rows.get(result, lane)).collect();
                assert_eq!(left, expected, "{:?} with mask {mask:#x}", row.desc);
            }
        }
    }

    #[test]
    fn other_kinds_of_values_have_no_loop() {
        let desc = ROWS[0].desc;
        assert!(
            find(
                &desc,
                [Kind::B32, Kind::B64].into_iter(),
                [Kind::B32].into_iter()
            )
            .is_none()
        );
        assert!(
            find(
                &desc,
                [Kind::B32; 2].into_iter(),
                [Kind::B32; 2].into_iter()
            )
            .is_none()
        );
    }
}
