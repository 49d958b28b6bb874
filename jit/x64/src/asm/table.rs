//! The tables of instructions.
//!
//! Each file of this folder has the rows of some operations. A file is a macro that appends its rows to those that it
//! gets and passes them to the next one; the last macro derives [`Op`] and the rows from them.
//!
//! A row is one encoding: the kind of its prefix, the mnemonic, the mandatory prefix, the table of opcodes, the opcode,
//! the W bit, the widths, the operands, the width of memory, flags, and required features. [`row`](super::row) explains
//! the strings. An operation has several rows if it has several encodings, with `|` between them. The encoder uses the
//! first that fits an instruction, so that the rows are in ascending order of length. The EVEX row of an operation on
//! bits or whole registers has the mnemonic of the element (`vpandd`); its VEX row is the instruction without a mask
//! (`vpand`).
//!
//! Names are mnemonics with suffixes: `Store` if the destination is in ModRM.rm, where another op has the mnemonic;
//! `Imm` if a number replaces a vector; `FromGpr` and `ToGpr` for moves from and to general-purpose registers; `32` and
//! `64` for the width of a general-purpose register; `Vector` for AVX and AVX2 instructions whose masks are vectors. The
//! widths of mask instructions are widths of the op (`Kand` in `W16` is `kandw`).

use super::features::{Cpu, Features};
use super::register::Width;
use super::row::{Encoding, Map, Prefix, Row, Slot, W, Widths};

#[macro_use]
mod general;
#[macro_use]
mod moves;
#[macro_use]
mod integer;
#[macro_use]
mod logic;
#[macro_use]
mod compare;
#[macro_use]
mod convert;
#[macro_use]
mod float;
#[macro_use]
mod fma;
#[macro_use]
mod permute;
#[macro_use]
mod lanes;
#[macro_use]
mod memory;
#[macro_use]
mod mask;

macro_rules! define {
    (; $($op:ident $($encoding:ident $mnemonic:literal $prefix:ident $map:ident $opcode:literal $w:ident $widths:ident
        $operands:literal $memory:literal $flags:literal $cpu:ident)|+;)*) => {
        /// An operation. Its documentation shows the mnemonic and the operands of each of its rows.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u16)]
        pub enum Op {
            $(#[doc = concat!($("`", $mnemonic, " ", $operands, "` "),+)] $op,)*
        }

        impl Op {
            /// All operations.
            pub const ALL: &'static [Op] = &[$(Op::$op,)*];
        }

        static ROWS: &[&[Row]] = &[$(&[$(Row::new(
            Encoding::$encoding,
            $mnemonic,
            Prefix::$prefix,
            Map::$map,
            $opcode,
            W::$w,
            Widths::$widths,
            $operands,
            $memory,
            $flags,
            Cpu::$cpu,
        )),+],)*];
    };
}

general! { moves integer logic compare convert float fma permute lanes memory mask define; }

impl Op {
    /// The rows of the operation.
    pub fn rows(self) -> &'static [Row] {
        ROWS[self as usize]
    }

    /// The operands of the operation in this width, as the first row with the width states them; none if there is no such
    /// row. Other rows of the width may have a number in place of a register, or a register in another place; roles and
    /// implied operands do not differ.
    pub fn slots(self, width: Width) -> &'static [Slot] {
        let row = self.rows().iter().find(|row| row.widths.contains(width));
        row.map_or(&[], Row::slots)
    }

    /// Whether a CPU with these features has the operation in this width, with some operands.
    pub fn exists(self, width: Width, features: Features) -> bool {
        let mut rows = self.rows().iter();
        rows.any(|row| row.widths.contains(width) && features.contains(row.features(width)))
    }
}
