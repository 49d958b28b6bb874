//! Compares the two engines: the kernel of every instruction form runs in the interpreter and in native code with the
//! same inputs, and must leave the same bytes or the same kind of fault.
//!
//! The test runs a sample that `MARGAY_SEED` chooses, or all forms with `MARGAY_FULL=1`. Invariant: a form is compared
//! unless [`left_out`] returns a reason, the module is unsupported, or native code cannot be generated for it. The test
//! counts the forms of each kind.
#![allow(
    clippy::print_stdout,
    reason = "the counts are for people who run this test"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use margay::{Bytes, DeviceBuffer, EngineChoice, Error, FaultKind, LaunchConfig, Runtime};
use margay_tests::conformance::{FormKernel, forms, forms_sample, sample_seed};
use margay_tests::forms::{BYTES, THREADS, difference, inputs, left_out, module_text};

/// A machine with one engine, and the buffers of the kernels.
struct Bench {
    runtime: Runtime,
    buffers: Option<[DeviceBuffer<u8>; 3]>,
}

/// The content of `out` and `aux` after a kernel, or its failure.
#[derive(Debug)]
enum Outcome {
    Bytes(Vec<u8>),
    Fault(FaultKind, String),
    /// The kernel could not be loaded or launched.
    Refused(String),
}

impl Bench {
    fn new(engine: EngineChoice) -> Bench {
        let runtime = Runtime::builder()
            .engine(engine)
            .workers(1)
            .deterministic()
            .time_limit(Duration::from_secs(5))
            .build()
            .unwrap();
        Bench {
            runtime,
            buffers: None,
        }
    }

    fn run(&mut self, form: &FormKernel, inputs: &[u8]) -> Outcome {
        let outcome = self.launch(form, inputs);
        match outcome {
            Ok(bytes) => Outcome::Bytes(bytes),
            Err(Error::Fault(fault)) => {
                // A fault is sticky in its context, so the device must be reset before the next form.
                self.buffers = None;
                self.runtime.device(0).unwrap().primary_reset().unwrap();
                Outcome::Fault(fault.kind, fault.to_string())
            }
            Err(error) => Outcome::Refused(error.to_string()),
        }
    }

    fn launch(&mut self, form: &FormKernel, inputs: &[u8]) -> Result<Vec<u8>, Error> {
        let runtime = &self.runtime;
        let module = runtime.load_ptx(&module_text(form))?;
        let kernel = module.kernel(&form.id)?;
        let [input, out, aux] = match &mut self.buffers {
            Some(buffers) => buffers,
            none => none.insert([
                runtime.alloc(BYTES)?,
                runtime.alloc(BYTES)?,
                runtime.alloc(BYTES)?,
            ]),
        };
        input.write(inputs)?;
        out.zero()?;
        // Initial content of the memory that forms read and change: the inputs in reverse order.
        let memory: Vec<u8> = inputs.iter().rev().copied().collect();
        aux.write(&memory)?;
        let by_value = Bytes(&inputs[..128]);
        let shape = LaunchConfig::new(1, THREADS as u32);
        runtime.launch(&kernel, shape, (&*input, &*out, &*aux, by_value))?;
        runtime.synchronize()?;
        let mut bytes = out.to_vec()?;
        bytes.extend(aux.to_vec()?);
        module.unload()?;
        Ok(bytes)
    }
}

/// Number of outcomes of each kind.
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
    let mut slow = Bench::new(EngineChoice::Interpreter);
    let mut fast = Bench::new(EngineChoice::Native);
    let mut counts = Counts::default();
    let count = forms().len() / 20;
    for form in forms_sample(sample_seed(), count) {
        if let Some(reason) = left_out(&form) {
            counts.add(format!("left out: {reason}"));
            continue;
        }
        for uniform in [false, true] {
            let inputs = inputs(&form, uniform);
            let expected = slow.run(&form, &inputs);
            let found = fast.run(&form, &inputs);
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
