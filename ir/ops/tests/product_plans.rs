//! Tests that plans of matrix products return the same bits as the reference function, for every
//! shape and type, with random registers and with registers that contain edge cases.

use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers, Scratch};
use margay_ops::meaning::matrix::{self, Part, Product};
use margay_ops::meaning::{Bits, Desc, WarpLanes};
use margay_ops::mods::{AtomOp, Mode, Mods, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// A random number generator (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Returns the descriptions of all matrix products that PTX has.
fn products() -> Vec<Desc> {
    use OpType::{B1, BF16, E4M3, E5M2, F16, F32, F64, S4, S8, S32, TF32, U4, U8};
    let mut all = Vec::new();
    let sources = [F16, BF16, TF32, F64, E4M3, E5M2, S8, U8, S4, U4, B1];
    for &mode in Mode::ALL {
        for (src, ty) in sources
            .into_iter()
            .flat_map(|src| [F16, F32, F64, S32].map(|ty| (src, ty)))
        {
            for choice in 0..64u8 {
                let bit = |i: u8| choice >> i & 1;
                let mods = Mods::NONE
                    .with_mode(mode)
                    .with_noftz(bit(0) != 0)
                    .with_satfinite(bit(1) != 0)
                    .with_bsigned(bit(2) != 0)
                    .with_dsel(bit(3) + bit(4))
                    .with_bsel(bit(5))
                    .with_atom_op(
                        [AtomOp::None, AtomOp::Xor, AtomOp::And][usize::from(bit(3) + bit(4))],
                    )
                    .with_rounding(Rounding::None);
                all.push(Desc {
                    opcode: Opcode::Mma,
                    ty,
                    src,
                    mods,
                });
            }
        }
    }
    all
}

/// Returns the bits of a register that contains elements of the type `ty`: random values if `kind`
/// is 0, and edge cases otherwise, whose kind is `kind`.
fn register(random: &mut Random, ty: OpType, kind: u32) -> u64 {
    let raw = random.next();
    let pick = |values: &[u64], raw: u64| values[(raw >> 7) as usize % values.len()];
    let halves = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00,
        0x7e00, 0xfdff, 0x3c00, 0xbc00, 0x3c01, 0x1400,
    ];
    let singles = [
        0u64,
        1 << 31,
        1,
        0x8000_0001,
        0x007f_e000,
        0x0080_0000,
        0x7f7f_e000,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xff80_2000,
        0x3f80_0000,
        0xbf80_0000,
        0x3f80_2000,
        0x4b80_0000,
    ];
    let doubles = singles.map(|bits| bits << 32 | raw & 1);
    match (kind, ty) {
        // Random bits, which are often NaN.
        (0, _) => raw,
        // Finite values with similar exponents, so that sums cancel and round.
        (1, OpType::F16) => {
            let one = |raw: u64| raw & 0x8fff | 0x3000;
            one(raw) | one(raw >> 16) << 16
        }
        (1, OpType::BF16) => {
            let one = |raw: u64| raw & 0x81ff | 0x3e00;
            one(raw) | one(raw >> 16) << 16
        }
        (1, OpType::TF32 | OpType::F32) => raw & 0x81ff_ffff | 0x3e00_0000,
        (1, OpType::F64) => raw & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000,
        (2, OpType::F16) => pick(&halves, raw) | pick(&halves, raw >> 20) << 16,
        (2, OpType::BF16) => pick(&singles, raw) >> 16 | pick(&singles, raw >> 20) & 0xffff_0000,
        (2, OpType::TF32 | OpType::F32) => pick(&singles, raw),
        (2, OpType::F64) => pick(&doubles, raw),
        // Small values, so that half-precision results are subnormal.
        (3, OpType::F16) => raw & 0x83ff_83ff,
        (3, OpType::F32 | OpType::TF32) => raw & 0xb2ff_ffff,
        (3, OpType::BF16) => raw & 0xb2ff_b2ff,
        (3, OpType::F64) => raw & 0x800f_ffff_ffff_ffff,
        (4, OpType::S32) => 0x7fff_ff00 + (raw & 0x1ff),
        (4, OpType::F32) => raw & 0x8fff_ffff | 0x4700_0000,
        // The elements are mostly the greatest or the least value.
        (4, _) => pick(
            &[0x7f7f_7f7f_7f7f_7f7f, 0x8080_8080_8080_8080, !0, raw],
            raw,
        ),
        _ => raw & random.next(),
    }
}

fn narrow(rows: &[[Bits; 32]]) -> Registers<u32> {
    let mut out = [[0; 32]; 8];
    for (row, from) in out.iter_mut().zip(rows) {
        *row = from.map(|bits| bits as u32);
    }
    out
}

fn wide(rows: &[[Bits; 32]]) -> Registers<u64> {
    let mut out = [[0; 32]; 8];
    for (row, from) in out.iter_mut().zip(rows) {
        *row = from.map(|bits| bits as u64);
    }
    out
}

#[test]
fn plans_have_the_bits_of_the_meaning() {
    let mut random = Random(0x6d6d_6121);
    // All products use the same scratch memory, to test that the values that one product leaves there do not affect the
    // next product.
    let mut scratch = Scratch::default();
    let (mut planned, mut kinds, mut answered) = (0, std::collections::BTreeSet::new(), 0);
    for desc in products() {
        let (Some(product), Some(plan)) = (Product::of(&desc), Plan::of(&desc)) else {
            continue;
        };
        planned += 1;
        kinds.insert((
            format!("{:?}", desc.src),
            product.fragments,
            format!("{:?}", desc.mods.mode()),
        ));
        let [a, b, c, d] = plan.registers();
        let parts = [Part::A, Part::B, Part::C];
        for kind in 0..6 {
            let mut args = vec![[Bits::from(u32::MAX); 32]];
            for (part, count) in parts.into_iter().zip([a, b, c]) {
                for _ in 0..count {
                    let mut row = [0; 32];
                    row.fill_with(|| {
                        let bits = register(&mut random, product.ty(part), kind);
                        let mask = u64::MAX >> (64 - product.register_bits(part));
                        Bits::from(bits & mask)
                    });
                    args.push(row);
                }
            }
            let mut expected = vec![[0; 32]; d];
            let mut warp = WarpLanes {
                active: u32::MAX,
                args: &args,
                results: &mut expected,
            };
            matrix::mma(&desc, &mut warp);
            let (left, right, addend) = (&args[1..=a], &args[1 + a..=a + b], &args[1 + a + b..]);
            if plan.is_wide() {
                let [left, right, addend] = [left, right, addend].map(wide);
                let from = Operands {
                    a: left.each_ref(),
                    b: right.each_ref(),
                    c: addend.each_ref(),
                };
                let mut out = [[0; 32]; 8];
                if plan.doubles(&from, &mut scratch, &mut out) {
                    answered += 1;
                    assert_eq!(out[..d], wide(&expected)[..d], "{desc:?}, kind {kind}");
                } else {
                    let nan = |bits: &Bits| f64::from_bits(*bits as u64).is_nan();
                    let any = expected.as_flattened().iter().any(nan);
                    assert!(any, "{desc:?}, kind {kind} has an answer");
                }
                continue;
            }
            let [left, right, addend] = [left, right, addend].map(narrow);
            let from = Operands {
                a: left.each_ref(),
                b: right.each_ref(),
                c: addend.each_ref(),
            };
            let mut out = [[[0; 32]; 8]; 2];
            assert!(plan.words::<false>(&from, &mut scratch, &mut out[0]));
            assert!(plan.words::<true>(&from, &mut scratch, &mut out[1]));
            for out in out {
                assert_eq!(out[..d], narrow(&expected)[..d], "{desc:?}, kind {kind}");
            }
        }
    }
    assert!(
        planned > 100 && kinds.len() > 40 && answered > 5,
        "{planned} {answered} {kinds:#?}"
    );
}

/// Checks that products of `mma` and `wmma` have plans, except for products of Volta's shape `m8n8k4`.
#[test]
fn common_products_have_plans() {
    use OpType::{B1, BF16, E4M3, F16, F32, F64, S8, S32, TF32};
    let fragments = Mods::NONE.with_noftz(true);
    for (mode, ty, src, mods) in [
        (Mode::M16n16k16, F32, F16, fragments),
        (Mode::M32n8k16, F16, F16, fragments),
        (Mode::M8n32k16, F32, BF16, fragments),
        (Mode::M16n16k16, S32, S8, fragments),
        (Mode::M16n16k8, F32, TF32, fragments),
        (Mode::M8n8k4, F64, F64, fragments),
        (Mode::M8n8k128, S32, B1, fragments.with_atom_op(AtomOp::Xor)),
        (Mode::M16n8k16, F32, F16, Mods::NONE),
        (Mode::M16n8k8, F32, TF32, Mods::NONE),
        (Mode::M16n8k32, S32, S8, Mods::NONE),
        (Mode::M16n8k32, F32, E4M3, Mods::NONE),
        (Mode::M16n8k16, F64, F64, Mods::NONE),
        (
            Mode::M16n8k256,
            S32,
            B1,
            Mods::NONE.with_atom_op(AtomOp::And),
        ),
    ] {
        let desc = Desc {
            opcode: Opcode::Mma,
            ty,
            src,
            mods: mods.with_mode(mode),
        };
        assert!(Plan::of(&desc).is_some(), "{desc:?}");
    }
}
