//! The notation of the strings in the rows.
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

use super::{Kind, Memory, Place, Role, Row, Slot, flag};

impl Row {
    /// Adds the operands of a string.
    pub(super) const fn add_operands(&mut self, text: &[u8]) {
        let mut at = 0;
        while at < text.len() {
            at = self.parse_word(text, at);
            let separated = at == text.len() || text[at] == b' ';
            assert!(separated, "words have a space between them");
            at += 1;
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

pub(super) const fn memory(text: &[u8]) -> Memory {
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

pub(super) const fn flags(text: &[u8]) -> u16 {
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
