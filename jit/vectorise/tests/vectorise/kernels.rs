//! Kernels in the text form of the IR, which pin down single rules.

use margay_ir::function::Function;
use margay_ir::module::{Module, Target};
use margay_ir::{parse, pass};
use margay_vir::passes::{Options, optimise};

use crate::launch::{DATA, Launch, outcome_of, program, single, vectorised, whole_program, words};
use crate::thread::End;

/// Parses a kernel, which must be valid.
pub(crate) fn kernel(text: &str) -> Function {
    parse::function(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns a launch of one block of `threads` threads, whose argument is the address of these words.
pub(crate) fn launch(threads: u32, data: &[u32]) -> Launch {
    Launch {
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        arguments: vec![DATA],
        data: data.iter().flat_map(|word| word.to_le_bytes()).collect(),
        turns: 1,
    }
}

/// Runs a kernel in chunks of `width` lanes and thread by thread, and returns the words of memory. Runs also programs for
/// the shape of the launch only.
pub(crate) fn run(text: &str, launch: &Launch, width: u32) -> (End, Vec<u32>) {
    let function = kernel(text);
    let expected = single(&function, launch);
    let found = vectorised(&function, launch, width);
    assert_eq!(found, expected);
    for in_turn in [false, true] {
        if let Some(whole) = whole_program(&function, launch.block, (width, in_turn)) {
            let whole = whole.unwrap_or_else(|refusal| panic!("{refusal}"));
            assert_eq!(outcome_of(&whole, &function, launch).0, expected);
        }
    }
    (found.end, words(&found.data))
}

/// The start of a kernel: `v2` is the address of memory, `v3` the address of the thread's word, `v0` its number.
pub(crate) const START: &str = "kernel @\"k\" {
  parameters 8
block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b64 = param.addr.u64 0
  v2: b64 = ld.u64{space:param} v1
  v4: b32 = const.b32 0x4
  v5: b64 = mul.s32{half:wide} v0, v4
  v3: b64 = add.s64 v2, v5
";

#[test]
fn a_tail_of_the_block_does_not_access_memory() {
    // The block has five threads, and the memory behind their words is not accessible.
    let text = format!(
        "{START}  v6: b32 = ld.b32{{space:global}} v3
  v7: b32 = add.u32 v6, v0
  st.b32{{space:global}} v3, v7
  exit
}}
"
    );
    let (end, words) = run(&text, &launch(5, &[10, 20, 30, 40, 50]), 8);
    assert_eq!((end, words), (End::Exit, vec![10, 21, 32, 43, 54]));
}

#[test]
fn an_index_that_a_load_determines_is_checked_where_it_is_used() {
    // The sum of a uniform word and the thread's number wraps within a chunk: lanes 0 and 1 are at the end of the
    // range of an unsigned integer. The address of the first access holds, that of the second does not.
    let text = format!(
        "{START}  v6: b32 = ld.b32{{space:global}} v2
  v7: b32 = add.u32 v6, v0
  v8: b32 = const.b32 0x7
  v9: b32 = min.u32 v7, v8
  v10: b64 = mul.u32{{half:wide}} v9, v4
  v11: b64 = add.s64 v2, v10
  v12: b32 = ld.b32{{space:global}} v3
  v13: b32 = ld.b32{{space:global}} v11
  v14: b32 = add.u32 v12, v13
  v15: b64 = const.b64 0x40
  v16: b64 = add.s64 v3, v15
  st.b32{{space:global}} v16, v14
  exit
}}
"
    );
    let mut data = vec![u32::MAX - 1, 1, 2, 3, 4, 5, 6, 7];
    data.resize(32, 0);
    let (_, words) = run(&text, &launch(8, &data), 8);
    // Lanes 0 and 1 read word 7, the others words 0 to 5.
    let first = [
        (u32::MAX - 1).wrapping_add(7),
        1 + 7,
        2u32.wrapping_add(u32::MAX - 1),
    ];
    assert_eq!(words[16..19], first);
    assert_eq!(words[19..24], [3 + 1, 4 + 2, 5 + 3, 6 + 4, 7 + 5]);
}

#[test]
fn edges_of_a_branch_table_to_one_block_keep_all_lanes() {
    let text = format!(
        "{START}  v6: b32 = const.b32 0x3
  v7: b32 = and.b32 v0, v6
  v8: b32 = const.b32 0x10
  br_table v7, block2(v8), block1(v0), block1(v6), block2(v0)
block1(v9: b32):
  jump block2(v9)
block2(v10: b32):
  st.b32{{space:global}} v3, v10
  exit
}}
"
    );
    let (_, words) = run(&text, &launch(8, &[9; 8]), 8);
    assert_eq!(words, [0, 3, 2, 16, 4, 3, 6, 16]);
}

#[test]
fn lanes_leave_a_loop_with_their_own_values() {
    // Thread n adds 1 + 2 + ... + n.
    let text = format!(
        "{START}  v6: b32 = const.b32 0x0
  jump block1(v6, v6)
block1(v7: b32, v8: b32):
  v9: pred = setp.u32{{cmp:ge}} v7, v0
  brif v9, block3, block2
block2:
  v10: b32 = const.b32 0x1
  v11: b32 = add.u32 v7, v10
  v12: b32 = add.u32 v8, v11
  jump block1(v11, v12)
block3:
  st.b32{{space:global}} v3, v8
  exit
}}
"
    );
    let (_, words) = run(&text, &launch(8, &[0; 8]), 8);
    assert_eq!(words, [0, 1, 3, 6, 10, 15, 21, 28]);
}

#[test]
fn lanes_that_leave_a_loop_of_one_block_wait_for_the_others() {
    // Thread n runs n % 4 + 1 iterations.
    let text = format!(
        "{START}  v6: b32 = const.b32 0x3
  v7: b32 = and.b32 v0, v6
  v8: b32 = const.b32 0x0
  jump block1(v8)
block1(v9: b32):
  v10: b32 = const.b32 0x1
  v11: b32 = add.u32 v9, v10
  v12: pred = setp.u32{{cmp:le}} v11, v7
  brif v12, block1(v11), block2
block2:
  st.b32{{space:global}} v3, v11
  exit
}}
"
    );
    let (_, words) = run(&text, &launch(8, &[0; 8]), 8);
    assert_eq!(words, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn a_uniform_access_does_not_run_without_lanes() {
    // No thread reads the word at address 8, which is not accessible.
    let text = format!(
        "{START}  v6: b32 = const.b32 0x64
  v7: pred = setp.u32{{cmp:gt}} v0, v6
  brif v7, block1, block2
block1:
  v8: b64 = const.b64 0x8
  v9: b32 = ld.b32{{space:global}} v8
  st.b32{{space:global}} v3, v9
  jump block2
block2:
  exit
}}
"
    );
    let (end, _) = run(&text, &launch(8, &[1; 8]), 8);
    assert_eq!(end, End::Exit);
}

#[test]
fn a_misaligned_lane_traps() {
    // Thread 5 reads at an address that is no multiple of four.
    let text = format!(
        "{START}  v6: b32 = const.b32 0x5
  v7: pred = setp.u32{{cmp:eq}} v0, v6
  v8: b64 = const.b64 0x1
  v9: b64 = const.b64 0x0
  v10: b64 = selp.b64 v8, v9, v7
  v11: b64 = add.s64 v3, v10
  v12: b32 = ld.b32{{space:global}} v11
  st.b32{{space:global}} v3, v12
  exit
}}
"
    );
    let found = vectorised(&kernel(&text), &launch(8, &[1; 9]), 8);
    assert_eq!(found.end, End::Fault);
}

#[test]
fn a_guard_on_the_thread_number_is_decided_when_the_kernel_is_compiled() {
    // Threads 0 to 15 add the words of threads 16 to 31, behind a barrier.
    let text = format!(
        "{START}  v6: b32 = const.b32 0x10
  v7: b32 = ld.b32{{space:global}} v3
  v30: b32 = const.b32 0x0
  bar{{mode:sync}} v30, v30
  jump block3
block3:
  v8: pred = setp.u32{{cmp:lo}} v0, v6
  brif v8, block1, block2
block1:
  v9: b64 = const.b64 0x40
  v10: b64 = add.s64 v3, v9
  v11: b32 = ld.b32{{space:global}} v10
  v12: b32 = add.u32 v7, v11
  st.b32{{space:global}} v3, v12
  jump block2
block2:
  exit
}}
"
    );
    let data: Vec<u32> = (0..32).collect();
    let (end, words) = run(&text, &launch(32, &data), 16);
    let expected: Vec<u32> = (0..32)
        .map(|n| if n < 16 { 2 * n + 16 } else { n })
        .collect();
    assert_eq!((end, words), (End::Exit, expected));
    for in_turn in [false, true] {
        let whole = whole_program(&kernel(&text), [32, 1, 1], (16, in_turn));
        let mut whole = whole.expect("rows").expect("the kernel is vectorised");
        optimise(&mut whole, &Options::default());
        let text = whole.to_string();
        assert!(!text.contains("setp.u32{cmp:lo} v0"), "{text}");
        assert!(!text.contains("any.predx16"), "{text}");
        let loads = text.matches("load.b32x16").count();
        // The program loads each word once.
        assert_eq!(loads, 2, "{text}");
    }
}

#[test]
fn a_comparison_is_decided_for_the_whole_cta_only_if_all_threads_agree() {
    // Thread (x, y) of four rows stores 1 if `n * y + x` is less than `m`, and 2 otherwise.
    let text = "kernel @\"k\" {
  parameters 24
block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 %tid.y
  v2: b64 = param.addr.u64 0
  v3: b64 = ld.u64{space:param} v2
  v4: b64 = param.addr.u64 8
  v5: b32 = ld.u32{space:param} v4
  v6: b64 = param.addr.u64 16
  v7: b32 = ld.u32{space:param} v6
  v8: b32 = const.b32 0x10
  v9: b32 = mad.s32{half:lo} v1, v8, v0
  v10: b32 = const.b32 0x4
  v11: b64 = mul.s32{half:wide} v9, v10
  v12: b64 = add.s64 v3, v11
  v13: b32 = mad.s32{half:lo} v1, v5, v0
  v14: pred = setp.s32{cmp:lt} v13, v7
  brif v14, block1, block2
block1:
  v15: b32 = const.b32 0x1
  st.b32{space:global} v12, v15
  jump block3
block2:
  v16: b32 = const.b32 0x2
  st.b32{space:global} v12, v16
  jump block3
block3:
  exit
}
";
    let sizes = [0, 3, 100, -100, -3, 0x2aaa_aaab, i32::MAX, i32::MIN];
    let bounds = [0, 5, 16, 17, 301, 316, -284, -300, i32::MAX, i32::MIN];
    for n in sizes {
        for m in bounds {
            let expected = |thread: i32| {
                let value = n.wrapping_mul(thread / 16).wrapping_add(thread % 16);
                if value < m { 1 } else { 2 }
            };
            let words: Vec<u32> = (0..64).map(expected).collect();
            let launch = Launch {
                block: [16, 4, 1],
                arguments: vec![DATA, u64::from(n as u32), u64::from(m as u32)],
                ..launch(64, &[0; 64])
            };
            assert_eq!(run(text, &launch, 16), (End::Exit, words), "{n}, {m}");
        }
    }
}

#[test]
fn a_trap_ends_the_program_for_the_lanes_that_reach_it() {
    let text = format!(
        "{START}  v6: b32 = const.b32 0x9
  v7: pred = setp.u32{{cmp:eq}} v0, v6
  brif v7, block1, block2
block1:
  trap
block2:
  st.b32{{space:global}} v3, v0
  exit
}}
"
    );
    // The threads of the first chunk have run.
    let found = vectorised(&kernel(&text), &launch(16, &[7; 16]), 8);
    assert_eq!(found.end, End::Trap);
    assert_eq!(words(&found.data)[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
    let (end, _) = run(&text, &launch(9, &[7; 9]), 8);
    assert_eq!(end, End::Exit);
}

#[test]
fn contiguous_lanes_are_one_access() {
    let text = format!(
        "{START}  v6: b32 = ld.b32{{space:global}} v3
  st.b32{{space:global}} v3, v6
  exit
}}
"
    );
    let made = program(&kernel(&text), [16, 1, 1], 16).expect("the kernel is vectorised");
    let text = made.to_string();
    assert!(text.contains("load.b32x16{b32 4}"), "{text}");
    // The version for indices that wrap follows at the end.
    let hot = text.split("gather").next().unwrap_or_default();
    assert!(hot.contains("store.b32x16{b32 4}"), "{text}");
}

#[test]
fn an_operation_that_is_not_vectorised_is_named() {
    let text = format!(
        "{START}  v6: b32 = atom.f16x2{{op:add space:global}} v3, v0
  exit
}}
"
    );
    let refused = program(&kernel(&text), [16, 1, 1], 16).expect_err("the type is refused");
    assert_eq!(
        refused.to_string(),
        "`an atomic of this type` is not vectorised"
    );
}

#[test]
fn lanes_with_the_same_address_and_operand_get_different_old_values() {
    // The threads whose number is not divisible by 3 add 5 to the first word, in ascending order.
    let text = format!(
        "{START}  v6: b32 = const.b32 0x3
  v7: b32 = const.b32 0x5
  v8: b32 = rem.u32 v0, v6
  v9: b32 = const.b32 0x0
  v10: pred = setp.u32{{cmp:ne}} v8, v9
  brif v10, block1, block2
block1:
  v11: b32 = atom.u32{{op:add space:global}} v2, v7
  v12: b64 = const.b64 0x4
  v13: b64 = add.s64 v3, v12
  st.b32{{space:global}} v13, v11
  jump block2
block2:
  exit
}}
"
    );
    let (_, words) = run(&text, &launch(8, &[100, 0, 0, 0, 0, 0, 0, 0, 0]), 8);
    assert_eq!(words, [125, 0, 100, 105, 0, 110, 115, 0, 120]);
}

#[test]
fn lanes_update_words_of_shared_memory() {
    let text = format!(
        "{START}  v8: b32 = mul.s32{{half:lo}} v0, v4
  red.u32{{op:add space:shared}} v8, v0
  v9: b32 = atom.b32{{op:exch space:shared}} v8, v4
  st.b32{{space:global}} v3, v9
  exit
}}
"
    );
    let (_, words) = run(&text, &launch(4, &[9; 4]), 4);
    assert_eq!(words, [0, 1, 2, 3]);
}

#[test]
fn an_update_that_is_not_aligned_faults() {
    let text = format!(
        "{START}  v6: b64 = const.b64 0x2
  v7: b64 = add.s64 v3, v6
  red.u32{{op:add space:global}} v7, v0
  exit
}}
"
    );
    let function = kernel(&text);
    let found = vectorised(&function, &launch(4, &[9; 8]), 4);
    assert_eq!((found.end, words(&found.data)), (End::Fault, vec![9; 8]));
}

/// A kernel in which threads below 3 take another path, and then all threads reach one of two barriers, which the size of
/// the block selects.
fn two_barriers(behind: &str) -> String {
    format!(
        "{START}  v6: b32 = sreg.u32 %ntid.x
  v7: b32 = const.b32 0x3
  v8: pred = setp.u32{{cmp:lt}} v0, v7
  v9: pred = setp.u32{{cmp:lt}} v6, v7
  v15: b32 = const.b32 0x0
  brif v8, block1, block2
{behind}
block3:
  brif v9, block4, block5
block4:
  bar{{mode:sync}} v15, v15
  jump block6
block5:
  bar{{mode:sync}} v15, v15
  jump block7
block6:
  jump block8(v0)
block7:
  jump block8(v7)
block8(v10: b32):
  st.b32{{space:global}} v3, v10
  exit
}}
"
    )
}

#[test]
fn threads_that_meet_before_they_choose_a_barrier_reach_the_same_one() {
    let meet = "block1:
  st.b32{space:global} v3, v7
  jump block3
block2:
  jump block3";
    for (threads, expected) in [(2, [0, 1, 9, 9, 9]), (5, [3; 5])] {
        let launch = launch(threads, &[9; 5]);
        let (end, words) = run(&two_barriers(meet), &launch, 8);
        assert_eq!((end, words), (End::Exit, expected.to_vec()));
    }
    // Threads that go to a barrier at once may wait at another barrier than the others.
    let part = "block1:
  jump block4
block2:
  jump block3";
    let refused = program(&kernel(&two_barriers(part)), [5, 1, 1], 8).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`a barrier that not all threads reach` is not vectorised"
    );
}

#[test]
fn the_levels_of_a_tree_in_memory_become_permutations() {
    let text = format!(
        "{START}  v10: b32 = sreg.u32 %ntid.x
  v9: b32 = const.b32 0x1
  v11: b32 = shr.u32 v10, v9
  v30: b32 = const.b32 0x0
  jump block1(v11)
block1(v12: b32):
  bar{{mode:sync}} v30, v30
  v13: pred = setp.u32{{cmp:ne}} v12, v30
  brif v13, block2, block5
block2:
  v14: pred = setp.u32{{cmp:lo}} v0, v12
  brif v14, block3, block4
block3:
  v15: b64 = mul.s32{{half:wide}} v12, v4
  v16: b64 = add.s64 v3, v15
  v17: b32 = ld.b32{{space:global}} v16
  v18: b32 = ld.b32{{space:global}} v3
  v19: b32 = add.u32 v17, v18
  st.b32{{space:global}} v3, v19
  jump block4
block4:
  v20: b32 = shr.u32 v12, v9
  jump block1(v20)
block5:
  exit
}}
"
    );
    let text = for_one_shape(&text);
    // The level of 64 threads loads four vectors. That of 32 threads uses what it has stored, and the others permute it.
    assert_eq!(text.matches("= load.b32x32").count(), 4, "{text}");
    assert_eq!(text.matches("permute").count(), 5, "{text}");
}

#[test]
fn a_cta_does_not_use_values_of_an_earlier_one() {
    let text = format!(
        "{START}  v9: b32 = const.b32 0x1
  v10: b32 = ld.b32{{space:global}} v3
  v11: pred = setp.u32{{cmp:lo}} v10, v9
  v30: b32 = const.b32 0x0
  v31: b32 = sreg.u32 %ntid.x
  brif v11, block1, block2(v30)
block1:
  v12: b32 = ld.b32{{space:global}} v3
  jump block2(v12)
block2(v13: b32):
  st.b32{{space:global}} v3, v13
  jump block3(v31)
block3(v14: b32):
  bar{{mode:sync}} v30, v30
  v15: b32 = shr.u32 v14, v9
  v16: pred = setp.u32{{cmp:ne}} v15, v30
  brif v16, block3(v15), block4
block4:
  brif v11, block5, block6
block5:
  st.b32{{space:global}} v3, v14
  jump block6
block6:
  exit
}}
"
    );
    let text = for_one_shape(&text);
    // The loop over the CTAs has only the index and the coordinates of the CTA as parameters.
    let head = text.lines().find(|line| line.starts_with("block1("));
    let params = head.map(|head| head.matches(": ").count());
    assert_eq!(params, Some(4), "{text}");
}

/// Returns the program of a kernel for blocks of 128 threads, after all passes.
fn for_one_shape(text: &str) -> String {
    let mut module = Module {
        target: Target {
            sm: 80,
            ..Target::default()
        },
        ..Module::default()
    };
    let id = module.add_function(kernel(text));
    let function = pass::prepare(&module, id, None);
    let whole = whole_program(&function, [128, 1, 1], (32, false));
    let mut whole = whole.expect("rows").expect("the kernel is vectorised");
    optimise(&mut whole, &Options::default());
    whole.to_string()
}
