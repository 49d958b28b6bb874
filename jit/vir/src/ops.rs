//! The op table of VIR: one row for each operation.
//!
//! A row contains the op, its name in the text form, the kind of its data, the kinds of its type, its operands and
//! results, its effects, the number of its branch targets, and its reference function. The enum, the printer, the parser,
//! the verifier and the interpreter are derived from the rows.
//!
//! Operands and results are strings with one letter for each value. `t` is the type of the instruction:
//!
//! | letter | value |
//! |---|---|
//! | `t` | the type of the instruction |
//! | `e` | a scalar of the same kind |
//! | `h`, `d` | the same kind with half as many, and with twice as many, lanes |
//! | `m` | a mask with as many lanes; a `pred` if the type is scalar |
//! | `i` | `b32`, with as many lanes |
//! | `o` | `b32` or `b64`, with as many lanes |
//! | `p`, `n`, `q` | a scalar `pred`, `b32`, `b64` |
//!
//! If `?` follows a letter, the value is optional. `*` stands for values whose types the data determines.

use margay_ops::ops::Effects;
pub use margay_ops::ops::Targets;
use margay_ops::types::Type;

use crate::data::Data;
use crate::meaning::{self, Lanes};

/// The kind of data that the instructions of an op have (see [`Data`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataKind {
    /// No data.
    Nothing,
    /// The bits of a constant.
    Bits,
    /// A number.
    Number,
    /// The description of a lane's operation.
    Lane,
    /// The description of a memory access.
    Access,
}

/// The types that the instructions of an op may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Types {
    /// Instructions have no type.
    Untyped,
    /// Any type.
    Any,
    /// `pred`, with any number of lanes.
    Masks,
    /// Integers of 8 to 64 bits, with any number of lanes.
    Integers,
    /// Scalar `b64` only.
    Address,
}

/// A reference function, which computes the lanes of the result from the type and the data of the instruction and the
/// lanes of the operands. The interpreter implements the ops without one.
pub type Meaning = fn(Option<Type>, &Data, &[Lanes]) -> Lanes;

/// A row of the op table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name in the text form.
    pub name: &'static str,
    /// The kind of data.
    pub data: DataKind,
    /// The permitted types.
    pub types: Types,
    /// The letters of the operands.
    pub operands: &'static str,
    /// The letters of the results.
    pub results: &'static str,
    /// The effects besides computing results.
    pub effects: Effects,
    /// The number of branch targets.
    pub targets: Targets,
    /// The reference function of ops whose results depend only on operands and data.
    pub meaning: Option<Meaning>,
}

macro_rules! effects {
    () => { Effects::empty() };
    ($($flag:ident)|+) => { Effects::empty()$(.union(Effects::$flag))+ };
}

macro_rules! reference {
    (none) => {
        None
    };
    ($name:ident) => {
        Some(meaning::$name as Meaning)
    };
}

macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident $name:literal $data:ident $types:ident $operands:literal $results:literal
        ($($effects:tt)*) [$($targets:tt)*] $meaning:ident;)*) => {
        /// An operation of VIR.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $op,)* }

        impl Op {
            /// All ops, in the order of the table.
            pub const ALL: &'static [Op] = &[$(Op::$op,)*];
        }

        static ROWS: &[Row] = &[$(Row {
            name: $name,
            data: DataKind::$data,
            types: Types::$types,
            operands: $operands,
            results: $results,
            effects: effects!($($effects)*),
            targets: Targets::$($targets)*,
            meaning: reference!($meaning),
        },)*];
    };
}

ops! {
    /// A constant; all lanes of a vector have the same bits.
    Const "const" Bits Any "" "t" () [Exactly(0)] constant;
    /// `base + stride * lane`, with wrapping arithmetic; the number is the stride.
    Affine "affine" Number Integers "e" "t" () [Exactly(0)] affine;
    /// A vector whose lanes are all equal to a scalar.
    Splat "splat" Nothing Any "e" "t" () [Exactly(0)] splat;
    /// The lane whose number is the data.
    Extract "extract" Number Any "t" "e" () [Exactly(0)] extract;
    /// The vector with a scalar in the lane whose number is the data.
    Insert "insert" Number Any "te" "t" () [Exactly(0)] insert;
    /// The lower (0) or the upper (1) half of the lanes.
    Half "half" Number Any "d" "t" () [Exactly(0)] half;
    /// The lanes of the first operand, followed by those of the second.
    Join "join" Nothing Any "hh" "t" () [Exactly(0)] join;
    /// An operation of the IR in each lane.
    Map "map" Lane Any "*" "*" () [Exactly(0)] none;
    /// In each lane, the lane of the first operand whose number, modulo the number of lanes, the second operand contains.
    Permute "permute" Nothing Any "ti" "t" () [Exactly(0)] permute;
    /// As `permute`, from the lanes of two vectors: those of the second follow those of the first.
    Permute2 "permute2" Nothing Any "tti" "t" () [Exactly(0)] permute2;
    /// The lanes in which the mask is true, one after the other from lane 0 on; zero in the lanes behind them.
    Compress "compress" Nothing Any "tm" "t" () [Exactly(0)] compress;
    /// The inverse of `compress`: lane `n` of the operand in the `n`th lane in which the mask is true; zero elsewhere.
    Expand "expand" Nothing Any "tm" "t" () [Exactly(0)] expand;
    /// All lanes combined by an operation of the IR with two operands.
    Reduce "reduce" Lane Any "t" "e" () [Exactly(0)] reduce;
    /// The matrix product of a warp (`mma` of the IR). The operands and the results are the registers of the 32 lanes; the
    /// operands have no member mask.
    Product "product" Lane Integers "*" "*" () [Exactly(0)] none;
    /// The bits of a mask: bit `n` is lane `n`.
    Ballot "ballot" Nothing Masks "t" "q" () [Exactly(0)] ballot;
    /// The mask whose lanes are the low bits of a number.
    Mask "mask" Nothing Masks "q" "t" () [Exactly(0)] mask;
    /// Whether a lane is true.
    Any "any" Nothing Masks "t" "p" () [Exactly(0)] any;
    /// Whether all lanes are true.
    All "all" Nothing Masks "t" "p" () [Exactly(0)] all;
    /// The number of lanes that are true.
    Count "count" Nothing Masks "t" "n" () [Exactly(0)] count;
    /// The number of the lowest lane that is true; the number of lanes if none is.
    First "first" Nothing Masks "t" "n" () [Exactly(0)] first;
    /// The address of a slot, whose number is the data.
    SlotAddr "slot.addr" Number Address "" "t" () [Exactly(0)] none;
    /// Loads lanes at `address + displacement + stride * lane`.
    Load "load" Access Any "qm?" "t" (READS | MAY_TRAP) [Exactly(0)] none;
    /// Stores lanes at `address + displacement + stride * lane`, in ascending order of the lanes.
    Store "store" Access Any "qtm?" "" (WRITES | MAY_TRAP) [Exactly(0)] none;
    /// Loads lanes at `base + displacement + stride * offset`; offsets are signed.
    Gather "gather" Access Any "qom?" "t" (READS | MAY_TRAP) [Exactly(0)] none;
    /// Stores lanes at `base + displacement + stride * offset`, in ascending order of the lanes; offsets are signed.
    Scatter "scatter" Access Any "qotm?" "" (WRITES | MAY_TRAP) [Exactly(0)] none;
    /// Updates memory at `base + offset` in each lane, one lane after the other in ascending order; offsets are unsigned. The
    /// operands are the base, the offsets, the operands of the update, and a mask. The result, if there is one, contains
    /// the old contents.
    Update "update" Lane Any "qo*" "t?" (READS | WRITES | MAY_TRAP) [Exactly(0)] none;
    /// Orders the memory accesses before and behind it.
    Fence "fence" Nothing Untyped "" "" (FENCE) [Exactly(0)] none;
    /// Calls the helper whose number is the data.
    Call "call" Number Untyped "*" "*" (READS | WRITES | MAY_TRAP) [Exactly(0)] none;
    /// Calls the helper whose number is the data for each lane in which the mask, the first operand, is true. The
    /// results are zero in other lanes.
    CallLanes "call.lanes" Number Masks "t*" "*" (READS | WRITES | MAY_TRAP) [Exactly(0)] none;
    /// Ends the program with a fault if the operand is true; the number is the cause.
    TrapIf "trap.if" Number Untyped "p" "" (MAY_TRAP) [Exactly(0)] none;
    /// Continues in the target.
    Jump "jump" Nothing Untyped "" "" (TERMINATOR) [Exactly(1)] none;
    /// Continues in the first target if the operand is true, otherwise in the second.
    Brif "brif" Nothing Untyped "p" "" (TERMINATOR) [Exactly(2)] none;
    /// Continues in the target behind the default target whose number is the operand, or in the default target.
    BrTable "br_table" Nothing Untyped "n" "" (TERMINATOR) [AtLeastOne] none;
    /// Ends the program with a fault; the number is the cause.
    Trap "trap" Number Untyped "" "" (TERMINATOR | MAY_TRAP) [Exactly(0)] none;
    /// Returns the operands.
    Ret "ret" Nothing Untyped "*" "" (TERMINATOR) [Exactly(0)] none;
}

impl Op {
    /// Returns the op's row of the op table.
    #[inline]
    pub fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the op with a name in the text form.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.iter().copied().find(|op| op.row().name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for &op in Op::ALL {
            assert_eq!(Op::from_name(op.row().name), Some(op));
        }
    }

    #[test]
    fn pure_ops_have_a_reference_function() {
        for &op in Op::ALL {
            let row = op.row();
            let by_interpreter = matches!(op, Op::Map | Op::Product | Op::SlotAddr);
            assert_eq!(
                row.meaning.is_some(),
                row.effects.is_empty() && !by_interpreter,
                "{op:?}"
            );
        }
    }
}
