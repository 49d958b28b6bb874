//! Tests that tools which request counts receive the sums of the events that other tools receive.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use margay::observe::{
    Access, AccessCount, AccessKind, Cta, Event, EventKind, Events, Launch, Request, Space, Tool,
    Worker,
};
use margay::{EngineChoice, KernelInfo, LaunchConfig, Runtime, RuntimeBuilder};
use parking_lot::Mutex;

use super::kernels::{BARRIERS, DIVERGENT, MEMORY, module};
use super::run;

/// Runs of instructions: executions by warps, lanes that reach the run, lanes that execute it, and executions that split a
/// warp, by the first instruction and the number of instructions.
type Runs = BTreeMap<(u32, u32), [u64; 4]>;

/// Requests by line, space, kind, lanes, distances between addresses, and the first address modulo the period.
type Requests = BTreeMap<(u32, Space, AccessKind, u32, Vec<u64>, u64), u64>;

/// Numbers of lanes by line, space and kind.
type Lanes = BTreeMap<(u32, Space, AccessKind), u64>;

/// A tool that adds events or receives counts.
#[derive(Default)]
struct Sums {
    counts: bool,
    whole_warps: bool,
    state: Arc<Mutex<State>>,
    /// Whether the tool also receives the instructions of each warp.
    warps: bool,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct State {
    runs: Runs,
    requests: Requests,
    /// Number of accesses that were received as events.
    events: u64,
    /// Number of instructions that warps executed.
    instructions: u64,
}

impl State {
    fn run(&mut self, key: (u32, u32), counts: [u64; 4]) {
        let sums = self.runs.entry(key).or_default();
        sums.iter_mut()
            .zip(counts)
            .for_each(|(sum, count)| *sum += count);
    }

    fn access(&mut self, access: &Access<'_>, requests: u64) {
        let addresses: Vec<u64> = access.lanes().map(|(_, address)| address).collect();
        let first = addresses[0];
        let distances = addresses.iter().map(|address| address.wrapping_sub(first));
        let key = (
            access.position.ptx_line(),
            access.space,
            access.kind,
            access.mask,
            distances.collect(),
            first % AccessCount::PERIOD,
        );
        *self.requests.entry(key).or_default() += requests;
    }

    /// Returns what does not depend on how lanes are grouped: for each run, the numbers of lanes, and for each access the
    /// number of lanes.
    fn of_threads(&self) -> (Vec<[u64; 2]>, Lanes) {
        let mut accesses = Lanes::new();
        for (&(line, space, kind, mask, ..), &requests) in &self.requests {
            let lanes = u64::from(mask.count_ones());
            *accesses.entry((line, space, kind)).or_default() += lanes * requests;
        }
        let runs = self.runs.values().map(|counts| [counts[1], counts[2]]);
        (runs.collect(), accesses)
    }
}

impl Tool for Sums {
    fn name(&self) -> &str {
        "sums"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        let mut request = Request::none()
            .accesses(&Space::ALL, &AccessKind::ALL)
            .events(EventKind::InstructionRuns);
        if self.warps {
            request = request
                .events(EventKind::Ctas)
                .events(EventKind::Synchronisation);
        }
        if self.counts {
            request = request.counts();
        }
        match self.whole_warps {
            true => request.whole_warps(),
            false => request,
        }
    }

    fn events(&self, _: &Launch, events: Events<'_>) {
        let mut state = self.state.lock();
        for event in events {
            match event {
                Event::InstructionRun(run) => {
                    assert!(!self.counts);
                    let (active, executed) = (run.active.count_ones(), run.mask.count_ones());
                    let split = u64::from(executed != 0 && executed != active);
                    let counts = [1, active.into(), executed.into(), split];
                    state.run((run.first, run.count), counts);
                }
                Event::InstructionCount(run) => {
                    assert!(self.counts);
                    let counts = [run.warps, run.active, run.executed, run.split];
                    state.run((run.first, run.count), counts);
                }
                Event::Access(access) => {
                    state.access(&access, 1);
                    state.events += 1;
                }
                Event::AccessCount(count) => {
                    assert!(self.counts && count.requests != 0);
                    state.access(&count.access, count.requests);
                }
                _ => {}
            }
        }
    }

    fn worker(&self, _: &Launch) -> Option<Box<dyn Worker>> {
        let state = Arc::clone(&self.state);
        self.warps
            .then(|| Box::new(Warps { state, since: 0 }) as Box<dyn Worker>)
    }
}

/// Adds the instructions of warps.
struct Warps {
    state: Arc<Mutex<State>>,
    since: u64,
}

impl Worker for Warps {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Access(access) = event {
            self.state.lock().access(access, 1);
        }
    }

    fn instructions(&mut self, _: u32, count: u64) {
        self.since += count;
    }

    fn leave(&mut self, _: &Cta) {
        self.state.lock().instructions += std::mem::take(&mut self.since);
    }
}

/// Runs a kernel with the tool.
fn sums(tool: Sums, text: &str, builder: RuntimeBuilder, config: LaunchConfig) -> State {
    let tool = Arc::new(tool);
    let runtime = builder.tool(tool.clone()).build().expect("built");
    run(text, &runtime, config);
    runtime.synchronize().expect("no fault");
    tool.state.lock().clone()
}

fn counting(whole_warps: bool) -> Sums {
    Sums {
        counts: true,
        whole_warps,
        ..Sums::default()
    }
}

/// A kernel whose lanes access many different patterns of addresses.
const SCATTERED: &str = "
    ld.global.u32 %b, [%own];
    mov.u32 %c, 24;
LOOP:
    mul.lo.u32 %b, %b, 1664525;
    add.u32 %b, %b, 1013904223;
    shr.u32 %d, %b, 20;
    mul.wide.u32 %o, %d, 4;
    add.u64 %x, %buffer, %o;
    ld.global.u32 %a, [%x];
    add.u32 %n, %n, %a;
    sub.u32 %c, %c, 1;
    setp.ne.u32 %p, %c, 0;
    @%p bra LOOP;
    add.u64 %own, %own, 8192;
    st.global.u32 [%own], %n;";

const BODIES: [&str; 4] = [DIVERGENT, BARRIERS, MEMORY, SCATTERED];

#[test]
fn counts_are_the_sums_of_the_events() {
    for body in BODIES {
        let text = module(body);
        for config in [LaunchConfig::new(5, 64), LaunchConfig::new(2, (40, 3))] {
            let builder = || Runtime::builder().workers(1);
            let events = Sums {
                whole_warps: true,
                ..Sums::default()
            };
            let interpreted = builder().engine(EngineChoice::Interpreter);
            let expected = sums(events, &text, interpreted, config);
            for engine in [EngineChoice::Interpreter, EngineChoice::Native] {
                for workers in [1, 3] {
                    let builder = Runtime::builder().workers(workers).engine(engine);
                    let got = sums(counting(true), &text, builder, config);
                    assert_eq!(got.runs, expected.runs, "{engine:?}");
                    assert!(got.requests == expected.requests, "{engine:?}, {body}");
                    assert!(got.events != 0 || body != SCATTERED, "{engine:?}");
                }
            }
        }
    }
}

#[test]
fn tools_with_counts_and_tools_with_events_do_not_change_each_other() {
    for body in BODIES {
        let text = module(body);
        let counts = Arc::new(counting(true));
        let events = Arc::new(Sums {
            whole_warps: true,
            ..Sums::default()
        });
        let builder = Runtime::builder().workers(2).tool(counts.clone());
        let runtime = builder.tool(events.clone()).build().expect("built");
        run(&text, &runtime, LaunchConfig::new(3, 96));
        runtime.synchronize().expect("no fault");
        let (counts, events) = (counts.state.lock(), events.state.lock());
        assert_eq!(counts.runs, events.runs);
        assert!(counts.requests == events.requests);
    }
}

/// Compares the counts of threads with those of the interpreter, for the chunk width that `MARGAY_LANES` selects.
#[test]
fn counts_of_threads_do_not_depend_on_the_engine() {
    for body in BODIES {
        let text = module(body);
        let config = LaunchConfig::new(3, 104);
        let of = |engine, workers| {
            let builder = Runtime::builder().workers(workers).engine(engine);
            sums(counting(false), &text, builder, config).of_threads()
        };
        let expected = of(EngineChoice::Interpreter, 1);
        assert!(!expected.0.is_empty() && !expected.1.is_empty());
        for workers in [1, 3] {
            assert_eq!(of(EngineChoice::Native, workers), expected, "{body}");
        }
    }
}

#[test]
fn all_chunk_widths_count_the_same() {
    let own = std::env::current_exe().expect("known");
    let test = "counts::counts_of_threads_do_not_depend_on_the_engine";
    for lanes in ["1", "4", "16", "32"] {
        let mut command = Command::new(&own);
        command.args([test, "--exact"]).env("MARGAY_LANES", lanes);
        let output = command.output().expect("started");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{lanes} lanes: {text}");
        assert!(text.contains("1 passed"), "{text}");
    }
}

#[test]
fn the_instructions_of_warps_add_up_to_those_of_runs() {
    for body in BODIES {
        for engine in [EngineChoice::Interpreter, EngineChoice::Native] {
            let tool = Sums {
                warps: true,
                ..counting(true)
            };
            let builder = Runtime::builder().workers(2).engine(engine);
            let got = sums(tool, &module(body), builder, LaunchConfig::new(5, 96));
            let runs = got.runs.iter();
            let expected: u64 = runs
                .map(|(&(_, count), counts)| u64::from(count) * counts[0])
                .sum();
            assert_eq!(got.instructions, expected, "{engine:?}");
        }
    }
}
