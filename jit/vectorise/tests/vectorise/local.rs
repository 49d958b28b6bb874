//! Kernels that use local memory.

use crate::kernels::{START, kernel, launch, run};
use crate::launch::{program, vectorised};
use crate::thread::End;

/// Replaces the head of a kernel by one with an array of 64 bytes.
fn with_array(text: &str) -> String {
    text.replacen(
        "block0:",
        "  slot0 = local 64 align 16 @array\nblock0:\n  v50: b64 = local.addr.u64 slot0",
        1,
    )
}

/// A kernel whose threads store to two words of local memory and add what they read. `v40` is the offset of the second.
fn sums(offset: &str) -> String {
    with_array(&format!(
        "{START}{offset}  v41: b64 = const.b64 0x8
  v42: b64 = add.s64 v50, v41
  v43: b64 = add.s64 v50, v40
  v44: b32 = const.b32 0x64
  v45: b32 = mul.u32{{half:lo}} v0, v44
  st.b32{{space:local}} v42, v45
  st.b32{{space:local}} v43, v0
  v46: b32 = ld.b32{{space:local}} v42
  v47: b32 = ld.b32{{space:local}} v43
  v48: b32 = add.u32 v46, v47
  st.b32{{space:global}} v3, v48
  exit
}}
"
    ))
}

#[test]
fn each_thread_has_its_own_words() {
    let text = sums("  v40: b64 = const.b64 0x24\n");
    let (end, words) = run(&text, &launch(11, &[0; 11]), 8);
    let expected: Vec<u32> = (0..11).map(|thread| 101 * thread).collect();
    assert_eq!((end, words), (End::Exit, expected));
}

#[test]
fn each_thread_stores_what_all_store() {
    // The offset and the value of the first store are equal for all threads, which are four chunks.
    let text = sums("  v40: b64 = const.b64 0x24\n").replace("v42, v45", "v42, v44");
    let (end, words) = run(&text, &launch(32, &[0; 32]), 8);
    let expected: Vec<u32> = (0..32).map(|thread| 100 + thread).collect();
    assert_eq!((end, words), (End::Exit, expected));
}

#[test]
fn lanes_at_one_offset_are_one_access() {
    let text = sums("  v40: b64 = const.b64 0x24\n");
    let made = program(&kernel(&text), [16, 1, 1], 16).expect("the kernel is vectorised");
    let text = made.to_string();
    assert!(
        !text.contains("gather") && !text.contains("scatter"),
        "{text}"
    );
}

#[test]
fn lanes_have_different_offsets() {
    // Thread n stores its second word at the offset 4 n, which is the offset of the first word for thread 2.
    let text = sums("  v40: b64 = mul.s32{half:wide} v0, v4\n");
    let (end, words) = run(&text, &launch(11, &[0; 11]), 8);
    let mut expected: Vec<u32> = (0..11).map(|thread| 101 * thread).collect();
    expected[2] = 4;
    assert_eq!((end, words), (End::Exit, expected));
}

#[test]
fn a_lane_does_not_reach_the_memory_of_another() {
    // The second word of thread 16 is behind its local memory.
    let text = sums("  v40: b64 = mul.s32{half:wide} v0, v4\n");
    assert_eq!(run(&text, &launch(16, &[0; 16]), 8).0, End::Exit);
    let kernel = kernel(&text);
    assert_eq!(
        vectorised(&kernel, &launch(32, &[0; 32]), 8).end,
        End::Fault
    );
    // An address before the local memory of the thread, and one behind it that all threads have.
    for offset in ["0xfffffffffffffffc", "0x40"] {
        let text = sums(&format!("  v40: b64 = const.b64 {offset}\n"));
        let kernel = self::kernel(&text);
        assert_eq!(
            vectorised(&kernel, &launch(16, &[0; 16]), 8).end,
            End::Fault
        );
    }
}

#[test]
fn generic_addresses_are_those_of_the_thread() {
    let text = sums("  v40: b64 = const.b64 0x24\n");
    let text = text
        .replace("  v46:", "  v51: b64 = cvta.u64{space:local} v42\n  v46:")
        .replace("ld.b32{space:local} v42", "ld.b32 v51");
    let (end, words) = run(&text, &launch(11, &[0; 11]), 8);
    let expected: Vec<u32> = (0..11).map(|thread| 101 * thread).collect();
    assert_eq!((end, words), (End::Exit, expected));
}
