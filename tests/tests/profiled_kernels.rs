//! Tests of the profiler (`margay_profile`): results that were computed by hand for textbook kernels, comparisons with
//! naive counters in the interpreter, and rules that must name the flaw of one kernel of a pair.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use margay::observe::{Access, AccessKind, Event, EventKind, Events, Launch, Request, Space, Tool};
use margay::{EngineChoice, Image, KernelInfo, LaunchConfig, LoadOptions, Runtime};
use margay_profile::{KernelProfile, Options, Precision, Profile, Profiler, Summary, findings};
use margay_tests::conformance::sample_seed;
use margay_tests::random::generate;
use margay_tests::random::layout::{Layout, inputs};
use margay_tests::random::{seed_of, write};

/// A runtime with a profiler.
fn profiled(options: Options, engine: EngineChoice, workers: usize) -> (Runtime, Arc<Profiler>) {
    let profiler = Arc::new(Profiler::new(options));
    let builder = Runtime::builder().engine(engine).workers(workers);
    let tools = profiler.tools().into_iter();
    let runtime = tools.fold(builder, |builder, tool| builder.tool(tool));
    (runtime.build().expect("built"), profiler)
}

fn find<'a>(profile: &'a Profile, name: &str) -> &'a KernelProfile {
    let found = profile.kernels.iter().find(|kernel| kernel.name == name);
    found.unwrap_or_else(|| panic!("no kernel {name}"))
}

/// What is expected of a textbook kernel.
#[derive(PartialEq, Eq, Debug, Default)]
struct Expected {
    loaded: u64,
    stored: u64,
    /// Requests to global memory, and the sectors that they touch.
    global: (u64, u64),
    /// Requests to shared memory, and the cycles that they take.
    shared: (u64, u64),
    /// Branches that split a warp.
    divergent: u64,
    flops: u64,
}

fn measured(kernel: &KernelProfile) -> Expected {
    let summary = Summary::of(kernel);
    let flops = summary.flops.0.get(&Precision::F32).copied();
    assert_eq!(flops.unwrap_or(0), summary.flops.all());
    Expected {
        loaded: summary.global.loaded,
        stored: summary.global.stored,
        global: (summary.global.requests, summary.global.sectors),
        shared: (summary.shared.requests, summary.shared.cycles),
        divergent: summary.divergent,
        flops: summary.flops.all(),
    }
}

/// Returns the number of conditional branches of a kernel that warps executed.
fn branches(kernel: &KernelProfile) -> u64 {
    Summary::of(kernel).branches
}

/// Launches all kernels of `tests/profile/textbook.cu`.
fn textbook(options: Options, engine: EngineChoice, workers: usize) -> Profile {
    let (runtime, profiler) = profiled(options, engine, workers);
    let text = include_str!("../profile/textbook.ptx");
    let module = runtime.load_ptx(text).expect("loads");
    let kernel = |name: &str| module.kernel(name).expect("known");
    let ones = runtime.upload(&[1f32; 64 * 64]).expect("room");
    let out = runtime.upload(&[0f32; 64 * 64]).expect("room");
    for name in ["transpose_naive", "transpose_tiled", "transpose_padded"] {
        let config = LaunchConfig::new((2, 2), (32, 8));
        let launched = runtime.launch(&kernel(name), config, (&out, &ones, 64u32));
        launched.expect(name);
    }
    for (name, blocks) in [
        ("reduce1", 8),
        ("reduce2", 8),
        ("reduce3", 8),
        ("reduce4", 4),
        ("reduce5", 4),
        ("reduce6", 4),
    ] {
        let config = LaunchConfig::new(blocks, 128).with_shared(512);
        runtime
            .launch(&kernel(name), config, (&out, &ones))
            .expect(name);
        let sums = out.to_vec().expect("read");
        assert_eq!(
            sums[..blocks as usize].iter().sum::<f32>(),
            1024.0,
            "{name}"
        );
    }
    let config = LaunchConfig::new(2, 128).with_shared(512);
    runtime
        .launch(&kernel("reduce7"), config, (&out, &ones, 1024u32))
        .expect("reduce7");
    for name in ["matmul_naive", "matmul_tiled"] {
        let config = LaunchConfig::new((2, 2), (16, 16));
        let arguments = (&out, &ones, &ones, 32u32);
        runtime
            .launch(&kernel(name), config, arguments)
            .expect(name);
    }
    runtime.synchronize().expect("no fault");
    profiler.profile()
}

/// The expected values of the textbook kernels, computed by hand. A warp has 32 lanes, a sector 32 bytes, and shared
/// memory 32 banks of 4 bytes.
fn computed_by_hand() -> Vec<(&'static str, Expected)> {
    // 4 blocks of 8 warps, each with 4 loads and 4 stores of 32 words: 4 sectors if they are contiguous, else 32.
    let transpose = |store_sectors: u64, shared: (u64, u64)| Expected {
        loaded: 4 * 64 * 64,
        stored: 4 * 64 * 64,
        global: (256, 128 * 4 + 128 * store_sectors),
        shared,
        ..Expected::default()
    };
    // 8 blocks of 4 warps load 32 words each and store one word each block. A tree of 128 elements has 127 additions.
    let tree = |shared: (u64, u64), divergent: u64| Expected {
        loaded: 4 * 1024,
        stored: 4 * 8,
        global: (32 + 8, 32 * 4 + 8),
        shared: (8 * shared.0, 8 * shared.1),
        divergent: 8 * divergent,
        flops: 8 * 127,
    };
    // 4 blocks of 4 warps load twice; 128 additions precede the tree.
    let halved = |shared: u64, divergent: u64, flops: u64| Expected {
        loaded: 4 * 1024,
        stored: 4 * 4,
        global: (32 + 4, 32 * 4 + 4),
        shared: (4 * shared, 4 * shared),
        divergent: 4 * divergent,
        flops: 4 * (128 + flops),
    };
    // 4 warps store; each step of a warp is two loads and a store; one thread loads the result.
    let steps = |steps: u64| 4 + 3 * steps + 1;
    vec![
        ("transpose_naive", transpose(32, (0, 0))),
        // A column of 32 rows of 32 words is in one bank.
        ("transpose_tiled", transpose(4, (256, 128 + 128 * 32))),
        ("transpose_padded", transpose(4, (256, 256))),
        // Distances 1 to 16 keep and split all 4 warps, 32 two of them, 64 one; the last branch splits one.
        ("reduce1", tree((steps(23), steps(23)), 24)),
        // Distances 1 to 64 take 2 warps with 2 cycles, then one warp with 4, 4, 4, 4, 2 and 1 cycles.
        ("reduce2", tree((steps(8), steps(2 * 2 + 19)), 6)),
        ("reduce3", tree((steps(8), steps(8)), 6)),
        ("reduce4", halved(steps(8), 6, 127)),
        // Distance 64 has 64 additions; then one warp makes 6 steps with all lanes.
        ("reduce5", halved(steps(8), 1, 64 + 6 * 32)),
        ("reduce6", halved(steps(8), 1, 64 + 6 * 32)),
        (
            "reduce7",
            Expected {
                loaded: 4 * 1024,
                stored: 4 * 2,
                global: (32 + 2, 32 * 4 + 2),
                shared: (2 * steps(8), 2 * steps(8)),
                divergent: 2,
                // Two additions an iteration, and two iterations.
                flops: 2 * (4 * 128 + 64 + 6 * 32),
            },
        ),
        // A warp has 2 rows of 16 columns. Each of 32 steps loads two words (2 sectors) of `a` and 16 words (2
        // sectors) of `b`. The result is 2 rows of 2 sectors.
        (
            "matmul_naive",
            Expected {
                loaded: 2 * 4 * 32 * 32 * 32,
                stored: 4 * 32 * 32,
                global: (32 * 64 + 32, 32 * 64 * 2 + 32 * 4),
                flops: 2 * 32 * 32 * 32,
                ..Expected::default()
            },
        ),
        // Each warp loads 2 rows of 16 words from each matrix for each of 2 tiles. No access to the tiles conflicts.
        (
            "matmul_tiled",
            Expected {
                loaded: 2 * 2 * 4 * 32 * 32,
                stored: 4 * 32 * 32,
                global: (32 * 4 + 32, (32 * 4 + 32) * 4),
                shared: (32 * 2 * (2 + 32), 32 * 2 * (2 + 32)),
                flops: 2 * 32 * 32 * 32,
                ..Expected::default()
            },
        ),
    ]
}

#[test]
fn textbook_kernels_have_the_counts_of_a_calculation_by_hand() {
    for (engine, workers) in [(EngineChoice::Auto, 2), (EngineChoice::Interpreter, 1)] {
        let profile = textbook(Options::default(), engine, workers);
        for (name, expected) in computed_by_hand() {
            assert_eq!(
                measured(find(&profile, name)),
                expected,
                "{name}, {engine:?}"
            );
        }
        // 4 blocks of 8 warps decide 1 + 32 times whether the loop continues.
        assert_eq!(branches(find(&profile, "transpose_naive")), 0);
        assert_eq!(branches(find(&profile, "matmul_naive")), 32 * (1 + 32));
        let tiled = find(&profile, "matmul_tiled");
        // 4 blocks, 2 tiles, 2 barriers a tile, 8 warps each; all warps execute the same instructions.
        let phases: u64 = tiled.barriers.iter().map(|row| row.counts.phases).sum();
        let warps: u64 = tiled.barriers.iter().map(|row| row.counts.warps).sum();
        let waited: u64 = tiled.barriers.iter().map(|row| row.counts.waited).sum();
        assert_eq!((phases, warps, waited), (16, 128, 0));
        let balance = tiled.balance.expect("counted");
        assert_eq!((balance.blocks, balance.least), (4, balance.most));
        assert_eq!(balance.sum, tiled.warp_instructions());
    }
}

#[test]
fn profiles_do_not_depend_on_workers_or_engine() {
    let of = |engine, workers| {
        let mut profile = textbook(
            Options {
                reuse: true,
                ..Options::default()
            },
            engine,
            workers,
        );
        profile.seconds = 0.0;
        profile.timeline.clear();
        for kernel in &mut profile.kernels {
            kernel.seconds = 0.0;
        }
        profile
    };
    let expected = of(EngineChoice::Interpreter, 1);
    let native = of(EngineChoice::Auto, 3);
    for (kernel, other) in native.kernels.iter().zip(&expected.kernels) {
        let name = &kernel.name;
        for (row, other) in kernel.instructions.iter().zip(&other.instructions) {
            assert_eq!(row, other, "{name}");
        }
        assert_eq!(kernel.accesses, other.accesses, "{name}");
        assert_eq!(kernel.barriers, other.barriers, "{name}");
        assert_eq!(kernel, other);
    }
    assert_eq!(native, expected);
    let read = Profile::from_json(expected.to_json().as_bytes());
    assert_eq!(read.as_ref(), Ok(&expected));
    let mut twice = expected.clone();
    twice.merge(expected.clone());
    assert_eq!(twice.kernels.len(), expected.kernels.len());
    let launches = |profile: &Profile| find(profile, "reduce1").launches;
    assert_eq!(launches(&twice), 2 * launches(&expected));
}

#[test]
fn reuse_distances_are_those_of_the_grid_order() {
    let options = Options {
        reuse: true,
        ..Options::default()
    };
    let profile = textbook(options, EngineChoice::Auto, 2);
    // Each request loads or stores one line, and no line is accessed twice.
    let tiled = find(&profile, "transpose_tiled")
        .reuse
        .as_ref()
        .expect("requested");
    assert_eq!(tiled.lines, 2 * 64 * 64 * 4 / 128);
    assert_eq!(tiled.histogram.iter().sum::<u64>(), 0);
    // The naive kernel stores to 32 lines in each request, and to each line 32 times.
    let naive = find(&profile, "transpose_naive")
        .reuse
        .as_ref()
        .expect("requested");
    assert_eq!(naive.lines, tiled.lines);
    assert_eq!(naive.histogram.iter().sum::<u64>(), 128 * 32 - 128);
}

/// Counts of one instruction: executions by warps, lanes that reach it, lanes that execute it, executions that split a
/// warp.
type Instructions = BTreeMap<(u32, String, u32), [u64; 4]>;
/// Counts of one access: requests, lanes, bytes, sectors, best sectors, cycles, best cycles, collisions.
type Accesses = BTreeMap<(u32, String, String), [u64; 8]>;

/// A tool that counts in the simplest way.
#[derive(Default)]
struct Naive {
    instructions: Mutex<Instructions>,
    accesses: Mutex<Accesses>,
}

fn naive_counts(access: &Access<'_>) -> [u64; 8] {
    let lanes: Vec<(u32, u64)> = access.lanes().collect();
    let bytes = u64::from(access.bytes);
    let count = lanes.len() as u64;
    let touched: BTreeSet<u64> = lanes
        .iter()
        .flat_map(|&(_, address)| (address..address + bytes).map(|byte| byte / 32))
        .collect();
    let best = (count * bytes).div_ceil(32);
    let (mut sectors, mut best_sectors, mut cycles, mut best_cycles) = (0, 0, 0, 0);
    match access.space {
        Space::Shared | Space::SharedCluster => {
            let lanes_of_part = match bytes {
                0..=4 => 32,
                5..=8 => 16,
                9..=16 => 8,
                _ => 4,
            };
            let mut parts: BTreeMap<u32, BTreeMap<u64, BTreeSet<u64>>> = BTreeMap::new();
            for &(lane, address) in &lanes {
                let banks = parts.entry(lane / lanes_of_part).or_default();
                for word in (address..address + bytes).map(|byte| byte / 4) {
                    banks.entry(word % 32).or_default().insert(word);
                }
            }
            best_cycles = parts.len() as u64;
            let of_part = |banks: &BTreeMap<u64, BTreeSet<u64>>| {
                banks
                    .values()
                    .map(|words| words.len() as u64)
                    .max()
                    .unwrap_or(0)
            };
            cycles = parts.values().map(of_part).sum();
        }
        Space::Local => (sectors, best_sectors) = (best, best),
        _ => (sectors, best_sectors) = (touched.len() as u64, best),
    }
    let different: BTreeSet<u64> = lanes.iter().map(|&(_, address)| address).collect();
    let collisions = match access.kind {
        AccessKind::Atomic => count - different.len() as u64,
        _ => 0,
    };
    [
        1,
        count,
        count * bytes,
        sectors,
        best_sectors,
        cycles,
        best_cycles,
        collisions,
    ]
}

impl Tool for Naive {
    fn name(&self) -> &str {
        "naive counters"
    }

    fn request(&self, _: &KernelInfo) -> Request {
        Request::none()
            .accesses(&Space::ALL, &AccessKind::ALL)
            .events(EventKind::Instructions)
            .whole_warps()
    }

    fn events(&self, launch: &Launch, events: Events<'_>) {
        for event in events {
            match event {
                Event::Instruction(event) => {
                    let opcode = launch.opcode(&event).to_owned();
                    let key = (event.index, opcode, event.position.ptx_line());
                    let (active, executed) = (event.active.count_ones(), event.mask.count_ones());
                    let split = u64::from(executed != 0 && executed != active);
                    let counts = [1, active.into(), executed.into(), split];
                    let mut all = self.instructions.lock().expect("no thread panics");
                    let sums = all.entry(key).or_default();
                    sums.iter_mut()
                        .zip(counts)
                        .for_each(|(sum, count)| *sum += count);
                }
                Event::Access(access) => {
                    let space = match access.space {
                        Space::Global => "global",
                        Space::Shared => "shared",
                        Space::SharedCluster => "shared::cluster",
                        Space::Local => "local",
                        Space::Constant => "const",
                    };
                    let kind = format!("{:?}", access.kind).to_lowercase();
                    let key = (access.position.ptx_line(), space.to_owned(), kind);
                    let mut all = self.accesses.lock().expect("no thread panics");
                    let sums = all.entry(key).or_default();
                    let counts = naive_counts(&access);
                    sums.iter_mut()
                        .zip(counts)
                        .for_each(|(sum, count)| *sum += count);
                }
                _ => {}
            }
        }
    }
}

/// Returns the counts of a profile in the form of the naive counters.
fn counts_of(profile: &Profile) -> (Instructions, Accesses) {
    let mut instructions = Instructions::new();
    let mut accesses = Accesses::new();
    for kernel in &profile.kernels {
        for row in &kernel.instructions {
            let key = (row.index, row.opcode.clone(), row.source.ptx_line);
            let sums = instructions.entry(key).or_default();
            let counts = [
                row.counts.warps,
                row.counts.active,
                row.counts.executed,
                row.counts.split,
            ];
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        for row in &kernel.accesses {
            let key = (row.source.ptx_line, row.space.clone(), row.kind.clone());
            let sums = accesses.entry(key).or_default();
            let counts = [
                row.counts.requests,
                row.counts.threads,
                row.counts.bytes,
                row.counts.sectors,
                row.counts.ideal_sectors,
                row.counts.cycles,
                row.counts.ideal_cycles,
                row.counts.collisions,
            ];
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
    }
    (instructions, accesses)
}

#[test]
fn random_kernels_have_the_counts_of_naive_counters() {
    for index in 0..60 {
        let kernel = generate::kernel(seed_of(sample_seed(), index));
        let text = write::kernel(&kernel);
        let text = write::header(&text) + &text;
        let run = |runtime: &Runtime| {
            let module = runtime.load_ptx(&text).expect("loads");
            let function = module.kernel(&kernel.name()).expect("known");
            // Allocations of whole pages have the same offsets in sectors in both runtimes.
            let input = runtime.upload(&inputs()).expect("room");
            let layout = Layout::new(kernel.all_threads());
            let out = runtime.upload(&layout.before()).expect("room");
            let seed = kernel.seed as u32 % 1000;
            let arguments = (&input, &out, kernel.all_threads(), seed, 0.75f32);
            let config = LaunchConfig::new(kernel.grid, kernel.block);
            runtime
                .launch(&function, config, arguments)
                .expect("launched");
            out.to_vec().expect("no fault")
        };
        let naive = Arc::new(Naive::default());
        let builder = Runtime::builder().engine(EngineChoice::Interpreter);
        let runtime = builder.tool(naive.clone()).build().expect("built");
        let expected = run(&runtime);
        let (runtime, profiler) = profiled(Options::default(), EngineChoice::Auto, 2);
        let got = run(&runtime);
        let seed = kernel.seed;
        let layout = Layout::new(kernel.all_threads());
        assert_eq!(layout.difference(&expected, &got), None, "{seed:#x}");
        let (instructions, accesses) = counts_of(&profiler.profile());
        let expected = naive.instructions.lock().expect("no thread panics");
        assert_eq!(instructions, *expected, "instructions, seed {seed:#x}");
        let expected = naive.accesses.lock().expect("no thread panics");
        assert_eq!(accesses, *expected, "accesses, seed {seed:#x}");
    }
}

#[test]
fn rules_name_the_flaw_of_one_kernel_of_a_pair() {
    let (runtime, profiler) = profiled(Options::default(), EngineChoice::Auto, 2);
    let text = include_str!("../profile/findings.ptx");
    let module = runtime.load_ptx(text).expect("loads");
    let n = 256 * 64;
    let input = runtime.upload(&vec![0u32; 4 * n + 64]).expect("room");
    let out = runtime.upload(&vec![0u32; n]).expect("room");
    let pairs = [
        ("structures", "uncoalesced", "arrays"),
        ("shifted", "misaligned", "arrays"),
        ("odd_and_even", "divergence", "halves"),
        ("count_all", "atomic-collisions", "count_warps"),
        ("doubles", "double-precision", "floats"),
        ("divisions", "integer-division", "shifts"),
        ("one_warp_works", "barrier-imbalance", "all_warps_work"),
        ("bytes", "narrow-accesses", "words"),
        ("one_block_works", "block-imbalance", "floats"),
        ("dynamic_index", "local-memory", "floats"),
    ];
    let mut launched = BTreeSet::new();
    for name in pairs.iter().flat_map(|(flawed, _, right)| [flawed, right]) {
        if !launched.insert(*name) {
            continue;
        }
        let kernel = module.kernel(name).expect("known");
        let blocks = if name.contains("warp") && !name.contains("count") {
            1
        } else {
            64
        };
        let config = LaunchConfig::new(blocks, 256);
        let done = match kernel.info().params.len() {
            4 => runtime.launch(&kernel, config, (&out, &input, n as u32, 16u32)),
            _ => runtime.launch(&kernel, config, (&out, &input, n as u32)),
        };
        done.expect(name);
    }
    runtime.synchronize().expect("no fault");
    let profile = profiler.profile();
    let findings = findings::of(&profile);
    let rules = |name: &str| -> Vec<&str> {
        let of_kernel = findings.iter().filter(|finding| {
            let kernel = finding.kernel.map(|index| &profile.kernels[index]);
            kernel.is_some_and(|kernel| kernel.name == name)
        });
        of_kernel.map(|finding| finding.rule).collect()
    };
    for (flawed, rule, right) in pairs {
        assert!(
            rules(flawed).contains(&rule),
            "{flawed}: {:?}",
            rules(flawed)
        );
        assert!(!rules(right).contains(&rule), "{right}: {:?}", rules(right));
    }
}

#[test]
fn instructions_of_linked_images_are_counted() {
    const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";
    let caller = format!(
        "{HEAD}.extern .func (.param .b32 r) twice(.param .b32 x);
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    {{
        .param .b32 p; .param .b32 q;
        st.param.b32 [p], %r1;
        call.uni (q), twice, (p);
        ld.param.b32 %r2, [q];
    }}
    st.global.u32 [%rd1], %r2;
    ret;
}}
"
    );
    let callee = format!(
        "{HEAD}.visible .func (.param .b32 r) twice(.param .b32 x) {{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x];
    shl.b32 %r2, %r1, 1;
    st.param.b32 [r], %r2;
    ret;
}}
"
    );
    let (runtime, profiler) = profiled(Options::default(), EngineChoice::Auto, 1);
    let texts = [caller.as_bytes(), callee.as_bytes()];
    let module = runtime
        .load_image(Image::Linked(&texts), &LoadOptions::default())
        .expect("links");
    let out = runtime.upload(&[0u32; 64]).expect("room");
    let kernel = module.kernel("k").expect("known");
    let config = LaunchConfig::new(1, 64);
    runtime.launch(&kernel, config, (&out,)).expect("launched");
    assert_eq!(out.to_vec().expect("no fault")[63], 126);
    let profile = profiler.profile();
    let kernel = find(&profile, "k");
    let counts: Vec<(&str, &str, u64, u64)> = kernel
        .instructions
        .iter()
        .map(|row| {
            (
                &*row.function,
                &*row.opcode,
                row.counts.warps,
                row.counts.executed,
            )
        })
        .collect();
    let of = |function, opcode| (function, opcode, 2, 64);
    let expected = [
        of("k", "ld.param.u64"),
        of("k", "mov.u32"),
        of("k", "mul.wide.u32"),
        of("k", "add.u64"),
        of("k", "st.param.b32"),
        of("k", "call.uni"),
        of("k", "ld.param.b32"),
        of("k", "st.global.u32"),
        of("k", "ret"),
        of("twice", "ld.param.b32"),
        of("twice", "shl.b32"),
        of("twice", "st.param.b32"),
        of("twice", "ret"),
    ];
    assert_eq!(counts, expected);
}
