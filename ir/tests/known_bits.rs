//! Tests the pass that removes integer operations by an analysis of known bits. Some tests run the
//! pass on given functions. Others run it on random functions and check that it does not change the
//! stored results for various values of the special registers.

use margay_ir::function::{Function, payload_sreg};
use margay_ir::module::Module;
use margay_ir::parse;
use margay_ir::pass::{known_bits, simplify};
use margay_ir::verify::{self, Stage};
use margay_ops::meaning::{Bits, Meaning, mask};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use proptest::prelude::*;
use std::collections::HashMap;

fn parsed(body: &str) -> Function {
    let text = format!("kernel @k {{\n  parameters 16\n{body}\n}}");
    let function = parse::function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(
        verify::function(&Module::default(), &function, Stage::Lowered),
        [],
        "{text}"
    );
    function
}

/// Returns the opcodes that remain after the pass, except constants.
fn left(body: &str) -> Vec<Opcode> {
    let mut function = parsed(&format!("block0:\n{body}\n  exit"));
    known_bits::run(&mut function);
    simplify::run(&mut function);
    assert_eq!(
        verify::function(&Module::default(), &function, Stage::Lowered),
        [],
        "{function}"
    );
    let insts = function
        .blocks()
        .iter()
        .flat_map(|&block| function.insts(block));
    insts
        .map(|&inst| function.dfg.insts[inst].opcode)
        .filter(|&opcode| opcode != Opcode::Const)
        .collect()
}

#[test]
fn the_sign_test_of_an_index_disappears() {
    // The code that LLVM generates for a signed division by a power of two, and for an index that may count from the
    // end of an array.
    let opcodes = left(
        "  v0: b32 = sreg.u32 %tid.x
  v1: b64 = cvt.s64.s32 v0
  v2: b32 = cvt.u32.u64 v1
  v3: b32 = const.b32 0x80000000
  v4: b32 = and.b32 v2, v3
  v5: b32 = const.b32 0x1b
  v6: b32 = shr.u32 v4, v5
  v7: b64 = cvt.u64.u32 v6
  v8: b64 = add.s64 v7, v1
  v9: b32 = const.b32 0x3f
  v10: b64 = shr.s64 v8, v9
  v11: b64 = add.s64 v8, v10
  nanosleep.u32 v4
  st.u64{space:global} v11, v11",
    );
    use Opcode as O;
    assert_eq!(opcodes, [O::SReg, O::Cvt, O::Nanosleep, O::St, O::Exit]);
}

#[test]
fn the_product_of_block_index_and_block_size_is_not_negative() {
    let opcodes = left(
        "  v0: b32 = sreg.u32 %ctaid.x
  v1: b32 = sreg.u32 %ntid.x
  v2: b64 = mul.s32{half:wide} v0, v1
  v3: b32 = const.b32 0x3f
  v4: b64 = shr.s64 v2, v3
  v5: b64 = or.b64 v2, v4
  st.u64{space:global} v5, v5",
    );
    use Opcode as O;
    assert_eq!(opcodes, [O::SReg, O::SReg, O::Mul, O::St, O::Exit]);
}

#[test]
fn operations_that_may_change_a_value_stay() {
    // The masks must stay: all bits of the product's low half are unknown, and `%ntid.x` can be 1024, which has a bit
    // outside of the second mask.
    for body in [
        "  v0: b32 = sreg.u32 %ctaid.x
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = mul.u32{half:lo} v0, v1
  v3: b32 = const.b32 0x7fffffff
  v4: b32 = and.b32 v2, v3
  nanosleep.u32 v4",
        "  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = xor.b32 v0, v1
  v3: b32 = const.b32 0x3ff
  v4: b32 = and.b32 v2, v3
  nanosleep.u32 v4",
    ] {
        assert!(left(body).contains(&Opcode::And), "{body}");
    }
}

/// Evaluates the instructions of a function with one block, and returns the values that it stores.
fn evaluate(function: &Function, register: impl Fn(SpecialReg) -> u64) -> Vec<u64> {
    let mut values: HashMap<_, Bits> = HashMap::new();
    let mut stored = Vec::new();
    for &inst in function.insts(function.entry()) {
        let data = &function.dfg.insts[inst];
        let args = function.dfg.args(inst).iter();
        let args: Vec<Bits> = args
            .map(|&arg| values[&function.dfg.resolve(arg)])
            .collect();
        let result = match (data.opcode, data.opcode.meaning()) {
            (Opcode::SReg, _) => {
                Bits::from(register(payload_sreg(data.payload()).expect("a register")))
            }
            (Opcode::Const, _) => Bits::from(data.payload()),
            (Opcode::St, _) => {
                stored.push(args[1] as u64);
                continue;
            }
            (Opcode::Exit, _) => continue,
            (_, Meaning::Pure(meaning)) => {
                let mut out = [0];
                meaning(&data.desc(), &args, &mut out);
                out[0]
            }
            (opcode, _) => panic!("unexpected {opcode:?}"),
        };
        let [value] = function.dfg.results(inst) else {
            panic!("one result");
        };
        values.insert(*value, result & mask(function.dfg.ty(*value).lane_bits()));
    }
    stored
}

/// Returns the text of a function of random operations on special registers and constants. The function stores each
/// result to memory.
fn program(steps: &[(u8, usize, usize, u64)]) -> String {
    let registers = [
        "tid.x", "tid.z", "ntid.y", "ctaid.x", "nctaid.z", "laneid", "smid",
    ];
    let mut text = String::from("block0:\n  v0: pred = const.pred 0x1\n");
    // For each value, its number and whether it has 64 bits.
    let mut values: Vec<(usize, bool)> = Vec::new();
    let mut next = 1;
    for register in registers {
        text += &format!("  v{next}: b32 = sreg.u32 %{register}\n");
        values.push((next, false));
        next += 1;
    }
    for &(which, a, b, constant) in steps {
        let (x, wide) = values[a % values.len()];
        let same: Vec<_> = values.iter().filter(|value| value.1 == wide).collect();
        let y = same[b % same.len()].0;
        let bits = if wide { 64 } else { 32 };
        let operand = next;
        let sparse = match constant % 3 {
            0 => constant >> (constant % 64),
            1 => 1 << (constant % 64),
            _ => u64::MAX >> (constant % 64),
        } & mask(bits) as u64;
        let small = constant % u64::from(bits + 4);
        let (line, result_wide) = match which % 16 {
            0 => (format!("and.b{bits} v{x}, v{y}"), wide),
            1 => (format!("and.b{bits} v{x}, c"), wide),
            2 => (format!("or.b{bits} v{x}, v{y}"), wide),
            3 => (format!("xor.b{bits} v{x}, c"), wide),
            4 => (format!("shl.b{bits} v{x}, s"), wide),
            5 => (format!("shr.u{bits} v{x}, s"), wide),
            6 => (format!("shr.s{bits} v{x}, s"), wide),
            7 => (format!("add.s{bits} v{x}, v{y}"), wide),
            8 => (format!("sub.u{bits} v{x}, v{y}"), wide),
            9 => (format!("mul.s{bits}{{half:lo}} v{x}, v{y}"), wide),
            10 if !wide => (format!("mul.s32{{half:wide}} v{x}, v{y}"), true),
            11 if !wide => (format!("mul.u32{{half:wide}} v{x}, v{y}"), true),
            12 => (format!("selp.b{bits} v{x}, v{y}, v0"), wide),
            13 if wide => (format!("cvt.u32.u64 v{x}"), false),
            13 => (format!("cvt.s64.s32 v{x}"), true),
            14 if wide => (format!("cvt.s64.s32 v{x}"), true),
            14 => (format!("cvt.u64.u32 v{x}"), true),
            _ => (format!("mul.u{bits}{{half:hi}} v{x}, v{y}"), wide),
        };
        let line = if line.ends_with(" c") {
            text += &format!("  v{operand}: b{bits} = const.b{bits} {sparse:#x}\n");
            next += 1;
            line.replace(" c", &format!(" v{operand}"))
        } else if line.ends_with(" s") {
            text += &format!("  v{operand}: b32 = const.b32 {small:#x}\n");
            next += 1;
            line.replace(" s", &format!(" v{operand}"))
        } else {
            line
        };
        let result_bits = if result_wide { 64 } else { 32 };
        text += &format!("  v{next}: b{result_bits} = {line}\n");
        values.push((next, result_wide));
        next += 1;
    }
    text += &format!("  v{next}: b64 = const.b64 0x100\n");
    for (value, wide) in values {
        let bits = if wide { 64 } else { 32 };
        text += &format!("  st.u{bits}{{space:global}} v{next}, v{value}\n");
    }
    text + "  exit"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn results_stay_the_same(
        steps in prop::collection::vec(any::<(u8, usize, usize, u64)>(), 1..24),
        values in prop::collection::vec(any::<u32>(), 7),
    ) {
        let mut function = parsed(&program(&steps));
        // The registers also have the least and the greatest value of their ranges (PTX ISA 10).
        let register = |pick: usize| {
            let values = &values;
            move |register: SpecialReg| {
                use SpecialReg as R;
                let (low, high, index) = match register {
                    R::TidX => (0, 1023, 0),
                    R::TidZ => (0, 63, 1),
                    R::NtidY => (1, 1024, 2),
                    R::CtaidX => (0, 0x7fff_fffe, 3),
                    R::NctaidZ => (1, 65_535, 4),
                    R::Laneid => (0, 31, 5),
                    _ => (0, u32::MAX, 6),
                };
                u64::from(match pick {
                    0 => low,
                    1 => high,
                    _ => low + values[index] % (high - low).saturating_add(1).max(1),
                })
            }
        };
        let before: Vec<_> = (0..3).map(|pick| evaluate(&function, register(pick))).collect();
        known_bits::run(&mut function);
        prop_assert_eq!(verify::function(&Module::default(), &function, Stage::Lowered), []);
        let after: Vec<_> = (0..3).map(|pick| evaluate(&function, register(pick))).collect();
        prop_assert_eq!(before, after);
    }
}
