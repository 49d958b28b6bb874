//! `forward`: which loads are replaced by stored vectors, and that results and memory stay the same.

use std::fmt::Write as _;

use margay_vir::passes::{Options, PASSES};
use margay_vir::verify;
use proptest::prelude::*;

use super::after;
use crate::support::{outcome, parsed};

/// Returns the lines that replace a load behind two stores of adjacent vectors and `middle`; `None` if it is kept.
fn replaced(middle: &str, load: &str) -> Option<Vec<String>> {
    let text = format!(
        "func @f(b64, b32x8, b32x8, predx8, b64) -> (b32x8) {{
  helper0 = @h () -> ()
block0(v0: b64, v1: b32x8, v2: b32x8, v3: predx8, v4: b64):
  v5: b64 = const.b64{{0x3c}}
  v6: predx8 = mask.predx8 v5
  v7: b64 = const.b64{{0x8}}
  v8: predx8 = mask.predx8 v7
  store.b32x8{{b32 4}} v0, v1
  store.b32x8{{b32 4 +32}} v0, v2
  {middle}
  v20: b32x8 = {load}
  ret v20
}}
"
    );
    let result = after("forward", &text);
    if result.contains("= load") {
        return None;
    }
    let lines = result.lines().map(str::trim);
    let behind = lines.skip_while(|line| !line.starts_with("store.b32x8{b32 4 +32} v0, v2"));
    let behind = behind.skip(1).filter(|line| !middle.contains(line));
    Some(behind.map(str::to_owned).collect())
}

#[test]
fn a_load_is_a_permutation_of_one_or_two_vectors() {
    let lines = |load: &str| {
        replaced("fence", load)
            .is_none()
            .then(|| replaced("", load))
    };
    assert_eq!(
        lines("load.b32x8{b32 4 +32} v0"),
        Some(Some(vec!["ret v2".into(), "}".into()]))
    );
    let found = lines("load.b32x8{b32 4 +12} v0").flatten().unwrap();
    let expected = [
        "v21: b32 = const.b32{0x3}",
        "v22: b32x8 = affine.b32x8{1} v21",
        "v23: b32x8 = permute2.b32x8 v1, v2, v22",
        "ret v23",
        "}",
    ];
    assert_eq!(found, expected);
    // The mask consists of lanes 2 to 5, which are lanes 0 to 3 of the vector.
    let found = lines("load.b32x8{b32 4 -8} v0, v6").flatten().unwrap();
    let expected = [
        "v21: b32 = const.b32{0xfffffffe}",
        "v22: b32x8 = affine.b32x8{1} v21",
        "v23: b32x8 = permute.b32x8 v1, v22",
        "v24: b32 = const.b32{0x0}",
        "v25: b32x8 = map.b32x8{selp.b32} v23, v24, v6",
        "ret v25",
        "}",
    ];
    assert_eq!(found, expected);
}

#[test]
fn loads_of_other_bytes_are_kept() {
    for load in [
        "load.b32x8{b32 4 -4} v0",
        "load.b32x8{b32 4 +36} v0",
        "load.b32x8{b32 4 +2} v0",
        "load.b32x8{b32 8} v0",
        "load.b32x8{u16 2} v0",
        // The mask is not known, or has lanes in front of the first vector.
        "load.b32x8{b32 4 +36} v0, v3",
        "load.b32x8{b32 4 -12} v0, v6",
        "load.b32x8{b32 4} v4",
    ] {
        assert_eq!(replaced("", load), None, "{load}");
    }
}

#[test]
fn other_stores_end_what_is_known() {
    let load = "load.b32x8{b32 4 +12} v0";
    for (middle, is_kept) in [
        ("store.b32x8{b32 4 +64} v0, v1", false),
        ("store.b32x8{b32 4 -32} v0, v1", false),
        // Some lanes of the second vector become those of the first.
        ("store.b32x8{b32 4 +32} v0, v1, v3", false),
        ("store.b32x8{b32 4 +36} v0, v1, v8", true),
        ("store.b32x8{b32 4 -4} v0, v1", true),
        ("store.b32x8{b32 4 +63} v0, v1", true),
        ("store.b32x8{b32 4} v4, v1", true),
        ("store.b32x8{u8 4} v0, v1", true),
        ("scatter.b32x8{b32 4} v4, v1, v2", true),
        ("call{0}", true),
        ("fence", true),
    ] {
        assert_eq!(replaced(middle, load).is_none(), is_kept, "{middle}");
    }
}

#[test]
fn nothing_is_replaced_where_permutations_are_slow() {
    let text = "func @f(b64, b32x8) -> (b32x8) {
block0(v0: b64, v1: b32x8):
  store.b32x8{b32 4} v0, v1
  v2: b32x8 = load.b32x8{b32 4} v0
  ret v2
}
";
    let options = Options {
        permutes: false,
        ..Options::default()
    };
    let mut function = parsed(text);
    let pass = PASSES.iter().find(|pass| pass.name == "forward").unwrap();
    (pass.run)(&mut function, &options);
    assert_eq!(function.to_string(), text);
}

/// Returns a program with one access for each number: stores of earlier vectors, or loads, at addresses that overlap.
fn accesses(numbers: &[u32]) -> String {
    let mut body = String::new();
    let mut vectors = vec!["v1".to_owned(), "v2".to_owned()];
    for (&number, line) in numbers.iter().zip(10..) {
        let choice = |shift: u32, count: u32| number >> shift & (count - 1);
        let unit = if choice(0, 16) == 0 { 1 } else { 4 };
        let displacement = unit * (4 * i64::from(choice(4, 8)) + i64::from(choice(7, 16)) - 4);
        let mask = match choice(11, 8) {
            0 | 1 => {
                // Lanes from a first to a last one.
                let lanes = 0xffu32 << choice(14, 8) & 0xff >> choice(17, 8);
                let _ = writeln!(body, "  v{line}0: b64 = const.b64{{{lanes:#x}}}");
                let _ = writeln!(body, "  v{line}1: predx8 = mask.predx8 v{line}0");
                format!(", v{line}1")
            }
            2 => ", v3".to_owned(),
            _ => String::new(),
        };
        if choice(20, 2) == 0 {
            let value = &vectors[choice(21, 64) as usize % vectors.len()];
            let _ = writeln!(
                body,
                "  store.b32x8{{b32 4 {displacement:+}}} v0, {value}{mask}"
            );
        } else {
            let _ = writeln!(
                body,
                "  v{line}2: b32x8 = load.b32x8{{b32 4 {displacement:+}}} v0{mask}"
            );
            vectors.push(format!("v{line}2"));
        }
    }
    let types = vec!["b32x8"; vectors.len()].join(", ");
    format!(
        "func @f(b64, b32x8, b32x8, predx8) -> ({types}) {{
block0(v0: b64, v1: b32x8, v2: b32x8, v3: predx8):
{body}  ret {}
}}
",
        vectors.join(", ")
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn results_and_memory_stay_the_same(
        numbers in prop::collection::vec(any::<u32>(), 1..24),
        seed in any::<u32>(),
    ) {
        let before = parsed(&accesses(&numbers));
        let mut changed = before.clone();
        let pass = PASSES.iter().find(|pass| pass.name == "forward").unwrap();
        (pass.run)(&mut changed, &Options::default());
        let problems = verify::function(&changed);
        prop_assert!(problems.is_empty(), "{problems:?}\n{before}\n{changed}");
        prop_assert_eq!(outcome(&changed, seed), outcome(&before, seed), "{}\n{}", before, changed);
    }
}
