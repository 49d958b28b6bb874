//! Writes the bytes of an instruction whose fields are known.

use super::{Encoded, Fields, Rm, Target};
use crate::asm::inst::Inst;
use crate::asm::operand::{Base, Index, Mem};
use crate::asm::register::{Rounding, Width};
use crate::asm::row::{Encoding, Map, Prefix, Row, W, flag};

/// The number in ModRM.rm that means that a SIB byte follows.
const SIB_FOLLOWS: u8 = 4;
/// The number in SIB.index that means that there is no index.
const NO_INDEX: u8 = 4;
/// The number in ModRM.rm and SIB.base that means, if ModRM.mod is 0, that there is no base but a displacement of 32
/// bits; in ModRM.rm it is relative to the next instruction.
const NO_BASE: u8 = 5;

impl Encoded {
    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn push_all(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn displacement(&mut self, target: Target, value: i32) {
        self.fixup = Some((self.len, target));
        self.push_all(&value.to_le_bytes());
    }
}

/// Writes an instruction.
pub(super) fn write(row: &Row, inst: &Inst, fields: &Fields<'_>) -> Encoded {
    let mut to = Encoded {
        bytes: [0; 16],
        len: 0,
        fixup: None,
    };
    match row.encoding {
        Encoding::Legacy => legacy(&mut to, row, inst, fields),
        Encoding::Vex => vex(&mut to, row, inst.width, fields),
        Encoding::Evex => evex(&mut to, row, inst, fields),
    }
    to.push(row.opcode + fields.opcode);
    match fields.rm {
        Rm::None => {}
        Rm::Register(n) => to.push(modrm(3, fields.reg, n)),
        Rm::Memory(mem) => {
            let unit = match row.encoding {
                Encoding::Evex => row.displacement_unit(inst.width, mem.broadcast),
                _ => 1,
            };
            memory(&mut to, fields.reg, mem, unit);
        }
    }
    let immediate = fields.immediate;
    to.push_all(&immediate.value.to_le_bytes()[..usize::from(immediate.bytes)]);
    if let Some(label) = fields.label {
        to.displacement(Target::Label(label), 0);
    }
    to
}

/// The bits of registers that do not fit ModRM, SIB and the opcode.
struct Extensions {
    /// The fourth bit of ModRM.reg.
    r: u8,
    /// The fourth bit of the index, or the fifth bit of ModRM.rm.
    x: u8,
    /// The fourth bit of ModRM.rm, of the base, or of a register in the opcode.
    b: u8,
    /// The fifth bit of a vector of indices.
    high_index: u8,
}

impl Extensions {
    fn new(fields: &Fields<'_>) -> Extensions {
        let (index, base) = match fields.rm {
            Rm::None => (0, fields.opcode_high << 3),
            Rm::Register(n) => (n >> 1 & 8, n),
            Rm::Memory(mem) => (index(mem).map_or(0, |(n, _)| n), base(mem).unwrap_or(0)),
        };
        Extensions {
            r: fields.reg >> 3 & 1,
            x: index >> 3 & 1,
            b: base >> 3 & 1,
            high_index: index >> 4,
        }
    }
}

fn base(mem: &Mem) -> Option<u8> {
    match mem.base {
        Base::Gpr(n) => Some(n.0),
        _ => None,
    }
}

/// The number of the index register, and the base-2 logarithm of the scale.
fn index(mem: &Mem) -> Option<(u8, u8)> {
    match mem.index {
        Index::None => None,
        Index::Gpr(n, scale) => Some((n.0, scale as u8)),
        Index::Zmm(n, scale) => Some((n.0, scale as u8)),
    }
}

fn w(row: &Row, width: Width) -> u8 {
    match row.w {
        W::W0 | W::WIG => 0,
        W::W1 => 1,
        W::WW => u8::from(width == Width::W64),
    }
}

fn legacy(to: &mut Encoded, row: &Row, inst: &Inst, fields: &Fields<'_>) {
    if inst.lock {
        to.push(0xf0);
    }
    if row.w == W::WW && inst.width == Width::W16 {
        to.push(0x66);
    }
    match row.prefix {
        Prefix::NP => {}
        Prefix::P66 => to.push(0x66),
        Prefix::PF3 => to.push(0xf3),
        Prefix::PF2 => to.push(0xf2),
    }
    let bits = Extensions::new(fields);
    let rex = w(row, inst.width) << 3 | bits.r << 2 | bits.x << 1 | bits.b;
    if rex != 0 || fields.rex {
        to.push(0x40 | rex);
    }
    match row.map {
        Map::One => {}
        Map::M0F => to.push(0x0f),
        Map::M0F38 => to.push_all(&[0x0f, 0x38]),
        Map::M0F3A => to.push_all(&[0x0f, 0x3a]),
    }
}

fn vex(to: &mut Encoded, row: &Row, width: Width, fields: &Fields<'_>) {
    let bits = Extensions::new(fields);
    let long = width == Width::L256 || row.flags & flag::LONG != 0;
    let w = w(row, width);
    let last = (!fields.vvvv & 15) << 3 | u8::from(long) << 2 | row.prefix as u8;
    if bits.x == 0 && bits.b == 0 && w == 0 && row.map == Map::M0F {
        to.push_all(&[0xc5, (bits.r ^ 1) << 7 | last]);
        return;
    }
    let inverted = (bits.r << 2 | bits.x << 1 | bits.b) ^ 7;
    to.push_all(&[0xc4, inverted << 5 | row.map as u8, w << 7 | last]);
}

fn evex(to: &mut Encoded, row: &Row, inst: &Inst, fields: &Fields<'_>) {
    let bits = Extensions::new(fields);
    let inverted = (bits.r << 3 | bits.x << 2 | bits.b << 1 | fields.reg >> 4) ^ 15;
    let high = (fields.vvvv >> 4 | bits.high_index) ^ 1;
    let broadcast = matches!(fields.rm, Rm::Memory(mem) if mem.broadcast);
    let (length, stated) = match inst.rounding {
        Rounding::Mxcsr => (length(inst.width), broadcast),
        Rounding::Nearest | Rounding::SuppressOnly => (0, true),
        Rounding::Down => (1, true),
        Rounding::Up => (2, true),
        Rounding::Zero => (3, true),
    };
    to.push_all(&[
        0x62,
        inverted << 4 | row.map as u8,
        w(row, inst.width) << 7 | (!fields.vvvv & 15) << 3 | 4 | row.prefix as u8,
        u8::from(inst.zeroing) << 7 | length << 5 | u8::from(stated) << 4 | high << 3 | inst.mask.0,
    ]);
}

fn length(width: Width) -> u8 {
    match width {
        Width::L512 => 2,
        Width::L256 => 1,
        _ => 0,
    }
}

/// A displacement in units of `unit`, a power of two, if it is a multiple that fits 8 bits.
pub(super) fn compressed(disp: i32, unit: i32) -> Option<i8> {
    let units = disp >> unit.trailing_zeros();
    let multiple = disp & (unit - 1) == 0;
    i8::try_from(units).ok().filter(|_| multiple)
}

fn modrm(mode: u8, reg: u8, rm: u8) -> u8 {
    mode << 6 | (reg & 7) << 3 | rm & 7
}

/// Writes ModRM, SIB and the displacement of a memory operand.
fn memory(to: &mut Encoded, reg: u8, mem: &Mem, unit: i32) {
    let index = index(mem);
    let Some(base) = base(mem) else {
        return without_base(to, reg, mem, index);
    };
    let (mode, short) = match compressed(mem.disp, unit) {
        Some(0) if base & 7 != NO_BASE => (0, None),
        Some(short) => (1, Some(short)),
        None => (2, None),
    };
    if index.is_some() || base & 7 == SIB_FOLLOWS {
        to.push(modrm(mode, reg, SIB_FOLLOWS));
        to.push(sib(index, base));
    } else {
        to.push(modrm(mode, reg, base));
    }
    match mode {
        0 => {}
        1 => to.push_all(&short.unwrap_or(0).to_le_bytes()),
        _ => to.push_all(&mem.disp.to_le_bytes()),
    }
}

fn without_base(to: &mut Encoded, reg: u8, mem: &Mem, index: Option<(u8, u8)>) {
    if mem.base == Base::None {
        to.push(modrm(0, reg, SIB_FOLLOWS));
        to.push(sib(index, NO_BASE));
        to.push_all(&mem.disp.to_le_bytes());
    } else {
        to.push(modrm(0, reg, NO_BASE));
        to.displacement(Target::Base(mem.base), mem.disp);
    }
}

fn sib(index: Option<(u8, u8)>, base: u8) -> u8 {
    let (index, scale) = index.unwrap_or((NO_INDEX, 0));
    scale << 6 | (index & 7) << 3 | base & 7
}
