//! Runs samples of the sweeps: checks the results of native code with the checkers, and compares
//! them with the results of the interpreter.
//!
//! `MARGAY_SEED` chooses the random inputs. `cargo xtask sweep` runs all inputs.

use margay::EngineChoice;
use margay_tests::conformance::sample_seed;
use margay_tests::sweep::{Depth, Machine, report, rows};

/// Number of inputs of a row that run in addition to the difficult inputs. It is so large that
/// native code changes from single lanes to chunks during the run.
const NATIVE: usize = 50_000;
/// Minimum number of inputs of a row. Every row has this number of random inputs, or at least as
/// many difficult inputs.
const LEAST: u64 = 5_000;
/// Number of inputs of a row in the interpreter, which takes a microsecond for each input.
const INTERPRETED: usize = 500;

#[test]
fn native_results_are_right() {
    let machine = Machine::new(EngineChoice::Native, sample_seed()).unwrap();
    let mut wrong = Vec::new();
    for row in rows() {
        let tally = machine.run(&row, Depth::Sample(NATIVE)).unwrap();
        assert!(tally.checked >= LEAST, "{}", row.name());
        if tally.wrong_count > 0 {
            wrong.push(format!("{}{}", row.name(), report::wrong(&tally)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks that native code and the interpreter have the same results of approximate functions, bit
/// for bit, except the bits of NaNs. The test compares a hash of all results.
#[test]
fn the_interpreter_gives_the_same_bits() {
    let machine = |engine| Machine::new(engine, sample_seed()).unwrap();
    let native = machine(EngineChoice::Native);
    let interpreter = machine(EngineChoice::Interpreter);
    for row in rows().iter().filter(|row| !row.regions.is_empty()) {
        let depth = Depth::Sample(INTERPRETED);
        let here = native.run(row, depth).unwrap();
        let there = interpreter.run(row, depth).unwrap();
        assert_eq!(there.wrong_count, 0, "{}", report::wrong(&there));
        assert_eq!(here.hash, there.hash, "{}", row.name());
    }
}

/// Checks that the table of sweeps contains the approximate functions, the rounded arithmetic, and
/// the conversions of `f32` to integers and to `f16`.
#[test]
fn the_table_is_complete() {
    let rows = rows();
    let has = |name: &str| rows.iter().any(|row| row.name() == name);
    for function in ["ex2", "lg2", "sin", "cos", "rcp", "sqrt", "rsqrt"] {
        assert!(has(&format!("{function}.approx.f32")), "{function}");
        assert!(has(&format!("{function}.approx.ftz.f32")), "{function}");
    }
    for direction in ["rn", "rz", "rm", "rp"] {
        for function in ["rcp", "sqrt", "div", "add", "mul", "fma"] {
            assert!(
                has(&format!("{function}.{direction}.ftz.f32")),
                "{function}"
            );
            assert!(has(&format!("{function}.{direction}.f64")), "{function}");
        }
        assert!(has(&format!("cvt.{direction}.f16.f32")));
        for ty in ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f32"] {
            assert!(has(&format!("cvt.{direction}i.{ty}.f32")), "{ty}");
        }
    }
}
