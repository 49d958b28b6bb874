//! The rows of the tables, and the notation of their operands.
//!
//! The operands of a row are a string. Each operand that an instruction states is a word of a role, a kind and a place,
//! such as `=vr`: a vector register in ModRM.reg that the instruction writes.
//!
//! | role | |
//! |---|---|
//! | none | the instruction reads the operand |
//! | `=` | it writes the operand |
//! | `+` | it reads and writes the operand |
//!
//! | kind | |
//! |---|---|
//! | `v`, `h`, `x` | a vector register of the instruction's width, of half of it (at least 128 bits), of 128 bits |
//! | `k` | a mask register |
//! | `g`, `b`, `w`, `d`, `l` | a general-purpose register of the instruction's width, of 8, 16, 32, 64 bits |
//!
//! | place | |
//! |---|---|
//! | `r`, `v`, `s` | ModRM.reg, `vvvv` of a VEX or EVEX prefix, the upper half of the immediate |
//! | `m`, `R` | ModRM.rm: a register or memory, a register only |
//! | `S` | ModRM.rm: memory with a vector of indices; the kind is that of the indices |
//! | `o` | the low bits of the opcode |
//! | `a` | nowhere: it must be register 0 |
//!
//! The other words are:
//!
//! | word | |
//! |---|---|
//! | `M` with a role | ModRM.rm: memory only |
//! | `ib`, `in`, `i1` | a number of 8 bits, of 4 bits, the number 1 without a field |
//! | `is` | a number that 8 bits represent with their sign |
//! | `iz` | a number of the instruction's width, in at most 32 bits with their sign |
//! | `iu`, `iq` | a number of 32 bits without a sign, of 64 bits |
//! | `c` | a condition in the low bits of the opcode |
//! | `jb`, `jz` | a label at a distance of 8 and of 32 bits |
//! | `!a`, `!b`, `!c`, `!d` with a role | the instruction uses `rax`, `rbx`, `rcx`, `rdx` without stating it |
//! | `/0` to `/7` | ModRM.reg has this number |
//!
//! The width of memory is a string: `v`, `h`, `q`, `e` for the instruction's width and its half, quarter and eighth, a
//! number of bytes, `g` for the width of a general-purpose instruction, `d` for 8 bytes if the width is 128 bits and for
//! the instruction's width otherwise, and `c` with a number for a vector whose displacements are in units of that number.
//!
//! The flags are letters: `B` broadcast, `R` embedded rounding, `S` suppression of exceptions, `K` mask, `Z` mask with or
//! without zeroing, `Q` mask required and written, `C` mask that chooses between the sources, `1` VEX.L is set, `L` lock.

use super::features::{Cpu, Features};
use super::register::{Gpr, Width};

/// What an instruction does with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Reads it. Registers of the address of a memory operand are read whatever the role.
    Use,
    /// Writes it. [`Row::merged_role`] says what that means if there is a mask.
    Def,
    /// Reads and writes it.
    Mod,
}

/// The class of a register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// General-purpose registers.
    Gpr,
    /// Vector registers.
    Vector,
    /// Mask registers.
    Mask,
}

/// The kind of an operand (see the module's documentation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Vector,
    Half,
    Xmm,
    Mask,
    Gpr,
    Gpr8,
    Gpr16,
    Gpr32,
    Gpr64,
    Memory,
    Imm8,
    Imm4,
    One,
    ImmSigned8,
    ImmWidth,
    ImmUnsigned32,
    Imm64,
    Cond,
    Label8,
    Label32,
}

/// Where an operand is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Reg,
    Vvvv,
    Is4,
    RegisterOrMemory,
    Register,
    Memory,
    Vsib,
    Opcode,
    Zero,
    Field,
    Implied,
}

/// An operand of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub(super) role: Role,
    pub(super) kind: Kind,
    pub(super) place: Place,
    class: Option<Class>,
    /// The register of an implied operand.
    pub(super) register: u8,
}

impl Slot {
    const NONE: Slot = Slot::new(Role::Use, Kind::One, Place::Field, 0);

    const fn new(role: Role, kind: Kind, place: Place, register: u8) -> Slot {
        let class = match kind {
            _ if matches!(place, Place::Memory | Place::Vsib) => None,
            Kind::Vector | Kind::Half | Kind::Xmm => Some(Class::Vector),
            Kind::Mask => Some(Class::Mask),
            Kind::Gpr | Kind::Gpr8 | Kind::Gpr16 | Kind::Gpr32 | Kind::Gpr64 => Some(Class::Gpr),
            _ => None,
        };
        Slot {
            role,
            kind,
            place,
            class,
            register,
        }
    }

    /// What the instruction does with the operand.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The class of the register that the operand is or may be; `None` for memory, numbers, conditions and labels.
    pub const fn class(&self) -> Option<Class> {
        self.class
    }

    /// Whether the operand may be in memory.
    pub const fn allows_memory(&self) -> bool {
        matches!(
            self.place,
            Place::RegisterOrMemory | Place::Memory | Place::Vsib
        )
    }

    /// The register of an operand that the instruction uses without stating it.
    pub const fn implied(&self) -> Option<Gpr> {
        match self.place {
            Place::Implied => Some(Gpr(self.register)),
            _ => None,
        }
    }
}

/// The prefix that a row's instructions begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Encoding {
    Legacy,
    Vex,
    Evex,
}

/// The mandatory prefix, with its number in VEX and EVEX prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Prefix {
    NP,
    P66,
    PF3,
    PF2,
}

/// The table of opcodes, with its number in VEX and EVEX prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Map {
    One,
    M0F,
    M0F38,
    M0F3A,
}

/// The W bit.
#[allow(
    clippy::enum_variant_names,
    clippy::upper_case_acronyms,
    reason = "the names of the vendors' manuals"
)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum W {
    W0,
    W1,
    /// The instruction ignores it.
    WIG,
    /// It is set if the width is 64 bits. Legacy instructions of 16 bits have the operand-size prefix.
    WW,
}

/// The widths of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Widths(u8);

#[allow(missing_docs, reason = "the names are lists of widths")]
impl Widths {
    pub(super) const W8: Widths = Widths(1);
    pub(super) const W16: Widths = Widths(2);
    pub(super) const W32: Widths = Widths(4);
    pub(super) const W64: Widths = Widths(8);
    /// 32 and 64 bits.
    pub(super) const GPR: Widths = Widths(4 | 8);
    /// 16, 32 and 64 bits.
    pub(super) const G: Widths = Widths(2 | 4 | 8);
    pub(super) const L1: Widths = Widths(16);
    pub(super) const L2: Widths = Widths(32);
    pub(super) const L5: Widths = Widths(64);
    pub(super) const L12: Widths = Widths(16 | 32);
    pub(super) const L25: Widths = Widths(32 | 64);
    pub(super) const L125: Widths = Widths(16 | 32 | 64);
    /// Scalars in vector registers: `L128`, which does not require AVX-512VL.
    pub(super) const S: Widths = Widths(16 | 128);

    pub(super) const fn contains(self, width: Width) -> bool {
        self.0 >> width as u8 & 1 != 0
    }

    pub(super) const fn is_scalar(self) -> bool {
        self.0 & 128 != 0
    }
}

/// The width of a memory operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    None,
    /// The instruction's width, shifted right.
    Part(u8),
    Bytes(u8),
    /// 8 bytes, or the instruction's width if that is more than 128 bits.
    Duplicated,
    /// The instruction's width; displacements are in units of this number.
    Compressed(u8),
}

/// Flags of a row.
pub(super) mod flag {
    pub(in crate::asm) const BROADCAST: u16 = 1;
    pub(in crate::asm) const ROUND: u16 = 2;
    pub(in crate::asm) const SUPPRESS: u16 = 4;
    pub(in crate::asm) const MASK: u16 = 8;
    pub(in crate::asm) const ZERO: u16 = 16;
    pub(in crate::asm) const MASK_REQUIRED: u16 = 32;
    pub(in crate::asm) const LONG: u16 = 64;
    pub(in crate::asm) const LOCK: u16 = 128;
    pub(in crate::asm) const CHOOSE: u16 = 256;
}

/// The largest number of operands of a row, implied ones included.
const MAX_SLOTS: usize = 6;

/// A row: one encoding of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub(super) mnemonic: &'static str,
    pub(super) encoding: Encoding,
    pub(super) prefix: Prefix,
    pub(super) map: Map,
    pub(super) opcode: u8,
    pub(super) w: W,
    pub(super) widths: Widths,
    slots: [Slot; MAX_SLOTS],
    stated: u8,
    total: u8,
    /// ModRM.reg if it is not an operand.
    pub(super) digit: Option<u8>,
    pub(super) memory: Memory,
    pub(super) flags: u16,
    pub(super) cpu: Cpu,
}

impl Row {
    #[allow(
        clippy::too_many_arguments,
        reason = "the columns of the tables, which only the macro of the tables states"
    )]
    pub(super) const fn new(
        encoding: Encoding,
        mnemonic: &'static str,
        prefix: Prefix,
        map: Map,
        opcode: u8,
        w: W,
        widths: Widths,
        operands: &str,
        memory: &str,
        flags: &str,
        cpu: Cpu,
    ) -> Row {
        let mut row = Row {
            mnemonic,
            encoding,
            prefix,
            map,
            opcode,
            w,
            widths,
            slots: [Slot::NONE; MAX_SLOTS],
            stated: 0,
            total: 0,
            digit: None,
            memory: parse_memory(memory.as_bytes()),
            flags: parse_flags(flags.as_bytes()),
            cpu,
        };
        let text = operands.as_bytes();
        let mut at = 0;
        while at < text.len() {
            at = row.parse_word(text, at);
            assert!(
                at == text.len() || text[at] == b' ',
                "words have a space between them"
            );
            at += 1;
        }
        row
    }

    /// The name in assembly language, without the condition.
    pub const fn mnemonic(&self) -> &'static str {
        self.mnemonic
    }

    /// The operands that an instruction states, and then those that it implies.
    pub fn slots(&self) -> &[Slot] {
        &self.slots[..self.total as usize]
    }

    /// The operands that an instruction states.
    pub fn stated(&self) -> &[Slot] {
        &self.slots[..self.stated as usize]
    }

    /// The required features in this width.
    pub const fn features(&self, width: Width) -> Features {
        let features = self.cpu.features(width);
        match self.encoding {
            Encoding::Legacy => features,
            Encoding::Vex if matches!(self.cpu, Cpu::Gfni) => features.with(Features::AVX),
            Encoding::Vex => features,
            Encoding::Evex if self.widths.is_scalar() || matches!(width, Width::L512) => {
                features.with(Features::AVX512F)
            }
            Encoding::Evex => features.with(Features::AVX512F).with(Features::AVX512VL),
        }
    }

    /// Whether instructions of this row may have a mask.
    pub const fn allows_mask(&self) -> bool {
        self.flags & (flag::MASK | flag::ZERO | flag::MASK_REQUIRED) != 0
    }

    /// Whether instructions of this row must have a mask, which they set to zero.
    pub const fn requires_mask(&self) -> bool {
        self.flags & flag::MASK_REQUIRED != 0
    }

    /// What an instruction of this row that has a mask and does not zero lanes does with a register operand of this
    /// slot. A vector that it writes keeps the other lanes, so that it also reads the vector.
    pub const fn merged_role(&self, slot: &Slot) -> Role {
        match (slot.role, slot.class()) {
            (Role::Def, Some(Class::Vector)) if self.flags & flag::CHOOSE == 0 => Role::Mod,
            (role, _) => role,
        }
    }

    /// Whether a memory operand of this row may be a broadcast element.
    pub const fn allows_broadcast(&self) -> bool {
        self.flags & flag::BROADCAST != 0
    }

    /// The number of bytes of a broadcast element.
    pub const fn element_bytes(&self) -> u32 {
        match self.w {
            W::W1 => 8,
            _ => 4,
        }
    }

    /// The number of bytes of the memory operand, of each element for gathers and scatters; 0 if there is none or the
    /// instruction does not access it.
    pub const fn memory_bytes(&self, width: Width) -> u32 {
        match self.memory {
            Memory::None => 0,
            Memory::Part(shift) => width.bytes() >> shift,
            Memory::Bytes(n) => n as u32,
            Memory::Duplicated if matches!(width, Width::L128) => 8,
            Memory::Duplicated | Memory::Compressed(_) => width.bytes(),
        }
    }

    /// The unit of the 8-bit displacements of EVEX instructions.
    pub(super) const fn displacement_unit(&self, width: Width, broadcast: bool) -> i32 {
        match self.memory {
            _ if broadcast => self.element_bytes() as i32,
            Memory::Compressed(n) => n as i32,
            Memory::None => 1,
            _ => self.memory_bytes(width) as i32,
        }
    }

    /// Parses the word at `at` and returns the position behind it.
    const fn parse_word(&mut self, text: &[u8], mut at: usize) -> usize {
        if text[at] == b'/' {
            self.digit = Some(text[at + 1] - b'0');
            return at + 2;
        }
        let role = match text[at] {
            b'=' => Role::Def,
            b'+' => Role::Mod,
            _ => Role::Use,
        };
        if !matches!(role, Role::Use) {
            at += 1;
        }
        let slot = match text[at] {
            b'M' => return self.push(role, Kind::Memory, Place::Memory, at + 1),
            b'c' => return self.push(role, Kind::Cond, Place::Opcode, at + 1),
            b'i' | b'j' => {
                return self.push(role, number(text[at], text[at + 1]), Place::Field, at + 2);
            }
            b'!' => return self.push_implied(role, text[at + 1], at + 2),
            kind => (register(kind), place(text[at + 1])),
        };
        self.push(role, slot.0, slot.1, at + 2)
    }

    const fn push(&mut self, role: Role, kind: Kind, place: Place, end: usize) -> usize {
        assert!(self.stated == self.total, "implied operands come last");
        self.slots[self.total as usize] = Slot::new(role, kind, place, 0);
        self.stated += 1;
        self.total += 1;
        end
    }

    const fn push_implied(&mut self, role: Role, letter: u8, end: usize) -> usize {
        let register = match letter {
            b'a' => 0,
            b'c' => 1,
            b'd' => 2,
            b'b' => 3,
            _ => panic!("unknown register"),
        };
        self.slots[self.total as usize] = Slot::new(role, Kind::Gpr, Place::Implied, register);
        self.total += 1;
        end
    }
}

const fn register(letter: u8) -> Kind {
    match letter {
        b'v' => Kind::Vector,
        b'h' => Kind::Half,
        b'x' => Kind::Xmm,
        b'k' => Kind::Mask,
        b'g' => Kind::Gpr,
        b'b' => Kind::Gpr8,
        b'w' => Kind::Gpr16,
        b'd' => Kind::Gpr32,
        b'l' => Kind::Gpr64,
        _ => panic!("unknown kind of operand"),
    }
}

const fn place(letter: u8) -> Place {
    match letter {
        b'r' => Place::Reg,
        b'v' => Place::Vvvv,
        b's' => Place::Is4,
        b'm' => Place::RegisterOrMemory,
        b'R' => Place::Register,
        b'S' => Place::Vsib,
        b'o' => Place::Opcode,
        b'a' => Place::Zero,
        _ => panic!("unknown place of operand"),
    }
}

const fn number(class: u8, letter: u8) -> Kind {
    match (class, letter) {
        (b'i', b'b') => Kind::Imm8,
        (b'i', b'n') => Kind::Imm4,
        (b'i', b'1') => Kind::One,
        (b'i', b's') => Kind::ImmSigned8,
        (b'i', b'z') => Kind::ImmWidth,
        (b'i', b'u') => Kind::ImmUnsigned32,
        (b'i', b'q') => Kind::Imm64,
        (b'j', b'b') => Kind::Label8,
        (b'j', b'z') => Kind::Label32,
        _ => panic!("unknown kind of number"),
    }
}

const fn parse_memory(text: &[u8]) -> Memory {
    if text.is_empty() {
        return Memory::None;
    }
    match text[0] {
        b'v' | b'g' => Memory::Part(0),
        b'h' => Memory::Part(1),
        b'q' => Memory::Part(2),
        b'e' => Memory::Part(3),
        b'd' => Memory::Duplicated,
        b'c' => Memory::Compressed(text[1] - b'0'),
        _ => {
            let (mut n, mut at) = (0, 0);
            while at < text.len() {
                n = n * 10 + (text[at] - b'0');
                at += 1;
            }
            Memory::Bytes(n)
        }
    }
}

const fn parse_flags(text: &[u8]) -> u16 {
    let (mut flags, mut at) = (0, 0);
    while at < text.len() {
        flags |= match text[at] {
            b'B' => flag::BROADCAST,
            b'R' => flag::ROUND,
            b'S' => flag::SUPPRESS,
            b'K' => flag::MASK,
            b'Z' => flag::ZERO,
            b'Q' => flag::MASK_REQUIRED,
            b'1' => flag::LONG,
            b'L' => flag::LOCK,
            b'C' => flag::CHOOSE,
            _ => panic!("unknown flag"),
        };
        at += 1;
    }
    flags
}
