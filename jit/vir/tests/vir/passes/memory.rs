//! `number`: which operations and loads are reused.

use super::after;

#[test]
fn equal_operations_are_computed_once() {
    let text = "func @f(b32, b32, pred) -> (b32) {
block0(v0: b32, v1: b32, v2: pred):
  v3: b32 = map.b32{add.u32} v0, v1
  v4: b32 = map.b32{add.u32} v1, v0
  v5: b32 = map.b32{sub.u32} v0, v1
  v6: b32 = map.b32{sub.u32} v1, v0
  brif v2, block1, block2
block1:
  v7: b32 = map.b32{xor.b32} v3, v5
  jump block3(v7)
block2:
  v8: b32 = map.b32{xor.b32} v4, v5
  v9: b32 = map.b32{add.u32} v1, v0
  v10: b32 = map.b32{and.b32} v8, v9
  jump block3(v10)
block3(v11: b32):
  v12: b32 = map.b32{xor.b32} v3, v5
  v13: b32 = map.b32{or.b32} v12, v11
  v14: b32 = map.b32{or.b32} v13, v6
  ret v14
}
";
    // Neither block1 nor block2 dominates block3. Differences are not commutative.
    let expected = text
        .replace("  v4: b32 = map.b32{add.u32} v1, v0\n", "")
        .replace("  v9: b32 = map.b32{add.u32} v1, v0\n", "")
        .replace("{xor.b32} v4, v5", "{xor.b32} v3, v5")
        .replace("v8, v9", "v8, v3");
    assert_eq!(after("number", text), expected);
}

#[test]
fn operations_that_do_not_depend_on_signs_are_equal() {
    let text = "func @f(b64, b64) -> (b64, b64, b64, b64, b64) {
block0(v0: b64, v1: b64):
  v2: b64 = map.b64{add.s64} v0, v1
  v3: b64 = map.b64{add.u64} v0, v1
  v4: b64 = map.b64{mul.u64} v0, v1
  v5: b64 = map.b64{mul.s64{half:lo}} v1, v0
  v6: b64 = map.b64{div.s64} v0, v1
  v7: b64 = map.b64{div.u64} v0, v1
  v8: b64 = map.b64{mul.s64{half:hi}} v0, v1
  ret v3, v5, v6, v7, v8
}
";
    let expected = text
        .replace("  v3: b64 = map.b64{add.u64} v0, v1\n", "")
        .replace("  v5: b64 = map.b64{mul.s64{half:lo}} v1, v0\n", "")
        .replace("ret v3, v5", "ret v2, v4");
    assert_eq!(after("number", text), expected);
}

#[test]
fn sums_of_floating_point_numbers_are_not_commuted() {
    let text = "func @f(f32, f32) -> (f32, f32) {
block0(v0: f32, v1: f32):
  v2: f32 = map.f32{add.f32{rn}} v0, v1
  v3: f32 = map.f32{add.f32{rn}} v1, v0
  ret v2, v3
}
";
    assert_eq!(after("number", text), text);
}

/// Returns whether the last of three accesses is reused if the one in the middle is between two equal loads.
fn is_reused(middle: &str) -> bool {
    is_reused_with("helper0 = @h () -> ()", middle)
}

/// Returns the same for a function with a line at its start.
fn is_reused_with(start: &str, middle: &str) -> bool {
    let text = format!(
        "func @f(b64, b64, b32x4, predx4) -> (b32x4, b32x4) {{
  {start}
block0(v0: b64, v1: b64, v2: b32x4, v3: predx4):
  v4: b64 = const.b64{{0x10}}
  v5: b64 = map.b64{{add.u64}} v0, v4
  v6: b32x4 = load.b32x4{{b32 4 +16}} v0, v3
  {middle}
  v9: b32x4 = load.b32x4{{b32 4 +16}} v0, v3
  ret v6, v9
}}
"
    );
    let result = after("number", &text);
    assert!(result.ends_with("ret v6, v9\n}\n") || result.ends_with("ret v6, v6\n}\n"));
    result.ends_with("ret v6, v6\n}\n")
}

#[test]
fn accesses_alias_unless_their_ranges_are_apart() {
    let examples = [
        // Bytes 16 to 32 are loaded.
        ("store.b32x4{b32 4} v0, v2", true),
        ("store.b32x4{b32 4 +1} v0, v2", false),
        ("store.b32x4{b32 4 +32} v0, v2", true),
        ("store.b32x4{b32 4 +31} v0, v2", false),
        ("store.b32x4{b32 -4 +12} v0, v2", true),
        ("store.b32x4{b32 -4 +16} v0, v2", false),
        ("store.b32x4{u8 4 +3} v0, v2", true),
        ("store.b32x4{u8 4 +4} v0, v2, v3", false),
        // The address v5 is v0 + 16.
        ("store.b32x4{b32 4 -16} v5, v2", true),
        ("store.b32x4{b32 4 +16} v5, v2", true),
        ("store.b32x4{b32 4} v5, v2", false),
        ("store.b32x4{b32 4 -8} v5, v2", false),
        // Other addresses and offsets may be equal.
        ("store.b32x4{b32 4 +64} v1, v2", false),
        ("scatter.b32x4{b32 4 +64} v0, v2, v2", false),
        ("store.b32x4{b32 4611686018427387904 +32} v0, v2", false),
        ("fence", false),
        ("call{0}", false),
        ("v7: b32x4 = gather.b32x4{b32 4} v1, v2", true),
    ];
    for (middle, expected) in examples {
        assert_eq!(is_reused(middle), expected, "{middle}");
    }
}

#[test]
fn stored_values_are_loaded_if_the_store_keeps_all_bits() {
    let text = |store: &str, load: &str| {
        format!(
            "func @f(b64, b32x4, predx4) -> (b32x4) {{
block0(v0: b64, v1: b32x4, v2: predx4):
  {store}
  v3: b32x4 = {load}
  ret v3
}}
"
        )
    };
    let examples = [
        ("store.b32x4{b32 4} v0, v1", "load.b32x4{b32 4} v0", true),
        // The store truncates, leaves lanes out, or lanes overwrite each other.
        ("store.b32x4{u16 4} v0, v1", "load.b32x4{u16 4} v0", false),
        (
            "store.b32x4{b32 4} v0, v1, v2",
            "load.b32x4{b32 4} v0",
            false,
        ),
        ("store.b32x4{b32 2} v0, v1", "load.b32x4{b32 2} v0", false),
        (
            "store.b32x4{b32 4} v0, v1",
            "load.b32x4{b32 4 +4} v0",
            false,
        ),
        (
            "store.b32x4{b32 4} v0, v1",
            "load.b32x4{b32 4} v0, v2",
            false,
        ),
    ];
    for (store, load, expected) in examples {
        let result = after("number", &text(store, load));
        assert_eq!(result.contains("ret v1"), expected, "{store} {load}");
    }
}

#[test]
fn memory_is_known_in_blocks_with_one_predecessor() {
    let text = "func @f(b64, pred) -> (b32, b32) {
block0(v0: b64, v1: pred):
  v2: b32 = load.b32{b32 0} v0
  brif v1, block1, block2
block1:
  v3: b32 = load.b32{b32 0} v0
  store.b32{b32 0} v0, v3
  jump block3(v3)
block2:
  v4: b32 = load.b32{b32 0} v0
  jump block3(v4)
block3(v5: b32):
  v6: b32 = load.b32{b32 0} v0
  ret v5, v6
}
";
    let expected = "func @f(b64, pred) -> (b32, b32) {
block0(v0: b64, v1: pred):
  v2: b32 = load.b32{b32 0} v0
  brif v1, block1, block2
block1:
  store.b32{b32 0} v0, v2
  jump block3(v2)
block2:
  jump block3(v2)
block3(v5: b32):
  v6: b32 = load.b32{b32 0} v0
  ret v5, v6
}
";
    assert_eq!(after("number", text), expected);
}

#[test]
fn memory_is_not_known_where_paths_join() {
    let text = "func @f(b64, b32, pred) -> (b32, b32) {
block0(v0: b64, v1: b32, v2: pred):
  v3: b32 = load.b32{b32 0} v0
  brif v2, block2, block1
block1:
  store.b32{b32 0} v0, v1
  jump block2
block2:
  v4: b32 = load.b32{b32 0} v0
  ret v3, v4
}
";
    assert_eq!(after("number", text), text);
    // The header of a loop has two predecessors.
    let text = "func @f(b64, b32) -> (b32) {
block0(v0: b64, v1: b32):
  v2: b32 = load.b32{b32 0} v0
  jump block1(v2)
block1(v3: b32):
  v4: b32 = load.b32{b32 0} v0
  v5: b32 = map.b32{add.u32} v3, v4
  store.b32{b32 0} v0, v5
  v6: pred = map.pred{setp.u32{cmp:lt}} v5, v1
  brif v6, block1(v5), block2
block2:
  ret v4
}
";
    assert_eq!(after("number", text), text);
}

#[test]
fn private_memory_is_accessed_by_its_parameter_only() {
    let examples = [
        ("private 0", "store.b32x4{b32 4} v1, v2", true),
        ("private 1", "store.b32x4{b32 4} v1, v2", true),
        // The address is a sum of v0.
        ("private 0", "store.b32x4{b32 4} v5, v2", false),
        ("private 1", "store.b32x4{b32 4} v5, v2", false),
        ("private 0", "scatter.b32x4{b32 4} v1, v2, v2", true),
        ("private 1", "scatter.b32x4{b32 4} v1, v2, v2", false),
    ];
    for (start, middle, expected) in examples {
        assert_eq!(is_reused_with(start, middle), expected, "{start}: {middle}");
    }
}

#[test]
fn helpers_without_memory_change_nothing() {
    assert!(is_reused_with("helper0 = @h () -> () nomemory", "call{0}"));
    assert!(!is_reused_with("helper0 = @h () -> ()", "call{0}"));
}
