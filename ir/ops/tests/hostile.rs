//! Tests that reference functions do not panic for any description, any operands and any number of
//! operands, and that each result is truncated to the width of its type. These properties ensure
//! that no program that a front end accepts can crash an engine.

use margay_ops::meaning::{Bits, Desc, Meaning, WarpLanes};
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(0x5851_f42d_4c95_7f2d)
        .wrapping_add(0x1405_7b7e_f767_814f);
    let x = *state ^ (*state >> 29);
    x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (x >> 32)
}

fn wide(state: &mut u64) -> Bits {
    let bits = Bits::from(next(state)) << 64 | Bits::from(next(state));
    match next(state) % 4 {
        0 => bits >> (next(state) % 128),
        1 => 0,
        2 => Bits::MAX >> (next(state) % 128),
        _ => bits,
    }
}

fn any_type(state: &mut u64) -> OpType {
    let index = next(state) as usize % (OpType::ALL.len() + 1);
    OpType::ALL.get(index).copied().unwrap_or(OpType::None)
}

#[test]
fn no_description_makes_a_meaning_panic() {
    let mut state = 11;
    for round in 0..6_000 {
        for &opcode in Opcode::ALL {
            let mods = next(&mut state)
                & if round % 2 == 0 {
                    Mods::FIELD_MASK
                } else {
                    next(&mut state)
                };
            let (ty, src) = (any_type(&mut state), any_type(&mut state));
            let desc = Desc {
                opcode,
                ty,
                src,
                mods: Mods(mods),
            };
            let count = next(&mut state) as usize % 7;
            let args: Vec<Bits> = (0..count).map(|_| wide(&mut state)).collect();
            match opcode.meaning() {
                Meaning::None => {}
                Meaning::Pure(meaning) => {
                    let mut out = vec![0; 1 + next(&mut state) as usize % 4];
                    meaning(&desc, &args, &mut out);
                }
                Meaning::Rmw(meaning) => {
                    let old = wide(&mut state);
                    let new = meaning(&desc, old, &args);
                    assert_eq!(new & !ones(ty.bits()), 0, "{desc:?} {old:#x} {args:x?}");
                }
                Meaning::Warp(meaning) if round % 16 == 0 => {
                    let args: Vec<[Bits; 32]> = (0..count)
                        .map(|_| std::array::from_fn(|_| wide(&mut state)))
                        .collect();
                    let mut results = vec![[0; 32]; 1 + count % 3];
                    let active = next(&mut state) as u32;
                    meaning(
                        &desc,
                        &mut WarpLanes {
                            active,
                            args: &args,
                            results: &mut results,
                        },
                    );
                }
                Meaning::Warp(_) => {}
            }
        }
    }
}

fn ones(bits: u32) -> Bits {
    Bits::MAX.checked_shr(128 - bits.min(128)).unwrap_or(0)
}
