//! Tests the reference function (meaning) of every op of the op table that has one. A person wrote
//! the expected results.
//!
//! The tables `meanings/*.txt` have one case on each line; `#` starts a comment.
//!
//! ```text
//! add.sat.s32 0x7fffffff 1 = 0x7fffffff        operands = results
//! atom.add.u32 5 3 = 8                          old content, operands = new content
//! shfl.idx.b32 @0xf lane 2 0x1f = 2*4 1         @ active lanes; per-lane values
//! ```
//!
//! A line starts with the name of the op in the op table, then its modifiers and types, with the
//! names and the order that PTX uses (result type, then source type). Some modifiers have other
//! names than in PTX: `cc` means that the op has a carry-out, `xorsignabs` is `.xorsign.abs`, `a:b1
//! b:h0 d:h1` are video selectors, `mask:N` is a lane mask, `neg:N` and `po` belong to `vmad`,
//! `bs32` and `bu32` are the type of `b` of a video op.
//!
//! Values are hexadecimal or decimal integers, negative integers with their width (`-1i16`), or floating-point numbers:
//! `1.5f` is `f32`, `1.5d` is `f64`. Per-lane values are either one value for all lanes, the word `lane` (the lane's
//! number), or a list such as `1,2,7*3,0`, where `7*3` gives three lanes the value 7. For lanes
//! that a list does not contain, operands are zero and results are not compared.
//!
//! If the start of a line is also a valid PTX instruction, `tests/src/literal.rs` runs this instruction with the
//! operands of the line in both engines.
//!
//! Do not copy expected values from Margay's output.

mod support;

use margay_ops::meaning::{Bits, Meaning, WarpLanes};
use margay_ops::ops::Opcode;
use std::collections::HashMap;
use support::{Case, cases, parse_value, values};

/// Parses per-lane values, and returns the values and the mask of the lanes for which the text contains values.
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

fn check(case: &Case) {
    let Case {
        line,
        desc,
        results,
        ..
    } = case;
    let at = format!("{}:{}", case.at.0, case.at.1);
    match desc.opcode.meaning() {
        Meaning::Pure(meaning) => {
            let (args, wanted) = (values(&case.operands), values(results));
            let mut out = vec![0; wanted.len()];
            meaning(desc, &args, &mut out);
            assert_eq!(out, wanted, "{at}: {line}\n got {out:x?}\nwant {wanted:x?}");
        }
        Meaning::Rmw(meaning) => {
            let args = values(&case.operands);
            let got = meaning(desc, args[0], &args[1..]);
            assert_eq!(got, parse_value(results[0]), "{at}: {line}: got {got:#x}");
        }
        Meaning::Warp(meaning) => {
            let active = case.operands[0].strip_prefix('@').expect("active lanes");
            let active = parse_value(active) as u32;
            let lanes = case.operands[1..].iter();
            let args: Vec<[Bits; 32]> = lanes.map(|word| parse_lanes(word).0).collect();
            let mut out = vec![[0; 32]; results.len()];
            meaning(
                desc,
                &mut WarpLanes {
                    active,
                    args: &args,
                    results: &mut out,
                },
            );
            for (got, want) in out.iter().zip(results) {
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
}

#[test]
fn literal_tables_hold_and_cover_every_meaning() {
    let mut lines_of: HashMap<Opcode, u32> = HashMap::new();
    for case in cases() {
        check(&case);
        *lines_of.entry(case.desc.opcode).or_default() += 1;
    }
    let missing: Vec<&str> = Opcode::ALL
        .iter()
        .filter(|op| !matches!(op.meaning(), Meaning::None))
        .filter(|op| lines_of.get(op).copied().unwrap_or(0) < 3)
        .map(|op| op.name())
        .collect();
    assert!(
        missing.is_empty(),
        "fewer than three cases in ir/ops/tests/meanings/*.txt: {missing:?}"
    );
}
