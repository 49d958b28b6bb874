//! Runs random kernels with native code and with the interpreter, and tests the generator of these
//! kernels.
//!
//! `MARGAY_SEED` is the random seed of the kernels; with `MARGAY_FULL=1`, twenty times as many kernels run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use margay::Dim3;
use margay_tests::conformance::sample_seed;
use margay_tests::random::layout::Layout;
use margay_tests::random::machines::Bench;
use margay_tests::random::numbers::Random;
use margay_tests::random::program::{Kernel, Leaf, Statement};
use margay_tests::random::templates::{self, Operands};
use margay_tests::random::{self, generate, reduce, write};

/// A lock with which the tests in one process run one after the other. It is needed because each
/// [`Bench`] reserves the address space of many devices.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn every_machine_leaves_the_same_bytes() {
    let _turn = turn();
    let count = if std::env::var("MARGAY_FULL").is_ok_and(|v| v == "1") {
        2000
    } else {
        100
    };
    let mut bench = Bench::new().unwrap();
    let failures = random::run(&mut bench, sample_seed(), 0, count).unwrap();
    let shown = failures.iter().take(3);
    let reports: Vec<String> = shown.map(|f| random::report(&mut bench, f)).collect();
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        reports.join("\n")
    );
}

/// Tests that the instructions of each template are valid and have the same results on every
/// machine. Each instruction runs in a separate kernel, so that the failure message names the
/// instruction.
#[test]
fn every_template_is_valid_and_runs_alike() {
    let _turn = turn();
    let mut bench = Bench::new().unwrap();
    let kernels: Vec<Kernel> = (0..templates::count())
        .map(|index| {
            let mut random = Random::new(index as u64);
            let leaf = |random: &mut Random| {
                let operands = Operands { counters: &[] };
                let text = templates::nth(index, random, &operands);
                Statement::Leaf(Leaf { text, meets: None })
            };
            Kernel {
                seed: index as u64,
                grid: Dim3::new(2, 1, 1),
                block: Dim3::new(70, 1, 1),
                body: (0..6).map(|_| leaf(&mut random)).collect(),
            }
        })
        .collect();
    for kernel in &kernels {
        let failures = bench.run(std::slice::from_ref(kernel)).unwrap();
        if let Some(failure) = failures.first() {
            panic!("{}", random::report(&mut bench, failure));
        }
    }
}

#[test]
fn a_seed_names_one_kernel() {
    let text = |seed| write::kernel(&generate::kernel(seed));
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8).replace("0008", "0007"));
}

/// Checks that a small number of generated kernels contains all features that the kernels are
/// intended to test.
#[test]
fn kernels_hold_what_they_shall() {
    let texts: String = (0..800)
        .map(|i| write::kernel(&generate::kernel(i)))
        .collect();
    for word in [
        "bar.sync",
        "barrier.sync.aligned",
        "bar.red.popc",
        "bar.warp.sync",
        "shfl.sync.bfly",
        "shfl.sync.idx",
        "vote.sync.ballot",
        "match.any.sync",
        "redux.sync",
        "brx.idx",
        "exit;",
        "call (",
        "climb, (",
        "both",
        "meet, (",
        "rally, (",
        "st.shared",
        "red.shared",
        "ld.local",
        "ld.global.nc",
        "ld.const",
        "atom",
        "ld.global.v2",
        "tree",
        "%lanemask",
        ".f64",
        ".f16",
    ] {
        assert!(texts.contains(word), "no {word} in 800 kernels");
    }
    let deep = |kernel: &Kernel| depth(&kernel.body);
    let deepest = (0..800).map(|i| deep(&generate::kernel(i))).max();
    assert!(deepest >= Some(4), "{deepest:?}");
}

fn depth(body: &[Statement]) -> usize {
    let inner = body.iter().flat_map(|s| s.bodies());
    inner.map(|body| 1 + depth(body)).max().unwrap_or(0)
}

/// Checks that the reduction of a failing kernel removes all statements except the one that makes
/// the kernel fail.
#[test]
fn a_failing_kernel_becomes_small() {
    let contains = |kernel: &Kernel| write::kernel(kernel).contains("redux");
    let found = (0..)
        .map(generate::kernel)
        .find(|kernel| contains(kernel) && kernel.len() > 15);
    let small = reduce::reduce(&found.unwrap(), contains);
    assert_eq!(small.len(), 1, "{}", write::kernel(&small));
    assert_eq!(small.grid, Dim3::new(1, 1, 1));
}

#[test]
fn differences_are_seen_where_they_count() {
    let layout = Layout::new(64);
    let before = layout.before();
    let differs = |at: u32, a: &[u8], b: &[u8]| {
        let (mut left, mut right) = (before.clone(), before.clone());
        left[at as usize..][..a.len()].copy_from_slice(a);
        right[at as usize..][..b.len()].copy_from_slice(b);
        layout.difference(&left, &right).is_some()
    };
    let (one, other) = (0x7fc0_0000u32.to_le_bytes(), 0xff80_0001u32.to_le_bytes());
    let infinity = 0x7f80_0000u32.to_le_bytes();
    let (words, floats) = (layout.words.offset, layout.floats.offset);
    assert!(!differs(floats + 4, &one, &one));
    assert!(!differs(floats + 4, &one, &other), "two NaNs");
    assert!(
        differs(floats + 4, &one, &infinity),
        "a NaN and an infinity"
    );
    assert!(
        differs(floats + 4, &0f32.to_le_bytes(), &(-0f32).to_le_bytes()),
        "zeros"
    );
    assert!(differs(words + 4, &one, &other), "integers");
    let after = layout.floats.offset + layout.floats.bytes;
    assert!(
        differs(after, &[1], &[2]),
        "a byte that no thread may write"
    );
    let doubles = layout.doubles.offset;
    let nan = |low: u64| (0x7ff8_0000_0000_0000u64 + low).to_le_bytes();
    assert!(!differs(doubles + 8, &nan(0), &nan(9)));
    assert!(differs(doubles + 8, &nan(0), &1f64.to_le_bytes()));
    assert!(!differs(layout.halves.offset + 2, &[0, 0x7e], &[1, 0xfc]));
    assert!(differs(layout.halves.offset + 2, &[0, 0x7c], &[1, 0xfc]));
}
