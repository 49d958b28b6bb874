//! Compares the two engines: the kernel of every instruction form runs in the interpreter and in native code with the
//! same inputs, and must leave the same bytes or the same kind of fault.
//!
//! The test runs a sample that `MARGAY_SEED` chooses, or all forms with `MARGAY_FULL=1`. A form is
//! not compared if [`left_out`] returns a reason, if its module contains an unsupported feature, or
//! if no native code can be generated for it. The test counts the forms that are not compared for
//! each of these causes.
#![allow(
    clippy::print_stdout,
    reason = "the counts are for people who run this test"
)]

use std::collections::BTreeMap;

use margay::{EngineChoice, Error, FaultKind};
use margay_tests::conformance::{FormKernel, forms, forms_sample, sample_seed};
use margay_tests::forms::{Machine, difference, inputs, left_out};

/// The outcome of running a kernel: the content of `out` and `aux`, or the failure.
#[derive(Debug)]
enum Outcome {
    Bytes(Vec<u8>),
    Fault(FaultKind, String),
    /// The kernel could not be loaded or launched.
    Refused(String),
}

/// Runs a form.
fn run(machine: &mut Machine, form: &FormKernel, inputs: &[u8]) -> Outcome {
    match machine.launch(form, inputs) {
        Ok(bytes) => Outcome::Bytes(bytes),
        Err(Error::Fault(fault)) => {
            machine.reset();
            Outcome::Fault(fault.kind, fault.to_string())
        }
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// Number of runs with each kind of outcome. A form that [`left_out`] excludes counts as one run.
#[derive(Default)]
struct Counts {
    kinds: BTreeMap<String, usize>,
    mismatches: Vec<String>,
}

impl Counts {
    fn add(&mut self, kind: impl Into<String>) {
        *self.kinds.entry(kind.into()).or_default() += 1;
    }

    fn compare(&mut self, form: &FormKernel, slow: Outcome, fast: Outcome) {
        let wrong = match (slow, fast) {
            (Outcome::Bytes(slow), Outcome::Bytes(fast)) => {
                self.add("run");
                difference(form, &slow, &fast)
            }
            (Outcome::Fault(slow, _), Outcome::Fault(fast, _)) if slow == fast => {
                self.add(format!("same fault: {slow:?}"));
                None
            }
            (Outcome::Refused(slow), Outcome::Refused(fast)) if slow == fast => {
                self.add(format!("left out: not supported, {}", form.category));
                None
            }
            (_, Outcome::Refused(why)) if why.starts_with("not supported: native code") => {
                self.add(format!(
                    "refused by {}",
                    why.trim_start_matches("not supported: ")
                ));
                None
            }
            (slow, fast) => {
                let say = |outcome| match outcome {
                    Outcome::Bytes(_) => "ran".to_owned(),
                    Outcome::Fault(_, text) | Outcome::Refused(text) => text,
                };
                Some(format!("interpreted: {}; native: {}", say(slow), say(fast)))
            }
        };
        if let Some(wrong) = wrong {
            self.mismatches
                .push(format!("{} {}\n    {wrong}", form.id, form.text));
        }
    }
}

#[test]
fn forms_do_the_same_in_both_engines() {
    let mut slow = Machine::new(EngineChoice::Interpreter);
    let mut fast = Machine::new(EngineChoice::Native);
    let mut counts = Counts::default();
    let count = forms().len() / 20;
    for form in forms_sample(sample_seed(), count) {
        if let Some(reason) = left_out(&form) {
            counts.add(format!("left out: {reason}"));
            continue;
        }
        for uniform in [false, true] {
            let inputs = inputs(&form, uniform);
            let expected = run(&mut slow, &form, &inputs);
            let found = run(&mut fast, &form, &inputs);
            counts.compare(&form, expected, found);
        }
    }
    for (kind, count) in &counts.kinds {
        println!("{count:>6} {kind}");
    }
    let mismatches = counts.mismatches;
    assert!(
        mismatches.is_empty(),
        "{} differ:\n{}",
        mismatches.len(),
        mismatches.join("\n")
    );
}
