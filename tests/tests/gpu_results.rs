//! Compares Margay's results of the instruction forms with the results of a GPU.
//! `margay_tests::gpu` describes the GPU's results.
//!
//! The test runs a sample of the forms, or all forms with `MARGAY_FULL=1`. It runs the forms in
//! native code, except forms that native code does not support (`stacksave`), which it runs in the
//! interpreter.
#![allow(
    clippy::print_stdout,
    reason = "the count is for people who run this test"
)]

use std::collections::BTreeMap;

use margay::EngineChoice;
use margay_tests::conformance::{forms_sample, sample_seed};
use margay_tests::forms::{Machine, changes, inputs};
use margay_tests::gpu::{Run, runs};

#[test]
fn forms_have_the_results_of_a_gpu() {
    let mut machine = Machine::new(EngineChoice::Auto);
    let mut known: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs() {
        known.entry(run.form.clone()).or_default().push(run);
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for form in forms_sample(sample_seed(), 21_390 / 20) {
        for run in known.remove(&form.id).unwrap_or_default() {
            let inputs = inputs(&form, run.uniform);
            let found = match machine.launch(&form, &inputs) {
                Ok(after) => Run::new(
                    &form,
                    run.uniform,
                    &format!("ok{}", changes(&inputs, &after)),
                ),
                Err(error) => panic!("{}: {error}", form.text),
            };
            assert_eq!(found.inputs, run.inputs, "{}: other inputs", form.id);
            count += 1;
            if found != run {
                let inputs = if run.uniform { "equal" } else { "different" };
                wrong.push(format!("{} {} ({inputs} inputs)", form.id, form.text));
            }
        }
    }
    println!("{count} runs");
    assert!(count > 1_000, "{count} runs");
    assert!(wrong.is_empty(), "not as on the GPU:\n{}", wrong.join("\n"));
}
