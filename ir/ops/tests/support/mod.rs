//! Parses the tables in `../meanings`. The tests of native code and the crate `margay-tests` also
//! use this module, to run the same test cases.

use margay_ops::meaning::{Bits, Desc};
use margay_ops::mods::{AtomOp, BoolOp, CmpOp, Half, Mode, Mods, Precision, Rounding, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// The file name and the text of each table.
pub(crate) const TABLES: [(&str, &str); 9] = [
    ("int.txt", include_str!("../meanings/int.txt")),
    ("bits.txt", include_str!("../meanings/bits.txt")),
    ("float.txt", include_str!("../meanings/float.txt")),
    ("approx.txt", include_str!("../meanings/approx.txt")),
    ("compare.txt", include_str!("../meanings/compare.txt")),
    ("cvt.txt", include_str!("../meanings/cvt.txt")),
    ("video.txt", include_str!("../meanings/video.txt")),
    ("atomic.txt", include_str!("../meanings/atomic.txt")),
    ("warp.txt", include_str!("../meanings/warp.txt")),
];

/// A test case, which is a line of a table.
#[allow(dead_code, reason = "each user reads a part of it")]
pub(crate) struct Case {
    /// The file name of the table, and the number of the line.
    pub(crate) at: (&'static str, usize),
    /// The line without its comment.
    pub(crate) line: &'static str,
    /// The start of the line: the op with its modifiers.
    pub(crate) head: &'static str,
    /// The description that the op and its modifiers specify.
    pub(crate) desc: Desc,
    /// Operands, as written.
    pub(crate) operands: Vec<&'static str>,
    /// Results, as written.
    pub(crate) results: Vec<&'static str>,
}

/// Returns the test cases of all tables.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    TABLES.into_iter().flat_map(|(name, table)| {
        lines(table).map(move |(number, line)| {
            let (left, right) = line
                .split_once(" = ")
                .unwrap_or_else(|| panic!("{name}:{number}: no ` = `"));
            let mut words = left.split_whitespace();
            let head = words.next().expect("a line is not blank");
            Case {
                at: (name, number),
                line,
                head,
                desc: parse_head(head),
                operands: words.collect(),
                results: right.split_whitespace().collect(),
            }
        })
    })
}

/// Parses the operands or results of a pure op, or the operands of a read-modify-write.
pub(crate) fn values(words: &[&str]) -> Vec<Bits> {
    words.iter().map(|word| parse_value(word)).collect()
}

/// Parses the start of a line, which consists of the name of an op and modifiers. If `head` begins
/// with several names of ops, the longest is the name of the op.
fn parse_head(head: &str) -> Desc {
    let opcode = Opcode::ALL
        .iter()
        .copied()
        .filter(|op| {
            head.strip_prefix(op.name())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .max_by_key(|op| op.name().len())
        .unwrap_or_else(|| panic!("no op named like {head}"));
    let mut desc = Desc {
        opcode,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE,
    };
    for word in head[opcode.name().len()..].split('.').skip(1) {
        apply_word(&mut desc, word).unwrap_or_else(|| panic!("unknown modifier {word} in {head}"));
    }
    desc
}

fn apply_word(desc: &mut Desc, word: &str) -> Option<()> {
    if let Some(ty) = OpType::from_name(word) {
        if desc.ty == OpType::None {
            desc.ty = ty;
        } else {
            desc.src = ty;
        }
        return Some(());
    }
    desc.mods = flag(desc.mods, word)
        .or_else(|| selector(desc.mods, word))
        .or_else(|| by_opcode(desc.opcode, desc.mods, word))
        .or_else(|| shared_word(desc.mods, word))?;
    Some(())
}

fn flag(mods: Mods, word: &str) -> Option<Mods> {
    Some(match word {
        "cc" => mods.with_carry_out(true),
        "ftz" => mods.with_ftz(true),
        "sat" => mods.with_sat(true),
        "satfinite" => mods.with_satfinite(true),
        "relu" => mods.with_relu(true),
        "NaN" => mods.with_nan(true),
        "abs" => mods.with_abs(true),
        "xorsignabs" => mods.with_xorsign_abs(true),
        "oob" => mods.with_oob(true),
        "shiftamt" | "po" => mods.with_flag(true),
        "bs32" => mods.with_bsigned(true),
        "noftz" => mods.with_noftz(true),
        "bu32" | "scaled" => mods,
        _ => return None,
    })
}

fn selector(mods: Mods, word: &str) -> Option<Mods> {
    let (which, value) = word.split_once(':')?;
    let parts = ["b0", "b1", "b2", "b3", "h0", "h1"];
    let part = || parts.iter().position(|p| *p == value).map(|i| i as u8 + 1);
    Some(match which {
        "a" => mods.with_asel(part()?),
        "b" => mods.with_bsel(part()?),
        "d" => mods.with_dsel(part()?),
        "mask" => mods.with_dsel(value.parse().ok()?),
        "neg" => mods.with_negate(value.parse().ok()?),
        _ => return None,
    })
}

/// Returns `mods` with the modifier that `word` specifies, for words whose meaning depends on the op.
fn by_opcode(opcode: Opcode, mods: Mods, word: &str) -> Option<Mods> {
    match opcode {
        Opcode::Set | Opcode::Setp => CmpOp::from_name(word)
            .map(|cmp| mods.with_cmp(cmp))
            .or_else(|| BoolOp::from_name(word).map(|op| mods.with_bool_op(op))),
        Opcode::Vset | Opcode::Vset2 | Opcode::Vset4 => CmpOp::from_name(word)
            .map(|cmp| mods.with_cmp(cmp))
            .or_else(|| AtomOp::from_name(word).map(|op| mods.with_atom_op(op))),
        Opcode::Lop3 => BoolOp::from_name(word).map(|op| mods.with_bool_op(op)),
        Opcode::Shf if word == "wrap" => Some(mods.with_flag(true)),
        Opcode::Shf if word == "clamp" => Some(mods),
        Opcode::Mul | Opcode::Mad | Opcode::Madc | Opcode::Mul24 | Opcode::Mad24 | Opcode::Dp2a => {
            Half::from_name(word).map(|half| mods.with_half(half))
        }
        _ => None,
    }
}

fn shared_word(mods: Mods, word: &str) -> Option<Mods> {
    Rounding::from_name(word)
        .map(|x| mods.with_rounding(x))
        .or_else(|| Precision::from_name(word).map(|x| mods.with_precision(x)))
        .or_else(|| AtomOp::from_name(word).map(|x| mods.with_atom_op(x)))
        .or_else(|| Mode::from_name(word).map(|x| mods.with_mode(x)))
        .or_else(|| StateSpace::from_name(word).map(|x| mods.with_space(x)))
}

pub(crate) fn parse_value(text: &str) -> Bits {
    let parsed = if let Some(digits) = text.strip_prefix("0x") {
        Bits::from_str_radix(digits, 16).ok()
    } else if text.starts_with('-') && text.contains('i') && !text.contains("inf") {
        text.split_once('i').and_then(|(number, width)| {
            let width: u32 = width.parse().ok()?;
            let number: i128 = number.parse().ok()?;
            Some(number as Bits & (Bits::MAX >> (128 - width)))
        })
    } else if let Some(number) = text.strip_suffix('f').filter(|n| n.parse::<f32>().is_ok()) {
        number.parse::<f32>().ok().map(|x| x.to_bits().into())
    } else if let Some(number) = text.strip_suffix('d') {
        number.parse::<f64>().ok().map(|x| x.to_bits().into())
    } else {
        text.parse().ok()
    };
    parsed.unwrap_or_else(|| panic!("no value: {text}"))
}

/// Returns each line of a table with its number. Comments are removed, and empty lines are skipped.
fn lines(table: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(table.lines()).filter_map(|(number, line)| {
        let line = line.split('#').next().unwrap_or("").trim();
        (!line.is_empty()).then_some((number, line))
    })
}
