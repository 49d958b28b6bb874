//! Tests which values the analysis [`Multiples`] proves to be multiples of powers of two, if pointer parameters are
//! aligned.

use margay_ir::analysis::{Multiples, Pointers};
use margay_ir::entity::Value;
use margay_ir::parse;

/// Returns the assumed alignments of the parameters `v0` and `v1`, which are pointers, and for each value of `asked`
/// the largest power of two of at most 32 of which it is a multiple. `v3` is an integer that is not known.
fn multiples(body: &str, asked: &[u32]) -> ([u32; 2], Vec<u32>) {
    let text = format!(
        "kernel @k {{\n  parameters 20
  parameter @a offset 0 size 8 align 8
  parameter @b offset 8 size 8 align 8
  parameter @m offset 16 size 4 align 4
block0:
  v900: b64 = param.addr.u64 0
  v0: b64 = ld.b64{{space:param}} v900
  v901: b64 = param.addr.u64 8
  v1: b64 = ld.b64{{space:param}} v901
  v903: b64 = param.addr.u64 16
  v3: b32 = ld.b32{{space:param}} v903
{body}\n}}"
    );
    let function = parse::function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let found = Multiples::new(&function, &Pointers::new(&function));
    let most = |&value: &u32| {
        let all = [32, 16, 8, 4, 2, 1].into_iter();
        all.filter(|&bytes| found.is_multiple(Value(value), bytes))
            .max()
            .expect("each value is a multiple of 1")
    };
    let params = [found.of_param(0), found.of_param(8)];
    (params, asked.iter().map(most).collect())
}

#[test]
fn the_largest_scalar_access_decides_about_a_parameter() {
    let body = |first: &str, second: &str| {
        let body = format!(
            "  v5: b64 = const.b64 0x10
  v6: b64 = add.u64 v0, v5
{first}
{second}
  v9: b64 = cvt.u64.u32 v3
  v10: b64 = add.u64 v1, v9
  exit"
        );
        multiples(&body, &[0, 6, 1, 10])
    };
    let byte = "  v7: b32 = ld.u8{space:global} v6";
    let word = "  v7: b32 = ld.b32{space:global} v6";
    let pair = "  v8: b64 = ld.b64{space:global} v1";
    let vector = "  v11: b32, v12: b32 = ld.b32{space:global vec:2} v6";
    assert_eq!(body(word, pair), ([4, 8], vec![4, 4, 8, 1]));
    assert_eq!(body(byte, ""), ([1, 1], vec![1, 1, 1, 1]));
    assert_eq!(body(vector, pair), ([1, 8], vec![1, 1, 8, 1]));
}

/// Returns the result of [`multiples`] for a pointer that a loop advances by `step`, which the pointer and the first and
/// the second step follow.
fn advanced(step: &str, stride: &str) -> Vec<u32> {
    let body = format!(
        "  v5: b64 = const.b64 {step}
  v6: b32 = const.b32 0x4
  v7: b64 = mul.s32{{half:wide}} v3, v6
  v8: b64 = add.s64 v0, v7
  jump block1(v8, v3)
block1(v10: b64, v11: b32):
  v12: b32 = ld.b32{{space:global}} v10
  v13: b64 = add.s64 v10, {stride}
  v14: b32 = add.s32 v11, v12
  v15: pred = setp.s32{{cmp:ne}} v14, v3
  brif v15, block1(v13, v14), block2
block2:
  exit"
    );
    multiples(&body, &[8, 10, 13, 14]).1
}

#[test]
fn pointers_that_loops_advance_stay_aligned() {
    assert_eq!(advanced("0x4", "v5"), [4, 4, 4, 1]);
    assert_eq!(advanced("0x6", "v5"), [4, 2, 2, 1]);
    assert_eq!(advanced("0x1", "v5"), [4, 1, 1, 1]);
    assert_eq!(advanced("0x4", "v7"), [4, 4, 4, 1]);
    // The pointer can leave device memory, so its parameter is not one of [`Pointers::params`].
    assert_eq!(advanced("0x4", "v1"), [1, 1, 1, 1]);
}

#[test]
fn loaded_addresses_are_not_aligned() {
    let body = "  v5: b64 = ld.b64{space:global} v0
  v6: b32 = ld.b32{space:global} v5
  v7: b32 = const.b32 0x8
  v8: b64 = mul.s32{half:wide} v6, v7
  v9: b64 = add.s64 v1, v8
  v10: b64 = ld.b64{space:global} v9
  exit";
    assert_eq!(multiples(body, &[0, 5, 8, 9]), ([8, 8], vec![8, 1, 8, 8]));
}
