//! Tests that tools receive the same events of random kernels from native code and from the
//! interpreter: the same events of each thread and, if a tool observes whole warps, the same
//! sequence of events of each warp.
//!
//! `MARGAY_SEED` is the random seed of the kernels; with `MARGAY_FULL=1`, twenty times as many kernels run.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use margay::observe::{AccessKind, Event, EventKind, Events, Launch, Request, Space, Tool};
use margay::{EngineChoice, KernelInfo, LaunchConfig, Runtime};
use margay_tests::conformance::sample_seed;
use margay_tests::random::generate;
use margay_tests::random::layout::{Layout, inputs};
use margay_tests::random::program::Kernel;
use margay_tests::random::{seed_of, write};

/// For each CTA and each of its threads or warps: a list of events, with the PTX line and a hash of
/// each event. The hash does not contain addresses in global and constant memory, because they
/// differ between runtimes.
type Table = BTreeMap<(u64, u32), Vec<(u32, u64)>>;

#[derive(Default)]
struct Collector {
    whole_warps: bool,
    table: Mutex<Table>,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Collector {
    /// Adds to `table` an event that occurs in the lanes in `mask`. `of_lane` returns the part of
    /// the event that differs between lanes.
    fn add(
        &self,
        cta: u64,
        (line, warp, mask): (u32, u32, u32),
        of_lane: impl Fn(u32) -> u64,
        table: &mut Table,
    ) {
        let lanes = (0..32).filter(|lane| mask >> lane & 1 != 0);
        if self.whole_warps {
            let all: Vec<(u32, u64)> = lanes.map(|lane| (lane, of_lane(lane))).collect();
            let events = table.entry((cta, warp)).or_default();
            return events.push((line, hash((mask, all))));
        }
        for lane in lanes {
            let events = table.entry((cta, 32 * warp + lane)).or_default();
            events.push((line, of_lane(lane)));
        }
    }
}

impl Tool for Collector {
    fn name(&self) -> &str {
        "collector"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        let all = Request::none()
            .accesses(&Space::ALL, &AccessKind::ALL)
            .events(EventKind::Synchronisation)
            .events(EventKind::Fences)
            .events(EventKind::AsynchronousCopies)
            .events(EventKind::Instructions)
            .events(EventKind::Branches);
        match self.whole_warps {
            true => all.whole_warps(),
            false => all,
        }
    }

    fn events(&self, _: &Launch, events: Events<'_>) {
        let Some(cta) = events.cta() else {
            return;
        };
        let mut table = self.table.lock().expect("no thread panics with the lock");
        for event in events {
            let of =
                |position: margay::observe::Position, warp, mask| (position.ptx_line(), warp, mask);
            let (at, by_lane): (_, Box<dyn Fn(u32) -> u64>) = match event {
                Event::Access(access) => {
                    let lanes: BTreeMap<u32, u64> = access.lanes().collect();
                    let by_lane = move |lane| {
                        let address = match access.space {
                            Space::Global | Space::Constant => 0,
                            _ => lanes[&lane],
                        };
                        hash((access.space, access.kind, access.bytes, address))
                    };
                    let at = of(access.position, access.warp, access.mask);
                    (at, Box::new(by_lane))
                }
                Event::Synchronisation(event) => {
                    let at = of(event.position, event.warp, event.mask);
                    (at, Box::new(move |_| hash(event.operation)))
                }
                Event::Fence(event) => {
                    let at = of(event.position, event.warp, event.mask);
                    (at, Box::new(move |_| hash((event.order, event.scope))))
                }
                Event::CopyGroup(event) => {
                    let at = of(event.position, event.warp, event.mask);
                    (at, Box::new(move |_| hash(event.operation)))
                }
                Event::Instruction(event) => {
                    let at = of(event.position, event.warp, event.active);
                    let executes = move |lane| hash((event.index, event.mask >> lane & 1));
                    (at, Box::new(executes))
                }
                Event::Branch(event) => {
                    let at = of(event.position, event.warp, event.mask);
                    (at, Box::new(move |lane| hash(event.taken >> lane & 1)))
                }
                other => panic!("{other:?} was not requested"),
            };
            self.add(cta.linear, at, by_lane, &mut table);
        }
    }
}

/// Runs a kernel with a tool that collects events. Returns the kernel's output and the events.
fn run(kernel: &Kernel, engine: EngineChoice, whole_warps: bool) -> (Vec<u8>, Table) {
    let tool = Arc::new(Collector {
        whole_warps,
        ..Collector::default()
    });
    let builder = Runtime::builder().engine(engine).tool(tool.clone());
    let runtime = builder.workers(2).build().expect("built");
    let text = write::kernel(kernel);
    let text = write::header(&text) + &text;
    let module = runtime.load_ptx(&text).expect("loads");
    let function = module.kernel(&kernel.name()).expect("known");
    let input = runtime.upload(&inputs()).expect("room");
    let layout = Layout::new(kernel.all_threads());
    let out = runtime.upload(&layout.before()).expect("room");
    let arguments = (
        &input,
        &out,
        kernel.all_threads(),
        kernel.seed as u32 % 1000,
        0.75f32,
    );
    let config = LaunchConfig::new(kernel.grid, kernel.block);
    runtime
        .launch(&function, config, arguments)
        .expect("launched");
    let output = out.to_vec().expect("no fault");
    let table = std::mem::take(&mut *tool.table.lock().expect("no thread panics with the lock"));
    (output, table)
}

/// Returns a description of the first difference between two tables; `None` if they are equal.
fn difference(left: &Table, right: &Table) -> Option<String> {
    for (at, events) in left {
        let Some(others) = right.get(at) else {
            return Some(format!("{at:?}: no events"));
        };
        let pairs = events.iter().zip(others).enumerate();
        if let Some((index, (a, b))) = pairs.clone().find(|(_, (a, b))| a != b) {
            return Some(format!("{at:?}, event {index}: {a:?} and {b:?}"));
        }
        if events.len() != others.len() {
            return Some(format!("{at:?}: {} and {}", events.len(), others.len()));
        }
    }
    (left.len() != right.len()).then(|| format!("{} and {}", left.len(), right.len()))
}

fn compare(whole_warps: bool, count: u64) {
    let full = std::env::var("MARGAY_FULL").is_ok_and(|v| v == "1");
    let count = if full { 20 * count } else { count };
    for index in 0..count {
        let kernel = generate::kernel(seed_of(sample_seed(), index));
        let expected = run(&kernel, EngineChoice::Interpreter, whole_warps);
        let got = run(&kernel, EngineChoice::Auto, whole_warps);
        let seed = kernel.seed;
        let difference = difference(&expected.1, &got.1);
        assert_eq!(difference, None, "seed {seed:#x}");
        let layout = Layout::new(kernel.all_threads());
        assert_eq!(layout.difference(&expected.0, &got.0), None, "{seed:#x}");
    }
}

#[test]
fn threads_have_the_same_events_in_both_engines() {
    compare(false, 20);
}

#[test]
fn warps_have_the_same_events_in_both_engines() {
    compare(true, 20);
}
