//! Compares products with the reference function, for all products that have a plan, and for all variants of the code that
//! this host can run.

use std::collections::BTreeSet;

use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};
use margay_ops::meaning::matrix::{self, Part, Product};
use margay_ops::meaning::{Bits, Desc, WarpLanes};
use margay_ops::mods::{AtomOp, Mode, Mods, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

use super::{Memory, doubles_on, words_on};
use crate::features::Features;

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

/// Returns the descriptions of all products that have a plan.
fn products() -> Vec<Desc> {
    use OpType::{B1, BF16, E4M3, E5M2, F16, F32, F64, S4, S8, S32, TF32, U4, U8};
    let sources = [F16, BF16, TF32, F64, E4M3, E5M2, S8, U8, S4, U4, B1];
    let types = sources
        .into_iter()
        .flat_map(|src| [F16, F32, F64, S32].map(|ty| (src, ty)));
    let mut all = Vec::new();
    for (&mode, (src, ty)) in Mode::ALL
        .iter()
        .flat_map(|mode| types.clone().map(move |types| (mode, types)))
    {
        for choice in 0..96u8 {
            let bit = |i: u8| choice >> i & 1;
            let mods = Mods::NONE
                .with_mode(mode)
                .with_noftz(bit(0) != 0)
                .with_satfinite(bit(1) != 0)
                .with_bsigned(bit(2) != 0)
                .with_bsel(bit(3))
                .with_atom_op([AtomOp::None, AtomOp::Xor, AtomOp::And][usize::from(choice / 32)])
                .with_rounding(Rounding::None);
            for dsel in 0..3 {
                let desc = Desc {
                    opcode: Opcode::Mma,
                    ty,
                    src,
                    mods: mods.with_dsel(dsel),
                };
                all.push(desc);
            }
        }
    }
    all.retain(|desc| Plan::of(desc).is_some());
    all
}

/// Returns the variants of the code that this host can run.
fn variants() -> Vec<Features> {
    let all = [
        Features::empty(),
        Features::LEVEL_AVX2,
        Features::LEVEL_AVX512,
        Features::LEVEL_AVX512 | Features::VPOPCNTDQ,
    ];
    all.into_iter()
        .filter(|&features| Features::host().contains(features))
        .collect()
}

/// Returns the bits of an element of the type `ty`: random bits if `kind` is 0, values whose sums round if `kind` is 1, and
/// values that are mostly special otherwise.
fn element(random: &mut Random, ty: OpType, kind: u32) -> u64 {
    let raw = random.next();
    let (exponent, significand) = match ty {
        OpType::F16 => (5, 10),
        OpType::BF16 => (8, 7),
        OpType::TF32 | OpType::F32 => (8, 23),
        OpType::F64 => (11, 52),
        OpType::E4M3 => (4, 3),
        OpType::E5M2 => (5, 2),
        // Integers: random values, and the greatest and the least values.
        _ if kind.is_multiple_of(2) => return raw,
        _ => {
            let most = (1u64 << (ty.element_bits() - 1)) - 1;
            return [most, most + 1, u64::MAX, raw][(raw >> 9) as usize % 4];
        }
    };
    let one = 1u64 << significand;
    let sign = (raw & 1) << (exponent + significand);
    let bias = (1u64 << (exponent - 1)) - 1;
    let greatest = (1u64 << exponent) - 1;
    let low = raw >> 8 & (one - 1);
    let number = |exponent: u64| sign | (exponent * one) | low;
    let special = [
        0,
        1,
        one - 1,
        one,
        greatest * one - 1,
        greatest * one,
        greatest * one + one / 2,
        greatest * one + 1,
        bias * one,
        bias * one + 1,
    ];
    match (kind, raw >> 1 & 7) {
        (0, _) => raw,
        (1, near) => number(bias - 3 + (near & 3)),
        // Small values, so that results are subnormal.
        (2, near) => number(near & 1),
        // Large values, so that results overflow.
        (3, near) => number(greatest - 1 - (near & 1)),
        (_, 0) => sign | special[(raw >> 4) as usize % special.len()],
        (_, near) => number(bias - 1 + (near & 3)),
    }
}

/// Returns the bits of a register with elements of the type `ty`.
fn register(random: &mut Random, product: &Product, part: Part, kind: u32) -> Bits {
    let (ty, packed) = (product.ty(part), product.packed(part));
    let bits = ty.element_bits();
    let mask = u64::MAX >> (64 - bits);
    // The lower bits of registers with `tf32` elements are random.
    (0..packed).fold(0, |all, i| {
        all | Bits::from(element(random, ty, kind) & mask) << (i * bits)
    })
}

/// The registers of a part of a product, with elements of 32 or 64 bits.
fn narrow<W: TryFrom<Bits> + Copy + Default>(rows: &[[Bits; 32]]) -> Registers<W> {
    let mut out = [[W::default(); 32]; 8];
    for (row, from) in out.iter_mut().zip(rows) {
        *row = from.map(|bits| W::try_from(bits).unwrap_or_default());
    }
    out
}

#[test]
fn products_have_the_bits_of_the_reference_function() {
    let mut random = Random(0x7072_6f64);
    let mut memory = Memory::default();
    let variants = variants();
    let (mut arranged, mut defined) = (BTreeSet::new(), 0);
    for desc in products() {
        let product = Product::of(&desc).expect("a product");
        let plan = Plan::of(&desc).expect("a plan");
        if let Some(vectors) = plan.vectors() {
            arranged.insert(format!("{:?} {:?}", desc.src, vectors.layout));
        }
        let [a, b, _, d] = plan.registers();
        for kind in 0..6 {
            let mut args = vec![[Bits::from(u32::MAX); 32]];
            for (part, count) in [Part::A, Part::B, Part::C]
                .into_iter()
                .zip(plan.registers())
            {
                for _ in 0..count {
                    let kind = if part == Part::C && kind == 5 {
                        2
                    } else {
                        kind
                    };
                    let mut row = [0; 32];
                    row.fill_with(|| register(&mut random, &product, part, kind));
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
            let parts = [&args[1..=a], &args[1 + a..=a + b], &args[1 + a + b..]];
            for &features in &variants {
                let case = format!("{desc:?}, kind {kind}, {features:?}");
                if plan.is_wide() {
                    let [left, right, addend] = parts.map(narrow::<u64>);
                    let from = Operands {
                        a: left.each_ref(),
                        b: right.each_ref(),
                        c: addend.each_ref(),
                    };
                    let mut out = [[7; 32]; 8];
                    if doubles_on(features, &plan, &from, (&mut memory, &mut out)) {
                        defined += 1;
                        assert_eq!(out[..d], narrow::<u64>(&expected)[..d], "{case}");
                    } else {
                        let is_nan = |bits: &Bits| f64::from_bits(*bits as u64).is_nan();
                        assert!(expected.as_flattened().iter().any(is_nan), "{case}");
                        assert_eq!(out, [[7; 32]; 8], "{case}");
                    }
                    continue;
                }
                let [left, right, addend] = parts.map(narrow::<u32>);
                let from = Operands {
                    a: left.each_ref(),
                    b: right.each_ref(),
                    c: addend.each_ref(),
                };
                let mut out = [[0; 32]; 8];
                assert!(words_on(features, &plan, &from, (&mut memory, &mut out)));
                assert_eq!(out[..d], narrow::<u32>(&expected)[..d], "{case}");
            }
        }
    }
    assert!(
        arranged.len() > 30 && defined > 10,
        "{defined} {arranged:#?}"
    );
}
