//! Runs generated kernels on machines that differ in engine, number of workers and order of CTAs and warps.
//!
//! The first machine, which runs the interpreter with one worker, computes the expected contents of
//! memory. On every other machine, the kernel must leave the same bytes in memory.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use margay::engine::Loader;
use margay::runtime::built_in_loader;
use margay::{DeviceBuffer, EngineChoice, Error, LaunchConfig, Module, Runtime};

use super::layout::{Layout, inputs};
use super::program::Kernel;
use super::write;

/// The settings of a machine: its engine, its number of workers and its order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The engine.
    pub engine: EngineChoice,
    /// The number of workers.
    pub workers: usize,
    /// Whether CTAs and warps run in reverse order.
    pub reverse: bool,
}

impl Setting {
    const fn new(engine: EngineChoice, workers: usize, reverse: bool) -> Setting {
        Setting {
            engine,
            workers,
            reverse,
        }
    }

    /// The settings of all machines. The machine with the first setting computes the expected
    /// results.
    pub const ALL: [Setting; 16] = {
        const I: EngineChoice = EngineChoice::Interpreter;
        const N: EngineChoice = EngineChoice::Native;
        [
            Setting::new(I, 1, false),
            Setting::new(N, 1, false),
            Setting::new(N, 1, true),
            Setting::new(N, 2, false),
            Setting::new(N, 2, true),
            Setting::new(N, 3, false),
            Setting::new(N, 3, true),
            Setting::new(N, 8, false),
            Setting::new(N, 8, true),
            Setting::new(I, 1, true),
            Setting::new(I, 2, false),
            Setting::new(I, 2, true),
            Setting::new(I, 3, false),
            Setting::new(I, 3, true),
            Setting::new(I, 8, false),
            Setting::new(I, 8, true),
        ]
    };
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let engine = match self.engine {
            EngineChoice::Interpreter => "interpreter",
            _ => "native",
        };
        let order = if self.reverse { "reverse" } else { "in order" };
        write!(f, "{engine}, {} worker(s), {order}", self.workers)
    }
}

/// The outcome of a run of a kernel.
#[derive(Debug)]
enum Outcome {
    Bytes(Vec<u8>),
    /// The kernel could not be loaded or launched, or it faulted.
    Error(String),
}

struct Machine {
    setting: Setting,
    loader: Arc<dyn Loader>,
    runtime: Runtime,
    input: DeviceBuffer<u8>,
}

impl Machine {
    fn new(setting: Setting, loader: &Arc<dyn Loader>) -> Result<Machine, Error> {
        let mut builder = Runtime::builder()
            .loader(Arc::clone(loader))
            .workers(setting.workers)
            .time_limit(Duration::from_secs(20));
        if setting.reverse {
            builder = builder.reverse();
        }
        let runtime = builder.build()?;
        let input = runtime.upload(&inputs())?;
        Ok(Machine {
            setting,
            loader: Arc::clone(loader),
            runtime,
            input,
        })
    }

    fn run(&mut self, module: &Result<Module, Error>, kernel: &Kernel) -> Outcome {
        let module = match module {
            Ok(module) => module,
            Err(error) => return Outcome::Error(error.to_string()),
        };
        match self.launch(module, kernel) {
            Ok(bytes) => Outcome::Bytes(bytes),
            Err(error) => Outcome::Error(error.to_string()),
        }
    }

    fn launch(&self, module: &Module, kernel: &Kernel) -> Result<Vec<u8>, Error> {
        let layout = Layout::new(kernel.all_threads());
        let out = self.runtime.upload(&layout.before())?;
        let function = module.kernel(&kernel.name())?;
        let config = LaunchConfig::new(kernel.grid, kernel.block);
        let arguments = (
            &self.input,
            &out,
            kernel.all_threads(),
            kernel.seed as u32 % 1000,
            0.75f32,
        );
        self.runtime.launch(&function, config, arguments)?;
        out.to_vec()
    }

    /// Replaces this machine by a new one after a fault, because all later calls in the context of
    /// the faulting kernel fail.
    fn renew(&mut self) -> Result<(), Error> {
        *self = Machine::new(self.setting, &self.loader)?;
        Ok(())
    }
}

/// A kernel whose result on one machine is wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kernel that failed.
    pub kernel: Kernel,
    /// The setting of the machine with the wrong result.
    pub setting: Setting,
    /// Description of the difference between the result and the expected result.
    pub what: String,
    /// Whether the machine that computes the expected results failed to run the kernel.
    pub without_result: bool,
}

/// The machines on which kernels are compared.
pub struct Bench {
    machines: Vec<Machine>,
    turn: usize,
}

impl Bench {
    /// Creates all machines. Machines with the same engine share the code that the engine has
    /// compiled.
    ///
    /// # Errors
    ///
    /// Returns an error if a runtime cannot be created.
    pub fn new() -> Result<Bench, Error> {
        let native = built_in_loader(EngineChoice::Native);
        let interpreter = built_in_loader(EngineChoice::Interpreter);
        let machines = Setting::ALL.map(|setting| {
            let loader = match setting.engine {
                EngineChoice::Interpreter => &interpreter,
                _ => &native,
            };
            Machine::new(setting, loader)
        });
        Ok(Bench {
            machines: machines.into_iter().collect::<Result<_, _>>()?,
            turn: 0,
        })
    }

    /// Runs each kernel on the machine that computes the expected results, on all machines with
    /// native code, and on one other machine with the interpreter.
    ///
    /// # Errors
    ///
    /// Returns an error if a runtime cannot be created.
    pub fn run(&mut self, kernels: &[Kernel]) -> Result<Vec<Failure>, Error> {
        let count = Setting::ALL.len();
        let interpreters = Setting::ALL
            .iter()
            .skip(1)
            .position(|s| s.engine == EngineChoice::Interpreter)
            .map_or(count, |at| at + 1);
        self.turn += 1;
        let chosen = interpreters + self.turn % (count - interpreters);
        let others: Vec<usize> = (1..interpreters).chain([chosen]).collect();
        self.compare(kernels, &others)
    }

    /// Runs a kernel on the machine with the setting `setting`; returns the failure if the result
    /// is wrong.
    ///
    /// # Errors
    ///
    /// Returns an error if a runtime cannot be created.
    pub fn fails(&mut self, kernel: &Kernel, setting: Setting) -> Result<Option<Failure>, Error> {
        let others: Vec<usize> = (0..self.machines.len())
            .filter(|&i| self.machines[i].setting == setting)
            .collect();
        let failures = self.compare(std::slice::from_ref(kernel), &others)?;
        Ok(failures.into_iter().next())
    }

    fn compare(&mut self, kernels: &[Kernel], others: &[usize]) -> Result<Vec<Failure>, Error> {
        let texts: String = kernels.iter().map(write::kernel).collect();
        let text = write::header(&texts) + &texts;
        let expected = self.outcomes(0, kernels, &text)?;
        let mut failures: Vec<Failure> = Vec::new();
        for &other in others {
            let setting = self.machines[other].setting;
            let found = self.outcomes(other, kernels, &text)?;
            for ((kernel, expected), found) in kernels.iter().zip(&expected).zip(&found) {
                // Only the first failure of each kernel is recorded.
                if failures.iter().any(|f| f.kernel.seed == kernel.seed) {
                    continue;
                }
                if let Some(what) = difference(kernel, expected, found) {
                    failures.push(Failure {
                        kernel: kernel.clone(),
                        setting,
                        what,
                        without_result: matches!(expected, Outcome::Error(_)),
                    });
                }
            }
        }
        Ok(failures)
    }

    fn outcomes(
        &mut self,
        index: usize,
        kernels: &[Kernel],
        text: &str,
    ) -> Result<Vec<Outcome>, Error> {
        let machine = &mut self.machines[index];
        let mut module = machine.runtime.load_ptx(text);
        let mut outcomes = Vec::new();
        for kernel in kernels {
            let outcome = machine.run(&module, kernel);
            if matches!(outcome, Outcome::Error(_)) && module.is_ok() {
                machine.renew()?;
                module = machine.runtime.load_ptx(text);
            }
            outcomes.push(outcome);
        }
        if let Ok(module) = module {
            module.unload()?;
        }
        Ok(outcomes)
    }
}

/// Returns a description of the difference between two outcomes; `None` if they are equal. A kernel
/// that fails counts as different, because no generated kernel may fail.
fn difference(kernel: &Kernel, expected: &Outcome, found: &Outcome) -> Option<String> {
    match (expected, found) {
        (Outcome::Bytes(expected), Outcome::Bytes(found)) => {
            Layout::new(kernel.all_threads()).difference(expected, found)
        }
        (Outcome::Error(error), _) => Some(format!("the interpreter: {error}")),
        (_, Outcome::Error(error)) => Some(error.clone()),
    }
}
