//! Tests which values are speculatively affine: affine unless a check at run time fails.

use margay_ir::analysis::speculative::Check;
use margay_ir::analysis::uniformity::{Assumptions, Class};
use margay_ir::analysis::{Cfg, SpeculativeAffine, Uniformity};
use margay_ir::entity::Value;
use margay_ir::function::Function;
use margay_ir::parse;

fn speculative(body: &str) -> (Function, Uniformity, SpeculativeAffine) {
    let function = parse::function(&format!("kernel @k {{\n  parameters 16\n{body}\n}}")).unwrap();
    // `%ntid.x` is unknown, so the index of a thread in the grid may wrap before it is widened.
    let rows = Assumptions {
        width: 16,
        whole_rows: true,
        ntid_x_zeros: 0,
        loads_agree: false,
        chunks_together: false,
    };
    let uniformity = Uniformity::new(&function, rows);
    let speculative = SpeculativeAffine::new(&function, &uniformity, &Cfg::new(&function));
    (function, uniformity, speculative)
}

fn check_of(function: &Function, speculative: &SpeculativeAffine, value: Value) -> Option<Check> {
    speculative.check(function.dfg.def_inst(value).unwrap())
}

const INDEX: &str = "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = sreg.u32 %ctaid.x
  v2: b32 = sreg.u32 %ntid.x
  v3: b32 = mad.s32{half:lo} v1, v2, v0
  v4: b64 = param.addr.u64 0
  v5: b64 = ld.u64{space:param} v4
";

#[test]
fn a_widened_index_is_affine_if_it_does_not_wrap() {
    let (function, uniformity, speculative) = speculative(&format!(
        "{INDEX}  v6: b32 = const.b32 0x4
  v7: b64 = mul.s32{{half:wide}} v3, v6
  v8: b64 = add.u64 v5, v7
  v9: b64 = cvt.u64.u32 v3
  exit"
    ));
    assert_eq!(uniformity.class(Value(7)), Class::Varying);
    assert_eq!(speculative.stride(Value(7)), Some(4));
    assert_eq!(speculative.stride(Value(8)), Some(4));
    let signed = Check::NoWrap {
        value: Value(3),
        stride: 1,
        signed: true,
    };
    assert_eq!(check_of(&function, &speculative, Value(7)), Some(signed));
    // A sum needs no check.
    assert_eq!(check_of(&function, &speculative, Value(8)), None);
    let unsigned = Check::NoWrap {
        value: Value(3),
        stride: 1,
        signed: false,
    };
    assert_eq!(check_of(&function, &speculative, Value(9)), Some(unsigned));
}

#[test]
fn a_clamped_index_is_affine_between_its_bounds() {
    let (function, _, speculative) = speculative(&format!(
        "{INDEX}  v6: b32 = const.b32 0x0
  v7: b32 = max.s32 v3, v6
  v8: b32 = mul.s32{{half:lo}} v7, v7
  exit"
    ));
    assert_eq!(speculative.stride(Value(7)), Some(1));
    let check = Check::Chosen {
        value: Value(3),
        stride: 1,
        signed: true,
        bound: Value(6),
        is_min: false,
    };
    assert_eq!(check_of(&function, &speculative, Value(7)), Some(check));
    // A square is not affine.
    assert_eq!(speculative.stride(Value(8)), None);
}

#[test]
fn pointers_keep_their_stride_in_loops() {
    let (_, _, speculative) = speculative(&format!(
        "{INDEX}  v6: b64 = cvt.s64.s32 v3
  v7: b64 = const.b64 0x40
  v8: pred = const.pred 0x1
  jump block1(v6, v6)
block1(v9: b64, v10: b64):
  v11: b64 = add.u64 v9, v7
  v12: b64 = add.u64 v10, v6
  brif v8, block1(v11, v12), block2
block2:
  exit"
    ));
    assert_eq!(speculative.stride(Value(9)), Some(1));
    assert_eq!(speculative.stride(Value(11)), Some(1));
    // The stride of this value grows with each iteration.
    assert_eq!(speculative.stride(Value(10)), None);
    assert_eq!(speculative.stride(Value(12)), None);
}

#[test]
fn what_is_loaded_is_not_speculative() {
    let (_, _, speculative) = speculative(&format!(
        "{INDEX}  v6: b64 = cvt.s64.s32 v3
  v7: b64 = add.u64 v5, v6
  v8: b32 = ld.u32{{space:global}} v7
  v9: b64 = cvt.s64.s32 v8
  exit"
    ));
    assert_eq!(speculative.stride(Value(7)), Some(1));
    assert_eq!(speculative.stride(Value(9)), None);
}

#[test]
fn one_of_several_results_is_not_speculative_nor_is_what_takes_it_round_a_loop() {
    let (_, uniformity, speculative) = speculative(
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: b32 = const.b32 0xffffffff
  jump block1(v1)
block1(v3: b32):
  v4: b32, v5: pred = shfl.b32{mode:down} v0, v1, v1, v2
  v6: b32 = add.u32 v4, v1
  brif v5, block1(v6), block2
block2:
  nanosleep.u32 v3
  exit",
    );
    assert_eq!(uniformity.class(Value(3)), Class::Varying);
    for value in [3, 4, 6] {
        assert_eq!(speculative.stride(Value(value)), None, "v{value}");
    }
}

#[test]
fn what_is_chosen_by_a_float_that_goes_round_a_loop_is_not_speculative() {
    let (_, _, speculative) = speculative(
        "block0:
  v0: b32 = sreg.u32 %tid.x
  v1: b32 = const.b32 0x0
  v2: f32 = cvt.f32.u32{rn} v0
  jump block1(v1, v2)
block1(v3: b32, v4: f32):
  v5: b32 = slct.u32.f32 v0, v1, v4
  v6: f32 = add.f32{rn} v4, v2
  v7: pred = setp.u32{cmp:lt} v5, v0
  brif v7, block1(v5, v6), block2
block2:
  nanosleep.u32 v3
  exit",
    );
    for value in [3, 4, 5] {
        assert_eq!(speculative.stride(Value(value)), None, "v{value}");
    }
}
