//! Compares the results of the instruction forms with those of a GPU, which `margay_tests::gpu` describes.
//!
//! The test runs a sample of the forms in native code, or all forms with `MARGAY_FULL=1`.
#![allow(
    clippy::print_stdout,
    reason = "the count is for people who run this test"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use margay::{Bytes, EngineChoice, Error, LaunchConfig, Runtime};
use margay_tests::conformance::{FormKernel, forms_sample, sample_seed};
use margay_tests::forms::{BYTES, THREADS, changes, inputs, module_text};
use margay_tests::gpu::{Run, runs};

/// Runs a form, and returns `ok` and the words that its kernel changed.
fn result(runtime: &Runtime, form: &FormKernel, uniform: bool) -> Result<String, Error> {
    let module = runtime.load_ptx(&module_text(form))?;
    let kernel = module.kernel(&form.id)?;
    let bytes = inputs(form, uniform);
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    let mut buffers = [
        runtime.alloc(BYTES)?,
        runtime.alloc(BYTES)?,
        runtime.alloc(BYTES)?,
    ];
    let [input, out, aux] = &mut buffers;
    input.write(&bytes)?;
    out.zero()?;
    aux.write(&reversed)?;
    let by_value = Bytes(&bytes[..128]);
    let shape = LaunchConfig::new(1, THREADS as u32);
    runtime.launch(&kernel, shape, (&*input, &*out, &*aux, by_value))?;
    runtime.synchronize()?;
    let text = changes(&bytes, &out.to_vec()?, &aux.to_vec()?);
    Ok(format!("ok{text}"))
}

#[test]
fn forms_have_the_results_of_a_gpu() {
    let runtime = Runtime::builder()
        .engine(EngineChoice::Native)
        .workers(1)
        .deterministic()
        .time_limit(Duration::from_secs(5))
        .build()
        .expect("a runtime");
    let mut known: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in runs() {
        known.entry(run.form.clone()).or_default().push(run);
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for form in forms_sample(sample_seed(), 21_390 / 20) {
        for run in known.remove(&form.id).unwrap_or_default() {
            let found = match result(&runtime, &form, run.uniform) {
                Ok(text) => Run::new(&form, run.uniform, &text),
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
