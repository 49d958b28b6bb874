//! `hoist`, `delay`, `sink` and `dead`: where operations are.

use super::after;
use crate::support::parsed;
use margay_vir::passes::{Options, hoist};

const LOOP: &str = "func @f(b64, f32, b32, f32x16) -> (f32x16) {
block0(v0: b64, v1: f32, v2: b32, v3: f32x16):
  v4: b32 = const.b32{0x0}
  jump block1(v4, v3)
block1(v5: b32, v6: f32x16):
  v7: f32x16 = load.f32x16{f32 4} v0
  v8: f32x16 = const.f32x16{0x40000000}
  v9: f32x16 = map.f32x16{mul.f32{rn}} v7, v8
  v10: f32x16 = map.f32x16{add.f32{rn}} v6, v9
  v11: b32 = const.b32{0x1}
  v12: b32 = map.b32{add.u32} v5, v11
  v13: pred = map.pred{setp.u32{cmp:lt}} v12, v2
  brif v13, block1(v12, v10), block2
block2:
  ret v10
}
";

#[test]
fn invariant_operations_move_out_of_loops_with_copies_of_constants() {
    let expected = "func @f(b64, f32, b32, f32x16) -> (f32x16) {
block0(v0: b64, v1: f32, v2: b32, v3: f32x16):
  v4: b32 = const.b32{0x0}
  v7: f32x16 = load.f32x16{f32 4} v0
  v14: f32x16 = const.f32x16{0x40000000}
  v9: f32x16 = map.f32x16{mul.f32{rn}} v7, v14
  jump block1(v4, v3)
block1(v5: b32, v6: f32x16):
  v8: f32x16 = const.f32x16{0x40000000}
  v10: f32x16 = map.f32x16{add.f32{rn}} v6, v9
  v11: b32 = const.b32{0x1}
  v12: b32 = map.b32{add.u32} v5, v11
  v13: pred = map.pred{setp.u32{cmp:lt}} v12, v2
  brif v13, block1(v12, v10), block2
block2:
  ret v10
}
";
    assert_eq!(after("hoist", LOOP), expected);
}

/// Returns whether `hoist` moves the load of [`LOOP`] after a change of the text.
fn moves_load(from: &str, to: &str) -> bool {
    let text = LOOP.replacen(from, to, 1);
    assert_ne!(text, LOOP);
    let result = after("hoist", &text);
    result.find("load").unwrap() < result.find("block1(v5").unwrap()
}

#[test]
fn loads_move_only_if_the_loop_begins_with_them_and_does_not_change_the_memory() {
    let end = "  v11: b32 = const.b32{0x1}\n";
    let with = |line: &str| moves_load(end, &format!("{end}  {line}\n"));
    assert!(with("store.f32{f32 0 +64} v0, v1"));
    assert!(!with("store.f32{f32 0 +63} v0, v1"));
    assert!(!with("store.f32x16{f32 -4} v0, v3"));
    assert!(!with("fence"));
    let start = "  v7: f32x16 = load";
    let before = |line: &str| moves_load(start, &format!("  {line}\n{start}"));
    assert!(before("v20: f32 = map.f32{add.f32{rn}} v1, v1"));
    assert!(!before(
        "v20: pred = map.pred{setp.u32{cmp:eq}} v5, v2\n  trap.if{1} v20"
    ));
    assert!(!before("store.f32{f32 0 +64} v0, v1"));
}

#[test]
fn a_load_behind_a_branch_stays() {
    let text = "func @f(b64, b32) -> (b32) {
block0(v0: b64, v1: b32):
  jump block1(v1)
block1(v2: b32):
  v3: pred = map.pred{setp.u32{cmp:lt}} v2, v1
  brif v3, block2, block3
block2:
  v4: b32 = load.b32{b32 0} v0
  v5: b32 = map.b32{add.u32} v2, v4
  jump block1(v5)
block3:
  ret v2
}
";
    assert_eq!(after("hoist", text), text);
}

#[test]
fn a_loop_with_two_entries_gets_a_preheader_if_something_moves() {
    let text = "func @f(b32, b32, pred) -> (b32) {
block0(v0: b32, v1: b32, v2: pred):
  brif v2, block1(v0), block1(v1)
block1(v3: b32):
  v4: b32 = map.b32{xor.b32} v0, v1
  v5: b32 = map.b32{sub.u32} v3, v4
  v6: pred = map.pred{setp.u32{cmp:lt}} v5, v0
  brif v6, block1(v5), block2
block2:
  ret v5
}
";
    let expected = "func @f(b32, b32, pred) -> (b32) {
block0(v0: b32, v1: b32, v2: pred):
  brif v2, block3(v0), block3(v1)
block3(v7: b32):
  v4: b32 = map.b32{xor.b32} v0, v1
  jump block1(v7)
block1(v3: b32):
  v5: b32 = map.b32{sub.u32} v3, v4
  v6: pred = map.pred{setp.u32{cmp:lt}} v5, v0
  brif v6, block1(v5), block2
block2:
  ret v5
}
";
    assert_eq!(after("hoist", text), expected);
    let nothing = text.replace("v0, v1\n  v5", "v3, v1\n  v5");
    assert_eq!(after("hoist", &nothing), nothing);
}

#[test]
fn the_number_of_moved_vectors_is_limited() {
    let moved = |bytes: u32| {
        let lines: String = (0..6)
            .map(|n| format!("  v{}: f32x16 = map.f32x16{{mul.f32{{rn}}}} v3, v1\n  v{}: f32x16 = map.f32x16{{add.f32{{rn}}}} v6, v{}\n", 20 + n, 30 + n, 20 + n))
            .collect();
        let mut function = parsed(&LOOP.replacen("  v8:", &format!("{lines}  v8:"), 1));
        let options = Options {
            hoisted_bytes: bytes,
            ..Options::default()
        };
        hoist::run(&mut function, &options);
        let text = function.to_string();
        let before = text.split("block1(v5").next().unwrap();
        before.matches("mul.f32").count()
    };
    // The load takes 64 bytes, until the product that uses it has moved.
    assert_eq!(moved(64 * 7), 7);
    assert_eq!(moved(64 * 4), 4);
    assert_eq!(moved(0), 0);
}

#[test]
fn constants_are_placed_before_their_uses() {
    let lines: String = (5..35)
        .map(|n| format!("  v{n}: b32x4 = map.b32x4{{xor.b32}} v0, v{}\n", n - 1))
        .collect();
    let text = format!(
        "func @f(b32x4, b32, pred) -> (b32x4) {{
block0(v0: b32x4, v1: b32, v2: pred):
  v3: b32x4 = const.b32x4{{0x7}}
  v50: b32x4 = splat.b32x4 v1
  v4: b32x4 = map.b32x4{{add.u32}} v0, v3
{lines}  v60: b32x4 = map.b32x4{{add.u32}} v34, v3
  v61: b32x4 = map.b32x4{{add.u32}} v60, v3
  brif v2, block1, block2(v3)
block1:
  v62: b32x4 = map.b32x4{{add.u32}} v61, v50
  jump block2(v62)
block2(v63: b32x4):
  ret v63
}}
"
    );
    let expected = format!(
        "func @f(b32x4, b32, pred) -> (b32x4) {{
block0(v0: b32x4, v1: b32, v2: pred):
  v64: b32x4 = const.b32x4{{0x7}}
  v4: b32x4 = map.b32x4{{add.u32}} v0, v64
{lines}  v65: b32x4 = const.b32x4{{0x7}}
  v60: b32x4 = map.b32x4{{add.u32}} v34, v65
  v61: b32x4 = map.b32x4{{add.u32}} v60, v65
  brif v2, block1, block2(v65)
block1:
  v50: b32x4 = splat.b32x4 v1
  v62: b32x4 = map.b32x4{{add.u32}} v61, v50
  jump block2(v62)
block2(v63: b32x4):
  ret v63
}}
"
    );
    assert_eq!(after("sink", &text), expected);
}

#[test]
fn vectors_are_not_moved_into_loops() {
    let text = LOOP
        .replace("{mul.f32{rn}} v7, v8", "{mul.f32{rn}} v7, v20")
        .replace(
            "  jump block1(v4, v3)",
            "  v20: f32x16 = splat.f32x16 v1\n  jump block1(v4, v3)",
        );
    let result = after("sink", &text);
    assert!(
        result.contains(
            "v20: f32x16 = splat.f32x16 v1\n  v21: b32 = const.b32{0x0}\n  jump block1(v21, v3)"
        ),
        "{result}"
    );
}

#[test]
fn loops_that_only_compute_unused_values_lose_them() {
    let text = "func @f(b64, b32) -> (b32) {
block0(v0: b64, v1: b32):
  v2: b32 = load.b32{b32 0} v0
  jump block1(v1, v1)
block1(v3: b32, v4: b32):
  v5: b32 = map.b32{add.u32} v4, v3
  v6: b32 = map.b32{xor.b32} v3, v1
  v7: pred = map.pred{setp.u32{cmp:lt}} v6, v1
  brif v7, block1(v6, v5), block2
block2:
  ret v6
}
";
    // The load stays, because it may fault.
    let expected = "func @f(b64, b32) -> (b32) {
block0(v0: b64, v1: b32):
  v2: b32 = load.b32{b32 0} v0
  jump block1(v1)
block1(v3: b32):
  v6: b32 = map.b32{xor.b32} v3, v1
  v7: pred = map.pred{setp.u32{cmp:lt}} v6, v1
  brif v7, block1(v6), block2
block2:
  ret v6
}
";
    assert_eq!(after("dead", text), expected);
}

#[test]
fn operations_move_to_the_only_path_that_uses_them() {
    // `v3` is used on both paths, `v4` on one of them, where `v5` needs it; `v6` behind both. The trap does not count as a
    // path, so that `v7` stays.
    let text = "func @f(b32, b32, pred) -> (b32) {
block0(v0: b32, v1: b32, v2: pred):
  v3: b32 = map.b32{add.u32} v0, v1
  v4: b32 = map.b32{xor.b32} v0, v1
  v5: b32 = map.b32{sub.u32} v4, v1
  v6: b32 = map.b32{and.b32} v0, v1
  v7: b32 = map.b32{or.b32} v0, v1
  brif v2, block1, block2
block1:
  v8: b32 = map.b32{add.u32} v5, v3
  jump block3(v8)
block2:
  v9: b32 = map.b32{add.u32} v3, v0
  jump block3(v9)
block3(v10: b32):
  v11: b32 = map.b32{add.u32} v10, v6
  brif v2, block4, block5
block4:
  trap{1}
block5:
  v12: b32 = map.b32{add.u32} v11, v7
  ret v12
}
";
    let expected = "func @f(b32, b32, pred) -> (b32) {
block0(v0: b32, v1: b32, v2: pred):
  v3: b32 = map.b32{add.u32} v0, v1
  v6: b32 = map.b32{and.b32} v0, v1
  v7: b32 = map.b32{or.b32} v0, v1
  brif v2, block1, block2
block1:
  v4: b32 = map.b32{xor.b32} v0, v1
  v5: b32 = map.b32{sub.u32} v4, v1
  v8: b32 = map.b32{add.u32} v5, v3
  jump block3(v8)
block2:
  v9: b32 = map.b32{add.u32} v3, v0
  jump block3(v9)
block3(v10: b32):
  v11: b32 = map.b32{add.u32} v10, v6
  brif v2, block4, block5
block4:
  trap{1}
block5:
  v12: b32 = map.b32{add.u32} v11, v7
  ret v12
}
";
    assert_eq!(after("delay", text), expected);
}

#[test]
fn operations_are_not_delayed_into_loops() {
    let text = LOOP
        .replace("{mul.f32{rn}} v7, v8", "{mul.f32{rn}} v7, v20")
        .replace(
            "  jump block1(v4, v3)",
            "  v20: f32x16 = map.f32x16{add.f32{rn}} v3, v3\n  jump block1(v4, v3)",
        );
    assert_eq!(after("delay", &text), text);
}

#[test]
fn loads_of_numbers_move_to_their_uses_in_order() {
    // The factors of eight rows are loaded together, before a store over which two of them do not move.
    let load = |n: usize| {
        let (value, distance, place) = (10 + n, 4 * n + 4, n + 1);
        format!("  v{value}: f32 = load.f32{{f32 0 +{distance}}} v0  ; {place}\n")
    };
    let row = "  v3: f32x4 = load.f32x4{f32 4 +64} v0  ; 99\n";
    let product = |n: usize| {
        let sum = if n == 0 { 1 } else { 19 + n };
        format!(
            "  v{}: f32x4 = map.f32x4{{fma.f32{{rn}}}} v{}, v3, v{sum}\n",
            20 + n,
            10 + n
        )
    };
    let store = "  store.f32x4{f32 4 +128} v0, v1  ; 100\n";
    let program = |body: String| {
        format!(
            "func @f(b64, f32x4) -> (f32x4, f32) {{\nblock0(v0: b64, v1: f32x4):\n{body}  ret v27, v18\n}}\n"
        )
    };
    let loads: String = (0..9).map(load).collect();
    let products = |from: usize, to: usize| (from..to).map(product).collect::<String>();
    let text = program(loads + row + &products(0, 6) + store + &products(6, 8));
    // The loads before the row stay before it: the last one is not used in the block.
    assert_eq!(after("late", &text), text);

    let loads: String = (0..8).map(load).collect();
    let text = program(row.to_owned() + &loads + &products(0, 6) + store + &products(6, 8))
        .replace("v27, v18", "v27, v17");
    let pairs: String = (0..6).map(|n| load(n) + &product(n)).collect();
    let rest = load(6) + &load(7) + store + &products(6, 8);
    let expected = program(row.to_owned() + &pairs + &rest).replace("v27, v18", "v27, v17");
    assert_eq!(after("late", &text), expected);

    // Few loads do not move.
    let loads: String = (0..7).map(load).collect();
    let text = program(row.to_owned() + &loads + &products(0, 7)).replace("v27, v18", "v26, v16");
    assert_eq!(after("late", &text), text);
}
