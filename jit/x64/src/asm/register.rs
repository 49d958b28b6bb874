//! Registers, widths, condition codes and rounding modes.

/// A general-purpose register, 0 to 15. The instruction decides how many of its bits it uses. The 8-bit registers are
/// the lowest bytes (`spl` to `dil` for 4 to 7); `ah` to `bh` do not exist here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Gpr(pub u8);

impl Gpr {
    /// `rax`.
    pub const RAX: Gpr = Gpr(0);
    /// `rcx`, the count of shifts.
    pub const RCX: Gpr = Gpr(1);
    /// `rdx`.
    pub const RDX: Gpr = Gpr(2);
    /// `rbx`.
    pub const RBX: Gpr = Gpr(3);
    /// `rsp`, the stack pointer.
    pub const RSP: Gpr = Gpr(4);
    /// `rbp`.
    pub const RBP: Gpr = Gpr(5);
    /// `rsi`.
    pub const RSI: Gpr = Gpr(6);
    /// `rdi`.
    pub const RDI: Gpr = Gpr(7);
}

/// A vector register, 0 to 31: `xmm`, `ymm` or `zmm`, as the width of the instruction says. Registers 16 to 31 exist
/// only with AVX-512.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Zmm(pub u8);

/// A mask register, `k0` to `k7`. As the mask of an instruction, `k0` means that the instruction has no mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mask(pub u8);

impl Mask {
    /// `k0`: all lanes.
    pub const NONE: Mask = Mask(0);
}

/// The width of an instruction in bits: of the operand for general-purpose and mask instructions (`W`), and of the
/// vectors for vector instructions (`L`). Instructions on scalars in vector registers have `L128`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Width {
    /// 8-bit operands.
    W8,
    /// 16-bit operands.
    W16,
    /// 32-bit operands.
    W32,
    /// 64-bit operands.
    W64,
    /// `xmm` registers.
    L128,
    /// `ymm` registers.
    L256,
    /// `zmm` registers.
    L512,
}

impl Width {
    /// All widths in ascending order.
    pub const ALL: [Width; 7] = [
        Width::W8,
        Width::W16,
        Width::W32,
        Width::W64,
        Width::L128,
        Width::L256,
        Width::L512,
    ];

    /// The width in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Width::W8 => 1,
            Width::W16 => 2,
            Width::W32 => 4,
            Width::W64 => 8,
            Width::L128 => 16,
            Width::L256 => 32,
            Width::L512 => 64,
        }
    }

    /// Whether it is the width of vectors.
    pub const fn is_vector(self) -> bool {
        self as u8 >= Width::L128 as u8
    }
}

/// A condition on the flags, with the number that the opcodes of `jcc`, `setcc` and `cmovcc` contain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Cond {
    /// Overflow.
    O,
    /// No overflow.
    No,
    /// Below, unsigned; carry.
    B,
    /// Above or equal, unsigned; no carry.
    Ae,
    /// Equal; zero.
    E,
    /// Not equal; not zero.
    Ne,
    /// Below or equal, unsigned.
    Be,
    /// Above, unsigned.
    A,
    /// Negative.
    S,
    /// Not negative.
    Ns,
    /// Parity even; unordered after a comparison of floats.
    P,
    /// Parity odd; ordered after a comparison of floats.
    Np,
    /// Less, signed.
    L,
    /// Greater or equal, signed.
    Ge,
    /// Less or equal, signed.
    Le,
    /// Greater, signed.
    G,
}

impl Cond {
    /// All conditions, in the order of their numbers.
    pub const ALL: [Cond; 16] = [
        Cond::O,
        Cond::No,
        Cond::B,
        Cond::Ae,
        Cond::E,
        Cond::Ne,
        Cond::Be,
        Cond::A,
        Cond::S,
        Cond::Ns,
        Cond::P,
        Cond::Np,
        Cond::L,
        Cond::Ge,
        Cond::Le,
        Cond::G,
    ];

    /// The condition that holds if and only if this one does not.
    pub const fn negated(self) -> Cond {
        Cond::ALL[self as usize ^ 1]
    }
}

/// The rounding that an instruction states itself instead of taking it from `mxcsr`. It also suppresses floating-point
/// exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rounding {
    /// The instruction does not state it.
    Mxcsr,
    /// To the nearest, ties to even (`{rn-sae}`).
    Nearest,
    /// Towards negative infinity (`{rd-sae}`).
    Down,
    /// Towards positive infinity (`{ru-sae}`).
    Up,
    /// Towards zero (`{rz-sae}`).
    Zero,
    /// Suppress exceptions only (`{sae}`), for instructions that do not round or whose immediate states the rounding.
    SuppressOnly,
}
