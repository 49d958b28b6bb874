//! That the cases reach every row with everything that it allows, and that the rows contain every instruction of their
//! mnemonics.

use std::collections::BTreeSet;

use iced_x86::{Code, CpuidFeature, EncodingKind};

use super::rows::context;
use super::{cases, check};
use crate::asm::encode::encode_as;
use crate::asm::row::{Encoding, Row, flag};
use crate::asm::{Class, Inst, Mask, Op, Operand, Role, Rounding, Width};

fn widths(row: &Row) -> impl Iterator<Item = Width> {
    let widths = row.widths;
    Width::ALL.into_iter().filter(move |&x| widths.contains(x))
}

/// What the cases of a row lack.
fn missing(op: Op, row: &Row, width: Width) -> Option<String> {
    let cases = cases::of(op, row, width);
    let all_bits = width == Width::L512 || row.widths.is_scalar();
    let any = |test: &dyn Fn(&Inst) -> bool| cases.iter().any(test);
    let memory = |broadcast: bool| {
        any(&|x| {
            x.operands
                .iter()
                .any(|x| matches!(x, Operand::Mem(m) if m.broadcast == broadcast))
        })
    };
    let has = |flags: u16| row.flags & flags != 0;
    let rounded = |mode: Rounding| any(&|x| x.rounding == mode);
    let in_memory = row.stated().iter().any(|x| x.allows_memory());
    let required = [
        ("a case", !cases.is_empty()),
        ("memory", !in_memory || memory(false)),
        ("a broadcast", !row.allows_broadcast() || memory(true)),
        ("a mask", !row.allows_mask() || any(&|x| x.mask == Mask(7))),
        (
            "zeroing",
            !has(flag::ZERO) || any(&|x| x.zeroing) || row.slots()[0].class().is_none(),
        ),
        (
            "rounding",
            !has(flag::ROUND) || !all_bits || rounded(Rounding::Zero),
        ),
        (
            "suppression",
            !has(flag::SUPPRESS) || !all_bits || rounded(Rounding::SuppressOnly),
        ),
        ("a lock", !has(flag::LOCK) || any(&|x| x.lock)),
    ];
    let lacks = required.iter().find(|(_, present)| !present)?;
    Some(format!("{op:?} {width:?} ({}): {}", row.mnemonic, lacks.0))
}

#[test]
fn cases_reach_what_rows_allow() {
    let mut all = Vec::new();
    for &op in Op::ALL {
        for row in op.rows() {
            all.extend(widths(row).filter_map(|width| missing(op, row, width)));
        }
    }
    assert_eq!(all, Vec::<String>::new());
}

/// The decoder's codes that the rows encode.
fn reached() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for &op in Op::ALL {
        for row in op.rows() {
            for width in widths(row) {
                for inst in cases::of(op, row, width).iter().take(400) {
                    let encoded = encode_as(row, inst, &context()).expect("cases exist");
                    let decoded = check::decode(&encoded.bytes[..encoded.len]).expect("decodes");
                    codes.insert(format!("{:?}", decoded.code()));
                }
            }
        }
    }
    codes
}

/// Whether the tables leave a code out on purpose: another encoding of an instruction that they have.
fn is_redundant(code: &str) -> bool {
    // The destination of a move between registers in ModRM.rm.
    code.ends_with("_0F11")
        // The result of a 32-bit instruction extended to 64 bits, or an operand of 64 bits of which fewer are used.
        || code.contains("_r64m") && code.contains("imm8")
        || ["pmovmskb_r64", "movmskps_r64", "movmskpd_r64"].iter().any(|x| code.contains(x))
        // `vpextrw` has a second opcode for registers only.
        || code.contains("pextrw_r32_xmm") || code.contains("pextrw_r64_xmm")
}

#[test]
fn rows_contain_every_instruction_of_their_mnemonics() {
    let rows = || Op::ALL.iter().flat_map(|op| op.rows());
    let vectors = rows().filter(|row| row.encoding != Encoding::Legacy);
    let mnemonics: BTreeSet<&str> = vectors.map(|row| row.mnemonic).collect();
    let reached = reached();
    let mut left = Vec::new();
    for code in Code::values() {
        let op_code = code.op_code();
        let prefix = matches!(op_code.encoding(), EncodingKind::VEX | EncodingKind::EVEX);
        let mnemonic = format!("{:?}", code.mnemonic()).to_lowercase();
        let newer = [
            CpuidFeature::AVX512_FP16,
            CpuidFeature::AVX_VNNI,
            CpuidFeature::AVX_IFMA,
            CpuidFeature::KNC,
        ];
        let newer = code.cpuid_features().iter().any(|x| newer.contains(x));
        let name = format!("{code:?}");
        if prefix
            && !newer
            && op_code.mode64()
            && mnemonics.contains(&mnemonic[..])
            && !reached.contains(&name)
            && !is_redundant(&name)
        {
            left.push(name);
        }
    }
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn roles_and_classes_do_not_depend_on_the_row() {
    for &op in Op::ALL {
        for row in op.rows() {
            for width in widths(row) {
                let first = op.slots(width);
                assert_eq!(row.slots().len(), first.len(), "{op:?}");
                for (slot, same) in row.slots().iter().zip(first) {
                    assert_eq!(slot.role(), same.role(), "{op:?}");
                    assert_eq!(slot.implied(), same.implied(), "{op:?}");
                    let classes: [Option<Class>; 2] = [slot.class(), same.class()];
                    assert!(
                        classes.contains(&None) || classes[0] == classes[1],
                        "{op:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn only_the_first_operands_are_written() {
    // The register allocator's users rely on it.
    for &op in Op::ALL {
        for row in op.rows() {
            let written = row.stated().iter().skip(2).any(|x| x.role() == Role::Def);
            assert!(!written, "{op:?}");
        }
    }
}
