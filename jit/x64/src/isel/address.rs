//! Finds sums in the addresses of accesses, which memory operands compute without an instruction.

use margay_ir::entity::Value;
use margay_ir::function::ValueDef;
use margay_ops::meaning::Desc;
use margay_ops::mods::{Half, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::Type;
use margay_vir::data::Data;
use margay_vir::function::Function;
use margay_vir::ops::Op;

/// The number of sums that are followed.
const DEPTH: usize = 4;

/// An address: the sum of a base, an index times a scale, and a displacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) base: Value,
    pub(super) index: Option<(Value, u8)>,
    pub(super) disp: i32,
}

/// Returns the operation and the operands of a scalar `b64` that a `map` computes.
fn operation(vir: &Function, value: Value) -> Option<(Desc, &[Value])> {
    let ValueDef::Result(inst, 0) = vir.values[value].def else {
        return None;
    };
    let data = &vir.insts[inst];
    match (data.op, data.data) {
        (Op::Map, Data::Lane(desc)) if data.ty == Some(Type::B64) => Some((desc, vir.args(inst))),
        _ => None,
    }
}

fn constant(vir: &Function, value: Value) -> Option<i64> {
    let ValueDef::Result(inst, _) = vir.values[value].def else {
        return None;
    };
    let data = &vir.insts[inst];
    (data.op == Op::Const).then(|| data.data.number() as i64)
}

/// Returns the operands of a sum of 64-bit integers.
fn sum(vir: &Function, value: Value) -> Option<[Value; 2]> {
    let (desc, args) = operation(vir, value)?;
    let is_sum = desc.opcode == Opcode::Add
        && desc.ty.is_integer()
        && desc.ty.bits() == 64
        && desc.mods == Mods::NONE;
    match args {
        &[a, b] if is_sum => Some([a, b]),
        _ => None,
    }
}

/// Returns the factor of a value that is a multiple of another one by a possible scale, and the other one.
fn scaled(vir: &Function, value: Value) -> Option<(Value, u8)> {
    let (desc, args) = operation(vir, value)?;
    let &[of, by] = args else {
        return None;
    };
    if vir.ty(of) != Type::B64 {
        return None;
    }
    let by = constant(vir, by)?;
    let factor = match desc.opcode {
        Opcode::Shl if desc.ty.bits() == 64 && (1..=3).contains(&by) => 1 << by,
        Opcode::Mul
            if desc.ty.bits() == 64 && matches!(desc.mods.half(), Half::None | Half::Lo) =>
        {
            by
        }
        _ => return None,
    };
    matches!(factor, 2 | 4 | 8).then_some((of, factor as u8))
}

/// Returns the parts of an address.
pub(super) fn of(vir: &Function, value: Value) -> Address {
    let mut address = Address {
        base: value,
        index: None,
        disp: 0,
    };
    for _ in 0..DEPTH {
        let Some([a, b]) = sum(vir, address.base) else {
            break;
        };
        let (a, b) = if constant(vir, a).is_some() {
            (b, a)
        } else {
            (a, b)
        };
        if constant(vir, a).is_some() {
            break;
        }
        if let Some(more) = constant(vir, b) {
            let disp = i32::try_from(more)
                .ok()
                .and_then(|more| address.disp.checked_add(more));
            let Some(disp) = disp else {
                break;
            };
            (address.base, address.disp) = (a, disp);
            continue;
        }
        if address.index.is_some() {
            break;
        }
        (address.base, address.index) = match (scaled(vir, a), scaled(vir, b)) {
            (_, Some(index)) => (a, Some(index)),
            (Some(index), None) => (b, Some(index)),
            (None, None) => (a, Some((b, 1))),
        };
    }
    address
}
