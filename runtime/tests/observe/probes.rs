//! Launches of kernels with probes ([`margay::probe`]).

use std::sync::Arc;

use margay::capture::CaptureMode;
use margay::probe::{
    Beginning, Block, Code, Ended, LaunchProbes, ProbedKernel, ProbedLaunch, Prober, Probes,
    PtxText, Rewritten, Variant,
};
use margay::{DevicePtr, Error, LaunchConfig, Result, Runtime, StreamKind};
use parking_lot::Mutex;

/// Each thread adds 1 to its element of `values`.
const ORIGINAL: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .global .u32 factor = 1;
.visible .entry increment(
    .param .u64 values
)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [values];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    ld.global.u32 %r3, [factor];
    add.u32 %r2, %r2, %r3;
    st.global.u32 [%rd1], %r2;
    ret;
}";

/// Returns the text in which each thread also stores its new value to the block of the probes.
fn probed() -> String {
    let end = "\
    ld.param.u64 %rd3, [probe];
    add.u64 %rd3, %rd3, %rd2;
    ld.param.u32 %r3, [offset];
    add.u32 %r3, %r2, %r3;
    st.global.u32 [%rd3], %r3;
    ret;";
    let params = ".param .u64 values,\n    .param .u64 probe,\n    .param .u32 offset";
    let text = ORIGINAL.replace(".param .u64 values", params);
    text.replace("    ret;", end)
}

/// What the tests configure, and what they observe.
#[derive(Default)]
struct State {
    /// Whether the probed kernel is in another text.
    separate: bool,
    /// Whether the original kernel runs before each launch.
    rehearses: bool,
    /// Whether launches run without probes.
    declines: bool,
    panics: bool,
    /// The values that the launches have stored, and whether a rehearsal came first.
    stored: Mutex<Vec<(Vec<u32>, bool)>>,
    /// The number of rehearsals that have ended.
    rehearsals: Mutex<usize>,
}

#[derive(Clone)]
struct Test(Arc<State>);

impl Prober for Test {
    fn module(&self, text: &PtxText<'_>) -> Option<Rewritten> {
        assert_eq!(text.text, ORIGINAL);
        let kernel = ProbedKernel {
            name: "increment".to_owned(),
            parameters: 1,
            probes: Arc::new(self.clone()),
        };
        Some(Rewritten {
            text: match self.0.separate {
                true => ORIGINAL.to_owned(),
                false => probed(),
            },
            kernels: vec![kernel],
        })
    }
}

impl Probes for Test {
    fn code(&self) -> Code {
        match self.0.separate {
            true => Code::Separate(probed().into()),
            false => Code::InPlace,
        }
    }

    fn rehearsal(&self) -> Option<Variant> {
        self.0.rehearses.then(|| Variant {
            text: ORIGINAL.into(),
            probes: Arc::new(Rehearsal(Arc::clone(&self.0))),
        })
    }

    fn launch(&self, launch: &ProbedLaunch<'_>) -> Result<Option<Box<dyn LaunchProbes>>> {
        assert_eq!(launch.arguments.len(), 8);
        if self.0.declines {
            return Ok(None);
        }
        let bytes = 4 * launch.block.count();
        Ok(Some(Box::new(Run {
            state: Arc::clone(&self.0),
            bytes,
            is_rehearsed: launch.is_rehearsed,
        })))
    }
}

struct Run {
    state: Arc<State>,
    bytes: u64,
    is_rehearsed: bool,
}

impl LaunchProbes for Run {
    fn blocks(&self) -> Vec<Block> {
        vec![Block {
            bytes: self.bytes,
            least: self.bytes,
        }]
    }

    fn begin(&self, blocks: &[(u64, u64)]) -> Beginning {
        Beginning {
            first_bytes: Vec::new(),
            // The upper bits of the second value do not fit the parameter.
            arguments: vec![blocks[0].0, 0xFFFF_FFFF_0000_0064],
        }
    }

    fn end(&self, end: &Ended<'_>) {
        assert!(!self.state.panics, "as the test wants");
        assert!(end.memory.read(0, 1, self.bytes).is_err());
        assert!(end.memory.read(1, 0, 1).is_err());
        let bytes = end.memory.read(0, 0, self.bytes).unwrap();
        let (words, _) = bytes.as_chunks::<4>();
        let words = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
        self.state.stored.lock().push((words, self.is_rehearsed));
    }
}

struct Rehearsal(Arc<State>);

impl Probes for Rehearsal {
    fn launch(&self, _: &ProbedLaunch<'_>) -> Result<Option<Box<dyn LaunchProbes>>> {
        Ok(Some(Box::new(Rehearsal(Arc::clone(&self.0)))))
    }
}

impl LaunchProbes for Rehearsal {
    fn blocks(&self) -> Vec<Block> {
        Vec::new()
    }

    fn begin(&self, _: &[(u64, u64)]) -> Beginning {
        Beginning::default()
    }

    fn end(&self, end: &Ended<'_>) {
        assert!(end.completed);
        *self.0.rehearsals.lock() += 1;
    }
}

/// Launches the kernel with 4 threads twice, once more by a graph, and returns the values.
fn run(state: State) -> Result<(Vec<u32>, Arc<State>)> {
    let state = Arc::new(state);
    let runtime = Runtime::builder()
        .without_disk_cache()
        .prober(Arc::new(Test(Arc::clone(&state))))
        .build()?;
    let module = runtime.load_ptx(ORIGINAL)?;
    let kernel = module.kernel("increment")?;
    // The program sees the original kernel.
    assert_eq!(kernel.params().len(), 1);
    assert_eq!(kernel.empty_params().bytes().len(), 8);
    assert_eq!(module.global("factor")?.size, 4);
    let values = runtime.upload(&[10u32, 20, 30, 40])?;
    let allocated = runtime.memory().info().allocations;
    let config = LaunchConfig::new(1, 4);
    let pointer: DevicePtr = values.ptr();
    let stream = runtime
        .context()?
        .create_stream(StreamKind::NonBlocking, 0)?;
    stream.launch(&kernel, config, (pointer,))?;
    stream.launch(&kernel, config, (pointer,))?;
    stream.begin_capture(CaptureMode::Global)?;
    stream.launch(&kernel, config, (pointer,))?;
    let graph = stream.end_capture()?;
    let graph = graph
        .instantiate(Default::default())
        .expect("a valid graph");
    graph.launch(&stream)?;
    stream.synchronize()?;
    // The blocks of the launches are freed.
    drop(graph);
    assert_eq!(runtime.memory().info().allocations, allocated);
    Ok((values.to_vec()?, state))
}

fn stored(first: u32, is_rehearsed: bool) -> (Vec<u32>, bool) {
    (
        (1..5).map(|lane| 10 * lane + first + 100).collect(),
        is_rehearsed,
    )
}

#[test]
fn probed_kernels_store_to_blocks_of_each_launch() {
    for separate in [false, true] {
        let state = State {
            separate,
            ..State::default()
        };
        let (values, state) = run(state).unwrap();
        assert_eq!(values, [13, 23, 33, 43]);
        let expected = [1, 2, 3].map(|first| stored(first, false));
        assert_eq!(*state.stored.lock(), expected);
    }
}

#[test]
fn a_variant_runs_before_launches_that_are_not_captured() {
    let state = State {
        rehearses: true,
        ..State::default()
    };
    let (values, state) = run(state).unwrap();
    assert_eq!(values, [15, 25, 35, 45]);
    assert_eq!(*state.rehearsals.lock(), 2);
    let expected = [stored(2, true), stored(4, true), stored(5, false)];
    assert_eq!(*state.stored.lock(), expected);
}

#[test]
fn launches_without_their_probes_run_the_original_kernel_or_fail() {
    let declines = |separate| State {
        separate,
        declines: true,
        ..State::default()
    };
    let (values, state) = run(declines(true)).unwrap();
    assert_eq!(values, [13, 23, 33, 43]);
    assert!(state.stored.lock().is_empty());
    assert!(matches!(run(declines(false)), Err(Error::Internal(_))));
}

#[test]
fn a_panic_of_probes_does_not_reach_the_program() {
    let state = State {
        panics: true,
        ..State::default()
    };
    let (values, state) = run(state).unwrap();
    assert_eq!(values, [13, 23, 33, 43]);
    assert!(state.stored.lock().is_empty());
}
