//! Kernels whose lanes wait for other threads.

use crate::kernels::kernel;
use crate::launch::{DATA, Launch, program, vectorised_and_yielded, words};
use crate::thread::End;

/// The number of threads of a block.
const BLOCK: u32 = 70;
/// How far behind a thread the thread is for which it waits.
const BEHIND: u32 = 33;

/// Even threads wait for the word of the thread 33 behind them, which odd threads set. Each thread stores what it has
/// read, or its number, in the second array.
fn waits(threads: u32, between: &str) -> String {
    let second = 4 * (threads + BEHIND);
    format!(
        "kernel @\"k\" {{
  parameters 8
block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b64 = param.addr.u64 0
  v2: b64 = ld.u64{{space:param}} v1
  v3: b32 = sreg.u32 %ctaid.x
  v4: b32 = const.b32 {BLOCK:#x}
  v5: b32 = mul.s32{{half:lo}} v3, v4
  v6: b32 = add.u32 v5, v0
  v7: b32 = const.b32 0x4
  v8: b64 = mul.s32{{half:wide}} v6, v7
  v9: b64 = add.s64 v2, v8
  v10: b32 = const.b32 0x1
  v11: b32 = and.b32 v6, v10
  v12: pred = setp.u32{{cmp:eq}} v11, v10
  brif v12, block4, block1
block1:
  v13: b64 = const.b64 0x84
  v14: b64 = add.s64 v9, v13
  jump block2
block2:
  {between}
  jump block3
block3:
  v15: b32 = ld.b32{{space:global}} v14
  v16: b32 = const.b32 0x0
  v17: pred = setp.u32{{cmp:eq}} v15, v16
  brif v17, block2, block5(v15)
block4:
  v18: b32 = const.b32 0x3e8
  v19: b32 = add.u32 v6, v18
  st.b32{{space:global}} v9, v19
  jump block5(v6)
block5(v20: b32):
  v21: b64 = const.b64 {second:#x}
  v22: b64 = add.s64 v9, v21
  st.b32{{space:global}} v22, v20
  exit
}}
"
    )
}

/// Runs the threads of `ctas` CTAs and compares what they have read.
fn check(ctas: u32, turns: u32, between: &str) {
    let threads = ctas * BLOCK;
    let text = waits(threads, between);
    let mut data = vec![0u32; (2 * threads + BEHIND) as usize];
    // Words that no thread sets.
    data[threads as usize..][..BEHIND as usize].fill(7);
    let launch = Launch {
        grid: [ctas, 1, 1],
        block: [BLOCK, 1, 1],
        arguments: vec![DATA],
        data: data.iter().flat_map(|word| word.to_le_bytes()).collect(),
        turns,
    };
    let (outcome, yielded) = vectorised_and_yielded(&kernel(&text), &launch, 32);
    assert_eq!(outcome.end, End::Exit);
    let found = words(&outcome.data);
    let read = |thread: u32| match thread {
        _ if thread % 2 == 1 => thread,
        _ if thread + BEHIND < threads => thread + BEHIND + 1000,
        _ => 7,
    };
    let expected: Vec<u32> = (0..threads).map(read).collect();
    assert_eq!(found[(threads + BEHIND) as usize..], expected);
    assert!(yielded > 0);
}

#[test]
fn lanes_wait_for_later_chunks_and_ctas() {
    check(1, 1, "yield{flag}");
    check(1, 20, "yield{flag}");
    check(3, 5, "yield{flag}");
    check(3, 200, "yield");
}

#[test]
fn lanes_of_a_part_of_a_warp_do_not_wait() {
    let refused = |width: u32| {
        let kernel = kernel(&waits(BLOCK, "yield"));
        program(&kernel, [BLOCK, 1, 1], width)
            .err()
            .map(|why| why.to_string())
    };
    assert_eq!(refused(32), None);
    let why = Some("`yield` is not vectorised".to_owned());
    assert_eq!(refused(16), why);
}
