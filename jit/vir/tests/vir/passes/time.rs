//! The time of the passes is linear in the size of the function.

use std::time::{Duration, Instant};

use margay_vir::function::Function;
use margay_vir::passes::{Options, PASSES, Pass};

use crate::support::parsed;

/// Returns a function of about `instructions` instructions: nested loops with accesses, masks and arithmetic.
fn function(instructions: usize) -> Function {
    let mut text = "func @f(b64, b64, f32x16, predx16) -> (f32x16) {
block0(v0: b64, v1: b64, v2: f32x16, v3: predx16):
  v4: b64 = const.b64{0x0}
"
    .to_owned();
    let (mut value, mut block, mut sum) = (5, 1, 2);
    for _ in 0..instructions / 40 {
        text += &format!("  jump block{block}(v4, v{sum})\n");
        text += &format!("block{block}(v{value}: b64, v{}: f32x16):\n", value + 1);
        let (counter, carried) = (value, value + 1);
        value += 2;
        sum = carried;
        for access in 0..4 {
            let v = |n: usize| format!("v{}", value + n);
            text += &format!("  {}: b64 = const.b64{{{:#x}}}\n", v(0), 4 + 64 * access);
            text += &format!(
                "  {}: b64 = map.b64{{mul.u64{{half:lo}}}} v{counter}, {}\n",
                v(1),
                v(0)
            );
            text += &format!("  {}: b64 = map.b64{{add.u64}} {}, v1\n", v(2), v(1));
            text += &format!("  {}: f32x16 = load.f32x16{{f32 4}} {}, v3\n", v(3), v(2));
            text += &format!(
                "  {}: f32x16 = map.f32x16{{fma.f32{{rn}}}} {}, v2, v{sum}\n",
                v(4),
                v(3)
            );
            text += &format!(
                "  {}: predx16 = map.predx16{{setp.f32{{cmp:lt}}}} {}, v2\n",
                v(5),
                v(4)
            );
            text += &format!(
                "  {}: predx16 = map.predx16{{and.pred}} {}, v3\n",
                v(6),
                v(5)
            );
            text += &format!("  store.f32x16{{f32 4}} {}, {}, {}\n", v(2), v(4), v(6));
            sum = value + 4;
            value += 7;
        }
        text += &format!("  v{value}: b64 = const.b64{{0x40}}\n");
        text += &format!(
            "  v{}: b64 = map.b64{{add.u64}} v{counter}, v{value}\n",
            value + 1
        );
        text += &format!(
            "  v{}: pred = map.pred{{setp.u64{{cmp:lt}}}} v{}, v0\n",
            value + 2,
            value + 1
        );
        text += &format!(
            "  brif v{}, block{block}(v{}, v{sum}), block{}\n",
            value + 2,
            value + 1,
            block + 1
        );
        text += &format!("block{}:\n", block + 1);
        value += 3;
        block += 2;
    }
    text += &format!("  ret v{sum}\n}}\n");
    parsed(&text)
}

fn count(function: &Function) -> usize {
    let blocks = function.order.iter();
    blocks.map(|&block| function.body[block].len()).sum()
}

/// Returns the processor time of this thread in microseconds, because other programs disturb a clock.
fn now() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e3
}

/// Returns the time of each pass for each instruction, in microseconds, in `times` copies of a function.
fn costs(instructions: usize, times: usize) -> Vec<f64> {
    let mut functions = vec![function(instructions); times];
    let total = times * count(&functions[0]);
    let run = |pass: &Pass| {
        let start = now();
        for function in &mut functions {
            (pass.run)(function, &Options::default());
        }
        (now() - start) / total as f64
    };
    PASSES.iter().map(run).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn twenty_thousand_instructions_take_as_long_for_each_as_two_thousand() {
    // The kernel measures processor time in steps of some milliseconds.
    let (small, large) = (costs(2_000, 80), costs(20_000, 8));
    for ((pass, small), large) in PASSES.iter().zip(small).zip(large) {
        println!(
            "{}: {large:.3} us an instruction, {small:.3} in a small function",
            pass.name
        );
        assert!(large < 4.0 * small + 0.1, "{}: {large} {small}", pass.name);
    }
}

#[test]
fn deep_chains_do_not_overflow_the_stack() {
    let mut text = "func @f(b64, b64) -> (f32) {\nblock0(v0: b64, v1: b64):\n".to_owned();
    for n in 2..20_000 {
        text += &format!("  v{n}: b64 = map.b64{{add.u64}} v{}, v{}\n", n - 1, n - 2);
    }
    text += "  v20000: f32 = load.f32{f32 0} v19999\n  ret v20000\n}\n";
    let mut function = parsed(&text);
    let start = Instant::now();
    margay_vir::passes::optimise(&mut function, &Options::default());
    assert!(start.elapsed() < Duration::from_secs(20));
}
