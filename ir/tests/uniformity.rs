//! Tests the uniformity analysis on functions written as text. A comment `// ...` after an instruction or the label of
//! a block lists the expected classes of the instruction's results or of the block's parameters, in order. `use in
//! blockN` specifies the class of the value where that block uses it.

mod notes;

use margay_ir::analysis::uniformity::{Assumptions, Class, Uniformity, UniformityNotes};
use margay_ir::analysis::{Cfg, Dominators};
use margay_ir::entity::{Block, Value};
use margay_ir::function::Function;
use margay_ir::parse;

/// Checks the classes of a kernel's values against the comments in its text.
fn check(assumptions: Assumptions, body: &str) -> (Function, Uniformity) {
    let function = notes::kernel(16, body);
    let uniformity = Uniformity::new(&function, assumptions);
    let notes = UniformityNotes {
        function: &function,
        uniformity: &uniformity,
    };
    notes::compare(&function, &notes, body);
    (function, uniformity)
}

const ROWS: Assumptions = Assumptions {
    width: 32,
    whole_rows: true,
    ntid_x_zeros: 5,
    loads_agree: false,
    chunks_together: false,
};

#[test]
fn a_division_of_the_thread_index_yields_the_warp_and_the_lane() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x                        // affine 1
  v1: b32 = const.b32 0x5                          // launch
  v2: b32 = const.b32 0x1f                         // launch
  v3: b32 = const.b32 0xf                          // launch
  v4: b32 = const.b32 0xffffffe0                   // launch
  v5: b32 = const.b32 0xfffffff0                   // launch
  v6: b32 = const.b32 0x4                          // launch
  v7: b32 = shr.u32 v0, v1                         // warp
  v8: b32 = shr.s32 v0, v1                         // warp
  v9: b32 = shr.u32 v0, v6                         // varying
  v10: b32 = and.b32 v0, v2                        // affine 1
  v11: b32 = and.b32 v3, v0                        // varying
  v12: b32 = and.b32 v0, v4                        // warp
  v13: b32 = and.b32 v0, v5                        // varying
  v14: b32 = shl.b32 v10, v6                       // affine 16
  v15: b32 = and.b32 v14, v2                       // varying
  v16: b32 = shr.u32 v14, v1                       // varying
  v17: b32 = add.u32 v0, v1                        // affine 1
  v18: b32 = shr.u32 v17, v1                       // varying
  v19: b32 = and.b32 v17, v2                       // varying
  exit",
    );
}

#[test]
fn lanes_are_on_one_side_of_a_multiple_of_their_number() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x                        // affine 1
  v1: b32 = const.b32 0x60                         // launch
  v2: b32 = const.b32 0x50                         // launch
  v3: b32 = sreg.u32 %ntid.x                       // launch
  v4: pred = setp.u32{cmp:lt} v0, v1               // warp
  v5: pred = setp.s32{cmp:ge} v0, v1               // warp
  v6: pred = setp.u32{cmp:le} v0, v1               // varying
  v7: pred = setp.u32{cmp:gt} v0, v1               // varying
  v8: pred = setp.u32{cmp:eq} v0, v1               // varying
  v9: pred = setp.u32{cmp:lt} v0, v2               // varying
  v10: pred = setp.u32{cmp:gt} v3, v0              // warp
  v11: pred = setp.s32{cmp:le} v3, v0              // warp
  v12: pred = setp.s32{cmp:lt} v3, v0              // varying
  v13: b32 = add.u32 v0, v0                        // affine 2
  v14: pred = setp.u32{cmp:lt} v13, v1             // varying
  exit",
    );
}

#[test]
fn a_constant_of_a_loop_that_lanes_leave_apart_is_equal_behind_it() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x                        // affine 1
  jump block1(v0)
block1(v1: b32):                                   // varying
  v2: b32 = const.b32 0x3                          // launch
  v3: b32 = mul.u32{half:lo} v1, v2                // varying
  v4: pred = setp.u32{cmp:lt} v3, v2               // varying
  brif v4, block1(v3), block2
block2:
  v5: b32 = add.u32 v2, v2                         // launch
  exit",
    );
}

#[test]
fn registers_addresses_and_parameters() {
    let any = Assumptions::default();
    check(
        any,
        "block0:
  v0: b32 = sreg.u32 %tid.x                        // varying
  v1: b32 = sreg.u32 %tid.y                        // varying
  v2: b32 = sreg.u32 %laneid                       // affine 1
  v3: b32 = sreg.u32 %ctaid.x                      // cta
  v4: b32 = sreg.u32 %ntid.x                       // launch
  v5: b32 = sreg.u32 %warpid                       // warp
  v6: b32 = clock.u32 %clock                       // varying
  v7: b64 = param.addr.u64 0                       // launch
  v8: b64 = ld.u64{space:param} v7                 // launch
  v9: b64 = ld.u64{space:global} v8                // warp
  v10: b64 = ld.u64{space:global nc} v8            // launch
  v11: b64 = ld.u64{space:global order:volatile} v8 // varying
  v12: b64 = ld.u64{space:const} v8                // launch
  v13: b64 = cvta.u64{space:shared} v8             // cta
  v14: b64 = cvta.u64{space:local} v8              // varying
  v15: b64 = cvta.u64{space:global} v8             // launch
  v16: b32 = mul.u32{half:lo} v3, v4               // cta
  v17: b32 = add.u32 v16, v5                       // warp
  v18: b32 = atom.u32{op:add space:global} v8, v4  // varying
  v19: b64 = const.b64 0x10                        // launch
  exit",
    );
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x                        // affine 1
  v1: b32 = sreg.u32 %tid.y                        // warp
  v2: b32 = sreg.u32 %tid.z                        // warp
  exit",
    );
}

#[test]
fn shapes_of_blocks_decide_on_tid() {
    let rows = |shape| Assumptions::of_block(shape).whole_rows;
    assert!(rows([64, 2, 3]) && rows([33, 1, 1]));
    assert!(!rows([16, 2, 1]) && !rows([48, 1, 2]) && !rows([0, 2, 1]));
    let text = "kernel @k {\n  parameters 0\n  reqntid 128 1 1\nblock0:\n  exit\n}";
    let function = parse::function(text).unwrap();
    let expected = Assumptions {
        width: 32,
        whole_rows: true,
        ntid_x_zeros: 5,
        loads_agree: false,
        chunks_together: false,
    };
    assert_eq!(Assumptions::of(&function), expected);
    // Each chunk of 16 lanes is one row of the first block. The second block has a chunk with lanes of two rows.
    assert!(Assumptions::of_slices([16, 2, 1], 16).whole_rows);
    assert!(!Assumptions::of_slices([24, 2, 1], 16).whole_rows);
}

#[test]
fn the_usual_global_index_is_affine_up_to_the_address() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x                  // affine 1
  v1: b32 = sreg.u32 %ctaid.x                // cta
  v2: b32 = sreg.u32 %ntid.x                 // launch
  v3: b32 = mad.s32{half:lo} v1, v2, v0      // affine 1
  v4: b32 = const.b32 0x4                    // launch
  v5: b64 = mul.s32{half:wide} v3, v4        // affine 4
  v6: b64 = param.addr.u64 0
  v7: b64 = ld.u64{space:param} v6           // launch
  v8: b64 = add.u64 v7, v5                   // affine 4
  v9: f32 = ld.f32{space:global} v8          // varying
  v10: b32 = const.b32 0x3
  v11: b32 = shl.b32 v3, v10                 // affine 8
  v12: b64 = cvt.u64.u32 v11                 // affine 8
  v13: b32 = sub.u32 v2, v3                  // affine -1
  v14: b64 = cvt.s64.s32 v13                 // varying
  v15: b32 = sub.u32 v3, v0                  // warp
  v16: b32 = mul.u32{half:lo} v3, v3         // varying
  v17: pred = setp.u32{cmp:lt} v3, v2        // warp
  v18: b32 = and.b32 v3, v4                  // varying
  v19: b32 = cvt.u32.u64 v12                 // affine 8
  exit",
    );
}

#[test]
fn an_index_that_may_wrap_inside_a_warp_is_not_affine_when_widened() {
    // The base is not known to be a multiple of 32, so the 32-bit sum may wrap between two lanes, and its
    // zero-extension is not affine.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x                  // affine 1
  v1: b64 = param.addr.u64 0
  v2: b32 = ld.u32{space:param} v1           // launch
  v3: b32 = add.u32 v0, v2                   // affine 1
  v4: b64 = cvt.u64.u32 v3                   // varying
  v5: b64 = cvt.u64.u32 v0                   // affine 1
  exit",
    );
}

#[test]
fn collectives_are_uniform_with_a_uniform_mask() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0xffffffff
  v2: pred = setp.u32{cmp:eq} v0, v1              // varying
  v3: b32 = vote.b32{mode:ballot} v2, v1          // warp
  v4: b32 = vote.b32{mode:ballot} v2, v0          // varying
  v5: b32 = vote.b32{mode:ballot flag} v2, v1     // varying
  v6: b32 = redux.u32{op:add} v0, v1              // warp
  v7: b32, v8: pred = match.b32{mode:all} v0, v1  // warp, varying
  v9: b32 = match.b32{mode:any} v0, v1            // varying
  v10: b32, v11: pred = shfl.b32{mode:idx} v0, v1, v1, v1 // varying, varying
  v12: b32 = activemask.b32                       // varying
  v13: b32 = const.b32 0x0
  v14: b32 = bar.u32{mode:red op:popc} v13, v13, v2 // cta
  v15: b32 = bar.u32{mode:red op:popc} v13, v1, v2  // varying
  exit",
    );
}

#[test]
fn parameters_of_a_join_are_as_uniform_as_the_branch() {
    let diamond = |condition: &str, class: &str| {
        let body = format!(
            "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 {condition}
  v2: b32 = const.b32 0x3
  v3: b32 = const.b32 0x4
  v4: pred = setp.u32{{cmp:lt}} v1, v2
  brif v4, block1, block2                  // {class}
block1:
  v5: b32 = add.u32 v2, v3                 // launch
  jump block3(v5, v0)
block2:
  jump block3(v3, v0)
block3(v6: b32, v7: b32):                  // {class}, {}
  v8: b32 = add.u32 v2, v3                 // launch
  exit",
            if class == "varying" {
                "varying"
            } else {
                "affine 1"
            }
        );
        check(ROWS, &body);
    };
    diamond("%ntid.x", "launch");
    diamond("%ctaid.x", "cta");
    diamond("%warpid", "warp");
    diamond("%tid.x", "varying");
}

#[test]
fn a_join_behind_the_first_one_is_none() {
    // Diverged lanes reconverge at block3. At block5, only the paths of a uniform branch join.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = const.b32 0x3
  v3: pred = setp.u32{cmp:lt} v0, v2
  v4: pred = setp.u32{cmp:lt} v1, v2
  brif v3, block1, block2                  // varying
block1:
  jump block3(v2)
block2:
  jump block3(v1)
block3(v5: b32):                           // varying
  brif v4, block4, block5(v1)              // launch
block4:
  jump block5(v2)
block5(v6: b32):                           // launch
  exit",
    );
}

#[test]
fn both_edges_of_a_branch_to_one_block_meet_there() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x3
  v2: b32 = const.b32 0x4
  v3: pred = setp.u32{cmp:lt} v0, v1
  brif v3, block1(v1), block1(v2)          // varying
block1(v4: b32):                           // varying
  exit",
    );
}

#[test]
fn what_a_divergent_loop_defines_varies_outside() {
    let (function, uniformity) = check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x1
  jump block1(v1)
block1(v3: b32):                           // launch
  v4: b32 = add.u32 v3, v2                 // launch
  v5: pred = setp.u32{cmp:lt} v4, v0       // varying
  brif v5, block1(v4), block2(v4)          // varying
block2(v6: b32):                           // varying
  v7: b32 = add.u32 v4, v2                 // varying
  exit",
    );
    assert_eq!(uniformity.class(Value(4)), Class::Launch);
    let outside = uniformity.class_in(&function, Value(4), Block(2));
    assert_eq!(outside, Class::Varying);
}

#[test]
fn a_counted_loop_keeps_everything_uniform() {
    // Lanes diverge at an inner branch, but its paths join before the next iteration.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x20
  v3: b32 = sreg.u32 %ntid.x
  v4: pred = setp.u32{cmp:le} v0, v3
  jump block1(v1, v0)
block1(v5: b32, v6: b32):                  // launch, affine 1
  brif v4, block2, block3(v5)              // varying
block2:
  jump block3(v2)
block3(v7: b32):                           // varying
  v8: b32 = add.u32 v5, v2                 // launch
  v9: b32 = add.u32 v6, v2                 // affine 1
  v10: pred = setp.u32{cmp:lt} v8, v3      // launch
  brif v10, block1(v8, v9), block4         // launch
block4:
  v11: b32 = add.u32 v8, v2                // launch
  exit",
    );
}

#[test]
fn loops_left_by_warps_in_different_turns() {
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %warpid
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x1
  jump block1(v1)
block1(v3: b32):                           // launch
  v4: b32 = add.u32 v3, v2                 // launch
  v5: pred = setp.u32{cmp:lt} v4, v0       // warp
  brif v5, block1(v4), block2              // warp
block2:
  v6: b32 = add.u32 v4, v2                 // warp
  exit",
    );
}

#[test]
fn exits_of_a_divergent_loop_meet_behind_it() {
    // Lanes leave the loop at block1 in different iterations; the remaining lanes leave at block2 together. Where the
    // two paths join, the block parameter differs between lanes.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x1
  v3: b32 = sreg.u32 %ntid.x
  jump block1(v1)
block1(v4: b32):                           // launch
  v5: b32 = add.u32 v4, v2                 // launch
  v6: pred = setp.u32{cmp:eq} v5, v0       // varying
  brif v6, block3, block2                  // varying
block2:
  v7: pred = setp.u32{cmp:lt} v5, v3       // launch
  brif v7, block1(v5), block4(v1)          // launch
block3:
  jump block4(v2)
block4(v8: b32):                           // varying
  exit",
    );
}

#[test]
fn an_exit_before_the_divergent_one_meets_it_too() {
    // Some lanes leave at block2 in one iteration, and the others leave at the header in the next iteration.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x1
  v3: b32 = sreg.u32 %ntid.x
  jump block1(v1)
block1(v4: b32):                           // launch
  v5: pred = setp.u32{cmp:lt} v4, v3       // launch
  brif v5, block2, block4(v1)              // launch
block2:
  v6: b32 = add.u32 v4, v2                 // launch
  v7: pred = setp.u32{cmp:lt} v0, v6       // varying
  brif v7, block3, block1(v6)              // varying
block3:
  jump block4(v2)
block4(v8: b32):                           // varying
  exit",
    );
}

#[test]
fn ways_back_to_a_header_meet_there() {
    // One side of a branch is a `continue`, so the value of the header's parameter depends on the side that a lane
    // takes.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x1
  v3: b32 = sreg.u32 %ntid.x
  v4: pred = setp.u32{cmp:lt} v0, v2
  jump block1(v1, v1)
block1(v5: b32, v6: b32):                  // varying, varying
  v7: pred = setp.u32{cmp:lt} v6, v3       // varying
  brif v7, block2, block4                  // varying
block2:
  brif v4, block1(v1, v2), block3          // varying
block3:
  jump block1(v2, v2)
block4:
  exit",
    );
}

#[test]
fn loads_where_lanes_may_yield_vary() {
    check(
        ROWS,
        "block0:
  v0: b64 = param.addr.u64 0
  v1: b64 = ld.u64{space:param} v0         // launch
  v2: b32 = const.b32 0x0
  jump block1
block1:
  yield
  v3: b32 = ld.u32{space:global} v1        // varying
  v4: pred = setp.u32{cmp:eq} v3, v2       // varying
  brif v4, block1, block2                  // varying
block2:
  v5: b32 = ld.u32{space:global} v1        // warp
  exit",
    );
}

#[test]
fn parameters_of_device_functions_vary() {
    let text = "func @f(b32) -> (b32) {\n  slot0 = local 8 align 8\nblock0(v0: b32):\n  v1: b64 = local.addr.u64 slot0\n  ret v0\n}";
    let function = parse::function(text).unwrap();
    let uniformity = Uniformity::new(&function, ROWS);
    assert_eq!(uniformity.class(Value(0)), Class::Varying);
    assert_eq!(uniformity.class(Value(1)), Class::Varying);
}

#[test]
fn a_loop_with_two_entries_is_seen() {
    // The loop is irreducible: block1 and block2 reach each other, and block0 branches to both.
    check(
        ROWS,
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0x1
  v3: pred = setp.u32{cmp:lt} v0, v2
  brif v3, block1(v1), block2(v2)          // varying
block1(v4: b32):                           // varying
  jump block2(v4)
block2(v5: b32):                           // varying
  v6: b32 = add.u32 v1, v2                 // launch
  v7: pred = setp.u32{cmp:lt} v6, v0       // varying
  brif v7, block1(v6), block3              // varying
block3:
  v8: b32 = add.u32 v6, v2                 // varying
  exit",
    );
}

/// Returns whether the analysis proves that lanes which have reached block `number` the same number
/// of times are in the same iteration of every loop around the block.
fn is_converged(body: &str, number: u32) -> bool {
    let (function, uniformity) = check(ROWS, body);
    let cfg = Cfg::new(&function);
    uniformity.is_converged(&cfg, &Dominators::new(&cfg), Block(number))
}

#[test]
fn lanes_are_converged_in_every_turn_of_a_counted_loop() {
    let body = "block0:
  v0: b32 = const.b32 0x1
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = sreg.u32 %tid.x
  v3: pred = setp.u32{cmp:lt} v2, v1
  brif v3, block1(v0), block4
block1(v4: b32):
  v5: pred = setp.u32{cmp:lt} v2, v4
  brif v5, block2, block3
block2:
  jump block3
block3:
  bar{mode:sync flag} v0, v0
  v6: b32 = add.u32 v4, v0
  v7: pred = setp.u32{cmp:lt} v6, v1
  brif v7, block1(v6), block4
block4:
  exit";
    // Some threads return before the loop, and each iteration executes a divergent branch.
    assert!(is_converged(body, 3));
    // Block 2 is on one side of the divergent branch, so lanes reach it in different iterations.
    assert!(!is_converged(body, 2));
}

#[test]
fn lanes_that_left_an_inner_loop_early_are_not_converged() {
    let body = |limit: &str| {
        format!(
            "block0:
  v0: b32 = const.b32 0x1
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = sreg.u32 %tid.x
  jump block1(v0)
block1(v3: b32):
  jump block2(v0)
block2(v4: b32):
  bar{{mode:sync flag}} v0, v0
  v5: b32 = add.u32 v4, v0
  v6: pred = setp.u32{{cmp:lt}} v5, {limit}
  brif v6, block2(v5), block3
block3:
  v7: b32 = add.u32 v3, v0
  v8: pred = setp.u32{{cmp:lt}} v7, v1
  brif v8, block1(v7), block4
block4:
  exit"
        )
    };
    assert!(is_converged(&body("v1"), 2));
    assert!(!is_converged(&body("v2"), 2));
}

#[test]
fn a_turn_that_may_pass_a_barrier_by_breaks_the_step() {
    let body = |condition: &str| {
        format!(
            "block0:
  v0: b32 = const.b32 0x1
  v1: b32 = sreg.u32 %ntid.x
  v2: b32 = sreg.u32 %tid.x
  jump block1(v0)
block1(v3: b32):
  v4: pred = setp.u32{{cmp:lt}} {condition}, v3
  brif v4, block2, block3
block2:
  bar{{mode:sync flag}} v0, v0
  jump block3
block3:
  v5: b32 = add.u32 v3, v0
  v6: pred = setp.u32{{cmp:lt}} v5, v1
  brif v6, block1(v5), block4
block4:
  exit"
        )
    };
    assert!(!is_converged(&body("v2"), 2));
    assert!(is_converged(&body("v2"), 3));
}
