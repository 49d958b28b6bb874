//! Moves and conversions.

use margay::observe::TextOperandKind;

use super::Subject;
use super::opcode::{Class, Type};
use super::step::{Architecture, Steps, chain, nothing, one, words};

/// Returns the lines of a move or a conversion.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    Some(match op.head {
        "mov" => mov(subject),
        "cvt" => return cvt(subject),
        "cvta" => nothing(),
        "isspacep" => one("QSPC"),
        "istypep" => one("ISETP"),
        "mapa" => words(op.ty().words(), &["IADD3", "MOV"]),
        "getctarank" => one("SHF.R.U32.HI"),
        "createpolicy" => words(2, &["MOV"]),
        "alloca" | "stackrestore" => words(op.ty().words(), &["IADD3", "IADD3.X"]),
        "stacksave" => words(op.ty().words(), &["MOV"]),
        _ => return None,
    })
}

fn mov(subject: &Subject<'_>) -> Steps {
    let is_packing =
        |operand: &margay::observe::TextOperand| operand.kind == TextOperandKind::Vector;
    if subject.operands.iter().any(is_packing) {
        // Packing and unpacking rename the parts of register pairs.
        return nothing();
    }
    let special = subject
        .operands
        .iter()
        .find_map(|operand| match &operand.kind {
            TextOperandKind::Special(name) => Some(&**name),
            _ => None,
        });
    match special {
        Some("%clock") => one("CS2R.32"),
        Some("%clock_hi" | "%globaltimer_lo" | "%globaltimer_hi") => one("CS2R.32"),
        Some("%clock64" | "%globaltimer") => one("CS2R"),
        Some(_) => one("S2R"),
        None if subject.words.ty().class == Class::Predicate => one("PLOP3.LUT"),
        None => words(subject.words.ty().words(), &["MOV"]),
    }
}

fn cvt(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    if op.has("pack") {
        return Some(one("I2IP"));
    }
    let mut types = op.types();
    let (to, from) = (types.next()?, types.next()?);
    let is_float = |ty: Type| !ty.is_integer();
    Some(match (is_float(to), is_float(from)) {
        (true, true) => float_to_float(
            subject.architecture,
            op.has_any(&["rni", "rzi", "rmi", "rpi"]),
            to,
            from,
        ),
        (false, true) => one(match (op.has("rzi"), to.bits, from.bits) {
            (true, 64, _) | (true, _, 64) => "F2I.TRUNC",
            (true, ..) => "F2I.TRUNC.NTZ",
            (false, 64, _) | (false, _, 64) => "F2I",
            (false, ..) => "F2I.NTZ",
        }),
        (true, false) if subject.architecture.is_ampere() && to.bits == 32 && from.bits == 32 => {
            one("I2FP")
        }
        (true, false) => one("I2F"),
        (false, false) if op.has("sat") => one("I2I"),
        (false, false) => integer_to_integer(to, from),
    })
}

fn float_to_float(architecture: Architecture, rounds: bool, to: Type, from: Type) -> Steps {
    match () {
        () if rounds => one("FRND"),
        () if to.is_packed || from.is_packed || to.class == Class::Narrow => {
            match architecture.is_turing() {
                true => one("F2FP"),
                false => chain(&["F2F", "F2F", "PRMT"]),
            }
        }
        () if to.class == from.class && to.bits == from.bits => one("FADD"),
        // A bfloat16 is the upper half of a number with single precision.
        () if from.class == Class::BFloat => one("PRMT"),
        () if to.class == Class::BFloat => one(match architecture.is_turing() {
            true => "F2FP",
            false => "F2F",
        }),
        () => one(match (to.bits, from.bits) {
            (64, 32) => "F2F.F64.F32",
            (64, _) => "F2F.F64.F16",
            (32, 64) => "F2F.F32.F64",
            (32, _) => "F2F.F32.F16",
            (_, 32) => "F2F.F16.F32",
            _ => "F2F.F16.F64",
        }),
    }
}

fn integer_to_integer(to: Type, from: Type) -> Steps {
    match (to.words(), from.words()) {
        (1, 1) if to.bits < 32 || from.bits < 32 => {
            let narrow = if from.bits < to.bits { from } else { to };
            one(if narrow.class == Class::Signed {
                "SGXT"
            } else {
                "PRMT"
            })
        }
        (2, 1) if from.class == Class::Signed => words(2, &["MOV", "SHF.R.S32.HI"]),
        (count, _) => words(count, &["MOV"]),
    }
}
