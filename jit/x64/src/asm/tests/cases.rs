//! Instructions of a row: each register of each operand, forms of memory operands, options and numbers at the limits.

use crate::asm::row::{Class, Encoding, Kind, Place, Row, Slot, flag};
use crate::asm::{
    Base, Cond, Gpr, Inst, Label, Mask, Mem, Op, Operand, Rounding, Scale, Width, Zmm,
};

/// Each how many instructions one has options added.
const OPTIONS_EACH: usize = 7;

const SCALES: [Scale; 4] = [Scale::X1, Scale::X2, Scale::X4, Scale::X8];

/// The instructions of a row in a width. All of them exist.
pub(super) fn of(op: Op, row: &Row, width: Width) -> Vec<Inst> {
    let mut all = Vec::new();
    for start in 0..3 {
        let base = plain(op, row, width, start);
        all.push(base);
        for (n, slot) in row.stated().iter().enumerate() {
            // Registers are in other bits than displacements.
            let every = if start == 0 { 1 } else { 5 };
            let values = values(row, slot, width).into_iter().step_by(every);
            all.extend(values.map(|operand| with(base, n, operand)));
        }
    }
    // The options are in other bits than registers and addresses, so that not each of these needs each option.
    let some = all.clone().into_iter().step_by(OPTIONS_EACH);
    let broadcast = all.clone().into_iter().filter(has_broadcast);
    for inst in some.chain(broadcast.step_by(OPTIONS_EACH)) {
        options(row, inst, &mut all);
    }
    all.retain(|inst| !overlaps(row, inst));
    all
}

fn has_broadcast(inst: &Inst) -> bool {
    let mut operands = inst.operands.iter();
    operands.any(|x| matches!(x, Operand::Mem(mem) if mem.broadcast))
}

/// An instruction with registers of the low, the middle or the high half.
fn plain(op: Op, row: &Row, width: Width, start: u8) -> Inst {
    let operands = row.stated().iter().enumerate().map(|(n, slot)| {
        let n = n as u8;
        match (slot.place, slot.class()) {
            (Place::Zero, _) => Gpr(0).into(),
            (Place::Vsib, _) => Mem::base(Gpr(6 + start)).lanes(Zmm(5), Scale::X4).into(),
            (_, Some(Class::Gpr)) => Gpr(1 + n + 4 * start).into(),
            (_, Some(Class::Mask)) => Mask(1 + n + start).into(),
            (_, Some(Class::Vector)) if row.encoding == Encoding::Evex => {
                Zmm(1 + 3 * n + 9 * start).into()
            }
            (_, Some(Class::Vector)) => Zmm(1 + 2 * n + 4 * start).into(),
            (Place::Memory, None) => Mem::base(Gpr(3 + 4 * start)).into(),
            (_, None) => values(row, slot, width)[0],
        }
    });
    let operands: Vec<Operand> = operands.collect();
    let inst = Inst::new(op, width, &operands);
    match row.requires_mask() {
        true => inst.masked(Mask(1 + start)),
        false => inst,
    }
}

fn with(inst: Inst, n: usize, operand: Operand) -> Inst {
    let mut operands = inst.operands;
    operands[n] = operand;
    Inst { operands, ..inst }
}

/// The values of an operand.
fn values(row: &Row, slot: &Slot, width: Width) -> Vec<Operand> {
    let mut values: Vec<Operand> = match slot.class() {
        _ if slot.place == Place::Zero => vec![Gpr(0).into()],
        Some(Class::Gpr) => (0..16).map(|n| Gpr(n).into()).collect(),
        Some(Class::Mask) => (0..8).map(|n| Mask(n).into()).collect(),
        Some(Class::Vector) if row.encoding == Encoding::Evex => {
            (0..32).map(|n| Zmm(n).into()).collect()
        }
        Some(Class::Vector) => (0..16).map(|n| Zmm(n).into()).collect(),
        None => numbers(slot.kind, width),
    };
    if slot.place == Place::Vsib {
        values.extend(vsib(row, width).into_iter().map(Operand::from));
    } else if slot.allows_memory() {
        values.extend(memory(row, width).into_iter().map(Operand::from));
    }
    values
}

fn numbers(kind: Kind, width: Width) -> Vec<Operand> {
    let bits = width.bytes() * 8;
    let top = |bits: u32| 1i64.checked_shl(bits - 1).unwrap_or(i64::MIN);
    let numbers = match kind {
        Kind::Imm8 => vec![0, 1, 0x7f, 0x80, 0xff, -1, -0x80],
        Kind::Imm4 => vec![0, 1, 15],
        Kind::One => vec![1],
        Kind::ImmSigned8 => vec![0, 1, 0x7f, -1, -0x80],
        Kind::ImmWidth if width == Width::W64 => {
            vec![0, 0x80, i64::from(i32::MAX), i64::from(i32::MIN), -1]
        }
        Kind::ImmWidth => vec![0, 0x7f, -1, 0xff, -top(bits), top(bits), 2 * top(bits) - 1],
        Kind::ImmUnsigned32 => vec![0, 1, 1 << 31, u32::MAX.into()],
        Kind::Imm64 => vec![0, -1, i64::MAX, i64::MIN, 1 << 32],
        Kind::Cond => return Cond::ALL.iter().map(|&x| x.into()).collect(),
        Kind::Label8 | Kind::Label32 => return vec![Label(0).into()],
        _ => return Vec::new(),
    };
    numbers.into_iter().map(Operand::from).collect()
}

/// Displacements at which the length of the field changes, for displacements in units of 1 and of `unit`.
fn displacements(unit: i32) -> Vec<i32> {
    let mut all = vec![0, i32::MAX, i32::MIN, i32::MAX / 64 * 64];
    for unit in [1, unit, unit / 2] {
        for factor in [1, 127, 128, 129] {
            all.extend([unit * factor, -unit * factor]);
        }
    }
    all.extend([unit * 127 + 1, unit * -128 - 1]);
    all.sort_unstable();
    all.dedup();
    all
}

fn memory(row: &Row, width: Width) -> Vec<Mem> {
    let mut all = Vec::new();
    for n in 0..16 {
        let base = Mem::base(Gpr(n));
        all.extend([base, base.disp(1), base.disp(0x12345)]);
        let index = Gpr(if n == 4 { 0 } else { n });
        let scale = SCALES[usize::from(n) % 4];
        for from in [Base::None, Base::Gpr(Gpr(n ^ 5)), Base::Gpr(Gpr(n ^ 13))] {
            all.extend([
                Mem::at(from).index(index, scale),
                Mem::at(from).index(index, scale).disp(-3),
            ]);
        }
    }
    all.extend([
        Mem::at(Base::None).disp(0x1234),
        Mem::at(Base::None).disp(-1),
    ]);
    all.extend([Mem::from(Label(0)), Mem::from(Label(0)).disp(-7)]);
    let unit = row.displacement_unit(width, false).max(2);
    for base in [Gpr(0), Gpr(4), Gpr(13)] {
        all.extend(
            displacements(unit)
                .into_iter()
                .map(|x| Mem::base(base).disp(x)),
        );
    }
    if row.allows_broadcast() {
        all.extend([
            Mem::base(Gpr(9)).index(Gpr(10), Scale::X4).broadcast(),
            Mem::from(Label(0)).broadcast(),
        ]);
        let unit = row.element_bytes() as i32;
        let broadcast = displacements(unit).into_iter();
        all.extend(broadcast.map(|x| Mem::base(Gpr(13)).disp(x).broadcast()));
    }
    all
}

fn vsib(row: &Row, width: Width) -> Vec<Mem> {
    let mut all = Vec::new();
    let registers = if row.encoding == Encoding::Evex {
        32
    } else {
        16
    };
    for n in 0..registers {
        for base in [
            Base::None,
            Base::Gpr(Gpr(n % 16)),
            Base::Gpr(Gpr((n ^ 8) % 16)),
        ] {
            all.push(
                Mem::at(base)
                    .lanes(Zmm(n), SCALES[usize::from(n) % 4])
                    .disp(i32::from(n & 1)),
            );
        }
    }
    let unit = row.displacement_unit(width, false);
    let disps = displacements(unit).into_iter();
    all.extend(disps.map(|x| Mem::base(Gpr(5)).lanes(Zmm(4), Scale::X8).disp(x)));
    all
}

/// Adds an instruction with each option that the row allows.
fn options(row: &Row, inst: Inst, all: &mut Vec<Inst>) {
    let memory = inst.operands.iter().any(|x| matches!(x, Operand::Mem(_)));
    let to_memory = matches!(inst.operands[0], Operand::Mem(_));
    if row.allows_mask() {
        all.extend([1, 7].map(|n| inst.masked(Mask(n))));
    }
    if row.flags & flag::ZERO != 0 && !to_memory {
        all.extend([1, 7].map(|n| inst.zeroed(Mask(n))));
    }
    if row.flags & flag::LOCK != 0 && to_memory {
        all.push(inst.locked());
    }
    if memory || inst.width != Width::L512 && !row.widths.is_scalar() {
        return;
    }
    if row.flags & flag::ROUND != 0 {
        let modes = [
            Rounding::Nearest,
            Rounding::Down,
            Rounding::Up,
            Rounding::Zero,
        ];
        all.extend(modes.map(|mode| inst.rounded(mode)));
        if row.allows_mask() {
            all.extend(modes.map(|mode| inst.zeroed(Mask(2)).rounded(mode)));
        }
    }
    if row.flags & flag::SUPPRESS != 0 {
        all.extend([
            inst.rounded(Rounding::SuppressOnly),
            inst.masked(Mask(0)).rounded(Rounding::SuppressOnly),
        ]);
    }
}

/// Whether it is a gather whose registers are not distinct.
fn overlaps(row: &Row, inst: &Inst) -> bool {
    let mut registers = Vec::new();
    for (slot, operand) in row.stated().iter().zip(&inst.operands) {
        match operand {
            Operand::Zmm(n) => registers.push(*n),
            Operand::Mem(Mem {
                index: crate::asm::Index::Zmm(n, _),
                ..
            }) => registers.push(*n),
            _ => {}
        }
        if slot.place == Place::Vsib && matches!(inst.operands[0], Operand::Mem(_)) {
            return false;
        }
    }
    let gather = row.stated().iter().any(|slot| slot.place == Place::Vsib);
    registers.sort_unstable();
    registers.dedup();
    gather && registers.len() != row.stated().len()
}
