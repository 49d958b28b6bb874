//! Each row of the table of quirks: the default behaviour, and the original's.

mod support;

use std::sync::Arc;

use margay_frontend::{SourceFile, parse};
use margay_probe::{
    Addresses, AfterTransfer, Capacity, Geometry, Level, MapLayout, Matching, Offsets, Options,
    Outcome, ProbeFile, ResultFile, Selection, Storage, Warps, compat, reader, rewrite,
};
use support::{Argument, FIRST, Launch, halves, rewritten, shipped, toml, vecadd, words};

/// A probe file with one probe of threads and a map of one word.
fn counter(pos: &str, text: &str) -> ProbeFile {
    toml(&format!(
        "regs = 2\n[probe.count]\npos = \"{pos}\"\nlevel = \"thread\"\n{text}\n\
         [probe.end]\npos = \"kernel\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] {{ %NR0 }};\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 1\n[map.M.regs]\ncount = [\"u64\", \"None\"]\n"
    ))
}

fn adding(pos: &str) -> ProbeFile {
    counter(pos, "before = \"add.u64 %NR0, %NR0, 1;\"")
}

/// Returns the first word of the first slot.
fn first(launch: &Launch, file: &ProbeFile, options: Options) -> u64 {
    launch.probed_with(file, options, 1 << 16).words(0, 0)[0]
}

fn small(text: &'static str, threads: u32, bytes: usize) -> Launch<'static> {
    Launch {
        text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        arguments: vec![Argument::Buffer((0..bytes).map(|i| i as u8).collect())],
    }
}

#[test]
fn substrings_match_only_on_request() {
    let substring = Options {
        matching: Matching::Substring,
        ..Options::default()
    };
    let launch = vecadd(1, 1, 1);
    // `add.s64` three times, and `add.f32`.
    assert_eq!(first(&launch, &adding("add"), Options::default()), 4);
    // Also `mad`, no; but each `ld.param` names `vecadd_param`.
    assert_eq!(first(&launch, &adding("add"), substring), 8);
    // In the original, the line with the kernel's name matches too, and has no semicolon.
    let refused =
        compat::probe("t", launch.text, "vecadd", &adding("add")).expect_err("the original stops");
    assert_eq!(
        refused.message,
        "the line `.visible .entry vecadd(` has no semicolon"
    );
    let (_, maps) = launch.compat(&adding("param_1"));
    assert_eq!(words(&maps[0]), [1]);
}

const GUARDED: &str = ".version 7.0\n.target sm_80\n.address_size 64
.visible .entry k(
    .param .u64 p
)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 3;
    @%p1 ld.global.u32 %r2, [%rd1+8];
    @!%p1 ld.global.u32 %r2, [%rd1+4];
    ret;
}
";

#[test]
fn the_guard_is_copied() {
    let launch = small(GUARDED, 8, 16);
    let file = adding("@%p1 ld");
    let ran = launch.probed(&file);
    assert_eq!(words(&ran.file[48..]), [1, 1, 1, 0, 0, 0, 0, 0]);
    let ran = launch.probed(&counter(
        "@!%p1 ld",
        "before = \"add.u64 %NR0, %NR0, IN1;\"",
    ));
    assert_eq!(words(&ran.file[48..])[2..4], [0, FIRST + 4]);
    let (_, maps) = launch.compat(&counter("ld.global", "before = \"mov.u64 %NR0, 1;\""));
    assert_eq!(words(&maps[0]), [1; 8]);
}

const BRANCHES: &str = ".version 7.0\n.target sm_80\n.address_size 64
.visible .entry k(
    .param .u64 p
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, 0;
AGAIN:
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra AGAIN;
    bra END;
END:
    ret;
}
";

#[test]
fn text_behind_a_branch_runs_where_it_is_taken() {
    let launch = small(BRANCHES, 1, 8);
    let file = counter("bra", "after = \"add.u64 %NR0, %NR0, 1;\"");
    assert_eq!(first(&launch, &file, Options::default()), 5);
    let behind = Options {
        after_transfer: AfterTransfer::Behind,
        ..Options::default()
    };
    // The text behind the first branch has the branch's guard, which is false there.
    assert_eq!(first(&launch, &file, behind), 0);
    let start = counter("bra", "after = \"add.u64 %NR0, %NR0, 1;\"\nlabel = \"\"");
    let (_, maps) = launch.compat(&start);
    assert_eq!(words(&maps[0]), [0]);
}

#[test]
fn addresses_include_the_offset() {
    let launch = small(GUARDED, 1, 16);
    let file = counter("ld.global", "after = \"mov.u64 %NR0, ADDR;\"");
    assert_eq!(first(&launch, &file, Options::default()), FIRST + 8);
    let base = Options {
        addresses: Addresses::Base,
        ..Options::default()
    };
    assert_eq!(first(&launch, &file, base), FIRST);
    let (_, maps) = launch.compat(&file);
    assert_eq!(words(&maps[0]), [FIRST]);
}

const COPY: &str = ".version 7.0\n.target sm_80\n.address_size 64
.visible .entry k(
    .param .u64 p
)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    .shared .align 16 .b8 s[64];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, s;
    cp.async.ca.shared.global [%r1+16], [%rd1+32], 16;
    cp.async.cg.shared.global [%r1], [%rd1], 16, 8;
    cp.async.wait_all;
    ret;
}
";

#[test]
fn bytes_of_copies_are_their_size() {
    let launch = small(COPY, 1, 64);
    let ran = launch.probed(&shipped("gmem_bytes"));
    assert_eq!(halves(&ran.file[48..]), [0, 32]);
    let refused =
        compat::probe("t", COPY, "k", &shipped("gmem_bytes")).expect_err("the text is not valid");
    assert!(refused.message.contains("BYTES"), "{refused}");
    let dmat = launch.probed(&shipped("dmat"));
    let addresses: Vec<u64> = dmat.words(0, 0).chunks(2).map(|record| record[1]).collect();
    assert_eq!(addresses, [FIRST + 32, FIRST]);
}

#[test]
fn warps_probe_predicated_instructions() {
    let file = toml(
        "regs = 1\n[probe.a]\npos = \"ld.global\"\nlevel = \"warp\"\nbefore = \"SAVE [ M ] { ADDR, %laneid };\"\n\
         [map.M]\nlevel = \"warp\"\ntype = \"array\"\nsize = 16\ncap = 4\n[map.M.regs]\na = [\"u64\"]\nl = [\"u64\"]\n",
    );
    // In the second warp, lane 0 takes the second load.
    let ran = small(GUARDED, 64, 16).probed(&file);
    assert_eq!(ran.words(0, 0)[..4], [FIRST + 8, 0, 0, 0]);
    assert_eq!(ran.words(0, 1)[..4], [FIRST + 4, 0, 0, 0]);
    let refused = compat::probe("t", GUARDED, "k", &file).expect_err("the original fails");
    assert!(refused.message.contains("predicate"), "{refused}");
}

#[test]
fn saves_at_the_start_of_a_kernel_work_and_are_guarded() {
    let file = toml(
        "regs = 1\n[probe.a]\npos = \"kernel\"\nlevel = \"warp\"\n\
         before = \"add.u64 %NR0, %NR0, 7;\\nSAVE [ M ] { %NR0 };\"\n\
         [probe.b]\npos = \"kernel\"\nlevel = \"thread\"\nafter = \"SAVE [ T ] { %NR0 };\"\n\
         [map.M]\nlevel = \"warp\"\ntype = \"array\"\nsize = 8\ncap = 2\n[map.M.regs]\na = [\"u64\"]\n\
         [map.T]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 1\n[map.T.regs]\na = [\"u64\"]\n",
    );
    let ran = small(GUARDED, 40, 16).probed(&file);
    assert_eq!((ran.words(0, 0), ran.words(0, 1)), (vec![7, 0], vec![7, 0]));
    // The other statements run in all lanes.
    assert!((0..40).all(|thread| ran.words(1, thread) == [7]));
    assert_eq!(ran.dropped, [0, 0]);
    let refused = compat::probe("t", GUARDED, "k", &file).expect_err("the original copies `SAVE`");
    assert!(refused.message.contains("not valid PTX"), "{refused}");
}

#[test]
fn registers_start_at_zero() {
    let file = counter("st", "before = \"add.u64 %NR0, %NR0, 1;\"");
    let text = &rewritten(GUARDED, &file, Options::default()).text;
    assert!(
        text.contains("nr0, 0;") && text.contains("nr1, 0;"),
        "{text}"
    );
    let original = compat::probe("t", GUARDED, "k", &file)
        .expect("the probes fit")
        .probed;
    assert!(
        original.contains(".reg .u64 %NR<3>;") && !original.contains("%NR0, 0"),
        "{original}"
    );
}

#[test]
fn saves_beyond_the_capacity_are_dropped_and_counted() {
    let file = toml(
        "[probe.a]\npos = \"ld.global\"\nlevel = \"thread\"\nbefore = \"SAVE [ M ] { ADDR };\\nSAVE [ M ] { 1 };\\n\
         SAVE [ M ] { 2 };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 2\n[map.M.regs]\na = [\"u64\"]\n",
    );
    let ran = small(GUARDED, 2, 16).probed(&file);
    assert_eq!(words(&ran.file[48..]), [FIRST + 8, 1, FIRST + 8, 1]);
    assert_eq!(ran.dropped, [2]);
    let zero = toml(
        "[probe.a]\npos = \"ld.global\"\nlevel = \"thread\"\nbefore = \"SAVE [ M ] { ADDR };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 0\n[map.M.regs]\na = [\"u64\"]\n",
    );
    assert_eq!(small(GUARDED, 2, 16).probed(&zero).dropped, [2]);
    // In the original, the third record of thread 0 is in the slot of thread 1.
    let text = compat::probe("t", GUARDED, "k", &file)
        .expect("the probes fit")
        .probed;
    assert!(!text.contains("setp.lt.u64"));
}

#[test]
fn a_partial_last_warp_has_a_slot() {
    let launch = Geometry {
        grid: [2, 1, 1],
        block: [48, 1, 1],
        shared: 0,
    };
    let map = shipped("block_sched").maps[0].clone();
    let layout = MapLayout::new(&map, Storage::Plain);
    assert_eq!(layout.slots(&launch), Ok(4));
    let sections = |memory| {
        let section = layout.section(memory, &launch).expect("the size is right");
        vec![section.clone(), section]
    };
    let memory = [0; 64];
    let offset = |offsets| {
        let mut out = Vec::new();
        let result = ResultFile {
            launch,
            sections: sections(&memory),
            offsets,
        };
        result.write(&mut out).expect("a vector accepts all bytes");
        assert_eq!(out.len(), 64 + 2 * 64);
        words(&out[32..64])[3]
    };
    assert_eq!(offset(Offsets::Exact), 64 + 64);
    // 2 x 48 x 16 / 32 bytes.
    assert_eq!(offset(Offsets::Original), 64 + 48);
    assert_ne!(
        reader(&shipped("dmat"), Warps::RoundedUp),
        reader(&shipped("dmat"), Warps::RoundedDown)
    );
    // The original's kernel computes the slots with rounded-down numbers, so that slots of two CTAs collide.
    let (_, maps) = vecadd(96, 48, 96).compat(&shipped("block_sched"));
    assert_eq!(maps[0].len(), 64);
    assert_eq!(words(&maps[0])[6], 0, "the last slot is not written");
}

#[test]
fn several_dynamic_maps_need_one_run() {
    let file = toml(
        "[probe.a]\npos = \"ld.global\"\nlevel = \"thread\"\nbefore = \"SAVE [ A ] { ADDR };\"\n\
         [probe.b]\npos = \"st.global\"\nlevel = \"warp\"\nbefore = \"SAVE [ B ] { ADDR, 3 };\"\n\
         [map.A]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = \"dynamic\"\n[map.A.regs]\na = [\"u64\"]\n\
         [map.B]\nlevel = \"warp\"\ntype = \"array\"\nsize = 16\ncap = \"dynamic\"\n\
         [map.B.regs]\na = [\"u64\"]\nb = [\"u64\"]\n",
    );
    let ran = vecadd(64, 32, 64).probed(&file);
    assert_eq!(ran.words(0, 5), [FIRST + (1 << 40) + 20, FIRST + 20]);
    assert_eq!(ran.words(1, 1), [FIRST + (2 << 40) + 128, 3]);
    assert_eq!(ran.dropped, [0, 0]);
    // The original counts in a run of its own, and only one map.
    let kernel =
        compat::probe("t", support::VECADD, "vecadd", &shipped("dmat")).expect("the probes fit");
    let countd = kernel.countd.expect("a dynamic map is counted");
    assert!(countd.contains("param_Count") && countd.contains("add.u64 %NR0, %NR0, 16;"));
    let (_, maps) = vecadd(64, 32, 40).compat(&shipped("dmat"));
    assert_eq!(maps[0].len(), 64 * 48);
    let refused =
        compat::probe("t", support::VECADD, "vecadd", &file).expect_err("a dynamic map of warps");
    assert!(
        refused.message.contains("no dynamic maps of warps"),
        "{refused}"
    );
}

#[test]
fn an_odd_number_of_words_is_padded() {
    let file = toml(
        "[probe.a]\npos = \"kernel\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] { 1, 2, 3, 4 };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 24\ncap = 2\n\
         [map.M.regs]\na = [\"u64\"]\nb = [\"u32\"]\nc = [\"u32\"]\nd = [\"u32\"]\n",
    );
    let ran = small(GUARDED, 1, 16).probed(&file);
    assert_eq!(
        halves(&ran.slot(0, 0)),
        [1, 0, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0]
    );
    let refused = compat::probe("t", GUARDED, "k", &file).expect_err("the original stops");
    assert!(refused.message.contains("odd number"), "{refused}");
}

const EXIT: &str = ".version 7.0\n.target sm_80\n.address_size 64
.visible .entry k(
    .param .u64 p
)
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 2;
    @%p1 exit;
    ret;
}
";

#[test]
fn threads_that_exit_run_the_end() {
    let file = toml(
        "[probe.a]\npos = \"kernel\"\nlevel = \"thread\"\nafter = \"SAVE [ M ] { 9 };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 1\n[map.M.regs]\na = [\"u64\"]\n",
    );
    let launch = small(EXIT, 4, 8);
    let ran = launch.probed(&file);
    assert_eq!(words(&ran.file[48..]), [9; 4]);
    assert_eq!(ran.dropped, [0]);
    let (_, maps) = launch.compat(&file);
    assert_eq!(words(&maps[0]), [0, 0, 9, 9]);
}

#[test]
fn words_are_signed_in_the_reader() {
    assert!(reader(&shipped("dmat"), Warps::RoundedUp).contains("struct.Struct(\"<qq\")"));
    assert!(reader(&shipped("block_sched"), Warps::RoundedUp).contains("struct.Struct(\"<qII\")"));
}

#[test]
fn the_example_of_packing() {
    let file = toml(
        "regs = 3\n[probe.a]\npos = \"ld.global\"\nlevel = \"thread\"\n\
         after = \"\"\"mov.u64 %NR0, 100;\nmov.u64 %NR2, 102;\nmov.u64 %NR3, 0x1234567890;\n\
         SAVE [ M ] { %NR0, ADDR, %NR2, BYTES, %NR3 }\"\"\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 32\ncap = 1\n\
         [map.M.regs]\na = [\"u64\"]\nb = [\"u64\"]\nc = [\"u64\"]\nd = [\"u32\"]\ne = [\"u32\"]\n",
    );
    let launch = small(GUARDED, 1, 16);
    let record = launch.probed(&file).slot(0, 0);
    assert_eq!(words(&record[..24]), [100, FIRST + 8, 102]);
    assert_eq!(halves(&record[24..]), [4, 0x3456_7890]);
    let (_, maps) = launch.compat(&file);
    assert_eq!(words(&maps[0][..24]), [100, FIRST, 102]);
    assert_eq!(halves(&maps[0][24..]), [4, 0x3456_7890]);
}

#[test]
fn the_text_behind_a_kernel_runs_once() {
    // In the original, the second copy is behind the `ret` and never runs.
    let file = toml(
        "[probe.a]\npos = \"kernel:ret\"\nlevel = \"thread\"\nbefore = \"mov.u64 %NR0, 1;\"\nafter = \"SAVE [ M ] { %NR0 };\"\n\
         [map.M]\nlevel = \"thread\"\ntype = \"array\"\nsize = 8\ncap = 2\n[map.M.regs]\na = [\"u64\"]\n",
    );
    let launch = small(GUARDED, 1, 16);
    assert_eq!(launch.probed(&file).words(0, 0), [1, 0]);
    let (_, maps) = launch.compat(&file);
    assert_eq!(words(&maps[0]), [1, 0]);
}

#[test]
fn narrow_modules_and_old_versions_are_refused() {
    let fails = |text: &str| {
        let parsed = parse(Arc::new(SourceFile::new("old.ptx", text)));
        let done = rewrite(
            &parsed,
            &shipped("dmat"),
            &Selection::default(),
            Options::default(),
        );
        done.expect_err("the module cannot be probed").to_string()
    };
    assert_eq!(
        fails(".version 3.0\n.target sm_20\n.address_size 32\n.entry k { ret; }"),
        "old.ptx:3: probes need `.address_size 64`"
    );
    assert_eq!(
        fails(".version 1.4\n.target sm_13\n.entry k { exit; }"),
        "old.ptx:1: probes need `.version 2.0` or later, but the module has 1.4"
    );
    assert_eq!(
        fails(".version 2.3\n.target sm_13\n.address_size 64\n.entry k { exit; }"),
        "old.ptx:2: probes need the target `sm_20` or later"
    );
    assert_eq!(
        fails(".version 7.0\n.target sm_80\n.address_size 64\n.entry k { rett; }")
            .split(": ")
            .next(),
        Some("old.ptx:4")
    );
}

#[test]
fn old_modules_with_wide_addresses_are_probed() {
    let text = ".version 2.3\n.target sm_20\n.address_size 64\n.entry k(.param .u64 p) {\n\
                .reg .u64 %a; .reg .u32 %b; ld.param.u64 %a, [p]; ld.global.u32 %b, [%a+4]; exit; }";
    let launch = Launch {
        text,
        kernel: "k",
        grid: [1, 1, 1],
        block: [1, 1, 1],
        arguments: vec![Argument::Buffer(vec![0; 8])],
    };
    assert_eq!(launch.probed(&shipped("dmat")).words(0, 0)[1], FIRST + 4);
}

#[test]
fn kernels_of_a_selection_are_probed() {
    let text = ".version 7.0\n.target sm_80\n.address_size 64\n.entry aa() { ret; }\n.entry ab { ret; }\n.entry bb() { ret; }";
    let parsed = parse(Arc::new(SourceFile::new("t.ptx", text)));
    let names = |only: &str, except: &str| {
        let selection = Selection::new(only, except);
        let done = rewrite(
            &parsed,
            &shipped("block_sched"),
            &selection,
            Options::default(),
        )
        .expect("it can be probed");
        let probed = done
            .kernels
            .iter()
            .filter(|kernel| matches!(kernel.outcome, Outcome::Probed(2)));
        probed
            .map(|kernel| kernel.name.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names("", ""), "aa ab bb");
    assert_eq!(names("", "b:"), "aa");
    assert_eq!(names("a:x", ""), "aa ab");
    assert_eq!(names("a", "ab"), "aa");
}

#[test]
fn memory_that_is_too_small_drops_records() {
    let file = shipped("dmat");
    assert_eq!(file.maps[0].capacity, Capacity::Dynamic);
    assert_eq!(file.maps[0].level, Level::Thread);
    let launch = vecadd(64, 32, 64);
    let layout = MapLayout::new(&file.maps[0], Storage::Counted);
    // Header, and 64 chunks of 16 + 4 x 16 bytes.
    assert_eq!(layout.device_bytes(&launch.geometry()), Ok(32 + 64 * 80));
    let ran = launch.probed_with(&file, Options::default(), 32 + 64 * 80);
    assert_eq!(ran.dropped, [0]);
    let ran = launch.probed_with(&file, Options::default(), 32 + 10 * 80 + 79);
    assert_eq!(ran.dropped, [54 * 3]);
    let counts = (0..64)
        .filter(|&thread| ran.words(0, thread)[5] != 0)
        .count();
    assert_eq!(counts, 10);
    let ran = launch.probed_with(&file, Options::default(), 32);
    assert_eq!((ran.dropped[0], ran.file.len()), (64 * 3, 48));
}
