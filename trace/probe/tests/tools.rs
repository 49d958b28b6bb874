//! The shipped probe files on kernels whose counts and addresses are known.

mod support;

use margay_probe::{Faults, Options, TOOLS, load};
use support::{Argument, FIRST, Launch, halves, shipped, vecadd, words};

const STEP: u64 = 1 << 40;

#[test]
fn vecadd_requests_twelve_bytes_in_each_thread() {
    let ran = vecadd(256, 128, 256).probed(&shipped("gmem_bytes"));
    let records = halves(&ran.file[48..]);
    assert_eq!(records.len(), 512);
    assert!(records.chunks(2).all(|record| record == [12, 0]));
    assert_eq!(records.iter().sum::<u32>(), 3072);
    assert_eq!(ran.dropped, [0]);
}

#[test]
fn threads_beyond_the_array_request_nothing() {
    let ran = vecadd(256, 128, 200).probed(&shipped("gmem_bytes"));
    let records = halves(&ran.file[48..]);
    let sums: Vec<u32> = records.chunks(2).map(|record| record[0]).collect();
    assert!(sums[..200].iter().all(|&sum| sum == 12));
    assert!(sums[200..].iter().all(|&sum| sum == 0));
}

#[test]
fn dmat_records_the_three_addresses_in_order() {
    let ran = vecadd(64, 32, 40).probed(&shipped("dmat"));
    for thread in 0..64 {
        let found = ran.words(0, thread);
        assert_eq!(
            found.len(),
            6,
            "the section has the size of the longest slot"
        );
        let addresses: Vec<u64> = found.chunks(2).map(|record| record[1]).collect();
        let expected = match thread < 40 {
            // The program loads b before a.
            true => [FIRST + STEP, FIRST, FIRST + 2 * STEP].map(|base| base + 4 * thread),
            false => [0; 3],
        };
        assert_eq!(addresses, expected, "thread {thread}");
        if thread < 40 {
            let clocks: Vec<u64> = found.chunks(2).map(|record| record[0]).collect();
            assert!(clocks.is_sorted() && clocks[0] > 0, "{clocks:?}");
        }
    }
}

#[test]
fn block_sched_records_each_warp() {
    let ran = vecadd(96, 48, 96).probed(&shipped("block_sched"));
    // 48 threads are two warps.
    let section = &ran.file[32..48];
    assert_eq!(halves(section), [16, 32, 48, 0]);
    assert_eq!(ran.file.len(), 48 + 4 * 16);
    let mut starts = Vec::new();
    for slot in 0..4 {
        let record = ran.slot(0, slot);
        let (start, rest) = (words(&record[..8])[0], halves(&record[8..]));
        assert!(start > 0 && rest[0] > 0, "slot {slot}");
        assert_eq!(
            rest[1],
            slot as u32 / 2,
            "the interpreter's CTA runs on this multiprocessor"
        );
        starts.push(start);
    }
    starts.dedup();
    assert_eq!(starts.len(), 4);
}

#[test]
fn warp_sched_records_multiprocessor_and_warp() {
    let ran = vecadd(128, 64, 128).probed(&shipped("warp_sched"));
    let record = ran.slot(0, 3);
    assert_eq!(halves(&record[16..]), [1, 1]);
    assert!(words(&record[..16])[1] > 0);
}

const LOOP: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 out)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    mov.u32 %r2, 0;
AGAIN:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, %r1;
    @%p1 bra AGAIN;
    st.global.u32 [%rd1], %r2;
    ret;
}
";

fn counting(threads: u32) -> Launch<'static> {
    Launch {
        text: LOOP,
        kernel: "count",
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        arguments: vec![Argument::Buffer(vec![0; 4 * threads as usize])],
    }
}

#[test]
fn program_progress_records_each_taken_branch() {
    let ran = counting(160).probed(&shipped("program_progress"));
    for thread in 0..160_u64 {
        let clocks = ran.words(0, thread);
        assert_eq!(clocks.len(), 128);
        let taken = (thread.max(1) - 1).min(128) as usize;
        assert!(
            clocks[..taken].iter().all(|&clock| clock > 0),
            "thread {thread}"
        );
        assert!(
            clocks[taken..].iter().all(|&clock| clock == 0),
            "thread {thread}"
        );
    }
    // Threads 130 to 159 branch 129 to 158 times.
    let dropped: u64 = (130..160).map(|thread| thread - 1 - 128).sum();
    assert_eq!(ran.dropped, [dropped]);
}

const MMA: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry mma(.param .u64 out)
{
    .reg .b32 %r<8>;
    .reg .f32 %f<12>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.b32 %r1, 0;
    mov.b32 %r2, 0;
    mov.b32 %r3, 0;
    mov.b32 %r4, 0;
    mov.b32 %r5, 0;
    mov.b32 %r6, 0;
    mov.f32 %f1, 0f3F800000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5,%f6,%f7,%f8}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f1,%f1,%f1,%f1};
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5,%f6,%f7,%f8}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%f5,%f6,%f7,%f8};
    mov.u32 %r7, %tid.x;
    mul.wide.u32 %rd2, %r7, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.f32 [%rd1], %f5;
    ret;
}
";

#[test]
fn tensorop_counts_matrix_instructions() {
    let launch = Launch {
        text: MMA,
        kernel: "mma",
        grid: [1, 1, 1],
        block: [32, 1, 1],
        arguments: vec![Argument::Buffer(vec![0; 128])],
    };
    let ran = launch.probed(&shipped("tensorop"));
    assert_eq!(words(&ran.file[48..]), [2; 32]);
}

#[test]
fn probes_do_not_change_what_kernels_compute() {
    for launch in [vecadd(96, 48, 77), counting(70)] {
        let expected = launch.run();
        for (name, _) in TOOLS {
            let ran = launch.probed_with(&shipped(name), Options::default(), 1 << 20);
            assert_eq!(ran.buffers, expected, "{name}");
        }
    }
}

#[test]
fn shipped_files_are_found_by_name_only() {
    assert_eq!(TOOLS.len(), 6);
    let error = load("dmatt", None, Faults::Fixed).expect_err("there is no such file");
    assert_eq!(
        error.to_string(),
        "dmatt: there is no such probe file; the shipped ones are block_sched, dmat, gmem_bytes, program_progress, \
         tensorop, warp_sched"
    );
}
