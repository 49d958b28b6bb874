//! Tests every row of the op table that has a meaning against values written by hand.
//!
//! The tables `meanings/*.txt` have one case on each line; `#` starts a comment.
//!
//! ```text
//! add.sat.s32 0x7fffffff 1 = 0x7fffffff        operands = results
//! atom.add.u32 5 3 = 8                          old content, operands = new content
//! shfl.idx.b32 @0xf lane 2 0x1f = 2*4 1         @ active lanes; per-lane values
//! ```
//!
//! A line starts with the name of the op in the op table, then modifiers and types in PTX's spelling and order
//! (result type, then source type). Some modifiers have a spelling of their own: `cc` requests a carry,
//! `xorsignabs` is `.xorsign.abs`, `a:b1 b:h0 d:h1` are video selectors, `mask:N` is a lane mask, `neg:N` and
//! `po` belong to `vmad`, `bs32` and `bu32` are the type of `b` of a video op.
//!
//! Values are hexadecimal or decimal integers, negative ones with their width (`-1i16`), or floating-point
//! numbers: `1.5f` is `f32`, `1.5d` is `f64`. Per-lane values are one value for all lanes, the word `lane`, or
//! a list such as `1,2,7*3,0`, where `7*3` gives three lanes the value 7. Lanes that a list does not contain
//! are zero and are not compared.
//!
//! No value here may be copied from Margay's own output.

mod support;

use margay_ops::meaning::{Bits, Meaning, WarpLanes};
use margay_ops::ops::Opcode;
use std::collections::HashMap;
use support::{lines, parse_head, parse_value};

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

/// Parses per-lane values, and returns the mask of the lanes that the text gives.
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
        for (number, line) in lines(table) {
            let opcode = check_line(&format!("{name}:{number}"), line);
            *lines_of.entry(opcode).or_default() += 1;
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
