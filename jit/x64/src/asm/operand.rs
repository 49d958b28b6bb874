//! Operands of instructions.

use super::register::{Cond, Gpr, Mask, Zmm};

/// A position in the code, or the start of a jump table. [`Asm::label`](super::Asm::label) makes labels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Label(pub(super) u32);

/// A constant behind the code. [`Asm::constant`](super::Asm::constant) makes constants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Constant(pub(super) u32);

/// An address that only the loader knows. The caller chooses the numbers. The address is in an 8-byte slot behind the
/// code, which the loader fills.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Symbol(pub u32);

/// What the address of a memory operand starts from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Base {
    /// Zero.
    None,
    /// A register.
    Gpr(Gpr),
    /// The position of a label.
    Label(Label),
    /// The position of a constant.
    Constant(Constant),
    /// The position of a symbol's slot.
    Symbol(Symbol),
}

/// The factor of an index register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Scale {
    /// 1.
    X1,
    /// 2.
    X2,
    /// 4.
    X4,
    /// 8.
    X8,
}

impl Scale {
    /// The scale with this factor.
    pub const fn new(factor: u64) -> Option<Scale> {
        match factor {
            1 => Some(Scale::X1),
            2 => Some(Scale::X2),
            4 => Some(Scale::X4),
            8 => Some(Scale::X8),
            _ => None,
        }
    }
}

/// The scaled part of the address of a memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Index {
    /// Zero.
    None,
    /// A register, which cannot be `rsp`.
    Gpr(Gpr, Scale),
    /// One index for each lane. Only gathers and scatters have it; their row says how wide the register is.
    Zmm(Zmm, Scale),
}

/// A memory operand: `base + index * scale + disp`. Only a register or nothing can be the base if there is an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mem {
    /// What the address starts from.
    pub base: Base,
    /// The scaled part.
    pub index: Index,
    /// The displacement in bytes.
    pub disp: i32,
    /// Whether all lanes use the one element at the address.
    pub broadcast: bool,
}

impl Mem {
    /// The address in `base`.
    pub const fn base(base: Gpr) -> Mem {
        Mem::at(Base::Gpr(base))
    }

    /// The address at `base`.
    pub const fn at(base: Base) -> Mem {
        Mem {
            base,
            index: Index::None,
            disp: 0,
            broadcast: false,
        }
    }

    /// Adds `index * scale`.
    pub const fn index(self, index: Gpr, scale: Scale) -> Mem {
        Mem {
            index: Index::Gpr(index, scale),
            ..self
        }
    }

    /// Adds an index for each lane.
    pub const fn lanes(self, index: Zmm, scale: Scale) -> Mem {
        Mem {
            index: Index::Zmm(index, scale),
            ..self
        }
    }

    /// The same address with another displacement.
    pub const fn disp(self, disp: i32) -> Mem {
        Mem { disp, ..self }
    }

    /// All lanes use the one element at the address.
    pub const fn broadcast(self) -> Mem {
        Mem {
            broadcast: true,
            ..self
        }
    }
}

impl From<Label> for Mem {
    fn from(label: Label) -> Mem {
        Mem::at(Base::Label(label))
    }
}

impl From<Constant> for Mem {
    fn from(constant: Constant) -> Mem {
        Mem::at(Base::Constant(constant))
    }
}

impl From<Symbol> for Mem {
    fn from(symbol: Symbol) -> Mem {
        Mem::at(Base::Symbol(symbol))
    }
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// No operand.
    None,
    /// A general-purpose register.
    Gpr(Gpr),
    /// A vector register.
    Zmm(Zmm),
    /// A mask register.
    Mask(Mask),
    /// Memory.
    Mem(Mem),
    /// A number. It must fit the instruction's field, as a signed or as an unsigned number of its width.
    Imm(i64),
    /// A condition.
    Cond(Cond),
    /// The target of a jump or call.
    Label(Label),
}

macro_rules! operand_from {
    ($($type:ty => $variant:ident;)*) => {$(
        impl From<$type> for Operand {
            fn from(value: $type) -> Operand {
                Operand::$variant(value.into())
            }
        }
    )*};
}

operand_from! {
    Gpr => Gpr;
    Zmm => Zmm;
    Mask => Mask;
    Mem => Mem;
    Constant => Mem;
    Symbol => Mem;
    i64 => Imm;
    i32 => Imm;
    u8 => Imm;
    Cond => Cond;
    Label => Label;
}
