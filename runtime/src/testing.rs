//! Kernels written in Rust, for tests of the scheduler and of streams without a code generator.
//!
//! The scheduler calls a [`Program`] repeatedly for each unit (a CTA or a cluster,
//! [`crate::engine`]). Each call executes one step of the unit, and returns whether the unit is
//! done, waits, or has failed. Between calls, a unit stores only one number.

use std::sync::Arc;
use std::time::Instant;

use crate::engine::{
    BoundImage, Engine, Image, KernelInfo, KernelSizes, LaunchShape, LoadOptions, LoadedImage,
    Loader, ParamInfo, ParkedUnit, PreparedLaunch, RunOutcome, VariableInfo, Worker,
};
use crate::error::{Fault, FaultKind, Result};
use crate::{Context, Kernel, Runtime, RuntimeBuilder};

/// The result of one step of a unit.
pub(crate) enum Step {
    Done,
    /// The unit waits. The field states whether the unit made progress before it had to wait.
    Wait(bool),
    Fault(FaultKind),
}

/// The arguments of one call of a [`Program`] for a unit.
pub(crate) struct Call<'a> {
    pub(crate) shape: &'a LaunchShape,
    pub(crate) unit: u64,
    /// The number that the unit stores between calls. It is 0 at the first call.
    pub(crate) memory: &'a mut u64,
    pub(crate) worker: &'a dyn Worker,
}

impl Call<'_> {
    /// Returns the kernel's parameter with the index `index`; all parameters have 8 bytes.
    pub(crate) fn param(&self, index: usize) -> u64 {
        let bytes = &self.shape.params.bytes()[8 * index..8 * index + 8];
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }
}

pub(crate) type Program = Arc<dyn Fn(Call<'_>) -> Step + Send + Sync>;

/// A kernel for tests: its properties, whether its units may park, and its program.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) info: KernelInfo,
    pub(crate) sizes: KernelSizes,
    pub(crate) may_park: bool,
    pub(crate) program: Program,
}

pub(crate) fn kernel(
    name: &str,
    params: u32,
    may_park: bool,
    program: impl Fn(Call<'_>) -> Step + Send + Sync + 'static,
) -> Spec {
    let layout = (0..params).map(|index| ParamInfo {
        offset: 8 * index,
        size: 8,
        align: 8,
    });
    Spec {
        info: KernelInfo {
            name: name.into(),
            params: layout.collect(),
            param_bytes: 8 * params,
            target: 86,
            ..KernelInfo::default()
        },
        sizes: KernelSizes::default(),
        may_park,
        program: Arc::new(program),
    }
}

/// A loader that returns the same kernels for every image.
pub(crate) struct TestLoader {
    pub(crate) specs: Vec<Spec>,
    pub(crate) variables: Vec<VariableInfo>,
    pub(crate) initial: Vec<Vec<u8>>,
}

impl Loader for TestLoader {
    fn load(&self, _image: Image<'_>, _options: &LoadOptions) -> Result<Arc<dyn LoadedImage>> {
        Ok(Arc::new(TestImage {
            infos: self.specs.iter().map(|spec| spec.info.clone()).collect(),
            specs: self.specs.clone(),
            variables: self.variables.clone(),
            initial: self.initial.clone(),
        }))
    }
}

struct TestImage {
    infos: Vec<KernelInfo>,
    specs: Vec<Spec>,
    variables: Vec<VariableInfo>,
    initial: Vec<Vec<u8>>,
}

impl LoadedImage for TestImage {
    fn kernels(&self) -> &[KernelInfo] {
        &self.infos
    }
    fn variables(&self) -> &[VariableInfo] {
        &self.variables
    }
    fn bind(&self, _addresses: &[u64]) -> Result<BoundImage> {
        let engine = |spec: &Spec| Arc::new(TestEngine(spec.clone())) as Arc<dyn Engine>;
        Ok(BoundImage {
            initial: self.initial.clone(),
            kernels: self.specs.iter().map(engine).collect(),
        })
    }
}

struct TestEngine(Spec);

impl Engine for TestEngine {
    fn info(&self) -> &KernelInfo {
        &self.0.info
    }
    fn sizes(&self, _: Option<Instant>) -> Result<KernelSizes> {
        Ok(self.0.sizes)
    }
    fn prepare(&self, shape: LaunchShape) -> Result<Arc<dyn PreparedLaunch>> {
        Ok(Arc::new(TestLaunch {
            shape,
            spec: self.0.clone(),
        }))
    }
}

struct TestLaunch {
    shape: LaunchShape,
    spec: Spec,
}

impl TestLaunch {
    fn step(&self, worker: &dyn Worker, unit: u64, mut memory: u64) -> Option<RunOutcome> {
        if worker.stop_requested() {
            return Some(RunOutcome::Stopped {
                place: String::new(),
            });
        }
        let call = Call {
            shape: &self.shape,
            unit,
            memory: &mut memory,
            worker,
        };
        match (self.spec.program)(call) {
            Step::Done => None,
            Step::Wait(progressed) => Some(RunOutcome::Parked(ParkedUnit {
                unit,
                state: Box::new(memory),
                progressed,
            })),
            Step::Fault(kind) => {
                let cta = self.shape.grid.position(unit);
                let fault = Fault::new(kind, &self.spec.info.name).at_cta(cta);
                Some(RunOutcome::Fault(fault))
            }
        }
    }
}

impl PreparedLaunch for TestLaunch {
    fn may_park(&self) -> bool {
        self.spec.may_park
    }
    fn run(&self, worker: &mut dyn Worker, first: u64, count: u64) -> RunOutcome {
        (first..first + count)
            .find_map(|unit| self.step(worker, unit, 0))
            .unwrap_or(RunOutcome::Done)
    }
    fn resume(&self, worker: &mut dyn Worker, unit: ParkedUnit) -> RunOutcome {
        let memory = *unit.state.downcast::<u64>().expect("its own state");
        self.step(worker, unit.unit, memory)
            .unwrap_or(RunOutcome::Done)
    }
}

/// A runtime whose kernels are written in Rust, and its primary context.
pub(crate) struct Bench {
    pub(crate) runtime: Runtime,
    pub(crate) context: Context,
    module: crate::Module,
}

impl Bench {
    pub(crate) fn new(workers: usize, specs: Vec<Spec>) -> Bench {
        Bench::with(Runtime::builder().workers(workers), specs)
    }

    pub(crate) fn with(builder: RuntimeBuilder, specs: Vec<Spec>) -> Bench {
        let loader = TestLoader {
            specs,
            variables: Vec::new(),
            initial: Vec::new(),
        };
        let runtime = builder.loader(Arc::new(loader)).build().expect("built");
        let context = runtime.context().expect("alive");
        let module = runtime.load_ptx("").expect("loads");
        Bench {
            runtime,
            context,
            module,
        }
    }

    /// Returns the kernel `name`, even if the context has a sticky error.
    pub(crate) fn kernel(&self, name: &str) -> Kernel {
        let mut kernels = self.module.kernels().into_iter();
        kernels.find(|kernel| kernel.name() == name).expect("known")
    }
}

/// Returns the processor time of this thread in seconds.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let time = text.split(' ').next().and_then(|time| time.parse().ok());
    let nanoseconds: f64 = time.expect("a number");
    nanoseconds * 1e-9
}

/// Asserts that `run(4 * size)` needs at most nine times as much processor time as `run(size)`. If
/// the time grew quadratically, it would need 16 times as much. Times below 0.1 s are too small to
/// be compared.
pub(crate) fn assert_linear(name: &str, size: usize, run: impl Fn(usize)) {
    let cost = |size| {
        let start = processor_time();
        run(size);
        processor_time() - start
    };
    let (small, large) = (cost(size), cost(4 * size));
    assert!(large < 9.0 * small.max(0.1), "{name}: {small} s, {large} s");
}
