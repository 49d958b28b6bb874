//! The order of the operations in a block.

use margay_vectorise::shorten_lives;

use crate::kernels::{START, kernel};

#[test]
fn operations_move_up_to_the_values_that_they_use_last() {
    // Each sum ends the lives of loaded values. The operands of the product are used behind it, so it stays.
    let text = |middle: &str| {
        format!(
            "{START}  v6: b32 = ld.b32{{space:global}} v3
{middle}  st.b32{{space:global}} v3, v10
  st.b32{{space:global}} v3, v11
  st.b32{{space:global}} v3, v6
  st.b32{{space:global}} v3, v0
  exit
}}
"
        )
    };
    let before = text(
        "  v7: b32 = ld.b32{space:global} v2
  v8: b32 = ld.b32{space:global} v2
  v9: b32 = ld.b32{space:global} v2
  v11: b32 = mul.s32{half:lo} v6, v0
  v12: b32 = add.u32 v7, v8
  v10: b32 = add.u32 v12, v9
",
    );
    let after = text(
        "  v7: b32 = ld.b32{space:global} v2
  v8: b32 = ld.b32{space:global} v2
  v12: b32 = add.u32 v7, v8
  v9: b32 = ld.b32{space:global} v2
  v10: b32 = add.u32 v12, v9
  v11: b32 = mul.s32{half:lo} v6, v0
",
    );
    let mut function = kernel(&before);
    shorten_lives(&mut function);
    let moved = |text: String| text.replace("  v4: b32 = const.b32 0x4\n", "");
    assert_eq!(
        moved(function.to_string()),
        moved(kernel(&after).to_string())
    );
}
