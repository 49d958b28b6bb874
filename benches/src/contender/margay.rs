//! The contender that runs kernels on Margay through its Rust interface.

use margay::args::KernelArg;
use margay::{Bytes, DeviceBuffer, Kernel, LaunchConfig, Runtime};

use super::{Contender, Loaded};
use crate::case::Case;
use crate::work::{Argument, Extent, Launch, Step, Work};

/// A runtime with a given number of workers.
pub(crate) struct Margay(pub(crate) Runtime);

impl Margay {
    /// Builds a runtime with `workers` workers. `None` requests as many workers as the machine has
    /// cores.
    pub(crate) fn with_workers(workers: Option<usize>) -> Result<Margay, String> {
        let runtime = match workers {
            Some(workers) => Runtime::builder().workers(workers).build(),
            None => Runtime::new(),
        };
        runtime.map(Margay).map_err(|e| e.to_string())
    }
}

impl Contender for Margay {
    fn load(&self, case: &Case, work: &Work) -> Result<Box<dyn Loaded>, String> {
        let ready = Ready::new(&self.0, case, work).map_err(|e| e.to_string())?;
        Ok(Box::new(ready))
    }
}

enum Action {
    Zero(usize),
    Launch(Kernel, LaunchConfig, Vec<u8>),
}

struct Ready {
    runtime: Runtime,
    buffers: Vec<DeviceBuffer<u8>>,
    actions: Vec<Action>,
}

impl Ready {
    fn new(runtime: &Runtime, case: &Case, work: &Work) -> margay::Result<Ready> {
        let module = runtime.load_ptx(case.sources.ptx)?;
        let buffers: margay::Result<Vec<_>> =
            work.buffers.iter().map(|b| runtime.upload(b)).collect();
        let buffers = buffers?;
        let actions = work.steps.iter().map(|step| match step {
            Step::Zero(buffer) => Ok(Action::Zero(buffer.0)),
            Step::Launch(launch) => {
                let kernel = module.kernel(launch.kernel)?;
                let packed = pack(&kernel, launch, &buffers);
                let config = LaunchConfig::new(dim(launch.grid), dim(launch.block));
                Ok(Action::Launch(kernel, config, packed))
            }
        });
        let actions: margay::Result<Vec<_>> = actions.collect();
        Ok(Ready {
            runtime: runtime.clone(),
            actions: actions?,
            buffers,
        })
    }

    fn start(&self) -> margay::Result<()> {
        for action in &self.actions {
            match action {
                Action::Zero(buffer) => self.buffers[*buffer].zero()?,
                Action::Launch(kernel, config, packed) => {
                    self.runtime.launch(kernel, *config, packed.as_slice())?;
                }
            }
        }
        self.runtime.synchronize()
    }
}

fn dim([x, y, z]: Extent) -> (u32, u32, u32) {
    (x, y, z)
}

/// Returns the parameter buffer of a launch, with each argument at the offset of its parameter.
fn pack(kernel: &Kernel, launch: &Launch, buffers: &[DeviceBuffer<u8>]) -> Vec<u8> {
    let mut packed = vec![0; kernel.empty_params().bytes_mut().len()];
    for (parameter, argument) in kernel.params().iter().zip(&launch.arguments) {
        let place = &mut packed[parameter.offset as usize..][..parameter.size as usize];
        match argument {
            Argument::Buffer(buffer) => (&buffers[buffer.0]).write(place),
            Argument::Value(bytes) => Bytes(bytes).write(place),
        }
    }
    packed
}

impl Loaded for Ready {
    fn run(&mut self) -> Result<(), String> {
        self.start().map_err(|e| e.to_string())
    }

    fn read(&mut self, buffer: usize, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = self.buffers[buffer].to_vec().map_err(|e| e.to_string())?;
        bytes.truncate(len);
        Ok(bytes)
    }
}
