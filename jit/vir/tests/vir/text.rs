//! The text form: printed functions are parsed to the same functions, and errors have positions.

use crate::support::parsed;
use margay_vir::parse;
use proptest::prelude::*;

const TEXT: &str = "func @\"a b\"(b64, f32, predx16) -> (b32, predx16) {
  private 0
  helper0 = @sine (f32) -> (f32)
  helper1 = @count (b64) -> (b32) nomemory
  slot0 = 64 align 64
block0(v0: b64, v1: f32, v2: predx16):
  v3: f32x16 = load.f32x16{f32 -4 -8} v0, v2  ; 7
  v4: f32x16 = map.f32x16{fma.f32{rn ftz}} v1, v3, v3
  v5: f32x16 = call.lanes.predx16{0} v2, v4
  v6: predx16, v7: predx16 = map.predx16{setp.f32{cmp:ltu}} v5, v3
  store.f32x16{f32 4 +64} v0, v5, v6
  v8: b64 = slot.addr.b64{0}
  v9: b32 = const.b32{0xff}
  v10: pred = any.predx16 v7
  brif v10, block1(v9, v6), block2
block1(v11: b32, v12: predx16):
  ret v11, v12
block2:
  trap{3}  ; 8
}
";

#[test]
fn printed_functions_are_parsed_to_the_same_text() {
    assert_eq!(parsed(TEXT).to_string(), TEXT);
}

#[test]
fn comments_and_spaces_are_skipped() {
    let text = TEXT.replace("  trap{3}", "  // a comment\n\n  trap {3}   ");
    assert_eq!(parsed(&text).to_string(), TEXT);
}

#[test]
fn errors_state_position_and_cause() {
    let examples = [
        (
            "v10: pred = any",
            "v10: pred = some",
            "14:15: an operation with its type is expected, `some.predx16` is found",
        ),
        (
            "block1(v9, v6)",
            "block7(v9, v6)",
            "15:13: block7 is never defined",
        ),
        ("brif v10", "brif v99", "15:8: v99 is never defined"),
        (
            "v9: b32 = const",
            "v8: b32 = const",
            "13:3: v8 is defined already",
        ),
        ("block2:", "block1:", "18:1: block1 is defined already"),
        (
            "{0xff}",
            "{255}",
            "13:23: a hexadecimal number of up to 64 bits is expected, `255` is found",
        ),
        (
            "{f32 -4 ",
            "{f33 -4 ",
            "7:28: a type in memory is expected, `f33` is found",
        ),
        (
            "{f32 4 +64}",
            "{f32 99999999999999999999 +64}",
            "11:20: a number in range is expected, `99999999999999999999` is found",
        ),
        (
            "{f32 4 +64}",
            "{f32 4 +2147483648}",
            "11:22: a number in range is expected, `+` is found",
        ),
        (
            "fma.f32{rn ftz}",
            "fma.f32{rn fzt}",
            "8:35: `fzt` is not a modifier",
        ),
        (
            "b32, v12: predx16",
            "b32x3, v12: predx16",
            "16:13: a type such as f32x16 is expected, `b32x3` is found",
        ),
        (
            "v3: f32x16 =",
            "v99999999: f32x16 =",
            "7:3: the numbers of values and blocks have too many gaps",
        ),
        (
            "3}  ; 8\n}",
            "3}\n} x",
            "20:3: the end of the text is expected, `x` is found",
        ),
    ];
    for (from, to, expected) in examples {
        let text = TEXT.replacen(from, to, 1);
        let error = parse::function(&text).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_or_the_verifier_panic(at in 0..TEXT.len(), cut in 0..40usize, with in "[a-z0-9{}(),:=.; \n@-]{0,12}") {
        let mut text = TEXT.to_owned();
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &with);
        if let Ok(function) = parse::function(&text) {
            margay_vir::verify::function(&function);
            let printed = function.to_string();
            prop_assert_eq!(parse::function(&printed).unwrap().to_string(), printed);
        }
    }
}
