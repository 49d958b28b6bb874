//! Programs whose traces ran through the original simulator: Accel-Sim, the front end of the tracer's version 5 with
//! GPGPU-Sim of October 2024, and its configuration of the Quadro V100.
//!
//! `data/programs.xz` has the traces. They are the first 6 launches of programs of `tests/cuda`, as
//! `DYNAMIC_KERNEL_LIMIT_END=6 TERMINATE_UPON_LIMIT=1 margay trace --sm 70 --accelsim FOLDER -- PROGRAM` writes them. A line
//! `=== PROGRAM/FILE` begins each file.

use std::fs;
use std::io::Read;
use std::path::Path;

use lzma_rust2::XzReader;
use margay_sim::{Config, Options, Report};

/// What the original simulator prints for a program.
struct Program {
    name: &'static str,
    /// `gpu_tot_sim_cycle`, with 5,000 for each launch.
    cycles: u64,
    /// `gpu_tot_sim_insn`.
    instructions: u64,
    /// The accesses of the first cache, those of the second one, and the reads of device memory.
    accesses: [u64; 3],
}

const fn program(
    name: &'static str,
    cycles: u64,
    instructions: u64,
    accesses: [u64; 3],
) -> Program {
    Program {
        name,
        cycles,
        instructions,
        accesses,
    }
}

const PROGRAMS: [Program; 22] = [
    program("vector_add", 5766, 243_430, [3753, 3753, 2502]),
    program("saxpy", 10_024, 161_452, [4632, 4632, 3088]),
    program("early_return", 34_763, 34_248, [168, 168, 24]),
    program("bfs", 39_241, 91_323, [657, 551, 108]),
    program("transpose", 12_297, 489_269, [8093, 8093, 947]),
    program("ticket_lock", 9449, 11_140, [400, 600, 2]),
    program("warp_spin_lock", 62_177, 21_891, [294, 2245, 5]),
    program("poll_callback", 10_990, 20, [6, 4, 1]),
    program("poll_host", 26_914, 2370, [790, 15, 1]),
    program("device_printf", 5400, 235, [20, 20, 0]),
    program("device_malloc", 33_926, 28_689, [1698, 1045, 60]),
    program("function_pointers", 22_557, 19_920, [328, 267, 75]),
    program("constant_symbols", 14_176, 13_396, [74, 68, 31]),
    program("managed_memory", 29_498, 10_910, [272, 213, 96]),
    program("dynamic_shared", 16_686, 8309, [39, 39, 10]),
    program("warp_vote", 18_479, 16_576, [1723, 1723, 8]),
    program("half_arithmetic", 17_850, 19_760, [1390, 1390, 76]),
    program("occupancy", 5320, 19_225, [97, 97, 0]),
    program("matrix_inverse", 79_627, 216_319, [289, 289, 144]),
    program("atomics", 89_906, 105_453, [378, 14_228, 7]),
    program("grid_barrier", 81_830, 137_687, [10_935, 1369, 11]),
    program("reduction", 47_264, 1_089_237, [7533, 7533, 2505]),
];

/// Threads of this program race for memory, and the order decides which sectors are fetched.
const RACES: &str = "device_malloc";

/// The largest difference of the cycles of a program, and the largest mean difference, in percent.
const TOLERANCE: f64 = 5.0;
const MEAN_TOLERANCE: f64 = 1.0;

/// Writes the files of the traces into a folder.
fn unpack(folder: &Path) {
    let packed = include_bytes!("data/programs.xz");
    let mut text = String::new();
    let mut reader = XzReader::new(&packed[..], false);
    reader.read_to_string(&mut text).unwrap();
    for file in text.split("=== ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap();
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// Simulates a program as the original simulator does: one kernel after the other, whatever their streams are.
fn simulate(folder: &Path, program: &Program) -> Report {
    let options = Options {
        overlap_streams: false,
        ..Options::default()
    };
    let list = folder.join(program.name).join("kernelslist.g");
    margay_sim::simulate(&list, &Config::builtin("qv100").unwrap(), options).unwrap()
}

#[test]
fn programs_are_close_to_the_original() {
    let folder = tempfile::tempdir().unwrap();
    unpack(folder.path());
    // With -gpgpu_concurrent_kernel_sm 1, the original overlaps the two streams of this program: 5,565 cycles.
    let list = folder.path().join("poll_callback/kernelslist.g");
    let config = Config::builtin("qv100").unwrap();
    let overlapped = margay_sim::simulate(&list, &config, Options::default()).unwrap();
    assert!(overlapped.totals.cycles.abs_diff(5565) < 5);
    let mut sum = 0.0;
    for program in &PROGRAMS {
        let totals = simulate(folder.path(), program).totals;
        let counters = &totals.counters;
        assert_eq!(
            counters.instructions, program.instructions,
            "{}",
            program.name
        );
        let accesses = [
            counters.l1.accesses,
            counters.l2.accesses,
            counters.dram_reads,
        ];
        if program.name == RACES {
            assert!(accesses[2].abs_diff(program.accesses[2]) <= 2);
            assert_eq!(accesses[..2], program.accesses[..2], "{}", program.name);
        } else {
            assert_eq!(accesses, program.accesses, "{}", program.name);
        }
        let difference = (totals.cycles as f64 / program.cycles as f64 - 1.0) * 100.0;
        println!(
            "{:20} {:6} for {:6}: {difference:+5.1} %",
            program.name, totals.cycles, program.cycles
        );
        assert!(difference.abs() < TOLERANCE, "{}", program.name);
        sum += difference.abs();
    }
    let mean = sum / PROGRAMS.len() as f64;
    assert!(mean < MEAN_TOLERANCE, "{mean}");
}
