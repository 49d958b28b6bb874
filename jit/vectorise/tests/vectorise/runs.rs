//! Kernels whose CTAs run together.

use margay_vectorise::runs_several_ctas;

use crate::kernels::kernel;
use crate::launch::{DATA, Launch, program, single, vectorised, words};
use crate::thread::End;

/// The number of words of memory.
const WORDS: u32 = 4096;

/// Returns a kernel whose body `body` may use `v0`, the index of the thread in dimension x of the grid, `v1`, that in
/// dimension y, `v2`, the first argument, `v3`, the address of memory, and `v4`, the address of the word `v0 + 256 * v1`.
fn text(body: &str) -> String {
    format!(
        "kernel @\"k\" {{
  parameters 16
block0:
  v10: b64 = param.addr.u64 0
  v3: b64 = ld.u64{{space:param}} v10
  v11: b64 = param.addr.u64 8
  v2: b32 = ld.u32{{space:param}} v11
  v12: b32 = sreg.u32 %ctaid.x
  v13: b32 = sreg.u32 %ntid.x
  v14: b32 = sreg.u32 %tid.x
  v0: b32 = mad.u32{{half:lo}} v12, v13, v14
  v15: b32 = sreg.u32 %ctaid.y
  v16: b32 = sreg.u32 %ntid.y
  v17: b32 = sreg.u32 %tid.y
  v1: b32 = mad.u32{{half:lo}} v15, v16, v17
  v18: b32 = const.b32 0x100
  v19: b32 = mad.u32{{half:lo}} v1, v18, v0
  v20: b32 = const.b32 0x4
  v21: b64 = mul.u32{{half:wide}} v19, v20
  v4: b64 = add.s64 v3, v21
{body}"
    )
}

fn launch(grid: [u32; 3], block: [u32; 3], argument: u32) -> Launch {
    let data = (0..WORDS).flat_map(|word| (word * 7).to_le_bytes());
    Launch {
        grid,
        block,
        arguments: vec![DATA, argument.into()],
        data: data.collect(),
        turns: 1,
    }
}

/// Runs a kernel in chunks of eight lanes and thread by thread, and returns the words of memory.
fn run(text: &str, launch: &Launch) -> Vec<u32> {
    let function = kernel(text);
    let expected = single(&function, launch);
    let found = vectorised(&function, launch, 8);
    assert_eq!(found, expected, "{:?} {:?}", launch.grid, launch.block);
    assert_eq!(found.end, End::Exit);
    words(&found.data)
}

/// Shapes of grids and blocks: one or several rows and CTAs, with rows of one chunk, of an odd number and of many.
const SHAPES: [([u32; 3], [u32; 3]); 7] = [
    ([1, 1, 1], [8, 1, 1]),
    ([5, 1, 1], [8, 1, 1]),
    ([9, 2, 1], [24, 3, 1]),
    ([4, 3, 2], [8, 2, 1]),
    ([3, 1, 1], [64, 1, 2]),
    ([16, 2, 1], [16, 1, 1]),
    ([2, 2, 2], [32, 1, 1]),
];

/// The end of a kernel that adds the index of the thread to its word.
const ADD: &str = "  v40: b32 = ld.b32{space:global} v4
  v41: b32 = add.u32 v40, v0
  v42: b32 = add.u32 v41, v1
  st.b32{space:global} v4, v42
  exit
";

#[test]
fn threads_of_several_ctas_have_their_indices() {
    let text = text(&format!("{ADD}}}\n"));
    assert!(runs_several_ctas(&kernel(&text)));
    for (grid, block) in SHAPES {
        run(&text, &launch(grid, block, 0));
    }
}

#[test]
fn threads_of_several_ctas_have_their_lanes() {
    let body = "  v30: b32 = sreg.u32 %laneid
  v31: b32 = mul.u32{half:lo} v30, v18
  v32: b32 = add.u32 v31, v0
  st.b32{space:global} v4, v32
  exit
";
    let function = kernel(&text(&format!("{body}}}\n")));
    for (grid, block) in [
        ([9, 1, 1], [16, 1, 1]),
        ([3, 2, 1], [32, 1, 1]),
        ([2, 2, 1], [48, 2, 1]),
        ([2, 1, 1], [64, 2, 2]),
        ([4, 1, 1], [96, 1, 1]),
    ] {
        let launch = launch(grid, block, 0);
        let expected = single(&function, &launch);
        for width in [8, 16, 32] {
            let found = vectorised(&function, &launch, width);
            assert_eq!(found, expected, "{grid:?} {block:?} {width}");
        }
    }
}

#[test]
fn kernels_that_use_the_index_of_the_cta_otherwise_run_one_cta_after_the_other() {
    for value in [
        "add.u32 v12, v0",
        "add.u32 v14, v0",
        "mul.u32{half:lo} v12, v18",
        // The length of a block is not 256.
        "mad.u32{half:lo} v12, v18, v14",
    ] {
        let body = format!("  v30: b32 = {value}\n  st.b32{{space:global}} v4, v30\n  exit\n");
        let text = text(&format!("{body}}}\n"));
        assert!(!runs_several_ctas(&kernel(&text)), "{value}");
        for (grid, block) in SHAPES {
            run(&text, &launch(grid, block, 0));
        }
    }
}

#[test]
fn guards_hold_for_the_lanes_of_a_group_or_not() {
    // Comparisons of a value that rises or falls by 1 or 3 along the row, on both sides of the bound.
    for value in [
        "add.u32 v0, v1",
        "sub.u32 v2, v0",
        "mul.u32{half:lo} v0, v31",
    ] {
        for cmp in [
            "setp.s32{cmp:lt}",
            "setp.s32{cmp:ge}",
            "setp.u32{cmp:lo}",
            "setp.u32{cmp:hi}",
            "setp.s32{cmp:gt}",
            "setp.u32{cmp:ls}",
        ] {
            for (operands, wanted) in [("v32, v33", true), ("v33, v32", false)] {
                let edges = match wanted {
                    true => "block2, block1",
                    false => "block1, block2",
                };
                let text = text(&format!(
                    "  v31: b32 = const.b32 0x3
  v32: b32 = {value}
  v34: b32 = const.b32 0x3c
  v33: b32 = sub.u32 v2, v34
  v35: pred = {cmp} {operands}
  brif v35, {edges}
block1:
  exit
block2:
{ADD}}}
"
                ));
                for argument in [0, 40, 60, 61, 100, 160, 1 << 31] {
                    run(&text, &launch([5, 2, 1], [16, 1, 1], argument));
                }
            }
        }
    }
}

#[test]
fn predicates_of_several_comparisons_guard_the_inside_of_a_grid() {
    let text = text(&format!(
        "  v30: b32 = const.b32 0x1
  v31: pred = setp.s32{{cmp:lt}} v0, v30
  v32: pred = setp.s32{{cmp:lt}} v1, v30
  v33: pred = or.pred v31, v32
  v34: b32 = sub.u32 v2, v30
  v35: pred = setp.s32{{cmp:ge}} v0, v34
  v36: pred = or.pred v33, v35
  v37: b32 = const.b32 0x5
  v38: pred = setp.s32{{cmp:ge}} v1, v37
  v39: pred = or.pred v36, v38
  brif v39, block1, block2
block1:
  exit
block2:
{ADD}}}
"
    ));
    assert!(runs_several_ctas(&kernel(&text)));
    for argument in [0, 1, 33, 64, 79, 80, 81, 200] {
        run(&text, &launch([5, 3, 1], [16, 2, 1], argument));
    }
}

#[test]
fn indices_that_wrap_within_a_row_reach_their_own_words() {
    // The unsigned index is `v0 - v2`, which wraps inside of a row. Threads whose index is small write a word.
    let text = text(
        "  v30: b32 = sub.u32 v0, v2
  v31: b32 = const.b32 0xff
  v35: pred = setp.u32{cmp:lo} v30, v31
  brif v35, block2, block1
block1:
  exit
block2:
  v33: b64 = cvt.u64.u32 v30
  v37: b32 = const.b32 0x2
  v38: b64 = shl.b64 v33, v37
  v39: b64 = add.s64 v3, v38
  st.b32{space:global} v39, v0
  exit
}
",
    );
    assert!(runs_several_ctas(&kernel(&text)));
    for argument in [0, 1, 20, 48, 64] {
        let words = run(&text, &launch([5, 1, 1], [16, 1, 1], argument));
        assert_eq!(words[0], argument);
    }
}

#[test]
fn the_program_of_a_kernel_with_a_row_of_one_chunk_runs_two_chunks_of_two_ctas() {
    let text = text(&format!("{ADD}}}\n"));
    let made = program(&kernel(&text), [8, 1, 1], 8)
        .expect("a program")
        .to_string();
    let stores = made.matches("store.b32x8").count();
    // Two chunks of a run, and the chunk of a single CTA.
    assert_eq!(stores, 3, "{made}");
}
