//! Tests of instruction traces: exact texts that are derived by hand, and equal traces of all engines.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use margay::{EngineChoice, LaunchConfig, Runtime, StreamKind};
use margay_accelsim::{Command, CommandList, GroupedReader, Item, Launch, ReadOptions};
use margay_trace::accelsim::{Architecture, Forms, Options, Tracer};

/// An empty folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("accelsim-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// The PTX text of a kernel with a parameter `p` and registers `%r1` to `%r9`, `%f1` to `%f9`, `%rd1` to `%rd9`, `%p1` to
/// `%p4`.
fn kernel(target: &str, functions: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target {target}\n.address_size 64\n{functions}
.visible .entry kernel(.param .u64 p) {{
.reg .pred %p<5>; .reg .b32 %r<10>; .reg .f32 %f<10>; .reg .b64 %rd<10>; .reg .b16 %h<3>;
.shared .align 16 .b8 tile[1024];
.local .align 8 .b8 own[64];
{body}
}}\n"
    )
}

/// Launches a kernel with a buffer of 4,096 bytes, and returns the address of the buffer.
fn trace(
    folder: &Path,
    options: Options,
    engine: EngineChoice,
    workers: usize,
    (text, grid, block): (&str, u32, u32),
) -> u64 {
    let tracer = Arc::new(Tracer::new(folder, options).expect("a folder"));
    let runtime = Runtime::builder()
        .engine(engine)
        .workers(workers)
        .tool(tracer)
        .build()
        .expect("built");
    let module = runtime.load_ptx(text).expect("loads");
    let kernel = module.kernel("kernel").expect("known");
    let values: Vec<u32> = (0..1024).collect();
    let mut buffer = runtime.upload(&values).expect("room");
    runtime
        .launch(&kernel, LaunchConfig::new(grid, block), (&mut buffer,))
        .expect("launched");
    runtime.synchronize().expect("no fault");
    buffer.ptr().address()
}

const GUARDED: &str = "
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
setp.gt.u32 %p1, %r1, 39;
@%p1 bra DONE;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r1;
DONE: ret;";

#[test]
fn a_trace_has_the_lines_that_the_rules_of_the_format_give() {
    let folder = folder("exact");
    let text = kernel("sm_70", "", GUARDED);
    let address = trace(
        &folder,
        Options::default(),
        EngineChoice::Auto,
        1,
        (&text, 1, 48),
    );
    let trace = fs::read_to_string(folder.join("kernel-1.traceg")).unwrap();
    let (header, body) = trace.split_once("\n\n\n").unwrap();
    for line in [
        "-kernel name = kernel",
        "-kernel id = 1",
        "-grid dim = (1,1,1)",
        "-block dim = (48,1,1)",
        "-shmem = 1024",
        "-binary version = 70",
        "-cuda stream id = 0",
        "-accelsim tracer version = 5",
        "-enable lineinfo = 0",
    ] {
        assert!(
            header.lines().any(|known| known == line),
            "{line}\n{header}"
        );
    }
    let at = |warp: u64| address + 128 * warp;
    // The last warp has 16 lanes, of which those with an index above 39 skip the store.
    let expected = format!(
        "#BEGIN_TB

thread block = 0,0,0

warp = 0
insts = 10
0000 ffffffff 1 R0 MOV 0 0 0 
0010 ffffffff 1 R1 MOV 0 0 0 
0020 ffffffff 1 R2 S2R 0 0 0 
0030 ffffffff 0 ISETP 1 R2 0 0 
0040 00000000 0 BRA 0 0 0 
0050 ffffffff 1 R4 IMAD.WIDE.U32 1 R2 0 0 
0060 ffffffff 1 R6 IADD3 2 R0 R4 0 0 
0070 ffffffff 1 R7 IADD3.X 2 R1 R5 0 0 
0080 ffffffff 0 STG.E 2 R6 R2 4 1 {:#x} 4 0 
0090 ffffffff 0 EXIT 0 0 0 

warp = 1
insts = 10
0000 0000ffff 1 R0 MOV 0 0 0 
0010 0000ffff 1 R1 MOV 0 0 0 
0020 0000ffff 1 R2 S2R 0 0 0 
0030 0000ffff 0 ISETP 1 R2 0 0 
0040 0000ff00 0 BRA 0 0 0 
0050 000000ff 1 R4 IMAD.WIDE.U32 1 R2 0 0 
0060 000000ff 1 R6 IADD3 2 R0 R4 0 0 
0070 000000ff 1 R7 IADD3.X 2 R1 R5 0 0 
0080 000000ff 0 STG.E 2 R6 R2 4 1 {:#x} 4 0 
0090 0000ffff 0 EXIT 0 0 0 

#END_TB
",
        at(0),
        at(1)
    );
    assert_eq!(body.trim_start(), expected);
    let list = fs::read_to_string(folder.join("kernelslist.g")).unwrap();
    assert_eq!(
        list,
        format!("MemcpyHtoD,{address:#018x},4096\nkernel-1.traceg\n")
    );
    let stats = Launch::read(&folder.join("stats.csv")).unwrap();
    assert_eq!((stats[0].total, stats[0].reported), (20, 20));
}

/// Kernels with divergence, loops, barriers, collectives, atomics, shared and local memory, generic addresses, vectors,
/// asynchronous copies, matrix operations, calls, and threads that end early.
fn kernels() -> Vec<(&'static str, String)> {
    let head = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
        mad.lo.u32 %r3, %r2, 64, %r1; and.b32 %r3, %r3, 255; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2;
        ld.global.u32 %r4, [%rd3];\n";
    let plain = |body: &str| kernel("sm_80", "", &format!("{head}{body}"));
    vec![
        ("guarded", kernel("sm_70", "", GUARDED)),
        (
            "divergent",
            plain(
                "and.b32 %r5, %r4, 3; setp.eq.u32 %p1, %r5, 0; @%p1 bra ELSE;
                LOOP: add.u32 %r4, %r4, 3; sub.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra LOOP;
                bra JOIN; ELSE: shl.b32 %r4, %r4, 1; JOIN: st.global.u32 [%rd3], %r4; ret;",
            ),
        ),
        (
            "reduction",
            plain(
                "mov.u32 %r6, tile; shl.b32 %r7, %r1, 2; add.u32 %r6, %r6, %r7; st.shared.u32 [%r6], %r4;
                mov.u32 %r8, 32; AGAIN: bar.sync 0; setp.ge.u32 %p1, %r1, %r8; @%p1 bra SKIP;
                shl.b32 %r7, %r8, 2; add.u32 %r7, %r6, %r7; ld.shared.u32 %r5, [%r7]; ld.shared.u32 %r4, [%r6];
                add.u32 %r4, %r4, %r5; st.shared.u32 [%r6], %r4; SKIP: shr.u32 %r8, %r8, 1;
                setp.ne.u32 %p2, %r8, 0; @%p2 bra AGAIN; setp.ne.u32 %p3, %r1, 0; @%p3 ret;
                cvt.u16.u32 %h1, %r4; atom.global.cas.b16 %h2, [%rd1+6], %h1, %h1;
                atom.global.add.u32 %r5, [%rd1], %r4; red.global.max.u32 [%rd1+8], %r4; ret;",
            ),
        ),
        (
            "warp",
            plain(
                "shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1; vote.sync.ballot.b32 %r6, %p1, -1; add.u32 %r5, %r5, %r6;
                setp.gt.u32 %p2, %r1, 20; @%p2 exit; st.global.u32 [%rd3], %r5; exit;",
            ),
        ),
        (
            "spaces",
            plain(
                "mov.u64 %rd4, own; cvta.local.u64 %rd4, %rd4; and.b32 %r5, %r4, 7; mul.wide.u32 %rd5, %r5, 4;
                add.s64 %rd4, %rd4, %rd5; st.u32 [%rd4], %r4; mov.u64 %rd6, tile; cvta.shared.u64 %rd6, %rd6;
                add.s64 %rd6, %rd6, %rd5; st.u32 [%rd6], %r4; ld.u32 %r6, [%rd4]; ld.global.v2.u32 {%r7, %r8}, [%rd1+16];
                div.u32 %r6, %r6, 3; cvt.rn.f32.u32 %f1, %r6; div.rn.f32 %f1, %f1, 0f40400000; st.global.f32 [%rd3], %f1; ret;",
            ),
        ),
        (
            "copies",
            plain(
                "mov.u32 %r6, tile; shl.b32 %r7, %r1, 2; add.u32 %r6, %r6, %r7;
                cp.async.ca.shared.global [%r6], [%rd3], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
                ld.shared.u32 %r5, [%r6]; st.global.u32 [%rd3], %r5; ret;",
            ),
        ),
        (
            "matrix",
            plain(
                "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r4,%r3}, {%r4}, {%f1,%f2,%f3,%f4};
                st.global.f32 [%rd3], %f1; ret;",
            ),
        ),
        (
            "calls",
            kernel(
                "sm_80",
                ".func (.param .b32 out) twice (.param .b32 in) { .reg .b32 %a<3>; ld.param.b32 %a1, [in];
                 add.u32 %a2, %a1, %a1; st.param.b32 [out], %a2; ret; }",
                &format!(
                    "{head}{{ .param .b32 in; .param .b32 out; st.param.b32 [in], %r4; call (out), twice, (in);
                     ld.param.b32 %r5, [out]; }} st.global.u32 [%rd3], %r5; ret;"
                ),
            ),
        ),
    ]
}

fn raw_and_grouped() -> Options {
    Options {
        forms: Forms {
            raw: true,
            grouped: true,
            packed: false,
        },
        ..Options::default()
    }
}

#[test]
fn all_engines_and_numbers_of_workers_write_the_same_trace() {
    for (name, text) in kernels() {
        let mut traces = Vec::new();
        for (engine, workers) in [
            (EngineChoice::Auto, 1),
            (EngineChoice::Auto, 3),
            (EngineChoice::Interpreter, 2),
        ] {
            let folder = folder(&format!("engines-{name}"));
            let address = trace(&folder, raw_and_grouped(), engine, workers, (&text, 4, 64));
            let read = |file: &str| {
                let text = fs::read_to_string(folder.join(file)).unwrap();
                text.replace(&format!("{address:#x}")[2..11], "ADDRESS")
            };
            traces.push((read("kernel-1.traceg"), read("kernel-1.trace")));
        }
        assert_eq!(traces[0], traces[1], "{name}");
        assert_eq!(traces[0], traces[2], "{name}");
    }
}

/// The reader checks opcodes, addresses, exits and the numbers of CTAs and warps. Grouping the raw trace gives the
/// grouped one.
#[test]
fn the_reader_accepts_every_trace() {
    for (name, text) in kernels() {
        for architecture in Architecture::ALL {
            let folder = folder(&format!("read-{name}-{}", architecture.number()));
            let options = Options {
                architecture: Some(architecture),
                ..raw_and_grouped()
            };
            trace(&folder, options, EngineChoice::Auto, 1, (&text, 3, 48));
            let path = folder.join("kernel-1.traceg");
            let mut reader = GroupedReader::open(&path, &ReadOptions::default()).unwrap();
            let (mut lines, mut lanes) = (0, 0);
            while let Some(item) = reader.next_item().unwrap() {
                if let Item::Instruction(instruction) = item {
                    lines += 1;
                    lanes += u64::from(instruction.mask.count_ones());
                }
            }
            let stats = Launch::read(&folder.join("stats.csv")).unwrap();
            assert_eq!(stats[0].reported, lines, "{name}");
            assert!(lanes > 3 * 48 * 8, "{name}: {lanes}");
            let grouped = folder.join("again.traceg");
            margay_accelsim::group(
                &folder.join("kernel-1.trace"),
                &grouped,
                &Default::default(),
            )
            .unwrap();
            let [expected, again] = [&path, &grouped].map(|path| fs::read_to_string(path).unwrap());
            assert_eq!(expected, again, "{name}");
        }
    }
}

#[test]
fn launches_outside_the_range_are_only_counted() {
    let folder = folder("range");
    let options = Options {
        launches: 2..=3,
        ..Options::default()
    };
    let tracer = Arc::new(Tracer::new(&folder, options).unwrap());
    let runtime = Runtime::builder().tool(tracer).build().unwrap();
    let module = runtime.load_ptx(&kernel("sm_70", "", GUARDED)).unwrap();
    let kernel = module.kernel("kernel").unwrap();
    let context = runtime.context().unwrap();
    let stream = context.create_stream(StreamKind::NonBlocking, 0).unwrap();
    let buffer = runtime.alloc::<u32>(64).unwrap();
    let address = buffer.ptr().address().to_le_bytes();
    for _ in 0..2 {
        let legacy = context.legacy_stream();
        legacy
            .launch(&kernel, LaunchConfig::new(1, 32), &address[..])
            .unwrap();
        stream
            .launch(&kernel, LaunchConfig::new(1, 32), &address[..])
            .unwrap();
    }
    runtime.synchronize().unwrap();
    let list = CommandList::read(&folder.join("kernelslist.g")).unwrap();
    let commands: Vec<&Command> = list.commands.iter().map(|(_, command)| command).collect();
    let [first, second] = [2, 3].map(|number| Command::Kernel(format!("kernel-{number}.traceg")));
    assert_eq!(commands, [&first, &second]);
    let stats = Launch::read(&folder.join("stats.csv")).unwrap();
    let counts: Vec<u64> = stats.iter().map(|launch| launch.total).collect();
    assert_eq!(counts, [0, 10, 10, 0]);
    let stream_of = |number: u32| {
        let text = fs::read_to_string(folder.join(format!("kernel-{number}.traceg"))).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("-cuda stream id = "));
        line.unwrap().to_owned()
    };
    assert_eq!(stream_of(2), stream.id().to_string());
    assert_eq!(stream_of(3), "0");
}

#[test]
fn kernels_with_instructions_that_the_simulator_lacks_are_not_traced() {
    let folder = folder("refused");
    let text = kernel("sm_90", "", "griddepcontrol.wait; ret;");
    trace(
        &folder,
        Options::default(),
        EngineChoice::Auto,
        1,
        (&text, 1, 32),
    );
    assert!(!folder.join("kernel-1.traceg").exists());
    let stats = Launch::read(&folder.join("stats.csv")).unwrap();
    assert_eq!((stats.len(), stats[0].total), (1, 0));
}
