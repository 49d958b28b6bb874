//! Tests that a kernel has the same output, and each thread the same recorded events, for both
//! engines, all chunk widths and several numbers of workers.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use margay::{EngineChoice, LaunchConfig, Runtime};

use super::kernels::{BARRIERS, DIVERGENT, MEMORY, module};
use super::{Collector, Ran, observe, observe_with, run};

const NAMES: [(&str, &str); 3] = [
    ("divergent", DIVERGENT),
    ("barriers", BARRIERS),
    ("memory", MEMORY),
];

fn shapes() -> [LaunchConfig; 3] {
    [
        LaunchConfig::new(5, 64),
        LaunchConfig::new(3, 104),
        LaunchConfig::new(2, (40, 3)),
    ]
}

/// Returns a tool that collects all events.
fn all() -> Collector {
    Collector {
        all: true,
        ..Collector::default()
    }
}

/// Asserts that each thread has the same events other than accesses in `got` and `expected`.
fn compare(got: &Ran, expected: &Ran, what: &str) {
    assert_eq!(got.others.len(), expected.others.len(), "{what}");
    for (thread, events) in &expected.others {
        let pairs = got.others[thread].iter().zip(events);
        for (index, (got, expected)) in pairs.enumerate() {
            assert_eq!(got, expected, "{what}: event {index} of {thread:?}");
        }
        assert_eq!(got.others[thread].len(), events.len(), "{what}");
    }
}

/// Compares the records of native code with those of the interpreter, for the chunk width that
/// `MARGAY_LANES` selects.
#[test]
fn native_code_records_what_the_interpreter_records() {
    for (name, body) in NAMES {
        for config in shapes() {
            let text = module(body);
            let plain = Runtime::builder().workers(1).build().expect("built");
            let (output, _) = run(&text, &plain, config);
            let builder = Runtime::builder().workers(1);
            let interpreted = builder.engine(EngineChoice::Interpreter);
            let expected = observe_with(all(), &text, interpreted, config);
            assert!(
                expected.output == output,
                "{name}: the tool changes nothing"
            );
            assert!(!expected.threads.is_empty());
            for workers in [1, 3] {
                let builder = Runtime::builder().workers(workers);
                let native = builder.engine(EngineChoice::Native);
                let got = observe_with(all(), &text, native, config);
                assert!(got.output == output, "{name}, {config:?}");
                assert!(got.threads == expected.threads, "{name}, {config:?}");
                compare(&got, &expected, &format!("{name}, {config:?}"));
            }
        }
    }
}

/// Runs the previous test for each chunk width in a separate process, because all kernels of a
/// process use the same width.
#[test]
fn all_chunk_widths_record_the_same() {
    let own = std::env::current_exe().expect("known");
    let test = "engines::native_code_records_what_the_interpreter_records";
    for lanes in ["1", "4", "8", "16", "32"] {
        let mut command = Command::new(&own);
        command.args([test, "--exact"]).env("MARGAY_LANES", lanes);
        let output = command.output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{lanes} lanes: {text}");
        assert!(text.contains("1 passed"), "{text}");
    }
}

/// Tests that the order in which CTAs and warps run does not change the records of a kernel without
/// races.
#[test]
fn the_order_of_ctas_has_no_influence() {
    let text = module(BARRIERS);
    let config = LaunchConfig::new(8, 96);
    let digest = |builder: margay::RuntimeBuilder| {
        let ran = observe(&text, builder, false, config);
        let mut hasher = DefaultHasher::new();
        for access in &ran.threads {
            access.0.hash(&mut hasher);
            access.1.hash(&mut hasher);
        }
        (ran.output, hasher.finish())
    };
    let expected = digest(Runtime::builder().workers(1));
    assert_eq!(digest(Runtime::builder().workers(4)), expected);
    assert_eq!(digest(Runtime::builder().reverse()), expected);
    assert_eq!(digest(Runtime::builder().shuffle(7)), expected);
}

/// Tests that checking tools and tools that observe kernels can run together. Both then observe
/// only the accesses of the program, and not those of the other tools.
#[test]
fn checks_change_no_records() {
    use margay::checks::Tool;

    for (name, body) in NAMES {
        let text = module(body);
        let config = LaunchConfig::new(3, 64);
        let plain = observe_with(all(), &text, Runtime::builder(), config);
        let checks = [
            Tool::Memory,
            Tool::Initialisation,
            Tool::Race,
            Tool::Synchronisation,
        ];
        for checks in [&checks[..1], &checks] {
            let builder = checks
                .iter()
                .fold(Runtime::builder(), |b, &tool| b.check(tool));
            let checked = observe_with(all(), &text, builder, config);
            assert!(checked.output == plain.output, "{name}, {checks:?}");
            assert!(checked.threads == plain.threads, "{name}, {checks:?}");
            compare(&checked, &plain, name);
        }
    }
}

/// Tests that the check of synchronisation (synccheck) reports the same findings with and without
/// tools that observe kernels. In this test, threads end before a barrier. This is a regression
/// test: when a tool observed the `ret` after the barrier, the check wrongly reported that threads
/// skip a barrier.
#[test]
fn tools_change_no_findings() {
    use margay::checks::{Kind, Tool, Undefined};

    let text = module(
        "    setp.ge.u32 %p, %t, 40;
    @%p bra DONE;
    bar.sync 0;
    st.global.u32 [%own], %t;
DONE:",
    );
    let plain = Runtime::builder().check(Tool::Synchronisation);
    let observed = Runtime::builder().check(Tool::Synchronisation);
    for builder in [plain, observed.tool(std::sync::Arc::new(all()))] {
        let runtime = builder.build().expect("built");
        run(&text, &runtime, LaunchConfig::new(1, 64));
        let (findings, _) = runtime.take_findings();
        let kinds: Vec<Kind> = findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [Kind::from(Undefined::LeftBeforeBarrier)]);
    }
}
