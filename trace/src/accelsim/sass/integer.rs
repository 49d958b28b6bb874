//! Arithmetic and logic on integers and predicates.

use super::Subject;
use super::opcode::{Class, Type, Words};
use super::step::{Steps, chain, one, words};

/// Returns the lines of an instruction on integers, bits or predicates.
pub(super) fn steps(subject: &Subject<'_>) -> Option<Steps> {
    let op = &subject.words;
    let ty = op.ty();
    let count = ty.words();
    let is_wide = count > 1;
    Some(match op.head {
        "add" | "sub" | "neg" | "addc" | "subc" => sum(op),
        "mul" | "mad" | "mul24" | "mad24" | "madc" => product(op),
        "div" | "rem" => quotient(is_wide),
        "abs" if is_wide => chain(&["ISETP", "IADD3", "IADD3.X", "SEL", "SEL"]),
        "abs" => one("IABS"),
        "min" | "max" if is_wide => chain(&["ISETP", "ISETP.EX", "SEL", "SEL"]),
        "min" | "max" if op.ty().is_packed => chain(&["PRMT", "IMNMX", "PRMT", "IMNMX", "PRMT"]),
        "min" | "max" => one("IMNMX"),
        "sad" if is_wide => chain(&[
            "IADD3", "IADD3.X", "ISETP", "ISETP.EX", "SEL", "SEL", "IADD3", "IADD3.X",
        ]),
        "sad" => one("VABSDIFF"),
        "popc" if is_wide => chain(&["POPC", "POPC", "IADD3"]),
        "popc" => one("POPC"),
        "clz" if is_wide => chain(&["FLO.U32", "FLO.U32", "IADD3", "SEL"]),
        "clz" => chain(&["FLO.U32", "IADD3"]),
        "bfind" if is_wide => chain(&["FLO", "FLO", "SEL"]),
        "bfind" if op.has("shiftamt") => one("FLO.SH"),
        "bfind" => one("FLO"),
        "brev" => words(count, &["BREV"]),
        "bfe" if is_wide => chain(&["SHF.R.U64", "SHF.R.U32.HI", "SGXT", "SGXT"]),
        "bfe" => chain(&["SHF.R.U32.HI", "SGXT"]),
        "bfi" if is_wide => chain(&[
            "BMSK",
            "BMSK",
            "SHF.L.U64.HI",
            "SHF.L.U32",
            "LOP3.LUT",
            "LOP3.LUT",
        ]),
        "bfi" => chain(&["BMSK", "SHF.L.U32", "LOP3.LUT"]),
        "bmsk" => one("BMSK"),
        "szext" => one("SGXT"),
        "dp4a" => one("IDP.4A"),
        "dp2a" => one("IDP.2A"),
        "fns" => chain(&["SHF.R.U32.HI", "POPC", "IADD3", "ISETP", "FLO", "SEL"]),
        "and" | "or" | "xor" | "not" if ty.class == Class::Predicate => one("PLOP3.LUT"),
        "and" | "or" | "xor" | "not" | "lop3" => words(count, &["LOP3.LUT"]),
        "cnot" if is_wide => chain(&["ISETP", "ISETP.EX", "SEL", "MOV"]),
        "cnot" => chain(&["ISETP", "SEL"]),
        "shl" if is_wide => words(2, &["SHF.L.U32", "SHF.L.U64.HI"]),
        "shl" => one("SHF.L.U32"),
        "shr" if is_wide => words(
            2,
            &[
                "SHF.R.U64",
                if is_signed(op) {
                    "SHF.R.S32.HI"
                } else {
                    "SHF.R.U32.HI"
                },
            ],
        ),
        "shr" => one(if is_signed(op) {
            "SHF.R.S32.HI"
        } else {
            "SHF.R.U32.HI"
        }),
        "shf" if op.has("l") => one("SHF.L.W.U32"),
        "shf" => one("SHF.R.W.U32"),
        "prmt" => one("PRMT"),
        "selp" => words(count, &["SEL"]),
        "slct" => slct(op.types().next().map_or(1, Type::words), "ISETP"),
        "setp" if is_wide => chain(&["ISETP", "ISETP.EX"]),
        "setp" => one("ISETP"),
        "set" if is_wide => chain(&["ISETP", "ISETP.EX", "SEL"]),
        "set" => chain(&["ISETP", "SEL"]),
        _ => return None,
    })
}

/// The lines of a `slct`: a comparison with 0 by `compare`, and a selection.
pub(super) fn slct(words: usize, compare: &'static str) -> Steps {
    match words {
        1 => chain(&[compare, "SEL"]),
        _ => chain(&[compare, "SEL", "SEL"]),
    }
}

fn is_signed(op: &Words<'_>) -> bool {
    op.ty().class == Class::Signed
}

fn sum(op: &Words<'_>) -> Steps {
    let reads_carry = matches!(op.head, "addc" | "subc");
    match (op.ty().words(), reads_carry) {
        (1, false) => one("IADD3"),
        (1, true) => one("IADD3.X"),
        (count, false) => words(count, &["IADD3", "IADD3.X"]),
        (count, true) => words(count, &["IADD3.X"]),
    }
}

fn product(op: &Words<'_>) -> Steps {
    let is_wide = op.ty().words() > 1;
    let unsigned = !is_signed(op);
    match () {
        () if op.head == "madc" || op.has("cc") => match is_wide {
            true => chain(&["IMAD.WIDE.U32", "IMAD.X", "IMAD.X"]),
            false => one("IMAD.X"),
        },
        () if op.has("wide") && is_wide => {
            // A product of two 64-bit numbers with 128 bits.
            chain(&[
                "IMAD.WIDE.U32",
                "IMAD.WIDE.U32",
                "IMAD.WIDE.U32",
                "IMAD.WIDE.U32",
                "IADD3",
                "IADD3.X",
            ])
        }
        () if op.has("wide") && unsigned => one("IMAD.WIDE.U32"),
        () if op.has("wide") => one("IMAD.WIDE"),
        () if op.head.ends_with("24") => one("IMAD"),
        () if op.has("hi") && is_wide => chain(&[
            "IMAD.WIDE.U32",
            "IMAD.WIDE.U32",
            "IMAD.WIDE.U32",
            "IMAD.WIDE.U32",
        ]),
        () if op.has("hi") && unsigned => one("IMAD.HI.U32"),
        () if op.has("hi") => one("IMAD.HI"),
        () if is_wide => chain(&["IMAD.WIDE.U32", "IMAD", "IMAD"]),
        () => one("IMAD"),
    }
}

/// The expansion of a division, which has no machine instruction. That of 64-bit numbers is a call of a subroutine.
fn quotient(is_wide: bool) -> Steps {
    if !is_wide {
        return chain(&[
            "I2F.RP",
            "MUFU.RCP",
            "IADD3",
            "F2I.FTZ.U32.TRUNC",
            "IMAD",
            "IMAD.HI.U32",
            "IMAD.HI.U32",
            "IMAD",
            "ISETP",
            "IADD3",
            "ISETP",
            "IADD3",
        ]);
    }
    let mut names = vec!["CALL.REL.NOINC"];
    names.extend(["IMAD"; 40]);
    names.push("RET.REL.NODEC");
    let mut steps = chain(&names);
    for index in [0, names.len() - 1] {
        steps[index].writes = false;
    }
    // The last multiplication writes the result, because the return has no destination.
    let result = names.len() - 2;
    steps[result].uses = super::Uses::Link {
        is_last: true,
        number: result,
    };
    steps
}
