//! Result files, their readers, and the small files beside them.

mod support;

use std::process::Command;

use margay_probe::{
    Event, Geometry, Level, LocalTime, MapLayout, Offsets, ProbeFile, ResultFile, Storage, Trace,
    TraceError, Warps, kernel_folder, kernel_info, reader, result_file, trace_folder,
};
use support::{shipped, toml, vecadd};

/// The bytes of a file that the original engine wrote: `block_sched` over two CTAs of 128 threads.
const DUMP: &str = "
    02000000 01000000 01000000 80000000 01000000 01000000 00000000 01000000
    10000000 20000000 30000000 00000000
    e8030000 00000000 07000000 00000000 f2030000 00000000 07000000 01000000
    fc030000 00000000 07000000 00000000 06040000 00000000 07000000 01000000
    10040000 00000000 07000000 00000000 1a040000 00000000 07000000 01000000
    24040000 00000000 07000000 00000000 2e040000 00000000 07000000 01000000";

fn dump() -> Vec<u8> {
    let digits: String = DUMP.split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("a byte");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn launch(grid: u32, block: u32) -> Geometry {
    Geometry {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        shared: 0,
    }
}

#[test]
fn the_writer_writes_the_original_bytes() {
    let file = shipped("block_sched");
    let memory = &dump()[48..];
    for storage in [Storage::Plain, Storage::Counted] {
        let layout = MapLayout::new(&file.maps[0], storage);
        let mut device = match storage {
            Storage::Plain => Vec::new(),
            Storage::Counted => layout.header(0).to_vec(),
        };
        device.extend(memory);
        assert_eq!(
            layout.device_bytes(&launch(2, 128)),
            Ok(device.len() as u64)
        );
        let sections = vec![
            layout
                .section(&device, &launch(2, 128))
                .expect("the size is right"),
        ];
        for offsets in [Offsets::Exact, Offsets::Original] {
            let mut out = Vec::new();
            let result = ResultFile {
                launch: launch(2, 128),
                sections: sections.clone(),
                offsets,
            };
            result.write(&mut out).expect("a vector accepts all bytes");
            assert_eq!(out, dump());
        }
    }
}

#[test]
fn the_reader_finds_each_slot() {
    let bytes = dump();
    let trace = Trace::read(&bytes).expect("the file is sound");
    assert_eq!(trace.launch, launch(2, 128));
    let section = trace.sections[0];
    assert_eq!(
        (
            section.slot_bytes,
            section.warp_div,
            section.offset,
            section.slots
        ),
        (16, 32, 48, 8)
    );
    assert_eq!(trace.slot(0, 5), Some(&bytes[48 + 80..48 + 96]));
    assert_eq!(trace.slot(0, 8), None);
    assert_eq!(trace.slot(1, 0), None);
}

#[test]
fn damaged_files_are_refused() {
    let bytes = dump();
    let with = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(Trace::read(&bytes[..31]), Err(TraceError::Short(31)));
    assert_eq!(Trace::read(&bytes[..47]), Err(TraceError::Short(47)));
    assert_eq!(Trace::read(&bytes[..175]), Err(TraceError::Outside(0)));
    assert_eq!(Trace::read(&with(31, 255)), Err(TraceError::Short(176)));
    assert_eq!(Trace::read(&with(0, 0)), Err(TraceError::Launch));
    assert_eq!(Trace::read(&with(36, 31)), Err(TraceError::WarpDiv(0, 31)));
    assert_eq!(Trace::read(&with(47, 255)), Err(TraceError::Outside(0)));
}

/// Runs the generated reader on a result file, and returns the lines that it prints.
fn python(file: &ProbeFile, bytes: &[u8], name: &str) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("margay-probe-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let (script, data) = (folder.join("read.py"), folder.join("0.000001.bin"));
    std::fs::write(&script, reader(file, Warps::RoundedUp)).expect("the reader is written");
    std::fs::write(&data, bytes).expect("the data is written");
    let output = Command::new("python3")
        .arg(&script)
        .arg(&data)
        .output()
        .expect("python3 runs");
    let _ = std::fs::remove_dir_all(&folder);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_generated_reader_reads_the_original_bytes() {
    let lines = python(&shipped("block_sched"), &dump(), "dump");
    assert_eq!(
        lines[0],
        "TraceHeader(gridDimX=2, gridDimY=1, gridDimZ=1, blockDimX=128, blockDimY=1, blockDimZ=1, sharedMemBytes=0, \
         numProbes=1)"
    );
    assert_eq!(lines[1], "block_sched 0 0 (1000, 7, 0)");
    assert_eq!(lines[8], "block_sched 1 3 (1070, 7, 1)");
    assert_eq!(lines.len(), 9);
}

#[test]
fn the_generated_reader_counts_a_last_partial_warp_and_signs_words() {
    let file = toml(
        "[probe.a]\npos = \"kernel\"\nlevel = \"warp\"\nafter = \"SAVE [ M ] { %warpid, -1, %laneid, 7 };\"\n\
         [probe.b]\npos = \"kernel\"\nlevel = \"thread\"\nafter = \"SAVE [ T ] { 5 };\"\n\
         [map.M]\nlevel = \"warp\"\ntype = \"array\"\nsize = 24\ncap = 1\n\
         [map.M.regs]\nwarp = [\"u32\"]\nwide = [\"u64\"]\nclass = [\"u32\"]\nlast = [\"u32\"]\n\
         [map.T]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 1\n[map.T.regs]\nfive = [\"u64\", \"None\"]\n",
    );
    let ran = vecadd(96, 48, 96).probed(&file);
    let lines = python(&file, &ran.file, "partial");
    // The records are stored with the field of 64 bits first.
    assert_eq!(
        &lines[1..5],
        [
            "M 0 0 (-1, 0, 0, 7)",
            "M 0 1 (-1, 1, 0, 7)",
            "M 1 0 (-1, 0, 0, 7)",
            "M 1 1 (-1, 1, 0, 7)"
        ]
    );
    assert_eq!(lines.len(), 1 + 4 + 96);
    assert_eq!(lines[100], "T 1 47 (5,)");
}

#[test]
fn the_generated_reader_reads_dynamic_maps() {
    let file = shipped("dmat");
    let ran = vecadd(64, 32, 40).probed(&file);
    let lines = python(&file, &ran.file, "dynamic");
    assert_eq!(lines.len(), 65);
    assert!(
        lines[1].starts_with("DMAT 0 0 (") && lines[1].contains(&format!(", {})", 5_u64 << 40))
    );
    assert_eq!(lines[64], "DMAT 1 31 (0, 0) (0, 0) (0, 0)");
}

#[test]
fn a_reader_in_the_original_manner_rounds_down() {
    let file = shipped("block_sched");
    assert!(reader(&file, Warps::RoundedDown).contains("slots = threads // section.warpDiv"));
}

#[test]
fn kernel_info_lists_the_maps() {
    assert_eq!(
        kernel_info("vecadd", 4, &shipped("block_sched").maps),
        "vecadd\n4\n1\n1,16\n"
    );
    assert_eq!(
        kernel_info("k", 0, &shipped("dmat").maps),
        "k\n0\n1\n0,-1\n"
    );
    assert_eq!(
        kernel_info("k", 2, &shipped("program_progress").maps),
        "k\n2\n1\n0,1024\n"
    );
}

#[test]
fn folders_have_the_original_names() {
    let start = LocalTime {
        month: 11,
        day: 8,
        hour: 9,
        minute: 5,
        second: 7,
    };
    assert_eq!(trace_folder(start, 4711), "Nov08_090507_4711");
    // The SHA-1 of "abc" in FIPS 180-4's examples.
    assert_eq!(
        kernel_folder(0, "abc"),
        "0_a9993e364706816aba3e25717850c26c9cd0d89d"
    );
    assert_eq!(result_file(1.5), "1.500000.bin");
}

#[test]
fn events_have_the_original_lines() {
    let shape = Geometry {
        grid: [2, 1, 1],
        block: [128, 2, 1],
        shared: 64,
    };
    let lines = [
        (Event::Process(17), "[init] pid 17"),
        (Event::Command("a.out -x "), "[init] cmd 9 a.out -x "),
        (Event::Ready, "[init] success"),
        (
            Event::Module("cuModuleLoadData 0 module 0x1 image 0x2 "),
            "[mod] cuModuleLoadData 0 module 0x1 image 0x2 ",
        ),
        (Event::Image("ptx", 10), "[bin] type ptx size 10"),
        (
            Event::Alloc(0, 0x7f00, 1024),
            "[mem] cuMemAlloc_v2 0 dptr 7f00 bytesize 1024",
        ),
        (Event::Free(0, 0x7f00), "[mem] cuMemFree_v2 0 dptr 7f00"),
        (Event::Unknown(255), "[exec] funcmap-not-find 0xff"),
        (Event::Probe("python succeed", ""), "[probe] python succeed"),
        (
            Event::Probe("mkdir", "/t/kernel/0_a"),
            "[probe] mkdir /t/kernel/0_a",
        ),
        (Event::Count(48), "[count] size: 48 "),
        (Event::Arguments(9, &[16, 255]), "[exec] 9 param 10 ff "),
        (
            Event::Launch(shape),
            "[exec] grid 2 1 1 block 128 2 1 shared 64",
        ),
        (
            Event::Unprobed(shape),
            "[exec] backup 2 1 1 block 128 2 1 shared 64",
        ),
        (
            Event::Map(Level::Thread, 2, 256, 16, 8192),
            "[exec] grid 2 block 256 probe 16 total 8192",
        ),
        (
            Event::Map(Level::Warp, 2, 8, 16, 256),
            "[exec] grid 2 warp  8 probe 16 total 256",
        ),
        (Event::Memory(256), "[exec] probe-mem 256 (bytes)"),
        (Event::Result(0), "[exec] succeed 0"),
        (Event::Result(700), "[exec] failed 700"),
        (Event::Saved("r/1.bin", 176), "[exec] save r/1.bin size 176"),
        (Event::NotSaved("r/1.bin"), "[exec] can't-save r/1.bin"),
        (Event::Dropped("M", 3), "[exec] M: 3 records dropped"),
        (
            Event::Times(1.0, 2.0, 1.0),
            "[exec] prologue 1.000000 kernel 2.000000 epilogue 1.000000 ratio 2.000000",
        ),
        (
            Event::Benchmark(1.0, 3.0, 1.0, 2.0, 0),
            "[benchmark] prologue 1.000000 kernel 3.000000 epilogue 1.000000 original 2.000000 impact 1.500000 0",
        ),
        (
            Event::Callback("python3", "c.py", "1.bin"),
            "[callback] subproc python3 c.py 1.bin",
        ),
        (Event::CallbackEnded(true), "[callback] succeed"),
        (Event::CallbackEnded(false), "[callback] failed"),
    ];
    for (event, line) in lines {
        assert_eq!(event.to_string(), line);
    }
}
