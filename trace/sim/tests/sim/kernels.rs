//! Occupancy, streams, barriers, copies, and the order of launches.

use std::path::Path;

use margay_accelsim::{Dim3, Fault, Header, ReadOptions};
use margay_sim::{Config, Error, Occupancy, Options, Progress, Report};
use proptest::prelude::*;

use crate::support::{BASE, Kernel, access, op, run, run_with, trace};

fn qv100() -> Config {
    Config::builtin("qv100").unwrap()
}

fn occupancy(config: &str, threads: u32, registers: u32, shared_bytes: u64) -> (u64, &'static str) {
    let grid = Dim3::new(1000, 1, 1);
    let mut header = Header::new("k", 1, grid, Dim3::new(threads, 1, 1));
    header.registers = registers;
    header.shared_bytes = shared_bytes;
    let config = Config::builtin(config).unwrap();
    let occupancy = Occupancy::of(&header, &config).unwrap();
    assert_eq!(
        occupancy.warps,
        occupancy.ctas * u64::from(threads.div_ceil(32))
    );
    (occupancy.ctas, occupancy.limit)
}

#[test]
fn occupancy_follows_the_tightest_resource() {
    // 2048 threads, 32 CTAs, 65536 registers, 98304 bytes of shared memory.
    assert_eq!(occupancy("qv100", 256, 0, 0), (8, "threads"));
    assert_eq!(occupancy("qv100", 32, 0, 0), (32, "CTAs"));
    // 33 threads are two warps.
    assert_eq!(occupancy("qv100", 33, 0, 0), (32, "threads"));
    assert_eq!(occupancy("qv100", 97, 0, 0), (16, "threads"));
    // 255 registers count as 256.
    assert_eq!(occupancy("qv100", 128, 255, 0), (2, "registers"));
    assert_eq!(occupancy("qv100", 128, 65, 0), (7, "registers"));
    // 33 registers count as 36.
    assert_eq!(occupancy("qv100", 128, 33, 0), (14, "registers"));
    assert_eq!(occupancy("qv100", 128, 32, 40_000), (2, "shared memory"));
    assert_eq!(occupancy("qv100", 128, 32, 98_304), (1, "shared memory"));
    assert_eq!(occupancy("rtx2060", 256, 0, 0), (4, "threads"));
    assert_eq!(occupancy("rtx3070", 256, 0, 0), (6, "threads"));
    assert_eq!(occupancy("rtx3070", 64, 0, 102_400), (1, "shared memory"));
}

#[test]
fn a_cta_that_does_not_fit_is_an_error() {
    let mut kernel = Kernel::new(1, 8, |_, _| Vec::new());
    kernel.header.shared_bytes = 98_305;
    let error = run(&[kernel]).unwrap_err().to_string();
    assert_eq!(
        error,
        "kernel 1 (_Z1kv): a CTA needs 98305 bytes of shared memory, a core has 98304"
    );
    let mut kernel = Kernel::new(1, 32, |_, _| Vec::new());
    kernel.header.registers = 100;
    let error = run(&[kernel]).unwrap_err();
    let Error::NoRoom {
        resource,
        needed,
        available,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (resource, needed, available),
        ("registers", 102_400, 65_536)
    );
}

/// A kernel with 400 dependent additions in a stream.
fn adder<'a>(stream: u64, ctas: u32) -> Kernel<'a> {
    let mut kernel = Kernel::new(ctas, 1, |_, _| vec![op("FADD", Some(4), &[4, 5]); 400]);
    kernel.header.stream = stream;
    kernel
}

#[test]
fn kernels_of_a_stream_follow_each_other() {
    let report = run(&[adder(3, 8), adder(3, 8)]).unwrap();
    let [first, second] = &report.kernels[..] else {
        panic!("{report:?}");
    };
    assert_eq!((first.uid, second.uid), (1, 2));
    assert_eq!(second.launched, first.ended);
    assert_eq!(first.cycles(), second.cycles());
    assert_eq!(report.totals.cycles, 2 * first.cycles());
}

#[test]
fn kernels_of_different_streams_overlap() {
    let report = run(&[adder(0, 8), adder(7, 8), adder(0, 8)]).unwrap();
    let alone = run(&[adder(0, 8)]).unwrap().totals.cycles;
    let kernel = |uid: u64| {
        report
            .kernels
            .iter()
            .find(|kernel| kernel.uid == uid)
            .unwrap()
    };
    assert_eq!((kernel(1).launched, kernel(2).launched), (0, 0));
    assert_eq!(kernel(3).launched, kernel(1).ended);
    // They run in different cores.
    assert!(kernel(2).cycles() <= alone + 10);
    assert!(report.totals.cycles <= 2 * alone + 10);
    let options = Options {
        overlap_streams: false,
        ..Options::default()
    };
    let serial = run_with(&[adder(0, 8), adder(7, 8), adder(0, 8)], &qv100(), options).unwrap();
    assert_eq!(serial.totals.cycles, 3 * alone);
}

#[test]
fn ctas_of_a_later_kernel_fill_free_cores() {
    // The first kernel takes all cores; the second one waits until a core is free, unless cores are shared.
    let kernels = || [adder(0, 160), adder(1, 16)];
    let exclusive = run(&kernels()).unwrap();
    let mut config = qv100();
    config.launch.share_cores = true;
    let shared = run_with(&kernels(), &config, Options::default()).unwrap();
    let alone = run(&[adder(0, 160)]).unwrap().totals.cycles;
    assert!(exclusive.totals.cycles > alone + 400 * 7);
    assert!(shared.totals.cycles < alone + 100);
}

fn barrier_kernel<'a>() -> Kernel<'a> {
    // Warp 2 ends after the first of two barriers.
    Kernel::new(2, 4, |cta, warp| {
        let count = if (cta, warp) == (1, 2) { 1 } else { 2 };
        let mut all = vec![op("IADD3", Some(4), &[4])];
        all.extend(vec![op("BAR.SYNC", None, &[]); count]);
        all
    })
}

#[test]
fn warps_that_ended_count_at_barriers_unless_told_otherwise() {
    let report = run(&[barrier_kernel()]).unwrap();
    assert_eq!(report.totals.counters.barriers, 15);
    let options = Options {
        strict_barriers: true,
        ..Options::default()
    };
    let error = run_with(&[barrier_kernel()], &qv100(), options).unwrap_err();
    let Error::Deadlock(deadlock) = &error else {
        panic!("{error}");
    };
    assert_eq!(deadlock.cta, Dim3::new(1, 0, 0));
    assert_eq!((deadlock.index, deadlock.pc, deadlock.missing), (2, 32, 1));
    assert_eq!(
        error.to_string(),
        "deadlock in kernel 1 (_Z1kv): CTA 1,0,0 warp 0 waits at instruction 2 (BAR.SYNC at pc 0x0020) for 1 warps that \
         never arrive"
    );
}

/// Replaces a part of the kernel file of a trace.
fn edit(list: &Path, from: &str, to: &str) {
    let path = list.with_file_name("kernel-1.traceg");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from));
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_barrier_of_a_warp_without_instructions_is_a_deadlock() {
    let kernel = |barriers: usize| {
        Kernel::new(1, 2, move |_, warp| match warp {
            0 => vec![op("BAR.SYNC", None, &[]); barriers],
            _ => Vec::new(),
        })
    };
    let simulate = |barriers: usize| {
        let (_folder, list) = trace(&[kernel(barriers)]);
        edit(
            &list,
            "warp = 1\ninsts = 1\n0000 ffffffff 0 EXIT 0 0 0 \n",
            "warp = 1\ninsts = 0\n",
        );
        let options = Options {
            read: ReadOptions {
                empty_warps: true,
                ..ReadOptions::default()
            },
            ..Options::default()
        };
        margay_sim::simulate(&list, &qv100(), options)
    };
    assert_eq!(simulate(0).unwrap().totals.counters.warp_instructions, 1);
    let error = simulate(1).unwrap_err();
    assert!(matches!(error, Error::Deadlock(_)), "{error}");
}

#[test]
fn faults_of_the_trace_pass_through() {
    let fault = |from: &str, to: &str| {
        let (_folder, list) = trace(&[Kernel::new(2, 1, |_, _| Vec::new())]);
        edit(&list, from, to);
        let error = margay_sim::simulate(&list, &qv100(), Options::default()).unwrap_err();
        let Error::Read(error) = error else {
            panic!("{error}");
        };
        error.fault
    };
    assert!(matches!(fault("EXIT", "VIADD"), Fault::Opcode { .. }));
    assert_eq!(
        fault("grid dim = (2,1,1)", "grid dim = (3,1,1)"),
        Fault::CtaCount { grid: 3, file: 2 }
    );
    assert_eq!(
        fault("grid dim = (2,1,1)", "grid dim = (1,1,1)"),
        Fault::CtaRange {
            cta: Dim3::new(1, 0, 0),
            grid: Dim3::new(1, 1, 1),
        }
    );
    assert_eq!(
        fault("binary version = 70", "binary version = 90"),
        Fault::BinaryVersion(90)
    );
    let missing = margay_sim::simulate(Path::new("no/such/list"), &qv100(), Options::default());
    assert!(matches!(missing, Err(Error::Read(_))));
}

#[test]
fn the_memory_of_resident_ctas_is_limited() {
    let options = Options {
        max_resident_bytes: 1000,
        ..Options::default()
    };
    let error = run_with(&[adder(0, 1)], &qv100(), options).unwrap_err();
    assert!(
        matches!(error, Error::TooLarge { limit: 1000, .. }),
        "{error}"
    );
}

#[test]
fn progress_comes_with_each_kernel_and_can_stop() {
    let mut names = Vec::new();
    let options = Options {
        progress: Box::new(|progress| {
            let Progress::KernelEnded(kernel) = progress else {
                return Ok(());
            };
            names.push(kernel.file.clone());
            match names.len() {
                2 => Err(std::io::Error::other("enough")),
                _ => Ok(()),
            }
        }),
        ..Options::default()
    };
    let error = run_with(&[adder(0, 1), adder(0, 1), adder(0, 1)], &qv100(), options).unwrap_err();
    assert_eq!(error.to_string(), "the simulation was stopped: enough");
    assert_eq!(names, ["kernel-1.traceg", "kernel-2.traceg"]);
}

#[test]
fn reports_have_the_names_of_the_simulator() {
    let report = run(&[adder(5, 2)]).unwrap();
    let mut out = Vec::new();
    report.write(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "kernel_name = _Z1kv",
        "kernel_launch_uid = 1",
        "# estimates of a timing model, not measurements of hardware",
        "gpu_sim_insn = 25664",
        "gpu_tot_sim_insn = 25664",
        "gpu_tot_issued_cta = 2",
        "\tL1D_total_cache_accesses = 0",
        "\tL2_total_cache_accesses = 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    let cycles = report.totals.cycles;
    assert!(text.contains(&format!("gpu_sim_cycle = {cycles}\n")));
    assert!(text.contains(&format!("gpu_ipc = {:12.4}\n", 25664.0 / cycles as f64)));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["kernels"][0]["counters"]["instructions"], 25664);
    assert_eq!(json["note"], margay_sim::NOTE);
}

/// Instructions of the property test, by number.
fn arbitrary(choice: u8, number: u16, address: u64) -> margay_accelsim::Instruction {
    let register = number % 7;
    let at = BASE + address;
    match choice % 14 {
        0 => op("FADD", Some(register), &[register, 1]),
        1 => op("IMAD", Some(register), &[register, 2, 3]),
        2 => op("MUFU.RCP", Some(register), &[register]),
        3 => op("DFMA", Some(register), &[register]),
        4 => op("BRA", None, &[]),
        5 => op("BAR.SYNC", None, &[]),
        6 => op("MEMBAR.SC.GPU", None, &[]),
        7 => access(
            "LDG.E.64",
            Some(register),
            &[register],
            at,
            i64::from(number % 64) * 8,
        ),
        8 => access("STG.E", None, &[register, 1], at, 4),
        9 => access("ATOMG.E.ADD.STRONG.GPU", Some(register), &[register], at, 0),
        10 => access(
            "LDS",
            Some(register),
            &[register],
            address,
            i64::from(number % 33) * 4,
        ),
        11 => access("LDGSTS.E", None, &[register], at, 16),
        12 => op("LDGDEPBAR", None, &[]),
        _ => op("DEPBAR.LE", None, &[]),
    }
}

fn simulate_arbitrary(
    warps: &[Vec<(u8, u16, u64)>],
    ctas: u32,
    config: &Config,
) -> Result<Report, Error> {
    let warp = |_, warp: u32| {
        let all = warps[warp as usize].iter();
        all.map(|(choice, number, address)| arbitrary(*choice, *number, *address))
            .collect()
    };
    let mut kernel = Kernel::new(ctas, warps.len() as u32, warp);
    kernel.header.binary_version = 86;
    run_with(&[kernel], config, Options::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn all_traces_end_and_always_equally(
        warps in prop::collection::vec(prop::collection::vec((any::<u8>(), any::<u16>(), 0..1_u64 << 40), 0..20), 1..6),
        ctas in 1..12_u32,
        greedy in any::<bool>(),
    ) {
        let mut config = Config::builtin("rtx3070").unwrap();
        config.clusters = 3;
        if greedy {
            config.core.policy = margay_sim::Policy::GreedyThenOldest;
        }
        let report = simulate_arbitrary(&warps, ctas, &config).unwrap();
        let instructions: usize = warps.iter().map(|warp| warp.len() + 1).sum();
        let counters = &report.totals.counters;
        prop_assert_eq!(counters.warp_instructions, instructions as u64 * u64::from(ctas));
        prop_assert_eq!(counters.instructions, counters.warp_instructions * 32);
        prop_assert_eq!(counters.ctas, u64::from(ctas));
        prop_assert_eq!(report, simulate_arbitrary(&warps, ctas, &config).unwrap());
    }
}
