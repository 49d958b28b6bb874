//! Tests the reference functions of integer, bit, comparison and video ops with random operands.
//! The expected results are computed with the host's integer arithmetic and the pseudocode in the
//! PTX ISA.

use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{CmpOp, Half, Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let x = self.0 ^ (self.0 >> 31);
        x.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Returns a random operand, which is often small or near the limits of its type.
    fn operand(&mut self) -> u64 {
        let x = self.next();
        match self.next() >> 61 {
            0 => x & 0x3f,
            1 => (x & 3).wrapping_neg(),
            2 => (1 << (x & 63)) + (x >> 62),
            3 => x & 0xffff_ffff,
            _ => x,
        }
    }
}

fn run(opcode: Opcode, ty: OpType, mods: Mods, args: &[u64]) -> u64 {
    let results = run_all(opcode, ty, OpType::None, mods, args, 1);
    results[0] as u64
}

fn run_all(
    opcode: Opcode,
    ty: OpType,
    src: OpType,
    mods: Mods,
    args: &[u64],
    results: usize,
) -> Vec<Bits> {
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!("{opcode:?} has no meaning")
    };
    let args: Vec<Bits> = args.iter().map(|&x| x.into()).collect();
    let mut out = vec![0; results];
    meaning(
        &Desc {
            opcode,
            ty,
            src,
            mods,
        },
        &args,
        &mut out,
    );
    out
}

const LO: Mods = Mods::NONE.with_half(Half::Lo);
const HI: Mods = Mods::NONE.with_half(Half::Hi);
const WIDE: Mods = Mods::NONE.with_half(Half::Wide);

macro_rules! check_type {
    ($name:ident, $t:ident, $wide:ident, $op:expr) => {
        #[test]
        fn $name() {
            let mut random = Random(stringify!($t).len() as u64 + 77);
            let bits = $t::BITS;
            for _ in 0..20_000 {
                let (a, b, c) = (
                    random.operand() as $t,
                    random.operand() as $t,
                    random.operand() as $t,
                );
                let arg = |x: $t| x as u64 & (u64::MAX >> (64 - bits));
                let args = [arg(a), arg(b), arg(c)];
                let check = |opcode: Opcode, mods: Mods, count: usize, want: $t| {
                    let got = run(opcode, $op, mods, &args[..count]);
                    assert_eq!(got, arg(want), "{opcode:?}.{:?} {args:x?}", $op);
                };
                let product = (a as $wide).wrapping_mul(b as $wide);
                check(Opcode::Add, Mods::NONE, 2, a.wrapping_add(b));
                check(Opcode::Sub, Mods::NONE, 2, a.wrapping_sub(b));
                check(Opcode::Mul, LO, 2, a.wrapping_mul(b));
                check(Opcode::Mul, HI, 2, (product >> bits) as $t);
                check(Opcode::Mad, LO, 3, a.wrapping_mul(b).wrapping_add(c));
                check(
                    Opcode::Mad,
                    HI,
                    3,
                    ((product >> bits) as $t).wrapping_add(c),
                );
                check(Opcode::Min, Mods::NONE, 2, a.min(b));
                check(Opcode::Max, Mods::NONE, 2, a.max(b));
                check(
                    Opcode::Div,
                    Mods::NONE,
                    2,
                    a.checked_div(b).unwrap_or(if b == 0 { !0 } else { a }),
                );
                check(
                    Opcode::Rem,
                    Mods::NONE,
                    2,
                    a.checked_rem(b).unwrap_or(if b == 0 { !0 } else { 0 }),
                );
                let difference = a.abs_diff(b) as $t;
                check(Opcode::Sad, Mods::NONE, 3, difference.wrapping_add(c));
                let shift = (b as u64 & 0xff) as u32;
                let shifted = [args[0], shift.into()];
                assert_eq!(
                    run(Opcode::Shl, $op, Mods::NONE, &shifted),
                    arg(a.checked_shl(shift).unwrap_or(0))
                );
                let fill = a >> (bits - 1);
                let fill = if $t::MIN == 0 { 0 } else { fill };
                assert_eq!(
                    run(Opcode::Shr, $op, Mods::NONE, &shifted),
                    arg(a.checked_shr(shift).unwrap_or(fill))
                );
                for (cmp, want) in [
                    (CmpOp::Eq, a == b),
                    (CmpOp::Ne, a != b),
                    (CmpOp::Lt, a < b),
                    (CmpOp::Le, a <= b),
                    (CmpOp::Gt, a > b),
                    (CmpOp::Ge, a >= b),
                    (CmpOp::Lo, arg(a) < arg(b)),
                    (CmpOp::Hs, arg(a) >= arg(b)),
                ] {
                    let got = run(Opcode::Setp, $op, Mods::NONE.with_cmp(cmp), &args[..2]);
                    assert_eq!(got, want.into(), "setp.{cmp:?} {args:x?}");
                }
                if bits < 64 {
                    let got = run(Opcode::Mul, $op, WIDE, &args[..2]);
                    let keep = u64::MAX >> (64 - 2 * bits.min(32));
                    assert_eq!(got, product as u64 & keep, "mul.wide.{:?} {args:x?}", $op);
                }
            }
        }
    };
}

check_type!(u16_operations, u16, u32, OpType::U16);
check_type!(s16_operations, i16, i32, OpType::S16);
check_type!(u32_operations, u32, u64, OpType::U32);
check_type!(s32_operations, i32, i64, OpType::S32);
check_type!(u64_operations, u64, u128, OpType::U64);
check_type!(s64_operations, i64, i128, OpType::S64);

#[test]
fn saturating_sums_clamp() {
    let mut random = Random(3);
    let sat = Mods::NONE.with_sat(true);
    for _ in 0..20_000 {
        let (a, b) = (random.operand() as i32, random.operand() as i32);
        let args = [u64::from(a as u32), u64::from(b as u32)];
        assert_eq!(
            run(Opcode::Add, OpType::S32, sat, &args),
            u64::from(a.saturating_add(b) as u32)
        );
        assert_eq!(
            run(Opcode::Sub, OpType::S32, sat, &args),
            u64::from(a.saturating_sub(b) as u32)
        );
    }
}

#[test]
fn carries_chain_to_twice_the_width() {
    let mut random = Random(4);
    let cc = Mods::NONE.with_carry_out(true);
    for _ in 0..20_000 {
        let (a, b) = (random.operand(), random.operand());
        let halves = |x: u64| (x & 0xffff_ffff, x >> 32);
        let ((al, ah), (bl, bh)) = (halves(a), halves(b));
        let op = |opcode, mods, args: &[u64]| {
            let out = run_all(opcode, OpType::U32, OpType::None, mods, args, 2);
            (out[0] as u64, out[1] as u64)
        };
        let (low, carry) = op(Opcode::Add, cc, &[al, bl]);
        let (high, carry) = op(Opcode::Addc, cc, &[ah, bh, carry]);
        let (sum, overflow) = a.overflowing_add(b);
        assert_eq!((high << 32 | low, carry), (sum, overflow.into()));
        // The flag is the carry of the adder, which is 0 if the subtraction borrows.
        let (low, carry) = op(Opcode::Sub, cc, &[al, bl]);
        let (high, carry) = op(Opcode::Subc, cc, &[ah, bh, carry]);
        let (difference, borrow) = a.overflowing_sub(b);
        assert_eq!((high << 32 | low, carry), (difference, (!borrow).into()));
        // A product of 32 bits by 32 bits plus 64 bits, as compilers emit it.
        let (low, carry) = op(Opcode::Mad, cc.with_half(Half::Lo), &[al, bl, ah]);
        let (high, _) = op(Opcode::Madc, HI, &[al, bl, bh, carry]);
        let want = (al * bl).wrapping_add(bh << 32 | ah);
        assert_eq!(high << 32 | low, want);
    }
}

/// Computes the result of `bfe` with the loop of the pseudocode in the PTX ISA.
fn bfe_by_bits(a: u64, b: u64, c: u64, width: u64, signed: bool) -> u64 {
    let (position, length) = (b & 0xff, c & 0xff);
    let bit = |i: u64| a >> i & 1;
    let sign = if !signed || length == 0 {
        0
    } else {
        bit((position + length - 1).min(width - 1))
    };
    (0..width).fold(0, |d, i| {
        let value = if i < length && position + i < width {
            bit(position + i)
        } else {
            sign
        };
        d | value << i
    })
}

fn bfi_by_bits(a: u64, b: u64, c: u64, d: u64, width: u64) -> u64 {
    let (position, length) = (c & 0xff, d & 0xff);
    (0..length)
        .take_while(|i| position + i < width)
        .fold(b, |f, i| {
            f & !(1 << (position + i)) | (a >> i & 1) << (position + i)
        })
}

#[test]
fn bit_fields_follow_the_isa_bit_by_bit() {
    let mut random = Random(5);
    for _ in 0..20_000 {
        let (a, b) = (random.operand(), random.operand());
        let (c, d) = (random.next() % 80, random.next() % 80);
        for (ty, width, signed) in [
            (OpType::U32, 32, false),
            (OpType::S32, 32, true),
            (OpType::U64, 64, false),
            (OpType::S64, 64, true),
        ] {
            let low = a & (u64::MAX >> (64 - width));
            let got = run(Opcode::Bfe, ty, Mods::NONE, &[low, c, d]);
            assert_eq!(
                got,
                bfe_by_bits(low, c, d, width, signed),
                "bfe.{ty} {low:x} {c} {d}"
            );
        }
        for (ty, width) in [(OpType::B32, 32), (OpType::B64, 64)] {
            let keep = u64::MAX >> (64 - width);
            let got = run(Opcode::Bfi, ty, Mods::NONE, &[a & keep, b & keep, c, d]);
            assert_eq!(
                got,
                bfi_by_bits(a & keep, b & keep, c, d, width),
                "bfi.{ty} {a:x} {b:x} {c} {d}"
            );
        }
    }
}

#[test]
fn counts_and_permutations_match_the_host() {
    let mut random = Random(6);
    for _ in 0..20_000 {
        let (a, b, c) = (
            random.operand() as u32,
            random.operand() as u32,
            random.next() as u32,
        );
        let word = |opcode, ty, mods, args: &[u32]| {
            let args: Vec<u64> = args.iter().map(|&x| x.into()).collect();
            run(opcode, ty, mods, &args) as u32
        };
        assert_eq!(
            word(Opcode::Popc, OpType::B32, Mods::NONE, &[a]),
            a.count_ones()
        );
        assert_eq!(
            word(Opcode::Clz, OpType::B32, Mods::NONE, &[a]),
            a.leading_zeros()
        );
        assert_eq!(
            word(Opcode::Brev, OpType::B32, Mods::NONE, &[a]),
            a.reverse_bits()
        );
        let highest = if a == 0 {
            u32::MAX
        } else {
            31 - a.leading_zeros()
        };
        assert_eq!(word(Opcode::Bfind, OpType::U32, Mods::NONE, &[a]), highest);
        let wrap = Mods::NONE.with_flag(true);
        let left = word(
            Opcode::Shf,
            OpType::B32,
            wrap.with_mode(Mode::Left),
            &[a, a, c],
        );
        assert_eq!(left, a.rotate_left(c & 31));
        let right = word(
            Opcode::Shf,
            OpType::B32,
            wrap.with_mode(Mode::Right),
            &[a, a, c],
        );
        assert_eq!(right, a.rotate_right(c & 31));
        let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
        let picked = std::array::from_fn(|i| {
            let selector = c >> (4 * i) & 15;
            let byte = bytes[selector as usize & 7];
            if selector & 8 != 0 {
                (byte as i8 >> 7) as u8
            } else {
                byte
            }
        });
        assert_eq!(
            word(Opcode::Prmt, OpType::B32, Mods::NONE, &[a, b, c]),
            u32::from_le_bytes(picked)
        );
        let table = c & 0xff;
        let by_bits = (0..32).fold(0, |d, i| {
            let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1;
            d | (table >> index & 1) << i
        });
        assert_eq!(
            word(Opcode::Lop3, OpType::B32, Mods::NONE, &[a, b, c, table]),
            by_bits
        );
        let signed: i32 = (0..4)
            .map(|i| i32::from((a >> (8 * i)) as i8) * i32::from((b >> (8 * i)) as i8))
            .sum();
        let dot = run_all(
            Opcode::Dp4a,
            OpType::S32,
            OpType::S32,
            Mods::NONE,
            &[a.into(), b.into(), c.into()],
            1,
        );
        assert_eq!(dot[0] as u32, (c as i32).wrapping_add(signed) as u32);
    }
}

#[test]
fn float_comparisons_match_the_host() {
    let mut random = Random(8);
    for _ in 0..50_000 {
        let pick = |random: &mut Random| match random.next() % 4 {
            0 => [0.0, -0.0, f32::NAN, f32::INFINITY, -f32::INFINITY, 1.0]
                [random.next() as usize % 6],
            _ => f32::from_bits(random.next() as u32),
        };
        let (a, b) = (pick(&mut random), pick(&mut random));
        let args = [u64::from(a.to_bits()), u64::from(b.to_bits())];
        let unordered = a.is_nan() || b.is_nan();
        for (cmp, want) in [
            (CmpOp::Eq, a == b),
            (CmpOp::Ne, !unordered && a != b),
            (CmpOp::Lt, a < b),
            (CmpOp::Le, a <= b),
            (CmpOp::Gt, a > b),
            (CmpOp::Ge, a >= b),
            (CmpOp::Equ, unordered || a == b),
            (CmpOp::Neu, a != b),
            (CmpOp::Ltu, unordered || a < b),
            (CmpOp::Leu, unordered || a <= b),
            (CmpOp::Gtu, unordered || a > b),
            (CmpOp::Geu, unordered || a >= b),
            (CmpOp::Num, !unordered),
            (CmpOp::Nan, unordered),
        ] {
            let got = run(Opcode::Setp, OpType::F32, Mods::NONE.with_cmp(cmp), &args);
            assert_eq!(got, want.into(), "setp.{cmp:?} {a:e} {b:e}");
        }
        let least = f32::from_bits(run(Opcode::Min, OpType::F32, Mods::NONE, &args) as u32);
        let want = if a.is_nan() {
            b
        } else if b.is_nan() || a < b {
            a
        } else {
            b
        };
        assert!(
            least == want || least.is_nan() && want.is_nan(),
            "min {a:e} {b:e}: {least:e}"
        );
    }
}
