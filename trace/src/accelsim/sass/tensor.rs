//! Matrix operations.

use super::Subject;
use super::opcode::{Class, Type, Words};
use super::step::{Architecture, Memory, Step, Steps, Uses, chain, one, step};

/// Returns the lines of a matrix operation.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    match (op.head, op.first()) {
        ("mma", _) => mma(op, subject.architecture),
        ("wmma", "mma") => wmma(op, subject.architecture),
        ("wmma", "load") => Some(fragment(subject, true)),
        ("wmma", "store") => Some(fragment(subject, false)),
        ("movmatrix", _) if subject.architecture.is_turing() => Some(one("MOVM.16.MT88")),
        ("movmatrix", _) => Some(chain(&["SHFL.IDX"; 4])),
        _ => None,
    }
}

/// Returns the shape of a multiplication without its letters: `16816` for `m16n8k16`.
fn shape<'a>(op: &Words<'a>) -> Option<(&'a str, String)> {
    let is_shape = |word: &&&str| {
        word.starts_with('m')
            && word.contains('n')
            && word.ends_with(|end: char| end.is_ascii_digit())
    };
    let word = op.all().iter().find(is_shape)?;
    Some((word, word.chars().filter(char::is_ascii_digit).collect()))
}

/// Returns the class and the number of bits of the elements of the matrices A and B: the second type of four. An opcode
/// with the types of C and D only multiplies numbers of the type `f16`.
fn factor(op: &Words<'_>) -> Option<(Class, u32)> {
    let types: Vec<Type> = op.types().collect();
    match types[..] {
        [_, factor, _, _] | [factor] => Some((factor.class, factor.bits)),
        [_, _] => Some((Class::Half, 16)),
        _ => None,
    }
}

fn is_double(op: &Words<'_>) -> bool {
    op.types()
        .all(|ty| ty.class == Class::Float && ty.bits == 64)
}

fn mma(op: &Words<'_>, architecture: Architecture) -> Option<Steps> {
    let (_, digits) = shape(op)?;
    if is_double(op) {
        return Some(match architecture.is_ampere() {
            true => one(format!("DMMA.{digits}")),
            false => chain(&["DFMA"; 4]),
        });
    }
    let name = unit(op, architecture)?;
    let sparse = if op.has_any(&["sp", "sp::ordered_metadata"]) {
        ".SP"
    } else {
        ""
    };
    Some(one(format!("{name}{sparse}.{digits}{}", suffix(op))))
}

/// Returns the machine instruction for the types of a multiplication; `None` if the opcode maps have none.
fn unit(op: &Words<'_>, architecture: Architecture) -> Option<&'static str> {
    Some(match factor(op)? {
        (Class::Narrow, _) => return None,
        (Class::Bits, 1) if architecture.is_turing() => "BMMA",
        (Class::Bits | Class::Signed | Class::Unsigned, _) => "IMMA",
        _ => "HMMA",
    })
}

/// The words that state the types of a multiplication.
fn suffix(op: &Words<'_>) -> &'static str {
    let result = op.types().next().map(|ty| (ty.class, ty.bits));
    match factor(op) {
        Some((Class::BFloat, _)) => ".F32.BF16",
        Some((Class::Float, _)) => ".F32.TF32",
        Some((Class::Signed, 8)) => ".S8.S8",
        Some((Class::Unsigned, 8)) => ".U8.U8",
        Some((Class::Signed, 4)) => ".S4.S4",
        Some((Class::Unsigned, 4)) => ".U4.U4",
        Some((Class::Bits, _)) => "",
        _ if result == Some((Class::Float, 32)) => ".F32",
        _ => ".F16",
    }
}

/// `wmma.mma` is several operations of the size that the architecture has.
fn wmma(op: &Words<'_>, architecture: Architecture) -> Option<Steps> {
    if is_double(op) {
        return Some(match architecture.is_ampere() {
            true => one("DMMA.884"),
            false => chain(&["DFMA"; 4]),
        });
    }
    let name = unit(op, architecture)?;
    let (digits, count) = match (name, architecture) {
        ("HMMA", Architecture::Volta70) => ("884", 16),
        ("HMMA", Architecture::Turing75) => ("1688", 4),
        ("HMMA", _) if suffix(op) == ".F32.TF32" => ("1688", 2),
        ("HMMA", _) => ("16816", 2),
        ("BMMA", _) => ("88128", 1),
        (_, Architecture::Ampere80 | Architecture::Ampere86) => ("16816", 2),
        _ => ("8816", 4),
    };
    let suffix = suffix(op);
    let parts = (0..count).map(|number| Step {
        uses: Uses::Link {
            is_last: number + 1 == count,
            number,
        },
        ..step(format!("{name}.{digits}{suffix}"))
    });
    Some(parts.collect())
}

/// Loads and stores of a fragment: one access of 16 bytes of each lane for four registers.
fn fragment(subject: &Subject<'_>, is_load: bool) -> Steps {
    let op = &subject.words;
    let registers = subject
        .operands
        .iter()
        .map(|operand| operand.registers.len())
        .max();
    let bits = registers.unwrap_or(1) as u32 * op.ty().bits.max(32);
    let count = (bits as usize).div_ceil(128).max(1);
    let width = match bits {
        ..=32 => "",
        33..=64 => ".64",
        _ => ".128",
    };
    let name = match (is_load, op.all()) {
        (true, all) if all.iter().any(|word| word.starts_with("shared")) => "LDS",
        (false, all) if all.iter().any(|word| word.starts_with("shared")) => "STS",
        (true, all) if all.contains(&"global") => "LDG.E",
        (false, all) if all.contains(&"global") => "STG.E",
        (true, _) => "LD.E",
        (false, _) => "ST.E",
    };
    let parts = (0..count).map(|number| Step {
        memory: Some(Memory::Part { number, count }),
        writes: is_load,
        ..step(format!("{name}{width}"))
    });
    parts.collect()
}
