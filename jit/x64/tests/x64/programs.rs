//! Whole programs.

use margay_ops::meaning::Bits;
use margay_vir::meaning::Lanes;
use margay_x64::{BlockOrder, Convention, Error, compile_with};
use smallvec::smallvec;

use crate::native::{Loaded, Memory, check, check_for, parsed, targets};

fn floats(count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|n| (n as f32 * 0.75 - 3.0).to_bits().to_le_bytes())
        .collect()
}

#[test]
fn saxpy_runs_a_loop_with_a_masked_tail() {
    let function = parsed(
        "func @saxpy(b64, b64, f32, b32) -> (b32) {
block0(v0: b64, v1: b64, v2: f32, v3: b32):
  v4: b32 = const.b32{0x0}
  jump block1(v4)
block1(v5: b32):
  v6: b32x16 = affine.b32x16{1} v5
  v7: predx16 = map.predx16{setp.u32{cmp:lt}} v6, v3
  v8: b64 = map.b64{mul.u32{half:wide}} v5, v20
  v9: b64 = map.b64{add.u64} v0, v8
  v10: b64 = map.b64{add.u64} v1, v8
  v11: f32x16 = load.f32x16{f32 4} v9, v7
  v12: f32x16 = load.f32x16{f32 4} v10, v7
  v13: f32x16 = map.f32x16{fma.f32{rn}} v2, v11, v12
  store.f32x16{f32 4} v10, v13, v7  ; 17
  v14: b32 = const.b32{0x10}
  v15: b32 = map.b32{add.u32} v5, v14
  v16: pred = map.pred{setp.u32{cmp:lt}} v15, v3
  brif v16, block1(v15), block2
block2:
  ret v15
}
"
        .replace("v20", "v21")
        .replace(
            "block0(v0: b64, v1: b64, v2: f32, v3: b32):\n",
            "block0(v0: b64, v1: b64, v2: f32, v3: b32):\n  v21: b32 = const.b32{0x4}\n",
        )
        .as_str(),
    );
    for count in [1, 15, 16, 17, 100] {
        let mut memory = Memory::new(floats(300));
        let x = memory.address();
        let args: Vec<Lanes> = vec![
            smallvec![Bits::from(x)],
            smallvec![Bits::from(x + 600)],
            smallvec![Bits::from(2.5f32.to_bits())],
            smallvec![count],
        ];
        check(&function, &args, &mut memory);
    }
}

#[test]
fn helpers_are_called() {
    let function = parsed(
        "func @calls(b64, b32, f32, predx16, b64x16, b32x16) -> (b64, f64, b64x16) {
helper0 = @combined(b64, b32) -> (b64)
helper1 = @scaled(f32, f64, b32) -> (f64)
block0(v0: b64, v1: b32, v2: f32, v3: predx16, v4: b64x16, v5: b32x16):
  v6: b64 = call{0} v0, v1
  v7: f64 = const.f64{0x4008000000000000}
  v8: f64 = call{1} v2, v7, v1
  v9: b64x16 = call.lanes.predx16{0} v3, v4, v5
  ret v6, v8, v9
}
",
    );
    let mut memory = Memory::new(vec![0; 64]);
    let args: Vec<Lanes> = vec![
        smallvec![12],
        smallvec![5],
        smallvec![Bits::from(1.5f32.to_bits())],
        (0..16).map(|n| Bits::from(n % 3 == 0)).collect(),
        (0..16).map(|n| n * 1_000_000_007).collect(),
        (0..16).map(|n| n * 77).collect(),
    ];
    check(&function, &args, &mut memory);
}

/// Returns a function with slots of large sizes and alignments, and an array that a loop fills.
const SLOTS: &str = "func @slots(b32x16, f32) -> (b32x16, b64, f32) {
slot0 = 40 align 256
slot1 = 70000 align 8
block0(v0: b32x16, v1: f32):
  v2: b64 = slot.addr.b64{0}
  v3: b64 = slot.addr.b64{1}
  v4: b32x8 = half.b32x8{1} v0
  store.b32x8{b32 4} v2, v4
  store.b32x16{b32 4000} v3, v0
  v5: b32x16 = load.b32x16{b32 4000} v3
  v6: b64 = const.b64{0xff}
  v7: b64 = map.b64{and.b64} v2, v6
  store.f32{f32 4} v2, v1
  v8: f32 = load.f32{f32 4} v2
  ret v5, v7, v8
}
";

#[test]
fn slots_have_their_sizes_and_alignments() {
    let function = parsed(SLOTS);
    let mut memory = Memory::new(vec![0; 64]);
    let args: Vec<Lanes> = vec![(0..16).map(|n| n * 3).collect(), smallvec![0x3f80_0000]];
    check(&function, &args, &mut memory);
}

#[test]
fn tables_of_branches_have_a_default() {
    let function = parsed(
        "func @table(b32) -> (b32) {
block0(v0: b32):
  v1: b32 = const.b32{0x1}
  v2: b32 = const.b32{0x2}
  br_table v0, block1(v0), block1(v1), block1(v2), block2
block1(v3: b32):
  ret v3
block2:
  v4: b32 = const.b32{0x7}
  ret v4
}
",
    );
    let mut memory = Memory::new(vec![0; 64]);
    for index in [0, 1, 2, 3, 4, 1000, 0xffff_ffff] {
        check(&function, &[smallvec![index]], &mut memory);
    }
}

#[test]
fn large_functions_are_compiled() {
    // So many instructions that the fast algorithm allocates registers.
    let count = 8_000;
    let mut text = String::from(
        "func @large(f32x64, f32x64) -> (f32x64) {\nblock0(v0: f32x64, v1: f32x64):\n",
    );
    for n in 2..count {
        let op = ["add", "mul", "sub"][n % 3];
        let (a, b) = (n - 1, n - 2 - (n * 7919) % (n - 1).min(20));
        text += &format!("  v{n}: f32x64 = map.f32x64{{{op}.f32{{rn}}}} v{a}, v{b}\n");
    }
    text += &format!("  ret v{}\n}}\n", count - 1);
    let function = parsed(&text);
    let mut memory = Memory::new(vec![0; 64]);
    let lanes = |scale: f32| -> Lanes {
        (0..64)
            .map(|n| Bits::from((n as f32 * scale).to_bits()))
            .collect()
    };
    let input = vec![lanes(0.01), lanes(-0.02)];
    for target in targets().iter().take(1) {
        check_for(target, &function, std::slice::from_ref(&input), &mut memory);
    }
}

#[test]
fn blocks_may_precede_the_blocks_whose_values_they_use() {
    let function = parsed(
        "func @order(b64, pred) -> (b64) {
block0(v0: b64, v1: pred):
  brif v1, block2, block3
block1:
  v4: b64 = map.b64{add.u64} v2, v3
  ret v4
block2:
  v2: b64 = const.b64{0x7}
  v3: b64 = map.b64{mul.u64{half:lo}} v0, v2
  jump block1
block3:
  ret v0
}
",
    );
    let mut memory = Memory::new(vec![0; 64]);
    for (value, is_first, expected) in [(6, 1, 49), (6, 0, 6)] {
        let args: Vec<Lanes> = vec![smallvec![value], smallvec![is_first]];
        let found = crate::native::interpreted(&function, &args, &mut memory).expect("no fault");
        assert_eq!(found, [Lanes::from_slice(&[expected])]);
        check(&function, &args, &mut memory);
    }
}

#[test]
fn scalars_are_passed_in_registers() {
    let function = parsed(
        "func @registers(b64, b32, pred) -> (b32) {
block0(v0: b64, v1: b32, v2: pred):
  v3: b32 = map.b32{cvt.u32.u64} v0
  v4: b32 = map.b32{selp.b32} v3, v1, v2
  v5: b32 = map.b32{sub.u32} v4, v1
  ret v5
}
",
    );
    for (_, target) in targets() {
        let loaded = Loaded::with(&function, &target, Convention::Registers);
        // The upper bits of arguments and of the result are undefined.
        let high = 0xffff_ffff_0000_0000;
        assert_eq!(loaded.call([50, high | 8, 0x101]) as u32, 42);
        assert_eq!(loaded.call([50, 8, 0x100]) as u32, 0);
    }
    let vector = parsed("func @vector(b32x16) -> () {\nblock0(v0: b32x16):\n  ret\n}\n");
    let refused = compile_with(
        &vector,
        &targets()[0].1,
        Convention::Registers,
        BlockOrder::Code,
    );
    assert!(matches!(refused, Err(Error::Unsupported(_))));
}

#[test]
fn conversions_ignore_the_bits_above_their_source_type() {
    // The registers of narrow operands may be wider than their types.
    let sources = [
        ("u8", "b16"),
        ("s8", "b16"),
        ("u8", "b64"),
        ("s8", "b32"),
        ("u16", "b32"),
        ("s16", "b64"),
        ("u32", "b64"),
        ("f16", "b32"),
    ];
    let targets = [
        ("u8", "b8"),
        ("s16", "b16"),
        ("u32", "b32"),
        ("s64", "b64"),
        ("f32", "f32"),
        ("f64", "f64"),
    ];
    for (source, register) in sources {
        for (target, result) in targets {
            // PTX has no conversion from f16 without a rounding except to wider numbers.
            if source == "f16" && !result.starts_with('f') {
                continue;
            }
            let modifiers = match (source, result) {
                ("f16", _) | (_, "b8" | "b16" | "b32" | "b64") => "",
                _ => "{rn}",
            };
            for lanes in [1, 4, 16, 64] {
                let width = match lanes {
                    1 => String::new(),
                    lanes => format!("x{lanes}"),
                };
                let function = parsed(&format!(
                    "func @cvt({register}{width}) -> ({result}{width}) {{
block0(v0: {register}{width}):
  v1: {result}{width} = map.{result}{width}{{cvt.{target}.{source}{modifiers}}} v0
  ret v1
}}
"
                ));
                let value = |n: u64| Bits::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 3);
                let mask = margay_ops::meaning::mask(register[1..].parse().unwrap());
                let lanes: Lanes = (1..=lanes).map(|n| value(n) & mask).collect();
                check(&function, &[lanes], &mut Memory::new(vec![0; 64]));
            }
        }
    }
}
