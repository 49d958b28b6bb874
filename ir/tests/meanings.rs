//! Literal tables: every row of the op table that has a meaning, against values written by hand.
//!
//! `meanings/*.txt` hold one case a line; `#` starts a comment.
//!
//! ```text
//! add.sat.s32 0x7fffffff 1 = 0x7fffffff        operands = results
//! atom.add.u32 5 3 = 8                          old content, operands = new content
//! shfl.idx.b32 @0xf lane 2 0x1f = 2*4 1         @ active lanes; per-lane values
//! ```
//!
//! The head is the op table's word, then modifiers and types in PTX's spelling and order (result
//! type, then source type); `cc` asks for a carry, `xorsignabs` is `.xorsign.abs`, `a:b1 b:h0 d:h1`
//! are video selectors, `mask:N` a lane mask, `neg:N` and `po` belong to `vmad`, `bs32` and `bu32`
//! are a video op's type of `b`.
//!
//! Values are hexadecimal or decimal integers, negative ones with their width (`-1i16`), `1.5f`
//! (`f32`), `1.5d` (`f64`). Per-lane values are one value for all lanes, `lane`, or a list
//! `1,2,7*3,0` (`7*3`: three lanes); lanes that a list leaves out are zero and not compared.
//!
//! No value here may come from Margay's own output.

use margay_ir::meaning::{Bits, Desc, Meaning, WarpLanes};
use margay_ir::mods::{AtomOp, BoolOp, CmpOp, Half, Mode, Mods, Precision, Rounding, StateSpace};
use margay_ir::ops::Opcode;
use margay_ir::types::OpType;
use std::collections::HashMap;

const TABLES: [(&str, &str); 9] = [
    ("int.txt", include_str!("meanings/int.txt")),
    ("bits.txt", include_str!("meanings/bits.txt")),
    ("float.txt", include_str!("meanings/float.txt")),
    ("approx.txt", include_str!("meanings/approx.txt")),
    ("compare.txt", include_str!("meanings/compare.txt")),
    ("cvt.txt", include_str!("meanings/cvt.txt")),
    ("video.txt", include_str!("meanings/video.txt")),
    ("atomic.txt", include_str!("meanings/atomic.txt")),
    ("warp.txt", include_str!("meanings/warp.txt")),
];

/// A line's head: the longest opcode name that starts it, then modifiers.
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
        "bu32" | "noftz" | "scaled" => mods,
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

/// Words that mean different things in different ops.
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

fn parse_value(text: &str) -> Bits {
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

/// Per-lane values and the lanes that were written down.
fn parse_lanes(text: &str) -> ([Bits; 32], u32) {
    if text == "lane" {
        return (std::array::from_fn(|lane| lane as Bits), u32::MAX);
    }
    if !text.contains([',', '*']) {
        return ([parse_value(text); 32], u32::MAX);
    }
    let mut lanes = [0; 32];
    let mut next = 0;
    for item in text.split(',') {
        let (value, count) = item.split_once('*').unwrap_or((item, "1"));
        let count: usize = count.parse().unwrap();
        lanes[next..next + count].fill(parse_value(value));
        next += count;
    }
    (lanes, (((1u64 << next) - 1) & 0xffff_ffff) as u32)
}

fn check_line(at: &str, line: &str) -> Opcode {
    let (left, right) = line
        .split_once(" = ")
        .unwrap_or_else(|| panic!("{at}: no ` = `"));
    let mut words = left.split_whitespace();
    let desc = parse_head(words.next().unwrap());
    let words: Vec<&str> = words.collect();
    let wanted: Vec<&str> = right.split_whitespace().collect();
    match desc.opcode.meaning() {
        Meaning::Pure(meaning) => {
            let args: Vec<Bits> = words.iter().map(|w| parse_value(w)).collect();
            let wanted: Vec<Bits> = wanted.iter().map(|w| parse_value(w)).collect();
            let mut out = vec![0; wanted.len()];
            meaning(&desc, &args, &mut out);
            assert_eq!(out, wanted, "{at}: {line}\n got {out:x?}\nwant {wanted:x?}");
        }
        Meaning::Rmw(meaning) => {
            let args: Vec<Bits> = words.iter().map(|w| parse_value(w)).collect();
            let got = meaning(&desc, args[0], &args[1..]);
            assert_eq!(got, parse_value(wanted[0]), "{at}: {line}: got {got:#x}");
        }
        Meaning::Warp(meaning) => {
            let active = parse_value(words[0].strip_prefix('@').expect("active lanes")) as u32;
            let args: Vec<[Bits; 32]> = words[1..].iter().map(|w| parse_lanes(w).0).collect();
            let mut results = vec![[0; 32]; wanted.len()];
            meaning(
                &desc,
                &mut WarpLanes {
                    active,
                    args: &args,
                    results: &mut results,
                },
            );
            for (got, want) in results.iter().zip(&wanted) {
                let (want, written) = parse_lanes(want);
                for lane in (0..32).filter(|lane| (active & written) >> lane & 1 != 0) {
                    assert_eq!(
                        got[lane], want[lane],
                        "{at}: {line}: lane {lane} of {got:x?}"
                    );
                }
            }
        }
        Meaning::None => panic!("{at}: {} has no meaning", desc.opcode.name()),
    }
    desc.opcode
}

#[test]
fn literal_tables_hold_and_cover_every_meaning() {
    let mut lines_of: HashMap<Opcode, u32> = HashMap::new();
    for (name, table) in TABLES {
        for (number, line) in table.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                let opcode = check_line(&format!("{name}:{}", number + 1), line);
                *lines_of.entry(opcode).or_default() += 1;
            }
        }
    }
    let missing: Vec<&str> = Opcode::ALL
        .iter()
        .filter(|op| !matches!(op.meaning(), Meaning::None))
        .filter(|op| lines_of.get(op).copied().unwrap_or(0) < 3)
        .map(|op| op.name())
        .collect();
    assert!(
        missing.is_empty(),
        "fewer than three literal lines: {missing:?}"
    );
}
