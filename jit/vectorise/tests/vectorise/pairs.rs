//! Accesses to several adjacent elements by each lane.

use crate::kernels::{START, kernel, launch, run};
use crate::launch::program;

/// A kernel that adds the elements that a thread reads with one access at the distance `stride` from that of the thread
/// before, and writes them in another order to where it has read them. Only some threads do.
fn text(elements: usize, ty: &str, stride: u32, index: &str) -> String {
    let kind = if ty.starts_with('f') { "f32" } else { "b32" };
    let names: Vec<String> = (0..elements).map(|n| format!("v{}", 40 + n)).collect();
    let typed: Vec<String> = names.iter().map(|name| format!("{name}: {kind}")).collect();
    let mut stored = names.clone();
    stored.rotate_left(1);
    stored[0] = "v50".into();
    let log = elements.ilog2();
    format!(
        "{START}  v20: b32 = const.b32 {stride:#x}
  v21: b32 = const.b32 0x5
  v22: pred = setp.u32{{cmp:eq}} v0, v21
  brif v22, block1, block2
block1:
  exit
block2:
  v23: b32 = {index}
  v24: b64 = mul.u32{{half:wide}} v23, v20
  v25: b64 = add.s64 v2, v24
  {} = ld.{ty}{{space:global vec:{log}}} v25
  v50: {kind} = add.{ty} v40, v41
  st.{ty}{{space:global vec:{log}}} v25, {}
  exit
}}
",
        typed.join(", "),
        stored.join(", "),
    )
}

#[test]
fn pairs_and_quadruples_are_exchanged_where_they_are() {
    let data: Vec<u32> = (0..2048).map(|n| 0x3f80_0000 + n * 0x1357).collect();
    for (elements, stride) in [(2, 8), (2, 24), (4, 16), (4, 80)] {
        for ty in ["f32", "u32"] {
            // The threads in order, in reverse order, and at two distances.
            for index in [
                "add.u32 v0, v21",
                "xor.b32 v0, v21",
                "mul.u32{half:lo} v0, v21",
            ] {
                let text = text(elements, ty, stride, index);
                run(&text, &launch(20, &data), 8);
                run(&text, &launch(16, &data), 16);
            }
        }
    }
}

#[test]
fn a_pair_is_one_access() {
    let text = text(2, "f32", 8, "add.u32 v0, v21");
    let made = program(&kernel(&text), [8, 1, 1], 8)
        .expect("a program")
        .to_string();
    assert!(made.contains("load.b64x8{b64 8}"), "{made}");
    assert!(made.contains("store.b64x8{b64 8}"), "{made}");
    assert!(!made.contains("load.f32x8"), "{made}");
}
